"""A chain: passes over the records, each followed by draws of all else.

The parts are compiled apart and only when a model needs them: a chain without groups never waits
for those of groups.
"""

from __future__ import annotations

import numpy as np

from sfumato.kernels.gibbs_arrays import Data, Floats, State


class Passes:
    """What one pass does, for one chain.

    Parameters
    ----------
    data, state : see there.
    prior : precision of components' means, and scale of their covariances, before the data.
    rng : the chain's chance.
    """

    def __init__(self, data: Data, state: State, prior: Floats, rng: np.random.Generator) -> None:
        self.data, self.state, self.prior, self.rng = data, state, prior, rng
        self.levels, self.ways = len(data.outcome), state.share.shape[1]
        clustered, self.split, interacting, _ = (bool(one) for one in data.options)
        effects = (len(state.slope) if clustered else 0) + data.random.shape[1]
        groups = len(state.effect)
        self.gathered = np.zeros((groups, effects, effects))
        self.pulled = np.zeros((groups, effects))
        self.effects = effects
        # Levels that differ by shifts alone: see `gibbs_alone`.
        plain = self.ways == 1 and effects == 0 and len(data.present) == 1
        self.alone = plain and self.levels > 1 and not (self.split or interacting)
        # A single kind of record, without groups: nothing changes between passes.
        self.still = plain and self.levels == 1
        self.counted = False

    def run(self, keep: Floats) -> None:
        """Make a pass for each row of `keep`, and write there what it ended with."""
        from sfumato.kernels.gibbs_linear import coefficients

        state = self.state
        terms, d = len(state.beta), len(state.slope)
        lower = np.tril_indices(state.between.shape[0])
        for row in keep:
            if not (self.still and self.counted):
                self._records()
                self.counted = True
            coefficients(self.data, state, self.prior, self.rng)
            row[:terms], row[terms : terms + d] = state.beta, state.slope
            row[terms + d] = state.residual[0]
            row[terms + d + 1 :] = state.between[lower]

    def _records(self) -> None:
        """All that looks at the records."""
        from sfumato.kernels.gibbs import count

        data, state, rng = self.data, self.state, self.rng
        if self.alone:
            from sfumato.kernels.gibbs_alone import assign_alone

            assign_alone(data, state, rng)
        elif not self.still:
            from sfumato.kernels.gibbs import assign

            assign(data, state, self.gathered, self.pulled, rng)
        if self.effects:
            from sfumato.kernels.gibbs_groups import draw_effects

            draw_effects(data, state, self.gathered, self.pulled, rng)
        if self.levels > 1 and self.split:
            from sfumato.kernels.gibbs_splits import draw_splits

            draw_splits(data, state, rng)
        elif self.levels > 1:
            from sfumato.kernels.gibbs_splits import draw_table

            draw_table(data, state, rng)
        if not self.alone:
            count(data, state)
