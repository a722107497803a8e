"""A tree of boxes over the distinct points of a stratum.

Points lie in leaves of eight, boxes in groups of eight, so that one vector instruction looks at
all of them. Leaves are numbered so that eight in a row are near each other, and so are eight
such groups: the tree needs no pointers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from sfumato.kernels.neighbour_lanes import LANES
from sfumato.kernels.memory import room

SHIFT = 3  # LANES = 2 ** SHIFT
LEVELS = 16
_SAMPLE = 32
_EPSILON = float(np.finfo(np.float64).eps)
_TINY = 1e-150  # its square is far above all that underflows


class Tree(NamedTuple):
    """The arrays of a tree. One tree serves all strata in turn.

    Parameters
    ----------
    source : the distinct points in canonical order: by coordinates, column after column.
    firsts : where in the sorted records those of each distinct point begin.
    rank : the place in `source` of each point, in the order of the tree.
    keys : room for sorting.
    points : (leaf, column, lane).
    boxes : (group, low and high of each column, lane); the groups of a level lie together.
    base : the first group of each level.
    halves : parts of the tree that are still to be ordered.
    """

    source: Any
    firsts: Any
    rank: Any
    keys: Any
    points: Any
    boxes: Any
    base: Any
    halves: Any


def empty_tree(most: int, columns: int, *, turned: bool) -> Tree:
    """Room for a tree of up to so many points, with coordinates beside the raw ones or not."""
    leaves = (most + LANES - 1) >> SHIFT
    return Tree(
        source=room((most, 2 * columns if turned else columns), np.float64),
        firsts=room((most + 1,), np.int64),
        rank=room((most,), np.int64),
        keys=room((most,), np.float64),
        points=room((leaves, columns, LANES), np.float64),
        boxes=room((leaves // (LANES - 1) + LEVELS, 2 * columns, LANES), np.float64),
        base=np.empty(LEVELS, np.int64),
        halves=np.empty((2 * LEVELS * SHIFT, 2), np.int64),
    )


@njit(cache=True, nogil=True)
def gather(values, order, fresh, start, stop, tree):  # type: ignore[no-untyped-def]
    """Take the distinct points of a stratum; how many there are."""
    columns = values.shape[1]
    raw = tree.source.shape[1] - columns
    size = 0
    for i in range(start, stop):
        if fresh[i]:
            for j in range(columns):
                tree.source[size, raw + j] = values[order[i], j] + 0.0  # -0.0 becomes 0.0
            tree.rank[size], tree.firsts[size] = size, i
            size += 1
    tree.firsts[size] = stop
    return size


@njit(cache=True, nogil=True)
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


@njit(forceinline=True)
def _pick(seed, low, high):  # type: ignore[no-untyped-def]
    """Any place between; chance keeps sorted or periodic data from being the worst case."""
    return low + ((seed >> 33) & 0x7FFFFFFF) % (high - low)


@njit(forceinline=True)
def _next(seed):  # type: ignore[no-untyped-def]
    return seed * 6364136223846793005 + 1442695040888963407


@njit(forceinline=True)
def _part(keys, rank, low, high, pivot, equal):  # type: ignore[no-untyped-def]
    """Move what is less than the pivot (or equal to it) to the front, without a branch."""
    front = low
    for i in range(low, high):
        key, one = keys[i], rank[i]
        keys[i], rank[i] = keys[front], rank[front]
        keys[front], rank[front] = key, one
        front += (key < pivot) | (equal & (key == pivot))
    return front


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _widest(source, rank, start, stop, scale):  # type: ignore[no-untyped-def]
    """The column in which these points lie farthest apart, judged by a sample of many."""
    widest, column = -1.0, 0
    size = stop - start
    for j in range(len(scale)):
        low = high = source[rank[start], j]
        seed = start
        for i in range(1, min(size, _SAMPLE)):
            seed = _next(seed)
            at = start + i if size <= _SAMPLE else _pick(seed, start, stop)
            value = source[rank[at], j]
            low, high = min(low, value), max(high, value)
        if (high - low) * scale[j] > widest:
            widest, column = (high - low) * scale[j], j
    return column


@njit(cache=True, nogil=True)
def arrange(tree, size, scale):  # type: ignore[no-untyped-def]
    """Order the points so that each run of eight, of 64, … lies close together."""
    source, rank, keys, stack = tree.source, tree.rank, tree.keys, tree.halves
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


@njit(forceinline=True)
def _enclose(lows, highs, boxes, group, lane, column):  # type: ignore[no-untyped-def]
    """The box around eight; empty lanes are not numbers and compare as false."""
    low, high = lows[0], highs[0]
    for i in range(1, LANES):
        low = lows[i] if lows[i] < low else low
        high = highs[i] if highs[i] > high else high
    boxes[group, 2 * column, lane] = low
    boxes[group, 2 * column + 1, lane] = high


@njit(cache=True, nogil=True)
def build(tree, size):  # type: ignore[no-untyped-def]
    """Fill leaves and boxes, level by level; how many levels of boxes there are."""
    source, rank, points, boxes, base = tree.source, tree.rank, tree.points, tree.boxes, tree.base
    columns = points.shape[1]
    count = (size + LANES - 1) >> SHIFT
    for i in range(columns * LANES):
        points[count - 1, i >> SHIFT, i & (LANES - 1)] = np.nan
    for i in range(size):
        for j in range(columns):
            points[i >> SHIFT, j, i & (LANES - 1)] = source[rank[i], j]
    base[0], level = 0, 0
    while count > 1:
        start, groups = base[level], (count + LANES - 1) >> SHIFT
        for i in range(2 * columns * LANES):
            boxes[start + groups - 1, i >> SHIFT, i & (LANES - 1)] = np.nan
        for i in range(count):
            for j in range(columns):
                if level == 0:
                    lows = highs = points[i, j]
                else:
                    lows = boxes[base[level - 1] + i, 2 * j]
                    highs = boxes[base[level - 1] + i, 2 * j + 1]
                _enclose(lows, highs, boxes, start + (i >> SHIFT), i & (LANES - 1), j)
        level += 1
        base[level] = start + groups
        count = groups
    return level
