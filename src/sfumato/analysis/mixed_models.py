"""Mixed models: linear by REML, generalised linear of two levels by maximum likelihood.

Linear: all that the likelihood needs are products of columns, by group. So the work after one pass
over the records depends on the number of groups and not on that of records.

Logit, probit, binomial and Poisson: the random effects of each group are integrated out of its
likelihood by adaptive Gauss-Hermite quadrature: nodes about the mode of the effects, as wide as the
curvature there says. Score and information of the marginal likelihood are expectations over the
same nodes (Fisher's and Louis' identities), so that a few Newton steps suffice. Memory grows with
the records, not with records times nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Integers

MOST_EFFECTS = 3
"""Effects of a group: with more, there are too many nodes."""
_NODES = {1: 11, 2: 7, 3: 5}
_FEWER, _LARGE = 5, 100
"""Nodes where groups have many records each, so that their effects are all but normal."""
_ROUNDS, _INNER, _FAR = 100, 50, 40.0
_SMALL = 1e-5
"""A step of Newton's this small leaves an error that is about its square."""


# Linear mixed models


@dataclass(frozen=True, eq=False)
class LinearMixedFit:
    """A fit: coefficients, their covariance, the residual variance, that of effects by factor."""

    beta: Floats = field(repr=False)
    covariance: Floats = field(repr=False)
    variance: float
    between: tuple[Floats, ...] = field(repr=False)


def fit_linear_mixed_model(
    x: Floats, y: Floats, factors: Sequence[tuple[Integers, Sequence[int]]]
) -> LinearMixedFit:
    """Fit y = x beta + e and, for each grouping factor, x[random] u with u normal, by REML.

    Parameters
    ----------
    x, y : the columns and the outcome.
    factors : of each grouping factor the group of each record, and the columns whose coefficients
        differ by group. Factors may be nested or crossed.

    References: Laird & Ware (1982), Biometrics 38:963; Bates, Mächler, Bolker & Walker (2015), J.
    Statistical Software 67(1), section 3 (profiled deviance of several factors).
    """
    from scipy.optimize import minimize

    # Columns and outcome of about unit size, so that the tolerances of the search make sense.
    size = np.sqrt((x * x).mean(axis=0))
    columns = x / size
    start, *_ = np.linalg.lstsq(columns, y, rcond=None)
    residual = y - columns @ start
    spread = float(np.sqrt(residual @ residual / len(residual)))
    if not spread > 0:
        raise MeasureError("The model fits exactly, so there is no variance to split.")
    likelihood = RestrictedLikelihood(columns, residual / spread, factors)
    optimum = minimize(
        lambda theta: likelihood.profile(theta).deviance,
        likelihood.first,
        method="L-BFGS-B",
        bounds=likelihood.bounds,
        options={"ftol": 1e-12, "gtol": 1e-8},
    )
    profile = likelihood.profile(optimum.x)
    roots = [
        factor * spread / size[list(random)][:, None]
        for factor, (_, random) in zip(likelihood.build_factors(optimum.x), factors, strict=True)
    ]
    return LinearMixedFit(
        beta=(start + spread * profile.beta) / size,
        covariance=profile.variance * spread**2 * profile.inverse / np.outer(size, size),
        variance=profile.variance * spread**2,
        between=tuple(profile.variance * root @ root.T for root in roots),
    )


class _Profile(NamedTuple):
    """Minus twice the restricted log-likelihood, and the estimates that it is profiled over."""

    deviance: float
    beta: Floats
    inverse: Floats
    variance: float


