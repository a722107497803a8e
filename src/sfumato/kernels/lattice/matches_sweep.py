"""Matches within tolerances by sorting, for many records: compared are only those that may match.

Who matches on a combination is counted within groups of equal values in its other variables:

- no tolerance in it: the group itself;
- one: a window of the group in the order of that variable;
- two: the same windows, swept once; a tree of sums (Fenwick) counts by the second variable;
- three or more: the shortest windows, gone through one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit

from sfumato.kernels.arrays import AnyIntegers
from sfumato.kernels.lattice.groups import keys
from sfumato.kernels.lattice.matches_relations import Relation

_KEPT = 1 << 28
"""Bytes of counts that are kept, so that they are not taken twice."""
_TWO = 2


@dataclass(frozen=True, eq=False)
class Windows:
    """The rows in an order, and where in it those lie that match each target."""

    order: AnyIntegers
    first: AnyIntegers
    last: AnyIntegers

    @property
    def pairs(self) -> int:
        """How many pairs of rows the windows hold."""
        return int((self.last - self.first).sum())


@dataclass(eq=False)
class Sweep:
    """Counts the matches of target rows on any combination of variables.

    Parameters
    ----------
    relations : of kind "equal" or "near", a variable each.
    weights : how many records each row stands for.
    targets : the rows whose matches are counted.
    """

    relations: Sequence[Relation]
    weights: AnyIntegers
    targets: AnyIntegers
    _codes: AnyIntegers = field(init=False)
    _counts: dict[int, AnyIntegers] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._codes = np.column_stack([one.low for one in self.relations])

    def count(self, mask: int) -> AnyIntegers:
        """Records that match each target on all variables of a combination."""
        if mask not in self._counts:
            counted = self._counted(mask)
            if (len(self._counts) + 1) * counted.nbytes > _KEPT:
                return counted
            self._counts[mask] = counted
        return self._counts[mask]

    def values(self, mask: int, secret: int) -> AnyIntegers:
        """How many different values of one more variable those have who match, besides its own."""
        codes = self.relations[secret].low
        group, close = self._parts(mask)
        if close:
            windows, rest = self._shortest(group, close)
        else:
            windows, rest = _windows(group, np.zeros_like(group), self.targets, None), []
        seen = np.full(int(codes.max()) + 1, -1, np.int64)
        found: AnyIntegers = _others(
            self.targets,
            windows.order,
            windows.first,
            windows.last,
            codes,
            seen,
            *self._tests(rest),
        )
        return found

    def _parts(self, mask: int) -> tuple[AnyIntegers, list[int]]:
        """The group of each row by equal values, and the variables with a tolerance."""
        inside = [at for at in range(len(self.relations)) if mask >> at & 1]
        same = [at for at in inside if self.relations[at].kind == "equal"]
        found = np.unique(keys(self._codes, same), return_inverse=True)[1].ravel()
        return found.astype(np.int64), [at for at in inside if at not in same]

    def _counted(self, mask: int) -> AnyIntegers:
        group, close = self._parts(mask)
        if not close:
            sums = np.bincount(group, self.weights).astype(np.int64)
            return sums[group[self.targets]]
        if len(close) > _TWO:
            windows, rest = self._shortest(group, close)
            tests = self._tests(rest)
            counted: AnyIntegers = _scanned(
                self.targets, windows.order, windows.first, windows.last, self.weights, *tests
            )
            return counted
        windows = self._windows(group, close[0])
        if len(close) == 1:
            sums = np.concatenate([[0], np.cumsum(self.weights[windows.order])])
            found: AnyIntegers = sums[windows.last] - sums[windows.first]
            return found
        return self._swept(windows, self.relations[close[1]])

    def _windows(self, group: AnyIntegers, at: int) -> Windows:
        one = self.relations[at]
        return _windows(group, one.low, self.targets, (one.sure[1], one.sure[0]))

    def _shortest(self, group: AnyIntegers, close: Sequence[int]) -> tuple[Windows, list[int]]:
        """Windows by the variable that leaves fewest pairs, and the variables still to test."""
        every = {at: self._windows(group, at) for at in close}
        best = min(every, key=lambda at: (every[at].pairs, at))
        return every[best], [at for at in close if at != best]

    def _tests(self, rest: Sequence[int]) -> tuple[Any, Any, Any]:
        """Place and bounds by the variables that are left to be tested."""
        some = [self.relations[at] for at in rest]
        none = np.empty((0, len(self._codes)), np.int32)
        return (
            np.stack([one.low for one in some]) if some else none,
            np.stack([one.sure[1] for one in some]) if some else none,
            np.stack([one.sure[0] for one in some]) if some else none,
        )

    def _swept(self, windows: Windows, second: Relation) -> AnyIntegers:
        """Each window is what lies before its end less what lies before its start."""
        ends = np.concatenate([windows.first, windows.last])
        asked = np.argsort(ends, kind="stable")
        of = self.targets[asked % len(self.targets)]
        signs = np.where(asked < len(self.targets), -1, 1)
        found = np.zeros(len(self.targets), np.int64)
        _sweep(
            windows.order,
            second.low,
            self.weights,
            (ends[asked], asked % len(self.targets), signs),
            (second.sure[1][of], second.sure[0][of]),
            found,
        )
        return found


def _windows(group: AnyIntegers, places: Any, targets: AnyIntegers, bounds: Any) -> Windows:
    """Rows by group and place, and the window of each target: its own group, within its bounds."""
    size = int(places.max()) + 1
    combined = group * size + places
    order = np.argsort(combined, kind="stable")
    combined = combined[order]
    low, high = (places, places) if bounds is None else bounds
    first = np.searchsorted(combined, group[targets] * size + low[targets], "left")
    last = np.searchsorted(combined, group[targets] * size + high[targets], "right")
    return Windows(order, first, last)


@njit(cache=True, nogil=True)
def _sweep(order, places, weights, asked, bounds, found):  # type: ignore[no-untyped-def]
    """Take in row after row; at each end of a window, count those within the other bounds."""
    ends, targets, signs = asked
    low, high = bounds
    tree = np.zeros(places.max() + 2, np.int64)
    at = 0
    for taken in range(len(order) + 1):
        while at < len(ends) and ends[at] == taken:
            inside = np.int64(0)
            node = np.int64(high[at]) + 1
            while node > 0:
                inside += tree[node]
                node -= node & -node
            node = np.int64(low[at])
            while node > 0:
                inside -= tree[node]
                node -= node & -node
            found[targets[at]] += signs[at] * inside
            at += 1
        if taken < len(order):
            row = order[taken]
            node = np.int64(places[row]) + 1
            while node < len(tree):
                tree[node] += weights[row]
                node += node & -node


@njit(cache=True, nogil=True)
def _fits(target, other, places, low, high):  # type: ignore[no-untyped-def]
    for at in range(len(places)):
        if places[at, other] < low[at, target] or places[at, other] > high[at, target]:
            return False
    return True


@njit(cache=True, nogil=True)
def _scanned(targets, order, first, last, weights, places, low, high):  # type: ignore[no-untyped-def]
    """Records in each window that pass the remaining tests."""
    found = np.zeros(len(targets), np.int64)
    for number in range(len(targets)):
        for at in range(first[number], last[number]):
            if _fits(targets[number], order[at], places, low, high):
                found[number] += weights[order[at]]
    return found


@njit(cache=True, nogil=True)
def _others(targets, order, first, last, codes, seen, places, low, high):  # type: ignore[no-untyped-def]
    """Different codes in each window that pass the remaining tests, besides the target's own."""
    found = np.zeros(len(targets), np.int64)
    for number in range(len(targets)):
        seen[codes[targets[number]]] = number
        for at in range(first[number], last[number]):
            row = order[at]
            if seen[codes[row]] != number and _fits(targets[number], row, places, low, high):
                seen[codes[row]] = number
                found[number] += 1
    return found
