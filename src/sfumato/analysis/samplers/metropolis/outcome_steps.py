"""Steps of what the outcome has beside coefficients: dispersion of counts, thresholds of levels.

A normal proposal about a Newton step from the present values, with the Hastings ratio.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.analysis.samplers.metropolis.coefficients import (
    Generator,
    cholesky,
    log_normal_density,
)
from sfumato.analysis.samplers.metropolis.likelihood import (
    OutcomeModel,
    differentiate_thresholds,
)
from sfumato.kernels.arrays import Floats

_DIFFERENCE = 0.01
_LONGEST = 1.0
_LEAST_CURVATURE = 0.25
"""Of the log density of a log dispersion, about which a Poisson model says nothing."""


def step_dispersion(outcome: OutcomeModel, eta: Floats, rng: Generator) -> None:
    """The dispersion of counts after a step on its logarithm."""

    def log_density(log_dispersion: float) -> float:
        outcome.dispersion = math.exp(log_dispersion)
        log = outcome.evaluate(eta).log + outcome.log_constants()
        return float(log.sum()) + outcome.log_prior()

    def newton(value: float) -> tuple[float, float, float]:
        """Log density there, and centre and curvature of the proposal."""
        log = log_density(value)
        above, below = log_density(value + _DIFFERENCE), log_density(value - _DIFFERENCE)
        curvature = max((2 * log - above - below) / _DIFFERENCE**2, _LEAST_CURVATURE)
        step = (above - below) / (2 * _DIFFERENCE) / curvature
        return log, value + min(max(step, -_LONGEST), _LONGEST), curvature

    present = math.log(outcome.dispersion)
    here, centre, curvature = newton(present)
    z = rng.standard_normal()
    proposed = centre + z / math.sqrt(curvature)
    there, centre_back, curvature_back = newton(proposed)
    back = (present - centre_back) ** 2 * curvature_back
    log_ratio = there - here + 0.5 * (math.log(curvature_back / curvature) - back + z * z)
    accepted = math.log(rng.uniform()) < log_ratio
    outcome.dispersion = math.exp(proposed if accepted else present)


def step_thresholds(outcome: OutcomeModel, eta: Floats, rng: Generator) -> float:
    """Thresholds after a step of all of them; the first becomes 0 again.

    What it was is returned: it belongs to the intercept.
    """
    present = outcome.thresholds

    def newton(thresholds: Floats) -> tuple[float, Floats, Floats]:
        """Log density there, and centre and factor of the precision of the proposal."""
        outcome.thresholds = thresholds
        log = float(outcome.evaluate(eta).log.sum()) + outcome.log_threshold_prior()
        line = eta + outcome.offset
        gradient, information = differentiate_thresholds(
            thresholds, line, outcome.level_shares(eta)
        )
        prior = outcome.threshold_precision()
        lower = cholesky(information + prior)
        step = np.linalg.solve(lower @ lower.T, gradient - prior @ thresholds)
        return log, thresholds + step, lower

    try:
        here, centre, lower = newton(present)
        z = rng.standard_normal(len(present))
        proposed = centre + np.linalg.solve(lower.T, z)
        log_ratio = -math.inf
        if (np.diff(proposed) > 0).all():
            there, centre_back, lower_back = newton(proposed)
            back = lower_back.T @ (present - centre_back)
            log_ratio = there - here + float(log_normal_density(lower_back, back))
            log_ratio -= float(log_normal_density(lower, z))
    except np.linalg.LinAlgError:
        # A curvature that is zero to rounding proposes nothing; the present values stay.
        log_ratio = -math.inf
    outcome.thresholds = proposed if math.log(rng.uniform()) < log_ratio else present
    first = float(outcome.thresholds[0])
    outcome.thresholds = outcome.thresholds - first
    return first
