"""How many records, or persons, have each combination of so many items.

Lists are stored as in a sparse matrix: the items of row i are `items[starts[i]:starts[i + 1]]`,
whole numbers from 0 on that rise. A combination is counted by its least item, so that parts of
the items can be gone through one after the other, whatever the number of combinations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.arrays import Integers

if TYPE_CHECKING:
    from sfumato.units import Units

_AT_ONCE = 8_000_000
"""Combinations in memory at the same time, about."""
MOST = 400_000_000
"""Combinations that are counted at all."""
LARGEST = 2**62
"""A combination is one whole number below it."""


@dataclass(frozen=True, eq=False)
class ItemRows:
    """Lists of items.

    Parameters
    ----------
    starts : where each list begins, and the end.
    items : the items of all lists, rising within each.
    width : how many different items there are.
    units : whom each list is about.
    """

    starts: Integers
    items: Integers
    width: int
    units: Units

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> Integers:
        """How many items each list has."""
        return np.diff(self.starts)


@dataclass(frozen=True, eq=False)
class Itemsets:
    """Some combinations.

    Parameters
    ----------
    items : a row per combination, its items rising.
    support : how many units have all of them.
    rows : a list that has them: the first.
    """

    items: Integers
    support: Integers
    rows: Integers


def count_combinations(lists: ItemRows, size: int) -> int:
    """How many combinations of so many items all lists have, repeated ones each time."""
    lengths, times = np.unique(lists.lengths, return_counts=True)
    return sum(
        math.comb(length, size) * count
        for length, count in zip(lengths.tolist(), times.tolist(), strict=True)
    )


def count_itemsets(lists: ItemRows, size: int) -> Iterator[Itemsets]:
    """Every combination of so many items that some list has, once, in parts.

    Examples
    --------
    >>> from sfumato.units import Units
    >>> lists = ItemRows(np.array([0, 2, 4, 5]), np.array([0, 1, 0, 1, 1]), 2, Units(3))
    >>> [(part.items.tolist(), part.support.tolist()) for part in count_itemsets(lists, 2)]
    [([[0, 1]], [2])]
    """
    if not len(lists.items):
        return
    if lists.width**size >= LARGEST:
        raise OverflowError
    by_length = {
        int(length): np.flatnonzero(lists.lengths == length)
        for length in np.unique(lists.lengths)
        if length >= size
    }
    tables = {
        length: lists.items[lists.starts[rows][:, None] + np.arange(length)]
        for length, rows in by_length.items()
    }
    for low, high in _divide_items(tables, lists.width, size):
        codes, rows = [], []
        for length, table in tables.items():
            for first in range(length - size + 1):
                inside = np.flatnonzero((table[:, first] >= low) & (table[:, first] < high))
                if not len(inside):
                    continue
                others = list(combinations(range(first + 1, length), size - 1))
                positions = np.array(others, np.int64).reshape(len(others), size - 1)
                chosen = table[inside][:, positions]
                code = np.broadcast_to(table[inside, first][:, None], chosen.shape[:2])
                for position in range(size - 1):
                    code = code * lists.width + chosen[:, :, position]
                codes.append(code.ravel())
                rows.append(np.repeat(by_length[length][inside], chosen.shape[1]))
        if codes:
            yield _add_up(np.concatenate(codes), np.concatenate(rows), lists, size)


def _divide_items(tables: dict[int, Integers], width: int, size: int) -> Iterator[tuple[int, int]]:
    """Ranges of least items with about as many combinations as fit into memory."""
    weights = np.zeros(width)
    for length, table in tables.items():
        for first in range(length - size + 1):
            share = math.comb(length - first - 1, size - 1)
            weights += share * np.bincount(table[:, first], minlength=width)
    part = np.floor(np.cumsum(weights) / _AT_ONCE).astype(np.int64)
    starts = np.flatnonzero(np.diff(part, prepend=-1))
    yield from zip(starts.tolist(), [*starts[1:].tolist(), width], strict=True)


def _add_up(codes: Integers, rows: Integers, lists: ItemRows, size: int) -> Itemsets:
    """Each combination once: how many have it, and a list that does."""
    distinct, first, of = np.unique(codes, return_index=True, return_inverse=True)
    support = lists.units.take(rows).count_groups(of.ravel(), len(distinct))
    items = np.empty((len(distinct), size), np.int64)
    rest = distinct
    for position in range(size - 1, -1, -1):
        rest, items[:, position] = np.divmod(rest, lists.width)
    return Itemsets(items, support, rows[first])
