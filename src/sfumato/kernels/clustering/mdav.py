"""MDAV: clusters of at least k similar records around those that lie farthest out.

Domingo-Ferrer & Torra (2005), Data Mining and Knowledge Discovery 11:195. The farthest and the
nearest are found in a tree of boxes over points that are taken out one by one.

numba caches what it compiled per file: after a change to `trees/neighbours.py`, touch this one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import Floats, Integers
from sfumato.kernels.compiled import compiled, inlined, inner
from sfumato.kernels.trees.lanes import LANES
from sfumato.kernels.trees.neighbours import SHIFT, arrange_points

_LARGEST = 1e150
"""Larger numbers have squares that are none."""
_SLACK = 1e-9
"""Relative to the largest distance: far more than rounding can do to one."""
_WALK = 4
"""A list is sorted anew when it has been walked this often."""
_SHRUNK = 2.0**-20
"""Records this much nearer than before are added up anew: the large ones cost them digits."""
_STACK = 128


class _ShrinkingTree(NamedTuple):
    """Points that are taken out one by one.

    points : in the order of the tree.
    rank : their numbers: of two as far, the lower number goes first.
    positions : the position of each number.
    boxes : low and high of each column of each node.
    sizes : how many points each node still holds.
    """

    points: Floats
    rank: Integers
    positions: Integers
    boxes: Floats
    sizes: Integers


class _MdavState(NamedTuple):
    """The distinct points, where their records begin, how many are unused, and their sum.

    `total` and `remainder` are one sum of twice the digits of a number.
    """

    points: Floats
    firsts: Integers
    unused: Integers
    total: Floats
    remainder: Floats


class _Nearest(NamedTuple):
    """The nearest points so far: distances and numbers; how many, and for how many records."""

    gaps: Floats
    members: Integers
    filled: Integers


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
    tree = _make_tree(len(firsts) - 1, values.shape[1])
    records, starts = _cluster_points(np.ascontiguousarray(values[fresh]), firsts, k, tree)
    return order[records], starts


def _make_tree(most: int, columns: int) -> _ShrinkingTree:
    """Room for up to so many points."""
    leaves = 1
    while leaves * LANES < most:
        leaves *= 2
    return _ShrinkingTree(
        points=np.empty((most, columns)),
        rank=np.empty(most, np.int64),
        positions=np.empty(most, np.int64),
        boxes=np.empty((2 * leaves, 2 * columns)),
        sizes=np.zeros(2 * leaves, np.int64),
    )


@inlined(error_model="numpy")
def _add(total, remainder, j, value):  # type: ignore[no-untyped-def]
    """Add to a sum of two numbers, the second being what rounding took from the first."""
    first = total[j] + value
    step = first - total[j]
    more = remainder[j] + ((total[j] - (first - step)) + (value - step))
    total[j] = first + more
    remainder[j] = more - (total[j] - first)


@inner(error_model="numpy")
def _sum_points(state):  # type: ignore[no-untyped-def]
    state.total[:], state.remainder[:] = 0.0, 0.0
    for point in range(len(state.points)):
        for j in range(len(state.total)):
            for _ in range(state.unused[point]):
                _add(state.total, state.remainder, j, state.points[point, j])


@inner(error_model="numpy")
def _sort_by_distance(state, centre, queue, gaps):  # type: ignore[no-untyped-def]
    """List the points in use, the farthest from the centre first; how many they are."""
    size = 0
    for point in range(len(state.points)):
        if state.unused[point]:
            squared = 0.0
            for j in range(len(centre)):
                squared += (state.points[point, j] - centre[j]) ** 2
            queue[size], gaps[size] = point, -np.sqrt(squared)
            size += 1
    by = np.argsort(gaps[:size])
    queue[:size], gaps[:size] = queue[:size][by], -gaps[:size][by]
    return size


@inner(error_model="numpy")
def _find_outermost(state, centre, past, queue, gaps, head):  # type: ignore[no-untyped-def]
    """The point farthest from the centre, its distance, and how many were looked at.

    The queue is in the order of the distance to a past centre. No distance has grown by more than
    the centre has moved, so that only the beginning of the queue can be the farthest.
    """
    moved = 0.0
    for j in range(len(centre)):
        moved += (centre[j] - past[j]) ** 2
    moved = np.sqrt(moved) + _SLACK * (gaps[0] + np.sqrt(moved))
    best, outermost, enough, i = -1.0, -1, -1.0, head
    while i < len(queue) and gaps[i] + moved >= enough:
        point = queue[i]
        i += 1
        if not state.unused[point]:
            continue
        squared = _squared_distance(state.points, point, centre)
        if squared > best or (squared == best and point < outermost):
            best, outermost, enough = squared, point, np.sqrt(squared)
    return outermost, enough, i - head


@inner(error_model="numpy")
def _take_cluster(point, k, state, tree, leaves, nearest, order, to):  # type: ignore[no-untyped-def]
    """Make a point and its nearest a cluster; how many points are used up."""
    points, firsts, unused = state.points, state.firsts, state.unused
    exhausted = 0
    need = k
    for i in range(_find_nearest(tree, leaves, point, unused, k, nearest)):
        member = nearest.members[i]
        take = min(need, unused[member])
        for copy in range(take):
            order[to] = firsts[member + 1] - unused[member] + copy
            to += 1
            for j in range(points.shape[1]):
                _add(state.total, state.remainder, j, -points[member, j])
        need -= take
        unused[member] -= take
        if not unused[member]:
            _take_out(tree, leaves, member)
            exhausted += 1
    return exhausted


@compiled
def _cluster_points(points, firsts, k, tree):  # type: ignore[no-untyped-def]
    """The clusters of distinct points, each of which stands for one or more records.

    `firsts` says where the records of each point begin; they are numbered in that order.
    """
    n, size, columns = firsts[-1], len(points), points.shape[1]
    order, starts = np.empty(n, np.int64), np.arange(n // k + 1) * k
    unused = firsts[1:] - firsts[:-1]
    nearest = _Nearest(np.empty(k + 1), np.empty(k + 1, np.int64), np.zeros(2, np.int64))
    total, remainder, centre = np.zeros(columns), np.zeros(columns), np.empty(columns)
    state = _MdavState(points, firsts, unused, total, remainder)
    queue, gaps, past = np.empty(size, np.int64), np.empty(size), np.empty(columns)
    alive, built, length, head, walked, leaves, to = size, 4 * size, 0, 0, 0, 1, 0
    reach = -1.0
    while n - to >= 2 * k:
        fewer = 2 * alive <= built
        if fewer or reach < 0:
            _sum_points(state)
        centre[:] = (total + remainder) / (n - to)
        if fewer or reach < 0 or walked > _WALK * length:
            length, head, walked = _sort_by_distance(state, centre, queue, gaps), 0, 0
            past[:] = centre
        if fewer:
            numbers = np.sort(queue[:length])
            leaves = _plant(tree, points, numbers, np.empty(length), np.ones(columns))
            built = alive
        while not unused[queue[head]]:
            head += 1
        point, distance, steps = _find_outermost(state, centre, past, queue[:length], gaps, head)
        walked += steps
        if distance < _SHRUNK * reach:
            reach = -1.0
            continue
        reach = distance if reach < 0 else reach
        alive -= _take_cluster(point, k, state, tree, leaves, nearest, order, to)
        to += k
        if n - to >= 2 * k:
            point = _find_farthest(tree, leaves, points[point])
            alive -= _take_cluster(point, k, state, tree, leaves, nearest, order, to)
            to += k
    starts[-1] = n
    for point in range(size):
        for record in range(firsts[point + 1] - unused[point], firsts[point + 1]):
            order[to] = record
            to += 1
    return order, starts


# The tree: points lie in leaves of sixteen, those still there in front. Nodes are numbered as in a
# heap: the root is 1, the children of i are 2 i and 2 i + 1, the leaves come last. A node's box
# shrinks to what it still holds: what is taken first lies outside, and boxes that stay wide would
# never be passed over in the search for the farthest. Bounds and distances are the same sums of
# squares in the same order of columns. Rounding keeps order, so no bound is ever on the wrong side
# of a distance.


@inner(error_model="numpy")
def _plant(tree, source, numbers, keys, scale):  # type: ignore[no-untyped-def]
    """Build the tree of the points with these numbers; how many leaves it has room for."""
    points, rank, positions, sizes = tree.points, tree.rank, tree.positions, tree.sizes
    size = len(numbers)
    rank[:size] = numbers
    arrange_points(source, rank, keys, size, scale)
    for i in range(size):
        positions[rank[i]] = i
        points[i] = source[rank[i]]
    leaves = 1
    while leaves * LANES < size:
        leaves *= 2
    sizes[: 2 * leaves] = 0
    for leaf in range(leaves):
        sizes[leaves + leaf] = max(0, min(LANES, size - (leaf << SHIFT)))
        if sizes[leaves + leaf]:
            _fit_leaf(tree, leaves, leaf)
    for node in range(leaves - 1, 0, -1):
        sizes[node] = sizes[2 * node] + sizes[2 * node + 1]
        if sizes[node]:
            _fit_node(tree, node)
    return leaves


@inlined(error_model="numpy")
def _fit_leaf(tree, leaves, leaf):  # type: ignore[no-untyped-def]
    """Shrink a leaf's box to its points; whether that changed it."""
    points, boxes = tree.points, tree.boxes
    node, first = leaves + leaf, leaf << SHIFT
    changed = False
    for j in range(points.shape[1]):
        low = high = points[first, j]
        for i in range(first + 1, first + tree.sizes[node]):
            low, high = min(low, points[i, j]), max(high, points[i, j])
        changed |= (boxes[node, 2 * j] != low) | (boxes[node, 2 * j + 1] != high)
        boxes[node, 2 * j], boxes[node, 2 * j + 1] = low, high
    return changed


