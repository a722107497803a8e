"""Two-level logit, probit, binomial and Poisson models by maximum likelihood.

The effects of each group are integrated out of its likelihood by adaptive Gauss-Hermite quadrature:
nodes about the mode of the effects, as wide as its curvature says. Score and information of what is
left are expectations over the same nodes (Fisher's and Louis' identities), so that a few Newton
steps suffice. Memory grows with the records, not with records times nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Integers

MOST = 3
"""Effects of a group: with more, there are too many nodes."""
_NODES = {1: 11, 2: 7, 3: 5}
_FEWER, _LARGE = 5, 100
"""Nodes where groups have many records each, so that their effects are all but normal."""
_ROUNDS, _INNER, _FAR = 100, 50, 40.0
_SMALL = 1e-5
"""A step of Newton's this small leaves an error that is about its square."""


@dataclass(frozen=True, eq=False)
class Generalised:
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
class Grouped:
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


def mixed_generalised(records: Grouped, start: Floats, first: Floats | None = None) -> Generalised:
    """Fit link(mean of y) = x beta + x[random] u with u of each group normal.

    Parameters
    ----------
    records : the model and the data.
    start : coefficients where the search begins.
    first : the covariance of the effects where it begins.

    References: Pinheiro & Bates (1995), J. Comput. Graph. Stat. 4:12; Louis (1982), JRSS B 44:226.
    """
    random = list(records.random)
    if len(random) > MOST:
        raise MeasureError(
            f"{len(random)} effects of each group are too many to integrate over.",
            hint=f"let at most {MOST} coefficients differ by group.",
        )
    size = np.sqrt((records.x * records.x).mean(axis=0))
    model = Marginal(replace(records, x=records.x / size))
    theta = np.concatenate([start * size, _root(first, size[random])[model.lower]])
    theta, found, settled = _climbed(model, theta)
    terms = len(start)
    covariance = np.linalg.pinv(found.information)[:terms, :terms] / np.outer(size, size)
    factor = model.factor(theta) / size[random][:, None]
    return Generalised(
        beta=theta[:terms] / size,
        covariance=np.asarray(covariance, float),
        between=factor @ factor.T,
        log_likelihood=found.value,
        settled=settled,
    )


def _root(covariance: Floats | None, size: Floats) -> Floats:
    """A square root on the scale of the columns; of half their size where nothing is known.

    Never nought: there the likelihood is level, and no step would lead away.
    """
    if covariance is None:
        return 0.5 * np.eye(len(size))
    wide = covariance * np.outer(size, size)
    least = 1e-3 * max(float(np.trace(wide)), 1e-2)
    return np.asarray(np.linalg.cholesky(wide + least * np.eye(len(size))), float)


@dataclass(frozen=True, eq=False)
class Look:
    """The log likelihood at some parameters, its slope, and the information there."""

    value: float
    slope: Floats
    information: Floats


def _climbed(model: Marginal, theta: Floats) -> tuple[Floats, Look, bool]:
    """Newton's steps, shortened until each leads up."""
    here, damp = model.look(theta), 0.0
    for _ in range(_ROUNDS):
        step = _step(here, damp)
        there = model.look(theta + step)
        slack = 1e-10 * (1 + abs(here.value))
        if not there.value >= here.value - slack:
            damp = max(4 * damp, 1e-3)
            if damp > 1e12:  # noqa: PLR2004 - no way leads up
                return theta, here, False
            continue
        theta, here, damp = theta + step, there, damp / 8 if damp > 1e-6 else 0.0  # noqa: PLR2004
        moved = float(np.abs(step).max() / (1 + np.abs(theta).max()))
        if moved < _SMALL:
            return theta, here, True
        if np.abs(theta).max() > _FAR:
            return theta, here, False
    return theta, here, False


def _step(here: Look, damp: float) -> Floats:
    """Uphill, also where the likelihood bends the wrong way."""
    size, turned = np.linalg.eigh(here.information)
    bend = np.maximum(np.abs(size), 1e-8 * max(float(np.abs(size).max()), 1e-300))
    made: Floats = turned @ ((turned.T @ here.slope) / (bend * (1 + damp)))
    longest = float(np.abs(made).max())
    return made if longest <= 2 else made * (2 / longest)  # noqa: PLR2004 - no leap


