"""Small matrices: products, roots and random ones.

Written out as loops: the matrices have a few rows, and calls of a linear-algebra library take
longer to compile than all the rest.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_TINY = 1e-12


@njit(cache=True, nogil=True)
def times(left, right):  # type: ignore[no-untyped-def]
    """Left right."""
    made = np.zeros((left.shape[0], right.shape[1]))
    for a in range(left.shape[0]):
        for c in range(left.shape[1]):
            for b in range(right.shape[1]):
                made[a, b] += left[a, c] * right[c, b]
    return made


@njit(cache=True, nogil=True)
def times_turned(left, right):  # type: ignore[no-untyped-def]
    """Left right'."""
    made = np.zeros((left.shape[0], right.shape[0]))
    for a in range(left.shape[0]):
        for b in range(right.shape[0]):
            total = 0.0
            for c in range(left.shape[1]):
                total += left[a, c] * right[b, c]
            made[a, b] = total
    return made


@njit(cache=True, nogil=True)
def cholesky(matrix):  # type: ignore[no-untyped-def]
    """The lower root of a positive matrix; a pivot that rounding made negative is a tiny one."""
    size = matrix.shape[0]
    made = np.zeros((size, size))
    for a in range(size):
        for b in range(a + 1):
            total = matrix[a, b]
            for c in range(b):
                total -= made[a, c] * made[b, c]
            if a == b:
                made[a, a] = np.sqrt(max(total, 1e-15 * matrix[a, a], 1e-300))
            else:
                made[a, b] = total / made[b, b]
    return made


@njit(cache=True, nogil=True)
def inverse(matrix):  # type: ignore[no-untyped-def]
    """The inverse of a positive matrix."""
    size = matrix.shape[0]
    lower = cholesky(matrix)
    back = np.zeros((size, size))
    for b in range(size):
        back[b, b] = 1.0 / lower[b, b]
        for a in range(b + 1, size):
            total = 0.0
            for c in range(b, a):
                total -= lower[a, c] * back[c, b]
            back[a, b] = total / lower[a, a]
    made = np.zeros((size, size))
    for a in range(size):
        for b in range(size):
            for c in range(max(a, b), size):
                made[a, b] += back[c, a] * back[c, b]
    return made


@njit(cache=True, nogil=True)
def log_determinant(matrix):  # type: ignore[no-untyped-def]
    """Of a positive matrix."""
    lower = cholesky(matrix)
    total = 0.0
    for a in range(matrix.shape[0]):
        total += 2.0 * np.log(lower[a, a])
    return total


@njit(cache=True, nogil=True)
def root(matrix, made):  # type: ignore[no-untyped-def]
    """Fill R with R R' = matrix, largest pivots first; the rank, for the rest of R is 0."""
    size = matrix.shape[0]
    left = np.zeros(size)
    top = 0.0
    for a in range(size):
        left[a] = matrix[a, a]
        top = max(top, left[a])
        for b in range(size):
            made[a, b] = 0.0
    for rank in range(size):
        pivot = 0
        for a in range(size):
            if left[a] > left[pivot]:
                pivot = a
        if left[pivot] <= _TINY * top or left[pivot] <= 0:
            return rank
        scale = np.sqrt(left[pivot])
        for a in range(size):
            total = matrix[a, pivot]
            for c in range(rank):
                total -= made[a, c] * made[pivot, c]
            made[a, rank] = total / scale
        for a in range(size):
            left[a] -= made[a, rank] ** 2
        left[pivot] = 0.0
    return size


@njit(cache=True, nogil=True)
def gaussian(precision, pull, rng):  # type: ignore[no-untyped-def]
    """A normal draw with this precision, and with mean precision⁻¹ pull."""
    size = len(pull)
    lower = cholesky(precision)
    forth, made = np.zeros(size), np.zeros(size)
    for a in range(size):
        total = pull[a]
        for b in range(a):
            total -= lower[a, b] * forth[b]
        forth[a] = total / lower[a, a]
    for a in range(size):
        forth[a] += rng.standard_normal()
    for back in range(size):
        a = size - 1 - back
        total = forth[a]
        for b in range(a + 1, size):
            total -= lower[b, a] * made[b]
        made[a] = total / lower[a, a]
    return made


@njit(cache=True, nogil=True)
def wishart(freedom, size, rng):  # type: ignore[no-untyped-def]
    """A Wishart draw with the identity as its scale; also for fewer degrees than its size."""
    made = np.zeros((size, size))
    if freedom < size:
        row = np.zeros(size)
        for _ in range(int(freedom + 0.5)):
            for a in range(size):
                row[a] = rng.standard_normal()
            for a in range(size):
                for b in range(size):
                    made[a, b] += row[a] * row[b]
        return made
    for a in range(size):
        made[a, a] = np.sqrt(2.0 * rng.standard_gamma((freedom - a) / 2.0))
        for b in range(a):
            made[a, b] = rng.standard_normal()
    return times_turned(made, made)


@njit(cache=True, nogil=True)
def inverse_wishart(freedom, scale, rng):  # type: ignore[no-untyped-def]
    """An inverse Wishart draw: density ∝ |X|^-(freedom + size + 1)/2 exp(-tr(scale X⁻¹)/2)."""
    lower = cholesky(inverse(scale))
    core = wishart(freedom, scale.shape[0], rng)
    return inverse(times_turned(times(lower, core), lower))
