"""Posterior predictive check: whether a simulated release looks like the received one.

True numbers are drawn from the model of true values, the outcome from draws of the coefficients,
and noise as described is added. Compared are, in all records, in each group of a clean category and
in each tercile of a clean number: mean, SD and skewness of each released number, and the spread of
what released predictors leave of the outcome; the latter also in terciles of released numbers.

A statistic fails if it is further from the simulated ones than chance allows for, with all
statistics together: a test of level 1 %. The model of true values is fitted to the same release, so
that in truth it fails less often; `python -m benchmarks.study_designs` measures how often.

References: Gelman, Meng & Stern (1996), Statistica Sinica 6:733 (posterior predictive checks);
Carroll, Ruppert, Stefanski & Crainiceanu (2006), Measurement Error in Nonlinear Models, chapter 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from sfumato.analysis.exposure import (
    CleanVariable,
    choose_exposure,
    has_plain_numbers,
    needs_exposure,
)
from sfumato.analysis.naive_fit import group_covariance
from sfumato.analysis.problem import Exposure, NoisyNumber, Posterior, Problem
from sfumato.analysis.samplers.metropolis.start import describe_residuals
from sfumato.analysis.samplers.mixture import Mixture
from sfumato.kernels.arrays import Floats, Integers

_REPLICATES = 80
_LEVEL = 0.01
_MOST_RECORDS = 20_000
_FEWEST = 30
"""Records of a stratum below which nothing is compared."""
_SHARE_ROUNDS = 30


class Mismatch(NamedTuple):
    """A statistic of the release that the model does not reproduce.

    Parameters
    ----------
    variable : the released number; "" for the residuals of the outcome.
    statistic : "mean", "SD" or "skewness".
    where : in which records, such as "in a group of 'z'"; "" for all.
    received, simulated : its value in the release, and on average in simulated ones.
    distance : between them, in SD of the simulated ones.
    """

    variable: str
    statistic: str
    where: str
    received: float
    simulated: float
    distance: float


@dataclass(frozen=True, eq=False)
class _Strata:
    """Parts of the records. Levels are somebody's values, so the text does not name them."""

    where: str
    codes: Integers = field(repr=False)


