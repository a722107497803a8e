"""How the distribution of true numbers depends on clean variables, chosen by what was released.

The simplest model of true values has a mean that is linear in the clean columns of the formula, one
spread and one shape. Products of noised and clean terms, generalised models and noised categories
are biased where that is wrong. So the data are asked, in this order:

1. mean: smooth functions of clean numbers, products of clean variables (also for the levels of
   noised categories);
2. spread: the log of the SD may depend on the same columns. By those that multiply a noised number
   in the formula it always does, since the coefficient of the product rests on it;
3. shape: strata of clean variables, each with shares of its own of the components of a mixture.

Each question is a score test, robust to what the other parts leave out, and summed by group where
there are groups. Noise has one variance, or one that is known, so differences of released moments
are those of true ones.

References: Carroll, Ruppert, Stefanski & Crainiceanu (2006), Measurement Error in Nonlinear Models,
chapter 8 (exposure models); Boos (1992), American Statistician 46:327 (robust score tests); Harrell
(2015), Regression Modeling Strategies, section 2.4 (restricted cubic splines).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.analysis.measurement_error import StratifiedNumber, noise_covariances
from sfumato.analysis.problem import Exposure, GeneralisedNumber, Problem
from sfumato.kernels.arrays import Floats, Integers
from sfumato.utility.models.formula import FormulaToken

if TYPE_CHECKING:
    from sfumato.analysis.formula import ModelFormula
    from sfumato.analysis.variables import ModelVariables

_SURE = 0.005
"""A smaller p-value, and true values depend on a clean variable in this way as well."""
_FEW_VALUES = 6
"""A clean number of no more values is a category."""
_KNOTS = (0.05, 0.275, 0.5, 0.725, 0.95)
_RECORDS_PER_COLUMN = 20
_RECORDS_PER_STRATUM = 60
_MOST_COLUMNS = 12
"""Of a product of two clean variables, beyond which it is not looked at."""
_TERCILES = 3
_COLLINEAR = 1e-9
_ROUNDS = 25
_LEAST = 0.02
"""The least share of a released variance that is taken for true."""


@dataclass(frozen=True, eq=False)
class CleanVariable:
    """A clean variable of the formula.

    Parameters
    ----------
    name : of the variable.
    columns : indicators of all levels but the first, or the number itself.
    smooth : further columns of a number, a restricted cubic spline; none of a category.
    stratum : the level of each record, or its tercile.
    """

    name: str
    columns: Floats = field(repr=False)
    smooth: Floats = field(repr=False)
    stratum: Integers = field(repr=False)


class _ModelCandidate(NamedTuple):
    """Columns that may be added, under a name that tells equal ones."""

    name: str
    columns: Floats


def choose_exposure(problem: Problem, clean: Sequence[CleanVariable]) -> Problem:
    """The problem with as rich a model of true values as the released ones ask for.

    Parameters
    ----------
    problem : the model.
    clean : the clean predictors of the formula.
    """
    if not clean or not has_plain_numbers(problem):
        return problem
    problem = replace(problem, covariates=_choose_mean(problem, clean))
    if not problem.numbers:
        return problem
    spread = _choose_spread(problem, clean)
    stratum = _choose_strata(problem, clean, spread)
    if not spread.shape[1] and stratum is None:
        return problem
    return replace(problem, exposure=Exposure(spread, stratum))


def has_plain_numbers(problem: Problem) -> bool:
    """Whether there is noise, and of a kind that has no model of true values of its own."""
    if not (problem.numbers or problem.categories) or problem.group_level:
        return False
    with_own_model = (GeneralisedNumber, StratifiedNumber)
    least = _RECORDS_PER_COLUMN + problem.covariates.shape[1]
    return not any(
        isinstance(number, with_own_model) or np.isfinite(number.observed).sum() < least
        for number in problem.numbers
    )


def needs_exposure(problem: Problem) -> bool:
    """Whether coefficients depend on the model of true values beyond second moments."""
    linear = problem.family == "gaussian" and all(term.simple(problem) for term in problem.terms)
    return has_plain_numbers(problem) and (not linear or bool(problem.categories))


def collect_clean_variables(
    formula: ModelFormula, variables: ModelVariables
) -> tuple[CleanVariable, ...]:
    """The clean predictors of the formula, each with what may depend on it."""
    clean = []
    outcome = formula.fixed.tokens[: formula.fixed.tokens.index(FormulaToken("operator", "~"))]
    names = {*formula.fixed.variables, *formula.offset_variables}
    names -= {token.text for token in outcome}
    for name in sorted(names):
        values = variables.columns.get(name)
        noised = name in variables.numbers or name in variables.categories
        if values is None or noised or not np.isfinite(values).all():
            continue
        levels, codes = np.unique(values, return_inverse=True)
        if len(levels) > 1:
            clean.append(_describe(name, values, codes.reshape(-1), levels, variables.labels))
    return tuple(clean)


def _describe(
    name: str, values: Floats, codes: Integers, levels: Floats, labels: Mapping[str, object]
) -> CleanVariable:
    nothing = np.zeros((len(values), 0))
    if name in labels or len(levels) <= _FEW_VALUES:
        indicators = np.eye(len(levels))[codes][:, 1:]
        return CleanVariable(name, indicators, nothing, codes)
    standardised = (values - values.mean()) / values.std()
    terciles = np.searchsorted(np.quantile(values, [1 / 3, 2 / 3]), values)
    return CleanVariable(name, standardised[:, None], _build_spline(standardised), terciles)


def _build_spline(values: Floats) -> Floats:
    """What a restricted cubic spline adds to a straight line: straight beyond the outer knots."""
    knots = np.unique(np.quantile(values, _KNOTS))
    if len(knots) < _TERCILES:
        return np.zeros((len(values), 0))
    last, before = knots[-1], knots[-2]

    def cube(knot: float) -> Floats:
        return np.maximum(values - knot, 0.0) ** 3

    columns = [
        cube(knot)
        - cube(before) * (last - knot) / (last - before)
        + cube(last) * (before - knot) / (last - before)
        for knot in knots[:-2]
    ]
    spline: Floats = np.column_stack(columns) / (last - knots[0]) ** 2
    return spline


# Mean


def _choose_mean(problem: Problem, clean: Sequence[CleanVariable]) -> Floats:
    """The covariates, with further columns that the means of true values ask for."""
    covariates, candidates = problem.covariates, _list_candidates(clean)
    while candidates:
        p_values = [_test_mean(problem, covariates, x.columns) for x in candidates]
        best = int(np.argmin(p_values))
        if p_values[best] >= _SURE:
            break
        more = _orthogonalise(candidates.pop(best).columns, covariates)
        if (covariates.shape[1] + more.shape[1]) * _RECORDS_PER_COLUMN > problem.records:
            break
        covariates = np.column_stack([covariates, more])
    return covariates


def _list_candidates(clean: Sequence[CleanVariable]) -> list[_ModelCandidate]:
    """Smooth functions of each variable, and products of two."""
    smooth = [x for x in clean if x.smooth.shape[1]]
    candidates = [_ModelCandidate(f"{x.name} squared", x.columns**2) for x in smooth]
    candidates += [_ModelCandidate(x.name, x.smooth) for x in smooth]
    for i, first in enumerate(clean):
        for second in clean[:i]:
            products = first.columns[:, :, None] * second.columns[:, None, :]
            columns = products.reshape(len(products), -1)
            if columns.shape[1] > _MOST_COLUMNS:
                continue
            candidates.append(_ModelCandidate(f"{second.name}:{first.name}", columns))
    return candidates


def _test_mean(problem: Problem, covariates: Floats, columns: Floats) -> float:
    """The least p-value of columns in the means of numbers and in the log odds of levels."""
    p_values = [1.0]
    for number in problem.numbers:
        known = np.isfinite(number.observed)
        residual = np.zeros(problem.records)
        fitted = np.linalg.lstsq(covariates[known], number.observed[known], rcond=None)[0]
        residual[known] = number.observed[known] - covariates[known] @ fitted
        p_values.append(_test_scores(residual, columns, covariates, problem.groups, known))
    for category in problem.categories:
        likelihood = np.exp(category.density - category.density.max(axis=1, keepdims=True))
        shares = likelihood / likelihood.sum(axis=1, keepdims=True)
        for level in range(1, shares.shape[1]):
            mean = _fit_quasi_binomial(covariates, shares[:, level])
            weight = mean * (1 - mean)
            p_values.append(
                _test_scores(
                    shares[:, level] - mean, columns, covariates, problem.groups, weight=weight
                )
            )
    # Several variables are tested at once.
    return min(p_values) * max(len(p_values) - 1, 1)


def _fit_quasi_binomial(x: Floats, share: Floats) -> Floats:
    """Means of shares between 0 and 1 by a logit model."""
    beta = np.zeros(x.shape[1])
    for _ in range(_ROUNDS):
        mean = 1 / (1 + np.exp(-np.clip(x @ beta, -30, 30)))
        weight = np.maximum(mean * (1 - mean), 1e-6)
        gram = x.T @ (x * weight[:, None]) + 1e-9 * np.eye(x.shape[1])
        step = np.linalg.solve(gram, x.T @ (share - mean))
        beta = beta + step
        if np.abs(x @ step).max() < 1e-6:  # noqa: PLR2004 - nobody sees it
            break
    result: Floats = 1 / (1 + np.exp(-np.clip(x @ beta, -30, 30)))
    return result


# Spread


def _choose_spread(problem: Problem, clean: Sequence[CleanVariable]) -> Floats:
    """The columns on which the log SD of true numbers depends, of size one about zero."""
    factors = [term.clean for term in problem.terms if term.numbers and term.clean is not None]
    constant = np.ones((problem.records, 1))
    spread = np.zeros((problem.records, 0))
    for factor in factors:
        column = _orthogonalise(factor[:, None], np.column_stack([constant, spread]))
        spread = np.column_stack([spread, column])
    candidates = [_ModelCandidate(x.name, x.columns) for x in clean] + _list_candidates(clean)
    while True:
        used = np.column_stack([constant, spread])
        squares = [_standardised_squares(problem, i, spread) for i in range(len(problem.numbers))]
        p_values = [
            min(_test_scores(x, candidate.columns, used, problem.groups) for x in squares)
            * len(squares)
            for candidate in candidates
        ]
        best = int(np.argmin(p_values)) if p_values else 0
        if not p_values or p_values[best] >= _SURE:
            return spread
        more = _orthogonalise(candidates.pop(best).columns, used)
        if (spread.shape[1] + more.shape[1]) * _RECORDS_PER_COLUMN > problem.records:
            return spread
        spread = np.column_stack([spread, more])


def _standardised_squares(problem: Problem, index: int, spread: Floats) -> Floats:
    """Squares of residuals over what the spread so far explains, less one; 0 where missing."""
    residual, known = regress_released_values(problem, index)
    noise = _noise_variance(problem, index)
    fit = fit_spread(residual[known], noise[known], spread[known])
    squares = np.zeros(problem.records)
    total = fit.variance * np.exp(2 * spread @ fit.slopes) + noise
    squares[known] = residual[known] ** 2 / total[known] - 1
    return squares


class SpreadFit(NamedTuple):
    """The variance of true residuals is `variance` times exp(2 columns @ slopes)."""

    variance: float
    slopes: Floats


def fit_spread(residual: Floats, noise: Floats, columns: Floats) -> SpreadFit:
    """How the spread of true residuals depends on columns, by normal likelihood.

    Fisher scoring of log τ and the slopes, of residuals with variance τ² exp(2 D α) + noise.

    Parameters
    ----------
    residual : of released values.
    noise : their noise variance.
    columns : (record, column) of size one about zero.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> z = np.repeat([-1.0, 1.0], 2000)
    >>> released = np.exp(0.5 * z) * rng.normal(size=4000) + 0.5 * rng.normal(size=4000)
    >>> fit_spread(released, np.full(4000, 0.25), z[:, None]).slopes.round(1)
    array([0.5])
    """
    least = _LEAST * float(np.mean(residual**2))
    start = max(float(np.mean(residual**2 - noise)), least)
    design = np.column_stack([np.ones(len(residual)), columns])
    theta = np.zeros(design.shape[1])
    theta[0] = 0.5 * np.log(start)
    for _ in range(_ROUNDS):
        true = np.exp(2 * np.clip(design @ theta, -50, 50))
        total = true + noise
        # d log total / dθ = 2 (true / total) D; the information of log total is 1/2.
        weight = 2 * true / total
        score = design.T @ (0.5 * weight * (residual**2 / total - 1))
        information = design.T @ (design * (0.5 * weight**2)[:, None])
        information[np.diag_indices(len(theta))] += 1e-3
        step = np.linalg.solve(information, score)
        size = float(np.abs(design @ step).max(initial=0.0))
        theta = theta + step * min(1.0, 1.0 / max(size, 1e-12))
        if size < 1e-4:  # noqa: PLR2004 - far below its error
            break
    return SpreadFit(float(np.exp(2 * theta[0])), theta[1:])


def regress_released_values(problem: Problem, index: int) -> tuple[Floats, Floats]:
    """What clean columns leave of the released values of a number, and which are known."""
    observed = problem.numbers[index].observed
    known = np.isfinite(observed)
    beta = np.linalg.lstsq(problem.covariates[known], observed[known], rcond=None)[0]
    return np.where(known, observed - problem.covariates @ beta, 0.0), known


def _noise_variance(problem: Problem, index: int) -> Floats:
    return np.broadcast_to(noise_covariances(problem)[:, index, index], (problem.records,))


# Shape


def _choose_strata(
    problem: Problem, clean: Sequence[CleanVariable], spread: Floats
) -> Integers | None:
    """Strata whose residuals differ in shape beyond mean and spread; None where none do."""
    strata = [x.stratum for x in clean]
    strata += [
        np.unique(a * (int(b.max()) + 1) + b, return_inverse=True)[1].reshape(-1)
        for i, a in enumerate(strata)
        for b in strata[:i]
    ]
    features = []
    for index in range(len(problem.numbers)):
        residual, known = regress_released_values(problem, index)
        noise = _noise_variance(problem, index)
        fit = fit_spread(residual[known], noise[known], spread[known])
        scaled = residual / np.sqrt(fit.variance * np.exp(2 * spread @ fit.slopes) + noise)
        # Bounded features, so that no tail decides: of skewness, of the peak, of the shoulders.
        bell = np.exp(-0.5 * scaled**2)
        features += [np.where(known, x, 0.0) for x in (scaled * bell, bell**4, bell)]
    best, chosen = _SURE, None
    constant = np.ones((problem.records, 1))
    for stratum in strata:
        sizes = np.bincount(stratum)
        if sizes.min() < _RECORDS_PER_STRATUM or len(sizes) < 2:  # noqa: PLR2004
            continue
        columns = np.eye(len(sizes))[stratum][:, 1:]
        centred = [x - x.mean() for x in features]
        p_value = _test_scores(np.column_stack(centred), columns, constant, problem.groups)
        if p_value * len(strata) < best:
            best, chosen = p_value * len(strata), stratum
    return chosen


# Tests


def _orthogonalise(columns: Floats, controls: Floats) -> Floats:
    """A basis of what the controls leave of other columns, uncorrelated and of size one."""
    size = np.sqrt(np.mean(columns**2, axis=0))
    remainder = columns[:, size > 0] / size[size > 0]
    basis = np.linalg.qr(controls / np.maximum(np.sqrt(np.mean(controls**2, axis=0)), 1e-300))[0]
    # Twice: once leaves rounding errors along the basis.
    for _ in range(2):
        remainder = remainder - basis @ (basis.T @ remainder)
    values, vectors = np.linalg.eigh(remainder.T @ remainder / len(remainder))
    new = values > _COLLINEAR
    orthogonal: Floats = remainder @ vectors[:, new] / np.sqrt(values[new])
    return orthogonal


def _test_scores(
    residual: Floats,
    columns: Floats,
    controls: Floats,
    groups: Integers | None,
    known: Floats | None = None,
    weight: Floats | None = None,
) -> float:
    """The p-value of a robust score test: whether residuals go with columns.

    Parameters
    ----------
    residual : (record) or (record, several kinds).
    columns, controls : those that are tested, and those already in the model.
    groups : records whose residuals may be alike.
    known, weight : which records count, and how much.
    """
    from scipy.stats import chi2

    if known is not None:
        columns, controls = columns * known[:, None], controls * known[:, None]
    if weight is not None:
        root = np.sqrt(weight)[:, None]
        # Less what the controls explain, in the metric of the weights.
        beta = np.linalg.lstsq(controls * root, columns * root, rcond=None)[0]
        remainder = columns - controls @ beta
        size = np.sqrt(np.mean(remainder**2, axis=0))
        least = np.sqrt(_COLLINEAR) * np.sqrt(np.mean(columns**2, axis=0))
        remainder = remainder[:, size > least]
    else:
        remainder = _orthogonalise(columns, controls)
    if not remainder.shape[1]:
        return 1.0
    residual = residual.reshape(len(residual), -1)
    scores = (residual[:, :, None] * remainder[:, None, :]).reshape(len(residual), -1)
    if groups is not None:
        total = np.zeros((int(groups.max()) + 1, scores.shape[1]))
        np.add.at(total, groups, scores)
        scores = total
    total_score = scores.sum(axis=0)
    covariance = scores.T @ scores
    eigenvalues, vectors = np.linalg.eigh(covariance)
    positive = eigenvalues > 1e-10 * max(float(eigenvalues[-1]), 1e-300)
    if not positive.any():
        return 1.0
    along = vectors[:, positive].T @ total_score
    statistic = float((along**2 / eigenvalues[positive]).sum())
    return float(chi2.sf(statistic, int(positive.sum())))
