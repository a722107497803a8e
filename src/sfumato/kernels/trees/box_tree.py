"""A tree of boxes: which of very many boxes contain a point.

Boxes are whole-number intervals in every column, laid out as (box, lows then highs). The tree
splits at means of values, never at positions, so the order of the boxes does not change it. Nodes
lie in the order of a walk; each says where the walk goes on when nothing below can contain the
point, so that a search needs no stack.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from sfumato.kernels.memory import room

LEAF = 8
_DEEP = 4096
"""Levels of the tree at most; a deeper part becomes one leaf, which is slow but right."""
INNER: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
Tree = tuple[Any, ...]


def empty_tree(edges: npt.NDArray[Any]) -> Tree:
    """A tree of nothing, for when boxes are looked up in another way."""
    none = np.zeros(0, np.int32)
    return edges[:0], none, none, none


def grown(edges: npt.NDArray[np.int32], ids: Any, starts: Any, sizes: Any) -> tuple[Tree, Any]:
    """The tree of each group of boxes, and where the nodes of each group begin.

    `edges` and `ids` lie group after group and are reordered in place; `starts` says where each
    group begins; `sizes` are the numbers of codes of the columns.
    """
    most = 2 * len(edges) + 1
    tree = (
        room((most, edges.shape[1]), edges.dtype),
        room((most,), np.int32),
        room((most,), np.int32),
        room((most,), np.int32),
    )
    return tree, _grow(edges, ids, starts, 1.0 / np.maximum(sizes, 1), *tree)


@njit(**INNER)
def _bound(edges, start, stop, least, most):  # type: ignore[no-untyped-def]
    """Smallest and largest of each low and each high among some boxes."""
    for j in range(edges.shape[1]):
        least[j] = most[j] = edges[start, j]
    for i in range(start + 1, stop):
        for j in range(edges.shape[1]):
            least[j] = min(least[j], edges[i, j])
            most[j] = max(most[j], edges[i, j])


@njit(**INNER)
def _widest(least, most, scale):  # type: ignore[no-untyped-def]
    """The low or the high that differs most among the boxes, as a share of its column."""
    columns = len(scale)
    best, found = 0.0, -1
    for j in range(2 * columns):
        spread = (np.int64(most[j]) - least[j]) * scale[j % columns]
        if spread > best:
            best, found = spread, j
    return found


@njit(**INNER)
def _part(edges, ids, start, stop, at):  # type: ignore[no-untyped-def]
    """Move boxes up to the mean of one coordinate to the front; where the others begin."""
    total = np.int64(0)
    for i in range(start, stop):
        total += edges[i, at]
    mean = total // (stop - start)
    low, high = start, stop - 1
    while low <= high:
        if edges[low, at] <= mean:
            low += 1
        elif edges[high, at] > mean:
            high -= 1
        else:
            for j in range(edges.shape[1]):
                edges[low, j], edges[high, j] = edges[high, j], edges[low, j]
            ids[low], ids[high] = ids[high], ids[low]
            low += 1
            high -= 1
    return low


@njit(cache=True, nogil=True)
def _grow(edges, ids, starts, scale, hull, skip, first, last):  # type: ignore[no-untyped-def]
    width, columns = edges.shape[1], edges.shape[1] // 2
    least, most = np.empty(width, edges.dtype), np.empty(width, edges.dtype)
    waiting = np.empty((_DEEP + 2, 3), np.int64)
    path = np.empty(_DEEP + 2, np.int64)
    nodes_of = np.zeros(len(starts), np.int64)
    node = 0
    for group in range(len(starts) - 1):
        waiting[0, 0], waiting[0, 1], waiting[0, 2] = starts[group], starts[group + 1], 0
        top, deep = 1, 0
        while top:
            top -= 1
            start, stop, level = waiting[top, 0], waiting[top, 1], waiting[top, 2]
            for above in range(level, deep):
                skip[path[above]] = node
            deep = level + 1
            path[level] = node
            _bound(edges, start, stop, least, most)
            for j in range(columns):
                hull[node, j], hull[node, columns + j] = least[j], most[columns + j]
            split = -1
            if stop - start > LEAF and level < _DEEP:
                split = _widest(least, most, scale)
            first[node], last[node] = start, stop
            if split >= 0:
                middle = _part(edges, ids, start, stop, split)
                last[node] = start  # nothing to look at here: only leaves hold boxes
                waiting[top, 0], waiting[top, 1], waiting[top, 2] = middle, stop, level + 1
                waiting[top + 1, 0], waiting[top + 1, 1] = start, middle
                waiting[top + 1, 2] = level + 1
                top += 2
            node += 1
        for above in range(deep):
            skip[path[above]] = node
        nodes_of[group + 1] = node
    return nodes_of


@njit(forceinline=True, **INNER)
def holds(edges, one, point):  # type: ignore[no-untyped-def]
    """Whether a box contains a point."""
    columns = len(point)
    for j in range(columns):
        if edges[one, j] > point[j] or edges[one, columns + j] < point[j]:
            return False
    return True


@njit(forceinline=True, **INNER)
def wraps(edges, one, part):  # type: ignore[no-untyped-def]
    """Whether a box contains another."""
    columns = len(part) // 2
    for j in range(columns):
        if edges[one, j] > part[j] or edges[one, columns + j] < part[columns + j]:
            return False
    return True


@njit(forceinline=True, **INNER)
def shared(edges, one, part):  # type: ignore[no-untyped-def]
    """How many combinations two boxes share, as a float; only to choose the better cover."""
    columns = len(part) // 2
    volume = 1.0
    for j in range(columns):
        low = max(edges[one, j], part[j])
        volume *= min(edges[one, columns + j], part[columns + j]) - low + 1.0
    return volume


@njit(forceinline=True, **INNER)
def before(edges, one, other):  # type: ignore[no-untyped-def]
    """Whether a box comes before another by its values: ties do not hang on positions."""
    for j in range(edges.shape[1]):
        if edges[one, j] != edges[other, j]:
            return edges[one, j] < edges[other, j]
    return False


@njit(**INNER)
def search(edges, tree, start, stop, me, part, point, left):  # type: ignore[no-untyped-def]
    """The box other than `me` that contains the point and most of the part, and the cost.

    -1: none contains the point. -2: the cost would exceed what is left.
    """
    hull, skip, first, last = tree
    best, most, cost, node = -1, 0.0, 0, start
    while node < stop:
        cost += 1
        if not holds(hull, node, point):
            node = skip[node]
            continue
        cost += last[node] - first[node]
        if cost > left:
            return -2, cost
        whole = False
        for one in range(first[node], last[node]):
            if one == me or not holds(edges, one, point):
                continue
            volume = shared(edges, one, part)
            if volume > most or (volume == most and before(edges, one, best)):
                best, most = one, volume
            whole |= wraps(edges, one, part)
        if whole:
            return best, cost
        node += 1
    return best, cost
