"""Correlations of variables with gaps."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.arrays import Floats
from sfumato.kernels.canonical import deviation_of, mean_of

_NOTHING = 1e-12
"""A share of a sum of squares that is nothing but rounding."""


def correlations(values: Floats) -> Floats:
    """Correlations over the records that have both values; NaN where there is none."""
    known = ~np.isnan(values)
    scaled = np.zeros_like(values)
    for at in range(values.shape[1]):
        held = values[known[:, at], at]
        spread = deviation_of(held)
        if spread > 0:
            scaled[known[:, at], at] = (held - mean_of(held)) / spread
    present = known.astype(float)
    count = np.maximum(present.T @ present, 1.0)
    sums = scaled.T @ present
    squares = (scaled * scaled).T @ present
    spread_of_each = squares - sums * sums / count
    undefined = (spread_of_each <= _NOTHING * squares) | (count <= 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = scaled.T @ scaled - sums * sums.T / count
        found /= np.sqrt(spread_of_each * spread_of_each.T)
    found[undefined | undefined.T] = np.nan
    return np.clip(found, -1.0, 1.0)
