"""One pass over the records of a linear model: which level and component each may have.

True numbers are integrated out: given level and component, what was seen of a record is normal.
All that coefficients and group effects need afterwards are cross products by group and cell
(component, pattern of missing values, level). Nothing else looks at the records, so nothing else
is compiled. Chance is a counter under a key of the chain's own (SplitMix64).
"""

from __future__ import annotations

import numpy as np
from numba import njit

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_UNIT = 2.0**-53
VISIT = (
    "void(f8[:,::1], i8[:,::1], f8[:,::1], f8[:,::1], f8[:,:,::1], f8[:,:,:,::1],"
    "f8[:,:,::1], f8[:,:,::1], f8[:,::1], f8[:,:,::1], f8[:,::1], i8[:,::1], i8[::1], u8,"
    "u1[::1], f8[:,:,:,::1])"
)


@njit(VISIT, cache=True, nogil=True, error_model="numpy")
def visit(  # type: ignore[no-untyped-def]  # noqa: PLR0912, PLR0915 - one loop, compiled once
    rows,
    place,
    density,
    table,
    base,
    precision,
    away,
    constant,
    lean,
    splits,
    later,
    roles,
    options,
    key,
    code,
    sums,
):
    """Draw level and component of the records of some groups, and add up what follows from them.

    Parameters
    ----------
    rows : (record, column) clean columns, released numbers, the outcome.
    place : (record, 3) pattern of missing values, cell of the table, group.
    density : (record, level) log density of what was released of the categories.
    table : (cell, level) log probabilities of the levels.
    base : (group, value, column) what was seen less its mean, for the first level and component.
    precision : (component, pattern, value, value) of what was seen.
    away : (component, level, value) how means differ from those of the first.
    constant : (component, pattern, level) all else of the log density.
    lean : (level, column) how the mean of the outcome differs by level, where columns matter.
    splits, later, roles : (group, split, column), (split, level), (split, level): log odds of the
        splits that make up the levels; see `gibbs_splits`.
    options : first and last record, first group; whether levels interact with columns; whether
        there are splits.
    key : of this pass's chance.
    code, sums : filled: the level of each record; (group, cell of component, pattern and level,
        column, column) lower triangles of cross products.
    """
    interacting, split = options[3] > 0, options[4] > 0
    wide, columns = rows.shape[1], lean.shape[1]
    ways, patterns, levels = constant.shape
    size = away.shape[2]
    residual, left = np.zeros(size), np.zeros(size)
    odds, weights = np.zeros(len(roles)), np.zeros(ways * levels)
    many = len(weights)
    for i in range(options[0], options[1]):
        m, c, g = place[i, 0], place[i, 1], place[i, 2]
        mixed = key + np.uint64(i) * _STEP
        mixed = (mixed ^ (mixed >> _30)) * _FIRST
        mixed = (mixed ^ (mixed >> _27)) * _SECOND
        mark = float((mixed ^ (mixed >> _31)) >> _11) * _UNIT
        at = 0
        if many > 1:
            for a in range(size):
                total = 0.0
                for w in range(wide):
                    total += base[g, a, w] * rows[i, w]
                residual[a] = total
            if split:
                for s in range(len(odds)):
                    total = 0.0
                    for w in range(columns):
                        total += splits[g, s, w] * rows[i, w]
                    odds[s] = total
            top = -np.inf
            for k in range(levels):
                before = table[c, k] + density[i, k]
                if split:
                    for s in range(len(odds)):
                        if roles[s, k] >= 0:
                            line = odds[s] + later[s, k]
                            line = -line if roles[s, k] == 1 else line
                            before -= max(line, 0.0) + np.log1p(np.exp(-abs(line)))
                shift = 0.0
                if interacting:
                    for w in range(columns):
                        shift += lean[k, w] * rows[i, w]
                for j in range(ways):
                    for a in range(size):
                        left[a] = residual[a] - away[j, k, a]
                    left[size - 1] -= shift
                    score = before + constant[j, m, k]
                    for a in range(size):
                        total = 0.5 * precision[j, m, a, a] * left[a]
                        for b in range(a):
                            total += precision[j, m, a, b] * left[b]
                        score -= total * left[a]
                    weights[j * levels + k] = score
                    top = max(top, score)
            total = 0.0
            for w in range(many):
                total += np.exp(weights[w] - top)
                weights[w] = total
            mark *= total
            while at < many - 1 and mark >= weights[at]:
                at += 1
        k = at % levels
        code[i] = k
        cell = ((at // levels) * patterns + m) * levels + k
        g -= options[2]
        for a in range(wide):
            for b in range(a + 1):
                sums[g, cell, a, b] += rows[i, a] * rows[i, b]
