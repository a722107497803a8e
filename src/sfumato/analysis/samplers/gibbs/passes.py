"""A pass over the records of all chains, and the group effects that follow from it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.analysis.samplers.gibbs.groups import drawn_effects, loading, without_effects
from sfumato.analysis.samplers.gibbs.splits import draw_splits, draw_table
from sfumato.analysis.samplers.gibbs.state import Data, State, cell_means, covariance_seen, joint
from sfumato.kernels.arrays import Floats

_MOST = 4_000_000
"""Cross products held at a time; with more groups than that they are seen to in parts."""
_WORTH_THREADS = 20_000
_TWO = 2


@dataclass(frozen=True, eq=False)
class Means:
    """By chain: residuals of cells by column, precisions, and what the kernel is told.

    That is `lines` for two levels that differ by shifts, and all the rest otherwise; see
    `sfumato.kernels.sampling.gibbs`.
    """

    cells: Floats
    precision: Floats
    lines: Floats | None
    rest: tuple[Floats, ...] = ()


def two_shifted(data: Data) -> bool:
    """Whether there are two levels that differ by shifts alone."""
    plain = data.ways == 1 and len(data.present) == 1 and not data.interacting
    return data.levels == _TWO and plain


def means_of(data: Data, state: State, *, two: bool) -> Means:
    """What a pass over the records must know of the state."""
    covariance = covariance_seen(data, joint(state))
    both = data.present[:, :, None] * data.present[:, None, :]
    precision = np.linalg.inv(covariance) * both
    chains, ways, patterns, size, _ = covariance.shape
    columns = data.columns
    mean = cell_means(data, state)
    cells = np.empty((*mean.shape[:3], columns + size))
    cells[..., :columns], cells[..., columns:] = -mean, np.eye(size)
    base = cells[:, :1]
    if data.effects:
        effects = np.concatenate([state.shift, state.effect], axis=-1)
        moved = effects @ loading(data, state).reshape(chains, data.effects, -1)
        base = np.repeat(base, data.groups, axis=1)
        base[..., :columns] -= moved.reshape(chains, data.groups, size, columns)
    elif not two:
        base = np.repeat(base, data.groups, axis=1)
    splits, later = _before(data, state)
    # Means do not depend on the pattern of missing values: those of the first are enough.
    mean = mean.reshape(chains, ways, patterns, data.levels, size, columns)[:, :, 0]
    away = mean[..., 0] - mean[:, :1, :1, :, 0]
    if two:
        pull = away[:, 0, 1, None] @ precision[:, 0, 0]
        lines = (pull[:, None] @ base)[..., 0, :]
        lines[..., 0] -= 0.5 * (pull @ away[:, 0, 1, :, None])[..., 0]
        if data.split:
            lines[..., :columns] -= splits[:, :, 0]
        return Means(cells, precision, lines)
    constant = -0.5 * np.linalg.slogdet(covariance)[1][..., None]
    constant = constant + np.log(np.swapaxes(state.share, 1, 2))[:, :, None]
    lean = np.zeros((chains, data.levels, columns))
    if data.interacting:
        lean[..., 1:] = mean[:, 0, :, -1, 1:] - mean[:, 0, :1, -1, 1:]
    return Means(cells, precision, None, (base, precision, away, constant, lean, splits, later))


def _before(data: Data, state: State) -> tuple[Floats, Floats]:
    """Log odds of the splits: (group, split, column) and (split, level)."""
    if not data.split:
        return np.zeros((len(state.beta), 1, 0, 0)), np.zeros((len(state.beta), 0, 0))
    columns = data.columns
    shape = (len(state.beta), data.groups, len(data.roles), columns)
    splits = np.broadcast_to(state.alpha[:, None, :, :columns], shape).copy()
    splits[..., 0] += np.swapaxes(state.tilt, 1, 2)
    later = (data.earlier @ state.alpha[:, :, columns:, None])[..., 0]
    return splits, later


class Passes:
    """Passes over the records: levels, components and group effects of all chains.

    Parameters
    ----------
    data : what stays as it is.
    chains : how many.
    chance : of all chains.
    pool : for the chains' passes over many records.
    """

    def __init__(
        self, data: Data, chains: int, chance: np.random.Generator, pool: ThreadPoolExecutor
    ) -> None:
        self.data, self.chance, self.pool = data, chance, pool
        cells, wide = len(data.level), data.rows.shape[1]
        self.codes = [np.zeros(len(data.rows), np.uint8) for _ in range(chains)]
        step = int(min(max(_MOST // (chains * cells * wide**2), 1), data.groups))
        self.sums = np.zeros((chains, step, cells, wide, wide))
        several = data.levels * data.ways > 1
        self.two = two_shifted(data)
        self.odds = data.density[:, -1] - data.density[:, 0]
        self.strict = np.tril(np.ones((wide, wide)), -1)
        # Without levels and components products by group never change.
        self.still = not several and step == data.groups
        self.counted = False

    def run(self, state: State) -> Floats:
        """Change the state; cross products (chain, cell, column, column) less group effects."""
        data = self.data
        means = means_of(data, state, two=self.two)
        step = self.sums.shape[1]
        stats: Floats | float = 0.0
        for first in range(0, data.groups, step):
            last = min(first + step, data.groups)
            if not (self.still and self.counted):
                self._visit(state, means, first, last)
            sums = self.sums[:, : last - first]
            if data.effects:
                precision = means.precision[:, data.component, data.pattern]
                effects = drawn_effects(data, state, sums, (means.cells, precision), self.chance)
                state.shift[:, first:last] = effects[..., : data.front]
                state.effect[:, first:last] = effects[..., data.front :]
                stats = stats + without_effects(data, sums, effects)
            else:
                stats = sums[:, 0]
        self.counted = True
        if data.levels > 1 and data.split:
            draw_splits(data, state, self.codes, self.chance)
        elif data.levels > 1:
            draw_table(state, self._tally(np.asarray(stats)), self.chance)
        return np.asarray(stats)

    def _tally(self, stats: Floats) -> Floats:
        """(chain, cell of the table, level): how many records."""
        data = self.data
        if data.cells == 1:
            found: Floats = stats[..., 0, 0].reshape(len(stats), 1, -1, data.levels).sum(axis=2)
            return found
        place, many = data.place[:, 1] * data.levels, data.cells * data.levels
        counts = [np.bincount(place + code, minlength=many) for code in self.codes]
        return np.array(counts, float).reshape(-1, data.cells, data.levels)

    def _visit(self, state: State, means: Means, first: int, last: int) -> None:
        data = self.data
        begin, end = int(data.starts[first]), int(data.starts[last])
        options = np.array([begin, end, first, data.interacting, data.split], np.int64)
        keys = self.chance.integers(0, 2**64, len(self.sums), np.uint64)
        self.sums[:, : last - first] = 0.0

        def one(at: int) -> None:
            end_of = (options, keys[at], self.codes[at], self.sums[at])
            if means.lines is not None:
                from sfumato.kernels.sampling.gibbs_two import visit_two

                odds = state.table[at, :, 1] - state.table[at, :, 0]
                visit_two(data.rows, data.place, self.odds, odds, means.lines[at], *end_of)
                return
            from sfumato.kernels.sampling.gibbs import visit

            rest = [np.ascontiguousarray(part[at]) for part in means.rest]
            head = (data.rows, data.place, data.density, state.table[at])
            every: list[Any] = [*head, *rest, data.roles, *end_of]
            visit(*every)

        chains = range(len(self.sums))
        for _ in self.pool.map(one, chains) if end - begin >= _WORTH_THREADS else map(one, chains):
            pass
        # The kernel fills lower triangles.
        filled = self.sums[:, : last - first]
        filled += np.swapaxes(filled * self.strict, -1, -2)
