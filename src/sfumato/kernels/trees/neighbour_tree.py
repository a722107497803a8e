"""A tree of boxes over the distinct points of a stratum.

Points lie in leaves of sixteen, boxes in groups of sixteen, to be looked at all at once. Leaves
are numbered so that sixteen in a row are near each other, and so are sixteen such groups: the
tree needs no pointers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from sfumato.kernels.memory import room
from sfumato.kernels.trees.neighbour_lanes import LANES

SHIFT = 4  # LANES = 2 ** SHIFT
LEVELS = 8  # of sixteen each: more points than memory holds
_FEWEST = 2  # the search starts at the boxes around groups of leaves
_SAMPLE = 32
_EPSILON = float(np.finfo(np.float64).eps)
_TINY = 1e-150  # its square is far above all that underflows

Tree = tuple[Any, Any, Any, Any, Any, Any]

# Called from compiled code only: no wrappers for Python, and the caller's cache holds them.
INNER: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
INLINE: Any = {"forceinline": True, **INNER}


def empty_tree(most: int, columns: int, *, turned: bool) -> Tree:
    """Room for the tree of a stratum with up to so many points.

    - the distinct points in canonical order: by coordinates, column after column;
      under a matrix with the turned coordinates in front of the raw ones
    - where in the sorted records those of each distinct point begin
    - the place among the distinct points of each point, in the order of the tree
    - keys, to sort by
    - the points again: (leaf, column, lane)
    - the boxes: (group, low and high of each column, lane); the groups of a level lie together
    """
    leaves = (most + LANES - 1) >> SHIFT
    return (
        room((most, 2 * columns if turned else columns), np.float64),
        room((most + 1,), np.int64),
        room((most,), np.int64),
        room((most,), np.float64),
        room((leaves, columns, LANES), np.float64),
        room((leaves // (LANES - 1) + LEVELS, 2 * columns, LANES), np.float64),
    )


@njit(**INNER)
def gather(values, order, fresh, start, stop, source, firsts, rank):  # type: ignore[no-untyped-def]
    """Take the distinct points of a stratum; how many there are."""
    columns = values.shape[1]
    raw = source.shape[1] - columns
    size = 0
    for i in range(start, stop):
        if fresh[i]:
            for j in range(columns):
                source[size, raw + j] = values[order[i], j] + 0.0  # -0.0 becomes 0.0
            rank[size], firsts[size] = size, i
            size += 1
    firsts[size] = stop
    return size


@njit(**INNER)
def turn(source, size, matrix):  # type: ignore[no-untyped-def]
    """Coordinates under the matrix, in front of the raw ones; how far distances may be off."""
    columns = len(matrix)
    slack = 0.0
    for i in range(columns):
        spread = 0.0
        for j in range(columns):
            low = high = source[0, columns + j]
            for one in range(size):
                low, high = min(low, source[one, columns + j]), max(high, source[one, columns + j])
            spread += abs(matrix[i, j]) * (high - low)
        slack += spread * spread
        for one in range(size):
            source[one, i] = 0.0
            for j in range(columns):
                gap = source[one, columns + j] - source[0, columns + j]
                source[one, i] += matrix[i, j] * gap
    # Each product and sum is off by half an epsilon of what lies in the stratum, at most.
    return _TINY + 8 * (columns + 4) * _EPSILON * np.sqrt(slack) if columns else 0.0


@njit(**INLINE)
def _pick(seed, low, high):  # type: ignore[no-untyped-def]
    """Any place between; chance keeps sorted or periodic data from being the worst case."""
    return low + (((seed >> 33) & 0x7FFFFFFF) * (high - low) >> 31)


@njit(**INLINE)
def _next(seed):  # type: ignore[no-untyped-def]
    return seed * 6364136223846793005 + 1442695040888963407


@njit(**INLINE)
def _part(keys, rank, low, high, pivot, equal):  # type: ignore[no-untyped-def]
    """Move what is less than the pivot (or equal to it) to the front, without a branch."""
    front = low
    for i in range(low, high):
        key, one = keys[i], rank[i]
        keys[i], rank[i] = keys[front], rank[front]
        keys[front], rank[front] = key, one
        front += (key < pivot) | (equal & (key == pivot))
    return front


@njit(**INNER)
def _select(keys, rank, low, high, nth):  # type: ignore[no-untyped-def]
    """Reorder until no key before `nth` is larger than any from `nth` on."""
    seed = high
    while high - low > 1:
        seed = _next(seed)
        one = keys[_pick(seed, low, high)]
        seed = _next(seed)
        two = keys[_pick(seed, low, high)]
        seed = _next(seed)
        three = keys[_pick(seed, low, high)]
        pivot = max(min(one, two), min(max(one, two), three))
        front = _part(keys, rank, low, high, pivot, False)
        if front == nth:
            return
        if front > nth:
            high = front
        elif front > low:
            low = front
        else:  # the pivot is the smallest key: all its equals are in their place
            low = _part(keys, rank, low, high, pivot, True)
            if low >= nth:
                return


@njit(**INNER)
def _widest(source, rank, start, stop, scale):  # type: ignore[no-untyped-def]
    """The column in which these points lie farthest apart, judged by some of them."""
    widest, column = -1.0, 0
    step = (stop - start) // _SAMPLE | 1  # odd, so that it hardly ever beats with the data
    for j in range(len(scale)):
        low = high = source[rank[start], j]
        for at in range(start, stop, step):
            value = source[rank[at], j]
            low, high = min(low, value), max(high, value)
        if (high - low) * scale[j] > widest:
            widest, column = (high - low) * scale[j], j
    return column


@njit(**INNER)
def arrange(source, rank, keys, size, scale):  # type: ignore[no-untyped-def]
    """Order the points so that each run of 16, of 256, … lies close together."""
    stack = np.empty((2 * LEVELS * SHIFT, 2), np.int64)
    stack[0, 0], stack[0, 1] = 0, (size + LANES - 1) >> SHIFT
    top = 1
    while top:
        top -= 1
        first, last = stack[top, 0], stack[top, 1]
        if last - first == 1:
            start, stop = first << SHIFT, min(last << SHIFT, size)
            for i in range(start + 1, stop):  # within a leaf in canonical order: ties need it
                one = rank[i]
                j = i
                while j > start and rank[j - 1] > one:
                    rank[j] = rank[j - 1]
                    j -= 1
                rank[j] = one
            continue
        half = 1
        while 2 * half < last - first:
            half *= 2
        middle = first + half
        start, stop = first << SHIFT, min(last << SHIFT, size)
        column = _widest(source, rank, start, stop, scale)
        for i in range(start, stop):
            keys[i] = source[rank[i], column]
        _select(keys, rank, start, stop, middle << SHIFT)
        stack[top, 0], stack[top, 1] = first, middle
        stack[top + 1, 0], stack[top + 1, 1] = middle, last
        top += 2


@njit(**INLINE)
def _enclose(blocks, block, low_row, high_row):  # type: ignore[no-untyped-def]
    """The least and the most of a block; empty lanes are not numbers and compare as false."""
    low, high = blocks[block, low_row, 0], blocks[block, high_row, 0]
    for lane in range(1, LANES):
        low = min(low, blocks[block, low_row, lane])
        high = max(high, blocks[block, high_row, lane])
    return low, high


@njit(**INLINE)
def _blank(blocks, block):  # type: ignore[no-untyped-def]
    for row in range(blocks.shape[1]):
        for lane in range(LANES):
            blocks[block, row, lane] = np.nan


@njit(**INNER)
def build(source, rank, size, points, boxes, base):  # type: ignore[no-untyped-def]
    """Fill leaves and boxes, level by level; how many levels of boxes there are."""
    columns = points.shape[1]
    count = (size + LANES - 1) >> SHIFT
    _blank(points, count - 1)
    for i in range(size):
        for j in range(columns):
            points[i >> SHIFT, j, i & (LANES - 1)] = source[rank[i], j]
    level, start = 0, 0
    while count > 1 or level < _FEWEST:
        groups = (count + LANES - 1) >> SHIFT
        base[level] = start
        _blank(boxes, start + groups - 1)
        for i in range(count):
            for j in range(columns):
                if level == 0:
                    low, high = _enclose(points, i, j, j)
                else:
                    low, high = _enclose(boxes, base[level - 1] + i, 2 * j, 2 * j + 1)
                boxes[start + (i >> SHIFT), 2 * j, i & (LANES - 1)] = low
                boxes[start + (i >> SHIFT), 2 * j + 1, i & (LANES - 1)] = high
        level, start, count = level + 1, start + groups, groups
    return level
