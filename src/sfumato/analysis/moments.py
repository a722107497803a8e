"""Corrected moments and scores: the estimating equations of clean data, made right on average.

Linear models: every product of two terms is replaced by one with the same expectation (Fuller 1987;
powers by Hermite polynomials). Poisson: the corrected score (Nakamura 1990). Logit: the conditional
score (Stefanski & Carroll 1987). No shape is assumed of the true values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sfumato.analysis.functions import Of
from sfumato.analysis.naive import Estimates
from sfumato.analysis.problem import Problem
from sfumato.analysis.stratified import StratifiedNumber
from sfumato.analysis.unbiased import NoMomentsError, power
from sfumato.kernels.arrays import Floats
from sfumato.utility.models.sandwich import variance as sandwich

_ROUNDS = 100
_TWO = 2


@dataclass(frozen=True, eq=False, kw_only=True)
class Corrected:
    """What corrected moments give.

    Parameters
    ----------
    estimates : with standard errors.
    gram : an estimate of the products of the true terms, in sum; None but for linear models.
    noisy : the products of terms that are right on average and have all the noise, in sum.
    records : how many records it rests on.
    levels : for each noised category the scores of its levels.
    """

    estimates: Estimates
    gram: Floats | None = field(default=None, repr=False)
    noisy: Floats | None = field(default=None, repr=False)
    records: int
    levels: Mapping[str, Floats] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, eq=False)
class _Term:
    clean: Floats | None
    powers: Mapping[int, int]
    levels: Mapping[int, int]


def moments(problem: Problem, levels: Mapping[str, Floats], start: Estimates) -> Corrected:
    """Fit by corrected moments or scores.

    Parameters
    ----------
    problem : the model.
    levels : for each noised category the scores of its levels, see `unbiased.scores`.
    start : the naive fit, where the search begins.
    """
    if problem.outcome_category is not None:
        raise NoMomentsError("the outcome is a noised category")
    if problem.family == "gaussian":
        outcome = problem.outcome_number
        if outcome is not None and not (outcome.plain or isinstance(outcome, StratifiedNumber)):
            raise NoMomentsError("the noise of the outcome is not plain")
        return _Linear(problem, levels).fit(start)
    return _scored(problem, start)


class _Linear:
    """Unbiased products of terms, record by record."""

    def __init__(self, problem: Problem, levels: Mapping[str, Floats]) -> None:
        self.problem = problem
        self.levels = [levels[one.name] for one in problem.categories]
        self.terms = [self._term(at) for at in range(len(problem.terms))]
        known = ~np.isnan(problem.y)
        for one in problem.numbers:
            known &= ~np.isnan(one.seen)
        for made in self.levels:
            known &= ~np.isnan(made).any(axis=1)
        self.known = known

    def _term(self, at: int) -> _Term:
        one = self.problem.terms[at]
        powers: dict[int, int] = {}
        for place, of in one.numbers:
            exponent = 1 if of is None else of.power if isinstance(of, Of) else None
            if exponent is None:
                raise NoMomentsError(f"'{one.name}' is no power of a noised variable")
            powers[place] = powers.get(place, 0) + exponent
        return _Term(one.clean, powers, dict(one.levels))

    def product(self, a: _Term, b: _Term | None = None) -> Floats:
        """A value for each record whose expectation is a term, or the product of two."""
        made = np.ones(self.problem.records)
        powers: dict[int, int] = {}
        levels: dict[int, int] = {}
        for one in (a,) if b is None else (a, b):
            made = made if one.clean is None else made * one.clean
            for at, exponent in one.powers.items():
                powers[at] = powers.get(at, 0) + exponent
            for at, level in one.levels.items():
                if levels.setdefault(at, level) != level:
                    return np.zeros(self.problem.records)
        for at, level in levels.items():
            made = made * self.levels[at][:, level]
        return made * self._numbers({at: one for at, one in powers.items() if one})

    def _numbers(self, powers: Mapping[int, int]) -> Floats:
        numbers, error = self.problem.numbers, self.problem.error
        together = [
            (a, b)
            for a in powers
            for b in powers
            if a < b and (error[a, b] or self._by_stratum(a, b))
        ]
        if not together:
            made = np.ones(self.problem.records)
            for at, exponent in powers.items():
                made = made * power(numbers[at], exponent)
            return made
        if sum(powers.values()) > _TWO:
            raise NoMomentsError("noise is correlated, and terms have products of noised variables")
        ((a, b),) = together
        one, other = numbers[a], numbers[b]
        both = one.shared(other) if isinstance(one, StratifiedNumber) else error[a, b]
        return np.asarray(one.seen * other.seen - both, float)

    def _by_stratum(self, a: int, b: int) -> bool:
        one = self.problem.numbers[a]
        return isinstance(one, StratifiedNumber) and bool(one.shared(self.problem.numbers[b]).any())

    def fit(self, start: Estimates) -> Corrected:
        """Solve the corrected equations; those of groups weigh records of one group together."""
        problem, known, size = self.problem, self.known, len(self.terms)
        y = problem.y[known]
        groups = np.arange(len(y)) if problem.groups is None else problem.groups[known]
        x = np.column_stack([self.product(one)[known] for one in self.terms])
        each = np.empty((int(groups.max()) + 1, size, size)) if problem.groups is not None else None
        gram = np.zeros((size, size))
        for a in range(size):
            for b in range(a + 1):
                made = self.product(self.terms[a], self.terms[b])[known]
                gram[a, b] = gram[b, a] = float(made.sum())
                if each is not None:
                    each[:, a, b] = each[:, b, a] = np.bincount(groups, weights=made)
        moment = x.T @ y
        beta = _solved(gram, moment)
        square = float(y @ y - 2 * beta @ moment + beta @ gram @ beta)
        residual = square / (len(y) - size) - self._of_outcome()
        names = [one.name for one in problem.terms]
        if each is not None:
            between = start.value.get(f"variance of {names[problem.random[0]]} by group", 0.0)
            ratio = between / max(residual - between, 1e-9 * residual)
            beta, covariance = _by_group(x, y, groups, each, ratio)
        else:
            score = self._score(np.asarray(beta, float), x * y[:, None])
            inverse = np.linalg.inv(gram)
            covariance = np.asarray(inverse @ score.T @ score @ inverse, float)
        values = dict(zip(names, beta.tolist(), strict=True))
        if each is None:
            values["residual variance"] = residual
        errors = dict(zip(names, np.sqrt(np.diag(covariance)).tolist(), strict=True))
        return Corrected(
            estimates=Estimates(value=values, error=errors, covariance=covariance),
            gram=gram,
            noisy=x.T @ x,
            records=len(y),
            levels=dict(zip((c.name for c in problem.categories), self.levels, strict=True)),
        )

    def _of_outcome(self) -> float:
        """The variance of the noise of the outcome, on average."""
        one = self.problem.outcome_number
        if one is None:
            return 0.0
        return float(one.growth.variance(one.seen).mean()) if one.growth else one.variance or 0.0

    def _score(self, beta: Floats, outcome: Floats) -> Floats:
        made = outcome.copy()
        for a, one in enumerate(self.terms):
            for b, other in enumerate(self.terms):
                made[:, a] -= self.product(one, other)[self.known] * beta[b]
        return made


def _solved(gram: Floats, moment: Floats) -> Floats:
    size = np.sqrt(np.abs(np.diag(gram)))
    if np.linalg.eigvalsh(gram / np.outer(size, size))[0] <= 0:
        raise NoMomentsError("the noise is larger than what is left of a term")
    return np.asarray(np.linalg.solve(gram, moment), float)


def _by_group(
    x: Floats, y: Floats, groups: npt.NDArray[np.int64], each: Floats, ratio: float
) -> tuple[Floats, Floats]:
    """Weighted as if each group had an effect of its own; errors from the spread of groups.

    Noise is independent from record to record, so products of two records need no correction.

    Parameters
    ----------
    x, y : terms that are right on average, and the outcome.
    groups : of each record.
    each : of each group the corrected products of the terms, in sum.
    ratio : the variance of the groups over that of the rest.
    """
    size = x.shape[1]
    count = np.bincount(groups, minlength=len(each))
    total = np.column_stack([np.bincount(groups, weights=one) for one in x.T])
    weight = ratio / (1 + ratio * count)
    outer = total[:, :, None] * total[:, None, :]
    for a in range(size):
        for b in range(size):
            outer[:, a, b] -= np.bincount(groups, weights=x[:, a] * x[:, b])
    gram = each - weight[:, None, None] * (outer + each)
    moment = np.column_stack([np.bincount(groups, weights=one * y) for one in x.T])
    moment = moment - weight[:, None] * total * np.bincount(groups, weights=y)[:, None]
    beta = _solved(gram.sum(axis=0), moment.sum(axis=0))
    score = moment - gram @ beta
    inverse = np.linalg.inv(gram.sum(axis=0))
    return beta, np.asarray(inverse @ score.T @ score @ inverse, float)


def _scored(problem: Problem, start: Estimates) -> Corrected:
    """Poisson and logit models with normal noise on terms that enter as they are."""
    from scipy.optimize import root

    from sfumato.utility.models.sandwich import SCORES

    family = {"log": "poisson", "logit": "logistic"}.get(problem.link)
    whole = problem.trials is None or bool((problem.trials == 1).all())
    if family is None or problem.groups is not None or not whole:
        kind = "a two-level" if problem.groups is not None else "this"
        raise NoMomentsError(f"no corrected score is known for {kind} {problem.family} model")
    if problem.categories or not problem.simple:
        raise NoMomentsError("a corrected score is known for normal noise on plain terms only")
    x = problem.design(
        np.column_stack([one.seen for one in problem.numbers] or [np.empty((problem.records, 0))]),
        np.empty((problem.records, 0), np.int64),
    )
    place = [one.numbers[0][0] if one.numbers else -1 for one in problem.terms]
    sigma = np.array(
        [[problem.error[a, b] if min(a, b) >= 0 else 0.0 for a in place] for b in place]
    )
    names = [one.name for one in problem.terms]
    first = np.array([start.value[name] for name in names])
    score = SCORES[family]
    found = root(lambda beta: score(x, problem.y, beta, sigma).mean(axis=0), first, method="hybr")
    if not found.success or not np.isfinite(found.x).all():
        raise NoMomentsError("the corrected score has no root near the naive fit")
    covariance = sandwich(family, x, [(x, problem.y)], found.x, sigma)
    return Corrected(
        estimates=Estimates(
            value=dict(zip(names, found.x.tolist(), strict=True)),
            error=dict(zip(names, np.sqrt(np.diag(covariance)).tolist(), strict=True)),
            covariance=covariance,
        ),
        records=problem.records,
    )
