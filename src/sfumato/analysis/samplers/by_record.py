"""Draws where the noise of a predictor differs by stratum.

In each stratum a number is measured in standard deviations of its noise there. So its noise is the
same everywhere, and any engine that takes products of numbers and clean columns can draw. Noise
that keeps covariances is proportional to the spread of true values, so these vary alike as well;
where they are expected may depend on the clean columns of each stratum in its own way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sfumato.analysis.functions import Of
from sfumato.analysis.problem import Number, Posterior, Problem, Sampling, Term
from sfumato.analysis.stratified import StratifiedNumber, errors_of
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.progress import Progress

_ALIKE = 1e-6
_RECORDS = 20
"""Records for each clean column; with fewer, strata share what true values are expected."""


def can(problem: Problem) -> bool:
    """Whether it can be brought to one size of noise."""
    from sfumato.analysis.samplers.metropolis import sampler as metropolis

    return metropolis.can(problem) and not _why_not(problem)


def sample(problem: Problem, sampling: Sampling, say: Progress | None = None) -> Posterior:
    """Draws of the coefficients given all that was released.

    Parameters
    ----------
    problem : the model; `can` says whether it is one of these.
    sampling : how many chains and draws.
    say : told how far it is.
    """
    from sfumato.analysis.samplers.metropolis import sampler as metropolis

    return metropolis.sample(alike(problem), sampling, say)


def require(problem: Problem) -> None:
    """Refuse what no engine draws, with what to do instead."""
    if why := _why_not(problem):
        raise MeasureError(
            f"{why}, which no engine that draws can do.",
            hint='try method="moments" or method="calibration"; or keep the records of one '
            "stratum, and pass its CorrelatedGaussian.",
        )


def alike(problem: Problem) -> Problem:
    """The same problem, every number in standard deviations of its noise."""
    size = _sizes(problem)
    error = errors_of(problem)[0] / np.outer(size[0], size[0])
    numbers = tuple(
        Number(name=one.name, seen=one.seen / size[:, at], variance=float(error[at, at]))
        if isinstance(one, StratifiedNumber)
        else one
        for at, one in enumerate(problem.numbers)
    )
    return replace(
        problem,
        numbers=numbers,
        error=error,
        terms=tuple(_term(one, problem, size) for one in problem.terms),
        covariates=_by_stratum(problem),
    )


def _sizes(problem: Problem) -> Floats:
    """(record, number): the standard deviation of the noise, 1 where it does not differ."""
    made = np.ones((problem.records, len(problem.numbers)))
    for at, one in enumerate(problem.numbers):
        if isinstance(one, StratifiedNumber) and one.growth is not None:
            made[:, at] = np.sqrt(one.growth.variance(one.seen))
    return made


def _term(term: Term, problem: Problem, size: Floats) -> Term:
    made = np.ones(problem.records) if term.clean is None else term.clean
    touched = False
    for at, of in term.numbers:
        if isinstance(problem.numbers[at], StratifiedNumber):
            made, touched = made * size[:, at] ** _power(of), True
    return replace(term, clean=made) if touched else term


def _power(of: Callable[[Floats], Floats] | None) -> int:
    """N where it is the n-th power; 0 where it is something else."""
    if of is None:
        return 1
    return (of.power or 0) if isinstance(of, Of) else 0


def _by_stratum(problem: Problem) -> Floats:
    """The clean columns, apart for each stratum where there are records enough for that."""
    strata = [one.stratum for one in problem.numbers if isinstance(one, StratifiedNumber)]
    _, each = np.unique(np.column_stack(strata), axis=0, return_inverse=True)
    apart = np.eye(int(each.max()) + 1)[each.reshape(-1)]
    wide = (problem.covariates[:, :, None] * apart[:, None, :]).reshape(problem.records, -1)
    return wide if wide.shape[1] * _RECORDS <= problem.records else problem.covariates


def _why_not(problem: Problem) -> str:
    if isinstance(problem.outcome_number, StratifiedNumber):
        return "The noise of the outcome differs by stratum"
    for term in problem.terms:
        for at, of in term.numbers:
            one = problem.numbers[at]
            if isinstance(one, StratifiedNumber) and not _power(of):
                return (
                    f"The noise of '{one.name}' differs by stratum, and '{term.name}' is no power "
                    "of it"
                )
    size = _sizes(problem)
    if not (size > 0).all():
        return "Some strata have no noise"
    error = errors_of(problem)
    if len(error) > 1:
        error = error / size[:, :, None] / size[:, None, :]
        if float(np.abs(error - error[0]).max()) > _ALIKE:
            return "The noise of predictors is correlated, and differently in each stratum"
    return ""
