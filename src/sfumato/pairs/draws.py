"""Both sides of a variable as values, also where cells stand for several of them.

A range, a set, a mask or a group says that the value is one of several. Whoever needs values, for a
mean, a model or a comparison, draws one of them, all alike likely. So a variable is compared in
every release, however coarse its cells are. The records that share a cell are spread evenly over
it, in an order that follows from the content of the release alone: the same release gives the same
values, whatever the order of its rows. What says nothing, `*` and missing, stays missing.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from sfumato.cells.codes import encode
from sfumato.cells.intervals import Intervals, read_intervals
from sfumato.cells.level_sets import (
    NUMBER_TYPES,
    LevelSets,
    add_renamed_groups,
    format_levels,
    list_distinct_texts,
    list_levels,
    list_ranked_levels,
    read_level_sets,
)
from sfumato.data import Dataset
from sfumato.errors import DataError
from sfumato.kernels.arrays import Codes, Floats, Positions
from sfumato.kernels.orders import order_by_content, scatter_numbers
from sfumato.pairs.alignment import ComparableVariable, align_variable, quote_names
from sfumato.schema import Column

_STREAMS = 1 << 20
_DRAWN = (
    "Where a released cell stands for several values (ranges, sets, masks, groups), one of them is "
    "drawn, all alike likely: {}. `*` is as good as missing."
)


def align_variables(
    original: Dataset, released: Dataset, names: Sequence[str], *, draws: int = 1
) -> dict[str, list[ComparableVariable] | str]:
    """Both sides of each variable, so many times, or the reason why they cannot be compared.

    Times differ only in cells that stand for several values: together they are spread evenly over
    the cell. A variable without such cells is the same each time.

    Examples
    --------
    >>> from sfumato.schema import Schema
    >>> original = Dataset(pl.DataFrame({"age": [20, 22, 23, 61]}), Schema({"age": "quasi"}))
    >>> age = Column(role="quasi", kind="integer", cells="generalised")
    >>> cells = pl.DataFrame({"age": ["[20;23]", "[20;23]", "61", "*"]})
    >>> drawn = align_variables(original, Dataset(cells, Schema({"age": age})), ["age"])
    >>> sorted(drawn["age"][0].released.to_list()[:2]), drawn["age"][0].released.to_list()[2:]
    ([21.0, 23.0], [61.0, None])
    """
    sides = CellSpread(original, tuple(names)), CellSpread(released, tuple(names))
    return {name: _align(original, released, name, sides, draws) for name in names}


def describe_draws(released: Dataset, names: Sequence[str]) -> tuple[str, ...]:
    """Which variables are drawn from their cells, in words."""
    drawn = [name for name in names if released.schema[name].generalised]
    return (_DRAWN.format(quote_names(drawn)),) if drawn else ()


def draw_numbers(
    original: Dataset, released: Dataset, names: Sequence[str]
) -> dict[str, pl.Series]:
    """Of numbers that became ranges, a number of each range, by variable."""
    shown = [name for name in names if name in released.columns]
    drawn = {}
    for name, sides in align_variables(
        original, released, [name for name in shown if released.schema[name].generalised]
    ).items():
        if not isinstance(sides, str) and not sides[0].categories:
            drawn[name] = sides[0].released
    return drawn


@dataclass(frozen=True, eq=False)
class CellSpread:
    """Where in its cell each record of a data set is put, as a share of the cell from 0 to 1."""

    data: Dataset
    names: tuple[str, ...]

    @cached_property
    def positions(self) -> Positions:
        """The position of each record in an order that only the content decides."""
        columns = [
            _to_numbers(self.data.column(name)) for name in self.names if name in self.data.columns
        ]
        # Equal records follow their persons, so that each record has its own value in any order.
        rows = np.arange(len(self.data))
        if self.data.given_identity is not None:
            digests = self.data.given_identity.digests
            rows = np.lexsort((digests[:, 1], digests[:, 0]))
        positions = np.empty(len(self.data), np.int64)
        positions[rows[order_by_content(np.array(columns)[:, rows])]] = np.arange(len(self.data))
        return positions

    def shares(self, cells: Codes, name: str) -> Floats:
        """Evenly over each cell, and in no order that another variable has."""
        words = scatter_numbers(len(cells), zlib.crc32(name.encode()) % _STREAMS)[self.positions]
        order = np.lexsort((words, cells))
        counts = np.bincount(cells)
        starts = np.cumsum(counts) - counts
        shares = np.empty(len(cells))
        shares[order] = np.arange(len(cells)) - starts[cells[order]] + 0.5
        return shares / counts[cells]


def _to_numbers(values: pl.Series) -> Floats:
    """Numbers that tell the cells of a column apart, whatever its type."""
    if values.dtype.is_numeric():
        return values.cast(pl.Float64).fill_null(np.nan).to_numpy()
    return encode(format_levels(values)).missing_last.astype(np.float64)


def _align(
    original: Dataset,
    released: Dataset,
    name: str,
    sides: tuple[CellSpread, CellSpread],
    draws: int,
) -> list[ComparableVariable] | str:
    if name not in released.columns:
        return "it is not in the release"
    variable = align_variable(original, released, name)
    generalised = original.schema[name].generalised or released.schema[name].generalised
    if isinstance(variable, str):
        if not generalised:
            return variable
    elif not generalised and not (variable.categories and _has_new_levels(variable)):
        return [variable] * draws
    try:
        return _draw_variable(original, released, name, sides, draws)
    except DataError:
        return "its released cells cannot be read as values of the original"


def _has_new_levels(variable: ComparableVariable) -> bool:
    """Whether the release has names that the original has not: groups, or `other`."""
    return bool(set(variable.released.unique()) - set(variable.original.unique()) - {None})


def _draw_variable(
    original: Dataset,
    released: Dataset,
    name: str,
    sides: tuple[CellSpread, CellSpread],
    draws: int,
) -> list[ComparableVariable]:
    values, now = original.column(name), released.column(name)
    column, after = original.schema[name], released.schema[name]
    # A recoding brings its hierarchy along; without it groups could not be read.
    if column.hierarchy is None and after.hierarchy is not None:
        column = replace(column, hierarchy=after.hierarchy)
    kind = column.kind or ("continuous" if values.dtype.is_numeric() else "nominal")
    column = replace(column, kind=kind)
    number = NUMBER_TYPES.get(kind)
    if number is not None:
        whole = kind != "continuous"
        intervals = (
            read_intervals(values, column, number),
            read_intervals(now, replace(column, cells=after.cells), number),
        )
        drawn = [
            _draw_numbers(cells, spread, name, draws, whole=whole)
            for cells, spread in zip(intervals, sides, strict=True)
        ]
        return [
            ComparableVariable(was, shown, categories=False)
            for was, shown in zip(*drawn, strict=True)
        ]
    levels, column = _list_levels(values, now, column, after)
    sets = (
        read_level_sets(values, levels, column),
        read_level_sets(now, levels, replace(column, cells=after.cells)),
    )
    drawn = [
        _draw_levels(cells, levels, spread, name, draws)
        for cells, spread in zip(sets, sides, strict=True)
    ]
    return [
        ComparableVariable(was, shown, categories=True) for was, shown in zip(*drawn, strict=True)
    ]


def _list_levels(
    values: pl.Series, now: pl.Series, column: Column, after: Column
) -> tuple[list[str], Column]:
    """The levels of a category, and its declaration with a group for each new name."""
    if column.kind == "ordinal":
        levels = list(list_ranked_levels(values, column))
        return levels, replace(column, domain=tuple(levels) or None)
    levels = list_levels(list_distinct_texts(values), column, values.name, ordered=False)
    # A name such as "other" stands for the levels that became it, row by row.
    if len(values) == len(now):
        column = add_renamed_groups(column, levels, values, now, None, after)
    return levels, column


def _draw_numbers(
    cells: Intervals, spread: CellSpread, name: str, draws: int, *, whole: bool
) -> list[pl.Series]:
    """Values within the cells; of whole numbers and of days, whole ones."""
    of = np.arange(len(cells.low), dtype=np.int32) if cells.of is None else cells.of
    if not (cells.low < cells.high)[~cells.open].any():
        return [pl.Series(name, cells.midpoints(), nan_to_null=True)] * draws
    shares = spread.shares(of, name)
    low = np.where(cells.open, np.nan, cells.low)
    width = np.where(cells.open, np.nan, cells.high) - low
    order = np.argsort(of, kind="stable")
    starts = np.searchsorted(of[order], np.arange(len(low) + 1))
    drawn = []
    for draw in range(draws):
        parts = (shares + draw / draws) % 1.0
        steps = np.floor(parts * (width[of] + 1)) if whole else parts * width[of]
        values = low[of] + steps
        for cell, members in cells.sets.items():
            rows = order[starts[cell] : starts[cell + 1]]
            values[rows] = members[(parts[rows] * len(members)).astype(np.int64)]
        drawn.append(pl.Series(name, values, nan_to_null=True))
    return drawn


def _draw_levels(
    cells: LevelSets, levels: Sequence[str], spread: CellSpread, name: str, draws: int
) -> list[pl.Series]:
    """One of the levels of each cell; a value that is none of them stands for itself."""
    texts, counts = [*levels, *cells.texts, ""], cells.counts
    first = np.where(counts > 0, cells.starts[:-1], 0)
    own = len(levels) + np.arange(len(counts))
    gone = cells.open[cells.of]
    shares = spread.shares(cells.of, name) if (counts > 1)[~cells.open].any() else None
    drawn = []
    for draw in range(draws):
        parts: Floats | float = 0.0 if shares is None else (shares + draw / draws) % 1.0
        within = np.floor(parts * counts[cells.of]).astype(np.int64)
        index = own[cells.of]
        several = (counts > 0)[cells.of] & ~gone
        index[several] = cells.levels[(first[cells.of] + within)[several]]
        values = pl.Series(name, texts, dtype=pl.String).gather(index)
        drawn.append(values.set(pl.Series(gone), None))
    return drawn
