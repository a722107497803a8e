"""A step along the coefficient of a noised level, its levels summed out, given group effects.

Drawn given levels, that coefficient remembers them: most of what there is to know of it is lost
with the true levels. So between two sweeps it is drawn once more, without them, and the other
parameters move with it as far as they go with it. Along that line the density is all but normal:
three looks at it make a proposal that does not depend on where the chain is, and the Hastings ratio
makes up for the rest. Levels are drawn anew right after.
"""

from __future__ import annotations

import numpy as np

from sfumato.analysis.samplers.gibbs.density import Density
from sfumato.analysis.samplers.gibbs.mode import Bent, differences
from sfumato.analysis.samplers.gibbs.passes import two_shifted
from sfumato.analysis.samplers.gibbs.random import turned
from sfumato.analysis.samplers.gibbs.state import Data, State, cell_means, covariance_seen, joint
from sfumato.kernels.arrays import Floats

_NODES = np.array([-1.2, 0.0, 1.2])
"""Where the density is looked at, in standard deviations."""
_WIDER = 1.1
_TRIES = 2
"""Times in the warm-up at which the line is laid."""
_FIRST = 0.3
"""The share of the warm-up before the first."""
_SHRINK = 5.0
"""Records of a group that weigh as much as what is known before: residual variance over that
between groups, roughly. Any number is right; a better one makes longer steps."""
_FLATTEST = 0.25
_SAME = 1e-9
_NOWHERE = np.zeros(0, np.int64)


def worth_a_line(data: Data) -> bool:
    """Whether there are groups and two levels whose coefficient is to be drawn."""
    wanted = bool(len(data.random)) and two_shifted(data)
    return wanted and bool(_shift(data).any()) and _constant(data) >= 0


def _shift(data: Data) -> Floats:
    """(term): what the second level adds to the outcome is the sum of these coefficients."""
    made: Floats = data.outcome[1, :, 0] - data.outcome[0, :, 0]
    return made


class Given:
    """Log density of rows of parameters given the group effects of each chain.

    A row is longer by two numbers: how much of each of two patterns is added to the effects of all
    groups, the shares of the second level and a constant, as far as a group's records outweigh
    what is known of it before.

    Parameters
    ----------
    density : how parameters are put in a row, and their priors.
    chains : how many.
    """

    def __init__(self, density: Density, chains: int) -> None:
        self.density, data = density, density.data
        self.pattern = _patterns(data)
        self.constant = _constant(data)
        columns, front, extra = data.columns, data.front, len(self.pattern)
        rows = density.columns
        self.columns = np.empty((chains, len(rows) + front + extra, rows.shape[1]))
        self.columns[:, :columns] = rows[:columns]
        self.columns[:, columns + front : columns + front + extra] = self.pattern[:, data.group]
        self.columns[:, columns + front + extra :] = rows[columns:]
        self.odds = np.empty((chains, rows.shape[1]))

    def take(self, state: State) -> None:
        """Take note of the group effects and of the levels' probabilities."""
        data, rows, columns = self.density.data, self.density.columns, self.density.data.columns
        for chain, made in enumerate(self.columns):
            for at in range(data.front):
                np.take(state.shift[chain, :, at], data.group, out=made[columns + at])
            moved = state.effect[chain] @ data.random
            made[-1] = rows[-1]
            for w in np.flatnonzero(data.random.any(axis=0)):
                made[-1] -= moved[:, w][data.group] * rows[w]
            odds = state.table[chain, :, 1] - state.table[chain, :, 0]
            self.odds[chain] = self.density.odds + odds[self.density.cell]
            if data.split:
                self.odds[chain] -= state.alpha[chain, 0, :columns] @ rows[:columns]
                self.odds[chain] -= state.tilt[chain, 0][data.group]
        self.products = self.columns @ turned(self.columns)
        # Of the effects before the data: what adding patterns changes.
        precision, at = np.linalg.inv(state.between), self.constant
        self.slope = (state.effect @ precision[:, :, at, None])[..., 0] @ self.pattern.T
        self.square = precision[:, at, at, None, None] * (self.pattern @ self.pattern.T)

    def __call__(self, theta: Floats) -> Floats:
        """(chain, draw) log density of (chain, draw, parameter), of the first chains at least."""
        from sfumato.kernels.sampling.gibbs_total import total_two

        data = self.density.data
        chains, draws, size = theta.shape
        extra = len(self.pattern)
        more = theta[..., size - extra :]
        state, jacobian = self.density.state(theta[..., : size - extra].reshape(-1, size - extra))
        with np.errstate(all="ignore"):
            precision = np.linalg.inv(covariance_seen(data, joint(state))[:, 0, 0])
            mean = cell_means(data, state)
            first = self._first(state, mean[:, 0], more.reshape(-1, extra))
            away = mean[:, 1, :, 0] - mean[:, 0, :, 0]
            pull = (away[:, None] @ precision)[:, 0]
            lines = (pull[:, None] @ first)[:, 0]
            lines[:, 0] -= 0.5 * (pull * away).sum(axis=1)
            parts = first.reshape(chains, -1, first.shape[-1]) @ self.products[:chains]
            spread = parts.reshape(first.shape) @ turned(first)
            found = -0.5 * (precision * spread).sum(axis=(1, 2))
            found += 0.5 * len(data.rows) * np.linalg.slogdet(precision)[1]
            found += self.density.prior(state) + jacobian
            found = found.reshape(chains, draws)
            found -= (more @ self.slope[:chains, :, None])[..., 0]
            found -= 0.5 * ((more @ self.square[:chains]) * more).sum(axis=-1)
            lines = lines.reshape(chains, draws, -1)
            for at in range(chains):
                total_two(
                    self.columns[at], _NOWHERE, self.odds[at], np.zeros((draws, 1)), lines[at],
                    found[at],
                )  # fmt: skip
        return np.where(np.isfinite(found), found, -np.inf)

    def _first(self, state: State, mean: Floats, more: Floats) -> Floats:
        """(draw, value, column): what was seen less its mean in the first level."""
        data = self.density.data
        columns, front, d = data.columns, data.front, data.numbers
        made = np.zeros((len(mean), d + 1, self.columns.shape[1]))
        made[..., :columns] = -mean
        at, value = np.arange(front), np.arange(d + 1)
        made[:, at, columns + at] = -1.0
        made[:, d, columns : columns + front] = -state.slope[:, :front]
        after = columns + front + more.shape[1]
        made[:, d, columns + front : after] = -more
        made[:, value, after + value] = 1.0
        return made


