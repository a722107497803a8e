"""Take known noise out of a whole variable: where true values pile up, the points come back.

The distribution of the true values is estimated without any form given to it (nonparametric maximum
likelihood), from the released values and the noise alone. Its estimate is a set of points, however
smooth the truth; what is spread evenly gets points about as far apart as the noise is wide, which
tell nobody's value. Values that pile up get a point where they do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from sfumato.kernels.arrays import Floats, Positions

_MOST_GROUPS = 600
"""Groups of neighbouring released values: more hardly move a point."""
_MOST_POINTS = 400
_SPACING = 0.2
"""Possible points lie so many standard deviations of the noise apart."""
_ROUNDS, _STEPS = 40, 40
_GAIN = 1e-4
"""The gradient, as a share of the records, below which no further point makes the fit better."""
_EMPTY = 1e-6
_TRIED = 3
"""So many pairs of neighbours, the nearest first, are tried to be made one."""
_ONE = 100.0
"""How strictly probabilities add up to 1 in least squares."""
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class NoiseSize:
    """How large the noise at each true value is.

    Parameters
    ----------
    at, deviations : standard deviations at some true values, rising; between them on straight
        lines, beyond them as at the ends.
    laplace : whether it has the tails of the Laplace distribution; else it is normal.
    """

    at: Floats
    deviations: Floats
    laplace: bool = False

    def find(self, values: Floats) -> Floats:
        """The standard deviation of the noise at some true values."""
        return np.interp(values, self.at, self.deviations)


@dataclass(frozen=True, eq=False)
class Points:
    """Where true values lie, and how many of them; a distribution."""

    values: Floats
    shares: Floats
    noise: NoiseSize = field(repr=False)

    def average(self, shown: Floats) -> Floats:
        """The mean of the true value, given what is shown of it."""
        return self._look_up(shown, lambda chances: chances @ self.values)

    def choose(self, shown: Floats) -> Floats:
        """The likeliest point, given what is shown."""
        return self._look_up(shown, lambda chances: self.values[chances.argmax(axis=1)])

    def _look_up(self, shown: Floats, guess: Callable[[Floats], Floats]) -> Floats:
        chances = weigh_points(shown, self.values, self.noise) * self.shares
        totals = chances.sum(axis=1, keepdims=True)
        # Far outside of all points nothing is known but what is shown.
        known = totals[:, 0] > _TINY
        found = shown.copy()
        if known.any():
            found[known] = guess(chances[known] / totals[known])
        return found


def find_points(shown: Floats, noise: NoiseSize) -> tuple[Points, Points]:
    """The distribution of true values behind values with noise: as estimated, and with few points.

    Parameters
    ----------
    shown : values with noise.
    noise : its size.

    Examples
    --------
    >>> random = np.random.default_rng(1)
    >>> true = random.choice([10.0, 20.0, 40.0], 1000)
    >>> size = NoiseSize(np.array([0.0]), np.array([2.0]))
    >>> _, united = find_points(true + random.normal(0, 2, 1000), size)
    >>> bool(np.isin([10, 20, 40], united.values.round()).all())
    True

    References: Wang (2007), On fast computation of the non-parametric maximum likelihood estimate
    of a mixing distribution, JRSS B 69:185 (constrained Newton); Efron (2016), Empirical Bayes
    deconvolution estimates, Biometrika 103:1.
    """
    centres, counts = _group(shown)
    possible = _list_possible(centres, noise)
    likelihood = weigh_points(centres, possible, noise)
    chosen, shares = _maximise(likelihood, counts)
    estimated = Points(possible[chosen], shares, noise)
    return estimated, _unite(estimated, centres, counts)


def weigh_points(shown: Floats, points: Floats, noise: NoiseSize) -> Floats:
    """The likelihood of each shown value, a row, if each point were the true one."""
    sizes = noise.find(points)
    apart = np.abs(shown[:, None] - points) / sizes
    if noise.laplace:
        weights: Floats = np.exp(-np.sqrt(2.0) * apart) / sizes
        return weights
    normal: Floats = np.exp(-0.5 * apart * apart) / sizes
    return normal


def _group(shown: Floats) -> tuple[Floats, Floats]:
    """Means of neighbouring values, and how many they stand for."""
    ordered = np.sort(shown)
    if len(ordered) <= _MOST_GROUPS:
        return ordered, np.ones(len(ordered))
    starts = np.arange(_MOST_GROUPS) * len(ordered) // _MOST_GROUPS
    counts = np.diff(np.append(starts, len(ordered))).astype(np.float64)
    return np.add.reduceat(ordered, starts) / counts, counts


def _list_possible(centres: Floats, noise: NoiseSize) -> Floats:
    """Candidates for points: only where something is shown, and no denser than noise lets tell."""
    ends = centres[0], centres[-1]
    sizes = noise.find(centres)
    # Steps of a fifth of the noise from end to end; sparse regions would take most of them.
    steps = np.arange(ends[0], ends[1], max(float(sizes.min()) * _SPACING, _span(ends) / 5_000))
    near = np.searchsorted(centres, steps)
    distance = np.minimum(
        np.abs(steps - centres[np.clip(near, 0, len(centres) - 1)]),
        np.abs(steps - centres[np.clip(near - 1, 0, len(centres) - 1)]),
    )
    points = steps[distance <= noise.find(steps)]
    if len(points) > _MOST_POINTS:
        points = points[np.arange(_MOST_POINTS) * len(points) // _MOST_POINTS]
    return points if len(points) else np.array([float(np.mean(ends))])


def _span(ends: tuple[float, float]) -> float:
    return max(float(ends[1] - ends[0]), 1e-12)


def _maximise(likelihood: Floats, counts: Floats) -> tuple[Positions, Floats]:
    """Which candidates have a share, and how large it is: the constrained Newton method."""
    from scipy.optimize import nnls

    total, roots = counts.sum(), np.sqrt(counts)
    # Begin with a few spread over all: one alone may explain nothing of what is far away.
    chosen = np.unique(np.linspace(0, likelihood.shape[1] - 1, 15).astype(np.intp))
    shares = np.full(len(chosen), 1 / len(chosen))
    for _ in range(_ROUNDS):
        density = np.maximum(likelihood[:, chosen] @ shares, _TINY)
        gradient = (counts / density) @ likelihood / total - 1
        padded = np.concatenate([[-np.inf], gradient, [-np.inf]])
        peaks = (gradient >= padded[:-2]) & (gradient >= padded[2:]) & (gradient > _GAIN)
        added = np.setdiff1d(np.flatnonzero(peaks), chosen)
        if not len(added) and gradient.max() <= _GAIN:
            break
        chosen = np.concatenate([chosen, added])
        before = np.concatenate([shares, np.zeros(len(added))])
        ratio = likelihood[:, chosen] / density[:, None]
        design = np.vstack([ratio * roots[:, None], np.full(len(chosen), _ONE * total)])
        wanted, _ = nnls(design, np.append(2 * roots, _ONE * total), maxiter=50 * len(chosen))
        wanted /= max(wanted.sum(), _TINY)
        shares = _search_line(likelihood[:, chosen], counts, before, wanted)
        kept = shares > _EMPTY
        done = bool(np.abs(shares - before).max() < _EMPTY) and not len(added)
        chosen, shares = chosen[kept], shares[kept] / shares[kept].sum()
        if done:
            break
    order = np.argsort(chosen)
    return chosen[order], shares[order]


def _search_line(likelihood: Floats, counts: Floats, before: Floats, wanted: Floats) -> Floats:
    """As far towards what is wanted as makes the fit better."""
    old = counts @ np.log(np.maximum(likelihood @ before, _TINY))
    step = 1.0
    for _ in range(12):
        now = before + step * (wanted - before)
        if counts @ np.log(np.maximum(likelihood @ now, _TINY)) >= old:
            return now
        step /= 2
    return before


def _unite(points: Points, centres: Floats, counts: Floats) -> Points:
    """The fewest points that explain what is shown nearly as well, each moved to where it fits.

    Neighbours are made one as long as that costs less than two parameters are worth (Schwarz's
    criterion): where true values do pile up, the estimate has several points around each pile.
    """
    values, shares = points.values, points.shares
    noise, price = points.noise, float(np.log(counts.sum()))
    values, shares, fit = _move(values, shares, noise, centres, counts)
    while len(values) > 1:
        trials = []
        nearest = np.argsort(np.diff(values) / noise.find(values[1:]), kind="stable")
        for left in nearest[:_TRIED]:
            pair = slice(left, left + 2)
            middle = float(values[pair] @ shares[pair] / shares[pair].sum())
            fewer = np.concatenate([values[:left], [middle], values[left + 2 :]])
            less = np.concatenate([shares[:left], [shares[pair].sum()], shares[left + 2 :]])
            trials.append(_move(fewer, less, noise, centres, counts))
        best = max(trials, key=lambda trial: trial[2])
        if fit - best[2] > price:
            break
        values, shares, fit = best
    return Points(values, shares, noise)


def _move(
    values: Floats, shares: Floats, noise: NoiseSize, centres: Floats, counts: Floats
) -> tuple[Floats, Floats, float]:
    """Points and shares moved to where they fit better (EM), and the logarithm of the fit."""
    for _ in range(_STEPS):
        chances = weigh_points(centres, values, noise) * shares
        chances *= (counts / np.maximum(chances.sum(axis=1), _TINY))[:, None]
        mass = chances.sum(axis=0)
        kept = mass > _EMPTY * counts.sum()
        values = (chances.T @ centres)[kept] / mass[kept]
        shares = mass[kept] / mass[kept].sum()
    order = np.argsort(values, kind="stable")
    values, shares = values[order], shares[order]
    density = np.maximum(weigh_points(centres, values, noise) @ shares, _TINY)
    return values, shares, float(counts @ np.log(density))
