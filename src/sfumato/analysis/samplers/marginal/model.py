"""The log posterior of a generalised linear model of noised predictors, and its gradient.

True numbers given covariates and categories: a linear model whose residual is a mixture of
normals. Categories given covariates: a multinomial logit. All parameters are in one likelihood.

Priors, on the standardised scale: normal of standard deviation 5 for the coefficients of a logit
model, 3 of a probit model (a yes or no of few records does not bound a slope whose predictor has
noise: without a prior it runs away), 100 for every other coefficient (flat in effect), 10 for the
logits of categories; flat for the standard deviation of a normal residual. In
a mixture: log standard deviations normal about -0.7 (0.7), distances between components normal
(3), weights Dirichlet(2), so that no component vanishes or collapses.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from sfumato.analysis.samplers.marginal.values import chained, log_weights, ready
from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.analysis.samplers.marginal.arrays import Arrays
    from sfumato.kernels.sampling.quadrature_records import Parts, Values


WIDE, LOGITS, APART = 100.0, 10.0, 3.0
LOGIT_LIKELY, PROBIT_LIKELY = 5.0, 3.0
"""How large a coefficient may well be: change on the link's scale for one SD of a predictor."""
_NARROWNESS, _NARROWNESS_SD = -0.7, 0.7
_BLOCK = 8192
THREADS = min(os.cpu_count() or 1, 4)
_FAR = 1e4
_SHARED = 16
"""Parameters from which on threads share them rather than the records."""


