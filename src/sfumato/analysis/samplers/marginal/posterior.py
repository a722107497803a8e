"""The log posterior of a generalised linear model of noised predictors, and its gradient.

True numbers given covariates and categories: a linear model whose residual is a mixture of
normals. Categories given covariates: a multinomial logit. All parameters are in one likelihood
(see `kernels.sampling.marginal_likelihood` for the model of a record).

Priors, on the standardised scale: normal of standard deviation 5 for the coefficients of a logit
model, 3 of a probit model (few binary records do not bound a slope whose predictor has noise:
without a prior it runs away), 100 for every other coefficient (flat in effect), 10 for the
logits of categories; flat for the standard deviation of a normal residual. In
a mixture: log standard deviations normal about -0.7 (0.7), distances between components normal
(3), weights Dirichlet(2), so that no component vanishes or collapses.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.kernels.arrays import Floats
from sfumato.kernels.sampling.marginal_likelihood import Parameters, Sums, evaluate_likelihoods
from sfumato.kernels.sampling.quadrature import (
    BINOMIAL_LOGIT,
    BINOMIAL_PROBIT,
    LOGIT,
    PROBIT,
    tabulate_rules,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.analysis.samplers.marginal.arrays import Arrays

FLAT_SD, LEVEL_SD, COMPONENT_SD = 100.0, 10.0, 3.0
LOGIT_SD, PROBIT_SD = 5.0, 3.0
"""How large a coefficient may well be: change on the link's scale for one SD of a predictor."""
_LOG_SD_MEAN, _LOG_SD_SD = -0.7, 0.7
_BLOCK = 8192
THREADS = min(os.cpu_count() or 1, 4)
_LARGEST = 1e4
_MANY_DRAWS = 16
"""Draws of the parameters from which on threads share them rather than the records."""

_tabulate_rules = lru_cache(maxsize=8)(tabulate_rules)


class _Algebra(NamedTuple):
    """Matrices of the kernel's arguments that the chain rule needs again.

    Parameters
    ----------
    cholesky : L, the lower triangular factors of Σ.
    regression : Σ (Σ + E)⁻¹, of true numbers on released ones.
    conditional : Σ - Σ (Σ + E)⁻¹ Σ, the covariance of true numbers given released ones.
    precision : (Σ + E)⁻¹.
    """

    cholesky: Floats
    regression: Floats
    conditional: Floats
    precision: Floats


