"""Noised categories: their true levels by exact draws, and the model of those levels.

The level of a record given its clean columns, earlier categories and its group is a multinomial
logit. Its coefficients have a normal prior of SD 5 on columns of size one, so that levels that
hardly occur have a distribution; they are drawn level by level with a weighted least-squares
proposal, groups' effects likewise.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.analysis.problem import Category
from sfumato.analysis.samplers.metropolis.chance import Chance
from sfumato.analysis.samplers.metropolis.coefficients import effects, exchanged, stepped
from sfumato.analysis.samplers.metropolis.outcome import successes
from sfumato.analysis.samplers.metropolis.released import Parts
from sfumato.kernels.arrays import Floats, Integers

_PRECISION = 0.04
_WEAK = 0.05
"""Prior scale of the variance between groups of a level's log odds; its shape is 1."""


class Levels:
    """The model of the levels of one category.

    Parameters
    ----------
    category : the category.
    clean : (record, column) clean columns of size one, the constant first.
    earlier : how many columns for levels of earlier categories follow.
    group, groups : of each record, and how many; None where levels do not differ by group.
    """

    def __init__(
        self, category: Category, clean: Floats, earlier: int, group: Integers | None, groups: int
    ) -> None:
        self.density = np.ascontiguousarray(category.density.T)
        self.count = len(category.levels)
        records, self.first = clean.shape
        self.design: Floats = np.zeros((records, self.first + earlier), order="F")
        self.design[:, : self.first] = clean
        self.slopes: Floats = np.zeros((self.count - 1, self.design.shape[1]))
        self.group, self.groups = group, groups
        self.effect: Floats = np.zeros((self.count - 1, groups, 1))
        self.between: Floats = np.full(self.count - 1, 0.1)
        shares = np.exp(self.density - self.density.max(axis=0))
        shares = np.maximum((shares / shares.sum(axis=0)).mean(axis=1), 1e-3)
        self.slopes[:, 0] = np.log(shares[1:] / shares[0])

    def predictor(self) -> Floats:
        """(level, record) the log odds against the first level."""
        made = np.zeros((self.count, len(self.design)))
        made[1:] = self.slopes @ self.design.T
        if self.group is not None:
            made[1:] += self.effect[:, :, 0][:, self.group]
        return made

    def log(self) -> Floats:
        """(level, record) log probabilities."""
        made = self.predictor()
        return made - _log_sum(made)

    def update(self, codes: Integers, chance: Chance) -> None:
        """Draw the coefficients, given levels."""
        eta = self.predictor()
        prior = np.full(self.design.shape[1], _PRECISION)
        for at in range(self.count - 1):
            others = np.delete(eta, at + 1, axis=0)
            offset = _log_sum(others)
            own = (codes == at + 1).astype(float)

            def likely(own_eta: Floats, own: Floats = own, offset: Floats = offset) -> Parts:
                return successes(own, 1.0, own_eta - offset, "logit")

            self.slopes[at], moved = stepped(
                self.design, likely, eta[at + 1], self.slopes[at], prior, chance
            )
            if self.group is not None:
                one = np.ones((len(codes), 1))
                between = np.array([[self.between[at]]])
                self.effect[at], moved = effects(
                    one, self.group, likely, moved, self.effect[at], between, chance, exact=False
                )
                self._between(at, chance)
            eta[at + 1] = moved

    def _between(self, at: int, chance: Chance) -> None:
        squares = float((self.effect[at] ** 2).sum())
        shape = 1 + self.groups / 2
        self.between[at] = (_WEAK + squares / 2) / chance.standard_gamma(shape)
        # What all groups share is moved to the constant, whose prior has the last word.
        ones = np.ones((self.groups, 1))
        before = self.slopes[at, 0]
        kept = self.effect[at].copy()
        variance = np.array([[self.between[at]]])
        moved = exchanged(self.effect[at], variance, 0, ones, chance)[0]
        ratio = 0.5 * _PRECISION * (before**2 - (before + moved) ** 2)
        if math.log(chance.uniform()) < ratio:
            self.slopes[at, 0] += moved
        else:
            self.effect[at] = kept


def _log_sum(logs: Floats) -> Floats:
    top = logs.max(axis=0)
    made: Floats = top + np.log(np.exp(logs - top).sum(axis=0))
    return made
