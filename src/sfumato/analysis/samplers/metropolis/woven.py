"""A step of coefficients and true values together, so that neither holds the other back.

Given true values the coefficients are nearly known, and the other way round: taken in turns they
move slowly where there is much noise. Here a true value is written as x = m + s z, where m and s
are its mean and spread given coefficients and data, or nearly so. New coefficients are proposed
with z as it is, and true values follow them. Where x is normal given the rest, z tells nothing of
the coefficients, and the step is one of their distribution with true values integrated out. Else
the Hastings ratio, with the change of s in it, puts right what is not (interweaving: Yu & Meng
2011, J. Computational and Graphical Statistics 20:531).

The proposal draws together towards the mean of the warm-up's draws, with their covariance.
"""

from __future__ import annotations

import numpy as np

from sfumato.analysis.samplers.metropolis.chance import Chance, factor_of
from sfumato.analysis.samplers.metropolis.numbers import FAR, Target, wide_of
from sfumato.kernels.arrays import Floats

_KEPT = 0.3
"""How much of the present value's distance from the mean is kept in a proposal."""
_WIDER = 1.2
_FOR_EACH = 12
"""Draws of the warm-up for each coefficient, below which nothing is proposed."""


class Proposal:
    """Normal proposals with the mean and covariance of the warm-up's draws.

    Parameters
    ----------
    warmup : passes in which to learn them; a quarter of those is forgotten.
    """

    def __init__(self, warmup: int) -> None:
        self.warmup = warmup
        self.seen: list[Floats] = []
        self.ready = False
        self.mean: Floats = np.zeros(0)
        self.lower: Floats = np.zeros((0, 0))

    def learn(self, at: Floats, passes: int) -> None:
        """Take note of a draw of the warm-up; nothing is learnt after it."""
        if passes < self.warmup // 4 or passes >= self.warmup:
            return
        self.seen.append(at)
        enough = len(self.seen) >= _FOR_EACH * len(at)
        if enough and passes in (self.warmup // 2, self.warmup - 1):
            draws = np.array(self.seen)
            covariance = np.atleast_2d(np.cov(draws.T))
            try:
                self.lower = factor_of(_WIDER * covariance)
            except np.linalg.LinAlgError:
                return
            self.mean, self.ready = draws.mean(axis=0), True

    def draw(self, at: Floats, chance: Chance) -> tuple[Floats, float]:
        """A proposal, and the log of its density back over that forth."""
        z = chance.standard_normal(len(at))
        made = self.mean + _KEPT * (at - self.mean) + (1 - _KEPT**2) ** 0.5 * (self.lower @ z)
        return made, self._log(at) - self._log(made)

    def _log(self, at: Floats) -> float:
        z = np.linalg.solve(self.lower, at - self.mean)
        return -0.5 * float(z @ z)


def settled(target: Target, size: float) -> tuple[Floats, Floats]:
    """Mean and spread of true values given all else, or nearly: two Newton steps from afar.

    They depend on the coefficients and the data, and not on the present true values.
    """
    seen = target.released.seen + target.shift
    made = target.given.with_noise(seen, wide_of(target, size)).mean()
    steps = 1 if target.plain else 2
    for _ in range(steps):
        parts, _ = target.parts(made)
        made = made + np.clip(parts.slope / parts.curve, -FAR * size, FAR * size)
    return made, 1 / np.sqrt(parts.curve)
