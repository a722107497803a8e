"""What was released says of the true values: log-likelihood, gradient and curvature by record.

`ReleasedNumber` is the measurement model, the density of a released number given its latent value.
A value set to a constant says that the noisy value lay beyond it; a rounded one that it lay in an
interval. `OutcomeModel` is the outcome given the linear predictor. Gradient and curvature only make
proposals, whose Hastings ratio corrects for them; they need not be exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.analysis.problem import GeneralisedNumber
from sfumato.kernels.arrays import Floats, Integers, Mask

if TYPE_CHECKING:
    from sfumato.analysis.problem import Link, NoisyNumber, Problem

_LEAST = 1e-4
"""The least variance where it grows from zero, as a share of its average."""
_NO_NOISE = 1e-10
"""The least variance of noise, as a share of that of what was released."""
_SOFT = 0.25
"""How far from its peak a Laplace density is taken for a normal one, as a share of the variance."""
_LEAST_CURVATURE = 0.05
"""The least share of its curvature that a misclassified outcome leaves."""
_THRESHOLD_SD = 10.0
"""Of the prior of the distance of a threshold from the first, on the scale of the link."""
_LARGEST_LOG = 34.0
"""Of a mean that can be drawn as a count."""
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

    def __init__(self, number: NoisyNumber, variance: Floats | None = None) -> None:
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
        self.intervals: Integers = np.flatnonzero(self.clipped | rounded)
        self.exact = not (len(self.intervals) or self.missing.any() or number.laplace)
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
        if len(self.intervals):
            rows = self.intervals
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
        self.offset: Floats | float = 0.0 if problem.offset is None else problem.offset
        category = problem.outcome_category
        self.level_logs = None if category is None else category.density
        self.variance = 1.0
        """Of the residuals; of a noised outcome integrated out, with that of the noise."""
        self.noise = 0.0
        self.dispersion = 1.0
        """Of a negative binomial model: the variance is μ + dispersion μ²."""
        self.levels = len(problem.outcome_levels)
        self.codes: Integers = self.true.astype(np.int64) if self.levels else np.zeros(0, np.int64)
        self.thresholds: Floats = np.zeros(self.levels - 1 if self.family == "ordinal" else 0)
        """Of an ordinal model, the first one 0: the intercept is minus its place."""
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

    @property
    def theta(self) -> Floats:
        """What there is beside coefficients, on an unbounded scale.

        The log of the residual variance, of the dispersion, or of the gaps between thresholds.
        """
        if self.linear:
            return np.log([self.variance - self.integrated_noise])
        if self.family == "negative_binomial":
            return np.log([self.dispersion])
        return np.log(np.diff(self.thresholds))

    @theta.setter
    def theta(self, values: Floats) -> None:
        if self.linear:
            self.variance = float(np.exp(values[0])) + self.integrated_noise
        elif self.family == "negative_binomial":
            self.dispersion = float(np.exp(values[0]))
        elif self.family == "ordinal":
            self.thresholds = np.append(0.0, np.cumsum(np.exp(values)))

    def log_prior(self) -> float:
        """Log prior density of `theta`."""
        if self.linear:
            residual = self.variance - self.integrated_noise
            return float(np.log(residual) - np.log(residual + self.noise))
        if self.family == "negative_binomial":
            # Uniform for the square root: a coefficient of variation of the means.
            return 0.5 * math.log(self.dispersion)
        if self.family == "ordinal":
            return self.log_threshold_prior() + float(self.theta.sum())
        return 0.0

    def log_threshold_prior(self) -> float:
        """Of thresholds in their order: flat for the first, weak for the others' distance to it."""
        distance = self.thresholds - self.thresholds[0]
        return -0.5 * float(distance @ distance) / _THRESHOLD_SD**2

    def threshold_precision(self) -> Floats:
        """The matrix of that prior."""
        distance = np.eye(len(self.thresholds))
        distance[:, 0] -= 1.0
        return distance.T @ distance / _THRESHOLD_SD**2

    def level_shares(self, eta: Floats) -> Floats:
        """(record, level) how likely each true level is, given what was released of it."""
        if self.level_logs is None:
            return np.eye(self.levels)[self.codes]
        by_level = [density.log for density in self._evaluate_levels(eta + self.offset)]
        logs = self.level_logs + np.column_stack(by_level)
        shares: Floats = np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None])
        return shares

    def draw(self, eta: Floats, rng: np.random.Generator) -> Floats:
        """New outcomes at linear predictors, with normal noise of the outcome in them.

        Of a noised category it is the true level.
        """
        from scipy.special import expit, ndtr

        if self.linear:
            return np.asarray(eta + math.sqrt(self.variance) * rng.standard_normal(len(eta)), float)
        eta = eta + self.offset
        if self.link == "log":
            mean = np.exp(np.minimum(eta, _LARGEST_LOG))
            if self.family == "negative_binomial":
                mean = mean * rng.gamma(1 / self.dispersion, self.dispersion, len(eta))
            return rng.poisson(np.minimum(mean, 1e15)).astype(float)
        if self.family == "multinomial":
            lines = np.vstack([np.zeros(eta.shape[1]), eta])
            return np.asarray((lines + rng.gumbel(size=lines.shape)).argmax(axis=0), float)
        if self.family == "ordinal":
            latent = eta + rng.logistic(size=len(eta))
            return np.searchsorted(self.thresholds, latent).astype(float)
        p = expit(eta) if self.link == "logit" else ndtr(eta)
        return rng.binomial(np.broadcast_to(self.trials, p.shape).astype(np.int64), p).astype(float)

    def log_constants(self) -> Floats:
        """What `evaluate` leaves out of the log-likelihood of each record."""
        from scipy.special import gammaln

        y = self.true
        if self.linear:
            return np.full(len(y), -_HALF_LOG_2_PI - 0.5 * math.log(self.variance))
        if self.family == "poisson":
            return np.asarray(-gammaln(y + 1), float)
        if self.family == "negative_binomial":
            return log_negative_binomial_constant(y, self.dispersion)
        if self.family == "binomial":
            trials = self.trials
            ways: Floats = gammaln(trials + 1) - gammaln(y + 1) - gammaln(trials - y + 1)
            return ways
        return np.zeros(len(y))

    def evaluate(self, eta: Floats) -> LogDensity:
        """The log-likelihood at linear predictors."""
        if self.linear:
            residual = self.true - eta
            gradient = residual / self.variance
            curvature = np.full(len(eta), 1 / self.variance)
            return LogDensity(-0.5 * residual * gradient, gradient, curvature)
        eta = eta + self.offset
        if self.link == "log":
            return self._evaluate_counts(eta)
        if self.family == "multinomial":
            return multinomial_likelihood(self.codes, eta)
        if self.level_logs is not None:
            return mix_over_levels(self.level_logs, self._evaluate_levels(eta))
        if self.family == "ordinal":
            return cumulative_likelihood(self.codes, self.thresholds, eta)
        return binomial_likelihood(self.true, self.trials, eta, self.link)

    def _evaluate_counts(self, eta: Floats) -> LogDensity:
        if self.family == "negative_binomial":
            return negative_binomial_likelihood(self.true, eta, self.dispersion)
        mean = np.exp(np.minimum(eta, 700.0))
        return LogDensity(self.true * eta - mean, self.true - mean, mean)

    def evaluate_along(self, eta: Floats, slope: Floats) -> LogDensity:
        """The same by what the predictor depends on, with this slope.

        The chain rule; terms in the predictor's second derivative are left out (Gauss-Newton).
        """
        log, gradient, curvature = self.evaluate(eta)
        if self.family != "multinomial":
            return LogDensity(log, gradient * slope, curvature * slope**2)
        # Information p - pp' of the levels' predictors, along their slopes.
        shares = np.exp(eta - log_total(eta))
        mean = (shares * slope).sum(axis=0)
        curved = (shares * slope**2).sum(axis=0) - mean**2
        return LogDensity(log, (gradient * slope).sum(axis=0), np.maximum(curved, 0.0))

    def separate_level(self, level: int, eta: Floats) -> Callable[[Floats], LogDensity]:
        """The log-likelihood by the predictor of one level, those of all others as they are.

        Against all other levels together a multinomial logit is a logit with an offset.
        """
        offset, member = log_total(np.delete(eta, level, axis=0)), self.codes == level + 1
        return lambda line: binomial_likelihood(member.astype(float), 1.0, line - offset, "logit")

    def draw_levels(self, eta: Floats, rng: np.random.Generator) -> None:
        """True levels of a noised multinomial outcome, given what was released."""
        lines = np.vstack([np.zeros(eta.shape[1]), eta])
        logs = lines if self.level_logs is None else lines + self.level_logs.T
        cumulative = np.cumsum(np.exp(logs - logs.max(axis=0)), axis=0)
        threshold = rng.uniform(size=eta.shape[1]) * cumulative[-1]
        self.codes = (cumulative[:-1] < threshold).sum(axis=0)

    def log_released_outcome(self, eta: Floats) -> Floats:
        """The log-likelihood of what was released of the outcome."""
        if self.family != "multinomial" or self.level_logs is None:
            return self.evaluate(eta).log
        lines = np.vstack([np.zeros(eta.shape[1]), eta]) - log_total(eta)
        log: Floats = np.logaddexp.reduce(lines + self.level_logs.T, axis=0)
        return log

    def _evaluate_levels(self, eta: Floats) -> list[LogDensity]:
        """The log-likelihood of each true level, were it known."""
        if self.family == "ordinal":
            codes = [np.full(len(eta), level) for level in range(self.levels)]
            return [cumulative_likelihood(code, self.thresholds, eta) for code in codes]
        yes_no = np.zeros(len(eta)), np.ones(len(eta))
        return [binomial_likelihood(y, 1.0, eta, self.link) for y in yes_no]


