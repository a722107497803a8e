"""Whom each row is about: itself, the records that it stands for, or a person with several rows.

Every count of a risk is a count of units. Where each unit has one row, nothing is looked up and no
array is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.kernels.arrays import AnyIntegers, Array, Floats, Integers, Mask, Positions
from sfumato.kernels.memory import PART, split_rows

COUNTS_PERSONS = (
    "A person may have several rows. Class sizes and shares count persons, each of them once, and "
    "by the row that gives away the most."
)


@dataclass(frozen=True, eq=False)
class Units:
    """Whom each row is about.

    Parameters
    ----------
    size : how many rows there are, or what counts them: on a cluster that is a job.
    given : the number of each row's person, from 0; None where nobody says whose a row is.
    counts : how many records each row stands for; None: one each.
    one_row_each : whether nobody has several rows. Some rows of persons who have several are still
        rows of such persons.

    Examples
    --------
    >>> visits = Units.of(np.array([0, 0, 1]))
    >>> visits.count, visits.count_groups(np.array([0, 0, 0])).tolist(), visits.one_row_each
    (2, [2], False)
    >>> Units(3).count, Units.standing_for(2, np.array([5, 1])).count
    (3, 6)
    """

    size: int | Callable[[], int]
    given: AnyIntegers | None = field(default=None, repr=False)
    counts: Integers | None = field(default=None, repr=False)
    one_row_each: bool = True

    @classmethod
    def of(cls, numbers: AnyIntegers) -> Units:
        """Persons, by the number of each row's."""
        return cls(len(numbers), numbers, None, _count_distinct(numbers) == len(numbers))

    @classmethod
    def standing_for(cls, rows: int, counts: Integers | None) -> Units:
        """Rows that each stand for so many records; None: for one."""
        return cls(rows, counts=counts)

    def __len__(self) -> int:
        return self.rows

    @cached_property
    def rows(self) -> int:
        """How many rows there are."""
        return self.size if isinstance(self.size, int) else self.size()

    @property
    def declared(self) -> bool:
        """Whether somebody says whose each row is, even if nobody has several."""
        return self.given is not None

    @cached_property
    def numbers(self) -> AnyIntegers:
        """The number of each row's unit."""
        return np.arange(self.rows) if self.given is None else self.given

    @cached_property
    def count(self) -> int:
        """How many units there are."""
        if not self.one_row_each:
            return _count_distinct(self.numbers)
        return self.count_records()

    def count_records(self) -> int:
        """How many records there are, whoever's they are."""
        return self.rows if self.counts is None else int(self.counts.sum())

    def take(self, rows: Positions | Mask | slice) -> Units:
        """Those of some rows."""
        given = None if self.given is None else self.given[rows]
        counts = None if self.counts is None else self.counts[rows]
        return Units(_count_chosen(rows, self.rows), given, counts, self.one_row_each)

    def count_among(self, rows: Mask) -> int:
        """How many units have one of some rows.

        Examples
        --------
        >>> Units.of(np.array([0, 0, 1])).count_among(np.array([True, True, False]))
        1
        """
        if not self.one_row_each:
            return _count_distinct(self.numbers[rows])
        return int(rows.sum()) if self.counts is None else int(self.counts[rows].sum())

    def share(self, rows: Mask) -> float:
        """The share of the units that have one of some rows."""
        return self.count_among(rows) / self.count if self.rows else 0.0

    def count_groups(self, groups: AnyIntegers, width: int = 0) -> Integers:
        """How many units have a row in each group, from 0 to below `width`; -1 is no group."""
        if self.one_row_each:
            return count_codes(groups, self.counts, width)
        present = groups >= 0
        if not present.all():
            return self.take(present).count_groups(groups[present], width)
        return count_codes(groups[self.find_once(groups)], None, width)

    def find_once(self, groups: AnyIntegers) -> Positions:
        """The rows that are left when a unit counts once in each group."""
        from sfumato.kernels.trees.equivalence_classes import mark_first_rows

        return np.flatnonzero(mark_first_rows(groups, self.numbers))

    def average_chance(
        self, among: Integers | Floats, groups: AnyIntegers, sizes: Integers | None = None
    ) -> float:
        """The mean chance that a guess among so many is right; a person's is by their worst row.

        The mean is exact, whatever the order of the rows.

        Parameters
        ----------
        among : a number for each group.
        groups : the group of each row.
        sizes : how many units each group has, where that is known.
        """
        if self.one_row_each:
            sizes = self.count_groups(groups, len(among)) if sizes is None else sizes
            return math.fsum(sizes / among) / self.count
        worst = np.zeros(int(self.numbers.max()) + 1)
        chance = 1 / among
        for part in split_rows(self.rows):
            np.maximum.at(worst, self.numbers[part], chance[groups[part]])
        return math.fsum(worst) / self.count

    @cached_property
    def order(self) -> tuple[Positions, Positions]:
        """The rows, unit after unit, and where each begins."""
        order = np.argsort(self.numbers, kind="stable")
        return order, np.flatnonzero(np.diff(self.numbers[order], prepend=-1))

    def reduce(self, function: np.ufunc, values: Array) -> Any:
        """One value for each unit, of those of its rows: the largest with `np.fmax`, for instance.

        Units are in the order of their numbers; rows that are about one each stay where they are.

        Examples
        --------
        >>> units = Units.of(np.array([0, 0, 1]))
        >>> units.reduce(np.fmax, np.array([0.5, 1.0, np.nan])).tolist()
        [1.0, nan]
        """
        if self.one_row_each:
            return values
        order, starts = self.order
        return function.reduceat(values[order], starts, axis=0)

    def average(self, values: Floats) -> Floats:
        """The mean of each unit over the rows of which it is known."""
        if self.one_row_each:
            return values
        # Sums do not depend on the order of the rows.
        order, (_, starts) = np.lexsort((values, self.numbers)), self.order
        known = ~np.isnan(values[order])
        sums = np.add.reduceat(np.where(known, values[order], 0.0), starts)
        with np.errstate(invalid="ignore"):
            return sums / np.add.reduceat(known, starts, dtype=np.int64)

    def choose_rows(self, *keys: Array) -> Positions:
        """One row of each unit: the one that is least by the first key, then by the next."""
        if self.one_row_each:
            return np.arange(self.rows)
        return np.lexsort((*reversed(keys), self.numbers))[self.order[1]]

    def find_rows(self, row: int) -> Positions | list[int]:
        """All rows of the unit that a row belongs to."""
        if self.one_row_each:
            return [row]
        return np.flatnonzero(self.numbers == self.numbers[row])

    def find_only(self, rows: Positions) -> int:
        """A row of the one unit that some rows are of; -1 where they are nobody's or several's.

        Examples
        --------
        >>> units = Units.of(np.array([0, 0, 1]))
        >>> units.find_only(np.array([0, 1])), units.find_only(np.array([1, 2]))
        (0, -1)
        """
        if not len(rows):
            return -1
        if self.one_row_each:
            return int(rows[0]) if len(rows) == 1 else -1
        return int(rows[0]) if (self.numbers[rows] == self.numbers[rows[0]]).all() else -1

    @property
    def most_rows(self) -> int:
        """How many rows a unit has at most."""
        return 1 if self.one_row_each else int(np.bincount(self.numbers).max())

    def describe(self, *words: str) -> tuple[str, ...]:
        """What to say where persons have several rows; nothing elsewhere."""
        return () if self.one_row_each else words or (COUNTS_PERSONS,)

    def details(self) -> dict[str, Any]:
        """How many persons there are, where they have several rows."""
        return {} if self.one_row_each else {"persons": self.count}


def _count_chosen(rows: Positions | Mask | slice, among: int) -> int:
    """How many rows are chosen."""
    if isinstance(rows, slice):
        return len(range(*rows.indices(among)))
    return int(rows.sum()) if rows.dtype == bool else len(rows)


def _count_distinct(numbers: AnyIntegers) -> int:
    """How many different numbers there are, from 0."""
    present = np.zeros(int(numbers.max(initial=-1)) + 1, bool)
    for part in split_rows(len(numbers)):
        present[numbers[part]] = True
    return int(present.sum())


def count_codes(codes: AnyIntegers, counts: Integers | None, width: int = 0) -> Integers:
    """How many records have each code from 0 on, if each row stands for so many; -1 is left out."""
    if (codes < 0).any():
        present = codes >= 0
        codes, counts = codes[present], None if counts is None else counts[present]
    width = max(width, int(codes.max(initial=-1)) + 1)
    total = np.zeros(width, np.int64)
    # Part by part, since numpy copies all codes to 64 bits first. Sums of whole numbers in floats
    # are exact below 2**53.
    for part in split_rows(len(codes), max(PART, width)):
        total += np.bincount(codes[part], None if counts is None else counts[part], width).astype(
            np.int64, copy=False
        )
    return total
