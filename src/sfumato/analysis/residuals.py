"""Residuals of a fit: fitted values, residuals, standardised residuals and leverages.

They belong to released records. In the place of noised values stands what is expected of the true
ones, so that all of it is approximate: residuals hold what the noise hides besides what the model
does not explain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from sfumato.analysis.mixed_models import MarginalLikelihood
from sfumato.analysis.naive_fit import Estimates, compute_moments, group_covariance, group_records
from sfumato.analysis.problem import GroupingFactor, Problem
from sfumato.analysis.regression_calibration import collect_predictors, predict_terms
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Integers

_ROUNDS = 20
"""Turns over several grouping factors."""
COLUMNS = ("fitted", "residual", "standardised", "leverage")


def compute_residuals(
    problem: Problem,
    levels: Mapping[str, Floats],
    naive: Estimates,
    shift: Mapping[str, float],
    value: Mapping[str, float],
) -> dict[str, Floats]:
    """Fitted values, residuals, standardised residuals and leverages; NaN where not known.

    Parameters
    ----------
    problem : the model.
    levels : for each noised category the scores of its levels.
    naive : the naive fit, for variances between groups that a quick look does not give.
    shift : what was added to coefficients, see `build_problem`.
    value : the coefficients, and variances where they are known.

    Residuals of generalised models are those of the outcome itself; standardised they are
    Pearson's. Fitted values have the effects of groups in them, leverages have not.
    """
    if problem.outcome_category is not None:
        raise MeasureError(
            "The outcome is a noised category, so its residuals are not known.",
            hint="look at residuals of a model whose outcome was released as it is.",
        )
    if problem.outcome_levels:
        raise MeasureError(
            "The outcome is a level, which has no residual.",
            hint="look at residuals of a model of a number, a count or a yes/no.",
        )
    if problem.generalised:
        raise MeasureError(
            "Some variables are known only as ranges or sets, so residuals are not known.",
            hint="look at residuals of a model without them.",
        )
    predictors = collect_predictors(problem, levels)
    rows = predictors.complete_rows
    groups = None if problem.groups is None else problem.groups[rows]
    x = predict_terms(problem, predictors, rows, groups).x
    names = [term.name for term in problem.terms]
    beta = np.array([value[name] - shift.get(name, 0.0) for name in names])
    line = x @ beta
    if groups is not None:
        line = line + _predict_group_effects(problem, x, rows, line, naive, value)
    y, added = problem.y[rows], 0.0 if problem.subtracted is None else problem.subtracted[rows]
    line = line + problem.take_offset(rows)
    mean, weight, spread = _outcome_moments(problem, line, problem.take_trials(rows))
    residual = y - mean
    if problem.family == "negative_binomial":
        spread = mean + value["dispersion"] * mean**2
        weight = mean**2 / spread
    if problem.family == "gaussian":
        # Estimated from these residuals, since they hold the noise as well.
        spread = np.full(len(y), residual @ residual / max(len(y) - len(names), 1))
    leverage = _leverage(x, weight)
    scale = np.sqrt(spread * np.maximum(1 - leverage, 1e-12))
    standardised = np.divide(residual, scale, out=np.full(len(y), np.nan), where=scale > 0)
    columns = {}
    for name, values in zip(COLUMNS, (mean + added, residual, standardised, leverage), strict=True):
        columns[name] = np.full(problem.records, np.nan)
        columns[name][rows] = values
    return columns


def _outcome_moments(
    problem: Problem, line: Floats, trials: Floats
) -> tuple[Floats, Floats, Floats]:
    """The mean of the outcome, the weight of each record, and the variance of the outcome."""
    if problem.family == "gaussian":
        return line, np.ones(len(line)), np.ones(len(line))
    moments = compute_moments(problem.link, line, trials)
    return trials * moments.mean, moments.weight, trials * moments.variance


def _leverage(x: Floats, weight: Floats) -> Floats:
    # The diagonal of the hat matrix of the weighted columns.
    q, _ = np.linalg.qr(x * np.sqrt(weight)[:, None])
    return np.asarray((q * q).sum(axis=1), float)


def _predict_group_effects(
    problem: Problem, x: Floats, rows: Integers, line: Floats, naive: Estimates,
    value: Mapping[str, float],
) -> Floats:  # fmt: skip
    """The likeliest effects of groups, for each record; of several factors in turn."""
    parameters = {**naive.value, **value}
    added = [np.zeros(len(line)) for _ in problem.factors]
    for _ in range(_ROUNDS if problem.more_factors else 1):
        for i, factor in enumerate(problem.factors):
            others = line + sum(part for j, part in enumerate(added) if j != i)
            added[i] = _predict_factor(problem, factor, x, rows, others, parameters)
    return np.asarray(sum(added), float)


def _predict_factor(
    problem: Problem, factor: GroupingFactor, x: Floats, rows: Integers, line: Floats,
    parameters: Mapping[str, float],
) -> Floats:  # fmt: skip
    between = group_covariance(problem, parameters, factor)
    if between is None:
        return np.zeros(len(line))
    eigenvalues, eigenvectors = np.linalg.eigh(between)
    # Effects that do not vary are zero, and their covariance has no inverse.
    root = np.asarray(eigenvectors * np.sqrt(np.maximum(eigenvalues, 0.0)), float)
    of_factor = replace(problem, groups=factor.groups, random=factor.random)
    model = MarginalLikelihood(group_records(of_factor, x, rows))
    loadings = model.z @ root
    if problem.family == "gaussian":
        effects = _linear_effects(
            model, loadings, problem.y[rows] - line, parameters["residual variance"]
        )
    else:
        model.find_modes(line, loadings)
        effects = model.effects
    return np.asarray((loadings * effects[model.group]).sum(axis=1), float)


def _linear_effects(
    model: MarginalLikelihood, loadings: Floats, residual: Floats, variance: float
) -> Floats:
    count = loadings.shape[1]
    curvature = np.empty((model.groups, count, count))
    for a in range(count):
        for b in range(count):
            curvature[:, a, b] = model.sum_by_group(loadings[:, a] * loadings[:, b]) / variance + (
                a == b
            )
    gradient = (
        np.column_stack([model.sum_by_group(column * residual) for column in loadings.T]) / variance
    )
    return np.asarray(np.linalg.solve(curvature, gradient[:, :, None])[:, :, 0], float)
