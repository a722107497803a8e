"""The most probable values of all parameters, and how wide the posterior is about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from sfumato.analysis.samplers.marginal.model import Density


_STEP = 0.02
"""Distance between two gradients, in standard deviations of the posterior."""
_SETTLED = 1e-3
"""How far from the mode is close enough, in standard deviations."""
_ROUNDS = 4


@dataclass(frozen=True, eq=False)
class Mode:
    """Where the posterior is highest.

    Parameters
    ----------
    theta : the parameters.
    root : of the covariance: theta + root @ normal draws is the normal approximation.
    value : the log density there.
    settled : whether it is a mode at all: flat or rising directions leave it false.
    """

    theta: Floats
    root: Floats
    value: float
    settled: bool


def climb(density: Density, theta: Floats, root: Floats | None = None) -> Mode:
    """The mode, from a start not too far away.

    The search runs on a scale on which the posterior is about standard normal: first on that of
    `root` or of the curvature at the start, then on that of the curvature where it stopped.
    """
    if root is None:
        first = 1.0 / np.sqrt(1.0 + density.arrays.count)
        root, _ = _curved(density, theta, np.eye(len(theta)) * first)
    for _ in range(_ROUNDS):
        theta, value = _search(density, theta, root)
        root, proper = _curved(density, theta, root)
        _, slope = density.slope(theta)
        step = root.T @ slope
        if proper and np.abs(step).max() < 10 * _SETTLED:
            return Mode(theta, root, value, settled=True)
    return Mode(theta, root, value, settled=False)


def _search(density: Density, theta: Floats, root: Floats) -> tuple[Floats, float]:
    from scipy.optimize import minimize

    def lost(step: Floats) -> tuple[float, Floats]:
        value, slope = density.slope(theta + root @ step)
        if not np.isfinite(value):
            return 1e300, np.zeros_like(step)
        return -value, -(root.T @ slope)

    found = minimize(
        lost,
        np.zeros(len(theta)),
        jac=True,
        method="BFGS",
        options={"gtol": _SETTLED, "maxiter": 200},
    )
    return theta + root @ found.x, -float(found.fun)


def _curved(density: Density, theta: Floats, root: Floats) -> tuple[Floats, bool]:
    """A root of the inverse of the curvature, by differences of gradients along `root`."""
    _, slopes = density.slopes(np.concatenate([theta[None], theta + _STEP * root.T]))
    bend = -((slopes[1:] - slopes[0]) @ root) / _STEP
    bend = 0.5 * (bend + bend.T)
    values, vectors = np.linalg.eigh(bend)
    proper = bool(values.min() > 0)
    # A direction that curves the wrong way is searched by the size of its curvature.
    sure = np.maximum(np.abs(values), 1e-8 * np.abs(values).max())
    return root @ (vectors / np.sqrt(sure)), proper
