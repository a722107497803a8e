"""One chain: latent numbers, levels, the true outcome, coefficients, variances, covariate models.

One proposal is learnt in the warm-up; all others follow from the present state.
"""

from __future__ import annotations

import numpy as np

from sfumato.analysis.samplers.metropolis.categories import Levels
from sfumato.analysis.samplers.metropolis.chance import covariance_of, one_of, variance_above
from sfumato.analysis.samplers.metropolis.coefficients import effects, exchanged, linear, stepped
from sfumato.analysis.samplers.metropolis.covariates import Covariates, Given
from sfumato.analysis.samplers.metropolis.first import (
    exchanges,
    first_coefficients,
    first_latent,
    precisions,
)
from sfumato.analysis.samplers.metropolis.numbers import Target, in_turn
from sfumato.analysis.samplers.metropolis.outcome import Outcome
from sfumato.analysis.samplers.metropolis.predictor import Predictor
from sfumato.analysis.samplers.metropolis.start import Start
from sfumato.analysis.samplers.metropolis.truth import redrawn
from sfumato.analysis.samplers.metropolis.woven import Proposal, settled
from sfumato.kernels.arrays import Floats


class Chain:
    """A chain and its present state.

    Parameters
    ----------
    start : what all chains share.
    seed : its own.
    warmup : passes from whose draws a proposal is learnt.
    """

    def __init__(self, start: Start, seed: np.random.SeedSequence, warmup: int) -> None:
        problem = start.problem
        self.start, self.problem = start, problem
        self.chance = np.random.default_rng(seed)
        self.outcome = Outcome(problem)
        own = problem.clustered and problem.groups is not None
        group, groups = (problem.groups if own else None), (start.groups if own else 0)
        self.levels: list[Levels] = []
        self.offsets: list[int] = []
        earlier = 0
        for one in problem.categories:
            self.offsets.append(earlier)
            self.levels.append(Levels(one, start.clean, earlier, group, groups))
            earlier += len(one.levels) - 1
        self.codes = np.zeros((problem.records, len(problem.categories)), np.int64)
        for at, levels in enumerate(self.levels):
            self.codes[:, at] = one_of(levels.density + levels.log(), self.chance)
        self.covariates = Covariates(
            start.clean, earlier, len(problem.numbers), start.mixture, group, groups, start.shared
        )
        self._write_levels()
        self.latent = first_latent(start, self.chance)
        self.predictor = Predictor(problem, self.latent, self.codes, 1e-4 * start.size)
        design = self.predictor.design
        self.beta, self.outcome.variance = first_coefficients(design, self.outcome)
        if self.outcome.linear:
            self.outcome.variance = max(self.outcome.variance, 1.01 * self._known)
        random = problem.random if problem.groups is not None else ()
        self.random = list(random)
        self.effect = np.zeros((max(start.groups, 1), len(self.random)))
        scale = self.outcome.variance if self.outcome.linear else 1.0
        sizes = np.mean(design[:, self.random] ** 2, axis=0)
        self.between = np.diag(0.1 * scale / np.maximum(sizes, 1e-300))
        self.exchanges = exchanges(problem, design, self.random, start.groups)
        self.prior = precisions(problem, design, self.outcome)
        self.passes = 0
        self.proposal = Proposal(warmup)
        self.woven = self.woven_accepted = 0
        self.accepted = np.zeros(len(problem.numbers))
        self.eta = self._eta()

    @property
    def _known(self) -> float:
        """The part of the outcome's variance that is noise, where it is integrated out."""
        return 0.0 if self.outcome.released is not None else self.outcome.noise

    def step(self) -> None:
        """One pass over everything."""
        self._numbers()
        self._categories()
        self.predictor.refresh()
        self.eta = self._eta()
        if self.outcome.released is not None:
            self.outcome.true = redrawn(self.outcome, self.eta, self.passes, self.chance)
        self._coefficients()
        self._effects()
        self._variance()
        if self.problem.numbers:
            self._weave()
            self.covariates.update(self.latent, self.chance)
        for at, levels in enumerate(self.levels):
            levels.update(self.codes[:, at], self.chance)
        self.passes += 1

    def values(self) -> Floats:
        """Coefficients, residual variance, variances and covariances between groups."""
        made = [self.beta]
        if self.outcome.linear:
            made.append(np.array([self.outcome.variance - self._known]))
        if self.random:
            made.append(np.diag(self.between))
            made.append(self.between[np.tril_indices(len(self.random), -1)])
        return np.concatenate(made)

    def _eta(self) -> Floats:
        made = self.predictor.design @ self.beta
        for at, term in enumerate(self.random):
            made += self.predictor.design[:, term] * self.effect[self.problem.groups, at]
        return made

    def _coefficient(self) -> list[Floats | float]:
        """Of each term; by record where it differs by group."""
        made: list[Floats | float] = list(self.beta)
        for at, term in enumerate(self.random):
            made[term] = self.beta[term] + self.effect[self.problem.groups, at]
        return made

    def _numbers(self) -> None:
        centre = self.covariates.centre() if self.problem.numbers else self.latent
        for at in range(len(self.problem.numbers)):
            present = self.latent[:, at]
            given = self.covariates.given(at, self.latent - centre, centre[:, at])
            target = self._target(at, given)
            size = float(self.start.size[at])
            made, self.eta, share = in_turn(self.passes, present, target, size, self.chance)
            self.latent[:, at] = made
            self.accepted[at] += share

    def _target(self, at: int, given: Given) -> Target:
        """The density of a number's latent values, at the present coefficients and predictor."""
        of_number = self.predictor.of_number[at]
        weights = self.predictor.weights(at, self._coefficient())
        rest = self.eta
        for weight, one in zip(weights, of_number.values(self.latent[:, at]), strict=True):
            rest = rest - weight * one
        released = self.start.released[at]
        return Target(of_number, weights, rest, self.outcome, given, released, self._shift(at))

    def _weave(self) -> None:
        """Coefficients, variances and one number together, see `metropolis_woven`."""
        here = self._theta()
        self.proposal.learn(here, self.passes)
        if not self.proposal.ready:
            return
        at = self.passes % len(self.problem.numbers)
        size, x, before = float(self.start.size[at]), self.latent[:, at].copy(), self.eta
        there, ratio = self.proposal.draw(here, self.chance)
        target = self._woven_target(at)
        middle, spread = settled(target, size)
        ratio -= self._log(target, x, spread)
        self._set_theta(there)
        target = self._woven_target(at)
        new_middle, new_spread = settled(target, size)
        moved = new_middle + new_spread * (x - middle) / spread
        ratio += self._log(target, moved, new_spread)
        self.woven += 1
        if np.log(self.chance.uniform()) < ratio:
            self.woven_accepted += 1
            self.latent[:, at] = moved
            self.predictor.refresh()
            self.eta = self._eta()
        else:
            self._set_theta(here)
            self.eta = before

    def _woven_target(self, at: int) -> Target:
        centre = self.covariates.centre()
        return self._target(at, self.covariates.given(at, self.latent - centre, centre[:, at]))

    def _theta(self) -> Floats:
        own = [np.log(self.outcome.variance - self._known)] if self.outcome.linear else []
        return np.concatenate([self.beta, own, self.covariates.theta])

    def _set_theta(self, theta: Floats) -> None:
        terms = len(self.beta)
        self.beta = theta[:terms].copy()
        if self.outcome.linear:
            self.outcome.variance = float(np.exp(theta[terms])) + self._known
            terms += 1
        self.covariates.theta = theta[terms:]
        self.eta = self._eta()

    def _log(self, target: Target, x: Floats, spread: Floats) -> float:
        """Log density of coefficients, variances and true values, the latter as z."""
        made = float((target.parts(x)[0].log + np.log(spread)).sum())
        made -= 0.5 * float((self.prior * self.beta**2).sum())
        if self.outcome.linear:
            variance, noise = self.outcome.variance, self.outcome.noise
            own = variance - self._known
            made += np.log(own) - np.log(own + noise) - 0.5 * len(x) * np.log(variance)
        return float(made) + self.covariates.log_prior(len(x))

    def _shift(self, at: int) -> Floats | float:
        """What the noise of other numbers tells of this one's, taken off what was seen."""
        weight = self.start.others[at]
        if weight is None:
            return 0.0
        seen = np.column_stack([one.seen for one in self.start.released])
        made: Floats = -(weight * (seen - self.latent)).sum(axis=1)
        return made

    def _categories(self) -> None:
        for at, levels in enumerate(self.levels):
            added = self.predictor.levels(at, self._coefficient())
            codes = self.codes[:, at]
            rows = np.arange(len(codes))
            rest = self.eta - added[codes, rows]
            logs = levels.density + levels.log()
            first = self.covariates.first + self.offsets[at]
            own = self.covariates.slopes[first : first + levels.count - 1]
            slopes = np.vstack([np.zeros(self.latent.shape[1]), own])
            bare = self.latent - self.covariates.centre() + slopes[codes]
            for level in range(levels.count):
                logs[level] += self.outcome.parts(rest + added[level]).log
                if self.latent.shape[1]:
                    logs[level] += self.covariates.log(bare - slopes[level])
                for later in range(at + 1, len(self.levels)):
                    logs[level] += self._later(later, at, level)
            codes = one_of(logs, self.chance)
            self.codes[:, at] = codes
            self.eta = rest + added[codes, rows]
            self._write_levels()

    def _later(self, later: int, at: int, level: int) -> Floats:
        """Log probability of a later category's level, had this one another level."""
        model, codes = self.levels[later], self.codes[:, at]
        first = model.first + self.offsets[at]
        last = first + self.levels[at].count - 1
        slopes = np.column_stack([np.zeros(model.count - 1), model.slopes[:, first:last]])
        made = model.predictor()
        made[1:] += slopes[:, level, None] - slopes[:, codes]
        rows = np.arange(len(codes))
        logs: Floats = made[self.codes[:, later], rows] - np.logaddexp.reduce(made, axis=0)
        return logs

    def _write_levels(self) -> None:
        """The columns of levels in the models of true values."""
        for at, levels in enumerate(self.levels):
            for level in range(1, levels.count):
                own = self.codes[:, at] == level
                column = self.offsets[at] + level - 1
                self.covariates.design[:, self.covariates.first + column] = own
                for later in self.levels[at + 1 :]:
                    later.design[:, later.first + column] = own

    def _coefficients(self) -> None:
        design = self.predictor.design
        if self.outcome.linear:
            effect = self.eta - design @ self.beta
            y = self.outcome.true - effect
            self.beta = linear(design, y, self.outcome.variance, self.prior, self.chance)
            self.eta = design @ self.beta + effect
            return
        self.beta, self.eta = stepped(
            design, self.outcome.parts, self.eta, self.beta, self.prior, self.chance
        )

    def _effects(self) -> None:
        if not self.random or self.problem.groups is None:
            return
        columns = self.predictor.design[:, self.random]
        self.effect, self.eta = effects(
            columns, self.problem.groups, self.outcome.parts, self.eta, self.effect, self.between,
            self.chance, exact=self.outcome.linear,
        )  # fmt: skip
        for at, (terms, shared) in enumerate(self.exchanges):
            self.beta[terms] += exchanged(self.effect, self.between, at, shared, self.chance)
        groups, size = self.effect.shape
        squares = self.effect.T @ self.effect
        self.between = covariance_of(groups - size - 1, squares, self.chance)

    def _variance(self) -> None:
        if not self.outcome.linear:
            return
        away = self.outcome.true - self.eta
        squares, least, noise = float(away @ away), self._known, self.outcome.noise
        made = variance_above(least, len(away), squares, self.chance)
        if self.outcome.released is not None:
            # The prior is 1 / (variance + noise): 1 / variance has no end at nought here.
            now = self.outcome.variance
            ratio = made * (now + noise) / (now * (made + noise))
            if self.chance.uniform() >= ratio:
                return
        self.outcome.variance = made
