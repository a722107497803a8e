"""Coefficients and variances, drawn from cross products alone.

True numbers (and the true outcome) of the records of a cell are normal given what was seen, with
the same coefficients for each record. So their cross products can be drawn as a whole: a normal
matrix and a Wishart one, at a cost that does not depend on how many records there are. Given
those, every coefficient comes from an ordinary regression. Steps of this kind are cheap, and a
few of them between two passes over the records take away most of the chain's memory.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sfumato.kernels.gibbs import joint, level_shifts, masked, outcome_rows
from sfumato.kernels.gibbs_matrices import (
    gaussian,
    inverse,
    root,
    times,
    times_turned,
    wishart,
)
from sfumato.kernels.gibbs_numbers import draw_numbers

_TINY = 1e-12


@njit(cache=True, nogil=True)
def gains(data, state):  # type: ignore[no-untyped-def]
    """By component and pattern: how true values follow seen ones, and a root of what is left."""
    ways, patterns, size = state.share.shape[1], len(data.present), data.seen.shape[1]
    gain = np.zeros((ways, patterns, size, size))
    left = np.zeros((ways, patterns, size, size))
    for j in range(ways):
        whole = joint(state.spread[j], state.slope, state.residual[0])
        for m in range(patterns):
            at_hand = data.present[m]
            follow = times(whole, inverse(masked(whole, data.error, at_hand)))
            for a in range(size):
                for b in range(size):
                    gain[j, m, a, b] = follow[a, b] * at_hand[b]
            rest = times(gain[j, m], whole)
            for a in range(size):
                for b in range(size):
                    rest[a, b] = whole[a, b] - rest[a, b]
            # A value seen without noise leaves nothing: no rounding error may say otherwise.
            for a in range(size):
                if at_hand[a] > 0 and data.error[a, a] == 0:
                    for b in range(size):
                        rest[a, b] = 0.0
                        rest[b, a] = 0.0
            root(rest, left[j, m])
    return gain, left


@njit(cache=True, nogil=True)
def cell_means(data, state, rows, shifts, j, k):  # type: ignore[no-untyped-def]
    """(number or outcome, column): the means of true values in a cell, by columns counted."""
    clustered = data.options[0]
    columns, d = data.clean.shape[1], len(state.slope)
    front = d if clustered else 0
    made = np.zeros((d + 1, columns + front + d + 1))
    for a in range(d):
        made[a, 0] = state.middle[j, a] + shifts[k, a]
        for c in range(1, columns):
            made[a, c] = state.gamma[c - 1, a]
        if clustered:
            made[a, columns + a] = 1.0
    for c in range(columns):
        made[d, c] = rows[k, c]
    for a in range(d):
        for c in range(columns + front):
            made[d, c] += state.slope[a] * made[a, c]
    return made


@njit(cache=True, nogil=True)
def _towards_seen(follow, gain):  # type: ignore[no-untyped-def]
    """From means to means given what was seen, in place."""
    size, wide = follow.shape
    away = np.zeros((size, wide))
    for a in range(size):
        for b in range(wide):
            away[a, b] = -follow[a, b]
        away[a, wide - size + a] += 1.0
    added = times(gain, away)
    for a in range(size):
        for b in range(wide):
            follow[a, b] += added[a, b]


@njit(cache=True, nogil=True)
def latent_moments(data, state, gain, left, rows, shifts, roots, ranks, rng):  # type: ignore[no-untyped-def]
    """Draw, for each cell, the products of true values with columns and with each other."""
    ways, patterns, levels, wide, _ = state.stats.shape
    size = data.seen.shape[1]
    with_columns = np.zeros((ways, patterns, levels, size, wide))
    together = np.zeros((ways, patterns, levels, size, size))
    for j in range(ways):
        for m in range(patterns):
            for k in range(levels):
                stats = state.stats[j, m, k]
                if stats[0, 0] == 0:
                    continue
                follow = cell_means(data, state, rows, shifts, j, k)
                _towards_seen(follow, gain[j, m])
                rank = ranks[j, m, k]
                normal = np.zeros((size, rank))
                for a in range(size):
                    for b in range(rank):
                        normal[a, b] = rng.standard_normal()
                normal = times(left[j, m], normal)
                half = roots[j, m, k]
                core = wishart(stats[0, 0] - rank, size, rng)
                own = times(left[j, m], times_turned(core, left[j, m]))
                square, mean = times_turned(normal, normal), times(follow, stats)
                for a in range(size):
                    for b in range(wide):
                        total = mean[a, b]
                        for c in range(rank):
                            total += normal[a, c] * half[b, c]
                        with_columns[j, m, k, a, b] = total
                middle = times_turned(with_columns[j, m, k], follow)
                twice = times_turned(mean, follow)
                for a in range(size):
                    for b in range(size):
                        found = middle[a, b] + middle[b, a] - twice[a, b]
                        together[j, m, k, a, b] = found + own[a, b] + square[a, b]
    return with_columns, together


@njit(cache=True, nogil=True)
def _sums(data, state, with_columns, together):  # type: ignore[no-untyped-def]  # noqa: PLR0912
    """Products of the terms, of terms and outcome, of the outcome; how many records."""
    ways, patterns, levels, _, _ = state.stats.shape
    columns, d, terms = data.clean.shape[1], len(state.slope), data.outcome.shape[1]
    size = terms + d
    square, cross, own, records = np.zeros((size, size)), np.zeros(size), 0.0, 0.0
    for j in range(ways):
        for m in range(patterns):
            for k in range(levels):
                stats = state.stats[j, m, k]
                if stats[0, 0] == 0:
                    continue
                design, beside = data.outcome[k], with_columns[j, m, k]
                for t in range(terms):
                    for c in range(columns):
                        if design[t, c] == 0:
                            continue
                        for h in range(terms):
                            for e in range(columns):
                                square[t, h] += design[t, c] * design[h, e] * stats[c, e]
                        for a in range(d):
                            square[t, terms + a] += design[t, c] * beside[a, c]
                        cross[t] += design[t, c] * beside[d, c]
                for a in range(d):
                    for b in range(d):
                        square[terms + a, terms + b] += together[j, m, k, a, b]
                    cross[terms + a] += together[j, m, k, a, d]
                own += together[j, m, k, d, d]
                records += stats[0, 0]
    for t in range(terms):
        for a in range(terms, size):
            square[a, t] = square[t, a]
    return square, cross, own, records


@njit(cache=True, nogil=True)
def draw_outcome(data, state, with_columns, together, rng):  # type: ignore[no-untyped-def]
    """The model of interest: coefficients and residual variance."""
    square, cross, own, records = _sums(data, state, with_columns, together)
    d, terms, size = len(state.slope), len(state.beta), len(cross)
    precision, pull = np.zeros((size, size)), np.zeros(size)
    for a in range(size):
        pull[a] = cross[a] / state.residual[0]
        for b in range(size):
            precision[a, b] = square[a, b] / state.residual[0]
            if a < terms and b < terms:
                precision[a, b] += data.outcome_prior[a, b]
    drawn = gaussian(precision, pull, rng)
    rest = own
    for a in range(size):
        rest -= 2.0 * drawn[a] * cross[a]
        for b in range(size):
            rest += drawn[a] * drawn[b] * square[a, b]
        if a < terms:
            state.beta[a] = drawn[a]
        else:
            state.slope[a - terms] = drawn[a]
    found = max(rest, _TINY * own) / 2.0 / rng.standard_gamma(records / 2.0)
    # Noise in the outcome: the prior is 1 / (residual + noise), which stays proper at 0.
    noise = data.error[d, d]
    old = state.residual[0]
    if noise == 0 or rng.random() * old / (old + noise) < found / (found + noise):
        state.residual[0] = found


@njit(cache=True, nogil=True)
def coefficients(data, state, prior, rng):  # type: ignore[no-untyped-def]
    """Some steps on all coefficients and variances, given levels, components and groups."""
    ways, patterns, levels, wide, _ = state.stats.shape
    roots = np.zeros((ways, patterns, levels, wide, wide))
    ranks = np.zeros((ways, patterns, levels), np.int64)
    for j in range(ways):
        for m in range(patterns):
            for k in range(levels):
                if state.stats[j, m, k, 0, 0] > 0:
                    ranks[j, m, k] = root(state.stats[j, m, k], roots[j, m, k])
    for _ in range(data.options[3]):
        gain, left = gains(data, state)
        rows, shifts = outcome_rows(data, state), level_shifts(data, state)
        with_columns, together = latent_moments(
            data, state, gain, left, rows, shifts, roots, ranks, rng
        )
        if len(state.slope) > 0:
            draw_numbers(data, state, with_columns, together, prior, rng)
        draw_outcome(data, state, with_columns, together, rng)
