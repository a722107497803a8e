"""The mode of the posterior: where the search starts, the search, and the curvature there.

First coefficients come from iteratively reweighted least squares on what the true predictors are
expected to be (regression calibration); the search is BFGS on a scale on which the posterior is
about standard normal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.analysis.samplers.marginal.arrays import estimate_cell_shares
from sfumato.analysis.samplers.marginal.posterior import log_softmax
from sfumato.kernels.arrays import Floats
from sfumato.kernels.sampling.quadrature import BINOMIAL_PROBIT, POISSON, PROBIT

if TYPE_CHECKING:
    from sfumato.analysis.samplers.marginal.posterior import LogPosterior

_STEP = 0.02
"""Distance between two gradients, in standard deviations of the posterior."""
_TOLERANCE = 1e-3
"""How far from the mode is close enough, in standard deviations."""
_ROUNDS = 4
_IRLS_ROUNDS, _RIDGE, _LARGEST_ETA = 12, 1e-4, 12.0


@dataclass(frozen=True, eq=False)
class Mode:
    """Where the posterior is highest.

    Parameters
    ----------
    theta : the parameters.
    root : of the covariance: theta + root @ normal draws is the normal approximation.
    value : the log density there.
    converged : whether it is a mode at all: flat or rising directions leave it false.
    """

    theta: Floats
    root: Floats
    value: float
    converged: bool


def start_search(posterior: LogPosterior, covariate: LogPosterior, theta: Floats) -> Floats:
    """The parameters of the covariate model, with coefficients put before them.

    `covariate` is the model of the covariates alone, fitted at `theta`; both hold the same data.
    """
    parts = {name: part.copy() for name, part in covariate.split(theta).items()}
    parts["beta"] = _fit_coefficients(posterior, _expect_columns(covariate, theta))
    return posterior.join(parts)


def find_mode(posterior: LogPosterior, theta: Floats, root: Floats | None = None) -> Mode:
    """The mode, from a start not too far away.

    The search runs first on the scale of `root`, or of the curvature at the start, then on that of
    the curvature where it stopped.
    """
    if root is None:
        first = 1.0 / np.sqrt(1.0 + posterior.arrays.count)
        root, _ = _invert_hessian(posterior, theta, np.eye(len(theta)) * first)
    for _ in range(_ROUNDS):
        theta, value = _minimise(posterior, theta, root)
        root, positive = _invert_hessian(posterior, theta, root)
        _, gradient = posterior.value_and_gradient(theta)
        newton_step = root.T @ gradient
        if positive and np.abs(newton_step).max() < 10 * _TOLERANCE:
            return Mode(theta, root, value, converged=True)
    return Mode(theta, root, value, converged=False)


def _minimise(posterior: LogPosterior, theta: Floats, root: Floats) -> tuple[Floats, float]:
    from scipy.optimize import minimize

    def objective(step: Floats) -> tuple[float, Floats]:
        value, gradient = posterior.value_and_gradient(theta + root @ step)
        if not np.isfinite(value):
            return 1e300, np.zeros_like(step)
        return -value, -(root.T @ gradient)

    result = minimize(
        objective,
        np.zeros(len(theta)),
        jac=True,
        method="BFGS",
        options={"gtol": _TOLERANCE, "maxiter": 200},
    )
    return theta + root @ result.x, -float(result.fun)


def _invert_hessian(posterior: LogPosterior, theta: Floats, root: Floats) -> tuple[Floats, bool]:
    """A root of the inverse of minus the Hessian, and whether that is positive definite.

    The Hessian is taken by differences of gradients along the columns of `root`.
    """
    _, gradients = posterior.values_and_gradients(
        np.concatenate([theta[None], theta + _STEP * root.T])
    )
    hessian = -((gradients[1:] - gradients[0]) @ root) / _STEP
    hessian = 0.5 * (hessian + hessian.T)
    values, vectors = np.linalg.eigh(hessian)
    positive = bool(values.min() > 0)
    # A direction that curves the wrong way is searched by the size of its curvature.
    bounded = np.maximum(np.abs(values), 1e-8 * np.abs(values).max())
    return root @ (vectors / np.sqrt(bounded)), positive


def _expect_columns(covariate: LogPosterior, theta: Floats) -> Floats:
    """The columns of the model, each at its expected value under one normal component."""
    arrays, records = covariate.arrays, covariate.arrays.records
    parts = covariate.split(theta)
    columns = np.zeros((arrays.count, covariate.terms))
    columns[:, arrays.clean] = records.clean
    shares = np.exp(records.level_logs - records.level_logs.max(axis=1, keepdims=True))
    shares *= estimate_cell_shares(records.level_logs)
    shares /= shares.sum(axis=1, keepdims=True)
    columns += shares @ arrays.level_terms
    if covariate.numbers:
        centre = records.covariates @ parts["regression"].T
        centre = centre + shares @ arrays.dummies @ parts["level_shift"]
        weights = np.exp(log_softmax(parts["weight_logits"][None])[0])
        centre += weights[1:] @ parts["component_shift"]
        residual = records.numbers - centre
        residual -= np.where(arrays.missing[records.pattern], residual, 0.0)
        variance = np.diag(np.cov(residual.T).reshape(covariate.numbers, covariate.numbers))
        # The reliability ratio: the share of the released variance that is true.
        reliability = np.clip(1 - np.diag(arrays.error) / np.maximum(variance, 1e-12), 0.1, 1.0)
        columns += (centre + residual * reliability) @ arrays.number_terms
    return columns


def _fit_coefficients(posterior: LogPosterior, columns: Floats) -> Floats:
    """Iteratively reweighted least squares, with a slight ridge so that it always ends."""
    from scipy.special import logit, ndtri

    records, family = posterior.arrays.records, posterior.family
    y = records.y
    if len(records.released):
        y = records.released[:, 1] / records.released.sum(axis=1)
    share = np.full(len(y), ((y + 0.5) / (records.trials + 1)).mean())
    if family == POISSON:
        eta = records.offset + np.log(y.sum() / np.exp(records.offset).sum() + 1e-3)
    else:
        eta = ndtri(share) if family in (PROBIT, BINOMIAL_PROBIT) else logit(share)
    beta: Floats = np.zeros(columns.shape[1])
    for _ in range(_IRLS_ROUNDS):
        mean, slope, variance = _moments(family, eta)
        # McCullagh & Nelder (1989), section 2.5: working response and weights.
        weight = records.trials * slope**2 / np.maximum(variance, 1e-12)
        working = eta - records.offset + (y / records.trials - mean) / np.maximum(slope, 1e-12)
        gram = (columns * weight[:, None]).T @ columns
        gram[np.diag_indices_from(gram)] += _RIDGE * len(y) + 1e-9
        beta = np.asarray(np.linalg.solve(gram, columns.T @ (weight * working)), float)
        eta = np.clip(columns @ beta + records.offset, -_LARGEST_ETA, _LARGEST_ETA)
    return beta


def _moments(family: int, eta: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean, its derivative by η, and the variance, for one trial."""
    from scipy.special import expit, ndtr

    if family == POISSON:
        mean = np.exp(eta)
        return mean, mean, mean
    if family in (PROBIT, BINOMIAL_PROBIT):
        mean = ndtr(eta)
        return mean, np.exp(-0.5 * eta**2) / np.sqrt(2 * np.pi), mean * (1 - mean)
    mean = expit(eta)
    return mean, mean * (1 - mean), mean * (1 - mean)
