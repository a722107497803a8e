"""What one variable lost between the original and the release.

A variable is read by the original's kind, each cell as what it may stand for. The loss is how far
the released cell reaches beyond the original one: for a single value and a range that is the end
farther from the value (Sánchez, Martínez & Domingo-Ferrer 2016, Eq. 4), and what the original
leaves open already is no loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from sfumato.cells.intervals import Intervals, are_same_cells, read_intervals
from sfumato.cells.level_sets import (
    NUMBER_TYPES,
    LevelSets,
    add_renamed_groups,
    list_distinct_texts,
    list_levels,
    list_ranked_levels,
    read_bounds,
    read_level_sets,
)
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Codes, Floats, Integers, Mask
from sfumato.kernels.exact_sums import exact_mean, exact_sum
from sfumato.kernels.memory import look_up, split_rows
from sfumato.pairs.alignment import PairedRows, encode_cells
from sfumato.schema import Column
from sfumato.units import count_codes

Cells = Any
"""Numbers of cells, or all of them in turn."""
_PAIRS = 1 << 22
"""Pairs of an original and a released cell that are looked up, not sorted."""


@dataclass(frozen=True, eq=False)
class VariableLoss:
    """What a variable lost, and how it was read.

    Parameters
    ----------
    name : the variable.
    lost : what it lost.
    code : for each released record a number for its cell; None where the release dropped it.
    extremes : whether cells without a value took what the original holds as the domain.
    """

    name: str
    lost: CellLosses
    code: tuple[Codes, int] | None
    extremes: bool


def measure_variable_loss(rows: PairedRows, name: str) -> VariableLoss | None:
    """What a variable lost; None where the original has no value that could be lost."""
    original, released, match = rows.original, rows.released, rows.match
    values = original.column(name)
    after = released.column(name) if name in released.columns else None
    column = _add_hierarchy(original.schema[name], released.schema.get(name))
    after_values = (
        pl.Series(name, [None] * len(released), dtype=pl.String) if after is None else after
    )
    levels = _list_levels(values, column)
    if after is not None and levels:
        column = add_renamed_groups(
            column, levels, values, after_values, match, released.schema.get(name)
        )
    shown = _declare_released_cells(column, released.schema.get(name))
    if column.kind in (*NUMBER_TYPES, "ordinal"):
        both = (column, shown)
        return _measure_numeric(values, after_values, both, rows, dropped=after is None)
    original_cells = read_level_sets(values, levels, column)
    cells = read_level_sets(after_values, levels, shown)
    if original_cells.open[original_cells.of].all():
        return None
    code = None if after is None else encode_cells(cells)
    matched = cells.take(match)
    lost = measure_level_loss(name, original_cells, matched, len(levels), rows.counts)
    unknown = bool(matched.open[matched.of].any())
    return VariableLoss(name, lost, code, unknown and not column.levels)


def _add_hierarchy(column: Column, after: Column | None) -> Column:
    """The original's declaration; a hierarchy may have come with the release."""
    if column.hierarchy is None and after is not None and after.hierarchy is not None:
        return replace(column, hierarchy=after.hierarchy)
    return column


def _declare_released_cells(column: Column, after: Column | None) -> Column:
    """How released cells are read: on the original's scale, as notation where a step made it."""
    return column if after is None else replace(column, cells=after.cells)


def _list_levels(values: pl.Series, column: Column) -> list[str]:
    """The levels of a variable that has some; of an ordinal one, from low to high."""
    if column.kind in NUMBER_TYPES:
        return []
    return list_levels(
        list_distinct_texts(values), column, values.name, ordered=column.kind == "ordinal"
    )


def _measure_numeric(
    values: pl.Series,
    released_values: pl.Series,
    columns: tuple[Column, Column],
    rows: PairedRows,
    *,
    dropped: bool,
) -> VariableLoss | None:
    column, shown = columns
    original_cells = read_bounds(values, column, values)
    if original_cells.per_record(original_cells.open).all():
        return None
    cells = read_bounds(released_values, shown, values)
    matched = cells.take(rows.match)
    domain, declared = _find_domain(values, column, original_cells)
    unknown = bool(matched.per_record(matched.open).any())
    lost = measure_number_loss(values.name, original_cells, matched, domain, rows.counts)
    return VariableLoss(
        values.name, lost, None if dropped else encode_cells(cells), unknown and not declared
    )


