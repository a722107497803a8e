"""Attacks on persons who have several rows: whoever is found by one of them is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.arrays import Floats, Integers, Mask, Positions

if TYPE_CHECKING:
    from sfumato.kernels.trees.ranks import Ranks

_MOST_PAIRS = 10**9
"""Pairs of rows that are compared, at most: of more, some persons are looked for among all."""


def find_only(rows: Positions, owners: Integers | None) -> int:
    """A row of the one person that some rows are of; -1 where they are nobody's or several's.

    Examples
    --------
    >>> owners = np.array([0, 0, 1])
    >>> find_only(np.array([0, 1]), owners), find_only(np.array([1, 2]), owners)
    (0, -1)
    >>> find_only(np.array([0, 1]), None)
    -1
    """
    if not len(rows):
        return -1
    alone = len(rows) == 1 if owners is None else bool((owners[rows] == owners[rows[0]]).all())
    return int(rows[0]) if alone else -1


def take_best(values: Floats, owners: Integers | None) -> Floats:
    """The largest value of each person, given one for each of their rows; NaN where none is known.

    Examples
    --------
    >>> take_best(np.array([0.5, 1.0, np.nan]), np.array([0, 0, 1])).tolist()
    [1.0, nan]
    """
    return values if owners is None else _reduce(np.fmax, values, owners)


def average_rows(values: Floats, owners: Integers) -> Floats:
    """The mean of each person over the rows of which it is known."""
    order, starts = _sort(values, owners)
    known = ~np.isnan(values[order])
    sums = np.add.reduceat(np.where(known, values[order], 0.0), starts)
    counts = np.add.reduceat(known, starts, dtype=np.int64)
    with np.errstate(invalid="ignore"):
        return sums / counts


def _reduce(function: np.ufunc, values: Floats, owners: Integers) -> Floats:
    order, starts = _sort(values, owners)
    reduced: Floats = function.reduceat(values[order], starts)
    return reduced


def _sort(values: Floats, owners: Integers) -> tuple[Positions, Positions]:
    """The rows, person after person, and where each begins; sums do not depend on their order."""
    order = np.lexsort((values, owners))
    return order, np.flatnonzero(np.diff(owners[order], prepend=-1))


def share_own(nearest: Mask, targets: Integers, owners: Integers) -> Floats:
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
    owners: Integers, measure: Callable[[Positions, Positions], Floats], limit: Floats
) -> Integers:
    """How many rows of the same person lie within a limit of each row, its own among them.

    Parameters
    ----------
    owners : whose each row is.
    measure : the distances from some rows to others.
    limit : by row.
    """
    order = np.argsort(owners, kind="stable")
    starts = np.flatnonzero(np.diff(owners[order], prepend=-1))
    lengths = np.diff(np.append(starts, len(order)))
    counts = np.zeros(len(owners), np.int64)
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


def choose_targets(owners: Integers) -> Mask | None:
    """The rows of those persons who are looked for; None: of all.

    Each row that is looked for is compared with all others. Where these would be too many pairs,
    it is the rows of some persons, in the order of their numbers, which says nothing of them.
    """
    rows = len(owners)
    if rows * rows <= _MOST_PAIRS:
        return None
    persons, counts = np.unique(owners, return_counts=True)
    some = max(1, int(np.searchsorted(np.cumsum(counts), _MOST_PAIRS // rows, "right")))
    chosen: Mask = owners <= persons[min(some, len(persons)) - 1]
    return chosen


def rank_persons(
    original: Floats,
    released: Floats,
    scale: Floats,
    owners: Integers,
    *,
    cap: int | None = None,
    among: Mask | None = None,
) -> Ranks:
    """How many persons are nearer to each row than the one an attacker takes it for.

    The attacker takes the nearest released row. If it is the person's own, whichever, the rank is
    0. Otherwise it is the number of persons one of whose original rows is strictly nearer to the
    target than the original behind the row that was taken. The target is one of them, as where
    each has one row. Distances that differ by rounding are equal.

    Parameters
    ----------
    original, released : a row per record; row by row they are pairs.
    scale : a factor per column.
    owners : whose each row is.
    cap : ranks from there on are the cap.
    among : the rows that are looked for. Default: all.

    Examples
    --------
    >>> ages = np.array([[30.0], [31.0], [40.0], [60.0]])
    >>> moved = np.array([[33.0], [58.0], [37.0], [41.0]])
    >>> rank_persons(ages, moved, np.array([1.0]), np.array([0, 0, 1, 2])).mean().tolist()
    [0.0, 0.0, 2.0, 2.0]
    """
    from sfumato.kernels.trees.person_ranks import rank_row
    from sfumato.kernels.trees.ranks import Ranks

    order = np.argsort(owners, kind="stable")
    starts = np.append(np.flatnonzero(np.diff(owners[order], prepend=-1)), len(order))
    person = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    mine, theirs = (
        np.ascontiguousarray((values * scale)[order].T) for values in (original, released)
    )
    rows = np.arange(len(owners)) if among is None else np.flatnonzero(among)
    position = np.empty(len(owners), np.int64)
    position[order] = np.arange(len(owners))
    work = np.empty(len(owners)), np.empty(len(starts) - 1)
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
    of = np.full(len(owners), -1)
    of[rows] = np.arange(len(rows))
    ends = np.cumsum([0, *map(len, row_ranks)]).astype(np.int64)
    ranks = np.concatenate(row_ranks).astype(np.int32)
    return Ranks(ranks if cap is None else np.minimum(ranks, cap), ends, of, cap)


def keep_best_rows(ranks: Ranks, owners: Integers, p: int, among: Mask | None = None) -> Ranks:
    """The same ranks with one target for each person: the row by which they are found best.

    That is the one with the largest Pr(h < p), then Pr(h = 0), then the least mean of h.
    """
    rows = np.arange(len(owners)) if among is None else np.flatnonzero(among)
    worse = np.nan_to_num(ranks.mean(), nan=np.inf)
    keys = (worse, -ranks.share_below(1), -ranks.share_below(p))
    order = rows[np.lexsort((*(key[rows] for key in keys), owners[rows]))]
    best = order[np.flatnonzero(np.diff(owners[order], prepend=-1))]
    of = np.full(len(owners), -1)
    of[best] = ranks.of[best]
    return replace(ranks, of=of)
