"""Which variables to blank together: every choice, the cheap ones first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, groupby

from sfumato.kernels.arrays import Integers
from sfumato.methods._suppression.rows import Subset

MOST = 12
"""Up to so many variables, every subset is tried."""
_MANY = 1 << MOST


def chain(codes: Integers, weights: Sequence[float]) -> list[Subset]:
    """One variable more at a time: the cheapest first, and of those the one with most values."""
    values = codes.max(axis=0, initial=0).tolist()
    order = sorted(range(codes.shape[1]), key=lambda at: (weights[at], -values[at], at))
    return [tuple(sorted(order[:size])) for size in range(len(order) + 1)]


def ascending(codes: Integers, weights: Sequence[float]) -> list[list[Subset]]:
    """Subsets of equal cost together, in ascending cost.

    With more than 12 variables only the small subsets are tried, as many sizes as give at most
    4,096, and then those of the chain, up to all variables.
    """
    width, nested = codes.shape[1], chain(codes, weights)
    place = {at: turn for turn, at in enumerate(_order(nested))}
    found = dict.fromkeys(_small(width))
    found |= dict.fromkeys(nested)

    def cost(subset: Subset) -> float:
        return math.fsum(weights[at] for at in subset)

    def key(subset: Subset) -> tuple[float, list[int]]:
        return cost(subset), sorted(place[at] for at in subset)

    return [list(same) for _, same in groupby(sorted(found, key=key), key=cost)]


def _order(nested: list[Subset]) -> Iterator[int]:
    seen: set[int] = set()
    for subset in nested:
        yield from set(subset) - seen
        seen.update(subset)


def _small(width: int) -> Iterator[Subset]:
    left = _MANY
    for size in range(width + 1):
        left -= math.comb(width, size)
        if left < 0:
            return
        yield from combinations(range(width), size)
