"""Where a chain begins, and what stays fixed while it runs."""

from __future__ import annotations

import numpy as np

from sfumato.analysis.problem import Problem
from sfumato.analysis.samplers.gibbs.layout import Layout, combination
from sfumato.analysis.samplers.gibbs.state import Data, Kinds, State
from sfumato.analysis.samplers.mixture import Mixture, spared
from sfumato.kernels.arrays import Floats, Integers

_STEPS = (3, 6)
"""Steps on the coefficients for each pass over the records: with few of them, and with many."""
_MANY = 10_000
_MOST_CELLS = 200
_RECORDS_IN_CELL = 20
_SOME = 2000


def shape_of(problem: Problem, layout: Layout) -> Mixture:
    """The mixture that true numbers, less what is known of them, ask for."""
    d = len(problem.numbers)
    there = layout.present[layout.pattern][:, :d].all(axis=1)
    features = np.column_stack([layout.clean, _expected(layout) @ dummies_of(problem, layout)])
    features, seen = features[there], layout.seen[there, :d].copy()
    if problem.groups is not None and problem.clustered:
        group = layout.group[there]
        counts = np.maximum(np.bincount(group), 1)
        for columns in (features[:, 1:], seen):
            for at in range(columns.shape[1]):
                columns[:, at] -= (np.bincount(group, columns[:, at]) / counts)[group]
    residual = seen - features @ np.linalg.lstsq(features, seen, rcond=None)[0]
    return spared(residual, layout.error[:d, :d], problem.shape)


def dummies_of(problem: Problem, layout: Layout) -> Floats:
    """(joint level, dummy): one for each level of a category but the first."""
    columns = [
        layout.joint[:, at] == level
        for at, one in enumerate(problem.categories)
        for level in range(1, len(one.levels))
    ]
    return np.column_stack(columns).astype(float) if columns else np.zeros((len(layout.joint), 0))


def fixed_of(problem: Problem, layout: Layout, mixture: Mixture) -> Data:
    """What stays as it is while chains run."""
    roles, earlier = _splits(problem, layout)
    clustered = problem.groups is not None and problem.clustered
    cell = np.zeros(len(layout.order), np.int64)
    split = clustered and len(layout.joint) > 1
    if len(layout.joint) > 1 and not split:
        cell, split = _cells(layout)
    upper = np.ascontiguousarray(layout.clean[layout.starts[:-1], : layout.upper])
    return Data(
        rows=np.column_stack([layout.clean, layout.seen]),
        columns=layout.clean.shape[1],
        numbers=len(problem.numbers),
        place=np.column_stack([layout.pattern, cell, layout.group]),
        present=layout.present,
        density=layout.density,
        roles=roles,
        earlier=earlier,
        dummies=dummies_of(problem, layout),
        starts=layout.starts,
        random=layout.random.T @ layout.clean / len(layout.order),
        outcome=layout.outcome,
        outcome_prior=layout.outcome_prior,
        error=layout.error,
        lifts=_lifts(layout, upper),
        upper=upper,
        prior=_prior_of(mixture),
        ways=mixture.components,
        cells=int(cell.max(initial=0)) + 1,
        clustered=clustered,
        split=split,
        interacting=bool((layout.outcome[:, :, 1:] != layout.outcome[:1, :, 1:]).any()),
        steps=_STEPS[len(layout.order) >= _MANY],
        kinds=_kinds(layout) if split else None,
    )


def state_of(data: Data, mixture: Mixture, chains: int, chance: np.random.Generator) -> State:
    """Beginnings that differ from chain to chain more than draws do."""
    d, q, columns = data.numbers, len(data.random), data.columns
    splits, features = len(data.roles), data.dummies.shape[1]
    clean, seen = data.rows[:, :columns], data.rows[:, columns : columns + d]
    gamma = np.zeros((columns - 1 + features, d))
    gamma[: columns - 1] = clean[:, 1:].T @ seen / len(clean)

    def each(values: Floats) -> Floats:
        return np.repeat(values[None], chains, axis=0)

    return State(
        beta=np.zeros((chains, data.outcome.shape[1])),
        slope=chance.normal(0, 0.3, (chains, d)),
        residual=chance.uniform(0.3, 1.5, chains),
        gamma=each(gamma),
        middle=each(mixture.means + seen.mean(axis=0)),
        spread=each(mixture.covariances),
        share=each(np.tile(mixture.shares, (data.levels, 1))),
        effect=np.zeros((chains, data.groups, q)),
        between=np.eye(q) * chance.uniform(0.02, 0.3, (chains, 1, 1)),
        shift=np.zeros((chains, data.groups, data.front)),
        among=each(np.eye(d) * 0.1),
        table=np.full(
            (chains, data.cells, data.levels), 0.0 if data.split else -np.log(data.levels)
        ),
        alpha=np.zeros((chains, splits, columns + features)),
        tilt=np.zeros((chains, splits, data.groups)),
        wide=np.ones((chains, splits)),
    )


