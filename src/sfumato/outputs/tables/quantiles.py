"""Quantiles that are nobody's value, however many of them somebody asks for."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sfumato.kernels.arrays import Floats
from sfumato.outputs.quantiles import FIVE, fewest, grain, safe_quantiles, snapped


def grid_of(ordered: Floats, k: int) -> float:
    """To what the quantiles of a table are rounded: about a 200th of the spread of all values."""
    if len(ordered) >= fewest(len(FIVE), k):
        return safe_quantiles(ordered, k=k).step
    return grain(float(ordered[-2] - ordered[1]))


def quantiles_of(ordered: Floats, shares: Sequence[float], k: int, step: float) -> list[float]:
    """Means of order statistics around each quantile, rounded; NaN where they do not fit.

    A single order statistic is somebody's value. All means rest on the same number of values
    (k, or one more where that lies evenly around the median), none of them has a part in two,
    and the extremes have none: the difference of two quantiles would tell a value otherwise.
    So where the place lies near an end, or near that of another quantile, there is no safe answer.

    Parameters
    ----------
    ordered : the values, sorted.
    shares : which quantiles, between 0 and 1.
    k : how many values each answer rests on, at least.
    step : what they are rounded to, see `grid_of`.

    Examples
    --------
    >>> import numpy as np
    >>> quantiles_of(np.arange(11.0), [0.5, 0.05, 0.6], 3, 0.1)
    [5.0, nan, nan]
    """
    wide = k + (len(ordered) - k) % 2
    taken = 1
    found = [math.nan] * len(shares)
    for at in sorted(range(len(shares)), key=lambda at: shares[at]):
        place = round(shares[at] * (len(ordered) - 1), 9)  # 0.7 * 10 is 7
        first = math.floor(place - (wide - 1) / 2 + 0.5)
        if first >= taken and first + wide < len(ordered):
            taken = first + wide
            found[at] = snapped(math.fsum(ordered[first:taken].tolist()) / wide, step)
    return found
