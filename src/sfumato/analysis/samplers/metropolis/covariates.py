"""The model of true numbers: given clean columns, levels and groups, normal or a mixture.

latent = design @ slopes + effect of the group + residual; the residuals of all numbers of a record
are jointly normal, or a mixture of such. Priors: flat on slopes, of levels normal with ten SD of a
residual; uniform on the covariance of normal residuals; weak and proper on those of a mixture and
on covariances between groups, where the uniform one would not do.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.analysis.samplers.metropolis.chance import (
    Chance,
    covariance_of,
    each_normal_of,
    normal_of,
    one_of,
    sums_by,
)
from sfumato.analysis.samplers.metropolis.coefficients import exchanged
from sfumato.analysis.samplers.metropolis.released import Parts
from sfumato.analysis.samplers.mixture import Mixture
from sfumato.kernels.arrays import Floats, Integers

_RIDGE = 0.01
_WEAK = 0.1
_BETWEEN = 0.02
"""Prior scale of a covariance between groups, as a share of that within."""


class Given:
    """One number given the others: shares, centres and variances of its components."""

    def __init__(self, logs: Floats | None, centres: Floats, variances: Floats) -> None:
        self.logs, self.centres, self.variances = logs, centres, variances

    def parts(self, x: Floats) -> Parts:
        """Log density and derivatives at values."""
        if self.logs is None:
            slope = (self.centres[0] - x) / self.variances[0]
            curve = np.full(len(x), 1 / self.variances[0])
            return Parts(0.5 * (x - self.centres[0]) * slope, slope, curve)
        away = self.centres - x
        slopes = away / self.variances[:, None]
        logs = self.logs - 0.5 * away * slopes
        top = logs.max(axis=0)
        shares = np.exp(logs - top)
        total = shares.sum(axis=0)
        shares /= total
        curve = (1 / self.variances) @ shares
        return Parts(top + np.log(total), (shares * slopes).sum(axis=0), curve)

    def with_noise(self, seen: Floats, variance: Floats | float) -> Each:
        """Given the released value as well; a variance without end says nothing."""
        variances = self.variances[:, None]
        share = variances / (variances + variance)
        away = seen - self.centres
        centres = self.centres + share * away
        left = np.broadcast_to(variances * (1 - share), centres.shape)
        logs = np.zeros_like(centres) if self.logs is None else self.logs.copy()
        logs += 0.5 * np.log(share) - 0.5 * away * away * share / variances - 0.5 * np.log(left)
        return Each(logs, centres, left)


class Each(Given):
    """The same with a variance for each record; its log weights hold what normalises them."""

    def draw(self, chance: Chance) -> Floats:
        """A value for each record."""
        assert self.logs is not None  # noqa: S101 - made so
        at = one_of(self.logs + 0.5 * np.log(self.variances), chance)
        rows = np.arange(self.centres.shape[1])
        spread = np.sqrt(self.variances[at, rows])
        made: Floats = self.centres[at, rows] + spread * chance.standard_normal(len(rows))
        return made

    def mean(self) -> Floats:
        """The mean of each record's value."""
        assert self.logs is not None  # noqa: S101 - made so
        if len(self.centres) == 1:
            return np.array(self.centres[0])
        logs = self.logs + 0.5 * np.log(self.variances)
        weights = np.exp(logs - logs.max(axis=0))
        made: Floats = (weights * self.centres).sum(axis=0) / weights.sum(axis=0)
        return made

    def log(self, x: Floats) -> Floats:
        """Log density at values, up to a constant of each record."""
        assert self.logs is not None  # noqa: S101 - made so
        logs = self.logs - 0.5 * (self.centres - x) ** 2 / self.variances
        top = logs.max(axis=0)
        made: Floats = top + np.log(np.exp(logs - top).sum(axis=0))
        return made


