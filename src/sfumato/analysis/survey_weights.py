"""Models of a sample with survey weights: weighted corrected scores, with a design-based variance.

The score of a record is right on average over the noise (`corrected_scores`), whatever the true
values are. So is its sum over a sample, each record with its weight, for the sum over the
population (pseudo-likelihood). Noise in a weight that is right on average and independent of all
else leaves it so. The variance is that of sums over sampling units: A⁻¹ B A⁻ᵀ, where A is how the
weighted score changes with the coefficients, and B the products of the units' scores.

Draws are normal, with the solution as their mean and this covariance: in large samples that is the
distribution of the solution, whatever the model. Resampled units give narrower intervals where some
weights are large.

References: Binder (1983), International Statistical Review 51:279; Skinner (1989), Domain means,
regression and multivariate analysis; Lumley & Scott (2017), Statistical Science 32:265.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from sfumato.analysis.corrected_scores import (
    CorrectedFit,
    LinearMoments,
    NoCorrectedScoreError,
    require_plain_outcome,
)
from sfumato.analysis.measurement_error import is_noiseless
from sfumato.analysis.naive_fit import Estimates, compute_moments
from sfumato.analysis.problem import Posterior, Problem, Sampling
from sfumato.analysis.release_input import ReleaseInput
from sfumato.cells.codes import encode
from sfumato.errors import DataError, MeasureError
from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.noise.description import Gaussian
from sfumato.utility.models.sandwich import SCORES

ROLE = "role"
"""Instead of a name: the variable whose role is "weight"."""
WEIGHTED = "weighted scores"
"""The name of the engine."""
_VARIANCE = "residual variance"
FAMILIES = ("gaussian", "bernoulli", "binomial", "poisson")
_STEP = 1e-5
_ROUNDS, _SMALL = 20, 1e-9
_MOST_LEVELS = 64

Score = Callable[[Floats], Floats]
"""(record, term) the scores at some coefficients."""


# Weights and sampling units of a release


def find_weight_variable(weights: str, schema: Any) -> str:
    """The variable of the weights, by its name or by its role."""
    if weights != ROLE or ROLE in schema:
        schema.require([weights])
        return weights
    names = schema.having("weight")
    if len(names) != 1:
        count = "no variable" if not names else f"{len(names)} variables"
        raise DataError(
            f'In these data {count} have the role "weight".', hint='name one: weights="w".'
        )
    return str(names[0])


def add_weights(problem: Problem, name: str, release: ReleaseInput, rows: Integers) -> Problem:
    """The problem with the weight and the sampling unit of each record.

    Parameters
    ----------
    problem : the model.
    name : the variable of the weights.
    release : the released records, and what is known of their noise.
    rows : where the records of the model stand among them.
    """
    values = release.data.column(name)
    if not values.dtype.is_numeric():
        raise DataError(f"The weights '{name}' are no numbers.", hint="name another variable.")
    weights = values.cast(pl.Float64).to_numpy()[rows]
    noised = not is_noiseless(release.noise[name]) if name in release.noise else False
    # Noised weights may be negative: in sums they are right on average.
    if not bool((np.isfinite(weights) & (weights >= 0) | noised).all()):
        raise DataError(
            f"Some weights in '{name}' are negative or not finite.", hint="correct them."
        )
    if not weights.sum() > 0:
        raise DataError(f"The weights '{name}' add up to nothing.", hint="name another variable.")
    unit = find_unit_variable(release)
    return replace(
        problem,
        weights=np.asarray(weights / weights.mean(), float),
        units=None if unit is None else _number_units(release.data.column(unit), rows),
    )


def require_usable_weights(name: str, release: ReleaseInput, clean: Collection[str]) -> None:
    """Refuse weights that were changed in a way that is not right on average."""
    if name in clean:
        return
    noise = release.noise.get(name)
    is_additive = isinstance(noise, Gaussian) and noise.scale is None
    if is_additive and isinstance(noise, Gaussian):
        is_additive = noise.at_least is None and noise.at_most is None
    harmless = ("weights", "noise") if is_additive else ("weights",)
    wrong = [method for method in release.changed.get(name, ()) if method not in harmless]
    if noise is not None and not is_additive and not is_noiseless(noise):
        wrong = wrong or [f"{noise.distribution} noise"]
    if release.data.schema[name].generalised or name in release.cut:
        wrong = wrong or ["ranges or limits"]
    if wrong:
        raise DataError(
            f"The weights '{name}' were changed ({', '.join(wrong)}), and are not right on "
            "average.",
            hint="ask for weights that were rounded at random (method weights), or that have noise "
            "on their own scale, not cut off; or name them in `clean` to take them as they are.",
        )


def find_unit_variable(release: ReleaseInput) -> str | None:
    """The variable that says which records were sampled together: the one with fewest values."""
    schema = release.data.schema
    known = [
        name
        for name in schema.having("cluster") or schema.having("person")
        if not {*release.changed.get(name, ())} - {"pseudonymise"}
        and name not in release.noise
        and not schema[name].generalised
    ]
    return min(known, key=lambda name: release.data.column(name).n_unique()) if known else None


def _number_units(values: pl.Series, rows: Integers) -> Integers:
    """The unit of each record; a record that does not say is one of its own."""
    codes, alone = encode(values).codes.astype(np.int64)[rows], values.is_null().to_numpy()[rows]
    codes[alone] = codes.max(initial=0) + 1 + np.arange(int(alone.sum()))
    return np.unique(codes, return_inverse=True)[1].reshape(-1).astype(np.int64)


# The estimating equations


@dataclass(frozen=True, eq=False)
class WeightedSample:
    """The weight of each record, and the sampling unit it belongs to."""

    weights: Floats = field(repr=False)
    units: Integers = field(repr=False)

    @classmethod
    def take(cls, problem: Problem, rows: Mask) -> WeightedSample:
        """Some records of a problem."""
        weights = np.ones(problem.records) if problem.weights is None else problem.weights
        units = np.arange(problem.records) if problem.units is None else problem.units
        numbered = np.unique(units[rows], return_inverse=True)[1]
        return cls(weights[rows], numbered.reshape(-1).astype(np.int64))

    @property
    def count(self) -> int:
        """How many sampling units there are."""
        return int(self.units.max()) + 1

    def total(self, scores: Floats) -> Floats:
        """The weighted sum of scores."""
        return np.asarray(self.weights @ scores, float)

    def estimate_variance(self, scores: Floats, slope: Floats) -> Floats:
        """The covariance of the solution, from its scores and their derivative in sum."""
        if self.count < len(slope) + 1:
            raise MeasureError(
                f"There are {self.count} sampling units for {len(slope)} terms.",
                hint="leave some terms out of the formula.",
            )
        weighted = scores * self.weights[:, None]
        sums = np.column_stack([np.bincount(self.units, column) for column in weighted.T])
        inverse = np.linalg.inv(slope)
        spread = sums.T @ sums * self.count / (self.count - 1)
        return np.asarray(inverse @ spread @ inverse.T, float)


def differentiate_scores(score: Score, beta: Floats) -> Floats:
    """(record, term, coefficient): how scores change with coefficients."""
    columns = []
    for index in range(len(beta)):
        step = np.zeros(len(beta))
        step[index] = _STEP * max(1.0, abs(beta[index]))
        columns.append((score(beta + step) - score(beta - step)) / (2 * step[index]))
    return np.stack(columns, axis=2)


def solve_scores(score: Score, sample: WeightedSample, start: Floats) -> Floats:
    """The parameters at which the weighted scores add up to zero: Newton's method, or Powell's."""
    from scipy.optimize import root

    theta = start
    for _ in range(_ROUNDS):
        slope = np.tensordot(sample.weights, differentiate_scores(score, theta), axes=1)
        step = np.linalg.solve(slope, sample.total(score(theta)))
        theta = theta - step
        if not np.isfinite(theta).all():
            break
        if float(np.abs(step).max()) < _SMALL * (1 + float(np.abs(theta).max())):
            return theta
    solution = root(lambda theta: sample.total(score(theta)) / len(sample.weights), start)
    if not solution.success or not np.isfinite(solution.x).all():
        raise NoCorrectedScoreError("the weighted scores have no root near the naive fit")
    return np.asarray(solution.x, float)


def fit_weighted_columns(problem: Problem, x: Floats, rows: Mask, start: Estimates) -> Estimates:
    """The plain fit of given columns, with weights; `start` is the one without."""
    names = [term.name for term in problem.terms]
    sample = WeightedSample.take(problem, rows)
    score = _build_plain_score(problem, x, rows)
    try:
        beta = solve_scores(score, sample, np.array([start.value[name] for name in names]))
    except NoCorrectedScoreError as error:
        raise MeasureError(
            f"The weighted model cannot be fitted: {error}.",
            hint="leave out terms that predict the outcome with certainty.",
        ) from None
    slope = np.tensordot(sample.weights, differentiate_scores(score, beta), axes=1)
    covariance = sample.estimate_variance(score(beta), slope)
    variances = {}
    if problem.family == "gaussian":
        squares = float(sample.weights @ (problem.y[rows] - x @ beta) ** 2)
        share = (len(x) - len(names)) / len(x)
        variances["residual variance"] = squares / (float(sample.weights.sum()) * share)
    return Estimates.from_fit(names, beta, covariance, variances, certain=start.certain)


def _build_plain_score(problem: Problem, x: Floats, rows: Mask) -> Score:
    """The score of a model of columns without noise."""
    y, trials, offset = problem.y[rows], problem.take_trials(rows), problem.take_offset(rows)

    def score(beta: Floats) -> Floats:
        line = x @ beta + offset
        if problem.family == "gaussian":
            return np.asarray(x * (y - line)[:, None], float)
        moments = compute_moments(problem.link, line, trials)
        residual = y - trials * moments.mean
        scale = residual * moments.slope / np.maximum(moments.variance, 1e-300)
        return np.asarray(x * scale[:, None], float)

    return score


@dataclass(frozen=True, eq=False)
class WeightedModel:
    """A model whose weighted scores are right on average over the noise.

    Parameters
    ----------
    problem : the model, with weights.
    known : the records that have all values.
    score : of these records, at some coefficients; of linear models at the residual variance too.
    """

    problem: Problem
    known: Mask = field(repr=False)
    score: Score = field(repr=False)

    @property
    def names(self) -> list[str]:
        """The parameters."""
        terms = [term.name for term in self.problem.terms]
        return [*terms, _VARIANCE] if self.problem.family == "gaussian" else terms

    @property
    def sample(self) -> WeightedSample:
        """The records that have all values."""
        return WeightedSample.take(self.problem, self.known)


def build_weighted_model(problem: Problem, levels: Mapping[str, Floats]) -> WeightedModel:
    """The scores of a model. An error says why there are none.

    Parameters
    ----------
    problem : the model, with weights.
    levels : for each noised category the scores of its levels, see `score_levels`.
    """
    if problem.groups is not None:
        raise NoCorrectedScoreError("records differ by group, and weights of groups are not known")
    if problem.family not in FAMILIES:
        raise NoCorrectedScoreError(f"no corrected score is known for a {problem.family} model")
    require_plain_outcome(problem)
    known = np.isfinite(problem.y) & ~np.isnan(problem.observed).any(axis=1)
    for category in problem.categories:
        known &= np.isfinite(levels[category.name]).all(axis=1)
    if problem.family == "gaussian":
        moments = LinearMoments(problem, levels)
        return WeightedModel(problem, moments.known, _build_linear_score(moments))
    return WeightedModel(problem, known, _build_generalised_score(problem, levels, known))


def _build_linear_score(moments: LinearMoments) -> Score:
    """Of coefficients, and of the residual variance less the noise of the outcome."""
    products, size = moments.products(), len(moments.terms)
    gram = products[:, : size * size].reshape(-1, size, size)
    moment, square = products[:, size * size : -1], products[:, -1]
    freedom, noise = (len(products) - size) / len(products), moments.outcome_noise_variance()

    def score(theta: Floats) -> Floats:
        beta, fitted = theta[:-1], gram @ theta[:-1]
        squares = square - 2 * moment @ beta + fitted @ beta
        return np.column_stack([moment - fitted, squares / freedom - noise - theta[-1]])

    return score


def _build_generalised_score(problem: Problem, levels: Mapping[str, Floats], known: Mask) -> Score:
    """Summed over the levels of noised categories, each with its score."""
    combinations = list(
        itertools.product(*(range(len(category.levels)) for category in problem.categories))
    )
    if len(combinations) > _MOST_LEVELS:
        raise NoCorrectedScoreError("noised categories have too many levels together")
    build = _find_score(problem, known)
    parts: list[tuple[Floats, Score]] = []
    for codes in combinations:
        share = np.ones(int(known.sum()))
        for category, code in zip(problem.categories, codes, strict=True):
            share = share * levels[category.name][known, code]
        level_codes = np.tile(np.array(codes, np.int64), (problem.records, 1))
        x = problem.design(np.nan_to_num(problem.observed), level_codes)[known]
        parts.append((share[:, None], build(problem, x, known)))
    return lambda beta: np.asarray(sum(share * score(beta) for share, score in parts), float)


def _find_score(problem: Problem, known: Mask) -> Callable[[Problem, Floats, Mask], Score]:
    """What builds the score of columns: the plain one where no number has noise."""
    if not problem.numbers:
        return _build_plain_score
    family = {"log": "poisson", "logit": "logistic"}.get(problem.link)
    rows = np.flatnonzero(known)
    is_simple = all(
        number.take(rows).is_homoscedastic_normal for number in problem.numbers
    ) and all(term.simple(problem) for term in problem.terms if term.numbers)
    single = problem.trials is None or bool((problem.trials == 1).all())
    if family is None or not single:
        raise NoCorrectedScoreError(
            f"no corrected score is known for this {problem.family} model with noised numbers"
        )
    if not is_simple:
        raise NoCorrectedScoreError(
            "a corrected score is known for normal noise on plain terms only"
        )
    numbers = [term.numbers[0][0] if term.numbers else -1 for term in problem.terms]
    # The offset is one more column, whose coefficient is 1.
    sigma = np.zeros((len(numbers) + 1, len(numbers) + 1))
    for (a, first), (b, second) in itertools.product(enumerate(numbers), repeat=2):
        if min(first, second) >= 0:
            sigma[a, b] = problem.error[first, second]

    def build(problem: Problem, x: Floats, rows: Mask) -> Score:
        columns, y = np.column_stack([x, problem.take_offset(rows)]), problem.y[rows]
        return lambda beta: SCORES[family](columns, y, np.append(beta, 1.0), sigma)[:, :-1]

    return build


def fit_weighted_scores(model: WeightedModel, start: Estimates) -> CorrectedFit:
    """Solve the weighted equations; `start` is the naive fit."""
    sample, terms = model.sample, len(model.problem.terms)
    theta = solve_scores(model.score, sample, np.array([start.value[x] for x in model.names]))
    slope = np.tensordot(sample.weights, differentiate_scores(model.score, theta), axes=1)
    # Of a linear model the slope is minus the products of true terms, which are not negative.
    products = -(slope + slope.T)[:terms, :terms]
    if model.problem.family == "gaussian" and float(np.linalg.eigvalsh(products)[0]) <= 0:
        raise NoCorrectedScoreError("the noise is larger than what is left of a term")
    covariance = sample.estimate_variance(model.score(theta), slope)
    return CorrectedFit(
        estimates=Estimates.from_fit(model.names, theta, covariance),
        records=int(model.known.sum()),
    )


def sample_weighted_solution(
    model: WeightedModel, best: Estimates, sampling: Sampling
) -> Posterior:
    """Draws from the distribution of the solution in large samples.

    Parameters
    ----------
    model : what was solved.
    best : the solution, with its covariance.
    sampling : how many draws.
    """
    assert best.covariance is not None  # noqa: S101 - it is the sandwich
    rng = np.random.default_rng([sampling.seed, 23])
    shape = (sampling.chains, sampling.draws, len(model.names))
    # The eigenvectors, since few units leave a covariance that is hardly positive.
    values, vectors = np.linalg.eigh(best.covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    mean = np.array([best.value[name] for name in model.names])
    return Posterior(
        engine=WEIGHTED,
        parameters=tuple(model.names),
        draws=mean + rng.standard_normal(shape) @ root.T,
        independent=True,
        shape="any",
    )


def describe_weights(name: str | None, release: ReleaseInput) -> list[str]:
    """What is to be said of the weights, also of those that were not used."""
    if name is None:
        return [
            f"The survey weights '{other}' were not used: this is a model of the sample, not of "
            f'the population. Weigh records with weights="{other}" (--weights {other}).'
            for other in release.data.schema.having("weight")[:1]
        ]
    unit = find_unit_variable(release)
    drawn = "records, each drawn by itself" if unit is None else f"the units that '{unit}' names"
    notes = [f"Weighted by '{name}'. Errors are those of a sample of {drawn}."]
    if "weights" in release.changed.get(name, ()):
        notes.append(
            f"'{name}' was rounded at random. That is right on average, but for the largest and "
            "the smallest weights, about one in a hundred each, which were cut off."
        )
    if name in release.noise:
        notes.append(
            f"The noise of '{name}' is right on average: it biases nothing, and is part of the "
            "errors."
        )
    return notes
