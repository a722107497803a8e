"""Effects of groups on the outcome and on true numbers, with true numbers integrated out."""

from __future__ import annotations

import numpy as np
from numba import njit

from sfumato.kernels.gibbs_matrices import cholesky, gaussian, inverse, inverse_wishart


@njit(cache=True, nogil=True)
def draw_effects(data, state, gathered, pulled, rng):  # type: ignore[no-untyped-def]
    """All effects of each group at once, then their covariances."""
    groups, effects = pulled.shape
    front = len(state.slope) if data.options[0] else 0
    q = effects - front
    before = np.zeros((effects, effects))
    _place(before, state.among, 0, front)
    _place(before, state.between, front, q)
    old = np.zeros(effects)
    precision = np.zeros((effects, effects))
    for g in range(groups):
        for a in range(effects):
            old[a] = state.shift[g, a] if a < front else state.effect[g, a - front]
        pull = pulled[g].copy()
        for a in range(effects):
            for b in range(effects):
                pull[a] += gathered[g, a, b] * old[b]
                precision[a, b] = gathered[g, a, b] + before[a, b]
        drawn = gaussian(precision, pull, rng)
        for a in range(effects):
            if a < front:
                state.shift[g, a] = drawn[a]
            else:
                state.effect[g, a - front] = drawn[a]
    # A uniform prior on the covariance, so that its degrees of freedom are fewer than groups.
    if front > 0:
        _lift_numbers(data, state, rng)
        _covariance(state.shift, state.among, rng)
    if q > 0:
        _lift_outcome(data, state, rng)
        _covariance(state.effect, state.between, rng)


@njit(cache=True, nogil=True)
def _place(before, covariance, start, size):  # type: ignore[no-untyped-def]
    """Put the precision of some effects into that of all."""
    if size == 0:
        return
    found = inverse(covariance)
    for a in range(size):
        for b in range(size):
            before[start + a, start + b] = found[a, b]


@njit(cache=True, nogil=True)
def _covariance(effects, made, rng):  # type: ignore[no-untyped-def]
    groups, size = effects.shape
    scale = np.zeros((size, size))
    for a in range(size):
        scale[a, a] = 1e-12 * groups
        for b in range(size):
            for g in range(groups):
                scale[a, b] += effects[g, a] * effects[g, b]
    drawn = inverse_wishart(groups - size - 1.0, scale, rng)
    for a in range(size):
        for b in range(size):
            made[a, b] = drawn[a, b]


@njit(cache=True, nogil=True)
def _lift_outcome(data, state, rng):  # type: ignore[no-untyped-def]
    """Exchange coefficients with group effects, their sum as it is: the chain moves faster."""
    q = state.effect.shape[1]
    precision = inverse(state.between)
    for at in range(len(data.lift_random)):
        r = data.lift_random[at]
        column = data.lift_column[at]
        total, pull = 0.0, 0.0
        for g in range(len(column)):
            rest = 0.0
            for other in range(q):
                rest += precision[r, other] * state.effect[g, other]
            total += column[g] * column[g]
            pull += column[g] * rest
        wide = precision[r, r] * total
        move = pull / wide + rng.standard_normal() / np.sqrt(wide)
        for g in range(len(column)):
            state.effect[g, r] -= move * column[g]
        for t in range(len(state.beta)):
            state.beta[t] += move * data.lift_term[at, t]


@njit(cache=True, nogil=True)
def _lift_numbers(data, state, rng):  # type: ignore[no-untyped-def]
    """The same for the model of the numbers; only a single component has a flat mean."""
    d, ways = len(state.slope), state.share.shape[1]
    lower = cholesky(state.among)
    chance = np.zeros(d)
    for c in range(data.upper.shape[1]):
        if c == 0 and ways > 1:
            continue
        total = 0.0
        move = np.zeros(d)
        for g in range(len(data.upper)):
            total += data.upper[g, c] ** 2
            for a in range(d):
                move[a] += data.upper[g, c] * state.shift[g, a]
        for a in range(d):
            chance[a] = rng.standard_normal() / np.sqrt(total)
            move[a] /= total
            for b in range(a + 1):
                move[a] += lower[a, b] * chance[b]
        for g in range(len(data.upper)):
            for a in range(d):
                state.shift[g, a] -= move[a] * data.upper[g, c]
        for a in range(d):
            if c == 0:
                state.middle[0, a] += move[a]
            else:
                state.gamma[c - 1, a] += move[a]
