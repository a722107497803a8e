"""The model of true predictors: numbers given clean columns, levels and groups; levels likewise.

Numbers: latent = design @ slopes + effect of the group + spread * residual; the residuals of all
numbers of a record are jointly normal, or a mixture of such, whose shares may differ by stratum.
The log of the spread is linear in clean columns, where there are any (`analysis.exposure`). Priors:
flat on slopes, of levels normal with ten SD of a residual; normal with SD 1 on the slopes of the
log spread, for columns of size one; uniform on the covariance of normal residuals; weak and proper
on those of a mixture and on covariances between groups, where the uniform one would not do.

Categories: the level of a record given its clean columns, earlier categories and its group is a
multinomial logit. Its coefficients have a normal prior of SD 5 on columns of size one, so that
levels that hardly occur have a distribution; they are drawn level by level with a weighted
least-squares proposal, random effects of groups likewise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.analysis.problem import Category, Exposure
from sfumato.analysis.samplers.metropolis.coefficients import (
    Generator,
    Likelihood,
    draw_category,
    draw_inverse_wishart,
    draw_normal,
    draw_normals,
    exchange_effects,
    step_coefficients,
    step_effects,
    sum_by_group,
)
from sfumato.analysis.samplers.metropolis.likelihood import LogDensity, binomial_likelihood
from sfumato.analysis.samplers.mixture import Mixture
from sfumato.kernels.arrays import Floats, Integers

_RIDGE = 0.01
_WEAK = 0.1
_OWN, _FAR = 0.3, 1.5
"""Of a component, as shares of all residuals: the prior scale of its covariance, and the prior SD
of its mean. A component that may lie anywhere would stay away once it has no record, and one that
may be as narrow as it likes would close in on a single record and hold it."""
_BETWEEN = 0.02
"""Prior scale of a covariance between groups, as a share of that within."""
_LOGIT_PRECISION = 0.04
_LOGIT_BETWEEN = 0.05
"""Prior scale of the variance between groups of a level's log odds; its shape is 1."""


class ConditionalMixture:
    """One number given the others: log shares, centres and variances of its components."""

    def __init__(self, logs: Floats | None, centres: Floats, variances: Floats) -> None:
        self.logs, self.centres = logs, centres
        # (component, record), or one for all records.
        self.variances = variances if variances.ndim > 1 else variances[:, None]

    def evaluate(self, x: Floats) -> LogDensity:
        """Log density and derivatives at values."""
        if self.logs is None:
            precision = np.broadcast_to(1 / self.variances[0], x.shape)
            gradient = (self.centres[0] - x) * precision
            log = 0.5 * (x - self.centres[0]) * gradient
            return LogDensity(log, gradient, precision.copy())
        distance = self.centres - x
        gradients = distance / self.variances
        logs = self.logs - 0.5 * distance * gradients
        top = logs.max(axis=0)
        shares = np.exp(logs - top)
        total = shares.sum(axis=0)
        shares /= total
        # Without the variance of the gradients between components it stays positive.
        curvature = (shares / self.variances).sum(axis=0)
        return LogDensity(top + np.log(total), (shares * gradients).sum(axis=0), curvature)

    def with_noise(self, released: Floats, variance: Floats | float) -> RecordMixture:
        """Given the released value as well; an infinite variance says nothing."""
        variances = self.variances
        # The reliability: x | released has mean μ + reliability (released - μ).
        reliability = variances / (variances + variance)
        distance = released - self.centres
        centres = self.centres + reliability * distance
        remaining = np.broadcast_to(variances * (1 - reliability), centres.shape)
        logs = np.zeros_like(centres) if self.logs is None else self.logs.copy()
        square = distance * distance * reliability / variances
        logs += 0.5 * np.log(reliability) - 0.5 * square - 0.5 * np.log(remaining)
        return RecordMixture(logs, centres, remaining)


