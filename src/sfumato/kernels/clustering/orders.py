"""Records by their distance to the origin, and dealt to clusters: compiled parts of `clusters`."""

from __future__ import annotations

import numpy as np
from numba import njit

from sfumato.kernels.arrays import Array, Integers
from sfumato.kernels.clustering.distances import ROUNDING, moved, tally

_SHORT = 32
"""Up to so many records in a tie are put in order one by one."""


@njit(cache=True, nogil=True)
def whole_sums(column):  # type: ignore[no-untyped-def]
    """Whether the values are whole numbers small enough to be added up exactly, and their sums."""
    most = 2.0**31 / np.sqrt(len(column))
    total, squares = np.int64(0), np.int64(0)
    for row in range(len(column)):
        value = column[row]
        if not -most < value < most or value != np.int64(value):
            return False, 0, 0
        total += np.int64(value)
        squares += np.int64(value) * np.int64(value)
    return True, total, squares


@njit(cache=True, nogil=True)
def squared(values, scale):  # type: ignore[no-untyped-def]
    """Squared standardised distances to the zero record (Eq. 2)."""
    out = np.empty(len(values))
    for row in range(len(values)):
        far = 0.0
        for column in range(len(scale)):
            far += float(values[row, column]) * float(values[row, column]) * scale[column]
        out[row] = far
    return out


def ascending(numbers: Array, values: Array, last: Array) -> tuple[Integers, Integers]:
    """Records in the order of their numbers, and that order's keys, equal where numbers may be.

    Equal numbers are ordered by their row of `values`, then by `last` (both may be empty), and
    what is still equal stays in order. Sorting the leading bits of each number together with its
    position, as one word, is several times faster than sorting positions by number; the few that
    agree in those bits are put right afterwards.
    """
    words = (np.asarray(numbers, np.float64) + 0.0).view(np.int64)  # + 0: no negative zero
    return _sorted(words, numbers, values, last)


def grouped(keys: Integers) -> tuple[Integers, Integers]:
    """Records with equal keys together, in an order that only the keys decide; where groups start.

    The keys are scattered first (an odd factor loses nothing), so that their leading bits tell
    nearly all of them apart.
    """
    none = np.empty((len(keys), 0), np.int64)
    words = (keys.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)
    order, leading = _sorted(words, keys, none, keys[:0])
    return order, _changes(keys, order, leading)


def _sorted(
    words: Integers, numbers: Array, values: Array, last: Array
) -> tuple[Integers, Integers]:
    bits = max(1, len(words) - 1).bit_length()
    keys, exact = _packed(words, bits)
    keys.sort()
    order, keys = keys & ((1 << bits) - 1), keys >> bits
    if exact and not values.shape[1] and not len(last):
        return order, keys
    for first, end in zip(*_tidied(numbers, values, last, keys, order), strict=True):
        rows = order[first:end]
        sorting = [*([last[rows]] if len(last) else []), *values[rows].T[::-1], numbers[rows]]
        order[first:end] = rows[np.lexsort(sorting)]
    return order, keys


@njit(cache=True, nogil=True)
def _packed(words, bits):  # type: ignore[no-untyped-def]
    """The leading bits of numbers, such that they sort as words, with their positions below."""
    out = np.empty(len(words), np.int64)
    mask = (np.int64(1) << bits) - 1
    lost = np.int64(0)
    for row in range(len(words)):
        word = words[row] ^ ((words[row] >> 63) & 0x7FFFFFFFFFFFFFFF)
        lost |= words[row] & mask
        out[row] = (word & ~mask) | row
    return out, lost == 0


@njit(cache=True, nogil=True)
def _before(numbers, values, last, one, other):  # type: ignore[no-untyped-def]
    """Whether a record comes before another."""
    if numbers[one] != numbers[other]:
        return numbers[one] < numbers[other]
    for column in range(values.shape[1]):
        if values[one, column] != values[other, column]:
            return values[one, column] < values[other, column]
    return len(last) > 0 and last[one] < last[other]


