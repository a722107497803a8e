"""Pareto-smoothed importance sampling about a mode.

References: Vehtari, Simpson, Gelman, Yao & Gabry (2024), "Pareto smoothed importance sampling",
JMLR 25:72; Zhang & Stephens (2009), Technometrics 51:316, for the generalised Pareto fit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from sfumato.analysis.samplers.marginal.mode import Mode
    from sfumato.analysis.samplers.marginal.model import Density
    from sfumato.progress import Progress


UNSURE = 0.7
"""A Pareto k above which the weights cannot be trusted."""
_FREEDOM = 30.0
"""Degrees of freedom of the proposal: heavier tails than the posterior's, not much wider."""
_PILOT, _LARGE, _NORMAL = 120, 3_000, 0.02
"""Draws of the pilot, cells above which there is one, and the variance of its log weights below
which the posterior counts as normal: no mean is then off by more than 0.14 standard deviations,
and what the pilot sees of that is put right."""
_HUGE = 4e6
"""Cells beyond which half a pilot does: each draw costs a second there, and weights are even."""
_BATCH, _EACH, _BUDGET, _LEAST = 500, 80, 2e8, 500
"""Draws evaluated at a time, at least and for each parameter; cells evaluated at most, and draws
evaluated at least."""
_CLOSE, _POOR, _TUNED, _HEAVY = 0.2, 0.05, 3, 8.0
"""The share of effective draws below which the proposal is tuned, and that which is hopeless; the
times it is tuned, and the degrees of freedom it then has."""
_TAIL, _TOGETHER = 5, 200


@dataclass(frozen=True, eq=False)
class Drawn:
    """Independent draws of all parameters.

    Parameters
    ----------
    theta : (draw, parameter).
    k : the Pareto k of the weights; NaN where none were needed: a pilot is too short to tell it.
    effective : the effective number of evaluated draws.
    evaluated : how many there were.
    centre, root : of the last proposal.
    normal : whether the normal approximation was good enough to be drawn from as it is.
    """

    theta: Floats
    k: float
    effective: float
    evaluated: int
    centre: Floats
    root: Floats
    normal: bool = False


def drawn(
    density: Density, mode: Mode, wanted: int, chance: np.random.Generator, say: Progress
) -> Drawn:
    """Draws of the posterior: at most as many as wanted, and no more than are effective."""
    size = len(mode.theta)
    cells = density.arrays.count * density.cells * density.components
    if cells > _LARGE:
        found = _normal(density, mode, wanted, chance, say)
        if found is not None:
            return found
    most = int(max(_BUDGET / cells, _LEAST))
    proposal = _Proposal(mode.theta, mode.root, _FREEDOM)
    theta, logs = np.zeros((0, size)), np.zeros(0)
    tuned, usual = 0, max(_BATCH, _EACH * size)
    while True:
        batch = min(usual, most - len(logs))
        more = proposal.draw(batch, chance)
        theta = np.concatenate([theta, more])
        heights = _heights(density, mode, more, say, len(logs), wanted)
        logs = np.concatenate([logs, heights - proposal.height(more)])
        weights, k = smoothed(logs)
        good = effective(weights)
        if tuned < _TUNED and (k > UNSURE or good < _CLOSE * len(logs)):
            # Too unlike the posterior: start afresh about the weighted draws.
            proposal = proposal.moved(theta, weights)
            theta, logs, tuned = theta[:0], logs[:0], tuned + 1
            continue
        late = len(logs) >= 2 * usual and (k > UNSURE or good < _POOR * len(logs))
        if good >= wanted or len(logs) >= most or late:
            break
    kept = _resampled(weights, min(wanted, max(int(good), 1)), chance)
    return Drawn(theta[kept], k, good, len(logs), proposal.centre, proposal.root)


@dataclass(frozen=True, eq=False)
class _Proposal:
    """A multivariate t distribution."""

    centre: Floats
    root: Floats
    freedom: float

    def draw(self, count: int, chance: np.random.Generator) -> Floats:
        steps = chance.standard_normal((count, len(self.centre)))
        steps /= np.sqrt(chance.chisquare(self.freedom, (count, 1)) / self.freedom)
        return self.centre + steps @ self.root.T

    def height(self, theta: Floats) -> Floats:
        """The log density, up to a constant."""
        steps = np.linalg.solve(self.root, (theta - self.centre).T)
        made: Floats = (
            -0.5
            * (self.freedom + len(self.centre))
            * np.log1p((steps**2).sum(axis=0) / self.freedom)
        )
        return made

    def moved(self, theta: Floats, logs: Floats) -> _Proposal:
        """Another, of the mean and covariance of weighted draws, as far as they tell them."""
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        share = 1 / (1 + 3 * len(self.centre) * (weights**2).sum())
        centre = weights @ theta
        away = theta - centre
        covariance = share * (away.T * weights) @ away + (1 - share) * self.root @ self.root.T
        blend = share * centre + (1 - share) * self.centre
        return _Proposal(blend, np.linalg.cholesky(covariance), _HEAVY)


