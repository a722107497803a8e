"""Metropolis-Hastings with levels and true numbers summed out: nothing drawn but parameters.

In a model of one level without a mixture, the levels of a record are few terms of a sum, so that
the marginal likelihood of the parameters is known (`MarginalDensity`). `sample_independently` is
an independence sampler (Tierney 1994, section 2.3.3): proposals come from a normal distribution
about the mode, with covariance the inverse of minus the Hessian there, one in twenty of them from
a wider t distribution as a defence (Hesterberg 1995). A proposal θ' replaces θ with probability
min(1, w(θ') / w(θ)), where w is the posterior density over that of the proposal; so draws are those
of the posterior whatever its shape. With a thousand records nine in ten are accepted. Where too
few would be, the Gibbs sampler does the work.

With groups, levels are summed out given the random effects, for the coefficient of a level alone.
Drawn given levels, that coefficient remembers them: most of what there is to know of it is lost
with the true levels. So between two sweeps `LevelCoefficientStep` draws it once more without them,
a step of a partially collapsed Gibbs sampler (van Dyk & Park 2008); the other parameters move with
it along their regression on it, and levels are drawn anew right after.

References: Tierney (1994), Annals of Statistics 22:1701; Hesterberg (1995), Technometrics 37:185;
Kong, Liu & Wong (1994), JASA 89:278 (effective sample size); van Dyk & Park (2008), JASA 103:790.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sfumato.analysis.problem import Sampling
from sfumato.analysis.samplers.gibbs.model import (
    ChainState,
    LinearModel,
    cell_means,
    released_covariance,
)
from sfumato.analysis.samplers.gibbs.steps import (
    FEATURE_PRECISION,
    TINY,
    WORTH_THREADS,
    logit_precision,
    released_moments,
)
from sfumato.kernels.arrays import Floats
from sfumato.progress import Progress

MOST_PARAMETERS = 16
"""Hessians from differences cost the square of their number."""
_RECORDS_PER_PARAMETER = 10
"""With fewer the posterior is far from normal."""
_PILOT, _TUNINGS = 200, 2
_ENOUGH_EFFECTIVE, _GOOD_EFFECTIVE = 0.3, 0.6
"""The share of effective draws in the pilot below which it is left to Gibbs, or tuned."""
_HEAVY, _FREEDOM, _HEAVY_SCALE = 0.05, 5.0, 1.5
"""The share of proposals with heavy tails, their degrees of freedom, and their scale."""
_BATCH, _THREAD_BATCH = 400, 50
_LOG_LIMIT = 80.0
"""A logarithm beyond which nothing is likely, and exponentials would overflow."""
_MODE_RECORDS = 4_000
_NEWTON_STEPS = 30
_DIFFERENCE = 0.3
"""Width of finite differences, in standard deviations of the parameter."""
_CONVERGED, _SLOW = 1e-3, 0.3
_STEP_LENGTHS = np.array([1.0, 0.5, 0.25, 0.1, 0.03, 0.005])
_LEAST_CURVATURE = 1e-3
_SAME_MODE, _NEGLIGIBLE = 4.0, 10.0
"""Squared distance of two modes that are one; and of log density: a mode that much lower has no
share in the draws that could be noticed."""
_NODES = np.array([-1.2, 0.0, 1.2])
"""Where the density along a line is computed, in standard deviations."""
_LINE_SCALE = 1.1
_LINE_FITS, _LINE_START = 2, 0.3
"""How often in the warm-up the line is fitted, and the share of the warm-up before the first."""
_SHRINKAGE = 5.0
"""Records of a group that weigh as much as the prior of its random effect: residual variance over
that between groups, roughly. Any number is right; a better one makes longer steps."""
_FLATTEST = 0.25
_SAME = 1e-9


@dataclass(frozen=True, eq=False)
class ChainDraws:
    """Draws (chain, draw, value) of β, δ, σ² and what follows.

    Parameters
    ----------
    complete : whether none was interrupted.
    accepted : the share of proposals accepted, where there were any.
    """

    draws: Floats
    complete: bool
    accepted: float | None = None


class MarginalDensity:
    """Log posterior density of rows of parameters, levels summed out, but for a constant.

    Parameters are put in a row of numbers without bounds: variances by logarithms, a covariance by
    its Cholesky factor, probabilities by log odds. Priors are those of the Gibbs sampler, times the
    Jacobian of that change.

    Parameters
    ----------
    model : without groups (or given their random effects), and with one component.
    thinning : only every so-and-so-many-th record counts.
    """

    def __init__(self, model: LinearModel, thinning: int = 1) -> None:
        self.model = model
        rows = np.ascontiguousarray(model.rows[::thinning])
        self.rows, self.records = rows, len(rows)
        self.index = np.ascontiguousarray(model.index[::thinning])
        self.log_density = np.ascontiguousarray(model.log_density[::thinning])
        two = model.two_shifted_levels
        self.columns = np.ascontiguousarray(rows.T) if two else np.zeros((0, 0))
        self.cell = np.ascontiguousarray(self.index[:, 1])
        self.counts = np.bincount(self.cell, minlength=model.table_rows).astype(float)
        self.released_odds = self.log_density[:, -1] - self.log_density[:, 0]
        self.products = rows.T @ rows
        self.below = np.tril_indices(model.numbers)
        self.ends: list[int] = np.cumsum(_parameter_counts(model)).tolist()

    @property
    def size(self) -> int:
        """How many parameters there are."""
        return self.ends[-1]

    def split_parameters(self, theta: Floats) -> list[Floats]:
        """β, δ, log σ², Γ, μ, the Cholesky factor of Σ, and the log odds of the levels."""
        return np.split(theta, self.ends[:-1], axis=-1)

    def to_state(self, theta: Floats) -> tuple[ChainState, Floats]:
        """The state of each row, without random effects, and the log Jacobian."""
        model = self.model
        beta, slope, log_residual, gamma, mean, factor, odds = self.split_parameters(theta)
        draws, d, columns = len(theta), model.numbers, model.columns
        root = np.zeros((draws, d, d))
        root[:, self.below[0], self.below[1]] = factor
        diagonal = np.arange(d)
        logs = np.clip(root[:, diagonal, diagonal], -_LOG_LIMIT, _LOG_LIMIT)
        root[:, diagonal, diagonal] = np.exp(logs)
        log_residual = np.clip(log_residual[:, 0], -_LOG_LIMIT, _LOG_LIMIT)
        # |∂Σ / ∂L| = 2^d Π L_ii^(d - i), i from 0, and once more L_ii for its logarithm.
        jacobian = log_residual + logs @ (d + 1.0 - diagonal)
        log_table = np.zeros((draws, model.table_rows, model.levels))
        alpha = np.zeros((draws, len(model.roles), columns + model.dummies.shape[1]))
        if model.sequential:
            alpha = odds.reshape(alpha.shape)
        elif model.levels > 1:
            log_table[..., 1:] = odds.reshape(draws, model.table_rows, -1)
            top = log_table.max(axis=-1, keepdims=True)
            log_table -= top + np.log(np.exp(log_table - top).sum(axis=-1, keepdims=True))
            jacobian = jacobian + log_table.sum(axis=(1, 2))
        state = ChainState(
            beta=beta,
            slope=slope,
            residual_variance=np.exp(log_residual),
            gamma=gamma.reshape(draws, columns - 1 + model.dummies.shape[1], d),
            mean=mean[:, None],
            covariance=(root @ root.mT)[:, None],
            share=np.ones((draws, model.levels, 1)),
            outcome_effect=np.zeros((draws, 1, 0)),
            outcome_between=np.zeros((draws, 0, 0)),
            number_effect=np.zeros((draws, 1, 0)),
            number_between=np.zeros((draws, d, d)),
            log_table=log_table,
            alpha=alpha,
            level_effect=np.zeros((draws, len(model.roles), 1)),
            level_between=np.ones((draws, len(model.roles))),
        )
        return state, jacobian

    def to_parameters(self, state: ChainState) -> Floats:
        """The parameters of a state in a row, for each chain."""
        model = self.model
        draws, diagonal = len(state.beta), np.arange(model.numbers)
        covariance = state.covariance[:, 0]
        root = np.linalg.cholesky(covariance) if model.numbers else covariance
        root[:, diagonal, diagonal] = np.log(root[:, diagonal, diagonal])
        odds = state.log_table[..., 1:] - state.log_table[..., :1]
        parts = (
            state.beta, state.slope, np.log(state.residual_variance), state.gamma, state.mean,
            root[:, self.below[0], self.below[1]], state.alpha if model.sequential else odds,
        )  # fmt: skip
        return np.concatenate([part.reshape(draws, -1) for part in parts], axis=1)

    def update_state(self, state: ChainState, theta: Floats) -> None:
        """Change coefficients and variances of a state, and leave its levels as they are."""
        new, _ = self.to_state(theta)
        for name in ("beta", "slope", "residual_variance", "gamma", "mean", "covariance"):
            setattr(state, name, np.ascontiguousarray(getattr(new, name)))

    def __call__(self, theta: Floats) -> Floats:
        """(draw) log density of (draw, parameter)."""
        state, jacobian = self.to_state(theta)
        with np.errstate(all="ignore"):
            try:
                value = self._log_likelihood(state) + self.log_prior(state) + jacobian
            except np.linalg.LinAlgError:
                # One of them has no inverse: the others are computed without it.
                if len(theta) == 1:
                    return np.full(1, -np.inf)
                return np.concatenate([self(row[None]) for row in theta])
        return np.where(np.isfinite(value), value, -np.inf)

    def log_prior(self, state: ChainState) -> Floats:
        """Log prior density."""
        model = self.model
        value = -0.5 * ((state.beta @ model.term_precision) * state.beta).sum(axis=-1)
        value -= np.log(state.residual_variance + model.noise[-1, -1])
        of_levels = state.gamma[:, model.columns - 1 :]
        value -= 0.5 * FEATURE_PRECISION * (of_levels**2).sum(axis=(1, 2))
        covariance = state.covariance[:, 0]
        inverse = np.linalg.inv(covariance) if model.numbers else covariance
        value -= 0.5 * TINY * self.records * np.trace(inverse, axis1=1, axis2=2)
        if model.sequential:
            precision = logit_precision(state.alpha.shape[-1])
            value = value - 0.5 * (state.alpha**2 @ precision).sum(axis=-1)
        elif model.levels > 1:
            value -= 0.5 * state.log_table.sum(axis=(1, 2))
        return np.asarray(value, np.float64)

    def _log_likelihood(self, state: ChainState) -> Floats:
        from sfumato.kernels.sampling import gibbs_records as kernels

        model = self.model
        moments = released_moments(model, state)
        total = np.zeros(len(state.beta))
        if moments.odds is None:
            records = kernels.LinearRecords(self.rows, self.index, self.log_density)
            kernels.add_log_likelihood(records, moments.terms, total)
            return total
        # p(first level) (1 + odds of the second): the former is normal, so that cross products
        # are enough for it.
        residual, precision = moments.residual[:, 0], moments.precision[:, 0, 0]
        squares = residual @ self.products @ residual.mT
        total -= 0.5 * (precision * squares).sum(axis=(1, 2))
        total += 0.5 * self.records * np.linalg.slogdet(precision)[1]
        slopes = np.ascontiguousarray(moments.odds[:, 0])
        table_odds = np.zeros((len(total), 1))
        if model.sequential:
            first = np.zeros_like(slopes)
            first[:, : model.columns] = -state.alpha[:, 0, : model.columns]
            normaliser, zeros = np.zeros_like(total), np.zeros(self.records)
            kernels.add_log_one_plus_exp(
                self.columns, self.cell, zeros, table_odds, first, normaliser
            )
            total -= normaliser
        else:
            total += state.log_table[..., 0] @ self.counts
            table_odds = np.ascontiguousarray(state.log_table[..., 1] - state.log_table[..., 0])
        kernels.add_log_one_plus_exp(
            self.columns, self.cell, self.released_odds, table_odds, slopes, total
        )
        return total


def _parameter_counts(model: LinearModel) -> list[int]:
    """How many parameters of each kind, in their order."""
    d, columns, dummies = model.numbers, model.columns, model.dummies.shape[1]
    odds = model.table_rows * (model.levels - 1)
    levels = len(model.roles) * (columns + dummies) if model.sequential else odds
    factor = d * (d + 1) // 2
    terms = model.outcome_design.shape[1]
    return [terms, d, 1, (columns - 1 + dummies) * d, d, factor, levels]


@dataclass(frozen=True, eq=False)
class PosteriorMode:
    """Where the density is highest, its value, and minus the Hessian there."""

    theta: Floats
    value: float
    precision: Floats

    def is_near(self, other: Floats) -> bool:
        """Whether a point lies within a few standard deviations."""
        deviation = other - self.theta
        return float(deviation @ self.precision @ deviation) < _SAME_MODE


def find_mode(model: LinearModel) -> PosteriorMode | None:
    """The mode, from a least squares fit on expected levels; None where it is not found.

    Of many records some thousand are enough for the first steps.
    """
    thinning = max(len(model.rows) // _MODE_RECORDS, 1)
    density = MarginalDensity(model, thinning)
    start = _start_from_regression(density)
    mode = _climb(density, start)
    if mode is None or not _is_only_mode(density, mode, start):
        return None
    return mode if thinning == 1 else _climb(MarginalDensity(model), mode.theta)


def _is_only_mode(density: MarginalDensity, mode: PosteriorMode, start: Floats) -> bool:
    """Whether another start leads to the same mode, or to a much lower one."""
    terms = density.ends[1]
    other = _climb(density, np.concatenate([np.zeros(terms), [0.0], start[terms + 1 :]]), mode)
    if other is None or other.value < mode.value - _NEGLIGIBLE:
        return True
    return mode.is_near(other.theta)


def _climb(
    density: MarginalDensity, start: Floats, known: PosteriorMode | None = None
) -> PosteriorMode | None:
    """Newton's method with step halving, to a mode or near to one that is known."""
    theta = start
    width = np.full(density.size, _DIFFERENCE / np.sqrt(density.records))
    hessian: NegativeHessian | None = None
    last_gain = np.inf
    for _ in range(_NEWTON_STEPS):
        fresh = hessian is None
        value, gradient, precision = differentiate(
            density, theta, width, density.size if fresh else 0
        )
        finite = np.isfinite(value) and np.isfinite(gradient).all() and np.isfinite(precision).all()
        if not finite:
            return None
        if known is not None and known.is_near(theta):
            return known
        hessian = NegativeHessian(precision) if hessian is None else hessian
        width = hessian.width
        step = hessian.newton_step(gradient)
        gain = float(step @ gradient)
        candidates = theta + _STEP_LENGTHS[:, None] * step
        values = density(candidates) if gain >= _CONVERGED else np.full(1, -np.inf)
        best = int(np.argmax(values))
        if values[best] <= value:
            # A mode, or the Hessian is out of date: a fresh one tells.
            if fresh:
                is_mode = gain < _CONVERGED and hessian.lowest > 0
                return PosteriorMode(theta, value, hessian.precision) if is_mode else None
            hessian = None
            continue
        theta = candidates[best]
        # The Hessian is computed anew where the old one makes slow progress.
        if best > 0 or gain > _SLOW * last_gain:
            hessian = None
        last_gain = gain
    return None


