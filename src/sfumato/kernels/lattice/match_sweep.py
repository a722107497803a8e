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

from sfumato.kernels.arrays import AnyIntegers
from sfumato.kernels.compiled import compiled, inner
from sfumato.kernels.lattice.peers import key_rows
from sfumato.kernels.lattice.relations import Relation

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
        self._codes = np.column_stack([relation.low for relation in self.relations])

    def count(self, mask: int) -> AnyIntegers:
        """Records that match each target on all variables of a combination."""
        if mask not in self._counts:
            counted = self._count_anew(mask)
            if (len(self._counts) + 1) * counted.nbytes > _KEPT:
                return counted
            self._counts[mask] = counted
        return self._counts[mask]

    def count_other_values(self, mask: int, secret: int) -> AnyIntegers:
        """How many different values of one more variable those have who match, besides its own."""
        codes = self.relations[secret].low
        group, close = self._split_variables(mask)
        if close:
            windows, others = self._find_shortest(group, close)
        else:
            windows, others = _find_windows(group, np.zeros_like(group), self.targets, None), []
        last_target = np.full(int(codes.max()) + 1, -1, np.int64)
        values: AnyIntegers = _count_others(
            self.targets,
            windows.order,
            windows.first,
            windows.last,
            codes,
            last_target,
            *self._list_tests(others),
        )
        return values

    def _split_variables(self, mask: int) -> tuple[AnyIntegers, list[int]]:
        """The group of each row by equal values, and the variables with a tolerance."""
        variables = [column for column in range(len(self.relations)) if mask >> column & 1]
        same = [column for column in variables if self.relations[column].kind == "equal"]
        group = np.unique(key_rows(self._codes, same), return_inverse=True)[1].ravel()
        return group.astype(np.int64), [column for column in variables if column not in same]

    def _count_anew(self, mask: int) -> AnyIntegers:
        group, close = self._split_variables(mask)
        if not close:
            sums = np.bincount(group, self.weights).astype(np.int64)
            return sums[group[self.targets]]
        if len(close) > _TWO:
            windows, others = self._find_shortest(group, close)
            tests = self._list_tests(others)
            counted: AnyIntegers = _scan_windows(
                self.targets, windows.order, windows.first, windows.last, self.weights, *tests
            )
            return counted
        windows = self._find_windows(group, close[0])
        if len(close) == 1:
            sums = np.concatenate([[0], np.cumsum(self.weights[windows.order])])
            windowed: AnyIntegers = sums[windows.last] - sums[windows.first]
            return windowed
        return self._sweep_windows(windows, self.relations[close[1]])

    def _find_windows(self, group: AnyIntegers, column: int) -> Windows:
        relation = self.relations[column]
        return _find_windows(
            group, relation.low, self.targets, (relation.sure[1], relation.sure[0])
        )

    def _find_shortest(self, group: AnyIntegers, close: Sequence[int]) -> tuple[Windows, list[int]]:
        """Windows by the variable that leaves fewest pairs, and the variables still to test."""
        windows = {column: self._find_windows(group, column) for column in close}
        best = min(windows, key=lambda column: (windows[column].pairs, column))
        return windows[best], [column for column in close if column != best]

    def _list_tests(self, others: Sequence[int]) -> tuple[Any, Any, Any]:
        """Position and bounds by the variables still to be tested."""
        some = [self.relations[column] for column in others]
        none = np.empty((0, len(self._codes)), np.int32)
        return (
            np.stack([relation.low for relation in some]) if some else none,
            np.stack([relation.sure[1] for relation in some]) if some else none,
            np.stack([relation.sure[0] for relation in some]) if some else none,
        )

    def _sweep_windows(self, windows: Windows, second: Relation) -> AnyIntegers:
        """Each window is what lies before its end less what lies before its start."""
        ends = np.concatenate([windows.first, windows.last])
        by_end = np.argsort(ends, kind="stable")
        of = self.targets[by_end % len(self.targets)]
        signs = np.where(by_end < len(self.targets), -1, 1)
        counts = np.zeros(len(self.targets), np.int64)
        _sweep(
            windows.order,
            second.low,
            self.weights,
            (ends[by_end], by_end % len(self.targets), signs),
            (second.sure[1][of], second.sure[0][of]),
            counts,
        )
        return counts


def _find_windows(group: AnyIntegers, positions: Any, targets: AnyIntegers, bounds: Any) -> Windows:
    """Rows by group and position; the window of each target: in its group, within its bounds."""
    size = int(positions.max()) + 1
    combined = group * size + positions
    order = np.argsort(combined, kind="stable")
    combined = combined[order]
    low, high = (positions, positions) if bounds is None else bounds
    first = np.searchsorted(combined, group[targets] * size + low[targets], "left")
    last = np.searchsorted(combined, group[targets] * size + high[targets], "right")
    return Windows(order, first, last)


@compiled
def _sweep(order, positions, weights, queries, bounds, counts):  # type: ignore[no-untyped-def]
    """Take in row after row; at each end of a window, count those within the other bounds."""
    ends, targets, signs = queries
    low, high = bounds
    tree = np.zeros(positions.max() + 2, np.int64)
    query = 0
    for taken in range(len(order) + 1):
        while query < len(ends) and ends[query] == taken:
            matching = np.int64(0)
            node = np.int64(high[query]) + 1
            while node > 0:
                matching += tree[node]
                node -= node & -node
            node = np.int64(low[query])
            while node > 0:
                matching -= tree[node]
                node -= node & -node
            counts[targets[query]] += signs[query] * matching
            query += 1
        if taken < len(order):
            row = order[taken]
            node = np.int64(positions[row]) + 1
            while node < len(tree):
                tree[node] += weights[row]
                node += node & -node


@inner
def _fits(target, other, positions, low, high):  # type: ignore[no-untyped-def]
    for test in range(len(positions)):
        if (
            positions[test, other] < low[test, target]
            or positions[test, other] > high[test, target]
        ):
            return False
    return True


@compiled
def _scan_windows(targets, order, first, last, weights, positions, low, high):  # type: ignore[no-untyped-def]
    """Records in each window that pass the remaining tests."""
    counts = np.zeros(len(targets), np.int64)
    for number in range(len(targets)):
        for i in range(first[number], last[number]):
            if _fits(targets[number], order[i], positions, low, high):
                counts[number] += weights[order[i]]
    return counts


@compiled
def _count_others(targets, order, first, last, codes, last_target, positions, low, high):  # type: ignore[no-untyped-def]
    """Different codes in each window that pass the remaining tests, besides the target's own."""
    counts = np.zeros(len(targets), np.int64)
    for number in range(len(targets)):
        last_target[codes[targets[number]]] = number
        for i in range(first[number], last[number]):
            row = order[i]
            if last_target[codes[row]] != number and _fits(
                targets[number], row, positions, low, high
            ):
                last_target[codes[row]] = number
                counts[number] += 1
    return counts