@inlined(error_model="numpy")
def _fit_node(tree, node):  # type: ignore[no-untyped-def]
    """Shrink a node's box to those of its children; whether that changed it."""
    boxes, sizes = tree.boxes, tree.sizes
    first = 2 * node if sizes[2 * node] else 2 * node + 1
    second = 2 * node + 1 if sizes[2 * node + 1] else 2 * node
    changed = False
    for j in range(0, boxes.shape[1], 2):
        low = min(boxes[first, j], boxes[second, j])
        high = max(boxes[first, j + 1], boxes[second, j + 1])
        changed |= (boxes[node, j] != low) | (boxes[node, j + 1] != high)
        boxes[node, j], boxes[node, j + 1] = low, high
    return changed


@inner(error_model="numpy")
def _take_out(tree, leaves, number):  # type: ignore[no-untyped-def]
    """Remove a point; the last of its leaf moves to where it was."""
    points, rank, positions, sizes = tree.points, tree.rank, tree.positions, tree.sizes
    position = positions[number]
    leaf = position >> SHIFT
    node = leaves + leaf
    sizes[node] -= 1
    last = (leaf << SHIFT) + sizes[node]
    points[position] = points[last]
    rank[position] = rank[last]
    positions[rank[position]] = position
    changed = sizes[node] == 0 or _fit_leaf(tree, leaves, leaf)
    node >>= 1
    while node:
        sizes[node] -= 1
        if changed and sizes[node]:
            changed = _fit_node(tree, node)
        node >>= 1