class NegativeHessian:
    """Minus the Hessian, and the Newton steps that follow from it."""

    def __init__(self, precision: Floats) -> None:
        self.precision = precision
        self.scale = np.sqrt(np.maximum(np.abs(np.diag(precision)), _LEAST_CURVATURE))
        self.width = np.minimum(_DIFFERENCE / self.scale, _DIFFERENCE)
        # On scales of one, and made positive: every step is uphill.
        values, self.vectors = np.linalg.eigh(precision / np.outer(self.scale, self.scale))
        self.lowest = float(values[0])
        self.values = np.maximum(np.abs(values), _LEAST_CURVATURE)

    def newton_step(self, gradient: Floats) -> Floats:
        """H⁻¹ gradient."""
        along = self.vectors.T @ (gradient / self.scale)
        step: Floats = self.vectors @ (along / self.values) / self.scale
        return step


class DensityDerivatives(NamedTuple):
    """Value, gradient and minus the Hessian of a log density."""

    value: float
    gradient: Floats
    precision: Floats


def differentiate(
    density: Callable[[Floats], Floats], theta: Floats, width: Floats, free: int
) -> DensityDerivatives:
    """Value, gradient and, for the first `free` parameters, minus the Hessian; by differences."""
    size = len(theta)
    unit = np.diag(width)
    a, b = np.tril_indices(free, -1)
    pairs = unit[a] + unit[b]
    points = np.concatenate([np.zeros((1, size)), unit, -unit, pairs, -pairs])
    values = density(theta + points)
    value, up, down = values[0], values[1 : size + 1], values[size + 1 : 2 * size + 1]
    gradient = (up - down) / 2 / width
    hessian = np.zeros((size, size))
    both_up, both_down = np.split(values[2 * size + 1 :], 2)
    # f(++) + f(--) - 2 f = f_aa + f_bb + 2 f_ab, each times the widths.
    second = up + down - 2 * value
    hessian[a, b] = (both_up + both_down - 2 * value - second[a] - second[b]) / 2
    hessian = hessian + hessian.T + np.diag(second)
    return DensityDerivatives(float(value), gradient, -hessian / np.outer(width, width))


