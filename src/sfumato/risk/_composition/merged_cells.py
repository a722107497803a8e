"""What the cells of several releases leave together: their intersection, variable by variable."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl

from sfumato.cells.intervals import Intervals, NumberType, read_intervals
from sfumato.cells.level_sets import (
    NUMBER_TYPES,
    LevelSets,
    list_distinct_texts,
    list_levels,
    read_level_sets,
)
from sfumato.cells.notation import find_notation, format_range, format_set, format_value
from sfumato.errors import DataError
from sfumato.kernels.arrays import AnyIntegers, Codes, Integers
from sfumato.risk._composition.joint_table import show_cells
from sfumato.schema import Column

_EPOCH = dt.date(1970, 1, 1)
FIRST, SECOND = 0, 1


class Merged(NamedTuple):
    """The cells that are left, and how many records have cells that contradict each other."""

    values: pl.Series
    contradictions: int


class _Pairs(NamedTuple):
    """The distinct pairs of cells, and which pair each record has."""

    first: AnyIntegers
    second: AnyIntegers
    of: AnyIntegers


def intersect_cells(
    first: pl.Series, second: pl.Series, column: Column, original: pl.Series
) -> Merged:
    """For each record what both its cells allow; of cells that contradict each other the first.

    Examples
    --------
    >>> ages = pl.Series("age", ["[20;29]", "[20;29]"]), pl.Series("age", ["[25;34]", "*"])
    >>> column = Column(kind="integer", cells="generalised")
    >>> intersect_cells(*ages, column, pl.Series("age", [26, 27])).values.to_list()
    ['[25;29]', '[20;29]']
    """
    texts = show_cells(first), show_cells(second)
    kind = NUMBER_TYPES.get(column.kind or "")
    if kind is not None:
        return _intersect_intervals(*texts, column, kind)
    return _intersect_levels(*texts, column, original)


def unite_vocabularies(shown: Sequence[tuple[Column, pl.Series]]) -> Column:
    """One declaration for the cells of several releases: the groups and levels of all of them.

    Text that looks like notation where nothing was generalised cannot go together with notation.
    """
    columns = [column for column, _ in shown]
    first = columns[0]
    for column, values in shown:
        if values.dtype == pl.String and not column.generalised and find_notation(values).any():
            raise DataError(f"Variable '{values.name}' has values that look like ranges or sets.")
    hierarchy: dict[str, tuple[str, ...]] = {}
    levels = list(first.levels or ())
    for column in columns:
        for value, groups in (column.hierarchy or {}).items():
            known = hierarchy.get(value, ())
            hierarchy[value] = (*known, *(group for group in groups if group not in known))
        levels += [level for level in column.levels or () if level not in levels]
    domain = tuple(levels) if first.levels else first.domain
    # Two cells may leave a set or a range, though both were written otherwise.
    return replace(first, hierarchy=hierarchy or None, domain=domain, cells="generalised")


def _pair_cells(first: Codes, second: Codes) -> _Pairs:
    width = int(second.max(initial=0)) + 1
    codes, of = np.unique(first.astype(np.int64) * width + second, return_inverse=True)
    return _Pairs(codes // width, codes % width, of.ravel())


# Numbers and dates -------------------------------------------------------------------------------


def _intersect_intervals(
    first: pl.Series, second: pl.Series, column: Column, kind: NumberType
) -> Merged:
    cells = read_intervals(first, column, kind), read_intervals(second, column, kind)
    pairs = _pair_cells(*(_number_cells(side, len(first)) for side in cells))
    ends = [(side.low[index], side.high[index]) for side, index in zip(cells, pairs, strict=False)]
    low, high = np.maximum(ends[0][0], ends[1][0]), np.minimum(ends[0][1], ends[1][1])
    # One that lies within the other is all that is left of both.
    choice = np.full(len(low), -1)
    for side in (SECOND, FIRST):
        choice[(ends[side][0] == low) & (ends[side][1] == high)] = side
    texts: dict[int, str] = {}
    contradictory = low > high
    sets = np.isin(pairs.first, list(cells[0].sets)) | np.isin(pairs.second, list(cells[1].sets))
    for pair in np.flatnonzero(sets & ~contradictory).tolist():
        members = _list_common(cells, pairs.first[pair], pairs.second[pair])
        if members is None:
            continue
        choice[pair] = -1
        contradictory[pair] = not len(members)
        texts[pair] = _format_members(members, kind, first.name)
    for pair in np.flatnonzero((choice < 0) & ~contradictory).tolist():
        if pair not in texts:
            least, most = (_format_end(float(end[pair]), kind) for end in (low, high))
            texts[pair] = least if least == most else format_range(least, most, first.name)
    choice[contradictory] = FIRST
    return _fill(first, second, pairs.of, choice, texts, contradictory)


def _number_cells(cells: Intervals, records: int) -> Codes:
    return np.arange(records, dtype=np.int32) if cells.of is None else cells.of


def _list_common(cells: Sequence[Intervals], first: int, second: int) -> np.ndarray | None:
    """The values that a set and another cell have in common; None where the other says nothing."""
    if cells[0].open[first] or cells[1].open[second]:
        return None
    members = [side.sets.get(int(cell)) for side, cell in zip(cells, (first, second), strict=True)]
    if members[0] is not None and members[1] is not None:
        return np.intersect1d(members[0], members[1])
    chosen, other, cell = (
        (members[0], cells[1], second) if members[0] is not None else (members[1], cells[0], first)
    )
    if chosen is None:
        return None
    within: np.ndarray = chosen[(chosen >= other.low[cell]) & (chosen <= other.high[cell])]
    return within


def _format_members(members: np.ndarray, kind: NumberType, name: str) -> str:
    texts = [_format_end(float(member), kind) for member in members]
    return texts[0] if len(texts) == 1 else format_set(texts, name)


def _format_end(end: float, kind: NumberType) -> str:
    if kind == "date":
        return (_EPOCH + dt.timedelta(days=end)).isoformat()
    return format_value(end)


# Categories --------------------------------------------------------------------------------------


def _intersect_levels(
    first: pl.Series, second: pl.Series, column: Column, original: pl.Series
) -> Merged:
    texts = [text for values in (original, first, second) for text in list_distinct_texts(values)]
    levels = list_levels(sorted(set(texts)), column, first.name, ordered=False)
    cells = [read_level_sets(values, levels, column) for values in (first, second)]
    pairs = _pair_cells(cells[0].of, cells[1].of)
    choice = np.full(len(pairs.first), FIRST)
    contradictory = np.zeros(len(choice), bool)
    written: dict[int, str] = {}
    for pair, (first_cell, second_cell) in enumerate(zip(pairs.first, pairs.second, strict=True)):
        if cells[0].open[first_cell] or cells[1].open[second_cell]:
            choice[pair] = SECOND if cells[0].open[first_cell] else FIRST
            continue
        sides = [
            _list_levels_of(side, cell)
            for side, cell in zip(cells, (first_cell, second_cell), strict=True)
        ]
        beyond = [bool(cells[0].beyond[first_cell]), bool(cells[1].beyond[second_cell])]
        common = np.intersect1d(sides[0], sides[1])
        if len(common) == len(sides[0]) and (not beyond[0] or beyond[1]):
            choice[pair] = FIRST
        elif len(common) == len(sides[1]) and (not beyond[1] or beyond[0]):
            choice[pair] = SECOND
        elif not len(common):
            contradictory[pair] = not all(beyond)
        elif any(beyond):
            # What nobody has cannot be written as a set: the narrower of the two.
            choice[pair] = FIRST if len(sides[0]) <= len(sides[1]) else SECOND
        else:
            choice[pair] = -1
            names = [levels[level] for level in common.tolist()]
            written[pair] = names[0] if len(names) == 1 else format_set(names, first.name)
    return _fill(first, second, pairs.of, choice, written, contradictory)


def _list_levels_of(cells: LevelSets, cell: int) -> Integers:
    return cells.levels[cells.starts[cell] : cells.starts[cell + 1]]


def _fill(
    first: pl.Series,
    second: pl.Series,
    of: AnyIntegers,
    choice: np.ndarray,
    texts: dict[int, str],
    contradictory: np.ndarray,
) -> Merged:
    """The cell of each record: the first, the second, or what was written for its pair."""
    chosen = choice[of]
    values = first.zip_with(pl.Series(chosen != SECOND), second)
    if texts:
        table = pl.Series([texts.get(pair) for pair in range(len(choice))], dtype=pl.String)
        values = values.zip_with(pl.Series(chosen >= 0), table.gather(of))
    return Merged(values.alias(first.name), int(contradictory[of].sum()))