@inlined(error_model="numpy")
def _squared_distance(points, i, point):  # type: ignore[no-untyped-def]
    squared = 0.0
    for j in range(len(point)):
        gap = points[i, j] - point[j]
        squared += gap * gap
    return squared


@inlined(error_model="numpy")
def _bound_above(boxes, node, point):  # type: ignore[no-untyped-def]
    """The squared distance to the farthest corner of a box."""
    squared = 0.0
    for j in range(len(point)):
        gap = max(point[j] - boxes[node, 2 * j], boxes[node, 2 * j + 1] - point[j])
        squared += gap * gap
    return squared


@inlined(error_model="numpy")
def _bound_below(boxes, node, point):  # type: ignore[no-untyped-def]
    """The squared distance to the nearest point of a box."""
    squared = 0.0
    for j in range(len(point)):
        gap = max(boxes[node, 2 * j] - point[j], point[j] - boxes[node, 2 * j + 1], 0.0)
        squared += gap * gap
    return squared


@inner(error_model="numpy")
def _find_farthest(tree, leaves, point):  # type: ignore[no-untyped-def]
    """The number of the point farthest away."""
    rank, boxes, sizes = tree.rank, tree.boxes, tree.sizes
    nodes, bounds = np.empty(_STACK, np.int64), np.empty(_STACK)
    nodes[0], bounds[0], top = 1, np.inf, 1
    best, farthest = -1.0, -1
    while top:
        top -= 1
        node = nodes[top]
        if bounds[top] < best:
            continue
        if node >= leaves:
            first = (node - leaves) << SHIFT
            for i in range(first, first + sizes[node]):
                squared = _squared_distance(tree.points, i, point)
                if squared > best or (squared == best and rank[i] < farthest):
                    best, farthest = squared, rank[i]
            continue
        less, more = 2 * node, 2 * node + 1
        low = _bound_above(boxes, less, point) if sizes[less] else -1.0
        high = _bound_above(boxes, more, point) if sizes[more] else -1.0
        if low > high:
            less, more, low, high = more, less, high, low
        if low >= max(best, 0.0):
            nodes[top], bounds[top] = less, low
            top += 1
        if high >= max(best, 0.0):
            nodes[top], bounds[top] = more, high
            top += 1
    return farthest


