"""A smooth density from counts in bins: it knows no value, only how many fell into each bin."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sfumato.figures.public.grid import counts, suppressed
from sfumato.kernels.arrays import Floats, Integers
from sfumato.outputs.judged import OutputRefused

POINTS = 201
_RULE = 0.9
"""Silverman's rule of thumb: so many SDs by the fifth root of the number of records."""
_FAR = 5.0
"""Bandwidths beyond which a kernel adds nothing to be seen."""


@dataclass(frozen=True, eq=False)
class Smooth:
    """Places along the axis and the density there; `hidden` bins had fewer than k records."""

    places: Floats
    density: Floats
    cuts: Floats
    held: Integers
    hidden: int
    bandwidth: float


def smooth(values: Floats, cuts: Floats, k: int) -> Smooth:
    """Spread the records of each bin evenly over it, and smooth with a bell no narrower than it.

    Bins of fewer than k records are hidden, and the curve begins and ends with the outermost bins
    that are not. What would run over an end is folded back, so that it does not sag there.

    Parameters
    ----------
    values : finite numbers.
    cuts : edges of bins of equal width.
    k : bins of fewer records are hidden.

    Examples
    --------
    >>> made = smooth(np.linspace(0, 1, 1000), np.linspace(0, 1, 11), 3)
    >>> made.density.round(2).min(), made.density.round(2).max(), made.hidden
    (np.float64(1.0), np.float64(1.0), 0)
    """
    held, hidden = suppressed(counts([values], [cuts]), k)
    shown = np.flatnonzero(held)
    if not len(shown):
        raise OutputRefused(
            "No bin holds enough records for a density.", hint="take fewer bins or larger groups."
        )
    held = held[shown[0] : shown[-1] + 1]
    cuts = cuts[shown[0] : shown[-1] + 2]
    wide = bandwidth(cuts, held)
    places = np.linspace(cuts[0], cuts[-1], POINTS)
    low, high = cuts[0], cuts[-1]
    density = _spread(places, cuts, held, wide)
    density += _spread(2 * low - places, cuts, held, wide)
    density += _spread(2 * high - places, cuts, held, wide)
    return Smooth(places, density / _area(places, density), cuts, held, hidden, wide)


def bandwidth(cuts: Floats, held: Integers) -> float:
    """The rule of thumb by the binned values, and never below the width of a bin."""
    middles, total = (cuts[1:] + cuts[:-1]) / 2, float(held.sum())
    mean = math.fsum(middles * held) / total
    spread = math.sqrt(math.fsum((middles - mean) ** 2 * held) / total)
    return max(float(np.diff(cuts).max()), float(_RULE * spread * total**-0.2))


def _spread(places: Floats, cuts: Floats, held: Integers, wide: float) -> Floats:
    from scipy.special import ndtr

    reached = ndtr((places[:, None] - cuts[None, :]) / wide)
    shares = held / held.sum() / np.diff(cuts)
    made: Floats = -np.diff(reached, axis=1) @ shares
    return made


def _area(places: Floats, density: Floats) -> float:
    return float(np.trapezoid(density, places))
