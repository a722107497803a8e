"""The distribution of true values behind noised ones: deconvolution by a smooth density.

Question: how were the true values distributed, when each was released with known noise?
The density is the exponential of a natural cubic spline on a grid of points, fitted by maximum
likelihood (Efron's g-modelling); how bendable the spline is, the data say. Shares of
levels need no smoothness: they are fitted freely (EM).

The uncertainty is that of records drawn anew (bootstrap). It does not know of bumps that are too
narrow for the noise to let through: where many values are the same, or noise is most of what is
released, a density is smoother than the truth. `excess` tells how much better a distribution
without any smoothness explains what was released; where that is more than chance, the smooth one
is wrong. `measure_cliffs` tells how much better one does that breaks off before either end.

References: Efron (2016), Empirical Bayes deconvolution estimates; Laird (1978), Nonparametric
maximum likelihood estimation of a mixing distribution.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sfumato.kernels.arrays import Floats

_DEGREES = (2, 3, 4, 5, 6, 8, 10, 12)
"""Of freedom of the spline that are tried."""
_PRICE = 4.0
"""What a degree of freedom must gain, in twice the log likelihood: twice Akaike's, as a wiggle in
a density is taken for a finding."""
_ROUGHER = 1
"""Steps of roughness beyond what predicts best: intervals that cover need less bias than that.
Draws are made with it, and with a step less and more, since nobody knows the right one."""
_RIDGE = 0.01
"""Keeps coefficients finite where the data say nothing of them; next to nothing otherwise."""
_STEPS, _CLOSE = 100, 1e-7
_FREE_STEPS = 1000
_BEYOND = (0.003, 0.01, 0.02, 0.04, 0.07, 0.1)
"""Shares of the records beyond which a distribution is tried that breaks off."""
_FEW_DEGREES = (2, 3, 4)
"""Of freedom of such a distribution: without its tails it bends less."""
_SMALLEST = 1e-300


@dataclass(frozen=True, eq=False, kw_only=True)
class Distribution:
    """Probabilities of points, with draws that show how certain they are.

    Parameters
    ----------
    points : the values, rising; levels are numbered.
    probability : of each.
    draws : (draw, point) the same for records drawn anew.
    degrees : of freedom; 0 where nothing was smoothed.
    excess : twice the log likelihood by which the best distribution on these points beats it.
    score : the price of the best spline's degrees, less twice its log likelihood.
    """

    points: Floats = field(repr=False)
    probability: Floats = field(repr=False)
    draws: Floats = field(repr=False)
    degrees: int
    excess: float
    score: float = 0.0


def deconvolve(
    likelihood: Floats, weights: Floats, points: Floats, resampled: Floats
) -> Distribution:
    """The smooth distribution on a grid that explains best what was released.

    Parameters
    ----------
    likelihood : (observation, point) how probable each observation is, given each true value.
    weights : how many records each observation stands for.
    points : the grid, rising.
    resampled : (draw, observation) the same weights in samples that are drawn anew.
    """
    scaled = likelihood / np.maximum(likelihood.max(axis=1, keepdims=True), _SMALLEST)
    free = fit_free(scaled, weights)
    tried: list[tuple[float, int]] = []
    splines: list[tuple[Floats, Floats]] = []
    for degrees in _DEGREES:
        if degrees > len(points) - 2:
            break
        basis, theta, score = _fit_spline(scaled, weights, points, free, degrees)
        tried.append((score, len(tried)))
        splines.append((basis, theta))
    best = min(tried)[1]
    chosen = min(best + _ROUGHER, len(tried) - 1)
    basis, theta = splines[chosen]
    probability = _softmax(basis @ theta)
    allowed = splines[best : best + 2 * _ROUGHER + 1]
    draws = []
    for draw, again in enumerate(resampled):
        other, start = allowed[draw % len(allowed)]
        draws.append(_softmax(other @ _maximise(scaled, again, other, start)))
    excess = 2 * float(
        weights
        @ (
            np.log(np.maximum(scaled @ free, _SMALLEST))
            - np.log(np.maximum(scaled @ probability, _SMALLEST))
        )
    )
    return Distribution(
        points=points,
        probability=probability,
        draws=np.stack(draws),
        degrees=_DEGREES[chosen],
        excess=max(excess, 0.0),
        score=tried[best][0],
    )


def _fit_spline(
    likelihood: Floats, weights: Floats, points: Floats, free: Floats, degrees: int
) -> tuple[Floats, Floats, float]:
    """The spline, its coefficients, and its score: less is better."""
    basis = build_spline(points, _place_knots(points, free, degrees))
    theta = _maximise(likelihood, weights, basis)
    mixed = np.maximum(likelihood @ _softmax(basis @ theta), _SMALLEST)
    return basis, theta, _PRICE * degrees - 2 * float(weights @ np.log(mixed))


def measure_cliffs(
    likelihood: Floats, weights: Floats, distribution: Distribution
) -> tuple[float, float, float]:
    """By how much one that breaks off before its low end, its high end, or both does better.

    In twice the log likelihood, less the price of degrees of freedom.
    """
    scaled = likelihood / np.maximum(likelihood.max(axis=1, keepdims=True), _SMALLEST)
    points = distribution.points
    cumulated = np.cumsum(fit_free(scaled, weights))
    first = np.searchsorted(cumulated, _BEYOND)
    last = np.searchsorted(cumulated, 1 - np.array(_BEYOND)) + 1

    def try_ends(ends: list[slice]) -> float:
        scores = []
        for end in ends:
            columns, points_left = scaled[:, end], points[end]
            free = fit_free(columns, weights)
            scores += [
                _fit_spline(columns, weights, points_left, free, degrees)[2]
                for degrees in _FEW_DEGREES
                if degrees <= len(points_left) - 2
            ]
        return distribution.score - min(scores, default=np.inf)

    return (
        try_ends([slice(int(low), None) for low in first]),
        try_ends([slice(0, int(high)) for high in last]),
        try_ends([slice(int(low), int(high)) for low, high in zip(first, last, strict=True)]),
    )


def fit_free(likelihood: Floats, weights: Floats) -> Floats:
    """The shares of points that explain best what was released, nothing assumed of them (EM).

    Examples
    --------
    >>> exchanged = np.array([[0.9, 0.2], [0.1, 0.8]])  # released level given the true one
    >>> fit_free(exchanged, np.array([55.0, 45.0])).round(3)
    array([0.5, 0.5])
    """
    share = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    total = weights.sum()
    for _ in range(_FREE_STEPS):
        mixed = np.maximum(likelihood @ share, _SMALLEST)
        renewed = share * (likelihood.T @ (weights / mixed)) / total
        change = float(np.abs(renewed - share).max())
        share = renewed
        if change < _CLOSE:
            break
    return share


def _place_knots(points: Floats, free: Floats, degrees: int) -> Floats:
    """Knots between evenly spaced ones and those that hold equally many true values."""
    levels = np.linspace(0.002, 0.998, degrees + 1)
    by_share = np.interp(levels, np.cumsum(free), points)
    inner = by_share[[0, -1]]
    evenly = np.linspace(inner[0], inner[1], degrees + 1)
    knots: Floats = (by_share + evenly) / 2
    return knots


def build_spline(points: Floats, knots: Floats) -> Floats:
    """A natural cubic spline with these knots, its columns orthonormal on the grid.

    It has as many degrees of freedom as knots, less one. Straight beyond the outermost knots, so
    that the tails are those of an exponential.
    """
    length = points[-1] - points[0]
    positions, knots = (points - points[0]) / length, (knots - points[0]) / length

    def bend(knot: float) -> Floats:
        cube: Floats = (
            np.maximum(positions - knot, 0) ** 3 - np.maximum(positions - knots[-1], 0) ** 3
        ) / max(knots[-1] - knot, 1e-9)
        return cube

    end = bend(knots[-2])
    columns = [positions, *(bend(knot) - end for knot in knots[:-2])]
    centred = np.column_stack(columns)
    centred = centred - centred.mean(axis=0)
    orthonormal: Floats = np.linalg.qr(centred)[0] * np.sqrt(len(points))
    return orthonormal


def _softmax(logits: Floats) -> Floats:
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probability: Floats = shifted / shifted.sum(axis=-1, keepdims=True)
    return probability


def _maximise(
    likelihood: Floats, weights: Floats, basis: Floats, start: Floats | None = None
) -> Floats:
    """Newton's steps with the information of the scores, halved until they rise."""
    theta = np.zeros(basis.shape[1]) if start is None else start
    value, slopes = _evaluate(likelihood, weights, basis, theta)
    for _ in range(_STEPS):
        gradient = weights @ slopes - _RIDGE * theta
        information = (slopes * weights[:, None]).T @ slopes + _RIDGE * np.eye(len(theta))
        step = np.linalg.solve(
            information + 1e-9 * np.trace(information) * np.eye(len(theta)), gradient
        )
        size = 1.0
        while size > 1e-6:  # noqa: PLR2004 - smaller steps change nothing
            tried, tried_slopes = _evaluate(likelihood, weights, basis, theta + size * step)
            if tried > value:
                break
            size /= 2
        else:
            break
        gained = tried - value
        theta, value, slopes = theta + size * step, tried, tried_slopes
        if gained < _CLOSE * (1 + abs(value)):
            break
    return theta


def _evaluate(
    likelihood: Floats, weights: Floats, basis: Floats, theta: Floats
) -> tuple[float, Floats]:
    """The penalised log likelihood, and each observation's score."""
    probability = _softmax(basis @ theta)
    mixed = np.maximum(likelihood @ probability, _SMALLEST)
    value = float(weights @ np.log(mixed)) - _RIDGE / 2 * float(theta @ theta)
    slopes = (likelihood * probability) @ basis / mixed[:, None] - probability @ basis
    return value, slopes
