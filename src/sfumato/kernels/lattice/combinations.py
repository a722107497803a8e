"""Combinations of variables: which are looked at, how many they are, and whether that fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, lcm

import numpy as np

from sfumato.kernels.arrays import AnyIntegers, Integers

_FINEST = 10**6
"""Costs are read as fractions with at most this denominator."""
_LARGEST = 1 << 62
_SUMS = 50_000
"""Different sums of costs that are told apart when combinations are counted."""


@dataclass(frozen=True)
class Effort:
    """What it costs to learn each variable, and the most that an outsider would spend.

    costs : a cost per column of the codes; infinite where it cannot be learned at all.
    limit : combinations whose costs add up to more are left out.
    """

    costs: Sequence[float]
    limit: float

    def to_integers(self, columns: int) -> tuple[Integers, int]:
        """The same in whole numbers, so that sums are exact in whatever order they are added."""
        if len(self.costs) != columns:
            raise ValueError(f"There are {columns} columns, but {len(self.costs)} costs.")
        if any(not cost >= 0 for cost in (*self.costs, self.limit)):
            raise ValueError("Costs and their limit are 0 or more, and never missing.")
        finite = [_to_fraction(cost) for cost in (*self.costs, self.limit) if cost != inf]
        scale = lcm(*(cost.denominator for cost in finite))
        if sum(finite) * scale >= _LARGEST:
            raise ValueError("The costs have too many digits. Round them.")
        together = sum(int(_to_fraction(cost) * scale) for cost in self.costs if cost != inf)
        limit = together if self.limit == inf else int(_to_fraction(self.limit) * scale)
        limit = min(limit, together)
        costs = [
            limit + 1 if cost == inf else int(_to_fraction(cost) * scale) for cost in self.costs
        ]
        return np.array(costs, np.int64), limit


def _to_fraction(number: float) -> Fraction:
    return Fraction(number).limit_denominator(_FINEST)


@dataclass(frozen=True)
class Limits:
    """The combinations that are looked at: size and cost are at most so much.

    costs : of every column, in whole numbers.
    dearest : the highest cost of a combination.
    most : the most columns in a combination.
    """

    costs: Integers
    dearest: int
    most: int

    def sizes(self, columns: Sequence[int]) -> list[int]:
        """How many combinations there are of 1, 2, ... of these columns."""
        costs = [int(self.costs[column]) for column in columns]
        return count_by_size(costs, self.dearest, min(self.most, len(columns)))

    def below(self, first: int, after: Sequence[int]) -> int:
        """How many combinations have this column and perhaps some that come after it."""
        unspent = self.dearest - int(self.costs[first])
        costs = [int(self.costs[column]) for column in after]
        if unspent < 0:
            return 0
        return 1 + sum(count_by_size(costs, unspent, min(self.most - 1, len(after))))


def set_limits(columns: int, most: int | None, effort: Effort | None) -> Limits:
    """The limits in whole numbers; nothing is left out where there is no limit."""
    if most is not None and most < 1:
        raise ValueError("`most` is 1 or more: the empty combination is never looked at.")
    costs, dearest = np.zeros(columns, np.int64), 0
    if effort is not None:
        costs, dearest = effort.to_integers(columns)
    return Limits(costs, dearest, columns if most is None else min(most, columns))


def count_by_size(costs: Sequence[int], limit: int, most: int) -> list[int]:
    """How many non-empty combinations of 1, 2, ... `most` variables cost at most `limit`."""
    sums: dict[tuple[int, int], int] = {(0, 0): 1}
    for cost in costs:
        for (size, spent), number in list(sums.items()):
            if size < most and spent + cost <= limit:
                after = (size + 1, spent + cost)
                sums[after] = sums.get(after, 0) + number
        if len(sums) > _SUMS:
            raise ValueError("The costs add up to too many different sums. Round them.")
    numbers = [0] * most
    for (size, _), number in sums.items():
        if size:
            numbers[size - 1] += number
    return numbers


def count_combinations(
    limits: Limits, sensitive: Sequence[int], known: Sequence[int]
) -> AnyIntegers:
    """How many combinations are looked at for each sensitive column; never none."""
    numbers = [
        sum(limits.sizes([column for column in known if column != secret])) for secret in sensitive
    ]
    for column, number in zip(sensitive, numbers, strict=True):
        if not number:
            raise ValueError(f"No combination is left from which to learn about column {column}.")
    return np.array(numbers, object)


def list_combinations(limits: Limits, known: Sequence[int]) -> Integers:
    """The combinations that are looked at as bit masks, small ones first, then low ones."""
    columns = sorted(known)
    masks, last, spent = np.zeros(1, np.int64), np.full(1, -1), np.zeros(1, np.int64)
    levels = []
    for _ in range(min(limits.most, len(columns))):
        level = []
        for i, column in enumerate(columns):
            cost = int(limits.costs[column])
            some = (last < i) & (spent + cost <= limits.dearest)
            added = masks[some] | (1 << column), np.full(int(some.sum()), i), spent[some] + cost
            level.append(added)
        masks, last, spent = (np.concatenate(arrays) for arrays in zip(*level, strict=True))
        order = np.argsort(masks)
        masks, last, spent = masks[order], last[order], spent[order]
        levels.append(masks)
    return np.concatenate(levels).astype(np.int64)


def check_budget(rows: int, sizes: Sequence[int], budget: int) -> None:
    """Raise unless the rows, once for each combination, are within the budget.

    `sizes` says how many combinations there are of each size.
    """
    work = rows * sum(sizes)
    if work <= budget:
        return
    fits = 0
    while rows * sum(sizes[: fits + 1]) <= budget:
        fits += 1
    hint = f"most={fits} would fit" if fits else "not even single variables fit"
    raise ValueError(
        f"{sum(sizes):,} combinations of variables on {rows:,} distinct rows are {work:,} steps, "
        f"more than the budget of {budget:,}; {hint}."
    )
