"""Cuts of a part in two: the compiled half of `mondrian`.

The values lie column after column and move with the records, so that a part is always a stretch of
each column: looking for its spread and its median reads memory in sequence.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sfumato.kernels.clustering.distances import ascend, keeps, workspace

_SMALL = 32
"""Up to so many rows a part is sorted instead of counted."""
_BINS = 4096
"""At most so many bins when counting towards a median."""
_MANY = 16
"""A part of more than so many times k rows is large."""
_SPENT = 0.5
"""The share of t that a cut of a large part may use up."""
_DISTANCES = 2
"""The kinds of rules below this are distances, where less is safer; see `rules`."""
_WORD = 64
_HALF = 32
"""Bits of a code beside a count in one sortable number; there are fewer than 2^31 records."""


@njit(cache=True, nogil=True)
def partition(  # type: ignore[no-untyped-def]
    columns, ids, weights, nominal, levels, scaled, firsts, k, codes, whole, ends
):
    """Cut until no part can be cut; the clusters' ends among the rows, and how many there are.

    `columns` (a row per variable), `ids` and `weights` are rearranged so that clusters are
    stretches of them. A part is cut at the variable where it is widest and that allows a cut.
    """
    count = columns.shape[1]
    lasts, totals = np.empty(count + 1, np.int64), np.empty(count + 1, np.int64)
    left, spare = np.empty(count, np.bool_), np.empty(count, np.int64)
    bins = np.zeros(max(_BINS, firsts[-1]), np.int64)
    rooms = workspace(count if len(whole[1]) else 0, whole)
    widths, lows = np.empty(len(columns)), np.empty((2, len(columns)), np.int64)
    tight, tries = _tightened(whole), np.empty(len(columns))
    lasts[0], totals[0], top, clusters = count, 0, 1, 0
    for row in range(count):
        totals[0] += weights[row]
    first = lasts[0] - count  # a whole number of 64 bits from the start, or all compiles twice
    while top:
        last, total = lasts[top - 1], totals[top - 1]
        heavy = 0
        if total >= 2 * k and last - first > 1:
            _spread(columns, first, last, nominal, levels, scaled, firsts, bins, widths, lows)
            tries[:] = widths
            if len(tight[1]) and last - first > _MANY * k:
                heavy = _best(
                    columns, ids, weights, first, last, total, nominal, tries, lows, k, codes,
                    tight, bins, spare, left, rooms,
                )  # fmt: skip
            if not heavy:
                heavy = _best(
                    columns, ids, weights, first, last, total, nominal, widths, lows, k, codes,
                    whole, bins, spare, left, rooms,
                )  # fmt: skip
        if not heavy:
            ends[clusters], first = last, last
            clusters, top = clusters + 1, top - 1
            continue
        rows = _move(ids, first, last, left, spare)
        _move(weights, first, last, left, spare)
        for at in range(len(columns)):
            _move(columns[at], first, last, left, spare)
        totals[top - 1] = total - heavy
        lasts[top], totals[top] = first + rows, heavy
        top += 1
    return clusters


@njit(cache=True, nogil=True)
def _tightened(whole):  # type: ignore[no-untyped-def]
    """The rules for large parts: only a share of each distance may be used up; none without one.

    A cut at a variable that goes with the confidential one brings both halves close to the bound
    at once, and then nothing can be cut any more. Cuts at other variables come first that way.
    """
    limits, close = whole[3].copy(), 0
    for rule in range(len(limits)):
        if whole[1][rule] < _DISTANCES:
            limits[rule] *= _SPENT
            close += 1
    kinds = whole[1] if close else whole[1][:0]
    return (
        whole[0], kinds, whole[2], limits, whole[4], whole[5], whole[6], whole[7], whole[8],
        whole[9], whole[10], whole[11], whole[12],
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _best(  # type: ignore[no-untyped-def]
    columns, ids, weights, first, last, total, nominal, widths, lows, k, codes, whole, bins, spare,
    left, rooms,
):  # fmt: skip
    """Mark the left side of the cut at the widest variable that allows one; its weight, or 0."""
    at = _widest(widths)
    while at >= 0:
        if nominal[at]:
            heavy = _halve(columns[at], weights, first, last, bins, spare, left)
        else:
            heavy = _cut(columns[at], weights, first, last, total, lows[:, at], bins, spare, left)
        if min(heavy, total - heavy) >= k and _kept(
            codes, ids, first, last, left, spare, whole, rooms
        ):
            return heavy
        widths[at] = -1.0
        at = _widest(widths)
    return np.int64(0)


@njit(cache=True, nogil=True)
def _widest(widths):  # type: ignore[no-untyped-def]
    """The widest variable that is not yet ruled out; -1 where there is none."""
    found, width = -1, 0.0
    for at in range(len(widths)):
        if widths[at] > width:
            found, width = at, widths[at]
    return found


@njit(cache=True, nogil=True)
def _kept(codes, ids, first, last, left, trial, whole, rooms):  # type: ignore[no-untyped-def]
    """Whether both sides of a cut keep all rules."""
    if len(whole[1]) == 0:
        return True
    value, tally, held = rooms
    to, end, none = np.int64(0), last - first, np.int64(0)
    for row in range(first, last):
        if left[row - first]:
            trial[to] = ids[row]
            to += 1
        else:
            end -= 1
            trial[end] = ids[row]
    return keeps(codes, trial, none, to, whole, value, tally, held) and keeps(
        codes, trial, to, last - first, whole, value, tally, held
    )


@njit(cache=True, nogil=True)
def _move(items, first, last, left, spare):  # type: ignore[no-untyped-def]
    """Those on the left first, then the others, in their order; how many are on the left."""
    to, other = first, 0
    for row in range(first, last):
        item, kept = items[row], left[row - first]
        items[to] = item  # the place is read already
        spare[other] = item
        to += kept
        other += not kept
    for row in range(other):
        items[to + row] = spare[row]
    return to - first


@njit(cache=True, nogil=True)
def _spread(columns, first, last, nominal, levels, scaled, firsts, seen, widths, lows):  # type: ignore[no-untyped-def]
    """How wide the part is in each variable, as a share of the whole; its lowest and highest code.

    `seen` must be zero and is left so.
    """
    for at in range(len(columns)):
        column = columns[at]
        if nominal[at]:
            distinct = _distinct(column, first, last, levels[at], seen)
            widths[at] = (distinct - 1) / max(1, levels[at] - 1)
        else:
            low, high = column[first], column[first]
            for row in range(first + 1, last):
                low, high = min(low, column[row]), max(high, column[row])
            widths[at] = scaled[firsts[at] + high] - scaled[firsts[at] + low]
            lows[0, at], lows[1, at] = low, high


@njit(cache=True, nogil=True)
def _distinct(column, first, last, levels, seen):  # type: ignore[no-untyped-def]
    """How many levels occur. Few levels fit one word, a bit each: no memory to write and clear."""
    distinct = 0
    if levels <= _WORD:
        word = np.uint64(0)
        for row in range(first, last):
            word |= np.uint64(1) << np.uint64(column[row])
        while word:
            word &= word - np.uint64(1)
            distinct += 1
        return distinct
    for row in range(first, last):
        distinct += 1 - seen[column[row]]
        seen[column[row]] = 1
    for row in range(first, last):
        seen[column[row]] = 0
    return distinct


@njit(cache=True, nogil=True)
def _cut(column, weights, first, last, total, lows, bins, keys, left):  # type: ignore[no-untyped-def]
    """Cut an ordered variable beside its median, equal values together, as evenly as that allows.

    Marks the rows on the left and returns their weight. No cut of this variable is more even.
    """
    if last - first <= _SMALL:
        below, at, middle = _median_sorted(column, weights, first, last, total, keys)
    else:
        below, at, middle = _median_counted(column, weights, first, last, total, lows, bins)
    upto = below + at
    if min(below, total - below) > min(upto, total - upto):
        middle, upto = middle - 1, below
    for row in range(first, last):
        left[row - first] = column[row] <= middle
    return upto


@njit(cache=True, nogil=True)
def _median_sorted(column, weights, first, last, total, keys):  # type: ignore[no-untyped-def]
    """The weight below the median, the weight at it, and its code."""
    for row in range(last - first):
        moved, to = (np.int64(column[first + row]) << _HALF) | weights[first + row], row
        while to and keys[to - 1] > moved:
            keys[to] = keys[to - 1]
            to -= 1
        keys[to] = moved
    mask = (np.int64(1) << _HALF) - 1
    below, at, middle = np.int64(0), np.int64(0), np.int64(-1)
    for row in range(last - first):
        if keys[row] >> _HALF != middle:
            if 2 * (below + at) >= total:
                break
            below, at, middle = below + at, np.int64(0), keys[row] >> _HALF
        at += keys[row] & mask
    return below, at, middle


@njit(cache=True, nogil=True)
def _median_counted(column, weights, first, last, total, lows, bins):  # type: ignore[no-untyped-def]
    """The same by counting in ever finer bins around the median; `bins` is left zero."""
    low, high, most = lows[0], lows[1], min(_BINS, last - first)
    below = np.int64(0)
    while True:
        shift = 0
        while (high - low) >> shift >= most:
            shift += 1
        for row in range(first, last):
            if low <= column[row] <= high:
                bins[(column[row] - low) >> shift] += weights[row]
        place = 0
        while 2 * (below + bins[place]) < total:
            below += bins[place]
            place += 1
        at = bins[place]
        for empty in range(((high - low) >> shift) + 1):
            bins[empty] = 0
        low += place << shift
        high = min(high, low + (1 << shift) - 1)
        if low == high:
            return below, at, low


@njit(cache=True, nogil=True)
def _halve(column, weights, first, last, bins, keys, left):  # type: ignore[no-untyped-def]
    """Deal the levels of a nominal variable to two sides, the commonest first to the lighter side.

    Marks the rows on the left and returns their weight; `bins` is left zero.
    """
    present = 0
    for row in range(first, last):
        if bins[column[row]] == 0:
            keys[present] = column[row]
            present += 1
        bins[column[row]] += weights[row]
    for at in range(present):
        keys[at] -= bins[keys[at]] << _HALF
    ascend(keys, present)
    one, other = np.int64(0), np.int64(0)
    mask = (np.int64(1) << _HALF) - 1
    for at in range(present):
        level = keys[at] & mask
        if one <= other:
            one += bins[level]
            bins[level] = -1
        else:
            other += bins[level]
    for row in range(first, last):
        left[row - first] = bins[column[row]] < 0
    for at in range(present):
        bins[keys[at] & mask] = 0
    return one
