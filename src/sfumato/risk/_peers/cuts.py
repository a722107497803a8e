"""Equal-width generalisations, and whom each of them protects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import AnyIntegers
from sfumato.risk._peers.places import Places
from sfumato.risk._peers.rows import Rows

Ends = Literal["narrow", "any"]
_FAR = 1 << 40
_CELLS = 1 << 20
"""Cells that are worked on at once."""


@dataclass(frozen=True, eq=False)
class Cuts:
    """Generalisations of one width: how many values the lowest category has, and how many are."""

    width: int
    offsets: AnyIntegers
    categories: AnyIntegers

    def category(self, at: AnyIntegers, some: slice) -> AnyIntegers:
        """The category of each place: generalisations x places."""
        offsets, last = self.offsets[some, None], self.categories[some, None] - 1
        found: AnyIntegers = np.clip(1 + (at[None, :] - offsets) // self.width, 0, last)
        return found

    def starts(self, which: int) -> list[int]:
        """The places at which categories begin, the lowest left out."""
        first, count = int(self.offsets[which]), int(self.categories[which])
        return [first + self.width * step for step in range(count - 1)]


def all_cuts(span: int, ends: Ends, sizes: Sequence[int] | None) -> list[Cuts]:
    """Every generalisation of so many places.

    Examples
    --------
    >>> [(one.width, one.offsets.tolist()) for one in all_cuts(3, "narrow", None)]
    [(1, [1]), (2, [1, 2]), (3, [1, 2, 3])]
    >>> [(one.width, one.offsets.tolist()) for one in all_cuts(4, "any", None)]
    [(1, [1]), (2, [1, 2, 3]), (4, [4])]
    """
    made = _narrow if ends == "narrow" else _any
    return [made(span, width) for width in _chosen(span, ends, sizes)]


def _chosen(span: int, ends: Ends, sizes: Sequence[int] | None) -> list[int]:
    if ends not in ("narrow", "any"):
        raise MeasureError('`ends` is "narrow" or "any".')
    if sizes is None and ends == "narrow":
        return list(range(1, span + 1))
    if sizes is None:
        # Wider ones with as many categories differ in nothing but wide ends.
        return sorted({-(-span // count) for count in range(1, span + 1)})
    if not sizes or min(sizes) < 1:
        raise MeasureError("A width is 1 or more.", hint="name at least one in `sizes`.")
    return sorted({min(int(one), span) for one in sizes})


def check_budget(
    span: int, ends: Ends, sizes: Sequence[int] | None, rows: Rows, p: Fraction, budget: int
) -> None:
    """Refuse what would take too long before anything is made; nothing is left out silently."""
    each = len(rows.counts) * (1 if p == 0 else 2 ** len(rows.known) - 1)
    number = span
    if sizes is not None or span * each <= budget:
        # No width has more offsets than places, or than two categories have.
        wide = 1 if ends == "narrow" else 2
        number = sum(min(wide * width, span) for width in _chosen(span, ends, sizes))
    if number * each > budget:
        raise MeasureError(
            f"At least {number:,} generalisations of {len(rows.counts):,} distinct records are "
            "more than the budget allows.",
            hint="name some widths: sizes = [...]; or raise `budget`.",
        )


def _narrow(span: int, width: int) -> Cuts:
    offsets = np.arange(1, width + 1)
    return Cuts(width, offsets, 1 - (offsets - span) // width)


def _any(span: int, width: int) -> Cuts:
    count = -(-span // width)
    if width == 1 or count == 1:
        return Cuts(width, np.array([width]), np.array([count]))
    offsets = np.arange(1, span - (count - 2) * width)
    return Cuts(width, offsets, np.full(len(offsets), count))


@dataclass(frozen=True, eq=False)
class Nearest:
    """Distinct places, each with the nearest that protects on either side; how many records."""

    at: AnyIntegers
    below: AnyIntegers
    above: AnyIntegers
    counts: AnyIntegers


def nearest(rows: Rows, variable: int, places: Places) -> Nearest:
    """For each record the nearest places of records that differ only there and in the secret.

    They decide whether anybody protects it, however the variable is cut: somebody does if and only
    if one of both lies in its category.
    """
    from sfumato.kernels.lattice.groups import keys

    others = [one for one in range(len(rows.known)) if one != variable]
    secret = rows.codes[:, -1]
    group = keys(np.column_stack([rows.codes, places.missing.astype(np.int64)]),
                 [*others, rows.codes.shape[1]])  # fmt: skip
    order = np.lexsort((secret, places.at, group))
    group, secret, at = group[order], secret[order], places.at[order].astype(np.int64)
    # Within a group, a run of equal secrets is protected by its neighbours.
    new_group = np.concatenate([[True], group[1:] != group[:-1]])
    starts = np.flatnonzero(new_group | np.concatenate([[True], secret[1:] != secret[:-1]]))
    sizes = np.diff(np.append(starts, len(at)))
    first = new_group[starts]
    last = np.append(first[1:], True)
    below = np.where(first, -1, at[np.maximum(starts - 1, 0)])
    above = np.where(last, _FAR, at[np.minimum(starts + sizes, len(at) - 1)])
    triples = np.column_stack([at, np.repeat(below, sizes), np.repeat(above, sizes)])
    found, of = np.unique(triples, axis=0, return_inverse=True)
    counts = np.bincount(of.ravel(), rows.counts[order], len(found)).astype(np.int64)
    return Nearest(found[:, 0], found[:, 1], found[:, 2], counts)


def protected_by_any(near: Nearest, cuts: Cuts, span: int) -> AnyIntegers:
    """How many records have a protective peer when everything is known."""
    step = max(1, _CELLS // len(near.at))
    found = []
    for low in range(0, len(cuts.offsets), step):
        some = slice(low, low + step)
        category = cuts.category(near.at, some)
        offsets, count = cuts.offsets[some, None], cuts.categories[some, None]
        start = np.where(category == 0, 0, offsets + (category - 1) * cuts.width)
        end = np.where(category == count - 1, span - 1, offsets + category * cuts.width - 1)
        found.append(((near.below >= start) | (near.above <= end)) @ near.counts)
    return np.concatenate(found)


def protected_above(
    rows: Rows, variable: int, places: Places, cuts: Cuts, p: Fraction
) -> list[int]:
    """How many records have a share above p in every combination of the known variables."""
    from sfumato.kernels.lattice.lattice import lattice

    found = []
    for which in range(len(cuts.offsets)):
        codes = rows.codes.copy()
        category = cuts.category(places.at, slice(which, which + 1))[0]
        codes[:, variable] = np.where(places.missing, cuts.categories[which], category)
        codes, of = np.unique(codes, axis=0, return_inverse=True)
        counts = np.bincount(of.ravel(), rows.counts).astype(np.int64)
        last = len(rows.known)
        seen = lattice(codes, counts, sensitive=[last], known=range(last), p=p)
        safe = is_above(seen.least_protective[0], seen.least_peers[0], p)
        found.append(int(counts[safe].sum()))
    return found


def is_above(protective: AnyIntegers, peers: AnyIntegers, p: Fraction) -> Any:
    """Whether the share is above p: whole numbers decide, since 1 of 5 is not above 0.2."""
    return protective.astype(np.int64) * p.denominator > peers.astype(np.int64) * p.numerator
