"""Hamiltonian Monte Carlo on the marginal posterior, for where importance sampling is unreliable.

Many walkers move together, so that one compiled call serves all of them. They start at weighted
draws of importance sampling and on the scale of those, and share one step size, so each needs only
a part of the warm-up. Where they disagree on the coefficients, all they did so far counts as
warm-up and they start again.

Components of a mixture may change labels on the way. The coefficients do not depend on their order,
so only the coefficients are compared between walkers.
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
    from sfumato.analysis.samplers.marginal.posterior import LogPosterior
    from sfumato.progress import Progress

WALKERS = 4
"""Walkers of a chain."""
_TARGET = 0.8
"""The acceptance that the step size is tuned for."""
_PATH, _MOST_STEPS = 1.5, 24
"""Length of a trajectory in standard deviations, and its leapfrog steps at most."""
_SHORTEST_WARMUP = 60
_LARGEST_RHAT, _RESTARTS = 1.03, 2
"""R-hat of coefficients, among walkers, above which they start again, and how often they do."""


@dataclass(frozen=True, eq=False)
class StartingPoints:
    """Where walkers start.

    Parameters
    ----------
    points : (walker, parameter).
    centre, root : the scale on which they move: centre + root @ position.
    """

    points: Floats
    centre: Floats
    root: Floats


def sample_hamiltonian(
    posterior: LogPosterior,
    start: StartingPoints,
    sampling: Sampling,
    rng: np.random.Generator,
    progress: Progress,
) -> tuple[Floats, bool]:
    """Draws (chain, draw, parameter), and whether all that were asked for are there."""
    walkers = _Walkers(posterior, start, rng)
    warmup = max(-(-sampling.warmup // WALKERS), _SHORTEST_WARMUP)
    moves = -(-sampling.draws // WALKERS)
    count = len(start.points)
    total = count * (warmup + moves)
    draws: list[Floats] = []
    try:
        walkers.tune(warmup, lambda done: progress("walking", done * count, total))
        for restart in range(_RESTARTS + 1):
            draws = []
            while len(draws) < moves:
                walkers.move()
                draws.append(walkers.theta)
                progress("walking", count * (warmup + len(draws)), total)
            if restart == _RESTARTS or _agree(np.array(draws)[..., : posterior.terms]):
                break
            walkers.rescale(np.concatenate(draws))
    except KeyboardInterrupt:
        if not draws:
            raise
    # (move, walker) to (chain, draw): one walker of a chain after the other.
    stacked = np.array(draws).swapaxes(0, 1)
    stacked = stacked.reshape(sampling.chains, -1, stacked.shape[-1])[:, : sampling.draws]
    return stacked, len(draws) == moves


def _agree(beta: Floats) -> bool:
    """Whether the walkers' coefficients (move, walker, coefficient) have one distribution."""
    if len(beta) < _SHORTEST_WARMUP:  # too few to tell
        return True
    return all(rhat(draws.T) < _LARGEST_RHAT for draws in np.moveaxis(beta, -1, 0))


class _Walkers:
    """The walkers, at positions on the scale of the posterior."""

    def __init__(
        self, posterior: LogPosterior, start: StartingPoints, rng: np.random.Generator
    ) -> None:
        self.posterior, self.rng = posterior, rng
        self.centre, self.root = start.centre, start.root
        self.position = self._standardise(start.points)
        self.value, self.gradient = self._evaluate(self.position)
        while not np.isfinite(self.value).all():
            finite = np.isfinite(self.value)[:, None]
            self.position = np.where(finite, self.position, 0.5 * self.position)
            self.value, self.gradient = self._evaluate(self.position)
        self.step = 0.9 * self.position.shape[1] ** -0.25

    @property
    def theta(self) -> Floats:
        """The parameters of all walkers."""
        theta: Floats = self.centre + self.position @ self.root.T
        return theta

    def _standardise(self, theta: Floats) -> Floats:
        return np.asarray(np.linalg.solve(self.root, (theta - self.centre).T).T)

    def _evaluate(self, position: Floats) -> tuple[Floats, Floats]:
        value, gradient = self.posterior.values_and_gradients(self.centre + position @ self.root.T)
        return value, gradient @ self.root

    def tune(self, moves: int, report: Callable[[int], None]) -> None:
        """Find the step size, and the scale from the draws so far."""
        draws: list[Floats] = []
        tuned, error, count, shrinkage = np.log(self.step), 0.0, 0, np.log(10 * self.step)
        for index in range(moves):
            acceptance = self.move()
            # Dual averaging (Hoffman & Gelman 2014, section 3.2, Eq. 6).
            count += 1
            error += (_TARGET - acceptance - error) / (count + 10)
            self.step = float(np.exp(shrinkage - error * np.sqrt(count) / 0.05))
            if not np.isfinite(self.step):
                raise FloatingPointError("no step size leads anywhere")
            weight = count**-0.75
            tuned = weight * np.log(self.step) + (1 - weight) * tuned
            draws.append(self.theta)
            if index == moves // 2:
                self.rescale(np.concatenate(draws[len(draws) // 4 :]))
                shrinkage, error, count = np.log(2 * np.exp(tuned)), 0.0, 0
            report(index + 1)
        self.step = float(np.exp(tuned))

    def rescale(self, draws: Floats) -> None:
        """Take the scale of the draws so far, mixed with that of before."""
        theta = self.theta
        share = len(draws) / (len(draws) + 20.0 * len(self.centre))
        covariance = share * np.cov(draws.T) + (1 - share) * self.root @ self.root.T
        self.root = np.asarray(np.linalg.cholesky(covariance), float)
        self.position = self._standardise(theta)
        self.value, self.gradient = self._evaluate(self.position)

    def move(self) -> float:
        """One leapfrog trajectory of each walker; gives the mean acceptance probability."""
        momentum = self.rng.standard_normal(self.position.shape)
        log_joint = self.value - 0.5 * (momentum**2).sum(axis=1)
        length = _PATH * self.rng.uniform(0.6, 1.4)
        steps = min(max(round(length / self.step), 1), _MOST_STEPS)
        position, gradient = self.position, self.gradient
        diverged = np.zeros(len(position), bool)
        # Leapfrog: half a step of momentum, a step of position, half a step of momentum.
        for _ in range(steps):
            momentum = momentum + 0.5 * self.step * gradient
            position = position + self.step * momentum
            value, gradient = self._evaluate(position)
            diverged |= ~np.isfinite(value)
            momentum = momentum + 0.5 * self.step * gradient
        ratio = value - 0.5 * (momentum**2).sum(axis=1) - log_joint
        acceptance = np.exp(np.minimum(0.0, np.where(diverged, -np.inf, ratio)))
        accepted = self.rng.random(len(position)) < acceptance
        self.position = np.where(accepted[:, None], position, self.position)
        self.gradient = np.where(accepted[:, None], gradient, self.gradient)
        self.value = np.where(accepted, value, self.value)
        return float(acceptance.mean())
