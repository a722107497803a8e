"""Which records fit each other where cells are ranges, sets, masks or wildcards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.cells.boxes import Boxes
from sfumato.kernels.trees import box_nested
from sfumato.kernels.trees.box_classes import by_class
from sfumato.kernels.trees.boxes import COVERED, UNDECIDED, Cells, Classes, classes, covered

_LOOKS = 10_000_000
"""Look-ups for the sizes of classes at most; with more, equal records alone are counted."""


@dataclass(frozen=True, eq=False)
class Fitting:
    """How well each record hides among those that fit it.

    Parameters
    ----------
    status : COVERED, OPEN or UNDECIDED by record.
    sizes : how many records fit each one at least, itself among them, in its worst case.
    exact : whether `sizes` are not bounds from below but the numbers themselves.
    """

    status: npt.NDArray[np.int8]
    sizes: npt.NDArray[np.int64]
    exact: bool

    @property
    def unique(self) -> int:
        """How many records are not known to be hidden."""
        return int((self.status != COVERED).sum())

    @property
    def undecided(self) -> int:
        """How many of them the budget left open."""
        return int((self.status == UNDECIDED).sum())

    @property
    def share(self) -> float:
        """The share of records that are not known to be hidden."""
        return self.unique / len(self.status)

    @property
    def smallest(self) -> int:
        """How many records fit any record at least."""
        return int(self.sizes.min())

    @property
    def guess(self) -> float:
        """The share of records that a guess among those that fit would get right, at most.

        A bound on a size from below bounds its inverse from above, so this never flatters.
        """
        each, counts = np.unique(self.sizes, return_counts=True)
        return math.fsum(counts / each) / len(self.sizes)


def fitting(made: Boxes, names: Sequence[str], *, budget: int) -> Fitting:
    """Look which records others cover, by some of the variables that were read.

    The number that fit in the worst case is the least number of boxes over any point of the
    record's own box: as hard as covering itself, for every number anew. So it is bounded: whose
    box contains all of the record's fits at every point, and one that is covered has another
    that fits at every point. For a record that no other hides, and for one of single values
    among nested cells, the bound is the number itself.
    """
    at = [made.names.index(name) for name in names]
    tables = [made.tables[place] for place in at]
    whole = at == list(range(len(made.names)))
    cells = made.cells if whole else np.ascontiguousarray(made.cells[at])
    status = covered(cells, tables, budget=budget)
    alike = classes(cells, [len(table) for table in tables])
    disjoint = all(table.disjoint for table in tables)
    around = alike.counts if disjoint else _containing(cells, tables, status, alike)
    sizes = np.maximum(around[alike.of], np.where(status == COVERED, 2, 1))
    return Fitting(status, sizes, disjoint)


def _containing(
    cells: npt.NDArray[np.int32],
    tables: Sequence[Cells],
    status: npt.NDArray[np.int8],
    alike: Classes,
) -> npt.NDArray[np.int64]:
    """How many records have a box that contains all of each class's, where cells are nested.

    At each height of a variable one cell at most contains another. So for each combination of
    heights that occurs there is one class to look for. Elsewhere only equal records are counted.
    """
    asked = np.flatnonzero(status[alike.first] == COVERED)
    if not len(asked) or any(table.starts is not None for table in tables):
        return alike.counts
    heights: list[Any] = [box_nested.heights(table.low, table.high) for table in tables]
    if any(one is None for one in heights):
        return alike.counts
    distinct = cells[:, alike.first]
    tall = np.stack([one[row] for one, row in zip(heights, distinct, strict=True)])
    levels = [int(one.max(initial=0)) + 1 for one in heights]
    floors = classes(tall.astype(np.int32), levels)
    if len(asked) * len(floors.first) > _LOOKS:
        return alike.counts
    above = [_above(table, one) for table, one in zip(tables, heights, strict=True)]
    found, sizes = alike.counts.copy(), [len(table) for table in tables]
    found[asked] = 0
    order, starts = by_class(floors, least=1)
    for floor, first in enumerate(floors.first):
        held = order[starts[floor] : starts[floor + 1]]
        wanted = np.stack(
            [up[tall[j, first], distinct[j, asked]] for j, up in enumerate(above)]
        ).astype(np.int32)
        some = (wanted >= 0).all(axis=0)
        both = np.concatenate([distinct[:, held], wanted[:, some]], axis=1)
        of = classes(both, sizes).of
        records = np.zeros(int(of.max(initial=0)) + 1, np.int64)
        records[of[: len(held)]] = alike.counts[held]
        found[asked[some]] += records[of[len(held) :]]
    return found


def _above(table: Cells, tall: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """For each height and each cell the cell of that height that contains it, or -1."""
    made = np.full((int(tall.max(initial=0)) + 1, len(table)), -1)
    for height, row in enumerate(made):
        level = np.flatnonzero(tall == height)
        level = level[np.argsort(table.low[level])]
        at = np.searchsorted(table.low[level], table.low, "right") - 1
        fits = (at >= 0) & (table.high[level][at] >= table.high)
        row[fits] = level[at[fits]]
    return made
