"""Where the parameters of a linear model of one level are likeliest, and how sharply.

Newton's steps with slopes and curvatures from differences: the density is looked at in batches,
and parameters are few. Of many records some thousand are enough for the first steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato.analysis.samplers.gibbs.density import Density
from sfumato.analysis.samplers.gibbs.random import turned
from sfumato.analysis.samplers.gibbs.state import Data
from sfumato.kernels.arrays import Floats

_SOME = 4_000
_ROUNDS = 30
_WIDTH = 0.3
"""Of the differences, in standard deviations of the parameter."""
_CLOSE, _SLOW = 1e-3, 0.3
_LENGTHS = np.array([1.0, 0.5, 0.25, 0.1, 0.03, 0.005])
_LEAST = 1e-3
_NEAR, _LOWER = 4.0, 10.0
"""Of log density: a mode that much lower has no share in the draws that could be seen."""


@dataclass(frozen=True, eq=False)
class Mode:
    """Where the density is highest, its value, and minus the curvature there."""

    at: Floats
    value: float
    precision: Floats

    def near(self, other: Floats) -> bool:
        """Whether a place lies within a few standard deviations."""
        away = other - self.at
        return float(away @ self.precision @ away) < _NEAR


def mode_of(data: Data) -> Mode | None:
    """The mode, from a plain regression on expected levels; None where no way leads there."""
    every = max(len(data.rows) // _SOME, 1)
    density = Density(data, every)
    start = _start(density)
    found = _climbed(density, start)
    if found is None or not _only(density, found, start):
        return None
    return found if every == 1 else _climbed(Density(data), found.at)


def _only(density: Density, found: Mode, start: Floats) -> bool:
    """Whether the way from elsewhere leads to the same place, or to a much lower one."""
    terms = density.ends[1]
    other = _climbed(density, np.concatenate([np.zeros(terms), [0.0], start[terms + 1 :]]), found)
    if other is None or other.value < found.value - _LOWER:
        return True
    return found.near(other.at)


def _climbed(density: Density, start: Floats, known: Mode | None = None) -> Mode | None:
    """Up from a start, to the top or to a place near one that is known."""
    here = start
    width = np.full(density.size, _WIDTH / np.sqrt(density.records))
    bent: Bent | None = None
    before = np.inf
    for _ in range(_ROUNDS):
        fresh = bent is None
        value, slope, precision = differences(density, here, width, density.size if fresh else 0)
        if not (np.isfinite(value) and np.isfinite(slope).all() and np.isfinite(precision).all()):
            return None
        if known is not None and known.near(here):
            return known
        bent = Bent(precision) if bent is None else bent
        width = bent.width
        step = bent.step(slope)
        gain = float(step @ slope)
        there = here + _LENGTHS[:, None] * step
        heights = density(there) if gain >= _CLOSE else np.full(1, -np.inf)
        best = int(np.argmax(heights))
        if heights[best] <= value:
            # At the top, or nowhere: a look at the curvature tells.
            if fresh:
                top = gain < _CLOSE and bent.lowest > 0
                return Mode(here, value, bent.precision) if top else None
            bent = None
            continue
        here = there[best]
        # Curvature is looked at anew where the old one leads on slowly.
        if best > 0 or gain > _SLOW * before:
            bent = None
        before = gain
    return None


class Bent:
    """Minus the curvature, and the steps that it says."""

    def __init__(self, precision: Floats) -> None:
        self.precision = precision
        sharp = np.maximum(np.abs(np.diag(precision)), _LEAST)
        self.scale = np.sqrt(sharp)
        self.width = np.minimum(_WIDTH / self.scale, _WIDTH)
        # On scales of one, and downwards in every direction.
        values, self.vectors = np.linalg.eigh(precision / np.outer(self.scale, self.scale))
        self.lowest = float(values[0])
        self.values = np.maximum(np.abs(values), _LEAST)

    def step(self, slope: Floats) -> Floats:
        """Newton's."""
        along = self.vectors.T @ (slope / self.scale)
        made: Floats = self.vectors @ (along / self.values) / self.scale
        return made


def differences(
    density: Callable[[Floats], Floats], here: Floats, width: Floats, free: int
) -> tuple[float, Floats, Floats]:
    """Value, slope and, for so many parameters, minus the curvature."""
    size = len(here)
    one = np.diag(width)
    a, b = np.tril_indices(free, -1)
    pairs = one[a] + one[b]
    found = density(here + np.concatenate([np.zeros((1, size)), one, -one, pairs, -pairs]))
    value, up, down = found[0], found[1 : size + 1], found[size + 1 : 2 * size + 1]
    slope = (up - down) / 2 / width
    curve = np.zeros((size, size))
    both, neither = np.split(found[2 * size + 1 :], 2)
    bent = up + down - 2 * value
    curve[a, b] = (both + neither - 2 * value - bent[a] - bent[b]) / 2
    curve = curve + curve.T + np.diag(bent)
    return float(value), slope, -curve / np.outer(width, width)


def _start(density: Density) -> Floats:
    """A regression of what was seen on levels as likely as what was released makes them."""
    data, rows = density.data, density.rows
    columns, d = data.columns, data.numbers
    clean, seen, y = rows[:, :columns], rows[:, columns : columns + d], rows[:, -1]
    weights = np.exp(density.density)
    weights /= weights.sum(axis=1, keepdims=True)
    share = np.zeros((data.cells, data.levels))
    np.add.at(share, density.cell, weights)
    share = np.log(share + 0.5)
    design = np.zeros((len(rows), data.outcome.shape[1]))
    for k in range(data.levels):
        design += weights[:, k, None] * (clean @ data.outcome[k].T)
    features = np.column_stack([clean[:, 1:], weights @ data.dummies, np.ones(len(rows))])
    back = np.linalg.lstsq(features, seen, rcond=None)[0]
    left = seen - features @ back
    spread = left.T @ left / len(rows)
    half = np.linalg.cholesky(_positive(spread - data.error[:d, :d], spread))
    half[range(d), range(d)] = np.log(half[range(d), range(d)])
    whole = np.column_stack([design, seen])
    beta = np.linalg.lstsq(whole, y, rcond=None)[0]
    away = y - whole @ beta
    residual = max(float(away @ away) / len(rows) - data.error[d, d], 0.1 * float(y.var()), 1e-6)
    levels = np.zeros(density.ends[-1] - density.ends[-2])
    if not data.split and data.levels > 1:
        levels = (share[:, 1:] - share[:, :1]).reshape(-1)
    return np.concatenate([beta, [np.log(residual)], back.reshape(-1), half[density.below], levels])


def _positive(wanted: Floats, whole: Floats) -> Floats:
    """The covariance wanted, at least a tenth of the whole in each direction."""
    values, vectors = np.linalg.eigh(whole)
    out = vectors / np.sqrt(np.maximum(values, 1e-12))
    inner, axes = np.linalg.eigh(turned(out) @ wanted @ out)
    back = vectors * np.sqrt(np.maximum(values, 1e-12))
    made: Floats = back @ (axes * np.maximum(inner, 0.1)) @ axes.T @ back.T
    return made
