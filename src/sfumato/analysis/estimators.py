"""The estimators of a model: draws from the posterior, or one of three quick looks.

The posterior is drawn by the first engine, in order of speed, that knows the problem. Quick looks
are corrected scores, regression calibration, and simulation-extrapolation (SIMEX).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Protocol, cast

import numpy as np

from sfumato.analysis.diagnostics import mcse
from sfumato.analysis.fit_warnings import (
    describe_left_out,
    describe_mismatch,
    find_disagreements,
    quote_terms,
)
from sfumato.analysis.measurement_error import has_stratified_noise
from sfumato.analysis.model import Model
from sfumato.analysis.naive_fit import Estimates, correlate, name_group_correlations
from sfumato.analysis.predictive_check import Mismatch, check_release
from sfumato.analysis.problem import Posterior, Problem, Sampling
from sfumato.analysis.regression_calibration import fit_by_calibration
from sfumato.analysis.result import Method
from sfumato.analysis.samplers.heteroscedastic import require_proportional_noise
from sfumato.analysis.samplers.metropolis.pointwise import require_pointwise
from sfumato.analysis.samplers.robust import ROBUST, sample_robust
from sfumato.analysis.simex import fit_by_simex
from sfumato.analysis.survey_weights import sample_weighted_solution
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Mask
from sfumato.progress import Progress, current_progress

ENGINES = {
    "saturated": "sfumato.analysis.samplers.exact",
    "collapsed": "sfumato.analysis.samplers.gibbs.sampler",
    "marginal": "sfumato.analysis.samplers.marginal.sampler",
    "metropolis": "sfumato.analysis.samplers.metropolis.sampler",
}
_FEWEST_DRAWS = 100
"""For a comparison: enough to see whether half an SD lies between two means."""


class Sampler(Protocol):
    """What draws coefficients from their distribution given all that was released."""

    can: Callable[[Problem], bool]
    sample: Callable[[Problem, Sampling, Progress], Posterior]


@dataclass(frozen=True, eq=False, kw_only=True)
class Estimation:
    """What an estimator gives.

    Parameters
    ----------
    estimates : by parameter, with standard errors or posterior SDs.
    posterior : the draws, where there are any.
    normal : posterior means where true values are taken as normal, when a mixture was used.
    notes : what the analyst should know.
    mismatches : statistics of the release that the model does not reproduce.
    """

    estimates: Estimates
    posterior: Posterior | None = None
    normal: Mapping[str, float] | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    mismatches: tuple[Mismatch, ...] = ()


def list_engines() -> dict[str, Sampler]:
    """The engines that are installed, in the order in which they are tried."""
    engines = {}
    for name, home in ENGINES.items():
        try:
            engines[name] = cast("Sampler", import_module(home))
        except ModuleNotFoundError as error:
            if error.name != home:
                raise
    return engines


def choose_engine(problem: Problem, *, pointwise: bool = False) -> Sampler:
    """The engine for a problem; an error says what to do where there is none.

    Likelihoods by record need the one that draws true values.
    """
    if pointwise and not has_stratified_noise(problem):
        return list_engines()["metropolis"]
    if has_stratified_noise(problem):
        if problem.generalised:
            raise MeasureError(
                "Some noise differs by stratum, and other variables are ranges or sets: there is "
                "no engine yet for both.",
                hint="leave out one or the other.",
            )
        require_proportional_noise(problem)
        return cast("Sampler", import_module("sfumato.analysis.samplers.heteroscedastic"))
    for engine in list_engines().values():
        if engine.can(problem):
            return engine
    raise MeasureError(
        "There is no engine yet for a model of this kind with noise of this kind.",
        hint='try method="simex" or method="calibration"; or leave out powers and products of '
        "noised variables, and variables whose noise grows with the value.",
    )


def draw_posterior(model: Model, sampling: Sampling) -> Estimation:
    """Draw from the posterior; where a mixture was used, also with normal true values."""
    progress = current_progress()
    problem = model.problem
    if sampling.pointwise:
        if problem.weights is not None:
            raise MeasureError(
                "A model with survey weights has no likelihood by record.",
                hint="fit it without weights, or without pointwise.",
            )
        require_pointwise(problem)
    if model.weighted is not None and model.corrected is not None:
        best = model.corrected.estimates
        posterior = sample_weighted_solution(model.weighted, best, sampling)
        return Estimation(
            estimates=_average_draws(posterior), posterior=posterior, notes=_note_left_out(problem)
        )
    engine = choose_engine(problem, pointwise=sampling.pointwise)
    posterior = engine.sample(problem, sampling, progress)
    if not posterior.draws.size or not posterior.draws.shape[1]:
        raise MeasureError("It was interrupted before there was a draw.", hint="fit again.")
    try:
        mismatches = check_release(problem, model.clean, posterior, sampling.seed)
        notes: tuple[str, ...] = ()
        if not sampling.pointwise:
            posterior, notes = _answer_mismatches(model, posterior, mismatches, sampling)
    except KeyboardInterrupt:
        # The fit proper is finished by then, and must not be lost.
        mismatches, notes = [], ("The check of the fit was interrupted; the fit itself was not.",)
    normal = None
    simpler = replace(problem, shape="normal")
    mixed = problem.shape == "auto" and posterior.shape == "mixture" and posterior.complete
    if mixed and engine.can(simpler):
        normal = _average_normal_shape(engine, simpler, sampling, progress)
        if normal is None:
            notes += (
                "The comparison with a normal shape was interrupted; the fit itself was not.",
            )
    incomplete = 0 if problem.generalised else int(_find_incomplete(problem).sum())
    if incomplete and not any("missing" in note for note in posterior.notes):
        notes += (f"{incomplete:,} records lack a noised value; it is part of the model.",)
    posterior = _add_correlations(problem, posterior)
    return Estimation(
        estimates=_average_draws(posterior),
        posterior=posterior,
        normal=normal,
        notes=notes,
        mismatches=tuple(mismatches) if posterior.engine != ROBUST else (),
    )


def _add_correlations(problem: Problem, posterior: Posterior) -> Posterior:
    """The same with the correlations of effects of groups."""
    draws = dict(zip(posterior.parameters, np.moveaxis(posterior.draws, -1, 0), strict=True))
    correlations = {
        name: correlate(*(draws[part] for part in parts))
        for name, parts in name_group_correlations(problem).items()
    }
    return replace(
        posterior,
        parameters=(*draws, *correlations),
        draws=np.stack([*draws.values(), *correlations.values()], axis=-1),
    )


def _answer_mismatches(
    model: Model, posterior: Posterior, mismatches: list[Mismatch], sampling: Sampling
) -> tuple[Posterior, tuple[str, ...]]:
    """Draws of a linear model that need no model of true values, nor one residual variance.

    They are made where the release shows several residual variances, or contradicts the model of
    true values, unless that was asked for.
    """
    spread = [mismatch for mismatch in mismatches if not mismatch.variable]
    far = _find_disagreements(model, posterior)
    wrong = model.problem.shape != "normal" and (far or len(spread) < len(mismatches))
    if not (spread or wrong) or not posterior.complete:
        return posterior, ()
    robust = sample_robust(model.problem, model.level_scores, sampling)
    if robust is None:
        return posterior, ()
    if spread:
        why = f"The residual variance is not the same everywhere ({describe_mismatch(spread[0])})"
    elif far:
        terms = quote_terms(far)
        why = f"A model with one residual variance contradicts corrected moments on {terms}"
    else:
        worst = mismatches[0]
        why = (
            f"The model of true values does not reproduce what was released of '{worst.variable}' "
            f"({describe_mismatch(worst)})"
        )
    note = f"{why}, so draws were made by resampled corrected moments, which assume neither."
    return robust, (note,)


def _find_disagreements(model: Model, posterior: Posterior) -> list[str]:
    """The coefficients on which corrected moments differ from the posterior."""
    if model.corrected is None:
        return []
    moments = model.corrected.estimates
    rows = [
        {
            "term": name,
            "mean": float(posterior.draws[..., i].mean()),
            "sd": float(posterior.draws[..., i].std()),
            "mcse": mcse(posterior.draws[..., i]),
            "moments": moments.value[name],
        }
        for i, name in enumerate(posterior.parameters)
        if name in moments.error
    ]
    return find_disagreements(rows, moments)


def _average_normal_shape(
    engine: Sampler, problem: Problem, sampling: Sampling, progress: Progress
) -> dict[str, float] | None:
    """Posterior means with normal true values; None where that was interrupted.

    The fit proper is finished by then, and must not be lost.
    """
    fewer = replace(
        sampling, draws=max(sampling.draws // 4, _FEWEST_DRAWS), longest=0, pointwise=False
    )
    try:
        posterior = engine.sample(problem, fewer, progress)
    except KeyboardInterrupt:
        return None
    if not posterior.complete:
        return None
    means = posterior.draws.mean(axis=(0, 1)).tolist()
    return dict(zip(posterior.parameters, means, strict=True))


def _average_draws(posterior: Posterior) -> Estimates:
    draws = posterior.draws.reshape(-1, posterior.draws.shape[-1])
    sd = draws.std(axis=0, ddof=1) if len(draws) > 1 else np.full(draws.shape[1], np.nan)
    return Estimates(
        value=dict(zip(posterior.parameters, draws.mean(axis=0).tolist(), strict=True)),
        error=dict(zip(posterior.parameters, sd.tolist(), strict=True)),
    )


def estimate_quickly(model: Model, method: Method, seed: int) -> Estimation:
    """A quick look: corrected scores, regression calibration or SIMEX."""
    if model.problem.weights is not None and method != "moments":
        raise MeasureError(
            f'method="{method}" knows no survey weights.',
            hint='use method="posterior" or method="moments".',
        )
    if names := model.problem.generalised:
        raise MeasureError(
            f"There is no quick look at a model of ranges and sets: {', '.join(names)}.",
            hint='use method="posterior".',
        )
    if method != "moments" and model.naive.note:
        raise MeasureError(
            f"There is {model.naive.note}, so no quick look at it.", hint='use method="posterior".'
        )
    if method == "calibration" and model.problem.more_factors:
        raise MeasureError(
            "Regression calibration knows one grouping factor.",
            hint='use method="posterior", or "simex" for a quick look.',
        )
    if method == "calibration":
        estimates, notes = fit_by_calibration(model.problem, model.level_scores, seed)
        return Estimation(estimates=estimates, notes=notes)
    if method == "simex":
        estimates, notes = fit_by_simex(
            model.problem, model.variables.columns, model.release.noise, seed
        )
        return Estimation(estimates=estimates, notes=notes)
    if model.corrected is None:
        raise MeasureError(
            f"There are no corrected moments for this model: {model.why_not}.",
            hint='use method="posterior", or "simex" for a quick look.',
        )
    notes = _note_left_out(model.problem)
    if model.problem.groups is not None:
        notes = (
            *notes,
            "Corrected moments weigh records as if each group had an intercept of its own.",
        )
    return Estimation(estimates=model.corrected.estimates, notes=notes)


def _note_left_out(problem: Problem) -> tuple[str, ...]:
    incomplete = int(_find_incomplete(problem).sum())
    return (describe_left_out(incomplete),) if incomplete else ()


def _find_incomplete(problem: Problem) -> Mask:
    """Which records lack a value of a noised predictor."""
    incomplete = np.zeros(problem.records, bool)
    for number in problem.numbers:
        incomplete |= np.isnan(number.observed)
    for category in problem.categories:
        # A missing value is equally probable under every level.
        incomplete |= (category.density == 0).all(axis=1)
    return incomplete
