"""People who are alike: an order of them in which they stand together, and what they are like."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import AnyIntegers, Floats

CLUSTERED = 600
"""Kinds of people that are really clustered; ten times as many take a thousand times as long."""
_FINEST = 10
_LARGEST = 1 << 62
_ROUNDING = 1e-12


def at_or_below(values: Floats, p: float) -> npt.NDArray[np.bool_]:
    """Whether a number counts as a breach; 1 of 5 is not above 0.2, whatever a float makes of it.

    Examples
    --------
    >>> at_or_below(np.array([0.0, 0.2, 0.25]), 0.2).tolist()
    [True, True, False]
    """
    found: npt.NDArray[np.bool_] = values <= p * (1 + _ROUNDING)
    return found


def alike_together(values: Floats, p: float) -> AnyIntegers:
    """An order of people (rows) that puts those together who are alike; the same for any order.

    Most alike are those who are breached in the same variables, then those of like numbers. Where
    there are too many different people, some stand for those who are nearest to them.
    """
    numbered = [np.unique(one, return_inverse=True)[1].ravel() for one in values.T]
    first, kind = _distinct(np.column_stack(numbered))
    kinds = values[first]
    features, of = patterns(kinds, p)
    leaf = leaf_of_each(features, np.bincount(of[kind]), CLUSTERED)[of]
    # Distinct people are in the order of their numbers already.
    rank = np.empty(len(kinds), np.int64)
    rank[np.lexsort((of, leaf))] = np.arange(len(kinds))
    return np.argsort(rank[kind], kind="stable")


def patterns(values: Floats, p: float, most: int = CLUSTERED) -> tuple[Floats, AnyIntegers]:
    """The distinct kinds of people as features, as fine as leaves few enough; who is which."""
    low = at_or_below(values, p)
    for bits in range(_FINEST + 1):
        fine = np.floor(values * 2**bits).astype(np.int64) if bits else np.zeros_like(low, np.int64)
        first, of = _distinct(np.hstack([low.astype(np.int64), fine]))
        if bits and len(first) > most:
            break
        found = np.hstack([low[first], fine[first] / 2**bits]), of
    return found


def leaf_of_each(features: Floats, people: AnyIntegers, most: int) -> AnyIntegers:
    """Where each pattern stands: the leaves of a clustering of those that most people have."""
    chosen = np.sort(np.lexsort((np.arange(len(people)), -people))[:most])
    place = np.empty(len(chosen), np.int64)
    place[_leaves(features[chosen])] = np.arange(len(chosen))
    found: AnyIntegers = place[_nearest(features, features[chosen])]
    return found


def _distinct(codes: AnyIntegers) -> tuple[AnyIntegers, AnyIntegers]:
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


def _leaves(features: Floats) -> AnyIntegers:
    if len(features) == 1:
        return np.zeros(1, np.int64)
    from scipy.cluster.hierarchy import leaves_list, linkage

    tree = linkage(features, "average", "cityblock", optimal_ordering=True)
    found: AnyIntegers = leaves_list(tree)
    # Either end may come first; begin with the one who is breached more.
    half = features.shape[1] // 2
    low = features[found][:, :half].sum(axis=1)
    turned = low[: len(low) // 2].sum() < low[-(len(low) // 2) :].sum()
    return found[::-1] if turned else found


def _nearest(features: Floats, chosen: Floats) -> AnyIntegers:
    from scipy.spatial.distance import cdist

    if len(features) == len(chosen):
        return np.arange(len(features))
    parts = np.array_split(features, -(-len(features) // 1000))
    return np.concatenate([cdist(one, chosen, "cityblock").argmin(axis=1) for one in parts])
