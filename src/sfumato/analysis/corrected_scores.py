"""Corrected scores: the estimating equations of clean data, made right on average.

Linear models: every product of two terms is replaced by one with the same expectation (Fuller 1987;
powers by Hermite polynomials). Poisson: the corrected score (Nakamura 1990). Logit: the conditional
score (Stefanski & Carroll 1987). No shape is assumed of the true values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.analysis.formula import Transformation
from sfumato.analysis.measurement_error import (
    StratifiedNumber,
    Transitions,
    build_category,
    find_transitions,
)
from sfumato.analysis.naive_fit import Estimates
from sfumato.analysis.problem import NoisyNumber, Problem
from sfumato.kernels.arrays import Floats
from sfumato.noise.description import CodeNoise, Misclassification, NoiseDescription
from sfumato.utility.models.sandwich import SCORES
from sfumato.utility.models.sandwich import sandwich_covariance as sandwich

_PAIR = 2
_NODES, _PIECES, _WIDE = 16, 12, 8.0
_EM_ROUNDS = 200


# Models


@dataclass(frozen=True, eq=False, kw_only=True)
class CorrectedFit:
    """A fit by corrected moments or scores.

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
class _PolynomialTerm:
    clean: Floats | None
    powers: Mapping[int, int]
    levels: Mapping[int, int]


def fit_corrected_moments(
    problem: Problem, levels: Mapping[str, Floats], start: Estimates
) -> CorrectedFit:
    """Fit by corrected moments or scores.

    Parameters
    ----------
    problem : the model.
    levels : for each noised category the scores of its levels, see `score_levels`.
    start : the naive fit, where the search begins.
    """
    require_plain_outcome(problem)
    if problem.more_factors:
        raise NoCorrectedScoreError("there are several grouping factors")
    if problem.family == "gaussian":
        return LinearMoments(problem, levels).fit(start)
    return _fit_by_score(problem, start)


def require_plain_outcome(problem: Problem) -> None:
    """Refuse an outcome whose noise no score can be corrected for."""
    if problem.outcome_category is not None:
        raise NoCorrectedScoreError("the outcome is a noised category")
    outcome = problem.outcome_number
    if outcome is not None and not (
        outcome.is_homoscedastic_normal or isinstance(outcome, StratifiedNumber)
    ):
        raise NoCorrectedScoreError("the noise of the outcome is not plain")


