"""Boxes whose cells are nested: looked up level by level.

Where any two cells of a column are nested or disjoint, each has a height: 0 where it holds no
smaller cell, else one more than the highest it holds. Cells of one height are disjoint, so a
value lies in one of them at most, and a point lies in one box at most for each combination of
heights that occurs: one look-up in a hash table each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from sfumato.kernels.memory import room
from sfumato.kernels.trees.box_tree import INNER, before, holds, shared, wraps

_CELLS = 1 << 26
"""Entries of the table from values to cells at most."""
PATTERNS = 256
"""Combinations of heights at most; with more, a tree is faster."""
_FLOORS = 62
"""Heights of all columns together at most: each is a bit."""
Nested = tuple[Any, ...]
_MIX = -7046029254386353131


def heights(low: npt.NDArray[np.int32], high: npt.NDArray[np.int32]) -> Any:
    """The height of each cell of a column, or None where two cells cross."""
    order = np.lexsort((-high.astype(np.int64), low))
    found, nested = _heights(low, high, order)
    return found if nested else None


@njit(cache=True, nogil=True)
def _heights(low, high, order):  # type: ignore[no-untyped-def]
    """Cells come before those they hold."""
    found = np.zeros(len(low), np.int32)
    parent = np.full(len(low), -1, np.int64)
    path = np.empty(len(low), np.int64)
    deep = 0
    for one in order:
        while deep and high[path[deep - 1]] < low[one]:
            deep -= 1
        if deep:
            parent[one] = path[deep - 1]
            if high[parent[one]] < high[one]:
                return found, False
        path[deep] = one
        deep += 1
    for one in order[::-1]:
        if parent[one] >= 0:
            found[parent[one]] = max(found[parent[one]], found[one] + 1)
    return found, True


def no_table() -> Nested:
    """No table, for when boxes are looked up in another way."""
    none, few = np.zeros(0, np.int64), np.zeros(0, np.int32)
    floors, signs = np.zeros((0, 3), np.int64), np.zeros(0, np.uint8)
    return np.zeros((0, 0), np.int64), none, floors, few, none, none, few, signs, few


def table(
    cells: npt.NDArray[np.int32],
    high_of: Sequence[npt.NDArray[np.int32]],
    intervals: Sequence[tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]],
    sizes: npt.NDArray[np.int64],
    numbered: Any,
) -> Nested | None:
    """Look-up of boxes, or None where it would be larger or slower than a tree.

    `cells` has a row per column: which of its cells each box has; `high_of` are the heights of
    the cells, `numbered` groups equal whole numbers. It holds:

    - for each pattern of heights the floors (a height of a column) it needs, and as bits
    - the floors: column, where its codes begin among `at`, what to multiply its cells by
    - `at`: the cell of that height which holds a code, or -1
    - the key and the pattern of each box; where each pattern's slots begin; the
      slots; signs, a bit for each hash that occurs
    """
    levels = np.array([int(one.max(initial=0)) + 1 for one in high_of], np.int64)
    if (levels * sizes).sum() > _CELLS or levels.sum() > _FLOORS:
        return None
    found = _patterns(cells, high_of, levels, numbered)
    if found is None:
        return None
    of, patterns = found
    column = np.repeat(np.arange(len(levels)), levels)
    offsets = np.cumsum([0, *sizes[column]])
    strides = _strides([len(one) for one in high_of])
    floors = np.column_stack([column, offsets[:-1], strides[column]])
    at = np.full(offsets[-1], -1, np.int32)
    first = np.cumsum([0, *levels[:-1]])
    for floor, tall, (low, high) in zip(first, high_of, intervals, strict=True):
        _placed(low, high, offsets[floor + tall], at)
    keys = np.zeros(cells.shape[1], np.int64)
    for one, stride in zip(cells, strides, strict=True):
        keys += one * stride
    needs = patterns + first
    bits = np.bitwise_or.reduce(1 << needs, axis=1)
    return needs, bits, floors, at, keys, *_slots(keys, of, len(patterns)), of


def _patterns(cells: Any, high_of: Any, levels: Any, numbered: Any) -> Any:
    """The combination of heights of each box, and what they are; None if there are too many."""
    code = np.zeros(cells.shape[1], np.int64)
    for one, tall, count in zip(cells, high_of, levels, strict=True):
        if count > 1:
            code = code * count + tall[one]
    of, first = numbered(code)
    if len(first) > PATTERNS:
        return None
    patterns = np.column_stack([tall[cells[j][first]] for j, tall in enumerate(high_of)])
    # The broad first: they cover most. The order must not hang on that of the boxes.
    order = np.lexsort((code[first], -patterns.sum(axis=1)))
    rank = np.argsort(order).astype(np.int32)
    return rank[of], patterns[order].astype(np.int64)


def _slots(keys: npt.NDArray[np.int64], of: Any, patterns: int) -> tuple[Any, Any, Any]:
    """A hash table for each pattern: where it begins, the box in each slot, signs of boxes."""
    held = np.bincount(of, minlength=patterns)
    wide = 1 << np.ceil(np.log2(2 * held)).astype(np.int64)
    begin = np.cumsum([0, *wide])
    slots = room((int(begin[-1]),), np.int32)
    slots[:] = -1
    signs = np.zeros(int(begin[-1]), np.uint8)
    _fill(keys, of, begin, slots, signs)
    return begin, slots, signs


def _strides(counts: list[int]) -> npt.NDArray[np.int64]:
    """What to multiply cell numbers by: their sum is a key, unique where 63 bits are enough."""
    if np.log2(counts).sum() < 62:  # noqa: PLR2004 - bits
        return np.concatenate([[1], np.cumprod(counts[:-1])]).astype(np.int64)
    odd = [pow(6364136223846793005, at + 1, 1 << 64) | 1 for at in range(len(counts))]
    return np.array(odd, np.uint64).view(np.int64)


@njit(cache=True, nogil=True)
def _placed(low, high, start, at):  # type: ignore[no-untyped-def]
    for one in range(len(low)):
        for value in range(low[one], high[one] + 1):
            at[start[one] + value] = one


@njit(forceinline=True, **INNER)
def _mixed(key):  # type: ignore[no-untyped-def]
    mixed = (key ^ ((key >> 29) & 0x7FFFFFFFF)) * _MIX
    return mixed ^ ((mixed >> 32) & 0xFFFFFFFF)


@njit(cache=True, nogil=True)
def _fill(keys, of, begin, slots, signs):  # type: ignore[no-untyped-def]
    """Put boxes into slots, and for each a sign: most look-ups of nothing end at a sign."""
    for box in range(len(keys)):
        start = begin[of[box]]
        size = begin[of[box] + 1] - start
        mixed = _mixed(keys[box])
        slot = mixed & (size - 1)
        while slots[start + slot] >= 0:
            slot = (slot + 1) & (size - 1)
        slots[start + slot] = box
        signs[start + _sign(mixed, size)] |= np.uint8(1 << (mixed & 7))


@njit(forceinline=True, **INNER)
def _sign(mixed, size):  # type: ignore[no-untyped-def]
    return (mixed >> 3) & (size - 1)


@njit(**INNER)
def _terms(floors, at, point, terms):  # type: ignore[no-untyped-def]
    """What each floor adds to the key of a box that contains the point; which have a cell."""
    known = 0
    for floor in range(len(floors)):
        cell = at[floors[floor, 1] + point[floors[floor, 0]]]
        if cell >= 0:
            known |= 1 << floor
            terms[floor] = cell * floors[floor, 2]
    return known


@njit(**INNER)
def look_up(edges, nested, me, part, point, terms, left):  # type: ignore[no-untyped-def]
    """The same as `search` of a tree, by one look-up for each combination of heights."""
    needs, bits, floors, at, keys, begin, slots, signs, of = nested
    best, most = -1, 0.0
    if len(needs) > left:
        return -2, len(needs)
    known = _terms(floors, at, point, terms)
    for pattern in range(len(needs)):
        # In its own pattern a box meets nobody but itself.
        if bits[pattern] & ~known or pattern == of[me]:
            continue
        key = 0
        for j in range(needs.shape[1]):
            key += terms[needs[pattern, j]]
        mixed = _mixed(key)
        start = begin[pattern]
        size = begin[pattern + 1] - start
        if not (signs[start + _sign(mixed, size)] >> (mixed & 7)) & 1:
            continue
        slot = mixed & (size - 1)
        while slots[start + slot] >= 0:
            one = slots[start + slot]
            if keys[one] == key and holds(edges, one, point):
                if wraps(edges, one, part):
                    return one, pattern + 1
                volume = shared(edges, one, part)
                if volume > most or (volume == most and before(edges, one, best)):
                    best, most = one, volume
                break
            slot = (slot + 1) & (size - 1)
    return best, len(needs)
