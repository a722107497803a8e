"""Rules that clusters must keep about confidential variables: t-closeness, l-diversity.

t-closeness (Li, Li & Venkatasubramanian 2007) bounds the earth mover's distance between a
cluster's distribution of a confidential variable and that of all records. l-diversity
(Machanavajjhala et al. 2007) asks that the values of a cluster differ enough.

A code of -1 is missing. It may hide any value, so l is that of the worst filling: all missing ones
of a cluster have its commonest value. No other filling has fewer values, less entropy or a
commoner value, since no other distribution majorises that one. For t, missing ones are left out,
of the cluster and of the whole; to take them for a value, give them a code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import UNWEIGHTED, AnyIntegers, Codes, Floats, Integers, Mask
from sfumato.kernels.compiled import compiled, inlined, inner

Kind = Literal["ordered", "equal", "distinct", "entropy", "recursive"]

_KINDS: tuple[Kind, ...] = ("ordered", "equal", "distinct", "entropy", "recursive")
_ORDERED, _EQUAL, _DISTINCT, _ENTROPY = range(4)
DIVERSITY = _KINDS[2:]
"""Those where more is safer."""
ROUNDING = 1e-12
"""Relative slack of a comparison: a bound that is met exactly must not fail by its last bit."""
_FEW = 24
"""Up to so many codes are sorted by insertion."""
_LIMB = 60
"""Bits of the lower half of a long sum."""
HALF = 32
"""Bits of a code beside a count in one sortable number; there are fewer than 2^31 records."""
MASK = (1 << HALF) - 1
_MOST_RANKS = 1 << 26
"""Up to so many records the code of each rank is written down; beyond, it is searched for."""


@dataclass(frozen=True)
class ClosenessRule:
    """What every cluster must keep about one confidential variable.

    kind : "ordered" or "equal" is t-closeness: the earth mover's distance between the cluster and
        the whole is at most `limit`. "distinct", "entropy" or "recursive" is l-diversity: distinct
        values, the exponential of their entropy, or the l of (c, l) is at least `limit`.
    limit : t or l.
    column : which column of the confidential codes.
    c : of recursive diversity: the commonest value is rarer than c times those from the l-th on.
    tree : of "equal" with a hierarchy: a row per level above the values, a group number for each
        code; the root is left out. Two values are as far apart as their first common level is high.
    """

    kind: Kind
    limit: float
    column: int = 0
    c: float = 1.0
    tree: AnyIntegers | None = None


class Population(NamedTuple):
    """The rules and the distribution of all records, as arrays for compiled functions.

    kinds, columns, limits, ratios : of each rule its kind, variable, limit and c.
    firsts : where the codes of each variable begin in `below`.
    below : records with at most this code, variable after variable; `sums` adds them up, with a 0
        in front of each variable; `ranked` has the code of each rank, unless there are too many,
        and a variable's ranks begin at `ranks`; it has `sizes` records in all.
    level_starts, heights : where the levels of each rule's hierarchy begin, and how many it has.
    groups, totals : the group of each code at each level, and how many records it has.
    """

    kinds: Integers
    columns: Integers
    limits: Floats
    ratios: Floats
    firsts: Integers
    below: Integers
    sums: Integers
    ranked: Integers
    ranks: Integers
    sizes: Integers
    level_starts: Integers
    heights: Integers
    groups: Integers
    totals: Integers


class PartTally(NamedTuple):
    """Room to tally the codes of a part: distinct codes, their counts, a count of every code.

    `bins` is zero between uses.
    """

    codes: Integers
    counts: Integers
    bins: Integers


def prepare_rules(
    sensitive: AnyIntegers, rules: Sequence[ClosenessRule], weights: Integers = UNWEIGHTED
) -> tuple[Codes, Population]:
    """The codes, a row per variable and only codes that occur, and what the rules compare with.

    Negative codes are missing, and -1 afterwards. With weights, a row stands for so many records.
    """
    sensitive = sensitive.reshape(len(sensitive), -1)
    codes = np.empty((sensitive.shape[1], len(sensitive)), np.int32)
    counts, values = [], []
    for variable, column in enumerate(sensitive.T):
        distinct, inverse, count = np.unique(
            np.maximum(column, -1), return_inverse=True, return_counts=True
        )
        gap = int(len(distinct) > 0 and distinct[0] < 0)
        codes[variable] = inverse.ravel() - gap
        if len(weights):
            count = np.zeros(len(distinct), np.int64)
            np.add.at(count, inverse.ravel(), weights)
        counts.append(count[gap:])
        values.append(distinct[gap:])
    return codes, summarise_whole(counts, values, rules)


def summarise_whole(
    counts: Sequence[Integers], values: Sequence[npt.NDArray[Any]], rules: Sequence[ClosenessRule]
) -> Population:
    """All records as the rules need them: how often each of the codes that occur does so."""
    below = [np.cumsum(count, dtype=np.int64) for count in counts]
    trees = [_number_groups(rule, values[rule.column]) for rule in rules]
    totals = [
        np.bincount(level, counts[rule.column]).astype(np.int64)[level]
        for rule, tree in zip(rules, trees, strict=True)
        for level in tree
    ]
    return Population(
        kinds=np.array([_KINDS.index(rule.kind) for rule in rules], np.int64),
        columns=np.array([rule.column for rule in rules], np.int64),
        limits=np.array([rule.limit for rule in rules], np.float64),
        ratios=np.array([rule.c for rule in rules], np.float64),
        firsts=_find_starts([len(count) for count in counts]),
        below=_join(below),
        sums=_join([np.concatenate(([0], np.cumsum(count))) for count in below]),
        ranked=_join(
            [
                np.repeat(np.arange(len(count)), count if count.sum() <= _MOST_RANKS else 0)
                for count in counts
            ]
        ),
        ranks=_find_starts(
            [int(count.sum()) if count.sum() <= _MOST_RANKS else 0 for count in counts]
        ),
        sizes=np.array([int(count.sum()) for count in counts], np.int64),
        level_starts=_find_starts([tree.size for tree in trees]),
        heights=np.array([len(tree) for tree in trees], np.int64),
        groups=_join([tree.ravel() for tree in trees]),
        totals=_join(totals),
    )


def _number_groups(rule: ClosenessRule, values: npt.NDArray[Any]) -> Integers:
    """The groups of the codes that occur, at every level; the values themselves are the lowest."""
    if rule.kind != "equal":
        return np.empty((0, len(values)), np.int64)
    levels = [np.arange(len(values))]
    if rule.tree is not None:
        levels += [np.unique(row[values], return_inverse=True)[1].ravel() for row in rule.tree]
    return np.array(levels, np.int64)


def _find_starts(lengths: Sequence[int]) -> Integers:
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))).astype(np.int64)


def _join(arrays: Sequence[npt.NDArray[Any]]) -> Integers:
    return np.concatenate([np.empty(0, np.int64), *arrays]).astype(np.int64)


def achieved_t(
    sensitive: AnyIntegers,
    order: Integers,
    starts: Integers,
    kind: Literal["ordered", "equal"] = "ordered",
    tree: AnyIntegers | None = None,
) -> Floats:
    """The earth mover's distance of every cluster to the whole, for one confidential variable.

    "ordered": the sum of the absolute differences of the two cumulative distributions over the m
    values that occur, divided by m − 1. "equal": the total variation; with a `tree`, its mean over
    the levels (Li, Li & Venkatasubramanian 2007, section 4).

    Examples
    --------
    >>> achieved_t(np.array([0, 1, 2, 3]), np.arange(4), np.array([0, 2, 4])).round(3).tolist()
    [0.333, 0.333]
    """
    return score_clusters(sensitive, order, starts, ClosenessRule(kind, 0.0, tree=tree))


def achieved_l(
    sensitive: AnyIntegers,
    order: Integers,
    starts: Integers,
    kind: Literal["distinct", "entropy", "recursive"] = "distinct",
    c: float = 1.0,
    weights: Integers = UNWEIGHTED,
) -> Floats:
    """The diversity of every cluster: the largest l that it keeps, 0 where it keeps none.

    Examples
    --------
    >>> achieved_l(np.array([0, 0, 0, 3]), np.arange(4), np.array([0, 2, 4])).tolist()
    [1.0, 2.0]
    """
    return score_clusters(sensitive, order, starts, ClosenessRule(kind, 0.0, c=c), weights)


def score_clusters(
    sensitive: AnyIntegers,
    order: Integers,
    starts: Integers,
    rule: ClosenessRule,
    weights: Integers = UNWEIGHTED,
) -> Floats:
    """The t or l of every cluster."""
    codes, population = prepare_rules(sensitive, [rule], weights)
    return score_parts(codes[rule.column], order, starts, 0, population, weights)


def score_parts(
    codes: AnyIntegers,
    order: Integers,
    starts: Integers,
    rule: int,
    population: Population,
    weights: Integers = UNWEIGHTED,
) -> Floats:
    """The t or l of the parts `order[starts[i]:starts[i + 1]]`, by one of the rules."""
    scores: Floats = _score_parts(codes, weights, order, starts, rule, population)
    return scores


def keep_rule(codes: AnyIntegers, weights: Integers, rule: int, population: Population) -> bool:
    """Whether records, given as codes and how many have each, keep one of the rules."""
    everyone = np.arange(len(codes)), np.array([0, len(codes)])
    scores = score_parts(codes, *everyone, rule, population, weights)
    kind = _KINDS[int(population.kinds[rule])]
    return not breaks_rule(scores, ClosenessRule(kind, float(population.limits[rule])))[0]


def breaks_rule(scores: Floats, rule: ClosenessRule) -> Mask:
    """Which scores of parts break a rule."""
    if rule.kind in DIVERSITY:
        return scores < rule.limit * (1.0 - ROUNDING)
    return scores > rule.limit * (1.0 + ROUNDING)


@compiled
def _score_parts(codes, weights, order, starts, rule, population):  # type: ignore[no-untyped-def]
    scores = np.empty(len(starts) - 1)
    widest = 0
    for part in range(len(scores)):
        widest = max(widest, starts[part + 1] - starts[part])
    tally = make_tally(widest, population)
    for part in range(len(scores)):
        distinct, size, missing = _tally_part(
            codes, weights, order, starts[part], starts[part + 1], tally
        )
        scores[part] = _score(rule, tally, distinct, size, missing, population)
    return scores


@inner
def make_tally(size, population):  # type: ignore[no-untyped-def]
    """Room to tally a part of up to so many records."""
    firsts = population.firsts
    widest = 1
    for column in range(len(firsts) - 1):
        widest = max(widest, firsts[column + 1] - firsts[column])
    return PartTally(np.empty(size, np.int64), np.empty(size, np.int64), np.zeros(widest, np.int64))


@inner
def keeps_rules(codes, weights, order, first, last, population, tally):  # type: ignore[no-untyped-def]
    """Whether the records of a part, `order[first:last]`, keep every rule."""
    limits = population.limits
    for rule in range(len(population.kinds)):
        column = codes[population.columns[rule]]
        distinct, size, missing = _tally_part(column, weights, order, first, last, tally)
        score = _score(rule, tally, distinct, size, missing, population)
        if population.kinds[rule] <= _EQUAL:
            if score > limits[rule] * (1.0 + ROUNDING):
                return False
        elif score < limits[rule] * (1.0 - ROUNDING):
            return False
    return True


@inlined
def _tally_part(codes, weights, order, first, last, tally):  # type: ignore[no-untyped-def]
    """Tally a part: how many values, records that have one, and records that have none."""
    if len(weights):
        return _tally_weighted(codes, weights, order, first, last, tally)
    size = _list_codes(codes, order, first, last, tally)
    return count_codes(tally, size), size, last - first - size


@inner
def _tally_weighted(codes, weights, order, first, last, tally):  # type: ignore[no-untyped-def]
    """The same where each row stands for some records."""
    listed, counts = tally.codes, tally.counts
    rows, size, missing = np.int64(0), np.int64(0), np.int64(0)
    for i in range(first, last):
        row = order[i]
        if codes[row] < 0:
            missing += weights[row]
            continue
        listed[rows] = (np.int64(codes[row]) << HALF) | weights[row]
        rows += 1
        size += weights[row]
    sort_few(listed, rows)
    distinct = np.int64(0)
    for i in range(rows):
        code, weight = listed[i] >> HALF, listed[i] & MASK
        if distinct and listed[distinct - 1] == code:
            counts[distinct - 1] += weight
        else:
            listed[distinct], counts[distinct] = code, weight
            distinct += 1
    return distinct, size, missing


@inlined
def _list_codes(codes, order, first, last, tally):  # type: ignore[no-untyped-def]
    """List the codes of `order[first:last]` that are not missing; how many there are."""
    listed, signs = tally.codes, np.int64(0)
    for i in range(last - first):
        listed[i] = codes[order[first + i]]
        signs |= listed[i]
    if signs >= 0:
        return last - first
    size = 0
    for i in range(last - first):
        listed[size] = listed[i]
        size += listed[i] >= 0
    return size


@inner
def sort_few(items, size):  # type: ignore[no-untyped-def]
    """Sort the first few numbers in place: insertion with shrinking gaps (Ciura 2001, extended)."""
    gap = 1
    while gap < size // 3:
        gap = gap * 9 // 4 + 1
    while gap:
        for i in range(gap, size):
            item, to = items[i], i
            while to >= gap and items[to - gap] > item:
                items[to] = items[to - gap]
                to -= gap
            items[to] = item
        gap = gap * 4 // 9
    return items


@inner
def count_codes(tally, size):  # type: ignore[no-untyped-def]
    """Sort the codes of a part, keep each once with its count; how many there are."""
    codes, counts, bins = tally.codes, tally.counts, tally.bins
    distinct = 0
    if len(bins) <= 4 * size and size > _FEW:
        for i in range(size):
            bins[codes[i]] += 1
        for code in range(len(bins)):
            if bins[code]:
                codes[distinct], counts[distinct] = code, bins[code]
                bins[code] = 0
                distinct += 1
        return distinct
    sort_few(codes, size)
    for i in range(size):
        if distinct and codes[distinct - 1] == codes[i]:
            counts[distinct - 1] += 1
        else:
            codes[distinct], counts[distinct] = codes[i], 1
            distinct += 1
    return distinct


@inner
def _score(rule, tally, distinct, size, missing, population):  # type: ignore[no-untyped-def]
    """The t or l of a part whose codes have been tallied, besides those that are missing."""
    firsts, ranks, counts = population.firsts, population.ranks, tally.counts
    kind, column = population.kinds[rule], population.columns[rule]
    first, last = firsts[column], firsts[column + 1]
    n = population.sizes[column]
    if kind <= _EQUAL and size == 0:
        return 0.0
    if kind == _ORDERED:
        below = population.below[first:last]
        sums = population.sums[first + column : last + column + 1]
        ranked = population.ranked[ranks[column] : ranks[column + 1]]
        return earth_movers_distance(tally, distinct, size, n, below, sums, ranked)
    if kind == _EQUAL:
        distance = 0.0
        for level in range(population.heights[rule]):
            start = population.level_starts[rule] + level * (last - first)
            distance += _total_variation(
                tally, distinct, size, n, population.groups[start:], population.totals[start:]
            )
        return distance / population.heights[rule]
    if missing:
        distinct = _fill_missing(counts, distinct, missing)
        size += missing
    if kind == _DISTINCT:
        return float(distinct)
    if kind == _ENTROPY:
        weighted = 0.0
        for i in range(distinct):
            weighted += counts[i] * np.log(counts[i])
        return np.exp(np.log(size) - weighted / size)
    return _recursive_diversity(sort_few(counts, distinct), distinct, size, population.ratios[rule])


@inner
def _fill_missing(counts, distinct, missing):  # type: ignore[no-untyped-def]
    """Let all that are missing have the commonest value; how many values there are then."""
    if distinct == 0:
        counts[0] = 0
        distinct = 1
    commonest = 0
    for i in range(1, distinct):
        if counts[i] > counts[commonest]:
            commonest = i
    counts[commonest] += missing
    return distinct


@inner
def earth_movers_distance(tally, distinct, size, n, below, sums, ranked):  # type: ignore[no-untyped-def]
    """Ordered distance: sum over the codes of |share at or below it here − in the whole|.

    `below` counts the records of the whole up to each code, `sums` adds those counts up, `ranked`
    has the code of each rank. Between two codes of the part its own share stands still, so the sum
    is a difference of `sums` on either side of the code where the whole overtakes it. All in whole
    numbers; a stretch is cut where the product would leave 64 bits.
    """
    codes = len(below)
    if codes == 1:
        return 0.0
    step = max(1, (1 << _LIMB) // (n * size))
    high, low, here, code = 0, 0, 0, 0
    for i in range(distinct + 1):
        end = tally.codes[i] if i < distinct else codes - 1
        reached = here * n
        turn = np.int64(0)
        if here:
            rank = (reached + size - 1) // size - 1
            turn = np.int64(ranked[rank] if len(ranked) else np.searchsorted(below, rank + 1))
        while code < end:
            to = min(end, code + step)
            cross = min(max(turn, code), to)
            low += (cross - code) * reached - size * (sums[cross] - sums[code])
            low += size * (sums[to] - sums[cross]) - (to - cross) * reached
            high += low >> _LIMB
            low &= (1 << _LIMB) - 1
            code = to
        if i < distinct:
            here += tally.counts[i]
    return (high * 2.0**_LIMB + low) / (float(n) * size * (codes - 1))


@inner
def _total_variation(tally, distinct, size, n, groups, totals):  # type: ignore[no-untyped-def]
    """Equal distance on groups of codes: what the part has too much of, as a share."""
    codes, bins = tally.codes, tally.bins
    for i in range(distinct):
        bins[groups[codes[i]]] += tally.counts[i]
    over = 0
    for i in range(distinct):
        group = groups[codes[i]]
        over += max(0, n * bins[group] - size * totals[codes[i]] if bins[group] else 0)
        bins[group] = 0
    return over / (float(n) * size)


@inner
def _recursive_diversity(ascending, distinct, size, ratio):  # type: ignore[no-untyped-def]
    """The largest l with: the commonest count < ratio × the counts from the l-th commonest on."""
    commonest, remaining, diversity = ascending[distinct - 1], size, 0
    for i in range(distinct):
        if commonest < ratio * remaining:
            diversity = i + 1
        remaining -= ascending[distinct - 1 - i]
    return float(diversity)
