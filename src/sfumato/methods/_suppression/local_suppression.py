"""Local suppression: which single cells to blank until every combination has k records.

Distinct rows are whole numbers, and 64-bit keys tell apart what is left of them after blanking.
Subsets of variables are tried in ascending cost; several combinations are gone through until all
hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, groupby

import numpy as np
import polars as pl

from sfumato.cells.codes import encode
from sfumato.engines.local import find_class_of_each
from sfumato.kernels.arrays import Integers, Mask, Words

Subset = tuple[int, ...]
FEW = 20_000
"""Below so many rows, one thread is done before several have started."""
MOST = 12
"""Up to so many variables, every subset is tried."""
_MANY = 1 << MOST
# After so many rounds, rows that still stand out are blanked in all variables.
_ROUNDS = 25

# Constants of SplitMix64: Steele, Lea & Flood (2014), OOPSLA.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@dataclass(frozen=True, eq=False)
class DifferentRows:
    """Different rows: a code for each cell (0 where it is missing) and how many records."""

    codes: Integers
    counts: Integers

    def __len__(self) -> int:
        return len(self.counts)

    def blank(self, mask: Mask) -> Integers:
        """The codes after blanking."""
        return np.where(mask, 0, self.codes)

    def cost(self, mask: Mask, weights: Sequence[float]) -> float:
        """What blanking costs: cells of records, by weight. Cells that are missing are free."""
        cells = (mask & (self.codes > 0)).T @ self.counts
        return float(cells @ np.asarray(weights, np.float64))


def encode_rows(values: pl.DataFrame) -> Integers:
    """Codes that rise with the values, whatever their type: 1, 2, …; 0 is missing."""
    columns = [encode(column).missing_first for column in values.get_columns()]
    return np.column_stack(columns).astype(np.int64)


def find_cells(
    rows: DifferentRows, k: int, weights: Sequence[float], wanted: Sequence[Subset]
) -> Mask:
    """Which cells to blank so that each combination of variables has k records or more.

    Rows are alike only if what they still show is the same. That a blank could be anything is not
    relied on: who has everybody's true values can match all rows at once, and then a blank row
    may be left for one person only.

    Blanks for one combination may break a class of another, so all are gone through again until
    none is broken. This ends: a round that finds a broken one blanks at least one cell more, no
    cell is ever restored, and with every cell blank all records are alike.
    """
    mask = np.zeros(rows.codes.shape, bool)
    turn = 0
    while broken := [subset for subset in wanted if not _is_met(rows, mask, k, subset)]:
        before = int(mask.sum())
        for combination in broken:
            part, of = _group_rows(rows.blank(mask)[:, combination], rows.counts)
            costs = [weights[column] for column in combination]
            more = suppress_rows(part, k, costs)
            if turn >= _ROUNDS:
                more |= (part.counts < k)[:, None]
            mask[:, combination] |= more[of]
        # Nothing new is next to impossible: two keys of 64 bits would have to be equal.
        turn = turn + 1 if int(mask.sum()) > before else _ROUNDS
    return mask & (rows.codes > 0)


def _is_met(rows: DifferentRows, mask: Mask, k: int, combination: Subset) -> bool:
    """Whether k records or more share every row's values of a combination."""
    part, _ = _group_rows(rows.blank(mask)[:, combination], rows.counts)
    return bool((part.counts >= k).all())


# Combinations of variables -----------------------------------------------------------------------


def list_combinations(width: int, size: int) -> list[Subset]:
    """All combinations of so many variables."""
    return list(combinations(range(width), min(size, width)))


def drop_included_subsets(wanted: Sequence[Subset]) -> list[Subset]:
    """The combinations that no other includes: what holds for those holds for their parts."""
    distinct = {tuple(sorted(subset)) for subset in wanted}
    widest: list[Subset] = []
    for subset in sorted(distinct, key=lambda subset: (-len(subset), subset)):
        if not any(set(subset) <= set(other) for other in widest):
            widest.append(subset)
    return widest


def nest_subsets(codes: Integers, weights: Sequence[float]) -> list[Subset]:
    """One variable more at a time: the cheapest first, and of those the one with most values."""
    values = codes.max(axis=0, initial=0).tolist()
    columns = range(codes.shape[1])
    order = sorted(columns, key=lambda column: (weights[column], -values[column], column))
    return [tuple(sorted(order[:size])) for size in range(len(order) + 1)]


def order_subsets(codes: Integers, weights: Sequence[float]) -> list[list[Subset]]:
    """Subsets of equal cost together, in ascending cost.

    With more than 12 variables only the small subsets are tried, as many sizes as give at most
    4,096, and then those of the nested ones, up to all variables.
    """
    width, nested = codes.shape[1], nest_subsets(codes, weights)
    rank = {column: turn for turn, column in enumerate(_added_columns(nested))}
    subsets = dict.fromkeys(_small_subsets(width)) | dict.fromkeys(nested)

    def cost(subset: Subset) -> float:
        return math.fsum(weights[column] for column in subset)

    def key(subset: Subset) -> tuple[float, list[int]]:
        return cost(subset), sorted(rank[column] for column in subset)

    return [list(same) for _, same in groupby(sorted(subsets, key=key), key=cost)]


