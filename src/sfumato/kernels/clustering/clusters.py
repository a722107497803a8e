"""Clusters along one order of the records, and what a cluster spans.

A clustering is `order`, the records cluster after cluster, and `starts`, where each begins and the
last ends. Ranges and sets are kept per cluster: writing them out per record costs more than
finding them.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from sfumato.kernels.arrays import Array, Integers
from sfumato.kernels.clustering.distances import ascend
from sfumato.kernels.clustering.orders import ascending, dealt, join, numbered, squared, whole_sums
from sfumato.kernels.sums import exact_parts

_ROUNDING = 1e-12
"""Relative slack: Eq. 8 at the t of k = 3 gives 3.0000000000000004, which means 3."""


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
    n = _enough(values, k)
    starts = np.append(np.arange(n // k, dtype=np.int64) * k, n)
    return _by_distance(np.asarray(values)), starts


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
    n = _enough(values, k)
    limit = bound_t(n, k) if t is None else t
    count = n // max(k, smallest_k(n, limit))
    by = np.asarray(confidential)
    if by.dtype.kind == "f" and not np.isfinite(by).all():
        raise ValueError("The confidential variable has values that are missing or infinite.")
    near = _by_distance(np.asarray(values), by)
    by = by[near]
    rank, keys = ascending(by, np.empty((n, 0)), by[:0])
    codes, tally = numbered(by, rank, keys)
    order, starts = dealt(rank, count)
    below = np.cumsum(tally)
    sums = np.concatenate(([0], np.cumsum(below)))
    ranked = np.repeat(np.arange(len(tally), dtype=np.int32), tally)
    starts = starts[: 1 + join(codes, order, starts, limit, below, sums, ranked)]
    return near[order], starts


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
    return max(1, math.ceil(n / (2 * (n - 1) * t + 1) * (1 - _ROUNDING)))


def _enough(values: Array, k: int) -> int:
    if k < 1 or len(values) < k:
        raise ValueError(f"Clusters of {k} records need at least as many: there are {len(values)}.")
    return len(values)


def _by_distance(values: Array, tied: Array | None = None) -> Integers:
    """The records by their standardised distance to the zero record.

    Records equally far are ordered by their values, equal ones by `tied`.
    """
    if values.dtype not in (np.int32, np.int64, np.float64):  # compiled once for each type
        values = values.astype(np.float64)
    far = squared(values, np.array([_inverse_variance(column) for column in values.T]))
    if not np.isfinite(far).all():
        raise ValueError("A distance needs numbers; some values are missing or infinite.")
    return ascending(far, values, far[:0] if tied is None else tied)[0]


def _inverse_variance(column: Array) -> float:
    """One over the variance; 0 where nothing varies. The same whatever the order of the records."""
    n = len(column)
    whole, total, squares = whole_sums(column)
    if whole:
        spread = int(squares) * n - int(total) ** 2
        return n * n / spread if spread else 0.0
    numbers = np.asarray(column, np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError("A distance needs numbers; some values are missing or infinite.")
    mean = math.fsum(exact_parts(numbers)) / n
    variance = math.fsum(exact_parts((numbers - mean) ** 2)) / n
    return 1.0 / variance if variance > 0 else 0.0


def ranges(codes: Array, order: Integers, starts: Integers) -> tuple[Array, Array]:
    """The lowest and the highest value of every cluster in every variable.

    Examples
    --------
    >>> low, high = ranges(np.array([[3], [1], [7]]), np.array([1, 0, 2]), np.array([0, 2, 3]))
    >>> low.ravel().tolist(), high.ravel().tolist()
    ([1, 7], [3, 7])
    """
    found: tuple[Array, Array] = _ranges(codes, order, starts)
    return found


@njit(cache=True, nogil=True)
def _ranges(codes, order, starts):  # type: ignore[no-untyped-def]
    low = np.empty((len(starts) - 1, codes.shape[1]), codes.dtype)
    high = np.empty((len(starts) - 1, codes.shape[1]), codes.dtype)
    for cluster in range(len(low)):
        row = order[starts[cluster]]
        for column in range(codes.shape[1]):
            low[cluster, column] = high[cluster, column] = codes[row, column]
        for at in range(starts[cluster] + 1, starts[cluster + 1]):
            row = order[at]
            for column in range(codes.shape[1]):
                value = codes[row, column]
                low[cluster, column] = min(low[cluster, column], value)
                high[cluster, column] = max(high[cluster, column], value)
    return low, high


def level_sets(codes: Array, order: Integers, starts: Integers) -> tuple[Integers, Integers]:
    """The levels of one variable that occur in every cluster, ascending, as (levels, starts).

    Examples
    --------
    >>> level_sets(np.array([3, 1, 3]), np.array([1, 0, 2]), np.array([0, 2, 3]))
    (array([1, 3, 3]), array([0, 2, 3]))
    """
    count = int(codes.max(initial=-1)) + 1
    found: tuple[Integers, Integers] = _level_sets(codes, order, starts, np.zeros(count, np.int64))
    return found


@njit(cache=True, nogil=True)
def _level_sets(codes, order, starts, seen):  # type: ignore[no-untyped-def]
    levels = np.empty(len(order), np.int64)
    ends = np.zeros(len(starts), np.int64)
    to = 0
    for cluster in range(len(starts) - 1):
        for at in range(starts[cluster], starts[cluster + 1]):
            level = codes[order[at]]
            if seen[level] != cluster + 1:
                seen[level] = cluster + 1
                levels[to] = level
                to += 1
        ascend(levels[ends[cluster] : to], to - ends[cluster])
        ends[cluster + 1] = to
    return levels[:to], ends