def _prior_of(mixture: Mixture) -> Floats:
    """Precision of components' means, and scale of their covariances, before the data."""
    sizes = [np.trace(one) / len(one) for one in mixture.covariances if len(one)]
    return np.array([1e-2, 0.1 * float(np.mean(sizes)) if sizes else 0.0])


def _expected(layout: Layout) -> Floats:
    """(record, joint level) probabilities by what was released of the categories alone."""
    made = np.exp(layout.density)
    shares: Floats = made / made.sum(axis=1, keepdims=True)
    return shares


def _splits(problem: Problem, layout: Layout) -> tuple[Integers, Floats]:
    """Roles of the levels in each split, and the dummies of the categories before it."""
    every = dummies_of(problem, layout)
    roles, earlier = [], []
    before = 0
    for at, one in enumerate(problem.categories):
        seen = every.copy()
        seen[:, before:] = 0.0
        for level in range(len(one.levels) - 1):
            found = layout.joint[:, at]
            roles.append(np.where(found == level, 1, np.where(found > level, 0, -1)))
            earlier.append(seen)
        before += len(one.levels) - 1
    levels = len(layout.joint)
    return (
        np.array(roles, np.int64).reshape(-1, levels),
        np.array(earlier, float).reshape(len(roles), levels, every.shape[1]),
    )


def _cells(layout: Layout) -> tuple[Integers, bool]:
    """The combination of clean values of each record; or that there are too many of them."""
    n, columns = layout.clean.shape
    if columns == 1:
        return np.zeros(n, np.int64), False
    rows = np.ascontiguousarray(np.round(layout.clean, 9) + 0.0)
    found = np.unique(rows.view(f"V{rows.shape[1] * 8}").reshape(-1), return_inverse=True)[1]
    place = found.reshape(-1).astype(np.int64)
    many = int(place.max()) + 1
    if many > _MOST_CELLS or many * len(layout.joint) * _RECORDS_IN_CELL > n:
        return np.zeros(n, np.int64), True
    return place, False


def _kinds(layout: Layout) -> Kinds | None:
    """What records are alike; None where hardly any are."""
    n, levels = len(layout.clean), len(layout.joint)
    rows = np.column_stack([layout.clean[:, layout.upper :], layout.group])
    some = rows[:: max(n // _SOME, 1)]
    if len(np.unique(some, axis=0)) * levels > len(some):
        return None
    # Columns before these are the same for all of a group.
    view = np.ascontiguousarray(rows).view(f"V{rows.shape[1] * 8}").reshape(-1)
    _, first, kind = np.unique(view, return_index=True, return_inverse=True)
    every = np.repeat(first, levels)
    return Kinds(
        np.ascontiguousarray(layout.clean[every]),
        layout.group[every],
        np.tile(np.arange(levels, dtype=np.uint8), len(first)),
        kind.reshape(-1).astype(np.int64) * levels,
    )


def _lifts(layout: Layout, upper: Floats) -> list[tuple[int, Floats, Floats]]:
    """Directions in which coefficients and group effects can be exchanged."""
    made = []
    for r, column in enumerate(layout.random.T):
        same = bool((column == column[0]).all())
        for c in range(upper.shape[1] if same else 1):
            wanted = layout.clean.T @ (column * layout.clean[:, c]) / len(column)
            term = combination(layout.outcome, wanted)
            if term is not None:
                made.append((r, upper[:, c].copy(), term))
    return made
