"""The model of the true numbers, drawn from cross products."""

from __future__ import annotations

import numpy as np
from numba import njit

from sfumato.kernels.gibbs_matrices import gaussian, inverse, inverse_wishart, times, times_turned

_FLAT_LEVEL = 1e-2
_TINY = 1e-12


@njit(cache=True, nogil=True)
def draw_numbers(data, state, with_columns, together, prior, rng):  # type: ignore[no-untyped-def]
    """Coefficients, components' means, covariances and shares."""
    square, cross, own = _sums(data, state, with_columns, together)
    _regress(state, square, cross, data.clean.shape[1] - 1, prior, rng)
    _draw_spreads(state, square, cross, own, prior, rng)
    _draw_shares(state, rng)


@njit(cache=True, nogil=True)
def _sums(data, state, with_columns, together):  # type: ignore[no-untyped-def]  # noqa: PLR0912 - small loops
    """By component: products of the features, with true numbers, and of true numbers."""
    clustered = data.options[0]
    ways, patterns, levels, _, _ = state.stats.shape
    columns, d, extra = data.clean.shape[1], len(state.slope), data.dummies.shape[1]
    fixed = columns - 1 + extra
    features = fixed + ways
    square = np.zeros((ways, features, features))
    cross, own = np.zeros((ways, features, d)), np.zeros((ways, d, d))
    for j in range(ways):
        for m in range(patterns):
            for k in range(levels):
                stats, beside = state.stats[j, m, k], with_columns[j, m, k]
                if stats[0, 0] == 0:
                    continue
                lift = np.zeros((features, stats.shape[0]))
                for c in range(1, columns):
                    lift[c - 1, c] = 1.0
                for e in range(extra):
                    lift[columns - 1 + e, 0] = data.dummies[k, e]
                lift[fixed + j, 0] = 1.0
                part = times_turned(times(lift, stats), lift)
                for f in range(features):
                    for h in range(features):
                        square[j, f, h] += part[f, h]
                    for a in range(d):
                        for c in range(columns):
                            target = beside[a, c]
                            if clustered:  # true values less their group's shift
                                target -= stats[columns + a, c]
                            cross[j, f, a] += lift[f, c] * target
                for a in range(d):
                    for b in range(d):
                        own[j, a, b] += together[j, m, k, a, b]
                        if clustered:
                            own[j, a, b] -= beside[a, columns + b] + beside[b, columns + a]
                            own[j, a, b] += stats[columns + a, columns + b]
    return square, cross, own


@njit(cache=True, nogil=True)
def _draw_spreads(state, square, cross, own, prior, rng):  # type: ignore[no-untyped-def]
    ways, features, d = cross.shape
    fixed = features - ways
    back = np.zeros((d, features))
    for a in range(d):
        for f in range(features):
            back[a, f] = state.gamma[f, a] if f < fixed else state.middle[f - fixed, a]
    for j in range(ways):
        part = times(back, cross[j])
        scale = times_turned(times(back, square[j]), back)
        count = square[j, fixed + j, fixed + j]
        for a in range(d):
            for b in range(d):
                scale[a, b] += own[j, a, b] - part[a, b] - part[b, a]
            scale[a, a] += prior[1] if ways > 1 else _TINY * count
        freedom = count + d + 2.0 if ways > 1 else count - d - 1.0
        drawn = inverse_wishart(freedom, scale, rng)
        for a in range(d):
            for b in range(d):
                state.spread[j, a, b] = drawn[a, b]


@njit(cache=True, nogil=True)
def _draw_shares(state, rng):  # type: ignore[no-untyped-def]
    ways, patterns, levels, _, _ = state.stats.shape
    for k in range(levels):
        total = 0.0
        for j in range(ways):
            here = 1.0
            for m in range(patterns):
                here += state.stats[j, m, k, 0, 0]
            state.share[k, j] = rng.standard_gamma(here)
            total += state.share[k, j]
        for j in range(ways):
            state.share[k, j] /= total


@njit(cache=True, nogil=True)
def _regress(state, square, cross, free, prior, rng):  # type: ignore[no-untyped-def]  # noqa: PLR0912
    """Coefficients shared by components whose covariances differ."""
    ways, features, d = cross.shape
    fixed = features - ways
    precision = np.zeros((features * d, features * d))
    pull = np.zeros(features * d)
    for j in range(ways):
        weights = inverse(state.spread[j])
        for f in range(features):
            for h in range(features):
                for a in range(d):
                    for b in range(d):
                        precision[f * d + a, h * d + b] += square[j, f, h] * weights[a, b]
            for a in range(d):
                for b in range(d):
                    pull[f * d + a] += weights[a, b] * cross[j, f, b]
    for f in range(free, features):
        # A level or component without records must not run away.
        weight = _FLAT_LEVEL if f < fixed else (prior[0] if ways > 1 else 0.0)
        for a in range(d):
            precision[f * d + a, f * d + a] += weight
    drawn = gaussian(precision, pull, rng)
    for f in range(features):
        for a in range(d):
            if f < fixed:
                state.gamma[f, a] = drawn[f * d + a]
            else:
                state.middle[f - fixed, a] = drawn[f * d + a]
