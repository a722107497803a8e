"""Which true level a record has, given clean columns, earlier categories and its group.

A category of L levels is L - 1 splits: level 0 or a later one; among those level 1 or a later
one; and so on. Each split is a logistic model with a group effect. The role of a level in a
split is 1 (this one), 0 (a later one) or -1 (not in question). Steps are Newton's, from where the
chain stands, taken with the Hastings ratio (Gamerman 1997).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.analysis.samplers.gibbs.random import gaussian, turned
from sfumato.analysis.samplers.gibbs.state import Data, State
from sfumato.kernels.arrays import Floats, Integers

_FIRST_SD = 5.0
_OTHER_SD = 2.5


@dataclass(frozen=True, eq=False)
class _Look:
    """By chain: log density, slope and curvature at some coefficients; the same by group."""

    value: Floats
    slope: Floats
    square: Floats
    groups: Floats


@dataclass(frozen=True, eq=False)
class _Seen:
    """Records, or kinds of records: columns, groups, levels by chain, and how many of each."""

    rows: Floats
    group: Integers
    levels: list[npt.NDArray[np.uint8]]
    weights: list[Floats]


def draw_splits(
    data: Data, state: State, codes: list[npt.NDArray[np.uint8]], chance: np.random.Generator
) -> None:
    """Coefficients, group effects and their spread, for every split."""
    seen = _seen(data, codes)
    for at in range(len(data.roles)):
        _Split(data, state, at, seen, chance).draw()


def draw_table(state: State, tally: Floats, chance: np.random.Generator) -> None:
    """Probabilities of the levels in each cell of clean values: Dirichlet, 1/2 before the data."""
    made = np.maximum(chance.standard_gamma(tally + 0.5), 1e-300)
    state.table = np.log(made / made.sum(axis=-1, keepdims=True))


def _seen(data: Data, codes: list[npt.NDArray[np.uint8]]) -> _Seen:
    kinds = data.kinds
    if kinds is None:
        alone = np.ones(len(data.rows))
        return _Seen(data.rows, data.group, codes, [alone] * len(codes))
    counts = [np.bincount(kinds.of + one, minlength=len(kinds.rows)) for one in codes]
    return _Seen(
        kinds.rows, kinds.group, [kinds.level] * len(codes), [one.astype(float) for one in counts]
    )


@dataclass(frozen=True, eq=False)
class _Split:
    data: Data
    state: State
    at: int
    seen: _Seen
    chance: np.random.Generator

    def draw(self) -> None:
        """A step on each."""
        state, at = self.state, self.at
        now = self._step_alpha(self._look(state.alpha[:, at], state.tilt[:, at]))
        if not self.data.clustered:
            return
        self._step_tilt(now)
        self._lift()
        # A uniform prior on the standard deviation.
        total = (state.tilt[:, at] ** 2).sum(axis=-1) / 2.0 + 1e-12
        gamma = self.chance.standard_gamma((self.data.groups - 1) / 2.0, len(total))
        state.wide[:, at] = total / gamma

    def _look(self, alpha: Floats, tilt: Floats) -> _Look:
        from sfumato.kernels.sampling.gibbs_splits import look

        data = self.data
        chains, size = alpha.shape
        groups, slope = np.zeros((chains, data.groups, 3)), np.zeros((chains, size))
        square = np.zeros((chains, size, size))
        roles, earlier = data.roles[self.at], data.earlier[self.at]
        seen = self.seen
        for chain, (level, weights) in enumerate(zip(seen.levels, seen.weights, strict=True)):
            look(
                seen.rows, seen.group, level, weights, roles, earlier, alpha[chain], tilt[chain],
                groups[chain], slope[chain], square[chain],
            )  # fmt: skip
        own = precision_before(size)
        value = groups[..., 0].sum(axis=1) - 0.5 * alpha**2 @ own
        square = square + turned(np.tril(square, -1)) + np.diag(own)
        return _Look(value, slope - own * alpha, square, groups)

    def _step_alpha(self, now: _Look) -> _Look:
        state, at = self.state, self.at
        old = state.alpha[:, at].copy()
        new = gaussian(now.square, now.slope + (now.square @ old[..., None])[..., 0], self.chance)
        then = self._look(new, state.tilt[:, at])
        ratio = then.value - now.value + _towards(old, new, then) - _towards(new, old, now)
        taken = np.log(self.chance.random(len(old))) < ratio
        state.alpha[:, at] = np.where(taken[:, None], new, old)
        groups = np.where(taken[:, None, None], then.groups, now.groups)
        return _Look(now.value, now.slope, now.square, groups)

    def _step_tilt(self, now: _Look) -> None:
        """All groups at once; each is taken or left for itself."""
        state, at = self.state, self.at
        old, wide = state.tilt[:, at].copy(), state.wide[:, at, None]
        value, slope, square = _of_groups(now, old, wide)
        normal = self.chance.standard_normal(old.shape)
        new = old + slope / square + normal / np.sqrt(square)
        then = self._look(state.alpha[:, at], new)
        value_new, slope_new, square_new = _of_groups(then, new, wide)
        back = old - new - slope_new / square_new
        ratio = value_new - value + 0.5 * np.log(square_new / square)
        ratio += 0.5 * normal**2 - 0.5 * square_new * back**2
        taken = np.log(self.chance.random(old.shape)) < ratio
        state.tilt[:, at] = np.where(taken, new, old)

    def _lift(self) -> None:
        """Exchange coefficients with group effects, their sum as it is."""
        alpha, tilt = self.state.alpha[:, self.at], self.state.tilt[:, self.at]
        wide, own = self.state.wide[:, self.at], precision_before(alpha.shape[1])
        for c, column in enumerate(self.data.upper.T):
            total = own[c] + column @ column / wide
            pull = (tilt + column * alpha[:, c, None]) @ column / wide
            new = pull / total + self.chance.standard_normal(len(wide)) / np.sqrt(total)
            tilt -= (new - alpha[:, c])[:, None] * column
            alpha[:, c] = new


def precision_before(size: int) -> Floats:
    """Precision of coefficients before the data."""
    return 1.0 / np.where(np.arange(size) == 0, _FIRST_SD, _OTHER_SD) ** 2


def _of_groups(look: _Look, tilt: Floats, wide: Floats) -> tuple[Floats, Floats, Floats]:
    value = look.groups[..., 0] - 0.5 * tilt**2 / wide
    return value, look.groups[..., 1] - tilt / wide, look.groups[..., 2] + 1.0 / wide


def _towards(place: Floats, start: Floats, look: _Look) -> Floats:
    """Log density of proposing `place` from `start`, but for a constant."""
    away = (place - start)[..., None] - np.linalg.solve(look.square, look.slope[..., None])
    determinant = np.linalg.slogdet(look.square)[1]
    made: Floats = 0.5 * (determinant - (turned(away) @ look.square @ away)[:, 0, 0])
    return made