class RestrictedLikelihood:
    """The restricted likelihood of a linear mixed model, coefficients and variance profiled out.

    Effects are u = L z, with z standard normal in units of the residual SD. Then the products of
    [Z L, x, y], the identity added to those of Z L, hold all of it: their Cholesky factor has the
    log determinants and the residual sum of squares on its diagonal. Effects of the factor with
    most groups come first, since their block is itself one of small blocks.

    Parameters
    ----------
    x, y, factors : see `fit_linear_mixed_model`.
    """

    def __init__(
        self, x: Floats, y: Floats, factors: Sequence[tuple[Integers, Sequence[int]]]
    ) -> None:
        from scipy.sparse import csr_array, hstack

        self.records, self.terms = x.shape
        self.sizes = [len(random) for _, random in factors]
        numbered = [np.unique(groups, return_inverse=True) for groups, _ in factors]
        counts = [len(levels) for levels, _ in numbered]
        # The first factor is eliminated group by group, since its groups share no record: the one
        # with the most columns, so that the dense remainder is small.
        self.order = sorted(range(len(factors)), key=lambda i: -counts[i] * self.sizes[i])
        self.counts = [counts[i] for i in self.order]
        blocks = []
        for i in self.order:
            q, group = self.sizes[i], numbered[i][1].reshape(-1)
            rows = np.repeat(np.arange(self.records), q)
            columns = (group[:, None] * q + np.arange(q)).ravel()
            values = x[:, list(factors[i][1])].ravel()
            blocks.append(csr_array((values, (rows, columns)), (self.records, counts[i] * q)))
        others = hstack([*blocks[1:], csr_array(np.column_stack([x, y]))], format="csr")
        first, q = blocks[0], self.sizes[self.order[0]]
        group, values = (
            numbered[self.order[0]][1].reshape(-1),
            x[:, list(factors[self.order[0]][1])],
        )
        self.within_groups = np.empty((self.counts[0], q, q))
        for a in range(q):
            for b in range(a + 1):
                self.within_groups[:, a, b] = self.within_groups[:, b, a] = np.bincount(
                    group, values[:, a] * values[:, b]
                )
        self.cross: Floats = (first.T @ others).toarray().reshape(self.counts[0], q, -1)
        self.rest: Floats = (others.T @ others).toarray()
        self.lower = [np.tril_indices(q) for q in self.sizes]
        self.first = np.concatenate([np.eye(q)[np.tril_indices(q)] * 0.5 for q in self.sizes])
        # The Cholesky factor is unique with a diagonal of 0 or more.
        self.bounds = [
            (0.0 if a == b else None, None)
            for lower in self.lower
            for a, b in zip(*lower, strict=True)
        ]

    def build_factors(self, theta: Floats) -> list[Floats]:
        """The Cholesky factor L of the covariance of each grouping factor's effects."""
        factors, used = [], 0
        for q, lower in zip(self.sizes, self.lower, strict=True):
            factor = np.zeros((q, q))
            factor[lower] = theta[used : used + len(lower[0])]
            factors.append(factor)
            used += len(lower[0])
        return factors

    def profile(self, theta: Floats) -> _Profile:
        """The deviance, and what it is profiled over."""
        factors = self.build_factors(theta)
        first, *others = (factors[i] for i in self.order)
        inner = np.eye(len(first)) + first.T @ self.within_groups @ first
        root = np.linalg.cholesky(inner)
        # What the first factor leaves of the products of all others (a Schur complement).
        cross, remainder = first.T @ self.cross, self.rest.copy()
        begin = 0
        for factor, count in zip(others, self.counts[1:], strict=True):
            q = len(factor)
            end = begin + count * q
            for products in (cross, remainder, remainder.T):
                flat = products[..., begin:end].reshape(*products.shape[:-1], count, q)
                products[..., begin:end] = (flat @ factor).reshape(products[..., begin:end].shape)
            remainder[range(begin, end), range(begin, end)] += 1.0
            begin = end
        half = np.linalg.solve(root, cross).reshape(-1, cross.shape[-1])
        lower = np.linalg.cholesky(remainder - half.T @ half)
        # The outcome is the last column, so the last pivot squared is the penalised sum of squares:
        # the variance follows from theta, and needs no search (Bates and others 2015, section 3).
        diagonal, free = np.diag(lower), self.records - self.terms
        log_determinants = 2 * np.log(np.diagonal(root, axis1=1, axis2=2)).sum()
        log_determinants += 2 * np.log(diagonal[:-1]).sum()
        variance = max(float(diagonal[-1] ** 2), 1e-300) / free
        upper = np.linalg.inv(lower[begin:-1, begin:-1])
        return _Profile(
            float(log_determinants + free * np.log(variance)),
            upper.T @ lower[-1, begin:-1],
            upper.T @ upper,
            variance,
        )


# Generalised linear mixed models


