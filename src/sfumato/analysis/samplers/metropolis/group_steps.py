"""Steps of the true values of groups: numbers and levels that all records of a group share.

A group's total is what it adds to the predictor: the intercept, the terms of its true values, and
its random effect. Records say much of the total and nothing of its parts. So a true value is drawn
with the total as it is: the random effect takes over what a new value adds or takes away, and then
records need not be asked, but for terms that differ within the group, such as a product with a
record's own value. The means of records' own true values have totals as well, and so have the log
odds of their levels.

Where the intercept does not differ by group there is no effect to take over, and records decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.analysis.group_level import find_first_records, is_constant_in_groups
from sfumato.analysis.samplers.metropolis.coefficients import draw_category
from sfumato.analysis.samplers.metropolis.covariates import (
    LevelModel,
    NumberModel,
    RecordMixture,
)
from sfumato.analysis.samplers.metropolis.joint_proposal import JointProposal
from sfumato.analysis.samplers.metropolis.latent import step_newton
from sfumato.analysis.samplers.metropolis.likelihood import LogDensity
from sfumato.kernels.arrays import Floats, Integers

if TYPE_CHECKING:
    from sfumato.analysis.samplers.metropolis.chain import Chain
    from sfumato.analysis.samplers.metropolis.start import SharedStart

_UNINFORMATIVE = 1e8
"""The variance of noise that says nothing, in variances of the number."""


class _Quadratic(NamedTuple):
    """A log density that is quadratic in the value of each group: -precision x² / 2 + right x."""

    precision: Floats
    right: Floats

    def log(self, x: Floats) -> Floats:
        return self.right * x - 0.5 * self.precision * x * x


class GroupTarget:
    """The full conditional of one number of groups, as a log density by group.

    Parameters
    ----------
    own : the numbers of groups.
    chain : the present state of everything else.
    number : which of the numbers.
    """

    def __init__(self, level: GroupLevel, chain: Chain, number: int) -> None:
        self.level, self.chain, index = level, chain, level.first + number
        self.terms = chain.predictor.number_terms[index]
        self.weights = chain.predictor.function_weights(index, chain.coefficients())
        self.present: Floats = chain.latent[level.rows, index].copy()
        self.values_now = self.terms.values(chain.latent[:, index])
        self.effect = find_intercept_effect(chain)
        self.taken = [
            self.effect is not None and is_constant_in_groups(weight, level.group)
            for weight in self.weights
        ]
        self.released = level.start.released[number]
        self.conditional = level.model.condition(number, chain.latent[level.rows, level.first :])
        self.shift = level.shift_released_values(chain, number)
        self.follow = level.follow_records(chain, number, self.present)
        self.size = float(level.start.size[number])

    @property
    def slope(self) -> Floats:
        """By how much the total of a group changes with the value, where that is linear."""
        slope = np.zeros(len(self.level.rows))
        for weight, is_taken, is_linear in zip(
            self.weights, self.taken, self.terms.linear, strict=True
        ):
            slope = slope + (weight[self.level.rows] if is_taken and is_linear else 0.0)
        return slope

    def evaluate(self, x: Floats) -> tuple[LogDensity, Floats]:
        """Log density and derivatives, and what effects take over."""
        chain, rows, group = self.chain, self.level.rows, self.level.group
        with np.errstate(all="ignore"):
            parts = [self.conditional.evaluate(x), self.released.evaluate(x, self.shift)]
            log, gradient, curvature = (np.asarray(a + b) for a, b in zip(*parts, strict=True))
            log = log + self.follow.log(x)
            gradient = gradient + self.follow.right - self.follow.precision * x
            curvature = curvature + self.follow.precision
            functions = self.terms.evaluate(x[group])
            absorbed = np.zeros(len(rows))
            eta, slope = chain.eta, np.zeros(len(group))
            for i, weight in enumerate(self.weights):
                change = weight * (functions.values[i] - self.values_now[i])
                if self.taken[i]:
                    absorbed = absorbed + change[rows]
                else:
                    eta, slope = eta + change, slope + weight * functions.derivatives[i]
            if self.effect is not None:
                log = log + log_shifted_effects(chain, self.effect, -absorbed)
            if not all(self.taken):
                outcome = chain.outcome.evaluate(eta)
                log = log + np.bincount(group, outcome.log, len(rows))
                gradient = gradient + np.bincount(group, outcome.gradient * slope, len(rows))
                steep = outcome.curvature * slope**2
                curvature = curvature + np.bincount(group, steep, len(rows))
        undefined = ~(np.isfinite(log) & np.isfinite(gradient) & (curvature > 0))
        log, gradient = np.where(undefined, -np.inf, log), np.where(undefined, 0.0, gradient)
        return LogDensity(log, gradient, np.where(undefined, 1.0, curvature)), absorbed

    def without_records(self) -> RecordMixture:
        """The distribution with totals as they are; exact where everything is linear and normal."""
        noise = np.asarray(self.released.variance(self.released.values + self.shift), float)
        noise = np.where(
            self.released.missing | self.released.clipped, _UNINFORMATIVE * self.size**2, noise
        )
        release_precision = 1 / np.maximum(noise, 1e-12 * self.size**2)
        precision = release_precision + self.follow.precision
        right = release_precision * (self.released.values + self.shift) + self.follow.right
        if self.effect is not None:
            pull = pull_of_effects(self.chain, self.effect, self.slope, self.present)
            precision, right = precision + pull.precision, right + pull.right
        return self.conditional.with_noise(right / precision, 1 / precision)


class GroupLevel:
    """The model of groups' true values, and steps that draw them.

    Parameters
    ----------
    start : what all chains share; it has numbers or categories of groups.
    warmup : passes from whose draws a joint proposal is learnt.
    """

    def __init__(self, start: SharedStart, warmup: int) -> None:
        group_start = start.group_level
        assert group_start is not None  # noqa: S101 - asked before
        self.start = group_start
        self.group = np.asarray(start.problem.groups)
        self.rows = find_first_records(self.group)
        self.first = start.record_numbers
        self.categories = len(group_start.problem.categories)
        dummies = sum(len(category.levels) - 1 for category in group_start.problem.categories)
        self.model = NumberModel(
            group_start.clean,
            dummies,
            len(group_start.problem.numbers),
            group_start.mixture,
            None,
            0,
            [],
        )
        self.proposal = JointProposal(warmup)

    def build_level_model(self, category: int, earlier: int) -> LevelModel:
        """The model of the levels of a category of groups."""
        return LevelModel(
            self.start.problem.categories[category], self.start.clean, earlier, None, 0
        )

    def scale_columns(self, latent: Floats) -> Floats:
        """(record, number) the groups' numbers as columns of size about one."""
        columns: Floats = latent[:, self.first :] - self.start.centre.mean(axis=0)
        return columns / self.start.size

    def step(self, chain: Chain) -> None:
        """A step of all numbers of groups, and of the parameters of their model."""
        for number in range(len(self.start.released)):
            self._step_number(chain, number)
        if self.start.released:
            self._step_jointly(chain)
            self.model.update(chain.latent[self.rows, self.first :], chain.rng)

    def _step_number(self, chain: Chain, number: int) -> None:
        target = GroupTarget(self, chain, number)
        # Records decide now and then where they have a say: nothing hangs on one way of moving.
        if not all(target.taken) and chain.passes % 2:
            target.taken = [False] * len(target.taken)
        present = target.present
        if any(target.taken):
            proposal = target.without_records()
            proposed = proposal.draw(chain.rng)
            (here, _), (there, absorbed) = target.evaluate(present), target.evaluate(proposed)
            with np.errstate(invalid="ignore"):
                log_ratio = there.log - here.log + proposal.log(present) - proposal.log(proposed)
            accepted = np.log(chain.rng.uniform(size=len(present))) < log_ratio
            moved, share = np.where(accepted, proposed, present), float(accepted.mean())
            if target.effect is not None:
                chain.effects[:, target.effect] -= np.where(accepted, absorbed, 0.0)
        else:
            step = step_newton(present, target.evaluate, target.size, chain.rng)
            moved, share = step.values, step.acceptance
        chain.accepted[self.first + number] += share
        self._move(chain, number, present, moved)
        if not all(target.taken):
            chain.refresh()

    def _move(self, chain: Chain, number: int, present: Floats, moved: Floats) -> None:
        """New values of a number; the predictor stays as it is if effects took over the change."""
        self._let_records_follow(chain, number, moved - present)
        chain.latent[:, self.first + number] = moved[self.group]
        chain.write_group_columns()
        chain.predictor.refresh()

    def _step_jointly(self, chain: Chain) -> None:
        """Coefficients and variances of groups with one of their numbers, as `Chain` does it.

        A value is m + s z, with m and s its mean and SD given the group's total; z stays as it is.
        """
        number = chain.passes % len(self.start.released)
        target = GroupTarget(self, chain, number)
        if len(chain.random) != 1 or not (all(target.taken) and all(target.terms.linear)):
            return
        present = self._get_theta(chain)
        self.proposal.learn(present, chain.passes)
        if not self.proposal.ready:
            return
        x, effects = target.present, chain.effects.copy()
        terms = chain.exchanges[0]
        columns = chain.predictor.design[self.rows][:, terms]
        totals = effects[:, 0] + columns @ chain.beta[terms]
        mean, sd = _mean_and_sd(target.without_records())
        before = self._log_joint(chain, target, x, sd)
        proposed, log_ratio = self.proposal.draw(present, chain.rng)
        self._set_theta(chain, proposed)
        chain.effects[:, 0] = totals - columns @ chain.beta[terms]
        target = GroupTarget(self, chain, number)
        proposed_mean, proposed_sd = _mean_and_sd(target.without_records())
        moved = proposed_mean + proposed_sd * (x - mean) / sd
        log_ratio += self._log_joint(chain, target, moved, proposed_sd) - before
        if np.log(chain.rng.uniform()) < log_ratio:
            chain.effects[:, 0] -= target.slope * (moved - x)
            self._move(chain, number, x, moved)
        else:
            self._set_theta(chain, present)
            chain.effects = effects

    def _get_theta(self, chain: Chain) -> Floats:
        """Coefficients of what groups have, log variance between groups, and the model's own."""
        terms = chain.exchanges[0]
        return np.concatenate([chain.beta[terms], np.log(np.diag(chain.between)), self.model.theta])

    def _set_theta(self, chain: Chain, theta: Floats) -> None:
        terms = chain.exchanges[0]
        chain.beta[terms] = theta[: len(terms)]
        chain.between = np.exp(theta[len(terms) : len(terms) + 1, None])
        self.model.theta = theta[len(terms) + 1 :]

    def _log_joint(self, chain: Chain, target: GroupTarget, x: Floats, sd: Floats) -> float:
        density, _ = target.evaluate(x)
        # `evaluate` has the density of effects relative to the present ones.
        variance, groups = float(chain.between[0, 0]), len(x)
        log = float((density.log + np.log(sd)).sum())
        log -= 0.5 * float((chain.effects[:, 0] ** 2).sum()) / variance
        # The prior is uniform in the variance, whose logarithm is drawn.
        log += (1 - groups / 2) * np.log(variance)
        log -= 0.5 * float((chain.prior * chain.beta**2).sum())
        return float(log) + self.model.log_prior(groups)

    def shift_released_values(self, chain: Chain, number: int) -> Floats | float:
        """What correlated noise of other numbers of groups says, taken off the released values."""
        weights = self.start.error_regressions[number]
        if weights is None:
            return 0.0
        released = np.column_stack([other.values for other in self.start.released])
        noise = released - chain.latent[self.rows, self.first :]
        shift: Floats = -(weights * noise).sum(axis=1)
        return shift

    # The models of records' own true values have the groups' numbers among their columns. Their
    # random effects take over what a new value changes, so that only the density of effects moves.

    def _slopes(self, chain: Chain, number: int) -> tuple[Floats, list[tuple[LevelModel, Floats]]]:
        """Of records' numbers, and of the log odds of their levels, on a number of groups."""
        column, size = chain.group_columns[number], self.start.size[number]
        levels = [
            (model, model.slopes[:, column] / size) for model in chain.levels[self.categories :]
        ]
        return chain.numbers.slopes[column] / size, levels

    def follow_records(self, chain: Chain, number: int, present: Floats) -> _Quadratic:
        """The density of records' own effects, which follow a number of their group."""
        precision, right = np.zeros(len(self.rows)), np.zeros(len(self.rows))
        if not chain.group_columns:
            return _Quadratic(precision, right)
        slopes, levels = self._slopes(chain, number)
        if len(slopes):
            weighted = np.linalg.solve(chain.numbers.between, slopes)
            precision = precision + slopes @ weighted
            right = right + precision * present + chain.numbers.effects @ weighted
        for model, steep in levels:
            for row, slope in enumerate(steep):
                pull = slope**2 / model.between[row]
                precision = precision + pull
                right += pull * present + slope * model.effects[row, :, 0] / model.between[row]
        return _Quadratic(precision, right)

    def _let_records_follow(self, chain: Chain, number: int, change: Floats) -> None:
        if not chain.group_columns:
            return
        slopes, levels = self._slopes(chain, number)
        chain.numbers.effects -= np.outer(change, slopes)
        for model, steep in levels:
            model.effects[:, :, 0] -= np.outer(steep, change)

    # Levels

    def draw_levels(self, chain: Chain, category: int) -> None:
        """True levels of a category of groups, from their full conditional: totals as they are."""
        model, rows, group = chain.levels[category], self.rows, self.group
        effects = chain.predictor.level_effects(category, chain.coefficients())
        codes = chain.codes[:, category]
        change = effects - effects[codes, np.arange(len(codes))]
        effect = find_intercept_effect(chain)
        taken = effect is not None and all(is_constant_in_groups(x, group) for x in change)
        own_shifts = _level_shifts(self.model, model, codes[rows])
        shifts = _level_shifts(chain.numbers, model, codes[rows])
        own_residual = chain.latent[rows, self.first :] - self.model.centre()
        residual = chain.own_latent - chain.numbers.centre()
        clustered = chain.numbers.group is not None
        logs = model.log_posterior()
        for level in range(model.count):
            if taken and effect is not None:
                logs[level] += log_shifted_effects(chain, effect, -change[level][rows])
            else:
                by_record = chain.outcome.evaluate(chain.eta + change[level]).log
                logs[level] += np.bincount(group, by_record, len(rows))
            if self.start.released:
                logs[level] += self.model.log(own_residual - own_shifts[level])
            if self.first and clustered:
                moved = chain.numbers.effects - shifts[level]
                weighted = np.linalg.solve(chain.numbers.between, moved.T).T
                logs[level] -= 0.5 * (moved * weighted).sum(axis=1)
            elif self.first:
                by_record = chain.numbers.log(residual - shifts[level][group])
                logs[level] += np.bincount(group, by_record, len(rows))
            for later in range(category + 1, len(chain.levels)):
                by_row = chain.log_later_category(later, category, level)
                is_by_group = later < self.categories
                logs[level] += by_row if is_by_group else np.bincount(group, by_row, len(rows))
        drawn = draw_category(logs, chain.rng)
        if taken and effect is not None:
            chain.effects[:, effect] -= change[drawn, rows]
        if self.first and clustered:
            chain.numbers.effects -= shifts[drawn, np.arange(len(rows))]
        chain.codes[:, category] = drawn[group]
        chain.write_levels()
        chain.refresh()


