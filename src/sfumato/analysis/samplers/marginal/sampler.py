"""Logit, probit, binomial and Poisson models of noised predictors by their marginal likelihood.

The true values are summed or integrated out of the likelihood of each record: over the levels of
noised categories and the components of the covariate model, then over the linear predictor, which
is normal given those. What is left has as many dimensions as there are parameters. Its mode and
curvature give a proposal; Pareto-smoothed importance sampling makes independent draws of the
posterior of it, and a sampler takes over where the weights cannot be trusted.

A misclassified outcome mixes the likelihoods of both true levels (Goldstein & Shlomo, Eq. A4).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.progress import current_progress

if TYPE_CHECKING:
    from sfumato.analysis.problem import Number, Posterior, Problem, Sampling
    from sfumato.analysis.samplers.marginal.arrays import Arrays
    from sfumato.analysis.samplers.marginal.importance import Drawn
    from sfumato.analysis.samplers.marginal.mode import Mode
    from sfumato.analysis.samplers.marginal.model import Density
    from sfumato.analysis.samplers.marginal.walk import Start
    from sfumato.progress import Progress


_FAMILIES = {
    ("bernoulli", "logit"),
    ("bernoulli", "probit"),
    ("binomial", "logit"),
    ("binomial", "probit"),
    ("poisson", "log"),
}
_FIRST = 20_000
"""Records of the first search for the mode; all of them have the last word."""
_ENDLESS = 15.0
"""A standard deviation of a standardised coefficient that only the prior can have made."""
_FEW = 100


def can(problem: Problem) -> bool:
    """Whether this engine takes the problem."""
    from sfumato.analysis.samplers.marginal.arrays import CELLS

    cells = math.prod(len(one.levels) for one in problem.categories)
    return (
        (problem.family, problem.link) in _FAMILIES
        and problem.groups is None
        and problem.outcome_number is None
        and (problem.outcome_category is None or problem.family == "bernoulli")
        and cells <= CELLS
        and all(_plain(one) for one in problem.numbers)
        and all(one.simple(problem) for one in problem.terms)
    )


def _plain(number: Number) -> bool:
    """Whether the noise is normal, of one variance, and nothing else; values may be missing."""
    ends = math.isinf(number.low) and math.isinf(number.high)
    alike = number.growth is None and number.scale is None and not number.laplace
    return ends and alike and number.width == 0 and number.variance is not None


def sample(problem: Problem, sampling: Sampling, say: Progress | None = None) -> Posterior:
    """Draws of the coefficients given all that was released.

    Same seed, same draws, whatever the order of the records.
    """
    from sfumato.analysis.samplers.marginal.arrays import arrange

    say = say or current_progress()
    if not can(problem):
        msg = "The marginal likelihood cannot be computed for this model."
        raise MeasureError(msg, hint="ask `can` first; products and powers need another engine.")
    arrays = arrange(problem)
    say("finding the mode", 0, 1)
    density, mode, notes = _found(arrays, problem)
    _sure(density, mode, problem)
    return _drawn(density, mode, problem, sampling, notes, say)


def laplace(problem: Problem) -> tuple[Floats, Floats, int]:
    """The coefficients at the mode, their standard deviations there, and the components used."""
    from sfumato.analysis.samplers.marginal.arrays import arrange

    density, mode, _ = _found(arrange(problem), problem)
    _sure(density, mode, problem)
    back = density.arrays.back
    spread = np.sqrt(((back @ mode.root[: density.terms]) ** 2).sum(axis=1))
    return back @ mode.theta[: density.terms], spread, density.components


def _found(arrays: Arrays, problem: Problem) -> tuple[Density, Mode, list[str]]:
    from sfumato.analysis.samplers.marginal.mode import climb
    from sfumato.analysis.samplers.marginal.shape import RECORDS, shaped
    from sfumato.analysis.samplers.marginal.start import started

    covariate, theta = shaped(arrays, problem.shape)
    notes = []
    if arrays.count > RECORDS and problem.numbers and problem.shape != "normal":
        notes.append(
            f"The number of normal components was chosen on {RECORDS:,} of the records; "
            "the model was fitted to all of them."
        )
    thin = covariate.like(covariate.arrays.thinned(_FIRST))
    alike = covariate.like(thin.arrays, family=covariate.family)
    mode = climb(thin, started(thin, alike, theta))
    if thin.arrays.count == arrays.count:
        return thin, mode, notes
    density = covariate.like(arrays)
    shrink = math.sqrt(thin.arrays.count / arrays.count)
    return density, climb(density, mode.theta, mode.root * shrink), notes


def _constant(density: Density) -> bool:
    """Whether every record says yes, or every record says no."""
    records = density.arrays.records
    return bool((records.y == 0).all() or (records.y == records.trials).all())


def _sure(density: Density, mode: Mode, problem: Problem) -> None:
    """Refuse a posterior that the data do not bound: separation, or no information."""
    from sfumato.analysis.samplers.marginal.model import WIDE

    spread = np.sqrt((mode.root[: density.terms] ** 2).sum(axis=1))
    # A yes or no has a weak prior, which stops at its own end what the data do not stop.
    endless = (spread > _ENDLESS) | (np.abs(mode.theta[: density.terms]) > 2 * density.likely)
    if density.likely < WIDE and problem.outcome_category is None and _constant(density):
        raise MeasureError(
            "The outcome is the same in every record, so the data do not bound any coefficient.",
            hint="is it the right outcome?",
        )
    if endless.any():
        # A clean term's place holds a mixture of clean terms, so only noised ones can be named.
        terms = [term for term, bad in zip(problem.terms, endless, strict=True) if bad]
        names = [term.name for term in terms if term.noised] or ["the clean predictors"]
        msg = f"The data do not bound the coefficients of {', '.join(names)}."
        hint = (
            "Some combination of predictors tells the outcome for sure, or predictors tell the "
            "same. Leave one out, or merge rare levels."
        )
        raise MeasureError(msg, hint=hint)
    if not np.isfinite(mode.value):
        msg = "The likelihood is nought everywhere near the first estimates."
        raise MeasureError(msg, hint="check that the description of the noise fits the data.")


def _drawn(
    density: Density, mode: Mode, problem: Problem, sampling: Sampling, notes: list[str],
    say: Progress,
) -> Posterior:  # fmt: skip
    from sfumato.analysis.problem import Posterior
    from sfumato.analysis.samplers.marginal.importance import UNSURE, drawn
    from sfumato.analysis.samplers.marginal.walk import walked

    wanted = sampling.chains * sampling.draws
    chance = np.random.default_rng(sampling.seed)
    found = drawn(density, mode, wanted, chance, say) if mode.settled else None
    details = {"parameters": float(density.size)}
    complete = independent = True
    if found is not None:
        details |= {} if found.normal else {"pareto_k": found.k}
        details |= {
            "effective": found.effective,
            "evaluated": float(found.evaluated),
            "normal": float(found.normal),
        }
    if found is None or found.k > UNSURE or found.effective < min(_FEW, 0.1 * wanted):
        independent = False
        notes.append(_why(found))
        theta, complete = walked(
            density, _start(mode, found, sampling, chance), sampling, chance, say
        )
    else:
        length = len(found.theta) // sampling.chains
        theta = found.theta[: length * sampling.chains].reshape(sampling.chains, length, -1)
        notes += _said(found, sampling)
    return Posterior(
        engine="marginal likelihood",
        parameters=tuple(term.name for term in problem.terms),
        draws=np.ascontiguousarray(theta[..., : density.terms] @ density.arrays.back.T),
        independent=independent,
        shape="normal" if density.components == 1 else "mixture",
        components=density.components,
        notes=tuple(notes),
        complete=complete,
        details=details,
    )


def _start(
    mode: Mode, found: Drawn | None, sampling: Sampling, chance: np.random.Generator
) -> Start:
    """Walkers at draws of importance sampling, where there are enough of them."""
    from sfumato.analysis.samplers.marginal.walk import TOGETHER, Start

    walkers = sampling.chains * TOGETHER
    if found is not None and len(found.theta) >= walkers:
        return Start(found.theta[:walkers], found.centre, found.root)
    steps = 0.5 * chance.standard_normal((walkers, len(mode.theta)))
    return Start(mode.theta + steps @ mode.root.T, mode.theta, mode.root)


def _why(found: Drawn | None) -> str:
    if found is None:
        return "The posterior has no clear mode, so Hamiltonian Monte Carlo drew from it."
    return (
        f"Importance sampling was unsure (Pareto k {found.k:.2f}, {found.effective:.0f} effective "
        "draws), so Hamiltonian Monte Carlo drew from the same posterior."
    )


def _said(found: Drawn, sampling: Sampling) -> list[str]:
    wanted = sampling.chains * sampling.draws
    if found.normal:
        said = (
            f"The posterior is normal: the weights of {found.evaluated} trial draws hardly differ, "
            "so the draws are from the normal distribution about its mode."
        )
        return [said]
    if len(found.theta) < wanted:
        said = (
            f"{len(found.theta):,} independent draws were made, not {wanted:,}: "
            f"{found.evaluated:,} were weighed, and more would take long."
        )
        return [said]
    return []
