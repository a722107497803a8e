"""Regression calibration: each noised value is replaced by the expectation of the true one.

The expectation is linear in all that was released but the outcome, clean columns and means of
groups among it. Exact for linear models of plain terms, an approximation for others.

References: Carroll, Ruppert, Stefanski & Crainiceanu (2006), Measurement error in nonlinear models,
chapter 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from sfumato.analysis.exposure import fit_spread
from sfumato.analysis.fit_warnings import describe_left_out
from sfumato.analysis.group_level import (
    average_by_group,
    find_first_records,
    is_constant_in_groups,
)
from sfumato.analysis.measurement_error import noise_covariances
from sfumato.analysis.naive_fit import Estimates, fit_columns
from sfumato.analysis.problem import Problem, Term
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.progress import current_progress

_REPEATS, _LARGE = 100, 100_000
_GROUPS_PER_COLUMN = 5
"""Groups for each column, from which on what a group has is expected from means of records."""
_NODES = 20
"""Of the Gauss-Hermite rule for expectations of functions."""


def fit_by_calibration(
    problem: Problem, level_scores: Mapping[str, Floats], seed: int
) -> tuple[Estimates, tuple[str, ...]]:
    """Fit with calibrated values; standard errors by a bootstrap of records, or of groups."""
    if problem.outcome_category is not None:
        raise MeasureError(
            "The outcome is a noised category, which calibration does not know.",
            hint='use method="posterior".',
        )
    predictors = collect_predictors(problem, level_scores)
    known = predictors.complete_rows
    best = _fit_expected_terms(problem, predictors, known)
    rng = np.random.default_rng(seed)
    repeats = _REPEATS if len(known) <= _LARGE else _REPEATS // 4
    progress, resamples, complete = current_progress(), list[Estimates](), True
    try:
        for repeat in range(repeats):
            progress("resampling", repeat, repeats)
            try:
                resamples.append(
                    _fit_expected_terms(problem, predictors, *_resample(problem, known, rng), best)
                )
            except (MeasureError, np.linalg.LinAlgError):
                continue  # a sample that lacks a level has no estimate
    except KeyboardInterrupt:
        complete = False
    names = problem.coefficient_names
    spread = np.array([[term.value[name] for name in names] for term in resamples])
    sd = spread.std(axis=0, ddof=1) if len(resamples) > 1 else np.full(len(names), np.nan)
    left_out = problem.records - len(known)
    notes = [f"Standard errors from {len(resamples)} resamples."]
    notes += [describe_left_out(left_out)] if left_out else []
    value = {name: best.value[name] for name in names}
    error = dict(zip(names, sd.tolist(), strict=True))
    return Estimates(value=value, error=error, complete=complete), tuple(notes)


def _resample(
    problem: Problem, known: Integers, rng: np.random.Generator
) -> tuple[Integers, Integers | None]:
    """Records drawn with replacement, or groups; a group drawn twice is two groups."""
    if problem.groups is None:
        return known[rng.integers(0, len(known), len(known))], None
    order = known[np.argsort(problem.groups[known], kind="stable")]
    parts = np.split(order, np.flatnonzero(np.diff(problem.groups[order])) + 1)
    drawn = rng.integers(0, len(parts), len(parts))
    sizes = [len(parts[group]) for group in drawn]
    return np.concatenate([parts[group] for group in drawn]), np.repeat(
        np.arange(len(drawn)), sizes
    )


def _fit_expected_terms(
    problem: Problem,
    predictors: ReleasedPredictors,
    rows: Integers,
    groups: Integers | None = None,
    start: Estimates | None = None,
) -> Estimates:
    if groups is None and problem.groups is not None:
        groups = problem.groups[rows]
    subset = replace(
        problem,
        y=problem.y[rows],
        trials=None if problem.trials is None else problem.trials[rows],
        offset=None if problem.offset is None else problem.offset[rows],
        groups=groups,
    )
    return fit_columns(subset, predict_terms(problem, predictors, rows, groups).x, start=start)


# The expectation of true values, given all that was released but the outcome


@dataclass(frozen=True, eq=False)
class ReleasedPredictors:
    """The noised predictors as released.

    Parameters
    ----------
    values : (record, column) noised values, right on average.
    error : (record or one for all, column, column) the covariance of the noise in them.
    first : the first column of each noised variable.
    by_group : which columns have one value for all records of a group.
    """

    values: Floats = field(repr=False)
    error: Floats = field(repr=False)
    first: tuple[int, ...]
    by_group: Mask = field(repr=False)

    @property
    def complete_rows(self) -> Integers:
        """The records that have all values."""
        return np.flatnonzero(np.isfinite(self.values).all(axis=1))


def collect_predictors(problem: Problem, levels: Mapping[str, Floats]) -> ReleasedPredictors:
    """The noised predictors of a problem, as released.

    Parameters
    ----------
    problem : the model.
    levels : for each noised category the scores of its levels, see `score_levels`.
    """
    parts = [variable.observed[:, None] for variable in problem.numbers]
    first, start = list(range(len(parts))), len(parts)
    by_group = [variable.by_group for variable in problem.numbers]
    blocks = []
    for variable in problem.categories:
        if variable.name not in levels:
            raise MeasureError(
                f"The levels of '{variable.name}' cannot be distinguished after the noise.",
                hint='use method="posterior".',
            )
        scores = levels[variable.name][:, 1:]
        known = np.asarray(np.isfinite(scores).all(axis=1), bool)
        if variable.by_group and problem.groups is not None:
            known &= np.isin(np.arange(len(scores)), find_first_records(problem.groups))
        complete = scores[known]
        by_group += [variable.by_group] * scores.shape[1]
        share = complete.mean(axis=0)
        # Indicators of levels have a multinomial covariance; what scores vary beyond it is noise.
        true = np.diag(share) - np.outer(share, share)
        blocks.append((start, np.atleast_2d(np.cov(complete, rowvar=False)) - true))
        parts.append(scores)
        first.append(start)
        start += scores.shape[1]
    number_errors = noise_covariances(problem)
    error = np.zeros((len(number_errors), start, start))
    error[:, : len(problem.numbers), : len(problem.numbers)] = number_errors
    for first_column, block in blocks:
        error[
            :, first_column : first_column + len(block), first_column : first_column + len(block)
        ] = block
    values = np.hstack(parts) if parts else np.empty((problem.records, 0))
    return ReleasedPredictors(values, error, tuple(first), np.array(by_group, bool))


@dataclass(frozen=True, eq=False)
class ExpectedTerms:
    """The expectations of the terms, for some records.

    Parameters
    ----------
    x : the columns of the model.
    mean : the expectations of the true values.
    covariance : (record or one for all, column, column) their covariance given what was released.
    """

    x: Floats = field(repr=False)
    mean: Floats = field(repr=False)
    covariance: Floats = field(repr=False)


def predict_terms(
    problem: Problem, predictors: ReleasedPredictors, rows: Integers, groups: Integers | None
) -> ExpectedTerms:
    """The terms of some records, with expectations in the place of true values.

    Parameters
    ----------
    problem : the model.
    predictors : the noised predictors as released.
    rows : the records; one may come twice.
    groups : their groups.
    """
    error = predictors.error if len(predictors.error) == 1 else predictors.error[rows]
    values, clean = predictors.values[rows], problem.covariates[rows]
    exposure = problem.exposure
    if groups is None and exposure is not None and exposure.spread.shape[1] and len(error) == 1:
        mean, covariance = _predict_by_spread(
            values, clean, error[0], exposure.spread[rows], len(problem.numbers)
        )
    elif groups is None or not values.shape[1]:
        mean, covariance = _predict_true(values, clean, error)
    else:
        groups = np.unique(groups, return_inverse=True)[1].reshape(-1)
        mean, covariance = _predict_by_group(values, clean, error, groups, predictors.by_group)
    columns = [
        _predict_column(term, problem, rows, mean, covariance, predictors) for term in problem.terms
    ]
    return ExpectedTerms(np.column_stack(columns), mean, covariance)


def _predict_by_group(
    values: Floats, clean: Floats, error: Floats, groups: Integers, shared: Mask
) -> tuple[Floats, Floats]:
    """The same where true values differ by group, or a group has one of them.

    What a group has is expected from what was released of it, once for each group: its noise was
    drawn once. Means of groups of all other columns are among what it is expected from.
    """
    of_records, own_means = values[:, ~shared], average_by_group(values[:, ~shared], groups)
    predictors = np.column_stack([clean, own_means[groups], values[:, shared]])
    parts = [(~shared, *_predict_true(of_records, predictors, error[:, ~shared][:, :, ~shared]))]
    if shared.any():
        rows = find_first_records(groups)
        means = np.column_stack([average_by_group(clean, groups), own_means])
        if len(rows) < _GROUPS_PER_COLUMN * means.shape[1]:
            constant = [is_constant_in_groups(column, groups) for column in clean.T]
            means = clean[rows][:, constant]
        noise = error[:, shared][:, :, shared]
        expected, remaining = _predict_true(
            values[rows][:, shared], means, noise if len(noise) == 1 else noise[rows]
        )
        parts.append(
            (shared, expected[groups], remaining if len(remaining) == 1 else remaining[groups])
        )
    mean = np.empty_like(values)
    covariance = np.zeros((max(len(remaining) for *_, remaining in parts), *error.shape[1:]))
    for columns, expected, remaining in parts:
        mean[:, columns] = expected
        covariance[np.ix_(np.arange(len(covariance)), columns, columns)] = remaining
    return mean, covariance


def _predict_true(values: Floats, clean: Floats, error: Floats) -> tuple[Floats, Floats]:
    """The expected true values, and their covariance given what was released."""
    if len(error) == 1 or not values.shape[1]:
        mean, covariance = _predict_in_stratum(values, clean, error[0])
        return mean, covariance[None]
    mean, covariance = np.empty_like(values), np.empty_like(error)
    stratum_of = np.unique(error.reshape(len(error), -1), axis=0, return_inverse=True)[1].reshape(
        -1
    )
    for stratum in range(int(stratum_of.max()) + 1):
        # Both the true values and their noise may be distributed differently in each stratum.
        rows = stratum_of == stratum
        if rows.sum() <= clean.shape[1] + values.shape[1]:
            raise MeasureError(
                "Some strata have too few records to estimate the expectations of true values.",
                hint='use method="moments".',
            )
        mean[rows], covariance[rows] = _predict_in_stratum(
            values[rows], clean[rows], error[rows][0]
        )
    return mean, covariance


def _predict_by_spread(
    values: Floats, clean: Floats, error: Floats, columns: Floats, numbers: int
) -> tuple[Floats, Floats]:
    """The same, where the spread of true numbers depends on clean columns.

    Parameters
    ----------
    values, clean, error : as in `_predict_in_stratum`.
    columns : on which the log spread depends.
    numbers : how many of the values are numbers; scores of levels come after them.
    """
    beta, *_ = np.linalg.lstsq(clean, values, rcond=None)
    fitted = clean @ beta
    residual = values - fitted
    spread = np.ones_like(values)
    for index in range(numbers):
        noise = np.full(len(values), error[index, index])
        spread[:, index] = np.exp(columns @ fit_spread(residual[:, index], noise, columns).slopes)
    outer = spread[:, :, None] * spread[:, None, :]
    squares = residual[:, :, None] * residual[:, None, :] - error
    eigenvalues, eigenvectors = np.linalg.eigh((squares / outer).mean(axis=0))
    true = (eigenvectors * np.maximum(eigenvalues, 0.0)) @ eigenvectors.T * outer
    slope = np.linalg.solve(true + error, true)
    mean = fitted + np.einsum("ni,nij->nj", residual, slope)
    return mean, true - true @ slope


def _predict_in_stratum(values: Floats, clean: Floats, error: Floats) -> tuple[Floats, Floats]:
    if not values.shape[1]:
        return values, error
    beta, *_ = np.linalg.lstsq(clean, values, rcond=None)
    fitted = clean @ beta
    residual = values - fitted
    total = residual.T @ residual / max(len(residual) - clean.shape[1], 1)
    # Sampling error may make the noise seem larger than the total: the true variance is then 0.
    eigenvalues, eigenvectors = np.linalg.eigh(total - error)
    true = (eigenvectors * np.maximum(eigenvalues, 0.0)) @ eigenvectors.T
    # The best linear predictor: E[x | w] = mean + (w - mean) total^-1 true.
    slope = np.linalg.pinv(total, hermitian=True) @ true
    return fitted + residual @ slope, true - true @ slope


def _predict_column(
    term: Term,
    problem: Problem,
    rows: Integers,
    mean: Floats,
    covariance: Floats,
    predictors: ReleasedPredictors,
) -> Floats:
    values = np.ones(len(rows)) if term.clean is None else term.clean[rows]
    linear = [
        index
        for index, function in term.numbers
        if function is None and problem.numbers[index].scale is None
    ]
    if len(linear) == len(term.numbers) == 2 and len(set(linear)) == 2:  # noqa: PLR2004 - a product
        # E[x1 x2] = E[x1] E[x2] + cov(x1, x2), given what was released.
        a, b = linear
        values = values * (mean[:, a] * mean[:, b] + covariance[:, a, b])
    else:
        for index in dict.fromkeys(number for number, _ in term.numbers):
            values = values * _expect_function(
                term, problem, index, mean[:, index], covariance[:, index, index]
            )
    count = len(problem.numbers)
    for index, level in term.levels:
        first = predictors.first[count + index]
        last = first + len(problem.categories[index].levels) - 1
        share = mean[:, first:last]
        values = values * (share[:, level - 1] if level else 1 - share.sum(axis=1))
    return np.asarray(values, float)


def _expect_function(
    term: Term, problem: Problem, index: int, mean: Floats, variance: Floats
) -> Floats:
    """The expectation of functions of a number, which is normal given what was released."""
    uses = [function for number_index, function in term.numbers if number_index == index]
    number = problem.numbers[index]
    if uses == [None] and number.scale is None:
        return mean
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    spread = np.sqrt(np.maximum(variance, 0.0))
    total = np.zeros_like(mean)
    for node, weight in zip(nodes, weights / weights.sum(), strict=True):
        true = number.true(mean + node * spread)
        value = np.ones_like(mean)
        for function in uses:
            value = value * (true if function is None else function(true))
        total += weight * value
    if not np.isfinite(total).all():
        raise MeasureError(
            f"The term '{term.name}' has no value where the true one may lie.",
            hint="a logarithm or root takes positive numbers only; noise reaches below zero.",
        )
    return total
