"""The outcome given the linear predictor: log likelihood, slope and curvature of each record."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sfumato.analysis.samplers.metropolis.released import Parts, Released
from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from sfumato.analysis.problem import Link, Problem

_HALF_LOG = 0.5 * math.log(2 * math.pi)
_KEPT = 0.05
"""The least share of its curvature that a misclassified outcome leaves."""


class Outcome:
    """The outcome of a problem.

    A misclassified one is mixed over its true values (Goldstein & Shlomo, Eq. A4). A noised number
    is integrated out where its noise is plain; else `true` is drawn with everything else.

    Parameters
    ----------
    problem : the problem, its records in their canonical order.
    """

    def __init__(self, problem: Problem) -> None:
        self.family, self.link = problem.family, problem.link
        self.true: Floats = np.array(problem.y, float)
        self.trials: Floats | float = 1.0 if problem.trials is None else problem.trials
        self.density = (
            None if problem.outcome_category is None else problem.outcome_category.density
        )
        self.variance = 1.0
        """Of the residuals; of a plain noised outcome with that of the noise."""
        self.noise = 0.0
        self.released: Released | None = None
        number = problem.outcome_number
        if number is not None:
            self.noise = number.variance or 0.0
            if not number.plain:
                self.released = Released(number)
                seen = self.released.seen
                self.noise = float(np.mean(self.released.variance(seen)))
                self.true = np.array(number.true(seen))

    @property
    def linear(self) -> bool:
        """Whether it is normal about the linear predictor."""
        return self.family == "gaussian"

    def parts(self, eta: Floats) -> Parts:
        """Log likelihood and derivatives at linear predictors."""
        if self.linear:
            away = self.true - eta
            slope = away / self.variance
            return Parts(-0.5 * away * slope, slope, np.full(len(eta), 1 / self.variance))
        if self.family == "poisson":
            mean = np.exp(np.minimum(eta, 700.0))
            return Parts(self.true * eta - mean, self.true - mean, mean)
        if self.density is not None:
            return misclassified(self.density, eta, self.link)
        return successes(self.true, self.trials, eta, self.link)


def successes(y: Floats, trials: Floats | float, eta: Floats, link: Link) -> Parts:
    """Of y successes among so many trials."""
    if link == "logit":
        # One exponential gives both the probability and its logarithm.
        small = np.exp(-np.abs(eta))
        chance = np.where(eta >= 0, 1.0, small) / (1 + small)
        log = y * eta - trials * (np.maximum(eta, 0.0) + np.log1p(small))
        return Parts(log, y - trials * chance, trials * chance * (1 - chance))
    from scipy.special import log_ndtr

    up, down = log_ndtr(eta), log_ndtr(-eta)
    phi = -0.5 * eta * eta - _HALF_LOG
    rise, fall = np.exp(phi - up), np.exp(phi - down)
    log = y * up + (trials - y) * down
    return Parts(log, y * rise - (trials - y) * fall, trials * rise * fall)


def misclassified(density: Floats, eta: Floats, link: Link) -> Parts:
    """Of a released outcome whose true value is 0 or 1."""
    one = successes(np.ones(len(eta)), 1.0, eta, link)
    none = successes(np.zeros(len(eta)), 1.0, eta, link)
    log = np.logaddexp(density[:, 1] + one.log, density[:, 0] + none.log)
    share = np.exp(density[:, 1] + one.log - log)
    slope = share * one.slope + (1 - share) * none.slope
    lost = share * (1 - share) * (one.slope - none.slope) ** 2
    return Parts(log, slope, np.maximum(one.curve - lost, _KEPT * one.curve))
