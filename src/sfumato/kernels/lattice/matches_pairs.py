"""Every record against every other: compiled part of `matches`.

For one record, each other becomes a bit mask of the variables on which it matches. How many
others have which mask is all that needs to be known: summed over supersets (one pass per
variable), it gives the matches of every combination of variables at once.
"""

from __future__ import annotations

import numpy as np
from numba import njit

BLOCK = 2048
"""Others that are compared at a time: their masks stay in the fastest cache."""
(PEERS, SAME, ALTERNATIVES, LEAST_PROTECTIVE, LEAST_PEERS, LEAST_MASK, FEWEST_PROTECTIVE,
 FEWEST_ALTERNATIVES, BREACH, FIELDS) = range(10)  # fmt: skip
"""What is found for each record and sensitive variable."""


@njit(cache=True, nogil=True)
def masks_of(row, table, sure, possible, boxed):  # type: ignore[no-untyped-def]
    """On which variables each other record matches a row for sure, and possibly.

    `possible` is only filled where some cells stand for several values (`boxed`).
    """
    low, high, sure_begin, sure_end, possible_begin, possible_end, cells, offsets, pairs = table
    one = np.ones_like(sure[:1])
    for first in range(0, len(sure), BLOCK):
        last = min(first + BLOCK, len(sure))
        # Slices, and no branches within loops: so the compiler compares several at a time.
        surely, possibly = sure[first:last], possible[first:last]
        surely[:] = 0
        if boxed:
            possibly[:] = 0
        for at in range(len(low)):
            begin, end = low[at, first:last], high[at, first:last]
            one[0] = 1 << at
            if cells[at]:
                start = offsets[at] + low[at, row] * cells[at]
                held = pairs[start : start + cells[at]]
                _looked_up(begin, held, one[0], surely, possibly)
                continue
            _compared(begin, end, sure_begin[at, row], sure_end[at, row], one[0], surely)
            if boxed:
                most, least = possible_begin[at, row], possible_end[at, row]
                _compared(begin, end, most, least, one[0], possibly)


@njit(cache=True, nogil=True)
def _compared(begin, end, most, least, bit, masks):  # type: ignore[no-untyped-def]
    """Set the bit where a cell begins early enough and ends late enough."""
    for at in range(len(masks)):
        masks[at] |= bit * ((begin[at] <= most) & (end[at] >= least))


@njit(cache=True, nogil=True)
def _looked_up(cells, held, bit, surely, possibly):  # type: ignore[no-untyped-def]
    """Set the bits where a listed cell contains the row's, and where both share a code."""
    for at in range(len(cells)):
        surely[at] |= bit * (held[cells[at]] & 1)
        possibly[at] |= bit * (held[cells[at]] >> 1)


@njit(cache=True, nogil=True)
def _summed(counts, columns):  # type: ignore[no-untyped-def]
    """Counts by mask become counts of all supersets of each mask, in place."""
    for at in range(columns):
        step = 1 << at
        for base in range(0, len(counts), 2 * step):
            for mask in range(base, base + step):
                counts[mask] += counts[mask + step]


@njit(cache=True, nogil=True)
def by_sums(rows, table, weights, asked, combinations, values, masks, out, exact):  # type: ignore[no-untyped-def]
    """What protects some rows; all counts of a row are held at once, so for few variables only.

    asked : the sensitive columns; for each everything that may be known but itself; whether cells
        stand for several values; whether alternatives are followed through all combinations; p
        and q as fractions.
    combinations : in the order in which they are preferred.
    values : of each sensitive variable (a row) the value of each record; how many values there
        are, 0 where they cannot be told apart; the records in the order of their values, and
        where each value starts.
    masks : two arrays of a mask per record, to work in.
    out : rows x sensitive variables x fields, `exact` by row; both filled.
    """
    sensitive, top, boxed, follow, p_above, p_below, q_above, q_below = asked
    codes, sizes, order, starts = values
    sure, possible = masks
    columns = len(table[0])
    total, free = np.zeros(1 << columns, np.int32), np.zeros(1 << columns, np.int32)
    held = np.zeros((2, sizes.max()), np.int64)
    room = (1 << columns) if follow else 1
    sums = np.zeros(room, np.int32), np.zeros(room, np.int32), np.zeros(room, np.int64)
    for number in range(len(rows)):
        row = rows[number]
        masks_of(row, table, sure, possible, boxed)
        fits = possible if boxed else sure
        if boxed:
            exact[number] = agree(sure, possible)
        total[:] = 0
        for other in range(len(sure)):
            total[fits[other]] += weights[other]
        _summed(total, columns)
        for at in range(len(sensitive)):
            bit = 1 << sensitive[at]
            if boxed:
                free[:] = 0
                for other in range(len(sure)):
                    if not possible[other] & bit:
                        free[sure[other]] += weights[other]
                _summed(free, columns)
            _least(
                total, free, bit, boxed, top[at], combinations, p_above, p_below, out[number, at]
            )
            if sizes[at] == 0:
                out[number, at, ALTERNATIVES] = out[number, at, FEWEST_ALTERNATIVES] = -1
                continue
            seen, shares = (sure, fits, weights), (q_above, q_below)
            found = alternatives(row, seen, codes[at], sizes[at], top[at], shares, held)
            out[number, at, ALTERNATIVES] = out[number, at, FEWEST_ALTERNATIVES] = found
            if follow:
                listed = order[at], starts[at, : sizes[at] + 1]
                out[number, at, FEWEST_ALTERNATIVES] = _fewest(
                    codes[at, row], seen, listed, bit, combinations, shares, total, sums
                )


