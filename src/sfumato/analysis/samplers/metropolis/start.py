"""What all chains of a problem share: order of records, basis of clean columns, first values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from sfumato.analysis.problem import Category, Number, Problem, Shape
from sfumato.analysis.samplers.metropolis.released import Released
from sfumato.analysis.samplers.mixture import Mixture, chosen, fitted
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Integers

_SAME = 1e-9
_ROUNDS = 12
_COMPONENTS, _RECORDS = 6, 100
"""So many components where a mixture is needed, and so many records for each and number."""
_LOOKED_AT = 20_000
_LEAST = 0.05
"""The least share of the released variance that is taken for true."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Start:
    """What all chains of a problem share.

    Parameters
    ----------
    problem : with its records in canonical order, groups numbered from 0 on.
    clean : (record, column) clean columns of size one, the constant first.
    shared : places of those that are constant in groups.
    groups : how many there are; 0 where there are none.
    released : what was released of each number.
    others : by number, (record, number) how the noise of the others tells of its own; None where
        it does not.
    centre, spread : (record, number) where each true value is expected, and how sure that is.
    size : the SD of each number.
    mixture : the shape of the residuals.
    """

    problem: Problem
    clean: Floats = field(repr=False)
    shared: list[int]
    groups: int
    released: list[Released]
    others: list[Floats | None]
    centre: Floats = field(repr=False)
    spread: Floats = field(repr=False)
    size: Floats
    mixture: Mixture


def started(given: Problem, seed: int) -> Start:
    """The start of a problem. Refuses what has no distribution."""
    _enough(given)
    problem = _ordered(given)
    groups = 0 if problem.groups is None else int(problem.groups.max()) + 1
    clean, shared = _basis(problem)
    others = [_others(problem, at) for at in range(len(problem.numbers))]
    released = [
        Released(one, None if at is None else at[1])
        for one, at in zip(problem.numbers, others, strict=True)
    ]
    chance = np.random.default_rng(seed)
    centre, spread, residual = _calibrated(problem, released, clean, chance)
    size = np.maximum(residual.std(axis=0), 1e-300)
    error = _error(problem, released)
    mixture = Mixture(np.ones(1), np.zeros((1, 0)), np.zeros((1, 0, 0)), 0.0)
    if problem.numbers:
        mixture = _shape(residual / size, error / np.outer(size, size), problem.shape)
        covariances = mixture.covariances * np.outer(size, size)
        mixture = Mixture(mixture.shares, mixture.means * size, covariances, mixture.bic)
    return Start(
        problem=problem, clean=clean, shared=shared, groups=groups, released=released,
        others=[None if one is None else one[0] for one in others], centre=centre, spread=spread,
        size=size, mixture=mixture,
    )  # fmt: skip


