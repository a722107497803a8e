"""Every record against every other: compiled part of `matches`.

For one record, each other becomes a bit mask of the variables on which it matches. How many
others have which mask is all that needs to be known: summed over supersets (one pass per
variable), it gives the matches of every combination of variables at once (`count_by_sums`). With
many variables those sums would not fit into memory. Then the masks that occur are listed for each
record, and each combination goes through that list (`count_by_list`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import AnyIntegers, Codes, Integers
from sfumato.kernels.compiled import compiled, inner

_BLOCK = 2048
"""Others that are compared at a time: their masks stay in the fastest cache."""
(PEERS, SAME, ALTERNATIVES, LEAST_PROTECTIVE, LEAST_PEERS, LEAST_MASK, FEWEST_PROTECTIVE,
 FEWEST_ALTERNATIVES, BREACH, FIELDS) = range(10)  # fmt: skip
"""What is counted for each record and sensitive variable."""


class PackedRelations(NamedTuple):
    """All relations as arrays of variables x rows; see `Relation`.

    cells : how many cells with gaps each variable has, 0 for all other kinds.
    offsets, pairs : where its table of pairs of cells begins, and these tables.
    """

    low: AnyIntegers
    high: AnyIntegers
    sure_begin: AnyIntegers
    sure_end: AnyIntegers
    possible_begin: AnyIntegers
    possible_end: AnyIntegers
    cells: Integers
    offsets: Integers
    pairs: npt.NDArray[np.uint8]


class PairQuestion(NamedTuple):
    """What is counted.

    sensitive, top : the sensitive columns; for each everything that may be known but itself.
    boxed : whether cells stand for several values.
    follow : whether alternatives are followed through all combinations.
    p_above, p_below, q_above, q_below : p and q as fractions.
    """

    sensitive: Integers
    top: Integers
    boxed: bool
    follow: bool
    p_above: int
    p_below: int
    q_above: int
    q_below: int


class SensitiveValues(NamedTuple):
    """Values of the sensitive variables, a row each.

    codes : the value of each record.
    sizes : how many values there are, 0 where they cannot be told apart.
    order, starts : the records in the order of their values, and where each value starts.
    """

    codes: AnyIntegers
    sizes: Integers
    order: Integers
    starts: Integers


class Masks(NamedTuple):
    """On which variables each other record matches for sure, and possibly; bits, to work in."""

    sure: AnyIntegers
    possible: AnyIntegers


class _Others(NamedTuple):
    """Masks of the other records for sure and at all, and how many records each row is."""

    sure: AnyIntegers
    fits: AnyIntegers
    weights: Codes


class _MaskList(NamedTuple):
    """The pairs of masks that occur with their records, and a hash table of them."""

    rows: Integers
    slots: Integers


@inner
def _fill_masks(row, table, masks, boxed):  # type: ignore[no-untyped-def]
    """Fill the masks of a row; those of possible matches only where cells are boxed."""
    low, sure = table.low, masks.sure
    bit = np.ones_like(sure[:1])
    for first in range(0, len(sure), _BLOCK):
        last = min(first + _BLOCK, len(sure))
        # Slices, and no branches within loops: so the compiler compares several at a time.
        surely, possibly = sure[first:last], masks.possible[first:last]
        surely[:] = 0
        if boxed:
            possibly[:] = 0
        for column in range(len(low)):
            begin, end = low[column, first:last], table.high[column, first:last]
            bit[0] = 1 << column
            if table.cells[column]:
                start = table.offsets[column] + low[column, row] * table.cells[column]
                pairs = table.pairs[start : start + table.cells[column]]
                _look_up_cells(begin, pairs, bit[0], surely, possibly)
                continue
            most, least = table.sure_begin[column, row], table.sure_end[column, row]
            _compare_ends(begin, end, most, least, bit[0], surely)
            if boxed:
                most, least = table.possible_begin[column, row], table.possible_end[column, row]
                _compare_ends(begin, end, most, least, bit[0], possibly)


@inner
def _compare_ends(begin, end, most, least, bit, masks):  # type: ignore[no-untyped-def]
    """Set the bit where a cell begins early enough and ends late enough."""
    for i in range(len(masks)):
        masks[i] |= bit * ((begin[i] <= most) & (end[i] >= least))


@inner
def _look_up_cells(cells, pairs, bit, surely, possibly):  # type: ignore[no-untyped-def]
    """Set the bits where a listed cell contains the row's, and where both share a code."""
    for i in range(len(cells)):
        surely[i] |= bit * (pairs[cells[i]] & 1)
        possibly[i] |= bit * (pairs[cells[i]] >> 1)


