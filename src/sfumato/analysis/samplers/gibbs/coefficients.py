"""Steps on coefficients and variances: chance drawn for all chains, then the compiled part."""

from __future__ import annotations

import numpy as np

from sfumato.analysis.samplers.gibbs.random import bartlett, inverse, root, turned
from sfumato.analysis.samplers.gibbs.state import Data, State
from sfumato.kernels.arrays import Floats

FLAT_LEVEL = 1e-2
TINY = 1e-12


class Coefficients:
    """Draws of all coefficients and variances, given levels, components and groups.

    Parameters
    ----------
    data : what stays as it is.
    chance : of all chains.
    """

    def __init__(self, data: Data, chance: np.random.Generator) -> None:
        self.data, self.chance = data, chance
        columns, extra = data.columns, data.dummies.shape[1]
        cells, fixed, d = len(data.level), columns - 1 + extra, data.numbers
        wide = columns + data.front + d + 1
        # Features of the numbers and terms of the outcome, as combinations of columns counted.
        self.lift = np.zeros((cells, fixed + data.ways, wide))
        self.lift[:, range(columns - 1), range(1, columns)] = 1.0
        self.lift[:, columns - 1 : fixed, 0] = data.dummies[data.level]
        self.lift[range(cells), fixed + data.component, 0] = 1.0
        self.terms = np.zeros((cells, data.outcome.shape[1], wide))
        self.terms[..., :columns] = data.outcome[data.level]
        self.cells = np.column_stack([data.component, data.pattern])
        self.options = np.array([columns, data.front], np.int64)
        terms = data.outcome.shape[1]
        self.prior = np.zeros((terms + d, terms + d))
        self.prior[:terms, :terms] = data.outcome_prior
        # A level or component without records must not run away.
        self.flat = np.zeros(fixed + data.ways)
        self.flat[columns - 1 :] = FLAT_LEVEL
        self.flat[fixed:] = data.prior[0] if data.ways > 1 else 0.0

    def draw(self, state: State, stats: Floats) -> None:
        """Change the state; `stats` (chain, cell, column, column) are the cross products."""
        from sfumato.kernels.sampling.gibbs_steps import steps

        data, chance = self.data, self.chance
        chains, cells, wide, _ = stats.shape
        d, ways, terms, many = data.numbers, data.ways, self.terms.shape[1], data.steps
        half, there = root(stats)
        records = stats[..., 0, 0]
        # Rounding must not make more columns than records.
        freedom = np.maximum(records - there.sum(axis=-1), 0.0)
        normals = chance.standard_normal((chains, many, cells, d + 1, wide))
        normals *= there[:, None, :, None, :]
        cores = bartlett(np.repeat(freedom[:, None], many, axis=1), d + 1, chance)
        counts = records.reshape(chains, ways, -1, data.levels).sum(axis=2)
        scale, inverses = self._spreads(counts.sum(axis=-1))
        first = chance.standard_normal((chains, many, len(self.flat) * d))
        second = chance.standard_normal((chains, many, terms + d))
        rests = np.stack([2.0 * chance.standard_gamma(len(data.rows) / 2.0, (chains, many)),
                          chance.random((chains, many))], axis=-1)  # fmt: skip
        square = self.lift @ stats @ turned(self.lift)
        square = square.reshape(chains, ways, -1, *square.shape[2:]).sum(axis=2)
        inside = (self.terms @ stats @ turned(self.terms)).sum(axis=1)
        drawn = np.concatenate([state.beta, state.slope], axis=1)
        back = np.concatenate([state.gamma, state.middle], axis=1)
        for at in range(chains):
            state.residual[at] = steps(
                stats[at], half[at], self.cells, self.lift, self.terms, square[at], inside[at],
                data.error, data.present, self.prior, self.options, self.flat, scale[at],
                normals[at], cores[at], first[at], inverses[at], second[at], rests[at],
                drawn[at], back[at], state.spread[at], float(state.residual[at]),
            )  # fmt: skip
        state.beta, state.slope = drawn[:, :terms], drawn[:, terms:]
        state.gamma, state.middle = back[:, : len(self.flat) - ways], back[:, -ways:]
        if ways > 1:
            share = np.maximum(chance.standard_gamma(1.0 + np.swapaxes(counts, 1, 2)), 1e-300)
            state.share = share / share.sum(axis=-1, keepdims=True)

    def _spreads(self, counts: Floats) -> tuple[Floats, Floats]:
        """Of components' covariances: the scale before the data, and the chance of inverses."""
        data, d = self.data, self.data.numbers
        several = data.ways > 1
        freedom = counts + d + 2.0 if several else counts - d - 1.0
        added = np.full_like(counts, data.prior[1]) if several else TINY * counts
        core = bartlett(np.repeat(freedom[:, None], data.steps, axis=1), d, self.chance)
        return added[..., None, None] * np.eye(d), np.ascontiguousarray(turned(inverse(core)))
