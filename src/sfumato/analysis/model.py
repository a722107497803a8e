"""A problem with its reference fits, before anything is drawn: naive, and by corrected scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from sfumato.analysis.corrected_scores import (
    CorrectedFit,
    NoCorrectedScoreError,
    fit_corrected_moments,
    score_levels,
)
from sfumato.analysis.exposure import CleanVariable, collect_clean_variables
from sfumato.analysis.formula import read_model_formula
from sfumato.analysis.naive_fit import (
    Estimates,
    build_released_design,
    correlate,
    fit_columns,
    fit_naive,
    name_group_correlations,
)
from sfumato.analysis.problem import Problem
from sfumato.analysis.release_input import ReleaseInput
from sfumato.analysis.residuals import compute_residuals
from sfumato.analysis.survey_weights import (
    FAMILIES,
    WeightedModel,
    build_weighted_model,
    fit_weighted_columns,
    fit_weighted_scores,
)
from sfumato.analysis.variables import ModelVariables
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class Model:
    """A model that can be estimated.

    Parameters
    ----------
    formula : as it was written.
    release : the released records, and the description of their noise.
    variables : those of the formula.
    problem : what engines get.
    level_scores : for each noised category the scores of its levels.
    naive : the fit that takes released values for true ones.
    corrected : the fit by corrected scores, where there is one.
    why_not : why there are no corrected scores.
    clean : the clean predictors.
    notes : what the analyst should know.
    shift : what is to be added to coefficients, see `build_problem`.
    weighted : the scores of a model with survey weights.
    """

    formula: str
    release: ReleaseInput
    variables: ModelVariables
    problem: Problem
    level_scores: Mapping[str, Floats] = field(repr=False)
    naive: Estimates = field(repr=False)
    corrected: CorrectedFit | None = field(repr=False)
    why_not: str
    notes: tuple[str, ...]
    clean: tuple[CleanVariable, ...] = field(default=(), repr=False)
    shift: Mapping[str, float] = field(default_factory=dict)
    weighted: WeightedModel | None = field(default=None, repr=False)


def fit_references(
    formula: str,
    release: ReleaseInput,
    variables: ModelVariables,
    problem: Problem,
    shift: Mapping[str, float],
) -> Model:
    """Fit the problem without correction, and by corrected scores where these are known."""
    naive = _add_correlations(problem, _fit_naive_where_possible(problem, variables))
    level_scores: dict[str, Floats] = {}
    corrected, weighted, why_not = None, None, ""
    try:
        _require_values(problem)
        for category in problem.categories:
            name = category.name
            level_scores[name] = score_levels(
                name, variables.released[name], release.noise[name], variables.select_strata(name)
            )
        if problem.weights is None:
            corrected = fit_corrected_moments(problem, level_scores, naive)
        else:
            weighted = build_weighted_model(problem, level_scores)
            corrected = fit_weighted_scores(weighted, naive)
    except NoCorrectedScoreError as error:
        why_not = str(error)
    except (np.linalg.LinAlgError, ArithmeticError):
        why_not = "their equations have no stable solution"
    if problem.weights is not None and corrected is None:
        raise MeasureError(
            f"This model cannot be fitted with survey weights: {why_not}.",
            hint="fit it without weights, with the variables on which they depend among the terms.",
        )
    # Deferred: residuals are computed only if somebody asks for them.
    residuals = partial(compute_residuals, problem, level_scores, naive, shift)
    return Model(
        formula=formula,
        release=release,
        variables=variables,
        problem=problem,
        level_scores=level_scores,
        naive=replace(naive, residuals=residuals),
        corrected=corrected,
        why_not=why_not,
        notes=tuple(_list_notes(variables, problem, naive, why_not)),
        clean=collect_clean_variables(read_model_formula(formula), variables),
        shift=shift,
        weighted=weighted,
    )


def _require_values(problem: Problem) -> None:
    if problem.generalised:
        raise NoCorrectedScoreError("some variables are known only as ranges or sets")


def _fit_naive_where_possible(problem: Problem, variables: ModelVariables) -> Estimates:
    """The naive fit; nothing where too few records have a single level or a range with a middle."""
    if problem.weights is not None and problem.groups is None and problem.family in FAMILIES:
        x = build_released_design(problem, variables.columns)
        known = np.isfinite(x).all(axis=1) & np.isfinite(problem.y)
        return fit_weighted_columns(problem, x[known], known, fit_columns(problem, x, known))
    if not problem.generalised:
        return fit_naive(problem, variables.columns)
    try:
        return fit_naive(problem, variables.columns)
    except (MeasureError, np.linalg.LinAlgError):
        return Estimates(value={}, note="no plain fit of the middles of ranges")


def _add_correlations(problem: Problem, naive: Estimates) -> Estimates:
    """The same with the correlations of effects of groups, where these are known."""
    correlations = {
        name: float(correlate(*(naive.value[part] for part in parts)))
        for name, parts in name_group_correlations(problem).items()
        if naive.value
    }
    return replace(naive, value={**naive.value, **correlations})


def _list_notes(
    variables: ModelVariables, problem: Problem, naive: Estimates, why_not: str
) -> list[str]:
    notes: list[str] = []
    if variables.left_out:
        notes.append(
            f"{variables.left_out:,} records without a value of the outcome or of a clean variable "
            "were left out."
        )
    if problem.generalised:
        names = ", ".join(f"'{name}'" for name in problem.generalised)
        notes.append(
            f"Known only as ranges, sets, `*` or up to a limit: {names}. True values are taken to "
            "lie in their cells, or beyond their limit, as likely there as the model of true "
            "values says. `naive` takes the middles of ranges and the limits themselves, and "
            "leaves out records without a middle or a single level."
        )
    noised_outcome = problem.outcome_number is not None or problem.outcome_category is not None
    if not problem.numbers and not problem.categories and not noised_outcome:
        notes.append("No variable of the formula has noise: this is a plain fit.")
    if naive.note:
        notes.append(f"There is {naive.note} beside it.")
    if why_not:
        notes.append(f"There are no corrected moments beside it: {why_not}.")
    return notes
