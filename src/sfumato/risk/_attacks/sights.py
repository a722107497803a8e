"""What an attacker who knows exact values sees in a release of numbers, categories and ranges.

Each variable is read on the scale of its kind. A released cell may be a value, a range, a set, a
mask, a group or `*`: then it stands for several values, and fits whoever has one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from sfumato.cells.ends import Ends
from sfumato.cells.held import Held, held, levels_of, texts_of
from sfumato.cells.renamed import with_renamed
from sfumato.data import Dataset
from sfumato.errors import DataError, MeasureError
from sfumato.kernels.arrays import Floats, Mask, Positions
from sfumato.kernels.canonical import deviation_of
from sfumato.schema import Column
from sfumato.utility._paired.variable import ends_of

_ORDERED = ("continuous", "integer", "date", "ordinal")
_IMPOSSIBLE = 1e6
"""The cost of a cell that cannot be the person's: more than any distance between people."""


@dataclass(frozen=True, eq=False)
class Ordered:
    """A variable on a scale: numbers, days, or the ranks of ordered levels.

    Parameters
    ----------
    name : the variable.
    column : how it is read.
    persons : the exact value of each person; NaN where it is not known.
    cells : what each released record shows.
    spread : the standard deviation of the persons' values.
    domain : their least and greatest value.
    truthful : whether every person fits their own released cell, so that no other can be theirs.
    source : the original values, which say what ranks there are.
    """

    name: str
    column: Column = field(repr=False)
    persons: Floats = field(repr=False)
    cells: Ends = field(repr=False)
    spread: float
    domain: tuple[float, float]
    truthful: bool
    source: pl.Series = field(repr=False)

    def known(self) -> Mask:
        """Which released records say something."""
        return ~np.asarray(self.cells.each(self.cells.open), bool)

    def low(self) -> Floats:
        """The lower end of each released record."""
        return np.asarray(self.cells.each(self.cells.low))

    def high(self) -> Floats:
        """The upper end of each released record."""
        return np.asarray(self.cells.each(self.cells.high))

    def content(self) -> list[Floats]:
        """Numbers that tell released records apart, whatever their order."""
        more = np.zeros(len(self.cells.low))
        for at, members in self.cells.sets.items():
            more[at] = float(members.mean())
        return [self.low(), self.high(), np.asarray(self.cells.each(more))]

    def guess(self) -> Floats:
        """What each released record says of a person: the middle of its cell."""
        return self.cells.middles()

    def right(self, guess: Floats, truth: Floats, tolerance: float) -> Mask:
        """Which guesses lie within so many standard deviations of the truth."""
        return np.abs(guess - truth) <= tolerance * self.spread

    def read(self, others: Dataset) -> Floats:
        """The same variable of other persons."""
        return ends_of(others.column(self.name), self.column, self.source).middles()

    def fits(self, record: int, among: Positions, persons: Floats) -> Mask:
        """Which of some persons have a value that the cell of one released record includes."""
        cell = record if self.cells.of is None else int(self.cells.of[record])
        values = persons[among]
        inside: Mask = (values >= self.cells.low[cell]) & (values <= self.cells.high[cell])
        if cell in self.cells.sets:
            inside &= np.isin(values, self.cells.sets[cell])
        return inside

    def costs(self, persons: Floats) -> Floats:
        """How far each person is from each released record; a row per person.

        It is the mean square of the distance, in standard deviations, to the values that a cell
        stands for. A person of whom nothing is known is equally far from all: 0.
        """
        low, high = (
            np.where(self.cells.open, end, given)
            for end, given in zip(self.domain, (self.cells.low, self.cells.high), strict=True)
        )
        middle, width = low + (high - low) / 2, high - low
        spreads = width * width / 12
        value = persons[:, None]
        found: Floats = (value - middle) ** 2 + spreads
        wrong = (value < low) | (value > high) if self.truthful else None
        for at, members in self.cells.sets.items():
            found[:, at] = sum((persons - one) ** 2 for one in members.tolist()) / len(members)
            if wrong is not None:
                wrong[:, at] = ~np.isin(persons, members)
        found /= self.spread * self.spread
        if wrong is not None:
            found += _IMPOSSIBLE * (wrong & ~self.cells.open)
        found[np.isnan(persons)] = 0.0
        return found if self.cells.of is None else found[:, self.cells.of]