def _find_domain(
    values: pl.Series, column: Column, cells: Intervals
) -> tuple[tuple[float, float], bool]:
    """The declared domain, else the smallest and largest value; and whether it was declared."""
    if column.kind == "ordinal":
        return (0.0, float(len(list_ranked_levels(values, column)) - 1)), bool(column.levels)
    if column.bounds is not None:
        kind = NUMBER_TYPES[column.kind or ""]
        ends = read_intervals(pl.Series(values.name, list(column.bounds)), Column(), kind)
        low, high = ends.per_record(ends.low)
        return (float(low), float(high)), True
    known = ~cells.open
    return (float(cells.low[known].min()), float(cells.high[known].max())), False


# Losses of numbers and of levels


@dataclass(frozen=True, eq=False)
class CellPairs:
    """The pairs of an original and a released cell that occur.

    Parameters
    ----------
    of : which pair each record has; None where every record counts as a pair of its own.
    first, second : the original and the released cell of each pair.
    times : how many records have it.
    """

    of: Codes | None = field(repr=False)
    first: Cells = field(repr=False)
    second: Cells = field(repr=False)
    times: Integers = field(repr=False)


@dataclass(frozen=True, eq=False)
class CellLosses:
    """The loss of one variable.

    Parameters
    ----------
    of : which of the distances each record has; None where every record has its own.
    moved : how far a cell moved, in standard deviations of the original.
    mean_moved : its mean over the records.
    granularity : over all cells, the share of the domain that each leaves open, in sum.
    generalised : how many cells were changed or generalised: no longer just what they were.
    bits : over all cells, the bits (non-uniform entropy) lost.
    most_bits : the same if every cell were suppressed.
    """

    of: Codes | None = field(repr=False)
    moved: Floats = field(repr=False)
    mean_moved: float
    granularity: float
    generalised: int
    bits: float
    most_bits: float

    def squares(self) -> Floats:
        """The squared distance of each record."""
        squares = self.moved * self.moved
        return squares if self.of is None else look_up(squares, self.of)


def measure_number_loss(
    name: str,
    original: Intervals,
    released: Intervals,
    domain: tuple[float, float],
    counts: Integers | None = None,
) -> CellLosses:
    """The loss of numbers, dates or ranks; `counts` are the records each row stands for."""
    pairs = _count_pairs(original.of, released.of, (len(original.low), len(released.low)), counts)
    first, second = pairs.first, pairs.second
    low, high = (
        np.where(released.open, end, ends)
        for end, ends in zip(domain, (released.low, released.high), strict=True)
    )
    moved = np.maximum(original.low[first] - low[second], high[second] - original.high[first])
    moved = _standardise(name, np.maximum(moved, 0.0), _deviation(original, counts))
    width = domain[1] - domain[0]
    before, after = (
        _measure_widths(original, width)[first],
        _measure_widths(released, width)[second],
    )
    share = (after - before) / width if width > 0 else (after > before).astype(float)
    changed = ~are_same_cells(original, released, first, second) & ~original.open[first]
    return _sum_losses(
        pairs, moved, np.clip(share, 0.0, 1.0), changed, _measure_bits(original, released, pairs)
    )


def _sum_losses(
    pairs: CellPairs, moved: Floats, share: Floats, changed: Mask, bits: tuple[float, float]
) -> CellLosses:
    return CellLosses(
        of=pairs.of,
        moved=moved,
        mean_moved=exact_sum(moved * pairs.times) / int(pairs.times.sum()),
        granularity=exact_sum(share * pairs.times),
        generalised=int(pairs.times[changed].sum()),
        bits=bits[0],
        most_bits=bits[1],
    )


