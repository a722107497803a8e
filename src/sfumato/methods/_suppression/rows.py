"""Distinct rows as whole numbers, and keys that tell apart what is left of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.engines.local import class_of_each
from sfumato.kernels.arrays import Integers, Mask, Words

Subset = tuple[int, ...]
FEW = 20_000
"""Below so many rows, one thread is done before several have started."""

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@dataclass(frozen=True, eq=False)
class Rows:
    """Different rows: a code for each cell (0 where it is missing) and how many records."""

    codes: Integers
    counts: Integers

    def __len__(self) -> int:
        return len(self.counts)

    def blanked(self, mask: Mask) -> Integers:
        """The codes after blanking."""
        return np.where(mask, 0, self.codes)

    def cost(self, mask: Mask, weights: Sequence[float]) -> float:
        """What blanking costs: cells of records, by weight. Cells that are missing are free."""
        cells = (mask & (self.codes > 0)).T @ self.counts
        return float(cells @ np.asarray(weights, np.float64))


def ordered(values: pl.DataFrame) -> Integers:
    """Codes that rise with the values, whatever their type: 1, 2, …; 0 is missing."""
    return np.column_stack([_ranks(one) for one in values.get_columns()])


def _ranks(values: pl.Series) -> Integers:
    distinct = values.drop_nulls().unique().sort()
    table = pl.DataFrame({"value": distinct, "at": np.arange(1, len(distinct) + 1)})
    sought = pl.DataFrame({"value": values})
    found = sought.join(table, on="value", how="left", maintain_order="left")
    return found["at"].fill_null(0).cast(pl.Int64).to_numpy()


def alike(codes: Integers, counts: Integers) -> tuple[Rows, npt.NDArray[np.int64]]:
    """The distinct rows in the order of their first appearance, and which of them each is."""
    if not codes.shape[1]:
        together = Rows(np.zeros((1, 0), np.int64), np.array([counts.sum()]))
        return together, np.zeros(len(codes), np.int64)
    if len(codes) < FEW:
        found = np.unique(codes, axis=0, return_index=True, return_inverse=True)
        turn = np.argsort(found[1])
        place = np.empty(len(turn), np.int64)
        place[turn] = np.arange(len(turn))
        at = place[found[2].ravel()]
        return Rows(found[0][turn], _added(at, counts, len(turn))), at
    frame = pl.DataFrame(codes, schema=[str(at) for at in range(codes.shape[1])], orient="row")
    distinct = frame.unique(maintain_order=True)
    at = class_of_each(frame, distinct)
    return Rows(distinct.to_numpy(), _added(at, counts, len(distinct))), at


def shared(keys: Words, counts: Integers) -> Integers:
    """How many records have the same key as each row."""
    if len(keys) < FEW:
        _, at = np.unique(keys, return_inverse=True)
        totals: Integers = _added(at.ravel(), counts, len(keys))[at.ravel()]
        return totals
    frame = pl.DataFrame({"key": keys, "count": counts})
    return frame.select(pl.col("count").sum().over("key"))["count"].to_numpy()


def _added(at: npt.NDArray[np.int64], counts: Integers, groups: int) -> Integers:
    return np.bincount(at, counts, groups).astype(np.int64)


def pieces(codes: Integers) -> Words:
    """A number of 64 bits for each cell, 0 where missing: their sum is the key of a row.

    What is left of a row after blanking has the sum less the blanked pieces as its key, so no
    row is ever read twice. Two rows share a key by accident once in 2^64; what rests on keys
    is checked by the codes themselves in the end.
    """
    place = np.arange(1, codes.shape[1] + 1, dtype=np.uint64) << np.uint64(40)
    mixed = (codes.astype(np.uint64) + place) * _STEP
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    mixed ^= mixed >> np.uint64(31)
    # Column by column in memory: a subset reads only its own.
    return np.asfortranarray(np.where(codes > 0, mixed, np.uint64(0)))


def less(
    keys: Words, parts: Words, subset: Subset, at: npt.NDArray[np.int64] | None = None
) -> Words:
    """The keys of rows with these variables blanked; of some rows only, where `at` says which."""
    left = keys.copy() if at is None else keys[at]
    for column in subset:
        left -= parts[:, column] if at is None else parts[at, column]
    return left
