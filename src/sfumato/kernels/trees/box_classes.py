"""Records that are equal in all their cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit

from sfumato.kernels.arrays import Codes, Integers

_MIX = -7046029254386353131
_PART = 1 << 12
"""Records per part when equal ones are sought: the look-up stays in the fast memory."""


@dataclass(frozen=True, eq=False)
class Classes:
    """Records with equal cells: the class of each, the first record and the size of each class."""

    of: Codes
    first: Codes
    counts: Integers


def classes(cells: Codes, sizes: Sequence[int]) -> Classes:
    """Classes of equal columns of `cells` (variable, record); exact, without sorting.

    `sizes` says how many different cells each variable has. As many variables as fit are packed
    into one number of 63 bits; where they do not all fit, the class so far is packed with the next.
    """
    records = cells.shape[1]
    keys, span = np.zeros(records, np.int64), 1
    start = 0
    for at, size in enumerate(sizes):
        if span * max(size, 1) >= 1 << 63:
            _pack(cells[start:at], np.array(sizes[start:at], np.int64), keys)
            found = _classes(keys)
            keys, span, start = found.of.astype(np.int64), len(found.first), at
        span *= max(size, 1)
    _pack(cells[start:], np.array(sizes[start:], np.int64), keys)
    return _classes(keys)


def numbered(codes: Integers) -> tuple[Codes, Codes]:
    """For each number which distinct one it is, and where each distinct one first stands."""
    found = _classes(codes)
    return found.of, found.first


def by_class(alike: Classes, *, least: int) -> tuple[Codes, Integers]:
    """The records of classes of at least some size, class after class, and where each begins."""
    large = alike.counts >= least
    starts = np.concatenate([[0], np.cumsum(alike.counts[large])]).astype(np.int64)
    place = np.where(large, np.cumsum(large) - 1, -1)
    return _ordered(alike.of, place, starts), starts


@njit(cache=True, nogil=True)
def _ordered(of, place, starts):  # type: ignore[no-untyped-def]
    order, next_of = np.empty(starts[-1], np.int32), starts.copy()
    for i in range(len(of)):
        at = place[of[i]]
        if at >= 0:
            order[next_of[at]] = i
            next_of[at] += 1
    return order


def _classes(keys: Integers) -> Classes:
    parts = max(1, (len(keys) // _PART).bit_length())
    return Classes(*_grouped(keys, parts))


@njit(cache=True, nogil=True)
def _pack(cells, sizes, keys):  # type: ignore[no-untyped-def]
    """Block by block, so that keys stay near while the variables pass."""
    for start in range(0, len(keys), 4096):
        stop = min(start + 4096, len(keys))
        for j in range(len(sizes)):
            size = sizes[j]
            for i in range(start, stop):
                keys[i] = keys[i] * size + cells[j, i]


@njit(cache=True, nogil=True)
def _grouped(keys, bits):  # type: ignore[no-untyped-def]
    """Spread the keys over parts by a hash, then number equal ones part by part."""
    records, parts = len(keys), 1 << bits
    ends = np.zeros(parts + 1, np.int64)
    for i in range(records):
        ends[_part(keys[i], bits) + 1] += 1
    longest, next_of = 0, np.empty(parts, np.int64)
    for part in range(parts):
        longest, next_of[part] = max(longest, ends[part + 1]), ends[part]
        ends[part + 1] += ends[part]
    at = np.empty(records, np.int32)
    near = np.empty(records, np.int64)
    for i in range(records):
        part = _part(keys[i], bits)
        at[next_of[part]], near[next_of[part]] = i, keys[i]
        next_of[part] += 1
    size = 2
    while size < 2 * longest:
        size *= 2
    slots = np.empty(size, np.int32)
    of = np.empty(records, np.int32)
    counts, seen, found = np.zeros(records, np.int64), np.empty(records, np.int64), 0
    for part in range(parts):
        size = 2
        while size < 2 * (ends[part + 1] - ends[part]):
            size *= 2
        for slot in range(size):
            slots[slot] = -1
        for i in range(ends[part], ends[part + 1]):
            slot = (_mixed(near[i]) >> 8) & (size - 1)
            while slots[slot] >= 0 and seen[slots[slot]] != near[i]:
                slot = (slot + 1) & (size - 1)
            if slots[slot] < 0:
                slots[slot] = found
                seen[found] = near[i]
                found += 1
            counts[slots[slot]] += 1
            of[at[i]] = slots[slot]
    return _in_order(of, counts, found)


@njit(cache=True, nogil=True)
def _in_order(of, counts, size):  # type: ignore[no-untyped-def]
    """Number classes as they come: what is taken from the first records is then near."""
    number, first = np.empty(size, np.int32), np.empty(size, np.int32)
    held, found = np.empty(size, np.int64), 0
    for one in range(size):
        number[one] = -1
    for i in range(len(of)):
        one = of[i]
        if number[one] < 0:
            number[one] = found
            first[found], held[found] = i, counts[one]
            found += 1
        of[i] = number[one]
    return of, first, held


@njit(forceinline=True)
def _mixed(key):  # type: ignore[no-untyped-def]
    mixed = (key ^ ((key >> 31) & 0x1FFFFFFFF)) * _MIX
    return mixed ^ ((mixed >> 32) & 0xFFFFFFFF)


@njit(forceinline=True)
def _part(key, bits):  # type: ignore[no-untyped-def]
    return (_mixed(key) >> (64 - bits)) & ((1 << bits) - 1)
