"""Bins and grids: round edges that give no extreme away, counts, and small cells hidden."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.errors import PlanError
from sfumato.figures.public.distant import DistantColumn
from sfumato.figures.public.subjects import pool_groups
from sfumato.figures.sheet.text import format_rough_share
from sfumato.kernels.arrays import Floats, Integers
from sfumato.outputs.contributors import ALONE, Contributors, join_contributors
from sfumato.outputs.output import OutputRefused

if TYPE_CHECKING:
    from sfumato.figures.public.plot import Request
    from sfumato.figures.public.protected_values import ProtectedValues
    from sfumato.figures.public.protection import Protection
    from sfumato.figures.public.subjects import Subjects
    from sfumato.outputs.rules import Rules

Limits = tuple[float, float]
TwoLimits = tuple[Limits | None, Limits | None]

_NICE = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
_ONE_IN_BEYOND = 1000
"""One record in so many may lie beyond either limit."""
_TOLERANCE = 1e-9
_TINY = 1e-200
_FEWEST_BINS = 3
"""A grid of round edges about two ends, and off the extremes, may need so many bins."""
_WIDER = 1.5
"""A declared domain may be so many times as wide as the records reach, and still be the axis."""
_DIGITS = 12
_COMPILED_FROM = 200_000
"""Values for which a compiled count is worth the wait for the compiler."""
_SLICE = 1 << 16
_COARSEST = 2


# Edges -------------------------------------------------------------------------------------------


def resolve_bins(bins: int | None, default: int, records: int, rules: Rules) -> int:
    """The number of bins an axis gets; more than the data allow are refused."""
    most = max(1, int(records * rules.bins + _TOLERANCE))
    if bins is None:
        return min(default, most)
    if isinstance(bins, bool) or not isinstance(bins, int) or bins < 1:
        raise PlanError("bins is a whole number from 1.", hint=f"for instance bins={default}.")
    if bins > most:
        # The exact bound would tell the exact number of records.
        rough = most // 5 * 5 if most >= 5 else most  # noqa: PLR2004 - rough
        raise OutputRefused(
            f"{bins} bins are finer than these records allow.",
            hint=f"up to {rough} bins an axis are allowed, or leave bins out.",
        )
    return bins


def choose_edges(  # noqa: PLR0913 - all but four by name only
    values: Floats | DistantColumn,
    bins: int,
    limits: Limits | None = None,
    k: int = 3,
    *,
    domain: Limits | None = None,
    exact: bool = False,
    whole: bool = False,
    units: Contributors = ALONE,
) -> Floats:
    """Edges of the bins of one axis.

    Without limits they end at round numbers near quantiles that at least k records lie beyond,
    never at an extreme of the values but 0. A declared domain is the axis where the records fill
    most of it; of a wider one, they take the part that the records reach, and never go beyond it.

    Parameters
    ----------
    values : finite numbers, in any order.
    bins : how many bins; without limits, about so many, unless exact.
    limits : where the first bin begins and the last ends, taken as they are.
    k : at least so many records lie at or beyond the quantiles.
    domain : what is possible, as declared.
    exact : exactly so many bins, even where inner edges are no round numbers then.
    whole : the values are whole numbers: bins of whole width that begin at a half.
    units : whose each value is: then k of them lie beyond.

    Examples
    --------
    >>> import numpy as np
    >>> choose_edges(np.linspace(3.7, 18.2, 100), 5).tolist()
    [3.0, 6.0, 9.0, 12.0, 15.0, 18.0]
    """
    if limits is not None:
        low, high = check_limits(limits)
        return np.linspace(low, high, bins + 1)
    ends, extremes = _find_ends(values, k, units), (float(values.min()), float(values.max()))
    # Whole numbers lie in the middle of bins that begin at a half.
    shift = 0.5 if whole else 0.0
    for step in _list_round_steps((ends[1] - ends[0]) / bins, whole=whole):
        first, last = _span_in_steps(ends, extremes, step, shift)
        if last - first <= max(bins, _FEWEST_BINS):
            break
    edges = np.array([_round(index * step - shift) for index in range(first, last + 1)])
    if domain is not None:
        shifted = (domain[0] - shift, domain[1] + shift)
        edges = _fit_into_domain(edges, shifted, bins, extremes, whole=whole)
    if not (np.diff(edges) > 0).all():
        raise OutputRefused(
            "A variable varies so little for its size that it cannot be binned.",
            hint="subtract a constant, or take another unit.",
        )
    return np.linspace(edges[0], edges[-1], bins + 1) if exact else edges


def _span_in_steps(ends: Limits, extremes: Limits, step: float, shift: float) -> tuple[int, int]:
    """How many steps from zero the first and the last edge lie; neither is an extreme."""
    first = math.floor((ends[0] + shift) / step + _TOLERANCE)
    last = math.ceil((ends[1] + shift) / step - _TOLERANCE)
    # Data are often round themselves, and quotients a hair off. Zero is nobody's: where nothing is
    # negative, no bin is.
    while (edge := _round(first * step - shift)) > ends[0] or (edge == extremes[0] != 0):
        first -= 1
    while (edge := _round(last * step - shift)) == extremes[1] or edge < ends[1] or last <= first:
        last += 1
    return first, last


def _fit_into_domain(
    edges: Floats, domain: Limits, bins: int, extremes: Limits, *, whole: bool
) -> Floats:
    """Edges that do not leave the domain, or all of it where the records fill most."""
    low, high = domain
    if high - low <= _WIDER * (edges[-1] - edges[0]):
        if not whole:
            return np.linspace(low, high, bins + 1)
        step = math.ceil((high - low) / bins - _TOLERANCE)
        return np.arange(low, high + step * (1 - _TOLERANCE), step)
    step = edges[1] - edges[0]
    moved = edges + max(low - edges[0], 0.0) - max(edges[-1] - high, 0.0)
    if moved[0] != low and moved[0] == extremes[0]:
        moved = np.insert(moved, 0, moved[0] - step)
    if moved[-1] != high and moved[-1] == extremes[1]:
        moved = np.append(moved, moved[-1] + step)
    return np.array([_round(edge) for edge in moved])


def check_limits(limits: Limits) -> Limits:
    """Two finite numbers, the lower first."""
    try:
        low, high = (float(limit) for limit in limits)
    except (TypeError, ValueError):
        raise PlanError("limits are two numbers.", hint="limits=(low, high).") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise PlanError("limits are two finite numbers, the lower first.")
    return low, high


def count_beyond(protection: Protection) -> int:
    """How many values must lie at or beyond the limits of a grid.

    Of the original, k; protected values are nobody's, and a large k would only cut their tails.
    """
    return protection.k if protection.cells else min(protection.k, _FEWEST_BINS)


def are_extremes(values: Floats | DistantColumn, limits: Limits | None) -> bool:
    """Whether limits that somebody asked for are the extremes of the data themselves."""
    return limits is not None and bool(
        values.min() == float(limits[0]) or values.max() == float(limits[1])
    )


def _find_ends(values: Floats | DistantColumn, k: int, units: Contributors) -> Limits:
    """The smallest and largest value that at least k records reach; no single one sets them."""
    beyond = [max(k, math.ceil(len(values) / _ONE_IN_BEYOND))] * 2
    if units and isinstance(values, np.ndarray):
        order = units.sort(values)
        depths = [units.take(rows).find_depth(k) or len(values) for rows in (order, order[::-1])]
        beyond = [max(most, depth) for most, depth in zip(beyond, depths, strict=True)]
    first, last = (min(most, len(values)) for most in beyond)
    ranks = sorted({first - 1, max(len(values) - last, 0)})
    if isinstance(values, DistantColumn):
        ordered = values.order_statistics(np.array(ranks))
    else:
        ordered = np.partition(values, ranks)[ranks]
    low, high = float(ordered[0]), float(ordered[-1])
    if low == high:
        raise OutputRefused(
            "Nearly all records have the same value: a figure would show it.",
            hint="leave the variable out.",
        )
    return low, high


def _list_round_steps(least: float, *, whole: bool) -> Iterator[float]:
    """Round steps from the least upwards."""
    power = math.floor(math.log10(least))
    if not math.isfinite(least) or least * _TINY == 0:
        raise OutputRefused("The values reach too far, or not far enough, to be binned.")
    for more in itertools.count():
        for base in _NICE:
            step = _round(base * 10.0 ** (power + more))
            if step >= least * (1 - _TOLERANCE) and (not whole or step == round(step)):
                yield step


def _round(value: float) -> float:
    # 3 * 0.1 is 0.3 at an axis.
    return float(f"{value:.{_DIGITS}g}")


# Counts ------------------------------------------------------------------------------------------


def count_cells(columns: Sequence[Any], cuts: Sequence[Floats]) -> Integers:
    """How many records each bin or cell holds; the last bin holds its right end too.

    Parameters
    ----------
    columns : the values by one or two variables, in memory or not.
    cuts : the edges of each axis. What lies beyond them is not counted.
    """
    if isinstance(columns[0], DistantColumn):
        names = [column.name for column in columns]
        return columns[0].count(names, partial(count_cells, cuts=cuts))
    if len(columns[0]) >= _COMPILED_FROM:
        from sfumato.kernels import bins

        return bins.count_cells(columns, cuts)
    shape = tuple(len(edges) - 1 for edges in cuts)
    total = np.zeros(math.prod(shape) + 1, np.int64)
    for start in range(0, len(columns[0]), _SLICE):
        rows = slice(start, start + _SLICE)
        cells = find_cells([values[rows] for values in columns], cuts)
        total += np.bincount(cells + 1, minlength=len(total))
    return total[1:].reshape(shape)


def find_cells(columns: Sequence[Floats], cuts: Sequence[Floats]) -> npt.NDArray[np.int64]:
    """The cell of each record, counted along the axes; -1 where it lies beyond them."""
    cell = np.zeros(len(columns[0]), np.int64)
    for values, edges in zip(columns, cuts, strict=True):
        index = np.searchsorted(edges, values, side="right") - 1
        index[values == edges[-1]] = len(edges) - 2
        beyond = (index < 0) | (index > len(edges) - 2)
        cell = np.where(beyond | (cell < 0), -1, cell * (len(edges) - 1) + index)
    return cell


def label_records(
    columns: Sequence[Sequence[Floats]],
    cuts: Sequence[Sequence[Floats]],
    shown: Sequence[Integers],
) -> list[npt.NDArray[np.int64]]:
    """For the log: the cell of each record, group after group; below 0 where it is not shown.

    Parameters
    ----------
    columns : by group, the values of each axis.
    cuts : by group, the edges of each axis.
    shown : by group, the counts, 0 where hidden.
    """
    labels, first = [], 1
    for values, edges, counts in zip(columns, cuts, shown, strict=True):
        cell = find_cells(values, edges)
        is_shown = np.append(counts.ravel() > 0, False)[cell]  # -1, beyond the edges, is the last
        label = first + cell
        labels.append(np.where(is_shown, label, -label - 1))
        first += counts.size + 1
    return [np.concatenate(labels)]


def suppress_small(counts: Integers, k: int) -> tuple[Integers, int]:
    """The counts without those from 1 to k - 1, and how many cells that hides.

    Examples
    --------
    >>> import numpy as np
    >>> suppress_small(np.array([0, 2, 3]), 3)
    (array([0, 0, 3]), 1)
    """
    small = (counts > 0) & (counts < k)
    return np.where(small, 0, counts), int(small.sum())


def round_shown(counts: Integers, rules: Rules) -> Integers:
    """The counts of a group as the rules let them be drawn, once small ones are hidden."""
    rounded = rules.round_counts(counts).astype(np.int64)
    if not rounded.any():
        raise OutputRefused(
            "Rounded as the rules ask, every bar would be empty.", hint="take fewer bars or groups."
        )
    return rounded


def count_large_cells(
    columns: Sequence[Any], cuts: Sequence[Floats], k: int, units: Contributors = ALONE
) -> tuple[Integers, int]:
    """The counts of cells without small ones, and how many cells that hides.

    Small are cells of fewer than k records. Where persons or groups are counted, those of fewer
    than k of these are, and those in which one or a few have most of the records.

    Parameters
    ----------
    columns, cuts : as of `count_cells`.
    k : fewest records, or units; 1 hides nothing.
    units : whose each record is.
    """
    counts = count_cells(columns, cuts)
    if not units or k <= 1:
        return suppress_small(counts, k)
    cells = find_cells(columns, cuts)
    small = units.find_small(cells, counts.size, k).reshape(counts.shape)
    return np.where(small, 0, counts), int(small.sum())


def merge_small_bins(
    values: Floats | DistantColumn,
    k: int,
    bins: int,
    limits: Limits | None = None,
    *,
    domain: Limits | None = None,
    whole: bool = False,
    units: Contributors = ALONE,
) -> tuple[Floats, Integers]:
    """Unequal bins with round edges, every bar of at least k records or units, the shape kept.

    It begins with equal bins. Those with few records are joined with a neighbour, the pair first
    whose densities differ least, so that the tails become wide and the middle stays as it was.
    """
    cuts = choose_edges(values, bins, limits, k, domain=domain, whole=whole, units=units)
    counts = count_cells([values], [cuts])
    if units and isinstance(values, np.ndarray):
        cells = find_cells([values], [cuts])
        inside = np.flatnonzero(cells >= 0)
        cells, units = cells[inside], units.take(inside)
    while True:
        small = (counts > 0) & (counts < k)
        if units:
            small = units.find_small(cells, len(counts), k)
        if not small.any() or len(counts) == 1:
            return cuts, np.where(small, 0, counts)
        index = _find_cheapest_pair(counts, np.diff(cuts), small)
        counts[index] += counts[index + 1]
        counts = np.delete(counts, index + 1)
        cuts = np.delete(cuts, index + 1)
        if units:
            cells = np.where(cells > index, cells - 1, cells)


def _find_cheapest_pair(counts: Integers, widths: Floats, small: npt.NDArray[np.bool_]) -> int:
    """Which two neighbours to join: the step function then changes least (in squares)."""
    density = counts / widths
    cost = widths[:-1] * widths[1:] / (widths[:-1] + widths[1:]) * np.diff(density) ** 2
    cost[~(small[:-1] | small[1:])] = np.inf
    return int(np.argmin(cost))


# Grids of two variables --------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The cells of one group.

    Parameters
    ----------
    label : of the group.
    x, y : the edges of the cells.
    counts : how many values each cell holds; 0 where they are too few.
    hidden : how many cells hold too few.
    records : how many values the group has.
    notes : sentences for the caption.
    """

    label: str
    x: Floats = field(repr=False)
    y: Floats = field(repr=False)
    counts: Integers = field(repr=False)
    hidden: int
    records: int
    notes: tuple[str, ...] = ()

    @property
    def lost(self) -> int:
        """How many values are in no cell that is shown."""
        return self.records - int(self.counts.sum())

    def centres(self) -> tuple[Floats, Floats, Integers]:
        """The middle of each cell that is shown, and its count."""
        rows, columns = np.nonzero(self.counts)
        middle_x, middle_y = (self.x[:-1] + self.x[1:]) / 2, (self.y[:-1] + self.y[1:]) / 2
        return middle_x[rows], middle_y[columns], self.counts[rows, columns]

    def table(self, *, grouped: bool) -> pl.DataFrame:
        """The cells that are shown, one a row."""
        rows, columns = np.nonzero(self.counts)
        table: dict[str, Any] = {"group": [self.label] * len(rows)} if grouped else {}
        for axis, cuts, index in (("x", self.x, rows), ("y", self.y, columns)):
            table |= {f"{axis}_low": cuts[index], f"{axis}_high": cuts[index + 1]}
        return pl.DataFrame({**table, "records": self.counts[rows, columns]})


