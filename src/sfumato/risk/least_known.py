"""By how few variables people can be singled out: the fewest, and every combination of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from sfumato.cells.classes import CellCodes
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.kernels.arrays import Codes, Mask
from sfumato.progress import current_progress
from sfumato.units import Units

_MOST_CELLS = 200_000_000
"""Rows times pairs of variables that are looked at."""
_REPORTED = 16
"""Combinations after which it is said how far it is: each takes less than a millisecond."""


@dataclass(frozen=True)
class LeastKnown:
    """Who stands alone in some variables.

    Parameters
    ----------
    people : how many there are.
    alone : how many stand alone in all that is known.
    variables : few variables in which as many do; none of them can be left out.
    alone_so_far : how many stand alone in the first, the first two, … of them.
    by_two : how many stand alone in some two variables.
    """

    people: int
    alone: int
    variables: tuple[str, ...]
    alone_so_far: tuple[int, ...]
    by_two: int


def find_least_known(data: Dataset, known: Sequence[str], engine: Engine) -> LeastKnown | None:
    """Few variables that single out as many people as all that is known; None for too many.

    From the pair that singles out most, variables are added that single out most with them, and
    those left out again that turn out not to be needed: few variables, not always the fewest.

    Examples
    --------
    >>> import polars as pl
    >>> from sfumato.engines import LocalEngine
    >>> frame = pl.DataFrame({"sex": [0, 0, 1, 1], "age": [30, 31, 30, 31], "left": [0, 1, 0, 1]})
    >>> found = find_least_known(Dataset(frame), ["sex", "age", "left"], LocalEngine())
    >>> found.alone, found.variables, found.by_two
    (4, ('sex', 'age'), 4)
    """
    rows = engine.tabulate(data, known)
    units, size = rows.units, len(rows.units)
    pairs = list(combinations(range(len(known)), 2))
    if size * len(pairs) > _MOST_CELLS:
        return None
    search = _KnownSearch(CellCodes.of(rows.data, known, size), units)
    everything = range(len(known))
    alone = search.count(everything)
    in_pair = np.zeros(size, bool)
    best: tuple[int, tuple[int, ...]] = max(
        ((search.count([single]), (single,)) for single in everything),
        key=lambda pair: pair[0],
    )
    for pair in pairs:
        standing = search.find_alone(pair)
        in_pair |= standing
        if (count := units.count_among(standing)) > best[0]:
            best = count, pair
    chosen = search.reduce(search.extend(list(best[1]), everything, alone), alone)
    return LeastKnown(
        people=units.count,
        alone=alone,
        variables=tuple(known[variable] for variable in chosen),
        alone_so_far=tuple(search.count(chosen[:number]) for number in range(1, len(chosen) + 1)),
        by_two=units.count_among(in_pair) if pairs else alone,
    )


def find_keys(
    data: Dataset, known: Sequence[str], *, most: int
) -> tuple[list[tuple[str, ...]], Codes]:
    """The fewest variables, `most` of them, in which the person of each record stands alone.

    Combinations of variables, and which of them belongs to each record: the first, which is empty,
    where the person shares every one with somebody.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"sex": ["f", "f", "m", "m"], "age": [30, 31, 30, 44]})
    >>> keys, key_of = find_keys(Dataset(frame), ["sex", "age"], most=2)
    >>> [keys[number] for number in key_of[1:3]]
    [('age',), ('sex', 'age')]
    """
    size, names = len(data), list(known)
    search = _KnownSearch(CellCodes.of(data, names, size), data.units)
    keys: list[tuple[str, ...]] = [()]
    key_of = np.zeros(size, np.int32)
    for number in range(1, min(most, len(names)) + 1):
        for combination in combinations(range(len(names)), number):
            key_of[search.find_alone(combination) & (key_of == 0)] = len(keys)
            keys.append(tuple(names[variable] for variable in combination))
    return keys, key_of


@dataclass(frozen=True)
class CombinationRisk:
    """Who stands out to somebody who knows some variables.

    Parameters
    ----------
    variables : what is known.
    alone : people who share their values with nobody.
    smallest : how many people the smallest class has.
    below : people in classes of fewer than k.
    """

    variables: tuple[str, ...]
    alone: int
    smallest: int
    below: int


def list_combination_risks(
    rows: KnownRows, combinations: Sequence[Sequence[int]], *, k: int
) -> list[CombinationRisk]:
    """For each combination of variables, by their positions, who stands out in it.

    Examples
    --------
    >>> import polars as pl
    >>> from sfumato.engines import LocalEngine
    >>> frame = pl.DataFrame({"sex": ["f", "f", "m", "m"], "age": [30, 31, 30, 44]})
    >>> rows = KnownRows.of(Dataset(frame), ["sex", "age"], LocalEngine())
    >>> [(risk.alone, risk.below) for risk in list_combination_risks(rows, [[0], [0, 1]], k=3)]
    [(0, 4), (4, 4)]
    """
    report, risks = current_progress(), []
    for index, combination in enumerate(combinations):
        if index % _REPORTED == 0:
            report("looking at combinations", index, len(combinations))
        classes = rows.codes.classify(combination, rows.units)
        risks.append(
            CombinationRisk(
                tuple(rows.names[variable] for variable in combination),
                classes.count_in(classes.sizes == 1),
                int(classes.sizes.min()),
                classes.count_in(classes.sizes < k),
            )
        )
    return risks


@dataclass(frozen=True, eq=False)
class KnownRows:
    """Distinct rows of what is known, and whom each is about.

    Parameters
    ----------
    names : the variables.
    codes : their cells.
    units : whom each row is about.
    """

    names: tuple[str, ...]
    codes: CellCodes
    units: Units

    @classmethod
    def of(cls, data: Dataset, known: Sequence[str], engine: Engine) -> KnownRows:
        """The rows of a data set, wherever it is."""
        rows = engine.tabulate(data, known)
        cells = CellCodes.of(rows.data, known, len(rows.units))
        return cls(tuple(known), cells, rows.units).join_equal()

    def join_equal(self) -> KnownRows:
        """The same with equal rows as one; nothing is joined where a person has several."""
        if not self.units.one_row_each or not self.names:
            return self
        classes = self.codes.classify(range(len(self.names)), self.units)
        if len(classes) == len(classes.of):
            return self  # no two are equal
        cells = np.ascontiguousarray(self.codes.cells[:, classes.first])
        units = Units.standing_for(len(classes), classes.sizes)
        return KnownRows(self.names, CellCodes(cells, self.codes.widths), units)


@dataclass(frozen=True, eq=False)
class _KnownSearch:
    """Rows, and whom each is about."""

    codes: CellCodes
    units: Units

    def find_alone(self, variables: Sequence[int]) -> Mask:
        """Which rows share their cells with nobody else."""
        classes = self.codes.classify(variables, self.units)
        alone: Mask = classes.sizes[classes.of] == 1
        return alone

    def count(self, variables: Sequence[int]) -> int:
        """How many people share their cells with nobody else."""
        return self.units.count_among(self.find_alone(variables))

    def extend(self, chosen: list[int], offered: Sequence[int], enough: int) -> list[int]:
        """Add the variable that singles out most until enough people are."""
        while self.count(chosen) < enough:
            others = [variable for variable in offered if variable not in chosen]
            counts = [self.count([*chosen, variable]) for variable in others]
            chosen = [*chosen, others[int(np.argmax(counts))]]
        return chosen

    def reduce(self, chosen: list[int], enough: int) -> list[int]:
        """Leave out what is not needed, the last that was added first."""
        for variable in reversed(chosen):
            without = [other for other in chosen if other != variable]
            if without and self.count(without) == enough:
                chosen = without
        return chosen