@inner
def _agree(masks):  # type: ignore[no-untyped-def]
    """Whether every possible match is a sure one."""
    different = 0
    for other in range(len(masks.sure)):
        different += masks.sure[other] != masks.possible[other]
    return different == 0


@inner
def _count_alternatives(row, others, codes, size, top, question, counts):  # type: ignore[no-untyped-def]
    """Other values that more than a share q of the peers have for sure, with everything known."""
    weights = others.weights
    counts[:, :size] = 0
    peers = np.int64(0)
    for other in range(len(weights)):
        if others.fits[other] & top == top:
            counts[1, codes[other]] += weights[other]
            peers += weights[other]
            if others.sure[other] & top == top:
                counts[0, codes[other]] += weights[other]
    alternatives = 0
    for code in range(size):
        surely = counts[0, code]
        if code != codes[row]:
            all_ = surely + peers - counts[1, code]
            alternatives += surely * question.q_below > question.q_above * all_
    return alternatives


# By sums over supersets.


@inner
def _sum_supersets(counts, columns):  # type: ignore[no-untyped-def]
    """Counts by mask become counts of all supersets of each mask, in place."""
    for column in range(columns):
        step = 1 << column
        for base in range(0, len(counts), 2 * step):
            for mask in range(base, base + step):
                counts[mask] += counts[mask + step]


@compiled
def count_by_sums(rows, table, weights, question, combinations, values, masks, out, exact):  # type: ignore[no-untyped-def]
    """What protects some rows; all counts of a row at once, so for few variables only.

    combinations : in the order in which they are preferred.
    out : rows x sensitive variables x fields, `exact` by row; both filled.
    """
    sensitive, boxed, sizes = question.sensitive, question.boxed, values.sizes
    columns = len(table.low)
    total, free = np.zeros(1 << columns, np.int32), np.zeros(1 << columns, np.int32)
    counts = np.zeros((2, sizes.max()), np.int64)
    size = (1 << columns) if question.follow else 1
    sums = np.zeros((2, size), np.int32), np.zeros(size, np.int64)
    fits = masks.possible if boxed else masks.sure
    others = _Others(masks.sure, fits, weights)
    for number in range(len(rows)):
        row = rows[number]
        _fill_masks(row, table, masks, boxed)
        if boxed:
            exact[number] = _agree(masks)
        total[:] = 0
        for other in range(len(weights)):
            total[fits[other]] += weights[other]
        _sum_supersets(total, columns)
        for i in range(len(sensitive)):
            bit = 1 << sensitive[i]
            if boxed:
                free[:] = 0
                for other in range(len(weights)):
                    if not masks.possible[other] & bit:
                        free[masks.sure[other]] += weights[other]
                _sum_supersets(free, columns)
            fields = out[number, i]
            _find_least(total, free, bit, question.top[i], combinations, question, fields)
            if sizes[i] == 0:
                fields[ALTERNATIVES] = fields[FEWEST_ALTERNATIVES] = -1
                continue
            alternatives = _count_alternatives(
                row, others, values.codes[i], sizes[i], question.top[i], question, counts
            )
            fields[ALTERNATIVES] = fields[FEWEST_ALTERNATIVES] = alternatives
            if question.follow:
                fields[FEWEST_ALTERNATIVES] = _find_fewest(
                    i, row, others, values, bit, combinations, question, total, sums
                )