def _count_pairs(
    original: Codes | None,
    released: Codes | None,
    cells: tuple[int, int],
    times: Integers | None,
) -> CellPairs:
    """The pairs of cells, counted where there are few."""
    if original is None or released is None or cells[0] * cells[1] > max(_PAIRS, len(original)):
        first, second = (slice(None) if of is None else of for of in (original, released))
        records = next(len(of) for of in (original, released, range(cells[0])) if of is not None)
        return CellPairs(
            None, first, second, np.ones(records, np.int64) if times is None else times
        )
    # Few enough pairs to be counted in a table instead of sorted.
    keys = original * np.int32(cells[1])
    keys += released
    counts = count_codes(keys, times, cells[0] * cells[1])
    used = np.flatnonzero(counts)
    number = np.zeros(len(counts), np.int32)
    number[used] = np.arange(len(used))
    for part in split_rows(len(keys)):
        keys[part] = number[keys[part]]
    return CellPairs(keys, used // cells[1], used % cells[1], counts[used])


def _deviation(cells: Intervals, counts: Integers | None) -> float:
    """The standard deviation over all records of the data set (with n), ranges at their middle."""
    middles = cells.cell_midpoints()
    known = ~np.isnan(middles)
    if cells.of is not None:
        times = count_codes(cells.of, counts, len(known))
    else:
        times = np.ones(len(known), np.int64) if counts is None else counts
    known &= times > 0
    values, times = middles[known], times[known]
    if not len(values) or values.min() == values.max():
        return 0.0
    records = int(times.sum())
    # Exact sums: the same for every order of the records.
    deviations = values - exact_mean(values * times) * (len(values) / records)
    # Over a power of two, so that no square is beyond all floats.
    power = math.frexp(float(np.abs(deviations).max()))[1]
    return math.ldexp(
        math.sqrt(exact_sum(np.ldexp(deviations, -power) ** 2 * times) / records), power
    )


def _standardise(name: str, moved: Floats, spread: float) -> Floats:
    if spread > 0:
        with np.errstate(over="ignore"):
            moved /= spread
    elif moved.any():
        raise MeasureError(
            f"Variable '{name}' has one value in the original and more in the release, so there is "
            "no spread to count the loss in.",
            hint="leave it out of `variables`.",
        )
    if not np.isfinite(moved).all():
        raise MeasureError(
            f"Variable '{name}' changed by more than can be counted in its own spread.",
            hint="leave it out of `variables`, or look at its values.",
        )
    return moved


def _measure_widths(cells: Intervals, domain: float) -> Floats:
    """How much each cell leaves open; a set of whole numbers as many as it has, less one."""
    widths = np.where(cells.open, domain, cells.high - cells.low)
    for index, members in cells.sets.items():
        if (members == np.floor(members)).all():
            widths[index] = len(members) - 1
    return widths


def _measure_bits(
    original: Intervals, released: Intervals, pairs: CellPairs
) -> tuple[float, float]:
    """The non-uniform entropy lost, and what suppressing everything would lose.

    A released cell that does not hold the original value tells nothing of it.
    """
    point = (original.low == original.high)[pairs.first]
    values, times = original.low[pairs.first][point], pairs.times[point]
    originals = (
        pl.DataFrame({"value": values, "times": times}).group_by("value").agg(pl.sum("times"))
    )
    if not originals.height:
        return 0.0, 0.0
    originals = originals.sort("value")
    counts = originals["times"].to_numpy()
    records = int(counts.sum())
    cell = np.arange(len(released.low))[pairs.second][point]
    covers = (
        (released.low[cell] <= values)
        & (values <= released.high[cell])
        & _find_members(released, cell, values)
    )
    sizes = _count_coverage(released, originals["value"].to_numpy(), counts)[cell]
    after = _sum_logs(np.where(covers, sizes, records), times)
    before = _sum_logs(counts, counts)
    return after - before, records * math.log2(records) - before


def _sum_logs(sizes: Integers, times: Integers) -> float:
    """The sum of the sizes' logarithms; equal sizes together, so that equal sums are equal."""
    counted = pl.DataFrame({"size": sizes, "times": times}).group_by("size").agg(pl.sum("times"))
    return math.fsum(counted["times"].to_numpy() * np.log2(counted["size"].to_numpy()))


def _count_coverage(cells: Intervals, table: Floats, counts: Integers) -> Integers:
    """How many original records have a value that each cell may stand for."""
    # Cumulative counts: the records between two values are a difference.
    before = np.concatenate([[0], np.cumsum(counts)])
    first, after = (
        np.searchsorted(table, end, side=side)  # type: ignore[call-overload]
        for end, side in ((cells.low, "left"), (cells.high, "right"))
    )
    covered: Integers = before[after] - before[first]
    for index, members in cells.sets.items():
        covered[index] = counts[np.isin(table, members)].sum()
    return covered


def _find_members(cells: Intervals, cell: Integers, values: Floats) -> Mask:
    """Whether each value is in its cell, as far as that is a set."""
    fits = np.ones(len(values), bool)
    if not cells.sets:
        return fits
    among = np.flatnonzero(np.isin(cell, list(cells.sets)))
    members = pl.DataFrame(
        {
            "cell": np.repeat(list(cells.sets), [len(group) for group in cells.sets.values()]),
            "value": np.concatenate(list(cells.sets.values())),
        }
    )
    wanted = pl.DataFrame({"cell": cell[among], "value": values[among]})
    matches = wanted.with_row_index("at").join(members, on=["cell", "value"], how="semi")
    fits[among] = False
    fits[among[matches["at"].to_numpy()]] = True
    return fits


def measure_level_loss(
    name: str,
    original: LevelSets,
    released: LevelSets,
    levels: int,
    times: Integers | None = None,
) -> CellLosses:
    """The loss of categories: every level is as far from every other."""
    single = original.single_levels()
    cells = count_codes(original.of, times, len(single))
    counts = np.zeros(levels, np.int64)
    np.add.at(counts, single[single >= 0], cells[single >= 0])
    records = int(counts.sum())
    apart = records**2 - sum(count**2 for count in counts.tolist())
    # The distance of two indicator vectors over the spread of the indicators.
    unit = math.sqrt(2 * records**2 / apart) if apart else 0.0
    pairs = _count_distinct_pairs(original, released, times)
    first, second = pairs.first, pairs.second
    # All levels are equally far apart: a cell either still says the same or moved one unit.
    gone = ~_is_no_wider(original, released, first, second)
    moved = _standardise(name, np.where(gone, unit or 1.0, 0.0), 1.0 if unit else 0.0)
    shares = [_open_shares(cells, levels) for cells in (original, released)]
    share = np.clip(shares[1][second] - shares[0][first], 0.0, 1.0)
    changed = gone | (released.counts[second] != original.counts[first])
    bits = _measure_level_bits(released, single[first], second, pairs.times, counts)
    return _sum_losses(pairs, moved, share, changed & ~original.open[first], bits)


def _count_distinct_pairs(
    original: LevelSets, released: LevelSets, times: Integers | None
) -> CellPairs:
    sizes = len(original.open), len(released.open)
    pairs = _count_pairs(original.of, released.of, sizes, times)
    if pairs.of is not None:
        return pairs
    cells = len(released.open)
    keys = original.of.astype(np.int64) * cells + released.of
    used, of = np.unique(keys, return_inverse=True)
    number = of.ravel().astype(np.int32)
    return CellPairs(number, used // cells, used % cells, count_codes(number, times))


def _is_no_wider(
    original: LevelSets, released: LevelSets, first: Integers, second: Integers
) -> Mask:
    """Whether the released cell stands for nothing that the original one does not."""
    before, after = original.single_levels()[first], released.single_levels()[second]
    same: Mask = ((before == after) & (before >= 0)) | original.open[first]
    for pair in np.flatnonzero(
        (before < 0) & ~original.open[first] & ~released.open[second]
    ).tolist():
        before_cell, after_cell = first[pair], second[pair]
        after_levels, before_levels = (
            cells.levels[cells.starts[cell] : cells.starts[cell + 1]]
            for cells, cell in ((released, after_cell), (original, before_cell))
        )
        known = not released.beyond[after_cell] and bool(np.isin(after_levels, before_levels).all())
        same[pair] = known or original.texts[before_cell] == released.texts[after_cell]
    return same


def _open_shares(cells: LevelSets, levels: int) -> Floats:
    """The share of the domain that each cell leaves open: 0 for one level, 1 for all."""
    open_levels = np.where(cells.open, levels, cells.counts)
    shares: Floats = np.maximum(open_levels - 1, 0) / max(levels - 1, 1)
    return shares


def _measure_level_bits(
    released: LevelSets, level: Integers, cell: Integers, times: Integers, counts: Integers
) -> tuple[float, float]:
    point = level >= 0
    level, cell, times = level[point], cell[point], times[point]
    if not len(level):
        return 0.0, 0.0
    # Levels rise within a cell, so cell and level together rise throughout.
    keys = np.repeat(np.arange(len(released.open)), released.counts) * len(counts) + released.levels
    wanted = cell * len(counts) + level
    index = np.searchsorted(keys, wanted).clip(0, len(keys) - 1)
    covers = keys[index] == wanted
    records = int(counts.sum())
    size = np.where(covers, released.sum_by_cell(counts)[cell], records)
    before = _sum_logs(counts[level], times)
    return _sum_logs(size, times) - before, records * math.log2(records) - before
