"""The walk through all combinations of variables: compiled part of `lattice`.

A combination is reached from the one without its last variable, by splitting each group of equal
rows once more. Groups are followed to the end one at a time, in place, so that memory does not
grow with the number of combinations. Counts of a combination together with a sensitive variable
are taken anew wherever they are needed: that is one pass over a group that is in the cache anyway,
while keeping them would need an array per combination.

Nothing is lost by what is left out (both rules need a non-empty combination, which holds below
the first variable):

- a variable that does not vary in a group splits nothing; every combination further down has the
  same counts without it, and fewer variables;
- a group of one row keeps its count whatever else becomes known: nobody protects it, and the
  combination that got there is smaller than all further down.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sfumato.kernels.lattice.compiled import BORROWING
from sfumato.kernels.lattice.few import FEW, few
from sfumato.kernels.lattice.look import expose, listed, look, look_at_two, settle

_LOW, _HIGH, _BASE, _BRANCH, _SPENT, _KEY, _VARY, _TODO, _PART, _END, _FIELDS = range(11)
"""Of a level: its group's rows, the variables that may still vary and those it may be split by,
cost and key of the combination; the variables that do vary, splits to do, parts that wait."""
_TWO = 2
"""Rows that need no walk."""


@njit(cache=True, nogil=True)
def split_first(column):  # type: ignore[no-untyped-def]
    """All rows, those with equal codes together, and where each code starts."""
    size = column.max() + 1
    starts = np.zeros(size + 1, np.int64)
    for row in range(len(column)):
        starts[column[row] + 1] += 1
    for code in range(size):
        starts[code + 1] += starts[code]
    order = np.empty(len(column), np.uint32)
    place = starts[:-1].copy()
    for row in range(len(column)):
        order[place[column[row]]] = row
        place[column[row]] += 1
    return order, starts


@njit(cache=True, nogil=True)
def walk(groups, order, spare, first, table, tree, limits, least, more):  # type: ignore[no-untyped-def]
    """Follow groups that share the value of variable `first` through all that may be added to it.

    groups : start and end in `order` of each group, a row each; no two overlap.
    table : codes, no two variables having one in common, and the records that each row is.
    tree : `result` of each variable (-1 if not sensitive), its `bit` and `cost`, how many of the
        variables may be known (these come first), how many codes there are, and the sensitive
        variables as bits.
    limits : most variables, highest cost, p and q as fractions, the shift of a size in a key.
    least : shares, keys and open variables of each row, as `lattice_look` has them.
    more : fewest protective peers, fewest alternatives, key of a breach; empty if not asked for.
    """
    known, size, width = tree[3], tree[4], table[0].shape[1]
    level = np.zeros((known + 1, _FIELDS), np.int64)
    scratch = (
        np.empty(width, np.uint32),
        np.empty(width, np.uint32),
        np.zeros(size, np.int32),
        np.empty(width, np.int64),
    )
    # The splits on the way to a combination are by different variables: a code is in one of them.
    split = (np.empty(size, np.uint32), np.empty(size, np.int64), np.empty((size, 2), np.int64))
    # What `few` needs: who is equal in each variable, binary digits of counts, holders, a stack.
    room = (
        np.empty((FEW, width), np.int64),
        np.empty(32, np.int64),
        np.zeros(size, np.int64),
        np.empty((known + 1, 4), np.int64),
    )
    rows = (order, spare)
    _walk(groups, rows, first, table, tree, limits, level, scratch, split, room, least, more)


@njit(**BORROWING)
def _walk(groups, rows, first, table, tree, limits, level, scratch, split, room, least, more):  # type: ignore[no-untyped-def]
    """`walk`, once there is room to work in."""
    order, spare = rows
    parts, width = split[2], table[0].shape[1]
    asked = len(more[0]) + len(more[1]) + len(more[2]) > 0
    for group in range(len(groups)):
        depth, fresh = 0, True
        level[0, _LOW], level[0, _HIGH] = groups[group, 0], groups[group, 1]
        _enter(level, 0, first, np.int64(0), np.int64(0), (np.int64(1) << width) - 1, tree, limits)
        while depth >= 0:
            low, high, key = level[depth, _LOW], level[depth, _HIGH], level[depth, _KEY]
            start = level[depth - 1, _END] if depth else 0
            if fresh:
                base, branch, vary = level[depth, _BASE], level[depth, _BRANCH], np.int64(0)
                if high - low == _TWO and not asked:
                    one, other = order[low], order[low + 1]
                    look_at_two(one, other, base, branch, key, table, tree, limits, least)
                elif high - low <= FEW and not asked:
                    few(order, low, high, base, branch, key, table, tree, limits, room, least)
                else:
                    vary = look(
                        order,
                        low,
                        high,
                        base,
                        branch,
                        key,
                        table,
                        tree,
                        limits,
                        scratch,
                        least,
                        more,
                    )
                level[depth, _VARY], level[depth, _TODO] = vary, vary & branch
                level[depth, _PART] = level[depth, _END] = start
            fresh = level[depth, _PART] < level[depth, _END]
            if fresh:
                part = level[depth, _PART]
                level[depth, _PART] += 1
                depth += 1
                level[depth, _LOW], level[depth, _HIGH] = parts[part, 0], parts[part, 1]
            elif level[depth, _TODO] == 0:
                depth -= 1
            else:
                variable = _next(level, depth)
                spent, vary = level[depth, _SPENT], level[depth, _VARY]
                _enter(level, depth + 1, variable, spent, key, vary, tree, limits)
                count = listed(level[depth + 1, _BASE], tree[0], scratch[0], scratch[1])
                group_rows = (low, high, level[depth + 1, _KEY])
                level[depth, _PART] = start
                level[depth, _END] = _split(
                    order,
                    spare,
                    group_rows,
                    variable,
                    count,
                    table,
                    scratch,
                    split,
                    start,
                    least,
                    more,
                )


@njit(**BORROWING)
def _next(level, depth):  # type: ignore[no-untyped-def]
    """The next variable to split by; it is crossed out."""
    todo, variable = level[depth, _TODO], 0
    level[depth, _TODO] = todo & (todo - 1)
    while not (todo >> variable) & 1:
        variable += 1
    return variable


@njit(**BORROWING)
def _enter(level, depth, variable, spent, key, vary, tree, limits):  # type: ignore[no-untyped-def]
    """What the parts of a split share: combination, cost, variables left, those to split by."""
    _, bit, cost, known, _, _ = tree
    most, dearest, _, _, _, _, shift = limits
    spent += cost[variable]
    key = (key + (np.int64(1) << shift)) | bit[variable]
    branch = np.int64(0)
    if key >> shift < most:
        for other in range(variable + 1, known):
            if spent + cost[other] <= dearest:
                branch |= np.int64(1) << other
    level[depth, _SPENT], level[depth, _KEY], level[depth, _BRANCH] = spent, key, branch
    level[depth, _BASE] = vary & ~(np.int64(1) << variable)


@njit(**BORROWING)
def _split(order, spare, group, variable, count, table, scratch, split, start, least, more):  # type: ignore[no-untyped-def]
    """Put rows with equal codes together; rows on their own are settled, other parts are listed."""
    low, high, key = group
    codes, weights = table
    columns, results, held, _ = scratch
    asked = len(more[0]) + len(more[1]) + len(more[2]) > 0
    touched, place, parts = split
    seen = 0
    for at in range(low, high):
        code = codes[order[at], variable]
        if held[code] == 0:
            touched[seen] = code
            seen += 1
        held[code] += 1
    free = low
    for item in range(seen):
        code = touched[item]
        if held[code] > 1:
            parts[start, 0] = place[code] = free
            free += held[code]
            parts[start, 1] = free
            start += 1
    for at in range(low, high):
        row = order[at]
        code = codes[row, variable]
        if held[code] > 1:
            spare[place[code]] = row
            place[code] += 1
        else:
            spare[free] = row
            free += 1
            expose(row, weights[row], key, count, columns, results, least)
            if asked:
                settle(row, key, count, results, more)
    for at in range(low, high):
        order[at] = spare[at]
    for item in range(seen):
        held[touched[item]] = 0
    return start


@njit(cache=True, nogil=True)
def tally_groups(order, ends, codes, weights, size, q_above, q_below):  # type: ignore[no-untyped-def]
    """Of each row's group: its records, those with the row's code, and other likely codes.

    `order` has equal groups together, which end at `ends`.
    """
    rows = len(order)
    peers, same = np.empty(rows, np.int32), np.empty(rows, np.int32)
    alternatives = np.empty(rows, np.int32)
    held, touched = np.zeros(size, np.int64), np.empty(size, np.int64)
    low = 0
    for high in ends:
        total, seen, likely = np.int64(0), 0, 0
        for row in order[low:high]:
            if held[codes[row]] == 0:
                touched[seen] = codes[row]
                seen += 1
            held[codes[row]] += weights[row]
            total += weights[row]
        for code in touched[:seen]:
            likely += held[code] * q_below > q_above * total
        for row in order[low:high]:
            peers[row], same[row] = total, held[codes[row]]
            alternatives[row] = likely - (same[row] * q_below > q_above * total)
        for code in touched[:seen]:
            held[code] = 0
        low = high
    return peers, same, alternatives
