"""Categories that may be generalised: the levels that each cell may stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.cells.ends import Ends, encoded
from sfumato.cells.levels import level_cells
from sfumato.cells.notation import MASK, RANGE, SET, WILDCARD
from sfumato.errors import DataError
from sfumato.io.frames import canonical
from sfumato.kernels.arrays import Codes, Floats, Integers, Mask
from sfumato.schema import Column


@dataclass(frozen=True, eq=False)
class Held:
    """The levels that each cell of a variable may stand for.

    Parameters
    ----------
    of : which cell each record has. The last cell is that of missing.
    levels : the levels of all cells, cell after cell, in rising order.
    starts : where the levels of each cell begin, and an end.
    beyond : which cells may also stand for a value that is none of the levels.
    texts : the cells as they are written; that of missing is not.
    """

    of: Codes = field(repr=False)
    levels: Integers = field(repr=False)
    starts: Integers = field(repr=False)
    beyond: Mask = field(repr=False)
    texts: Sequence[str] = field(repr=False)

    @cached_property
    def open(self) -> Mask:
        """Which cells say nothing: `*` and missing."""
        return np.array([*(text == WILDCARD for text in self.texts), True])

    @property
    def counts(self) -> Integers:
        """How many levels each cell stands for; 0 for a value that is none of them."""
        counts: Integers = np.diff(self.starts)
        return counts

    def summed(self, of_levels: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The sum of something known of each level, over the levels of each cell."""
        before: Integers = np.concatenate([[0], np.cumsum(of_levels[self.levels])])
        return before[self.starts[1:]] - before[self.starts[:-1]]

    def single(self) -> Integers:
        """The level of each cell that stands for just that one; -1 for the others."""
        one = (self.counts == 1) & ~self.beyond & ~self.open
        found = np.full(len(one), -1, np.int64)
        found[one] = self.levels[self.starts[:-1][one]]
        return found

    def taken(self, at: npt.NDArray[np.intp] | None) -> Held:
        """The cells of other records; a place below 0 has none, and says nothing."""
        if at is None:
            return self
        missing = len(self.starts) - 2
        return replace(self, of=np.where(at < 0, missing, self.of[at]).astype(np.int32))


def texts_of(values: pl.Series) -> pl.Series:
    """Levels as text, the same whether they are held as 1, 1.0 or "1"."""
    return canonical(values)


def levels_of(texts: Sequence[str], column: Column, name: str, *, ordered: bool) -> list[str]:
    """All levels of a variable: the declared ones in their order, then others that occur.

    Without declared levels, ordered ones must be numbers: nothing else says what comes first.
    """
    groups = groups_of(column)
    # What is generalised already, in the data or by what is declared, is no level.
    declared = [one for one in map(said, column.levels or ()) if _plain(one, groups)]
    more = sorted({text for text in texts if _plain(text, groups)}.difference(declared))
    if not ordered or not more:
        return [*declared, *more]
    numbers = _numbers(more)
    if declared or np.isnan(numbers).any():
        raise DataError(
            f"Variable '{name}' is ordinal and has values that are none of its declared levels.",
            hint="declare all levels, from low to high, in the schema.",
        )
    return [more[at] for at in np.argsort(numbers, kind="stable")]


def is_level(texts: Sequence[str], column: Column) -> list[bool]:
    """Which texts are levels by themselves, and not sets, ranges, masks, groups or `*`."""
    groups = groups_of(column)
    return [_plain(text, groups) for text in texts]


