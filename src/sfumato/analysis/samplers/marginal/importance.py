"""Pareto-smoothed importance sampling about a mode.

Draws of a multivariate t proposal about the mode are weighted by posterior over proposal; the
largest weights are replaced by quantiles of a generalised Pareto distribution fitted to them, whose
shape k says whether the weights can be trusted. The proposal is adapted where it is too unlike the
posterior.

References: Vehtari, Simpson, Gelman, Yao & Gabry (2024), "Pareto smoothed importance sampling",
JMLR 25:72; Zhang & Stephens (2009), Technometrics 51:316, for the generalised Pareto fit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.arrays import Floats, Integers

if TYPE_CHECKING:
    from sfumato.analysis.samplers.marginal.mode import Mode
    from sfumato.analysis.samplers.marginal.posterior import LogPosterior
    from sfumato.progress import Progress

LARGEST_K = 0.7
"""A Pareto k above which the weights cannot be trusted."""
_FREEDOM = 30.0
"""Degrees of freedom of the proposal: heavier tails than the posterior's, not much wider."""
_PILOT, _LARGE, _NORMAL = 120, 3_000, 0.02
"""Draws of the pilot, cells above which there is one, and the variance of its log weights below
which the posterior counts as normal: no mean is then off by more than 0.14 standard deviations,
and what the pilot shows of that is put right."""
_HUGE = 4e6
"""Cells beyond which half a pilot does: each draw costs a second there, and weights are even."""
_BATCH, _PER_PARAMETER, _BUDGET, _FEWEST = 500, 80, 2e8, 500
"""Draws evaluated at a time, at least and for each parameter; cells evaluated at most, and draws
evaluated at least."""
_CLOSE, _POOR, _ADAPTATIONS, _ADAPTED_FREEDOM = 0.2, 0.05, 3, 8.0
"""The share of effective draws below which the proposal is adapted, and that which is hopeless; the
times it is adapted, and the degrees of freedom it then has."""
_SHORTEST_TAIL, _TOGETHER = 5, 200


@dataclass(frozen=True, eq=False)
class IndependentDraws:
    """Independent draws of all parameters.

    Parameters
    ----------
    theta : (draw, parameter).
    k : the Pareto k of the weights; NaN where none were needed: a pilot is too short to show it.
    effective : the effective number of evaluated draws.
    evaluated : how many there were.
    centre, root : of the last proposal.
    normal : whether the normal approximation was good enough to be drawn from as it is.
    complete : whether it ran to its end; an interrupt leaves what was weighed until then.
    """

    theta: Floats
    k: float
    effective: float
    evaluated: int
    centre: Floats
    root: Floats
    normal: bool = False
    complete: bool = True


def sample_importance(
    posterior: LogPosterior, mode: Mode, wanted: int, rng: np.random.Generator, progress: Progress
) -> IndependentDraws:
    """Draws of the posterior: at most as many as wanted, and no more than are effective."""
    size = len(mode.theta)
    cells = posterior.arrays.count * posterior.cells * posterior.components
    if cells > _LARGE:
        pilot = _PILOT if cells <= _HUGE else _PILOT // 2
        normal = _sample_normal(posterior, mode, wanted, pilot, rng, progress)
        if normal is not None:
            return normal
    most = int(max(_BUDGET / cells, _FEWEST))
    proposal = _StudentProposal(mode.theta, mode.root, _FREEDOM)
    theta, log_ratios = np.zeros((0, size)), np.zeros(0)
    adaptations, usual, complete = 0, max(_BATCH, _PER_PARAMETER * size), True
    while True:
        batch = proposal.draw(min(usual, most - len(log_ratios)), rng)
        try:
            logs = _evaluate_draws(posterior, mode, batch, progress, len(log_ratios), wanted)
        except KeyboardInterrupt:
            if not len(log_ratios):  # nothing to return yet: callers must know
                raise
            complete = False
            break
        theta = np.concatenate([theta, batch])
        log_ratios = np.concatenate([log_ratios, logs - proposal.log_density(batch)])
        log_weights, k = smooth_weights(log_ratios)
        effective = effective_size(log_weights)
        count = len(log_ratios)
        if adaptations < _ADAPTATIONS and (k > LARGEST_K or effective < _CLOSE * count):
            # Too unlike the posterior: start afresh about the weighted draws.
            proposal = proposal.adapt(theta, log_weights)
            theta, log_ratios, adaptations = theta[:0], log_ratios[:0], adaptations + 1
            continue
        hopeless = count >= 2 * usual and (k > LARGEST_K or effective < _POOR * count)
        if effective >= wanted or count >= most or hopeless:
            break
    rows = _resample(log_weights, min(wanted, max(int(effective), 1)), rng)
    return IndependentDraws(
        theta[rows], k, effective, count, proposal.centre, proposal.root, complete=complete
    )


@dataclass(frozen=True, eq=False)
class _StudentProposal:
    """A multivariate t distribution."""

    centre: Floats
    root: Floats
    freedom: float

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        steps = rng.standard_normal((count, len(self.centre)))
        steps /= np.sqrt(rng.chisquare(self.freedom, (count, 1)) / self.freedom)
        return self.centre + steps @ self.root.T

    def log_density(self, theta: Floats) -> Floats:
        """The log density, up to a constant."""
        z = np.linalg.solve(self.root, (theta - self.centre).T)
        power = -0.5 * (self.freedom + len(self.centre))
        log_density: Floats = power * np.log1p((z**2).sum(axis=0) / self.freedom)
        return log_density

    def adapt(self, theta: Floats, log_weights: Floats) -> _StudentProposal:
        """Another, of the mean and covariance of weighted draws, as far as they show them."""
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        share = 1 / (1 + 3 * len(self.centre) * (weights**2).sum())
        centre = weights @ theta
        distance = theta - centre
        covariance = share * (distance.T * weights) @ distance
        covariance = covariance + (1 - share) * self.root @ self.root.T
        blend = share * centre + (1 - share) * self.centre
        return _StudentProposal(blend, np.linalg.cholesky(covariance), _ADAPTED_FREEDOM)


