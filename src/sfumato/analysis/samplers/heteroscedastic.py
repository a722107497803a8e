"""Draws where the noise of a predictor differs by stratum (heteroscedastic noise).

In each stratum a number is measured in standard deviations of its noise there. So its noise is the
same everywhere, and any engine that takes products of numbers and clean columns can draw. Noise
that keeps covariances is proportional to the spread of true values, so these vary alike as well;
their means may depend on the clean columns of each stratum in its own way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sfumato.analysis.formula import Transformation
from sfumato.analysis.measurement_error import StratifiedNumber, noise_covariances
from sfumato.analysis.problem import NoisyNumber, Posterior, Problem, Sampling, Term
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.progress import Progress

_SAME = 1e-6
_RECORDS_PER_COLUMN = 20
"""With fewer records for each clean column, strata share the model of true values."""


def can(problem: Problem) -> bool:
    """Whether the noise can be brought to one size."""
    from sfumato.analysis.samplers.metropolis import sampler as metropolis

    return metropolis.can(problem) and not _find_obstacle(problem)


def sample(problem: Problem, sampling: Sampling, progress: Progress | None = None) -> Posterior:
    """Draws of the coefficients given all that was released.

    Parameters
    ----------
    problem : the model; `can` says whether it is one of these.
    sampling : how many chains and draws.
    progress : called with how far it is.
    """
    from sfumato.analysis.samplers.metropolis import sampler as metropolis

    return metropolis.sample(standardise_noise(problem), sampling, progress)


def require_proportional_noise(problem: Problem) -> None:
    """Refuse what no engine draws, with what to do instead."""
    if obstacle := _find_obstacle(problem):
        raise MeasureError(
            f"{obstacle}, which no engine that draws can do.",
            hint='try method="moments" or method="calibration"; or keep the records of one '
            "stratum, and pass its CorrelatedGaussian.",
        )


def standardise_noise(problem: Problem) -> Problem:
    """The same problem, every number in standard deviations of its noise."""
    sd = _noise_sd(problem)
    error = noise_covariances(problem)[0] / np.outer(sd[0], sd[0])
    numbers = tuple(
        NoisyNumber(
            name=number.name,
            observed=number.observed / sd[:, i],
            variance=float(error[i, i]),
            by_group=number.by_group,
        )
        if isinstance(number, StratifiedNumber)
        else number
        for i, number in enumerate(problem.numbers)
    )
    return replace(
        problem,
        numbers=numbers,
        error=error,
        terms=tuple(_scale_term(term, problem, sd) for term in problem.terms),
        covariates=_separate_strata(problem),
    )


def _noise_sd(problem: Problem) -> Floats:
    """(record, number): the standard deviation of the noise, 1 where it does not differ."""
    sd = np.ones((problem.records, len(problem.numbers)))
    for i, number in enumerate(problem.numbers):
        if isinstance(number, StratifiedNumber) and number.growth is not None:
            sd[:, i] = np.sqrt(number.growth.variance(number.observed))
    return sd


def _scale_term(term: Term, problem: Problem, sd: Floats) -> Term:
    """The term with the standard deviations that its numbers lost as a clean factor."""
    factor = np.ones(problem.records) if term.clean is None else term.clean
    changed = False
    for i, function in term.numbers:
        if isinstance(problem.numbers[i], StratifiedNumber):
            factor, changed = factor * sd[:, i] ** _find_power(function), True
    return replace(term, clean=factor) if changed else term


def _find_power(function: Callable[[Floats], Floats] | None) -> int:
    """N where it is the n-th power; 0 where it is something else."""
    if function is None:
        return 1
    return (function.power or 0) if isinstance(function, Transformation) else 0


def _separate_strata(problem: Problem) -> Floats:
    """The clean columns, separate for each stratum where there are records enough for that."""
    strata = [number.stratum for number in problem.numbers if isinstance(number, StratifiedNumber)]
    _, stratum = np.unique(np.column_stack(strata), axis=0, return_inverse=True)
    dummies = np.eye(int(stratum.max()) + 1)[stratum.reshape(-1)]
    columns = (problem.covariates[:, :, None] * dummies[:, None, :]).reshape(problem.records, -1)
    enough = columns.shape[1] * _RECORDS_PER_COLUMN <= problem.records
    return columns if enough else problem.covariates


def _find_obstacle(problem: Problem) -> str:
    """Why the noise cannot be brought to one size; "" where it can."""
    if isinstance(problem.outcome_number, StratifiedNumber):
        return "The noise of the outcome differs by stratum"
    for term in problem.terms:
        for i, function in term.numbers:
            number = problem.numbers[i]
            if isinstance(number, StratifiedNumber) and not _find_power(function):
                return (
                    f"The noise of '{number.name}' differs by stratum, and '{term.name}' is no "
                    "power of it"
                )
    sd = _noise_sd(problem)
    if not (sd > 0).all():
        return "Some strata have no noise"
    error = noise_covariances(problem)
    if len(error) > 1:
        error = error / sd[:, :, None] / sd[:, None, :]
        if float(np.abs(error - error[0]).max()) > _SAME:
            return "The noise of predictors is correlated, and differently in each stratum"
    return ""