def log_total(eta: Floats) -> Floats:
    """The log of the sum of odds (level, record) against the first level, that of 1 included."""
    top = np.maximum(eta.max(axis=0, initial=0.0), 0.0)
    total: Floats = top + np.log(np.exp(-top) + np.exp(eta - top).sum(axis=0))
    return total


def multinomial_likelihood(codes: Integers, eta: Floats) -> LogDensity:
    """Of levels with log odds η (level, record) against the first; derivatives by each η."""
    total = log_total(eta)
    shares = np.exp(eta - total)
    member = codes == np.arange(1, len(eta) + 1)[:, None]
    log = np.where(member, eta, 0.0).sum(axis=0) - total
    return LogDensity(log, member - shares, shares * (1 - shares))


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


def mix_over_levels(level_logs: Floats, by_level: list[LogDensity]) -> LogDensity:
    """Of a released outcome, given that of each true level (Goldstein & Shlomo, Eq. A4).

    Parameters
    ----------
    level_logs : (record, level) log probability of what was released.
    by_level : the log-likelihood of each level.
    """
    logs = level_logs + np.column_stack([density.log for density in by_level])
    top = logs.max(axis=1)
    log = top + np.log(np.exp(logs - top[:, None]).sum(axis=1))
    shares = np.exp(logs - log[:, None])
    gradients = np.column_stack([density.gradient for density in by_level])
    gradient = (shares * gradients).sum(axis=1)
    complete = (shares * np.column_stack([density.curvature for density in by_level])).sum(axis=1)
    # Missing information (Louis 1982): the variance of the gradient over the true outcome.
    lost = (shares * gradients**2).sum(axis=1) - gradient**2
    return LogDensity(log, gradient, np.maximum(complete - lost, _LEAST_CURVATURE * complete))


