"""Protective peers over every combination of variables, where matching is not just equality.

A record matches another by equal values, by values within a tolerance, or by cells that fit. What
`peers` counts for equal values this counts for any of these, with every pair of records compared,
or by sorting where that is less work. Both are exact. What each way takes is estimated first, in
steps: a step is about what it takes to look at one row in one combination of a lattice (20 ns).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextvars import copy_context
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from sfumato.kernels.arrays import AnyIntegers, Floats, Integers, Mask
from sfumato.kernels.lattice import match_pairs
from sfumato.kernels.lattice.combinations import (
    Effort,
    Limits,
    count_combinations,
    list_combinations,
    set_limits,
)
from sfumato.kernels.lattice.match_pairs import Masks, PairQuestion, SensitiveValues
from sfumato.kernels.lattice.match_sweep import Sweep
from sfumato.kernels.lattice.peers import COLUMNS, RECORDS, PeerCounts, read_share
from sfumato.kernels.lattice.relations import (
    Relation,
    match_cells,
    match_equal,
    match_near,
    pack_relations,
)
from sfumato.progress import Progress

__all__ = [
    "Matches",
    "Relation",
    "count_matches",
    "count_person_matches",
    "match_cells",
    "match_equal",
    "match_near",
]

Way = Literal["sums", "list", "sweep", "persons"]
_PAIRS = 1 << 24
"""Pairs of rows that a thread compares before it reports progress."""
_SUMMED = 16
"""Up to so many variables all counts of a record are held at once."""
_FOLLOWED = 1 << 22
"""Steps per record up to which other values are followed through all combinations."""
_COMPARED = 16
"""Rows of persons that are compared in a step."""
_MANY = 3
"""From so many tolerances on, pairs are gone through one by one."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Matches(PeerCounts):
    """What protects each target row; see `PeerCounts`. Bounds, where cells stand for many values.

    `peers` are then those who protect for sure and those who may not, so that the share of
    protective peers is never more than the true one. Alternatives are -1, and their shares NaN,
    where the values of a variable cannot be told apart, or where following them takes too long.

    targets : the rows looked at, in the order of the arrays.
    exact : by target row, whether the numbers are not bounds but the numbers themselves.
    way : how they were counted.
    """

    targets: AnyIntegers
    exact: Mask
    way: Way

    @property
    def poac(self) -> Floats:
        """Share of alternatives at maximum information; NaN where there is none to speak of."""
        return np.where(self.alternatives < 0, np.nan, super().poac)

    @property
    def least_poac(self) -> Floats:
        """Least share of alternatives; NaN where there is none to speak of."""
        return np.where(self.fewest_alternatives < 0, np.nan, super().least_poac)


def count_matches(
    relations: Sequence[Relation],
    counts: AnyIntegers,
    *,
    sensitive: Sequence[int],
    known: Sequence[int],
    targets: AnyIntegers | None = None,
    most: int | None = None,
    effort: Effort | None = None,
    budget: int | None = None,
    q: float | Fraction = 0.0,
    p: float | Fraction = 0.0,
    way: Way | None = None,
    say: Progress | None = None,
) -> Matches:
    """Peers of target rows among all rows, over every non-empty combination of `known`.

    A row protects a target if it surely matches all that is known and cannot match the sensitive
    value. It does not protect if it may match both. A variable is never known while it is the
    sensitive one.

    Parameters
    ----------
    relations : how rows match on each variable; see `match_equal`, `match_near`, `match_cells`.
    counts : how many records each row stands for.
    sensitive, known : the variables, by their position in `relations`.
    targets : the rows to look at. Default: all.
    most, effort, q, p, say : as for `count_peers`.
    budget : how many steps may be taken; beyond it an error says what would fit.
    way : how to count; by default the cheapest.

    Examples
    --------
    >>> age = match_near(np.array([0, 1, 2]), low=np.array([0, 0, 2]), high=np.array([1, 1, 2]))
    >>> relations = [age, match_equal([0, 1, 1])]
    >>> matches = count_matches(relations, np.ones(3, int), sensitive=[1], known=[0])
    >>> matches.least_ppp
    array([[0.5, 0.5, 0. ]])
    """
    counts = _check(relations, counts, sensitive, known)
    rows = np.arange(len(counts)) if targets is None else np.asarray(targets, np.int64)
    limits = set_limits(len(relations), most, effort)
    shares = read_share(p, "p"), read_share(q, "q")
    question = MatchQuestion(
        relations, tuple(sensitive), tuple(known), len(counts), len(rows), follow=shares[1] > 0
    )
    looked, everything = _count_searched_combinations(question, limits)
    question = replace(question, follow=question.follow or bool((looked != everything).any()))
    way = choose_way(question, len(relations), most, effort, budget) if way is None else way
    combinations = list_combinations(limits, known)
    if way == "sweep":
        out, exact = _count_by_sweep(question, counts, rows, combinations, shares, say)
    else:
        out, exact = _count_by_pairs(question, counts, rows, combinations, shares, way, say)
    return _collect(question, limits, rows, out, exact, way)