@inner
def _find_least(total, free, bit, top, combinations, question, out):  # type: ignore[no-untyped-def]
    """The least protection over all combinations, and the one that attains it."""
    out[SAME] = total[top | bit]
    out[PEERS] = out[SAME] + free[top] if question.boxed else total[top]
    protective, peers, mask, breach = np.int64(1), np.int64(0), np.int64(0), np.int64(0)
    fewest = np.int64(1) << 62
    for combination in combinations:
        if combination & bit:
            continue
        alike = np.int64(total[combination | bit])
        others = np.int64(free[combination]) if question.boxed else total[combination] - alike
        all_ = alike + others
        if others * peers < protective * all_:
            protective, peers, mask = others, all_, combination
        fewest = min(fewest, others)
        if breach == 0 and others * question.p_below <= question.p_above * all_:
            breach = combination
    out[LEAST_PROTECTIVE], out[LEAST_PEERS], out[LEAST_MASK] = protective, peers, mask
    out[FEWEST_PROTECTIVE], out[BREACH] = fewest, breach


@inner
def _find_fewest(i, row, others, values, bit, combinations, question, total, sums):  # type: ignore[no-untyped-def]
    """The least number of other values that more than a share q have, over all combinations."""
    weights, order = others.weights, values.order[i]
    starts = values.starts[i, : values.sizes[i] + 1]
    surely, possibly, count = sums[0][0], sums[0][1], sums[1]
    columns = 0
    while 1 << columns < len(total):
        columns += 1
    count[:] = 0
    for code in range(len(starts) - 1):
        if code == values.codes[i, row]:
            continue
        surely[:] = 0
        possibly[:] = 0
        for position in range(starts[code], starts[code + 1]):
            other = order[position]
            surely[others.sure[other]] += weights[other]
            possibly[others.fits[other]] += weights[other]
        _sum_supersets(surely, columns)
        _sum_supersets(possibly, columns)
        for combination in combinations:
            number = np.int64(surely[combination])
            all_ = number + np.int64(total[combination]) - possibly[combination]
            count[combination] += number * question.q_below > question.q_above * all_
    fewest = np.int64(1) << 62
    for combination in combinations:
        if not combination & bit:
            fewest = min(fewest, count[combination])
    return fewest


# By a list of the masks that occur.


@compiled
def count_by_list(rows, table, weights, question, combinations, values, masks, out, exact):  # type: ignore[no-untyped-def]
    """As `count_by_sums`; alternatives are not followed, only those with everything known."""
    sensitive, boxed, sizes = question.sensitive, question.boxed, values.sizes
    counts = np.zeros((2, sizes.max()), np.int64)
    size = 1
    while size < 2 * len(weights):
        size *= 2
    listed_masks = _MaskList(np.empty((len(weights), 3), np.int64), np.full(size, -1, np.int64))
    protection = np.empty((len(sensitive), 2), np.int64)
    fits = masks.possible if boxed else masks.sure
    others = _Others(masks.sure, fits, weights)
    for number in range(len(rows)):
        row = rows[number]
        _fill_masks(row, table, masks, boxed)
        if boxed:
            exact[number] = _agree(masks)
        distinct = listed_masks.rows[: _list_masks(others, listed_masks)]
        _begin(out[number])
        for combination in combinations:
            _count_protection(distinct, combination, sensitive, protection)
            for i in range(len(sensitive)):
                if not (combination >> sensitive[i]) & 1:
                    _update(out[number, i], protection[i], combination, question)
        for i in range(len(sensitive)):
            _count_protection(distinct, question.top[i], sensitive, protection)
            out[number, i, SAME] = protection[i, 1]
            out[number, i, PEERS] = protection[i].sum()
            alternatives = -1
            if sizes[i] > 0:
                alternatives = _count_alternatives(
                    row, others, values.codes[i], sizes[i], question.top[i], question, counts
                )
            out[number, i, ALTERNATIVES] = alternatives
            out[number, i, FEWEST_ALTERNATIVES] = -1 if question.follow else alternatives


@inner
def _list_masks(others, listed_masks):  # type: ignore[no-untyped-def]
    """List the pairs of masks that occur with their records; how many there are."""
    rows, slots = listed_masks.rows, listed_masks.slots
    slots[:] = -1
    last, number = len(slots) - 1, 0
    for other in range(len(others.weights)):
        sure, fits = np.int64(others.sure[other]), np.int64(others.fits[other])
        slot = ((sure * 0x9E3779B97F4A7C1 + fits * 0x85EBCA6B) >> 17) & last
        while slots[slot] >= 0 and (rows[slots[slot], 0] != sure or rows[slots[slot], 1] != fits):
            slot = (slot + 1) & last
        if slots[slot] < 0:
            slots[slot] = number
            rows[number, 0], rows[number, 1], rows[number, 2] = sure, fits, 0
            number += 1
        rows[slots[slot], 2] += others.weights[other]
    return number