def negative_binomial_likelihood(y: Floats, eta: Floats, dispersion: float) -> LogDensity:
    """Of counts of mean μ = exp η and variance μ + αμ²; less `log_negative_binomial_constant`."""
    share = dispersion * np.exp(np.minimum(eta, 700.0))
    # (1 + αy) / (1 + αμ) is the pull of a count towards its mean; 1 in a Poisson model.
    pull = (1 + dispersion * y) / (1 + share)
    mean = share / dispersion
    log = y * eta - (y + 1 / dispersion) * np.log1p(share)
    return LogDensity(log, y - mean * pull, mean * pull / (1 + share))


def log_negative_binomial_constant(y: Floats, dispersion: float) -> Floats:
    """The part of the log-likelihood of counts that does not depend on their mean."""
    from scipy.special import gammaln

    size = 1 / dispersion
    constant: Floats = gammaln(y + size) - gammaln(size) - y * np.log(size) - gammaln(y + 1)
    return constant


def cumulative_likelihood(codes: Integers, thresholds: Floats, eta: Floats) -> LogDensity:
    """Of levels with P(y ≤ k) = F(threshold k - η), F the logistic distribution.

    Between a and b it is F(b) - F(a) = F(b) (1 - F(a)) (1 - exp(a - b)), exact in either tail.
    """
    from scipy.special import expit, log_expit

    ends = np.concatenate([[-np.inf], thresholds, [np.inf]])
    a, b = ends[codes] - eta, ends[codes + 1] - eta
    gaps = np.diff(ends)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Thresholds out of order have no likelihood.
        log_gaps = np.log(-np.expm1(-gaps))
    lower, upper = expit(a), expit(b)
    log = log_expit(b) + log_expit(-a) + log_gaps[codes]
    return LogDensity(log, lower + upper - 1, lower * (1 - lower) + upper * (1 - upper))


class ThresholdDerivatives(NamedTuple):
    """Of a log-likelihood by thresholds: gradient, and minus the matrix of second derivatives."""

    gradient: Floats
    information: Floats


def differentiate_thresholds(
    thresholds: Floats, eta: Floats, shares: Floats
) -> ThresholdDerivatives:
    """Of the log-likelihood of levels, each record's with its (record, level) shares."""
    from scipy.special import expit

    count = len(thresholds)
    gradient, information = np.zeros(count), np.zeros((count, count))
    for level in range(count + 1):
        rows = np.flatnonzero(shares[:, level])
        weight, line = shares[rows, level], eta[rows]
        repulsion = 0.0
        if 0 < level < count:
            repulsion = 1 / float(np.expm1(thresholds[level] - thresholds[level - 1]))
            bend = repulsion * (1 + repulsion) * weight.sum()
            information[level, level - 1] -= bend
            information[level - 1, level] -= bend
            information[level, level] += bend
            information[level - 1, level - 1] += bend
        if level < count:
            above = expit(line - thresholds[level])
            gradient[level] += (weight * (above + repulsion)).sum()
            information[level, level] += (weight * above * (1 - above)).sum()
        if level > 0:
            below = expit(thresholds[level - 1] - line)
            gradient[level - 1] -= (weight * (below + repulsion)).sum()
            information[level - 1, level - 1] += (weight * below * (1 - below)).sum()
    return ThresholdDerivatives(gradient, information)