def _shape(residual: Floats, error: Floats, shape: Shape) -> Mixture:
    """The shape that the data ask for; a mixture with components to spare.

    Noise hides what true values look like, so that BIC asks for few components. Draws of a
    mixture do not mind having too many, and powers of true values mind having too few.
    """
    made = chosen(residual, error, shape)
    spare = min(_COMPONENTS, len(residual) // (_RECORDS * residual.shape[1]))
    if made.components == 1 or spare <= made.components:
        return made
    return fitted(residual[:: max(1, -(-len(residual) // _LOOKED_AT))], error, spare)


def _enough(problem: Problem) -> None:
    if problem.records < len(problem.terms) + len(problem.numbers) + 3:
        raise MeasureError(
            f"There are {problem.records} records, too few for {len(problem.terms)} coefficients.",
            hint="leave terms out of the formula.",
        )
    for one in problem.numbers:
        if np.isnan(one.seen).all() or not np.isfinite(one.seen[~np.isnan(one.seen)]).all():
            raise MeasureError(
                f"Variable '{one.name}' has no finite released value for some records, or for all.",
                hint="leave it out of the formula.",
            )
    if problem.outcome_number is None and not np.isfinite(problem.y).all():
        raise MeasureError("The outcome has no finite value for some records.")
    if problem.groups is None:
        return
    groups, least = len(np.unique(problem.groups)), 3 * max(len(problem.random), 1) + 1
    if groups < least:
        raise MeasureError(
            f"There are {groups} groups; {least} are needed to tell how they vary.",
            hint="leave the groups out, or make them a clean factor of the formula.",
        )


def _ordered(problem: Problem) -> Problem:
    """The records in an order that depends on their values alone."""
    keys: list[npt.NDArray[np.generic]] = [
        column for one in _categories(problem) for column in one.density.T
    ]
    keys += [one.clean for one in problem.terms if one.clean is not None]
    keys += [*problem.covariates.T, *(one.seen for one in problem.numbers), problem.y]
    keys += [one for one in (problem.trials, problem.groups) if one is not None]
    order = np.lexsort(keys)
    number, category = problem.outcome_number, problem.outcome_category
    groups = None if problem.groups is None else problem.groups[order]
    if groups is not None:
        groups = np.unique(groups, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return replace(
        problem,
        y=problem.y[order],
        trials=None if problem.trials is None else problem.trials[order],
        outcome_number=None if number is None else _number(number, order),
        outcome_category=None if category is None else _category(category, order),
        numbers=tuple(_number(one, order) for one in problem.numbers),
        categories=tuple(_category(one, order) for one in problem.categories),
        terms=tuple(
            one if one.clean is None else replace(one, clean=one.clean[order])
            for one in problem.terms
        ),
        covariates=problem.covariates[order],
        groups=groups,
    )


def _number(one: Number, order: Integers) -> Number:
    return replace(one, seen=one.seen[order])


def _category(one: Category, order: Integers) -> Category:
    return replace(one, density=one.density[order])


def _categories(problem: Problem) -> list[Category]:
    own = problem.outcome_category
    return [*problem.categories, *([] if own is None else [own])]


def _basis(problem: Problem) -> tuple[Floats, list[int]]:
    """Uncorrelated clean columns of size one, the constant first; which are constant in groups."""
    made: list[Floats] = [np.ones(problem.records)]
    shared = [0]
    everything = list(problem.covariates.T)
    if problem.groups is not None:
        # First those constant in groups, so that what is made of them is so too.
        everything.sort(key=lambda one: not _constant(one, problem.groups))
    for column in everything:
        left = np.asarray(column, float)
        whole = float(np.sqrt(np.mean(left**2)))
        for one in [*made, *made]:
            left = left - np.mean(one * left) * one
        own = float(np.sqrt(np.mean(left**2)))
        if not whole or own <= _SAME * whole:
            continue
        if problem.groups is not None and _constant(column, problem.groups):
            shared.append(len(made))
        made.append(left / own)
    return np.asfortranarray(np.column_stack(made)), shared


def _constant(column: Floats, group: Integers | None) -> bool:
    assert group is not None  # noqa: S101 - asked before
    first = np.zeros(int(group.max()) + 1)
    first[group] = column
    return bool((column == first[group]).all())


def _others(problem: Problem, at: int) -> tuple[Floats, Floats] | None:
    """How correlated noise of other numbers tells of this one's, and what is left of it."""
    linked = [k for k in range(len(problem.numbers)) if k != at and problem.error[at, k] != 0]
    if not linked:
        return None
    there = np.column_stack([~np.isnan(problem.numbers[k].seen) for k in linked])
    weight = np.zeros((problem.records, len(problem.numbers)))
    left = np.full(problem.records, problem.error[at, at])
    patterns, which = np.unique(there, axis=0, return_inverse=True)
    for row, pattern in enumerate(patterns):
        known = [k for k, is_there in zip(linked, pattern, strict=True) if is_there]
        if not known:
            continue
        own = which.reshape(-1) == row
        cross = problem.error[np.ix_(known, [at])][:, 0]
        follow = np.linalg.solve(problem.error[np.ix_(known, known)], cross)
        weight[np.ix_(own, known)] = follow
        left[own] -= cross @ follow
    return weight, np.maximum(left, 1e-9 * problem.error[at, at])


def _error(problem: Problem, released: list[Released]) -> Floats:
    """The covariance of the noise; where it grows, its average."""
    made = np.array(problem.error, float).reshape(len(released), len(released))
    for at, one in enumerate(released):
        if problem.error[at, at] == 0 or one.number.growth is not None:
            made[at, at] = float(np.mean(one.variance(one.seen)))
        made[at, at] += one.number.width**2 / 12
    return made


def _calibrated(
    problem: Problem, released: list[Released], clean: Floats, chance: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Where true values are expected given released ones, how sure that is, and noisy residuals.

    What is missing or lies beyond an end is drawn from a normal regression, a few times over, so
    that the shape of the rest is not mistaken.
    """
    records, count = problem.records, len(released)
    centre, spread, residual = (np.zeros((records, count)) for _ in range(3))
    design = _with_levels(problem, clean)
    for at, one in enumerate(released):
        noisy = np.where(one.missing, one.seen[~one.missing].mean(), one.seen)
        unknown = np.flatnonzero(one.missing | one.cut)
        for _ in range(_ROUNDS if len(unknown) else 1):
            found = np.linalg.lstsq(design, noisy, rcond=None)[0]
            fitted = design @ found
            if problem.groups is not None and problem.clustered:
                fitted += _group_means(noisy - fitted, problem.groups)
            sd = float(np.std(noisy - fitted)) or 1e-300
            noisy[unknown] = fitted[unknown] + sd * _beyond(one, fitted, sd, unknown, chance)
        residual[:, at] = noisy - fitted
        variance = np.broadcast_to(np.asarray(one.variance(noisy), float), records)
        true = max(sd**2 - float(variance.mean()), _LEAST * sd**2)
        share = true / (true + variance)
        centre[:, at] = fitted + share * (noisy - fitted)
        spread[:, at] = np.sqrt(true * (1 - share))
    return centre, spread, residual


def _beyond(
    one: Released, fitted: Floats, sd: float, unknown: Integers, chance: np.random.Generator
) -> Floats:
    """Standard normal draws between the ends that are known of each value."""
    from scipy.special import ndtr, ndtri

    lower = np.where(one.missing, -np.inf, one.lower)[unknown]
    upper = np.where(one.missing, np.inf, one.upper)[unknown]
    a, b = (lower - fitted[unknown]) / sd, (upper - fitted[unknown]) / sd
    # In the lower tail nothing cancels.
    sign = np.where(a > 0, -1.0, 1.0)
    a, b = np.where(a > 0, -b, a), np.where(a > 0, -a, b)
    low, high = ndtr(a), ndtr(b)
    at = np.clip(low + chance.uniform(size=len(a)) * (high - low), 1e-300, 1 - 1e-16)
    made: Floats = sign * ndtri(at)
    return np.clip(made, -8.0, 8.0)


def _with_levels(problem: Problem, clean: Floats) -> Floats:
    """The clean columns, and how likely each level is by what was released of it."""
    columns = [clean]
    for one in problem.categories:
        chances = np.exp(one.density - one.density.max(axis=1, keepdims=True))
        columns.append((chances / chances.sum(axis=1, keepdims=True))[:, 1:])
    return np.column_stack(columns)


def _group_means(residual: Floats, group: Integers) -> Floats:
    """The means by group, drawn together as far as chance alone would drive them apart."""
    sizes = np.maximum(np.bincount(group), 1)
    means = np.bincount(group, residual) / sizes
    within = float(np.var(residual))
    between = max(float(np.var(means)) - within * float(np.mean(1 / sizes)), 0.0)
    shrunk = means * between / (between + within / sizes + 1e-300)
    made: Floats = shrunk[group]
    return made