class LinearMoments:
    """Unbiased products of terms, record by record."""

    def __init__(self, problem: Problem, levels: Mapping[str, Floats]) -> None:
        self.problem = problem
        self.levels = [levels[variable.name] for variable in problem.categories]
        self.terms = [self._read_term(index) for index in range(len(problem.terms))]
        known = ~np.isnan(problem.y)
        known &= ~np.isnan(problem.observed).any(axis=1)
        for scores in self.levels:
            known &= ~np.isnan(scores).any(axis=1)
        self.known = known

    def _read_term(self, index: int) -> _PolynomialTerm:
        term = self.problem.terms[index]
        powers: dict[int, int] = {}
        for number, function in term.numbers:
            exponent = function.power if isinstance(function, Transformation) else None
            exponent = 1 if function is None else exponent
            if exponent is None:
                raise NoCorrectedScoreError(f"'{term.name}' is no power of a noised variable")
            powers[number] = powers.get(number, 0) + exponent
        return _PolynomialTerm(term.clean, powers, dict(term.levels))

    def product(self, a: _PolynomialTerm, b: _PolynomialTerm | None = None) -> Floats:
        """A value for each record whose expectation is a term, or the product of two."""
        result = np.ones(self.problem.records)
        powers: dict[int, int] = {}
        levels: dict[int, int] = {}
        for term in (a,) if b is None else (a, b):
            result = result if term.clean is None else result * term.clean
            for index, exponent in term.powers.items():
                powers[index] = powers.get(index, 0) + exponent
            for index, level in term.levels.items():
                # Two levels of one category exclude each other.
                if levels.setdefault(index, level) != level:
                    return np.zeros(self.problem.records)
        for index, level in levels.items():
            result = result * self.levels[index][:, level]
        return result * self._multiply_powers(powers)

    def _multiply_powers(self, powers: Mapping[int, int]) -> Floats:
        numbers, error = self.problem.numbers, self.problem.error
        powers = {index: exponent for index, exponent in powers.items() if exponent}
        together = [
            (a, b)
            for a in powers
            for b in powers
            if a < b and (error[a, b] or self._is_correlated_by_stratum(a, b))
        ]
        if not together:
            result = np.ones(self.problem.records)
            # Independent noise: the expectation of the product is that of the expectations.
            for index, exponent in powers.items():
                result = result * unbiased_power(numbers[index], exponent)
            return result
        if sum(powers.values()) > _PAIR:
            raise NoCorrectedScoreError(
                "noise is correlated, and terms have products of noised variables"
            )
        # E[w1 w2] = E[x1 x2] + cov(u1, u2).
        ((a, b),) = together
        first, second = numbers[a], numbers[b]
        shared = (
            first.covariance_with(second) if isinstance(first, StratifiedNumber) else error[a, b]
        )
        return np.asarray(first.observed * second.observed - shared, float)

    def _is_correlated_by_stratum(self, a: int, b: int) -> bool:
        number = self.problem.numbers[a]
        return isinstance(number, StratifiedNumber) and bool(
            number.covariance_with(self.problem.numbers[b]).any()
        )

    def products(self) -> Floats:
        """(record, value) products of each two terms, of each term and the outcome, and y²."""
        y = self.problem.y[self.known]
        size = len(self.terms)
        columns: list[Floats] = [np.zeros(0)] * (size * size)
        for a in range(size):
            for b in range(a + 1):
                product = self.product(self.terms[a], self.terms[b])[self.known]
                columns[a * size + b] = columns[b * size + a] = product
        columns += [self.product(term)[self.known] * y for term in self.terms]
        return np.column_stack([*columns, y * y])

    def fit(self, start: Estimates) -> CorrectedFit:
        """Solve the corrected equations; those of groups weigh records of one group together."""
        problem, known, size = self.problem, self.known, len(self.terms)
        y = problem.y[known]
        groups = np.arange(len(y)) if problem.groups is None else problem.groups[known]
        x = np.column_stack([self.product(term)[known] for term in self.terms])
        group_grams = (
            np.empty((int(groups.max()) + 1, size, size)) if problem.groups is not None else None
        )
        gram = np.zeros((size, size))
        for a in range(size):
            for b in range(a + 1):
                product = self.product(self.terms[a], self.terms[b])[known]
                gram[a, b] = gram[b, a] = float(product.sum())
                if group_grams is not None:
                    group_grams[:, a, b] = group_grams[:, b, a] = np.bincount(
                        groups, weights=product
                    )
        moment = x.T @ y
        beta = _solve(gram, moment)
        # The residual sum of squares of the true terms, less the noise of the outcome.
        square = float(y @ y - 2 * beta @ moment + beta @ gram @ beta)
        residual = square / (len(y) - size) - self.outcome_noise_variance()
        names = [term.name for term in problem.terms]
        if group_grams is not None:
            between = start.value.get(f"variance of {names[problem.random[0]]} by group", 0.0)
            ratio = between / max(residual - between, 1e-9 * residual)
            pairs = self._multiply_pairs(groups)
            beta, covariance = _fit_by_group(x, y, groups, group_grams, pairs, ratio)
        else:
            # The sandwich: inverse, sum of squared scores, inverse.
            score = self._score_records(np.asarray(beta, float), x * y[:, None])
            inverse = np.linalg.inv(gram)
            covariance = np.asarray(inverse @ score.T @ score @ inverse, float)
        variances = {"residual variance": residual} if group_grams is None else {}
        return CorrectedFit(
            estimates=Estimates.from_fit(names, beta, covariance, variances),
            gram=gram,
            noisy=x.T @ x,
            records=len(y),
            levels=dict(zip((c.name for c in problem.categories), self.levels, strict=True)),
        )

    def _multiply_pairs(self, groups: npt.NDArray[np.int64]) -> Floats:
        """(group, term, term): products of terms of two different records of a group, in sum.

        Noise of records is independent, so the product of two is right as it is. What a group has
        is the same in both, with the same noise, and is taken out as in one record.
        """
        size = len(self.terms)
        apart = [self._split_levels(term) for term in self.terms]
        columns = np.column_stack([self.product(part)[self.known] for part, _ in apart])
        total = np.column_stack([np.bincount(groups, weights=column) for column in columns.T])
        pairs: Floats = np.asarray(total[:, :, None] * total[:, None, :], float)
        count = np.maximum(np.bincount(groups, minlength=len(total)), 1)
        for a in range(size):
            for b in range(size):
                pairs[:, a, b] -= np.bincount(groups, weights=columns[:, a] * columns[:, b])
                if self.problem.group_level:
                    shared = self.product(apart[a][1], apart[b][1])[self.known]
                    pairs[:, a, b] *= np.bincount(groups, weights=shared) / count
        return pairs

    def _split_levels(self, term: _PolynomialTerm) -> tuple[_PolynomialTerm, _PolynomialTerm]:
        """The part of a term that differs within groups, and the part that groups have."""
        numbers, categories = self.problem.numbers, self.problem.categories
        parts = [
            _PolynomialTerm(
                None if by_group else term.clean,
                {i: power for i, power in term.powers.items() if numbers[i].by_group == by_group},
                {i: k for i, k in term.levels.items() if categories[i].by_group == by_group},
            )
            for by_group in (False, True)
        ]
        return parts[0], parts[1]

    def outcome_noise_variance(self) -> float:
        """The variance of the noise of the outcome, on average."""
        outcome = self.problem.outcome_number
        if outcome is None:
            return 0.0
        return (
            float(outcome.growth.variance(outcome.observed).mean())
            if outcome.growth
            else outcome.variance or 0.0
        )

    def _score_records(self, beta: Floats, outcome: Floats) -> Floats:
        score = outcome.copy()
        for a, row in enumerate(self.terms):
            for b, column in enumerate(self.terms):
                score[:, a] -= self.product(row, column)[self.known] * beta[b]
        return score


