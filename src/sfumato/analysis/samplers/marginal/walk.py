"""Hamiltonian Monte Carlo on the marginal posterior, for where importance sampling is unsure.

Many walkers move in step, so that one compiled call serves all of them. They start at weighted
draws of importance sampling and on the scale of those, and share one length of step, so of the
warm-up each needs only a part. Where they disagree on the coefficients, all they did so far counts
as warm-up and they walk again.

Components of a mixture may change places on the way. The coefficients do not depend on their order,
so only the coefficients are asked whether walkers agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.analysis.diagnostics import rhat
from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.analysis.problem import Sampling
    from sfumato.analysis.samplers.marginal.model import Density
    from sfumato.progress import Progress


TOGETHER = 4
"""Walkers of a chain."""
_TARGET = 0.8
"""The share of accepted moves the step is tuned for."""
_PATH, _MOST = 1.5, 24
"""Length of a path in standard deviations, and its steps at most."""
_LEAST = 60
"""Moves of warm-up at least."""
_ALIKE, _AGAIN = 1.03, 2
"""R-hat of coefficients, among walkers, above which they walk again, and how often they do."""


@dataclass(frozen=True, eq=False)
class Start:
    """Where walkers start.

    Parameters
    ----------
    points : (walker, parameter).
    centre, root : the scale on which they move: centre + root @ steps.
    """

    points: Floats
    centre: Floats
    root: Floats


def walked(
    density: Density, start: Start, sampling: Sampling, chance: np.random.Generator, say: Progress
) -> tuple[Floats, bool]:
    """Draws (chain, draw, parameter), and whether all that were asked for are there."""
    walk = _Walk(density, start, chance)
    warm = max(-(-sampling.warmup // TOGETHER), _LEAST)
    moves = -(-sampling.draws // TOGETHER)
    walkers = len(start.points)
    total = walkers * (warm + moves)
    kept: list[Floats] = []
    try:
        walk.tune(warm, lambda done: say("walking", done * walkers, total))
        for again in range(_AGAIN + 1):
            kept = []
            while len(kept) < moves:
                walk.move()
                kept.append(walk.here())
                say("walking", walkers * (warm + len(kept)), total)
            if again == _AGAIN or _agreed(np.array(kept)[..., : density.terms]):
                break
            walk.rescale(np.concatenate(kept))
    except KeyboardInterrupt:
        if not kept:
            raise
    # (move, walker) to (chain, draw): one walker of a chain after the other.
    draws = np.array(kept).swapaxes(0, 1)
    draws = draws.reshape(sampling.chains, -1, draws.shape[-1])[:, : sampling.draws]
    return draws, len(kept) == moves


def _agreed(beta: Floats) -> bool:
    """Whether the walkers' coefficients (move, walker, coefficient) are alike."""
    if len(beta) < _LEAST:  # too few to tell
        return True
    return all(rhat(one.T) < _ALIKE for one in np.moveaxis(beta, -1, 0))


class _Walk:
    """The walkers, on the scale of the posterior."""

    def __init__(self, density: Density, start: Start, chance: np.random.Generator) -> None:
        self.density, self.chance = density, chance
        self.centre, self.root = start.centre, start.root
        self.at: Floats = np.asarray(np.linalg.solve(self.root, (start.points - self.centre).T).T)
        self.value, self.slope = self._look(self.at)
        while not np.isfinite(self.value).all():
            self.at = np.where(np.isfinite(self.value)[:, None], self.at, 0.5 * self.at)
            self.value, self.slope = self._look(self.at)
        self.step = 0.9 * self.at.shape[1] ** -0.25

    def here(self) -> Floats:
        """The parameters of all walkers."""
        made: Floats = self.centre + self.at @ self.root.T
        return made

    def _look(self, at: Floats) -> tuple[Floats, Floats]:
        value, slope = self.density.slopes(self.centre + at @ self.root.T)
        return value, slope @ self.root

    def tune(self, moves: int, tell: Callable[[int], None]) -> None:
        """Find the step, and the scale from what the walkers see."""
        seen: list[Floats] = []
        tuned, total, count, middle = np.log(self.step), 0.0, 0, np.log(10 * self.step)
        for at in range(moves):
            accepted = self.move()
            # Dual averaging (Hoffman & Gelman 2014, section 3.2).
            count += 1
            total += (_TARGET - accepted - total) / (count + 10)
            self.step = float(np.exp(middle - total * np.sqrt(count) / 0.05))
            weight = count**-0.75
            tuned = weight * np.log(self.step) + (1 - weight) * tuned
            seen.append(self.here())
            if at == moves // 2:
                self.rescale(np.concatenate(seen[len(seen) // 4 :]))
                middle, total, count = np.log(2 * np.exp(tuned)), 0.0, 0
            tell(at + 1)
        self.step = float(np.exp(tuned))

    def rescale(self, seen: Floats) -> None:
        """Take the scale of the draws so far, mixed with that of before."""
        here = self.here()
        share = len(seen) / (len(seen) + 20.0 * len(self.centre))
        covariance = share * np.cov(seen.T) + (1 - share) * self.root @ self.root.T
        self.root = np.asarray(np.linalg.cholesky(covariance), float)
        self.at = np.asarray(np.linalg.solve(self.root, (here - self.centre).T).T)
        self.value, self.slope = self._look(self.at)

    def move(self) -> float:
        """One path of each; gives the mean chance with which their ends were accepted."""
        momentum = self.chance.standard_normal(self.at.shape)
        energy = self.value - 0.5 * (momentum**2).sum(axis=1)
        length = _PATH * self.chance.uniform(0.6, 1.4)
        steps = min(max(round(length / self.step), 1), _MOST)
        at, slope, lost = self.at, self.slope, np.zeros(len(self.at), bool)
        for _ in range(steps):
            momentum = momentum + 0.5 * self.step * slope
            at = at + self.step * momentum
            value, slope = self._look(at)
            lost |= ~np.isfinite(value)
            momentum = momentum + 0.5 * self.step * slope
        change = np.where(lost, -np.inf, value - 0.5 * (momentum**2).sum(axis=1) - energy)
        accepted = np.exp(np.minimum(0.0, change))
        taken = self.chance.random(len(at)) < accepted
        self.at = np.where(taken[:, None], at, self.at)
        self.slope = np.where(taken[:, None], slope, self.slope)
        self.value = np.where(taken, value, self.value)
        return float(accepted.mean())
