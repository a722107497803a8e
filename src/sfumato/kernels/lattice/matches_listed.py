"""Every record against every other, for many variables: compiled part of `matches`.

Counts of all combinations would not fit into memory here. So the masks that occur are listed for
each record, and each combination that is asked for goes through that list.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sfumato.kernels.lattice.matches_pairs import (
    ALTERNATIVES,
    BREACH,
    FEWEST_ALTERNATIVES,
    FEWEST_PROTECTIVE,
    LEAST_MASK,
    LEAST_PEERS,
    LEAST_PROTECTIVE,
    PEERS,
    SAME,
    agree,
    alternatives,
    masks_of,
)


@njit(cache=True, nogil=True)
def by_list(rows, table, weights, asked, combinations, values, masks, out, exact):  # type: ignore[no-untyped-def]
    """As `by_sums`; the fewest alternatives are not followed, only those with everything known."""
    sensitive, top, boxed, follow, p_above, p_below, q_above, q_below = asked
    codes, sizes = values[0], values[1]
    sure, possible = masks
    held = np.zeros((2, sizes.max()), np.int64)
    room = 1
    while room < 2 * len(sure):
        room *= 2
    seen = np.empty((len(sure), 3), np.int64), np.full(room, -1, np.int64)
    counts = np.empty((len(sensitive), 2), np.int64)
    for number in range(len(rows)):
        row = rows[number]
        masks_of(row, table, sure, possible, boxed)
        fits = possible if boxed else sure
        if boxed:
            exact[number] = agree(sure, possible)
        distinct = _distinct(sure, fits, weights, seen)
        _begin(out[number])
        for one in combinations:
            _count(seen[0][:distinct], one, sensitive, counts)
            for at in range(len(sensitive)):
                if not (one >> sensitive[at]) & 1:
                    _update(out[number, at], counts[at], one, p_above, p_below)
        for at in range(len(sensitive)):
            _count(seen[0][:distinct], top[at], sensitive, counts)
            out[number, at, SAME] = counts[at, 1]
            out[number, at, PEERS] = counts[at].sum()
            found = -1
            if sizes[at] > 0:
                looked, shares = (sure, fits, weights), (q_above, q_below)
                found = alternatives(row, looked, codes[at], sizes[at], top[at], shares, held)
            out[number, at, ALTERNATIVES] = found
            out[number, at, FEWEST_ALTERNATIVES] = -1 if follow else found


@njit(cache=True, nogil=True)
def _distinct(sure, fits, weights, seen):  # type: ignore[no-untyped-def]
    """List the pairs of masks that occur with their records; how many there are."""
    listed, place = seen
    place[:] = -1
    last, number = len(place) - 1, 0
    for other in range(len(sure)):
        one, two = np.int64(sure[other]), np.int64(fits[other])
        at = ((one * 0x9E3779B97F4A7C1 + two * 0x85EBCA6B) >> 17) & last
        while place[at] >= 0 and (listed[place[at], 0] != one or listed[place[at], 1] != two):
            at = (at + 1) & last
        if place[at] < 0:
            place[at] = number
            listed[number, 0], listed[number, 1], listed[number, 2] = one, two, 0
            number += 1
        listed[place[at], 2] += weights[other]
    return number


@njit(cache=True, nogil=True)
def _begin(out):  # type: ignore[no-untyped-def]
    out[:, LEAST_PROTECTIVE], out[:, LEAST_PEERS], out[:, LEAST_MASK] = 1, 0, 0
    out[:, FEWEST_PROTECTIVE], out[:, BREACH] = np.int64(1) << 62, 0


@njit(cache=True, nogil=True)
def _count(listed, combination, sensitive, counts):  # type: ignore[no-untyped-def]
    """Of one combination, for each sensitive variable: who protects, and who does not."""
    counts[:] = 0
    for place in range(len(listed)):
        sure, possible = listed[place, 0], listed[place, 1]
        if possible & combination != combination:
            continue
        surely = sure & combination == combination
        for at in range(len(sensitive)):
            if (possible >> sensitive[at]) & 1:
                counts[at, 1] += listed[place, 2]
            elif surely:
                counts[at, 0] += listed[place, 2]


@njit(cache=True, nogil=True)
def _update(out, counts, combination, p_above, p_below):  # type: ignore[no-untyped-def]
    others, all_ = counts[0], counts[0] + counts[1]
    if others * out[LEAST_PEERS] < out[LEAST_PROTECTIVE] * all_:
        out[LEAST_PROTECTIVE], out[LEAST_PEERS], out[LEAST_MASK] = others, all_, combination
    out[FEWEST_PROTECTIVE] = min(out[FEWEST_PROTECTIVE], others)
    if out[BREACH] == 0 and others * p_below <= p_above * all_:
        out[BREACH] = combination
