"""Logit, probit, binomial and Poisson models of noised predictors by their marginal likelihood.

In order:

1. the problem becomes arrays on a common scale (`arrays`);
2. the density of the true predictors is fitted, the outcome left out (`covariates`);
3. the mode of the joint posterior is found, first on some of the records, then on all (`mode`).
   The true values are summed or integrated out of the likelihood of each record: over the levels
   of noised categories and the components of the covariate model, then over the linear predictor,
   which is normal given those (`posterior`). What is left has as many dimensions as parameters;
4. Pareto-smoothed importance sampling about the mode gives independent draws (`importance`);
5. Hamiltonian Monte Carlo takes over where the weights cannot be trusted (`hamiltonian`).

A misclassified outcome mixes the likelihoods of both true levels (Goldstein & Shlomo, Eq. A4).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.progress import current_progress

# The steps are imported when they are run: asking `can` must not load compiled code.
if TYPE_CHECKING:
    from sfumato.analysis.problem import NoisyNumber, Posterior, Problem, Sampling
    from sfumato.analysis.samplers.marginal.hamiltonian import StartingPoints
    from sfumato.analysis.samplers.marginal.importance import IndependentDraws
    from sfumato.analysis.samplers.marginal.mode import Mode
    from sfumato.analysis.samplers.marginal.posterior import LogPosterior
    from sfumato.progress import Progress

_FAMILIES = {
    ("bernoulli", "logit"),
    ("bernoulli", "probit"),
    ("binomial", "logit"),
    ("binomial", "probit"),
    ("poisson", "log"),
}
_MOST_CELLS = 24
"""The most combinations of the levels of noised categories that are summed over."""
_FIRST_RECORDS = 20_000
"""Records of the first search for the mode; the second has all of them."""
_UNBOUNDED_SD = 15.0
"""A standard deviation of a standardised coefficient that only the prior can have made."""
_FEWEST_EFFECTIVE = 100


class LaplaceFit(NamedTuple):
    """The coefficients at the mode, their standard deviations there, and the components used."""

    coefficients: Floats
    sds: Floats
    components: int


class _Approximation(NamedTuple):
    """The posterior, its mode, and what the analyst must know of how it was found."""

    posterior: LogPosterior
    mode: Mode
    notes: list[str]


def can(problem: Problem) -> bool:
    """Whether this engine takes the problem."""
    cells = math.prod(len(category.levels) for category in problem.categories)
    return (
        (problem.family, problem.link) in _FAMILIES
        and problem.groups is None
        and problem.exposure is None
        and problem.outcome_number is None
        and (problem.outcome_category is None or problem.family == "bernoulli")
        and cells <= _MOST_CELLS
        and all(_has_normal_noise(number) for number in problem.numbers)
        and all(term.simple(problem) for term in problem.terms)
    )


def _has_normal_noise(number: NoisyNumber) -> bool:
    """Whether the noise is normal, of one variance, and nothing else; values may be missing."""
    unclipped = math.isinf(number.low) and math.isinf(number.high)
    normal = number.growth is None and number.scale is None and not number.laplace
    return unclipped and normal and number.width == 0 and number.variance is not None


def sample(problem: Problem, sampling: Sampling, progress: Progress | None = None) -> Posterior:
    """Draws of the coefficients given all that was released.

    Same seed, same draws, whatever the order of the records.
    """
    progress = progress or current_progress()
    if not can(problem):
        msg = "The marginal likelihood cannot be computed for this model."
        raise MeasureError(msg, hint="ask `can` first; products and powers need another engine.")
    progress("finding the mode", 0, 1)
    return _draw(_approximate(problem), problem, sampling, progress)


def fit_laplace(problem: Problem) -> LaplaceFit:
    """The normal approximation about the mode, without draws."""
    posterior, mode, _ = _approximate(problem)
    scale, terms = posterior.arrays.to_problem_scale, posterior.terms
    sds = np.sqrt(((scale @ mode.root[:terms]) ** 2).sum(axis=1))
    return LaplaceFit(scale @ mode.theta[:terms], sds, posterior.components)


def _approximate(problem: Problem) -> _Approximation:
    """The posterior and its mode; refuses one that the data do not bound."""
    from sfumato.analysis.samplers.marginal.arrays import build_arrays
    from sfumato.analysis.samplers.marginal.covariates import RECORDS, fit_covariates
    from sfumato.analysis.samplers.marginal.mode import find_mode, start_search

    arrays = build_arrays(problem)
    covariate, theta = fit_covariates(arrays, problem.shape)
    notes = []
    if arrays.count > RECORDS and problem.numbers and problem.shape != "normal":
        notes.append(
            f"The number of normal components was chosen on {RECORDS:,} of the records; "
            "the model was fitted to all of them."
        )
    posterior = covariate.with_arrays(covariate.arrays.select_evenly(_FIRST_RECORDS))
    alone = covariate.with_arrays(posterior.arrays, family=covariate.family)
    mode = find_mode(posterior, start_search(posterior, alone, theta))
    if posterior.arrays.count < arrays.count:
        shrink = math.sqrt(posterior.arrays.count / arrays.count)
        posterior = covariate.with_arrays(arrays)
        mode = find_mode(posterior, mode.theta, mode.root * shrink)
    _refuse_unbounded_posterior(posterior, mode, problem)
    return _Approximation(posterior, mode, notes)


def _refuse_unbounded_posterior(posterior: LogPosterior, mode: Mode, problem: Problem) -> None:
    """Refuse a posterior that the data do not bound: separation, or no information."""
    from sfumato.analysis.samplers.marginal.posterior import FLAT_SD

    records, limit = posterior.arrays.records, posterior.coefficient_sd
    constant = bool((records.y == 0).all() or (records.y == records.trials).all())
    if limit < FLAT_SD and problem.outcome_category is None and constant:
        raise MeasureError(
            "The outcome is the same in every record, so the data do not bound any coefficient.",
            hint="is it the right outcome?",
        )
    sd = np.sqrt((mode.root[: posterior.terms] ** 2).sum(axis=1))
    # A binary outcome has a weak prior, which stops at its own scale what the data do not stop.
    unbounded = (sd > _UNBOUNDED_SD) | (np.abs(mode.theta[: posterior.terms]) > 2 * limit)
    if unbounded.any():
        # Clean terms were made orthogonal, so only noised ones can be named.
        terms = [term for term, bad in zip(problem.terms, unbounded, strict=True) if bad]
        names = [term.name for term in terms if term.has_noise] or ["the clean predictors"]
        msg = f"The data do not bound the coefficients of {', '.join(names)}."
        hint = (
            "Some combination of predictors determines the outcome, or predictors are collinear. "
            "Leave one out, or merge rare levels."
        )
        raise MeasureError(msg, hint=hint)
    if not np.isfinite(mode.value):
        msg = "The likelihood is zero everywhere near the first estimates."
        raise MeasureError(msg, hint="check that the description of the noise fits the data.")


def _draw(
    approximation: _Approximation, problem: Problem, sampling: Sampling, progress: Progress
) -> Posterior:
    """Draws by importance sampling, or by Hamiltonian Monte Carlo where that is unreliable."""
    from sfumato.analysis.problem import Posterior
    from sfumato.analysis.samplers.marginal.hamiltonian import sample_hamiltonian
    from sfumato.analysis.samplers.marginal.importance import LARGEST_K, sample_importance

    posterior, mode, notes = approximation
    wanted = sampling.chains * sampling.draws
    rng = np.random.default_rng(sampling.seed)
    details = {"parameters": float(posterior.size)}
    draws = sample_importance(posterior, mode, wanted, rng, progress) if mode.converged else None
    if draws is not None:
        details |= {} if draws.normal else {"pareto_k": draws.k}
        details |= {
            "effective": draws.effective,
            "evaluated": float(draws.evaluated),
            "normal": float(draws.normal),
        }
    fewest = min(_FEWEST_EFFECTIVE, 0.1 * wanted)
    complete = True
    independent = draws is not None and not (draws.k > LARGEST_K or draws.effective < fewest)
    if draws is not None and not draws.complete:
        # Whoever interrupts has no time for the other sampler.
        independent, complete = True, False
    if draws is not None and independent:
        length = len(draws.theta) // sampling.chains
        theta = draws.theta[: length * sampling.chains].reshape(sampling.chains, length, -1)
        notes += _describe_importance(draws, wanted)
    else:
        notes.append(_describe_fallback(draws))
        start = _start_walkers(mode, draws, sampling, rng)
        theta, complete = sample_hamiltonian(posterior, start, sampling, rng, progress)
    scale = posterior.arrays.to_problem_scale
    return Posterior(
        engine="marginal likelihood",
        parameters=tuple(term.name for term in problem.terms),
        draws=np.ascontiguousarray(theta[..., : posterior.terms] @ scale.T),
        independent=independent,
        shape="normal" if posterior.components == 1 else "mixture",
        components=posterior.components,
        notes=tuple(notes),
        complete=complete,
        details=details,
    )


def _start_walkers(
    mode: Mode, draws: IndependentDraws | None, sampling: Sampling, rng: np.random.Generator
) -> StartingPoints:
    """Walkers at draws of importance sampling, where there are enough of them."""
    from sfumato.analysis.samplers.marginal.hamiltonian import WALKERS, StartingPoints

    walkers = sampling.chains * WALKERS
    if draws is not None and len(draws.theta) >= walkers:
        return StartingPoints(draws.theta[:walkers], draws.centre, draws.root)
    steps = 0.5 * rng.standard_normal((walkers, len(mode.theta)))
    return StartingPoints(mode.theta + steps @ mode.root.T, mode.theta, mode.root)


def _describe_fallback(draws: IndependentDraws | None) -> str:
    if draws is None:
        return "The posterior has no clear mode, so Hamiltonian Monte Carlo drew from it."
    return (
        f"Importance sampling was unsure (Pareto k {draws.k:.2f}, {draws.effective:.0f} effective "
        "draws), so Hamiltonian Monte Carlo drew from the same posterior."
    )


def _describe_importance(draws: IndependentDraws, wanted: int) -> list[str]:
    if draws.normal:
        note = (
            f"The posterior is normal: the weights of {draws.evaluated} trial draws hardly differ, "
            "so the draws are from the normal distribution about its mode."
        )
        return [note]
    if len(draws.theta) < wanted:
        note = (
            f"{len(draws.theta):,} independent draws were made, not {wanted:,}: "
            f"{draws.evaluated:,} were weighed, and more would take long."
        )
        return [note]
    return []
