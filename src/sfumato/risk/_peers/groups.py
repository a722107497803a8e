"""Groups of people who are protected alike: large enough to be told of, nobody's values in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.kernels.arrays import AnyIntegers, Floats
from sfumato.risk._peers.groups_order import at_or_below, leaf_of_each, patterns

FLOOR = 10
"""No group is smaller, and no smaller number of people is told."""
FEW, MOST = "few", "nearly all"
"""Said in place of a share where those meant, or those not meant, are fewer than the floor."""
_GROUPS = 8
_KINDS = 100
"""Kinds of people that are clustered. More would cost more time than the measure itself."""
_DIGITS = 3


def groups_of(
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

    Returns plain rows for JSON: `group`, `records`, and for each variable the share that is
    `breached` ("few" or "nearly all" where a number would tell of fewer than 10 people) and the
    mean least share of protective peers (`mean_least_ppp`).

    Examples
    --------
    >>> least = np.array([[0.0, 0.5], [0.4, 0.5]])
    >>> found = groups_of(least, np.array([30, 20]), ["salary", "illness"], 0.0)
    >>> [(one["records"], one["variables"][0]["breached"]) for one in found]
    [(30, 1.0), (20, 0.0)]

    References: Kroes, Janssen, Groenwold & van Leeuwen (2021), Health Informatics Journal 27(2),
    Fig. 2.
    """
    if int(counts.sum()) < FLOOR:
        return []
    features, of = patterns(least, p, _KINDS)
    people = np.bincount(of, counts).astype(np.int64)
    leaf = leaf_of_each(features, people, _KINDS)
    blocks = [
        _Block.of(features[at], people[at])
        for at in (np.flatnonzero(leaf == one) for one in range(int(leaf.max()) + 1))
    ]
    ends = np.cumsum([one.leaves for one in _joined(blocks, most)])
    group = np.searchsorted(ends, leaf, side="right")[of]
    return [
        _told(at + 1, least[group == at], counts[group == at], names, p) for at in range(len(ends))
    ]


@dataclass(frozen=True, eq=False)
class _Block:
    """Leaves beside each other: how many they are, their people, and the sum of their features."""

    leaves: int
    people: int
    total: Floats

    @classmethod
    def of(cls, features: Floats, people: AnyIntegers) -> _Block:
        # Features are whole multiples of a power of two, so that these sums are exact.
        return cls(1, int(people.sum()), people @ features)

    def with_next(self, other: _Block) -> _Block:
        return _Block(
            self.leaves + other.leaves, self.people + other.people, self.total + other.total
        )

    def apart(self, other: _Block) -> float:
        """By how much joining both would spread the group (Ward)."""
        between = self.total / self.people - other.total / other.people
        share = self.people * other.people / (self.people + other.people)
        return share * float(np.dot(between, between))


def _joined(blocks: list[_Block], most: int) -> list[_Block]:
    """Neighbours joined until few enough are left, and none is too small."""
    while len(blocks) > 1:
        small = [at for at, one in enumerate(blocks) if one.people < FLOOR]
        if not small and len(blocks) <= most:
            break
        near = range(len(blocks) - 1)
        if small:
            at = min(small, key=lambda one: blocks[one].people)
            near = range(max(at - 1, 0), min(at + 1, len(blocks) - 1))
        first = min(near, key=lambda one: (blocks[one].apart(blocks[one + 1]), one))
        blocks = [
            *blocks[:first], blocks[first].with_next(blocks[first + 1]), *blocks[first + 2 :]
        ]  # fmt: skip
    return blocks


def _told(
    number: int, least: Floats, counts: AnyIntegers, names: Sequence[str], p: float
) -> dict[str, Any]:
    people = int(counts.sum())
    low = counts @ at_or_below(least, p)
    return {
        "group": number,
        "records": people,
        "variables": [
            {
                "variable": name,
                "breached": share_told(int(low[at]), people),
                "mean_least_ppp": round(_mean(least[:, at], counts), _DIGITS),
            }
            for at, name in enumerate(names)
        ],
    }


def _mean(values: Floats, counts: AnyIntegers) -> float:
    # An exact sum does not depend on the order of the records.
    return math.fsum((values * counts).tolist()) / int(counts.sum())


def share_told(number: int, people: int) -> float | str:
    """A share of a group; in words where it would tell of fewer people than the floor.

    Examples
    --------
    >>> share_told(25, 100), share_told(3, 100), share_told(0, 100), share_told(99, 100)
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


def gains_of(
    codes: AnyIntegers,
    counts: AnyIntegers,
    names: Sequence[str],
    sensitive: str,
    known: Sequence[str],
    p: Fraction,
) -> list[dict[str, Any]]:
    """What would be gained for one variable if one of those that are known were unknown.

    Question: which variable should be made coarser first?
    Assumes: the outsider knows exact cells: all of those known, or all but one.

    Parameters
    ----------
    codes : distinct records x variables, values numbered from 0.
    counts : how many records each row stands for.
    names : the variables, in the order of the columns.
    sensitive : the variable to protect.
    known : the variables that an outsider knows.
    p : the share of protective peers that is still a breach.

    Returns plain rows for JSON, what gains most first: `variable`, and the shares of records that
    are `protected` when everything is known, `without` this variable, and the `gain`.

    Examples
    --------
    >>> codes = np.array([[0, 0, 0], [1, 0, 1], [0, 1, 0]])
    >>> gains_of(codes, np.ones(3, int), ["age", "sex", "ill"], "ill", ["age", "sex"], Fraction(0))
    [{'variable': 'age', 'protected': 0.0, 'without': 0.667, 'gain': 0.667}, \
{'variable': 'sex', 'protected': 0.0, 'without': 0.0, 'gain': 0.0}]
    """
    from sfumato.kernels.lattice.groups import at_maximum
    from sfumato.risk._peers.cuts import is_above

    secret, people = list(names).index(sensitive), int(counts.sum())
    by = [list(names).index(name) for name in known if name != sensitive]

    def protected(columns: Sequence[int]) -> int:
        peers, same, _ = at_maximum(codes, counts, secret, columns, Fraction(0))
        return int(counts[is_above(peers - same, peers, p)].sum())

    whole = protected(by)
    rows = []
    for one in by:
        without = protected([other for other in by if other != one])
        rows.append((without - whole, one, without))
    return [
        {
            "variable": names[one],
            "protected": round(whole / people, _DIGITS),
            "without": round(without / people, _DIGITS),
            "gain": round(gain / people, _DIGITS),
        }
        for gain, one, without in sorted(rows, key=lambda row: (-row[0], row[1]))
    ]
