"""Rows that agree wherever neither has a gap, counted without comparing all with all."""

from __future__ import annotations

import numpy as np
from numba import njit

from sfumato.kernels.arrays import Integers

_FEW = 8
"""So many rows are compared one by one."""


def agreeing(codes: Integers, counts: Integers) -> Integers:
    """How many records agree with each row wherever neither has a gap (-1); itself among them.

    The rows are sorted, so that those that begin alike are a stretch. From a stretch, a row with
    a value goes on with those that have the same or a gap, a row with a gap with all of them; as
    soon as only gaps are left in it, the whole stretch is added. Variables with few gaps and many
    values come first: they leave the shortest stretches.
    """
    gaps = (codes < 0).sum(axis=0)
    order = np.lexsort((-codes.max(axis=0, initial=-1), gaps))
    sought = np.ascontiguousarray(codes[:, order])
    place = np.lexsort(sought.T[::-1])
    found = _agreeing(sought[place], np.append(0, np.cumsum(counts[place])))
    total = np.empty(len(codes), np.int64)
    total[place] = found
    return total


@njit(cache=True, nogil=True)
def _agreeing(rows, below):  # type: ignore[no-untyped-def]
    count, width = rows.shape
    total = np.zeros(count, np.int64)
    lows, highs = (
        np.empty(count + 2 * width + 2, np.int64),
        np.empty(count + 2 * width + 2, np.int64),
    )
    levels = np.empty(count + 2 * width + 2, np.int64)
    for row in range(count):
        asked, last = rows[row], -1
        for column in range(width):
            if asked[column] >= 0:
                last = column
        lows[0], highs[0], levels[0], top = 0, count, 0, 1
        while top:
            top -= 1
            low, high, level = lows[top], highs[top], levels[top]
            if level > last:
                total[row] += below[high] - below[low]
            elif high - low <= _FEW:
                for other in range(low, high):
                    if _agree(asked, rows[other], level, last):
                        total[row] += below[other + 1] - below[other]
            else:
                top = _descend(
                    rows[:, level], asked[level], low, high, level, lows, highs, levels, top
                )
    return total


@njit(cache=True, nogil=True)
def _agree(one, other, first, last):  # type: ignore[no-untyped-def]
    for column in range(first, last + 1):
        if one[column] >= 0 and other[column] >= 0 and one[column] != other[column]:
            return False
    return True


@njit(cache=True, nogil=True)
def _descend(values, asked, low, high, level, lows, highs, levels, top):  # type: ignore[no-untyped-def]
    """Push the parts of a stretch that go on: those with a gap and those with the value asked."""
    at = low
    while at < high:
        value = values[at]
        after = _after(values, value, at, high)
        if asked < 0 or value < 0 or value == asked:
            lows[top], highs[top], levels[top] = at, after, level + 1
            top += 1
        if asked >= 0 and value < asked:
            at = max(after, _after(values, asked - 1, after, high))
        elif asked >= 0:
            return top
        else:
            at = after
    return top


@njit(cache=True, nogil=True)
def _after(values, value, low, high):  # type: ignore[no-untyped-def]
    """The first place from `low` on with more than this value, in ascending values."""
    while low < high:
        middle = (low + high) // 2
        if values[middle] > value:
            high = middle
        else:
            low = middle + 1
    return low