class LogPosterior:
    """The log posterior density of all parameters, up to a constant.

    Parameters
    ----------
    arrays : the data.
    components : of the mixture.
    family : another family than the data's, such as NOTHING.
    threads : over blocks of records, or over parameters.
    """

    def __init__(
        self, arrays: Arrays, components: int, *, family: int | None = None, threads: int = THREADS
    ) -> None:
        self.arrays = arrays
        self.components = components
        self.family = arrays.family if family is None else family
        self.coefficient_sd = _coefficient_sd(self.family)
        self.terms = len(arrays.to_problem_scale)
        self.numbers = len(arrays.number_terms)
        self.columns = arrays.records.covariates.shape[1]
        self.cells, self.dummies = arrays.dummies.shape
        self.lower = np.tril_indices(self.numbers)
        self.diagonal = self.lower[0] == self.lower[1]
        self._blocks = list(pairwise([*range(0, arrays.count, _BLOCK), arrays.count]))
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._observed = [np.flatnonzero(~missing) for missing in arrays.missing]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The parameters in order, each with its shape.

        Coefficients; regression of the numbers on the covariates; what levels add to it; logits of
        the levels; Cholesky factors with logs on the diagonal; what components add to the
        regression; logits of their weights.
        """
        m, more = self.numbers, self.components - 1 if self.numbers else 0
        return {
            "beta": (self.terms,),
            "regression": (m, self.columns),
            "level_shift": (self.dummies, m),
            "level_logits": (self.cells - 1, self.columns),
            "cholesky": (self.components, m * (m + 1) // 2),
            "component_shift": (more, m),
            "weight_logits": (more,),
        }

    @property
    def size(self) -> int:
        """How many parameters there are."""
        return sum(int(np.prod(shape)) for shape in self.shapes.values())

    def split(self, theta: Floats) -> dict[str, Floats]:
        """The parameters by name, of one vector of them or of several."""
        parts, start = {}, 0
        for name, shape in self.shapes.items():
            size = int(np.prod(shape))
            parts[name] = theta[..., start : start + size].reshape(*theta.shape[:-1], *shape)
            start += size
        return parts

    def join(self, parts: dict[str, Floats]) -> Floats:
        """The parameters as one vector."""
        return np.concatenate([np.asarray(parts[name], float).ravel() for name in self.shapes])

    def with_arrays(self, arrays: Arrays, *, family: int | None = None) -> LogPosterior:
        """The same model of other records."""
        return LogPosterior(arrays, self.components, family=family, threads=self._threads)

    def log_prior(self, theta: Floats) -> float:
        """The log density of the prior, up to a constant."""
        return float(self._evaluate_prior(self.split(theta[None]))[0][0])

    def value(self, theta: Floats) -> float:
        """The log density."""
        return float(self.values(theta[None])[0])

    def value_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """The log density and its gradient."""
        value, gradient = self.values_and_gradients(theta[None])
        return float(value[0]), gradient[0]

    def values(self, theta: Floats) -> Floats:
        """The log densities of several parameters (draw, parameter)."""
        return self._evaluate(theta, with_gradient=False)[0]

    def values_and_gradients(self, theta: Floats) -> tuple[Floats, Floats]:
        """The log densities of several parameters and their gradients."""
        return self._evaluate(theta, with_gradient=True)

    def _evaluate(self, theta: Floats, *, with_gradient: bool) -> tuple[Floats, Floats]:
        values, gradients = np.full(len(theta), -np.inf), np.zeros_like(theta)
        # Parameters that would overflow have density zero.
        usable = (np.abs(theta) < _LARGEST).all(axis=1)
        if not usable.any():
            return values, gradients
        split = self.split(theta[usable])
        parameters, algebra = self.transform(split)
        likelihood, sums = self._sum_blocks(parameters, with_gradient=with_gradient)
        prior, gradient = self._evaluate_prior(split)
        finite = np.isfinite(likelihood)
        values[usable] = np.where(finite, likelihood + prior, -np.inf)
        if with_gradient:
            self._add_likelihood_gradient(gradient, split, sums, algebra)
            flat = [gradient[name].reshape(len(likelihood), -1) for name in self.shapes]
            gradients[usable] = np.where(finite[:, None], np.concatenate(flat, axis=1), 0.0)
        return values, gradients

    def transform(self, split: dict[str, Floats]) -> tuple[Parameters, _Algebra]:
        """The kernel's arguments for several parameters, and the algebra the gradient needs.

        With λ the coefficients of the numbers: E[η | released] follows the released numbers by
        λ' Σ (Σ + E)⁻¹, and Var[η | released] = λ' (Σ - Σ (Σ + E)⁻¹ Σ) λ.
        """
        arrays, m, k = self.arrays, self.numbers, self.components
        beta, cholesky = split["beta"], self.cholesky_factors(split)
        loading = beta @ arrays.number_terms.T
        covariance = cholesky @ cholesky.swapaxes(-1, -2)
        shape = (len(beta), len(self._observed), k)
        precision, log_constant = np.zeros((*shape, m, m)), np.zeros(shape)
        # Missing numbers drop out of the covariance of the released ones.
        for p, observed in enumerate(self._observed):
            rows, columns = np.ix_(observed, observed)
            inverse, log_determinant = _invert(
                covariance[..., rows, columns] + arrays.error[rows, columns]
            )
            precision[:, p, :, rows, columns] = np.moveaxis(inverse, (-2, -1), (0, 1))
            log_constant[:, p] = -0.5 * log_determinant
        if m:
            log_constant += log_softmax(split["weight_logits"])[:, None]
        regression = covariance[:, None] @ precision
        conditional = covariance[:, None] - regression @ covariance[:, None]
        calibration = np.einsum("bpkij,bi->bpkj", regression, loading)
        variance = np.einsum("bi,bpkij,bj->bpk", loading, conditional, loading)
        sd = np.sqrt(np.maximum(variance, 0.0))
        rules = _tabulate_rules(self.family)
        zero = np.zeros((len(beta), 1, m))
        arguments = {
            "slopes": beta[:, arrays.clean],
            "level_effect": beta @ arrays.level_terms.T,
            "loading": loading,
            "regression": split["regression"],
            "level_shift": arrays.dummies @ split["level_shift"],
            "component_shift": np.concatenate([zero, split["component_shift"]], axis=1)
            if m
            else np.zeros((len(beta), k, 0)),
            "level_logits": np.concatenate(
                [np.zeros((len(beta), 1, self.columns)), split["level_logits"]], axis=1
            ),
            "precision": precision,
            "calibration": calibration,
            "remainder": loading[:, None, None] - calibration,
            "log_constant": log_constant,
            "sd": sd,
        }
        # One memory layout, so that the kernels are compiled once.
        parameters = Parameters(
            family=self.family,
            rule=np.searchsorted(rules.widest, sd).astype(np.int64),
            rules=rules,
            **{name: np.ascontiguousarray(array) for name, array in arguments.items()},
        )
        return parameters, _Algebra(cholesky, regression, conditional, precision)

    def _sum_blocks(self, parameters: Parameters, *, with_gradient: bool) -> tuple[Floats, Sums]:
        """The log-likelihood and the sums of its gradient, over blocks of records."""
        records, draws = self.arrays.records, len(parameters.slopes)
        pieces = self._threads if draws >= _MANY_DRAWS else 1
        cuts = [int(cut) for cut in np.linspace(0, draws, pieces + 1)]

        def evaluate(task: tuple[tuple[int, int], tuple[int, int]]) -> tuple[Floats, Sums]:
            rows, (first, last) = task
            piece = parameters if pieces == 1 else parameters.select(*rows)
            result: tuple[Floats, Sums] = evaluate_likelihoods(
                records, piece, first, last, with_gradient
            )
            return result

        tasks = [(rows, ends) for rows in pairwise(cuts) for ends in self._blocks]
        run = self._pool.map if self._pool and len(tasks) > 1 else map
        results = list(run(evaluate, tasks))
        # Blocks are the same whatever the number of threads, and are added in order.
        blocks = len(self._blocks)
        by_piece = [results[first : first + blocks] for first in range(0, len(results), blocks)]
        value = np.concatenate([np.sum([v for v, _ in piece], axis=0) for piece in by_piece])
        if not with_gradient:
            return value, results[0][1]
        sums = [
            np.concatenate([np.sum([sums[i] for _, sums in piece], axis=0) for piece in by_piece])
            for i in range(len(Sums._fields))
        ]
        return value, Sums(*sums)

    def _add_likelihood_gradient(
        self, gradient: dict[str, Floats], split: dict[str, Floats], sums: Sums, algebra: _Algebra
    ) -> None:
        """Add the gradient of the log-likelihood, by the chain rule from the sums over records.

        Rows and columns of missing numbers are zero in the precisions, so sums there do not count.
        """
        arrays, (cholesky, regression, conditional, precision) = self.arrays, algebra
        loading = split["beta"] @ arrays.number_terms.T
        remainder = loading[:, None, None] - np.einsum("bpkij,bi->bpkj", regression, loading)
        cross = (precision @ sums.cross[..., None])[..., 0]
        square = precision @ sums.square @ precision - sums.weight[..., None, None] * precision
        outer = remainder[..., :, None] * cross[..., None, :]
        wide = sums.by_variance[..., None, None] * remainder[..., :, None] * remainder[..., None, :]
        by_covariance = (0.5 * (square + outer + outer.swapaxes(-1, -2)) + wide).sum(axis=1)
        by_loading = sums.loading + np.einsum("bpkij,bpkj->bi", regression, sums.cross)
        by_loading += 2 * np.einsum("bpk,bpkij,bj->bi", sums.by_variance, conditional, loading)
        # Σ = L L', so dl/dL = 2 (dl/dΣ) L; the diagonal of L is exp of its parameter.
        by_cholesky = (2 * by_covariance @ cholesky)[..., self.lower[0], self.lower[1]]
        factor = cholesky[..., self.lower[0], self.lower[1]]
        gradient["cholesky"] += np.where(self.diagonal, by_cholesky * factor, by_cholesky)
        gradient["beta"] += (
            by_loading @ arrays.number_terms + sums.level_effect @ arrays.level_terms
        )
        gradient["beta"][:, arrays.clean] += sums.slopes
        gradient["regression"] += sums.regression
        gradient["level_shift"] += arrays.dummies.T @ sums.level_shift
        gradient["level_logits"] += sums.level_logits[:, 1:]
        if self.numbers:
            gradient["component_shift"] += sums.component_shift[:, 1:]
            share = np.exp(log_softmax(split["weight_logits"]))
            count = sums.weight.sum(axis=1)
            gradient["weight_logits"] += (count - share * count.sum(axis=1, keepdims=True))[:, 1:]

    def cholesky_factors(self, split: dict[str, Floats]) -> Floats:
        """The lower triangular factors of the components' covariances."""
        free = split["cholesky"]
        factors = np.zeros((*free.shape[:-1], self.numbers, self.numbers))
        factors[..., self.lower[0], self.lower[1]] = np.where(
            self.diagonal, np.exp(np.clip(np.where(self.diagonal, free, 0.0), -50, 50)), free
        )
        return factors

    def _evaluate_normal_priors(
        self, split: dict[str, Floats], names: Iterable[str]
    ) -> tuple[Floats, dict[str, Floats]]:
        """The normal priors of some of the parameters, and their gradients."""
        sds = {
            "beta": self.coefficient_sd, "level_logits": LEVEL_SD, "component_shift": COMPONENT_SD
        }  # fmt: skip
        value, gradient = np.zeros(len(split["beta"])), {}
        for name in names:
            variance = sds.get(name, FLAT_SD) ** 2
            value -= 0.5 * (split[name].reshape(len(value), -1) ** 2).sum(axis=1) / variance
            gradient[name] = -split[name] / variance
        return value, gradient

    def _evaluate_prior(self, split: dict[str, Floats]) -> tuple[Floats, dict[str, Floats]]:
        value, gradient = self._evaluate_normal_priors(split, split)
        log_sds = split["cholesky"][..., self.diagonal]
        if self.components == 1:
            # Flat for the standard deviation: the Jacobian of its logarithm.
            value += log_sds.sum(axis=(1, 2))
            gradient["cholesky"][..., self.diagonal] += 1.0
        elif self.numbers:
            distance = log_sds - _LOG_SD_MEAN
            value -= 0.5 * (distance**2).sum(axis=(1, 2)) / _LOG_SD_SD**2
            gradient["cholesky"][..., self.diagonal] -= distance / _LOG_SD_SD**2
            log_shares = log_softmax(split["weight_logits"])
            value += 2 * log_shares.sum(axis=1)
            gradient["weight_logits"] += 2 * (1 - self.components * np.exp(log_shares[:, 1:]))
        return value, gradient


def _invert(matrices: Floats) -> tuple[Floats, Floats]:
    """Inverses and log determinants; of one row, the usual case, without the cost of a library."""
    if matrices.shape[-1] == 1:
        return 1.0 / matrices, np.log(matrices[..., 0, 0])
    log_determinant: Floats = np.linalg.slogdet(matrices)[1]
    return np.asarray(np.linalg.inv(matrices), float), log_determinant


def log_softmax(logits: Floats) -> Floats:
    """The logs of the components' weights, along the last axis; the first logit is zero."""
    logs = np.concatenate([np.zeros((*logits.shape[:-1], 1)), logits], axis=-1)
    top = logs.max(axis=-1, keepdims=True)
    result: Floats = logs - (top + np.log(np.exp(logs - top).sum(axis=-1, keepdims=True)))
    return result


def _coefficient_sd(family: int) -> float:
    """The standard deviation of the coefficients' prior."""
    if family in (LOGIT, BINOMIAL_LOGIT):
        return LOGIT_SD
    return PROBIT_SD if family in (PROBIT, BINOMIAL_PROBIT) else FLAT_SD
