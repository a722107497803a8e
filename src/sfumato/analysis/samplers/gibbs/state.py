"""The arrays of the chains: what stays as it is, and what is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import Floats, Integers


@dataclass(frozen=True, eq=False)
class Kinds:
    """Records that have clean columns and group in common, once for each level.

    Parameters
    ----------
    rows, group, level : of each kind.
    of : (record) the place of its kind with the first level; others follow.
    """

    rows: Floats
    group: Integers
    level: npt.NDArray[np.uint8]
    of: Integers


@dataclass(frozen=True, eq=False, kw_only=True)
class Data:
    """What stays as it is while chains run.

    A cell is a component, a pattern of missing values and a level. Its records have the same
    distribution, but for clean columns and groups.

    Parameters
    ----------
    rows : (record, column) a basis of all clean columns (the first is 1, those constant in groups
        come next), the released numbers and the outcome; 0 where missing.
    columns, numbers : how many clean columns and numbers.
    place : (record, 3) pattern of missing values, row of the table of level probabilities, group.
    present : (pattern, number) 1 or 0.
    density : (record, level) log density of what was released of the categories.
    roles, earlier : (split, level), (split, level, dummy): see `collapsed_splits`.
    dummies : (level, dummy) of the categories, for the model of the numbers.
    starts : records are ordered by group; group g is starts[g]:starts[g + 1].
    random : (effect, column) the columns whose coefficients differ by group.
    outcome : (level, term, column) the terms without numbers, as combinations of clean columns.
    outcome_prior : precision of their coefficients before the data.
    error : covariance of the noise of the numbers and the outcome.
    lifts : directions in which coefficients and group effects can be exchanged: which effect,
        (group) and (term).
    upper : (group, column) the clean columns that are constant in groups.
    prior : precision of components' means, and scale of their covariances, before the data.
    ways : how many components.
    cells : rows of the table.
    clustered, split, interacting : whether numbers differ by group; whether levels follow splits;
        whether levels interact with clean columns.
    steps : on the coefficients for each pass.
    kinds : where splits are needed and many records are alike in all that these look at.
    """

    rows: Floats
    columns: int
    numbers: int
    place: Integers
    present: Floats
    density: Floats
    roles: Integers
    earlier: Floats
    dummies: Floats
    starts: Integers
    random: Floats
    outcome: Floats
    outcome_prior: Floats
    error: Floats
    lifts: list[tuple[int, Floats, Floats]]
    upper: Floats
    prior: Floats
    ways: int
    cells: int
    clustered: bool
    split: bool
    interacting: bool
    steps: int
    kinds: Kinds | None = None
    group: Integers = field(init=False)
    component: Integers = field(init=False)
    pattern: Integers = field(init=False)
    level: Integers = field(init=False)

    def __post_init__(self) -> None:
        """Component, pattern and level of each cell; the group of each record."""
        object.__setattr__(self, "group", np.ascontiguousarray(self.place[:, 2]))
        shape = (self.ways, len(self.present), self.levels)
        names = ("component", "pattern", "level")
        for name, found in zip(names, np.indices(shape).reshape(3, -1), strict=True):
            object.__setattr__(self, name, found)

    @property
    def levels(self) -> int:
        """How many joint levels."""
        return len(self.outcome)

    @property
    def groups(self) -> int:
        """How many groups; 1 where there are none."""
        return len(self.starts) - 1

    @property
    def front(self) -> int:
        """How many effects of a group are on numbers."""
        return self.numbers if self.clustered else 0

    @property
    def effects(self) -> int:
        """How many effects a group has: on numbers, then on the outcome."""
        return self.front + len(self.random)


@dataclass(eq=False, kw_only=True)
class State:
    """What is drawn; the first axis is the chain.

    Parameters
    ----------
    beta, slope, residual : coefficients of the terms without numbers, of the numbers, and the
        residual variance.
    gamma : (feature, number) of the model of the numbers: clean columns but the first, dummies.
    middle, spread : mean and covariance of each component.
    share : (level, component).
    effect, between : (group, column) effects on the outcome, and their covariance.
    shift, among : the same for the numbers.
    table : (cell, level) log probabilities.
    alpha, tilt, wide : (split, feature), (split, group), (split): see `collapsed_splits`.
    """

    beta: Floats
    slope: Floats
    residual: Floats
    gamma: Floats
    middle: Floats
    spread: Floats
    share: Floats
    effect: Floats
    between: Floats
    shift: Floats
    among: Floats
    table: Floats
    alpha: Floats
    tilt: Floats
    wide: Floats


def joint(state: State) -> Floats:
    """(chain, component): the covariance of true numbers and outcome, within a group."""
    d = state.slope.shape[1]
    made = np.empty((*state.spread.shape[:2], d + 1, d + 1))
    along = state.spread @ state.slope[:, None, :, None]
    made[..., :d, :d] = state.spread
    made[..., :d, d:] = along
    made[..., d, :d] = along[..., 0]
    made[..., d, d] = state.residual[:, None] + (state.slope[:, None] * along[..., 0]).sum(axis=-1)
    return made


def covariance_seen(data: Data, whole: Floats) -> Floats:
    """(chain, component, pattern): that of what was seen; what is missing stands alone."""
    both = data.present[:, :, None] * data.present[:, None, :]
    alone = np.eye(both.shape[1]) * (1.0 - data.present)[:, None, :]
    made: Floats = (whole[:, :, None] + data.error) * both + alone
    return made


def cell_means(data: Data, state: State) -> Floats:
    """(chain, cell, value, column): means of true numbers and outcome, but for group effects."""
    columns, d = data.columns, data.numbers
    chains = len(state.beta)
    made = np.zeros((chains, len(data.level), d + 1, columns))
    shifts = data.dummies @ state.gamma[:, columns - 1 :]
    made[..., :d, 0] = state.middle[:, data.component] + shifts[:, data.level]
    made[..., :d, 1:] = np.swapaxes(state.gamma[:, : columns - 1], 1, 2)[:, None]
    levels, terms, _ = data.outcome.shape
    flat = data.outcome.transpose(1, 0, 2).reshape(terms, levels * columns)
    own = (state.beta @ flat).reshape(chains, levels, columns)
    made[..., d, :] = own[:, data.level]
    made[..., d, :] += (state.slope[:, None, None, :] @ made[..., :d, :])[..., 0, :]
    return made
