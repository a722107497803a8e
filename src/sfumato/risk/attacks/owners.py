"""How near an attacker comes to units: a person is found by whichever of their rows is best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.arrays import AnyIntegers, Floats, Integers, Mask, Positions
from sfumato.units import Units

if TYPE_CHECKING:
    from sfumato.kernels.trees.ranks import Ranks

_MOST_PAIRS = 10**9
"""Pairs of rows that are compared, at most: of more, some persons are looked for among all."""


def share_own(nearest: Mask, targets: AnyIntegers, owners: AnyIntegers) -> Floats:
    """How likely each person is picked among the nearest rows: by rows, or by persons if likelier.

    Parameters
    ----------
    nearest : which released rows are nearest, a row per target.
    targets : the person of each target.
    owners : the person of each released row.
    """
    chances = np.zeros(len(targets))
    for position, person in enumerate(targets.tolist()):
        candidates = owners[nearest[position]]
        mine = int((candidates == person).sum())
        if mine:
            chances[position] = max(mine / len(candidates), 1 / len(np.unique(candidates)))
    return chances


def count_near(
    units: Units, measure: Callable[[Positions, Positions], Floats], limit: Floats
) -> Integers:
    """How many rows of the same unit lie within a limit of each row, its own among them.

    Parameters
    ----------
    units : whom each row is about.
    measure : the distances from some rows to others.
    limit : by row.
    """
    order, starts = units.order
    lengths = np.diff(np.append(starts, len(order)))
    counts = np.zeros(len(units), np.int64)
    # All rows of a person are compared with the first of theirs, then with the second, and so on.
    for position in range(int(lengths.max())):
        longer = lengths > position
        others = np.repeat(order[starts[longer] + position], lengths[longer])
        mine = order[np.repeat(longer, lengths)]
        counts[mine] += measure(mine, others) <= limit[mine]
    return counts


def share_nearest(own_rows: Integers, ties: Integers) -> Floats:
    """How likely a person is picked, so many of the nearest rows being theirs.

    By rows, or by persons if that is likelier: there are no more persons than the others' rows,
    and they themselves.
    """
    ties = np.maximum(ties, own_rows)
    return np.where(
        own_rows > 0, np.maximum(own_rows / np.maximum(ties, 1), 1 / (ties - own_rows + 1)), 0.0
    )


def choose_targets(units: Units) -> Mask | None:
    """The rows of those persons who are looked for; None: of all.

    Each row of persons who have several is compared with all others. Where these would be too many
    pairs, it is the rows of some persons, in the order of their numbers, which says nothing of
    them.
    """
    rows = len(units)
    if units.one_row_each or rows * rows <= _MOST_PAIRS:
        return None
    persons, counts = np.unique(units.numbers, return_counts=True)
    some = max(1, int(np.searchsorted(np.cumsum(counts), _MOST_PAIRS // rows, "right")))
    chosen: Mask = units.numbers <= persons[min(some, len(persons)) - 1]
    return chosen


def rank_units(
    original: Floats,
    released: Floats,
    scale: Floats,
    units: Units,
    *,
    cap: int | None = None,
    among: Mask | None = None,
    sizes: Floats | None = None,
) -> Ranks:
    """How many units are nearer to each row than the one an attacker takes it for.

    The attacker takes the nearest released row. If it is the unit's own, whichever, the rank is 0.
    Otherwise it is the number of units one of whose original rows is strictly nearer to the target
    than the original behind the row that was taken. The target is one of them. Distances that
    differ by rounding are equal.

    Parameters
    ----------
    original, released : a row per record; row by row they are pairs.
    scale : a factor per column.
    units : whom each row is about.
    cap : ranks from there on are the cap.
    among : the rows that are looked for. Default: all.
    sizes : how large the values are that each column was made of, if of several.

    Examples
    --------
    >>> ages = np.array([[30.0], [31.0], [40.0], [60.0]])
    >>> moved = np.array([[33.0], [58.0], [37.0], [41.0]])
    >>> visits = Units.of(np.array([0, 0, 1, 2]))
    >>> rank_units(ages, moved, np.array([1.0]), visits).mean().tolist()
    [0.0, 0.0, 2.0, 2.0]
    """
    from sfumato.kernels.trees.ranks import Ranks, ranks

    if units.one_row_each:
        return ranks(original, released, scale, among=among, cap=cap, sizes=sizes)
    from sfumato.kernels.trees.person_ranks import rank_row

    order, starts = units.order
    starts = np.append(starts, len(order))
    person = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    mine, theirs = (
        np.ascontiguousarray((values * scale)[order].T) for values in (original, released)
    )
    rows = np.arange(len(units)) if among is None else np.flatnonzero(among)
    position = np.empty(len(units), np.int64)
    position[order] = np.arange(len(units))
    work = np.empty(len(units)), np.empty(len(starts) - 1)
    row_ranks = [
        rank_row(
            np.ascontiguousarray(mine[:, column]),
            person[column],
            mine,
            theirs,
            person,
            starts,
            *work,
        )
        for column in position[rows].tolist()
    ]
    of = np.full(len(units), -1)
    of[rows] = np.arange(len(rows))
    ends = np.cumsum([0, *map(len, row_ranks)]).astype(np.int64)
    rank = np.concatenate(row_ranks).astype(np.int32)
    return Ranks(rank if cap is None else np.minimum(rank, cap), ends, of, cap)


def keep_best_rows(ranks: Ranks, units: Units, p: int, among: Mask | None = None) -> Ranks:
    """The same ranks with one target for each unit: the row by which it is found best.

    That is the one with the largest Pr(h < p), then Pr(h = 0), then the least mean of h.
    """
    if units.one_row_each:
        return ranks
    rows = np.arange(len(units)) if among is None else np.flatnonzero(among)
    worse = np.nan_to_num(ranks.mean(), nan=np.inf)
    keys = (-ranks.share_below(p), -ranks.share_below(1), worse)
    best = rows[units.take(rows).choose_rows(*(key[rows] for key in keys))]
    of = np.full(len(units), -1)
    of[best] = ranks.of[best]
    return replace(ranks, of=of)
