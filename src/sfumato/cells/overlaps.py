"""Cells that may stand for the same value: how many different values a class has at least.

A range, a set, a mask or a group of the hierarchy hides which of its values is the true one. So
`{hiv;flu}` beside `hiv` may be one disease, and three ranges that share a number may be one
income. At worst a class has as few values as are enough to hit all its cells.

Cells are runs on a line: numbers on a scale on which nearly equal ones lie within `WITHIN`, levels
by their codes. For ranges, the fewest points that hit all are found from left to right; for sets
with gaps by trying all, and where that takes too long, a bound from below is given.

How common the commonest values may be is bounded too. Cells that overlap, directly or by others in
between, are a group, and no value lies in two groups. In a group of n records of which at most m
can have the same value, no j values have more than j m. So n is cut into blocks of m: what
the blocks of all groups are distributed like majorises every possible distribution, and no
entropy or recursive l can be less than theirs.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from sfumato.cells.confidential import ConfidentialVariable
from sfumato.cells.notation import RANGE, SET, CellType, group_members, infer_cell_type
from sfumato.cells.text_numbers import read_text_numbers
from sfumato.data import Dataset
from sfumato.errors import DataError, SchemaError
from sfumato.kernels.arrays import Floats, Integers
from sfumato.schema import Column, Schema
from sfumato.schema.spelling import normalise_spelling

WITHIN = 0.5
"""How far nearly equal numbers lie apart at most on their scale."""
_TRIES = 5_000
"""Steps that are taken to find the fewest values of one class."""


def describe_overlap(name: str, written: int) -> str:
    """A warning that names the variable, and no value."""
    return (
        f"'{name}' has {written} different cells, some of which may stand for the same value. "
        "Targets are checked against as few different values as the cells allow."
    )


@dataclass(frozen=True, eq=False)
class CellMeanings:
    """What the distinct cells of a variable may stand for: runs on a line.

    Parameters
    ----------
    runs : of each cell both ends, inclusive, of every run; the lower is less by what is tolerated.
    tolerated : how far nearly equal values lie apart at most.
    """

    runs: list[list[tuple[float, float]]]
    tolerated: float = 0.0

    def __post_init__(self) -> None:
        # Runs of a cell that touch are one.
        object.__setattr__(self, "runs", [_join_runs(runs) for runs in self.runs])

    def __len__(self) -> int:
        return len(self.runs)

    @cached_property
    def overlapping(self) -> bool:
        """Whether groups of cells are more than one value: some cells of one share none."""
        counts = np.ones(len(self), np.int64)
        blocks = self.list_blocks(range(len(self)), counts)
        return len(blocks) > len(np.unique(self.find_groups()))

    def find_groups(self) -> Integers:
        """A number for each cell; those that overlap, directly or by others, have the same."""
        return _number_groups(self._group_runs(range(len(self)))[0])

    def find_narrow_groups(self) -> Integers:
        """The same for groups in which all values are nearly equal; other cells stay alone."""
        groups = self.find_groups()
        low, high = np.full(groups.max() + 1, np.inf), np.full(groups.max() + 1, -np.inf)
        np.minimum.at(low, groups, [runs[0][0] for runs in self.runs])
        np.maximum.at(high, groups, [runs[-1][1] for runs in self.runs])
        wide = (high - low > 2 * self.tolerated)[groups]
        alone = groups.max() + 1 + np.arange(len(groups))
        return _number_groups(np.where(wide, alone, groups).tolist())

    def _group_runs(self, cells: Sequence[int] | range) -> tuple[list[int], list[tuple[Any, ...]]]:
        """A representative for each cell of its group, and all runs from left to right."""
        runs = sorted(
            (low, high, index) for index, cell in enumerate(cells) for low, high in self.runs[cell]
        )
        parent = list(range(len(cells)))

        def find(index: int) -> int:
            while parent[index] != index:
                parent[index] = parent[parent[index]]
                index = parent[index]
            return index

        reach, last = -math.inf, -1
        for low, high, index in runs:
            if low <= reach:
                parent[find(index)] = find(last)
            if high > reach:
                reach, last = high, index
        return [find(index) for index in range(len(cells))], runs

    def list_blocks(
        self, cells: Sequence[int] | range, counts: Sequence[int] | Integers
    ) -> list[int]:
        """Sizes of blocks that majorise whatever the cells of a class may stand for.

        Parameters
        ----------
        cells : the distinct cells of the class.
        counts : how many records have each.
        """
        group_of, runs = self._group_runs(cells)
        size, most, now = dict.fromkeys(group_of, 0), dict.fromkeys(group_of, 0), 0
        for index, group in enumerate(group_of):
            size[group] += int(counts[index])
        # Groups follow each other on the line only where no cell has gaps: count each by itself.
        depth = dict.fromkeys(group_of, 0)
        ending: list[tuple[float, int]] = []
        for low, high, index in runs:
            while ending and ending[0][0] < low:
                now = heapq.heappop(ending)[1]
                depth[group_of[now]] -= int(counts[now])
            depth[group_of[index]] += int(counts[index])
            heapq.heappush(ending, (high, index))
            group = group_of[index]
            most[group] = max(most[group], depth[group])
        blocks: list[int] = []
        for group, records in size.items():
            full, remainder = divmod(records, most[group])
            blocks += [most[group]] * full + [remainder] * (remainder > 0)
        return blocks

    def write_codes(self) -> list[str]:
        """Each cell in notation, as a range or a set of whole numbers.

        Two cells have a number in common if and only if they may stand for the same value.
        """
        ends = np.unique([end for runs in self.runs for run in runs for end in run])
        texts = []
        for runs in self.runs:
            low, high = (np.searchsorted(ends, [run[side] for run in runs]) for side in (0, 1))
            if len(runs) == 1:
                texts.append(f"[{low[0]};{high[0]}]")
            else:
                codes = (
                    str(code) for a, b in zip(low, high, strict=True) for code in range(a, b + 1)
                )
                texts.append("{" + ";".join(codes) + "}")
        return texts

    def count_fewest(self, cells: Sequence[int]) -> int:
        """How many different values the cells of a class stand for at least.

        Examples
        --------
        >>> ranges = CellMeanings([[(1.0, 4.0)], [(3.0, 7.0)], [(6.0, 9.0)]])
        >>> ranges.count_fewest([0, 1, 2]), ranges.count_fewest([0, 2])
        (2, 2)
        """
        if any(len(self.runs[cell]) > 1 for cell in cells):
            return _hit_sets([self.runs[cell] for cell in cells])
        fewest, reach = 0, -math.inf
        for high, low in sorted((self.runs[cell][0][1], self.runs[cell][0][0]) for cell in cells):
            if low > reach:
                fewest, reach = fewest + 1, high
        return fewest


def _join_runs(runs: list[tuple[float, float]]) -> list[tuple[float, float]]:
    joined: list[tuple[float, float]] = []
    for low, high in sorted(runs):
        if joined and low <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(high, joined[-1][1])
        else:
            joined.append((low, high))
    return joined


def _number_groups(representatives: Sequence[int]) -> Integers:
    numbers: dict[int, int] = {}
    return np.array(
        [numbers.setdefault(group, len(numbers)) for group in representatives], np.int64
    )


def _hit_sets(cells: Sequence[Sequence[tuple[float, float]]]) -> int:
    """The fewest points that hit all cells, each of which may have gaps; or a bound from below."""
    # A point that hits some cells can move right to the nearest end without leaving one.
    points = sorted({high for runs in cells for _, high in runs})
    hits = {
        sum(1 << i for i, runs in enumerate(cells) if any(a <= point <= b for a, b in runs))
        for point in points
    }
    # A point that hits less than another is not needed.
    needed = [hit for hit in hits if not any(hit != other and hit & other == hit for other in hits)]
    everything = (1 << len(cells)) - 1
    widest = max(hit.bit_count() for hit in needed)
    best, tries = _cover_greedily(needed, everything), 0
    stack = [(everything, 0)]
    while stack:
        left, used = stack.pop()
        tries += 1
        if tries > _TRIES:
            return min(best, _count_apart(cells, widest))
        if not left:
            best = min(best, used)
            continue
        if used + -(-left.bit_count() // widest) >= best:
            continue
        choices = min(
            ([hit for hit in needed if hit >> i & 1] for i in range(len(cells)) if left >> i & 1),
            key=len,
        )
        # The one that hits most comes off the stack first.
        choices.sort(key=lambda hit: (hit & left).bit_count())
        stack += [(left & ~hit, used + 1) for hit in choices]
    return best


def _cover_greedily(hits: Sequence[int], everything: int) -> int:
    used, left = 0, everything
    while left:
        left &= ~max(hits, key=lambda hit: ((hit & left).bit_count(), hit))
        used += 1
    return used


def _count_apart(cells: Sequence[Sequence[tuple[float, float]]], widest: int) -> int:
    """Cells that share nothing with each other need a value each: a bound from below."""
    apart: list[Sequence[tuple[float, float]]] = []
    for runs in sorted(cells, key=lambda runs: (len(runs), max(b - a for a, b in runs))):
        if not any(a <= d and c <= b for a, b in runs for other in apart for c, d in other):
            apart.append(runs)
    return max(len(apart), -(-len(cells) // widest))


# Cells as runs -----------------------------------------------------------------------------------


def read_meanings(
    variable: ConfidentialVariable, column: Column, same_within: float
) -> CellMeanings | None:
    """What the cells of a confidential variable may stand for; None where all are single values.

    Examples
    --------
    >>> from sfumato.cells.confidential import encode_confidential
    >>> cells = pl.DataFrame({"ill": ["HIV", "{hiv}", "{flu;hiv}", "gout"]})
    >>> data = Dataset(cells, Schema({"ill": Column(kind="nominal", cells="generalised")}))
    >>> meanings = read_meanings(encode_confidential(data, "ill"), data.schema["ill"], 0.0)
    >>> meanings.count_fewest(range(4)), meanings.list_blocks(range(4), [1, 1, 1, 1])
    (2, [3, 1])
    """
    distinct = variable.distinct
    groups = group_members(column) if distinct.dtype == pl.String else {}
    if not variable.generalised and not (groups and distinct.is_in(list(groups)).any()):
        return None
    texts = distinct.to_list()
    try:
        kind = infer_cell_type(texts, column, variable.name)
        if kind == "level":
            return _read_levels(texts, column, variable.name)
    except (DataError, SchemaError):  # neither levels nor ranges of one kind
        kind = "number"
    return _read_numbers(texts, kind, variable.name, same_within)


def _read_levels(texts: list[str], column: Column, name: str) -> CellMeanings:
    """Levels, sets, masks and groups as runs of codes, whatever the spelling."""
    cells, spelt = spell_levels(texts, column)
    data = Dataset(pl.DataFrame({name: cells}), Schema({name: spelt}))
    from sfumato.cells.boxes import read_boxes  # loads numba, which most tables do not need

    boxes = read_boxes(data, [name])
    table = boxes.tables[0]
    starts = np.arange(len(table) + 1) if table.starts is None else table.starts
    runs = [
        [(float(table.low[run]), float(table.high[run])) for run in range(*starts[cell : cell + 2])]
        for cell in boxes.cells[0].tolist()
    ]
    return CellMeanings(runs)


def spell_levels(texts: list[str], column: Column) -> tuple[list[str], Column]:
    """Cells, and what is declared of them, with the values as a reader takes them."""
    levels = [*map(normalise_spelling, map(str, column.levels or ()))]
    tree = {
        normalise_spelling(leaf): tuple(map(normalise_spelling, groups))
        for leaf, groups in (column.hierarchy or {}).items()
    }
    declared = tuple(dict.fromkeys(levels)) or None
    spelt = replace(column, domain=declared, hierarchy=tree or None, missing=())
    spell = _spell_cell if column.generalised else normalise_spelling
    return [*map(spell, texts)], spelt


def _spell_cell(cell: str) -> str:
    """A cell with its values as a reader takes them, whatever their spelling."""
    if match := SET.fullmatch(cell):
        return "{" + ";".join(map(normalise_spelling, match[1].split(";"))) + "}"
    if match := RANGE.fullmatch(cell):
        return f"[{normalise_spelling(match[1])};{normalise_spelling(match[2])}]"
    return normalise_spelling(cell)


def _read_numbers(texts: list[str], kind: CellType, name: str, same_within: float) -> CellMeanings:
    """Numbers or dates as runs on their scale; what is neither lies apart from all of them."""
    cells: list[list[tuple[float, float] | str]] = []
    beyond: dict[str, int] = {}
    for text in texts:
        match = SET.fullmatch(text)
        runs = [_read_run(part, kind, name) for part in (match[1].split(";") if match else [text])]
        for part in (part for part in runs if isinstance(part, str)):
            beyond.setdefault(part, len(beyond))
        cells.append(runs)
    ends = np.array(
        [end for runs in cells for run in runs if not isinstance(run, str) for end in run]
    )
    within = WITHIN if kind == "number" and same_within else 0.0
    scaled = scale_numbers(ends, same_within) if within else np.unique(ends, return_inverse=True)[1]
    line = iter(scaled.ravel().tolist())
    top = 2.0 + max(scaled, default=0.0)
    return CellMeanings(
        [
            [
                (top + 2 * beyond[run], top + 2 * beyond[run])
                if isinstance(run, str)
                else (next(line) - within, next(line))
                for run in runs
            ]
            for runs in cells
        ],
        within,
    )


def _read_run(text: str, kind: CellType, name: str) -> tuple[float, float] | str:
    """Both ends of a number, a date or a range; other text as it is spelt."""
    from sfumato.cells.boxes import parse_intervals

    try:
        ((low, high),) = parse_intervals(text, kind, name)
        return float(low), float(high)
    except (DataError, OverflowError):
        numbers = read_text_numbers(pl.Series([text])) if kind == "number" else []
        if numbers and not numbers[0].units[0]:
            return numbers[0].numbers[0], numbers[0].numbers[0]
        return normalise_spelling(text)


def scale_numbers(numbers: Floats, same_within: float) -> Floats:
    """Numbers on a scale on which those that are nearly equal lie within `WITHIN`.

    Near zero it is linear in units of the spread, far from it logarithmic: there a step is a share
    of the number.
    """
    if not len(numbers):
        return numbers
    middle, most = len(numbers) // 2, len(numbers) * 9 // 10
    with np.errstate(over="ignore"):
        apart = np.abs(numbers - np.partition(numbers, middle)[middle])
    # How far nine in ten lie from their median at most; a few huge ones do not count.
    spread = float(np.partition(apart, most)[most])
    if not spread > 0 or not np.isfinite(spread):
        spread = float(apart.max()) if np.isfinite(apart.max()) else 0.0
    with np.errstate(over="ignore"):
        return np.asarray(np.arcsinh(numbers / (spread if spread > 0 else 1.0)) / (2 * same_within))
