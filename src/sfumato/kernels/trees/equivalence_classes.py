"""Equivalence classes: records that are equal in all their cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sfumato.kernels.arrays import Codes, Integers
from sfumato.kernels.compiled import compiled, inlined, inner

_MIX = -7046029254386353131
_PART = 1 << 12
"""Records per part when equal ones are sought: the look-up stays in the fast memory."""
_SMALL = 1 << 14
_DENSE = 4
"""Possible keys per record up to which classes are looked up in a table instead of by a hash."""


@dataclass(frozen=True, eq=False)
class Classes:
    """Records with equal cells: the class of each, the first record and the size of each class."""

    of: Codes
    first: Codes
    counts: Integers


def find_classes(cells: Codes, sizes: Sequence[int], records: Integers | None = None) -> Classes:
    """Classes of equal columns of `cells` (variable, row); exact, without sorting.

    `sizes` says how many different cells each variable has. As many variables as fit are packed
    into one number of 63 bits; where they do not all fit, the class so far is packed with the next.
    `records` says how many records each row stands for; without, one each.
    """
    keys, span = np.zeros(cells.shape[1], np.int64), 1
    start = 0
    for variable, size in enumerate(sizes):
        if span * max(size, 1) >= 1 << 63:
            _pack_cells(cells[start:variable], np.array(sizes[start:variable], np.int64), keys)
            so_far = _group(keys, span)
            keys, span, start = so_far.of.astype(np.int64), len(so_far.first), variable
        span *= max(size, 1)
    _pack_cells(cells[start:], np.array(sizes[start:], np.int64), keys)
    classes = _group(keys, span)
    if records is None:
        return classes
    # Sums of whole numbers in floats are exact below 2**53.
    counts = np.bincount(classes.of, records, len(classes.first)).astype(np.int64)
    return replace(classes, counts=counts)


def number_distinct(codes: Integers) -> tuple[Codes, Codes]:
    """For each number which distinct one it is, and where each distinct one first stands."""
    distinct = _group(codes)
    return distinct.of, distinct.first


def sort_by_class(alike: Classes, *, least: int) -> tuple[Codes, Integers]:
    """The records of classes of at least some size, class after class, and where each begins."""
    large = alike.counts >= least
    starts = np.concatenate([[0], np.cumsum(alike.counts[large])]).astype(np.int64)
    position = np.where(large, np.cumsum(large) - 1, -1)
    return _sort_records(alike.of, position, starts), starts


@compiled(small=_SMALL)
def _sort_records(of, position, starts):  # type: ignore[no-untyped-def]
    order, next_of = np.empty(starts[-1], np.int32), starts.copy()
    for i in range(len(of)):
        to = position[of[i]]
        if to >= 0:
            order[next_of[to]] = i
            next_of[to] += 1
    return order


def _group(keys: Integers, span: int | None = None) -> Classes:
    """Classes of equal keys; `span` is how many there may be, from 0 on, where that is known."""
    if span is not None and span <= _DENSE * len(keys):
        return Classes(*_look_up_keys(keys, span))
    parts = max(1, (len(keys) // _PART).bit_length())
    return Classes(*_group_keys(keys, parts))


@compiled(small=_SMALL)
def _pack_cells(cells, sizes, keys):  # type: ignore[no-untyped-def]
    """Block by block, so that keys stay near while the variables pass."""
    for start in range(0, len(keys), 4096):
        stop = min(start + 4096, len(keys))
        for j in range(len(sizes)):
            size = sizes[j]
            for i in range(start, stop):
                keys[i] = keys[i] * size + cells[j, i]


@compiled(small=_SMALL)
def _look_up_keys(keys, span):  # type: ignore[no-untyped-def]
    """Number equal keys as they come, by a table of all that are possible."""
    number, most = np.full(span, -1, np.int32), min(span, len(keys))
    of, first = np.empty(len(keys), np.int32), np.empty(most, np.int32)
    counts, count = np.zeros(most, np.int64), 0
    for i in range(len(keys)):
        key = keys[i]
        if number[key] < 0:
            number[key] = count
            first[count] = i
            count += 1
        of[i] = number[key]
        counts[of[i]] += 1
    return of, first[:count], counts[:count]


@compiled(small=_SMALL)
def _group_keys(keys, bits):  # type: ignore[no-untyped-def]
    """Spread the keys over parts by a hash, then number equal ones part by part."""
    records, parts = len(keys), 1 << bits
    ends = np.zeros(parts + 1, np.int64)
    for i in range(records):
        ends[_part_of(keys[i], bits) + 1] += 1
    longest, next_of = 0, np.empty(parts, np.int64)
    for part in range(parts):
        longest, next_of[part] = max(longest, ends[part + 1]), ends[part]
        ends[part + 1] += ends[part]
    record = np.empty(records, np.int32)
    key_of = np.empty(records, np.int64)
    for i in range(records):
        part = _part_of(keys[i], bits)
        record[next_of[part]], key_of[next_of[part]] = i, keys[i]
        next_of[part] += 1
    size = 2
    while size < 2 * longest:
        size *= 2
    slots = np.empty(size, np.int32)
    of = np.empty(records, np.int32)
    counts, distinct, count = np.zeros(records, np.int64), np.empty(records, np.int64), 0
    for part in range(parts):
        size = 2
        while size < 2 * (ends[part + 1] - ends[part]):
            size *= 2
        for slot in range(size):
            slots[slot] = -1
        for i in range(ends[part], ends[part + 1]):
            slot = (_mix(key_of[i]) >> 8) & (size - 1)
            while slots[slot] >= 0 and distinct[slots[slot]] != key_of[i]:
                slot = (slot + 1) & (size - 1)
            if slots[slot] < 0:
                slots[slot] = count
                distinct[count] = key_of[i]
                count += 1
            counts[slots[slot]] += 1
            of[record[i]] = slots[slot]
    return _renumber(of, counts, count)


@inner
def _renumber(of, counts, size):  # type: ignore[no-untyped-def]
    """Number classes as they come: what is taken from the first records is then near."""
    number, first = np.empty(size, np.int32), np.empty(size, np.int32)
    sizes, count = np.empty(size, np.int64), 0
    for old in range(size):
        number[old] = -1
    for i in range(len(of)):
        old = of[i]
        if number[old] < 0:
            number[old] = count
            first[count], sizes[count] = i, counts[old]
            count += 1
        of[i] = number[old]
    return of, first, sizes


@inlined
def _mix(key):  # type: ignore[no-untyped-def]
    mixed = (key ^ ((key >> 31) & 0x1FFFFFFFF)) * _MIX
    return mixed ^ ((mixed >> 32) & 0xFFFFFFFF)


@inlined
def _part_of(key, bits):  # type: ignore[no-untyped-def]
    return (_mix(key) >> (64 - bits)) & ((1 << bits) - 1)
