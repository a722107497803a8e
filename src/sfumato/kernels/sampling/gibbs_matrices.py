"""Small matrices: products, roots and inverses.

Matrices have a few rows, so that loops are faster than calls of a library, and much faster to
compile. What is made is written into the last argument.
"""

from __future__ import annotations

import numpy as np
from numba import njit

TINY = 1e-12


@njit("void(f8[:,::1], f8[:,::1], f8[:,::1])", cache=True, nogil=True, error_model="numpy")
def times(left, right, made):  # type: ignore[no-untyped-def]
    """Left right."""
    for a in range(left.shape[0]):
        for b in range(right.shape[1]):
            total = 0.0
            for c in range(left.shape[1]):
                total += left[a, c] * right[c, b]
            made[a, b] = total


@njit("void(f8[:,::1], f8, f8[:,::1])", cache=True, nogil=True, error_model="numpy")
def root(matrix, least, made):  # type: ignore[no-untyped-def]
    """The lower root; a pivot that is nothing but rounding is this share of what it was."""
    for a in range(matrix.shape[0]):
        for b in range(a + 1):
            total = matrix[a, b]
            for c in range(b):
                total -= made[a, c] * made[b, c]
            if a == b:
                lost = total <= TINY * matrix[a, a]
                made[a, a] = np.sqrt(max(least * matrix[a, a] if lost else total, 0.0))
            else:
                made[a, b] = total / made[b, b] if made[b, b] > 0 else 0.0
                made[b, a] = 0.0


@njit("void(f8[:,::1], f8[::1], f8[::1])", cache=True, nogil=True, error_model="numpy")
def solve(half, pull, chance):  # type: ignore[no-untyped-def]
    """A normal draw with precision half half' and this pull, written over `pull`."""
    size = len(pull)
    for a in range(size):
        for b in range(a):
            pull[a] -= half[a, b] * pull[b]
        pull[a] /= half[a, a]
    for back in range(size):
        a = size - 1 - back
        pull[a] += chance[a]
        for b in range(a + 1, size):
            pull[a] -= half[b, a] * pull[b]
        pull[a] /= half[a, a]


@njit("void(f8[:,::1], f8[:,::1], f8[:,::1])", cache=True, nogil=True, error_model="numpy")
def inverse(matrix, half, made):  # type: ignore[no-untyped-def]
    """Of a positive matrix; it is symmetric, so that rows are columns."""
    root(matrix, TINY, half)
    nothing = np.zeros(len(matrix))
    made[:] = 0.0
    for a in range(len(matrix)):
        made[a, a] = 1.0
        solve(half, made[a], nothing)
