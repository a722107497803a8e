"""The probability of an outcome when its linear predictor is known up to a normal error.

Each `integrate_` function gives log ∫ f(y | η) N(η; mean, sd²) dη, the marginal likelihood of one
record, and its derivatives with respect to the mean and the variance of the normal density. By the
heat equation the derivative with respect to the variance is ½ E[l'' + l'²] over η given y, where
l = log f. Rules of integration: Gauss-Hermite and, for wide densities, the trapezoidal rule; for
counts adaptive Gauss-Hermite (Liu & Pierce 1994, Biometrika 81:624).

Given the outcome and the standard deviation, the log integral is a smooth function of the mean
alone. For many records with the same outcome it is evaluated at knots, with its first and second
derivative, and interpolated between two knots by the polynomial of degree five through both
(quintic Hermite interpolation). The error of a value is below 1e-6.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from sfumato.kernels.arrays import Floats, Integers

NOTHING, LOGIT, PROBIT, BINOMIAL_LOGIT, BINOMIAL_PROBIT, POISSON = range(6)
"""The outcome's family; NOTHING leaves the outcome out, for the covariates alone."""

_HERMITE = ((0.2, 5), (0.35, 7), (0.5, 9), (0.7, 11), (1.0, 15))
"""Gauss-Hermite nodes that give a mean of the logistic function to 1e-7, by the SD."""
_RANGE, _SPACING, MOST = 7.0, 0.9, 241
"""Beyond, the trapezoidal rule: its error falls with exp(-2 π² / spacing)."""
_ADAPTIVE = ((0.1, 7), (0.3, 9), (0.5, 11), (0.8, 15), (1.2, 21), (math.inf, 41))
"""Nodes of the adaptive rule that leave a mean error of 1e-6 at most, by the SD."""
_WIDEST = 1e3
_NEGLIGIBLE = 1e-10
"""A variance below which the linear predictor counts as known."""
_ROOT_2 = math.sqrt(2)
_HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)
_FAR_TAIL = -30.0
"""Below this the normal distribution function is taken from its asymptotic expansion."""

KNOTS = 121
_FIRST_KNOT, _FINE, _COARSE, _STEEP = -12.0, 0.2, 0.4, 3.0
"""The first knot, the distance of knots for binary outcomes and for counts, and the mean of a
Poisson model beyond which its curve is too steep for that."""
_FEWEST, _FEWEST_ALIKE, _TRIALS = 150, 12, 20.0
"""Records from which on interpolation pays, of any outcome (binary) or of the same one (counts);
trials beyond which a binomial curve is too steep for it."""


class QuadratureRules(NamedTuple):
    """Rules of integration, one a row.

    Parameters
    ----------
    nodes : (rule, node) in standard deviations.
    weights : (rule, node); of an adaptive rule the logs of the weights over the normal density.
    length : (rule) how many nodes it has.
    widest : (rule) the largest standard deviation it serves.
    """

    nodes: Floats
    weights: Floats
    length: Integers
    widest: Floats


class ReleasedOutcome(NamedTuple):
    """What was released of a record's outcome.

    Parameters
    ----------
    family : one of the constants above.
    y, trials : the outcome.
    if_0, if_1 : the probability of what was released given a true outcome of 0 or 1; negative
        where the outcome carries no noise.
    """

    family: int
    y: float
    trials: float
    if_0: float
    if_1: float


class Integral(NamedTuple):
    """The log of an integral, and its derivatives by the mean and the variance of η."""

    log: float
    by_mean: float
    by_variance: float


class Derivatives(NamedTuple):
    """A log-likelihood l(η) with its first and second derivative."""

    log: float
    gradient: float
    curvature: float


class Curves(NamedTuple):
    """Interpolated log integrals, a table for each standard deviation.

    Parameters
    ----------
    spacing : the distance of two knots.
    done : (table, 2, knot) the run of records for which a knot, and the curve that begins at it,
        were last evaluated.
    knots : (table, knot, 3) value and derivatives, in units of the spacing.
    polynomials : (table, knot, 6) coefficients from this knot to the next.
    """

    spacing: float
    done: Integers
    knots: Floats
    polynomials: Floats