def _solve(gram: Floats, moment: Floats) -> Floats:
    size = np.sqrt(np.abs(np.diag(gram)))
    if np.linalg.eigvalsh(gram / np.outer(size, size))[0] <= 0:
        raise NoCorrectedScoreError("the noise is larger than what is left of a term")
    return np.asarray(np.linalg.solve(gram, moment), float)


def _fit_by_group(
    x: Floats,
    y: Floats,
    groups: npt.NDArray[np.int64],
    group_grams: Floats,
    pairs: Floats,
    ratio: float,
) -> tuple[Floats, Floats]:
    """Weighted as if each group had a random intercept; errors from the spread of groups.

    Parameters
    ----------
    x, y : terms that are right on average, and the outcome.
    groups : of each record.
    group_grams, pairs : of each group the corrected products of the terms, in sum: of one record,
        and of two different ones.
    ratio : the variance of the groups over that of the rest.
    """
    count = np.bincount(groups, minlength=len(group_grams))
    total = np.column_stack([np.bincount(groups, weights=column) for column in x.T])
    # The inverse of I + ratio 1 1' is I - weight 1 1', group by group.
    weight = ratio / (1 + ratio * count)
    gram = group_grams - weight[:, None, None] * (pairs + group_grams)
    moment = np.column_stack([np.bincount(groups, weights=column * y) for column in x.T])
    moment = moment - weight[:, None] * total * np.bincount(groups, weights=y)[:, None]
    beta = _solve(gram.sum(axis=0), moment.sum(axis=0))
    score = moment - gram @ beta
    inverse = np.linalg.inv(gram.sum(axis=0))
    return beta, np.asarray(inverse @ score.T @ score @ inverse, float)


