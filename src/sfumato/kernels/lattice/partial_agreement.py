"""Rows that agree wherever neither has a gap, counted without comparing all with all."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.arrays import Integers
from sfumato.kernels.compiled import compiled, inner

_FEW = 8
"""So many rows are compared one by one."""


def count_agreeing(codes: Integers, counts: Integers) -> Integers:
    """How many records agree with each row wherever neither has a gap (-1); itself among them.

    The rows are sorted, so that those that begin alike are a stretch. From a stretch, a row with
    a value goes on with those that have the same or a gap, a row with a gap with all of them; as
    soon as only gaps are left in it, the whole stretch is added. Variables with few gaps and many
    values come first: they leave the shortest stretches.
    """
    gaps = (codes < 0).sum(axis=0)
    order = np.lexsort((-codes.max(axis=0, initial=-1), gaps))
    sought = np.ascontiguousarray(codes[:, order])
    position = np.lexsort(sought.T[::-1])
    agreeing = _count_agreeing(sought[position], np.append(0, np.cumsum(counts[position])))
    total = np.empty(len(codes), np.int64)
    total[position] = agreeing
    return total


@compiled
def _count_agreeing(rows, below):  # type: ignore[no-untyped-def]
    count, width = rows.shape
    total = np.zeros(count, np.int64)
    lows, highs = (
        np.empty(count + 2 * width + 2, np.int64),
        np.empty(count + 2 * width + 2, np.int64),
    )
    levels = np.empty(count + 2 * width + 2, np.int64)
    for row in range(count):
        target, last = rows[row], -1
        for column in range(width):
            if target[column] >= 0:
                last = column
        lows[0], highs[0], levels[0], top = 0, count, 0, 1
        while top:
            top -= 1
            low, high, level = lows[top], highs[top], levels[top]
            if level > last:
                total[row] += below[high] - below[low]
            elif high - low <= _FEW:
                for other in range(low, high):
                    if _agree(target, rows[other], level, last):
                        total[row] += below[other + 1] - below[other]
            else:
                top = _descend(
                    rows[:, level], target[level], low, high, level, lows, highs, levels, top
                )
    return total


@inner
def _agree(target, other, first, last):  # type: ignore[no-untyped-def]
    for column in range(first, last + 1):
        if target[column] >= 0 and other[column] >= 0 and target[column] != other[column]:
            return False
    return True


@inner
def _descend(values, target, low, high, level, lows, highs, levels, top):  # type: ignore[no-untyped-def]
    """Push the parts of a stretch that go on: those with a gap and those with the value asked."""
    position = low
    while position < high:
        value = values[position]
        after = _find_after(values, value, position, high)
        if target < 0 or value < 0 or value == target:
            lows[top], highs[top], levels[top] = position, after, level + 1
            top += 1
        if target >= 0 and value < target:
            position = max(after, _find_after(values, target - 1, after, high))
        elif target >= 0:
            return top
        else:
            position = after
    return top


@inner
def _find_after(values, value, low, high):  # type: ignore[no-untyped-def]
    """The first position from `low` on with more than this value, in ascending values."""
    while low < high:
        middle = (low + high) // 2
        if values[middle] > value:
            high = middle
        else:
            low = middle + 1
    return low