def _start_from_regression(density: MarginalDensity) -> Floats:
    """Least squares on levels as likely as what was released makes them."""
    model, rows = density.model, density.rows
    columns, d = model.columns, model.numbers
    clean, numbers, y = rows[:, :columns], rows[:, columns : columns + d], rows[:, -1]
    weights = np.exp(density.log_density)
    weights /= weights.sum(axis=1, keepdims=True)
    design = np.zeros((len(rows), model.outcome_design.shape[1]))
    for k in range(model.levels):
        design += weights[:, k, None] * (clean @ model.outcome_design[k].T)
    features = np.column_stack([clean[:, 1:], weights @ model.dummies, np.ones(len(rows))])
    gamma = np.linalg.lstsq(features, numbers, rcond=None)[0]
    residual = numbers - features @ gamma
    covariance = residual.T @ residual / len(rows)
    root = np.linalg.cholesky(_limit_below(covariance - model.noise[:d, :d], covariance))
    root[range(d), range(d)] = np.log(root[range(d), range(d)])
    predictors = np.column_stack([design, numbers])
    beta = np.linalg.lstsq(predictors, y, rcond=None)[0]
    errors = y - predictors @ beta
    variance = float(errors @ errors) / len(rows) - model.noise[d, d]
    variance = max(variance, 0.1 * float(y.var()), 1e-6)
    odds = np.zeros(density.ends[-1] - density.ends[-2])
    if not model.sequential and model.levels > 1:
        share = np.zeros((model.table_rows, model.levels))
        np.add.at(share, density.cell, weights)
        share = np.log(share + 0.5)
        odds = (share[:, 1:] - share[:, :1]).reshape(-1)
    return np.concatenate([beta, [np.log(variance)], gamma.reshape(-1), root[density.below], odds])