def _fit_by_score(problem: Problem, start: Estimates) -> CorrectedFit:
    """Poisson and logit models with normal noise on terms that enter as they are."""
    from scipy.optimize import root

    family = {"poisson": "poisson", "bernoulli": "logistic", "binomial": "logistic"}.get(
        problem.family if problem.link != "probit" else ""
    )
    single_trials = problem.trials is None or bool((problem.trials == 1).all())
    if family is None or problem.groups is not None or not single_trials:
        kind = "a two-level" if problem.groups is not None else "this"
        raise NoCorrectedScoreError(
            f"no corrected score is known for {kind} {problem.family} model"
        )
    if problem.offset is not None:
        raise NoCorrectedScoreError("no corrected score is known for a model with an offset")
    if problem.categories or not problem.simple:
        raise NoCorrectedScoreError(
            "a corrected score is known for normal noise on plain terms only"
        )
    x = problem.design(problem.observed, np.empty((problem.records, 0), np.int64))
    number_of_term = [term.numbers[0][0] if term.numbers else -1 for term in problem.terms]
    sigma = np.array(
        [
            [problem.error[a, b] if min(a, b) >= 0 else 0.0 for a in number_of_term]
            for b in number_of_term
        ]
    )
    names = [term.name for term in problem.terms]
    first = np.array([start.value[name] for name in names])
    score = SCORES[family]
    solution = root(
        lambda beta: score(x, problem.y, beta, sigma).mean(axis=0), first, method="hybr"
    )
    if not solution.success or not np.isfinite(solution.x).all():
        raise NoCorrectedScoreError("the corrected score has no root near the naive fit")
    covariance = sandwich(family, x, [(x, problem.y)], solution.x, sigma)
    return CorrectedFit(
        estimates=Estimates.from_fit(names, solution.x, covariance),
        records=problem.records,
    )


# Unbiased powers of noised numbers, and scores of the levels of noised categories


class NoCorrectedScoreError(Exception):
    """A model has terms for which no such score is known. The text says which."""


def unbiased_power(number: NoisyNumber, exponent: int) -> Floats:
    """A value for each record whose expectation is the true value to this power.

    The true value is the latent one; for normal noise these are Hermite polynomials.

    Examples
    --------
    >>> unbiased_power(NoisyNumber(name="x", observed=np.array([3.0]), variance=1.0), 2)
    array([8.])
    """
    if number.scale is not None or number.width or np.isfinite([number.low, number.high]).any():
        raise NoCorrectedScoreError(f"'{number.name}' was noised on another scale, rounded or cut")
    released = number.observed
    variance: Floats | float = number.variance or 0.0
    if isinstance(number, StratifiedNumber) and number.growth is not None:
        variance = number.growth.variance(released)
    elif number.growth is not None:
        if number.growth.form != "linear" or exponent > 2:  # noqa: PLR2004 - squares are known
            raise NoCorrectedScoreError(f"the noise of '{number.name}' grows with its value")
        square = released**2 - number.growth.constant - number.growth.slope * released
        return (np.ones_like(released), released, square)[exponent]
    if number.laplace and exponent > 2:  # noqa: PLR2004
        raise NoCorrectedScoreError(f"the noise of '{number.name}' is not normal")
    previous, current = np.ones_like(released), released
    if exponent == 0:
        return previous
    # The recursion of Hermite polynomials, with E[He_n(w)] = x ** n.
    for order in range(1, exponent):
        previous, current = current, released * current - order * variance * previous
    return current


