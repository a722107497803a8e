"""Two-level linear models by restricted maximum likelihood, from sums over each group.

All that the likelihood needs of a group are the products of its columns, so the work after one
pass over the records depends on the number of groups and not on that of records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats


@dataclass(frozen=True, eq=False)
class Mixed:
    """A two-level fit: coefficients, their covariance, the residual variance, that of groups."""

    beta: Floats = field(repr=False)
    covariance: Floats = field(repr=False)
    variance: float
    between: Floats = field(repr=False)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Of each group the products of the columns, with the outcome, and of the outcome."""

    gram: Floats
    moment: Floats
    square: Floats
    records: int
    random: tuple[int, ...]


def mixed(x: Floats, y: Floats, groups: npt.NDArray[np.int64], random: Sequence[int]) -> Mixed:
    """Fit y = x beta + x[random] u + e with u of each group normal, by REML.

    Parameters
    ----------
    x, y : the columns and the outcome.
    groups : the group of each record.
    random : the columns whose coefficients differ by group.

    References: Laird & Ware (1982), Biometrics 38:963.
    """
    from scipy.optimize import minimize

    size = np.sqrt((x * x).mean(axis=0))
    columns = x / size
    start, *_ = np.linalg.lstsq(columns, y, rcond=None)
    left = y - columns @ start
    spread = float(np.sqrt(left @ left / len(left)))
    if not spread > 0:
        raise MeasureError("The model fits exactly, so there is no variance to part.")
    sums = _sums(columns, left / spread, groups, tuple(random))
    lower = np.tril_indices(len(random))
    first = np.eye(len(random))[lower] * 0.5
    bounds = [(0.0 if a == b else None, None) for a, b in zip(*lower, strict=True)]
    found = minimize(
        lambda theta: _profile(_triangle(theta, lower), sums)[0],
        first,
        method="L-BFGS-B",
        bounds=bounds,
        options={"ftol": 1e-12, "gtol": 1e-8},
    )
    _, delta, inverse, variance = _profile(_triangle(found.x, lower), sums)
    factor = _triangle(found.x, lower) * spread / size[list(random)][:, None]
    return Mixed(
        beta=(start + spread * delta) / size,
        covariance=variance * spread**2 * inverse / np.outer(size, size),
        variance=variance * spread**2,
        between=variance * factor @ factor.T,
    )


def _triangle(theta: Floats, lower: Any) -> Floats:
    made = np.zeros((int(lower[0].max()) + 1,) * 2)
    made[lower] = theta
    return made


def _sums(x: Floats, y: Floats, groups: npt.NDArray[np.int64], random: tuple[int, ...]) -> _Sums:
    size = x.shape[1]
    names, place = np.unique(groups, return_inverse=True)
    gram = np.empty((len(names), size, size))
    moment = np.empty((len(names), size))
    for a in range(size):
        moment[:, a] = np.bincount(place, weights=x[:, a] * y)
        for b in range(a + 1):
            gram[:, a, b] = gram[:, b, a] = np.bincount(place, weights=x[:, a] * x[:, b])
    square = np.bincount(place, weights=y * y).astype(np.float64)
    return _Sums(gram, moment, square, len(y), random)


def _profile(factor: Floats, sums: _Sums) -> tuple[float, Floats, Floats, float]:
    """Minus twice the restricted likelihood, and what it is taken at."""
    at = list(sums.random)
    half = np.einsum("gpr,rs->gps", sums.gram[:, :, at], factor)
    inner = np.eye(len(at)) + np.einsum("rs,grt->gst", factor, half[:, at, :])
    solved = np.linalg.solve(inner, np.swapaxes(half, 1, 2))
    outcome = np.einsum("gr,rs->gs", sums.moment[:, at], factor)
    gram = sums.gram.sum(axis=0) - np.einsum("gps,gsq->pq", half, solved)
    moment = sums.moment.sum(axis=0) - np.einsum("gsp,gs->p", solved, outcome)
    turned = np.linalg.solve(inner, outcome[:, :, None])[:, :, 0]
    square = float(sums.square.sum() - (outcome * turned).sum())
    inverse = np.linalg.inv(gram)
    beta = inverse @ moment
    free = sums.records - len(beta)
    variance = max(square - float(beta @ moment), 1e-300) / free
    told = np.linalg.slogdet(inner)[1].sum() + np.linalg.slogdet(gram)[1]
    return float(told + free * np.log(variance)), beta, inverse, variance
