"""One chain: a pass over latent numbers, levels, the true outcome, coefficients and variances.

A pass (`Chain.step`) is Metropolis within Gibbs. Its last part is a joint step of coefficients and
true values, so that neither holds the other back: given true values the coefficients are nearly
known, and the other way round, and taken in turns they move slowly where there is much noise. There
a true value is written as x = m + s z, where m and s are its mean and SD given coefficients and
data, or nearly so. New coefficients are proposed with z as it is, and true values follow them.
Where x is normal given everything else, z says nothing of the coefficients, and the step is one of
their posterior with true values integrated out. Else the Hastings ratio, with the Jacobian of s in
it, puts right what is not (interweaving: Yu & Meng 2011, J. Computational and Graphical Statistics
20:531). The joint proposal is learnt in the warm-up; all others follow from the present state.
"""

from __future__ import annotations

import numpy as np

from sfumato.analysis.group_level import find_first_records
from sfumato.analysis.problem import GeneralisedNumber
from sfumato.analysis.samplers.metropolis.coefficients import (
    draw_category,
    draw_coefficients,
    draw_variance_above,
    step_coefficients,
)
from sfumato.analysis.samplers.metropolis.covariates import LevelModel, NumberModel
from sfumato.analysis.samplers.metropolis.disjoint import arrange_disjoint
from sfumato.analysis.samplers.metropolis.effects import GroupEffects
from sfumato.analysis.samplers.metropolis.group_steps import GroupLevel
from sfumato.analysis.samplers.metropolis.joint_proposal import JointProposal
from sfumato.analysis.samplers.metropolis.latent import (
    LONGEST_STEP,
    Coefficients,
    LatentTarget,
    LinearPredictor,
    step_latent,
    step_true_outcome,
)
from sfumato.analysis.samplers.metropolis.likelihood import OutcomeModel
from sfumato.analysis.samplers.metropolis.outcome_steps import step_dispersion, step_thresholds
from sfumato.analysis.samplers.metropolis.start import (
    SharedStart,
    draw_first_latent,
    fit_first_coefficients,
    list_further_groups,
    prior_precisions,
)
from sfumato.kernels.arrays import Floats


