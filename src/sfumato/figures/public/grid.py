"""Bins and grids: round edges that give no extreme away, counts, and small cells hidden."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sfumato.errors import PlanError
from sfumato.kernels.arrays import Floats, Integers
from sfumato.outputs.judged import OutputRefused

if TYPE_CHECKING:
    from sfumato.figures.public.protection import Protection
    from sfumato.outputs.rules import Rules

Limits = tuple[float, float]

_NICE = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
_BEYOND = 1000
"""One record in so many may lie beyond either limit."""
_HAIR = 1e-9
_TINY = 1e-200
_LEAST = 3
"""A grid of round edges about two ends, and off the extremes, may need so many bins."""
_WIDER = 1.5
"""A declared domain may be so many times as wide as the records reach, and still be the axis."""
_DIGITS = 12
_MANY = 200_000
"""Values for which a compiled count is worth the wait for the compiler."""
_SLICE = 1 << 16


def allowed_bins(bins: int | None, default: int, records: int, rules: Rules) -> int:
    """The number of bins an axis gets; more than the data allow are refused."""
    most = max(1, int(records * rules.bins + _HAIR))
    if bins is None:
        return min(default, most)
    if isinstance(bins, bool) or not isinstance(bins, int) or bins < 1:
        raise PlanError("bins is a whole number from 1.", hint=f"for instance bins={default}.")
    if bins > most:
        # The exact bound would tell the exact number of records.
        told = most // 5 * 5 if most >= 5 else most  # noqa: PLR2004 - rough
        raise OutputRefused(
            f"{bins} bins are finer than these records allow.",
            hint=f"up to {told} bins an axis are allowed, or leave bins out.",
        )
    return bins


def edges(
    values: Floats,
    bins: int,
    limits: Limits | None = None,
    k: int = 3,
    *,
    domain: Limits | None = None,
    exact: bool = False,
    whole: bool = False,
) -> Floats:
    """Edges of the bins of one axis.

    Without limits they end at round numbers near quantiles that at least k records lie beyond,
    never at an extreme of the values. A declared domain is the axis where the records fill most
    of it; of a wider one, they take the part that the records reach, and never go beyond it.

    Parameters
    ----------
    values : finite numbers, in any order.
    bins : how many bins; without limits, about so many, unless exact.
    limits : where the first bin begins and the last ends, taken as they are.
    k : at least so many records lie at or beyond the quantiles.
    domain : what is possible, as declared.
    exact : exactly so many bins, even where inner edges are no round numbers then.
    whole : the values are whole numbers: bins of whole width that begin at a half.

    Examples
    --------
    >>> import numpy as np
    >>> edges(np.linspace(3.7, 18.2, 100), 5).tolist()
    [3.0, 6.0, 9.0, 12.0, 15.0, 18.0]
    """
    if limits is not None:
        low, high = checked(limits)
        return np.linspace(low, high, bins + 1)
    ends, extremes = _near_ends(values, k), (float(values.min()), float(values.max()))
    shift = 0.5 if whole else 0.0
    for step in _steps((ends[1] - ends[0]) / bins, whole=whole):
        first, last = _spanned(ends, extremes, step, shift)
        if last - first <= max(bins, _LEAST):
            break
    made = np.array([_round(at * step - shift) for at in range(first, last + 1)])
    if domain is not None:
        made = _within(made, (domain[0] - shift, domain[1] + shift), bins, extremes, whole=whole)
    if not (np.diff(made) > 0).all():
        raise OutputRefused(
            "A variable varies so little for its size that it cannot be binned.",
            hint="subtract a constant, or take another unit.",
        )
    return np.linspace(made[0], made[-1], bins + 1) if exact else made


def _spanned(ends: Limits, extremes: Limits, step: float, shift: float) -> tuple[int, int]:
    """How many steps from zero the first and the last edge lie; neither is an extreme."""
    first = math.floor((ends[0] + shift) / step + _HAIR)
    last = math.ceil((ends[1] + shift) / step - _HAIR)
    # Data are often round themselves, and quotients a hair off.
    while (edge := _round(first * step - shift)) == extremes[0] or edge > ends[0]:
        first -= 1
    while (edge := _round(last * step - shift)) == extremes[1] or edge < ends[1] or last <= first:
        last += 1
    return first, last


def _within(made: Floats, domain: Limits, bins: int, extremes: Limits, *, whole: bool) -> Floats:
    """Edges that do not leave the domain, or the whole of it where the records fill most."""
    low, high = domain
    if high - low <= _WIDER * (made[-1] - made[0]):
        if not whole:
            return np.linspace(low, high, bins + 1)
        step = math.ceil((high - low) / bins - _HAIR)
        return np.arange(low, high + step * (1 - _HAIR), step)
    step = made[1] - made[0]
    moved = made + max(low - made[0], 0.0) - max(made[-1] - high, 0.0)
    if moved[0] != low and moved[0] == extremes[0]:
        moved = np.insert(moved, 0, moved[0] - step)
    if moved[-1] != high and moved[-1] == extremes[1]:
        moved = np.append(moved, moved[-1] + step)
    return np.array([_round(one) for one in moved])


def checked(limits: Limits) -> Limits:
    """Two finite numbers, the lower first."""
    try:
        low, high = (float(one) for one in limits)
    except (TypeError, ValueError):
        raise PlanError("limits are two numbers.", hint="limits=(low, high).") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise PlanError("limits are two finite numbers, the lower first.")
    return low, high


def reach(protection: Protection) -> int:
    """How many values must lie at or beyond the limits of a grid.

    Of the original, k; protected values are nobody's, and a large k would only cut their tails.
    """
    return protection.k if protection.cells else min(protection.k, _LEAST)


def own_extremes(values: Floats, limits: Limits | None) -> bool:
    """Whether limits that somebody asked for are the extremes of the data themselves."""
    return limits is not None and bool(
        values.min() == float(limits[0]) or values.max() == float(limits[1])
    )


def counts(columns: Sequence[Floats], cuts: Sequence[Floats]) -> Integers:
    """How many records each bin or cell holds; the last bin holds its right end too.

    Parameters
    ----------
    columns : the values by one or two variables.
    cuts : the edges of each axis. What lies beyond them is not counted.
    """
    if len(columns[0]) >= _MANY:
        from sfumato.kernels.bins import count_cells

        return count_cells(columns, cuts)
    shape = tuple(len(one) - 1 for one in cuts)
    total = np.zeros(math.prod(shape) + 1, np.int64)
    for start in range(0, len(columns[0]), _SLICE):
        some = slice(start, start + _SLICE)
        cells = _cells([one[some] for one in columns], cuts)
        total += np.bincount(cells + 1, minlength=len(total))
    return total[1:].reshape(shape)


def cells_of(columns: Sequence[Floats], cuts: Sequence[Floats]) -> npt.NDArray[np.int64]:
    """The cell of each record, counted along the axes; -1 where it lies beyond them."""
    return _cells(columns, cuts)


def _cells(columns: Sequence[Floats], cuts: Sequence[Floats]) -> npt.NDArray[np.int64]:
    cell = np.zeros(len(columns[0]), np.int64)
    for values, edge in zip(columns, cuts, strict=True):
        at = np.searchsorted(edge, values, side="right") - 1
        at[values == edge[-1]] = len(edge) - 2
        beyond = (at < 0) | (at > len(edge) - 2)
        cell = np.where(beyond | (cell < 0), -1, cell * (len(edge) - 1) + at)
    return cell


def parts_of(
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
    found, first = [], 1
    for values, edge, held in zip(columns, cuts, shown, strict=True):
        at = _cells(values, edge)
        seen = np.append(held.ravel() > 0, False)[at]  # -1, beyond the edges, is the last
        number = first + at
        found.append(np.where(seen, number, -number - 1))
        first += held.size + 1
    return [np.concatenate(found)]


def suppressed(counted: Integers, k: int) -> tuple[Integers, int]:
    """The counts without those from 1 to k - 1, and how many cells that hides.

    Examples
    --------
    >>> import numpy as np
    >>> suppressed(np.array([0, 2, 3]), 3)
    (array([0, 0, 3]), 1)
    """
    small = (counted > 0) & (counted < k)
    return np.where(small, 0, counted), int(small.sum())


def adaptive(
    values: Floats,
    k: int,
    bins: int,
    limits: Limits | None = None,
    *,
    domain: Limits | None = None,
    whole: bool = False,
) -> tuple[Floats, Integers]:
    """Unequal bins with round edges, every bar of at least k records, the shape kept.

    It begins with equal bins. Those with few records are joined with a neighbour, the pair first
    whose densities differ least, so that the tails become wide and the middle stays as it was.
    """
    cuts = edges(values, bins, limits, k, domain=domain, whole=whole)
    held = counts([values], [cuts])
    while len(held) > 1:
        small = (held > 0) & (held < k)
        if not small.any():
            break
        at = _pair(held, np.diff(cuts), small)
        held[at] += held[at + 1]
        held = np.delete(held, at + 1)
        cuts = np.delete(cuts, at + 1)
    return cuts, suppressed(held, k)[0]


def _pair(held: Integers, widths: Floats, small: npt.NDArray[np.bool_]) -> int:
    """Which two neighbours to join: the step function then changes least (in squares)."""
    density = held / widths
    cost = widths[:-1] * widths[1:] / (widths[:-1] + widths[1:]) * np.diff(density) ** 2
    cost[~(small[:-1] | small[1:])] = np.inf
    return int(np.argmin(cost))


def _near_ends(values: Floats, k: int) -> Limits:
    """The smallest and largest value that at least k records reach; no single one sets them."""
    beyond = max(k, math.ceil(len(values) / _BEYOND))
    at = min(beyond, len(values)) - 1
    places = sorted({at, max(len(values) - 1 - at, 0)})
    ordered = np.partition(values, places)
    low, high = float(ordered[places[0]]), float(ordered[places[-1]])
    if low == high:
        raise OutputRefused(
            "Nearly all records have the same value: a figure would tell it.",
            hint="leave the variable out.",
        )
    return low, high


def _steps(least: float, *, whole: bool) -> Iterator[float]:
    """Round steps from the least upwards."""
    power = math.floor(math.log10(least))
    if not math.isfinite(least) or least * _TINY == 0:
        raise OutputRefused("The values reach too far, or not far enough, to be binned.")
    for more in itertools.count():
        for one in _NICE[:-1]:
            step = _round(one * 10.0 ** (power + more))
            if step >= least * (1 - _HAIR) and (not whole or step == round(step)):
                yield step


def _round(value: float) -> float:
    # 3 * 0.1 is 0.3 at an axis.
    return float(f"{value:.{_DIGITS}g}")
