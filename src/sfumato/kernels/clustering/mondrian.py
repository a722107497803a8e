"""Mondrian: clusters of at least k similar records, by cutting the data in two again and again.

LeFevre, DeWitt & Ramakrishnan (2006), "Mondrian multidimensional k-anonymity", with strict cuts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import UNWEIGHTED, AnyIntegers, Codes, Floats, Integers, Mask
from sfumato.kernels.clustering.closeness import (
    DIVERSITY,
    HALF,
    MASK,
    ROUNDING,
    ClosenessRule,
    Population,
    keeps_rules,
    make_tally,
    prepare_rules,
    score_parts,
    sort_few,
)
from sfumato.kernels.clustering.clusters import group_equal
from sfumato.kernels.compiled import compiled, inner

Values = Sequence[npt.NDArray[Any] | None]
_KEY_BITS = 63
_FEW = 32
"""Up to so many rows a part is sorted instead of counted."""
_BINS = 4096
"""At most so many bins when counting towards a median."""
MANY = 16
"""A part of more than so many times k rows is large."""
_SPENT = 0.5
"""The share of t that a cut of a large part may use up."""
_DISTANCES = 2
"""The kinds of rules below this are distances, where less is safer; see `closeness`."""
_WORD = 64
_SMALL = 1 << 14
_MANY_GROUPS = 1 << 18


def mondrian(
    codes: AnyIntegers,
    k: int,
    *,
    ordered: Sequence[bool],
    values: Values | None = None,
    sensitive: AnyIntegers | None = None,
    rules: Sequence[ClosenessRule] = (),
    weights: Integers = UNWEIGHTED,
) -> tuple[Integers, Integers]:
    """Clusters of at least k records with narrow ranges, as (order, starts).

    `order` lists the records cluster after cluster, cluster i being `order[starts[i]:starts[i+1]]`.

    Records with the same values in all variables always stay together. Where k or more of them
    share all values they are a cluster by themselves, untouched, unless the other records would be
    too few (or break a rule): then those nearest to the others join them. The others are cut
    at the variable in which the part is widest, between two values beside the median; where that
    leaves fewer than k on a side the next widest variable is tried. Levels of a nominal variable
    are dealt to two sides of similar size; they have no order. A part that no variable can cut is
    a cluster. With rules, a cut counts only if both sides keep all of them.

    Only values decide, so the clusters do not depend on the order of the records. Time grows as
    n log n, memory as n (LeFevre, DeWitt & Ramakrishnan 2006, "Mondrian multidimensional
    k-anonymity", strict cuts).

    Parameters
    ----------
    codes : a row per record, a column per variable, 0 up to the number of levels less one; for
        ordered variables in their order.
    k : the fewest records in a cluster.
    ordered : per variable, whether its codes have an order.
    values : per ordered variable, the number that each code stands for; widths are then measured
        in these units, not in codes.
    sensitive : confidential codes, a column per variable; -1 is missing, see `closeness`.
    rules : what every cluster must keep about them.
    weights : how many records each row stands for; by default one.

    Examples
    --------
    >>> order, starts = mondrian(np.array([[1], [9], [2], [8]]), 2, ordered=[True])
    >>> order.tolist(), starts.tolist()
    ([0, 2, 3, 1], [0, 2, 4])
    """
    codes = np.asarray(codes)
    _check(codes, k, ordered, sensitive, rules, weights)
    hidden = np.zeros((len(codes), 0), np.int64) if sensitive is None else np.asarray(sensitive)
    secret, population = prepare_rules(hidden, rules, weights)
    _check_possible(rules, secret, weights, population)
    order, starts = group_equal_rows(codes)
    lowest, highest = _find_extremes(codes)
    scale = measure_scale(highest.astype(np.int64) + 1, ordered, values, lowest)
    alone = _find_untouched(codes, weights, order, starts, k, scale, secret, population)
    untouched, edges = _list_members(order, starts, np.flatnonzero(alone))
    if alone.all():
        return untouched, edges
    others = order, starts, np.flatnonzero(~alone)
    cut, cut_edges = _cut_groups(codes, weights, *others, k, scale, secret, population)
    return np.concatenate([untouched, cut]), np.concatenate([edges, len(untouched) + cut_edges[1:]])


def cut_piece(
    codes: AnyIntegers,
    weights: Integers,
    k: int,
    *,
    scale: CodeScale,
    secret: Codes,
    population: Population,
) -> tuple[Integers, Integers]:
    """Go on cutting a part of some data, given their scale and their distribution.

    What `mondrian` does with the rows that are not clusters by themselves.
    """
    order, starts = group_equal_rows(codes)
    groups = np.arange(len(starts) - 1)
    return _cut_groups(codes, weights, order, starts, groups, k, scale, secret, population)


def tighten(population: Population) -> Population:
    """The rules for large parts: only a share of each distance may be used up; none without one.

    A cut at a variable that goes with the confidential one brings both halves close to the bound
    at once, and then nothing can be cut any more. Cuts at other variables come first that way.
    """
    distances = population.kinds < _DISTANCES
    return population._replace(
        kinds=population.kinds if distances.any() else population.kinds[:0],
        limits=np.where(distances, population.limits * _SPENT, population.limits),
    )


@dataclass(frozen=True)
class CodeScale:
    """Units of the variables: which are nominal, their levels, what a code is worth."""

    nominal: Mask
    levels: Integers
    worth: Floats
    firsts: Integers


class _Rows(NamedTuple):
    """What is cut: rows of which each stands for one or more records.

    columns : the codes, a row per variable, so that looking for the spread and the median of a
        part reads memory in sequence.
    ids : what each row is. Columns, ids and weights move together: a part is always a stretch.
    weights : how many records each row stands for.
    nominal, levels : of each variable, whether it has no order, and how many levels.
    worth, firsts : what each code is worth as a share of the whole, variable after variable.
    """

    columns: Codes
    ids: Integers
    weights: Integers
    nominal: Mask
    levels: Integers
    worth: Floats
    firsts: Integers


class _Part(NamedTuple):
    """A stretch of rows, and how many records they stand for."""

    first: int
    last: int
    records: int


class _Scratch(NamedTuple):
    """Arrays to work in.

    front : of each row of a part, whether it belongs to the front half of the cut.
    spare : as many whole numbers as there are rows.
    bins : zero between uses.
    extremes : lowest and highest code of each ordered variable in the part.
    """

    front: Mask
    spare: Integers
    bins: Integers
    extremes: Integers


def _check(
    codes: AnyIntegers,
    k: int,
    ordered: Sequence[bool],
    sensitive: AnyIntegers | None,
    rules: Sequence[ClosenessRule],
    weights: Integers,
) -> None:
    if codes.ndim != 2 or len(ordered) != codes.shape[1] or not codes.shape[1]:  # noqa: PLR2004
        raise ValueError("Codes need a column per variable, and `ordered` an entry for each.")
    records = int(weights.sum()) if len(weights) else len(codes)
    if k < 1 or records < k:
        raise ValueError(f"Clusters of {k} records need at least as many: there are {records}.")
    if codes.min() < 0 or (sensitive is not None and sensitive.min() < -1):
        raise ValueError("Codes start at 0; confidential ones at -1, which is missing.")
    if rules and sensitive is None:
        raise ValueError("Rules need confidential codes.")


def _check_possible(
    rules: Sequence[ClosenessRule], secret: Codes, weights: Integers, population: Population
) -> None:
    """Refuse a diversity that even all records together do not have; every t is possible."""
    everyone = np.arange(secret.shape[1]), np.array([0, secret.shape[1]])
    for number, rule in enumerate(rules):
        if rule.kind not in DIVERSITY:
            continue
        best = score_parts(secret[rule.column], *everyone, number, population, weights)[0]
        if best < rule.limit * (1 - ROUNDING):
            raise ValueError(
                f"No cluster can reach a diversity ({rule.kind}) of {rule.limit:g}: "
                f"all records together have {best:.6g}."
            )


def measure_scale(
    levels: Integers, ordered: Sequence[bool], values: Values | None, lowest: AnyIntegers
) -> CodeScale:
    """The units of variables with so many levels, of which the lowest that occurs is given."""
    worth = []
    for variable, count in enumerate(levels):
        numbers = values[variable] if values is not None and ordered[variable] else None
        units = np.arange(count) if numbers is None else np.asarray(numbers)[:count]
        units = units.astype(np.float64)
        span = float(units[-1] - units[lowest[variable]])
        worth.append(units / span if span > 0 else units * 0.0)
    firsts = np.concatenate(([0], np.cumsum(levels)))
    return CodeScale(~np.asarray(ordered, np.bool_), levels, np.concatenate(worth), firsts)


def group_equal_rows(codes: AnyIntegers) -> tuple[Integers, Integers]:
    """Records with equal rows together, in an order only values decide, as (order, starts)."""
    key, free = np.zeros(len(codes), np.int64), _KEY_BITS
    for variable, highest in enumerate(_find_extremes(codes)[1]):
        bits = int(highest).bit_length()
        if bits > free:  # number what there is so far, which needs fewer bits
            key = np.unique(key, return_inverse=True)[1].ravel().astype(np.int64)
            free = _KEY_BITS - int(key.max()).bit_length()
        key <<= bits
        key |= codes[:, variable].astype(np.int64, copy=False)
        free -= bits
    return group_equal(key)


def _count_records(weights: Integers, order: Integers, starts: Integers) -> Integers:
    """The records of each group of rows."""
    if not len(weights):
        return np.diff(starts)
    records: Integers = np.add.reduceat(weights[order], starts[:-1])
    return records


def _find_untouched(
    codes: AnyIntegers,
    weights: Integers,
    order: Integers,
    starts: Integers,
    k: int,
    scale: CodeScale,
    secret: Codes,
    population: Population,
) -> Mask:
    """Which groups of equal rows are clusters by themselves."""
    sizes = _count_records(weights, order, starts)
    alone = sizes >= k
    ruled = len(population.kinds) > 0
    if ruled:
        groups = np.flatnonzero(alone)
        alone[alone] = check_parts(
            secret, weights, order, starts[groups], starts[groups + 1], population
        )
    back = 1
    free = np.flatnonzero(alone)
    while True:
        others = np.flatnonzero(~alone)
        count = int(sizes[others].sum())
        if not count or (count >= k and not ruled):
            return alone
        if count >= k:
            members, _ = _list_members(order, starts, others)
            whole = np.array([0]), np.array([len(members)])
            if check_parts(secret, weights, members, *whole, population)[0]:
                return alone
        if back == 1:
            rows = order[starts[free]]
            cost = measure_cost(codes[order[starts[others]]], codes[rows], scale)
            # Of groups that cost the same the lowest codes come first.
            free = free[np.lexsort((*codes[rows].T[::-1], cost * sizes[free]))]
        alone[free[:back]] = False
        back *= 2


def measure_cost(others: AnyIntegers, groups: AnyIntegers, scale: CodeScale) -> Floats:
    """How wide each group would be as one cluster with all the others."""
    wide = np.zeros(len(groups))
    for variable, first in enumerate(scale.firsts[:-1]):
        theirs, ours = others[:, variable], groups[:, variable]
        if scale.nominal[variable]:
            there = np.unique(theirs)
            wide += (len(there) - np.isin(ours, there)) / max(1, scale.levels[variable] - 1)
        else:
            high, low = np.maximum(ours, theirs.max()), np.minimum(ours, theirs.min())
            wide += scale.worth[first + high] - scale.worth[first + low]
    return wide


def _list_members(order: Integers, starts: Integers, groups: Integers) -> tuple[Integers, Integers]:
    """The records of some groups, group after group, as (order, starts)."""
    sizes = starts[groups + 1] - starts[groups]
    ends = np.concatenate(([0], np.cumsum(sizes)))
    members = np.empty(ends[-1], order.dtype)
    for first in range(0, len(groups), _MANY_GROUPS):  # what is needed in between stays small
        some = slice(first, first + _MANY_GROUPS)
        low, high = ends[first], ends[min(some.stop, len(groups))]
        shift = starts[groups[some]] - ends[some.start : some.stop][: len(groups[some])]
        members[low:high] = order[np.arange(low, high) + np.repeat(shift, sizes[some])]
    return members, ends


def _cut_groups(
    codes: AnyIntegers,
    weights: Integers,
    order: Integers,
    starts: Integers,
    groups: Integers,
    k: int,
    scale: CodeScale,
    secret: Codes,
    population: Population,
) -> tuple[Integers, Integers]:
    """Cut groups of equal rows, each counting with its records; the clusters of the rows."""
    ruled = len(population.kinds) > 0
    if ruled:  # each row counts by itself
        order, _ = _list_members(order, starts, groups)
        starts, groups = np.arange(len(order) + 1), np.arange(len(order))
    first = order[starts[groups]]
    rows = _Rows(
        columns=_take_columns(codes, first),
        # With rules a group is one row, and the compiled code needs to know which.
        ids=first.copy() if ruled else groups.copy(),
        weights=_count_records(weights, order, starts)[groups],
        nominal=scale.nominal,
        levels=scale.levels,
        worth=scale.worth,
        firsts=scale.firsts,
    )
    ends = np.empty(len(groups), np.int64)
    cut = _cut_all.kernel if ruled else _cut_all  # logarithms have other last bits in Python
    clusters = cut(rows, k, secret, weights, population, tighten(population), ends)
    edges = np.concatenate(([0], ends[:clusters]))
    ids = rows.ids
    if ruled:
        return ids, edges
    del rows  # they are the largest of all
    records, inner_starts = _list_members(order, starts, ids)
    return records, inner_starts[edges]


@compiled(small=_SMALL)
def _find_extremes(codes):  # type: ignore[no-untyped-def]
    """The lowest and the highest code of each variable."""
    low, high = codes[0].copy(), codes[0].copy()
    for row in range(1, len(codes)):
        for column in range(codes.shape[1]):
            low[column] = min(low[column], codes[row, column])
            high[column] = max(high[column], codes[row, column])
    return low, high


@compiled(small=_SMALL)
def _take_columns(codes, rows):  # type: ignore[no-untyped-def]
    """The codes of some records, variable after variable."""
    columns = np.empty((codes.shape[1], len(rows)), np.int32)
    for i in range(len(rows)):
        for column in range(codes.shape[1]):
            columns[column, i] = codes[rows[i], column]
    return columns


@compiled
def check_parts(secret, weights, order, firsts, lasts, population):  # type: ignore[no-untyped-def]
    """Which stretches of the order keep all rules."""
    most = 0
    for part in range(len(firsts)):
        most = max(most, lasts[part] - firsts[part])
    tally = make_tally(most, population)
    kept = np.empty(len(firsts), np.bool_)
    for part in range(len(firsts)):
        kept[part] = keeps_rules(
            secret, weights, order, firsts[part], lasts[part], population, tally
        )
    return kept


@compiled(small=_SMALL)
def _cut_all(rows, k, secret, weights, population, tight, ends):  # type: ignore[no-untyped-def]
    """Cut until no part can be cut; the clusters' ends among the rows, and how many there are.

    The rows are rearranged so that clusters are stretches of them. A part is cut at the variable
    where it is widest and that allows a cut.
    """
    columns = rows.columns
    count = columns.shape[1]
    lasts, totals = np.empty(count + 1, np.int64), np.empty(count + 1, np.int64)
    scratch = _Scratch(
        np.empty(count, np.bool_),
        np.empty(count, np.int64),
        np.zeros(max(_BINS, rows.firsts[-1]), np.int64),
        np.empty((2, len(columns)), np.int64),
    )
    tally = make_tally(count if len(population.kinds) else 0, population)
    widths, tries = np.empty(len(columns)), np.empty(len(columns))
    lasts[0], totals[0], top, clusters = count, 0, 1, 0
    for row in range(count):
        totals[0] += rows.weights[row]
    first = lasts[0] - count  # a whole number of 64 bits from the start, or all compiles twice
    while top:
        part = _Part(first, lasts[top - 1], totals[top - 1])
        heavy = np.int64(0)
        if part.records >= 2 * k and part.last - part.first > 1:
            _measure_widths(rows, part, scratch, widths)
            if len(tight.kinds) > 0 and part.records > MANY * k:
                tries[:] = widths
                heavy = _find_cut(rows, part, tries, k, secret, weights, tight, scratch, tally)
            if heavy == 0:
                heavy = _find_cut(
                    rows, part, widths, k, secret, weights, population, scratch, tally
                )
        if heavy == 0:
            ends[clusters], first = part.last, part.last
            clusters, top = clusters + 1, top - 1
            continue
        moved = _move_front(rows.ids, part, scratch)
        _move_front(rows.weights, part, scratch)
        for variable in range(len(columns)):
            _move_front(columns[variable], part, scratch)
        totals[top - 1] = part.records - heavy
        lasts[top], totals[top] = first + moved, heavy
        top += 1
    return clusters


@inner
def _find_cut(rows, part, widths, k, secret, weights, population, scratch, tally):  # type: ignore[no-untyped-def]
    """Mark the front of the cut at the widest variable that allows one; its records, or 0."""
    variable = _find_widest(widths)
    while variable >= 0:
        if rows.nominal[variable]:
            heavy = _deal_levels(rows.columns[variable], rows.weights, part, scratch)
        else:
            heavy = _cut_at_median(rows.columns[variable], variable, rows.weights, part, scratch)
        if min(heavy, part.records - heavy) >= k and _keep_rules(
            secret, weights, rows.ids, part, population, scratch, tally
        ):
            return heavy
        widths[variable] = -1.0
        variable = _find_widest(widths)
    return np.int64(0)


@inner
def _find_widest(widths):  # type: ignore[no-untyped-def]
    """The widest variable that is not yet ruled out; -1 where there is none."""
    widest, width = -1, 0.0
    for variable in range(len(widths)):
        if widths[variable] > width:
            widest, width = variable, widths[variable]
    return widest


@inner
def _keep_rules(secret, weights, ids, part, population, scratch, tally):  # type: ignore[no-untyped-def]
    """Whether both halves of a cut keep all rules."""
    if len(population.kinds) == 0:
        return True
    trial, size = scratch.spare, part.last - part.first
    middle, end, zero = np.int64(0), size, np.int64(0)
    for row in range(size):
        if scratch.front[row]:
            trial[middle] = ids[part.first + row]
            middle += 1
        else:
            end -= 1
            trial[end] = ids[part.first + row]
    return keeps_rules(secret, weights, trial, zero, middle, population, tally) and keeps_rules(
        secret, weights, trial, middle, size, population, tally
    )


@inner
def _move_front(items, part, scratch):  # type: ignore[no-untyped-def]
    """The marked rows first, then the others, in their order; how many are marked."""
    first, spare = part.first, scratch.spare
    to, other = first, 0
    for row in range(first, part.last):
        item, marked = items[row], scratch.front[row - first]
        items[to] = item  # that row has been read already
        spare[other] = item
        to += marked
        other += not marked
    for row in range(other):
        items[to + row] = spare[row]
    return to - first


@inner
def _measure_widths(rows, part, scratch, widths):  # type: ignore[no-untyped-def]
    """How wide the part is in each variable, as a share of the whole; lowest and highest codes."""
    worth, levels, extremes = rows.worth, rows.levels, scratch.extremes
    for variable in range(len(widths)):
        column = rows.columns[variable]
        if rows.nominal[variable]:
            distinct = _count_levels(column, part, levels[variable], scratch.bins)
            widths[variable] = (distinct - 1) / max(1, levels[variable] - 1)
        else:
            low, high = column[part.first], column[part.first]
            for row in range(part.first + 1, part.last):
                low, high = min(low, column[row]), max(high, column[row])
            first = rows.firsts[variable]
            widths[variable] = worth[first + high] - worth[first + low]
            extremes[0, variable], extremes[1, variable] = low, high


@inner
def _count_levels(column, part, levels, bins):  # type: ignore[no-untyped-def]
    """How many levels occur. Few levels fit one word, a bit each: no memory to write and clear."""
    distinct = 0
    if levels <= _WORD:
        word = np.uint64(0)
        for row in range(part.first, part.last):
            word |= np.uint64(1) << np.uint64(column[row])
        while word:
            word &= word - np.uint64(1)
            distinct += 1
        return distinct
    for row in range(part.first, part.last):
        distinct += 1 - bins[column[row]]
        bins[column[row]] = 1
    for row in range(part.first, part.last):
        bins[column[row]] = 0
    return distinct


@inner
def _cut_at_median(column, variable, weights, part, scratch):  # type: ignore[no-untyped-def]
    """Cut an ordered variable beside its median, equal values together, as evenly as that allows.

    Marks the rows in front and returns their records. No cut of this variable is more even.
    """
    if part.last - part.first <= _FEW:
        below, equal, median = _find_median_by_sorting(column, weights, part, scratch.spare)
    else:
        below, equal, median = _find_median_by_counting(column, variable, weights, part, scratch)
    upto = below + equal
    if min(below, part.records - below) > min(upto, part.records - upto):
        median, upto = median - 1, below
    for row in range(part.first, part.last):
        scratch.front[row - part.first] = column[row] <= median
    return upto


@inner
def _find_median_by_sorting(column, weights, part, keys):  # type: ignore[no-untyped-def]
    """The records below the median, the records at it, and its code."""
    size = part.last - part.first
    for row in range(size):
        key = (np.int64(column[part.first + row]) << HALF) | weights[part.first + row]
        to = row
        while to and keys[to - 1] > key:
            keys[to] = keys[to - 1]
            to -= 1
        keys[to] = key
    below, equal, median = np.int64(0), np.int64(0), np.int64(-1)
    for row in range(size):
        if keys[row] >> HALF != median:
            if 2 * (below + equal) >= part.records:
                break
            below, equal, median = below + equal, np.int64(0), keys[row] >> HALF
        equal += keys[row] & MASK
    return below, equal, median


@inner
def _find_median_by_counting(column, variable, weights, part, scratch):  # type: ignore[no-untyped-def]
    """The same by counting in ever finer bins around the median."""
    bins = scratch.bins
    low, high = scratch.extremes[0, variable], scratch.extremes[1, variable]
    most = min(_BINS, part.last - part.first)
    below = np.int64(0)
    while True:
        shift = 0
        while (high - low) >> shift >= most:
            shift += 1
        for row in range(part.first, part.last):
            if low <= column[row] <= high:
                bins[(column[row] - low) >> shift] += weights[row]
        bin_ = 0
        while 2 * (below + bins[bin_]) < part.records:
            below += bins[bin_]
            bin_ += 1
        equal = bins[bin_]
        for empty in range(((high - low) >> shift) + 1):
            bins[empty] = 0
        low += bin_ << shift
        high = min(high, low + (1 << shift) - 1)
        if low == high:
            return below, equal, low


@inner
def _deal_levels(column, weights, part, scratch):  # type: ignore[no-untyped-def]
    """Deal the levels of a nominal variable to two halves, the commonest first to the lighter one.

    Marks the rows in front and returns their records.
    """
    bins, keys = scratch.bins, scratch.spare
    present = 0
    for row in range(part.first, part.last):
        if bins[column[row]] == 0:
            keys[present] = column[row]
            present += 1
        bins[column[row]] += weights[row]
    for i in range(present):
        keys[i] -= bins[keys[i]] << HALF
    sort_few(keys, present)
    front, back = np.int64(0), np.int64(0)
    for i in range(present):
        level = keys[i] & MASK
        if front <= back:
            front += bins[level]
            bins[level] = -1
        else:
            back += bins[level]
    for row in range(part.first, part.last):
        scratch.front[row - part.first] = bins[column[row]] < 0
    for i in range(present):
        bins[keys[i] & MASK] = 0
    return front