def _limit_below(covariance: Floats, released: Floats) -> Floats:
    """The covariance, at least a tenth of that of released values in each direction."""
    values, vectors = np.linalg.eigh(released)
    roots = np.sqrt(np.maximum(values, 1e-12))
    inverse_root, root = vectors / roots, vectors * roots
    inner, axes = np.linalg.eigh(inverse_root.mT @ covariance @ inverse_root)
    limited: Floats = root @ (axes * np.maximum(inner, 0.1)) @ axes.T @ root.T
    return limited


@dataclass(frozen=True, eq=False)
class ModeProposal:
    """The distribution of proposals: its centre, and a root of its covariance."""

    centre: Floats
    root: Floats

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Parameters, and their log densities here but for a constant."""
        size = len(self.centre)
        normal = rng.standard_normal((count, size))
        heavy = rng.random(count) < _HEAVY
        scale = _HEAVY_SCALE * np.sqrt(_FREEDOM / rng.chisquare(_FREEDOM, count))
        normal *= np.where(heavy, scale, 1.0)[:, None]
        square = (normal**2).sum(axis=1)
        # A mixture of a normal and a multivariate t, both about the centre.
        log_normal = math.log1p(-_HEAVY) - size / 2 * math.log(2 * math.pi) - square / 2
        log_t = math.log(_HEAVY) + math.lgamma((_FREEDOM + size) / 2) - math.lgamma(_FREEDOM / 2)
        log_t -= size / 2 * math.log(_FREEDOM * math.pi) + size * math.log(_HEAVY_SCALE)
        log_t = log_t - (_FREEDOM + size) / 2 * np.log1p(square / _HEAVY_SCALE**2 / _FREEDOM)
        return self.centre + normal @ self.root.T, np.logaddexp(log_normal, log_t)


@dataclass(frozen=True, eq=False)
class _Pilot:
    """A proposal that is good enough, with draws from it and the logs of their weights."""

    proposal: ModeProposal
    theta: Floats
    log_weights: Floats


def sample_independently(
    model: LinearModel, sampling: Sampling, progress: Progress
) -> ChainDraws | None:
    """Draws by the independence sampler; None where the posterior is not of the kind."""
    if not _has_marginal_density(model):
        return None
    mode = find_mode(model)
    if mode is None:
        return None
    with ThreadPoolExecutor(max(1, os.cpu_count() or 1)) as pool:
        density = MarginalDensity(model)

        def evaluate(theta: Floats) -> Floats:
            return _evaluate_in_batches(density, theta, pool)

        rng = np.random.default_rng(sampling.seed)
        pilot = _tune_proposal(evaluate, mode, rng)
        if pilot is None:
            return None
        theta, complete, accepted = _run_chains(evaluate, pilot, sampling, rng, progress)
    beta, slope, log_residual = density.split_parameters(theta)[:3]
    draws = np.concatenate([beta, slope, np.exp(log_residual)], axis=-1)
    return ChainDraws(draws, complete, accepted)


def _has_marginal_density(model: LinearModel) -> bool:
    """Whether levels or missing values can be summed out, and parameters are few."""
    if model.effects or model.groups > 1 or model.components > 1:
        return False
    size = sum(_parameter_counts(model))
    several = model.levels > 1 or len(model.present) > 1
    enough = len(model.rows) >= _RECORDS_PER_PARAMETER * size
    return several and size <= MOST_PARAMETERS and enough


def _evaluate_in_batches(
    density: MarginalDensity, theta: Floats, pool: ThreadPoolExecutor
) -> Floats:
    """The density of many rows, on as many threads as are worth it."""
    if density.records < WORTH_THREADS:
        return density(theta)
    parts = np.array_split(theta, max(len(theta) // _THREAD_BATCH, 1))
    return np.concatenate(list(pool.map(density, parts)))


def _tune_proposal(
    density: Callable[[Floats], Floats], mode: PosteriorMode, rng: np.random.Generator
) -> _Pilot | None:
    """Adapt the proposal to weighted draws of a pilot until enough of them are effective."""
    proposal = ModeProposal(
        mode.theta, _symmetric_cholesky(np.asarray(np.linalg.inv(mode.precision)))
    )
    for tuning in range(_TUNINGS + 1):
        theta, log_proposal = proposal.draw(_PILOT, rng)
        log_weights = density(theta) - log_proposal
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        # Effective sample size 1 / Σ w² (Kong, Liu & Wong 1994).
        effective = 1.0 / float((weights**2).sum()) / _PILOT
        if effective > _GOOD_EFFECTIVE or (tuning == _TUNINGS and effective > _ENOUGH_EFFECTIVE):
            return _Pilot(proposal, theta, log_weights)
        if effective < _ENOUGH_EFFECTIVE / 3:
            return None
        centre = weights @ theta
        deviation = theta - centre
        # The pilot's covariance and the one so far, in equal parts.
        covariance = (deviation * weights[:, None]).T @ deviation / 2
        covariance = covariance + proposal.root @ proposal.root.T / 2
        proposal = ModeProposal(centre, _symmetric_cholesky(covariance))
    return None


def _symmetric_cholesky(matrix: Floats) -> Floats:
    return np.asarray(np.linalg.cholesky((matrix + matrix.T) / 2), np.float64)


def _run_chains(
    density: Callable[[Floats], Floats],
    pilot: _Pilot,
    sampling: Sampling,
    rng: np.random.Generator,
    progress: Progress,
) -> tuple[Floats, bool, float]:
    """Parameters (chain, draw, parameter), whether they are complete, and the share accepted."""
    chains, total = sampling.chains, sampling.draws
    log_weights = pilot.log_weights
    weights = np.exp(log_weights - log_weights.max())
    # Chains begin at draws of the pilot, taken by weight: all but draws of the posterior.
    first = rng.choice(len(log_weights), chains, p=weights / weights.sum())
    current, current_weight = pilot.theta[first], log_weights[first]
    theta, log_proposal = pilot.proposal.draw(chains * total, rng)
    log_uniform = np.log(rng.random(chains * total))
    draws: list[Floats] = []
    acceptances, complete = 0, True
    try:
        step = max(_BATCH // chains, 1)
        for begin in range(0, total, step):
            part = slice(begin * chains, min(begin + step, total) * chains)
            log_weight = (density(theta[part]) - log_proposal[part]).reshape(-1, chains)
            proposals = theta[part].reshape(-1, chains, theta.shape[1])
            uniforms = log_uniform[part].reshape(-1, chains)
            for proposal, weight, uniform in zip(proposals, log_weight, uniforms, strict=True):
                # Accepted with probability min(1, w' / w).
                accepted = uniform < weight - current_weight
                current_weight = np.where(accepted, weight, current_weight)
                current = np.where(accepted[:, None], proposal, current)
                acceptances += int(accepted.sum())
                draws.append(current)
            progress("drawing coefficients", part.stop, chains * total)
    except KeyboardInterrupt:
        if not draws:  # nothing to return yet: callers must know
            raise
        complete = False
    stacked = np.array(draws).reshape(len(draws), chains, -1).swapaxes(0, 1)
    return stacked, complete, acceptances / max(len(draws) * chains, 1)


def has_level_step(model: LinearModel) -> bool:
    """Whether there are groups and two levels whose coefficient is to be drawn."""
    suitable = bool(len(model.random_design)) and model.two_shifted_levels
    return suitable and bool(_level_contrast(model).any()) and _random_intercept(model) >= 0


def _level_contrast(model: LinearModel) -> Floats:
    """(term): what the second level adds to the outcome is contrast' β."""
    contrast: Floats = model.outcome_design[1, :, 0] - model.outcome_design[0, :, 0]
    return contrast


