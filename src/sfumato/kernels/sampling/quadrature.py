"""The chance of an outcome when its linear predictor is known up to a normal error.

Each function gives the log of the integral of f(y | eta) against a normal density of eta, and its
derivatives by the mean and by the variance of that density. By the heat equation the derivative
by the variance is half the mean of l'' + l'^2 over eta given y, where l = log f.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from sfumato.kernels.arrays import Floats, Integers

NOTHING, LOGIT, PROBIT, BINOMIAL_LOGIT, BINOMIAL_PROBIT, POISSON = range(6)
"""The outcome's family; NOTHING leaves the outcome out, for the covariates alone."""

_EXACT = ((0.2, 5), (0.35, 7), (0.5, 9), (0.7, 11), (1.0, 15))
"""Gauss-Hermite nodes that give a mean of the logistic function to 1e-7, by the spread."""
_ENDS, _STEP, MOST = 7.0, 0.9, 241
"""Beyond, the trapezoidal rule: its error falls with exp(-2 pi^2 / step)."""
_ADAPTED = ((0.1, 7), (0.3, 9), (0.5, 11), (0.8, 15), (1.2, 21), (math.inf, 41))
"""Nodes of the adaptive rule that leave a mean error of 1e-6 at most, by the spread."""
_WIDEST = 1e3
_NARROW = 1e-10
"""A variance below which the linear predictor counts as known."""
_ROOT_2 = math.sqrt(2)
_HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)
_FAR = -30.0
"""Below this the normal distribution function is taken from its expansion."""


def rule(family: int, spread: float) -> tuple[Floats, Floats]:
    """Nodes in standard deviations, and weights; of counts, logs of weights over the density.

    Examples
    --------
    >>> nodes, weights = rule(LOGIT, 0.1)
    >>> len(nodes), round(float((weights * nodes**2).sum()), 12)
    (5, 1.0)
    """
    if family == LOGIT:
        return _fixed(spread)
    if family not in (BINOMIAL_LOGIT, BINOMIAL_PROBIT, POISSON):
        return np.zeros(1), np.ones(1)
    count = next(count for most, count in _ADAPTED if spread <= most)
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes, np.log(weights) + 0.5 * nodes * nodes


