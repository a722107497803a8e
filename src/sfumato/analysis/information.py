"""What the same records would have told without noise: the information of the coefficients.

True values are drawn from what is expected of them given all that was released but the outcome, so
that terms vary as much as the true ones do. Of a generalised model with groups, outcomes are drawn
from the model that was found.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sfumato.analysis.calibrated import Expected, Seen, expected, seen_of
from sfumato.analysis.mixed_generalised import Grouped, Marginal
from sfumato.analysis.naive import Estimates, between_of, mean_of
from sfumato.analysis.problem import Problem
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Integers

_DRAWS = 4
_LEAST = 1e-9


def information(problem: Problem, levels: Mapping[str, Floats], estimates: Estimates) -> Floats:
    """The information of the coefficients of a model without noise, on average.

    Parameters
    ----------
    problem : the model.
    levels : for each noised category the scores of its levels.
    estimates : coefficients, and variances of a model with groups.
    """
    seen = seen_of(problem, levels)
    rows = seen.known
    groups = None if problem.groups is None else problem.groups[rows]
    given = expected(problem, seen, rows, groups)
    chance = np.random.default_rng(0)  # of a number shown beside others, the same every time
    total = np.zeros((len(problem.terms),) * 2)
    for _ in range(_DRAWS):
        x = _drawn(problem, seen, rows, given, chance)
        total += _of_columns(problem, x, rows, estimates, chance)
    # Records that lack a noised value would have had it.
    return total / _DRAWS * (problem.records / len(rows))


def _drawn(
    problem: Problem, seen: Seen, rows: Integers, given: Expected, chance: np.random.Generator
) -> Floats:
    """The terms with true values that may have been."""
    numbers, codes = len(problem.numbers), np.zeros((problem.records, len(problem.categories)), int)
    size, turned = np.linalg.eigh(given.left[:, :numbers, :numbers])
    roots = turned * np.sqrt(np.maximum(size, 0.0))[:, None, :]
    normal = chance.standard_normal((len(rows), numbers))
    moved = normal @ roots[0].T if len(roots) == 1 else np.einsum("nab,nb->na", roots, normal)
    latent = np.zeros((problem.records, numbers))
    latent[rows] = given.mean[:, :numbers] + moved
    for at, one in enumerate(problem.categories):
        first = seen.first[numbers + at]
        share = np.clip(given.mean[:, first : first + len(one.levels) - 1], 0.0, 1.0)
        ends = np.cumsum(np.column_stack([np.maximum(1 - share.sum(axis=1), 0.0), share]), axis=1)
        draw = chance.random(len(rows)) * ends[:, -1]
        codes[rows, at] = np.minimum((draw[:, None] >= ends).sum(axis=1), len(one.levels) - 1)
    x = problem.design(latent, codes)[rows]
    if not np.isfinite(x).all():
        raise MeasureError("A term has no value where the true one may lie.")
    return x


def _of_columns(
    problem: Problem, x: Floats, rows: Integers, estimates: Estimates, chance: np.random.Generator
) -> Floats:
    beta = np.array([estimates.value[one.name] for one in problem.terms])
    trials = np.ones(len(rows)) if problem.trials is None else problem.trials[rows]
    if problem.groups is None:
        if problem.family == "gaussian":
            variance = estimates.value.get("residual variance", np.nan)
            return np.asarray(x.T @ x / variance, float)
        mean, slope = mean_of(problem.link, x @ beta)
        spread = mean if problem.link == "log" else mean * (1 - mean)
        weight = trials * slope**2 / np.maximum(spread, 1e-300)
        return np.asarray((x * weight[:, None]).T @ x, float)
    between = between_of(problem, estimates.value)
    if between is None:
        raise MeasureError("The variance between groups is not known.")
    least = _LEAST * max(float(np.trace(between)), _LEAST)
    factor = np.asarray(np.linalg.cholesky(between + least * np.eye(len(between))), float)
    model = Marginal(
        Grouped(
            link=problem.link, x=x, y=problem.y[rows], trials=trials, groups=problem.groups[rows],
            random=problem.random,
        )
    )  # fmt: skip
    if problem.family == "gaussian":
        return _two_level(model, factor, estimates.value.get("residual variance", np.nan))
    return _two_level_generalised(model, factor, beta, chance)


def _two_level(model: Marginal, factor: Floats, variance: float) -> Floats:
    """X' V^-1 X, group by group."""
    loads, x = model.z @ factor, model.x
    inner = np.stack([[model.total(a * b) for a in loads.T] for b in loads.T]).transpose(2, 0, 1)
    cross = np.stack([[model.total(a * b) for a in loads.T] for b in x.T]).transpose(2, 0, 1)
    solved = np.linalg.solve(inner + variance * np.eye(len(factor)), np.swapaxes(cross, 1, 2))
    return np.asarray((x.T @ x - (cross @ solved).sum(axis=0)) / variance, float)


def _two_level_generalised(
    model: Marginal, factor: Floats, beta: Floats, chance: np.random.Generator
) -> Floats:
    """That of outcomes drawn from the model, effects of groups integrated out."""
    effects = chance.standard_normal(model.effects.shape)
    line = model.x @ beta + ((model.z @ factor) * effects[model.place]).sum(axis=1)
    mean, _ = mean_of(model.link, line)
    count = model.trials.astype(np.int64)
    drawn = chance.poisson(mean) if model.link == "log" else chance.binomial(count, mean)
    model.y = drawn.astype(float)
    found = model.look(np.concatenate([beta, factor[model.lower]])).information
    terms = len(beta)
    # What is lost because variances between groups are estimated too.
    inside, outside = found[terms:, terms:], found[:terms, terms:]
    return found[:terms, :terms] - outside @ np.linalg.pinv(inside) @ outside.T
