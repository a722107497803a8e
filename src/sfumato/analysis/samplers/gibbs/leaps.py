"""Draws of all parameters of a linear model of one level, without a memory of levels.

Proposals are independent of each other and of where the chain is: normal about the mode, one in
twenty of them with heavy tails. Each is accepted with the Hastings ratio, so that the draws are
those of the posterior itself, whatever its shape; of a thousand records' nine in ten are accepted.
Where too few would be, the Gibbs sampler does the work.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from sfumato.analysis.problem import Sampling
from sfumato.analysis.samplers.gibbs.density import Density
from sfumato.analysis.samplers.gibbs.mode import Mode, mode_of
from sfumato.analysis.samplers.gibbs.random import inverse
from sfumato.analysis.samplers.gibbs.state import Data
from sfumato.kernels.arrays import Floats
from sfumato.progress import Progress

MOST = 16
"""Parameters: curvatures from differences cost their square."""
_FEWEST = 10
"""Records for each parameter: with fewer the posterior is far from normal."""
_PILOT, _TUNED = 200, 2
_ENOUGH, _CLOSE = 0.3, 0.6
"""The share of effective draws in the pilot below which it is left to Gibbs, or tuned."""
_HEAVY, _FREEDOM, _WIDER = 0.05, 5.0, 1.5
"""The share of proposals with heavy tails, their degrees of freedom, and their scale."""
_BATCH = 400
_WORTH_THREADS = 20_000


@dataclass(frozen=True, eq=False)
class _Proposal:
    """Where proposals lie: their centre, and a root of their covariance."""

    centre: Floats
    root: Floats

    def draw(self, many: int, chance: np.random.Generator) -> tuple[Floats, Floats]:
        """Parameters, and their log densities here but for a constant."""
        size = len(self.centre)
        normal = chance.standard_normal((many, size))
        heavy = chance.random(many) < _HEAVY
        wide = _WIDER * np.sqrt(_FREEDOM / chance.chisquare(_FREEDOM, many))
        normal *= np.where(heavy, wide, 1.0)[:, None]
        square = (normal**2).sum(axis=1)
        near = math.log1p(-_HEAVY) - size / 2 * math.log(2 * math.pi) - square / 2
        far = math.log(_HEAVY) + math.lgamma((_FREEDOM + size) / 2) - math.lgamma(_FREEDOM / 2)
        far -= size / 2 * math.log(_FREEDOM * math.pi) + size * math.log(_WIDER)
        far = far - (_FREEDOM + size) / 2 * np.log1p(square / _WIDER**2 / _FREEDOM)
        return self.centre + normal @ self.root.T, np.logaddexp(near, far)


def leaps(data: Data, sampling: Sampling, say: Progress) -> tuple[Floats, float, bool] | None:
    """Draws (chain, draw, value), the share accepted, and whether none was interrupted.

    None where the posterior is not of the kind, so that Gibbs is needed.
    """
    if not _suits(data):
        return None
    mode = mode_of(data)
    if mode is None:
        return None
    with ThreadPoolExecutor(max(1, os.cpu_count() or 1)) as pool:
        density = _Batches(Density(data), pool)
        chance = np.random.default_rng(sampling.seed)
        found = _tuned(density, mode, chance)
        return None if found is None else _chains(density, *found, sampling, chance, say)


def _suits(data: Data) -> bool:
    """Whether levels or missing values can be summed out, and parameters are few."""
    if data.effects or data.groups > 1 or data.ways > 1:
        return False
    size = Density.size_of(data)
    several = data.levels > 1 or len(data.present) > 1
    return several and size <= MOST and len(data.rows) >= _FEWEST * size


class _Batches:
    """The density of many rows, on as many threads as are worth it."""

    def __init__(self, density: Density, pool: ThreadPoolExecutor) -> None:
        self.density, self.pool = density, pool

    def __call__(self, theta: Floats) -> Floats:
        if self.density.records < _WORTH_THREADS:
            return self.density(theta)
        parts = np.array_split(theta, max(len(theta) // 50, 1))
        return np.concatenate(list(self.pool.map(self.density, parts)))


def _tuned(
    density: _Batches, mode: Mode, chance: np.random.Generator
) -> tuple[_Proposal, Floats, Floats] | None:
    """Proposals about the mode, with draws of a pilot and the logs of their weights."""
    made = _Proposal(mode.at, _root_of(inverse(mode.precision)))
    for again in range(_TUNED + 1):
        theta, own = made.draw(_PILOT, chance)
        logs = density(theta) - own
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        effective = 1.0 / float((weights**2).sum()) / _PILOT
        if effective > _CLOSE or (again == _TUNED and effective > _ENOUGH):
            return made, theta, logs
        if effective < _ENOUGH / 3:
            return None
        centre = weights @ theta
        away = theta - centre
        # What the pilot says of the covariance, and as much of what was thought before.
        spread = (away * weights[:, None]).T @ away / 2 + made.root @ made.root.T / 2
        made = _Proposal(centre, _root_of(spread))
    return None


def _root_of(matrix: Floats) -> Floats:
    return np.asarray(np.linalg.cholesky((matrix + matrix.T) / 2), np.float64)


def _chains(
    density: _Batches,
    proposal: _Proposal,
    pilot: Floats,
    logs: Floats,
    sampling: Sampling,
    chance: np.random.Generator,
    say: Progress,
) -> tuple[Floats, float, bool]:
    chains, total = sampling.chains, sampling.draws
    weights = np.exp(logs - logs.max())
    # Chains begin at draws of the pilot, taken by weight: all but draws of the posterior.
    first = chance.choice(len(logs), chains, p=weights / weights.sum())
    here, height = pilot[first], logs[first]
    theta, own = proposal.draw(chains * total, chance)
    doubts = np.log(chance.random(chains * total))
    kept: list[Floats] = []
    accepted, complete = 0, True
    try:
        step = max(_BATCH // chains, 1)
        for at in range(0, total, step):
            part = slice(at * chains, min(at + step, total) * chains)
            found = density(theta[part]) - own[part]
            rows = theta[part].reshape(-1, chains, theta.shape[1])
            marks = doubts[part].reshape(-1, chains)
            for new, value, mark in zip(rows, found.reshape(-1, chains), marks, strict=True):
                taken = mark < value - height
                height = np.where(taken, value, height)
                here = np.where(taken[:, None], new, here)
                accepted += int(taken.sum())
                kept.append(here)
            say("drawing coefficients", part.stop, chains * total)
    except KeyboardInterrupt:
        if not kept:  # nothing to return yet: those who called are to know
            raise
        complete = False
    drawn = np.array(kept).reshape(len(kept), chains, -1).swapaxes(0, 1)
    made = density.density
    beta, slope, residual = made.parts(drawn)[:3]
    share = accepted / max(len(kept) * chains, 1)
    return np.concatenate([beta, slope, np.exp(residual)], axis=-1), share, complete