class Chain:
    """A chain and its present state.

    Parameters
    ----------
    start : what all chains share.
    seed : its own.
    warmup : passes from whose draws a proposal is learnt.
    """

    def __init__(self, start: SharedStart, seed: np.random.SeedSequence, warmup: int) -> None:
        problem = start.problem
        self.start, self.problem = start, problem
        self.rng = np.random.default_rng(seed)
        self.outcome = OutcomeModel(problem)
        clustered = problem.clustered and problem.groups is not None
        group, groups = (problem.groups, start.groups) if clustered else (None, 0)
        more = list_further_groups(problem) if clustered else ()
        self.group_rows = np.zeros(0, np.int64)
        if problem.groups is not None:
            self.group_rows = find_first_records(problem.groups)
        self.levels: list[LevelModel] = []
        dummies = 0
        self.groups_own = GroupLevel(start, warmup) if start.group_level is not None else None
        # Records' own true values depend on those of their group, if they differ by group at all.
        count = len(problem.numbers) - start.record_numbers if clustered else 0
        clean = np.column_stack([start.clean, np.zeros((problem.records, count))])
        self.group_columns = list(range(start.clean.shape[1], clean.shape[1]))
        for index, category in enumerate(problem.categories):
            if self.groups_own is not None and category.by_group:
                self.levels.append(self.groups_own.build_level_model(index, dummies))
            else:
                self.levels.append(LevelModel(category, clean, dummies, group, groups, more))
            dummies += len(category.levels) - 1
        self.codes = np.zeros((problem.records, len(problem.categories)), np.int64)
        for index, model in enumerate(self.levels):
            drawn = draw_category(model.log_posterior(), self.rng)
            by_group = problem.categories[index].by_group
            self.codes[:, index] = drawn[problem.groups] if by_group else drawn
        self.numbers = NumberModel(
            clean, dummies, start.record_numbers, start.mixture, group, groups,
            [*start.shared, *self.group_columns], problem.exposure, start.spread_slopes, more,
        )  # fmt: skip
        self.latent = draw_first_latent(start, self.rng)
        self.disjoint = arrange_disjoint(problem, self.latent, self.rng)
        self.own_latent = self.latent[:, : start.record_numbers]
        """A view of the numbers that have a value of their own for each record."""
        self._begin_models()
        self.predictor = LinearPredictor(problem, self.latent, self.codes, 1e-4 * start.size)
        design = self.predictor.design
        self.beta, self.outcome.variance = fit_first_coefficients(design, self.outcome)
        if self.outcome.linear:
            least = 1.01 * self.outcome.integrated_noise
            self.outcome.variance = max(self.outcome.variance, least)
        scale = self.outcome.variance if self.outcome.linear else 1.0
        self.factors = [GroupEffects(x, problem, design, scale) for x in problem.factors]
        self.prior = prior_precisions(problem, design, self.outcome)
        self.passes = 0
        # A joint step would take some value of some record out of its cell nearly always.
        self.noised = [
            index
            for index, number in enumerate(problem.numbers)
            if not isinstance(number, GeneralisedNumber) and not number.by_group
        ]
        self.proposal = JointProposal(warmup)
        self.joint_steps = self.joint_accepted = 0
        self.accepted = np.zeros(len(problem.numbers))
        self.eta = self.compute_eta()

    def _begin_models(self) -> None:
        """The models of true values at the first ones: columns of levels and groups, slopes."""
        self.write_levels()
        self.write_group_columns()
        self.numbers.regress(self.own_latent)
        if self.groups_own is not None:
            of_groups = self.latent[self.group_rows, self.start.record_numbers :]
            self.groups_own.model.regress(of_groups)

    def step(self) -> None:
        """One pass over everything, each part given all the others."""
        self._step_numbers()
        self._draw_levels()
        self.predictor.refresh()
        self.eta = self.compute_eta()
        if self.outcome.released is not None:
            self.outcome.true = step_true_outcome(self.outcome, self.eta, self.passes, self.rng)
        self._step_coefficients()
        self._step_effects()
        self._step_groups()
        self._step_outcome()
        if self.start.record_numbers:
            if self.noised:
                self._step_jointly()
            self.numbers.update(self.own_latent, self.rng)
        for category, model in enumerate(self.levels):
            codes = self.codes[:, category]
            by_group = self.problem.categories[category].by_group
            model.update(codes[self.group_rows] if by_group else codes, self.rng)
        self.passes += 1

    def refresh(self) -> None:
        """Everything that follows from true values, after those of groups have moved."""
        self.write_group_columns()
        self.predictor.refresh()
        self.eta = self.compute_eta()

    def write_group_columns(self) -> None:
        """Write the numbers of groups, as columns of the models of records' own true values."""
        if self.groups_own is None or not self.group_columns:
            return
        columns = self.groups_own.scale_columns(self.latent)
        designs = [model.design for model in self.levels[self.groups_own.categories :]]
        for design in (self.numbers.design, *designs):
            design[:, self.group_columns] = columns
        shared = len(self.start.shared)
        self.numbers.group_columns[:, shared:] = columns[self.groups_own.rows]

    def _step_groups(self) -> None:
        """True values of groups, and what of their effects belongs to coefficients, by turns."""
        if self.groups_own is None:
            return
        self.groups_own.step(self)
        if self.random:
            self.factors[0].exchange(self)
            self.factors[0].draw_between(self.rng)

    def values(self) -> Floats:
        """Coefficients, residual variance, variances and covariances between groups."""
        values = [self.beta.ravel()]
        if self.outcome.family == "negative_binomial":
            values.append(np.array([self.outcome.dispersion]))
        elif self.outcome.family == "ordinal":
            constant = self.problem.constant
            thresholds = self.outcome.thresholds - self.beta[constant]
            values = [np.delete(self.beta, constant), thresholds]
        if self.outcome.linear:
            values.append(np.array([self.outcome.variance - self.outcome.integrated_noise]))
        values += [part for factor in self.factors for part in factor.values()]
        return np.concatenate(values)

    def compute_eta(self) -> Floats:
        """The linear predictor at the present values, effects of groups in it."""
        eta = (self.predictor.design @ self.beta.T).T
        for factor in self.factors:
            eta += factor.predict(self.predictor.design)
        return eta

    # Of the first grouping factor, which groups' own true values share.

    @property
    def random(self) -> list[int]:
        """The terms that differ by group."""
        return self.factors[0].random if self.factors else []

    @property
    def effects(self) -> Floats:
        """(group, term) by how much."""
        return self.factors[0].effects if self.factors else np.zeros((1, 0))

    @effects.setter
    def effects(self, values: Floats) -> None:
        self.factors[0].effects = values

    @property
    def between(self) -> Floats:
        """The covariance of the effects."""
        return self.factors[0].between if self.factors else np.zeros((0, 0))

    @between.setter
    def between(self, values: Floats) -> None:
        self.factors[0].between = values

    @property
    def exchanges(self) -> list[list[int]]:
        """By random term: the coefficients that can take over its effects."""
        return self.factors[0].exchanges if self.factors else []

    def coefficients(self) -> Coefficients:
        """Of each term, by record where it differs by group."""
        coefficients: Coefficients = list(self.beta)
        if self.beta.ndim > 1:
            # (level, 1): what a term adds to the predictor of each level is then (level, record).
            coefficients = list(self.beta.T[:, :, None])
        for factor in self.factors:
            for column, term in enumerate(factor.random):
                coefficients[term] = coefficients[term] + factor.effects[factor.groups, column]
        return coefficients

    def _step_numbers(self) -> None:
        """Latent values given outcome, covariates and what was released (see `latent`)."""
        for number in range(self.start.record_numbers):
            target, size = self._target(number), float(self.start.size[number])
            present = self.latent[:, number]
            step = step_latent(self.passes, present, target, size, self.rng)
            self.latent[:, number], self.eta = step.values, step.companion
            self.accepted[number] += step.acceptance

    def _target(self, number: int) -> LatentTarget:
        """The full conditional of a number, at the present coefficients and predictor."""
        terms = self.predictor.number_terms[number]
        weights = self.predictor.function_weights(number, self.coefficients())
        offset = self.eta
        for weight, value in zip(weights, terms.values(self.latent[:, number]), strict=True):
            offset = offset - weight * value
        return LatentTarget(
            terms=terms,
            weights=weights,
            offset=offset,
            outcome=self.outcome,
            conditional=self.numbers.condition(number, self.own_latent),
            released=self.start.released[number],
            shift=self._shift_released_values(number),
            limits=None
            if self.disjoint is None
            else self.disjoint.restrict(number, self.latent, self.rng),
        )

    def _shift_released_values(self, number: int) -> Floats | float:
        """What correlated noise of other numbers says of this one's, taken off its released."""
        weights = self.start.error_regressions[number]
        if weights is None:
            return 0.0
        released = np.column_stack([other.values for other in self.start.released])
        shift: Floats = -(weights * (released - self.latent)).sum(axis=1)
        return shift

    def _draw_levels(self) -> None:
        """True levels from their full conditionals: a sum over all levels of each category."""
        for category, model in enumerate(self.levels):
            if self.groups_own is not None and category < self.groups_own.categories:
                self.groups_own.draw_levels(self, category)
                continue
            effects = self.predictor.level_effects(category, self.coefficients())
            codes = self.codes[:, category]
            rows = np.arange(len(codes))
            offset = self.eta - effects[codes, ..., rows].T
            logs = model.log_posterior()
            first = self.numbers.first_level + model.offset
            shifts = self.numbers.slopes[first : first + model.count - 1]
            shifts = np.vstack([np.zeros(self.own_latent.shape[1]), shifts])
            residual = self.own_latent - self.numbers.centre() + shifts[codes]
            for level in range(model.count):
                logs[level] += self.outcome.evaluate(offset + effects[level]).log
                if self.own_latent.shape[1]:
                    logs[level] += self.numbers.log(residual - shifts[level])
                for later in range(category + 1, len(self.levels)):
                    logs[level] += self.log_later_category(later, category, level)
            codes = draw_category(logs, self.rng)
            self.codes[:, category] = codes
            self.eta = offset + effects[codes, ..., rows].T
            self.write_levels()

    def log_later_category(self, later: int, category: int, level: int) -> Floats:
        """Log probability of a later category's level, had this one another level.

        By record; by group where the later category is one of groups.
        """
        model = self.levels[later]
        rows_of_later = self.group_rows if self.problem.categories[later].by_group else slice(None)
        codes = self.codes[rows_of_later, category]
        first = model.first_level + self.levels[category].offset
        last = first + self.levels[category].count - 1
        slopes = np.column_stack([np.zeros(model.count - 1), model.slopes[:, first:last]])
        log_odds = model.log_odds()
        log_odds[1:] += slopes[:, level, None] - slopes[:, codes]
        rows = np.arange(len(codes))
        total = np.logaddexp.reduce(log_odds, axis=0)
        logs: Floats = log_odds[self.codes[rows_of_later, later], rows] - total
        return logs

    def write_levels(self) -> None:
        """The columns of levels in the models of true values."""
        for category, model in enumerate(self.levels):
            followers: list[NumberModel | LevelModel] = [self.numbers, *self.levels[category + 1 :]]
            if self.groups_own is not None and self.problem.categories[category].by_group:
                followers.append(self.groups_own.model)
            for level in range(1, model.count):
                dummy = self.codes[:, category] == level
                column = model.offset + level - 1
                for later in followers:
                    # The model of what groups have has a row for each group.
                    by_record = len(later.design) == len(dummy)
                    rows = dummy if by_record else dummy[self.group_rows]
                    later.design[:, later.first_level + column] = rows

    def _step_coefficients(self) -> None:
        design = self.predictor.design
        if self.outcome.linear:
            effect = self.eta - design @ self.beta
            y = self.outcome.true - effect
            variance = self.outcome.variance
            self.beta = draw_coefficients(design, y, variance, self.prior, self.rng)
            self.eta = design @ self.beta + effect
            return
        if self.outcome.family == "multinomial":
            for level in range(len(self.beta)):
                self.beta[level], self.eta[level] = step_coefficients(
                    design,
                    self.outcome.separate_level(level, self.eta),
                    self.eta[level],
                    self.beta[level],
                    self.prior,
                    self.rng,
                )
            return
        self.beta, self.eta = step_coefficients(
            design, self.outcome.evaluate, self.eta, self.beta, self.prior, self.rng
        )

    def _step_effects(self) -> None:
        """Random effects of groups, and their covariance."""
        for factor in self.factors:
            if factor.random:
                factor.step(self)
        for coarse in self.factors:
            for fine in self.factors:
                if coarse.contains(fine):
                    coarse.exchange_with(fine, self.rng)

    def _step_outcome(self) -> None:
        """What the outcome has beside coefficients."""
        if self.outcome.linear:
            self._draw_variance()
        elif self.outcome.family == "negative_binomial":
            step_dispersion(self.outcome, self.eta, self.rng)
        elif self.outcome.family == "ordinal":
            first = step_thresholds(self.outcome, self.eta, self.rng)
            self.beta[self.problem.constant] -= first
            self.eta = self.eta - first
        elif self.outcome.family == "multinomial" and self.outcome.level_logs is not None:
            self.outcome.draw_levels(self.eta, self.rng)

    def _draw_variance(self) -> None:
        """The residual variance, inverse gamma above the variance of integrated noise."""
        residual = self.outcome.true - self.eta
        squares, noise = float(residual @ residual), self.outcome.noise
        least = self.outcome.integrated_noise
        proposed = draw_variance_above(least, len(residual), squares, self.rng)
        if self.outcome.released is not None:
            # The prior is 1 / (variance + noise): 1 / variance would not be proper at zero here.
            present = self.outcome.variance
            ratio = proposed * (present + noise) / (present * (proposed + noise))
            if self.rng.uniform() >= ratio:
                return
        self.outcome.variance = proposed

    def _step_jointly(self) -> None:
        """Coefficients, variances and one number together, with z = (x - m) / s as it is."""
        present = self._get_theta()
        self.proposal.learn(present, self.passes)
        if not self.proposal.ready:
            return
        number = self.noised[self.passes % len(self.noised)]
        proposed, log_ratio = self.proposal.draw(present, self.rng)
        target, eta = self._target(number), self.eta
        if target.mixture_of_normals and not target.normal:
            self._step_without_latent(number, target, proposed, log_ratio)
            return
        size, x = float(self.start.size[number]), self.latent[:, number].copy()
        mean, sd = approximate_latent(target, size)
        log_ratio -= self._log_joint(target, x, sd)
        self._set_theta(proposed)
        target = self._target(number)
        proposed_mean, proposed_sd = approximate_latent(target, size)
        proposed_x = proposed_mean + proposed_sd * (x - mean) / sd
        log_ratio += self._log_joint(target, proposed_x, proposed_sd)
        self.joint_steps += 1
        if np.log(self.rng.uniform()) < log_ratio:
            self.joint_accepted += 1
            self.latent[:, number] = proposed_x
            self.predictor.refresh()
            self.eta = self.compute_eta()
        else:
            self._set_theta(present)
            self.eta = eta

    def _step_without_latent(
        self, number: int, target: LatentTarget, proposed: Floats, log_ratio: float
    ) -> None:
        """Coefficients and variances with one number summed out, which is drawn anew after."""
        present, here = self._get_theta(), target.integrate()
        log_ratio -= float(here.log.sum()) + self._log_prior()
        self._set_theta(proposed)
        there = self._target(number).integrate()
        log_ratio += float(there.log.sum()) + self._log_prior()
        self.joint_steps += 1
        if np.log(self.rng.uniform()) < log_ratio:
            self.joint_accepted += 1
            here = there
        else:
            self._set_theta(present)
        self.latent[:, number] = here.mixture.draw(self.rng)
        self.predictor.refresh()
        self.eta = self.compute_eta()

    def _get_theta(self) -> Floats:
        """Coefficients, what else the outcome has, and the parameters of the number model."""
        return np.concatenate([self.beta.ravel(), self.outcome.theta, self.numbers.theta])

    def _set_theta(self, theta: Floats) -> None:
        used = self.beta.size
        self.beta = theta[:used].reshape(self.beta.shape).copy()
        count = len(self.outcome.theta)
        self.outcome.theta = theta[used : used + count]
        self.numbers.theta = theta[used + count :]
        self.eta = self.compute_eta()

    def _log_joint(self, target: LatentTarget, x: Floats, sd: Floats) -> float:
        """Log density of coefficients, variances and true values, the latter as z."""
        # The sum of log s is the Jacobian of x = m + s z.
        log = target.evaluate(x)[0].log + np.log(sd) + self.outcome.log_constants()
        return float(log.sum()) + self._log_prior()

    def _log_prior(self) -> float:
        """Log prior density of what `_get_theta` has."""
        log = -0.5 * float((self.prior * self.beta**2).sum())
        log += self.outcome.log_prior()
        return log + self.numbers.log_prior(self.problem.records)


def approximate_latent(target: LatentTarget, size: float) -> tuple[Floats, Floats]:
    """Mean and SD of true values given all else, or nearly: two Newton steps.

    They depend on the coefficients and the data, and not on the present true values.
    """
    mean = target.without_outcome(size).mean()
    limit = LONGEST_STEP * size
    for _ in range(1 if target.normal else 2):
        density, _ = target.evaluate(mean)
        mean = mean + np.clip(density.gradient / density.curvature, -limit, limit)
    return mean, 1 / np.sqrt(density.curvature)
