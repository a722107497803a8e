"""Groups of few rows, followed to the end row by row: compiled part of `lattice`.

A set of the group's rows is a word, a bit each. The peers of a row in a combination are those who
are equal to it in every variable: one `and` per variable that becomes known. So a row needs no
sorting, and it is left alone as soon as nothing further down could be news to it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sfumato.kernels.lattice.compiled import BORROWING

FEW = 63
"""Rows that fit into a word."""


@njit(**BORROWING)
def few(order, low, high, base, branch, key, table, tree, limits, room, least):  # type: ignore[no-untyped-def]
    """Follow each row of a group through its combination and all that may be added to it."""
    codes, weights = table
    equal, planes, holders, _ = room
    used = base & (branch | tree[5])
    while used:
        variable = _lowest(used)
        used &= used - 1
        for at in range(low, high):
            holders[codes[order[at], variable]] |= np.int64(1) << (at - low)
        for at in range(low, high):
            equal[at - low, variable] = holders[codes[order[at], variable]]
        for at in range(low, high):
            holders[codes[order[at], variable]] = 0
    heavy = np.int64(0)
    for at in range(low, high):
        heavy |= weights[order[at]]
    digits = 0
    while heavy >> digits:
        planes[digits] = 0
        for at in range(low, high):
            planes[digits] |= np.int64((weights[order[at]] >> digits) & 1) << (at - low)
        digits += 1
    everybody = (np.int64(1) << (high - low)) - 1
    for at in range(low, high):
        start = (everybody, base & tree[5], branch & base, key)
        _follow(order[at], equal[at - low], start, digits, tree, limits, room, least)


@njit(**BORROWING)
def _follow(row, equal, start, digits, tree, limits, room, least):  # type: ignore[no-untyped-def]
    """One row through all combinations of the variables to add, those that change nothing apart."""
    bit, step, stack = tree[1], np.int64(1) << limits[6], room[3]
    peers, pending, branch, key = start
    depth = 0
    while True:
        node = (peers, pending, branch, key)
        pending, todo = _visit(row, equal, node, digits, tree, step, room, least)
        stack[depth, 0], stack[depth, 1] = peers, pending
        stack[depth, 2], stack[depth, 3] = key, todo
        while depth >= 0 and stack[depth, 3] == 0:
            depth -= 1
        if depth < 0:
            return
        todo = stack[depth, 3]
        variable = _lowest(todo)
        branch = todo & (todo - 1)
        stack[depth, 3] = branch
        peers = stack[depth, 0] & equal[variable]
        pending = stack[depth, 1] & ~(np.int64(1) << variable)
        key = (stack[depth, 2] + step) | bit[variable]
        depth += 1


@njit(**BORROWING)
def _visit(row, equal, node, digits, tree, step, room, least):  # type: ignore[no-untyped-def]
    """Compare with the least so far; variables in which there may be news below, and to add."""
    share, word, still = least
    peers, pending, branch, key = node
    left, total = pending, np.int64(0)
    while left:
        variable = _lowest(left)
        one = left & -left
        left ^= one
        here, others = tree[0][variable], peers & ~equal[variable]
        opened = still[row] & one
        if opened or (others == 0 and key < word[row, here]):
            if total == 0:
                total = _records(peers, digits, room[1])
            against = _records(others, digits, room[1])
            gap = against * np.int64(share[row, here, 1]) - np.int64(share[row, here, 0]) * total
            if gap < 0 or (gap == 0 and key < word[row, here]):
                share[row, here, 0], share[row, here, 1] = against, total
                word[row, here] = key
                if others == 0:
                    still[row] &= ~one
        if others == 0 or (not opened and word[row, here] <= key + step):
            pending ^= one  # whatever is added, the combination is larger
    todo = np.int64(0)
    left = branch if pending else np.int64(0)
    while left:
        one = left & -left
        if peers & ~equal[_lowest(left)] and pending & ~one:
            todo |= one
        left ^= one
    return pending, todo


@njit(**BORROWING)
def _records(rows, digits, planes):  # type: ignore[no-untyped-def]
    """How many records a set of rows is; `planes` has the rows by binary digit of their count."""
    total = np.int64(0)
    for digit in range(digits):
        total += np.int64(_ones(rows & planes[digit])) << digit
    return total


@njit(**BORROWING)
def _lowest(bits):  # type: ignore[no-untyped-def]
    """Place of the lowest bit."""
    return np.int64(_ones((bits & -bits) - 1))


@njit(**BORROWING)
def _ones(bits):  # type: ignore[no-untyped-def]
    """How many bits are set (the compiler knows this pattern)."""
    bits = np.uint64(bits)
    bits -= (bits >> np.uint64(1)) & np.uint64(0x5555555555555555)
    bits = (bits & np.uint64(0x3333333333333333)) + (
        (bits >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (bits * np.uint64(0x0101010101010101)) >> np.uint64(56)
