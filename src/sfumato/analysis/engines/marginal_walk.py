"""Hamiltonian Monte Carlo on the marginal posterior, for where importance sampling is unsure.

The posterior is of few dimensions and, on the scale of its mode, about standard normal: a dozen
gradients then make a draw that is nearly independent of the one before.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sfumato.analysis.engines.marginal_model import Density

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.analysis.engines.marginal_mode import Mode
    from sfumato.analysis.problem import Sampling
    from sfumato.progress import Progress

Floats = npt.NDArray[np.float64]

_TARGET = 0.8
"""The share of accepted moves the step is tuned for."""
_PATH, _MOST = 1.5, 20
"""Length of a path in standard deviations, and its steps at most."""
_THREADS = 2


def walked(
    density: Density, mode: Mode, sampling: Sampling, seeds: list[np.random.SeedSequence],
    say: Progress,
) -> tuple[Floats, bool]:  # fmt: skip
    """Draws (chain, draw, parameter), and whether all that were asked for are there."""
    stop = Event()
    done = [0] * sampling.chains
    total = sampling.chains * (sampling.draws + sampling.warmup)

    def one(chain: int) -> Floats:
        lone = Density(density.arrays, density.components, threads=1)
        walk = _Walk(lone, mode, np.random.default_rng(seeds[chain]))

        def tick() -> bool:
            done[chain] += 1
            return stop.is_set()

        return walk.run(sampling.warmup, sampling.draws, tick)

    with ThreadPoolExecutor(min(_THREADS, sampling.chains)) as pool:
        waiting = [pool.submit(one, chain) for chain in range(sampling.chains)]
        try:
            while not all(each.done() for each in waiting):
                say("walking", min(sum(done), total), total)
                stop.wait(0.2)
        except KeyboardInterrupt:
            stop.set()
    chains = [each.result() for each in waiting]
    length = min(len(chain) for chain in chains)
    return np.stack([chain[:length] for chain in chains]), not stop.is_set()


class _Walk:
    """One chain, on the scale of the mode."""

    def __init__(self, density: Density, mode: Mode, chance: np.random.Generator) -> None:
        self.density, self.chance = density, chance
        self.centre, self.root = mode.theta, mode.root
        self.at = chance.standard_normal(len(mode.theta))
        self.value, self.slope = self._look(self.at)
        while not np.isfinite(self.value):
            self.at = self.at / 2
            self.value, self.slope = self._look(self.at)
        self.step = 0.9 * len(self.at) ** -0.25

    def _look(self, at: Floats) -> tuple[float, Floats]:
        value, slope = self.density.slope(self.centre + self.root @ at)
        return value, self.root.T @ slope

    def run(self, warmup: int, draws: int, tick: Callable[[], bool]) -> Floats:
        """Tune, then draw; `tick` says whether to stop."""
        kept: list[Floats] = []
        seen: list[Floats] = []
        tuned, total, count = np.log(self.step), 0.0, 0
        middle = np.log(10 * self.step)
        for at in range(warmup + draws):
            if tick():
                break
            accepted = self._move()
            here = self.centre + self.root @ self.at
            if at >= warmup:
                kept.append(here)
                continue
            # Dual averaging (Hoffman & Gelman 2014, section 3.2).
            count += 1
            total += (_TARGET - accepted - total) / (count + 10)
            self.step = float(np.exp(middle - total * np.sqrt(count) / 0.05))
            weight = count**-0.75
            tuned = weight * np.log(self.step) + (1 - weight) * tuned
            seen.append(here)
            if at == warmup // 2 and len(seen) > 3 * len(self.at):
                self._rescale(np.array(seen[len(seen) // 4 :]))
                middle, total, count = np.log(10 * np.exp(tuned)), 0.0, 0
            if at == warmup - 1:
                self.step = float(np.exp(tuned))
        return np.array(kept).reshape(len(kept), len(self.at))

    def _rescale(self, seen: Floats) -> None:
        """Take the scale of the draws so far, mixed with that of the mode."""
        here = self.centre + self.root @ self.at
        share = len(seen) / (len(seen) + 5.0 * len(self.at))
        covariance = share * np.cov(seen.T) + (1 - share) * self.root @ self.root.T
        self.root = np.asarray(np.linalg.cholesky(covariance), float)
        self.at = np.asarray(np.linalg.solve(self.root, here - self.centre), float)
        self.value, self.slope = self._look(self.at)

    def _move(self) -> float:
        """One path; gives the chance with which its end was accepted."""
        momentum = self.chance.standard_normal(len(self.at))
        energy = self.value - 0.5 * momentum @ momentum
        length = _PATH * self.chance.uniform(0.6, 1.4)
        steps = min(max(round(length / self.step), 1), _MOST)
        at, slope, value = self.at, self.slope, self.value
        for _ in range(steps):
            momentum = momentum + 0.5 * self.step * slope
            at = at + self.step * momentum
            value, slope = self._look(at)
            if not np.isfinite(value):
                return 0.0
            momentum = momentum + 0.5 * self.step * slope
        accepted = math.exp(min(0.0, float(value - 0.5 * momentum @ momentum - energy)))
        if self.chance.random() < accepted:
            self.at, self.slope, self.value = at, slope, value
        return accepted