class RecordMixture:
    """A mixture for each record, with its own variances; the log weights hold what normalises them.

    Parameters
    ----------
    logs, centres, variances : (component, record).
    """

    def __init__(self, logs: Floats, centres: Floats, variances: Floats) -> None:
        self.logs, self.centres, self.variances = logs, centres, variances

    def draw(self, rng: Generator) -> Floats:
        """A value for each record."""
        component = draw_category(self.logs + 0.5 * np.log(self.variances), rng)
        rows = np.arange(self.centres.shape[1])
        sd = np.sqrt(self.variances[component, rows])
        values: Floats = self.centres[component, rows] + sd * rng.standard_normal(len(rows))
        return values

    def mean(self) -> Floats:
        """The mean of each record's value."""
        if len(self.centres) == 1:
            return np.array(self.centres[0])
        logs = self.logs + 0.5 * np.log(self.variances)
        weights = np.exp(logs - logs.max(axis=0))
        mean: Floats = (weights * self.centres).sum(axis=0) / weights.sum(axis=0)
        return mean

    def log(self, x: Floats) -> Floats:
        """Log density at values, up to a constant of each record."""
        return log_sum_exp(self.logs - 0.5 * (self.centres - x) ** 2 / self.variances)


def log_sum_exp(logs: Floats) -> Floats:
    """The log of the sum of exponentials, over the first axis."""
    top = logs.max(axis=0)
    total: Floats = top + np.log(np.exp(logs - top).sum(axis=0))
    return total


@dataclass(eq=False)
class FurtherEffects:
    """Effects of a further grouping factor on true values, and their covariance."""

    group: Integers
    effects: Floats
    between: Floats

    @classmethod
    def begin(cls, group: Integers, numbers: int, between: Floats) -> FurtherEffects:
        """At first effects are zero."""
        return cls(group, np.zeros((int(group.max()) + 1, numbers)), between.copy())


