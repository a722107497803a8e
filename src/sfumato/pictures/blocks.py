"""People beside each other who are alike: their order, and how many share a column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer[Any]]
CLUSTERED = 600
"""Kinds of people that are really clustered; ten times as many take a thousand times as long."""
_FINEST = 10
_LARGEST = 1 << 62
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Column:
    """Some people together: for each variable the share of them at or below p, the mean of others.

    The mean is NaN where there are no others.
    """

    people: int
    shares: Floats
    means: Floats


def at_or_below(values: Floats, p: float) -> npt.NDArray[np.bool_]:
    """Whether a number counts as a breach; 1 of 5 is not above 0.2, whatever a float makes of it.

    Examples
    --------
    >>> at_or_below(np.array([0.0, 0.2, 0.25]), 0.2).tolist()
    [True, True, False]
    """
    found: npt.NDArray[np.bool_] = values <= p * (1 + _ROUNDING)
    return found


def alike_together(values: Floats, p: float) -> Ints:
    """An order of people (rows) that puts those together who are alike; the same for any order.

    Most alike are those who are breached in the same variables, then those of like numbers. Where
    there are too many different people, some stand for those who are nearest to them.
    """
    numbered = [np.unique(one, return_inverse=True)[1].ravel() for one in values.T]
    first, kind = _distinct(np.column_stack(numbered))
    kinds = values[first]
    patterns, of = _patterns(kinds, p)
    counts = np.bincount(of[kind])
    chosen = np.sort(np.lexsort((np.arange(len(counts)), -counts))[:CLUSTERED])
    place = np.empty(len(chosen), np.int64)
    place[_leaves(patterns[chosen])] = np.arange(len(chosen))
    nearest = _nearest(patterns, patterns[chosen])[of]
    # Distinct people are in the order of their numbers already.
    rank = np.empty(len(kinds), np.int64)
    rank[np.lexsort((of, place[nearest]))] = np.arange(len(kinds))
    return np.argsort(rank[kind], kind="stable")


def _patterns(values: Floats, p: float) -> tuple[Floats, Ints]:
    """The distinct kinds of people as features, as fine as leaves few enough; who is which."""
    low = at_or_below(values, p)
    for bits in range(_FINEST + 1):
        fine = np.floor(values * 2**bits).astype(np.int64) if bits else np.zeros_like(low, np.int64)
        first, of = _distinct(np.hstack([low.astype(np.int64), fine]))
        if bits and len(first) > CLUSTERED:
            break
        found = np.hstack([low[first], fine[first] / 2**bits]), of
    return found


def _distinct(codes: Ints) -> tuple[Ints, Ints]:
    """The first of each distinct row, in the order of their numbers, and which each row is."""
    of, size = np.zeros(len(codes), np.int64), 1
    for column in codes.T:
        values = int(column.max()) + 1
        if size * values > _LARGEST:
            of = np.unique(of, return_inverse=True)[1].ravel().astype(np.int64)
            size = int(of.max()) + 1
        of = of * values + column
        size *= values
    _, first, of = np.unique(of, return_index=True, return_inverse=True)
    return first, of.ravel()


def _leaves(features: Floats) -> Ints:
    if len(features) == 1:
        return np.zeros(1, np.int64)
    from scipy.cluster.hierarchy import leaves_list, linkage

    tree = linkage(features, "average", "cityblock", optimal_ordering=True)
    leaves: Ints = leaves_list(tree)
    # Either end may come first; begin with the one who is breached more.
    half = features.shape[1] // 2
    low = features[leaves][:, :half].sum(axis=1)
    turned = low[: len(low) // 2].sum() < low[-(len(low) // 2) :].sum()
    return leaves[::-1] if turned else leaves


def _nearest(features: Floats, chosen: Floats) -> Ints:
    from scipy.spatial.distance import cdist

    if len(features) == len(chosen):
        return np.arange(len(features))
    parts = np.array_split(features, -(-len(features) // 1000))
    return np.concatenate([cdist(one, chosen, "cityblock").argmin(axis=1) for one in parts])


def columns_of(values: Floats, order: Ints, p: float, most: int) -> list[Column]:
    """Neighbours in the order put together into at most so many columns, as even as possible."""
    made = []
    for people in np.array_split(order, min(most, len(order))):
        some = values[people]
        low = at_or_below(some, p)
        shares = low.mean(axis=0)
        rest = np.where(low, 0.0, some).sum(axis=0)
        others = (~low).sum(axis=0)
        means = np.where(others > 0, rest / np.maximum(others, 1), np.nan)
        made.append(Column(len(people), shares, means))
    return made
