"""The k nearest of every point of every stratum, found in its tree of boxes.

`found` holds the neighbours of one point, in canonical order: distance and place in `source`.
Arrays are passed one by one: numba counts references to those in a tuple, at 15 % of the time.
numba caches what it compiled per file: after a change to the tree or the lanes, touch this one.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sfumato.kernels.trees.neighbour_lanes import (
    LANES,
    boxes_within,
    lowest,
    place_of,
    points_within,
)
from sfumato.kernels.trees.neighbour_tree import (
    INLINE,
    INNER,
    LEVELS,
    SHIFT,
    arrange,
    build,
    gather,
    turn,
)

_LAST = LANES - 1
_BITS = 3  # LEVELS = 2 ** _BITS
_HALVES = 134217729.0  # 2 ** 27 + 1 cuts a number into two halves of 26 bits


@njit(**INLINE)
def _many(firsts, one):  # type: ignore[no-untyped-def]
    """How many records share these coordinates."""
    return firsts[one + 1] - firsts[one]


@njit(**INLINE)
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


@njit(**INLINE)
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


@njit(**INLINE)
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


@njit(**INLINE)
def _scan(  # type: ignore[no-untyped-def]
    leaf, me, source, firsts, rank, points, scale, matrix, slack, k,
    away, found, count, total, worst
):  # fmt: skip
    """Look at the points of a leaf."""
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


@njit(**INLINE)
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
        stack[at, 0], stack[at, 1] = gaps[lane], (child + lane) << _BITS | level
        top += 1
    return top


@njit(**INLINE)
def _open(  # type: ignore[no-untyped-def]
    group, left, me, source, firsts, rank, points, boxes, scale, matrix, slack, k,
    away, gaps, found, count, total, worst
):  # fmt: skip
    """Look at the leaves of a group that are near enough, except one."""
    mask = boxes_within(boxes, group, source, me, scale, _reach(worst, slack), gaps) & ~left
    while mask:
        lane = lowest(mask)
        mask &= mask - 1
        if gaps[lane] <= _reach(worst, slack):
            count, total, worst = _scan(
                (group << SHIFT) + lane, me, source, firsts, rank, points, scale, matrix, slack, k,
                away, found, count, total, worst
            )  # fmt: skip
    return count, total, worst


@njit(**INLINE)
def _nearest(  # type: ignore[no-untyped-def]
    at, source, firsts, rank, points, boxes, base, scale, matrix, slack, k,
    away, gaps, far, found, stack
):  # fmt: skip
    """Fill `found` with the nearest of one point; how many it takes."""
    me = rank[at]
    found[0, 0], found[0, 1] = 0.0, me
    if _many(firsts, me) >= k:
        return 1
    count, total, worst = _begin(
        at, source, firsts, rank, points, scale, matrix, slack, k, away, found
    )
    # From the own leaf upwards: the own group, then at each level what lies beside it.
    leaf, node = at >> SHIFT, at >> SHIFT >> SHIFT
    own, left, skip = node & _LAST, 1 << (leaf & _LAST), 0
    child, level, step, top = node & ~_LAST, 1, 1, 0
    while True:
        group = base[level] + (child >> SHIFT)
        mask = boxes_within(boxes, group, source, me, scale, _reach(worst, slack), far) & ~skip
        if level > 1:
            top = _push(mask, child, level, far, stack, top)
            mask = 0
        while mask:
            lane = lowest(mask) if own < 0 else own
            mask &= ~(1 << lane)
            if far[lane] <= _reach(worst, slack):
                count, total, worst = _open(
                    child + lane, left, me, source, firsts, rank, points, boxes, scale, matrix,
                    slack, k, away, gaps, found, count, total, worst
                )  # fmt: skip
            own, left = -1, 0
        # Coordinates decide a tie, so a box at exactly the distance of the last is opened too.
        while top and stack[top - 1, 0] > _reach(worst, slack):
            top -= 1
        if top:
            top -= 1
            code = int(stack[top, 1])
            child, level, skip = code >> _BITS << SHIFT, (code & (LEVELS - 1)) - 1, 0
        else:
            step, node = step + 1, node >> SHIFT
            if step == len(base):
                return count
            child, level, skip = node & ~_LAST, step, 1 << (node & _LAST)


@njit(**INLINE)
def _divide(high, low, k):  # type: ignore[no-untyped-def]
    """(high + low) / k, rounded once: a guess, and the exact remainder divided."""
    total = high + low
    part = total - high
    rest = (high - (total - part)) + (low - part)
    guess = total * (1.0 / k)
    cut = _HALVES * guess
    front = cut - (cut - guess)
    return guess + ((total - front * k) - (guess - front) * k + rest) / k


@njit(**INLINE)
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


@njit(**INLINE)
def _list(firsts, order, found, k, rows):  # type: ignore[no-untyped-def]
    """The rows of the neighbours, for every record of the point: itself, then its equals."""
    me = int(found[0, 1])
    for own in range(firsts[me], firsts[me + 1]):
        row, at, i = order[own], 1, 0
        rows[row, 0] = row
        while at < k:
            one = int(found[i, 1])
            other, last = firsts[one], firsts[one + 1]
            while at < k and other < last:
                if other != own:
                    rows[row, at] = order[other]
                    at += 1
                other += 1
            i += 1


@njit(**INNER)
def _stratum(  # type: ignore[no-untyped-def]
    source, firsts, rank, points, boxes, base, scale, matrix, slack, k,
    away, gaps, far, found, stack, members, order, means, rows
):  # fmt: skip
    """All points of a stratum, in the order of the tree: what one looked at, the next needs."""
    raw = len(matrix)
    for at in range(len(rank)):
        count = _nearest(
            at, source, firsts, rank, points, boxes, base, scale, matrix, slack, k,
            away, gaps, far, found, stack
        )  # fmt: skip
        if len(rows):
            _list(firsts, order, found, k, rows)
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
    lanes, base, members = (
        np.empty((3, LANES)),
        np.empty(LEVELS, np.int64),
        np.empty(most, np.int64),
    )
    away, gaps, far = lanes[0], lanes[1], lanes[2]
    found, stack = np.empty((most + LANES, 2)), np.empty((LEVELS * LANES, 2))
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
            away, gaps, far, found, stack, members[:k], order, means, rows
        )  # fmt: skip
