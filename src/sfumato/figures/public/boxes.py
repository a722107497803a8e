"""The five numbers of a box, each resting on at least k records, and points beyond the whiskers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.figures.public.grid import counts, suppressed
from sfumato.kernels.arrays import Floats, Integers
from sfumato.outputs.judged import OutputRefused
from sfumato.outputs.quantiles import FIVE, fewest, grain, safe_quantiles, snapped

_REACH = 1.5
"""Whiskers of protected values reach so many lengths of the box at most, as Tukey has them."""
_CLOSE = 0.5
"""Points are close together within so many SDs: twice the least noise of the house rules."""


@dataclass(frozen=True)
class Box:
    """One box: whisker, box, middle line, box, whisker, and the points beyond."""

    low: float
    lower: float
    middle: float
    upper: float
    high: float
    outliers: tuple[float, ...] = ()


def safe_box(values: Floats, k: int, step: float) -> Box:
    """Whiskers at 5 and 95 %, no outliers; every number the mean of k records of its own."""
    low, lower, middle, upper, high = safe_quantiles(values, k=k, step=step).values
    return Box(low, lower, middle, upper, high)


def cells_box(values: Floats, cuts: Floats, k: int) -> Box:
    """The same five, read off the counts of wide bins, those with fewer than k records hidden.

    Within a bin the records are taken as evenly spread.

    Examples
    --------
    >>> cells_box(np.arange(100.0), np.array([0.0, 25, 50, 75, 100]), 3)
    Box(low=5.0, lower=25.0, middle=50.0, upper=75.0, high=95.0, outliers=())
    """
    return counted_box(suppressed(counts([values], [cuts]), k)[0], cuts)


def counted_box(held: Integers, cuts: Floats) -> Box:
    """The same from counts that are safe already."""
    if not held.sum():
        raise OutputRefused(
            "No bin holds enough records for a box.", hint="take larger groups or fewer bins."
        )
    below = np.append(0, np.cumsum(held)) / held.sum()
    found = []
    for share in FIVE:
        at = int(np.searchsorted(below, share, "left")) - 1
        inside = (share - below[at]) / (below[at + 1] - below[at])
        found.append(cuts[at] + inside * (cuts[at + 1] - cuts[at]))
    step = grain(float(found[-1] - found[0]))
    low, lower, middle, upper, high = (snapped(float(one), step) for one in found)
    return Box(low, lower, middle, upper, high)


def protected_box(values: Floats, k: int, *, lonely: bool = False) -> Box:
    """A box of values that are protected already; its whiskers and outliers as Tukey has them.

    A whisker ends at the mean of the k outermost values it may reach. Points beyond are drawn
    where at least k of them lie close together: noise does not hide who lies far from all others.
    All of it lies on a coarse grid, so ten million values give a few hundred points at most.

    Parameters
    ----------
    values : protected values.
    k : how many share in each line.
    lonely : take single values for the whiskers' ends, and points that lie alone, too.

    Examples
    --------
    >>> values = np.append(np.linspace(0, 1, 100), [2.9, 3.0, 3.1, 9.0])
    >>> protected_box(values, 3).outliers, protected_box(values, 3, lonely=True).outliers
    ((2.9, 3.0, 3.1), (2.9, 3.0, 3.1, 9.0))
    """
    quartiles = safe_quantiles(values, at=FIVE[1:-1], k=k)
    lower, middle, upper = quartiles.values
    reach = _REACH * (upper - lower)
    ordered = np.sort(values)
    first, last = np.searchsorted(ordered, [lower - reach, upper + reach], "left")
    last += int(np.searchsorted(ordered[last:], upper + reach, "right"))
    step, shared = quartiles.step, 1 if lonely else k
    near = ordered[first:last]
    low = snapped(math.fsum(near[:shared]) / len(near[:shared]), step) if len(near) else lower
    high = snapped(math.fsum(near[-shared:]) / len(near[-shared:]), step) if len(near) else upper
    far = [ordered[:first], ordered[last:]]
    if not lonely:
        close = _CLOSE * _spread(ordered)
        far = [one[_crowded(one, ordered, close, k)] for one in far]
    beyond = sorted({snapped(float(one), step) for one in np.concatenate(far)})
    return Box(
        min(low, lower), lower, middle, upper, max(high, upper),
        tuple(one for one in beyond if not low <= one <= high),
    )  # fmt: skip


def _spread(ordered: Floats) -> float:
    mean = math.fsum(ordered) / len(ordered)
    return math.sqrt(math.fsum((ordered - mean) ** 2) / len(ordered))


def _crowded(some: Floats, ordered: Floats, close: float, k: int) -> npt.NDArray[np.bool_]:
    """Which values have at least k of all values (themselves counted) within reach."""
    below = np.searchsorted(ordered, some - close, "left")
    above = np.searchsorted(ordered, some + close, "right")
    return np.asarray(above - below >= k)


def large_enough(records: int, k: int) -> bool:
    """Whether a group has enough records for a box."""
    return records >= fewest(len(FIVE), k)
