"""Mixed models of two levels: linear by REML, generalised linear by maximum likelihood.

Linear: all that the likelihood needs of a group are the products of its columns, so the work after
one pass over the records depends on the number of groups and not on that of records.

Logit, probit, binomial and Poisson: the random effects of each group are integrated out of its
likelihood by adaptive Gauss-Hermite quadrature: nodes about the mode of the effects, as wide as the
curvature there says. Score and information of the marginal likelihood are expectations over the
same nodes (Fisher's and Louis' identities), so that a few Newton steps suffice. Memory grows with
the records, not with records times nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

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
    """A two-level fit: coefficients, their covariance, the residual variance, that of groups."""

    beta: Floats = field(repr=False)
    covariance: Floats = field(repr=False)
    variance: float
    between: Floats = field(repr=False)


@dataclass(frozen=True, eq=False)
class _GroupSums:
    """Of each group the products of the columns, with the outcome, and of the outcome."""

    gram: Floats
    moment: Floats
    square: Floats
    records: int
    random: tuple[int, ...]


def fit_linear_mixed_model(
    x: Floats, y: Floats, groups: npt.NDArray[np.int64], random: Sequence[int]
) -> LinearMixedFit:
    """Fit y = x beta + x[random] u + e with u of each group normal, by REML.

    Parameters
    ----------
    x, y : the columns and the outcome.
    groups : the group of each record.
    random : the columns whose coefficients differ by group.

    References: Laird & Ware (1982), Biometrics 38:963.
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
    sums = _sum_by_group(columns, residual / spread, groups, tuple(random))
    lower = np.tril_indices(len(random))
    first = np.eye(len(random))[lower] * 0.5
    # The Cholesky factor is unique with a diagonal of 0 or more.
    bounds = [(0.0 if a == b else None, None) for a, b in zip(*lower, strict=True)]
    optimum = minimize(
        lambda theta: _profile_deviance(_fill_lower_triangle(theta, lower), sums).deviance,
        first,
        method="L-BFGS-B",
        bounds=bounds,
        options={"ftol": 1e-12, "gtol": 1e-8},
    )
    factor = _fill_lower_triangle(optimum.x, lower)
    profile = _profile_deviance(factor, sums)
    factor = factor * spread / size[list(random)][:, None]
    return LinearMixedFit(
        beta=(start + spread * profile.beta) / size,
        covariance=profile.variance * spread**2 * profile.inverse / np.outer(size, size),
        variance=profile.variance * spread**2,
        between=profile.variance * factor @ factor.T,
    )


def _fill_lower_triangle(theta: Floats, lower: Any) -> Floats:
    factor = np.zeros((int(lower[0].max()) + 1,) * 2)
    factor[lower] = theta
    return factor


def _sum_by_group(
    x: Floats, y: Floats, groups: npt.NDArray[np.int64], random: tuple[int, ...]
) -> _GroupSums:
    size = x.shape[1]
    levels, group = np.unique(groups, return_inverse=True)
    gram = np.empty((len(levels), size, size))
    moment = np.empty((len(levels), size))
    for a in range(size):
        moment[:, a] = np.bincount(group, weights=x[:, a] * y)
        for b in range(a + 1):
            gram[:, a, b] = gram[:, b, a] = np.bincount(group, weights=x[:, a] * x[:, b])
    square = np.bincount(group, weights=y * y).astype(np.float64)
    return _GroupSums(gram, moment, square, len(y), random)


class _Profile(NamedTuple):
    """Minus twice the restricted log-likelihood, and the estimates that it is profiled over."""

    deviance: float
    beta: Floats
    inverse: Floats
    variance: float


def _profile_deviance(factor: Floats, sums: _GroupSums) -> _Profile:
    """With V_g = I + Z_g L L' Z_g' inverted by Woodbury's identity, L being `factor`."""
    random = list(sums.random)
    half = np.einsum("gpr,rs->gps", sums.gram[:, :, random], factor)
    inner = np.eye(len(random)) + np.einsum("rs,grt->gst", factor, half[:, random, :])
    solved = np.linalg.solve(inner, np.swapaxes(half, 1, 2))
    outcome = np.einsum("gr,rs->gs", sums.moment[:, random], factor)
    # X' V^-1 X, X' V^-1 y and y' V^-1 y, summed over groups.
    gram = sums.gram.sum(axis=0) - np.einsum("gps,gsq->pq", half, solved)
    moment = sums.moment.sum(axis=0) - np.einsum("gsp,gs->p", solved, outcome)
    solved_outcome = np.linalg.solve(inner, outcome[:, :, None])[:, :, 0]
    square = float(sums.square.sum() - (outcome * solved_outcome).sum())
    inverse = np.linalg.inv(gram)
    beta = inverse @ moment
    free = sums.records - len(beta)
    variance = max(square - float(beta @ moment), 1e-300) / free
    log_determinants = np.linalg.slogdet(inner)[1].sum() + np.linalg.slogdet(gram)[1]
    return _Profile(float(log_determinants + free * np.log(variance)), beta, inverse, variance)


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
    """

    link: str
    x: Floats = field(repr=False)
    y: Floats = field(repr=False)
    trials: Floats = field(repr=False)
    groups: Integers = field(repr=False)
    random: tuple[int, ...]


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
    theta, optimum, settled = _maximise(model, theta)
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


def _maximise(model: MarginalLikelihood, theta: Floats) -> tuple[Floats, LikelihoodPoint, bool]:
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
