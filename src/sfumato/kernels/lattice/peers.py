"""Protective peers of every record over every combination of variables an outsider may know.

One lattice of group counts serves all sensitive variables: the peers who share the sensitive value
are the group of the combination with that variable added. The least protection over all
combinations takes one round for each variable that may come first. In a round all rows are split
by that variable. The parts are independent of each other, so threads share them out; no two touch
the same row.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextvars import copy_context
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.kernels.arrays import AnyIntegers, Floats, Integers
from sfumato.kernels.clustering.clusters import group_equal
from sfumato.kernels.lattice.combinations import (
    Effort,
    Limits,
    check_budget,
    count_combinations,
    set_limits,
)
from sfumato.kernels.lattice.walk import (
    Bounds,
    CodeTable,
    FewestPeers,
    LeastShares,
    Variables,
    split_first,
    tally_groups,
    walk_groups,
)
from sfumato.progress import Progress

__all__ = [
    "Effort",
    "PeerCounts",
    "count_at_maximum",
    "count_peers",
    "count_value_peers",
    "key_rows",
]

COLUMNS = 56
"""A combination and its size share one 64-bit word."""
RECORDS = 1 << 31
"""Below this, products of two counts are exact in 64 bits."""
_LARGEST = 1 << 62
_NARROW, _WIDE = 26, 56
"""Bits of a combination in a word that has its size above: 32 bits where that will do."""
_PARALLEL = 1 << 21
"""Rows times combinations from which threads pay."""
_LARGE = 1 << 16
"""Rows from which it pays to put them in order for every round."""
_PARTS = 8
"""Pieces of work per thread and round, so that none waits long for the others."""


@dataclass(frozen=True, eq=False)
class PeerCounts:
    """What protects each row, for each sensitive variable: arrays of variables x rows.

    A combination is a bit mask: bit c is set where column c is known. Where several combinations
    do equally well, the one of fewest variables stands, then the lowest mask.

    sensitive, known : the columns.
    complete : whether every non-empty combination was looked at.
    combinations : how many were, for each sensitive variable; `left_out` is how many were not.
    values : how many values each sensitive variable has.
    peers, same : records that share everything known with the row, and those of them that share
        the sensitive value too, at maximum information (all of `known`, whatever the limits).
    alternatives : other values that more than a share q of the peers have, at maximum information.
    least_protective, least_peers, least_mask : protective peers and all peers where their share
        is least over all combinations looked at, and that combination.
    fewest_protective : least number of protective peers over all combinations looked at.
    fewest_alternatives : least number of alternatives over all combinations looked at.
    breach_mask, breach_size : the smallest combination where the share of protective peers is at
        most p, and how many variables it has; 0 where there is none.
    """

    sensitive: tuple[int, ...]
    known: tuple[int, ...]
    complete: bool
    combinations: AnyIntegers
    left_out: AnyIntegers
    values: AnyIntegers
    peers: AnyIntegers
    same: AnyIntegers
    alternatives: AnyIntegers
    least_protective: AnyIntegers
    least_peers: AnyIntegers
    least_mask: AnyIntegers
    fewest_protective: AnyIntegers
    fewest_alternatives: AnyIntegers
    breach_mask: AnyIntegers
    breach_size: AnyIntegers

    @property
    def ppp(self) -> Floats:
        """Share of protective peers at maximum information."""
        return (self.peers - self.same) / self.peers

    @property
    def least_ppp(self) -> Floats:
        """Least share of protective peers."""
        return self.least_protective / self.least_peers

    @property
    def poac(self) -> Floats:
        """Share of alternatives at maximum information; NaN where a variable has one value only."""
        return _share_of_values(self.alternatives, self.values)

    @property
    def least_poac(self) -> Floats:
        """Least share of alternatives; NaN where a variable has one value only."""
        return _share_of_values(self.fewest_alternatives, self.values)


def _share_of_values(alternatives: AnyIntegers, values: AnyIntegers) -> Floats:
    others = np.where(values > 1, values - 1.0, np.nan)
    return alternatives / others[:, None]


def count_peers(
    codes: AnyIntegers,
    counts: AnyIntegers,
    *,
    sensitive: Sequence[int],
    known: Sequence[int],
    most: int | None = None,
    effort: Effort | None = None,
    budget: int | None = None,
    q: float | Fraction = 0.0,
    p: float | Fraction = 0.0,
    say: Progress | None = None,
) -> PeerCounts:
    """Peers of every row, over every non-empty combination of the columns in `known`.

    A column is never known where it is the sensitive one. Rows need not be distinct in the columns
    used, but they may as well be.

    Parameters
    ----------
    codes : a row per distinct record, a column per variable, values numbered from 0.
    counts : how many records each row stands for.
    sensitive : columns to be protected, each in turn.
    known : columns an outsider may know.
    most : only combinations of at most so many columns.
    effort : only combinations that do not cost more.
    budget : the most rows times combinations allowed; beyond it an error says which
        `most` would fit. Memory needs no such bound: it does not grow with the combinations.
    q, p : thresholds of alternatives and of breaches, read as the simplest fraction that rounds
        to them (0.29 is 29/100).
    say : reports progress: what is being done, how much is done, and how much there is.

    Examples
    --------
    >>> codes = np.array([[0, 0], [1, 0], [1, 1]])
    >>> peers = count_peers(codes, np.ones(3, int), sensitive=[0], known=[1])
    >>> peers.least_ppp
    array([[0.5, 0.5, 0. ]])
    """
    codes, counts = _check(codes, counts, sensitive, known)
    limits = set_limits(codes.shape[1], most, effort)
    looked = count_combinations(limits, sensitive, known)
    used = sorted({*sensitive, *known})
    back = None
    if len(used) < codes.shape[1]:
        _, first, back = np.unique(key_rows(codes, used), return_index=True, return_inverse=True)
        codes, back = codes[first], back.ravel()
        counts = np.bincount(back, counts, len(first)).astype(np.int64)
    if budget is not None:
        check_budget(len(codes), limits.sizes(known), budget)
    question = _PeerQuestion(
        tuple(sensitive), tuple(known), limits, read_share(p, "p"), read_share(q, "q")
    )
    results = _count_distinct(codes, counts, question, say)
    if back is not None:
        results = {name: result[:, back] for name, result in results.items()}
    everything = np.array([2 ** len({*known} - {column}) - 1 for column in sensitive], object)
    return PeerCounts(
        sensitive=question.sensitive,
        known=question.known,
        complete=bool((looked == everything).all()),
        combinations=looked,
        left_out=everything - looked,
        values=np.array([len(np.unique(codes[:, column])) for column in sensitive]),
        **results,
    )


def read_share(number: float | Fraction, name: str) -> Fraction:
    """A share as the simplest fraction that rounds to it."""
    if not 0 <= number < 1:
        raise ValueError(f"{name} is 0 or more and below 1.")
    return Fraction(number).limit_denominator(RECORDS - 1)


def _check(
    codes: AnyIntegers, counts: AnyIntegers, sensitive: Sequence[int], known: Sequence[int]
) -> tuple[AnyIntegers, AnyIntegers]:
    """Codes and counts as whole numbers, if the question makes sense."""
    codes, counts = np.asarray(codes), np.asarray(counts)
    if codes.ndim != 2 or len(codes) != len(counts) or not len(codes):  # noqa: PLR2004
        raise ValueError("There is at least one row of codes, and a count for each.")
    if codes.shape[1] > COLUMNS:
        raise ValueError(f"At most {COLUMNS} columns; there are {codes.shape[1]}.")
    if not sensitive or not {*sensitive, *known} <= {*range(codes.shape[1])}:
        raise ValueError("Sensitive and known columns are columns of the codes, at least one each.")
    if len({*sensitive}) < len(sensitive) or len({*known}) < len(known):
        raise ValueError("A column is named once.")
    if codes.min() < 0 or counts.min() < 1:
        raise ValueError("Codes are 0 or more, counts 1 or more.")
    if counts.sum() >= RECORDS:
        raise ValueError(f"At most {RECORDS - 1:,} records.")
    if codes.dtype.kind not in "iu" or counts.dtype.kind not in "iu":
        raise ValueError("Codes and counts are whole numbers.")
    return codes, counts.astype(np.int64)


# Rows that agree in some columns, with everything known.


def key_rows(codes: AnyIntegers, columns: Iterable[int]) -> Integers:
    """A number per row; two rows have the same one if and only if they agree in the columns."""
    keys, size = np.zeros(len(codes), np.int64), 1
    for column in columns:
        values = int(codes[:, column].max(initial=0)) + 1
        if size * values > _LARGEST:
            keys = np.unique(keys, return_inverse=True)[1].ravel().astype(np.int64)
            size = int(keys.max(initial=0)) + 1
        keys *= values
        keys += codes[:, column]
        size *= values
    return keys


def count_at_maximum(
    codes: AnyIntegers, counts: AnyIntegers, sensitive: int, known: Sequence[int], q: Fraction
) -> tuple[AnyIntegers, AnyIntegers, AnyIntegers]:
    """Peers of each row in all known columns, those of the same value, and other likely values."""
    others = [column for column in known if column != sensitive]
    order, edges = group_equal(key_rows(codes, others))
    column = np.ascontiguousarray(codes[:, sensitive])
    size = int(column.max()) + 1
    tallies: tuple[AnyIntegers, AnyIntegers, AnyIntegers] = tally_groups(
        order, edges[1:], column, counts, size, q.numerator, q.denominator
    )
    return tallies


def count_value_peers(
    codes: AnyIntegers, counts: AnyIntegers, *, sensitive: int, known: Sequence[int]
) -> Integers:
    """Peers of each row in all known columns, by the value of the sensitive one: rows x values.

    Divided by its sum, a row is the value-specific peer protection at maximum information.
    """
    others = key_rows(codes, [column for column in known if column != sensitive])
    _, group = np.unique(others, return_inverse=True)
    size = int(codes[:, sensitive].max()) + 1
    cell = group.ravel() * size + codes[:, sensitive]
    table = np.bincount(cell, counts, (int(group.max()) + 1) * size).astype(np.int64)
    return table.reshape(-1, size)[group.ravel()]


# Over all combinations.


@dataclass(frozen=True)
class _PeerQuestion:
    """Sensitive and known columns, the limits and both thresholds."""

    sensitive: tuple[int, ...]
    known: tuple[int, ...]
    limits: Limits
    p: Fraction
    q: Fraction

    @property
    def is_limited(self) -> bool:
        """Whether some combination is left out."""
        return sum(self.limits.sizes(self.known)) != (1 << len(self.known)) - 1


@dataclass(frozen=True, eq=False)
class _Minima:
    """Arrays of sensitive variables x rows; None where the least is at maximum information."""

    protective: AnyIntegers
    peers: AnyIntegers
    mask: AnyIntegers
    breach: AnyIntegers
    fewest: AnyIntegers | None
    alternatives: AnyIntegers | None


def _count_distinct(
    codes: AnyIntegers, counts: AnyIntegers, question: _PeerQuestion, say: Progress | None
) -> dict[str, AnyIntegers]:
    """Results of distinct rows, by name."""
    top = [
        count_at_maximum(codes, counts, column, question.known, question.q)
        for column in question.sensitive
    ]
    peers, same, alternatives = (np.stack(tallies) for tallies in zip(*top, strict=True))
    del top
    least = _find_minima(codes, counts, question, say)
    # What was not followed is at its least where most is known: more peers or values cannot vanish.
    protective = peers - same if least.fewest is None else least.fewest
    return {
        "peers": peers,
        "same": same,
        "alternatives": alternatives,
        "least_protective": least.protective,
        "least_peers": least.peers,
        "least_mask": least.mask,
        "fewest_protective": protective,
        "fewest_alternatives": alternatives if least.alternatives is None else least.alternatives,
        "breach_mask": least.breach,
        "breach_size": np.bitwise_count(least.breach),
    }


def _find_minima(
    codes: AnyIntegers, counts: AnyIntegers, question: _PeerQuestion, say: Progress | None
) -> _Minima:
    """The least protection of every row over all combinations within the limits."""
    bits = _NARROW if codes.shape[1] <= _NARROW else _WIDE
    shape, word = (len(codes), len(question.sensitive)), np.int32 if bits == _NARROW else np.int64
    share, smallest = np.empty((*shape, 2), np.int32), np.full(shape, np.iinfo(word).max, word)
    share[:] = (1, 0)
    least = LeastShares(share, smallest, np.empty(len(codes), word))
    most, none = np.iinfo(np.int32).max, np.empty((0, 0), np.int32)
    fewest = FewestPeers(
        protective=np.full(shape, most, np.int32) if question.is_limited else none,
        alternatives=np.full(shape, most, np.int32) if question.is_limited or question.q else none,
        breach=np.full(shape, np.iinfo(word).max, word) if question.p else np.empty((0, 0), word),
    )
    rows = _walk_rounds(codes, counts, question, bits, least, fewest, say)
    combination = word((1 << bits) - 1)
    back = np.empty_like(rows)
    back[rows] = np.arange(len(rows))
    protective, peers, keys = (
        values.T[:, back] for values in (share[..., 0], share[..., 1], smallest)
    )
    protective_peers, alternatives, breach = (
        values.T[:, back] if len(values) else None for values in fewest
    )
    if breach is None:
        breach = np.where(protective == 0, keys, word(0))
    breach[breach == np.iinfo(word).max] = 0
    return _Minima(
        protective=protective,
        peers=peers,
        mask=keys & combination,
        breach=breach & combination,
        fewest=protective_peers,
        alternatives=alternatives,
    )


def _walk_rounds(
    codes: AnyIntegers,
    counts: AnyIntegers,
    question: _PeerQuestion,
    bits: int,
    least: LeastShares,
    fewest: FewestPeers,
    say: Progress | None,
) -> AnyIntegers:
    """Walk through all combinations; the order in which the results now have the rows."""
    columns, known, limits = _order_columns(codes, question), len(question.known), question.limits
    table, size = _compact_codes(codes, columns)
    variables = _describe_variables(columns, question, size)
    least.open[:] = variables.sensitive
    shares = *question.p.as_integer_ratio(), *question.q.as_integer_ratio()
    bounds = Bounds(limits.most, limits.dearest, *shares, bits)
    below = [limits.below(columns[i], columns[i + 1 : known]) for i in range(known)]
    total, done = len(codes) * sum(below), 0
    rows, weights = np.arange(len(codes)), counts.astype(np.int32)
    spare = np.empty(len(codes), np.uint32)
    workers = (os.cpu_count() or 1) if total >= _PARALLEL else 1
    with ThreadPoolExecutor(workers) as pool:
        for first in np.flatnonzero(below).tolist():
            if first == 0 or len(codes) >= _LARGE:
                # Rows that stay together longest lie together, so that the cache holds them.
                together = np.argsort(key_rows(codes, columns[first:])[rows], kind="stable")
                for array in (rows, table, weights, *least, *fewest):
                    array[:] = array[together] if len(array) else array
            order, starts = split_first(codes[rows, columns[first]])
            fixed = (
                order,
                spare,
                first,
                CodeTable(table, weights),
                variables,
                bounds,
                least,
                fewest,
            )
            # Each thread with a context of its own: it reports when it has to compile.
            running = {
                pool.submit(copy_context().run, walk_groups, groups, *fixed): int(
                    (groups[:, 1] - groups[:, 0]).sum()
                )
                for groups in _bundle_groups(starts, len(codes) // (_PARTS * workers))
            }
            for part in as_completed(running):
                part.result()
                done += running[part] * below[first]
                if say is not None:
                    say("combinations", done, total)
    return rows


def _describe_variables(columns: list[int], question: _PeerQuestion, size: int) -> Variables:
    """The columns as the walk needs them."""
    result = {column: number for number, column in enumerate(question.sensitive)}
    return Variables(
        result=np.array([result.get(column, -1) for column in columns]),
        bit=np.array([1 << column for column in columns]),
        cost=question.limits.costs[columns],
        known=len(question.known),
        codes=size,
        sensitive=sum(1 << i for i, column in enumerate(columns) if column in result),
    )


def _order_columns(codes: AnyIntegers, question: _PeerQuestion) -> list[int]:
    """The known columns, those that split most first, so that groups are soon small; the others."""
    agree = {column: int((np.bincount(codes[:, column]) ** 2).sum()) for column in question.known}
    others = [column for column in question.sensitive if column not in agree]
    return [*sorted(question.known, key=lambda column: (agree[column], column)), *others]


def _compact_codes(codes: AnyIntegers, columns: Sequence[int]) -> tuple[AnyIntegers, int]:
    """The columns in this order, no code in two of them; in few bytes, and how many codes."""
    sizes = [int(codes[:, column].max()) + 1 for column in columns]
    kind = np.uint16 if sum(sizes) <= np.iinfo(np.uint16).max else np.uint32
    out = np.empty((len(codes), len(columns)), kind)
    for i, column in enumerate(columns):
        np.add(codes[:, column], sum(sizes[:i]), out=out[:, i], casting="unsafe")
    return out, sum(sizes)


def _bundle_groups(starts: AnyIntegers, enough: int) -> Iterator[AnyIntegers]:
    """Groups that are not empty, bundled until there are enough rows."""
    groups = np.column_stack([starts[:-1], starts[1:]])
    groups = groups[groups[:, 0] < groups[:, 1]]
    first = 0
    for i in range(len(groups)):
        if groups[i, 1] - groups[first, 0] >= enough or i == len(groups) - 1:
            yield groups[first : i + 1]
            first = i + 1