class Marginal:
    """The likelihood with the effects of groups integrated out.

    Parameters
    ----------
    given : the model and the data.
    """

    def __init__(self, given: Grouped) -> None:
        self.link, self.x, self.y, self.trials = given.link, given.x, given.y, given.trials
        self.names, place = np.unique(given.groups, return_inverse=True)
        self.place: Integers = place.reshape(-1)
        random = list(given.random)
        self.z = given.x[:, random]
        self.lower = np.tril_indices(len(random))
        self.effects: Floats = np.zeros((len(self.names), len(random)))
        many = len(given.y) >= _LARGE * len(self.names)
        nodes, weights = np.polynomial.hermite_e.hermegauss(_FEWER if many else _NODES[len(random)])
        grid = np.meshgrid(*[nodes] * len(random), indexing="ij")
        self.nodes = np.column_stack([one.ravel() for one in grid])
        each = np.meshgrid(*[weights / weights.sum()] * len(random), indexing="ij")
        self.logs = np.log(np.prod([one.ravel() for one in each], axis=0))
        self.logs += (self.nodes**2).sum(axis=1) / 2

    def factor(self, theta: Floats) -> Floats:
        """The square root of the covariance of the effects."""
        made = np.zeros((self.z.shape[1],) * 2)
        made[self.lower] = theta[self.x.shape[1] :]
        return made

    def total(self, values: Floats) -> Floats:
        """Sums by group."""
        return np.bincount(self.place, weights=values, minlength=len(self.names)).astype(float)

    def modes(self, line: Floats, loads: Floats) -> Floats:
        """The likeliest effects, found for all groups at once; their curvature is returned."""
        effects = self.effects
        best, slope, bend = self._at(line, loads, effects)
        for _ in range(_INNER):
            step = np.linalg.solve(bend, slope[:, :, None])[:, :, 0]
            if float(np.abs(step).max()) < _SMALL:
                break
            for _ in range(_INNER):
                value, new_slope, new_bend = self._at(line, loads, effects + step)
                worse = ~(value >= best - 1e-10 * (1 + np.abs(best)))
                if not worse.any():
                    break
                step = np.where(worse[:, None], step / 2, step)
            effects, best, slope, bend = effects + step, value, new_slope, new_bend
        self.effects = effects
        return bend

    def _at(self, line: Floats, loads: Floats, effects: Floats) -> tuple[Floats, Floats, Floats]:
        count = effects.shape[1]
        log, rise, curve = self.records(line + (loads * effects[self.place]).sum(axis=1))
        value = self.total(log) - (effects**2).sum(axis=1) / 2
        slope = np.column_stack([self.total(rise * one) for one in loads.T]) - effects
        bend = np.empty((len(effects), count, count))
        for a in range(count):
            for b in range(a + 1):
                made = self.total(curve * loads[:, a] * loads[:, b]) + (a == b)
                bend[:, a, b] = bend[:, b, a] = made
        return value, slope, bend

    def records(self, line: Floats) -> tuple[Floats, Floats, Floats]:
        """Of each record the log likelihood, its slope, and minus its second derivative."""
        from scipy.special import expit, log_ndtr

        y, trials = self.y, self.trials
        if self.link == "log":
            mean = np.exp(np.minimum(line, 700.0))
            return y * line - mean, y - mean, mean
        if self.link == "logit":
            chance = expit(line)
            log = y * line - trials * np.logaddexp(0.0, line)
            return log, y - trials * chance, trials * chance * (1 - chance)
        yes, no = log_ndtr(line), log_ndtr(-line)
        density = -(line**2) / 2 - 0.5 * np.log(2 * np.pi)
        up, down = np.exp(density - yes), np.exp(density - no)
        curve = y * up * (up + line) + (trials - y) * down * (down - line)
        return y * yes + (trials - y) * no, y * up - (trials - y) * down, np.maximum(curve, 0.0)

    def look(self, theta: Floats) -> Look:
        """Log likelihood, slope and information."""
        terms = self.x.shape[1]
        line, loads = self.x @ theta[:terms], self.z @ self.factor(theta)
        root = np.linalg.cholesky(self.modes(line, loads))
        wide = np.swapaxes(np.linalg.inv(root), 1, 2)
        size = -np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        logs = np.empty((len(self.nodes), len(self.names)))
        for at, node in enumerate(self.nodes):
            effects = self.effects + wide @ node
            log, _, _ = self.records(line + (loads * effects[self.place]).sum(axis=1))
            logs[at] = self.logs[at] + size + self.total(log) - (effects**2).sum(axis=1) / 2
        top = logs.max(axis=0)
        share = np.exp(logs - top)
        whole = share.sum(axis=0)
        slope, information = self._expected(line, loads, wide, share / whole)
        return Look(float((top + np.log(whole)).sum()), slope, information)

    def _expected(
        self, line: Floats, loads: Floats, wide: Floats, share: Floats
    ) -> tuple[Floats, Floats]:
        """Score and information of all parameters, given the weights of the nodes."""
        rows, columns = self.lower
        count = self.x.shape[1] + len(rows)
        information = np.zeros((count, count))
        mean = np.zeros((len(self.names), count))
        for weight, node in zip(share, self.nodes, strict=True):
            effects = (self.effects + wide @ node)[self.place]
            _, rise, curve = self.records(line + (loads * effects).sum(axis=1))
            both = np.column_stack([self.x, self.z[:, rows] * effects[:, columns]])
            each = np.column_stack([self.total(rise * one) for one in both.T])
            mean += weight[:, None] * each
            information += (both * (weight[self.place] * curve)[:, None]).T @ both
            information -= (each * weight[:, None]).T @ each
        return mean.sum(axis=0), information + mean.T @ mean
