"""Which true level a record has, given clean columns, earlier categories and its group.

A category of L levels is L - 1 splits: level 0 or a later one; among those level 1 or a later
one; and so on. Each split is a logistic model with a group effect. The role of a level in a
split is 1 (this one), 0 (a later one) or -1 (not in question). Steps are Newton's, from where the
chain stands, taken with the Hastings ratio (Gamerman 1997).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sfumato.kernels.gibbs_matrices import gaussian, inverse, log_determinant

_FIRST_SD = 5.0
_OTHER_SD = 2.5


@njit(cache=True, nogil=True)
def draw_splits(data, state, rng):  # type: ignore[no-untyped-def]
    """Coefficients, group effects and their spread, for every split."""
    for s in range(len(data.roles)):
        _step_alpha(data, state, s, rng)
        if data.options[0]:
            _step_tilt(data, state, s, rng)
            _lift(data, state, s, rng)
            total = 0.0
            for g in range(state.tilt.shape[1]):
                total += state.tilt[s, g] ** 2
            # A uniform prior on the standard deviation.
            shape = (state.tilt.shape[1] - 1) / 2.0
            state.wide[s] = (total / 2.0 + 1e-12) / rng.standard_gamma(shape)


@njit(cache=True, nogil=True)
def draw_table(data, state, rng):  # type: ignore[no-untyped-def]
    """Probabilities of the levels in each cell of clean values: Dirichlet, 1/2 before the data."""
    cells, levels = state.table.shape
    state.table.fill(0.5)
    for i in range(len(state.code)):
        state.table[data.cell[i], state.code[i]] += 1.0
    for c in range(cells):
        total = 0.0
        for k in range(levels):
            state.table[c, k] = max(rng.standard_gamma(state.table[c, k]), 1e-300)
            total += state.table[c, k]
        for k in range(levels):
            state.table[c, k] = np.log(state.table[c, k] / total)


@njit(cache=True, nogil=True)
def _own(feature):  # type: ignore[no-untyped-def]
    return 1.0 / (_FIRST_SD if feature == 0 else _OTHER_SD) ** 2


@njit(cache=True, nogil=True)
def _look(data, state, s, alpha):  # type: ignore[no-untyped-def]
    """Log density, gradient and information of the coefficients of a split."""
    n, columns = data.clean.shape
    size, extra = len(alpha), data.earlier.shape[2]
    slope, square, value = np.zeros(size), np.zeros((size, size)), 0.0
    for a in range(size):
        value -= 0.5 * _own(a) * alpha[a] ** 2
        slope[a] = -_own(a) * alpha[a]
        square[a, a] = _own(a)
    row = np.zeros(size)
    for i in range(n):
        k = state.code[i]
        role = data.roles[s, k]
        if role < 0:
            continue
        line = state.tilt[s, data.group[i]]
        for c in range(columns):
            row[c] = data.clean[i, c]
            line += alpha[c] * row[c]
        for e in range(extra):
            row[columns + e] = data.earlier[s, k, e]
            line += alpha[columns + e] * row[columns + e]
        small = np.exp(-abs(line))
        chance = 1.0 / (1.0 + small) if line > 0 else small / (1.0 + small)
        value -= np.log1p(small) + (max(-line, 0.0) if role == 1 else max(line, 0.0))
        weight = chance * (1.0 - chance)
        for a in range(size):
            slope[a] += (role - chance) * row[a]
            for b in range(a + 1):
                square[a, b] += weight * row[a] * row[b]
    for a in range(size):
        for b in range(a):
            square[b, a] = square[a, b]
    return value, slope, square


@njit(cache=True, nogil=True)
def _towards(place, start, slope, square):  # type: ignore[no-untyped-def]
    """Log density of proposing `place` from `start`, but for a constant."""
    back = inverse(square)
    size = len(place)
    away = np.zeros(size)
    for a in range(size):
        away[a] = place[a] - start[a]
        for b in range(size):
            away[a] -= back[a, b] * slope[b]
    total = log_determinant(square)
    for a in range(size):
        for b in range(size):
            total -= away[a] * square[a, b] * away[b]
    return 0.5 * total


@njit(cache=True, nogil=True)
def _step_alpha(data, state, s, rng):  # type: ignore[no-untyped-def]
    old = state.alpha[s].copy()
    value, slope, square = _look(data, state, s, old)
    pull = slope.copy()
    for a in range(len(old)):
        for b in range(len(old)):
            pull[a] += square[a, b] * old[b]
    new = gaussian(square, pull, rng)
    value_new, slope_new, square_new = _look(data, state, s, new)
    ratio = value_new - value + _towards(old, new, slope_new, square_new)
    ratio -= _towards(new, old, slope, square)
    if np.log(rng.random()) < ratio:
        for a in range(len(old)):
            state.alpha[s, a] = new[a]


@njit(cache=True, nogil=True)
def _look_group(data, state, s, lines, g, tilt):  # type: ignore[no-untyped-def]
    value = -0.5 * tilt * tilt / state.wide[s]
    slope, square = -tilt / state.wide[s], 1.0 / state.wide[s]
    for i in range(data.starts[g], data.starts[g + 1]):
        role = data.roles[s, state.code[i]]
        if role < 0:
            continue
        line = lines[i] + tilt
        small = np.exp(-abs(line))
        chance = 1.0 / (1.0 + small) if line > 0 else small / (1.0 + small)
        value -= np.log1p(small) + (max(-line, 0.0) if role == 1 else max(line, 0.0))
        slope += role - chance
        square += chance * (1.0 - chance)
    return value, slope, square


@njit(cache=True, nogil=True)
def _step_tilt(data, state, s, rng):  # type: ignore[no-untyped-def]
    n, columns = data.clean.shape
    lines = np.zeros(n)
    for i in range(n):
        for c in range(columns):
            lines[i] += state.alpha[s, c] * data.clean[i, c]
        for e in range(data.earlier.shape[2]):
            lines[i] += state.alpha[s, columns + e] * data.earlier[s, state.code[i], e]
    for g in range(state.tilt.shape[1]):
        old = state.tilt[s, g]
        value, slope, square = _look_group(data, state, s, lines, g, old)
        chance = rng.standard_normal()
        new = old + slope / square + chance / np.sqrt(square)
        value_new, slope_new, square_new = _look_group(data, state, s, lines, g, new)
        back = old - new - slope_new / square_new
        ratio = value_new - value + 0.5 * np.log(square_new / square)
        ratio += 0.5 * chance * chance - 0.5 * square_new * back * back
        if np.log(rng.random()) < ratio:
            state.tilt[s, g] = new


@njit(cache=True, nogil=True)
def _lift(data, state, s, rng):  # type: ignore[no-untyped-def]
    """Exchange coefficients with group effects, their sum as it is."""
    for c in range(data.upper.shape[1]):
        total, pull = _own(c), 0.0
        for g in range(len(data.upper)):
            whole = state.tilt[s, g] + data.upper[g, c] * state.alpha[s, c]
            total += data.upper[g, c] ** 2 / state.wide[s]
            pull += data.upper[g, c] * whole / state.wide[s]
        new = pull / total + rng.standard_normal() / np.sqrt(total)
        move = new - state.alpha[s, c]
        for g in range(len(data.upper)):
            state.tilt[s, g] -= move * data.upper[g, c]
        state.alpha[s, c] = new
