"""A tree of boxes over points that are taken out one by one: the farthest and the nearest.

Points lie in leaves of sixteen, those still there in front. Nodes are numbered as in a heap: the
root is 1, the children of i are 2 i and 2 i + 1, the leaves come last. A node's box shrinks to
what is left in it: what is taken first lies outside, and boxes that stay wide would never be
passed over in the search for the farthest.

Bounds and distances are the same sums of squares in the same order of columns. Rounding keeps
order, so no bound is ever on the wrong side of a distance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from sfumato.kernels.trees.neighbour_lanes import LANES
from sfumato.kernels.trees.neighbour_tree import INLINE, INNER, SHIFT, arrange

_STACK = 128

Tree = tuple[Any, Any, Any, Any, Any]


def empty_tree(most: int, columns: int) -> Tree:
    """Room for up to so many points.

    - the points in the order of the tree
    - their numbers: of two as far, the lower number goes first
    - the place of each number
    - the boxes: low and high of each column
    - how many points each node still holds
    """
    leaves = 1
    while leaves * LANES < most:
        leaves *= 2
    return (
        np.empty((most, columns)),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty((2 * leaves, 2 * columns)),
        np.zeros(2 * leaves, np.int64),
    )


@njit(**INNER)
def plant(tree, source, numbers, keys, scale):  # type: ignore[no-untyped-def]
    """Build the tree of the points with these numbers; how many leaves it has room for."""
    points, own, place, _, held = tree
    size = len(numbers)
    own[:size] = numbers
    arrange(source, own, keys, size, scale)
    for at in range(size):
        place[own[at]] = at
        points[at] = source[own[at]]
    leaves = 1
    while leaves * LANES < size:
        leaves *= 2
    held[: 2 * leaves] = 0
    for leaf in range(leaves):
        held[leaves + leaf] = max(0, min(LANES, size - (leaf << SHIFT)))
        if held[leaves + leaf]:
            _fit_leaf(tree, leaves, leaf)
    for node in range(leaves - 1, 0, -1):
        held[node] = held[2 * node] + held[2 * node + 1]
        if held[node]:
            _fit_node(tree, node)
    return leaves


@njit(**INLINE)
def _fit_leaf(tree, leaves, leaf):  # type: ignore[no-untyped-def]
    """Shrink a leaf's box to its points; whether that changed it."""
    points, _, _, boxes, held = tree
    node, first = leaves + leaf, leaf << SHIFT
    changed = False
    for j in range(points.shape[1]):
        low = high = points[first, j]
        for at in range(first + 1, first + held[node]):
            low, high = min(low, points[at, j]), max(high, points[at, j])
        changed |= (boxes[node, 2 * j] != low) | (boxes[node, 2 * j + 1] != high)
        boxes[node, 2 * j], boxes[node, 2 * j + 1] = low, high
    return changed


@njit(**INLINE)
def _fit_node(tree, node):  # type: ignore[no-untyped-def]
    """Shrink a node's box to those of its children; whether that changed it."""
    _, _, _, boxes, held = tree
    one = 2 * node if held[2 * node] else 2 * node + 1
    two = 2 * node + 1 if held[2 * node + 1] else 2 * node
    changed = False
    for j in range(0, boxes.shape[1], 2):
        low = min(boxes[one, j], boxes[two, j])
        high = max(boxes[one, j + 1], boxes[two, j + 1])
        changed |= (boxes[node, j] != low) | (boxes[node, j + 1] != high)
        boxes[node, j], boxes[node, j + 1] = low, high
    return changed


@njit(**INNER)
def take_out(tree, leaves, number):  # type: ignore[no-untyped-def]
    """Remove a point; the last of its leaf takes its place."""
    points, own, place, _, held = tree
    at = place[number]
    leaf = at >> SHIFT
    node = leaves + leaf
    held[node] -= 1
    last = (leaf << SHIFT) + held[node]
    points[at] = points[last]
    own[at] = own[last]
    place[own[at]] = at
    changed = held[node] == 0 or _fit_leaf(tree, leaves, leaf)
    node >>= 1
    while node:
        held[node] -= 1
        if changed and held[node]:
            changed = _fit_node(tree, node)
        node >>= 1


@njit(**INLINE)
def _squared(points, at, point):  # type: ignore[no-untyped-def]
    far = 0.0
    for j in range(len(point)):
        gap = points[at, j] - point[j]
        far += gap * gap
    return far


