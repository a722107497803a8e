"""Joint proposals of coefficients and variances, learnt from the draws of the warm-up."""

from __future__ import annotations

import numpy as np

from sfumato.analysis.samplers.metropolis.coefficients import Generator, cholesky
from sfumato.kernels.arrays import Floats

_PERSISTENCE = 0.3
"""How much of the present value's distance from the mean a joint proposal keeps."""
_WIDER = 1.2
_DRAWS_PER_PARAMETER = 12
"""Draws of the warm-up for each coefficient, below which nothing is proposed."""


class JointProposal:
    """Normal proposals with the mean and covariance of the warm-up's draws.

    Parameters
    ----------
    warmup : passes in which to learn them; a quarter of those is forgotten.
    """

    def __init__(self, warmup: int) -> None:
        self.warmup = warmup
        self.draws: list[Floats] = []
        self.ready = False
        self.mean: Floats = np.zeros(0)
        self.lower: Floats = np.zeros((0, 0))

    def learn(self, theta: Floats, passes: int) -> None:
        """Take note of a draw of the warm-up; nothing is learnt after it."""
        if passes < self.warmup // 4 or passes >= self.warmup:
            return
        self.draws.append(theta)
        enough = len(self.draws) >= _DRAWS_PER_PARAMETER * len(theta)
        if enough and passes in (self.warmup // 2, self.warmup - 1):
            draws = np.array(self.draws)
            covariance = np.atleast_2d(np.cov(draws.T))
            try:
                self.lower = cholesky(_WIDER * covariance)
            except np.linalg.LinAlgError:
                return
            self.mean, self.ready = draws.mean(axis=0), True

    def draw(self, theta: Floats, rng: Generator) -> tuple[Floats, float]:
        """A proposal, and the log of its density back over that forth.

        An autoregressive step leaves the normal distribution as it is, so that the ratio of the
        proposal's densities is that of this distribution.
        """
        z = rng.standard_normal(len(theta))
        centre = self.mean + _PERSISTENCE * (theta - self.mean)
        proposed = centre + (1 - _PERSISTENCE**2) ** 0.5 * (self.lower @ z)
        return proposed, self._log_density(theta) - self._log_density(proposed)

    def _log_density(self, theta: Floats) -> float:
        z = np.linalg.solve(self.lower, theta - self.mean)
        return -0.5 * float(z @ z)