@njit(cache=True, nogil=True)
def agree(sure, possible):  # type: ignore[no-untyped-def]
    """Whether every possible match is a sure one."""
    different = 0
    for other in range(len(sure)):
        different += sure[other] != possible[other]
    return different == 0


@njit(cache=True, nogil=True)
def _least(total, free, bit, boxed, top, combinations, p_above, p_below, out):  # type: ignore[no-untyped-def]
    """The least protection over all combinations, and the one that attains it."""
    out[SAME] = total[top | bit]
    out[PEERS] = out[SAME] + free[top] if boxed else total[top]
    protective, peers, mask, breach = np.int64(1), np.int64(0), np.int64(0), np.int64(0)
    fewest = np.int64(1) << 62
    for one in combinations:
        if one & bit:
            continue
        alike = np.int64(total[one | bit])
        others = np.int64(free[one]) if boxed else total[one] - alike
        all_ = alike + others
        if others * peers < protective * all_:
            protective, peers, mask = others, all_, one
        fewest = min(fewest, others)
        if breach == 0 and others * p_below <= p_above * all_:
            breach = one
    out[LEAST_PROTECTIVE], out[LEAST_PEERS], out[LEAST_MASK] = protective, peers, mask
    out[FEWEST_PROTECTIVE], out[BREACH] = fewest, breach


@njit(cache=True, nogil=True)
def alternatives(row, seen, codes, size, top, shares, held):  # type: ignore[no-untyped-def]
    """Other values that more than a share q of the peers have for sure, with everything known."""
    sure, fits, weights = seen
    q_above, q_below = shares
    held[:, :size] = 0
    peers = np.int64(0)
    for other in range(len(sure)):
        if fits[other] & top == top:
            held[1, codes[other]] += weights[other]
            peers += weights[other]
            if sure[other] & top == top:
                held[0, codes[other]] += weights[other]
    found = 0
    for code in range(size):
        surely = held[0, code]
        if code != codes[row]:
            found += surely * q_below > q_above * (surely + peers - held[1, code])
    return found


@njit(cache=True, nogil=True)
def _fewest(own, seen, listed, bit, combinations, shares, total, sums):  # type: ignore[no-untyped-def]
    """The least number of other values that more than a share q have, over all combinations."""
    sure, fits, weights = seen
    order, starts = listed
    surely, possibly, count = sums
    columns = 0
    while 1 << columns < len(total):
        columns += 1
    count[:] = 0
    for code in range(len(starts) - 1):
        if code == own:
            continue
        surely[:] = 0
        possibly[:] = 0
        for place in range(starts[code], starts[code + 1]):
            other = order[place]
            surely[sure[other]] += weights[other]
            possibly[fits[other]] += weights[other]
        _summed(surely, columns)
        _summed(possibly, columns)
        for one in combinations:
            number = np.int64(surely[one])
            rest = np.int64(total[one]) - possibly[one]
            count[one] += number * shares[1] > shares[0] * (number + rest)
    fewest = np.int64(1) << 62
    for one in combinations:
        if not one & bit:
            fewest = min(fewest, count[one])
    return fewest