@dataclass(frozen=True, eq=False)
class GeneralisedMixedFit:
    """A two-level generalised fit.

    Parameters
    ----------
    beta, covariance : the coefficients.
    between : the covariance of the effects of groups.
    log_likelihood : at these, up to a constant that depends on the outcome alone.
    settled : whether the search ended; it does not where coefficients run away.
    """

    beta: Floats = field(repr=False)
    covariance: Floats = field(repr=False)
    between: Floats = field(repr=False)
    log_likelihood: float
    settled: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupedRecords:
    """Records of a two-level generalised model.

    Parameters
    ----------
    link : "logit", "probit" or "log".
    x, y, trials : the columns, the outcome, and the trials that it is a count of successes among.
    groups : the group of each record.
    random : the columns whose coefficients differ by group.
    offset : what is added to the linear predictor.
    """

    link: str
    x: Floats = field(repr=False)
    y: Floats = field(repr=False)
    trials: Floats = field(repr=False)
    groups: Integers = field(repr=False)
    random: tuple[int, ...]
    offset: Floats | float = field(default=0.0, repr=False)


def fit_generalised_mixed_model(
    records: GroupedRecords, start: Floats, first: Floats | None = None
) -> GeneralisedMixedFit:
    """Fit link(mean of y) = x beta + x[random] u with u of each group normal.

    Parameters
    ----------
    records : the model and the data.
    start : coefficients where the search begins.
    first : the covariance of the effects where it begins.

    References: Pinheiro & Bates (1995), J. Comput. Graph. Stat. 4:12; Louis (1982), JRSS B 44:226.
    """
    random = list(records.random)
    if len(random) > MOST_EFFECTS:
        raise MeasureError(
            f"{len(random)} effects of each group are too many to integrate over.",
            hint=f"let at most {MOST_EFFECTS} coefficients differ by group.",
        )
    size = np.sqrt((records.x * records.x).mean(axis=0))
    model = MarginalLikelihood(replace(records, x=records.x / size))
    theta = np.concatenate([start * size, _choose_start(first, size[random])[model.lower]])
    theta, optimum, settled = maximise_likelihood(model, theta)
    terms = len(start)
    covariance = np.linalg.pinv(optimum.information)[:terms, :terms] / np.outer(size, size)
    factor = model.build_factor(theta) / size[random][:, None]
    return GeneralisedMixedFit(
        beta=theta[:terms] / size,
        covariance=np.asarray(covariance, float),
        between=factor @ factor.T,
        log_likelihood=optimum.value,
        settled=settled,
    )


def _choose_start(covariance: Floats | None, size: Floats) -> Floats:
    """A square root on the scale of the columns; of half their size where nothing is known.

    Never zero: there the likelihood is flat, and no Newton step would lead away.
    """
    if covariance is None:
        return 0.5 * np.eye(len(size))
    scaled = covariance * np.outer(size, size)
    ridge = 1e-3 * max(float(np.trace(scaled)), 1e-2)
    return np.asarray(np.linalg.cholesky(scaled + ridge * np.eye(len(size))), float)


@dataclass(frozen=True, eq=False)
class LikelihoodPoint:
    """The log-likelihood at some parameters, its gradient, and the information there."""

    value: float
    gradient: Floats
    information: Floats


class Likelihood(Protocol):
    """A log-likelihood with its derivatives."""

    def evaluate(self, theta: Floats) -> LikelihoodPoint:
        """At some parameters."""
        ...


def maximise_likelihood(model: Likelihood, theta: Floats) -> tuple[Floats, LikelihoodPoint, bool]:
    """Newton's method with Levenberg-Marquardt damping: every step must lead up."""
    current, damping = model.evaluate(theta), 0.0
    for _ in range(_ROUNDS):
        step = _newton_step(current, damping)
        proposal = model.evaluate(theta + step)
        slack = 1e-10 * (1 + abs(current.value))
        if not proposal.value >= current.value - slack:
            damping = max(4 * damping, 1e-3)
            if damping > 1e12:  # noqa: PLR2004 - no direction leads up
                return theta, current, False
            continue
        theta, current = theta + step, proposal
        damping = damping / 8 if damping > 1e-6 else 0.0  # noqa: PLR2004
        moved = float(np.abs(step).max() / (1 + np.abs(theta).max()))
        if moved < _SMALL:
            return theta, current, True
        # Separation: the likelihood keeps rising as coefficients grow.
        if np.abs(theta).max() > _FAR:
            return theta, current, False
    return theta, current, False


