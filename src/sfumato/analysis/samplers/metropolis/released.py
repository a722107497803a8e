"""What a released number says of its latent value: log density, slope and curvature.

A value set to a constant says that the noisy value lay beyond it; a rounded one that it lay in an
interval. Slope and curvature only make proposals; they need not be exact.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sfumato.analysis.problem import Number
from sfumato.kernels.arrays import Floats, Mask

_LEAST = 1e-4
"""The least variance where it grows from nought, as a share of its average."""
_NONE = 1e-10
"""The least variance of noise, as a share of that of what was released."""
_SOFT = 0.25
"""How far from its peak a Laplace density is taken for a normal one, as a share of the variance."""
_HALF_LOG = 0.5 * math.log(2 * math.pi)


class Parts(NamedTuple):
    """A log density at a point, its derivative, and minus its second one (or nearly)."""

    log: Floats
    slope: Floats
    curve: Floats


class Released:
    """The released values of one number, sorted into what they say.

    Parameters
    ----------
    number : the number.
    variance : of the noise of each record, where that is not the number's own; None where it is.
    """

    def __init__(self, number: Number, variance: Floats | None = None) -> None:
        self.number = number
        seen = number.seen
        self.missing: Mask = np.isnan(seen)
        half = number.width / 2
        # Values are rounded first and cut then, so an end begins half a step before it.
        low, high = seen <= number.low, seen >= number.high
        self.cut: Mask = low | high
        self.between: Mask = self.cut | (~self.missing if half else np.zeros(len(seen), bool))
        self.seen: Floats = np.where(self.missing, 0.0, seen)
        self.lower: Floats = np.where(low, -np.inf, np.where(high, number.high, seen) - half)
        self.upper: Floats = np.where(high, np.inf, np.where(low, number.low, seen) + half)
        self._fixed: Floats | float | None = variance
        if variance is None and number.growth is None:
            # Noise of no variance is so little that it does not matter: nothing is divided by 0.
            known = seen[~self.missing]
            least = _NONE * float(np.var(known)) if len(known) else 0.0
            self._fixed = max(number.variance or 0.0, least, 1e-300)
        self._floor = 0.0
        if number.growth is not None:
            mean = float(number.growth.variance(self.seen[~self.missing]).mean() or 1.0)
            self._floor = _LEAST * (mean if math.isfinite(mean) and mean > 0 else 1.0)
        self.plain = not (self.between.any() or self.missing.any() or number.laplace)
        self._places = np.flatnonzero(self.between)

    def variance(self, latent: Floats) -> Floats | float:
        """Of the noise, at latent values."""
        if self._fixed is not None:
            return self._fixed
        assert self.number.growth is not None  # noqa: S101 - one of both is there
        return np.maximum(self.number.growth.variance(latent), self._floor)

    def parts(self, latent: Floats, shift: Floats | float = 0.0) -> Parts:
        """Log density and its derivatives at latent values; `shift` is added to what was seen."""
        variance = self.variance(latent)
        away = self.seen + shift - latent
        made = _laplace(away, variance) if self.number.laplace else _normal(away, variance)
        if self.plain:
            return made
        if len(self._places):
            at = self._places
            own = variance[at] if isinstance(variance, np.ndarray) else variance
            inside = (_inside_laplace if self.number.laplace else _inside)(
                self.lower[at] - latent[at], self.upper[at] - latent[at], own
            )
            for whole, part in zip(made, inside, strict=True):
                whole[at] = part
        for whole in made:
            whole[self.missing] = 0.0
        return made


def _normal(away: Floats, variance: Floats | float) -> Parts:
    precision = 1 / variance
    slope = away * precision
    log = -0.5 * away * slope
    if isinstance(variance, np.ndarray):
        log -= 0.5 * np.log(variance)
    return Parts(log, slope, np.broadcast_to(precision, away.shape).copy())


def _laplace(away: Floats, variance: Floats | float) -> Parts:
    scale = np.sqrt(np.asarray(variance) / 2)
    weight = 1 / (scale * np.sqrt(away**2 + _SOFT * variance))
    return Parts(-np.abs(away) / scale - np.log(2 * scale), away * weight, weight)


def _inside(lower: Floats, upper: Floats, variance: Floats | float) -> Parts:
    """Of normal noise between two ends."""
    sd = np.sqrt(variance)
    a, b = lower / sd, upper / sd
    log = log_between(a, b)
    at_a, at_b = np.exp(_log_phi(a) - log), np.exp(_log_phi(b) - log)
    slope = (at_a - at_b) / sd
    bend = (_or_nought(a) * at_a - _or_nought(b) * at_b) / variance
    return Parts(log, slope, np.maximum(slope**2 - bend, 0.0))


def _inside_laplace(lower: Floats, upper: Floats, variance: Floats | float) -> Parts:
    scale = np.sqrt(np.asarray(variance) / 2)
    a, b = lower / scale, upper / scale
    a, b, sign = np.where(a > 0, -b, a), np.where(a > 0, -a, b), np.where(a > 0, -1.0, 1.0)
    chance = np.where(b <= 0, 0.5 * np.exp(np.minimum(b, 0)), 1 - 0.5 * np.exp(-np.maximum(b, 0)))
    with np.errstate(divide="ignore"):
        log = np.log(np.maximum(chance - 0.5 * np.exp(np.minimum(a, 0)), 0.0))
    density = 0.5 * np.exp(-np.abs(a)) - 0.5 * np.exp(-np.abs(b))
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.nan_to_num(sign * density / (scale * np.exp(log)), posinf=0.0, neginf=0.0)
    return Parts(log, slope, np.minimum(slope**2, 1 / np.asarray(variance)))


def log_between(a: Floats, b: Floats) -> Floats:
    """The log of the standard normal probability between two ends, exact in either tail."""
    from scipy.special import log_ndtr

    a, b = np.where(a > 0, -b, a), np.where(a > 0, -a, b)
    high, low = log_ndtr(b), log_ndtr(a)
    with np.errstate(divide="ignore", invalid="ignore"):
        made: Floats = high + np.log1p(-np.exp(np.minimum(low - high, 0.0)))
    return made


def _log_phi(x: Floats) -> Floats:
    return -0.5 * x * x - _HALF_LOG


def _or_nought(x: Floats) -> Floats:
    """Infinite ends have no density, so that what it is multiplied by does not matter."""
    return np.where(np.isinf(x), 0.0, x)
