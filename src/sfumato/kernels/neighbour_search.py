"""The k nearest of every point of every stratum, found in its tree of boxes.

numba caches what it compiled per file: after a change to the tree or the lanes, touch this one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from sfumato.kernels.neighbour_lanes import LANES, boxes_within, lowest, place_of, points_within
from sfumato.kernels.neighbour_tree import LEVELS, SHIFT, arrange, build, gather, turn

_LAST = LANES - 1
_STACK = LEVELS * LANES
_LONG = 32  # among more neighbours a place is sought by halving
_HALVES = 134217729.0  # 2 ** 27 + 1 cuts a number into two halves of 26 bits


class Scratch(NamedTuple):
    """Room for one search: coordinates, eight distances, what was found, boxes still to open."""

    point: Any
    away: Any
    gaps: Any
    near: Any
    who: Any
    nodes: Any
    bounds: Any


def scratch(columns: int, most: int) -> Scratch:
    """Room for up to `most` neighbours."""
    return Scratch(
        point=np.empty(columns),
        away=np.empty(LANES),
        gaps=np.empty(LANES),
        near=np.empty(most + LANES),
        who=np.empty(most + LANES, np.int64),
        nodes=np.empty(_STACK, np.int64),
        bounds=np.empty(_STACK),
    )


@njit(forceinline=True)
def _many(tree, one):  # type: ignore[no-untyped-def]
    """How many records share these coordinates."""
    return tree.firsts[one + 1] - tree.firsts[one]


@njit(forceinline=True)
def _reach(worst, slack):  # type: ignore[no-untyped-def]
    """How far to look. Turned coordinates are rounded, so there it is a little farther."""
    if slack == 0.0:
        return worst
    reach = np.sqrt(worst) + slack
    return reach * reach * (1.0 + 1e-12)


@njit(forceinline=True)
def _turned_distance(tree, matrix, one, other):  # type: ignore[no-untyped-def]
    """The distance under a matrix, from the raw values behind the turned coordinates."""
    columns = len(matrix)
    total = 0.0
    for i in range(columns):
        part = 0.0
        for j in range(columns):
            gap = tree.source[one, columns + j] - tree.source[other, columns + j]
            part += matrix[i, j] * gap
        total += part * part
    return total


@njit(forceinline=True)
def _place(distance, one, near, who, count):  # type: ignore[no-untyped-def]
    """Where a neighbour belongs among those found: by distance, then in canonical order."""
    low, high = 1, count  # the point itself stays the first
    while high - low > _LONG:
        middle = (low + high) >> 1
        if distance < near[middle] or (distance == near[middle] and one < who[middle]):
            high = middle
        else:
            low = middle + 1
    while high > low and (
        distance < near[high - 1] or (distance == near[high - 1] and one < who[high - 1])
    ):
        high -= 1
    return high


@njit(forceinline=True)
def _keep(distance, one, tree, k, near, who, count, total):  # type: ignore[no-untyped-def]
    """Take a neighbour in and drop those that k records no longer need."""
    place = _place(distance, one, near, who, count)
    for i in range(count, place, -1):
        near[i], who[i] = near[i - 1], who[i - 1]
    near[place], who[place] = distance, one
    total += _many(tree, one)
    while total - _many(tree, who[count]) >= k:
        total -= _many(tree, who[count])
        count -= 1
    return count + 1, total


@njit(forceinline=True)
def _begin(tree, size, at, scale, matrix, slack, k, room):  # type: ignore[no-untyped-def]
    """Put the points of the own leaf into order, the point itself first."""
    start = at & ~_LAST
    held = min(LANES, size - start)
    points_within(tree.points, at >> SHIFT, room.point, scale, np.inf, room.away)
    if slack > 0.0:
        for lane in range(held):
            other = tree.rank[start + lane]
            room.away[lane] = _turned_distance(tree, matrix, other, tree.rank[at])
    room.away[at & _LAST] = -1.0
    for lane in range(held):
        place = place_of(room.away, lane)
        room.near[place], room.who[place] = room.away[lane], tree.rank[start + lane]
    room.near[0] = 0.0
    count, total = 0, 0
    while count < held and total < k:
        total += _many(tree, room.who[count])
        count += 1
    return count, total, room.near[count - 1] if total >= k else np.inf


@njit(forceinline=True)
def _scan(tree, leaf, me, scale, matrix, slack, k, room, count, total, worst):  # type: ignore[no-untyped-def]
    """Look at the eight points of a leaf."""
    mask = points_within(tree.points, leaf, room.point, scale, _reach(worst, slack), room.away)
    while mask:
        lane = lowest(mask)
        mask &= mask - 1
        one, distance = tree.rank[(leaf << SHIFT) + lane], room.away[lane]
        if slack > 0.0:
            distance = _turned_distance(tree, matrix, one, me)
        if distance <= worst:
            count, total = _keep(distance, one, tree, k, room.near, room.who, count, total)
            if total >= k:
                worst = room.near[count - 1]
    return count, total, worst


@njit(forceinline=True)
def _push(mask, child, level, gaps, nodes, bounds, top):  # type: ignore[no-untyped-def]
    """Put boxes on the stack, the nearest on top."""
    floor = top
    while mask:
        lane = lowest(mask)
        mask &= mask - 1
        at = top
        while at > floor and bounds[at - 1] < gaps[lane]:
            bounds[at], nodes[at] = bounds[at - 1], nodes[at - 1]
            at -= 1
        bounds[at], nodes[at] = gaps[lane], (child + lane) * LEVELS + level
        top += 1
    return top


@njit(forceinline=True)
def _nearest(tree, levels, size, at, scale, matrix, slack, k, room):  # type: ignore[no-untyped-def]
    """Fill `room` with the nearest of one point; how many it takes."""
    me = tree.rank[at]
    for j in range(len(scale)):
        room.point[j] = tree.source[me, j]
    room.near[0], room.who[0] = 0.0, me
    if _many(tree, me) >= k:
        return 1
    count, total, worst = _begin(tree, size, at, scale, matrix, slack, k, room)
    node, step, level, top = at >> SHIFT, 0, -1, 0
    while True:
        if level < 0:
            # From the own leaf upwards: at each level the seven boxes beside the one just left.
            if step == levels:
                return count
            child, level, left = node & ~_LAST, step, 1 << (node & _LAST)
            node >>= SHIFT
            step += 1
        group = tree.base[level] + (child >> SHIFT)
        mask = boxes_within(tree.boxes, group, room.point, scale, _reach(worst, slack), room.gaps)
        mask &= ~left
        if level:
            top = _push(mask, child, level, room.gaps, room.nodes, room.bounds, top)
            mask = 0
        while mask:
            lane = lowest(mask)
            mask &= mask - 1
            if room.gaps[lane] <= _reach(worst, slack):
                count, total, worst = _scan(
                    tree, child + lane, me, scale, matrix, slack, k, room, count, total, worst
                )
        # Ties are decided by coordinates, so a box at the very distance is opened too.
        while top and room.bounds[top - 1] > _reach(worst, slack):
            top -= 1
        level, left = -1, 0
        if top:
            top -= 1
            child = (room.nodes[top] // LEVELS) << SHIFT
            level = room.nodes[top] % LEVELS - 1


@njit(forceinline=True)
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


@njit(forceinline=True)
def _mean(tree, column, who, count, k):  # type: ignore[no-untyped-def]
    """The mean of k records, rounded once.

    The sum carries its rounding errors along, so that equal values have exactly their mean,
    and the same neighbours the same mean whoever of them asks.
    """
    high, low, left = 0.0, 0.0, k
    for i in range(count):
        value = tree.source[who[i], column]
        for _ in range(min(left, _many(tree, who[i]))):
            total = high + value
            part = total - high
            low += (high - (total - part)) + (value - part)
            high = total
        left -= _many(tree, who[i])
    return _divide(high, low, k)


@njit(forceinline=True)
def _list(tree, order, who, count, k, rows):  # type: ignore[no-untyped-def]
    """The rows of the neighbours, for every record of the point: itself, then its equals."""
    for own in range(tree.firsts[who[0]], tree.firsts[who[0] + 1]):
        row, at = order[own], 1
        rows[row, 0] = row
        for i in range(count):
            for other in range(tree.firsts[who[i]], tree.firsts[who[i] + 1]):
                if at < k and other != own:
                    rows[row, at] = order[other]
                    at += 1


@njit(cache=True, nogil=True)
def _search(tree, levels, size, scale, matrix, slack, k, room, order, means, rows):  # type: ignore[no-untyped-def]
    raw = len(matrix)
    for at in range(size):
        count = _nearest(tree, levels, size, at, scale, matrix, slack, k, room)
        first, last = tree.firsts[tree.rank[at]], tree.firsts[tree.rank[at] + 1]
        for j in range(means.shape[1]):
            mean = _mean(tree, raw + j, room.who, count, k)
            for i in range(first, last):
                means[order[i], j] = mean
        if len(rows):
            _list(tree, order, room.who, count, k, rows)


@njit(cache=True, nogil=True)
def search(values, scale, matrix, starts, wanted, order, fresh, tree, room, means, rows):  # type: ignore[no-untyped-def]
    """Fill `means` with the centroid and `rows` with the neighbours of every record.

    Either may be empty. Strata are taken one by one; the room for the largest serves all.
    """
    for stratum in range(len(wanted)):
        first, last = starts[stratum], starts[stratum + 1]
        size = gather(values, order, fresh, first, last, tree)
        slack = turn(tree.source, size, matrix)
        arrange(tree, size, scale)
        levels = build(tree, size)
        _search(tree, levels, size, scale, matrix, slack, wanted[stratum], room, order, means, rows)
