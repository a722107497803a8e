"""Coefficients and group effects.

Normal draws where the outcome is normal; else a weighted least-squares proposal about the present
values, accepted with the Hastings ratio (Gamerman 1997, Statistics and Computing 7:57).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sfumato.analysis.samplers.metropolis.chance import (
    Chance,
    each_normal_of,
    factor_of,
    log_density,
    normal_of,
    sums_by,
)
from sfumato.analysis.samplers.metropolis.released import Parts
from sfumato.kernels.arrays import Floats, Integers

At = Callable[[Floats], Parts]


class Proposal:
    """A normal proposal for coefficients from the curvature at given ones."""

    def __init__(self, design: Floats, parts: Parts, prior: Floats, at: Floats) -> None:
        precision = design.T @ (design * parts.curve[:, None])
        precision[np.diag_indices(len(at))] += prior
        self.size = 1 / np.sqrt(np.diag(precision))
        self.lower = factor_of(precision * self.size[:, None] * self.size)
        right = self.size * (design.T @ parts.slope - prior * at)
        move = np.linalg.solve(self.lower.T, np.linalg.solve(self.lower, right))
        self.centre = at + self.size * move
        self.log = float(parts.log.sum() - 0.5 * (prior * at * at).sum())

    def draw(self, chance: Chance) -> Floats:
        """A draw."""
        z = chance.standard_normal(len(self.centre))
        made: Floats = self.centre + self.size * np.linalg.solve(self.lower.T, z)
        return made

    def density(self, at: Floats) -> float:
        """Its log density."""
        z = self.lower.T @ ((at - self.centre) / self.size)
        return float(log_density(self.lower, z)) - float(np.log(self.size).sum())


def stepped(
    design: Floats, at: At, eta: Floats, beta: Floats, prior: Floats, chance: Chance
) -> tuple[Floats, Floats]:
    """Coefficients of a generalised model, and the linear predictor, after one step.

    Parameters
    ----------
    design : (record, term).
    at : the log likelihood at linear predictors.
    eta : the present one, with whatever else is in it.
    beta, prior : the present coefficients, and the precision of their prior about nought.
    chance : where draws come from.
    """
    try:
        here = Proposal(design, at(eta), prior, beta)
        there = here.draw(chance)
        moved = eta + design @ (there - beta)
        back = Proposal(design, at(moved), prior, there)
    except np.linalg.LinAlgError:
        # A curvature that is nought to rounding proposes nothing; the present values stay.
        return beta, eta
    ratio = back.log - here.log + back.density(beta) - here.density(there)
    if np.log(chance.uniform()) < ratio:
        return there, moved
    return beta, eta


def linear(design: Floats, y: Floats, variance: float, prior: Floats, chance: Chance) -> Floats:
    """Coefficients of a linear model, drawn from their normal distribution."""
    precision = design.T @ design / variance
    precision[np.diag_indices(len(prior))] += prior
    return normal_of(precision, design.T @ y / variance, chance)


def effects(  # noqa: PLR0913 - a step has as many parts
    columns: Floats, group: Integers, at: At, eta: Floats, present: Floats, covariance: Floats,
    chance: Chance, *, exact: bool,
) -> tuple[Floats, Floats]:  # fmt: skip
    """(group, column) effects, and the linear predictor, after one step of all groups at once.

    Parameters
    ----------
    columns : (record, column) what differs by group.
    group : of each record.
    at, eta : as in `stepped`.
    present, covariance : the present effects, and their covariance.
    chance : where draws come from.
    exact : whether the log likelihood is quadratic, so that every proposal is accepted.
    """
    groups = len(present)
    inner = np.linalg.inv(covariance)

    def aim(parts: Parts, effect: Floats) -> tuple[Floats, Floats]:
        weighted = columns[:, :, None] * (columns * parts.curve[:, None])[:, None, :]
        precision = sums_by(group, groups, weighted) + inner
        slope = sums_by(group, groups, columns * parts.slope[:, None]) - effect @ inner
        right = slope + np.einsum("gab,gb->ga", precision, effect)
        return precision, right

    here = at(eta)
    precision, right = aim(here, present)
    drawn, forth = each_normal_of(precision, right, chance)
    moved = eta + ((drawn - present)[group] * columns).sum(axis=1)
    if exact:
        return drawn, moved
    there = at(moved)
    precision, right = aim(there, drawn)
    lower = factor_of(precision)
    z = np.einsum("gba,gb->ga", lower, present) - np.linalg.solve(lower, right[..., None])[..., 0]
    gained = sums_by(group, groups, there.log - here.log)
    ratio = gained + log_density(lower, z) - forth
    ratio += 0.5 * ((present @ inner * present).sum(1) - (drawn @ inner * drawn).sum(1))
    kept = np.log(chance.uniform(size=groups)) < ratio
    effect = np.where(kept[:, None], drawn, present)
    return effect, np.where(kept[group], moved, eta)


def exchanged(
    effect: Floats, covariance: Floats, column: int, shared: Floats, chance: Chance
) -> Floats:
    """How much of one effect, by columns constant in groups, belongs to the coefficients.

    The predictor stays as it is when a coefficient takes over what its column explains of the
    effects. The amount is drawn from its distribution given all else; chains mix badly without.

    Parameters
    ----------
    effect, covariance : of the groups; the effects are changed in place.
    column : which effect.
    shared : (group, coefficient) the columns.
    chance : where draws come from.
    """
    inner = np.linalg.inv(covariance)
    others = effect @ inner[:, column]
    precision = inner[column, column] * shared.T @ shared
    moved = normal_of(precision, shared.T @ others, chance)
    effect[:, column] -= shared @ moved
    return moved