@njit(cache=True, nogil=True)
def _tidied(numbers, values, last, keys, order):  # type: ignore[no-untyped-def]
    """Put stretches of equal keys in order; the long ones in disorder are left and returned."""
    firsts, ends = [0 for _ in range(0)], [0 for _ in range(0)]
    first = 0
    for end in range(1, len(keys) + 1):
        if end < len(keys) and keys[end] == keys[first]:
            continue
        for at in range(first + 1, end):
            moved, to = order[at], at
            if end - first > _SHORT:
                if _before(numbers, values, last, moved, order[at - 1]):
                    firsts.append(first)
                    ends.append(end)
                    break
                continue
            while to > first and _before(numbers, values, last, moved, order[to - 1]):
                order[to] = order[to - 1]
                to -= 1
            order[to] = moved
        first = end
    return firsts, ends


@njit(cache=True, nogil=True)
def _changes(keys, order, leading):  # type: ignore[no-untyped-def]
    """Where in the order another key begins, and its end."""
    out, count = np.empty(len(order) + 1, np.int64), 0
    for at in range(len(order)):
        if not at or leading[at] != leading[at - 1] or keys[order[at]] != keys[order[at - 1]]:
            out[count] = at
            count += 1
    out[count] = len(order)
    return out[: count + 1].copy()


@njit(cache=True, nogil=True)
def numbered(by, order, keys):  # type: ignore[no-untyped-def]
    """The values numbered from the lowest, for each record, and how often each occurs."""
    codes, often = np.empty(len(order), np.int32), np.zeros(len(order), np.int64)
    number = 0
    for at in range(len(order)):
        if at and (keys[at] != keys[at - 1] or by[order[at]] != by[order[at - 1]]):
            number += 1
        codes[order[at]] = number
        often[number] += 1
    return codes, often[: number + 1].copy()


@njit(cache=True, nogil=True)
def dealt(rank, count):  # type: ignore[no-untyped-def]
    """Clusters that take one record of each subset, nearest first.

    Records are numbered by nearness; `rank` lists them by the confidential variable. Where some
    clusters have one record more, every so many-th in the list is for those.
    """
    n = len(rank)
    size = n // count
    more = n - count * size
    few, extra = count - more, more * (size + 1)
    subset = np.empty(n, np.int64)
    half = n // 2  # from the middle of each stretch, not from its end
    for at in range(n):
        before = (at * extra + half) // n
        if ((at + 1) * extra + half) // n > before:
            subset[rank[at]] = size + before // more
        else:
            subset[rank[at]] = (at - before) // few
    filled = np.zeros(2 * size + 1, np.int64)
    order = np.empty(n, np.int64)
    for at in range(n):
        own = subset[at]
        if own < size:
            order[filled[own] * size + own] = at
        else:
            order[few * size + filled[own] * (size + 1) + own - size] = at
        filled[own] += 1
    starts = np.empty(count + 1, np.int64)
    for at in range(count + 1):
        starts[at] = at * size + max(0, at - few)
    return order, starts


@njit(cache=True, nogil=True)
def join(codes, order, starts, limit, below, sums, ranked):  # type: ignore[no-untyped-def]
    """Join clusters that are too far with those after them; how many remain, their starts in place.

    A cluster that still fails takes in a quarter more at a time, so that the work stays linear.
    The last three arrays are those of `distances.moved`.
    """
    n, most = len(order), limit * (1.0 + ROUNDING)
    value, count, held = (
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.zeros(len(below), np.int64),
    )
    made, at, clusters = 0, 0, len(starts) - 1
    while at < clusters:
        to = at + 1
        while True:
            first, size = starts[made], starts[to] - starts[made]
            for row in range(size):
                value[row] = codes[order[first + row]]
            runs = tally(value, count, size, held)
            if moved(value, count, runs, size, n, below, sums, ranked) <= most:
                break
            if to < clusters:
                to = min(clusters, to + 1 + (to - at) // 4)
            else:  # nothing comes after: take in the one before
                made -= 1
        made += 1
        starts[made], at = starts[to], to
    return made
