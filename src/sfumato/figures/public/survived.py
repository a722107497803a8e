"""How many are still free of the event as time goes by: the curve of Kaplan and Meier.

The curve falls at each event, so every step of it is somebody's time. The safe curve is read at
round times only, and the steps between two of them are one step where they hold few events.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.outputs.quantiles import FIVE, grain, order_statistics, windows

_MANY = 1000
_FINE, _COARSE = 0.001, 0.005
"""To what a share is rounded, by whether there are many records."""
_GRAINS = 200
"""What `grain` cuts a spread into."""


@dataclass(frozen=True)
class Curve:
    """The exact curve, for the custodian: one row for each time at which something happened.

    Parameters
    ----------
    times : distinct times of events, rising.
    at_risk, events : how many had neither event nor end before that time; how many have it then.
    survival : share that is free of the event after that time.
    error : the standard error of that share (Greenwood).
    """

    times: Floats
    at_risk: Integers
    events: Integers
    survival: Floats
    error: Floats


@dataclass(frozen=True)
class SafeCurve:
    """What may be drawn: the share at a few round times, with its band."""

    times: tuple[float, ...]
    survival: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    end: float


def kaplan_meier(times: Floats, events: Mask) -> Curve:
    """Multiply, from event to event, the share of those at risk who stay free of it.

    Examples
    --------
    >>> curve = kaplan_meier(np.array([1.0, 2, 2, 3]), np.array([True, True, False, True]))
    >>> curve.survival.round(3).tolist(), curve.at_risk.tolist()
    ([0.75, 0.5, 0.0], [4, 3, 1])
    """
    order = np.sort(times)
    happened, counts = np.unique(times[events], return_counts=True)
    at_risk = len(times) - np.searchsorted(order, happened, "left")
    survival = np.asarray(np.cumprod(1 - counts / at_risk), np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.sqrt(np.cumsum(counts / (at_risk * (at_risk - counts))))
        error = np.where(survival > 0, survival * spread, np.nan)
    return Curve(happened, at_risk.astype(np.int64), counts.astype(np.int64), survival, error)


def time_step(times: Floats, *, steps: int, k: int) -> float:
    """A round length of time, about so many of which make up the time of most records."""
    (start,) = windows(len(times), FIVE[-1:], k)
    most = math.fsum(order_statistics(times, np.arange(start, start + k))) / k
    return grain(most * _GRAINS / steps)


def safe_curve(
    times: Floats, events: Mask, *, step: float, k: int = 3, level: float = 0.95
) -> SafeCurve | None:
    """The curve at round times, each step at least k events, as long as k records are at risk.

    At the foot of a step the share is exact but for its rounding. None where fewer than k events
    can be shown: then there is no curve to draw.

    Parameters
    ----------
    times : how long each record was looked at; not below 0.
    events : whether the event ended it.
    step : the grid of times, see `time_step`.
    k : least number of events in a step, and of records at risk at the end.
    level : of the band, point by point.

    Examples
    --------
    >>> times = np.arange(1.0, 21.0)
    >>> made = safe_curve(times, np.ones(20, bool), step=1.0, k=3)
    >>> made.times, made.survival[:2], made.end
    ((3.0, 6.0, 9.0, 12.0, 15.0), (0.85, 0.7), 15.0)
    """
    if len(times) <= k or step <= 0:
        return None
    end = _end(times, step, k)
    curve = kaplan_meier(times, events)
    ticks = _ticks(curve.times, step)
    shown = ticks <= end
    feet, end = _merged(ticks[shown], curve.events[shown], end, k)
    if not feet:
        return None
    at = np.searchsorted(ticks, feet, "right") - 1
    low, high = band(curve.survival[at], curve.error[at], level)
    fine = _FINE if len(times) >= _MANY else _COARSE
    return SafeCurve(
        tuple(_round_time(foot, step) for foot in feet),
        _rounded(curve.survival[at], fine),
        _rounded(low, fine),
        _rounded(high, fine),
        _round_time(end, step),
    )


def band(survival: Floats, error: Floats, level: float) -> tuple[Floats, Floats]:
    """Limits that stay between 0 and 1: symmetric for the logarithm of the cumulated risk.

    Examples
    --------
    >>> low, high = band(np.array([0.8]), np.array([0.05]), 0.95)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.68], [0.879])
    """
    wide = NormalDist().inv_cdf(0.5 + level / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        risk = -np.log(survival)
        factor = np.exp(wide * error / (survival * risk))
        low, high = np.exp(-risk * factor), np.exp(-risk / factor)
    return low, high


def _ticks(times: Floats, step: float) -> Integers:
    """The first round time not before each time, in steps; exact, whatever division says."""
    ticks = np.ceil(times / step)
    ticks += ticks * step < times
    ticks -= (ticks - 1) * step >= times
    return ticks.astype(np.int64)


def _end(times: Floats, step: float, k: int) -> int:
    """The last round time after which at least k records are still at risk, in steps."""
    (last,) = order_statistics(times, np.array([len(times) - k]))
    # The k-th longest time lies after the round time before its own, so k records do.
    return max(int(_ticks(np.array([last]), step)[0]) - 1, 0)


def _merged(ticks: Integers, counts: Integers, end: int, k: int) -> tuple[list[int], int]:
    """The feet of the steps, as soon as k events have come, and where the curve ends.

    It ends with its last step where a few more events follow: drawn on, it would deny them.
    """
    feet: list[int] = []
    waiting = 0
    each, starts = np.unique(ticks, return_index=True)
    sums = np.add.reduceat(counts, starts) if len(starts) else counts
    for tick, count in zip(each.tolist(), sums.tolist(), strict=True):
        waiting += count
        if waiting >= k:
            feet.append(tick)
            waiting = 0
    return feet, feet[-1] if waiting and feet else end


def _round_time(ticks: int, step: float) -> float:
    return float(f"{ticks * step:.12g}")


def _rounded(values: Floats, fine: float) -> tuple[float, ...]:
    return tuple(round(round(one / fine) * fine, 3) for one in values.tolist())