def check_release(
    problem: Problem, clean: Sequence[CleanVariable], posterior: Posterior, seed: int
) -> list[Mismatch]:
    """The statistics that the model does not reproduce, the worst first.

    Parameters
    ----------
    problem : the model.
    clean : its clean predictors.
    posterior : draws of its coefficients.
    seed : of the simulation.
    """
    if not has_plain_numbers(problem) or not problem.numbers or not posterior.draws.size:
        return []
    records = problem.records
    problem, clean = _thin_out(problem, clean)
    matters = needs_exposure(problem)
    if not matters:
        # Coefficients do not depend on the model of true values, but simulated releases do.
        problem = choose_exposure(replace(problem, shape="auto"), clean)
    rng = np.random.default_rng([seed, 19])
    rows = np.arange(0, records, -(-records // _MOST_RECORDS))
    simulator = _Simulator(problem, posterior, rng, rows)
    strata = [_Strata("", np.zeros(problem.records, np.int64))]
    for variable in clean:
        kind = "group" if not variable.smooth.shape[1] else "third"
        strata.append(_Strata(f"in a {kind} of '{variable.name}'", variable.stratum))
    received = _summarise(problem, strata, problem.observed, problem.y)
    replicates = [_summarise(problem, strata, *simulator.draw(i)) for i in range(_REPLICATES)]
    return _compare(received, replicates, with_numbers=matters)


def _thin_out(
    problem: Problem, clean: Sequence[CleanVariable]
) -> tuple[Problem, Sequence[CleanVariable]]:
    """Of many records every so-and-so-many-th."""
    interval = -(-problem.records // _MOST_RECORDS)
    if interval == 1:
        return problem, clean
    rows = np.arange(0, problem.records, interval)
    outcome = problem.outcome_number
    return replace(
        problem,
        y=problem.y[rows],
        trials=None if problem.trials is None else problem.trials[rows],
        offset=None if problem.offset is None else problem.offset[rows],
        outcome_number=None if outcome is None else outcome.take(rows),
        numbers=tuple(number.take(rows) for number in problem.numbers),
        categories=tuple(replace(x, density=x.density[rows]) for x in problem.categories),
        terms=tuple(
            term if term.clean is None else replace(term, clean=term.clean[rows])
            for term in problem.terms
        ),
        covariates=problem.covariates[rows],
        exposure=None if problem.exposure is None else problem.exposure.take(rows),
        groups=None if problem.groups is None else problem.groups[rows],
        more_factors=tuple(factor.take(rows) for factor in problem.more_factors),
    ), [CleanVariable(x.name, x.columns[rows], x.smooth[rows], x.stratum[rows]) for x in clean]


class _Simulator:
    """Draws releases from a fitted model.

    Parameters
    ----------
    problem : the model, with its model of true values.
    posterior : draws of the coefficients.
    rng : where draws come from.
    rows : the records that are left of those that the engine had.
    """

    def __init__(
        self, problem: Problem, posterior: Posterior, rng: np.random.Generator, rows: Integers
    ) -> None:
        self.problem, self.rng, self.rows = problem, rng, rows
        self.names = posterior.parameters
        self.draws = posterior.draws.reshape(-1, posterior.draws.shape[-1])
        self.missing = np.isnan(problem.observed)
        # The outcome is not looked at where there are categories, so any levels will do.
        self.codes = np.zeros((problem.records, len(problem.categories)), np.int64)
        self.replicates = posterior.replicates
        self.exposure = None if self.replicates else _FittedExposure(problem)

    def draw(self, index: int) -> tuple[Floats, Floats]:
        """(record, number) released numbers, and the released outcome."""
        problem, rng = self.problem, self.rng
        parameters = self.draws[rng.integers(len(self.draws))]
        if self.exposure is not None:
            latent = self.exposure.draw(rng)
        else:
            replicate = self.replicates[index % len(self.replicates)]
            latent, parameters = replicate.true[self.rows], replicate.parameters
        with np.errstate(all="ignore"):
            design = problem.design(latent, self.codes)
        released = latent + _draw_noise(problem, latent, rng)
        for i, number in enumerate(problem.numbers):
            if number.width and number.scale is None:
                released[:, i] = np.round(released[:, i] / number.width) * number.width
            released[:, i] = np.clip(released[:, i], number.low, number.high)
        released = np.where(self.missing, np.nan, released)
        return released, self._draw_outcome(design, parameters)

    def _draw_outcome(self, design: Floats, parameters: Floats) -> Floats:
        problem, rng = self.problem, self.rng
        if problem.outcome_levels:
            return problem.y  # levels have no spread that would be compared
        draw = dict(zip(self.names, parameters, strict=True))
        with np.errstate(all="ignore"):
            eta = design @ np.array([draw[term.name] for term in problem.terms])
        for factor in problem.factors:
            between = group_covariance(problem, draw, factor)
            if between is None:
                continue
            values, vectors = np.linalg.eigh(between)
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            effects = rng.standard_normal((int(factor.groups.max()) + 1, len(root))) @ root.T
            eta = eta + (design[:, list(factor.random)] * effects[factor.groups]).sum(axis=1)
        trials = problem.take_trials(slice(None))
        if problem.family == "gaussian":
            noise = problem.outcome_number.variance if problem.outcome_number else 0.0
            sd = np.sqrt(max(draw["residual variance"], 0.0) + (noise or 0.0))
            return np.asarray(eta + sd * rng.standard_normal(len(eta)), float)
        eta = eta + problem.take_offset(slice(None))
        finite = np.isfinite(eta)
        eta = np.clip(np.where(finite, eta, 0.0), -30, 20)
        if problem.family == "poisson":
            y = rng.poisson(np.exp(eta)).astype(float)
        elif problem.family == "negative_binomial":
            share = rng.gamma(1 / draw["dispersion"], draw["dispersion"], len(eta))
            y = rng.poisson(np.minimum(share * np.exp(eta), 1e15)).astype(float)
        else:
            from scipy.special import expit, ndtr

            p = expit(eta) if problem.link == "logit" else ndtr(eta)
            y = rng.binomial(trials.astype(np.int64), p).astype(float)
        return np.where(finite, y, np.nan)


class _FittedExposure:
    """The model of true numbers, fitted to the release, for engines that do not draw them."""

    def __init__(self, problem: Problem) -> None:
        missing = np.isnan(problem.observed)
        observed, known = np.where(missing, 0.0, problem.observed), ~missing.any(axis=1)
        beta = np.linalg.lstsq(problem.covariates[known], observed[known], rcond=None)[0]
        self.centre: Floats = problem.covariates @ beta
        residual = np.where(missing, 0.0, observed - self.centre)
        if problem.groups is not None and problem.clustered:
            effects = _shrink_group_means(residual, problem.groups)
            self.centre, residual = self.centre + effects, residual - effects
        exposure = problem.exposure or Exposure(np.zeros((problem.records, 0)))
        of_known = replace(problem, exposure=exposure.take(np.flatnonzero(known)))
        slopes, self.mixture = describe_residuals(of_known, residual[known], problem.error)
        self.spread: Floats = np.exp(exposure.spread @ slopes)
        stratum = exposure.stratum
        self.stratum = np.zeros(problem.records, np.int64) if stratum is None else stratum
        self.shares = _estimate_shares(
            self.mixture, residual[known] / self.spread[known], problem.error, self.stratum[known]
        )
        self.lower = np.linalg.cholesky(
            self.mixture.covariances + 1e-12 * np.eye(self.centre.shape[1])
        )

    def draw(self, rng: np.random.Generator) -> Floats:
        """(record, number) true numbers."""
        shares = np.cumsum(self.shares, axis=1)[self.stratum]
        component = (shares < rng.uniform(size=(len(shares), 1))).sum(axis=1)
        component = np.minimum(component, len(self.mixture.means) - 1)
        z = rng.standard_normal(self.centre.shape)
        deviation = np.einsum("nij,nj->ni", self.lower[component], z)
        true: Floats = self.centre + self.spread * (self.mixture.means[component] + deviation)
        return true


def _shrink_group_means(residual: Floats, groups: Integers) -> Floats:
    """(record, number) what a group has in common, as far as the data tell it from chance."""
    counts = np.maximum(np.bincount(groups), 1)
    effects = np.empty_like(residual)
    for column, values in enumerate(residual.T):
        means = np.bincount(groups, values) / counts
        within = float(np.mean((values - means[groups]) ** 2))
        between = max(float(np.var(means)) - within / float(np.mean(counts)), 0.0)
        shrinkage = between / np.maximum(between + within / counts, 1e-300)
        effects[:, column] = (shrinkage * means)[groups]
    return effects


def _estimate_shares(
    mixture: Mixture, residual: Floats, error: Floats, stratum: Integers
) -> Floats:
    """(stratum, component) the shares of each stratum, by EM with components as they are."""
    strata = int(stratum.max(initial=0)) + 1
    shares = np.tile(mixture.shares, (strata, 1))
    if strata == 1:
        return shares
    logs = np.empty((len(residual), mixture.components))
    for k in range(mixture.components):
        total = mixture.covariances[k] + error
        distance = residual - mixture.means[k]
        square = (distance @ np.linalg.inv(total) * distance).sum(axis=1)
        logs[:, k] = -0.5 * (square + np.linalg.slogdet(total)[1])
    density = np.exp(logs - logs.max(axis=1, keepdims=True))
    for _ in range(_SHARE_ROUNDS):
        joint = density * shares[stratum]
        joint /= joint.sum(axis=1, keepdims=True)
        for index in range(strata):
            shares[index] = joint[stratum == index].mean(axis=0)
    return shares


def _draw_noise(problem: Problem, latent: Floats, rng: np.random.Generator) -> Floats:
    values, vectors = np.linalg.eigh(problem.error)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    noise: Floats = rng.standard_normal(latent.shape) @ root.T
    for i, number in enumerate(problem.numbers):
        variance = _noise_variance(number, latent[:, i], float(problem.error[i, i]))
        if number.laplace:
            noise[:, i] = rng.laplace(scale=np.sqrt(variance / 2), size=len(latent))
        elif number.growth is not None:
            noise[:, i] = rng.standard_normal(len(latent)) * np.sqrt(variance)
    return noise


def _noise_variance(number: NoisyNumber, latent: Floats, average: float) -> Floats | float:
    if number.growth is None:
        return average
    return np.maximum(number.growth.variance(latent), 0.0)


# Statistics


class _Statistic(NamedTuple):
    variable: str
    statistic: str
    where: str
    value: float


def _summarise(
    problem: Problem, strata: Sequence[_Strata], released: Floats, y: Floats
) -> list[_Statistic]:
    """All statistics of a release, in an order that does not depend on its values."""
    statistics = []
    for number, values in zip(problem.numbers, released.T, strict=True):
        for part in strata:
            for moments in _moments_by_stratum(values, part.codes):
                statistics += [
                    _Statistic(number.name, name, part.where, value)
                    for name, value in zip(("mean", "SD", "skewness"), moments, strict=True)
                ]
    # A yes/no has no spread of its own; true levels are not simulated together with numbers.
    if problem.family == "bernoulli" or problem.outcome_levels or problem.categories:
        return statistics
    residual = _regress_outcome(problem, released, y)
    thirds = [
        _Strata(f"in a third of '{number.name}'", _cut_into_thirds(values))
        for number, values in zip(problem.numbers, released.T, strict=True)
    ]
    for part in [*strata, *thirds]:
        statistics += [
            _Statistic("", "SD", part.where, moments[1])
            for moments in _moments_by_stratum(residual, part.codes)
        ]
    return statistics


def _regress_outcome(problem: Problem, released: Floats, y: Floats) -> Floats:
    """What clean columns, and released numbers in their place in the formula, leave of y."""
    columns = [problem.covariates]
    filled = np.where(np.isfinite(released), released, np.nanmean(released, axis=0))
    for term in problem.terms:
        if term.numbers and not term.levels:
            with np.errstate(all="ignore"):
                column = term.column(filled, np.zeros((len(y), 0), np.int64), problem)
            columns.append(np.nan_to_num(column, posinf=0.0, neginf=0.0)[:, None])
    x = np.column_stack(columns)
    finite = np.isfinite(y)
    beta = np.linalg.lstsq(x[finite], y[finite], rcond=None)[0]
    return np.where(finite, y - x @ beta, np.nan)


def _cut_into_thirds(values: Floats) -> Integers:
    known = values[np.isfinite(values)]
    if not len(known):
        return np.zeros(len(values), np.int64)
    thirds: Integers = np.searchsorted(np.quantile(known, [1 / 3, 2 / 3]), values).astype(np.int64)
    return np.where(np.isfinite(values), thirds, 0)


def _moments_by_stratum(values: Floats, codes: Integers) -> list[tuple[float, float, float]]:
    """Mean, SD and skewness in each stratum that has records enough."""
    moments = []
    finite = np.isfinite(values)
    for code in range(int(codes.max(initial=0)) + 1):
        part = values[(codes == code) & finite]
        if np.count_nonzero(codes == code) < _FEWEST or not len(part):
            continue
        mean, sd = float(part.mean()), float(part.std())
        skewness = float(np.mean(((part - mean) / max(sd, 1e-300)) ** 3))
        moments.append((mean, sd, skewness))
    return moments


def _compare(
    received: list[_Statistic], replicates: list[list[_Statistic]], *, with_numbers: bool
) -> list[Mismatch]:
    from scipy.stats import t

    simulated = np.array([[statistic.value for statistic in row] for row in replicates])
    centre, sd = simulated.mean(axis=0), simulated.std(axis=0, ddof=1)
    compared = [
        index for index, statistic in enumerate(received) if with_numbers or not statistic.variable
    ]
    # Bonferroni: any one of the statistics may fail by chance.
    critical = float(t.isf(_LEVEL / 2 / max(len(compared), 1), len(replicates) - 1))
    mismatches = []
    for index in compared:
        distance = (received[index].value - centre[index]) / max(float(sd[index]), 1e-300)
        if abs(distance) > critical:
            variable, statistic, where, value = received[index]
            mismatches.append(
                Mismatch(variable, statistic, where, value, float(centre[index]), float(distance))
            )
    return sorted(mismatches, key=lambda mismatch: -abs(mismatch.distance))
