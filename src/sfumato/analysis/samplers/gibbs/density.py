"""How likely parameters are, with levels summed out as well: for models of one level.

Without groups and without a mixture a record's levels are few terms of a sum, so that nothing
need be drawn but the parameters themselves. They are put in a row of numbers without bounds:
variances by logarithms, a covariance by its lower root, probabilities by log odds. Priors are those
of the Gibbs sampler (`collapsed`), times the Jacobian of that change.
"""

from __future__ import annotations

import numpy as np

from sfumato.analysis.samplers.gibbs.coefficients import FLAT_LEVEL, TINY
from sfumato.analysis.samplers.gibbs.passes import means_of, two_shifted
from sfumato.analysis.samplers.gibbs.random import turned
from sfumato.analysis.samplers.gibbs.splits import precision_before
from sfumato.analysis.samplers.gibbs.state import Data, State
from sfumato.kernels.arrays import Floats

_HALF = 0.5
_EDGE = 80.0
"""A logarithm beyond which nothing is likely, and beyond which numbers would be."""


class Density:
    """Log density of rows of parameters, but for a constant.

    Parameters
    ----------
    data : a model without groups and with one component.
    every : only every so-and-so-many-th record is looked at.
    """

    def __init__(self, data: Data, every: int = 1) -> None:
        self.data = data
        rows = np.ascontiguousarray(data.rows[::every])
        self.rows, self.records = rows, len(rows)
        self.two = two_shifted(data)
        self.columns = np.ascontiguousarray(rows.T) if self.two else np.zeros((0, 0))
        self.place = np.ascontiguousarray(data.place[::every])
        self.cell = np.ascontiguousarray(self.place[:, 1])
        self.counts = np.bincount(self.cell, minlength=data.cells).astype(float)
        self.density = np.ascontiguousarray(data.density[::every])
        self.odds = self.density[:, -1] - self.density[:, 0]
        self.products = rows.T @ rows
        self.below = np.tril_indices(data.numbers)
        self.ends: list[int] = np.cumsum(_sizes(data)).tolist()

    @property
    def size(self) -> int:
        """How many parameters there are."""
        return self.ends[-1]

    @staticmethod
    def size_of(data: Data) -> int:
        """How many there would be."""
        return sum(_sizes(data))

    def parts(self, theta: Floats) -> list[Floats]:
        """Terms, slopes, log residual variance, features, means, the root, and the levels."""
        return np.split(theta, self.ends[:-1], axis=-1)

    def state(self, theta: Floats) -> tuple[State, Floats]:
        """The state of each row, without group effects, and the log Jacobian."""
        data = self.data
        beta, slope, residual, gamma, middle, half, rest = self.parts(theta)
        draws, d, columns = len(theta), data.numbers, data.columns
        root = np.zeros((draws, d, d))
        root[:, self.below[0], self.below[1]] = half
        at = np.arange(d)
        logs = np.clip(root[:, at, at], -_EDGE, _EDGE)
        root[:, at, at] = np.exp(logs)
        residual = np.clip(residual[:, 0], -_EDGE, _EDGE)
        jacobian = residual + logs @ (d + 1.0 - at)
        table = np.zeros((draws, data.cells, data.levels))
        alpha = np.zeros((draws, len(data.roles), columns + data.dummies.shape[1]))
        if data.split:
            alpha = rest.reshape(alpha.shape)
        elif data.levels > 1:
            table[..., 1:] = rest.reshape(draws, data.cells, -1)
            top = table.max(axis=-1, keepdims=True)
            table -= top + np.log(np.exp(table - top).sum(axis=-1, keepdims=True))
            jacobian = jacobian + table.sum(axis=(1, 2))
        state = State(
            beta=beta,
            slope=slope,
            residual=np.exp(residual),
            gamma=gamma.reshape(draws, columns - 1 + data.dummies.shape[1], d),
            middle=middle[:, None],
            spread=(root @ turned(root))[:, None],
            share=np.ones((draws, data.levels, 1)),
            effect=np.zeros((draws, 1, 0)),
            between=np.zeros((draws, 0, 0)),
            shift=np.zeros((draws, 1, 0)),
            among=np.zeros((draws, d, d)),
            table=table,
            alpha=alpha,
            tilt=np.zeros((draws, len(data.roles), 1)),
            wide=np.ones((draws, len(data.roles))),
        )
        return state, jacobian

    def packed(self, state: State) -> Floats:
        """The parameters of a state in a row, for each chain."""
        data = self.data
        draws, at = len(state.beta), np.arange(data.numbers)
        root = np.linalg.cholesky(state.spread[:, 0]) if data.numbers else state.spread[:, 0]
        root[:, at, at] = np.log(root[:, at, at])
        levels = state.alpha if data.split else state.table[..., 1:] - state.table[..., :1]
        parts = (
            state.beta, state.slope, np.log(state.residual), state.gamma, state.middle,
            root[:, self.below[0], self.below[1]], levels,
        )  # fmt: skip
        return np.concatenate([one.reshape(draws, -1) for one in parts], axis=1)

    def unpack(self, state: State, theta: Floats) -> None:
        """Change coefficients and variances of a state, and leave its levels as they are."""
        found = self.state(theta)[0]
        for name in ("beta", "slope", "residual", "gamma", "middle", "spread"):
            setattr(state, name, np.ascontiguousarray(getattr(found, name)))

    def __call__(self, theta: Floats) -> Floats:
        """(draw) log density of (draw, parameter)."""
        state, jacobian = self.state(theta)
        with np.errstate(all="ignore"):
            try:
                found = self._likelihood(state) + self.prior(state) + jacobian
            except np.linalg.LinAlgError:
                # One of them has no inverse: the others are looked at without it.
                if len(theta) == 1:
                    return np.full(1, -np.inf)
                return np.concatenate([self(theta[at : at + 1]) for at in range(len(theta))])
        return np.where(np.isfinite(found), found, -np.inf)

    def prior(self, state: State) -> Floats:
        """Log density before the data."""
        data = self.data
        made = -_HALF * ((state.beta @ data.outcome_prior) * state.beta).sum(axis=-1)
        made -= np.log(state.residual + data.error[-1, -1])
        levels = state.gamma[:, data.columns - 1 :]
        made -= _HALF * FLAT_LEVEL * (levels**2).sum(axis=(1, 2))
        inverses = np.linalg.inv(state.spread[:, 0]) if data.numbers else state.spread[:, 0]
        made -= _HALF * TINY * self.records * np.trace(inverses, axis1=1, axis2=2)
        if data.split:
            own = precision_before(state.alpha.shape[-1])
            return np.asarray(made - _HALF * (state.alpha**2 @ own).sum(axis=-1), np.float64)
        if data.levels > 1:
            made -= _HALF * state.table.sum(axis=(1, 2))
        return np.asarray(made, np.float64)

    def _likelihood(self, state: State) -> Floats:
        from sfumato.kernels.sampling.gibbs_total import total, total_two

        data = self.data
        means = means_of(data, state, two=self.two)
        found = np.zeros(len(state.beta))
        if means.lines is None:
            base, precision, away, constant, lean, splits, later = (
                np.ascontiguousarray(one) for one in _single(means.rest)
            )
            total(
                self.rows, self.place, self.density, state.table, base, precision, away, constant,
                lean, splits, later, data.roles, found,
            )  # fmt: skip
            return found
        # The first level: its density is normal, and cross products say all of it.
        cells, precision = means.cells[:, 0], means.precision[:, 0, 0]
        found -= _HALF * (precision * (cells @ self.products @ turned(cells))).sum(axis=(1, 2))
        found += _HALF * self.records * np.linalg.slogdet(precision)[1]
        lines = np.ascontiguousarray(means.lines[:, 0])
        table = np.zeros((len(found), 1))
        if data.split:
            before = np.zeros_like(lines)
            before[:, : data.columns] = -state.alpha[:, 0, : data.columns]
            without = np.zeros_like(found)
            total_two(self.columns, self.cell, np.zeros(self.records), table, before, without)
            found -= without
        else:
            found += state.table[..., 0] @ self.counts
            table = np.ascontiguousarray(state.table[..., 1] - state.table[..., 0])
        total_two(self.columns, self.cell, self.odds, table, lines, found)
        return found


def _sizes(data: Data) -> list[int]:
    """How many parameters of each kind, in their order."""
    d, columns, extra = data.numbers, data.columns, data.dummies.shape[1]
    odds = data.cells * (data.levels - 1)
    levels = len(data.roles) * (columns + extra) if data.split else odds
    half = d * (d + 1) // 2
    return [data.outcome.shape[1], d, 1, (columns - 1 + extra) * d, d, half, levels]


def _single(rest: tuple[Floats, ...]) -> list[Floats]:
    """What the kernel is told, for the one group and the one component."""
    base, precision, away, constant, lean, splits, later = rest
    return [base[:, 0], precision[:, 0], away[:, 0], constant[:, 0], lean, splits[:, 0], later]
