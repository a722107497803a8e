"""How many persons are nearer to a row than the one an attacker takes it for: compiled."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.compiled import compiled, inner

_ROUNDING = 1 + 1e-9
"""Distances that differ by less are equal."""


@compiled
def rank_row(target, own, original, released, person, starts, gaps, nearest):  # type: ignore[no-untyped-def]
    """The ranks of one row: one for each released row that is nearest to it, in rising order.

    target : the true values of the row, scaled.
    own : its person.
    original, released : scaled, a row per variable; their columns person after person.
    person : whose each column is, numbered from 0.
    starts : where each person begins; the end stands last.
    gaps, nearest : to work in, as long as there are columns, and persons.
    """
    _measure(target, released, gaps)
    taken = np.flatnonzero(gaps <= gaps.min() * _ROUNDING)
    _measure(target, original, gaps)
    for other in range(len(nearest)):
        nearest[other] = gaps[starts[other] : starts[other + 1]].min() * _ROUNDING
    ranks = np.zeros(len(taken), np.int64)
    for place in range(len(taken)):
        if person[taken[place]] == own:
            continue
        limit = gaps[taken[place]]
        for other in range(len(nearest)):
            ranks[place] += nearest[other] < limit
    ranks.sort()
    return ranks


@inner
def _measure(target, values, gaps):  # type: ignore[no-untyped-def]
    """Squared distances from a target to all columns."""
    gaps[:] = 0.0
    for variable in range(len(values)):
        aim, column = target[variable], values[variable]
        for row in range(len(gaps)):
            gap = column[row] - aim
            gaps[row] += gap * gap
