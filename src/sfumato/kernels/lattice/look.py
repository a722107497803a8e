"""What a group of rows says about the protection of its members: compiled part of `lattice`.

Few rows have a protective peer whatever is known. Once a row has none for some combination, no
share can be less: only a smaller combination without any is news, and a group has one for that
row only if the sensitive variable does not vary in it. So counts are taken only for variables in
which some row of the group is still `open`, that is, has had protective peers so far.

`least` is a triple: protective peers and all peers where their share is least, the key of that
combination (rows x sensitive variables), and the open variables of each row as bits.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sfumato.kernels.lattice.compiled import BORROWING


@njit(**BORROWING)
def look(order, low, high, base, branch, key, table, tree, limits, scratch, least, more):  # type: ignore[no-untyped-def]
    """Compare a group's protection with the least so far; the variables that vary in it, as bits.

    Only variables of `base` are looked at: those that are sensitive, and those to split by.
    """
    codes, weights = table
    columns, results, held, _ = scratch
    _, _, p_above, p_below, q_above, q_below, _ = limits
    asked = len(more[0]) + len(more[1]) + len(more[2]) > 0
    total, opened = _sum(order, low, high, weights, least[2])
    counted = base if asked else base & opened
    count = listed(counted & tree[5], tree[0], columns, results)
    vary = _vary(order, low, high, base & (branch | tree[5]), codes)
    if count:
        _count(order, low, high, count, codes, weights, columns, held)
        _compare(order, (low, high, total, key), base, count, codes, scratch, least)
        if asked:
            bounds = (p_above * total // p_below, q_above * total // q_below)
            group = (low, high, total, key)
            _compare_more(order, group, count, bounds, codes, scratch, more)
        _clear(order, low, high, count, codes, columns, held)
    same = base & tree[5] & ~vary
    if same:
        count = listed(same, tree[0], columns, results)
        for at in range(low, high):
            expose(order[at], total, key, count, columns, results, least)
    return vary


@njit(**BORROWING)
def listed(base, result, columns, results):  # type: ignore[no-untyped-def]
    """The sensitive variables of `base`, and how many they are."""
    count = 0
    for variable in range(len(result)):
        if (base >> variable) & 1 and result[variable] >= 0:
            columns[count], results[count] = variable, result[variable]
            count += 1
    return count


@njit(**BORROWING)
def _sum(order, low, high, weights, still):  # type: ignore[no-untyped-def]
    """Records of a group, and the variables in which some row of it is open."""
    total, opened = np.int64(0), np.int64(0)
    for at in range(low, high):
        row = order[at]
        total += weights[row]
        opened |= still[row]
    return total, opened


@njit(**BORROWING)
def _vary(order, low, high, alike, codes):  # type: ignore[no-untyped-def]
    """Which of the variables `alike` vary in the group; most do within a few rows."""
    vary, first = np.int64(0), order[low]
    for at in range(low + 1, high):
        if alike == 0:
            break
        row, left, variable = order[at], alike, 0
        while left:
            if left & 1 and codes[row, variable] != codes[first, variable]:
                vary |= np.int64(1) << variable
            left >>= 1
            variable += 1
        alike &= ~vary
    return vary


@njit(**BORROWING)
def _count(order, low, high, count, codes, weights, columns, held):  # type: ignore[no-untyped-def]
    """Records of a group by code of every listed variable."""
    for at in range(low, high):
        row = order[at]
        weight = weights[row]
        for item in range(count):
            held[codes[row, columns[item]]] += weight


@njit(**BORROWING)
def _compare(order, group, base, count, codes, scratch, least):  # type: ignore[no-untyped-def]
    """Keep the share of protective peers where it is the least so far, in rows that are open."""
    low, high, total, key = group
    columns, results, held, _ = scratch
    share, word, still = least
    for at in range(low, high):
        row = order[at]
        opened = still[row] & base
        if opened == 0:
            continue
        for item in range(count):
            if not (opened >> columns[item]) & 1:
                continue
            here = results[item]
            against = total - held[codes[row, columns[item]]]
            gap = against * np.int64(share[row, here, 1]) - np.int64(share[row, here, 0]) * total
            if gap < 0 or (gap == 0 and key < word[row, here]):
                share[row, here, 0], share[row, here, 1] = against, total
                word[row, here] = key
                if against == 0:
                    still[row] &= ~(np.int64(1) << np.int64(columns[item]))


@njit(**BORROWING)
def _compare_more(order, group, count, bounds, codes, scratch, more):  # type: ignore[no-untyped-def]
    """Keep the fewest protective peers, the fewest alternatives and the smallest breach."""
    low, high, total, key = group
    few, rare = bounds
    columns, results, held, likely = scratch
    fewest, alternatives, breach = more
    for item in range(count):
        likely[item] = 0
    if len(alternatives):
        # A code counts once: its number is made negative when it is met.
        for at in range(low, high):
            row = order[at]
            for item in range(count):
                code = codes[row, columns[item]]
                if held[code] > 0:
                    likely[item] += held[code] > rare
                    held[code] = -held[code]
    for at in range(low, high):
        row = order[at]
        for item in range(count):
            here, same = results[item], np.int64(abs(held[codes[row, columns[item]]]))
            if len(fewest):
                fewest[row, here] = min(fewest[row, here], total - same)
            if len(alternatives):
                alternatives[row, here] = min(alternatives[row, here], likely[item] - (same > rare))
            if len(breach) and total - same <= few:
                breach[row, here] = min(breach[row, here], key)


@njit(**BORROWING)
def _clear(order, low, high, count, codes, columns, held):  # type: ignore[no-untyped-def]
    """Forget the counts."""
    if (high - low) * count > len(held):
        for code in range(len(held)):
            held[code] = 0
        return
    for at in range(low, high):
        row = order[at]
        for item in range(count):
            held[codes[row, columns[item]]] = 0


@njit(**BORROWING)
def expose(row, total, key, count, columns, results, least):  # type: ignore[no-untyped-def]
    """Nobody protects a row in the listed variables: keep the combination if it is the smallest."""
    share, word, still = least
    opened = still[row]
    for item in range(count):
        here = results[item]
        if key < word[row, here] or (opened >> columns[item]) & 1:
            share[row, here, 0], share[row, here, 1] = 0, total
            word[row, here] = key
            still[row] &= ~(np.int64(1) << np.int64(columns[item]))


@njit(**BORROWING)
def look_at_two(one, other, base, branch, key, table, tree, limits, least):  # type: ignore[no-untyped-def]
    """Two rows, to the end: any variable in which they differ tells them apart."""
    codes, weights = table
    result, bit, step = tree[0], tree[1], np.int64(1) << limits[6]
    nearest, second = -1, -1
    for variable in range(len(result)):
        if ((base & branch) >> variable) & 1 and codes[one, variable] != codes[other, variable]:
            if nearest < 0 or bit[variable] < bit[nearest]:
                nearest, second = variable, nearest
            elif second < 0 or bit[variable] < bit[second]:
                second = variable
    mine, theirs = np.int64(weights[one]), np.int64(weights[other])
    for variable in range(len(result)):
        here = result[variable]
        if here < 0 or not (base >> variable) & 1:
            continue
        if codes[one, variable] == codes[other, variable]:
            _keep(one, variable, here, 0, mine + theirs, key, least)
            _keep(other, variable, here, 0, mine + theirs, key, least)
            continue
        apart = second if nearest == variable else nearest
        if apart < 0:
            _keep(one, variable, here, theirs, mine + theirs, key, least)
            _keep(other, variable, here, mine, mine + theirs, key, least)
        else:
            after = (key + step) | bit[apart]
            _keep(one, variable, here, 0, mine, after, least)
            _keep(other, variable, here, 0, theirs, after, least)


@njit(**BORROWING)
def _keep(row, variable, here, against, total, key, least):  # type: ignore[no-untyped-def]
    """Keep one share of protective peers if it is the least so far."""
    share, word, still = least
    if not (still[row] >> variable) & 1:
        if against == 0 and key < word[row, here]:
            share[row, here, 1] = total
            word[row, here] = key
        return
    gap = against * np.int64(share[row, here, 1]) - np.int64(share[row, here, 0]) * total
    if gap < 0 or (gap == 0 and key < word[row, here]):
        share[row, here, 0], share[row, here, 1] = against, total
        word[row, here] = key
        if against == 0:
            still[row] &= ~(np.int64(1) << np.int64(variable))


@njit(**BORROWING)
def settle(row, key, count, results, more):  # type: ignore[no-untyped-def]
    """A row that only fits itself has no protective peer and no alternative."""
    fewest, alternatives, breach = more
    for item in range(count):
        here = results[item]
        if len(fewest):
            fewest[row, here] = 0
        if len(alternatives):
            alternatives[row, here] = 0
        if len(breach):
            breach[row, here] = min(breach[row, here], key)