def score_levels(
    name: str, values: pl.Series, noise: NoiseDescription, strata: pl.DataFrame
) -> Floats:
    """For each record and level a score whose expectation is 1 at the true level, else 0.

    Rows are NaN where the value is missing. Any score that is a sum over likelihoods can be made
    right on average; this one is the most precise of them for the levels' shares.
    """
    category = build_category(name, values, noise, strata)
    likelihood = np.exp(category.density - category.density.max(axis=1, keepdims=True))
    if isinstance(noise, Misclassification):
        scores = _score_released_levels(
            noise, estimate_level_shares(likelihood), find_transitions(name, values, noise, strata)
        )
    else:
        scores = _score_codes(noise, likelihood)
    return np.where(values.is_null().to_numpy()[:, None], np.nan, scores)


def _score_released_levels(
    noise: Misclassification, share: Floats, transitions: Transitions
) -> Floats:
    inverses = []
    for matrix in transitions.matrices:
        released = np.maximum(share @ matrix, 1e-300)
        overlap = (matrix / released) @ matrix.T
        inverses.append((matrix / released).T @ _invert(overlap, noise))
    scores: Floats = np.asarray(inverses)[transitions.stratum, np.maximum(transitions.level, 0)]
    return scores


def _score_codes(noise: NoiseDescription, likelihood: Floats) -> Floats:
    if not isinstance(noise, CodeNoise):
        raise NoCorrectedScoreError("the noise of a category is of an unknown kind")
    share = estimate_level_shares(likelihood)
    points, weights = _quadrature_points(noise)
    density = np.stack([_code_density(noise, level, points) for level in range(len(noise.levels))])
    overlap = (density * weights / (share @ density)) @ density.T
    scores: Floats = likelihood / (likelihood @ share)[:, None] @ _invert(overlap, noise)
    return scores


def _invert(overlap: Floats, noise: NoiseDescription) -> Floats:
    if np.linalg.cond(overlap) > 1e8:  # noqa: PLR2004 - the levels can no longer be distinguished
        raise NoCorrectedScoreError(
            f"the {noise.distribution} leaves levels that cannot be distinguished"
        )
    return np.asarray(np.linalg.inv(overlap), float)


def _quadrature_points(noise: CodeNoise) -> tuple[Floats, Floats]:
    """Points at which to take the density of what was released, and their weights.

    The two ends of clipped codes, and every rounded code, have a probability of their own.
    """
    codes = noise.codes
    if noise.ends == "round":
        return codes, np.ones(len(codes))
    reach = _WIDE * float(np.sqrt(noise.variances.max()))
    ends = (codes[0], codes[-1]) if noise.ends == "clip" else (codes[0] - reach, codes[-1] + reach)
    nodes, weights = _legendre_rule()
    edges = np.linspace(*ends, _PIECES * len(codes) + 1)
    half = np.diff(edges) / 2
    points = ((edges[:-1] + half)[:, None] + half[:, None] * nodes).ravel()
    point_weights = (half[:, None] * weights).ravel()
    if noise.ends == "free":
        return points, point_weights
    return np.concatenate([[codes[0]], points, [codes[-1]]]), np.concatenate(
        [[1.0], point_weights, [1.0]]
    )


@lru_cache(maxsize=1)
def _legendre_rule() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return nodes, weights


def _code_density(noise: CodeNoise, level: int, points: Floats) -> Floats:
    """The density or probability of released values at one level."""
    if noise.ends == "round":
        values = pl.Series("", noise.levels, strict=False)
    else:
        values = pl.Series("", points)
    category = build_category("", values, noise, pl.DataFrame())
    density: Floats = np.exp(category.density[:, level])
    return density


def estimate_level_shares(likelihood: Floats) -> Floats:
    """How frequent each level is among the true values, by maximum likelihood.

    Examples
    --------
    >>> estimate_level_shares(np.array([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])).round(2)
    array([0.71, 0.29])
    """
    share = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    for _ in range(_EM_ROUNDS):
        joint = likelihood * share
        new = (joint / joint.sum(axis=1, keepdims=True)).mean(axis=0)
        if float(np.abs(new - share).max()) < 1e-9:  # noqa: PLR2004 - it has settled
            break
        share = new
    return share