@inner
def _begin(out):  # type: ignore[no-untyped-def]
    out[:, LEAST_PROTECTIVE], out[:, LEAST_PEERS], out[:, LEAST_MASK] = 1, 0, 0
    out[:, FEWEST_PROTECTIVE], out[:, BREACH] = np.int64(1) << 62, 0


@inner
def _count_protection(distinct, combination, sensitive, protection):  # type: ignore[no-untyped-def]
    """Of one combination, for each sensitive variable: who protects, and who does not."""
    protection[:] = 0
    for number in range(len(distinct)):
        sure, possible = distinct[number, 0], distinct[number, 1]
        if possible & combination != combination:
            continue
        surely = sure & combination == combination
        for i in range(len(sensitive)):
            if (possible >> sensitive[i]) & 1:
                protection[i, 1] += distinct[number, 2]
            elif surely:
                protection[i, 0] += distinct[number, 2]


@inner
def _update(out, protection, combination, question):  # type: ignore[no-untyped-def]
    others, all_ = protection[0], protection[0] + protection[1]
    if others * out[LEAST_PEERS] < out[LEAST_PROTECTIVE] * all_:
        out[LEAST_PROTECTIVE], out[LEAST_PEERS], out[LEAST_MASK] = others, all_, combination
    out[FEWEST_PROTECTIVE] = min(out[FEWEST_PROTECTIVE], others)
    if out[BREACH] == 0 and others * question.p_below <= question.p_above * all_:
        out[BREACH] = combination


# By person, where a person may have several rows.


@compiled
def count_by_persons(rows, table, members, starts, question, combinations, masks, out, exact):  # type: ignore[no-untyped-def]
    """As `count_by_list`, with persons in place of records; alternatives are not counted.

    members, starts : the rows of each person, one person after the other, and where each begins.
    """
    sensitive, boxed = question.sensitive, question.boxed
    protection, worst = np.empty((len(sensitive), 2), np.int64), np.empty(len(sensitive), np.int64)
    fits = masks.possible if boxed else masks.sure
    for number in range(len(rows)):
        _fill_masks(rows[number], table, masks, boxed)
        if boxed:
            exact[number] = _agree(masks)
        _begin(out[number])
        for combination in combinations:
            _count_persons(
                masks.sure, fits, members, starts, combination, sensitive, protection, worst
            )
            for i in range(len(sensitive)):
                if not (combination >> sensitive[i]) & 1:
                    _update(out[number, i], protection[i], combination, question)
        for i in range(len(sensitive)):
            top = question.top[i]
            _count_persons(masks.sure, fits, members, starts, top, sensitive, protection, worst)
            out[number, i, SAME] = protection[i, 1]
            out[number, i, PEERS] = protection[i].sum()
            out[number, i, ALTERNATIVES] = out[number, i, FEWEST_ALTERNATIVES] = -1


@inner
def _count_persons(sure, fits, members, starts, combination, sensitive, protection, worst):  # type: ignore[no-untyped-def]
    """Of one combination: how many persons protect, and how many do not.

    Somebody does not protect if one of their rows may match all that is known and the sensitive
    value; else they protect if one of their rows matches all that is known for sure.
    """
    protection[:] = 0
    for person in range(len(starts) - 1):
        matches = False
        for place in range(starts[person], starts[person + 1]):
            row = members[place]
            if fits[row] & combination != combination:
                continue
            if not matches:
                worst[:] = -1
                matches = True
            surely = sure[row] & combination == combination
            for i in range(len(sensitive)):
                if (fits[row] >> sensitive[i]) & 1:
                    worst[i] = 1
                elif surely and worst[i] < 0:
                    worst[i] = 0
        if matches:
            for i in range(len(sensitive)):
                if worst[i] >= 0:
                    protection[i, worst[i]] += 1
