"""Quantiles that are nobody's value."""

from __future__ import annotations

import math

from sfumato.tables.lattice import Floats


def safe_quantile(ordered: Floats, share: float, k: int) -> float:
    """The mean of at least k order statistics around a quantile; NaN where they do not fit.

    A single order statistic is somebody's value. Where the place lies so near an end that
    fewer than k values stand evenly around it, there is no safe answer.

    Parameters
    ----------
    ordered : the values, sorted.
    share : which quantile, between 0 and 1.
    k : how many values the answer rests on, at least.

    Examples
    --------
    >>> import numpy as np
    >>> safe_quantile(np.arange(11.0), 0.5, 3), safe_quantile(np.arange(11.0), 0.05, 3)
    (5.0, nan)
    """
    place = round(share * (len(ordered) - 1), 9)  # 0.7 * 10 is 7
    first = math.floor(place - (k - 1) / 2)
    last = math.ceil(place + (k - 1) / 2)
    if first < 0 or last >= len(ordered):
        return math.nan
    return math.fsum(ordered[first : last + 1].tolist()) / (last + 1 - first)
