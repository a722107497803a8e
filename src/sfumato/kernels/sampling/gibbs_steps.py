"""Coefficients and variances, drawn from cross products alone.

True numbers (and the true outcome) of the records of a cell are normal given what was seen, with
the same coefficients for each record. So their cross products can be drawn as a whole: a normal
matrix and a Wishart one, at a cost that does not depend on how many records there are. Given
those, every coefficient comes from an ordinary regression. Steps of this kind are cheap, and a
few of them between two passes over the records take away most of the chain's memory.

All chance is drawn before: no distribution here depends on what a step finds.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sfumato.kernels.sampling.gibbs_matrices import TINY, inverse, root, solve, times


@njit(
    "void(f8[:,::1], f8[::1], f8, f8[:,::1], f8[::1], f8[:,::1], f8[:,::1])",
    cache=True,
    nogil=True,
    error_model="numpy",
)
def _gain(spread, slope, residual, error, present, gain, left):  # type: ignore[no-untyped-def]
    """How true values follow seen ones, and a root of the covariance of what is left."""
    d = len(slope)
    size = d + 1
    whole, seen = np.zeros((size, size)), np.zeros((size, size))
    work, back = np.zeros((size, size)), np.zeros((size, size))
    whole[d, d] = residual
    for a in range(d):
        for b in range(d):
            whole[a, b] = spread[a, b]
            whole[a, d] += spread[a, b] * slope[b]
        whole[d, a] = whole[a, d]
        whole[d, d] += slope[a] * whole[a, d]
    for a in range(size):
        for b in range(size):
            seen[a, b] = (whole[a, b] + error[a, b]) * present[a] * present[b]
        seen[a, a] += 1.0 - present[a]
    inverse(seen, work, back)
    times(whole, back, gain)
    for a in range(size):
        for b in range(size):
            gain[a, b] *= present[b]
    times(gain, whole, work)
    for a in range(size):
        for b in range(size):
            # A value seen without noise leaves nothing: no rounding error may say otherwise.
            exact = (present[a] > 0 and error[a, a] == 0) or (present[b] > 0 and error[b, b] == 0)
            work[a, b] = 0.0 if exact else whole[a, b] - work[a, b]
    root(work, 0.0, left)


@njit(
    "void(f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1],"
    "f8[:,::1], f8[:,::1])",
    cache=True,
    nogil=True,
    error_model="numpy",
)
def _true(mean, gain, left, stats, half, normal, core, beside, together):  # type: ignore[no-untyped-def]
    """Products of true numbers and outcome with columns counted, and with each other."""
    size, wide = mean.shape
    product, away = np.zeros((size, wide)), np.zeros((size, wide))
    for a in range(size):
        for b in range(wide):
            away[a, b] = -mean[a, b]
        away[a, wide - size + a] += 1.0
    times(gain, away, product)
    for a in range(size):
        for b in range(wide):
            mean[a, b] += product[a, b]
    times(mean, stats, product)
    times(left, normal, away)
    own = np.zeros((size, size))
    times(left, core, own)
    for a in range(size):
        for b in range(wide):
            total = product[a, b]
            for c in range(wide):
                total += away[a, c] * half[b, c]
            beside[a, b] = total
    for a in range(size):
        for b in range(size):
            total = 0.0
            for c in range(wide):
                total += beside[a, c] * mean[b, c] + mean[a, c] * beside[b, c]
                total += away[a, c] * away[b, c] - product[a, c] * mean[b, c]
            for c in range(size):
                total += own[a, c] * own[b, c]
            together[a, b] = total


@njit(
    "void(f8[:,:,::1], f8[:,:,::1], f8[:,:,::1], f8[::1], f8[:,:,::1], f8[::1], f8[:,:,::1],"
    "f8[:,::1], f8[:,:,::1])",
    cache=True,
    nogil=True,
    error_model="numpy",
)
def _numbers(square, cross, own, flat, scale, chance, cores, back, spread):  # type: ignore[no-untyped-def]  # noqa: PLR0912
    """The model of the numbers: coefficients shared by components, then their covariances."""
    ways, features, d = cross.shape
    size = features * d
    precision, work, pull = np.zeros((size, size)), np.zeros((size, size)), np.zeros(size)
    half, weights, made = np.zeros((d, d)), np.zeros((d, d)), np.zeros((d, d))
    for j in range(ways):
        inverse(spread[j], half, weights)
        for f in range(features):
            for a in range(d):
                for b in range(d):
                    pull[f * d + a] += weights[a, b] * cross[j, f, b]
                    for h in range(features):
                        precision[f * d + a, h * d + b] += square[j, f, h] * weights[a, b]
    for f in range(features):
        for a in range(d):
            precision[f * d + a, f * d + a] += flat[f]
    root(precision, TINY, work)
    solve(work, pull, chance)
    for f in range(features):
        for a in range(d):
            back[f, a] = pull[f * d + a]
    for j in range(ways):
        for a in range(d):
            for b in range(d):
                made[a, b] = scale[j, a, b] + own[j, a, b]
                for f in range(features):
                    made[a, b] -= back[f, a] * cross[j, f, b] + back[f, b] * cross[j, f, a]
                    for h in range(features):
                        made[a, b] += back[f, a] * square[j, f, h] * back[h, b]
        root(made, TINY, half)
        times(half, cores[j], weights)
        for a in range(d):
            for b in range(d):
                total = 0.0
                for c in range(d):
                    total += weights[a, c] * weights[b, c]
                spread[j, a, b] = total


@njit(
    "f8(f8[:,::1], f8[:,::1], f8, f8, f8[::1], f8[::1], f8[::1])",
    cache=True,
    nogil=True,
    error_model="numpy",
)
def _outcome(square, prior, residual, noise, chance, rest, drawn):  # type: ignore[no-untyped-def]
    """The model of interest: coefficients, written to `drawn`, and the residual variance."""
    size = len(drawn)
    precision, work = np.zeros((size, size)), np.zeros((size, size))
    for a in range(size):
        drawn[a] = square[a, size] / residual
        for b in range(size):
            precision[a, b] = prior[a, b] + square[a, b] / residual
    root(precision, TINY, work)
    solve(work, drawn, chance)
    total = square[size, size]
    for a in range(size):
        total -= 2.0 * drawn[a] * square[a, size]
        for b in range(size):
            total += drawn[a] * drawn[b] * square[a, b]
    found = max(total, TINY * square[size, size]) / rest[0]
    # Noise in the outcome: the prior is 1 / (residual + noise), which stays proper at 0.
    if noise == 0 or rest[1] * residual / (residual + noise) < found / (found + noise):
        return found
    return residual


@njit(
    "f8(f8[:,:,::1], f8[:,:,::1], i8[:,::1], f8[:,:,::1], f8[:,:,::1], f8[:,:,::1], f8[:,::1],"
    "f8[:,::1], f8[:,::1], f8[:,::1], i8[::1], f8[::1], f8[:,:,::1], f8[:,:,:,::1],"
    "f8[:,:,:,::1], f8[:,::1], f8[:,:,:,::1], f8[:,::1], f8[:,::1],"
    "f8[::1], f8[:,::1], f8[:,:,::1], f8)",
    cache=True,
    nogil=True,
    error_model="numpy",
)
def steps(  # type: ignore[no-untyped-def]  # noqa: PLR0912 - the arrays of a chain
    stats, half, cells, lift, terms, square, inside, error, present, prior, options, flat, scale,
    normals, cores, first, inverses, second, rests, drawn, back, spread, residual,
):  # fmt: skip
    """Some steps on all coefficients and variances, given levels, components and groups.

    Parameters
    ----------
    stats, half : (cell, column, column) cross products of columns, and roots of them.
    cells : (cell, 2) component and pattern of missing values.
    lift, terms : (cell, feature, column), (cell, term, column): features of the numbers and terms
        of the outcome, as combinations of columns.
    square, inside : cross products of features by component, and of terms.
    error, present : covariance of the noise; (pattern, value) 1 or 0.
    prior, flat, scale : precision of coefficients of the outcome and of features before the data,
        and (component) the scale of covariances.
    options : how many clean columns, and of the columns after them that are shifts of groups.
    normals, cores, first, inverses, second, rests : chance, by step.
    drawn, back, spread : changed: coefficients of terms and numbers; of features; covariances of
        components.
    residual : the residual variance; the new one is returned.
    """
    ways, d = len(spread), back.shape[1]
    count, size, wide = terms.shape[1], d + 1, stats.shape[1]
    features, columns, front = len(back), options[0], options[1]
    patterns = len(present)
    gain, left = np.zeros((ways, patterns, size, size)), np.zeros((ways, patterns, size, size))
    mean, beside, together = np.zeros((size, wide)), np.zeros((size, wide)), np.zeros((size, size))
    whole = np.zeros((count + size, count + size))
    cross, own = np.zeros((ways, features, d)), np.zeros((ways, d, d))
    for step in range(len(first)):
        slope = drawn[count:]
        for j in range(ways):
            for m in range(patterns):
                _gain(spread[j], slope, residual, error, present[m], gain[j, m], left[j, m])
        whole[:] = 0.0
        for t in range(count):
            for h in range(count):
                whole[t, h] = inside[t, h]
        cross[:] = 0.0
        own[:] = 0.0
        for q in range(len(stats)):
            if stats[q, 0, 0] == 0:
                continue
            j, m = cells[q, 0], cells[q, 1]
            mean[:] = 0.0
            for a in range(d):
                for c in range(columns):
                    for f in range(features):
                        mean[a, c] += back[f, a] * lift[q, f, c]
                if front > 0:
                    mean[a, columns + a] = 1.0
                for c in range(columns + front):
                    mean[d, c] += slope[a] * mean[a, c]
            for t in range(count):
                for c in range(columns):
                    mean[d, c] += drawn[t] * terms[q, t, c]
            _true(
                mean, gain[j, m], left[j, m], stats[q], half[q], normals[step, q], cores[step, q],
                beside, together,
            )  # fmt: skip
            for a in range(size):
                for b in range(size):
                    whole[count + a, count + b] += together[a, b]
                for t in range(count):
                    for c in range(columns):
                        whole[t, count + a] += terms[q, t, c] * beside[a, c]
            if front > 0:  # true values less their group's shift
                for a in range(d):
                    for b in range(d):
                        both = beside[a, columns + b] + beside[b, columns + a]
                        together[a, b] += stats[q, columns + a, columns + b] - both
                for a in range(d):
                    for c in range(columns):
                        beside[a, c] -= stats[q, columns + a, c]
            for a in range(d):
                for b in range(d):
                    own[j, a, b] += together[a, b]
                for f in range(features):
                    for c in range(columns):
                        cross[j, f, a] += lift[q, f, c] * beside[a, c]
        for t in range(count):
            for a in range(count, count + size):
                whole[a, t] = whole[t, a]
        if d > 0:
            _numbers(square, cross, own, flat, scale, first[step], inverses[step], back, spread)
        residual = _outcome(whole, prior, residual, error[d, d], second[step], rests[step], drawn)
    return residual
