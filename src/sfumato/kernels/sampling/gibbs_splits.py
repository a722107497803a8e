"""How well a split of the levels fits: log density, slope and curvature in one look."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(
    "void(f8[:,::1], i8[::1], u1[::1], f8[::1], i8[::1], f8[:,::1], f8[::1], f8[::1], f8[:,::1],"
    "f8[::1], f8[:,::1])",
    cache=True,
    nogil=True,
    error_model="numpy",
)
def look(  # type: ignore[no-untyped-def]
    rows, group, code, weights, roles, earlier, alpha, tilt, groups, slope, square
):
    """Add up over records, or over kinds of records that have all but the level in common.

    Parameters
    ----------
    rows, group, code : clean columns first; the group and the level of each.
    weights : how many records are of this kind.
    roles, earlier : (level), (level, dummy): 1 this one, 0 a later one, -1 not in question.
    alpha, tilt : coefficients of clean columns and dummies; effects of groups.
    groups : (group, 3) added to: log likelihood, slope and curvature by the effect of the group.
    slope, square : added to: the same by coefficients; the lower triangle.
    """
    size, extra = len(alpha), earlier.shape[1]
    columns = size - extra
    row = np.zeros(size)
    for i in range(len(code)):
        k = code[i]
        role = roles[k]
        many = weights[i]
        if role < 0 or many == 0:
            continue
        g = group[i]
        line = tilt[g]
        for c in range(columns):
            row[c] = rows[i, c]
            line += alpha[c] * row[c]
        for e in range(extra):
            row[columns + e] = earlier[k, e]
            line += alpha[columns + e] * row[columns + e]
        small = np.exp(-abs(line))
        chance = 1.0 / (1.0 + small) if line > 0 else small / (1.0 + small)
        value = -np.log1p(small) - (max(-line, 0.0) if role == 1 else max(line, 0.0))
        weight, away = many * chance * (1.0 - chance), many * (role - chance)
        groups[g, 0] += many * value
        groups[g, 1] += away
        groups[g, 2] += weight
        for a in range(size):
            slope[a] += away * row[a]
            for b in range(a + 1):
                square[a, b] += weight * row[a] * row[b]
