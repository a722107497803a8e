"""The random effects of one grouping factor in a chain, and the steps that draw them.

Several factors are drawn in turn, each given the others. Where the groups of one lie within those
of another, what a coarse group has in common could as well be in the effects of all its fine ones:
records say much of the sum and little of its parts. So both are also moved with their sum as it is
(hierarchical centring: Gelfand, Sahu & Carlin 1995, Biometrika 82:479).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.analysis.group_level import find_first_records, is_constant_in_groups
from sfumato.analysis.problem import GroupingFactor, Problem
from sfumato.analysis.samplers.metropolis.coefficients import (
    Generator,
    draw_inverse_wishart,
    exchange_effects,
    rescale_effects,
    step_effects,
)
from sfumato.analysis.samplers.metropolis.start import find_exchanges
from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from sfumato.analysis.samplers.metropolis.chain import Chain

_FIRST_SHARE = 0.1
"""The variance of effects at first, as a share of that of residuals."""


class GroupEffects:
    """The effects of a factor and their covariance.

    Parameters
    ----------
    factor : the groups, and the terms that differ by them.
    problem : the model.
    design : its columns at first.
    scale : the variance of the residuals, or 1 on the scale of a link.
    """

    def __init__(
        self, factor: GroupingFactor, problem: Problem, design: Floats, scale: float
    ) -> None:
        self.groups, self.random = factor.groups, list(factor.random)
        self.rows = find_first_records(factor.groups)
        self.effects: Floats = np.zeros((len(self.rows), len(self.random)))
        sizes = np.mean(design[:, self.random] ** 2, axis=0)
        self.between: Floats = np.diag(_FIRST_SHARE * scale / np.maximum(sizes, 1e-300))
        of_factor = replace(problem, groups=factor.groups)
        self.exchanges = find_exchanges(of_factor, design, self.random)

    def predict(self, design: Floats) -> Floats:
        """What effects add to the predictor of each record."""
        total = np.zeros(len(design))
        for column, term in enumerate(self.random):
            total += design[:, term] * self.effects[self.groups, column]
        return total

    def values(self) -> list[Floats]:
        """Variances, and covariances below the diagonal."""
        return [np.diag(self.between), self.between[np.tril_indices(len(self.random), -1)]]

    def step(self, chain: Chain) -> None:
        """Effects, their covariance, and both together with the coefficients."""
        design = chain.predictor.design
        self.effects, chain.eta = step_effects(
            columns=design[:, self.random],
            group=self.groups,
            likelihood=chain.outcome.evaluate,
            eta=chain.eta,
            effects=self.effects,
            covariance=self.between,
            rng=chain.rng,
            exact=chain.outcome.linear,
        )
        self.exchange(chain)
        self.draw_between(chain.rng)
        self._rescale(chain)

    def exchange(self, chain: Chain) -> None:
        """What of the effects the coefficients of columns constant in groups explain."""
        for column, terms in enumerate(self.exchanges):
            shared = chain.predictor.design[self.rows][:, terms]
            shared[:, 0] = 1.0
            chain.beta[terms] += exchange_effects(
                self.effects,
                self.between,
                column,
                shared,
                chain.rng,
                present=chain.beta[terms],
                prior=chain.prior[terms],
            )

    def draw_between(self, rng: Generator) -> None:
        """The covariance of the effects, given these."""
        groups, size = self.effects.shape
        squares = self.effects.T @ self.effects
        self.between = draw_inverse_wishart(groups - size - 1, squares, rng)

    def _rescale(self, chain: Chain) -> None:
        """Coefficients and the size of the effects together, the effects in their own units."""
        design = chain.predictor.design
        spread = design[:, self.random] * self.effects[self.groups]
        chain.beta, factors, chain.eta = rescale_effects(
            design, chain.outcome.evaluate, chain.eta, chain.beta, chain.prior, spread, chain.rng
        )
        self.effects = self.effects * factors
        self.between = self.between * np.outer(factors, factors)

    def contains(self, fine: GroupEffects) -> bool:
        """Whether the groups of another factor lie within those of this one."""
        return len(fine.rows) > len(self.rows) and is_constant_in_groups(
            self.groups.astype(float), fine.groups
        )

    def exchange_with(self, fine: GroupEffects, rng: Generator) -> None:
        """Move effects that both have between a group and all groups within it, the sum as it is.

        The amount δ of a group is normal with precision B⁻¹ + n A⁻¹ and mean precision⁻¹ (B⁻¹ u -
        Σ A⁻¹ v), with u, B the effect of the group and its variance, v, A those of the n within it.
        """
        within = self.groups[fine.rows]
        for column, term in enumerate(self.random):
            if term not in fine.random:
                continue
            other = fine.random.index(term)
            inverse, fine_inverse = np.linalg.inv(self.between), np.linalg.inv(fine.between)
            counts = np.bincount(within, minlength=len(self.rows))
            precision = inverse[column, column] + counts * fine_inverse[other, other]
            right = self.effects @ inverse[:, column]
            right -= np.bincount(within, fine.effects @ fine_inverse[:, other], len(self.rows))
            amount = right / precision + rng.standard_normal(len(right)) / np.sqrt(precision)
            self.effects[:, column] -= amount
            fine.effects[:, other] += amount[within]
