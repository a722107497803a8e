"""What a fit leaves of each record: fitted values, residuals, leverages.

They belong to released records. In the place of noised values stands what is expected of the true
ones, so that all of it is approximate: residuals hold what the noise hides besides what the model
does not explain.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sfumato.analysis.calibrated import expected, seen_of
from sfumato.analysis.mixed_generalised import Grouped, Marginal
from sfumato.analysis.naive import Estimates, between_of, mean_of
from sfumato.analysis.problem import Problem
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Integers

COLUMNS = ("fitted", "residual", "standardised", "leverage")


def residuals(
    problem: Problem,
    levels: Mapping[str, Floats],
    plain: Estimates,
    shift: Mapping[str, float],
    value: Mapping[str, float],
) -> dict[str, Floats]:
    """Fitted values, residuals, standardised residuals and leverages; NaN where not known.

    Parameters
    ----------
    problem : the model.
    levels : for each noised category the scores of its levels.
    plain : the naive fit, for variances between groups that a quick look does not give.
    shift : what was added to coefficients, see `posed`.
    value : the coefficients, and variances where they are known.

    Residuals of generalised models are those of the outcome itself; standardised they are
    Pearson's. Fitted values have the effects of groups in them, leverages have not.
    """
    if problem.outcome_category is not None:
        raise MeasureError(
            "The outcome is a noised category, so nobody knows what is left of it.",
            hint="look at residuals of a model whose outcome was released as it is.",
        )
    seen = seen_of(problem, levels)
    rows = seen.known
    groups = None if problem.groups is None else problem.groups[rows]
    x = expected(problem, seen, rows, groups).x
    names = [one.name for one in problem.terms]
    beta = np.array([value[name] - shift.get(name, 0.0) for name in names])
    line = x @ beta
    if groups is not None:
        line = line + _of_groups(problem, x, rows, line, plain, value)
    y, added = problem.y[rows], _shared(problem, shift)[rows]
    trials = np.ones(len(y)) if problem.trials is None else problem.trials[rows]
    mean, weight, spread = _moments(problem, line, trials)
    left = y - mean
    if problem.family == "gaussian":
        spread = np.full(len(y), left @ left / max(len(y) - len(names), 1))
    leverage = _leverage(x, weight)
    scale = np.sqrt(spread * np.maximum(1 - leverage, 1e-12))
    standardised = np.divide(left, scale, out=np.full(len(y), np.nan), where=scale > 0)
    made = {}
    for name, some in zip(COLUMNS, (mean + added, left, standardised, leverage), strict=True):
        made[name] = np.full(problem.records, np.nan)
        made[name][rows] = some
    return made


def _moments(problem: Problem, line: Floats, trials: Floats) -> tuple[Floats, Floats, Floats]:
    """The mean of the outcome, the weight of each record, and the variance of the outcome."""
    if problem.family == "gaussian":
        return line, np.ones(len(line)), np.ones(len(line))
    mean, slope = mean_of(problem.link, line)
    spread = mean if problem.link == "log" else mean * (1 - mean)
    weight = trials * slope**2 / np.maximum(spread, 1e-300)
    return trials * mean, weight, trials * spread


def _leverage(x: Floats, weight: Floats) -> Floats:
    q, _ = np.linalg.qr(x * np.sqrt(weight)[:, None])
    return np.asarray((q * q).sum(axis=1), float)


def _shared(problem: Problem, shift: Mapping[str, float]) -> Floats:
    """What was taken off the outcome because its noise is shared with predictors."""
    made = np.zeros(problem.records)
    for one in problem.terms:
        if one.name in shift:
            made += shift[one.name] * problem.numbers[one.numbers[0][0]].seen
    return made


def _of_groups(
    problem: Problem, x: Floats, rows: Integers, line: Floats, plain: Estimates,
    value: Mapping[str, float],
) -> Floats:  # fmt: skip
    """The likeliest effects of groups, for each record."""
    every = {**plain.value, **value}
    between = between_of(problem, every)
    if between is None or problem.groups is None:
        return np.zeros(len(line))
    size, turned = np.linalg.eigh(between)
    # Effects that do not vary are nought, and their covariance has no inverse.
    factor = np.asarray(turned * np.sqrt(np.maximum(size, 0.0)), float)
    records = Grouped(
        link=problem.link,
        x=x,
        y=problem.y[rows],
        trials=np.ones(len(rows)) if problem.trials is None else problem.trials[rows],
        groups=problem.groups[rows],
        random=problem.random,
    )
    model = Marginal(records)
    loads = model.z @ factor
    if problem.family == "gaussian":
        effects = _linear_effects(model, loads, problem.y[rows] - line, every["residual variance"])
    else:
        model.modes(line, loads)
        effects = model.effects
    return np.asarray((loads * effects[model.place]).sum(axis=1), float)


def _linear_effects(model: Marginal, loads: Floats, left: Floats, variance: float) -> Floats:
    count = loads.shape[1]
    bend = np.empty((len(model.names), count, count))
    for a in range(count):
        for b in range(count):
            bend[:, a, b] = model.total(loads[:, a] * loads[:, b]) / variance + (a == b)
    pull = np.column_stack([model.total(one * left) for one in loads.T]) / variance
    return np.asarray(np.linalg.solve(bend, pull[:, :, None])[:, :, 0], float)