def _random_intercept(model: LinearModel) -> int:
    """Which random effect is an intercept; -1 where none is."""
    constant = np.eye(model.columns)[0]
    matches = [bool(np.abs(row - constant).max() < _SAME) for row in model.random_design]
    return matches.index(True) if any(matches) else -1


def _effect_patterns(model: LinearModel) -> Floats:
    """(pattern, group): shares of the second level, and a constant; shrunken in small groups."""
    weights = np.exp(model.log_density)
    share = weights[:, 1] / weights.sum(axis=1)
    counts = np.diff(model.group_starts).astype(float)
    shares = np.bincount(model.group, share, len(counts)) / counts
    shrinkage = counts / (counts + _SHRINKAGE)
    return np.stack([shares * shrinkage, shrinkage])


class ConditionalDensity:
    """Log density of rows of parameters, levels summed out, given the random effects of a chain.

    A row is longer by two numbers: how much of each of two patterns is added to the random
    intercepts of all groups, the shares of the second level and a constant, as far as a group's
    records outweigh the prior of its effect.

    Parameters
    ----------
    density : how parameters are put in a row, and their priors.
    chains : how many.
    """

    def __init__(self, density: MarginalDensity, chains: int) -> None:
        self.density, model = density, density.model
        self.patterns = _effect_patterns(model)
        self.intercept = _random_intercept(model)
        columns, front, extra = model.columns, model.number_effects, len(self.patterns)
        rows = density.columns
        self.columns = np.empty((chains, len(rows) + front + extra, rows.shape[1]))
        self.columns[:, :columns] = rows[:columns]
        self.columns[:, columns + front : columns + front + extra] = self.patterns[:, model.group]
        self.columns[:, columns + front + extra :] = rows[columns:]
        self.offset = np.empty((chains, rows.shape[1]))
        self.cell = np.zeros(0, np.int64)

    def set_effects(self, state: ChainState) -> None:
        """Take over the random effects and the levels' probabilities."""
        model, rows = self.density.model, self.density.columns
        columns = model.columns
        for chain, copied in enumerate(self.columns):
            for c in range(model.number_effects):
                np.take(state.number_effect[chain, :, c], model.group, out=copied[columns + c])
            effect = state.outcome_effect[chain] @ model.random_design
            copied[-1] = rows[-1]
            for column in np.flatnonzero(model.random_design.any(axis=0)):
                copied[-1] -= effect[:, column][model.group] * rows[column]
            table_odds = state.log_table[chain, :, 1] - state.log_table[chain, :, 0]
            self.offset[chain] = self.density.released_odds + table_odds[self.density.cell]
            if model.sequential:
                self.offset[chain] -= state.alpha[chain, 0, :columns] @ rows[:columns]
                self.offset[chain] -= state.level_effect[chain, 0][model.group]
        self.products = self.columns @ self.columns.mT
        # Of the log prior of the random effects: what adding patterns changes.
        precision, r = np.linalg.inv(state.outcome_between), self.intercept
        gradient = (state.outcome_effect @ precision[:, :, r, None])[..., 0]
        self.gradient = gradient @ self.patterns.T
        self.information = precision[:, r, r, None, None] * (self.patterns @ self.patterns.T)

    def __call__(self, theta: Floats) -> Floats:
        """(chain, draw) log density of (chain, draw, parameter), of the first chains at least."""
        from sfumato.kernels.sampling.gibbs_records import add_log_one_plus_exp

        model = self.density.model
        chains, draws, size = theta.shape
        extra = len(self.patterns)
        added = theta[..., size - extra :]
        rows = theta[..., : size - extra].reshape(-1, size - extra)
        state, jacobian = self.density.to_state(rows)
        with np.errstate(all="ignore"):
            precision = np.linalg.inv(released_covariance(model, state)[:, 0, 0])
            mean = cell_means(model, state)
            residual = self._residuals(state, mean[:, 0], added.reshape(-1, extra))
            # The linear discriminant of the two levels, as in `released_moments`.
            shift = mean[:, 1, :, 0] - mean[:, 0, :, 0]
            weights = (shift[:, None] @ precision)[:, 0]
            slopes = (weights[:, None] @ residual)[:, 0]
            slopes[:, 0] -= 0.5 * (weights * shift).sum(axis=1)
            parts = residual.reshape(chains, -1, residual.shape[-1]) @ self.products[:chains]
            squares = parts.reshape(residual.shape) @ residual.mT
            value = -0.5 * (precision * squares).sum(axis=(1, 2))
            value += 0.5 * len(model.rows) * np.linalg.slogdet(precision)[1]
            value += self.density.log_prior(state) + jacobian
            value = value.reshape(chains, draws)
            value -= (added @ self.gradient[:chains, :, None])[..., 0]
            value -= 0.5 * ((added @ self.information[:chains]) * added).sum(axis=-1)
            slopes = slopes.reshape(chains, draws, -1)
            for c in range(chains):
                add_log_one_plus_exp(
                    self.columns[c], self.cell, self.offset[c], np.zeros((draws, 1)), slopes[c],
                    value[c],
                )  # fmt: skip
        return np.where(np.isfinite(value), value, -np.inf)

    def _residuals(self, state: ChainState, mean: Floats, added: Floats) -> Floats:
        """(draw, value, column): what was released less its mean in the first level."""
        model = self.density.model
        columns, front, d = model.columns, model.number_effects, model.numbers
        residual = np.zeros((len(mean), d + 1, self.columns.shape[1]))
        residual[..., :columns] = -mean
        effect, value = np.arange(front), np.arange(d + 1)
        residual[:, effect, columns + effect] = -1.0
        residual[:, d, columns : columns + front] = -state.slope[:, :front]
        after = columns + front + added.shape[1]
        residual[:, d, columns + front : after] = -added
        residual[:, value, after + value] = 1.0
        return residual


