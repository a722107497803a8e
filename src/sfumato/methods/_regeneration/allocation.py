"""Allocate values to cells that may take only some of them, so that all numbers come out right.

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


def allocate(
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
    >>> allocated, without = allocate(
    ...     np.array([1, 1]), [np.array([0, 1]), np.array([0])], np.array([1, 1])
    ... )
    >>> [counts.tolist() for counts in allocated], without.tolist()
    ([[0, 1], [1]], [0, 0])
    """
    spare = wanted.copy()
    allocated = [np.zeros(len(values), np.int64) for values in fits]
    without = cells.copy()
    for sort in sorted(range(len(cells)), key=lambda sort: (len(fits[sort]), sort)):
        available = spare[fits[sort]]
        share = apportion(available, min(int(cells[sort]), int(available.sum())))
        allocated[sort] = share
        spare[fits[sort]] -= share
        without[sort] -= int(share.sum())
    for sort in np.flatnonzero(without).tolist():
        # Augmenting paths (Ford & Fulkerson 1956) until all is met or nothing more can be.
        while without[sort] and (chain := _find_chain(sort, fits, allocated, spare)):
            _swap_along(chain, fits, allocated, spare, without)
    return allocated, without


def apportion(weights: Integers | Sequence[float], total: int) -> Integers:
    """Whole numbers in proportion to the weights, by largest remainder; the first of equals.

    Examples
    --------
    >>> apportion([0.25, 0.25, 0.5], 5).tolist()
    [1, 1, 3]
    """
    shares = np.asarray(weights).tolist()
    if any(isinstance(share, float) for share in shares):
        # Exact fractions, so that no rounding decides who is largest.
        exact = [Fraction(share) for share in shares]
        scale = math.lcm(*(share.denominator for share in exact))
        shares = [int(share * scale) for share in exact]
    sum_of_shares = sum(shares)
    if not total or not sum_of_shares:
        return np.zeros(len(shares), np.int64)
    pairs = (divmod(share * total, sum_of_shares) for share in shares)
    floors, remainders = zip(*pairs, strict=True)
    counts = np.array(floors, np.int64)
    order = sorted(range(len(remainders)), key=lambda index: -remainders[index])
    # Hamilton's method: what is left goes to the largest remainders.
    counts[order[: total - int(counts.sum())]] += 1
    return counts


def _find_chain(
    start: int, fits: Sequence[Integers], allocated: Sequence[Integers], spare: Integers
) -> list[tuple[int, int]]:
    """Sorts and values: each sort may take the value that the next one gives up; the last, a spare.

    The shortest such chain, or none.
    """
    came: dict[int, tuple[int, int]] = {}
    waiting, tried = deque([start]), np.zeros(len(spare), bool)
    while waiting:
        sort = waiting.popleft()
        new = fits[sort][~tried[fits[sort]]]
        free = new[spare[new] > 0]
        if len(free):
            chain = [(sort, int(free[0]))]
            while sort != start:
                sort, value = came[sort]
                chain.insert(0, (sort, value))
            return chain
        tried[new] = True
        for other in range(len(fits)):
            if other == start or other in came:
                continue
            taken = np.intersect1d(new, fits[other][allocated[other] > 0], assume_unique=True)
            if len(taken):
                came[other] = sort, int(taken[0])
                waiting.append(other)
    return []


def _swap_along(
    chain: list[tuple[int, int]],
    fits: Sequence[Integers],
    allocated: Sequence[Integers],
    spare: Integers,
    without: Integers,
) -> None:
    """Move as many cells along the chain as all its links allow."""

    def find_index(sort: int, value: int) -> int:
        return int(np.searchsorted(fits[sort], value))

    start, last = chain[0][0], chain[-1][1]
    gives = [(giver, find_index(giver, value)) for (_, value), (giver, _) in pairwise(chain)]
    available = [int(allocated[giver][index]) for giver, index in gives]
    amount = min(int(without[start]), int(spare[last]), *available)
    for sort, value in chain:
        allocated[sort][find_index(sort, value)] += amount
    for giver, index in gives:
        allocated[giver][index] -= amount
    spare[last] -= amount
    without[start] -= amount
