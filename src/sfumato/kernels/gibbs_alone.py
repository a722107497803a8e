"""The pass over the records for the plainest case, several times as fast.

One component, nothing missing, no groups, no level interacting with a clean column: then levels
differ by shifts of the means, the squares cancel, and what decides is linear in what was seen.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sfumato.kernels.gibbs import level_shifts, one_of, outcome_rows, precisions

_TWO = 2


@njit(cache=True, nogil=True)
def linear_scores(precision, rows, shifts, gamma, middle, slope):  # type: ignore[no-untyped-def]
    """(level, column): log density beyond that of level 0, by columns counted."""
    levels, columns = rows.shape
    d = len(slope)
    made = np.zeros((levels, columns + d + 1))
    base = np.zeros((d + 1, columns + d + 1))
    for a in range(d):
        base[a, columns + a] = 1.0
        base[a, 0] = -middle[a] - shifts[0, a]
        for c in range(1, columns):
            base[a, c] = -gamma[c - 1, a]
    base[d, columns + d] = 1.0
    for c in range(columns):
        base[d, c] = -rows[0, c]
        for a in range(d):
            base[d, c] += slope[a] * base[a, c]
    away = np.zeros(d + 1)
    for k in range(1, levels):
        away[d] = rows[k, 0] - rows[0, 0]
        for a in range(d):
            away[a] = shifts[k, a] - shifts[0, a]
            away[d] += slope[a] * away[a]
        for a in range(d + 1):
            pull = 0.0
            for b in range(d + 1):
                pull += precision[a, b] * away[b]
            for c in range(columns + d + 1):
                made[k, c] += pull * base[a, c]
            made[k, 0] -= 0.5 * pull * away[a]
    return made


@njit(cache=True, nogil=True)
def assign_alone(data, state, rng):  # type: ignore[no-untyped-def]  # noqa: PLR0912
    """Draw the level of each record, and count cross products (level, column, column)."""
    clean, seen, density, cell = data.clean, data.seen, data.density, data.cell
    table, code, stats = state.table, state.code, state.stats[0, 0]
    scores = linear_scores(
        precisions(data, state)[0][0, 0],
        outcome_rows(data, state),
        level_shifts(data, state),
        state.gamma,
        state.middle[0],
        state.slope,
    )
    n, columns = clean.shape
    levels, wide = scores.shape
    row, weights = np.zeros(wide), np.zeros(levels)
    stats.fill(0.0)
    for i in range(n):
        for c in range(columns):
            row[c] = clean[i, c]
        for a in range(wide - columns):
            row[columns + a] = seen[i, a]
        at = cell[i]
        if levels == _TWO:
            line = table[at, 1] - table[at, 0] + density[i, 1] - density[i, 0]
            for c in range(wide):
                line += scores[1, c] * row[c]
            k = 1 if rng.random() * (1.0 + np.exp(-line)) < 1.0 else 0
        else:
            for k in range(levels):
                line = table[at, k] + density[i, k]
                for c in range(wide):
                    line += scores[k, c] * row[c]
                weights[k] = line
            k = one_of(weights, rng)
        code[i] = k
        for a in range(wide):
            for b in range(a + 1):
                stats[k, a, b] += row[a] * row[b]
    for k in range(levels):
        for a in range(wide):
            for b in range(a):
                stats[k, b, a] = stats[k, a, b]