def held(values: pl.Series, levels: Sequence[str], column: Column) -> Held:
    """Read categories: values, sets, ranges of levels, groups, masks and `*`.

    Examples
    --------
    >>> cells = held(pl.Series("sex", ["f", "{f;m}", None]), ["f", "m"], Column(kind="nominal"))
    >>> cells.levels.tolist(), cells.starts.tolist()
    ([0, 0, 1, 0, 1], [0, 1, 3, 5])
    """
    of, texts = encoded(texts_of(values))
    # Without declared levels nothing says what a range of them holds.
    told = replace(column, domain=tuple(levels)) if column.levels else column
    low, high, starts, _ = level_cells([*levels, *texts], told, values.name)
    # Each level has a code of its own; the levels in the order of their codes.
    codes = low[starts[: len(levels)]]
    order = np.argsort(codes, kind="stable")
    first, last = (
        np.searchsorted(codes[order], low),
        np.searchsorted(codes[order], high, side="right"),
    )
    first, last = first[starts[len(levels)] :], last[starts[len(levels)] :]
    owner = np.repeat(np.arange(len(texts)), np.diff(starts[len(levels) :]))
    sizes = last - first
    inside = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    found = order[np.repeat(first, sizes) + inside]
    cell = np.repeat(owner, sizes)
    place = np.lexsort((found, cell))
    counts = np.append(np.bincount(cell, minlength=len(texts)), len(levels))
    codes_held = np.bincount(owner, (high - low + 1)[starts[len(levels)] :], len(texts))
    return Held(
        of=of,
        levels=np.concatenate([found[place], np.arange(len(levels))]),
        starts=np.concatenate([[0], np.cumsum(counts)]),
        beyond=np.append(codes_held > counts[:-1], False),
        texts=texts,
    )


def rank_ends(values: pl.Series, levels: Sequence[str], column: Column) -> Ends:
    """Ordered categories on the scale of their ranks, from 0 for the lowest.

    Means of numbers that are levels lie between the ranks of their neighbours.
    """
    cells = held(values, levels, replace(column, kind="ordinal", domain=tuple(levels) or None))
    low, high = np.full(len(cells.open), -np.inf), np.full(len(cells.open), np.inf)
    some = np.flatnonzero(~cells.open & ~cells.beyond)
    low[some] = cells.levels[cells.starts[some]]
    high[some] = cells.levels[cells.starts[some + 1] - 1]
    other = np.flatnonzero(~cells.open & cells.beyond)
    if len(other):
        texts = [cells.texts[at] for at in other.tolist()]
        low[other] = high[other] = _between(texts, levels, values.name)
    gaps = some[high[some] - low[some] + 1 != cells.counts[some]]
    sets = {
        at: cells.levels[cells.starts[at] : cells.starts[at + 1]].astype(float)
        for at in gaps.tolist()
    }
    return Ends(cells.of, low, high, sets)


def _between(texts: Sequence[str], levels: Sequence[str], name: str) -> Floats:
    numbers, scale = _numbers(texts), _numbers(levels)
    outside = np.isnan(numbers).any() or np.isnan(scale).any() or (np.diff(scale) <= 0).any()
    if outside or (numbers < scale[0]).any() or (numbers > scale[-1]).any():
        raise DataError(
            f"Variable '{name}' is ordinal and has values that are none of its levels.",
            hint="declare all levels, from low to high, in the schema.",
        )
    between: Floats = np.interp(numbers, scale, np.arange(len(scale), dtype=float))
    return between


def _numbers(texts: Sequence[str]) -> Floats:
    found = pl.Series(texts, dtype=pl.String).cast(pl.Float64, strict=False)
    return found.fill_null(np.nan).to_numpy()


def said(level: object) -> str:
    """A declared level as text."""
    return str(canonical(pl.Series([level]))[0])


def groups_of(column: Column) -> set[str]:
    """The names of the groups that the hierarchy declares."""
    values = column.hierarchy or {}
    return {group for broader in values.values() for group in broader if group not in values}


def _plain(text: str, groups: set[str]) -> bool:
    """Whether a text is a level by itself, and not a set, range, mask or group of levels."""
    if text == WILDCARD or text in groups:
        return False
    return not (RANGE.fullmatch(text) or SET.fullmatch(text) or MASK.fullmatch(text))
