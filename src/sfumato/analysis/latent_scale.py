"""The scale on which a number that is known only as ranges is nearest to normal.

Within a wide range nothing but the shape of true values says where they lie: of incomes between
50,000 and 250,000 most are near the lower end, but fewer than a normal distribution would have
there. Skewed positive variables are therefore modelled on their logarithm, where that fits better.
What is compared is the probability of the released cells, which does not depend on the scale by
itself.
"""

from __future__ import annotations

import numpy as np

from sfumato.analysis.samplers.metropolis.likelihood import log_normal_interval
from sfumato.kernels.arrays import Floats
from sfumato.noise.scales import Scale

_BETTER = 3.0
"""By so much the log-likelihood on the logarithm must be greater."""
_POINT = 1e-6
"""The width of a value that is known, as a share of all that is spanned."""
_BELOW = 1e-3
"""A range that begins at 0 begins there, on the logarithm: as a share of its upper end."""


def choose_scale(lower: Floats, upper: Floats) -> Scale | None:
    """The logarithm, where it makes the cells of a positive number likelier; else None.

    Parameters
    ----------
    lower, upper : the ends of each record's cell; infinite where it says nothing.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> skewed = np.floor(np.exp(rng.normal(10, 0.6, 500)) / 5000) * 5000
    >>> choose_scale(skewed, skewed + 5000).name
    'log'
    >>> normal = np.floor(rng.normal(170, 10, 500) / 5) * 5
    >>> choose_scale(normal, normal + 5) is None
    True
    """
    known = np.isfinite(lower) & np.isfinite(upper)
    cells, sizes = np.unique(
        np.column_stack([lower[known], upper[known]]), axis=0, return_counts=True
    )
    counts = sizes.astype(np.float64)
    if len(cells) < 3 or (cells[:, 0] < 0).any() or (cells[:, 1] <= 0).any():  # noqa: PLR2004
        return None
    # A known value is a very narrow cell, as wide on either scale.
    width = _POINT * float(cells[:, 1].max() - cells[:, 0].min())
    point = cells[:, 1] - cells[:, 0] < width
    if (cells[point, 0] <= width).any():
        return None
    low = np.where(point, cells[:, 0] - width / 2, cells[:, 0])
    high = np.where(point, cells[:, 1] + width / 2, cells[:, 1])
    logarithm = Scale(name="log")
    with np.errstate(divide="ignore"):
        on_logarithm = _fit_normal(logarithm.forth(low), logarithm.forth(high), counts)
    unscaled = _fit_normal(np.where(low == 0, -np.inf, low), high, counts)
    return logarithm if on_logarithm > unscaled + _BETTER else None


def to_scale(scale: Scale | None, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """The ends of cells on a scale; a range that begins at 0 begins just above."""
    if scale is None:
        return lower, upper
    bottom = np.where(np.isfinite(upper), _BELOW * upper, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (
            np.where(lower > -np.inf, scale.forth(np.maximum(lower, bottom)), -np.inf),
            np.where(upper < np.inf, scale.forth(upper), np.inf),
        )


def _fit_normal(low: Floats, high: Floats, counts: Floats) -> float:
    """The greatest log probability of cells under a normal distribution."""
    from scipy.optimize import minimize

    finite_low = np.where(np.isfinite(low), low, high)
    middle = (finite_low + high) / 2
    mean = float(np.average(middle, weights=counts))
    sd = float(np.sqrt(np.average((middle - mean) ** 2, weights=counts))) or 1.0

    def loss(parameters: Floats) -> float:
        centre, spread = mean + sd * parameters[0], sd * np.exp(parameters[1])
        logs = log_normal_interval((low - centre) / spread, (high - centre) / spread)
        return -float(counts @ np.maximum(logs, -1e6))

    return -float(minimize(loss, np.zeros(2), method="Nelder-Mead").fun)
