"""Effects of groups on the outcome and on true numbers, with true numbers integrated out."""

from __future__ import annotations

import numpy as np

from sfumato.analysis.samplers.gibbs.random import gaussian, inverse_wishart, lower, turned
from sfumato.analysis.samplers.gibbs.state import Data, State
from sfumato.kernels.arrays import Floats


def loading(data: Data, state: State) -> Floats:
    """(chain, effect, value, column): what an effect adds to the means of numbers and outcome."""
    d, front = data.numbers, data.front
    made = np.zeros((len(state.beta), data.effects, d + 1, data.columns))
    at = np.arange(front)
    made[:, at, at, 0] = 1.0
    made[:, :front, d, 0] = state.slope[:, :front]
    made[:, front:, d] = data.random
    return made


def drawn_effects(
    data: Data,
    state: State,
    sums: Floats,
    means: tuple[Floats, Floats],
    chance: np.random.Generator,
) -> Floats:
    """(chain, group, effect): all effects of each group at once.

    Parameters
    ----------
    sums : (chain, group, cell, column, column) cross products.
    means : residuals by column, and precisions of what was seen, by cell.
    """
    residual, precision = means
    load = loading(data, state)
    chains, groups, cells, wide, _ = sums.shape
    effects, front, columns = data.effects, data.front, data.columns
    # (chain, cell, effect, column, value): an effect's loading, weighed by precision.
    weighed = np.swapaxes(load, 2, 3)[:, None] @ precision[:, :, None]
    with_own = weighed.reshape(chains, cells, effects * columns, -1) @ _flat(load)[:, None]
    with_seen = weighed.reshape(chains, cells, effects * columns, -1) @ residual
    own = with_own.reshape(chains, cells, effects, columns, effects, columns)
    own = own.transpose(0, 1, 3, 5, 2, 4).reshape(chains, cells * columns**2, effects**2)
    seen = with_seen.reshape(chains, cells, effects, columns, wide)
    seen = seen.transpose(0, 1, 3, 4, 2).reshape(chains, cells * columns * wide, effects)
    clean = sums[..., :columns, :columns].reshape(chains, groups, -1)
    gathered = (clean @ own).reshape(chains, groups, effects, effects)
    pull = sums[..., :columns, :].reshape(chains, groups, -1) @ seen
    before = np.zeros((chains, effects, effects))
    if front:
        before[:, :front, :front] = np.linalg.inv(state.among)
    before[:, front:, front:] = np.linalg.inv(state.between)
    return gaussian(gathered + before[:, None], pull, chance)


def _flat(load: Floats) -> Floats:
    """(chain, value, effect and column)."""
    chains, effects, size, columns = load.shape
    return load.transpose(0, 2, 1, 3).reshape(chains, size, effects * columns)


def without_effects(data: Data, sums: Floats, effects: Floats) -> Floats:
    """Cross products with the shifts of groups as further columns, their effects taken off."""
    columns, front, d = data.columns, data.front, data.numbers
    chains, groups = effects.shape[:2]
    wide = columns + d + 1
    change = np.zeros((chains, groups, wide + front, wide))
    change[..., range(columns), range(columns)] = 1.0
    change[..., columns : columns + front, 0] = effects[..., :front]
    at = range(columns, wide)
    change[..., range(columns + front, wide + front), at] = 1.0
    change[..., -1, :columns] = -effects[..., front:] @ data.random
    made: Floats = (change[:, :, None] @ sums @ turned(change)[:, :, None]).sum(axis=1)
    return made


def draw_covariances(data: Data, state: State, chance: np.random.Generator) -> None:
    """Covariances between groups, after effects were exchanged with coefficients."""
    if data.front:
        _lift_numbers(data, state, chance)
        state.among = _covariance(state.shift, chance)
    if len(data.random):
        _lift_outcome(data, state, chance)
        state.between = _covariance(state.effect, chance)


def _covariance(effects: Floats, chance: np.random.Generator) -> Floats:
    chains, groups, size = effects.shape
    # A uniform prior on the covariance, so that its degrees of freedom are fewer than groups.
    freedom = np.full(chains, groups - size - 1.0)
    scale = turned(effects) @ effects + 1e-12 * groups * np.eye(size)
    return inverse_wishart(freedom, scale, chance)


def _lift_outcome(data: Data, state: State, chance: np.random.Generator) -> None:
    """Exchange coefficients with group effects, their sum as it is: the chain moves faster."""
    precision = np.linalg.inv(state.between)
    for r, column, term in data.lifts:
        rest = (state.effect @ precision[:, :, r, None])[..., 0]
        wide = precision[:, r, r] * (column @ column)
        move = rest @ column / wide + chance.standard_normal(len(wide)) / np.sqrt(wide)
        state.effect[:, :, r] -= move[:, None] * column
        state.beta = state.beta + move[:, None] * term


def _lift_numbers(data: Data, state: State, chance: np.random.Generator) -> None:
    """The same for the model of the numbers; only a single component has a flat mean."""
    half = lower(state.among)
    for c, column in enumerate(data.upper.T):
        if c == 0 and data.ways > 1:
            continue
        total = column @ column
        normal = chance.standard_normal((*half.shape[:2], 1)) / np.sqrt(total)
        move = column @ state.shift / total + (half @ normal)[..., 0]
        state.shift -= column[:, None] * move[:, None]
        if c == 0:
            state.middle[:, 0] += move
        else:
            state.gamma[:, c - 1] += move
