"""Blanking where a blank is a value of its own: those that agree on the rest hide each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sfumato.kernels.arrays import Integers, Mask, Words
from sfumato.methods._suppression.merging import merged
from sfumato.methods._suppression.rows import Rows, Subset, less, pieces, shared
from sfumato.methods._suppression.subsets import ascending, chain


def by_value(rows: Rows, k: int, weights: Sequence[float]) -> Mask:
    """Which cells of each row to blank so that every class has k records or more.

    Three ways are tried and the cheapest is taken: the subsets in ascending cost; one variable
    more at a time; all variables at once. So it is never worse than either of the last two.
    """
    if bool((rows.counts >= k).all()):
        return np.zeros(rows.codes.shape, bool)
    nested = chain(rows.codes, weights)
    ways: list[list[list[Subset]]] = [
        ascending(rows.codes, weights),
        [[one] for one in nested],
        [[()], [nested[-1]]],
    ]
    masks = [mask for way in ways for mask in _finished(_Search(rows, k), way, weights)]
    costs = [rows.cost(mask, weights) for mask in masks]
    return masks[costs.index(min(costs))]


def _finished(search: _Search, way: list[list[Subset]], weights: Sequence[float]) -> list[Mask]:
    """Rows that found too few others join the class that costs least, from where they stand."""
    for same in way:
        search.take(same)
    rows, k = search.rows, search.k
    if not len(search.open):
        return [merged(rows, search.mask, k, weights)]
    wholly = search.mask.copy()
    wholly[search.open] = True
    return [merged(rows, mask, k, weights) for mask in (search.mask, wholly)]


@dataclass(eq=False)
class _Search:
    """Rows that are still open, and the classes that those before them have made."""

    rows: Rows
    k: int
    parts: Words = field(init=False)
    keys: Words = field(init=False)
    mask: Mask = field(init=False)
    open: Integers = field(init=False)
    made: Words = field(init=False)
    sizes: Integers = field(init=False)

    def __post_init__(self) -> None:
        self.parts = pieces(self.rows.codes)
        self.keys = self.parts.sum(axis=1, dtype=np.uint64)
        self.mask = np.zeros(self.rows.codes.shape, bool)
        self.open = np.arange(len(self.rows))
        self.made, self.sizes = np.zeros(0, np.uint64), np.zeros(0, np.int64)

    def take(self, same: list[Subset]) -> None:
        """Blank subsets of equal cost, always the one next that settles most records."""
        if len(same) == 1:
            self._blank(same[0])
            return
        left = {subset: self._settled(subset) for subset in same}
        stale: set[Subset] = set()
        while left and len(self.open):
            best = max(left, key=lambda one: left[one])  # the first of several
            if best in stale:
                left[best] = self._settled(best)
                stale.remove(best)
            elif not left.pop(best):
                return
            else:
                self._blank(best)
                stale = set(left)

    def _settled(self, subset: Subset) -> int:
        keys = less(self.keys, self.parts, subset, self.open)
        return int(self.rows.counts[self.open][self._reached(keys)].sum())

    def _reached(self, keys: Words) -> Mask:
        """Which open rows would be in a class of k or more."""
        total = shared(keys, self.rows.counts[self.open])
        if len(self.made):
            at = np.searchsorted(self.made, keys).clip(max=len(self.made) - 1)
            total = total + np.where(self.made[at] == keys, self.sizes[at], 0)
        reached: Mask = total >= self.k
        return reached

    def _blank(self, subset: Subset) -> None:
        keys = less(self.keys, self.parts, subset, self.open)
        reached = self._reached(keys)
        if not reached.any():
            return
        at = self.open[reached]
        self.mask[at[:, None], list(subset)] = True
        self._remember(keys[reached], at)
        self.open = self.open[~reached]

    def _remember(self, keys: Words, at: Integers) -> None:
        """Keep the classes that an open row may still join: only those with a missing cell.

        All rows that share a key are settled together, so a class is met again only by a row
        that becomes like it through other blanks: the class had missing cells from the start.
        """
        gaps = (self.rows.codes[at] == 0).any(axis=1)
        if not gaps.any():
            return
        every = np.concatenate([self.made, keys[gaps]])
        counts = np.concatenate([self.sizes, self.rows.counts[at[gaps]]])
        self.made, of = np.unique(every, return_inverse=True)
        self.sizes = np.bincount(of.ravel(), counts, len(self.made)).astype(np.int64)