@dataclass(frozen=True, eq=False)
class Levels:
    """A variable of categories without an order.

    Parameters
    ----------
    name, column, truthful, source : as for `Ordered`.
    levels : all its levels.
    persons : which of them each person has; NaN where it is not known.
    cells : what each released record shows.
    """

    name: str
    column: Column = field(repr=False)
    levels: Sequence[str] = field(repr=False)
    persons: Floats = field(repr=False)
    cells: Held = field(repr=False)
    truthful: bool
    source: pl.Series = field(repr=False)

    def known(self) -> Mask:
        """Which released records say something."""
        return np.asarray(~self.cells.open[self.cells.of], bool)

    def content(self) -> list[Floats]:
        """Numbers that tell released records apart, whatever their order."""
        texts = self.cells.texts
        rank = np.full(len(texts) + 1, -1.0)
        rank[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
        return [rank[self.cells.of]]

    def guess(self) -> Floats:
        """What each released record says of a person: its level, NaN where it may be several."""
        single = self.cells.single()
        return np.where(single < 0, np.nan, single)[self.cells.of]

    def right(self, guess: Floats, truth: Floats, tolerance: float) -> Mask:
        """Which guesses are the very level."""
        del tolerance
        same: Mask = guess == truth
        return same

    def read(self, others: Dataset) -> Floats:
        """The same variable of other persons; NaN for a level that nobody has here."""
        return _singles(held(others.column(self.name), self.levels, self.column))

    def fits(self, record: int, among: Positions, persons: Floats) -> Mask:
        """Which of some persons have a level that the cell of one released record includes."""
        cell = int(self.cells.of[record])
        inside = self.cells.levels[self.cells.starts[cell] : self.cells.starts[cell + 1]]
        return np.isin(persons[among], inside)

    def costs(self, persons: Floats) -> Floats:
        """How likely it is, for each person and released record, that their levels differ."""
        sizes = np.maximum(self.cells.counts, 1)
        found = np.full((len(persons), len(sizes)), 1.0)
        if self.truthful:
            found += _IMPOSSIBLE
        order = np.argsort(self.cells.levels, kind="stable")
        cell = np.repeat(np.arange(len(sizes)), self.cells.counts)[order]
        starts = np.searchsorted(self.cells.levels[order], np.arange(len(self.levels) + 1))
        for at, level in enumerate(persons):
            if np.isnan(level):
                found[at] = 0.0
            else:
                holding = cell[starts[int(level)] : starts[int(level) + 1]]
                found[at, holding] = 1 - 1 / sizes[holding]
        return found[:, self.cells.of]


Sight = Ordered | Levels


def sights(
    original: Dataset, released: Dataset, names: Sequence[str], *, owner: str
) -> tuple[list[Sight], tuple[str, ...]]:
    """The variables that can be compared, and what could not be, in words."""
    if len(original) != len(released):
        raise MeasureError(
            f"'{owner}' must know which records belong together; the original has {len(original)} "
            f"records, the released data {len(released)}.",
            hint="evaluate a Release or its folder, so that the records can be paired.",
        )
    if not len(original):
        raise MeasureError("There is no record to look for.", hint="are the data empty?")
    original.schema.require(names)
    found: list[Sight] = []
    gone, unlike = [], []
    for name in names:
        if name not in released.columns:
            gone.append(name)
            continue
        one = _sight(original, released, name)
        if one is None:
            unlike.append(name)
        else:
            found.append(one)
    if not found:
        raise MeasureError(
            f"'{owner}' finds nothing to compare: {', '.join(names) or 'no variable'}.",
            hint="name variables that have values in both data sets.",
        )
    told = []
    if gone:
        told.append(f"Not compared, since the release does not hold them: {', '.join(gone)}.")
    if unlike:
        told.append(
            f"Not compared, since the release holds other values there: {', '.join(unlike)}."
        )
    return found, tuple(told)


def _sight(original: Dataset, released: Dataset, name: str) -> Sight | None:
    """One variable; None where nothing released can be held against the original."""
    values, now = original.column(name), released.column(name)
    if values.null_count() == len(values):
        return None
    column, after = original.schema[name], released.schema[name]
    if column.hierarchy is None and after.hierarchy is not None:
        column = replace(column, hierarchy=after.hierarchy)
    kind = column.kind or ("continuous" if values.dtype.is_numeric() else "nominal")
    column = replace(column, kind=kind)
    try:
        if kind in _ORDERED:
            return _ordered(values, now, column)
        return _levels(values, now, column, after)
    except DataError:
        return None


def _ordered(values: pl.Series, now: pl.Series, column: Column) -> Ordered | None:
    persons = ends_of(values, column, values).middles()
    cells = ends_of(now, column, values)
    known = persons[~np.isnan(persons)]
    if not len(known):
        return None
    spread = deviation_of(known)
    one = Ordered(
        name=values.name,
        column=column,
        persons=persons,
        cells=cells,
        spread=spread if spread > 0 else 1.0,
        domain=(float(known.min()), float(known.max())),
        truthful=False,
        source=values,
    )
    apart = (persons < one.low()) | (persons > one.high())
    return replace(one, truthful=not apart.any())


def _levels(values: pl.Series, now: pl.Series, column: Column, after: Column) -> Levels | None:
    texts = texts_of(values.drop_nulls().unique()).to_list()
    levels = levels_of(texts, column, values.name, ordered=False)
    column = with_renamed(column, levels, values, now, None, after)
    persons = _singles(held(values, levels, column))
    cells = held(now, levels, column)
    if not (cells.counts > 0)[cells.of].any():
        return None
    one = Levels(values.name, column, levels, persons, cells, truthful=False, source=values)
    known = np.flatnonzero(~np.isnan(persons))
    return replace(one, truthful=bool(_own(one, known).all()))


def _own(one: Levels, rows: Positions) -> Mask:
    """Which persons fit their own released cell."""
    cell = one.cells.of[rows].astype(np.int64)
    width = len(one.levels)
    owner = np.repeat(np.arange(len(one.cells.counts)), one.cells.counts)
    pairs = owner * width + one.cells.levels
    return np.isin(cell * width + one.persons[rows].astype(np.int64), pairs)


def _singles(cells: Held) -> Floats:
    single = cells.single()
    return np.where(single < 0, np.nan, single)[cells.of]
