"""Whether a box is covered by other boxes, together.

A box is taken apart: choose the point of it that the fewest boxes can contain, find another box
that contains this point, take away what that one covers, and go on with the rest, piece by piece.
A point that nobody else contains ends the search at once. The worst case is exponential in the
number of columns, so there is a budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from sfumato.kernels.trees.box_nested import Nested, look_up
from sfumato.kernels.trees.box_tree import INNER, Tree, search

COVERED, OPEN, UNDECIDED = 1, 0, -1
Scarcity = tuple[Any, ...]


def scarcity(counts_of: Sequence[npt.NDArray[np.int64]]) -> Scarcity:
    """How many boxes contain each code of each column, and a tree to find the rarest quickly."""
    starts = np.cumsum([0, *map(len, counts_of)]).astype(np.int64)
    counts = np.concatenate(counts_of)
    rarest = np.empty(2 * len(counts), np.int32)
    _heap(counts, starts, rarest)
    return counts, starts, rarest


@njit(cache=True, nogil=True)
def _heap(counts, starts, rarest):  # type: ignore[no-untyped-def]
    """For each column a heap: leaves are its codes, each node has the rarer of its two."""
    for column in range(len(starts) - 1):
        start, size = starts[column], starts[column + 1] - starts[column]
        for code in range(size):
            rarest[2 * start + size + code] = code
        for node in range(size - 1, 0, -1):
            one, other = rarest[2 * start + 2 * node], rarest[2 * start + 2 * node + 1]
            rarest[2 * start + node] = _rarer(counts, start, one, other)


@njit(forceinline=True, **INNER)
def _rarer(counts, start, one, other):  # type: ignore[no-untyped-def]
    """The code that fewer boxes contain; the smaller code where they are as many."""
    mine, theirs = counts[start + one], counts[start + other]
    return one if mine < theirs or (mine == theirs and one < other) else other


@njit(forceinline=True, **INNER)
def _rarest(scarce, column, low, high):  # type: ignore[no-untyped-def]
    counts, starts, rarest = scarce
    start, size = starts[column], starts[column + 1] - starts[column]
    best, left, right = low, low + size, high + size + 1
    while left < right:
        if left & 1:
            best = _rarer(counts, start, best, rarest[2 * start + left])
            left += 1
        if right & 1:
            right -= 1
            best = _rarer(counts, start, best, rarest[2 * start + right])
        left >>= 1
        right >>= 1
    return best


@njit(**INNER)
def _aim(scarce, part, point):  # type: ignore[no-untyped-def]
    """The rarest point of a box; False if one of its codes is in no other record's box."""
    columns = len(point)
    shared = True
    for j in range(columns):
        low, high = part[j], part[columns + j]
        point[j] = low if low == high else _rarest(scarce, j, low, high)
        shared &= scarce[0][scarce[1][j] + point[j]] > 1
    return shared


@njit(**INNER)
def _copy(source, at, target, to):  # type: ignore[no-untyped-def]
    """Element by element: assigning whole rows takes very long to compile."""
    for j in range(source.shape[1]):
        target[to, j] = source[at, j]


@njit(**INNER)
def _rest(part, edges, by, stack, top):  # type: ignore[no-untyped-def]
    """Put what a box leaves of the part onto the stack, in pieces that do not overlap."""
    width = len(part)
    columns = width // 2
    if top + width > len(stack):
        more = np.empty((2 * len(stack) + width, width), stack.dtype)
        for at in range(top):
            _copy(stack, at, more, at)
        stack = more
    for j in range(columns):
        if part[j] < edges[by, j]:
            for i in range(width):
                stack[top, i] = part[i]
            stack[top, columns + j] = edges[by, j] - 1
            part[j] = edges[by, j]
            top += 1
        if part[columns + j] > edges[by, columns + j]:
            for i in range(width):
                stack[top, i] = part[i]
            stack[top, j] = edges[by, columns + j] + 1
            part[columns + j] = edges[by, columns + j]
            top += 1
    return stack, top


def decide(
    edges: npt.NDArray[np.int32],
    wanted: npt.NDArray[np.bool_],
    scarce: Scarcity,
    nodes: tuple[Any, Any],
    index: tuple[Tree, Nested],
    budget: int,
) -> npt.NDArray[np.int8]:
    """For each wanted box whether the others cover it; the others count as covered.

    `nodes` says between which nodes of the tree the boxes that could overlap it lie; without
    any, the nested look-up is used. `budget` limits the comparisons made for one box.
    """
    found = np.full(len(edges), COVERED, np.int8)
    _decide(edges, wanted, scarce, *nodes, *index, budget, found)
    return found


@njit(cache=True, nogil=True)
def _decide(edges, wanted, scarce, start, stop, tree, nested, budget, found):  # type: ignore[no-untyped-def]
    width = edges.shape[1]
    stack = np.empty((8 * width, width), edges.dtype)
    part, point = np.empty(width, edges.dtype), np.empty(width // 2, edges.dtype)
    terms = np.empty(len(nested[2]), np.int64)
    for me in range(len(edges)):
        if not wanted[me]:
            continue
        _copy(edges, me, stack, 0)
        top, spent = 1, 0
        while top:
            top -= 1
            for j in range(width):
                part[j] = stack[top, j]
            if not _aim(scarce, part, point):
                found[me] = OPEN
                break
            if len(start):
                by, cost = search(edges, tree, start[me], stop[me], me, part, point, budget - spent)
            else:
                by, cost = look_up(edges, nested, me, part, point, terms, budget - spent)
            spent += cost
            if by < 0:
                found[me] = OPEN if by == -1 else UNDECIDED
                break
            stack, top = _rest(part, edges, by, stack, top)