def _collect(
    question: MatchQuestion,
    limits: Limits,
    rows: AnyIntegers,
    out: AnyIntegers,
    exact: Mask,
    way: Way,
) -> Matches:
    """The results of the target rows, by name."""
    looked, everything = _count_searched_combinations(question, limits)
    field = dict(enumerate(np.moveaxis(out, 2, 0).transpose(0, 2, 1)))
    return Matches(
        sensitive=question.sensitive,
        known=question.known,
        complete=bool((looked == everything).all()),
        combinations=looked,
        left_out=everything - looked,
        values=np.array(
            [len(np.unique(question.relations[column].low)) for column in question.sensitive]
        ),
        peers=field[match_pairs.PEERS],
        same=field[match_pairs.SAME],
        alternatives=field[match_pairs.ALTERNATIVES],
        least_protective=field[match_pairs.LEAST_PROTECTIVE],
        least_peers=field[match_pairs.LEAST_PEERS],
        least_mask=field[match_pairs.LEAST_MASK],
        fewest_protective=field[match_pairs.FEWEST_PROTECTIVE],
        fewest_alternatives=field[match_pairs.FEWEST_ALTERNATIVES],
        breach_mask=field[match_pairs.BREACH],
        breach_size=np.bitwise_count(field[match_pairs.BREACH]),
        targets=rows,
        exact=exact,
        way=way,
    )


def _count_searched_combinations(
    question: MatchQuestion, limits: Limits
) -> tuple[AnyIntegers, AnyIntegers]:
    """How many combinations are looked at for each sensitive variable, and how many there are."""
    looked = count_combinations(limits, question.sensitive, question.known)
    everything = [2 ** len({*question.known} - {column}) - 1 for column in question.sensitive]
    return looked, np.array(everything, object)


def count_person_matches(
    relations: Sequence[Relation],
    members: AnyIntegers,
    starts: AnyIntegers,
    *,
    sensitive: Sequence[int],
    known: Sequence[int],
    targets: AnyIntegers | None = None,
    most: int | None = None,
    effort: Effort | None = None,
    budget: int | None = None,
    q: float | Fraction = 0.0,
    p: float | Fraction = 0.0,
    say: Progress | None = None,
) -> Matches:
    """Peers of target rows where a peer is a person, who may have several rows.

    Somebody is a peer whose rows are not all told apart from the target by what is known. They
    protect it if one of their rows surely matches, and none may match it in the sensitive value as
    well. Alternatives are not counted.

    Parameters
    ----------
    relations : how rows match on each variable.
    members, starts : the rows of each person, one person after the other, and where each begins;
        the end stands last.
    sensitive, known, targets, most, effort, p, q, say : as for `count_matches`.
    budget : how many steps may be taken; beyond it an error.

    Examples
    --------
    >>> relations = [match_equal([0, 0, 0]), match_equal([0, 1, 1])]
    >>> matches = count_person_matches(
    ...     relations, np.array([0, 1, 2]), np.array([0, 2, 3]), sensitive=[1], known=[0]
    ... )
    >>> matches.least_ppp  # the first person has both values
    array([[0.5, 0. , 0. ]])
    """
    _check(relations, np.ones(len(relations[0]), np.int64), sensitive, known)
    rows = np.arange(len(relations[0])) if targets is None else np.asarray(targets, np.int64)
    limits = set_limits(len(relations), most, effort)
    shares = [read_share(share, name) for share, name in ((p, "p"), (q, "q"))]
    question = MatchQuestion(
        relations, tuple(sensitive), tuple(known), len(relations[0]), len(rows), follow=False
    )
    # Only for its refusal, where no combination is left to look at.
    _count_searched_combinations(question, limits)
    combinations = list_combinations(limits, known)
    steps = len(rows) * len(members) * len(combinations) // _COMPARED
    if budget is not None and steps > budget:
        raise ValueError(
            f"{len(combinations):,} combinations of variables on {len(rows):,} distinct rows, each "
            f"compared with {len(members):,} of persons, are {steps:,} steps, more than the budget "
            f"of {budget:,}."
        )
    boxed = question.boxed
    above, below = (share.as_integer_ratio() for share in shares)
    pairs = PairQuestion(np.array(sensitive), question.tops, boxed, False, *above, *below)
    table = pack_relations(relations)
    out = np.empty((len(rows), len(sensitive), match_pairs.FIELDS), np.int64)
    exact = np.ones(len(rows), bool)
    sure = np.empty(len(relations[0]), np.int64)
    masks = Masks(sure, np.empty_like(sure) if boxed else sure)
    step = max(1, _PAIRS // (len(members) * len(combinations)))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        match_pairs.count_by_persons(
            rows[part], table, np.asarray(members, np.int64), np.asarray(starts, np.int64), pairs,
            combinations, masks, out[part], exact[part],
        )  # fmt: skip
        if say is not None:
            say("records", min(start + step, len(rows)), len(rows))
    return _collect(question, limits, rows, out, exact, "persons")


