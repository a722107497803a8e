"""First coefficients: an ordinary fit to what the true predictors are expected to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.analysis.samplers.marginal.shape import cell_shares
from sfumato.analysis.samplers.marginal.values import log_weights
from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from sfumato.analysis.samplers.marginal.model import Density


_ROUNDS, _RIDGE, _FAR = 12, 1e-4, 12.0


def started(density: Density, covariate: Density, theta: Floats) -> Floats:
    """The parameters of the covariate model, with coefficients put before them.

    `covariate` is the model of the covariates alone, fitted at `theta`; both hold the same data.
    """
    parts = {name: part.copy() for name, part in covariate.split(theta).items()}
    parts["beta"] = _coefficients(density, _expected(covariate, theta))
    return density.join(parts)


def _expected(covariate: Density, theta: Floats) -> Floats:
    """The columns of the model, each at its expected value under one normal component."""
    arrays, records = covariate.arrays, covariate.arrays.records
    parts = covariate.split(theta)
    made = np.zeros((arrays.count, covariate.terms))
    made[:, arrays.clean] = records.clean
    chance = np.exp(records.density - records.density.max(axis=1, keepdims=True))
    chance *= cell_shares(records.density)
    chance /= chance.sum(axis=1, keepdims=True)
    made += chance @ arrays.levels
    if covariate.numbers:
        centre = records.covariates @ parts["centre"].T + chance @ arrays.dummies @ parts["shift"]
        shares = np.exp(log_weights(parts["weight"][None])[0])
        centre += shares[1:] @ parts["move"]
        left = records.seen - centre
        left -= np.where(arrays.missing[records.pattern], left, 0.0)
        spread = np.cov(left.T).reshape(covariate.numbers, covariate.numbers)
        share = np.clip(1 - np.diag(arrays.error) / np.maximum(np.diag(spread), 1e-12), 0.1, 1.0)
        made += (centre + left * share) @ arrays.loads
    return made


def _coefficients(density: Density, columns: Floats) -> Floats:
    """Reweighted least squares, with a slight ridge so that it always ends."""
    from sfumato.kernels.sampling import quadrature as q

    records, family = density.arrays.records, density.family
    y = records.y
    if len(records.released):
        y = records.released[:, 1] / records.released.sum(axis=1)
    share = (y + 0.5) / (records.trials + 1)
    if family == q.POISSON:
        eta = np.full(len(y), np.log(y.mean() + 1e-3))
    else:
        eta = _linked(family, np.full(len(y), share.mean()))
    beta: Floats = np.zeros(columns.shape[1])
    for _ in range(_ROUNDS):
        mean, slope, variance = _moments(family, eta)
        weight = records.trials * slope**2 / np.maximum(variance, 1e-12)
        working = eta + (y / records.trials - mean) / np.maximum(slope, 1e-12)
        gram = (columns * weight[:, None]).T @ columns
        gram[np.diag_indices_from(gram)] += _RIDGE * len(y) + 1e-9
        beta = np.asarray(np.linalg.solve(gram, columns.T @ (weight * working)), float)
        eta = np.clip(columns @ beta, -_FAR, _FAR)
    return beta


def _linked(family: int, share: Floats) -> Floats:
    from scipy.special import logit, ndtri

    from sfumato.kernels.sampling import quadrature as q

    made: Floats = ndtri(share) if family in (q.PROBIT, q.BINOMIAL_PROBIT) else logit(share)
    return made


def _moments(family: int, eta: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean, its slope by eta, and the variance, for one trial."""
    from scipy.special import expit, ndtr

    from sfumato.kernels.sampling import quadrature as q

    if family == q.POISSON:
        mean = np.exp(eta)
        return mean, mean, mean
    if family in (q.PROBIT, q.BINOMIAL_PROBIT):
        mean = ndtr(eta)
        return mean, np.exp(-0.5 * eta**2) / np.sqrt(2 * np.pi), mean * (1 - mean)
    mean = expit(eta)
    return mean, mean * (1 - mean), mean * (1 - mean)
