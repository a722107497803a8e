"""Groups of people who are protected alike: large enough to publish, nobody's values in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import AnyIntegers, Floats

FLOOR = 10
"""No group is smaller, and no smaller number of people is published."""
FEW, MOST = "few", "nearly all"
"""Stands for a share where those meant, or those not meant, are fewer than the floor."""
CLUSTERED = 600
"""Kinds of people that are really clustered; ten times as many take a thousand times as long."""
_GROUPS = 8
_KINDS = 100
"""Kinds of people that are clustered. More would cost more time than the measure itself."""
_DIGITS = 3
_FINEST = 10
_LARGEST = 1 << 62
_ROUNDING = 1e-12


def group_by_protection(
    least: Floats, counts: AnyIntegers, names: Sequence[str], p: float, *, most: int = _GROUPS
) -> list[dict[str, Any]]:
    """Groups of people who are alike in how well each variable is protected; [] of too few people.

    Question: are the same people in danger in several variables, and how many are they?
    Assumes: people stand in the order of a hierarchical clustering. Neighbours are joined, those
    that differ least first, until at most so many groups are left and each has 10 people.

    Parameters
    ----------
    least : the least share of protective peers, distinct people x variables.
    counts : how many people each row stands for.
    names : the variables.
    p : the share of protective peers that is still a breach.
    most : how many groups there may be.

    Returns rows for JSON: `group`, `records`, and for each variable the share that is `breached`
    ("few" or "nearly all" where a number would speak of fewer than 10 people) and the mean least
    share of protective peers (`mean_least_ppp`).

    Examples
    --------
    >>> least = np.array([[0.0, 0.5], [0.4, 0.5]])
    >>> groups = group_by_protection(least, np.array([30, 20]), ["salary", "illness"], 0.0)
    >>> [(group["records"], group["variables"][0]["breached"]) for group in groups]
    [(30, 1.0), (20, 0.0)]

    References: Kroes, Janssen, Groenwold & van Leeuwen (2021), Health Informatics Journal 27(2),
    Fig. 2.
    """
    if int(counts.sum()) < FLOOR:
        return []
    group = assign_groups(least, counts, p, most=most)
    return [
        _describe_group(index + 1, least[group == index], counts[group == index], names, p)
        for index in range(int(group.max()) + 1)
    ]


def assign_groups(
    least: Floats, counts: AnyIntegers, p: float, *, most: int = _GROUPS
) -> AnyIntegers:
    """The group of each row, from 0; see `group_by_protection`.

    Examples
    --------
    >>> assign_groups(np.array([[0.0], [0.4], [0.0]]), np.array([30, 20, 5]), 0.0).tolist()
    [0, 1, 0]
    """
    features, kind_of = _find_kinds(least, p, _KINDS)
    people = np.bincount(kind_of, counts).astype(np.int64)
    leaf = _assign_leaves(features, people, _KINDS)
    blocks = [
        _PeerBlock.of(features[leaf == index], people[leaf == index])
        for index in range(int(leaf.max()) + 1)
    ]
    ends = np.cumsum([block.leaves for block in _join_blocks(blocks, most)])
    group: AnyIntegers = np.searchsorted(ends, leaf, side="right")[kind_of]
    return group


@dataclass(frozen=True, eq=False)
class _PeerBlock:
    """Leaves beside each other: how many they are, their people, and the sum of their features."""

    leaves: int
    people: int
    total: Floats

    @classmethod
    def of(cls, features: Floats, people: AnyIntegers) -> _PeerBlock:
        # Features are whole multiples of a power of two, so that these sums are exact.
        return cls(1, int(people.sum()), people @ features)

    def join(self, other: _PeerBlock) -> _PeerBlock:
        return _PeerBlock(
            self.leaves + other.leaves, self.people + other.people, self.total + other.total
        )

    def ward_distance(self, other: _PeerBlock) -> float:
        """By how much joining both would increase the sum of squares within (Ward 1963)."""
        between = self.total / self.people - other.total / other.people
        share = self.people * other.people / (self.people + other.people)
        return share * float(np.dot(between, between))


def _join_blocks(blocks: list[_PeerBlock], most: int) -> list[_PeerBlock]:
    """Neighbours joined until few enough are left, and none is too small."""
    while len(blocks) > 1:
        small = [index for index, block in enumerate(blocks) if block.people < FLOOR]
        if not small and len(blocks) <= most:
            break
        candidates = range(len(blocks) - 1)
        if small:
            smallest = min(small, key=lambda index: blocks[index].people)
            candidates = range(max(smallest - 1, 0), min(smallest + 1, len(blocks) - 1))
        first = min(
            candidates, key=lambda index: (blocks[index].ward_distance(blocks[index + 1]), index)
        )
        joined = blocks[first].join(blocks[first + 1])
        blocks = [*blocks[:first], joined, *blocks[first + 2 :]]
    return blocks


def _describe_group(
    number: int, least: Floats, counts: AnyIntegers, names: Sequence[str], p: float
) -> dict[str, Any]:
    people = int(counts.sum())
    breached = counts @ at_or_below(least, p)
    return {
        "group": number,
        "records": people,
        "variables": [
            {
                "variable": name,
                "breached": format_share(int(breached[index]), people),
                "mean_least_ppp": round(_mean(least[:, index], counts), _DIGITS),
            }
            for index, name in enumerate(names)
        ],
    }


def _mean(values: Floats, counts: AnyIntegers) -> float:
    # An exact sum does not depend on the order of the records.
    return math.fsum((values * counts).tolist()) / int(counts.sum())


def format_share(number: int, people: int) -> float | str:
    """A share of a group; in words where it would speak of fewer people than the floor.

    Examples
    --------
    >>> format_share(25, 100), format_share(3, 100), format_share(0, 100), format_share(99, 100)
    (0.25, 'few', 0.0, 'nearly all')
    """
    if 0 < number < FLOOR:
        return FEW
    if 0 < people - number < FLOOR:
        return MOST
    if number in (0, people):
        return number / people
    # Few are not none, and nearly all are not all.
    step = 10.0**-_DIGITS
    return min(max(round(number / people, _DIGITS), step), 1 - step)


def at_or_below(values: Floats, p: float) -> npt.NDArray[np.bool_]:
    """Whether a number counts as a breach; 1 of 5 is not above 0.2, whatever a float makes of it.

    Examples
    --------
    >>> at_or_below(np.array([0.0, 0.2, 0.25]), 0.2).tolist()
    [True, True, False]
    """
    breached: npt.NDArray[np.bool_] = values <= p * (1 + _ROUNDING)
    return breached


def order_by_similarity(values: Floats, p: float) -> AnyIntegers:
    """An order of people (rows) in which similar ones are neighbours; the same for any order.

    Most similar are those who are breached in the same variables, then those of like numbers. Where
    there are too many different people, some stand for those who are nearest to them.
    """
    codes = [np.unique(column, return_inverse=True)[1].ravel() for column in values.T]
    first, person_of = _find_distinct(np.column_stack(codes))
    people = values[first]
    features, kind_of = _find_kinds(people, p)
    leaf = _assign_leaves(features, np.bincount(kind_of[person_of]), CLUSTERED)[kind_of]
    # Distinct people are in the order of their numbers already.
    rank = np.empty(len(people), np.int64)
    rank[np.lexsort((kind_of, leaf))] = np.arange(len(people))
    return np.argsort(rank[person_of], kind="stable")


def _find_kinds(values: Floats, p: float, most: int = CLUSTERED) -> tuple[Floats, AnyIntegers]:
    """The distinct kinds of people as features, as fine as leaves few enough; who is which."""
    breached = at_or_below(values, p)
    for bits in range(_FINEST + 1):
        fine = (
            np.floor(values * 2**bits).astype(np.int64)
            if bits
            else np.zeros_like(breached, np.int64)
        )
        first, kind_of = _find_distinct(np.hstack([breached.astype(np.int64), fine]))
        # Ever finer until there are too many kinds to cluster.
        if bits and len(first) > most:
            break
        kinds = np.hstack([breached[first], fine[first] / 2**bits]), kind_of
    return kinds


def _assign_leaves(features: Floats, people: AnyIntegers, most: int) -> AnyIntegers:
    """The position of each kind: the leaves of a clustering of those that most people have."""
    # The most frequent kinds are clustered; the others follow the nearest of them.
    chosen = np.sort(np.lexsort((np.arange(len(people)), -people))[:most])
    position = np.empty(len(chosen), np.int64)
    position[_order_leaves(features[chosen])] = np.arange(len(chosen))
    leaf: AnyIntegers = position[_find_nearest(features, features[chosen])]
    return leaf


def _find_distinct(codes: AnyIntegers) -> tuple[AnyIntegers, AnyIntegers]:
    """The first of each distinct row, in the order of their numbers, and which each row is."""
    row_of, size = np.zeros(len(codes), np.int64), 1
    for column in codes.T:
        values = int(column.max()) + 1
        if size * values > _LARGEST:
            row_of = np.unique(row_of, return_inverse=True)[1].ravel().astype(np.int64)
            size = int(row_of.max()) + 1
        row_of = row_of * values + column
        size *= values
    _, first, row_of = np.unique(row_of, return_index=True, return_inverse=True)
    return first, row_of.ravel()


def _order_leaves(features: Floats) -> AnyIntegers:
    if len(features) == 1:
        return np.zeros(1, np.int64)
    from scipy.cluster.hierarchy import leaves_list, linkage

    # Average linkage with optimal leaf ordering (Bar-Joseph et al. 2001).
    tree = linkage(features, "average", "cityblock", optimal_ordering=True)
    leaves: AnyIntegers = leaves_list(tree)
    # Either end may come first; begin with the one who is breached more.
    half = features.shape[1] // 2
    breaches = features[leaves][:, :half].sum(axis=1)
    reverse = breaches[: len(breaches) // 2].sum() < breaches[-(len(breaches) // 2) :].sum()
    return leaves[::-1] if reverse else leaves


def _find_nearest(features: Floats, chosen: Floats) -> AnyIntegers:
    from scipy.spatial.distance import cdist

    if len(features) == len(chosen):
        return np.arange(len(features))
    parts = np.array_split(features, -(-len(features) // 1000))
    return np.concatenate([cdist(part, chosen, "cityblock").argmin(axis=1) for part in parts])
