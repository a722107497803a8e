"""The log posterior of a generalised linear model of noised predictors, and its gradient.

True numbers given covariates and categories: a linear model whose residual is a mixture of
normals. Categories given covariates: a multinomial logit. All parameters are in one likelihood.

Priors, on the standardised scale: normal of standard deviation 100 for every coefficient (flat in
effect), 10 for the logits of categories; flat for the standard deviation of a normal residual. In
a mixture: log standard deviations normal about -0.7 (0.7), distances between components normal
(3), weights Dirichlet(2), so that no component vanishes or collapses.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from sfumato.analysis.engines.marginal_arrays import Arrays
    from sfumato.kernels.quadrature_records import Parts, Values

Floats = npt.NDArray[np.float64]

WIDE, LOGITS, APART = 100.0, 10.0, 3.0
_NARROWNESS, _NARROWNESS_SD = -0.7, 0.7
_BLOCK = 8192
_THREADS = min(os.cpu_count() or 1, 4)


@lru_cache(maxsize=512)
def _rule(family: int, spread: float) -> tuple[Floats, Floats]:
    from sfumato.kernels.quadrature import rule

    return rule(family, spread)


class Density:
    """The log posterior density of all parameters.

    Parameters
    ----------
    arrays : the data.
    components : of the mixture.
    family : another family than the data's, such as NOTHING.
    threads : over blocks of records.
    """

    def __init__(
        self, arrays: Arrays, components: int, *, family: int | None = None, threads: int = _THREADS
    ) -> None:
        self.arrays = arrays
        self.components = components
        self.family = arrays.family if family is None else family
        self.terms = len(arrays.back)
        self.numbers = len(arrays.loads)
        self.columns = arrays.records.covariates.shape[1]
        self.cells, self.dummies = arrays.dummies.shape
        self._lower = np.tril_indices(self.numbers)
        self._diagonal = self._lower[0] == self._lower[1]
        ends = [*range(0, arrays.count, _BLOCK), arrays.count]
        self._blocks = list(pairwise(ends))
        self._pool = ThreadPoolExecutor(threads) if threads > 1 and len(self._blocks) > 1 else None
        self._patterns = [np.flatnonzero(~gone) for gone in arrays.missing]
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
        """The parameters by name."""
        made, at = {}, 0
        for name, shape in self.sizes.items():
            size = int(np.prod(shape))
            made[name] = theta[at : at + size].reshape(shape)
            at += size
        return made

    def join(self, parts: dict[str, Floats]) -> Floats:
        """The parameters as one list."""
        return np.concatenate([np.asarray(parts[name], float).ravel() for name in self.sizes])

    def prior(self, theta: Floats) -> float:
        """The log density of the prior, up to a constant."""
        return self._prior(self.split(theta))[0]

    def value(self, theta: Floats) -> float:
        """The log density."""
        return self._evaluate(theta, sloped=False)[0]

    def slope(self, theta: Floats) -> tuple[float, Floats]:
        """The log density and its gradient."""
        return self._evaluate(theta, sloped=True)

    def _evaluate(self, theta: Floats, *, sloped: bool) -> tuple[float, Floats]:
        self.evaluations += 1
        split = self.split(theta)
        prior, slopes = self._prior(split)
        if not np.isfinite(prior):
            return -np.inf, np.zeros_like(theta)
        try:
            values, algebra = self._values(split)
        except np.linalg.LinAlgError:
            return -np.inf, np.zeros_like(theta)
        value, parts = self._sum(values, sloped=sloped)
        if not np.isfinite(value):
            return -np.inf, np.zeros_like(theta)
        if sloped:
            self._chain(split, parts, algebra, slopes)
        return value + prior, self.join(slopes)

    def _sum(self, values: Values, *, sloped: bool) -> tuple[float, Parts]:
        from sfumato.kernels.quadrature_records import Parts, total

        records = self.arrays.records

        def one(ends: tuple[int, int]) -> tuple[float, Parts]:
            made: tuple[float, Parts] = total(records, values, ends[0], ends[1], sloped)
            return made

        # Blocks are the same whatever the number of threads, and are added in order.
        made = list(self._pool.map(one, self._blocks) if self._pool else map(one, self._blocks))
        if len(made) == 1:
            return made[0]
        sums = [np.sum(np.stack(each), axis=0) for each in zip(*[p for _, p in made], strict=True)]
        return float(np.sum([value for value, _ in made])), Parts(*sums)

    def factors(self, split: dict[str, Floats]) -> Floats:
        """The lower triangular roots of the components' covariances."""
        made = np.zeros((self.components, self.numbers, self.numbers))
        made[:, self._lower[0], self._lower[1]] = np.where(
            self._diagonal, np.exp(np.clip(split["factor"], -50, 50)), split["factor"]
        )
        return made

    def _values(self, split: dict[str, Floats]) -> tuple[Values, dict[str, Floats]]:
        from sfumato.kernels.quadrature_records import Values

        arrays, m, k = self.arrays, self.numbers, self.components
        beta, roots = split["beta"], self.factors(split)
        loading = arrays.loads @ beta
        covariance = roots @ roots.transpose(0, 2, 1)
        shape = (len(self._patterns), k)
        inverse, lean = np.zeros((*shape, m, m)), np.zeros((*shape, m))
        left, constant = np.zeros((*shape, m, m)), np.zeros(shape)
        follow = np.zeros((*shape, m, m))
        weight = log_weights(split["weight"]) if self.numbers else np.zeros(1)
        for p, kept in enumerate(self._patterns):
            grid = np.ix_(kept, kept)
            for at in range(k):
                released = covariance[at][grid] + arrays.error[grid]
                small = np.linalg.inv(released)
                inverse[p, at][grid] = small
                follow[p, at][:, kept] = covariance[at][:, kept] @ small
                left[p, at] = covariance[at] - follow[p, at] @ covariance[at]
                constant[p, at] = weight[at] - 0.5 * np.linalg.slogdet(released)[1]
        lean = np.einsum("pkab,a->pkb", follow, loading)
        spread = np.sqrt(np.maximum(np.einsum("a,pkab,b->pk", loading, left, loading), 0.0))
        nodes, weights, count = self._rules(spread)
        zero = np.zeros((1, m))
        values = Values(
            self.family,
            np.ascontiguousarray(beta[arrays.clean]),
            arrays.levels @ beta,
            loading,
            np.ascontiguousarray(split["centre"]),
            arrays.dummies @ split["shift"],
            np.concatenate([zero, split["move"]]) if m else np.zeros((k, 0)),
            np.concatenate([np.zeros((1, self.columns)), split["odds"]]),
            inverse,
            lean,
            loading - lean,
            constant,
            spread,
            nodes,
            weights,
            count,
        )
        return values, {"roots": roots, "follow": follow, "left": left}

    def _rules(self, spread: Floats) -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
        # A spread is rounded up, so that rules are shared and the density stays smooth nearly
        # everywhere.
        steps = np.minimum(np.ceil(spread * 20) / 20, 1e3)
        rules = [_rule(self.family, float(one)) for one in steps.ravel()]
        count = np.array([len(nodes) for nodes, _ in rules]).reshape(spread.shape)
        made = np.zeros((2, len(rules), max(int(count.max()), 1)))
        for at, (nodes, weights) in enumerate(rules):
            made[0, at, : len(nodes)], made[1, at, : len(nodes)] = nodes, weights
        return made[0], made[1], count

    def _chain(
        self,
        split: dict[str, Floats],
        parts: Parts,
        algebra: dict[str, Floats],
        slopes: dict[str, Floats],
    ) -> None:
        """From the sums over records to the gradient."""
        arrays = self.arrays
        loading = arrays.loads @ split["beta"]
        by_loading = parts.direct.copy()
        for at, root in enumerate(algebra["roots"]):
            covariance = root @ root.T
            by_covariance = np.zeros_like(covariance)
            for p, kept in enumerate(self._patterns):
                grid = np.ix_(kept, kept)
                small = np.linalg.inv(covariance[grid] + arrays.error[grid])
                follow, left = algebra["follow"][p, at], algebra["left"][p, at]
                rest = loading - follow.T @ loading
                pull, weight = parts.pull[p, at][kept], parts.weight[p, at]
                square = small @ parts.square[p, at][grid] @ small - weight * small
                by_covariance[grid] += 0.5 * square
                tilt = np.zeros(len(loading))
                tilt[kept] = small @ pull
                by_covariance += 0.5 * (np.outer(rest, tilt) + np.outer(tilt, rest))
                by_covariance += parts.width[p, at] * np.outer(rest, rest)
                by_loading += follow[:, kept] @ pull
                by_loading += 2 * parts.width[p, at] * (left @ loading)
            by_root = (2 * by_covariance @ root)[self._lower]
            slopes["factor"][at] += np.where(self._diagonal, by_root * root[self._lower], by_root)
        slopes["beta"] += arrays.loads.T @ by_loading + arrays.levels.T @ parts.offset
        slopes["beta"][arrays.clean] += parts.clean
        slopes["centre"] += parts.centre
        slopes["shift"] += arrays.dummies.T @ parts.shift
        slopes["odds"] += parts.odds[1:]
        if self.numbers:
            slopes["move"] += parts.move[1:]
            share = np.exp(log_weights(split["weight"]))
            expected = parts.weight.sum(axis=0)
            slopes["weight"] += (expected - share * expected.sum())[1:]

    def _prior(self, split: dict[str, Floats]) -> tuple[float, dict[str, Floats]]:
        spreads = {"odds": LOGITS, "move": APART}
        value, slopes = 0.0, {}
        for name, part in split.items():
            variance = spreads.get(name, WIDE) ** 2
            value -= 0.5 * float((part**2).sum()) / variance
            slopes[name] = -part / variance
        logs = split["factor"][:, self._diagonal]
        if self.components == 1:
            value += float(logs.sum())
            slopes["factor"][:, self._diagonal] += 1.0
        elif self.numbers:
            away = logs - _NARROWNESS
            value -= 0.5 * float((away**2).sum()) / _NARROWNESS_SD**2
            slopes["factor"][:, self._diagonal] -= away / _NARROWNESS_SD**2
            shares = log_weights(split["weight"])
            value += 2 * float(shares.sum())
            slopes["weight"] += 2 * (1 - self.components * np.exp(shares[1:]))
        return value, slopes


def log_weights(logits: Floats) -> Floats:
    """The logs of the components' weights."""
    whole = np.concatenate([np.zeros(1), logits])
    top = whole.max()
    made: Floats = whole - (top + np.log(np.exp(whole - top).sum()))
    return made
