"""Clusters along one order of the records, and what a cluster spans.

A clustering is `order`, the records cluster after cluster, and `starts`, where each begins and the
last ends. Ranges and sets are kept per cluster: writing them out per record costs more than
finding them.

Sánchez, Martínez & Domingo-Ferrer (2016), Science 351:1274, supplement, algorithms S2 and S4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sfumato.kernels.arrays import UNWEIGHTED, Array, Floats, Integers
from sfumato.kernels.clustering.closeness import (
    ROUNDING,
    PartTally,
    count_codes,
    earth_movers_distance,
    sort_few,
)
from sfumato.kernels.compiled import compiled, inner
from sfumato.kernels.exact_sums import exact_sum
from sfumato.kernels.memory import allocate
from sfumato.kernels.orders import cut_by_keys, sort_by_keys

_FEW = 32
"""Up to so many records in a tie are put in order one by one."""
_SMALL = 1 << 14
_PIECE = 1 << 22
"""Records that are put in order at a time."""


def origin_order(values: Array, k: int) -> tuple[Integers, Integers]:
    """Algorithm S2: k after k along the distance to the zero record; the last take the remainder.

    Records equally far are ordered by their values.

    References: Sánchez, Martínez & Domingo-Ferrer (2016), Science 351:1274, Eq. 2.

    Examples
    --------
    >>> order, starts = origin_order(np.array([[5.0], [1.0], [4.0], [-2.0], [9.0]]), 2)
    >>> order.tolist(), starts.tolist()
    ([1, 3, 2, 0, 4], [0, 2, 5])
    """
    n = _check_size(values, k)
    starts = np.append(np.arange(n // k, dtype=np.int64) * k, n)
    return _sort_by_distance(np.asarray(values)), starts


def order_codes_along_origin(
    codes: Sequence[Array], units: Sequence[Array], persons: Sequence[Array], k: int
) -> tuple[Integers, Integers]:
    """Algorithm S2 on codes: `origin_order`, in pieces of bounded size.

    Parameters
    ----------
    codes : by variable, the code of each record.
    units : by variable, the number that each code stands for.
    persons : keys that order equal records, the most important first.
    k : the fewest records in a cluster.

    Examples
    --------
    >>> codes, units = [np.array([3, 1, 2, 0, 4])], [np.array([-2.0, 1.0, 4.0, 5.0, 9.0])]
    >>> order, starts = order_codes_along_origin(codes, units, [np.arange(5)], 2)
    >>> order.tolist(), starts.tolist()
    ([1, 3, 2, 0, 4], [0, 2, 5])
    """
    n = _check_size(codes[0], k)
    is_whole = all(numbers.dtype.kind in "iu" for numbers in units)
    numbers = [unit.astype(np.int64 if is_whole else np.float64, copy=False) for unit in units]
    scale = np.array(
        [_inverse_variance(unit[own]) for unit, own in zip(numbers, codes, strict=True)]
    )

    def read(rows: Integers | slice) -> Array:
        return np.column_stack([unit[own[rows]] for unit, own in zip(numbers, codes, strict=True)])

    far = allocate((n,), np.float64)
    for start in range(0, n, _PIECE):
        some = slice(start, start + _PIECE)
        far[some] = measure_distances(read(some), scale)
    order, done = allocate((n,), np.int64), 0
    ranks = [_rank_codes(unit, own) for unit, own in zip(numbers, codes, strict=True)]
    for piece in cut_by_keys([far, *ranks, *persons], _PIECE):
        rows = piece[sort_by_keys([key[piece] for key in persons])]
        nearest, _ = sort_by_number(far[rows], read(rows), far[:0])
        order[done : done + len(rows)] = rows[nearest]
        done += len(rows)
    return order, np.append(np.arange(n // k, dtype=np.int64) * k, n)


def _rank_codes(units: Array, codes: Array) -> Array:
    """Codes in the order of what they stand for: as they are, where they have it."""
    ranks = np.unique(units, return_inverse=True)[1].ravel()
    return codes if (np.diff(ranks) > 0).all() else ranks[codes]


def spread_order(
    values: Array, confidential: Array, k: int, t: float | None = None
) -> tuple[Integers, Integers]:
    """Algorithm S4: every cluster takes records from the whole range of a confidential variable.

    Sorted by the confidential variable the records fall into as many subsets as a cluster has
    records; sorted by their distance to the zero record, the first of each subset are a cluster,
    then the second, and so on. Where the cluster size does not divide the number of records, some
    clusters have one more. Those draw on every so many-th record along the confidential variable,
    so that both kinds are spread over all of it (the printed algorithm adds the largest values to
    the first clusters, which breaks its bound). Then t is measured, and a cluster above it is
    joined with its neighbours until it holds: joining never makes the larger t of two larger.

    The measured t is the ordered distance over the values that occur. Eq. 6 supposes that all are
    different; where many are equal, more clusters are joined.

    Parameters
    ----------
    values : quasi-identifiers as numbers, a row per record.
    confidential : one number per record.
    k : the fewest records in a cluster.
    t : the largest distance of a cluster to the whole; else that of Eq. 6 for this k.

    References: Sánchez, Martínez & Domingo-Ferrer (2016), Science 351:1274, Eq. 6–8.
    """
    n = _check_size(values, k)
    limit = bound_t(n, k) if t is None else t
    count = n // max(k, smallest_k(n, limit))
    by = np.asarray(confidential)
    if by.dtype.kind == "f" and not np.isfinite(by).all():
        raise ValueError("The confidential variable has values that are missing or infinite.")
    by_distance = _sort_by_distance(np.asarray(values), by)
    by = by[by_distance]
    rank, keys = sort_by_number(by, np.empty((n, 0)), by[:0])
    codes, tally = _number_values(by, rank, keys)
    order, starts = _deal(rank, count)
    below = np.cumsum(tally)
    sums = np.concatenate(([0], np.cumsum(below)))
    ranked = np.repeat(np.arange(len(tally), dtype=np.int32), tally)
    starts = starts[: 1 + _join_clusters(codes, order, starts, limit, below, sums, ranked)]
    return by_distance[order], starts


def bound_t(n: int, k: int) -> float:
    """The largest t that clusters of k can have when spread over n different values (Eq. 6).

    Examples
    --------
    >>> [round(bound_t(3_985_166, k), 2) for k in (2, 3, 5, 10)]  # Table S9
    [0.25, 0.17, 0.1, 0.05]
    """
    return (n - k) / (2 * (n - 1) * k) if n > 1 else 0.0


def smallest_k(n: int, t: float) -> int:
    """The smallest cluster size whose bound is at most t (Eq. 7 and 8).

    Examples
    --------
    >>> smallest_k(1000, bound_t(1000, 3))
    3
    """
    if not t >= 0:
        raise ValueError(f"A distance t cannot be {t}.")
    # Relative slack: Eq. 8 at the t of k = 3 gives 3.0000000000000004, which means 3.
    return max(1, math.ceil(n / (2 * (n - 1) * t + 1) * (1 - ROUNDING)))


def _check_size(values: Array, k: int) -> int:
    if k < 1 or len(values) < k:
        raise ValueError(f"Clusters of {k} records need at least as many: there are {len(values)}.")
    return len(values)


def _sort_by_distance(values: Array, tied: Array | None = None) -> Integers:
    """The records by their standardised distance to the zero record.

    Records equally far are ordered by their values, equal ones by `tied`.
    """
    if values.dtype not in (np.int32, np.int64, np.float64):  # compiled once for each type
        values = values.astype(np.float64)
    far = measure_distances(values, np.array([_inverse_variance(column) for column in values.T]))
    return sort_by_number(far, values, far[:0] if tied is None else tied)[0]


def measure_distances(values: Array, scale: Floats) -> Floats:
    """Squared standardised distances to the zero record, given one over the variances (Eq. 2)."""
    far: Floats = _squared_distances(values, scale)
    if not np.isfinite(far).all():
        raise ValueError("A distance needs numbers; some values are missing or infinite.")
    return far


def count_inverse_variance(numbers: Array, records: Integers) -> float:
    """One over the variance of numbers of which each is that of so many records; 0 without.

    The same to the last bit as of the numbers of all records one by one.

    Examples
    --------
    >>> count_inverse_variance(np.array([1, 4]), np.array([2, 1])), float(np.var([1, 1, 4]))
    (0.5, 2.0)
    """
    n = int(records.sum())
    weights = [int(weight) for weight in records]
    most = 2.0**31 / np.sqrt(n)
    if all(-most < number < most and number == int(number) for number in numbers.tolist()):
        whole = [int(number) for number in numbers.tolist()]
        total = sum(w * x for w, x in zip(weights, whole, strict=True))
        spread = sum(w * x * x for w, x in zip(weights, whole, strict=True)) * n - total**2
        return n * n / spread if spread else 0.0
    floats = np.asarray(numbers, np.float64)
    mean = _add_exactly(floats, weights) / n
    variance = _add_exactly((floats - mean) ** 2, weights) / n
    return 1.0 / variance if variance > 0 else 0.0


def _add_exactly(numbers: Floats, weights: list[int]) -> float:
    exact = (Fraction(number) * w for number, w in zip(numbers.tolist(), weights, strict=True))
    return float(sum(exact, Fraction(0)))


def _inverse_variance(column: Array) -> float:
    """One over the variance; 0 where nothing varies. The same whatever the order of the records."""
    n = len(column)
    exact, total, squares = _sum_whole_numbers(column)
    if exact:
        spread = int(squares) * n - int(total) ** 2
        return n * n / spread if spread else 0.0
    numbers = np.asarray(column, np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError("A distance needs numbers; some values are missing or infinite.")
    mean = exact_sum(numbers) / n
    variance = exact_sum((numbers - mean) ** 2) / n
    return 1.0 / variance if variance > 0 else 0.0


def find_ranges(codes: Array, order: Integers, starts: Integers) -> tuple[Array, Array]:
    """The lowest and the highest value of every cluster in every variable.

    Examples
    --------
    >>> low, high = find_ranges(np.array([[3], [1], [7]]), np.array([1, 0, 2]), np.array([0, 2, 3]))
    >>> low.ravel().tolist(), high.ravel().tolist()
    ([1, 7], [3, 7])
    """
    spans: tuple[Array, Array] = _find_ranges(codes, order, starts)
    return spans


@compiled(small=_SMALL)
def _find_ranges(codes, order, starts):  # type: ignore[no-untyped-def]
    low = np.empty((len(starts) - 1, codes.shape[1]), codes.dtype)
    high = np.empty((len(starts) - 1, codes.shape[1]), codes.dtype)
    for cluster in range(len(low)):
        row = order[starts[cluster]]
        for column in range(codes.shape[1]):
            low[cluster, column] = high[cluster, column] = codes[row, column]
        for i in range(starts[cluster] + 1, starts[cluster + 1]):
            row = order[i]
            for column in range(codes.shape[1]):
                value = codes[row, column]
                low[cluster, column] = min(low[cluster, column], value)
                high[cluster, column] = max(high[cluster, column], value)
    return low, high


def find_level_sets(codes: Array, order: Integers, starts: Integers) -> tuple[Integers, Integers]:
    """The levels of one variable that occur in each cluster, ascending, as (levels, starts).

    Examples
    --------
    >>> find_level_sets(np.array([3, 1, 3]), np.array([1, 0, 2]), np.array([0, 2, 3]))
    (array([1, 3, 3]), array([0, 2, 3]))
    """
    count = int(codes.max(initial=-1)) + 1
    spans: tuple[Integers, Integers] = _find_level_sets(
        codes, order, starts, np.zeros(count, np.int64)
    )
    return spans


@compiled(small=_SMALL)
def _find_level_sets(codes, order, starts, last_cluster):  # type: ignore[no-untyped-def]
    levels = np.empty(len(order), np.int64)
    ends = np.zeros(len(starts), np.int64)
    to = 0
    for cluster in range(len(starts) - 1):
        for i in range(starts[cluster], starts[cluster + 1]):
            level = codes[order[i]]
            if last_cluster[level] != cluster + 1:
                last_cluster[level] = cluster + 1
                levels[to] = level
                to += 1
        sort_few(levels[ends[cluster] : to], to - ends[cluster])
        ends[cluster + 1] = to
    return levels[:to], ends


def balance_levels(
    codes: Array, order: Integers, starts: Integers, weights: Integers = UNWEIGHTED
) -> Integers:
    """One of its levels for each cluster, so that over the clusters shares stay as they were.

    Cluster after cluster, each takes that of its levels which is owed to most records so far:
    how many have it, less how many got it. What is owed is carried on to the next cluster, so that
    among neighbouring clusters, and in all, each level is shown about as often as it occurs.

    References: Goodman & Kish (1950), J. Am. Stat. Assoc. 45:350 (controlled selection); Floyd &
    Steinberg (1976), Proc. Soc. Inf. Display 17:75 (error diffusion).

    Examples
    --------
    >>> codes, starts = np.array([0, 0, 1, 0, 0, 1, 0, 0, 1]), np.array([0, 3, 6, 9])
    >>> balance_levels(codes, np.arange(9), starts).tolist()
    [0, 1, 0]
    """
    owed = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
    chosen: Integers = _balance_levels(codes, weights, order, starts, owed)
    return chosen


@compiled(small=_SMALL)
def _balance_levels(codes, weights, order, starts, owed):  # type: ignore[no-untyped-def]
    chosen = np.empty(len(starts) - 1, np.int64)
    for cluster in range(len(chosen)):
        first, last = starts[cluster], starts[cluster + 1]
        records = np.int64(0)
        for i in range(first, last):
            weight = weights[order[i]] if len(weights) else np.int64(1)
            owed[codes[order[i]]] += weight
            records += weight
        best = codes[order[first]]
        for i in range(first + 1, last):
            code = codes[order[i]]
            # Of levels owed alike the lowest, whatever the order of the records.
            if owed[code] > owed[best] or (owed[code] == owed[best] and code < best):
                best = code
        owed[best] -= records
        chosen[cluster] = best
    return chosen


@compiled(small=_SMALL)
def _sum_whole_numbers(column):  # type: ignore[no-untyped-def]
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


@compiled(small=_SMALL)
def _squared_distances(values, scale):  # type: ignore[no-untyped-def]
    """Squared standardised distances to the zero record (Eq. 2)."""
    out = np.empty(len(values))
    for row in range(len(values)):
        far = 0.0
        for column in range(len(scale)):
            far += float(values[row, column]) * float(values[row, column]) * scale[column]
        out[row] = far
    return out


def sort_by_number(numbers: Array, values: Array, last: Array) -> tuple[Integers, Integers]:
    """Records in the order of their numbers, and that order's keys, equal where numbers may be.

    Equal numbers are ordered by their row of `values`, then by `last` (both may be empty), and
    what is still equal stays in order. Sorting the leading bits of each number together with its
    position, as one word, is several times faster than sorting positions by number; the few that
    agree in those bits are put right afterwards.
    """
    words = (np.asarray(numbers, np.float64) + 0.0).view(np.int64)  # + 0: no negative zero
    return _sort_words(words, numbers, values, last)


def group_equal(keys: Integers) -> tuple[Integers, Integers]:
    """Records with equal keys together, in an order that only the keys decide; where groups start.

    The keys are scattered first (an odd factor loses nothing), so that their leading bits tell
    nearly all of them apart.
    """
    none = np.empty((len(keys), 0), np.int64)
    words = (keys.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)
    order, leading = _sort_words(words, keys, none, keys[:0])
    return order, _find_changes(keys, order, leading)


def _sort_words(
    words: Integers, numbers: Array, values: Array, last: Array
) -> tuple[Integers, Integers]:
    bits = max(1, len(words) - 1).bit_length()
    keys, exact = _pack_words(words, bits)
    keys.sort()
    order, keys = keys & ((1 << bits) - 1), keys >> bits
    if exact and not values.shape[1] and not len(last):
        return order, keys
    for first, end in zip(*_order_ties(numbers, values, last, keys, order), strict=True):
        rows = order[first:end]
        sorting = [*([last[rows]] if len(last) else []), *values[rows].T[::-1], numbers[rows]]
        order[first:end] = rows[np.lexsort(sorting)]
    return order, keys


@compiled(small=_SMALL)
def _pack_words(words, bits):  # type: ignore[no-untyped-def]
    """The leading bits of numbers, such that they sort as words, with their positions below."""
    out = np.empty(len(words), np.int64)
    mask = (np.int64(1) << bits) - 1
    lost = np.int64(0)
    for row in range(len(words)):
        word = words[row] ^ ((words[row] >> 63) & 0x7FFFFFFFFFFFFFFF)
        lost |= words[row] & mask
        out[row] = (word & ~mask) | row
    return out, lost == 0


@inner
def _precedes(numbers, values, last, record, other):  # type: ignore[no-untyped-def]
    """Whether a record comes before another."""
    if numbers[record] != numbers[other]:
        return numbers[record] < numbers[other]
    for column in range(values.shape[1]):
        if values[record, column] != values[other, column]:
            return values[record, column] < values[other, column]
    return len(last) > 0 and last[record] < last[other]


@compiled(small=_SMALL)
def _order_ties(numbers, values, last, keys, order):  # type: ignore[no-untyped-def]
    """Put stretches of equal keys in order; the long ones in disorder are left and returned."""
    firsts, ends = [0 for _ in range(0)], [0 for _ in range(0)]
    first = 0
    for end in range(1, len(keys) + 1):
        if end < len(keys) and keys[end] == keys[first]:
            continue
        for i in range(first + 1, end):
            record, to = order[i], i
            if end - first > _FEW:
                if _precedes(numbers, values, last, record, order[i - 1]):
                    firsts.append(first)
                    ends.append(end)
                    break
                continue
            while to > first and _precedes(numbers, values, last, record, order[to - 1]):
                order[to] = order[to - 1]
                to -= 1
            order[to] = record
        first = end
    return firsts, ends


@compiled(small=_SMALL)
def _find_changes(keys, order, leading):  # type: ignore[no-untyped-def]
    """Where in the order another key begins, and its end."""
    out, count = np.empty(len(order) + 1, np.int64), 0
    for i in range(len(order)):
        if not i or leading[i] != leading[i - 1] or keys[order[i]] != keys[order[i - 1]]:
            out[count] = i
            count += 1
    out[count] = len(order)
    return out[: count + 1].copy()


@compiled(small=_SMALL)
def _number_values(by, order, keys):  # type: ignore[no-untyped-def]
    """The values numbered from the lowest, for each record, and how often each occurs."""
    codes, often = np.empty(len(order), np.int32), np.zeros(len(order), np.int64)
    number = 0
    for i in range(len(order)):
        if i and (keys[i] != keys[i - 1] or by[order[i]] != by[order[i - 1]]):
            number += 1
        codes[order[i]] = number
        often[number] += 1
    return codes, often[: number + 1].copy()


@compiled(small=_SMALL)
def _deal(rank, count):  # type: ignore[no-untyped-def]
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
    for i in range(n):
        before = (i * extra + half) // n
        if ((i + 1) * extra + half) // n > before:
            subset[rank[i]] = size + before // more
        else:
            subset[rank[i]] = (i - before) // few
    filled = np.zeros(2 * size + 1, np.int64)
    order = np.empty(n, np.int64)
    for i in range(n):
        group = subset[i]
        if group < size:
            order[filled[group] * size + group] = i
        else:
            order[few * size + filled[group] * (size + 1) + group - size] = i
        filled[group] += 1
    starts = np.empty(count + 1, np.int64)
    for i in range(count + 1):
        starts[i] = i * size + max(0, i - few)
    return order, starts


@compiled
def _join_clusters(codes, order, starts, limit, below, sums, ranked):  # type: ignore[no-untyped-def]
    """Join clusters that are too far with those after them; how many remain, their starts in place.

    A cluster that still fails takes in a quarter more at a time, so that the work stays linear.
    The last three arrays are those of `earth_movers_distance`.
    """
    n, most = len(order), limit * (1.0 + ROUNDING)
    tally = PartTally(np.empty(n, np.int64), np.empty(n, np.int64), np.zeros(len(below), np.int64))
    joined, cluster, clusters = 0, 0, len(starts) - 1
    while cluster < clusters:
        to = cluster + 1
        while True:
            first, size = starts[joined], starts[to] - starts[joined]
            for row in range(size):
                tally.codes[row] = codes[order[first + row]]
            distinct = count_codes(tally, size)
            if earth_movers_distance(tally, distinct, size, n, below, sums, ranked) <= most:
                break
            if to < clusters:
                to = min(clusters, to + 1 + (to - cluster) // 4)
            else:  # nothing comes after: take in the one before
                joined -= 1
        joined += 1
        starts[joined], cluster = starts[to], to
    return joined