def check_two_limits(first: str, second: str, limits: Any) -> TwoLimits:
    """The limits of the axes of two variables; either may be None."""
    if first == second:
        raise PlanError("x and y are the same variable.", hint="take a histogram of it.")
    if limits is None:
        return None, None
    try:
        x, y = limits
    except (TypeError, ValueError):
        raise PlanError(
            "limits of two axes are two pairs.", hint="limits=((0, 100), None)."
        ) from None
    return (None if x is None else check_limits(x), None if y is None else check_limits(y))


def judge_limits(subjects: Subjects, limits: Sequence[Limits | None]) -> tuple[str, ...]:
    """Why limits that were asked for need a second look: they may be extremes of the data."""
    extreme = [
        are_extremes(subjects.column(name), limit)
        for name, limit in zip(subjects.names, limits, strict=False)
    ]
    axis = "the axis" if len(limits) == 1 else "an axis"
    return (f"The limits of {axis} are extremes of the data themselves.",) if any(extreme) else ()


def make_grids(
    subjects: Subjects,
    protection: Protection,
    request: Request,
    *,
    default: int,
    limits: TwoLimits = (None, None),
    points: Sequence[ProtectedValues] | None = None,
) -> list[Grid]:
    """The cells of every group on one common grid.

    Parameters
    ----------
    subjects : the records; their variables are the two axes.
    protection : as resolved.
    request : what was asked for: exactly so many bins, and whether small cells are shown.
    default : bins an axis where nobody asked; half as many where no cell would be shown.
    limits : of the axes, where somebody gave them.
    points : protected values, where they are known already.
    """
    names, exact = subjects.names, request.bins is not None
    bins = resolve_bins(request.bins, default, subjects.fewest, request.rules)
    if protection.cells:
        columns = [[group.column(name) for name in names] for group in subjects.groups]
        notes: list[tuple[str, ...]] = [()] * len(columns)
        units = [group.units for group in subjects.groups]
    else:
        values = request.protect(subjects, protection) if points is None else points
        columns = [[group.column(name) for name in names] for group in values]
        notes = [group.notes() for group in values]
        units = [group.units for group in values]
    pooled = [pool_groups(groups) for groups in zip(*columns, strict=True)]
    domains = [subjects.bounds(name) for name in names]
    whole = [protection.cells and subjects.is_integer(name) and not exact for name in names]
    beyond, whose = count_beyond(protection), join_contributors(units)
    while True:
        cuts = [
            choose_edges(values, bins, ends, beyond, domain=domain, exact=exact, whole=whole_steps,
                         units=whose)
            for values, ends, domain, whole_steps in zip(
                pooled, limits, domains, whole, strict=True
            )
        ]  # fmt: skip
        grids = [
            _make_grid(
                group.label, values, cuts,
                count_large_cells(values, cuts, request.least, own), sentences,
            )
            for group, values, own, sentences in zip(
                subjects.groups, columns, units, notes, strict=True
            )
        ]  # fmt: skip
        if all(grid.counts.any() for grid in grids):
            return grids
        if exact or bins <= _COARSEST:
            raise OutputRefused(
                f"Not one cell would hold enough {protection.unit}.",
                hint="take fewer bins, or another protection.",
            )
        # Nobody asked for so fine a grid.
        bins //= 2