class LevelCoefficientStep:
    """Partially collapsed steps on the coefficient of a noised level, for all chains.

    Along the line on which the other parameters follow the coefficient the density is all but
    normal: three values of it make a proposal that does not depend on where the chain is, and the
    Metropolis-Hastings ratio makes up for the rest.

    Parameters
    ----------
    model : what stays as it is.
    chains : how many.
    warmup : sweeps before draws are kept: the line is fitted in these.
    rng : of all chains.
    """

    def __init__(
        self, model: LinearModel, chains: int, warmup: int, rng: np.random.Generator
    ) -> None:
        self.model, self.rng = model, rng
        self.marginal = MarginalDensity(model)
        self.density = ConditionalDensity(self.marginal, chains)
        self.patterns = self.density.patterns
        self.contrast = np.zeros(self.marginal.size + len(self.patterns))
        self.contrast[: model.outcome_design.shape[1]] = _level_contrast(model)
        begin = int(_LINE_START * warmup)
        self.fit_sweeps = {begin + i * (warmup - begin) // _LINE_FITS for i in range(_LINE_FITS)}
        self.warmup, self.sweep = warmup, 0
        self.history: list[float] = []
        self.direction: Floats | None = None
        self.centre, self.scale = 0.0, 1.0

    def draw(self, state: ChainState) -> None:
        """Change coefficients and variances; nothing happens before the line is fitted."""
        theta = self.marginal.to_parameters(state)
        theta = np.concatenate([theta, np.zeros((len(theta), len(self.patterns)))], axis=1)
        values = theta @ self.contrast
        if self.sweep < self.warmup:
            self.history.append(float(values.mean()))
            if self.sweep in self.fit_sweeps:
                self.density.set_effects(state)
                self._fit_line(theta)
        self.sweep += 1
        if self.direction is None:
            return
        density = self.density
        density.set_effects(state)
        nodes = self.centre + self.scale * _NODES
        steps = np.column_stack([nodes - values[:, None], np.zeros(len(values))])
        heights = density(theta[:, None] + steps[..., None] * self.direction)
        centre, spread = _interpolate_normal(heights[:, :3])
        centre, spread = self.centre + self.scale * centre, _LINE_SCALE * self.scale * spread
        normal = self.rng.standard_normal(len(values))
        new = theta + (centre + spread * normal - values)[:, None] * self.direction
        # The ratio of posterior to proposal, here and there.
        current_weight = heights[:, 3] + 0.5 * ((values - centre) / spread) ** 2
        new_weight = density(new[:, None])[:, 0] + 0.5 * normal**2
        accepted = np.log(self.rng.random(len(values))) < new_weight - current_weight
        theta = np.where(accepted[:, None], new, theta)
        added = theta[:, self.marginal.size :] @ self.patterns
        state.outcome_effect[:, :, density.intercept] += added
        self.marginal.update_state(state, theta[:, : self.marginal.size])

    def _fit_line(self, theta: Floats) -> None:
        """The regression of the other parameters on the coefficient, and how far it reaches."""
        # Probabilities of levels stay as they are.
        odds = np.arange(self.marginal.ends[-2], self.marginal.ends[-1])
        free = np.delete(np.arange(theta.shape[1]), odds)

        def density(rows: Floats) -> Floats:
            points = np.repeat(theta[:1, None], len(rows), axis=1)
            points[..., free] = rows
            return self.density(points).reshape(-1)

        width = np.full(len(free), _DIFFERENCE / np.sqrt(len(self.model.rows)))
        contrast = self.contrast[free]
        for _ in range(2):
            precision = differentiate(density, theta[0, free], width, len(free)).precision
            if not np.isfinite(precision).all():
                return
            hessian = NegativeHessian(precision)
            width = hessian.width
        # Cov(θ, c'θ) / Var(c'θ) with covariance H⁻¹.
        covariance = hessian.newton_step(contrast)
        variance = float(covariance @ contrast)
        self.direction = np.zeros(theta.shape[1])
        self.direction[free] = covariance / variance
        self.scale = float(np.sqrt(variance))
        self.centre = float(np.mean(self.history[len(self.history) // 2 :]))


def _interpolate_normal(heights: Floats) -> tuple[Floats, Floats]:
    """Mean and SD of the normal densities that go through three values, on the nodes' scale."""
    far = float(_NODES[2])
    # Central differences of the log density at the middle node.
    gradient = (heights[:, 2] - heights[:, 0]) / 2 / far
    curvature = (2 * heights[:, 1] - heights[:, 0] - heights[:, 2]) / far**2
    usable = np.isfinite(gradient) & (curvature > _FLATTEST) & (curvature < 1 / _FLATTEST)
    curvature = np.where(usable, curvature, 1.0)
    return np.where(usable, gradient / curvature, 0.0), 1 / np.sqrt(curvature)
