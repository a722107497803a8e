"""One step of the latent values of one number, all records at once.

Three proposals take turns, all accepted with the Hastings ratio. One is normal about a Newton step
from the present value: exact where the predictor is linear and the noise normal. One is a random
walk. One is the distribution given the released value and the covariate model, whatever the present
value; it takes values from one mode to another. Accepted without the ratio it is biased (Goldstein
& Shlomo's A3 read literally: 7 % and more).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sfumato.analysis.samplers.metropolis.chance import Chance
from sfumato.analysis.samplers.metropolis.covariates import Each, Given
from sfumato.analysis.samplers.metropolis.outcome import Outcome
from sfumato.analysis.samplers.metropolis.predictor import OfNumber
from sfumato.analysis.samplers.metropolis.released import Parts, Released
from sfumato.kernels.arrays import Floats

FAR = 4.0
"""The longest Newton step, in SD of the number."""
_TURNS = 4
_NOTHING = 1e8
"""The variance of noise that says nothing, in variances of the number."""


class Target:
    """The log density of latent values of one number, given all else.

    Parameters
    ----------
    of_number : how the predictor depends on it.
    weights : what each of its functions is multiplied by.
    rest : the linear predictor without it.
    outcome, given, released : the three parts of the density.
    shift : of the released values, where noise of other numbers tells of theirs.
    """

    def __init__(
        self, of_number: OfNumber, weights: list[Floats], rest: Floats, outcome: Outcome,
        given: Given, released: Released, shift: Floats | float,
    ) -> None:  # fmt: skip
        self.of_number, self.weights, self.rest = of_number, weights, rest
        self.outcome, self.given, self.released, self.shift = outcome, given, released, shift

    @property
    def plain(self) -> bool:
        """Whether it is normal."""
        alike = self.outcome.linear and all(self.of_number.linear) and self.given.logs is None
        return alike and self.released.plain and self.released.number.growth is None

    def _sum(self, values: list[Floats]) -> Floats:
        made = self.rest
        for weight, one in zip(self.weights, values, strict=True):
            made = made + weight * one
        return made

    def parts(self, latent: Floats) -> tuple[Parts, Floats]:
        """Log density and derivatives, and the linear predictor."""
        bend = self.of_number.bend(latent)
        with np.errstate(all="ignore"):
            eta = self._sum(bend.values)
            rise = np.zeros(1)
            for weight, one in zip(self.weights, bend.slopes, strict=True):
                rise = rise + weight * one
            of_outcome = self.outcome.parts(eta)
            prior, seen = self.given.parts(latent), self.released.parts(latent, self.shift)
            log = of_outcome.log + prior.log + seen.log
            slope = of_outcome.slope * rise + prior.slope + seen.slope
            curve = of_outcome.curve * rise**2 + prior.curve + seen.curve
        bad = ~(np.isfinite(log) & np.isfinite(slope) & np.isfinite(curve))
        if bad.any():
            # Where the model has no value the density is nought: no way leads there, nor out.
            log = np.where(bad | np.isnan(log), -np.inf, log)
            slope, curve = np.where(bad, 0.0, slope), np.where(bad, 1.0, curve)
        return Parts(log, slope, curve), eta


def newton(
    present: Floats, at: Callable[[Floats], tuple[Parts, Floats]], size: float, chance: Chance
) -> tuple[Floats, Floats, float]:
    """Values after a step about a Newton step; what `at` says of them besides; share accepted.

    Parameters
    ----------
    present : the values now.
    at : log density and derivatives at values, and something that goes with them.
    size : the SD of the values, for the longest step.
    chance : where draws come from.
    """
    here, with_here = at(present)
    centre = present + np.clip(here.slope / here.curve, -FAR * size, FAR * size)
    z = chance.standard_normal(len(present))
    drawn = centre + z / np.sqrt(here.curve)
    there, with_there = at(drawn)
    centre = drawn + np.clip(there.slope / there.curve, -FAR * size, FAR * size)
    back = (present - centre) * np.sqrt(there.curve)
    with np.errstate(invalid="ignore"):
        ratio = there.log - here.log + 0.5 * (np.log(there.curve / here.curve) - back**2 + z**2)
    return _chosen(ratio, (present, with_here), (drawn, with_there), chance)


def walked(
    present: Floats,
    at: Callable[[Floats], tuple[Parts, Floats]],
    width: Floats | float,
    chance: Chance,
) -> tuple[Floats, Floats, float]:
    """Values after a step of a random walk; what `at` says of them besides; share accepted.

    From far out in a tail a Newton step may lead too far time and again. A walk leads back.
    """
    drawn = present + width * chance.standard_normal(len(present))
    (here, with_here), (there, with_there) = at(present), at(drawn)
    with np.errstate(invalid="ignore"):
        ratio = there.log - here.log
    return _chosen(ratio, (present, with_here), (drawn, with_there), chance)


def wide_of(target: Target, size: float) -> Floats:
    """The variance of normal noise that says about as much as what was released."""
    released = target.released
    variance = released.variance(released.seen + target.shift)
    # Rounding adds to the noise; what lies beyond an end is left to the covariate model alone.
    wide = np.where(
        released.missing | released.cut,
        _NOTHING * size**2,
        variance + released.number.width**2 / 12,
    )
    return np.maximum(wide, 1e-12 * size**2)


def independent(
    present: Floats, target: Target, size: float, chance: Chance
) -> tuple[Floats, Floats, float]:
    """Values after a proposal that does not depend on them; the predictor; share accepted."""
    made = _afar(target, size)
    drawn = made.draw(chance)
    here, with_here = target.parts(present)
    there, with_there = target.parts(drawn)
    with np.errstate(invalid="ignore"):
        ratio = there.log - here.log + made.log(present) - made.log(drawn)
    return _chosen(ratio, (present, with_here), (drawn, with_there), chance)


def in_turn(
    passes: int, present: Floats, target: Target, size: float, chance: Chance
) -> tuple[Floats, Floats, float]:
    """A step by the proposal whose turn it is."""
    turn = passes % _TURNS
    if target.plain or turn in (0, 2):
        return newton(present, target.parts, size, chance)
    if turn == 1:
        width = np.sqrt(_afar(target, size).variances.min(axis=0))
        return walked(present, target.parts, width, chance)
    return independent(present, target, size, chance)


def _afar(target: Target, size: float) -> Each:
    """The distribution given the released value and the covariate model, the outcome left out."""
    return target.given.with_noise(target.released.seen + target.shift, wide_of(target, size))


def _chosen(
    ratio: Floats, here: tuple[Floats, Floats], there: tuple[Floats, Floats], chance: Chance
) -> tuple[Floats, Floats, float]:
    # What is not a number is not above anything, so that it is not accepted.
    kept = np.log(chance.uniform(size=len(ratio))) < ratio
    values, besides = (np.where(kept, b, a) for a, b in zip(here, there, strict=True))
    return values, besides, float(kept.mean())