def _added_columns(nested: list[Subset]) -> Iterator[int]:
    earlier: set[int] = set()
    for subset in nested:
        yield from set(subset) - earlier
        earlier.update(subset)


def _small_subsets(width: int) -> Iterator[Subset]:
    budget = _MANY
    for size in range(width + 1):
        budget -= math.comb(width, size)
        if budget < 0:
            return
        yield from combinations(range(width), size)


# Keys of rows ------------------------------------------------------------------------------------


def _group_rows(codes: Integers, counts: Integers) -> tuple[DifferentRows, Integers]:
    """The distinct rows in the order of their first appearance, and which of them each is."""
    if not codes.shape[1]:
        together = DifferentRows(np.zeros((1, 0), np.int64), np.array([counts.sum()]))
        return together, np.zeros(len(codes), np.int64)
    if len(codes) < FEW:
        rows, first, inverse = np.unique(codes, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        of = rank[inverse.ravel()]
        return DifferentRows(rows[order], _sum_counts(of, counts, len(order))), of
    names = [str(column) for column in range(codes.shape[1])]
    frame = pl.DataFrame(codes, schema=names, orient="row")
    distinct = frame.unique(maintain_order=True)
    of = find_class_of_each(frame, distinct)
    return DifferentRows(distinct.to_numpy(), _sum_counts(of, counts, len(distinct))), of


def _count_sharing(keys: Words, counts: Integers) -> Integers:
    """How many records have the same key as each row."""
    if len(keys) < FEW:
        _, of = np.unique(keys, return_inverse=True)
        totals: Integers = _sum_counts(of.ravel(), counts, len(keys))[of.ravel()]
        return totals
    frame = pl.DataFrame({"key": keys, "count": counts})
    return frame.select(pl.col("count").sum().over("key"))["count"].to_numpy()


def _sum_counts(of: Integers, counts: Integers, groups: int) -> Integers:
    return np.bincount(of, counts, groups).astype(np.int64)


def _hash_cells(codes: Integers) -> Words:
    """A number of 64 bits for each cell, 0 where missing: their sum is the key of a row.

    What is left of a row after blanking has the sum less the blanked cells as its key, so no
    row is ever read twice. Two rows share a key by accident once in 2^64; what rests on keys
    is checked by the codes themselves in the end.
    """
    column = np.arange(1, codes.shape[1] + 1, dtype=np.uint64) << np.uint64(40)
    mixed = (codes.astype(np.uint64) + column) * _STEP
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    mixed ^= mixed >> np.uint64(31)
    # Column by column in memory: a subset reads only its own.
    return np.asfortranarray(np.where(codes > 0, mixed, np.uint64(0)))


def _keys_without(keys: Words, parts: Words, subset: Subset, rows: Integers | None = None) -> Words:
    """The keys of rows with these variables blanked; by default of all rows."""
    keys = keys.copy() if rows is None else keys[rows]
    for column in subset:
        keys -= parts[:, column] if rows is None else parts[rows, column]
    return keys


# Classes -----------------------------------------------------------------------------------------


def suppress_rows(rows: DifferentRows, k: int, weights: Sequence[float]) -> Mask:
    """Which cells of each row to blank so that every class has k records or more.

    Rows that agree on what they still show hide each other. Three ways are tried and the cheapest
    is taken: the subsets in ascending cost; one variable more at a time; all variables at once.
    So it is never worse than either of the last two.
    """
    if bool((rows.counts >= k).all()):
        return np.zeros(rows.codes.shape, bool)
    nested = nest_subsets(rows.codes, weights)
    ways: list[list[list[Subset]]] = [
        order_subsets(rows.codes, weights),
        [[subset] for subset in nested],
        [[()], [nested[-1]]],
    ]
    masks = [mask for way in ways for mask in _run_search(_Search(rows, k), way, weights)]
    costs = [rows.cost(mask, weights) for mask in masks]
    return masks[costs.index(min(costs))]


def _run_search(search: _Search, way: list[list[Subset]], weights: Sequence[float]) -> list[Mask]:
    """Rows that found too few others join the class that costs least, from where they stand."""
    for same_cost in way:
        search.take(same_cost)
    rows, k = search.rows, search.k
    if not len(search.open):
        return [merge_small_classes(rows, search.mask, k, weights)]
    wholly = search.mask.copy()
    wholly[search.open] = True
    return [merge_small_classes(rows, mask, k, weights) for mask in (search.mask, wholly)]


@dataclass(eq=False)
class _Search:
    """Rows that are still open, and the classes that those before them have formed."""

    rows: DifferentRows
    k: int
    parts: Words = field(init=False)
    keys: Words = field(init=False)
    mask: Mask = field(init=False)
    open: Integers = field(init=False)
    class_keys: Words = field(init=False)
    class_sizes: Integers = field(init=False)

    def __post_init__(self) -> None:
        self.parts = _hash_cells(self.rows.codes)
        self.keys = self.parts.sum(axis=1, dtype=np.uint64)
        self.mask = np.zeros(self.rows.codes.shape, bool)
        self.open = np.arange(len(self.rows))
        self.class_keys, self.class_sizes = np.zeros(0, np.uint64), np.zeros(0, np.int64)

    def take(self, same_cost: list[Subset]) -> None:
        """Blank subsets of equal cost, always the one next that settles most records."""
        if len(same_cost) == 1:
            self._blank(same_cost[0])
            return
        gains = {subset: self._count_settled_records(subset) for subset in same_cost}
        stale: set[Subset] = set()
        while gains and len(self.open):
            best = max(gains, key=lambda subset: gains[subset])  # the first of several
            if best in stale:
                gains[best] = self._count_settled_records(best)
                stale.remove(best)
            elif not gains.pop(best):
                return
            else:
                self._blank(best)
                stale = set(gains)

    def _count_settled_records(self, subset: Subset) -> int:
        keys = _keys_without(self.keys, self.parts, subset, self.open)
        return int(self.rows.counts[self.open][self._reach_k(keys)].sum())

    def _reach_k(self, keys: Words) -> Mask:
        """Which open rows would be in a class of k or more."""
        total = _count_sharing(keys, self.rows.counts[self.open])
        if len(self.class_keys):
            index = np.searchsorted(self.class_keys, keys).clip(max=len(self.class_keys) - 1)
            same = self.class_keys[index] == keys
            total = total + np.where(same, self.class_sizes[index], 0)
        reached: Mask = total >= self.k
        return reached

    def _blank(self, subset: Subset) -> None:
        keys = _keys_without(self.keys, self.parts, subset, self.open)
        reached = self._reach_k(keys)
        if not reached.any():
            return
        settled = self.open[reached]
        self.mask[settled[:, None], list(subset)] = True
        self._record_classes(keys[reached], settled)
        self.open = self.open[~reached]

    def _record_classes(self, keys: Words, settled: Integers) -> None:
        """Keep the classes that an open row may still join: only those with a missing cell.

        All rows that share a key are settled together, so a class is met again only by a row
        that becomes like it through other blanks: the class had missing cells from the start.
        """
        gaps = (self.rows.codes[settled] == 0).any(axis=1)
        if not gaps.any():
            return
        all_keys = np.concatenate([self.class_keys, keys[gaps]])
        counts = np.concatenate([self.class_sizes, self.rows.counts[settled[gaps]]])
        self.class_keys, of = np.unique(all_keys, return_inverse=True)
        self.class_sizes = _sum_counts(of.ravel(), counts, len(self.class_keys))


def merge_small_classes(rows: DifferentRows, mask: Mask, k: int, weights: Sequence[float]) -> Mask:
    """Blank more until every class, compared cell by cell, has k records.

    Two classes become one by blanking whatever they differ in. Each turn leaves one class fewer,
    and a single class holds all records: with k records or more this ends.
    """
    classes, of = _group_rows(rows.blank(mask), rows.counts)
    codes, sizes = classes.codes.copy(), classes.counts.copy()
    if bool((sizes >= k).all()):
        return mask
    merged_into = np.arange(len(sizes))
    while bool((small := (sizes > 0) & (sizes < k)).any()):
        first = int(np.flatnonzero(small)[0])
        other = _cheapest_partner(codes, sizes, first, weights)
        codes[other] = np.where(codes[first] == codes[other], codes[other], 0)
        # What came out may be a class that is there already.
        same = np.flatnonzero((sizes > 0) & (codes == codes[other]).all(axis=1))
        for gone in {first, *same.tolist()} - {other}:
            sizes[other] += sizes[gone]
            sizes[gone] = 0
            merged_into[merged_into == gone] = other
    blank: Mask = codes[merged_into[of]] == 0
    return mask | blank & (rows.codes > 0)


def _cheapest_partner(
    codes: Integers, sizes: Integers, small: int, weights: Sequence[float]
) -> int:
    """The class that it costs least to become one with; the first of several."""
    weight = np.asarray(weights, np.float64)
    differ = codes != codes[small]
    theirs = (differ & (codes > 0)) @ weight * sizes
    mine = (differ & (codes[small] > 0)) @ weight * sizes[small]
    cost = np.where(sizes > 0, theirs + mine, np.inf)
    cost[small] = np.inf
    return int(np.argmin(cost))
