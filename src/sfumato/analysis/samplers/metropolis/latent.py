"""Latent values: the linear predictor as a function of them, and steps that draw them.

Of one number the predictor is a sum of a few functions, each times a weight that all other values
decide; of one category it is a value per level. The coefficient of a term may differ by group.

The latent values of one number are drawn for all records at once. Three proposals take turns, all
accepted with the Hastings ratio. One is normal about a Newton step from the present value: exact
where the predictor is linear and the noise normal. One is a random walk. One is an independence
proposal, the distribution given the released value and the covariate model, whatever the present
value; it takes values from one mode to another. Accepted without the ratio it is biased (Goldstein
& Shlomo's A3 read literally: 7 % and more).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.analysis.problem import GeneralisedNumber
from sfumato.analysis.samplers.metropolis.cells import (
    CellEnds,
    draw_outcome_within_cells,
    step_within_cells,
)
from sfumato.analysis.samplers.metropolis.coefficients import Generator
from sfumato.analysis.samplers.metropolis.covariates import (
    ConditionalMixture,
    RecordMixture,
    log_sum_exp,
)
from sfumato.analysis.samplers.metropolis.likelihood import LogDensity, OutcomeModel, ReleasedNumber
from sfumato.kernels.arrays import Floats, Integers

if TYPE_CHECKING:
    from sfumato.analysis.problem import NoisyNumber, Problem, ScalarFunction, Term

LONGEST_STEP = 4.0
"""The longest Newton step, in SD of the number."""
_TURNS = 4
_UNINFORMATIVE = 1e8
"""The variance of noise that says nothing, in variances of the number."""
_EMPTY: Floats = np.zeros(0)
_UNIT: Floats = np.ones(1)
Factors = tuple["ScalarFunction | None", ...]
"""Functions of a number that a term multiplies; None for the number itself."""
Coefficients = list[Floats | float]
"""Of each term; by record where it differs by group."""


class FunctionValues(NamedTuple):
    """The functions of a number at its values, and their derivatives."""

    values: list[Floats]
    derivatives: list[Floats]


def _multiply_factors(factors: Factors, true: Floats) -> Floats:
    product = true if factors[0] is None else factors[0](true)
    for function in factors[1:]:
        product = product * (true if function is None else function(true))
    return product


class NumberTerms:
    """How the terms depend on one number.

    Parameters
    ----------
    problem : the problem.
    index : of the number.
    step : a small change of the latent value, for derivatives.
    """

    def __init__(self, problem: Problem, index: int, step: float) -> None:
        self.number: NoisyNumber = problem.numbers[index]
        self.step = step
        functions: dict[Factors, int] = {}
        self.uses: list[tuple[int, int]] = []
        """(term, which of the functions)."""
        for at_term, term in enumerate(problem.terms):
            factors = tuple(function for number, function in term.numbers if number == index)
            if factors:
                self.uses.append((at_term, functions.setdefault(factors, len(functions))))
        self.functions = list(functions)
        self.linear = [
            factors == (None,) and self.number.scale is None and not self._is_rounded
            for factors in self.functions
        ]

    @property
    def _is_rounded(self) -> bool:
        return isinstance(self.number, GeneralisedNumber) and self.number.whole

    def values(self, latent: Floats) -> list[Floats]:
        """All functions; not a number where there is none."""
        with np.errstate(all="ignore"):
            true = self.number.true(latent)
            return [_multiply_factors(factors, true) for factors in self.functions]

    def evaluate(self, latent: Floats) -> FunctionValues:
        """All functions and their derivatives; those are zero where there is none."""
        values = self.values(latent)
        if all(self.linear):
            return FunctionValues(values, [_UNIT] * len(values))
        derivatives: list[Floats] = []
        with np.errstate(all="ignore"):
            # Any function may stand in a formula, so its derivative is a central difference.
            up = self.number.true(latent + self.step)
            down = self.number.true(latent - self.step)
            for factors, linear in zip(self.functions, self.linear, strict=True):
                if linear:
                    derivatives.append(_UNIT)
                    continue
                difference = _multiply_factors(factors, up) - _multiply_factors(factors, down)
                derivative = difference / (2 * self.step)
                derivatives.append(np.where(np.isfinite(derivative), derivative, 0.0))
        return FunctionValues(values, derivatives)

    def combine_weights(self, coefficients: Coefficients, others: list[Floats]) -> list[Floats]:
        """What each function is multiplied by, given the other factors of each term."""
        weights: list[Floats | None] = [None] * len(self.functions)
        for term, function in self.uses:
            weight = coefficients[term] * others[term]
            before = weights[function]
            weights[function] = weight if before is None else before + weight
        return [weight for weight in weights if weight is not None]


class LinearPredictor:
    """All terms at the present latent values, and how they depend on each of those.

    Parameters
    ----------
    problem : the problem.
    latent : (record, number); kept, and read at every update.
    codes : (record, category); the same.
    steps : a small change of each number.
    """

    def __init__(self, problem: Problem, latent: Floats, codes: Integers, steps: Floats) -> None:
        self.problem, self.latent, self.codes = problem, latent, codes
        self.number_terms = [NumberTerms(problem, i, float(step)) for i, step in enumerate(steps)]
        self.design: Floats = np.empty((problem.records, len(problem.terms)), order="F")
        self._noised = [index for index, term in enumerate(problem.terms) if term.has_noise]
        for index, term in enumerate(problem.terms):
            if not term.has_noise:
                self.design[:, index] = 1.0 if term.clean is None else term.clean
        self.refresh()

    def refresh(self) -> None:
        """Make the noised columns anew."""
        with np.errstate(all="ignore"):
            for index in self._noised:
                term = self.problem.terms[index]
                self.design[:, index] = term.column(self.latent, self.codes, self.problem)

    def _multiply_others(self, index: int, *, number: int = -1, category: int = -1) -> Floats:
        """A term without its factors of one number or one category."""
        term: Term = self.problem.terms[index]
        product = np.ones(self.problem.records) if term.clean is None else term.clean
        with np.errstate(all="ignore"):
            for other, function in term.numbers:
                if other != number:
                    true = self.problem.numbers[other].true(self.latent[:, other])
                    product = product * (true if function is None else function(true))
        for other, level in term.levels:
            if other != category:
                product = product * (self.codes[:, other] == level)
        return product

    def function_weights(self, number: int, coefficients: Coefficients) -> list[Floats]:
        """What each function of a number is multiplied by."""
        terms = self.number_terms[number]
        others = {index: self._multiply_others(index, number=number) for index, _ in terms.uses}
        return terms.combine_weights(
            coefficients, [others.get(index, _EMPTY) for index in range(len(coefficients))]
        )

    def level_effects(self, category: int, coefficients: Coefficients) -> Floats:
        """(level, record) what each level of a category adds to the predictor.

        Of an outcome with several predictors it is (level, predictor, record).
        """
        levels = len(self.problem.categories[category].levels)
        effects = np.zeros((levels, *np.shape(coefficients[0])[:-1], self.problem.records))
        for index, term in enumerate(self.problem.terms):
            named = {level for other, level in term.levels if other == category}
            if len(named) == 1:
                others = self._multiply_others(index, category=category)
                effects[named.pop()] += coefficients[index] * others
        return effects


class IntegratedLatent(NamedTuple):
    """Latent values given all else, and the log density of the data without them, by record."""

    mixture: RecordMixture
    log: Floats


@dataclass(eq=False)
class LatentTarget:
    """The full conditional of the latent values of one number, as a log density.

    log f(y | η) + log p(latent | covariates) + log p(released | latent), by record.

    Parameters
    ----------
    terms : how the predictor depends on it.
    weights : what each of its functions is multiplied by.
    offset : the linear predictor without it.
    outcome, conditional, released : the three parts of the density.
    shift : of the released values, where noise of other numbers is correlated with theirs.
    limits : between which values they must stay, so that classes stay apart; None for any.
    """

    terms: NumberTerms
    weights: list[Floats]
    offset: Floats
    outcome: OutcomeModel
    conditional: ConditionalMixture
    released: ReleasedNumber
    shift: Floats | float
    limits: CellEnds | None = None

    @property
    def mixture_of_normals(self) -> bool:
        """Whether the full conditional is a normal distribution or a mixture of such."""
        linear = self.outcome.linear and all(self.terms.linear)
        return linear and self.released.exact and self.released.number.growth is None

    @property
    def normal(self) -> bool:
        """Whether the full conditional is normal."""
        return self.mixture_of_normals and self.conditional.logs is None

    def integrate(self) -> IntegratedLatent:
        """The full conditional, and the density of outcome and released values without it.

        Released values and outcome are two normal observations of the latent value, and together
        one of the summed precision. What they say of each other is normal as well.
        """
        slope = sum(self.weights, np.zeros(1))
        variance, noise = self.outcome.variance, self.released.variance(_EMPTY)
        released, outcome = self.released.values + self.shift, self.outcome.true - self.offset
        precision = 1 / noise + slope**2 / variance
        together = (released / noise + slope * outcome / variance) / precision
        mixture = self.conditional.with_noise(together, 1 / precision)
        between = variance + slope**2 * noise
        log = log_sum_exp(mixture.logs + 0.5 * np.log(mixture.variances))
        log -= 0.5 * (np.log(between) + (outcome - slope * released) ** 2 / between)
        return IntegratedLatent(mixture, log)

    def evaluate(self, latent: Floats) -> tuple[LogDensity, Floats]:
        """Log density and derivatives, and the linear predictor."""
        functions = self.terms.evaluate(latent)
        with np.errstate(all="ignore"):
            eta, slope = self.offset, np.zeros(1)
            for weight, value in zip(self.weights, functions.values, strict=True):
                eta = eta + weight * value
            for weight, derivative in zip(self.weights, functions.derivatives, strict=True):
                slope = slope + weight * derivative
            outcome = self.outcome.evaluate_along(eta, slope)
            prior = self.conditional.evaluate(latent)
            measurement = self.released.evaluate(latent, self.shift)
            log = outcome.log + prior.log + measurement.log
            gradient = outcome.gradient + prior.gradient + measurement.gradient
            curvature = outcome.curvature + prior.curvature + measurement.curvature
        return _forbid_undefined_values(log, gradient, curvature), eta

    def predict(self, latent: Floats) -> Floats:
        """The linear predictor at latent values."""
        eta = self.offset
        with np.errstate(all="ignore"):
            for weight, value in zip(self.weights, self.terms.values(latent), strict=True):
                eta = eta + weight * value
        return eta

    def log_without_cells(self, latent: Floats, eta: Floats) -> Floats:
        """Log density by outcome and covariate model alone, given the predictor at the values."""
        with np.errstate(all="ignore"):
            return self.outcome.evaluate(eta).log + self.conditional.evaluate(latent).log

    def approximate_noise(self, size: float) -> Floats:
        """The variance of normal noise that says about as much as what was released."""
        released = self.released
        variance = released.variance(released.values + self.shift)
        # Rounding adds to the noise; what lies beyond a limit is left to the covariate model alone.
        noise = np.where(
            released.missing | released.clipped,
            _UNINFORMATIVE * size**2,
            variance + released.number.width**2 / 12,
        )
        return np.maximum(noise, 1e-12 * size**2)

    def without_outcome(self, size: float) -> RecordMixture:
        """The distribution given the released value and the covariate model alone."""
        noise = self.approximate_noise(size)
        return self.conditional.with_noise(self.released.values + self.shift, noise)


def _forbid_undefined_values(log: Floats, gradient: Floats, curvature: Floats) -> LogDensity:
    """Where the model has no value the density is zero: no way leads there, nor out."""
    undefined = ~(np.isfinite(log) & np.isfinite(gradient) & np.isfinite(curvature))
    if not undefined.any():
        return LogDensity(log, gradient, curvature)
    return LogDensity(
        np.where(undefined, -np.inf, log),
        np.where(undefined, 0.0, gradient),
        np.where(undefined, 1.0, curvature),
    )


Evaluate = Callable[[Floats], tuple[LogDensity, Floats]]
"""Log density and derivatives at values, and something that goes with them, such as η."""


class LatentStep(NamedTuple):
    """Values after a step, what goes with them, and the share of proposals accepted."""

    values: Floats
    companion: Floats
    acceptance: float


def step_newton(present: Floats, evaluate: Evaluate, size: float, rng: Generator) -> LatentStep:
    """A step about a Newton step (a Langevin proposal preconditioned by the curvature).

    Parameters
    ----------
    present : the values now.
    evaluate : log density and derivatives at values, and something that goes with them.
    size : the SD of the values, for the longest step.
    rng : where draws come from.
    """
    limit = LONGEST_STEP * size
    here, with_here = evaluate(present)
    centre = present + np.clip(here.gradient / here.curvature, -limit, limit)
    z = rng.standard_normal(len(present))
    proposed = centre + z / np.sqrt(here.curvature)
    there, with_there = evaluate(proposed)
    centre = proposed + np.clip(there.gradient / there.curvature, -limit, limit)
    back = (present - centre) * np.sqrt(there.curvature)
    with np.errstate(invalid="ignore"):
        # Hastings ratio: p(there) q(here | there) / (p(here) q(there | here)).
        log_ratio = (
            there.log - here.log + 0.5 * (np.log(there.curvature / here.curvature) - back**2 + z**2)
        )
    return _accept(log_ratio, (present, with_here), (proposed, with_there), rng)


def step_random_walk(
    present: Floats, evaluate: Evaluate, width: Floats | float, rng: Generator
) -> LatentStep:
    """A step of a random walk.

    From far out in a tail a Newton step may lead too far time and again. A walk leads back.
    """
    # The proposal is symmetric, so that its densities cancel in the Hastings ratio.
    proposed = present + width * rng.standard_normal(len(present))
    (here, with_here), (there, with_there) = evaluate(present), evaluate(proposed)
    with np.errstate(invalid="ignore"):
        log_ratio = there.log - here.log
    return _accept(log_ratio, (present, with_here), (proposed, with_there), rng)


def step_independent(
    present: Floats, target: LatentTarget, size: float, rng: Generator
) -> LatentStep:
    """A proposal that does not depend on the present values; with them goes the predictor."""
    proposal = target.without_outcome(size)
    proposed = proposal.draw(rng)
    here, with_here = target.evaluate(present)
    there, with_there = target.evaluate(proposed)
    with np.errstate(invalid="ignore"):
        # p(there) q(here) / (p(here) q(there)): the proposal forgets the present value.
        log_ratio = there.log - here.log + proposal.log(present) - proposal.log(proposed)
    return _accept(log_ratio, (present, with_here), (proposed, with_there), rng)


def step_latent(
    passes: int, present: Floats, target: LatentTarget, size: float, rng: Generator
) -> LatentStep:
    """A step by the proposal whose turn it is; of what is known up to a cell by its own."""
    number = target.terms.number
    if isinstance(number, GeneralisedNumber):
        return LatentStep(*step_within_cells(present, target, number, rng))
    if target.mixture_of_normals and not target.normal:
        values = target.integrate().mixture.draw(rng)
        return LatentStep(values, target.predict(values), 1.0)
    turn = passes % _TURNS
    if target.normal or turn in (0, 2):
        return step_newton(present, target.evaluate, size, rng)
    if turn == 1:
        width = np.sqrt(target.without_outcome(size).variances.min(axis=0))
        return step_random_walk(present, target.evaluate, width, rng)
    return step_independent(present, target, size, rng)


def _accept(
    log_ratio: Floats, here: tuple[Floats, Floats], there: tuple[Floats, Floats], rng: Generator
) -> LatentStep:
    # What is not a number is not above anything, so that it is not accepted.
    accepted = np.log(rng.uniform(size=len(log_ratio))) < log_ratio
    values, companion = (np.where(accepted, b, a) for a, b in zip(here, there, strict=True))
    return LatentStep(values, companion, float(accepted.mean()))


def step_true_outcome(outcome: OutcomeModel, eta: Floats, passes: int, rng: Generator) -> Floats:
    """True outcomes after a step, where their noise cannot be integrated out.

    Parameters
    ----------
    outcome : with what was released of it, and the present residual variance.
    eta : the linear predictor.
    passes : how many there were: a Newton step and a random walk take turns.
    rng : where draws come from.
    """
    released, variance, noise = outcome.released, outcome.variance, outcome.noise
    assert released is not None  # noqa: S101 - asked before
    if isinstance(released.number, GeneralisedNumber):
        return draw_outcome_within_cells(released.number, eta, variance, rng)
    scale, step = released.number.scale, 1e-4 * np.sqrt(variance + noise)

    def evaluate(y: Floats) -> tuple[LogDensity, Floats]:
        residual = eta - y
        with np.errstate(all="ignore"):
            latent, slope = y, np.ones(1)
            if scale is not None:
                latent = scale.forth(y)
                slope = (scale.forth(y + step) - scale.forth(y - step)) / (2 * step)
            measurement = released.evaluate(latent)
            log = measurement.log - 0.5 * residual**2 / variance
            gradient = measurement.gradient * slope + residual / variance
            curvature = measurement.curvature * slope**2 + 1 / variance
        return _forbid_undefined_values(log, gradient, curvature), y

    if passes % 2:
        width = np.sqrt(variance * noise / (variance + noise))
        return step_random_walk(outcome.true, evaluate, width, rng).values
    return step_newton(outcome.true, evaluate, float(np.sqrt(variance + noise)), rng).values