class Covariates:
    """The model and its present values.

    Parameters
    ----------
    clean : (record, column) clean columns of size one, the constant first.
    dummies : how many columns for levels follow.
    numbers : how many numbers there are.
    mixture : first values of the residuals' shape.
    group, groups : of each record, and how many; None where true values do not differ by group.
    shared : places of the clean columns that are constant in groups.
    """

    def __init__(
        self, clean: Floats, dummies: int, numbers: int, mixture: Mixture,
        group: Integers | None, groups: int, shared: list[int],
    ) -> None:  # fmt: skip
        records, columns = clean.shape
        self.design: Floats = np.zeros((records, columns + dummies), order="F")
        self.design[:, :columns] = clean
        self.first = columns
        self.slopes: Floats = np.zeros((columns + dummies, numbers))
        self.shares, self.means = mixture.shares.copy(), mixture.means.copy()
        if len(mixture.shares) == 1:
            # The constant among the columns is the mean; a second one would never be drawn.
            self.means[:] = 0.0
        self.covariances = mixture.covariances.copy()
        self.group, self.groups, self.shared = group, groups, shared
        self.effect: Floats = np.zeros((groups, numbers))
        whole = _whole(mixture)
        self.between = _WEAK * whole
        self.scale = _WEAK * np.diag(np.diag(whole))
        self.between_scale = _BETWEEN * np.diag(np.diag(whole))
        if group is not None:
            rows = np.array([np.flatnonzero(group == g)[0] for g in range(groups)])
            self.upper = clean[rows][:, shared]

    @property
    def components(self) -> int:
        """How many normal ones there are."""
        return len(self.shares)

    def centre(self) -> Floats:
        """(record, number) where each is expected, residuals' means apart."""
        made = self.design @ self.slopes
        if self.group is not None:
            made += self.effect[self.group]
        return made

    def log_components(self, residual: Floats) -> Floats:
        """(component, record) log shares and densities of residuals."""
        made = np.empty((self.components, len(residual)))
        for k in range(self.components):
            lower = np.linalg.cholesky(self.covariances[k])
            z = np.linalg.solve(lower, (residual - self.means[k]).T)
            made[k] = math.log(self.shares[k]) - np.log(np.diag(lower)).sum()
            made[k] -= 0.5 * np.einsum("jn,jn->n", z, z)
        return made

    def log(self, residual: Floats) -> Floats:
        """Log density of residuals, components summed over."""
        logs = self.log_components(residual)
        top: Floats = logs.max(axis=0)
        if len(logs) > 1:
            top = top + np.log(np.exp(logs - top).sum(axis=0))
        return top

    def given(self, place: int, residual: Floats, centre: Floats) -> Given:
        """The distribution of one number, given the others of the record.

        Parameters
        ----------
        place : of the number.
        residual : (record, number) of all.
        centre : where the number is expected.
        """
        count, size = self.components, residual.shape[1]
        if count == size == 1:
            return Given(None, centre[None], self.covariances[0, 0])
        others = [at for at in range(size) if at != place]
        centres, logs = np.empty((count, len(residual))), np.empty((count, len(residual)))
        variances = np.empty(count)
        for k in range(count):
            whole, mean = self.covariances[k], self.means[k]
            variances[k] = whole[place, place]
            centres[k] = centre + mean[place]
            logs[k] = math.log(self.shares[k])
            if others:
                block = whole[np.ix_(others, others)]
                follow = np.linalg.solve(block, whole[others, place])
                variances[k] -= whole[place, others] @ follow
                away = residual[:, others] - mean[others]
                centres[k] += away @ follow
                if count > 1:
                    lower = np.linalg.cholesky(block)
                    z = np.linalg.solve(lower, away.T)
                    logs[k] -= 0.5 * np.einsum("jn,jn->n", z, z) + np.log(np.diag(lower)).sum()
            logs[k] -= 0.5 * math.log(variances[k])
        return Given(logs if count > 1 else None, centres, variances)

    @property
    def theta(self) -> Floats:
        """Slopes and log variance of one number with normal residuals; else nothing."""
        if self.components > 1 or self.slopes.shape[1] != 1:
            return np.zeros(0)
        return np.append(self.slopes[:, 0], np.log(self.covariances[0, 0, 0]))

    @theta.setter
    def theta(self, values: Floats) -> None:
        if len(values):
            self.slopes = values[:-1, None].copy()
            self.covariances = np.exp(values[-1:, None, None])

    def log_prior(self, records: int) -> float:
        """Log density of `theta`, and what of the residuals' density does not depend on them."""
        if not len(self.theta):
            return 0.0
        ridge = _RIDGE * _WEAK / self.scale[0, 0]
        made = (1 - 0.5 * records) * np.log(self.covariances[0, 0, 0])
        return float(made - 0.5 * ridge * (self.slopes[self.first :, 0] ** 2).sum())

    def update(self, latent: Floats, chance: Chance) -> None:
        """Draw all its parameters, given latent values."""
        residual = latent - self.centre()
        count = self.components
        label = np.zeros(len(latent), np.int64)
        if count > 1:
            label = one_of(self.log_components(residual), chance)
            sizes = np.bincount(label, minlength=count)
            # A share of nought would have no logarithm.
            self.shares = np.maximum(chance.dirichlet(1.0 + sizes), 1e-12)
        self._spread(residual, label, chance)
        self._slope(latent, label, chance)
        if self.group is not None:
            self._effects(latent, label, chance)

    def _spread(self, residual: Floats, label: Integers, chance: Chance) -> None:
        size = residual.shape[1]
        if self.components == 1:
            squares = residual.T @ residual
            self.covariances[0] = covariance_of(len(residual) - size - 1, squares, chance)
            return
        for k in range(self.components):
            own = residual[label == k]
            inner = np.linalg.inv(self.covariances[k])
            # Its mean before the data: nought, give or take ten SD of the whole.
            prior = np.linalg.inv(100 * self.scale / _WEAK)
            self.means[k] = normal_of(len(own) * inner + prior, inner @ own.sum(axis=0), chance)
            away = own - self.means[k]
            freedom = len(own) + size + 1
            self.covariances[k] = covariance_of(freedom, self.scale + away.T @ away, chance)

    def _slope(self, latent: Floats, label: Integers, chance: Chance) -> None:
        target = latent if self.group is None else latent - self.effect[self.group]
        columns, size = self.slopes.shape
        precision, right = np.zeros((columns * size, columns * size)), np.zeros((columns, size))
        # Clean columns are there whatever is drawn; a level may have no record for a while.
        ridge = np.diag(np.repeat([0.0, _RIDGE], [self.first, columns - self.first]))
        precision += np.kron(ridge, _WEAK * np.linalg.inv(self.scale))
        for k in range(self.components):
            own = slice(None) if self.components == 1 else label == k
            design = self.design[own]
            inner = np.linalg.inv(self.covariances[k])
            precision += np.kron(design.T @ design, inner)
            right += design.T @ ((target[own] - self.means[k]) @ inner)
        self.slopes = normal_of(precision, right.reshape(-1), chance).reshape(columns, size)

    def _effects(self, latent: Floats, label: Integers, chance: Chance) -> None:
        assert self.group is not None  # noqa: S101 - asked before
        away = latent - self.design @ self.slopes
        precision = np.zeros((self.groups, *self.between.shape)) + np.linalg.inv(self.between)
        right = np.zeros(self.effect.shape)
        for k in range(self.components):
            inner = np.linalg.inv(self.covariances[k])
            own = (label == k).astype(float)
            precision += np.bincount(self.group, own, self.groups)[:, None, None] * inner
            right += sums_by(self.group, self.groups, (away - self.means[k]) * own[:, None]) @ inner
        self.effect, _ = each_normal_of(precision, right, chance)
        for at in range(self.effect.shape[1]):
            moved = exchanged(self.effect, self.between, at, self.upper, chance)
            self.slopes[self.shared, at] += moved
        squares = self.between_scale + self.effect.T @ self.effect
        self.between = covariance_of(self.groups + self.effect.shape[1] + 1, squares, chance)


def _whole(mixture: Mixture) -> Floats:
    """The covariance of all residuals."""
    centre = mixture.shares @ mixture.means
    away = mixture.means - centre
    made: Floats = np.einsum("k,kij->ij", mixture.shares, mixture.covariances)
    return made + (away * mixture.shares[:, None]).T @ away
