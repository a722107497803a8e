"""Hand out values to cells that may take only some of them, so that all numbers come out right.

Cells that may take the same values are of one sort. This is a transport problem with a few sorts
and a few values: the most constrained sort chooses first, in proportion to what is left, and
where that leaves somebody without, values are swapped along a chain of sorts until none is.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from sfumato.kernels.arrays import Integers


def handed(
    cells: Integers, fits: Sequence[Integers], wanted: Integers
) -> tuple[list[Integers], Integers]:
    """How many of the values that fit every sort of cells gets, and how many are left without.

    Parameters
    ----------
    cells : how many cells there are of each sort.
    fits : for each sort the positions of the values it may take, in rising order.
    wanted : how often each value is to be handed out.

    Examples
    --------
    >>> given, without = handed(
    ...     np.array([1, 1]), [np.array([0, 1]), np.array([0])], np.array([1, 1])
    ... )
    >>> [one.tolist() for one in given], without.tolist()
    ([[0, 1], [1]], [0, 0])
    """
    left = wanted.copy()
    given = [np.zeros(len(one), np.int64) for one in fits]
    without = cells.copy()
    for sort in sorted(range(len(cells)), key=lambda one: (len(fits[one]), one)):
        own = left[fits[sort]]
        share = proportional(own, min(int(cells[sort]), int(own.sum())))
        given[sort] = share
        left[fits[sort]] -= share
        without[sort] -= int(share.sum())
    for sort in np.flatnonzero(without).tolist():
        while without[sort] and (chain := _chain(sort, fits, given, left)):
            _swap(chain, fits, given, left, without)
    return given, without


def proportional(weights: Integers | Sequence[float], total: int) -> Integers:
    """Whole numbers in proportion to the weights, by largest remainder; the first of equals.

    Examples
    --------
    >>> proportional([0.25, 0.25, 0.5], 5).tolist()
    [1, 1, 3]
    """
    whole = np.asarray(weights).tolist()
    if any(isinstance(one, float) for one in whole):
        # Exact fractions, so that no rounding decides who is largest.
        exact = [Fraction(one) for one in whole]
        scale = math.lcm(*(one.denominator for one in exact))
        whole = [int(one * scale) for one in exact]
    every = sum(whole)
    if not total or not every:
        return np.zeros(len(whole), np.int64)
    floors, rests = zip(*(divmod(one * total, every) for one in whole), strict=True)
    found = np.array(floors, np.int64)
    order = sorted(range(len(rests)), key=lambda at: -rests[at])
    found[order[: total - int(found.sum())]] += 1
    return found


def _chain(
    start: int, fits: Sequence[Integers], given: Sequence[Integers], left: Integers
) -> list[tuple[int, int]]:
    """Sorts and values: each sort may take the value that the next one gives up; the last, a spare.

    The shortest such chain, or none.
    """
    came: dict[int, tuple[int, int]] = {}
    waiting, seen = deque([start]), np.zeros(len(left), bool)
    while waiting:
        sort = waiting.popleft()
        new = fits[sort][~seen[fits[sort]]]
        spare = new[left[new] > 0]
        if len(spare):
            chain = [(sort, int(spare[0]))]
            while sort != start:
                sort, value = came[sort]
                chain.insert(0, (sort, value))
            return chain
        seen[new] = True
        for other in range(len(fits)):
            if other == start or other in came:
                continue
            held = np.intersect1d(new, fits[other][given[other] > 0], assume_unique=True)
            if len(held):
                came[other] = sort, int(held[0])
                waiting.append(other)
    return []


def _swap(
    chain: list[tuple[int, int]],
    fits: Sequence[Integers],
    given: Sequence[Integers],
    left: Integers,
    without: Integers,
) -> None:
    """Move as many cells along the chain as all its links allow."""

    def place(sort: int, value: int) -> int:
        return int(np.searchsorted(fits[sort], value))

    start, spare = chain[0][0], chain[-1][1]
    gives = [(giver, place(giver, value)) for (_, value), (giver, _) in pairwise(chain)]
    held = [int(given[giver][at]) for giver, at in gives]
    amount = min(int(without[start]), int(left[spare]), *held)
    for sort, value in chain:
        given[sort][place(sort, value)] += amount
    for giver, at in gives:
        given[giver][at] -= amount
    left[spare] -= amount
    without[start] -= amount
