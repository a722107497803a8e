"""One pass over the records: which level and which component each may have.

True numbers are integrated out: given level and component, what was seen of a record is normal.
Everything the coefficients need afterwards is in cross products by cell (component, pattern of
missing values, level), so that the records are looked at no more often than that.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sfumato.kernels.gibbs_matrices import inverse, log_determinant


@njit(cache=True, nogil=True)
def joint(spread, slope, residual):  # type: ignore[no-untyped-def]
    """The covariance of true numbers and outcome, within a group."""
    d = len(slope)
    made = np.zeros((d + 1, d + 1))
    for a in range(d):
        for b in range(d):
            made[a, b] = spread[a, b]
            made[a, d] += spread[a, b] * slope[b]
        made[d, a] = made[a, d]
    made[d, d] = residual
    for a in range(d):
        made[d, d] += slope[a] * made[a, d]
    return made


@njit(cache=True, nogil=True)
def masked(whole, error, present):  # type: ignore[no-untyped-def]
    """The covariance of what was seen; what is missing has variance 1 and stands alone."""
    size = whole.shape[0]
    made = np.zeros((size, size))
    for a in range(size):
        for b in range(size):
            made[a, b] = (whole[a, b] + error[a, b]) * present[a] * present[b]
        made[a, a] += 1.0 - present[a]
    return made


@njit(cache=True, nogil=True)
def precisions(data, state):  # type: ignore[no-untyped-def]
    """By component and pattern: the precision of what was seen, and its log determinant."""
    ways, patterns, size = state.share.shape[1], len(data.present), data.seen.shape[1]
    made = np.zeros((ways, patterns, size, size))
    determinant = np.zeros((ways, patterns))
    for j in range(ways):
        whole = joint(state.spread[j], state.slope, state.residual[0])
        for m in range(patterns):
            part = masked(whole, data.error, data.present[m])
            determinant[j, m] = log_determinant(part)
            back = inverse(part)
            for a in range(size):
                for b in range(size):
                    made[j, m, a, b] = back[a, b] * data.present[m, a] * data.present[m, b]
    return made, determinant


@njit(cache=True, nogil=True)
def outcome_rows(data, state):  # type: ignore[no-untyped-def]
    """(level, column): the mean of the outcome, but for numbers, by clean columns."""
    levels, terms, columns = data.outcome.shape
    made = np.zeros((levels, columns))
    for k in range(levels):
        for t in range(terms):
            for c in range(columns):
                made[k, c] += state.beta[t] * data.outcome[k, t, c]
    return made


@njit(cache=True, nogil=True)
def level_shifts(data, state):  # type: ignore[no-untyped-def]
    """(level, number): how the mean of the numbers depends on the level."""
    levels, extra = data.dummies.shape
    first = data.clean.shape[1] - 1
    d = len(state.slope)
    made = np.zeros((levels, d))
    for k in range(levels):
        for e in range(extra):
            for a in range(d):
                made[k, a] += data.dummies[k, e] * state.gamma[first + e, a]
    return made


@njit(cache=True, nogil=True)
def _before(data, state, i, split, out):  # type: ignore[no-untyped-def]
    """Log probabilities of the levels of a record, before anything of it was seen."""
    levels = len(out)
    if not split:
        for k in range(levels):
            out[k] = state.table[data.cell[i], k]
        return
    columns = data.clean.shape[1]
    for k in range(levels):
        out[k] = 0.0
    for s in range(len(data.roles)):
        base = state.tilt[s, data.group[i]]
        for c in range(columns):
            base += state.alpha[s, c] * data.clean[i, c]
        for k in range(levels):
            if data.roles[s, k] < 0:
                continue
            line = base
            for e in range(data.earlier.shape[2]):
                line += state.alpha[s, columns + e] * data.earlier[s, k, e]
            line = -line if data.roles[s, k] == 1 else line
            out[k] -= max(line, 0.0) + np.log1p(np.exp(-abs(line)))


@njit(cache=True, nogil=True)
def one_of(weights, rng):  # type: ignore[no-untyped-def]
    """One place, by log weights."""
    top = weights[0]
    for w in range(1, len(weights)):
        top = max(top, weights[w])
    total = 0.0
    for w in range(len(weights)):
        total += np.exp(weights[w] - top)
        weights[w] = total
    mark = rng.random() * total
    for w in range(len(weights)):
        if mark < weights[w]:
            return w
    return len(weights) - 1


@njit(cache=True, nogil=True)
def _gather(data, state, i, front, precision, residual, moved, gathered, pulled):  # type: ignore[no-untyped-def]
    """Add what a record says of the effects of its group."""
    effects, size, d = len(pulled), len(residual), len(state.slope)
    q = data.random.shape[1]
    for a in range(front):
        for b in range(size):
            moved[a, b] = precision[a, b] + precision[d, b] * state.slope[a]
    for r in range(q):
        for b in range(size):
            moved[front + r, b] = precision[d, b] * data.random[i, r]
    for e in range(effects):
        pull = 0.0
        for b in range(size):
            pull += moved[e, b] * residual[b]
        pulled[e] += pull
        for a in range(front):
            gathered[e, a] += moved[e, a] + moved[e, d] * state.slope[a]
        for r in range(q):
            gathered[e, front + r] += moved[e, d] * data.random[i, r]


@njit(cache=True, nogil=True)
def assign(data, state, gathered, pulled, rng):  # type: ignore[no-untyped-def]  # noqa: PLR0912
    """Draw level and component of each record, and gather what the group effects need.

    `gathered` (group, effect, effect) and `pulled` (group, effect) are filled: precision of the
    effects and the residuals' pull on them. Effects are those on numbers, then on the outcome.
    """
    clustered, split, interacting = data.options[0], data.options[1], data.options[2]
    n, columns = data.clean.shape
    d, levels, ways = len(state.slope), data.outcome.shape[0], state.share.shape[1]
    q, size = data.random.shape[1], d + 1
    precision, determinant = precisions(data, state)
    rows, shifts = outcome_rows(data, state), level_shifts(data, state)
    shares = np.log(state.share)
    before, weights = np.zeros(levels), np.zeros(levels * ways)
    center, residual, kept = np.zeros(d), np.zeros(size), np.zeros((levels * ways, size))
    effects = gathered.shape[1]
    front = d if clustered else 0
    moved = np.zeros((effects, size))
    gathered.fill(0.0)
    pulled.fill(0.0)
    for i in range(n):
        g, m = data.group[i], data.pattern[i]
        for a in range(d):
            center[a] = state.shift[g, a] if clustered else 0.0
            for c in range(1, columns):
                center[a] += state.gamma[c - 1, a] * data.clean[i, c]
        added = 0.0
        for r in range(q):
            added += data.random[i, r] * state.effect[g, r]
        plain = 0.0
        for c in range(columns):
            plain += rows[0, c] * data.clean[i, c]
        if levels > 1:
            _before(data, state, i, split, before)
        for k in range(levels):
            if k > 0 and interacting:
                plain = 0.0
                for c in range(columns):
                    plain += rows[k, c] * data.clean[i, c]
            level = plain if interacting else plain + rows[k, 0] - rows[0, 0]
            for j in range(ways):
                line = data.seen[i, d] - level - added
                for a in range(d):
                    mean = center[a] + shifts[k, a] + state.middle[j, a]
                    residual[a] = data.seen[i, a] - mean
                    line -= state.slope[a] * mean
                residual[d] = line
                square = determinant[j, m]
                for a in range(size):
                    part = 0.5 * precision[j, m, a, a] * residual[a]
                    for b in range(a):
                        part += precision[j, m, a, b] * residual[b]
                    square += 2.0 * part * residual[a]
                at = k * ways + j
                weights[at] = shares[k, j] + before[k] + data.density[i, k] - 0.5 * square
                for a in range(size):
                    kept[at, a] = residual[a]
        at = one_of(weights, rng) if len(weights) > 1 else 0
        j = at % ways
        state.code[i], state.component[i] = at // ways, j
        if effects == 0:
            continue
        _gather(data, state, i, front, precision[j, m], kept[at], moved, gathered[g], pulled[g])


@njit(cache=True, nogil=True)
def count(data, state):  # type: ignore[no-untyped-def]
    """Cross products of clean columns, group effects and seen values, by cell."""
    clustered = data.options[0]
    n, columns = data.clean.shape
    d, q = len(state.slope), data.random.shape[1]
    front = d if clustered else 0
    wide = columns + front + d + 1
    row = np.zeros(wide)
    state.stats.fill(0.0)
    for i in range(n):
        g, m = data.group[i], data.pattern[i]
        for c in range(columns):
            row[c] = data.clean[i, c]
        for a in range(front):
            row[columns + a] = state.shift[g, a]
        for a in range(d):
            row[columns + front + a] = data.seen[i, a]
        line = data.seen[i, d]
        for r in range(q):
            line -= data.random[i, r] * state.effect[g, r]
        row[wide - 1] = line
        into = state.stats[state.component[i], m, state.code[i]]
        for a in range(wide):
            for b in range(a + 1):
                into[a, b] += row[a] * row[b]
    for j in range(state.stats.shape[0]):
        for m in range(state.stats.shape[1]):
            for k in range(state.stats.shape[2]):
                for a in range(wide):
                    for b in range(a):
                        state.stats[j, m, k, b, a] = state.stats[j, m, k, a, b]
