"""Draws that several steps share: normal ones from a precision, covariances, truncated gammas."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import Floats

Chance = np.random.Generator


def factor_of(precision: Floats) -> Floats:
    """The lower triangular factor of one matrix, or of each of many."""
    return np.asarray(np.linalg.cholesky(precision), np.float64)


def normal_of(precision: Floats, right: Floats, chance: Chance) -> Floats:
    """A draw of N(P⁻¹ r, P⁻¹); columns are brought to one size first, for the sake of accuracy."""
    size = 1 / np.sqrt(np.diag(precision))
    lower = factor_of(precision * size[:, None] * size)
    middle = np.linalg.solve(lower, right * size)
    made: Floats = size * np.linalg.solve(lower.T, middle + chance.standard_normal(len(right)))
    return made


def each_normal_of(precision: Floats, right: Floats, chance: Chance) -> tuple[Floats, Floats]:
    """A draw of N(P⁻¹ r, P⁻¹) for each of many small precisions, and its log density."""
    lower = factor_of(precision)
    z = chance.standard_normal(right.shape)
    middle = np.linalg.solve(lower, right[..., None])[..., 0] + z
    made = np.linalg.solve(np.swapaxes(lower, -1, -2), middle[..., None])[..., 0]
    return np.asarray(made, np.float64), log_density(lower, z)


def log_density(lower: Floats, z: Floats) -> Floats:
    """Of a normal draw that is z in units of its precision's factor; constants left out."""
    made: Floats = np.log(np.diagonal(lower, axis1=-2, axis2=-1)).sum(-1) - 0.5 * (z**2).sum(-1)
    return made


def covariance_of(freedom: float, squares: Floats, chance: Chance) -> Floats:
    """A draw of the inverse Wishart distribution."""
    size = len(squares)
    if size == 1:
        return squares / (2 * chance.standard_gamma(freedom / 2))
    factor = np.zeros((size, size))
    rows = np.arange(size)
    factor[rows, rows] = np.sqrt(2 * chance.standard_gamma((freedom - rows) / 2))
    below = np.tril_indices(size, -1)
    factor[below] = chance.standard_normal(len(below[0]))
    # The inverse of a Wishart draw with the inverse of `squares`.
    half = np.linalg.solve(factor, np.linalg.cholesky(squares).T)
    made: Floats = half.T @ half
    return made


def variance_above(least: float, records: int, squares: float, chance: Chance) -> float:
    """A variance above `least`, given the sum of squares, under the prior 1 / variance."""
    shape, rate = records / 2, squares / 2
    if least <= 0:
        return rate / float(chance.standard_gamma(shape))
    from scipy.special import gammainc, gammaincinv

    below = float(gammainc(shape, rate / least))
    # So much noise that all of the variance is its own: the rest is nought to all that is told.
    if below < 1e-280:  # noqa: PLR2004 - the smallest that can be divided
        return least * (1 + 1e-9)
    return max(rate / float(gammaincinv(shape, below * chance.uniform())), least * (1 + 1e-9))


def sums_by(group: npt.NDArray[np.int64], groups: int, values: Floats) -> Floats:
    """(group, ...) the sums of values by group."""
    flat = values.reshape(len(values), -1)
    made = np.empty((groups, flat.shape[1]))
    for at in range(flat.shape[1]):
        made[:, at] = np.bincount(group, flat[:, at], minlength=groups)
    return made.reshape(groups, *values.shape[1:])


def one_of(logs: Floats, chance: Chance) -> npt.NDArray[np.int64]:
    """A place for each column of (place, record) log weights."""
    weights = np.cumsum(np.exp(logs - logs.max(axis=0)), axis=0)
    at = chance.uniform(size=logs.shape[1]) * weights[-1]
    made: npt.NDArray[np.int64] = (weights[:-1] < at).sum(axis=0)
    return made