class NumberModel:
    """The model of the numbers and its present parameters.

    Parameters
    ----------
    clean : (record, column) clean columns of size one, the constant first.
    dummies : how many columns for levels follow.
    numbers : how many numbers there are.
    mixture : first values of the residuals' shape.
    group, groups : of each record, and how many; None where true values do not differ by group.
    shared : indices of the clean columns that are constant in groups.
    exposure : the clean columns and strata by which spread and shape differ.
    spread_slopes : first values of the slopes of the log spread.
    more : the groups of further grouping factors, of each record.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - a model has as many parts
        self, clean: Floats, dummies: int, numbers: int, mixture: Mixture,
        group: Integers | None, groups: int, shared: list[int],
        exposure: Exposure | None = None, spread_slopes: Floats | None = None,
        more: Sequence[Integers] = (),
    ) -> None:  # fmt: skip
        records, columns = clean.shape
        self.design: Floats = np.zeros((records, columns + dummies), order="F")
        self.design[:, :columns] = clean
        self.first_level = columns
        self.slopes: Floats = np.zeros((columns + dummies, numbers))
        self.means = mixture.means.copy()
        stratum = None if exposure is None else exposure.stratum
        self.stratum = np.zeros(records, np.int64) if stratum is None else stratum
        self.shares: Floats = np.tile(mixture.shares, (int(self.stratum.max(initial=0)) + 1, 1))
        """(stratum, component)."""
        self.spread_columns = np.zeros((records, 0)) if exposure is None else exposure.spread
        self.spread_slopes: Floats = np.zeros((self.spread_columns.shape[1], numbers))
        if spread_slopes is not None:
            self.spread_slopes[:] = spread_slopes
        if len(mixture.shares) == 1:
            # The constant among the columns is the mean; a second one would never be drawn.
            self.means[:] = 0.0
        self.covariances = mixture.covariances.copy()
        self.group, self.groups, self.shared = group, groups, shared
        self.effects: Floats = np.zeros((groups, numbers))
        total = _total_covariance(mixture)
        self.between = _WEAK * total
        self.total = np.diag(np.diag(total))
        self.between_scale = _BETWEEN * np.diag(np.diag(total))
        if group is not None:
            rows = np.array([np.flatnonzero(group == g)[0] for g in range(groups)])
            self.group_columns = clean[rows][:, shared]
        self.more = [FurtherEffects.begin(factor, numbers, self.between) for factor in more]

    @property
    def components(self) -> int:
        """How many normal components there are."""
        return len(self.means)

    @property
    def spread(self) -> Floats:
        """(record, number), or one for all: what residuals are multiplied by."""
        if not len(self.spread_slopes):
            return np.ones((1, self.slopes.shape[1]))
        spread: Floats = np.exp(np.clip(self.spread_columns @ self.spread_slopes, -20, 20))
        return spread

    def log_shares(self, component: int) -> Floats:
        """Of one component: one for all records, or one for each."""
        logs: Floats = np.log(self.shares[:, component])
        return logs[:1] if len(logs) == 1 else logs[self.stratum]

    def centre(self) -> Floats:
        """(record, number) where each is expected, residuals' means apart."""
        centre = self.design @ self.slopes
        if self.group is not None:
            centre += self.effects[self.group]
        for factor in self.more:
            centre += factor.effects[factor.group]
        return centre

    def log_components(self, residual: Floats) -> Floats:
        """(component, record) log shares and densities of residuals over the spread."""
        if residual.shape[1] == 1:
            variances = self.covariances[:, :, 0]
            shares = np.log(self.shares).T
            shares = shares if shares.shape[1] == 1 else shares[:, self.stratum]
            square = (residual[:, 0] - self.means) ** 2 / variances
            return np.asarray(shares - 0.5 * (np.log(variances) + square))
        logs = np.empty((self.components, len(residual)))
        for k in range(self.components):
            lower = np.linalg.cholesky(self.covariances[k])
            z = np.linalg.solve(lower, (residual - self.means[k]).T)
            logs[k] = self.log_shares(k) - np.log(np.diag(lower)).sum()
            logs[k] -= 0.5 * np.einsum("jn,jn->n", z, z)
        return logs

    def log(self, residual: Floats) -> Floats:
        """Log density of residuals, components summed over, up to a constant of each record."""
        logs = self.log_components(residual / self.spread)
        return log_sum_exp(logs) if len(logs) > 1 else logs[0]

    def condition(self, number: int, latent: Floats) -> ConditionalMixture:
        """The distribution of one number, given the others of the record (record, number)."""
        means, spread = self.centre(), self.spread
        centre, own_spread = means[:, number], spread[:, number]
        residual = (latent - means) / spread
        count, size = self.components, residual.shape[1]
        if count == size == 1:
            return ConditionalMixture(None, centre[None], self.covariances[0] * own_spread**2)
        if size == 1:
            # What a residual of zero has: shares and variances of all components at once.
            variances = self.covariances[:, :, 0]
            logs = np.log(self.shares).T - 0.5 * np.log(variances)
            logs = logs if logs.shape[1] == 1 else logs[:, self.stratum]
            logs = np.broadcast_to(logs - np.log(own_spread), (count, len(residual)))
            return ConditionalMixture(
                logs, centre + own_spread * self.means, variances * own_spread**2
            )
        others = [index for index in range(size) if index != number]
        centres, logs = np.empty((count, len(residual))), np.empty((count, len(residual)))
        variances = np.empty(count)
        for k in range(count):
            covariance, mean = self.covariances[k], self.means[k]
            variances[k] = covariance[number, number]
            centres[k] = mean[number]
            logs[k] = self.log_shares(k)
            if others:
                # x₁ | x₂ ~ N(μ₁ + Σ₁₂ Σ₂₂⁻¹ (x₂ - μ₂), Σ₁₁ - Σ₁₂ Σ₂₂⁻¹ Σ₂₁).
                block = covariance[np.ix_(others, others)]
                regression = np.linalg.solve(block, covariance[others, number])
                variances[k] -= covariance[number, others] @ regression
                distance = residual[:, others] - mean[others]
                centres[k] += distance @ regression
                if count > 1:
                    lower = np.linalg.cholesky(block)
                    z = np.linalg.solve(lower, distance.T)
                    logs[k] -= 0.5 * np.einsum("jn,jn->n", z, z) + np.log(np.diag(lower)).sum()
            logs[k] -= 0.5 * math.log(variances[k])
        logs -= np.log(own_spread)
        return ConditionalMixture(
            logs if count > 1 else None,
            centre + own_spread * centres,
            variances[:, None] * own_spread**2,
        )

    def simulate(self, rng: Generator) -> Floats:
        """(record, number) true numbers that the model, as it is now, would have."""
        logs = np.log(self.shares).T
        label = draw_category(logs[:, self.stratum], rng)
        z = rng.standard_normal((len(label), self.means.shape[1]))
        residual = self.means[label]
        residual += np.einsum("nij,nj->ni", np.linalg.cholesky(self.covariances)[label], z)
        return self.centre() + self.spread * residual

    @property
    def theta(self) -> Floats:
        """Slopes, slopes of the log spread and log variance of a single normal number; else none.

        Means of components hold the slopes in place, and their shares the spread: with a mixture
        as it is, hardly any other slopes would be likely.
        """
        if self.slopes.shape[1] != 1 or self.components > 1:
            return np.zeros(0)
        log_variance = np.log(self.covariances[0, 0])
        return np.concatenate([self.slopes[:, 0], self.spread_slopes[:, 0], log_variance])

    @theta.setter
    def theta(self, values: Floats) -> None:
        if len(values):
            columns = len(self.slopes)
            self.slopes = values[:columns, None].copy()
            self.spread_slopes = values[columns:-1, None].copy()
            self.covariances = np.exp(values[-1:, None, None])

    def log_prior(self, records: int) -> float:
        """Log density of `theta`, and what of the residuals' density does not depend on them."""
        if not len(self.theta):
            return 0.0
        ridge = _RIDGE / self.total[0, 0]
        log = (1 - 0.5 * records) * float(self.theta[-1])
        log -= float((self.spread_columns @ self.spread_slopes).sum())
        log -= 0.5 * float((self.spread_slopes**2).sum())
        slopes = float((self.slopes[self.first_level :, 0] ** 2).sum())
        return log - 0.5 * float(ridge) * slopes

    def regress(self, latent: Floats) -> None:
        """First slopes by least squares, without which residuals would lie far from all components.

        Then the widest one would take all records in the first pass, and the others, left without
        any, would not get one back.
        """
        self.slopes[:] = np.linalg.lstsq(self.design, latent, rcond=None)[0]

    def update(self, latent: Floats, rng: Generator) -> None:
        """Draw all its parameters from their full conditionals, given latent values."""
        residual = latent - self.centre()
        for number in range(residual.shape[1] if len(self.spread_slopes) else 0):
            self._step_spread(residual, number, rng)
        residual = residual / self.spread
        label = np.zeros(len(latent), np.int64)
        if self.components > 1:
            label = draw_category(self.log_components(residual), rng)
            for stratum in range(len(self.shares)):
                members = label[self.stratum == stratum] if len(self.shares) > 1 else label
                sizes = np.bincount(members, minlength=self.components)
                # A share of zero would have no logarithm.
                self.shares[stratum] = np.maximum(rng.dirichlet(1.0 + sizes), 1e-12)
        self._draw_components(residual, label, rng)
        self._draw_slopes(latent, label, rng)
        if self.group is not None:
            self._draw_effects(latent, label, rng)

    def _step_spread(self, residual: Floats, number: int, rng: Generator) -> None:
        """Step the slopes of one number's log spread, components summed over.

        A Langevin step, preconditioned by what residuals say of the slopes: as if they were normal,
        or, half of the time, as if components were known, which is more if they lie far apart.
        """
        columns = self.spread_columns
        total = self._total_covariance()
        information = 1 + np.linalg.inv(total)[number, number] * total[number, number]
        if self.components > 1 and rng.uniform() < 1 / 2:
            precisions = np.linalg.inv(self.covariances)[:, number, number]
            squares = self.means[:, number] ** 2 + self.covariances[:, number, number]
            information = 1 + float(self.shares.mean(axis=0) @ (precisions * squares))
        precision = information * columns.T @ columns + np.eye(columns.shape[1])
        lower = np.linalg.cholesky(precision)
        present = self.spread_slopes[:, number].copy()

        def evaluate(slopes: Floats) -> tuple[float, Floats]:
            """The log density, and where a Newton step leads to."""
            self.spread_slopes[:, number] = slopes
            scaled = residual / self.spread
            logs = self.log_components(scaled)
            top = logs.max(axis=0)
            weights = np.exp(logs - top)
            sums = weights.sum(axis=0)
            slope = np.zeros(len(scaled))
            for k, inverse in enumerate(np.linalg.inv(self.covariances)):
                pull = (scaled - self.means[k]) @ inverse[:, number]
                slope += weights[k] / sums * pull
            log = (top + np.log(sums) - columns @ slopes).sum() - 0.5 * slopes @ slopes
            gradient = columns.T @ (slope * scaled[:, number] - 1) - slopes
            step = np.linalg.solve(lower.T, np.linalg.solve(lower, gradient))
            return float(log), slopes + step

        log_here, centre_here = evaluate(present)
        z = rng.standard_normal(len(present))
        proposed = centre_here + np.linalg.solve(lower.T, z)
        log_there, centre_there = evaluate(proposed)
        back = lower.T @ (present - centre_there)
        log_ratio = log_there - log_here + 0.5 * float(z @ z - back @ back)
        accepted = math.log(rng.uniform()) < log_ratio
        self.spread_slopes[:, number] = proposed if accepted else present

    def _total_covariance(self) -> Floats:
        """The covariance of residuals over the spread, within and between components."""
        shares = self.shares.mean(axis=0)
        return _total_covariance(Mixture(shares, self.means, self.covariances, 0.0))

    def _draw_components(self, residual: Floats, label: Integers, rng: Generator) -> None:
        size = residual.shape[1]
        if self.components == 1:
            squares = residual.T @ residual
            self.covariances[0] = draw_inverse_wishart(len(residual) - size - 1, squares, rng)
            return
        for k in range(self.components):
            members = residual[label == k]
            inverse = np.linalg.inv(self.covariances[k])
            prior = np.linalg.inv(_FAR**2 * self.total)
            right = inverse @ members.sum(axis=0)
            self.means[k] = draw_normal(len(members) * inverse + prior, right, rng)
            distance = members - self.means[k]
            squares = _OWN * self.total + distance.T @ distance
            self.covariances[k] = draw_inverse_wishart(len(members) + size + 1, squares, rng)

    def _draw_slopes(self, latent: Floats, label: Integers, rng: Generator) -> None:
        target = latent if self.group is None else latent - self.effects[self.group]
        for factor in self.more:
            target = target - factor.effects[factor.group]
        columns, size = self.slopes.shape
        precision, right = np.zeros((columns * size, columns * size)), np.zeros((columns, size))
        # Clean columns are there whatever is drawn; a level may have no record for a while.
        ridge = np.diag(np.repeat([0.0, _RIDGE], [self.first_level, columns - self.first_level]))
        # Slopes of all numbers at once, as in seemingly unrelated regressions: X'X ⊗ Σ⁻¹.
        precision += np.kron(ridge, np.linalg.inv(self.total))
        spread = self.spread
        for k in range(self.components):
            members = slice(None) if self.components == 1 else label == k
            design = self.design[members]
            inverse = np.linalg.inv(self.covariances[k])
            if len(spread) == 1:
                precision += np.kron(design.T @ design, inverse)
                right += design.T @ ((target[members] - self.means[k]) @ inverse)
                continue
            member_spread = spread[members]
            # A record has the precision S⁻¹ Σ⁻¹ S⁻¹, where S has its spreads on the diagonal.
            blocks = precision.reshape(columns, size, columns, size)
            for a in range(size):
                for b in range(size):
                    weight = inverse[a, b] / (member_spread[:, a] * member_spread[:, b])
                    blocks[:, a, :, b] += design.T @ (design * weight[:, None])
            right += design.T @ (
                (target[members] / member_spread - self.means[k]) @ inverse / member_spread
            )
        self.slopes = draw_normal(precision, right.reshape(-1), rng).reshape(columns, size)

    def _draw_effects(self, latent: Floats, label: Integers, rng: Generator) -> None:
        assert self.group is not None  # noqa: S101 - asked before
        residual = latent - self.centre() + self.effects[self.group]
        self.effects = self._draw_group_effects(residual, label, self.group, self.between, rng)
        for number in range(self.effects.shape[1]):
            amount = exchange_effects(self.effects, self.between, number, self.group_columns, rng)
            self.slopes[self.shared, number] += amount
        self.between = self._draw_between(self.effects, rng)
        for factor in self.more:
            residual = latent - self.centre() + factor.effects[factor.group]
            factor.effects = self._draw_group_effects(
                residual, label, factor.group, factor.between, rng
            )
            constant = np.ones((len(factor.effects), 1))
            for number in range(self.effects.shape[1]):
                amount = exchange_effects(factor.effects, factor.between, number, constant, rng)
                self.slopes[:1, number] += amount
            factor.between = self._draw_between(factor.effects, rng)

    def _draw_group_effects(
        self, residual: Floats, label: Integers, group: Integers, between: Floats, rng: Generator
    ) -> Floats:
        """Effects of a group are normal with precision B⁻¹ + Σ nₖ Σₖ⁻¹."""
        groups = int(group.max()) + 1
        precision = np.zeros((groups, *between.shape)) + np.linalg.inv(between)
        right = np.zeros((groups, len(between)))
        for k in range(self.components):
            inverse = np.linalg.inv(self.covariances[k])
            member = (label == k).astype(float)
            # S⁻¹ Σ⁻¹ S⁻¹ of each record, S its spreads.
            inverse_spread = np.broadcast_to(1 / self.spread, residual.shape) * member[:, None]
            outer = inverse_spread[:, :, None] * inverse_spread[:, None, :]
            precision += sum_by_group(group, groups, outer) * inverse
            weighted = (residual * inverse_spread - member[:, None] * self.means[k]) @ inverse
            right += sum_by_group(group, groups, weighted * inverse_spread)
        return draw_normals(precision, right, rng)[0]

    def _draw_between(self, effects: Floats, rng: Generator) -> Floats:
        squares = self.between_scale + effects.T @ effects
        return draw_inverse_wishart(len(effects) + effects.shape[1] + 1, squares, rng)


