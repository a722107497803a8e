"""Categories that may be generalised: the set of levels that each cell may stand for.

A cell is a value, a set, a range of declared levels, a group of the hierarchy, a mask or `*`, and
becomes a set of leaves. Leaves are the values that occur or are declared, and for each mask such
as `937**` one more for all codes that it may stand for and nobody has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from sfumato.cells.codes import encode
from sfumato.cells.intervals import Intervals, NumberType, read_intervals
from sfumato.cells.notation import (
    MASK,
    RANGE,
    SET,
    WILDCARD,
    find_notation,
    group_members,
    mark_literal_values,
    mark_literals,
)
from sfumato.errors import DataError
from sfumato.io.frames import to_canonical_text
from sfumato.kernels.arrays import Codes, Floats, Integers, Mask, Positions
from sfumato.kernels.memory import look_up
from sfumato.schema import Column

NUMBER_TYPES: dict[str, NumberType] = {"continuous": "number", "integer": "number", "date": "date"}
"""Kinds that are read as numbers, and what kind of numbers."""

Masks = dict[str, tuple[str, int]]
"""The masks among the cells: what each begins with, and how many characters are masked."""


@dataclass(frozen=True, eq=False)
class LevelSets:
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
        texts = pl.Series(self.texts, dtype=pl.String)
        return np.append((texts == WILDCARD).to_numpy(), True)

    @property
    def counts(self) -> Integers:
        """How many levels each cell stands for; 0 for a value that is none of them."""
        counts: Integers = np.diff(self.starts)
        return counts

    def sum_by_cell(self, of_levels: Integers) -> Integers:
        """The sum of something known of each level, over the levels of each cell."""
        before: Integers = np.concatenate([[0], np.cumsum(of_levels[self.levels])])
        return before[self.starts[1:]] - before[self.starts[:-1]]

    def single_levels(self) -> Integers:
        """The level of each cell that stands for just that one; -1 for the others."""
        single = (self.counts == 1) & ~self.beyond & ~self.open
        levels = np.full(len(single), -1, np.int64)
        levels[single] = self.levels[self.starts[:-1][single]]
        return levels

    def take(self, rows: Positions | None) -> LevelSets:
        """The cells of some records; a position below 0 has none, and says nothing."""
        if rows is None:
            return self
        missing = len(self.starts) - 2
        return replace(self, of=np.where(rows < 0, missing, self.of[rows]).astype(np.int32))


def format_levels(values: pl.Series) -> pl.Series:
    """Levels as text, the same whether they are held as 1, 1.0 or "1"."""
    return to_canonical_text(values)


def format_level(level: object) -> str:
    """A declared level as text."""
    return str(to_canonical_text(pl.Series([level]))[0])


def group_names(column: Column) -> set[str]:
    """The names of the groups that the hierarchy declares."""
    return set(group_members(column))


def are_levels(texts: Sequence[str], column: Column) -> list[bool]:
    """Which texts are levels by themselves, and not sets, ranges, masks, groups or `*`."""
    groups = group_names(column)
    values = mark_literal_values(pl.Series(texts, dtype=pl.String), column)
    return (~(find_notation(values) | values.is_in(list(groups)))).to_list()


def list_levels(texts: Sequence[str], column: Column, name: str, *, ordered: bool) -> list[str]:
    """All levels of a variable: the declared ones in their order, then others that occur.

    Without declared levels, ordered ones must be numbers: nothing else says what comes first.
    """
    # What is generalised already, in the data or by what is declared, is no level.
    texts = mark_literals(texts, column)
    declared = _filter_levels(_list_declared(column), column)
    more = sorted(set(_filter_levels(texts, column)).difference(declared))
    if not ordered or not more:
        return [*declared, *more]
    numbers = _parse_numbers(more)
    if declared or np.isnan(numbers).any():
        raise DataError(
            f"Variable '{name}' is ordinal and has values that are none of its declared levels.",
            hint="declare all levels, from low to high, in the schema.",
        )
    return [more[position] for position in np.argsort(numbers, kind="stable")]


def _list_declared(column: Column) -> list[str]:
    return mark_literals([format_level(level) for level in column.levels or ()], column)


def _filter_levels(texts: Sequence[str], column: Column) -> list[str]:
    return [text for text, keep in zip(texts, are_levels(texts, column), strict=True) if keep]


def read_level_sets(values: pl.Series, levels: Sequence[str], column: Column) -> LevelSets:
    """Read categories: values, sets, ranges of levels, groups, masks and `*`.

    Examples
    --------
    >>> values = pl.Series("sex", ["f", "{f;m}", None])
    >>> column = Column(kind="nominal", cells="generalised")
    >>> cells = read_level_sets(values, ["f", "m"], column)
    >>> cells.levels.tolist(), cells.starts.tolist()
    ([0, 0, 1, 0, 1], [0, 1, 3, 5])
    """
    # Each distinct cell is written and read once, however many records have it.
    cells = encode(values, order="appearance")
    written = encode(format_levels(cells.levels), order="appearance")
    texts = mark_literals(written.levels.to_list(), column)
    # Without declared levels nothing says what a range of them holds.
    known = replace(column, domain=tuple(levels)) if column.levels else column
    # The levels come first, each a leaf of its own; after them the cells.
    leaves = _resolve_cells([*levels, *texts], known, values.name)
    begin = len(levels)
    level_of_leaf = np.full(leaves.size, -1, np.int64)
    level_of_leaf[leaves.members[leaves.starts[:begin]]] = np.arange(begin)
    sizes = np.diff(leaves.starts[begin:])
    level = level_of_leaf[leaves.members[leaves.starts[begin] :]]
    cell = np.repeat(np.arange(len(texts)), sizes)[level >= 0]
    counts = np.bincount(cell, minlength=len(texts))
    members = np.sort(cell * begin + level[level >= 0]) % max(begin, 1)
    return LevelSets(
        # After the last text comes missing, whose code is -1.
        of=look_up(np.append(written.codes, np.int32(len(texts))), cells.codes),
        levels=np.concatenate([members, np.arange(begin)]),
        starts=np.concatenate([[0], np.cumsum(counts), [len(members) + begin]]),
        beyond=np.append(sizes > counts, False),
        texts=texts,
    )


def read_rank_intervals(values: pl.Series, levels: Sequence[str], column: Column) -> Intervals:
    """Ordered categories on the scale of their ranks, from 0 for the lowest.

    Means of numbers that are levels lie between the ranks of their neighbours.
    """
    ordinal = replace(column, kind="ordinal", domain=tuple(levels) or None)
    cells = read_level_sets(values, levels, ordinal)
    low, high = np.full(len(cells.open), -np.inf), np.full(len(cells.open), np.inf)
    known = np.flatnonzero(~cells.open & ~cells.beyond)
    low[known] = cells.levels[cells.starts[known]]
    high[known] = cells.levels[cells.starts[known + 1] - 1]
    other = np.flatnonzero(~cells.open & cells.beyond)
    if len(other):
        texts = [cells.texts[cell] for cell in other.tolist()]
        low[other] = high[other] = _interpolate_ranks(texts, levels, values.name)
    gaps = known[high[known] - low[known] + 1 != cells.counts[known]]
    sets = {
        cell: cells.levels[cells.starts[cell] : cells.starts[cell + 1]].astype(float)
        for cell in gaps.tolist()
    }
    return Intervals(cells.of, low, high, sets)


def read_bounds(values: pl.Series, column: Column, original: pl.Series) -> Intervals:
    """Read a variable on the scale of its kind: numbers, days, or ranks of its levels."""
    kind = NUMBER_TYPES.get(column.kind or "")
    if kind is not None:
        return read_intervals(values, column, kind)
    return read_rank_intervals(values, list_ranked_levels(original, column), column)


def list_ranked_levels(original: pl.Series, column: Column) -> Sequence[str]:
    """The levels of an ordinal variable, from low to high."""
    return list_levels(list_distinct_texts(original), column, original.name, ordered=True)


def list_distinct_texts(values: pl.Series) -> list[str]:
    """The distinct values of a variable as text, in no order."""
    return format_levels(values.drop_nulls().unique()).to_list()


def _interpolate_ranks(texts: Sequence[str], levels: Sequence[str], name: str) -> Floats:
    numbers, scale = _parse_numbers(texts), _parse_numbers(levels)
    unknown = np.isnan(numbers).any() or np.isnan(scale).any() or (np.diff(scale) <= 0).any()
    if unknown or (numbers < scale[0]).any() or (numbers > scale[-1]).any():
        raise DataError(
            f"Variable '{name}' is ordinal and has values that are none of its levels.",
            hint="declare all levels, from low to high, in the schema.",
        )
    ranks: Floats = np.interp(numbers, scale, np.arange(len(scale), dtype=float))
    return ranks


def _parse_numbers(texts: Sequence[str]) -> Floats:
    numbers = pl.Series(texts, dtype=pl.String).cast(pl.Float64, strict=False)
    return numbers.fill_null(np.nan).to_numpy()


# Cells as intervals of codes ---------------------------------------------------------------------


class CodeRuns(NamedTuple):
    """Runs of neighbouring codes, cell after cell, and how many codes there are."""

    low: Integers
    high: Integers
    starts: Integers
    size: int


def encode_level_cells(texts: Sequence[str], column: Column, name: str) -> CodeRuns:
    """Number the leaves so that as many cells as possible are one interval of codes."""
    return _split_into_runs(_renumber(_resolve_cells(texts, column, name)))


class _CellLeaves(NamedTuple):
    """The leaves of each cell, cell after cell, each rising; and how many leaves there are."""

    members: Integers
    starts: Integers
    size: int


def _resolve_cells(texts: Sequence[str], column: Column, name: str) -> _CellLeaves:
    """The leaves that each cell stands for; none stands for nothing."""
    groups = group_members(column)
    declared = mark_literals([str(level) for level in column.levels or ()], column)
    cells = pl.Series("leaf", texts, dtype=pl.String)
    # A declared level is a value even if it looks like something else.
    notation = find_notation(cells) & ~cells.is_in(declared)
    is_set = notation & _are_sets(cells)
    is_other = (notation & ~is_set) | cells.is_in([WILDCARD, *groups])
    # Nearly all cells are a value or a set, and are taken apart together.
    common = _take_apart(cells, is_set & ~is_other, ~is_set & ~is_other)
    others = is_other.arg_true().to_list()
    first = [level for level in declared if level not in groups]
    leaves = _list_leaves(common["leaf"], first, column.hierarchy or ())
    members = [encode(common["leaf"], leaves).codes.astype(np.int64)]
    owners = [common["cell"].to_numpy().astype(np.int64)]
    masks = {
        text: mask
        for text in dict.fromkeys(texts[cell] for cell in others)
        if text not in groups and (mask := _parse_mask(text))
    }
    listed = leaves.to_list() if others else []
    under, size = _group_by_mask(listed, masks, more=not declared)
    size = max(size, len(leaves), 1)  # `*` stands for something, even where nothing is known
    number = {leaf: index for index, leaf in enumerate(listed)}
    for cell in others:
        text = texts[cell]
        if text == WILDCARD:
            found: Sequence[int] = range(size)
        elif text in masks:
            found = under[text]
        else:
            values = groups.get(text) or _resolve_range(text, declared, name)
            found = [number[leaf] for leaf in values]
        if not found:
            raise DataError(
                f"Variable '{name}' has a cell that stands for none of its values.",
                hint="declare all levels in the schema, or none.",
            )
        members.append(np.array(found, np.int64))
        owners.append(np.full(len(found), cell))
    keys = np.unique(np.concatenate(owners) * size + np.concatenate(members))
    starts = np.searchsorted(keys, np.arange(len(texts) + 1) * size)
    return _CellLeaves(keys % size, starts, size)


def _are_sets(cells: pl.Series) -> pl.Series:
    return cells.str.starts_with("{") & cells.str.ends_with("}")


def _take_apart(cells: pl.Series, sets: pl.Series, values: pl.Series) -> pl.DataFrame:
    """The values that cells name: those of a set, or one."""
    numbered = pl.DataFrame({"leaf": cells, "cell": np.arange(len(cells))})
    members = pl.col("leaf").str.slice(1).str.strip_suffix("}").str.split(";")
    named = numbered.filter(sets).with_columns(members).explode("leaf")
    return pl.concat([numbered.filter(values), named])


def _parse_mask(text: str) -> tuple[str, int] | None:
    """The beginning of a masked code and how many characters are masked."""
    match = MASK.fullmatch(text)
    if not match or SET.fullmatch(text) or RANGE.fullmatch(text):
        return None
    return match[1], len(match[2])


def _list_leaves(named: pl.Series, first: list[str], broader: Iterable[str]) -> pl.Series:
    """Declared levels in their order, then whatever else occurs, in the order of the text.

    Values that only the hierarchy names are leaves too: a wildcard stands for them. After a step
    that generalised, declared levels may be groups: those are no leaves.
    """
    begin = pl.Series("leaf", first, dtype=pl.String).unique(maintain_order=True)
    more = pl.concat([named, pl.Series("leaf", list(broader), dtype=pl.String)]).unique()
    return pl.concat([begin, more.filter(~more.is_in(first)).sort()])


def _resolve_range(text: str, declared: list[str], name: str) -> list[str]:
    """The values of a range of declared levels.

    Where declared levels are ranges themselves, a wider one runs from the first end of one to the
    last end of another.
    """
    match = RANGE.fullmatch(text)
    if not match:
        return []
    firsts: dict[str, int] = {}
    lasts: dict[str, int] = {}
    for index, level in enumerate(declared):
        inner = RANGE.fullmatch(level)
        firsts |= {level: index} | ({inner[1]: index} if inner else {})
        lasts |= {level: index} | ({inner[2]: index} if inner else {})
    low, high = firsts.get(match[1], -1), lasts.get(match[2], -1)
    if low < 0 or high < low:
        raise DataError(
            f"Variable '{name}' has a range whose ends are not declared levels in their order.",
            hint="declare the levels, from low to high, in the schema.",
        )
    return declared[low : high + 1]


def _group_by_mask(
    leaves: list[str], masks: Masks, *, more: bool
) -> tuple[dict[str, list[int]], int]:
    """The leaves under each mask, and how many leaves there are in all.

    Unless all levels are declared, there are codes nobody has: a leaf for them belongs to the
    mask and to the wider ones. Masked digits end at 9, so that their codes can all be taken.
    """
    under: dict[str, list[int]] = {text: [] for text in masks}
    filled = dict.fromkeys(masks, 0)
    for index, leaf in enumerate(leaves):
        if wider := _narrowest_mask(leaf, len(leaf), masks):
            under[wider].append(index)
            filled[wider] += leaf.isdecimal()
    size = len(leaves)
    for text in sorted(
        masks, key=lambda text: (masks[text][1], text)
    ):  # the narrow before the wide
        start, stars = masks[text]
        codes = 10**stars if start.isdecimal() else 0
        # Of letters nobody knows how many there are, so some code always remains.
        if more and (not codes or filled[text] != codes):
            under[text].append(size)
            size += 1
        if wider := _narrowest_mask(start, len(text), masks):
            under[wider] += under[text]
            filled[wider] += codes
    return under, size


def _narrowest_mask(start: str, length: int, masks: Masks) -> str:
    """The narrowest mask of this length whose beginning is a shorter part of this one."""
    if not masks:
        return ""
    candidates = (start[:kept] + "*" * (length - kept) for kept in range(len(start) - 1, 0, -1))
    return next((mask for mask in candidates if mask in masks), "")


def _renumber(leaves: _CellLeaves) -> _CellLeaves:
    """Number leaves anew where that makes more cells intervals; nested cells all become so."""
    members, starts, size = leaves
    counts = np.diff(starts)
    last = members[starts[1:] - 1]
    if (counts == last - members[starts[:-1]] + 1).all():
        return leaves
    # Largest cells first: leaves in a cell stand before those that are not.
    several = np.flatnonzero((counts > 1) & (counts < size)).tolist()
    written = members.astype(">i8")  # its bytes have the order of the numbers
    several.sort(
        key=lambda cell: (-counts[cell], written[starts[cell] : starts[cell + 1]].tobytes())
    )
    of = np.repeat(np.arange(len(several)), counts[several])
    leaf = np.concatenate([members[starts[cell] : starts[cell + 1]] for cell in several])
    order = np.argsort(leaf, kind="stable")
    ranks = np.split(of[order].astype(">i8"), np.cumsum(np.bincount(leaf, minlength=size))[:-1])
    after_all = np.array(len(several), ">i8").tobytes()
    keys = [cells.tobytes() + after_all for cells in ranks]
    number = np.empty(size, np.int64)
    number[sorted(range(size), key=keys.__getitem__)] = np.arange(size)
    cell = np.repeat(np.arange(len(counts)), counts)
    return _CellLeaves(np.sort(cell * size + number[members]) % size, starts, size)


def _split_into_runs(leaves: _CellLeaves) -> CodeRuns:
    codes, begins, size = leaves
    begins_run = np.ones(len(codes), bool)
    begins_run[1:] = np.diff(codes) != 1
    begins_run[begins[:-1]] = True
    ends_run = np.append(begins_run[1:], True)[: len(codes)]
    starts = np.append(0, np.cumsum(begins_run))[begins]
    return CodeRuns(codes[begins_run], codes[ends_run], starts, size)


# Names that are new in the release ---------------------------------------------------------------


def add_renamed_groups(
    column: Column,
    levels: Sequence[str],
    values: pl.Series,
    now: pl.Series,
    at: Positions | None,
    after: Column | None,
) -> Column:
    """The declaration, with a group for every new name such as `other`, and for sets with one.

    A new name stands for the original levels that became it. A name that one level only became
    stays no level at all: it tells nothing by itself. Of an ordered variable, only what the
    release declares as a level or as a range of its levels is a name; all else is a value that
    cannot be.

    Parameters
    ----------
    column : what is known of the original variable.
    levels : the levels of the original.
    values, now : the variable before and after.
    at : where each original record stands in the release; None for row by row.
    after : what is known of the released variable.
    """
    known = {*levels, *group_names(column)}
    shown = column if after is None else after
    released = mark_literals(format_levels(now.drop_nulls().unique()).unique().to_list(), shown)
    # A range or a set of levels that the original has needs no name.
    cells = pl.Series("leaf", released, dtype=pl.String)
    values_of = _take_apart(cells, _are_sets(cells), ~_are_sets(cells))
    unlike = values_of.filter(~pl.col("leaf").is_in(list(known)))["cell"].unique().sort()
    named = [released[cell] for cell in unlike]
    new = [name for name in named if not _named_values(name) <= known and name not in known]
    if column.kind == "ordinal":
        declared = set(map(format_level, after.levels or ())) if after else set()
        new = [name for name in new if _named_values(name) <= known | declared]
    else:
        new = [name for name in new if _can_be_name(name)]
    if not new:
        return column
    was = mark_literal_values(format_levels(values), column)
    became = _find_origins(was, mark_literal_values(format_levels(now), shown), at, new, levels)
    members = {
        name: became.get(name, set()) | _named_values(name).intersection(levels) for name in new
    }
    for name in new:
        parts = (members.get(part, set()) for part in _named_values(name))
        members[name] = members[name].union(*parts)
    fewest = 1 if column.kind == "ordinal" else 2
    broader = dict(column.hierarchy or {})
    for name in sorted(name for name, origins in members.items() if len(origins) >= fewest):
        for level in sorted(members[name]):
            broader[level] = (*broader.get(level, ()), name)
    return replace(column, hierarchy=broader)


def _can_be_name(text: str) -> bool:
    if SET.fullmatch(text):
        return True
    return text != WILDCARD and not (RANGE.fullmatch(text) or MASK.fullmatch(text))


def _named_values(text: str) -> set[str]:
    """The values that a cell names: one, those of a set, or the ends of a range."""
    if match := SET.fullmatch(text):
        return set(match[1].split(";"))
    match = RANGE.fullmatch(text)
    return set(match.groups()) if match else {text}


def _find_origins(
    was: pl.Series,
    cells: pl.Series,
    at: Positions | None,
    new: Sequence[str],
    levels: Sequence[str],
) -> dict[str, set[str]]:
    """The original levels of the records that have each of the new names."""
    if at is not None:
        released = at >= 0
        was, cells = was.filter(pl.Series(released)), cells.gather(at[released])
    pairs = pl.DataFrame({"was": was, "now": cells}).filter(
        pl.col("now").is_in(list(new)) & pl.col("was").is_in(list(levels))
    )
    origins: dict[str, set[str]] = {}
    for level, name in pairs.unique().iter_rows():
        origins.setdefault(name, set()).add(level)
    return origins