class Density:
    """The log posterior density of all parameters.

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
        self.likely = _likely(self.family)
        self.terms = len(arrays.back)
        self.numbers = len(arrays.loads)
        self.columns = arrays.records.covariates.shape[1]
        self.cells, self.dummies = arrays.dummies.shape
        self.lower = np.tril_indices(self.numbers)
        self.diagonal = self.lower[0] == self.lower[1]
        ends = [*range(0, arrays.count, _BLOCK), arrays.count]
        self._blocks = list(pairwise(ends))
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self.patterns = [np.flatnonzero(~gone) for gone in arrays.missing]
        self.evaluations = 0

    @property
    def sizes(self) -> dict[str, tuple[int, ...]]:
        """The parameters in order, each with its shape."""
        m, more = self.numbers, self.components - 1 if self.numbers else 0
        return {
            "beta": (self.terms,),
            "centre": (m, self.columns),
            "shift": (self.dummies, m),
            "odds": (self.cells - 1, self.columns),
            "factor": (self.components, m * (m + 1) // 2),
            "move": (more, m),
            "weight": (more,),
        }

    @property
    def size(self) -> int:
        """How many parameters there are."""
        return sum(int(np.prod(shape)) for shape in self.sizes.values())

    def split(self, theta: Floats) -> dict[str, Floats]:
        """The parameters by name, of one list of them or of several."""
        made, at = {}, 0
        for name, shape in self.sizes.items():
            size = int(np.prod(shape))
            made[name] = theta[..., at : at + size].reshape(*theta.shape[:-1], *shape)
            at += size
        return made

    def join(self, parts: dict[str, Floats]) -> Floats:
        """The parameters as one list."""
        return np.concatenate([np.asarray(parts[name], float).ravel() for name in self.sizes])

    def prior(self, theta: Floats) -> float:
        """The log density of the prior, up to a constant."""
        return float(self._prior(self.split(theta[None]))[0][0])

    def value(self, theta: Floats) -> float:
        """The log density."""
        return float(self.values(theta[None])[0])

    def slope(self, theta: Floats) -> tuple[float, Floats]:
        """The log density and its gradient."""
        value, slope = self.slopes(theta[None])
        return float(value[0]), slope[0]

    def values(self, theta: Floats) -> Floats:
        """The log densities of several parameters (draw, parameter)."""
        return self._evaluate(theta, sloped=False)[0]

    def slopes(self, theta: Floats) -> tuple[Floats, Floats]:
        """The log densities of several parameters and their gradients."""
        return self._evaluate(theta, sloped=True)

    def _evaluate(self, theta: Floats, *, sloped: bool) -> tuple[Floats, Floats]:
        self.evaluations += len(theta)
        made, slopes = np.full(len(theta), -np.inf), np.zeros_like(theta)
        # What overflows is no parameter: its density is nought.
        fine = (np.abs(theta) < _FAR).all(axis=1)
        if not fine.any():
            return made, slopes
        split = self.split(theta[fine])
        values, algebra = ready(self, split)
        value, parts = self._sum(values, sloped=sloped)
        prior, by_prior = self._prior(split)
        made[fine] = np.where(np.isfinite(value), value + prior, -np.inf)
        if sloped:
            chained(self, split, parts, algebra, by_prior)
            flat = [by_prior[name].reshape(len(value), -1) for name in self.sizes]
            slopes[fine] = np.where(np.isfinite(value)[:, None], np.concatenate(flat, axis=1), 0.0)
        return made, slopes

    def _sum(self, values: Values, *, sloped: bool) -> tuple[Floats, Parts]:
        from sfumato.kernels.sampling.quadrature_records import Parts, sliced
        from sfumato.kernels.sampling.quadrature_totals import totals

        records, many = self.arrays.records, len(values.slopes)
        shared = self._threads if many >= _SHARED else 1
        pieces = [int(one) for one in np.linspace(0, many, shared + 1)]

        def one(task: tuple[tuple[int, int], tuple[int, int]]) -> tuple[Floats, Parts]:
            rows, ends = task
            piece = values if shared == 1 else sliced(values, *rows)
            made: tuple[Floats, Parts] = totals(records, piece, ends[0], ends[1], sloped)
            return made

        tasks = [(rows, ends) for rows in pairwise(pieces) for ends in self._blocks]
        done = list(
            self._pool.map(one, tasks) if self._pool and len(tasks) > 1 else map(one, tasks)
        )
        # Blocks are the same whatever the number of threads, and are added in order.
        blocks = len(self._blocks)
        rows = [done[at : at + blocks] for at in range(0, len(done), blocks)]
        value = np.concatenate([np.sum([each for each, _ in row], axis=0) for row in rows])
        if not sloped:
            return value, done[0][1]
        sums = [
            np.concatenate([np.sum([parts[at] for _, parts in row], axis=0) for row in rows])
            for at in range(len(Parts._fields))
        ]
        return value, Parts(*sums)

    def factors(self, split: dict[str, Floats]) -> Floats:
        """The lower triangular roots of the components' covariances."""
        factor = split["factor"]
        made = np.zeros((*factor.shape[:-1], self.numbers, self.numbers))
        made[..., self.lower[0], self.lower[1]] = np.where(
            self.diagonal, np.exp(np.clip(np.where(self.diagonal, factor, 0.0), -50, 50)), factor
        )
        return made

    def like(self, arrays: Arrays, *, family: int | None = None) -> Density:
        """The same model of other records."""
        return Density(arrays, self.components, family=family, threads=self._threads)

    def _spread(
        self, split: dict[str, Floats], names: Iterable[str]
    ) -> tuple[Floats, dict[str, Floats]]:
        """The normal priors of some of the parameters, and their slopes."""
        spreads = {"beta": self.likely, "odds": LOGITS, "move": APART}
        value, slopes = np.zeros(len(split["beta"])), {}
        for name in names:
            variance = spreads.get(name, WIDE) ** 2
            value -= 0.5 * (split[name].reshape(len(value), -1) ** 2).sum(axis=1) / variance
            slopes[name] = -split[name] / variance
        return value, slopes

    def _prior(self, split: dict[str, Floats]) -> tuple[Floats, dict[str, Floats]]:
        value, slopes = self._spread(split, split)
        logs = split["factor"][..., self.diagonal]
        if self.components == 1:
            value += logs.sum(axis=(1, 2))
            slopes["factor"][..., self.diagonal] += 1.0
        elif self.numbers:
            away = logs - _NARROWNESS
            value -= 0.5 * (away**2).sum(axis=(1, 2)) / _NARROWNESS_SD**2
            slopes["factor"][..., self.diagonal] -= away / _NARROWNESS_SD**2
            shares = log_weights(split["weight"])
            value += 2 * shares.sum(axis=1)
            slopes["weight"] += 2 * (1 - self.components * np.exp(shares[:, 1:]))
        return value, slopes


def _likely(family: int) -> float:
    """The standard deviation of the coefficients' prior."""
    from sfumato.kernels.sampling.quadrature import BINOMIAL_LOGIT, BINOMIAL_PROBIT, LOGIT, PROBIT

    if family in (LOGIT, BINOMIAL_LOGIT):
        return LOGIT_LIKELY
    return PROBIT_LIKELY if family in (PROBIT, BINOMIAL_PROBIT) else WIDE