def _check(
    relations: Sequence[Relation],
    counts: AnyIntegers,
    sensitive: Sequence[int],
    known: Sequence[int],
) -> Integers:
    """The counts as whole numbers, if the question makes sense."""
    counts = np.asarray(counts)
    if (
        not len(counts)
        or not relations
        or any(len(relation) != len(counts) for relation in relations)
    ):
        raise ValueError("There is at least one row and one variable, and a count for each row.")
    if len(relations) > COLUMNS:
        raise ValueError(f"At most {COLUMNS} variables; there are {len(relations)}.")
    if not sensitive or not {*sensitive, *known} <= {*range(len(relations))}:
        raise ValueError("Sensitive and known variables are among those given, at least one each.")
    if len({*sensitive}) < len(sensitive) or len({*known}) < len(known):
        raise ValueError("A variable is named once.")
    if counts.dtype.kind not in "iu" or counts.min() < 1 or counts.sum() >= RECORDS:
        raise ValueError(f"Counts are whole numbers from 1 on, and below {RECORDS:,} together.")
    return counts.astype(np.int64)


@dataclass(frozen=True)
class MatchQuestion:
    """What is counted, of how many rows.

    rows, targets : all rows, and those whose peers are counted.
    follow : whether other values are to be followed through the combinations.
    """

    relations: Sequence[Relation]
    sensitive: tuple[int, ...]
    known: tuple[int, ...]
    rows: int
    targets: int
    follow: bool

    @property
    def boxed(self) -> bool:
        """Whether some cells stand for several values."""
        return not all(relation.certain for relation in self.relations)

    @property
    def tops(self) -> Integers:
        """For each sensitive variable everything that may be known, as a mask."""
        everything = sum(1 << column for column in self.known)
        return np.array([everything & ~(1 << column) for column in self.sensitive], np.int64)

    def count_values(self, column: int) -> int:
        """How many values a variable has, 0 where they cannot be told apart."""
        relation = self.relations[column]
        return int(relation.low.max()) + 1 if relation.kind == "equal" else 0

    @property
    def following_steps(self) -> int:
        """Steps for one record to follow other values; 0 where they are not, or too many."""
        columns = len(self.relations)
        if not self.follow or columns > _SUMMED:
            return 0
        per_value = (columns + 2) << columns
        steps = sum(self.count_values(column) for column in self.sensitive) * per_value // 32
        return max(1, steps) if steps <= _FOLLOWED else 0