def _sample_normal(
    posterior: LogPosterior,
    mode: Mode,
    wanted: int,
    pilot: int,
    rng: np.random.Generator,
    progress: Progress,
) -> IndependentDraws | None:
    """Draws of the normal approximation, if the weights of a pilot hardly differ."""
    half = rng.standard_normal((pilot // 2, len(mode.theta)))
    steps = np.concatenate([half, -half])
    theta = mode.theta + steps @ mode.root.T
    log_ratios = _evaluate_draws(posterior, mode, theta, progress, 0, pilot)
    log_ratios = log_ratios + 0.5 * (steps**2).sum(axis=1)
    if not np.isfinite(log_ratios).all() or log_ratios.var() > _NORMAL:
        return None
    # The weights' odd part moves the mean: to first order by its covariance with the draws.
    odd = 0.5 * (log_ratios[: len(half)] - log_ratios[len(half) :])
    shift = (odd[:, None] * half).mean(axis=0)
    draws = mode.theta + (rng.standard_normal((wanted, len(shift))) + shift) @ mode.root.T
    effective = wanted * effective_size(log_ratios) / pilot
    return IndependentDraws(draws, math.nan, effective, pilot, mode.theta, mode.root, normal=True)


def _evaluate_draws(
    posterior: LogPosterior, mode: Mode, theta: Floats, progress: Progress, before: int, total: int
) -> Floats:
    """The log posterior of draws, less that of the mode."""
    logs = np.zeros(len(theta))
    for first in range(0, len(theta), _TOGETHER):
        rows = slice(first, first + _TOGETHER)
        logs[rows] = posterior.values(theta[rows]) - mode.value
        progress("weighing draws", min(before + first, total), total)
    return logs


def effective_size(log_weights: Floats) -> float:
    """The effective number of weighted draws, (Σ w)² / Σ w²."""
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / (weights**2).sum())


def _resample(log_weights: Floats, count: int, rng: np.random.Generator) -> Integers:
    """Indices of draws by weight: systematic resampling, then shuffled."""
    weights = np.exp(log_weights - log_weights.max())
    cumulative = np.cumsum(weights / weights.sum())
    positions = (np.arange(count) + rng.random()) / count
    rows: Integers = np.minimum(np.searchsorted(cumulative, positions), len(log_weights) - 1)
    return rng.permutation(rows)


def smooth_weights(logs: Floats) -> tuple[Floats, float]:
    """Log weights with the largest replaced by what a Pareto tail expects, and its k.

    Examples
    --------
    >>> smooth_weights(np.zeros(100))[1]
    0.0
    """
    count = len(logs)
    tail = int(min(0.2 * count, 3 * np.sqrt(count)))
    logs = np.where(np.isfinite(logs), logs, -np.inf)
    top = logs.max()
    if tail < _SHORTEST_TAIL or not np.isfinite(top):
        return logs, np.inf
    order = np.argsort(logs, kind="stable")
    cut = logs[order[-tail - 1]]
    exceedances = np.exp(logs[order[-tail:]] - top) - np.exp(cut - top)
    if not np.isfinite(cut) or exceedances[-1] <= 1e-12:  # noqa: PLR2004 - all alike: no tail
        return logs, 0.0 if np.isfinite(cut) else np.inf
    k, scale = fit_pareto(np.maximum(exceedances, 1e-300))
    # Quantiles of the generalised Pareto distribution, scale ((1 - p)⁻ᵏ - 1) / k.
    p = (np.arange(tail) + 0.5) / tail
    quantiles = -np.log1p(-p) if abs(k) < 1e-9 else np.expm1(-k * np.log1p(-p)) / k  # noqa: PLR2004
    smooth = logs.copy()
    expected = np.log(np.exp(cut - top) + scale * quantiles) + top
    smooth[order[-tail:]] = np.minimum(expected, top)
    return smooth, float(k)


def fit_pareto(exceedances: Floats) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto distribution, from sorted values above zero."""
    count = len(exceedances)
    points = 30 + int(np.sqrt(count))
    quartile = exceedances[int(count / 4 + 0.5) - 1]
    # Zhang & Stephens: the profile likelihood on a grid of θ = -k / scale, averaged over it.
    theta = 1 / exceedances[-1]
    theta = theta + (1 - np.sqrt(points / (np.arange(points) + 0.5))) / (3 * quartile)
    theta = np.where(theta == 0, 1e-12, theta)
    shapes = np.log1p(-theta[:, None] * exceedances).mean(axis=1)
    profile = count * (np.log(-theta / shapes) - shapes - 1)
    weights = np.exp(profile - profile.max())
    mean = float((weights * theta).sum() / weights.sum())
    k = float(np.log1p(-mean * exceedances).mean())
    scale = -k / mean
    # Shrunk towards 0.5 by ten values, as the reference does: few values say little of a tail.
    return k * count / (count + 10) + 5 / (count + 10), scale