class Line:
    """Steps along the line, for all chains.

    Parameters
    ----------
    data : what stays as it is.
    chains : how many.
    warmup : sweeps before draws are kept: the line is laid in these.
    chance : of all chains.
    """

    def __init__(self, data: Data, chains: int, warmup: int, chance: np.random.Generator) -> None:
        self.data, self.chance = data, chance
        self.density = Density(data)
        self.given = Given(self.density, chains)
        self.pattern = self.given.pattern
        self.towards = np.zeros(self.density.size + len(self.pattern))
        self.towards[: data.outcome.shape[1]] = _shift(data)
        begin = int(_FIRST * warmup)
        self.laid_at = {begin + at * (warmup - begin) // _TRIES for at in range(_TRIES)}
        self.warmup, self.sweep = warmup, 0
        self.seen: list[float] = []
        self.along: Floats | None = None
        self.middle, self.scale = 0.0, 1.0

    def draw(self, state: State) -> None:
        """Change coefficients and variances; nothing happens before the line is laid."""
        theta = self.density.packed(state)
        theta = np.concatenate([theta, np.zeros((len(theta), len(self.pattern)))], axis=1)
        values = theta @ self.towards
        if self.sweep < self.warmup:
            self.seen.append(float(values.mean()))
            if self.sweep in self.laid_at:
                self.given.take(state)
                self._lay(theta)
        self.sweep += 1
        if self.along is None:
            return
        given = self.given
        given.take(state)
        nodes = self.middle + self.scale * _NODES
        steps = np.column_stack([nodes - values[:, None], np.zeros(len(values))])
        found = given(theta[:, None] + steps[..., None] * self.along)
        centre, spread = _fitted(found[:, :3])
        centre, spread = self.middle + self.scale * centre, _WIDER * self.scale * spread
        normal = self.chance.standard_normal(len(values))
        new = theta + (centre + spread * normal - values)[:, None] * self.along
        before = found[:, 3] + 0.5 * ((values - centre) / spread) ** 2
        after = given(new[:, None])[:, 0] + 0.5 * normal**2
        taken = np.log(self.chance.random(len(values))) < after - before
        kept = np.where(taken[:, None], new, theta)
        state.effect[:, :, given.constant] += kept[:, self.density.size :] @ self.pattern
        self.density.unpack(state, kept[:, : self.density.size])

    def _lay(self, theta: Floats) -> None:
        """The line on which the others follow the coefficient, and how far it reaches."""
        # Probabilities of levels stay as they are.
        free = np.delete(
            np.arange(theta.shape[1]), np.arange(self.density.ends[-2], self.density.ends[-1])
        )

        def look(rows: Floats) -> Floats:
            every = np.repeat(theta[:1, None], len(rows), axis=1)
            every[..., free] = rows
            return self.given(every).reshape(-1)

        width = np.full(len(free), 0.3 / np.sqrt(len(self.data.rows)))
        towards = self.towards[free]
        for _ in range(2):
            precision = differences(look, theta[0, free], width, len(free))[2]
            if not np.isfinite(precision).all():
                return
            bent = Bent(precision)
            width = bent.width
        step = bent.step(towards)
        variance = float(step @ towards)
        self.along = np.zeros(theta.shape[1])
        self.along[free] = step / variance
        self.scale = float(np.sqrt(variance))
        self.middle = float(np.mean(self.seen[len(self.seen) // 2 :]))


def _constant(data: Data) -> int:
    """Which effect of a group is one on its mean; -1 where none is."""
    constant = np.eye(data.columns)[0]
    alone = [bool(np.abs(one - constant).max() < _SAME) for one in data.random]
    return alone.index(True) if any(alone) else -1


def _patterns(data: Data) -> Floats:
    """(pattern, group): shares of the second level, and a constant; shrunken in small groups."""
    weights = np.exp(data.density)
    share = weights[:, 1] / weights.sum(axis=1)
    counts = np.diff(data.starts).astype(float)
    shares = np.bincount(data.group, share, len(counts)) / counts
    shrunken = counts / (counts + _SHRINK)
    return np.stack([shares * shrunken, shrunken])


def _fitted(found: Floats) -> tuple[Floats, Floats]:
    """Mean and SD of the normal densities that go through three values, on the nodes' scale."""
    far = float(_NODES[2])
    slope = (found[:, 2] - found[:, 0]) / 2 / far
    curve = (2 * found[:, 1] - found[:, 0] - found[:, 2]) / far**2
    good = np.isfinite(slope) & (curve > _FLATTEST) & (curve < 1 / _FLATTEST)
    curve = np.where(good, curve, 1.0)
    return np.where(good, slope / curve, 0.0), 1 / np.sqrt(curve)