def choose_rule(family: int, sd: float) -> tuple[Floats, Floats]:
    """Nodes in standard deviations, and weights; of counts, logs of weights over the density.

    Examples
    --------
    >>> nodes, weights = choose_rule(LOGIT, 0.1)
    >>> len(nodes), round(float((weights * nodes**2).sum()), 12)
    (5, 1.0)
    """
    if family == LOGIT:
        return _choose_logit_rule(sd)
    if family not in (BINOMIAL_LOGIT, BINOMIAL_PROBIT, POISSON):
        return np.zeros(1), np.ones(1)
    count = next(count for widest, count in _ADAPTIVE if sd <= widest)
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes, np.log(weights) + 0.5 * nodes * nodes


def _choose_logit_rule(sd: float) -> tuple[Floats, Floats]:
    for widest, count in _HERMITE:
        if sd <= widest:
            nodes, weights = np.polynomial.hermite_e.hermegauss(count)
            return nodes, weights / weights.sum()
    steps = min(math.ceil(_RANGE * sd / _SPACING), MOST // 2)
    nodes = np.linspace(-_RANGE, _RANGE, 2 * steps + 1)
    weights = np.exp(-0.5 * nodes * nodes)
    return nodes, weights / weights.sum()


def tabulate_rules(family: int) -> QuadratureRules:
    """All rules of a family."""
    if family == LOGIT:
        widest = [sd for sd, _ in _HERMITE]
        steps = range(math.ceil(_RANGE * widest[-1] / _SPACING), MOST // 2 + 1)
        widest += [step * _SPACING / _RANGE for step in steps]
    else:
        widest = [sd for sd, _ in _ADAPTIVE]
    rules = [choose_rule(family, min(sd * 0.999, _WIDEST)) for sd in widest]
    length = np.array([len(nodes) for nodes, _ in rules])
    tables = np.zeros((2, len(rules), int(length.max())))
    for row, (nodes, weights) in enumerate(rules):
        tables[0, row, : len(nodes)], tables[1, row, : len(nodes)] = nodes, weights
    return QuadratureRules(tables[0], tables[1], length, np.array([*widest[:-1], math.inf]))


@njit(cache=True, nogil=True)
def log_normal_cdf(x):  # type: ignore[no-untyped-def]
    """The log of the normal distribution function, and its derivative."""
    if x > _FAR_TAIL:
        below = 0.5 * math.erfc(-x / _ROOT_2)
        return math.log(below), math.exp(-0.5 * x * x - _HALF_LOG_2_PI) / below
    square = 1.0 / (x * x)
    series = 1.0 - square * (1.0 - 3.0 * square)
    return -0.5 * x * x - _HALF_LOG_2_PI - math.log(-x) + math.log(series), -x / series


@njit(cache=True, nogil=True)
def integrate_logit(sign, mean, sd, rules, row):  # type: ignore[no-untyped-def]
    """The probability of a one (sign 1) or a zero (sign -1) in a logit model, by rule `row`."""
    probability, by_mean, by_variance = 0.0, 0.0, 0.0
    for node in range(rules.length[row]):
        success = 1.0 / (1.0 + math.exp(-sign * (mean + sd * rules.nodes[row, node])))
        weighted = rules.weights[row, node] * success
        slope = weighted * (1.0 - success)
        probability += weighted
        by_mean += slope
        by_variance += slope * (1.0 - 2.0 * success)
    if probability <= 1e-300:  # noqa: PLR2004 - so far out that the logistic function is exp
        return Integral(sign * mean + 0.5 * sd * sd, sign * 1.0, 0.5)
    return Integral(
        math.log(probability), sign * by_mean / probability, 0.5 * by_variance / probability
    )


@njit(cache=True, nogil=True)
def integrate_probit(sign, mean, variance):  # type: ignore[no-untyped-def]
    """The same in a probit model, in closed form: Φ(mean / √(1 + variance))."""
    scale = 1.0 / math.sqrt(1.0 + variance)
    x = sign * mean * scale
    value, slope = log_normal_cdf(x)
    return Integral(value, sign * slope * scale, -0.5 * slope * x * scale * scale)


@njit(cache=True, nogil=True)
def integrate_misclassified(outcome, mean, sd, rules, row):  # type: ignore[no-untyped-def]
    """The same where a misclassified binary outcome was released (Goldstein & Shlomo, Eq. A4)."""
    # The rarer level is integrated and the other is its complement, so that neither cancels.
    sign = -1.0 if mean > 0 else 1.0
    if outcome.family == PROBIT:
        integral = integrate_probit(sign, mean, sd * sd)
    else:
        integral = integrate_logit(sign, mean, sd, rules, row)
    rare = math.exp(integral.log)
    if sign > 0:
        if_rare, if_common = outcome.if_1, outcome.if_0
    else:
        if_rare, if_common = outcome.if_0, outcome.if_1
    probability = if_rare * rare + if_common * (1.0 - rare)
    factor = (if_rare - if_common) * rare / probability
    return Integral(math.log(probability), factor * integral.by_mean, factor * integral.by_variance)


@njit(cache=True, nogil=True)
def count_log_likelihood(outcome, eta):  # type: ignore[no-untyped-def]
    """The log of f(y | η) of a count, up to a constant of y, with its derivatives."""
    y, trials = outcome.y, outcome.trials
    if outcome.family == POISSON:
        rate = math.exp(min(eta, 700.0))
        return Derivatives(y * eta - rate, y - rate, -rate)
    if outcome.family == BINOMIAL_LOGIT:
        small = math.exp(-abs(eta))
        share = 1.0 / (1.0 + small) if eta > 0 else small / (1.0 + small)
        value = y * eta - trials * (max(eta, 0.0) + math.log1p(small))
        return Derivatives(value, y - trials * share, -trials * share * (1.0 - share))
    value, gradient, curvature = 0.0, 0.0, 0.0
    # (log Φ)'' = -λ (η + λ), where λ = φ / Φ is the inverse Mills ratio.
    if y > 0:
        log, mills = log_normal_cdf(eta)
        value, gradient, curvature = y * log, y * mills, -y * mills * (eta + mills)
    if y < trials:
        log, mills = log_normal_cdf(-eta)
        failures = trials - y
        value += failures * log
        gradient -= failures * mills
        curvature -= failures * mills * (mills - eta)
    return Derivatives(value, gradient, curvature)


@njit(cache=True, nogil=True)
def _find_peak(outcome, mean, variance):  # type: ignore[no-untyped-def]
    """The mode of the integrand, as a distance from the mean, and its width, by Newton's method."""
    shift = 0.0
    if outcome.family == POISSON and outcome.y > 0:
        # From this side Newton's steps never overshoot.
        shift = max(0.0, math.log(outcome.y) - mean)
    width = variance
    for _ in range(60):
        likelihood = count_log_likelihood(outcome, mean + shift)
        width = 1.0 / (1.0 / variance - likelihood.curvature)
        step = (likelihood.gradient - shift / variance) * width
        if outcome.family != POISSON:
            step = min(max(step, -3.0), 3.0)
        shift += step
        if step * step < 1e-6 * width:
            break
    likelihood = count_log_likelihood(outcome, mean + shift)
    return shift, math.sqrt(1.0 / (1.0 / variance - likelihood.curvature))


@njit(cache=True, nogil=True)
def integrate_count(outcome, mean, variance, rules, row):  # type: ignore[no-untyped-def]
    """The probability of a count, up to a constant: adaptive Gauss-Hermite about the mode."""
    if variance < _NEGLIGIBLE:
        value, gradient, curvature = count_log_likelihood(outcome, mean)
        return Integral(value, gradient, 0.5 * (curvature + gradient * gradient))
    shift, width = _find_peak(outcome, mean, variance)
    top = count_log_likelihood(outcome, mean + shift).log
    top -= 0.5 * shift * shift / variance
    total, by_mean, by_variance = 0.0, 0.0, 0.0
    for node in range(rules.length[row]):
        x = shift + width * rules.nodes[row, node]
        value, gradient, curvature = count_log_likelihood(outcome, mean + x)
        share = math.exp(value - 0.5 * x * x / variance - top + rules.weights[row, node])
        total += share
        by_mean += share * gradient
        by_variance += share * (gradient * gradient + curvature)
    scale = math.log(total * width) - 0.5 * math.log(variance) - _HALF_LOG_2_PI
    return Integral(top + scale, by_mean / total, 0.5 * by_variance / total)


@njit(cache=True, nogil=True)
def integrate_outcome(outcome, mean, sd, rules, row):  # type: ignore[no-untyped-def]
    """The log probability of any outcome and its derivatives by mean and variance."""
    family = outcome.family
    if family == NOTHING:
        return Integral(0.0, 0.0, 0.0)
    if family in (LOGIT, PROBIT):
        if outcome.if_0 >= 0:
            return integrate_misclassified(outcome, mean, sd, rules, row)
        sign = 1.0 if outcome.y > 0 else -1.0
        if family == PROBIT:
            return integrate_probit(sign, mean, sd * sd)
        return integrate_logit(sign, mean, sd, rules, row)
    return integrate_count(outcome, mean, sd * sd, rules, row)


@njit(cache=True, nogil=True)
def place_knots(family):  # type: ignore[no-untyped-def]
    """The first knot, the distance of knots, and the mean beyond which there are none."""
    spacing = _FINE if family == LOGIT else _COARSE
    end = _STEEP if family == POISSON else _FIRST_KNOT + spacing * (KNOTS - 1.5)
    return _FIRST_KNOT, spacing, end


@njit(cache=True, nogil=True)
def find_run(family, records, row, last):  # type: ignore[no-untyped-def]
    """Where the run of records that share a table ends, and whether interpolation pays for it.

    Records are in the order of their outcomes.
    """
    if family == LOGIT:
        return last, last - row >= _FEWEST and len(records.released) == 0
    if family not in (BINOMIAL_LOGIT, BINOMIAL_PROBIT, POISSON):
        return last, False
    y, trials, end = records.y[row], records.trials[row], row + 1
    while end < last and records.y[end] == y and records.trials[end] == trials:
        end += 1
    return end, end - row >= _FEWEST_ALIKE and (family == POISSON or trials <= _TRIALS)


@njit(cache=True, nogil=True)
def fill_curve(curves, table, first, run, outcome, sd, rules, row):  # type: ignore[no-untyped-def]
    """Make the polynomial from knot `first` to the next, and the knots where they are not known."""
    spacing, knots = curves.spacing, curves.knots
    for knot in range(first, first + 2):
        if curves.done[table, 0, knot] != run:
            value, slope, by_variance = integrate_outcome(
                outcome, _FIRST_KNOT + spacing * knot, sd, rules, row
            )
            knots[table, knot, 0], knots[table, knot, 1] = value, spacing * slope
            # The heat equation once more: l'' = 2 dl/dvariance - l'².
            knots[table, knot, 2] = spacing * spacing * (2.0 * by_variance - slope * slope)
            curves.done[table, 0, knot] = run
    start, end = knots[table, first], knots[table, first + 1]
    polynomial = curves.polynomials[table, first]
    half = 0.5 * start[2]
    value = end[0] - start[0] - start[1] - half
    slope = end[1] - start[1] - start[2]
    curvature = end[2] - start[2]
    polynomial[0], polynomial[1], polynomial[2] = start[0], start[1], half
    polynomial[3] = 10.0 * value - 4.0 * slope + 0.5 * curvature
    polynomial[4] = -15.0 * value + 7.0 * slope - curvature
    polynomial[5] = 6.0 * value - 3.0 * slope + 0.5 * curvature
    curves.done[table, 1, first] = run


@njit(cache=True, nogil=True)
def interpolate_integral(curves, table, knot, x, sign):  # type: ignore[no-untyped-def]
    """The interpolated integral at `x` spacings beyond a knot; `sign` turns its mean round."""
    polynomials, spacing = curves.polynomials, curves.spacing
    c0, c1, c2 = (
        polynomials[table, knot, 0],
        polynomials[table, knot, 1],
        polynomials[table, knot, 2],
    )
    c3, c4, c5 = (
        polynomials[table, knot, 3],
        polynomials[table, knot, 4],
        polynomials[table, knot, 5],
    )
    value = c0 + x * (c1 + x * (c2 + x * (c3 + x * (c4 + x * c5))))
    slope = c1 + x * (2 * c2 + x * (3 * c3 + x * (4 * c4 + x * 5 * c5)))
    curvature = 2 * c2 + x * (6 * c3 + x * (12 * c4 + x * 20 * c5))
    return Integral(
        value, sign * slope / spacing, 0.5 * (curvature + slope * slope) / (spacing * spacing)
    )
