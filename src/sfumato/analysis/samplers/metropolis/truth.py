"""The true outcome, where its noise cannot be integrated out: drawn, all records at once."""

from __future__ import annotations

import numpy as np

from sfumato.analysis.samplers.metropolis.chance import Chance
from sfumato.analysis.samplers.metropolis.numbers import newton, walked
from sfumato.analysis.samplers.metropolis.outcome import Outcome
from sfumato.analysis.samplers.metropolis.released import Parts
from sfumato.kernels.arrays import Floats


def redrawn(outcome: Outcome, eta: Floats, passes: int, chance: Chance) -> Floats:
    """True outcomes after a step.

    Parameters
    ----------
    outcome : with what was released of it, and the present residual variance.
    eta : the linear predictor.
    passes : how many there were: a Newton step and a random walk take turns.
    chance : where draws come from.
    """
    released, variance, noise = outcome.released, outcome.variance, outcome.noise
    assert released is not None  # noqa: S101 - asked before
    scale, step = released.number.scale, 1e-4 * np.sqrt(variance + noise)

    def at(y: Floats) -> tuple[Parts, Floats]:
        away = eta - y
        with np.errstate(all="ignore"):
            latent, rise = y, np.ones(1)
            if scale is not None:
                latent = scale.forth(y)
                rise = (scale.forth(y + step) - scale.forth(y - step)) / (2 * step)
            seen = released.parts(latent)
            log = seen.log - 0.5 * away**2 / variance
            slope = seen.slope * rise + away / variance
            curve = seen.curve * rise**2 + 1 / variance
        bad = ~(np.isfinite(log) & np.isfinite(slope) & np.isfinite(curve))
        return Parts(
            np.where(bad, -np.inf, log), np.where(bad, 0.0, slope), np.where(bad, 1.0, curve)
        ), y

    if passes % 2:
        return walked(outcome.true, at, np.sqrt(variance * noise / (variance + noise)), chance)[0]
    return newton(outcome.true, at, float(np.sqrt(variance + noise)), chance)[0]
