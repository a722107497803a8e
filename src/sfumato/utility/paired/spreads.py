"""What each released cell counts for: ranges over bins of numbers, sets over levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.cells.intervals import Intervals
from sfumato.cells.level_sets import LevelSets
from sfumato.kernels.arrays import Codes, Floats, Mask

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


@dataclass(frozen=True, eq=False)
class Spread:
    """The cell of each record, and what each cell counts for at each level (the last: missing)."""

    of: Codes
    parts: csr_matrix

    def shares(self) -> Floats:
        """The share of the records at each level."""
        counts = np.bincount(self.of, minlength=self.parts.shape[0])
        shares: Floats = np.asarray(self.parts.T @ counts, np.float64) / len(self.of)
        return shares


def spread_over_bins(cells: Intervals, edges: Floats) -> Spread:
    """What part of each range lies in each bin; a set counts by its members."""
    from scipy.sparse import csr_matrix

    count, bins = len(cells.low), len(edges) + 1
    of = np.arange(count, dtype=np.int32) if cells.of is None else cells.of
    missing = _mark_missing(cells, of)
    points = np.flatnonzero((cells.low == cells.high) & ~missing)
    rows = [np.flatnonzero(missing), points]
    columns = [
        np.full(len(rows[0]), bins),
        np.searchsorted(edges, cells.low[points], side="right"),
    ]
    parts = [np.ones(len(rows[0])), np.ones(len(points))]
    # Only generalised cells one by one: there are few of them, whatever the number of records.
    for cell in np.flatnonzero((cells.low != cells.high) & ~missing).tolist():
        share = _divide_cell(cells, cell, edges)
        touched_bins = np.flatnonzero(share)
        rows.append(np.full(len(touched_bins), cell))
        columns.append(touched_bins)
        parts.append(share[touched_bins])
    where = (np.concatenate(rows), np.concatenate(columns))
    return Spread(of, csr_matrix((np.concatenate(parts), where), shape=(count, bins + 1)))


def _divide_cell(cells: Intervals, cell: int, edges: Floats) -> Floats:
    bins = len(edges) + 1
    if cell in cells.sets:
        members = np.searchsorted(edges, cells.sets[cell], side="right")
        return np.bincount(members, minlength=bins) / len(members)
    if cells.open[cell]:
        return np.full(bins, 1 / bins)
    low, high = float(cells.low[cell]), float(cells.high[cell])
    outer = np.concatenate([[-np.inf], edges, [np.inf]])
    overlap = np.minimum(outer[1:], high) - np.maximum(outer[:-1], low)
    share: Floats = np.maximum(overlap, 0.0) / (high - low)
    return share


def _mark_missing(cells: Intervals, of: Codes) -> Mask:
    """Missing among the cells that say nothing: the last one; `*` has a cell of its own."""
    missing = cells.open.copy()
    if cells.of is not None:
        missing[:-1] = False
        missing[-1] &= bool((of == len(missing) - 1).any())
    return missing


def spread_over_levels(cells: LevelSets, levels: int) -> Spread:
    """Each cell counts for its levels by the same part; a value that is none of them by itself."""
    from scipy.sparse import csr_matrix

    counts = cells.counts
    rows = np.repeat(np.arange(len(counts)), counts)
    parts = np.repeat(1 / np.maximum(counts, 1), counts)
    columns = cells.levels.copy()
    missing = len(counts) - 1
    keep = rows != missing
    other = np.flatnonzero(counts == 0)
    rows = np.concatenate([rows[keep], [missing], other])
    columns = np.concatenate([columns[keep], [levels], np.full(len(other), levels + 1)])
    parts = np.concatenate([parts[keep], [1.0], np.ones(len(other))])
    return Spread(cells.of, csr_matrix((parts, (rows, columns)), shape=(len(counts), levels + 2)))