def _normal(
    density: Density, mode: Mode, wanted: int, chance: np.random.Generator, say: Progress
) -> Drawn | None:
    """Draws of the normal approximation, if the weights of a pilot hardly differ."""
    cells = density.arrays.count * density.cells * density.components
    pilot = _PILOT if cells <= _HUGE else _PILOT // 2
    half = chance.standard_normal((pilot // 2, len(mode.theta)))
    steps = np.concatenate([half, -half])
    logs = _heights(density, mode, mode.theta + steps @ mode.root.T, say, 0, pilot) + 0.5 * (
        steps**2
    ).sum(axis=1)
    if not np.isfinite(logs).all() or logs.var() > _NORMAL:
        return None
    # The weights' odd part moves the mean: to first order by its covariance with the draws.
    odd = 0.5 * (logs[: len(half)] - logs[len(half) :])
    moved = (odd[:, None] * half).mean(axis=0)
    made = mode.theta + (chance.standard_normal((wanted, len(moved))) + moved) @ mode.root.T
    good = wanted * effective(logs) / pilot
    return Drawn(made, math.nan, good, pilot, mode.theta, mode.root, normal=True)


def _heights(
    density: Density, mode: Mode, theta: Floats, say: Progress, before: int, total: int
) -> Floats:
    """The log posterior of draws, less that of the mode."""
    made = np.zeros(len(theta))
    for at in range(0, len(theta), _TOGETHER):
        made[at : at + _TOGETHER] = density.values(theta[at : at + _TOGETHER]) - mode.value
        say("weighing draws", min(before + at, total), total)
    return made


def effective(logs: Floats) -> float:
    """The effective number of weighted draws."""
    weights = np.exp(logs - logs.max())
    return float(weights.sum() ** 2 / (weights**2).sum())


def _resampled(logs: Floats, count: int, chance: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draws by weight, evenly spaced along their sum, then shuffled."""
    weights = np.exp(logs - logs.max())
    ends = np.cumsum(weights / weights.sum())
    places = (np.arange(count) + chance.random()) / count
    made: npt.NDArray[np.int64] = np.minimum(np.searchsorted(ends, places), len(logs) - 1)
    return chance.permutation(made)


def smoothed(logs: Floats) -> tuple[Floats, float]:
    """Log weights with the largest replaced by what a Pareto tail expects, and its k.

    Examples
    --------
    >>> smoothed(np.zeros(100))[1]
    0.0
    """
    count = len(logs)
    tail = int(min(0.2 * count, 3 * np.sqrt(count)))
    logs = np.where(np.isfinite(logs), logs, -np.inf)
    if tail < _TAIL or not np.isfinite(logs.max()):
        return logs, np.inf
    order = np.argsort(logs, kind="stable")
    cut = logs[order[-tail - 1]]
    weights = np.exp(logs[order[-tail:]] - logs.max())
    above = weights - np.exp(cut - logs.max())
    if not np.isfinite(cut) or above[-1] <= 1e-12:  # noqa: PLR2004 - all alike: no tail
        return logs, 0.0 if np.isfinite(cut) else np.inf
    k, scale = pareto(np.maximum(above, 1e-300))
    made = logs.copy()
    share = (np.arange(tail) + 0.5) / tail
    bent = -np.log1p(-share) if abs(k) < 1e-9 else np.expm1(-k * np.log1p(-share)) / k  # noqa: PLR2004
    lifted = np.log(np.exp(cut - logs.max()) + scale * bent) + logs.max()
    made[order[-tail:]] = np.minimum(lifted, logs.max())
    return made, float(k)


def pareto(above: Floats) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto distribution, from sorted values above nought."""
    count = len(above)
    tries = 30 + int(np.sqrt(count))
    quarter = above[int(count / 4 + 0.5) - 1]
    theta = 1 / above[-1]
    theta = theta + (1 - np.sqrt(tries / (np.arange(tries) + 0.5))) / (3 * quarter)
    theta = np.where(theta == 0, 1e-12, theta)
    shapes = np.log1p(-theta[:, None] * above).mean(axis=1)
    heights = count * (np.log(-theta / shapes) - shapes - 1)
    weights = np.exp(heights - heights.max())
    best = float((weights * theta).sum() / weights.sum())
    k = float(np.log1p(-best * above).mean())
    scale = -k / best
    # Drawn towards 0.5 by ten values, as the reference does: few values tell little of a tail.
    return k * count / (count + 10) + 5 / (count + 10), scale
