"""The k nearest of every point of every stratum, found in its tree of boxes.

`found` holds the neighbours of one point: distance and place in `source`, in canonical order.
Arrays are passed one by one: numba counts references to those in a tuple, at 15 % of the time.
numba caches what it compiled per file: after a change to the tree or the lanes, touch this one.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sfumato.kernels.neighbour_lanes import LANES, boxes_within, lowest, place_of, points_within
from sfumato.kernels.neighbour_tree import INNER, LEVELS, SHIFT, arrange, build, gather, turn

_LAST = LANES - 1
_HALVES = 134217729.0  # 2 ** 27 + 1 cuts a number into two halves of 26 bits


@njit(forceinline=True, **INNER)
def _many(firsts, one):  # type: ignore[no-untyped-def]
    """How many records share these coordinates."""
    return firsts[one + 1] - firsts[one]


@njit(forceinline=True, **INNER)
def _reach(worst, slack):  # type: ignore[no-untyped-def]
    """How far to look. Turned coordinates are rounded, so there it is a little farther."""
    if slack == 0.0:
        return worst
    reach = np.sqrt(worst) + slack
    return reach * reach * (1.0 + 1e-12)


@njit(**INNER)
def _turned_distance(source, one, other, matrix):  # type: ignore[no-untyped-def]
    """The distance under a matrix, from the raw values behind the turned coordinates."""
    columns = len(matrix)
    total = 0.0
    for i in range(columns):
        part = 0.0
        for j in range(columns):
            part += matrix[i, j] * (source[one, columns + j] - source[other, columns + j])
        total += part * part
    return total


@njit(forceinline=True, **INNER)
def _keep(distance, one, firsts, k, found, count, total):  # type: ignore[no-untyped-def]
    """Take a neighbour in and drop those that k records no longer need."""
    at = count
    while at > 1 and (  # the point itself stays the first
        distance < found[at - 1, 0] or (distance == found[at - 1, 0] and one < found[at - 1, 1])
    ):
        found[at, 0], found[at, 1] = found[at - 1, 0], found[at - 1, 1]
        at -= 1
    found[at, 0], found[at, 1] = distance, one
    total += _many(firsts, one)
    last = _many(firsts, int(found[count, 1]))
    while total - last >= k:
        total -= last
        count -= 1
        last = _many(firsts, int(found[count, 1]))
    return count + 1, total


@njit(forceinline=True, **INNER)
def _begin(at, source, firsts, rank, points, scale, matrix, slack, k, away, found):  # type: ignore[no-untyped-def]
    """Put the points of the own leaf into order, the point itself first."""
    me, start = rank[at], at & ~_LAST
    held = min(LANES, len(rank) - start)
    points_within(points, at >> SHIFT, source, me, scale, np.inf, away)
    if slack > 0.0:
        for lane in range(held):
            away[lane] = _turned_distance(source, rank[start + lane], me, matrix)
    away[at & _LAST] = -1.0
    for lane in range(held):
        place = place_of(away, lane)
        found[place, 0], found[place, 1] = away[lane], rank[start + lane]
    found[0, 0] = 0.0
    count, total = 0, 0
    while count < held and total < k:
        total += _many(firsts, int(found[count, 1]))
        count += 1
    return count, total, found[count - 1, 0] if total >= k else np.inf


@njit(forceinline=True, **INNER)
def _scan(  # type: ignore[no-untyped-def]
    leaf,
    me,
    source,
    firsts,
    rank,
    points,
    scale,
    matrix,
    slack,
    k,
    away,
    found,
    count,
    total,
    worst,
):
    """Look at the eight points of a leaf."""
    mask = points_within(points, leaf, source, me, scale, _reach(worst, slack), away)
    while mask:
        lane = lowest(mask)
        mask &= mask - 1
        one, distance = rank[(leaf << SHIFT) + lane], away[lane]
        if slack > 0.0:
            distance = _turned_distance(source, one, me, matrix)
        if distance <= worst:
            count, total = _keep(distance, one, firsts, k, found, count, total)
            if total >= k:
                worst = found[count - 1, 0]
    return count, total, worst


@njit(forceinline=True, **INNER)
def _push(mask, child, level, gaps, stack, top):  # type: ignore[no-untyped-def]
    """Put boxes on the stack, the nearest on top."""
    floor = top
    while mask:
        lane = lowest(mask)
        mask &= mask - 1
        at = top
        while at > floor and stack[at - 1, 0] < gaps[lane]:
            stack[at, 0], stack[at, 1] = stack[at - 1, 0], stack[at - 1, 1]
            at -= 1
        stack[at, 0], stack[at, 1] = gaps[lane], (child + lane) * LEVELS + level
        top += 1
    return top


@njit(forceinline=True, **INNER)
def _nearest(  # type: ignore[no-untyped-def]
    at, source, firsts, rank, points, boxes, base, scale, matrix, slack, k, away, gaps, found, stack
):
    """Fill `found` with the nearest of one point; how many it takes."""
    me = rank[at]
    found[0, 0], found[0, 1] = 0.0, me
    if _many(firsts, me) >= k:
        return 1
    count, total, worst = _begin(
        at, source, firsts, rank, points, scale, matrix, slack, k, away, found
    )
    node, step, level, top = at >> SHIFT, 0, -1, 0
    while True:
        if level < 0:
            # From the own leaf upwards: at each level the seven boxes beside the one just left.
            if step == len(base):
                return count
            child, level, left = node & ~_LAST, step, 1 << (node & _LAST)
            node >>= SHIFT
            step += 1
        group = base[level] + (child >> SHIFT)
        mask = boxes_within(boxes, group, source, me, scale, _reach(worst, slack), gaps) & ~left
        if level:
            top = _push(mask, child, level, gaps, stack, top)
            mask = 0
        while mask:
            lane = lowest(mask)
            mask &= mask - 1
            if gaps[lane] <= _reach(worst, slack):
                count, total, worst = _scan(
                    child + lane, me, source, firsts, rank, points, scale, matrix, slack, k,
                    away, found, count, total, worst
                )  # fmt: skip
        # Ties are decided by coordinates, so a box at the very distance is opened too.
        while top and stack[top - 1, 0] > _reach(worst, slack):
            top -= 1
        level, left = -1, 0
        if top:
            top -= 1
            code = int(stack[top, 1])
            child, level = (code // LEVELS) << SHIFT, code % LEVELS - 1


@njit(forceinline=True, **INNER)
def _divide(high, low, k):  # type: ignore[no-untyped-def]
    """(high + low) / k, rounded once: the quotient, then what it left over."""
    total = high + low
    part = total - high
    rest = (high - (total - part)) + (low - part)
    quotient = total / k
    cut = _HALVES * quotient
    front = cut - (cut - quotient)
    rest += (total - front * k) - (quotient - front) * k
    return quotient + rest / k


@njit(forceinline=True, **INNER)
def _mean(source, column, members):  # type: ignore[no-untyped-def]
    """The mean of some records, rounded once.

    The sum carries its rounding errors along, so that equal values have exactly their mean,
    and the same neighbours the same mean whoever of them asks.
    """
    high = low = 0.0
    for i in range(len(members)):
        value = source[members[i], column]
        total = high + value
        part = total - high
        low += (high - (total - part)) + (value - part)
        high = total
    return _divide(high, low, len(members))


@njit(forceinline=True, **INNER)
def _list(firsts, order, found, count, k, rows):  # type: ignore[no-untyped-def]
    """The rows of the neighbours, for every record of the point: itself, then its equals."""
    me = int(found[0, 1])
    for own in range(firsts[me], firsts[me + 1]):
        row, at = order[own], 1
        rows[row, 0] = row
        for i in range(count):
            one = int(found[i, 1])
            for other in range(firsts[one], firsts[one + 1]):
                if at < k and other != own:
                    rows[row, at] = order[other]
                    at += 1


@njit(**INNER)
def _stratum(  # type: ignore[no-untyped-def]
    source, firsts, rank, points, boxes, base, scale, matrix, slack, k,
    away, gaps, found, stack, members, order, means, rows
):  # fmt: skip
    """All points of a stratum, in the order of the tree: what one looked at, the next needs."""
    raw = len(matrix)
    for at in range(len(rank)):
        count = _nearest(
            at, source, firsts, rank, points, boxes, base, scale, matrix, slack, k,
            away, gaps, found, stack
        )  # fmt: skip
        if len(rows):
            _list(firsts, order, found, count, k, rows)
        if len(means):
            filled = 0
            for i in range(count):
                one = int(found[i, 1])
                for _ in range(min(k - filled, _many(firsts, one))):
                    members[filled] = one
                    filled += 1
            for j in range(means.shape[1]):
                mean = _mean(source, raw + j, members)
                for i in range(firsts[rank[at]], firsts[rank[at] + 1]):
                    means[order[i], j] = mean


@njit(cache=True, nogil=True)
def search(values, scale, matrix, starts, wanted, order, fresh, tree, means, rows):  # type: ignore[no-untyped-def]
    """Fill `means` with the centroid and `rows` with the neighbours of every record.

    Either may be empty. Strata are taken one by one; the room for the largest serves all.
    """
    source, firsts, rank, keys, points, boxes = tree
    most = 1
    for stratum in range(len(wanted)):
        most = max(most, wanted[stratum])
    away, gaps, base = np.empty(LANES), np.empty(LANES), np.empty(LEVELS, np.int64)
    found, stack = np.empty((most + LANES, 2)), np.empty((LEVELS * LANES, 2))
    members = np.empty(most, np.int64)
    for stratum in range(len(wanted)):
        k = wanted[stratum]
        size = gather(
            values, order, fresh, starts[stratum], starts[stratum + 1], source, firsts, rank
        )
        slack = turn(source, size, matrix)
        arrange(source, rank, keys, size, scale)
        levels = build(source, rank, size, points, boxes, base)
        _stratum(
            source, firsts, rank[:size], points, boxes, base[:levels], scale, matrix, slack, k,
            away, gaps, found, stack, members[:k], order, means, rows
        )  # fmt: skip
