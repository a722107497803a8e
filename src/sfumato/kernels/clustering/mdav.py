"""Clusters of at least k similar records around those that lie farthest out (MDAV)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from sfumato.kernels.arrays import Integers
from sfumato.kernels.clustering.mdav_tree import empty_tree, farthest, nearest, plant, take_out
from sfumato.kernels.trees.neighbour_tree import INLINE, INNER

_LARGEST = 1e150
"""Larger numbers have squares that are none."""
_SLACK = 1e-9
"""Relative to the largest distance: far more than rounding can do to one."""
_WALK = 4
"""A list is sorted anew when it has been walked this often."""
_SHRUNK = 2.0**-20
"""Records this much nearer than before are added up anew: the large ones cost them digits."""


def mdav(values: npt.NDArray[Any], k: int) -> tuple[Integers, Integers]:
    """Clusters of k records, the last of up to 2k - 1, as (order, starts).

    While 3k records or more are left: the record farthest from their centroid and its k - 1
    nearest are a cluster, then the record farthest from that one and its k - 1 nearest. Of 2k or
    more that are left, the record farthest from their centroid and its k - 1 nearest are a
    cluster. The rest is the last one.

    Of records equally far, the one with the lower values goes first, variable after variable. So
    the clusters do not depend on the order of the records; records with the same values are
    interchangeable. The results are those of comparing all with all, with centroids summed to
    twice the digits of a number. Memory grows as n, and time hardly faster unless most records
    lie equally far from their centroid or the variables are many (ten).

    Parameters
    ----------
    values : a row per record, a column per variable, in units that can be compared.
    k : the fewest records in a cluster.

    References: Domingo-Ferrer & Torra (2005), Data Mining and Knowledge Discovery 11:195.

    Examples
    --------
    >>> order, starts = mdav(np.array([[5.0], [1.0], [4.5], [-2.0], [9.0], [0.0]]), 2)
    >>> order.tolist(), starts.tolist()
    ([4, 0, 3, 5, 1, 2], [0, 2, 4, 6])
    """
    values = np.asarray(values, np.float64)
    if values.ndim != 2 or not values.shape[1]:  # noqa: PLR2004
        raise ValueError("Values need a row per record and a column per variable.")
    n = len(values)
    if k < 1 or n < k:
        raise ValueError(f"Clusters of {k} records need at least as many: there are {n}.")
    if not np.all(np.abs(values) <= _LARGEST):
        raise ValueError("A distance needs numbers; some values are missing or too large.")
    order = np.lexsort(values.T[::-1]).astype(np.int64)
    values = values[order] + 0.0  # -0.0 becomes 0.0
    fresh = np.append(True, (values[1:] != values[:-1]).any(axis=1))
    firsts = np.append(np.flatnonzero(fresh), n).astype(np.int64)
    if k == 1 or n < 2 * k:
        return order, np.array([*range(0, n - k + 1, k), n], np.int64)
    tree = empty_tree(len(firsts) - 1, values.shape[1])
    taken, starts = _clustered(np.ascontiguousarray(values[fresh]), firsts, k, tree)
    return order[taken], starts


@njit(**INLINE)
def _add(total, rest, j, value):  # type: ignore[no-untyped-def]
    """Add to a sum of two numbers, the second being what rounding took from the first."""
    first = total[j] + value
    step = first - total[j]
    more = rest[j] + ((total[j] - (first - step)) + (value - step))
    total[j] = first + more
    rest[j] = more - (total[j] - first)


@njit(**INNER)
def _summed(points, left, total, rest):  # type: ignore[no-untyped-def]
    total[:], rest[:] = 0.0, 0.0
    for one in range(len(points)):
        for j in range(len(total)):
            for _ in range(left[one]):
                _add(total, rest, j, points[one, j])


@njit(**INNER)
def _listed(points, left, centre, listed, gaps):  # type: ignore[no-untyped-def]
    """List the points that are left, the farthest from the centre first; how many they are."""
    size = 0
    for one in range(len(points)):
        if left[one]:
            far = 0.0
            for j in range(len(centre)):
                far += (points[one, j] - centre[j]) ** 2
            listed[size], gaps[size] = one, -np.sqrt(far)
            size += 1
    by = np.argsort(gaps[:size])
    listed[:size], gaps[:size] = listed[:size][by], -gaps[:size][by]
    return size


@njit(**INNER)
def _outermost(points, left, centre, past, listed, gaps, head):  # type: ignore[no-untyped-def]
    """The point farthest from the centre, its distance, and how many were looked at.

    The list is in the order of the distance to a past centre. No distance has grown by more than
    the centre has moved, so that only the beginning of the list can be the farthest.
    """
    moved = 0.0
    for j in range(len(centre)):
        moved += (centre[j] - past[j]) ** 2
    moved = np.sqrt(moved) + _SLACK * (gaps[0] + np.sqrt(moved))
    best, found, enough, at = -1.0, -1, -1.0, head
    while at < len(listed) and gaps[at] + moved >= enough:
        one = listed[at]
        at += 1
        if not left[one]:
            continue
        far = 0.0
        for j in range(len(centre)):
            gap = points[one, j] - centre[j]
            far += gap * gap
        if far > best or (far == best and one < found):
            best, found, enough = far, one, np.sqrt(far)
    return found, enough, at - head


@njit(**INNER)
def _gathered(one, k, state, tree, leaves, near, order, to):  # type: ignore[no-untyped-def]
    """Make a point and its nearest a cluster; how many points are used up."""
    points, firsts, left, total, rest = state
    gone = 0
    need = k
    for at in range(nearest(tree, leaves, one, left, k, near)):
        who = near[1][at]
        take = min(need, left[who])
        for copy in range(take):
            order[to] = firsts[who + 1] - left[who] + copy
            to += 1
            for j in range(points.shape[1]):
                _add(total, rest, j, -points[who, j])
        need -= take
        left[who] -= take
        if not left[who]:
            take_out(tree, leaves, who)
            gone += 1
    return gone


@njit(cache=True, nogil=True)
def _clustered(points, firsts, k, tree):  # type: ignore[no-untyped-def]
    """The clusters of distinct points, each of which stands for one or more records.

    `firsts` says where the records of each point begin; they are numbered in that order.
    """
    n, size, columns = firsts[-1], len(points), points.shape[1]
    order, starts = np.empty(n, np.int64), np.arange(n // k + 1) * k
    left = firsts[1:] - firsts[:-1]
    near = np.empty(k + 1), np.empty(k + 1, np.int64), np.zeros(2, np.int64)
    total, rest, centre = np.zeros(columns), np.zeros(columns), np.empty(columns)
    state = points, firsts, left, total, rest
    listed, gaps, past = np.empty(size, np.int64), np.empty(size), np.empty(columns)
    alive, built, length, head, walked, leaves, to = size, 4 * size, 0, 0, 0, 1, 0
    reach = -1.0
    while n - to >= 2 * k:
        fewer = 2 * alive <= built
        if fewer or reach < 0:
            _summed(points, left, total, rest)
        centre[:] = (total + rest) / (n - to)
        if fewer or reach < 0 or walked > _WALK * length:
            length, head, walked = _listed(points, left, centre, listed, gaps), 0, 0
            past[:] = centre
        if fewer:
            inside = np.sort(listed[:length])
            leaves = plant(tree, points, inside, np.empty(length), np.ones(columns))
            built = alive
        while not left[listed[head]]:
            head += 1
        one, far, steps = _outermost(points, left, centre, past, listed[:length], gaps, head)
        walked += steps
        if far < _SHRUNK * reach:
            reach = -1.0
            continue
        reach = far if reach < 0 else reach
        alive -= _gathered(one, k, state, tree, leaves, near, order, to)
        to += k
        if n - to >= 2 * k:
            one = farthest(tree, leaves, points[one])
            alive -= _gathered(one, k, state, tree, leaves, near, order, to)
            to += k
    starts[-1] = n
    for one in range(size):
        for at in range(firsts[one + 1] - left[one], firsts[one + 1]):
            order[to] = at
            to += 1
    return order, starts
