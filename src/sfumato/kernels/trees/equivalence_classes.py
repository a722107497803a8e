"""Equivalence classes: records that are equal in all their cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sfumato.kernels.arrays import AnyIntegers, Codes, Integers, Mask
from sfumato.kernels.compiled import compiled, inlined, inner

_MIX = -7046029254386353131
_PART = 1 << 12
"""Records per part when equal ones are sought: the look-up stays in the fast memory."""
_SMALL = 1 << 14
_DENSE = 4
"""Combinations per record up to which classes are looked up in a table instead of by a hash."""


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
    combinations = math.prod(max(size, 1) for size in sizes)
    if combinations <= _DENSE * cells.shape[1]:
        # Half the time, and no key is kept.
        of, first, counts = _look_up_classes(cells, np.array(sizes, np.int64), combinations)
        return _count_records(Classes(of, first, counts), records)
    return join_classes(zip(cells, sizes, strict=True), cells.shape[1], records)


def join_classes(
    variables: Iterable[tuple[Codes, int]], rows: int, records: Integers | None = None
) -> Classes:
    """The same, one variable after the other: of those before, one number a row is kept.

    So the cells of all variables are never in memory together. A variable is its codes from 0 on
    and how many different ones there are at most.
    """
    keys, span = np.zeros(rows, np.int64), 1
    for codes, width in variables:
        size = max(width, 1)
        if span * size >= 1 << 63:
            so_far = _group(keys)
            keys, span = so_far.of.astype(np.int64), len(so_far.first)
            del so_far
        _add_cells(codes, size, keys)
        span *= size
    if span <= _DENSE * rows:
        of, first, counts = _look_up_classes(keys[None], np.array([span], np.int64), span)
        return _count_records(Classes(of, first, counts), records)
    return _count_records(_group(keys), records)


def _count_records(classes: Classes, records: Integers | None) -> Classes:
    if records is None:
        return classes
    # Sums of whole numbers in floats are exact below 2**53.
    counts = np.bincount(classes.of, records, len(classes.first)).astype(np.int64)
    return replace(classes, counts=counts)


def mark_first_rows(of: AnyIntegers, groups: AnyIntegers) -> Mask:
    """Which rows are the first of their group in their class; both are numbered from 0.

    Examples
    --------
    >>> mark_first_rows(np.array([0, 1, 0, 0]), np.array([5, 5, 5, 2])).tolist()
    [True, True, False, True]
    """
    columns = [column.astype(np.int32, copy=False) for column in (of, groups)]
    widths = [int(column.max(initial=-1)) + 1 for column in columns]
    first: Mask = _mark_first_rows(*columns, *widths)
    return first


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


def _group(keys: Integers) -> Classes:
    parts = max(1, (len(keys) // _PART).bit_length())
    return Classes(*_group_keys(keys, parts))


@compiled(small=_SMALL)
def _add_cells(cells, size, keys):  # type: ignore[no-untyped-def]
    for i in range(len(keys)):
        keys[i] = keys[i] * size + cells[i]


@compiled(small=_SMALL)
def _look_up_classes(cells, sizes, combinations):  # type: ignore[no-untyped-def]
    """Number classes as they come, by a table of all combinations."""
    records = cells.shape[1]
    number, of = np.full(combinations, -1, np.int32), np.empty(records, np.int32)
    most, count = min(combinations, records), 0
    first, counts = np.empty(most, np.int32), np.zeros(most, np.int64)
    for i in range(records):
        key = 0
        for j in range(len(sizes)):
            key = key * sizes[j] + cells[j, i]
        if number[key] < 0:
            number[key], first[count] = count, i
            count += 1
        of[i] = number[key]
        counts[of[i]] += 1
    return of, first[:count].copy(), counts[:count].copy()


@compiled(small=_SMALL)
def _mark_first_rows(of, groups, classes, count):  # type: ignore[no-untyped-def]
    """Group after group: a class remembers the last group that it was seen in."""
    next_of = np.zeros(count + 1, np.int64)
    for i in range(len(groups)):
        next_of[groups[i] + 1] += 1
    for group in range(count):
        next_of[group + 1] += next_of[group]
    order = np.empty(len(groups), np.int32)
    for i in range(len(groups)):
        order[next_of[groups[i]]] = i
        next_of[groups[i]] += 1
    latest, is_first = np.full(classes, -1, np.int32), np.zeros(len(of), np.bool_)
    for row in order:
        if latest[of[row]] != groups[row]:
            latest[of[row]], is_first[row] = groups[row], True
    return is_first


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
    # Of the distinct keys, only those of one part are in memory at a time.
    counts, distinct, count = np.zeros(records, np.int32), np.empty(longest, np.int64), 0
    for part in range(parts):
        size, before = 2, count
        while size < 2 * (ends[part + 1] - ends[part]):
            size *= 2
        for slot in range(size):
            slots[slot] = -1
        for i in range(ends[part], ends[part + 1]):
            slot = (_mix(key_of[i]) >> 8) & (size - 1)
            while slots[slot] >= 0 and distinct[slots[slot] - before] != key_of[i]:
                slot = (slot + 1) & (size - 1)
            if slots[slot] < 0:
                slots[slot] = count
                distinct[count - before] = key_of[i]
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
