"""Whose the records behind an output are: the persons or groups that every minimum counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from sfumato.cells.codes import encode
from sfumato.data import Dataset
from sfumato.io import frames
from sfumato.kernels.arrays import AnyIntegers, Floats, Integers, Mask
from sfumato.outputs.output import OutputRefused
from sfumato.units import Units

if TYPE_CHECKING:
    from sfumato.outputs.rules import Rules, Unit
    from sfumato.schema import Role

_ROLES: dict[Unit, tuple[Role, ...]] = {
    "records": (),
    "persons": ("person",),
    "groups": ("person", "cluster"),
}


@dataclass(frozen=True, eq=False)
class Contributors:
    """The person, or the group, of each record.

    A record may belong to several: to a person, and to a household. Then each kind is counted by
    itself, and the fewest count. Without any kind, every record is one of its own.

    Parameters
    ----------
    numbers : for each kind, the number of each record's unit.
    word : what they are, "persons" or "groups"; "records" where every record is one.
    rules : which shares of a count one or a few of them may have.

    Examples
    --------
    >>> units = Contributors((np.array([0, 0, 1, 2]),), "persons")
    >>> units.count(4), units.count_in(np.array([0, 0, 0, 1]), 2).tolist()
    (3, [2, 1])
    """

    numbers: tuple[Integers, ...] = ()
    word: Unit = "records"
    rules: Rules | None = None

    def __bool__(self) -> bool:
        return bool(self.numbers)

    def take(self, rows: AnyIntegers | slice) -> Contributors:
        """Those of some records."""
        return replace(self, numbers=tuple(number[rows] for number in self.numbers))

    @cached_property
    def _kinds(self) -> tuple[Units, ...]:
        return tuple(map(Units.of, self.numbers))

    def count(self, records: int) -> int:
        """How many there are behind so many records, which are all of them."""
        return min([records, *(kind.count for kind in self._kinds)])

    def count_in(self, cells: AnyIntegers, size: int) -> Integers:
        """How many there are in each of so many cells; a cell below 0 is none.

        Parameters
        ----------
        cells : the cell of each record.
        size : how many cells there are.
        """
        kinds = self._kinds or (Units(len(cells)),)
        fewest: Integers = np.minimum.reduce([kind.count_groups(cells, size) for kind in kinds])
        return fewest

    def find_small(self, cells: AnyIntegers, size: int, k: int) -> Mask:
        """Cells that hold records of fewer than k units, or mostly records of one or a few.

        How many records a unit has is its contribution to the count of the cell, so that the rules
        for sums hold for the count. Where every record is a unit of its own, it says nothing.
        """
        counts = self.count_in(cells, size)
        small: Mask = (counts > 0) & (counts < k)
        is_counted = cells >= 0
        if self.rules is None:
            return small
        for number in self.numbers:
            most, ones = self.rules.most_contributors, np.ones(is_counted.sum())
            largest, total = list_largest(cells[is_counted], number[is_counted], ones, size, most)
            small |= find_dominated_sums(largest, total, self.rules)
        return small

    def find_depth(self, k: int) -> int | None:
        """How many of the first records make up k units of each kind; None where none do."""
        depth = k
        for number in self.numbers:
            firsts = np.sort(np.unique(number, return_index=True)[1])
            if len(firsts) < k:
                return None
            depth = max(depth, int(firsts[k - 1]) + 1)
        return depth

    def average(self, values: Floats) -> float:
        """The mean over the units of the mean of each, so that each of them counts alike."""
        if not self:
            return math.fsum(values) / len(values)
        fewest = min(self._kinds, key=lambda kind: kind.count)
        return math.fsum(fewest.average(values)) / fewest.count

    def sort(self, values: Floats) -> AnyIntegers:
        """The records in the order of their values, and of equal ones by their units."""
        return np.lexsort((*self.numbers, values))


ALONE = Contributors()
"""Every record is a unit of its own."""


def join_contributors(parts: Sequence[Contributors]) -> Contributors:
    """Those of several sets of records, one after the other."""
    first = parts[0]
    if len(parts) == 1 or not first:
        return first
    kinds = range(len(first.numbers))
    joined = tuple(np.concatenate([part.numbers[kind] for part in parts]) for kind in kinds)
    return replace(first, numbers=joined)


def find_contributors(data: Dataset, rules: Rules) -> Contributors:
    """What the rules count in these records; records where each unit has one, or none is known.

    Where groups are counted, persons are too: somebody may have records in several groups.
    """
    unit = rules.unit
    roles = _ROLES[unit]
    if not frames.is_in_memory(data.frame):
        if data.schema.having(*roles):
            raise OutputRefused(
                f"The rules count {unit}, which is done in memory only.",
                hint='read the data whole, or let the rules count records: unit = "records".',
            )
        return ALONE
    columns = [pl.Series(data.units.numbers)] if roles and not data.units.one_row_each else []
    if unit == "groups":
        columns += [data.column(name) for name in data.schema.having("cluster")]
    numbers = [_number(column) for column in columns]
    repeated = tuple(number for number in numbers if not Units.of(number).one_row_each)
    return Contributors(repeated, unit, rules) if repeated else ALONE


def _number(column: pl.Series) -> Integers:
    # By their order, so that nothing depends on the order of the records.
    numbers = encode(column).missing_first.astype(np.int64)
    missing = column.is_null().to_numpy()
    # Nobody says that these belong together.
    numbers[missing] = numbers.max(initial=0) + 1 + np.arange(missing.sum())
    return numbers


def list_largest(
    cells: AnyIntegers, units: Integers, terms: Floats, size: int, most: int
) -> tuple[Floats, Floats]:
    """The largest contributions of units to each cell, falling, and the sum of all of them.

    Parameters
    ----------
    cells : the cell of each record.
    units : the unit of each record.
    terms : what each record contributes, none of it negative.
    size : how many cells there are.
    most : how many contributions are wanted.

    Examples
    --------
    >>> largest, total = list_largest(
    ...     np.array([0, 0, 0]), np.array([7, 7, 8]), np.array([1.0, 2.0, 1.5]), 1, 2
    ... )
    >>> largest.tolist(), total.tolist()
    ([[3.0, 1.5]], [4.5])
    """
    largest, total = np.zeros((size, most)), np.zeros(size)
    if not len(cells):
        return largest, total
    # In rising order, so that the sums do not depend on the order of the records.
    order = np.lexsort((terms, units, cells))
    cells, units = cells[order], units[order]
    new = np.append(True, (cells[1:] != cells[:-1]) | (units[1:] != units[:-1]))
    of, sums = cells[new], np.add.reduceat(terms[order], np.flatnonzero(new))
    order = np.lexsort((-sums, of))
    of, sums = of[order], sums[order]
    starts = np.flatnonzero(np.append(True, of[1:] != of[:-1]))
    total[of[starts]] = np.add.reduceat(sums, starts)
    rank = np.arange(len(of)) - np.repeat(starts, np.diff(np.append(starts, len(of))))
    first = rank < most
    largest[of[first], rank[first]] = sums[first]
    return largest, total


def find_dominated_sums(largest: Floats, total: Floats, rules: Rules) -> Mask:
    """Which sums tell what their largest contributors gave: dominance and p% rule.

    Parameters
    ----------
    largest : the largest contributions to each sum, falling.
    total : the sums of all contributions.
    rules : of the house.
    """
    dominated = np.zeros(len(total), bool)
    for number, share in rules.dominances:
        dominated |= largest[:, :number].sum(axis=1) > share * total
    if rules.p_percent is not None:
        dominated |= total - largest[:, :2].sum(axis=1) < rules.p_percent * largest[:, 0]
    return dominated & (total > 0)
