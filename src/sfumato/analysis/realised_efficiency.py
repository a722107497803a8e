"""What taking the noise out has cost, by coefficient: realised against predicted efficiency.

The standard errors that the same records would have given without noise come from the information
of clean terms. True values are drawn from what is expected of them given all that was released but
the outcome, so that terms vary as much as the true ones do. For a generalised model with groups,
outcomes are drawn from the fitted model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from sfumato.analysis.corrected_scores import CorrectedFit
from sfumato.analysis.mixed_models import MarginalLikelihood
from sfumato.analysis.naive_fit import (
    Estimates,
    compute_moments,
    group_covariance,
    group_records,
    inverse_link,
)
from sfumato.analysis.problem import Problem
from sfumato.analysis.regression_calibration import (
    ExpectedTerms,
    ReleasedPredictors,
    collect_predictors,
    predict_terms,
)
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Integers

_DRAWS = 4
_LEAST = 1e-9


def compute_realised_efficiency(
    problem: Problem, corrected: CorrectedFit | None, estimates: Estimates
) -> list[dict[str, Any]]:
    """A row per term; nothing where the standard errors without noise are not known.

    In linear models of one level the products of the true terms are known on average, and with them
    the standard errors that the same records would have given without noise. In other models they
    are those of true values drawn from what is expected of them (`estimate_clean_information`).
    Where there are no corrected moments, nothing is predicted.
    """
    clean = _clean_variances(problem, corrected, estimates)
    if clean is None:
        return []
    rows = []
    for term, square in zip(problem.terms, clean.tolist(), strict=True):
        name, nan = term.name, math.nan
        predicted = corrected.estimates.error.get(name, nan) if corrected else nan
        sd = estimates.error.get(name, nan)
        rows.append(
            {
                "term": name,
                "se_without_noise": math.sqrt(square),
                "se_predicted": predicted,
                "sd": sd,
                "predicted": square / predicted**2 if predicted else nan,
                "realised": square / sd**2 if sd else nan,
            }
        )
    return rows


def _clean_variances(
    problem: Problem, corrected: CorrectedFit | None, estimates: Estimates
) -> Floats | None:
    """The squared standard errors without noise."""
    if problem.generalised or problem.weights is not None:
        return None
    if problem.coefficient_names != tuple(term.name for term in problem.terms):
        return None  # the information of the coefficients alone would not do
    if corrected is not None and corrected.gram is not None and problem.groups is None:
        variance = estimates.value.get("residual variance", np.nan)
        return variance * np.diag(np.linalg.inv(corrected.gram)) if variance > 0 else None
    levels = corrected.levels if corrected else {}
    try:
        variances = np.diag(np.linalg.inv(estimate_clean_information(problem, levels, estimates)))
    except (MeasureError, np.linalg.LinAlgError):
        return None
    return variances if bool((np.isfinite(variances) & (variances > 0)).all()) else None


def determinant_ratio(corrected: CorrectedFit | None) -> float:
    """The paper's overall measure: |X'X| over that of the noisy terms."""
    if corrected is None or corrected.gram is None or corrected.noisy is None:
        return float("nan")
    true, noisy = (np.linalg.slogdet(gram)[1] for gram in (corrected.gram, corrected.noisy))
    return float(np.exp(true - noisy))


# The information of the coefficients without noise


def estimate_clean_information(
    problem: Problem, levels: Mapping[str, Floats], estimates: Estimates
) -> Floats:
    """The information of the coefficients of a model without noise, on average.

    Parameters
    ----------
    problem : the model.
    levels : for each noised category the scores of its levels.
    estimates : coefficients, and variances of a model with groups.
    """
    predictors = collect_predictors(problem, levels)
    rows = predictors.complete_rows
    groups = None if problem.groups is None else problem.groups[rows]
    expected = predict_terms(problem, predictors, rows, groups)
    chance = np.random.default_rng(
        0
    )  # always the same, since the number is only shown beside others
    total = np.zeros((len(problem.terms),) * 2)
    for _ in range(_DRAWS):
        # Drawn, not expected: expectations vary less than true values, and so tell less.
        x = _draw_terms(problem, predictors, rows, expected, chance)
        total += _information_of_terms(problem, x, rows, estimates, chance)
    # Records that lack a noised value would have had it.
    return total / _DRAWS * (problem.records / len(rows))


def _draw_terms(
    problem: Problem,
    predictors: ReleasedPredictors,
    rows: Integers,
    expected: ExpectedTerms,
    chance: np.random.Generator,
) -> Floats:
    """The terms with true values drawn from what is expected of them."""
    numbers, codes = len(problem.numbers), np.zeros((problem.records, len(problem.categories)), int)
    eigenvalues, eigenvectors = np.linalg.eigh(expected.covariance[:, :numbers, :numbers])
    roots = eigenvectors * np.sqrt(np.maximum(eigenvalues, 0.0))[:, None, :]
    normal = chance.standard_normal((len(rows), numbers))
    noise = normal @ roots[0].T if len(roots) == 1 else np.einsum("nab,nb->na", roots, normal)
    latent = np.zeros((problem.records, numbers))
    latent[rows] = expected.mean[:, :numbers] + noise
    for index, category in enumerate(problem.categories):
        first = predictors.first[numbers + index]
        share = np.clip(expected.mean[:, first : first + len(category.levels) - 1], 0.0, 1.0)
        ends = np.cumsum(np.column_stack([np.maximum(1 - share.sum(axis=1), 0.0), share]), axis=1)
        # Levels drawn by inversion of their cumulative shares.
        draw = chance.random(len(rows)) * ends[:, -1]
        codes[rows, index] = np.minimum(
            (draw[:, None] >= ends).sum(axis=1), len(category.levels) - 1
        )
    x = problem.design(latent, codes)[rows]
    if not np.isfinite(x).all():
        raise MeasureError("A term has no value where the true one may lie.")
    return x


def _information_of_terms(
    problem: Problem, x: Floats, rows: Integers, estimates: Estimates, chance: np.random.Generator
) -> Floats:
    beta = np.array([estimates.value[term.name] for term in problem.terms])
    if problem.groups is None:
        if problem.family == "gaussian":
            variance = estimates.value.get("residual variance", np.nan)
            return np.asarray(x.T @ x / variance, float)
        line = x @ beta + problem.take_offset(rows)
        weight = compute_moments(problem.link, line, problem.take_trials(rows)).weight
        return np.asarray((x * weight[:, None]).T @ x, float)
    between = group_covariance(problem, estimates.value)
    if between is None or problem.more_factors:
        raise MeasureError("The variance between groups is not known.")
    least = _LEAST * max(float(np.trace(between)), _LEAST)
    factor = np.asarray(np.linalg.cholesky(between + least * np.eye(len(between))), float)
    model = MarginalLikelihood(group_records(problem, x, rows))
    if problem.family == "gaussian":
        return _information_of_groups(
            model, factor, estimates.value.get("residual variance", np.nan)
        )
    return _information_of_generalised_groups(model, factor, beta, chance)


def _information_of_groups(model: MarginalLikelihood, factor: Floats, variance: float) -> Floats:
    """X' V^-1 X, group by group."""
    loadings, x = model.z @ factor, model.x
    inner = np.stack(
        [[model.sum_by_group(a * b) for a in loadings.T] for b in loadings.T]
    ).transpose(2, 0, 1)
    cross = np.stack([[model.sum_by_group(a * b) for a in loadings.T] for b in x.T]).transpose(
        2, 0, 1
    )
    solved = np.linalg.solve(inner + variance * np.eye(len(factor)), np.swapaxes(cross, 1, 2))
    return np.asarray((x.T @ x - (cross @ solved).sum(axis=0)) / variance, float)


def _information_of_generalised_groups(
    model: MarginalLikelihood, factor: Floats, beta: Floats, chance: np.random.Generator
) -> Floats:
    """That of outcomes drawn from the model, with random effects integrated out."""
    effects = chance.standard_normal(model.effects.shape)
    line = model.x @ beta + ((model.z @ factor) * effects[model.group]).sum(axis=1)
    mean, _ = inverse_link(model.link, line + model.offset)
    count = model.trials.astype(np.int64)
    outcome = chance.poisson(mean) if model.link == "log" else chance.binomial(count, mean)
    model.y = outcome.astype(float)
    information = model.evaluate(np.concatenate([beta, factor[model.lower]])).information
    terms = len(beta)
    # The Schur complement: what is lost because variances between groups are estimated too.
    variances, cross = information[terms:, terms:], information[:terms, terms:]
    return information[:terms, :terms] - cross @ np.linalg.pinv(variances) @ cross.T
