"""What a group of rows says about the protection of its members: compiled part of `lattice`."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def look(order, low, high, base, branch, key, table, tree, limits, scratch, least, more):  # type: ignore[no-untyped-def]
    """Compare a group's protection with the least so far; the variables that vary in it, as bits.

    Only variables of `base` are looked at: those that are sensitive, and those to split by.
    """
    codes, weights = table
    columns, results, held, _ = scratch
    _, _, p_above, p_below, q_above, q_below, _ = limits
    count, every = listed(base, branch, tree[0], columns, results)
    total = _count(order, low, high, every, codes, weights, columns, held)
    _compare(order, low, high, count, total, key, codes, columns, results, held, least)
    if len(more[0]) + len(more[1]) + len(more[2]):
        bounds = (p_above * total // p_below, q_above * total // q_below)
        group = (low, high, total, key)
        _compare_more(order, group, count, bounds, codes, scratch, more)
    return _clear(order, low, high, every, total, codes, columns, held)


@njit(cache=True, nogil=True)
def listed(base, branch, result, columns, results):  # type: ignore[no-untyped-def]
    """The sensitive variables of `base`, then others to split by; how many, and in all."""
    count = 0
    for variable in range(len(result)):
        if (base >> variable) & 1 and result[variable] >= 0:
            columns[count], results[count] = variable, result[variable]
            count += 1
    every = count
    for variable in range(len(result)):
        if ((base & branch) >> variable) & 1 and result[variable] < 0:
            columns[every] = variable
            every += 1
    return count, every


@njit(cache=True, nogil=True)
def _count(order, low, high, every, codes, weights, columns, held):  # type: ignore[no-untyped-def]
    """Records of a group by code of every listed variable, and in all."""
    total = np.int64(0)
    for at in range(low, high):
        row = order[at]
        weight = weights[row]
        total += weight
        for item in range(every):
            held[codes[row, columns[item]]] += weight
    return total


@njit(cache=True, nogil=True)
def _compare(order, low, high, count, total, key, codes, columns, results, held, least):  # type: ignore[no-untyped-def]
    """Keep the share of protective peers where it is the least so far."""
    for at in range(low, high):
        row = order[at]
        for item in range(count):
            here = results[item]
            against = total - held[codes[row, columns[item]]]
            gap = against * np.int64(least[row, here, 1]) - np.int64(least[row, here, 0]) * total
            if gap < 0 or (gap == 0 and key < least[row, here, 2]):
                least[row, here, 0] = against
                least[row, here, 1] = total
                least[row, here, 2] = key


@njit(cache=True, nogil=True)
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
    if len(alternatives):
        row = order[low]
        for item in range(count):
            code = codes[row, columns[item]]
            held[code] = -held[code]  # the one that is looked at again


@njit(cache=True, nogil=True)
def _clear(order, low, high, every, total, codes, columns, held):  # type: ignore[no-untyped-def]
    """Forget the counts; the listed variables that vary in the group, as bits."""
    vary = np.int64(0)
    row = order[low]
    for item in range(every):
        if held[codes[row, columns[item]]] != total:
            vary |= np.int64(1) << np.int64(columns[item])
    if (high - low) * every > len(held):
        for code in range(len(held)):
            held[code] = 0
        return vary
    for at in range(low, high):
        row = order[at]
        for item in range(every):
            held[codes[row, columns[item]]] = 0
    return vary


@njit(cache=True, nogil=True)
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
            _keep(one, here, 0, mine + theirs, key, least)
            _keep(other, here, 0, mine + theirs, key, least)
            continue
        apart = second if nearest == variable else nearest
        if apart < 0:
            _keep(one, here, theirs, mine + theirs, key, least)
            _keep(other, here, mine, mine + theirs, key, least)
        else:
            after = (key + step) | bit[apart]
            _keep(one, here, 0, mine, after, least)
            _keep(other, here, 0, theirs, after, least)


@njit(cache=True, nogil=True)
def _keep(row, here, against, total, key, least):  # type: ignore[no-untyped-def]
    """Keep one share of protective peers if it is the least so far."""
    gap = against * np.int64(least[row, here, 1]) - np.int64(least[row, here, 0]) * total
    if gap < 0 or (gap == 0 and key < least[row, here, 2]):
        least[row, here, 0] = against
        least[row, here, 1] = total
        least[row, here, 2] = key


@njit(cache=True, nogil=True)
def settle(row, weight, key, count, results, least, more):  # type: ignore[no-untyped-def]
    """A row that only fits itself has no protective peer and no alternative."""
    fewest, alternatives, breach = more
    for item in range(count):
        here = results[item]
        if least[row, here, 0] != 0 or key < least[row, here, 2]:
            least[row, here, 0] = 0
            least[row, here, 1] = weight
            least[row, here, 2] = key
        if len(fewest):
            fewest[row, here] = 0
        if len(alternatives):
            alternatives[row, here] = 0
        if len(breach):
            breach[row, here] = min(breach[row, here], key)