def _newton_step(point: LikelihoodPoint, damping: float) -> Floats:
    """Uphill, also where the information has negative eigenvalues."""
    eigenvalues, eigenvectors = np.linalg.eigh(point.information)
    largest = max(float(np.abs(eigenvalues).max()), 1e-300)
    # Absolute eigenvalues keep the length of the step and turn a descent into an ascent.
    curvature = np.maximum(np.abs(eigenvalues), 1e-8 * largest)
    rotated = (eigenvectors.T @ point.gradient) / (curvature * (1 + damping))
    step: Floats = eigenvectors @ rotated
    longest = float(np.abs(step).max())
    return step if longest <= 2 else step * (2 / longest)  # noqa: PLR2004 - a trust region


class LikelihoodDerivatives(NamedTuple):
    """A log-likelihood by record or by group, its gradient, and minus its second derivative."""

    value: Floats
    gradient: Floats
    curvature: Floats


class MarginalLikelihood:
    """The likelihood with the random effects integrated out.

    Parameters
    ----------
    records : the model and the data.
    """

    def __init__(self, records: GroupedRecords) -> None:
        self.link, self.x, self.y, self.trials = records.link, records.x, records.y, records.trials
        self.offset = records.offset
        levels, group = np.unique(records.groups, return_inverse=True)
        self.group: Integers = group.reshape(-1)
        self.groups = len(levels)
        random = list(records.random)
        self.z = records.x[:, random]
        self.lower = np.tril_indices(len(random))
        # Modes of the standardised effects, kept as the start of the next search.
        self.effects: Floats = np.zeros((self.groups, len(random)))
        large = len(records.y) >= _LARGE * self.groups
        nodes, weights = np.polynomial.hermite_e.hermegauss(
            _FEWER if large else _NODES[len(random)]
        )
        # The product rule in as many dimensions as there are effects.
        grid = np.meshgrid(*[nodes] * len(random), indexing="ij")
        self.nodes = np.column_stack([axis.ravel() for axis in grid])
        grid = np.meshgrid(*[weights / weights.sum()] * len(random), indexing="ij")
        self.log_weights = np.log(np.prod([axis.ravel() for axis in grid], axis=0))
        self.log_weights += (self.nodes**2).sum(axis=1) / 2

    def build_factor(self, theta: Floats) -> Floats:
        """The Cholesky factor of the covariance of the effects."""
        factor = np.zeros((self.z.shape[1],) * 2)
        factor[self.lower] = theta[self.x.shape[1] :]
        return factor

    def sum_by_group(self, values: Floats) -> Floats:
        """Sums over the records of each group."""
        return np.bincount(self.group, weights=values, minlength=self.groups).astype(float)

    def find_modes(self, line: Floats, loadings: Floats) -> Floats:
        """Newton's method for the modes of all groups at once; the curvature there is returned.

        Parameters
        ----------
        line : the linear predictor without random effects.
        loadings : of each record on the standardised effects.
        """
        effects = self.effects
        current = self._differentiate_groups(line, loadings, effects)
        for _ in range(_INNER):
            step = np.linalg.solve(current.curvature, current.gradient[:, :, None])[:, :, 0]
            if float(np.abs(step).max()) < _SMALL:
                break
            for _ in range(_INNER):
                proposal = self._differentiate_groups(line, loadings, effects + step)
                slack = 1e-10 * (1 + np.abs(current.value))
                worse = ~(proposal.value >= current.value - slack)
                if not worse.any():
                    break
                # Only the groups that overshot take half the step.
                step = np.where(worse[:, None], step / 2, step)
            effects, current = effects + step, proposal
        self.effects = effects
        return current.curvature

    def _differentiate_groups(
        self, line: Floats, loadings: Floats, effects: Floats
    ) -> LikelihoodDerivatives:
        """Of the joint log density of outcome and standard normal effects, by group."""
        count = effects.shape[1]
        records = self.differentiate_records(line + (loadings * effects[self.group]).sum(axis=1))
        value = self.sum_by_group(records.value) - (effects**2).sum(axis=1) / 2
        columns = [self.sum_by_group(records.gradient * column) for column in loadings.T]
        curvature = np.empty((len(effects), count, count))
        for a in range(count):
            for b in range(a + 1):
                weighted = records.curvature * loadings[:, a] * loadings[:, b]
                # The prior of standard normal effects adds the identity.
                curvature[:, a, b] = self.sum_by_group(weighted) + (a == b)
                curvature[:, b, a] = curvature[:, a, b]
        return LikelihoodDerivatives(value, np.column_stack(columns) - effects, curvature)

    def differentiate_records(self, line: Floats) -> LikelihoodDerivatives:
        """Of the log-likelihood of each record, by the linear predictor."""
        from scipy.special import expit, log_ndtr

        y, trials = self.y, self.trials
        line = line + self.offset
        if self.link == "log":
            mean = np.exp(np.minimum(line, 700.0))
            return LikelihoodDerivatives(y * line - mean, y - mean, mean)
        if self.link == "logit":
            chance = expit(line)
            log = y * line - trials * np.logaddexp(0.0, line)
            return LikelihoodDerivatives(log, y - trials * chance, trials * chance * (1 - chance))
        # Probit: inverse Mills ratios, computed on the log scale so that tails stay exact.
        yes, no = log_ndtr(line), log_ndtr(-line)
        density = -(line**2) / 2 - 0.5 * np.log(2 * np.pi)
        up, down = np.exp(density - yes), np.exp(density - no)
        return LikelihoodDerivatives(
            y * yes + (trials - y) * no,
            y * up - (trials - y) * down,
            np.maximum(y * up * (up + line) + (trials - y) * down * (down - line), 0.0),
        )

    def evaluate(self, theta: Floats) -> LikelihoodPoint:
        """Log-likelihood, gradient and information, by adaptive Gaussian quadrature."""
        terms = self.x.shape[1]
        line, loadings = self.x @ theta[:terms], self.z @ self.build_factor(theta)
        root = np.linalg.cholesky(self.find_modes(line, loadings))
        scale = np.swapaxes(np.linalg.inv(root), 1, 2)
        # The log determinant of the change of variables from effects to nodes.
        log_scale = -np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        logs = np.empty((len(self.nodes), self.groups))
        for index, node in enumerate(self.nodes):
            effects = self.effects + scale @ node
            log = self.differentiate_records(
                line + (loadings * effects[self.group]).sum(axis=1)
            ).value
            log_density = self.sum_by_group(log) - (effects**2).sum(axis=1) / 2
            logs[index] = self.log_weights[index] + log_scale + log_density
        largest = logs.max(axis=0)
        share = np.exp(logs - largest)
        total = share.sum(axis=0)
        gradient, information = self._average_over_nodes(line, loadings, scale, share / total)
        return LikelihoodPoint(float((largest + np.log(total)).sum()), gradient, information)

    def _average_over_nodes(
        self, line: Floats, loadings: Floats, scale: Floats, share: Floats
    ) -> tuple[Floats, Floats]:
        """Score and information of all parameters, given the posterior weights of the nodes.

        Fisher's identity: the score is the expectation of the complete-data score s. Louis'
        identity: the information is E[curvature] - E[s s'] + E[s] E[s]'.
        """
        rows, columns = self.lower
        count = self.x.shape[1] + len(rows)
        information = np.zeros((count, count))
        mean = np.zeros((self.groups, count))
        for weight, node in zip(share, self.nodes, strict=True):
            effects = (self.effects + scale @ node)[self.group]
            records = self.differentiate_records(line + (loadings * effects).sum(axis=1))
            design = np.column_stack([self.x, self.z[:, rows] * effects[:, columns]])
            score = np.column_stack(
                [self.sum_by_group(records.gradient * column) for column in design.T]
            )
            mean += weight[:, None] * score
            weighted = design * (weight[self.group] * records.curvature)[:, None]
            information += weighted.T @ design
            information -= (score * weight[:, None]).T @ score
        return mean.sum(axis=0), information + mean.T @ mean
