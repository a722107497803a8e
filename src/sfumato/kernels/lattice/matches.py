"""Protective peers over every combination of variables, where matching is not just equality.

A record matches another by equal values, by values within a tolerance, or by cells that fit. What
`lattice` finds for equal values this finds for any of these, with every pair of records compared,
or by sorting where that is less work. Both are exact.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import AnyIntegers, Floats
from sfumato.kernels.lattice import matches_listed, matches_pairs
from sfumato.kernels.lattice.lattice import Effort, Peers
from sfumato.kernels.lattice.limits import Limits, limits
from sfumato.kernels.lattice.matches_cost import Question, Way, checked
from sfumato.kernels.lattice.matches_relations import Relation, equal, fitting, near, packed
from sfumato.kernels.lattice.matches_sweep import Sweep
from sfumato.kernels.lattice.rounds import Say

__all__ = ["Matches", "Relation", "allowed", "equal", "fitting", "matches", "near"]

_RECORDS = 1 << 31
_COLUMNS = 56
_PAIRS = 1 << 24
"""Pairs of rows that a thread compares before it tells how far it is."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Matches(Peers):
    """What protects each target row; see `Peers`. Where cells stand for several values, a bound.

    `peers` are then those who protect for sure and those who may not, so that the share of
    protective peers is never more than the true one. Alternatives are -1, and their shares NaN,
    where the values of a variable cannot be told apart, or where following them takes too long.

    targets : the rows looked at, in the order of the arrays.
    exact : by target row, whether the numbers are not bounds but the numbers themselves.
    way : how they were counted.
    """

    targets: AnyIntegers
    exact: npt.NDArray[np.bool_]
    way: Way

    @property
    def poac(self) -> Floats:
        """Share of alternatives at maximum information; NaN where there is none to speak of."""
        return np.where(self.alternatives < 0, np.nan, super().poac)

    @property
    def least_poac(self) -> Floats:
        """Least share of alternatives; NaN where there is none to speak of."""
        return np.where(self.fewest_alternatives < 0, np.nan, super().least_poac)


def matches(
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
    say: Say | None = None,
) -> Matches:
    """Peers of target rows among all rows, over every non-empty combination of `known`.

    A row protects a target if it surely matches all that is known and cannot match the sensitive
    value. It does not protect if it may match both. A variable is never known while it is the
    sensitive one.

    Parameters
    ----------
    relations : how rows match, one for each variable; see `equal`, `near` and `fitting`.
    counts : how many records each row stands for.
    sensitive, known : the variables, by their place in `relations`.
    targets : the rows to look at. Default: all.
    most, effort, q, p, say : as for `lattice`.
    budget : how many steps may be taken; beyond it an error says what would fit.
    way : how to count; by default the cheapest.

    Examples
    --------
    >>> age = near(np.array([0, 1, 2]), low=np.array([0, 0, 2]), high=np.array([1, 1, 2]))
    >>> found = matches([age, equal([0, 1, 1])], np.ones(3, int), sensitive=[1], known=[0])
    >>> found.least_ppp
    array([[0.5, 0.5, 0. ]])
    """
    counts = _checked(relations, counts, sensitive, known)
    rows = np.arange(len(counts)) if targets is None else np.asarray(targets, np.int64)
    within = limits(len(relations), most, effort)
    looked = _looked(within, sensitive, known)
    everything = np.array([2 ** len({*known} - {one}) - 1 for one in sensitive], object)
    complete = bool((looked == everything).all())
    shares = _share(p, "p"), _share(q, "q")
    asked = Question(
        relations, tuple(sensitive), tuple(known), len(counts), len(rows),
        follow=shares[1] > 0 or not complete,
    )  # fmt: skip
    way = checked(asked, len(relations), most, effort, budget) if way is None else way
    every = allowed(within, known)
    counted = _swept if way == "sweep" else _paired
    out, exact = counted(asked, counts, rows, every, shares, way, say)
    field = dict(enumerate(np.moveaxis(out, 2, 0).transpose(0, 2, 1)))
    return Matches(
        sensitive=asked.sensitive,
        known=asked.known,
        complete=complete,
        combinations=looked,
        left_out=everything - looked,
        values=np.array([len(np.unique(relations[one].low)) for one in sensitive]),
        peers=field[matches_pairs.PEERS],
        same=field[matches_pairs.SAME],
        alternatives=field[matches_pairs.ALTERNATIVES],
        least_protective=field[matches_pairs.LEAST_PROTECTIVE],
        least_peers=field[matches_pairs.LEAST_PEERS],
        least_mask=field[matches_pairs.LEAST_MASK],
        fewest_protective=field[matches_pairs.FEWEST_PROTECTIVE],
        fewest_alternatives=field[matches_pairs.FEWEST_ALTERNATIVES],
        breach_mask=field[matches_pairs.BREACH],
        breach_size=np.bitwise_count(field[matches_pairs.BREACH]),
        targets=rows,
        exact=exact,
        way=way,
    )