@njit(**INLINE)
def _at_most(boxes, node, point):  # type: ignore[no-untyped-def]
    far = 0.0
    for j in range(len(point)):
        gap = max(point[j] - boxes[node, 2 * j], boxes[node, 2 * j + 1] - point[j])
        far += gap * gap
    return far


@njit(**INLINE)
def _at_least(boxes, node, point):  # type: ignore[no-untyped-def]
    far = 0.0
    for j in range(len(point)):
        gap = max(boxes[node, 2 * j] - point[j], point[j] - boxes[node, 2 * j + 1], 0.0)
        far += gap * gap
    return far


@njit(**INNER)
def farthest(tree, leaves, point):  # type: ignore[no-untyped-def]
    """The number of the point farthest away."""
    points, own, _, boxes, held = tree
    nodes, bounds = np.empty(_STACK, np.int64), np.empty(_STACK)
    nodes[0], bounds[0], top = 1, np.inf, 1
    best, found = -1.0, -1
    while top:
        top -= 1
        node = nodes[top]
        if bounds[top] < best:
            continue
        if node >= leaves:
            first = (node - leaves) << SHIFT
            for at in range(first, first + held[node]):
                far = _squared(points, at, point)
                if far > best or (far == best and own[at] < found):
                    best, found = far, own[at]
            continue
        less, more = 2 * node, 2 * node + 1
        low = _at_most(boxes, less, point) if held[less] else -1.0
        high = _at_most(boxes, more, point) if held[more] else -1.0
        if low > high:
            less, more, low, high = more, less, high, low
        if low >= max(best, 0.0):
            nodes[top], bounds[top] = less, low
            top += 1
        if high >= max(best, 0.0):
            nodes[top], bounds[top] = more, high
            top += 1
    return found


@njit(**INLINE)
def _look(tree, node, leaves, point, left, k, near):  # type: ignore[no-untyped-def]
    """Compare the points of a leaf with the nearest so far."""
    points, own, _, _, held = tree
    gaps, who, state = near
    first = (node - leaves) << SHIFT
    for at in range(first, first + held[node]):
        far = _squared(points, at, point)
        size, total = state[0], state[1]
        one = own[at]
        if total >= k and (far > gaps[size - 1] or (far == gaps[size - 1] and one > who[size - 1])):
            continue
        if one == who[0]:
            continue
        to = size
        while to > 1 and (gaps[to - 1] > far or (gaps[to - 1] == far and who[to - 1] > one)):
            gaps[to], who[to] = gaps[to - 1], who[to - 1]
            to -= 1
        gaps[to], who[to] = far, one
        total += left[one]
        while total - left[who[size]] >= k:
            total -= left[who[size]]
            size -= 1
        state[0], state[1] = size + 1, total


@njit(**INNER)
def nearest(tree, leaves, number, left, k, near):  # type: ignore[no-untyped-def]
    """The points nearest to one, itself first, until they stand for k records; how many they are.

    From its own leaf upwards: the bound is close before anything else is looked at.
    """
    points, _, place, boxes, held = tree
    gaps, who, state = near
    point = points[place[number]].copy()
    gaps[0], who[0] = -1.0, number  # first even where a distance is too small for a number
    state[0], state[1] = 1, left[number]
    nodes, bounds = np.empty(_STACK, np.int64), np.empty(_STACK)
    up = leaves + (place[number] >> SHIFT)
    _look(tree, up, leaves, point, left, k, near)
    while up > 1:
        nodes[0], top = up ^ 1, 1
        up >>= 1
        if not held[nodes[0]]:
            continue
        bounds[0] = _at_least(boxes, nodes[0], point)
        while top:
            top -= 1
            node = nodes[top]
            if state[1] >= k and bounds[top] > gaps[state[0] - 1]:
                continue
            if node >= leaves:
                _look(tree, node, leaves, point, left, k, near)
                continue
            less, more = 2 * node, 2 * node + 1
            low = _at_least(boxes, less, point) if held[less] else np.inf
            high = _at_least(boxes, more, point) if held[more] else np.inf
            if low > high:
                less, more, low, high = more, less, high, low
            if high < np.inf:
                nodes[top], bounds[top] = more, high
                top += 1
            if low < np.inf:
                nodes[top], bounds[top] = less, low
                top += 1
    return state[0]
