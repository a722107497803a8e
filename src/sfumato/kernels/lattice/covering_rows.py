"""Rows with gaps that cover others, counted without comparing all with all."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.arrays import AnyIntegers, Integers
from sfumato.kernels.compiled import compiled, inner

_FEW = 8
"""So many rows are compared one by one."""


def count_covering(codes: AnyIntegers, counts: Integers) -> Integers:
    """How many records cover each row: equal, or a gap (-1), in every variable; itself too."""
    return _count_sorted(codes, counts, covering=True)


def count_covered(codes: AnyIntegers, counts: Integers) -> Integers:
    """How many records each row covers: equal wherever it has no gap (-1); itself too."""
    return _count_sorted(codes, counts, covering=False)


def _count_sorted(codes: AnyIntegers, counts: Integers, *, covering: bool) -> Integers:
    """Search the sorted rows, where those that begin alike are a stretch.

    From a stretch, a row goes on with the parts that can still fit it; as soon as nothing more is
    asked of them, the whole stretch is added. Variables with few gaps and many values come first:
    they leave the shortest stretches.
    """
    gaps = (codes < 0).sum(axis=0)
    order = np.lexsort((-codes.max(axis=0, initial=-1), gaps))
    sought = np.ascontiguousarray(codes[:, order])
    position = np.lexsort(sought.T[::-1])
    below = np.append(0, np.cumsum(counts[position]))
    total = np.empty(len(codes), np.int64)
    total[position] = _count_fitting(sought[position], below, covering)
    return total


@compiled
def _count_fitting(rows, below, covering):  # type: ignore[no-untyped-def]
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
            if covering or target[column] >= 0:
                last = column
        lows[0], highs[0], levels[0], top = 0, count, 0, 1
        while top:
            top -= 1
            low, high, level = lows[top], highs[top], levels[top]
            if level > last:
                total[row] += below[high] - below[low]
            elif high - low <= _FEW:
                for other in range(low, high):
                    if _fits(target, rows[other], level, last, covering):
                        total[row] += below[other + 1] - below[other]
            else:
                top = _descend(
                    rows[:, level], target[level], low, high, level, lows, highs, levels, top,
                    covering,
                )  # fmt: skip
    return total


@inner
def _fits(target, other, first, last, covering):  # type: ignore[no-untyped-def]
    for column in range(first, last + 1):
        gap = other[column] < 0 if covering else target[column] < 0
        if not gap and target[column] != other[column]:
            return False
    return True


@inner
def _descend(values, target, low, high, level, lows, highs, levels, top, covering):  # type: ignore[no-untyped-def]
    """Push the parts of a stretch that go on: those with a gap and those with the value asked."""
    every = not covering and target < 0
    position = low
    while position < high:
        value = values[position]
        after = _find_after(values, value, position, high)
        if every or value == target or (covering and value < 0):
            lows[top], highs[top], levels[top] = position, after, level + 1
            top += 1
        if every:
            position = after
        elif value >= target:
            return top
        else:
            # On to the value asked, over all that are smaller.
            position = max(after, _find_after(values, target - 1, after, high))
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