def allowed(within: Limits, known: Sequence[int]) -> npt.NDArray[np.int64]:
    """The combinations that are looked at as bit masks, small ones first, then low ones."""
    columns = sorted(known)
    masks, last, spent = np.zeros(1, np.int64), np.full(1, -1), np.zeros(1, np.int64)
    found = []
    for _ in range(min(within.most, len(columns))):
        level = []
        for at, column in enumerate(columns):
            cost = int(within.costs[column])
            some = (last < at) & (spent + cost <= within.dearest)
            added = masks[some] | (1 << column), np.full(int(some.sum()), at), spent[some] + cost
            level.append(added)
        masks, last, spent = (np.concatenate(one) for one in zip(*level, strict=True))
        order = np.argsort(masks)
        masks, last, spent = masks[order], last[order], spent[order]
        found.append(masks)
    return np.concatenate(found).astype(np.int64)


def _tops(asked: Question) -> npt.NDArray[np.int64]:
    """For each sensitive variable everything that may be known, as a mask."""
    whole = sum(1 << one for one in asked.known)
    return np.array([whole & ~(1 << one) for one in asked.sensitive], np.int64)


def _paired(
    asked: Question,
    counts: AnyIntegers,
    rows: AnyIntegers,
    every: AnyIntegers,
    shares: Any,
    way: Way,
    say: Say | None,
) -> tuple[AnyIntegers, npt.NDArray[np.bool_]]:
    """Each target row with all rows, slices of targets at a time, by threads."""
    listed = way == "list"
    follow = asked.follow and (listed or asked.followed > 0)
    parts = [one for share in shares for one in share.as_integer_ratio()]
    question = (np.array(asked.sensitive), _tops(asked), asked.boxed, follow, *parts)
    table, weights = packed(asked.relations).arrays, counts.astype(np.int32)
    values = _values(asked)
    out = np.empty((len(rows), len(asked.sensitive), matches_pairs.FIELDS), np.int64)
    exact = np.ones(len(rows), bool)
    work = matches_listed.by_list if listed else matches_pairs.by_sums
    kind = np.int64 if listed else np.int32

    def part(some: slice) -> int:
        masks = np.empty(len(counts), kind), np.empty(len(counts) if asked.boxed else 1, kind)
        if not asked.boxed:
            masks = masks[0], masks[0]
        work(rows[some], table, weights, question, every, values, masks, out[some], exact[some])
        return len(rows[some])

    step = max(1, _PAIRS // (len(counts) + len(every) * len(asked.sensitive)))
    slices = [slice(at, at + step) for at in range(0, len(rows), step)]
    done = 0
    with ThreadPoolExecutor(min(os.cpu_count() or 1, len(slices))) as pool:
        for one in as_completed([pool.submit(part, some) for some in slices]):
            done += one.result()
            if say is not None:
                say("records", done, len(rows))
    if asked.follow and not follow:
        out[:, :, matches_pairs.FEWEST_ALTERNATIVES] = -1
    return out, exact


def _values(asked: Question) -> tuple[AnyIntegers, AnyIntegers, AnyIntegers, AnyIntegers]:
    """Values of the sensitive variables, how many; the rows by value, and where each starts."""
    codes = np.stack([asked.relations[one].low for one in asked.sensitive])
    sizes = np.array([asked.values(one) for one in asked.sensitive])
    order = np.argsort(codes, axis=1, kind="stable")
    starts = np.zeros((len(codes), int(sizes.max()) + 1), np.int64)
    for at, size in enumerate(sizes):
        starts[at, : size + 1] = np.searchsorted(codes[at][order[at]], np.arange(size + 1))
    return codes, sizes, order, starts


def _swept(
    asked: Question,
    counts: AnyIntegers,
    rows: AnyIntegers,
    every: AnyIntegers,
    shares: Any,
    way: Way,
    say: Say | None,
) -> tuple[AnyIntegers, npt.NDArray[np.bool_]]:
    """Combination after combination, all target rows at once."""
    del way
    sweep = Sweep(asked.relations, counts, rows)
    (above, below), _ = (share.as_integer_ratio() for share in shares)
    out = np.empty((len(rows), len(asked.sensitive), matches_pairs.FIELDS), np.int64)
    out[:, :, matches_pairs.LEAST_PROTECTIVE] = 1
    out[:, :, matches_pairs.FEWEST_PROTECTIVE] = 1 << 62
    for field in (matches_pairs.LEAST_PEERS, matches_pairs.LEAST_MASK, matches_pairs.BREACH):
        out[:, :, field] = 0
    for done, mask in enumerate(every.tolist()):
        for at, secret in enumerate(asked.sensitive):
            if not mask >> secret & 1:
                peers, same = sweep.count(mask), sweep.count(mask | 1 << secret)
                _keep(out[:, at], peers - same, peers, mask, above, below)
        if say is not None:
            say("combinations", done + 1, len(every))
    for at, (secret, top) in enumerate(zip(asked.sensitive, _tops(asked).tolist(), strict=True)):
        out[:, at, matches_pairs.PEERS] = sweep.count(top)
        out[:, at, matches_pairs.SAME] = sweep.count(top | 1 << secret)
        told = asked.values(secret) and not shares[1]
        others = sweep.values(top, secret) if told else -1
        out[:, at, matches_pairs.ALTERNATIVES] = others
        out[:, at, matches_pairs.FEWEST_ALTERNATIVES] = -1 if asked.follow else others
    return out, np.ones(len(rows), bool)


def _keep(
    out: AnyIntegers, others: AnyIntegers, peers: AnyIntegers, mask: int, above: int, below: int
) -> None:
    """Keep what one combination says where it is worse than all before."""
    least = [matches_pairs.LEAST_PROTECTIVE, matches_pairs.LEAST_PEERS, matches_pairs.LEAST_MASK]
    worse = others * out[:, least[1]] < out[:, least[0]] * peers
    for field, value in zip(least, (others, peers, np.full(len(peers), mask)), strict=True):
        out[worse, field] = value[worse]
    fewest, breach = matches_pairs.FEWEST_PROTECTIVE, matches_pairs.BREACH
    out[:, fewest] = np.minimum(out[:, fewest], others)
    out[(out[:, breach] == 0) & (others * below <= above * peers), breach] = mask


def _checked(
    relations: Sequence[Relation],
    counts: AnyIntegers,
    sensitive: Sequence[int],
    known: Sequence[int],
) -> npt.NDArray[np.int64]:
    """The counts as whole numbers, if the question makes sense."""
    counts = np.asarray(counts)
    if not len(counts) or not relations or any(len(one) != len(counts) for one in relations):
        raise ValueError("There is at least one row and one variable, and a count for each row.")
    if len(relations) > _COLUMNS:
        raise ValueError(f"At most {_COLUMNS} variables; there are {len(relations)}.")
    if not sensitive or not {*sensitive, *known} <= {*range(len(relations))}:
        raise ValueError("Sensitive and known variables are among those given, at least one each.")
    if len({*sensitive}) < len(sensitive) or len({*known}) < len(known):
        raise ValueError("A variable is named once.")
    if counts.dtype.kind not in "iu" or counts.min() < 1 or counts.sum() >= _RECORDS:
        raise ValueError(f"Counts are whole numbers from 1 on, and below {_RECORDS:,} together.")
    return counts.astype(np.int64)


def _looked(within: Limits, sensitive: Sequence[int], known: Sequence[int]) -> AnyIntegers:
    """How many combinations are looked at for each sensitive variable; never none."""
    sizes = [sum(within.sizes([c for c in known if c != one])) for one in sensitive]
    for column, number in zip(sensitive, sizes, strict=True):
        if not number:
            raise ValueError(f"No combination is left from which to learn about column {column}.")
    return np.array(sizes, object)


def _share(number: float | Fraction, name: str) -> Fraction:
    if not 0 <= number < 1:
        raise ValueError(f"{name} is 0 or more and below 1.")
    return Fraction(number).limit_denominator(_RECORDS - 1)