def _count_by_pairs(
    question: MatchQuestion,
    counts: AnyIntegers,
    rows: AnyIntegers,
    combinations: AnyIntegers,
    shares: tuple[Fraction, Fraction],
    way: Way,
    say: Progress | None,
) -> tuple[AnyIntegers, Mask]:
    """Each target row with all rows, slices of targets at a time, by threads."""
    by_list = way == "list"
    follow = question.follow and (by_list or question.following_steps > 0)
    boxed = question.boxed
    p, q = (share.as_integer_ratio() for share in shares)
    pairs = PairQuestion(np.array(question.sensitive), question.tops, boxed, follow, *p, *q)
    table, weights = pack_relations(question.relations), counts.astype(np.int32)
    values = _list_values(question)
    out = np.empty((len(rows), len(question.sensitive), match_pairs.FIELDS), np.int64)
    exact = np.ones(len(rows), bool)
    work = match_pairs.count_by_list if by_list else match_pairs.count_by_sums
    kind: type[np.integer[Any]] = np.int64 if by_list else np.int32

    def count_slice(part: slice) -> int:
        sure: AnyIntegers = np.empty(len(counts), kind)
        masks = Masks(sure, np.empty(len(counts), kind) if boxed else sure)
        work(rows[part], table, weights, pairs, combinations, values, masks, out[part], exact[part])
        return len(rows[part])

    step = max(1, _PAIRS // (len(counts) + len(combinations) * len(question.sensitive)))
    slices = [slice(start, start + step) for start in range(0, len(rows), step)]
    done = 0
    with ThreadPoolExecutor(min(os.cpu_count() or 1, len(slices))) as pool:
        running = [pool.submit(copy_context().run, count_slice, part) for part in slices]
        for finished in as_completed(running):
            done += finished.result()
            if say is not None:
                say("records", done, len(rows))
    if question.follow and not follow:
        out[:, :, match_pairs.FEWEST_ALTERNATIVES] = -1
    return out, exact


def _list_values(question: MatchQuestion) -> SensitiveValues:
    """Values of the sensitive variables, and the rows by value."""
    codes = np.stack([question.relations[column].low for column in question.sensitive])
    sizes = np.array([question.count_values(column) for column in question.sensitive])
    order = np.argsort(codes, axis=1, kind="stable")
    starts = np.zeros((len(codes), int(sizes.max()) + 1), np.int64)
    for i, size in enumerate(sizes):
        starts[i, : size + 1] = np.searchsorted(codes[i][order[i]], np.arange(size + 1))
    return SensitiveValues(codes, sizes, order, starts)


def _count_by_sweep(
    question: MatchQuestion,
    counts: AnyIntegers,
    rows: AnyIntegers,
    combinations: AnyIntegers,
    shares: tuple[Fraction, Fraction],
    say: Progress | None,
) -> tuple[AnyIntegers, Mask]:
    """Combination after combination, all target rows at once."""
    sweep = Sweep(question.relations, counts, rows)
    out = np.empty((len(rows), len(question.sensitive), match_pairs.FIELDS), np.int64)
    out[:, :, match_pairs.LEAST_PROTECTIVE] = 1
    out[:, :, match_pairs.FEWEST_PROTECTIVE] = 1 << 62
    for field in (match_pairs.LEAST_PEERS, match_pairs.LEAST_MASK, match_pairs.BREACH):
        out[:, :, field] = 0
    for done, mask in enumerate(combinations.tolist()):
        for i, secret in enumerate(question.sensitive):
            if not mask >> secret & 1:
                peers, same = sweep.count(mask), sweep.count(mask | 1 << secret)
                _keep_worst(out[:, i], peers - same, peers, mask, shares[0])
        if say is not None:
            say("combinations", done + 1, len(combinations))
    for i, (secret, top) in enumerate(zip(question.sensitive, question.tops.tolist(), strict=True)):
        out[:, i, match_pairs.PEERS] = sweep.count(top)
        out[:, i, match_pairs.SAME] = sweep.count(top | 1 << secret)
        countable = question.count_values(secret) and not shares[1]
        others = sweep.count_other_values(top, secret) if countable else -1
        out[:, i, match_pairs.ALTERNATIVES] = others
        out[:, i, match_pairs.FEWEST_ALTERNATIVES] = -1 if question.follow else others
    return out, np.ones(len(rows), bool)


def _keep_worst(
    out: AnyIntegers, others: AnyIntegers, peers: AnyIntegers, mask: int, p: Fraction
) -> None:
    """Keep the protection of one combination where it is less than in all before."""
    least = [match_pairs.LEAST_PROTECTIVE, match_pairs.LEAST_PEERS, match_pairs.LEAST_MASK]
    worse = others * out[:, least[1]] < out[:, least[0]] * peers
    for field, value in zip(least, (others, peers, np.full(len(peers), mask)), strict=True):
        out[worse, field] = value[worse]
    fewest, breach = match_pairs.FEWEST_PROTECTIVE, match_pairs.BREACH
    out[:, fewest] = np.minimum(out[:, fewest], others)
    out[(out[:, breach] == 0) & (others * p.denominator <= p.numerator * peers), breach] = mask


# What counting takes by each way, and whether that fits into a budget.


def find_cheapest(question: MatchQuestion, limits: Limits) -> tuple[Way, int]:
    """The way that takes fewest steps, and how many."""
    steps = {way: _count_steps(question, limits, way) for way in list_ways(question)}
    best = min(steps, key=lambda way: (steps[way], way))
    return best, steps[best]


def list_ways(question: MatchQuestion) -> tuple[Way, ...]:
    """The ways that would answer the whole question; a sweep does not follow other values."""
    pairs: Way = "sums" if len(question.relations) <= _SUMMED else "list"
    valued = any(question.count_values(column) for column in question.sensitive)
    if question.boxed or (question.follow and valued):
        return (pairs,)
    return (pairs, "sweep")


def _count_steps(question: MatchQuestion, limits: Limits, way: Way) -> int:
    secrets, columns = len(question.sensitive), len(question.relations)
    number, boxed = sum(limits.sizes(question.known)), question.boxed
    if way == "sweep":
        return _count_sweep_steps(question, limits, number)
    passes = (2 if boxed else 1) * columns + (secrets if boxed else 1)
    steps = question.rows * passes // 40 + 1
    if way == "sums":
        folds = 1 + (secrets if boxed else 0)
        steps += (folds * columns << columns) // 64 + number * secrets // 16
        steps += question.following_steps
    else:
        steps += question.rows // 4 + number * (1 + min(question.rows, 1 << columns) // 8)
    return question.targets * steps


def _count_sweep_steps(question: MatchQuestion, limits: Limits, number: int) -> int:
    """Sorting for every combination; and pairs where three tolerances or more come together."""
    relations, rows, targets = question.relations, question.rows, question.targets
    per_sort = (rows + targets) * max(1, int(math.log2(rows + 1))) * 3 // 4
    total = number * (1 + len(question.sensitive)) * per_sort
    close = [column for column in question.known if relations[column].kind == "near"]
    secret = [column for column in question.sensitive if relations[column].kind == "near"]
    most = min(limits.most, len(close)) + (1 if secret else 0)
    if not close and not secret:
        return total
    share = min(_measure_share(relations[column]) for column in {*close, *secret})
    pairs = targets * rows * share
    if most >= _MANY:
        total += number * (1 + len(secret)) * int(pairs) * 3 // 5
    # With everything known, whatever the limits: other values, and counts where pairs are needed.
    at_top = sum(question.count_values(column) > 0 for column in question.sensitive if close)
    if len(close) + (1 if secret else 0) >= _MANY:
        at_top += 2 * len(question.sensitive)
    for column in {*question.known} - {*question.sensitive}:
        if relations[column].kind == "equal":
            pairs *= float((np.bincount(relations[column].low) ** 2.0).sum()) / rows**2
    return total + at_top * int(pairs) * 3 // 5


def _measure_share(relation: Relation) -> float:
    """The share of all pairs that match on a variable with a tolerance."""
    below = np.concatenate([[0], np.cumsum(np.bincount(relation.low))])
    matching = below[relation.sure[0].astype(np.int64) + 1] - below[relation.sure[1]]
    return float(matching.mean()) / len(relation)


def choose_way(
    question: MatchQuestion,
    columns: int,
    most: int | None,
    effort: Effort | None,
    budget: int | None,
) -> Way:
    """The cheapest way; an error with what would fit if it takes more steps than the budget.

    Where only a sweep fits, it is taken: who protects matters more than which values are left.
    """
    limits = set_limits(columns, most, effort)
    way, steps = find_cheapest(question, limits)
    if budget is None or steps <= budget:
        return way
    if _fits(question, limits, budget):
        return "sweep"
    fits, fewer = 0, replace(question, follow=True)
    while fits < limits.most and _fits(fewer, set_limits(columns, fits + 1, effort), budget):
        fits += 1
    some = min(_count_affordable(question, limits, budget), question.targets)
    hints = [f"most={fits}"] * (fits > 0) + [f"individuals={some}"] * (some > 0)
    hint = f"{' or '.join(hints)} would fit" if hints else "fewer variables might"
    raise ValueError(
        f"matching {question.targets:,} distinct rows with {question.rows:,} in "
        f"{sum(limits.sizes(question.known)):,} combinations takes {steps:,} steps, more than the "
        f"budget of {budget:,}; {hint}."
    )


def _fits(question: MatchQuestion, limits: Limits, budget: int) -> bool:
    """Whether some way fits, if need be without following other values."""
    by_sweep = not question.boxed and _count_steps(question, limits, "sweep") <= budget
    return by_sweep or find_cheapest(question, limits)[1] <= budget


def _count_affordable(question: MatchQuestion, limits: Limits, budget: int) -> int:
    """How many records could be looked at within the budget."""
    single = replace(question, targets=1)
    return budget // max(1, _count_steps(single, limits, list_ways(single)[0]))