def _total_covariance(mixture: Mixture) -> Floats:
    """The covariance of all residuals, within and between components."""
    distance = mixture.means - mixture.shares @ mixture.means
    within: Floats = np.einsum("k,kij->ij", mixture.shares, mixture.covariances)
    return within + (distance * mixture.shares[:, None]).T @ distance


class LevelModel:
    """The multinomial logit of the levels of one category.

    Parameters
    ----------
    category : the category.
    clean : (record, column) clean columns of size one, the constant first.
    earlier : how many columns for levels of earlier categories follow.
    group, groups : of each record, and how many; None where levels do not differ by group.
    more : the groups of further grouping factors, of each record.
    """

    def __init__(
        self, category: Category, clean: Floats, earlier: int, group: Integers | None, groups: int,
        more: Sequence[Integers] = (),
    ) -> None:  # fmt: skip
        self.released_logs = np.ascontiguousarray(category.density.T)
        """(level, record) log probability of what was released."""
        self.count = len(category.levels)
        self.offset = earlier
        records, self.first_level = clean.shape
        self.design: Floats = np.zeros((records, self.first_level + earlier), order="F")
        self.design[:, : self.first_level] = clean
        self.slopes: Floats = np.zeros((self.count - 1, self.design.shape[1]))
        self.group, self.groups = group, groups
        self.effects: Floats = np.zeros((self.count - 1, groups, 1))
        self.between: Floats = np.full(self.count - 1, 0.1)
        self.more = [
            [FurtherEffects.begin(factor, 1, np.full((1, 1), 0.1)) for factor in more]
            for _ in range(self.count - 1)
        ]
        shares = np.exp(self.released_logs - self.released_logs.max(axis=0))
        shares = np.maximum((shares / shares.sum(axis=0)).mean(axis=1), 1e-3)
        self.slopes[:, 0] = np.log(shares[1:] / shares[0])

    def log_odds(self) -> Floats:
        """(level, record) the log odds against the first level."""
        log_odds = np.zeros((self.count, len(self.design)))
        log_odds[1:] = self.slopes @ self.design.T
        if self.group is not None:
            log_odds[1:] += self.effects[:, :, 0][:, self.group]
        for row, factors in enumerate(self.more):
            for factor in factors:
                log_odds[row + 1] += factor.effects[factor.group, 0]
        return log_odds

    def log_probabilities(self) -> Floats:
        """(level, record) log probabilities."""
        log_odds = self.log_odds()
        return log_odds - log_sum_exp(log_odds)

    def log_posterior(self) -> Floats:
        """(level, record) the same given what was released, up to a constant of each record."""
        return self.released_logs + self.log_probabilities()

    def update(self, codes: Integers, rng: Generator) -> None:
        """Step the coefficients, level by level, given true levels."""
        eta = self.log_odds()
        prior = np.full(self.design.shape[1], _LOGIT_PRECISION)
        for level in range(1, self.count):
            row = level - 1
            # Against all other levels together a multinomial logit is a logit with an offset.
            offset = log_sum_exp(np.delete(eta, level, axis=0))
            member = (codes == level).astype(float)

            def likelihood(
                level_eta: Floats, member: Floats = member, offset: Floats = offset
            ) -> LogDensity:
                return binomial_likelihood(member, 1.0, level_eta - offset, "logit")

            self.slopes[row], level_eta = step_coefficients(
                self.design, likelihood, eta[level], self.slopes[row], prior, rng
            )
            if self.group is not None:
                effects = FurtherEffects(
                    self.group, self.effects[row], np.array([[self.between[row]]])
                )
                level_eta = self._step_effects(row, effects, likelihood, level_eta, rng)
                self.effects[row], self.between[row] = effects.effects, effects.between[0, 0]
            for factor in self.more[row]:
                level_eta = self._step_effects(row, factor, likelihood, level_eta, rng)
            eta[level] = level_eta

    def _step_effects(
        self, row: int, factor: FurtherEffects, likelihood: Likelihood, eta: Floats, rng: Generator
    ) -> Floats:
        """Effects of a grouping factor on the log odds of a level, and their variance."""
        factor.effects, eta = step_effects(
            np.ones((len(eta), 1)),
            factor.group,
            likelihood,
            eta,
            factor.effects,
            factor.between,
            rng,
            exact=False,
        )
        squares = float((factor.effects**2).sum())
        shape = 1 + len(factor.effects) / 2
        factor.between = np.array([[(_LOGIT_BETWEEN + squares / 2) / rng.standard_gamma(shape)]])
        # What all groups share is moved to the constant.
        self.slopes[row, :1] += exchange_effects(
            factor.effects,
            factor.between,
            0,
            np.ones((len(factor.effects), 1)),
            rng,
            present=self.slopes[row, :1],
            prior=np.full(1, _LOGIT_PRECISION),
        )
        return eta
