"""Plain fits of outcomes beyond generalised linear models: overdispersed counts, several levels.

Each model states its log-likelihood and gradient; the information is a difference of gradients, and
the search is Newton's (`maximise_likelihood`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from sfumato.analysis.mixed_models import LikelihoodPoint, maximise_likelihood
from sfumato.analysis.problem import Problem
from sfumato.analysis.samplers.metropolis.likelihood import (
    cumulative_likelihood,
    differentiate_thresholds,
    log_negative_binomial_constant,
    negative_binomial_likelihood,
)
from sfumato.kernels.arrays import Floats, Integers

_STEP = 1e-5
_LEAST_DISPERSION = 1e-3


class OutcomeLikelihood(ABC):
    """The log-likelihood of one model, as a function of unbounded parameters.

    Parameters
    ----------
    x : the columns, of size one.
    y, offset : the outcome, and what is added to the linear predictor.
    """

    def __init__(self, x: Floats, y: Floats, offset: Floats) -> None:
        self.x, self.y, self.offset = x, y, offset

    @abstractmethod
    def start(self) -> Floats:
        """Parameters where a search begins."""

    @abstractmethod
    def differentiate(self, theta: Floats) -> tuple[float, Floats]:
        """The log-likelihood and its gradient."""

    @abstractmethod
    def report(self, theta: Floats) -> Floats:
        """The parameters as the analyst reads them, those of columns first."""

    def evaluate(self, theta: Floats) -> LikelihoodPoint:
        """Log-likelihood, gradient and information."""
        value, gradient = self.differentiate(theta)
        information = np.empty((len(theta), len(theta)))
        for index in range(len(theta)):
            step = np.zeros(len(theta))
            step[index] = _STEP * max(1.0, abs(theta[index]))
            above, below = self.differentiate(theta + step)[1], self.differentiate(theta - step)[1]
            information[index] = (below - above) / (2 * step[index])
        return LikelihoodPoint(value, gradient, (information + information.T) / 2)


class NegativeBinomialLikelihood(OutcomeLikelihood):
    """Counts of variance μ + αμ²: coefficients of log μ, and log α."""

    def start(self) -> Floats:
        """Least squares of logarithms, and what the counts vary beyond a Poisson model."""
        target = np.log(self.y + 0.5) - self.offset
        beta = np.linalg.lstsq(self.x, target, rcond=None)[0]
        mean = np.exp(np.minimum(self.x @ beta + self.offset, 700.0))
        beyond = float(((self.y - mean) ** 2 - mean).sum() / (mean**2).sum())
        return np.append(beta, np.log(max(beyond, _LEAST_DISPERSION)))

    def differentiate(self, theta: Floats) -> tuple[float, Floats]:
        """The log-likelihood and its gradient."""
        from scipy.special import digamma

        line, size = self.x @ theta[:-1] + self.offset, float(np.exp(-theta[-1]))
        density = negative_binomial_likelihood(self.y, line, 1 / size)
        value = density.log.sum() + log_negative_binomial_constant(self.y, 1 / size).sum()
        mean = np.exp(np.minimum(line, 700.0))
        # By the size r = 1/α: ψ(y + r) - ψ(r) - log(1 + μ/r) + (μ - y) / (r + μ).
        by_size = digamma(self.y + size) - digamma(size) - np.log1p(mean / size)
        by_size += (mean - self.y) / (size + mean)
        return float(value), np.append(self.x.T @ density.gradient, -size * by_size.sum())

    def report(self, theta: Floats) -> Floats:
        """Coefficients and the dispersion α."""
        return np.append(theta[:-1], np.exp(theta[-1]))


class OrdinalLikelihood(OutcomeLikelihood):
    """Levels with P(y ≤ k) = logistic(threshold k - line): coefficients, thresholds by their gaps.

    Parameters
    ----------
    levels : how many there are; of the thresholds the first, then logs of the gaps between them.
    """

    def __init__(self, x: Floats, y: Floats, offset: Floats, levels: int) -> None:
        super().__init__(x, y, offset)
        self.levels, self.codes = levels, y.astype(np.int64)

    def start(self) -> Floats:
        """No slopes, and thresholds at the shares of the levels."""
        thresholds = place_thresholds(self.codes, self.levels)
        gaps = np.log(np.diff(thresholds))
        return np.concatenate([np.zeros(self.x.shape[1]), thresholds[:1], gaps])

    def _thresholds(self, theta: Floats) -> Floats:
        first = self.x.shape[1]
        return np.cumsum(np.append(theta[first], np.exp(theta[first + 1 :])))

    def differentiate(self, theta: Floats) -> tuple[float, Floats]:
        """The log-likelihood and its gradient."""
        terms, thresholds = self.x.shape[1], self._thresholds(theta)
        line = self.x @ theta[:terms] + self.offset
        density = cumulative_likelihood(self.codes, thresholds, line)
        by_threshold = differentiate_thresholds(
            thresholds, line, np.eye(self.levels)[self.codes]
        ).gradient
        # A gap moves its own threshold and all above.
        above = np.cumsum(by_threshold[::-1])[::-1]
        scale = np.append(1.0, np.exp(theta[terms + 1 :]))
        gradient = np.append(self.x.T @ density.gradient, above * scale)
        return float(density.log.sum()), gradient

    def report(self, theta: Floats) -> Floats:
        """Coefficients and thresholds."""
        return np.append(theta[: self.x.shape[1]], self._thresholds(theta))


class MultinomialLikelihood(OutcomeLikelihood):
    """Levels with log odds against the first that are linear: coefficients level by level.

    Parameters
    ----------
    levels : how many there are.
    """

    def __init__(self, x: Floats, y: Floats, offset: Floats, levels: int) -> None:
        super().__init__(x, y, offset)
        self.member = np.eye(levels)[y.astype(np.int64)][:, 1:]

    def start(self) -> Floats:
        """No slopes."""
        return np.zeros(self.x.shape[1] * self.member.shape[1])

    def differentiate(self, theta: Floats) -> tuple[float, Floats]:
        """The log-likelihood and its gradient."""
        lines = self.x @ theta.reshape(self.member.shape[1], -1).T + self.offset[:, None]
        top = np.maximum(lines.max(axis=1), 0.0)
        total = np.exp(-top) + np.exp(lines - top[:, None]).sum(axis=1)
        log_total = top + np.log(total)
        residual = self.member - np.exp(lines - log_total[:, None])
        value = float((self.member * lines).sum() - log_total.sum())
        return value, (residual.T @ self.x).reshape(-1)

    def report(self, theta: Floats) -> Floats:
        """Coefficients."""
        return theta


def place_thresholds(codes: Integers, levels: int) -> Floats:
    """Thresholds that give each level its share, none of which is zero."""
    shares = np.bincount(codes, minlength=levels)[:levels] + 0.5
    below = np.cumsum(shares / shares.sum())[:-1]
    thresholds: Floats = np.log(below / (1 - below))
    return thresholds


def fit_outcome(
    problem: Problem, x: Floats, y: Floats, offset: Floats
) -> tuple[Floats, Floats, bool]:
    """The parameters that `coefficient_names` names, their standard errors, whether it settled.

    Parameters
    ----------
    problem : the family and its levels.
    x, y, offset : the columns, outcome and offset of some of its records.
    """
    levels = len(problem.outcome_levels)
    if problem.family == "ordinal":
        x = np.delete(x, problem.constant, axis=1)
    size = np.sqrt((x * x).mean(axis=0))
    scaled = x / size
    likelihood: OutcomeLikelihood
    if problem.family == "negative_binomial":
        likelihood = NegativeBinomialLikelihood(scaled, y, offset)
    elif problem.family == "ordinal":
        likelihood = OrdinalLikelihood(scaled, y, offset, levels)
    else:
        likelihood = MultinomialLikelihood(scaled, y, offset, levels)
        size = np.tile(size, levels - 1)
    theta, optimum, settled = maximise_likelihood(likelihood, likelihood.start())
    covariance = np.linalg.pinv(optimum.information)
    # The delta method, with the derivatives of what is reported by differences.
    steps = _STEP * np.eye(len(theta))
    slope = np.column_stack(
        [(likelihood.report(theta + s) - likelihood.report(theta - s)) / (2 * _STEP) for s in steps]
    )
    errors = np.sqrt(np.maximum(np.diag(slope @ covariance @ slope.T), 0.0))
    values = likelihood.report(theta)
    scale = np.ones(len(values))
    scale[: len(size)] = size
    return values / scale, errors / scale, settled
