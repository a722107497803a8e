"""The walk through all combinations of variables: compiled part of `peers`.

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

Few rows have a protective peer whatever is known. Once a row has none for some combination, no
share can be less: only a smaller combination without any is news, and a group has one for that
row only if the sensitive variable does not vary in it. So counts are taken only for variables in
which some row of the group is still `open`, that is, has had protective peers so far.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import AnyIntegers, Codes, Integers
from sfumato.kernels.compiled import compiled, inner

(_LOW, _HIGH, _BASE, _BRANCH, _SPENT, _KEY, _VARY, _TODO, _PART, _END, _FIELDS) = range(11)
"""Of a level: its group's rows, the variables that may still vary and those it may be split by,
cost and key of the combination; the variables that do vary, splits to do, parts that wait."""
_TWO = 2
"""Rows that need no walk."""
_WORD = 63
"""Rows that fit into a word, a bit each."""


class CodeTable(NamedTuple):
    """Codes, no two variables having one in common, and the records that each row stands for."""

    codes: AnyIntegers
    weights: Codes


class Variables(NamedTuple):
    """The columns of the table; those that may be known come first.

    result : where its results go, -1 if it is not sensitive.
    bit : what stands for it in a key.
    cost : of learning it.
    known : how many may be known.
    codes : how many codes there are.
    sensitive : the sensitive ones, as bits.
    """

    result: Integers
    bit: Integers
    cost: Integers
    known: int
    codes: int
    sensitive: int


class Bounds(NamedTuple):
    """The most variables, the highest cost, p and q as fractions.

    A key has a combination in its lower bits and above them, from `shift` on, its size: of two
    keys, the lower is preferred.
    """

    most: int
    dearest: int
    p_above: int
    p_below: int
    q_above: int
    q_below: int
    shift: int


class LeastShares(NamedTuple):
    """The least share of protective peers so far.

    share : protective peers and all peers, rows x sensitive variables x 2.
    key : of the combination where that is so.
    open : of each row, the sensitive variables in which it has had protective peers, as bits.
    """

    share: Codes
    key: AnyIntegers
    open: AnyIntegers


class FewestPeers(NamedTuple):
    """Fewest protective peers, fewest alternatives, key of a breach; each may be empty."""

    protective: Codes
    alternatives: Codes
    breach: AnyIntegers


class _WalkRows(NamedTuple):
    """The order of the rows, in which groups are stretches, and as much room to reorder them."""

    order: AnyIntegers
    spare: AnyIntegers


class _WalkScratch(NamedTuple):
    """Sensitive variables in question, where their results go, counts by code, likely codes."""

    columns: AnyIntegers
    results: AnyIntegers
    counts: Codes
    likely: Integers


class _Split(NamedTuple):
    """Codes of a group, where the rows of each go, parts that wait.

    The splits on the way to a combination are by different variables: a code is in one of them.
    """

    codes: AnyIntegers
    position: Integers
    parts: Integers


class _BitSets(NamedTuple):
    """A small group: who is equal in each variable, binary digits of counts, holders, a stack."""

    equal: Integers
    planes: Integers
    holders: Integers
    stack: Integers


@compiled
def split_first(column):  # type: ignore[no-untyped-def]
    """All rows, those with equal codes together, and where each code starts."""
    size = column.max() + 1
    starts = np.zeros(size + 1, np.int64)
    for row in range(len(column)):
        starts[column[row] + 1] += 1
    for code in range(size):
        starts[code + 1] += starts[code]
    order = np.empty(len(column), np.uint32)
    position = starts[:-1].copy()
    for row in range(len(column)):
        order[position[column[row]]] = row
        position[column[row]] += 1
    return order, starts


@compiled
def walk_groups(groups, order, spare, first, table, variables, bounds, least, fewest):  # type: ignore[no-untyped-def]
    """Follow groups that share the value of variable `first` through all that may be added to it.

    `groups` has a row per group, start and end in `order`; no two overlap.
    """
    known, size, width = variables.known, variables.codes, table.codes.shape[1]
    level = np.zeros((known + 1, _FIELDS), np.int64)
    scratch = _WalkScratch(
        np.empty(width, np.uint32),
        np.empty(width, np.uint32),
        np.zeros(size, np.int32),
        np.empty(width, np.int64),
    )
    split = _Split(
        np.empty(size, np.uint32), np.empty(size, np.int64), np.empty((size, 2), np.int64)
    )
    sets = _BitSets(
        np.empty((_WORD, width), np.int64),
        np.empty(32, np.int64),
        np.zeros(size, np.int64),
        np.empty((known + 1, 4), np.int64),
    )
    rows = _WalkRows(order, spare)
    _walk(groups, rows, first, table, variables, bounds, level, scratch, split, sets, least, fewest)


@inner(borrowing=True)
def _walk(  # type: ignore[no-untyped-def]
    groups, rows, first, table, variables, bounds, level, scratch, split, sets, least, fewest
):
    """`walk_groups`, once there is room to work in."""
    order, parts, width = rows.order, split.parts, table.codes.shape[1]
    counting = _counts_more(fewest)
    for group in range(len(groups)):
        depth, fresh = 0, True
        level[0, _LOW], level[0, _HIGH] = groups[group, 0], groups[group, 1]
        everything = (np.int64(1) << width) - 1
        _enter(level, 0, first, np.int64(0), np.int64(0), everything, variables, bounds)
        while depth >= 0:
            low, high, key = level[depth, _LOW], level[depth, _HIGH], level[depth, _KEY]
            start = level[depth - 1, _END] if depth else 0
            if fresh:
                base, branch, vary = level[depth, _BASE], level[depth, _BRANCH], np.int64(0)
                if high - low == _TWO and not counting:
                    row, other = order[low], order[low + 1]
                    _compare_two(row, other, base, branch, key, table, variables, bounds, least)
                elif high - low <= _WORD and not counting:
                    _follow_few(
                        order, low, high, base, branch, key, table, variables, bounds, sets, least
                    )
                else:
                    vary = _compare_group(
                        order, low, high, base, branch, key, table, variables, bounds, scratch,
                        least, fewest,
                    )  # fmt: skip
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
                variable = _take_next(level, depth)
                spent, vary = level[depth, _SPENT], level[depth, _VARY]
                _enter(level, depth + 1, variable, spent, key, vary, variables, bounds)
                count = _list_sensitive(level[depth + 1, _BASE], variables.result, scratch)
                level[depth, _PART] = start
                level[depth, _END] = _split_group(
                    rows, low, high, level[depth + 1, _KEY], variable, count, table, scratch,
                    split, start, least, fewest,
                )  # fmt: skip


@inner(borrowing=True)
def _counts_more(fewest):  # type: ignore[no-untyped-def]
    """Whether more than the least share is followed."""
    return len(fewest.protective) + len(fewest.alternatives) + len(fewest.breach) > 0


@inner(borrowing=True)
def _take_next(level, depth):  # type: ignore[no-untyped-def]
    """The next variable to split by; it is crossed out."""
    todo, variable = level[depth, _TODO], 0
    level[depth, _TODO] = todo & (todo - 1)
    while not (todo >> variable) & 1:
        variable += 1
    return variable


@inner(borrowing=True)
def _enter(level, depth, variable, spent, key, vary, variables, bounds):  # type: ignore[no-untyped-def]
    """What the parts of a split share: combination, cost, variables to come, those to split by."""
    cost, shift = variables.cost, bounds.shift
    spent += cost[variable]
    key = (key + (np.int64(1) << shift)) | variables.bit[variable]
    branch = np.int64(0)
    if key >> shift < bounds.most:
        for other in range(variable + 1, variables.known):
            if spent + cost[other] <= bounds.dearest:
                branch |= np.int64(1) << other
    level[depth, _SPENT], level[depth, _KEY], level[depth, _BRANCH] = spent, key, branch
    level[depth, _BASE] = vary & ~(np.int64(1) << variable)


@inner(borrowing=True)
def _split_group(  # type: ignore[no-untyped-def]
    rows, low, high, key, variable, count, table, scratch, split, start, least, fewest
):
    """Put rows with equal codes together; rows on their own are settled, other parts are listed."""
    order, spare, codes = rows.order, rows.spare, table.codes
    counts, position, parts = scratch.counts, split.position, split.parts
    counting = _counts_more(fewest)
    distinct = 0
    for i in range(low, high):
        code = codes[order[i], variable]
        if counts[code] == 0:
            split.codes[distinct] = code
            distinct += 1
        counts[code] += 1
    free = low
    for i in range(distinct):
        code = split.codes[i]
        if counts[code] > 1:
            parts[start, 0] = position[code] = free
            free += counts[code]
            parts[start, 1] = free
            start += 1
    for i in range(low, high):
        row = order[i]
        code = codes[row, variable]
        if counts[code] > 1:
            spare[position[code]] = row
            position[code] += 1
        else:
            spare[free] = row
            free += 1
            _expose(row, table.weights[row], key, count, scratch, least)
            if counting:
                _settle(row, key, count, scratch.results, fewest)
    for i in range(low, high):
        order[i] = spare[i]
    for i in range(distinct):
        counts[split.codes[i]] = 0
    return start


# A group of any size, by counts.


@inner(borrowing=True)
def _compare_group(  # type: ignore[no-untyped-def]
    order, low, high, base, branch, key, table, variables, bounds, scratch, least, fewest
):
    """Compare a group's protection with the least so far; the variables that vary in it, as bits.

    Only variables of `base` are looked at: those that are sensitive, and those to split by.
    """
    counting = _counts_more(fewest)
    total, opened = _sum_group(order, low, high, table.weights, least.open)
    counted = base if counting else base & opened
    count = _list_sensitive(counted & variables.sensitive, variables.result, scratch)
    alike = base & (branch | variables.sensitive)
    vary = _find_varying(order, low, high, alike, table.codes)
    if count:
        _count_by_code(order, low, high, count, table, scratch)
        _compare_shares(order, low, high, total, key, base, count, table.codes, scratch, least)
        if counting:
            few = bounds.p_above * total // bounds.p_below
            rare = bounds.q_above * total // bounds.q_below
            _compare_fewest(
                order, low, high, total, key, count, few, rare, table.codes, scratch, fewest
            )
        _clear_counts(order, low, high, count, table.codes, scratch)
    same = base & variables.sensitive & ~vary
    if same:
        count = _list_sensitive(same, variables.result, scratch)
        for i in range(low, high):
            _expose(order[i], total, key, count, scratch, least)
    return vary


@inner(borrowing=True)
def _list_sensitive(base, result, scratch):  # type: ignore[no-untyped-def]
    """The sensitive variables of `base`, and how many they are."""
    count = 0
    for variable in range(len(result)):
        if (base >> variable) & 1 and result[variable] >= 0:
            scratch.columns[count], scratch.results[count] = variable, result[variable]
            count += 1
    return count


@inner(borrowing=True)
def _sum_group(order, low, high, weights, open_):  # type: ignore[no-untyped-def]
    """Records of a group, and the variables in which some row of it is open."""
    total, opened = np.int64(0), np.int64(0)
    for i in range(low, high):
        row = order[i]
        total += weights[row]
        opened |= open_[row]
    return total, opened


@inner(borrowing=True)
def _find_varying(order, low, high, alike, codes):  # type: ignore[no-untyped-def]
    """Which of the variables `alike` vary in the group; most do within a few rows."""
    vary, first = np.int64(0), order[low]
    for i in range(low + 1, high):
        if alike == 0:
            break
        row, remaining, variable = order[i], alike, 0
        while remaining:
            if remaining & 1 and codes[row, variable] != codes[first, variable]:
                vary |= np.int64(1) << variable
            remaining >>= 1
            variable += 1
        alike &= ~vary
    return vary


@inner(borrowing=True)
def _count_by_code(order, low, high, count, table, scratch):  # type: ignore[no-untyped-def]
    """Records of a group by code of every listed variable."""
    columns, counts = scratch.columns, scratch.counts
    for i in range(low, high):
        row = order[i]
        weight = table.weights[row]
        for item in range(count):
            counts[table.codes[row, columns[item]]] += weight


@inner(borrowing=True)
def _compare_shares(order, low, high, total, key, base, count, codes, scratch, least):  # type: ignore[no-untyped-def]
    """Keep the share of protective peers where it is the least so far, in rows that are open."""
    columns, results, counts = scratch.columns, scratch.results, scratch.counts
    share, keys = least.share, least.key
    for i in range(low, high):
        row = order[i]
        opened = least.open[row] & base
        if opened == 0:
            continue
        for item in range(count):
            if not (opened >> columns[item]) & 1:
                continue
            to = results[item]
            protective = total - counts[codes[row, columns[item]]]
            # Shares are compared as products of whole numbers: a/b < c/d where a d < c b.
            gap = protective * np.int64(share[row, to, 1]) - np.int64(share[row, to, 0]) * total
            if gap < 0 or (gap == 0 and key < keys[row, to]):
                share[row, to, 0], share[row, to, 1] = protective, total
                keys[row, to] = key
                if protective == 0:
                    least.open[row] &= ~(np.int64(1) << np.int64(columns[item]))


@inner(borrowing=True)
def _compare_fewest(  # type: ignore[no-untyped-def]
    order, low, high, total, key, count, few, rare, codes, scratch, fewest
):
    """Keep the fewest protective peers, the fewest alternatives and the smallest breach."""
    columns, results, likely = scratch.columns, scratch.results, scratch.likely
    counts, alternatives, breach = scratch.counts, fewest.alternatives, fewest.breach
    for item in range(count):
        likely[item] = 0
    if len(alternatives):
        # A code counts once: its number is made negative when it is met.
        for i in range(low, high):
            row = order[i]
            for item in range(count):
                code = codes[row, columns[item]]
                if counts[code] > 0:
                    likely[item] += counts[code] > rare
                    counts[code] = -counts[code]
    for i in range(low, high):
        row = order[i]
        for item in range(count):
            to, same = results[item], np.int64(abs(counts[codes[row, columns[item]]]))
            if len(fewest.protective):
                fewest.protective[row, to] = min(fewest.protective[row, to], total - same)
            if len(alternatives):
                alternatives[row, to] = min(alternatives[row, to], likely[item] - (same > rare))
            if len(breach) and total - same <= few:
                breach[row, to] = min(breach[row, to], key)


@inner(borrowing=True)
def _clear_counts(order, low, high, count, codes, scratch):  # type: ignore[no-untyped-def]
    columns, counts = scratch.columns, scratch.counts
    if (high - low) * count > len(counts):
        for code in range(len(counts)):
            counts[code] = 0
        return
    for i in range(low, high):
        row = order[i]
        for item in range(count):
            counts[codes[row, columns[item]]] = 0


@inner(borrowing=True)
def _expose(row, total, key, count, scratch, least):  # type: ignore[no-untyped-def]
    """Nobody protects a row in the listed variables: keep the combination if it is the smallest."""
    columns, share, keys = scratch.columns, least.share, least.key
    opened = least.open[row]
    for item in range(count):
        to = scratch.results[item]
        if key < keys[row, to] or (opened >> columns[item]) & 1:
            share[row, to, 0], share[row, to, 1] = 0, total
            keys[row, to] = key
            least.open[row] &= ~(np.int64(1) << np.int64(columns[item]))


@inner(borrowing=True)
def _settle(row, key, count, results, fewest):  # type: ignore[no-untyped-def]
    """A row that only fits itself has no protective peer and no alternative."""
    for item in range(count):
        to = results[item]
        if len(fewest.protective):
            fewest.protective[row, to] = 0
        if len(fewest.alternatives):
            fewest.alternatives[row, to] = 0
        if len(fewest.breach):
            fewest.breach[row, to] = min(fewest.breach[row, to], key)


# Two rows.


@inner(borrowing=True)
def _compare_two(row, other, base, branch, key, table, variables, bounds, least):  # type: ignore[no-untyped-def]
    """Two rows, to the end: any variable in which they differ tells them apart."""
    codes, weights = table.codes, table.weights
    result, bit, step = variables.result, variables.bit, np.int64(1) << bounds.shift
    first, second = -1, -1
    for variable in range(len(result)):
        if ((base & branch) >> variable) & 1 and codes[row, variable] != codes[other, variable]:
            if first < 0 or bit[variable] < bit[first]:
                first, second = variable, first
            elif second < 0 or bit[variable] < bit[second]:
                second = variable
    mine, theirs = np.int64(weights[row]), np.int64(weights[other])
    for variable in range(len(result)):
        to = result[variable]
        if to < 0 or not (base >> variable) & 1:
            continue
        if codes[row, variable] == codes[other, variable]:
            _keep_share(row, variable, to, 0, mine + theirs, key, least)
            _keep_share(other, variable, to, 0, mine + theirs, key, least)
            continue
        apart = second if first == variable else first
        if apart < 0:
            _keep_share(row, variable, to, theirs, mine + theirs, key, least)
            _keep_share(other, variable, to, mine, mine + theirs, key, least)
        else:
            after = (key + step) | bit[apart]
            _keep_share(row, variable, to, 0, mine, after, least)
            _keep_share(other, variable, to, 0, theirs, after, least)


@inner(borrowing=True)
def _keep_share(row, variable, to, protective, total, key, least):  # type: ignore[no-untyped-def]
    """Keep a share of protective peers if it is the least so far."""
    share, keys = least.share, least.key
    if not (least.open[row] >> variable) & 1:
        if protective == 0 and key < keys[row, to]:
            share[row, to, 1] = total
            keys[row, to] = key
        return
    gap = protective * np.int64(share[row, to, 1]) - np.int64(share[row, to, 0]) * total
    if gap < 0 or (gap == 0 and key < keys[row, to]):
        share[row, to, 0], share[row, to, 1] = protective, total
        keys[row, to] = key
        if protective == 0:
            least.open[row] &= ~(np.int64(1) << np.int64(variable))


# Groups of few rows, followed to the end row by row. A set of the group's rows is a word, a bit
# each. The peers of a row in a combination are those who are equal to it in every variable: one
# `and` per variable that becomes known. So a row needs no sorting, and it is left alone as soon as
# nothing further down could be news to it.


@inner(borrowing=True)
def _follow_few(  # type: ignore[no-untyped-def]
    order, low, high, base, branch, key, table, variables, bounds, sets, least
):
    """Follow each row of a group through its combination and all that may be added to it."""
    codes, weights = table.codes, table.weights
    equal, planes, holders = sets.equal, sets.planes, sets.holders
    used = base & (branch | variables.sensitive)
    while used:
        variable = _find_lowest(used)
        used &= used - 1
        for i in range(low, high):
            holders[codes[order[i], variable]] |= np.int64(1) << (i - low)
        for i in range(low, high):
            equal[i - low, variable] = holders[codes[order[i], variable]]
        for i in range(low, high):
            holders[codes[order[i], variable]] = 0
    heavy = np.int64(0)
    for i in range(low, high):
        heavy |= weights[order[i]]
    digits = 0
    while heavy >> digits:
        planes[digits] = 0
        for i in range(low, high):
            planes[digits] |= np.int64((weights[order[i]] >> digits) & 1) << (i - low)
        digits += 1
    everybody = (np.int64(1) << (high - low)) - 1
    for i in range(low, high):
        _follow_row(
            order[i], i - low, everybody, base & variables.sensitive, branch & base, key, digits,
            variables, bounds, sets, least,
        )  # fmt: skip


@inner(borrowing=True)
def _follow_row(  # type: ignore[no-untyped-def]
    row, number, peers, pending, branch, key, digits, variables, bounds, sets, least
):
    """One row through all combinations of the variables to add, those that change nothing apart."""
    step, stack = np.int64(1) << bounds.shift, sets.stack
    depth = 0
    while True:
        pending, todo = _visit(
            row, number, peers, pending, branch, key, digits, variables, step, sets, least
        )
        stack[depth, 0], stack[depth, 1] = peers, pending
        stack[depth, 2], stack[depth, 3] = key, todo
        while depth >= 0 and stack[depth, 3] == 0:
            depth -= 1
        if depth < 0:
            return
        todo = stack[depth, 3]
        variable = _find_lowest(todo)
        branch = todo & (todo - 1)
        stack[depth, 3] = branch
        peers = stack[depth, 0] & sets.equal[number, variable]
        pending = stack[depth, 1] & ~(np.int64(1) << variable)
        key = (stack[depth, 2] + step) | variables.bit[variable]
        depth += 1


@inner(borrowing=True)
def _visit(  # type: ignore[no-untyped-def]
    row, number, peers, pending, branch, key, digits, variables, step, sets, least
):
    """Compare with the least so far; variables in which there may be news below, and to add."""
    share, keys, equal = least.share, least.key, sets.equal
    remaining, total = pending, np.int64(0)
    while remaining:
        variable = _find_lowest(remaining)
        bit = remaining & -remaining
        remaining ^= bit
        to, others = variables.result[variable], peers & ~equal[number, variable]
        opened = least.open[row] & bit
        if opened or (others == 0 and key < keys[row, to]):
            if total == 0:
                total = _count_records(peers, digits, sets.planes)
            protective = _count_records(others, digits, sets.planes)
            gap = protective * np.int64(share[row, to, 1]) - np.int64(share[row, to, 0]) * total
            if gap < 0 or (gap == 0 and key < keys[row, to]):
                share[row, to, 0], share[row, to, 1] = protective, total
                keys[row, to] = key
                if others == 0:
                    least.open[row] &= ~bit
        if others == 0 or (not opened and keys[row, to] <= key + step):
            pending ^= bit  # whatever is added, the combination is larger
    todo = np.int64(0)
    remaining = branch if pending else np.int64(0)
    while remaining:
        bit = remaining & -remaining
        if peers & ~equal[number, _find_lowest(remaining)] and pending & ~bit:
            todo |= bit
        remaining ^= bit
    return pending, todo


@inner(borrowing=True)
def _count_records(rows, digits, planes):  # type: ignore[no-untyped-def]
    """How many records a set of rows is; `planes` has the rows by binary digit of their count."""
    total = np.int64(0)
    for digit in range(digits):
        total += np.int64(_count_bits(rows & planes[digit])) << digit
    return total


@inner(borrowing=True)
def _find_lowest(bits):  # type: ignore[no-untyped-def]
    """Position of the lowest bit."""
    return np.int64(_count_bits((bits & -bits) - 1))


@inner(borrowing=True)
def _count_bits(bits):  # type: ignore[no-untyped-def]
    """How many bits are set (the compiler knows this pattern)."""
    bits = np.uint64(bits)
    bits -= (bits >> np.uint64(1)) & np.uint64(0x5555555555555555)
    bits = (bits & np.uint64(0x3333333333333333)) + (
        (bits >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (bits * np.uint64(0x0101010101010101)) >> np.uint64(56)


# With everything known.


@compiled
def tally_groups(order, ends, codes, weights, size, q_above, q_below):  # type: ignore[no-untyped-def]
    """Of each row's group: its records, those with the row's code, and other likely codes.

    `order` has equal groups together, which end at `ends`.
    """
    rows = len(order)
    peers, same = np.empty(rows, np.int32), np.empty(rows, np.int32)
    alternatives = np.empty(rows, np.int32)
    counts, touched = np.zeros(size, np.int64), np.empty(size, np.int64)
    low = 0
    for high in ends:
        total, distinct, likely = np.int64(0), 0, 0
        for row in order[low:high]:
            if counts[codes[row]] == 0:
                touched[distinct] = codes[row]
                distinct += 1
            counts[codes[row]] += weights[row]
            total += weights[row]
        for code in touched[:distinct]:
            likely += counts[code] * q_below > q_above * total
        for row in order[low:high]:
            peers[row], same[row] = total, counts[codes[row]]
            alternatives[row] = likely - (same[row] * q_below > q_above * total)
        for code in touched[:distinct]:
            counts[code] = 0
        low = high
    return peers, same, alternatives