@inlined(error_model="numpy")
def _scan_leaf(tree, node, leaves, point, unused, k, nearest):  # type: ignore[no-untyped-def]
    """Compare the points of a leaf with the nearest so far."""
    gaps, members, filled = nearest.gaps, nearest.members, nearest.filled
    first = (node - leaves) << SHIFT
    for i in range(first, first + tree.sizes[node]):
        squared = _squared_distance(tree.points, i, point)
        size, total = filled[0], filled[1]
        number = tree.rank[i]
        if total >= k and (
            squared > gaps[size - 1] or (squared == gaps[size - 1] and number > members[size - 1])
        ):
            continue
        if number == members[0]:
            continue
        to = size
        while to > 1 and (
            gaps[to - 1] > squared or (gaps[to - 1] == squared and members[to - 1] > number)
        ):
            gaps[to], members[to] = gaps[to - 1], members[to - 1]
            to -= 1
        gaps[to], members[to] = squared, number
        total += unused[number]
        while total - unused[members[size]] >= k:
            total -= unused[members[size]]
            size -= 1
        filled[0], filled[1] = size + 1, total


@inner(error_model="numpy")
def _find_nearest(tree, leaves, number, unused, k, nearest):  # type: ignore[no-untyped-def]
    """The points nearest to one, itself first, until they stand for k records; how many they are.

    From its own leaf upwards: the bound is close before anything else is looked at.
    """
    boxes, sizes, position = tree.boxes, tree.sizes, tree.positions[number]
    gaps, filled = nearest.gaps, nearest.filled
    point = tree.points[position].copy()
    gaps[0], nearest.members[0] = -1.0, number  # first even where a distance underflows
    filled[0], filled[1] = 1, unused[number]
    nodes, bounds = np.empty(_STACK, np.int64), np.empty(_STACK)
    up = leaves + (position >> SHIFT)
    _scan_leaf(tree, up, leaves, point, unused, k, nearest)
    while up > 1:
        nodes[0], top = up ^ 1, 1
        up >>= 1
        if not sizes[nodes[0]]:
            continue
        bounds[0] = _bound_below(boxes, nodes[0], point)
        while top:
            top -= 1
            node = nodes[top]
            if filled[1] >= k and bounds[top] > gaps[filled[0] - 1]:
                continue
            if node >= leaves:
                _scan_leaf(tree, node, leaves, point, unused, k, nearest)
                continue
            less, more = 2 * node, 2 * node + 1
            low = _bound_below(boxes, less, point) if sizes[less] else np.inf
            high = _bound_below(boxes, more, point) if sizes[more] else np.inf
            if low > high:
                less, more, low, high = more, less, high, low
            if high < np.inf:
                nodes[top], bounds[top] = more, high
                top += 1
            if low < np.inf:
                nodes[top], bounds[top] = less, low
                top += 1
    return filled[0]
