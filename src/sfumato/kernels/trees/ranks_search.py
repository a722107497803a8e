"""The nearest of some points, and how many are nearer than it: the compiled part of `ranks`.

Trees are those of `neighbour_tree`, over distinct points; `before` holds how many records come
before each place of a tree, so that a box that lies wholly within a distance is counted at once.
Arrays are passed one by one: numba counts references to those in a tuple.
numba caches what it compiled per file: after a change to the tree or the lanes, touch this one.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sfumato.kernels.trees.neighbour_lanes import LANES, boxes_within, lowest, points_within
from sfumato.kernels.trees.neighbour_tree import (
    INLINE,
    INNER,
    LEVELS,
    SHIFT,
    arrange,
    build,
    gather,
)
from sfumato.kernels.trees.ranks_lanes import boxes_inside, ones

_BITS = 3  # LEVELS = 2 ** _BITS
_DEPTH = LEVELS * LANES
_DENSE = 64
"""One search costs about as much as looking at one in so many points, and sorting them."""


@njit(cache=True, nogil=True)
def plant(values, order, fresh, scale, tree, before, base):  # type: ignore[no-untyped-def]
    """Build the tree of all rows; how many distinct points and levels it has."""
    source, firsts, rank, keys, points, boxes = tree
    size = gather(values, order, fresh, 0, len(values), source, firsts, rank)
    arrange(source, rank, keys, size, scale)
    levels = build(source, rank, size, points, boxes, base)
    before[0] = 0
    for at in range(size):
        before[at + 1] = before[at] + firsts[rank[at] + 1] - firsts[rank[at]]
    return size, levels


@njit(**INLINE)
def _apart(one, row, other, line, scale):  # type: ignore[no-untyped-def]
    """The squared distance of two rows, to the bit what the lanes compute."""
    total = 0.0
    for j in range(len(scale)):
        gap = (other[line, j] - one[row, j]) * scale[j]
        total += gap * gap
    return total


@njit(**INLINE)
def _push(mask, child, level, gaps, stack, top):  # type: ignore[no-untyped-def]
    """Put groups of boxes on the stack, the nearest on top."""
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
def _leaf(leaf, source, row, worst, points, scale, before, away, ties, place):  # type: ignore[no-untyped-def]
    """Look at the points of a leaf: the least distance so far, how many records have it, one."""
    mask = points_within(points, leaf, source, row, scale, worst, away)
    while mask:
        lane = lowest(mask)
        mask &= mask - 1
        at = (leaf << SHIFT) + lane
        if away[lane] < worst:
            worst, ties = away[lane], 0
        if away[lane] == worst:
            ties, place = ties + before[at + 1] - before[at], at
    return worst, ties, place


@njit(**INNER)
def _closest(  # type: ignore[no-untyped-def]
    source, row, worst, before, points, boxes, base, scale, away, gaps, stack
):  # fmt: skip
    """Least squared distance up to `worst`, how many records are there, the place of one."""
    ties, place = 0, -1
    stack[0, 0], stack[0, 1] = 0.0, len(base) - 1
    top = 1
    while top:
        top -= 1
        if stack[top, 0] > worst:
            continue
        code = int(stack[top, 1])
        group, level = code >> _BITS, code & (LEVELS - 1)
        near = boxes_within(boxes, base[level] + group, source, row, scale, worst, gaps)
        if level:
            top = _push(near, group << SHIFT, level - 1, gaps, stack, top)
            continue
        while near:
            lane = lowest(near)
            near &= near - 1
            if gaps[lane] <= worst:
                worst, ties, place = _leaf(
                    (group << SHIFT) + lane, source, row, worst, points, scale, before, away,
                    ties, place
                )  # fmt: skip
    return worst, ties, place


@njit(cache=True, nogil=True)
def closest(  # type: ignore[no-untyped-def]
    begin, end, wanted, own, source, firsts, order, rank,
    theirs, at_theirs, before, points, boxes, base, scale, least, ties, place
):  # fmt: skip
    """Fill in the nearest for the targets from `begin` to `end` in the order of their tree.

    `own` holds the paired rows: no target's nearest is farther than its own. What the target
    before has found is near as well.
    """
    away, gaps, stack = np.empty(LANES), np.empty(LANES), np.empty((_DEPTH, 2))
    last = -1
    for at in range(begin, end):
        me = rank[at]
        if not wanted[me]:
            continue
        worst = np.inf
        if len(own):
            worst = _apart(source, me, own, order[firsts[me]], scale)
        if last >= 0:
            worst = min(worst, _apart(source, me, theirs, at_theirs[last], scale))
        least[me], ties[me], place[me] = _closest(
            source, me, worst, before, points, boxes, base, scale, away, gaps, stack
        )
        last = place[me]


@njit(**INNER)
def _nearer(  # type: ignore[no-untyped-def]
    source, row, limit, cap, distinct, before, points, boxes, base, scale, away, gaps, stack
):  # fmt: skip
    """How many records lie within the limit; counting stops at the cap."""
    size, total = len(before) - 1, 0
    stack[0, 0], stack[0, 1] = 0.0, len(base) - 1
    top = 1
    while top and total < cap:
        top -= 1
        code = int(stack[top, 1])
        group, level = code >> _BITS, code & (LEVELS - 1)
        near = boxes_within(boxes, base[level] + group, source, row, scale, limit, gaps)
        inside = boxes_inside(boxes, base[level] + group, source, row, scale, limit, away)
        near &= ~inside
        child, shift = group << SHIFT, SHIFT * (level + 1)
        while inside:
            first = (child + lowest(inside)) << shift
            inside &= inside - 1
            total += before[min(size, first + (1 << shift))] - before[first]
        if level:
            top = _push(near, child, level - 1, gaps, stack, top)
            continue
        while near and total < cap:
            leaf = child + lowest(near)
            near &= near - 1
            mask = points_within(points, leaf, source, row, scale, limit, away)
            if distinct:
                total += ones(mask)
                continue
            while mask:
                at = (leaf << SHIFT) + lowest(mask)
                mask &= mask - 1
                total += before[at + 1] - before[at]
    return min(total, cap)


@njit(**INNER)
def _tied(  # type: ignore[no-untyped-def]
    source, row, least, firsts, order, rank, points, boxes, base, scale, away, gaps, stack, rows
):  # fmt: skip
    """The rows of all records at the least distance."""
    stack[0, 0], stack[0, 1] = 0.0, len(base) - 1
    top, filled = 1, 0
    while top:
        top -= 1
        code = int(stack[top, 1])
        group, level = code >> _BITS, code & (LEVELS - 1)
        near = boxes_within(boxes, base[level] + group, source, row, scale, least, gaps)
        if level:
            top = _push(near, group << SHIFT, level - 1, gaps, stack, top)
            continue
        while near:
            leaf = (group << SHIFT) + lowest(near)
            near &= near - 1
            mask = points_within(points, leaf, source, row, scale, least, away)
            while mask:
                one = rank[(leaf << SHIFT) + lowest(mask)]
                mask &= mask - 1
                for i in range(firsts[one], firsts[one + 1]):
                    rows[filled] = order[i]
                    filled += 1


@njit(**INNER)
def _all_nearer(source, row, firsts, size, scale, radii, cap, found):  # type: ignore[no-untyped-def]
    """The same for many distances, in order, by one look at all points."""
    every = np.empty(size)
    for one in range(size):
        every[one] = _apart(source, row, source, one, scale)
    order = np.argsort(every)
    total = at = 0
    for i in range(len(radii)):
        while at < size and every[order[at]] < radii[i]:
            total += firsts[order[at] + 1] - firsts[order[at]]
            at += 1
        found[i] = min(total, cap)


@njit(cache=True, nogil=True)
def count(  # type: ignore[no-untyped-def]
    begin, end, wanted, values, cap, source, firsts, rank, before, points, boxes, base,
    z_firsts, z_order, z_rank, z_points, z_boxes, z_base, scale, least, place, starts, found
):  # fmt: skip
    """Fill in the ranks of the originals behind the nearest, for some targets.

    `starts` says where the ranks of each target lie in `found`: one for each record that ties
    as the nearest, in ascending order.
    """
    away, gaps, stack = np.empty(LANES), np.empty(LANES), np.empty((_DEPTH, 2))
    distinct = len(before) - 1 == before[-1]
    for at in range(begin, end):
        me = rank[at]
        if not wanted[me]:
            continue
        mine = found[starts[me] : starts[me + 1]]
        radii, rows = np.empty(len(mine)), np.empty(len(mine), np.int64)
        if len(mine) == 1:
            rows[0] = z_order[z_firsts[z_rank[place[me]]]]
        else:
            _tied(
                source, me, least[me], z_firsts, z_order, z_rank, z_points, z_boxes, z_base,
                scale, away, gaps, stack, rows
            )  # fmt: skip
        for i in range(len(rows)):
            radii[i] = _apart(source, me, values, rows[i], scale)
        radii.sort()
        if len(radii) * _DENSE > len(rank) + _DENSE * _DENSE:
            _all_nearer(source, me, firsts, len(rank), scale, radii, cap, mine)
            continue
        for i in range(len(radii)):
            if i and radii[i] == radii[i - 1]:
                mine[i] = mine[i - 1]
            elif radii[i] == 0.0:
                mine[i] = 0
            else:
                limit = np.nextafter(radii[i], 0.0)
                mine[i] = _nearer(
                    source, me, limit, cap, distinct, before, points, boxes, base, scale,
                    away, gaps, stack
                )  # fmt: skip
