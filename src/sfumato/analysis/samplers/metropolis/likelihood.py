"""What was released says of the true values: log-likelihood, gradient and curvature by record.

`ReleasedNumber` is the measurement model, the density of a released number given its latent value.
A value set to a constant says that the noisy value lay beyond it; a rounded one that it lay in an
interval. `OutcomeModel` is the outcome given the linear predictor. Gradient and curvature only make
proposals, whose Hastings ratio corrects for them; they need not be exact.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.analysis.problem import GeneralisedNumber
from sfumato.kernels.arrays import Floats, Integers, Mask

if TYPE_CHECKING:
    from sfumato.analysis.problem import Link, Number, Problem

_LEAST = 1e-4
"""The least variance where it grows from zero, as a share of its average."""
_NO_NOISE = 1e-10
"""The least variance of noise, as a share of that of what was released."""
_SOFT = 0.25
"""How far from its peak a Laplace density is taken for a normal one, as a share of the variance."""
_LEAST_CURVATURE = 0.05
"""The least share of its curvature that a misclassified outcome leaves."""
_HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)


class LogDensity(NamedTuple):
    """A log density at a point, its gradient, and minus its second derivative (or nearly)."""

    log: Floats
    gradient: Floats
    curvature: Floats


class ReleasedNumber:
    """The released values of one number, sorted into what they say.

    Parameters
    ----------
    number : the number.
    variance : of the noise of each record, where that is not the number's own; None where it is.
    """

    def __init__(self, number: Number, variance: Floats | None = None) -> None:
        self.number = number
        values = number.observed
        self.missing: Mask = np.isnan(values)
        half = number.width / 2
        # Values are rounded first and clipped then, so a limit begins half a step before it.
        low, high = values <= number.low, values >= number.high
        self.clipped: Mask = low | high
        rounded = ~self.missing if half else np.zeros(len(values), bool)
        self.values: Floats = np.where(self.missing, 0.0, values)
        self.lower: Floats = np.where(low, -np.inf, np.where(high, number.high, values) - half)
        self.upper: Floats = np.where(high, np.inf, np.where(low, number.low, values) + half)
        self._variance: Floats | float | None = variance
        if variance is None and number.growth is None:
            # Noise of no variance is so little that it does not matter: nothing is divided by 0.
            known = values[~self.missing]
            least = _NO_NOISE * float(np.var(known)) if len(known) else 0.0
            self._variance = max(number.variance or 0.0, least, 1e-300)
        self._floor = 0.0
        if number.growth is not None:
            mean = float(number.growth.variance(self.values[~self.missing]).mean() or 1.0)
            self._floor = _LEAST * (mean if math.isfinite(mean) and mean > 0 else 1.0)
        if isinstance(number, GeneralisedNumber):
            # Of a cell nothing but its ends counts; a value that is known is a cell without width.
            self.clipped = ~self.missing & ~number.known
            self.lower, self.upper = number.lower, number.upper
        self._intervals: Integers = np.flatnonzero(self.clipped | rounded)
        self.exact = not (len(self._intervals) or self.missing.any() or number.laplace)
        """Whether every value is known and its noise normal."""

    def variance(self, latent: Floats) -> Floats | float:
        """Of the noise, at latent values."""
        if self._variance is not None:
            return self._variance
        assert self.number.growth is not None  # noqa: S101 - one of both is there
        return np.maximum(self.number.growth.variance(latent), self._floor)

    def evaluate(self, latent: Floats, shift: Floats | float = 0.0) -> LogDensity:
        """The log density of what was released at latent values; `shift` is added to it."""
        variance = self.variance(latent)
        noise = self.values + shift - latent
        laplace = self.number.laplace
        density = _laplace_density(noise, variance) if laplace else _normal_density(noise, variance)
        if self.exact:
            return density
        if len(self._intervals):
            rows = self._intervals
            some = variance[rows] if isinstance(variance, np.ndarray) else variance
            between = (_laplace_interval if laplace else _normal_interval)(
                self.lower[rows] - latent[rows], self.upper[rows] - latent[rows], some
            )
            for all_rows, part in zip(density, between, strict=True):
                all_rows[rows] = part
        for all_rows in density:
            all_rows[self.missing] = 0.0
        return density


def _normal_density(noise: Floats, variance: Floats | float) -> LogDensity:
    precision = 1 / variance
    gradient = noise * precision
    log = -0.5 * noise * gradient
    if isinstance(variance, np.ndarray):
        log -= 0.5 * np.log(variance)
    return LogDensity(log, gradient, np.broadcast_to(precision, noise.shape).copy())


def _laplace_density(noise: Floats, variance: Floats | float) -> LogDensity:
    scale = np.sqrt(np.asarray(variance) / 2)
    # A Laplace density has no curvature; that of the normal that touches it makes a proposal.
    weight = 1 / (scale * np.sqrt(noise**2 + _SOFT * variance))
    return LogDensity(-np.abs(noise) / scale - np.log(2 * scale), noise * weight, weight)


def _normal_interval(lower: Floats, upper: Floats, variance: Floats | float) -> LogDensity:
    """Of normal noise between two limits: log (Φ(b) - Φ(a)) and its derivatives."""
    sd = np.sqrt(variance)
    a, b = lower / sd, upper / sd
    log = log_normal_interval(a, b)
    at_a = np.exp(-0.5 * a * a - _HALF_LOG_2_PI - log)
    at_b = np.exp(-0.5 * b * b - _HALF_LOG_2_PI - log)
    gradient = (at_a - at_b) / sd
    # Infinite limits have no density, so that what it is multiplied by does not matter.
    finite_a, finite_b = np.where(np.isinf(a), 0.0, a), np.where(np.isinf(b), 0.0, b)
    second = (finite_a * at_a - finite_b * at_b) / variance
    return LogDensity(log, gradient, np.maximum(gradient**2 - second, 0.0))


def _laplace_interval(lower: Floats, upper: Floats, variance: Floats | float) -> LogDensity:
    scale = np.sqrt(np.asarray(variance) / 2)
    a, b = lower / scale, upper / scale
    a, b, sign = np.where(a > 0, -b, a), np.where(a > 0, -a, b), np.where(a > 0, -1.0, 1.0)
    below = np.where(b <= 0, 0.5 * np.exp(np.minimum(b, 0)), 1 - 0.5 * np.exp(-np.maximum(b, 0)))
    with np.errstate(divide="ignore"):
        log = np.log(np.maximum(below - 0.5 * np.exp(np.minimum(a, 0)), 0.0))
    density = 0.5 * np.exp(-np.abs(a)) - 0.5 * np.exp(-np.abs(b))
    with np.errstate(divide="ignore", invalid="ignore"):
        gradient = np.nan_to_num(sign * density / (scale * np.exp(log)), posinf=0.0, neginf=0.0)
    return LogDensity(log, gradient, np.minimum(gradient**2, 1 / np.asarray(variance)))


def log_normal_interval(a: Floats, b: Floats) -> Floats:
    """The log of the standard normal probability between two limits, exact in either tail."""
    from scipy.special import log_ndtr

    a, b = np.where(a > 0, -b, a), np.where(a > 0, -a, b)
    high, low = log_ndtr(b), log_ndtr(a)
    with np.errstate(divide="ignore", invalid="ignore"):
        log: Floats = high + np.log1p(-np.exp(np.minimum(low - high, 0.0)))
    return log


class OutcomeModel:
    """The outcome given the linear predictor.

    A misclassified one is mixed over its true values (Goldstein & Shlomo, Eq. A4). A noised number
    is integrated out where its noise is normal; else `true` is drawn with everything else.

    Parameters
    ----------
    problem : the problem, its records in their canonical order.
    """

    def __init__(self, problem: Problem) -> None:
        self.family, self.link = problem.family, problem.link
        self.true: Floats = np.array(problem.y, float)
        self.trials: Floats | float = 1.0 if problem.trials is None else problem.trials
        category = problem.outcome_category
        self.level_logs = None if category is None else category.density
        self.variance = 1.0
        """Of the residuals; of a noised outcome integrated out, with that of the noise."""
        self.noise = 0.0
        self.released: ReleasedNumber | None = None
        number = problem.outcome_number
        if number is not None:
            self.noise = number.variance or 0.0
            if not number.is_homoscedastic_normal:
                self.released = ReleasedNumber(number)
                values = self.released.values
                self.noise = float(np.mean(self.released.variance(values)))
                self.true = np.array(number.true(values))

    @property
    def linear(self) -> bool:
        """Whether it is normal about the linear predictor."""
        return self.family == "gaussian"

    @property
    def integrated_noise(self) -> float:
        """The part of the variance that is noise, where it is integrated out."""
        return 0.0 if self.released is not None else self.noise

    def evaluate(self, eta: Floats) -> LogDensity:
        """The log-likelihood at linear predictors."""
        if self.linear:
            residual = self.true - eta
            gradient = residual / self.variance
            curvature = np.full(len(eta), 1 / self.variance)
            return LogDensity(-0.5 * residual * gradient, gradient, curvature)
        if self.family == "poisson":
            mean = np.exp(np.minimum(eta, 700.0))
            return LogDensity(self.true * eta - mean, self.true - mean, mean)
        if self.level_logs is not None:
            return misclassified_likelihood(self.level_logs, eta, self.link)
        return binomial_likelihood(self.true, self.trials, eta, self.link)


def binomial_likelihood(y: Floats, trials: Floats | float, eta: Floats, link: Link) -> LogDensity:
    """Of y successes among so many trials; the curvature of a probit is the expected one."""
    if link == "logit":
        # One exponential gives both the probability and its logarithm.
        small = np.exp(-np.abs(eta))
        p = np.where(eta >= 0, 1.0, small) / (1 + small)
        log = y * eta - trials * (np.maximum(eta, 0.0) + np.log1p(small))
        return LogDensity(log, y - trials * p, trials * p * (1 - p))
    from scipy.special import log_ndtr

    success, failure = log_ndtr(eta), log_ndtr(-eta)
    log_phi = -0.5 * eta * eta - _HALF_LOG_2_PI
    # Inverse Mills ratios φ / Φ at η and at -η.
    up, down = np.exp(log_phi - success), np.exp(log_phi - failure)
    log = y * success + (trials - y) * failure
    return LogDensity(log, y * up - (trials - y) * down, trials * up * down)


def misclassified_likelihood(level_logs: Floats, eta: Floats, link: Link) -> LogDensity:
    """Of a released outcome whose true value is 0 or 1 (Goldstein & Shlomo, Eq. A4)."""
    success = binomial_likelihood(np.ones(len(eta)), 1.0, eta, link)
    failure = binomial_likelihood(np.zeros(len(eta)), 1.0, eta, link)
    log = np.logaddexp(level_logs[:, 1] + success.log, level_logs[:, 0] + failure.log)
    share = np.exp(level_logs[:, 1] + success.log - log)
    gradient = share * success.gradient + (1 - share) * failure.gradient
    # Missing information (Louis 1982): the variance of the gradient over the true outcome.
    lost = share * (1 - share) * (success.gradient - failure.gradient) ** 2
    curvature = np.maximum(success.curvature - lost, _LEAST_CURVATURE * success.curvature)
    return LogDensity(log, gradient, curvature)