def _fixed(spread: float) -> tuple[Floats, Floats]:
    for most, count in _EXACT:
        if spread <= most:
            nodes, weights = np.polynomial.hermite_e.hermegauss(count)
            return nodes, weights / weights.sum()
    steps = min(math.ceil(_ENDS * spread / _STEP), MOST // 2)
    places = np.linspace(-_ENDS, _ENDS, 2 * steps + 1)
    heights = np.exp(-0.5 * places * places)
    return places, heights / heights.sum()


def rules(family: int) -> tuple[Floats, Floats, Integers, Floats]:
    """All rules of a family as rows of tables: nodes, weights, lengths, and the most spread."""
    if family == LOGIT:
        most = [spread for spread, _ in _EXACT]
        steps = range(math.ceil(_ENDS * most[-1] / _STEP), MOST // 2 + 1)
        most += [one * _STEP / _ENDS for one in steps]
    else:
        most = [spread for spread, _ in _ADAPTED]
    made = [rule(family, min(one * 0.999, _WIDEST)) for one in most]
    length = np.array([len(nodes) for nodes, _ in made])
    tables = np.zeros((2, len(made), int(length.max())))
    for at, (nodes, weights) in enumerate(made):
        tables[0, at, : len(nodes)], tables[1, at, : len(nodes)] = nodes, weights
    return tables[0], tables[1], length, np.array([*most[:-1], math.inf])


@njit(cache=True, nogil=True)
def log_normal_below(x):  # type: ignore[no-untyped-def]
    """The log of the normal distribution function, and its derivative."""
    if x > _FAR:
        below = 0.5 * math.erfc(-x / _ROOT_2)
        return math.log(below), math.exp(-0.5 * x * x - _HALF_LOG_2_PI) / below
    square = 1.0 / (x * x)
    series = 1.0 - square * (1.0 - 3.0 * square)
    return -0.5 * x * x - _HALF_LOG_2_PI - math.log(-x) + math.log(series), -x / series


@njit(cache=True, nogil=True)
def logit(sign, mean, spread, nodes, weights, place, count):  # type: ignore[no-untyped-def]
    """The chance of a one (sign 1) or a nought (sign -1) under the logistic model.

    The rule is row `place` of the tables `nodes` and `weights`, `count` long.
    """
    chance, by_mean, by_variance = 0.0, 0.0, 0.0
    for at in range(count):
        one = 1.0 / (1.0 + math.exp(-sign * (mean + spread * nodes[place, at])))
        weighted = weights[place, at] * one
        slope = weighted * (1.0 - one)
        chance += weighted
        by_mean += slope
        by_variance += slope * (1.0 - 2.0 * one)
    if chance <= 1e-300:  # noqa: PLR2004 - so far out that the logistic function is exp
        return sign * mean + 0.5 * spread * spread, sign * 1.0, 0.5
    return math.log(chance), sign * by_mean / chance, 0.5 * by_variance / chance


@njit(cache=True, nogil=True)
def probit(sign, mean, variance):  # type: ignore[no-untyped-def]
    """The same under the probit model, where the integral has a closed form."""
    wide = 1.0 / math.sqrt(1.0 + variance)
    at = sign * mean * wide
    value, slope = log_normal_below(at)
    return value, sign * slope * wide, -0.5 * slope * at * wide * wide


@njit(cache=True, nogil=True)
def mixed(family, mean, spread, nodes, weights, place, count, if_0, if_1):  # type: ignore[no-untyped-def]
    """The same for an outcome of two levels of which a noised one was released.

    `if_0` and `if_1` are the chances of what was released, given the true level.
    """
    # The rarer level is integrated and the other is what is left, so that neither cancels.
    sign = -1.0 if mean > 0 else 1.0
    if family == PROBIT:
        value, by_mean, by_variance = probit(sign, mean, spread * spread)
    else:
        value, by_mean, by_variance = logit(sign, mean, spread, nodes, weights, place, count)
    rare = math.exp(value)
    if_rare, if_other = (if_1, if_0) if sign > 0 else (if_0, if_1)
    chance = if_rare * rare + if_other * (1.0 - rare)
    factor = (if_rare - if_other) * rare / chance
    return math.log(chance), factor * by_mean, factor * by_variance


@njit(cache=True, nogil=True)
def _outcome(family, y, trials, eta):  # type: ignore[no-untyped-def]
    """The log of f(y | eta), up to a constant, and its first and second derivative."""
    if family == POISSON:
        rate = math.exp(min(eta, 700.0))
        return y * eta - rate, y - rate, -rate
    if family == BINOMIAL_LOGIT:
        small = math.exp(-abs(eta))
        share = 1.0 / (1.0 + small) if eta > 0 else small / (1.0 + small)
        value = y * eta - trials * (max(eta, 0.0) + math.log1p(small))
        return value, y - trials * share, -trials * share * (1.0 - share)
    value, slope, bend = 0.0, 0.0, 0.0
    if y > 0:
        one, rise = log_normal_below(eta)
        value, slope, bend = y * one, y * rise, -y * rise * (eta + rise)
    if y < trials:
        one, rise = log_normal_below(-eta)
        rest = trials - y
        value += rest * one
        slope -= rest * rise
        bend -= rest * rise * (rise - eta)
    return value, slope, bend


@njit(cache=True, nogil=True)
def _peak(family, y, trials, mean, variance):  # type: ignore[no-untyped-def]
    """Where the integrand is highest, as a distance from the mean, and how wide it is there."""
    away = 0.0
    if family == POISSON and y > 0:
        away = max(0.0, math.log(y) - mean)  # from this side Newton's steps never overshoot
    width = variance
    for _ in range(60):
        _, slope, bend = _outcome(family, y, trials, mean + away)
        width = 1.0 / (1.0 / variance - bend)
        step = (slope - away / variance) * width
        if family != POISSON:
            step = min(max(step, -3.0), 3.0)
        away += step
        if step * step < 1e-6 * width:
            break
    _, _, bend = _outcome(family, y, trials, mean + away)
    return away, math.sqrt(1.0 / (1.0 / variance - bend))


@njit(cache=True, nogil=True)
def adaptive(family, y, trials, mean, variance, nodes, weights, place, count):  # type: ignore[no-untyped-def]
    """The chance of a count, up to a constant of it: nodes about the peak of the integrand."""
    if variance < _NARROW:
        value, slope, bend = _outcome(family, y, trials, mean)
        return value, slope, 0.5 * (bend + slope * slope)
    away, width = _peak(family, y, trials, mean, variance)
    base, _, _ = _outcome(family, y, trials, mean + away)
    base -= 0.5 * away * away / variance
    total, by_mean, by_variance = 0.0, 0.0, 0.0
    for at in range(count):
        here = away + width * nodes[place, at]
        value, slope, bend = _outcome(family, y, trials, mean + here)
        share = math.exp(value - 0.5 * here * here / variance - base + weights[place, at])
        total += share
        by_mean += share * slope
        by_variance += share * (slope * slope + bend)
    scale = math.log(total * width) - 0.5 * math.log(variance) - _HALF_LOG_2_PI
    return base + scale, by_mean / total, 0.5 * by_variance / total


def outcome(family: int, y: Any, trials: Any, eta: Any) -> tuple[float, float, float]:
    """The log of f(y | eta) of a count, up to a constant, with its derivatives."""
    made: tuple[float, float, float] = _outcome(family, y, trials, eta)
    return made