def _mean_and_sd(mixture: RecordMixture) -> tuple[Floats, Floats]:
    return mixture.mean(), np.sqrt(mixture.variances.mean(axis=0))


def _level_shifts(numbers: NumberModel, model: LevelModel, codes: Integers) -> Floats:
    """(level, group, number): what true numbers are expected to change by with another level."""
    first = numbers.first_level + model.offset
    slopes = numbers.slopes[first : first + model.count - 1]
    shifts = np.vstack([np.zeros(slopes.shape[1]), slopes])
    return shifts[:, None, :] - shifts[codes][None]


def find_intercept_effect(chain: Chain) -> int | None:
    """Which random effect is that of the intercept; None where it does not differ by group."""
    for column, index in enumerate(chain.random):
        term = chain.problem.terms[index]
        if not term.has_noise and term.clean is None:
            return column
    return None


def log_shifted_effects(chain: Chain, effect: int, change: Floats) -> Floats:
    """Log density of the effects of groups after one of them changed, less that of now."""
    inverse = np.linalg.inv(chain.between)
    slope = chain.effects @ inverse[:, effect]
    log: Floats = -change * slope - 0.5 * inverse[effect, effect] * change**2
    return log


def pull_of_effects(chain: Chain, effect: int, slope: Floats, present: Floats) -> _Quadratic:
    """The density of effects as one of the value that they make room for, where that is linear."""
    inverse = np.linalg.inv(chain.between)
    precision = slope**2 * inverse[effect, effect]
    return _Quadratic(precision, precision * present + slope * (chain.effects @ inverse[:, effect]))