def _make_grid(
    label: str,
    columns: Sequence[Floats | DistantColumn],
    cuts: Sequence[Floats],
    cells: tuple[Integers, int],
    notes: tuple[str, ...],
) -> Grid:
    counts, hidden = cells
    return Grid(
        label=label,
        x=cuts[0],
        y=cuts[1],
        counts=counts,
        hidden=hidden,
        records=len(columns[0]),
        notes=notes,
    )


def label_records_of_grids(
    subjects: Subjects, protection: Protection, grids: Sequence[Grid] | None
) -> list[Any] | None:
    """For the log: in which cell each record is; only where cells count the original's."""
    if not protection.cells or grids is None:
        return None
    return label_records(
        [[group.column(name) for name in subjects.names] for group in subjects.groups],
        [(grid.x, grid.y) for grid in grids],
        [grid.counts for grid in grids],
    )


def describe_lost(lost: float, records: int, k: int) -> list[str]:
    """What is in no bar or cell that is shown, as a rounded share."""
    if not lost:
        return []
    return [f"Not shown: {format_rough_share(lost / records, records=records, k=k)} of the values."]


def describe_lost_of_grids(grids: Sequence[Grid], k: int) -> list[str]:
    """What is in no cell that is shown, as a rounded share."""
    records = sum(grid.records for grid in grids)
    return describe_lost(sum(grid.lost for grid in grids), records, k)


def count_grid_cells(grids: Sequence[Grid]) -> dict[str, int]:
    """How many cells there are and how many are hidden, for the custodian."""
    return {
        "cells": sum(grid.counts.size for grid in grids),
        "suppressed": sum(grid.hidden for grid in grids),
    }


def count_bins(grids: Sequence[Grid]) -> int:
    """How many bins the longer axis has."""
    return max(len(grids[0].x), len(grids[0].y)) - 1
