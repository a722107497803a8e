"""Which records fit each other where cells are ranges, sets, masks or wildcards."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.cells.boxes import Boxes
from sfumato.cells.classes import COMPARED, count_classes
from sfumato.kernels.arrays import Array, Codes, Integers, Mask
from sfumato.kernels.trees.box_cells import COVERED, OPEN, UNDECIDED, Cells
from sfumato.units import Units

if TYPE_CHECKING:
    from sfumato.kernels.trees.equivalence_classes import Classes

# Look-ups for the sizes of classes at most; with more, equal records alone are counted.
_LOOKS = 10_000_000


@dataclass(frozen=True, eq=False)
class Fitting:
    """How well each record hides among those that fit it.

    Parameters
    ----------
    status : COVERED, OPEN or UNDECIDED by row.
    sizes : how many records fit each one at least, itself among them, in its worst case.
    persons : of how many persons the true values fit each record at least, whatever they are: as
        many as have records that stand for nothing else.
    exact : whether `sizes` are not bounds from below but the numbers themselves.
    units : whom each row is about: all numbers are of units, each by the row that hides least.
    """

    status: Array
    sizes: Integers
    persons: Integers
    exact: bool
    units: Units

    def count(self, rows: Mask) -> int:
        """How many units some rows are about."""
        return self.units.count_among(rows)

    @property
    def records(self) -> int:
        """How many units there are."""
        return self.units.count

    @property
    def unique(self) -> int:
        """How many records are not known to be hidden."""
        return self.count(self.status != COVERED)

    @property
    def undecided(self) -> int:
        """How many of them the budget left open."""
        return self.count(self.status == UNDECIDED)

    @property
    def share(self) -> float:
        """The share of records that are not known to be hidden."""
        return self.unique / self.records

    @property
    def smallest(self) -> int:
        """How many records fit any record at least."""
        return int(self.sizes.min())

    @property
    def fewest_persons(self) -> int:
        """How many persons fit any record at least."""
        return int(self.persons.min())

    @property
    def exposed(self) -> int:
        """How many records are not known to be hidden from either side.

        Who begins with a person finds one record alone; who begins with a record that only wider
        ones hide finds one person alone, unless somebody else happens to have these values.
        """
        return self.count((self.status != COVERED) | (self.persons == 1))

    @property
    def guess(self) -> float:
        """The share of records that a guess among those that fit would get right, at most.

        A bound on a size from below bounds its inverse from above, so this never flatters.
        """
        return self._mean_inverse(self.sizes)

    @property
    def guess_of_persons(self) -> float:
        """The same for who begins with a record and guesses among the persons who fit."""
        return self._mean_inverse(self.persons)

    def _mean_inverse(self, sizes: Integers) -> float:
        distinct, of = np.unique(sizes, return_inverse=True)
        return self.units.average_chance(distinct, of.ravel())


def find_fitting(boxes: Boxes, names: Sequence[str], *, budget: int, units: Units) -> Fitting:
    """Look which records others cover, by some of the variables that were read.

    The number that fit in the worst case is the least number of boxes over any point of the
    record's own box: as hard as covering itself, for every number anew. So it is bounded: whose
    box contains all of the record's fits at every point, and one that is covered has another
    that fits at every point. For a record that no other hides, and for one of single values
    among nested cells, the bound is the number itself.

    Where persons have several rows, a person hides another if one of their boxes
    contains all of the other's.
    """
    from sfumato.kernels.trees.boxes import find_covered
    from sfumato.kernels.trees.equivalence_classes import find_classes

    rows = [boxes.names.index(name) for name in names]
    tables = [boxes.tables[row] for row in rows]
    unchanged = rows == list(range(len(boxes.names)))
    cells = boxes.cells if unchanged else np.ascontiguousarray(boxes.cells[rows])
    if not units.one_row_each:
        return _find_fitting_persons(cells, tables, units)
    # A record is hidden where other boxes together cover its own.
    status = find_covered(cells, tables, budget=budget, records=boxes.counts)
    equal = find_classes(cells, [len(table) for table in tables], boxes.counts)
    disjoint = all(table.disjoint for table in tables)
    containing, contained = (
        (equal.counts, equal.counts) if disjoint else _count_nested(cells, tables, status, equal)
    )
    sizes = np.maximum(containing[equal.of], np.where(status == COVERED, 2, 1))
    return Fitting(status, sizes, contained[equal.of], disjoint, units)


def _find_fitting_persons(cells: Codes, tables: Sequence[Cells], units: Units) -> Fitting:
    """The same for persons who may have several rows."""
    from sfumato.kernels.trees.equivalence_classes import find_classes

    equal = find_classes(cells, [len(table) for table in tables])
    classes = count_classes(equal, units)
    containing = contained = classes.sizes
    disjoint = all(table.disjoint for table in tables)
    if not disjoint and len(equal.first) <= COMPARED:
        contains = np.ones((len(equal.first),) * 2, bool)
        for table, row in zip(tables, cells[:, equal.first], strict=True):
            contains &= _compare_cells(table)[np.ix_(row, row)]
        containing, contained = (classes.count_united(way) for way in (contains.T, contains))
    sizes = containing[equal.of]
    status = np.where(sizes > 1, COVERED, OPEN)
    return Fitting(status, sizes, contained[equal.of], disjoint, units)


def _compare_cells(table: Cells) -> Mask:
    """For each two cells of a variable whether the first contains the second."""
    if table.starts is None:
        return (table.low[:, None] <= table.low) & (table.high[:, None] >= table.high)
    if len(table) * table.size > _LOOKS:
        return np.eye(len(table), dtype=bool)
    members = np.zeros((len(table), table.size), bool)
    for cell, (first, last) in enumerate(itertools.pairwise(table.starts.tolist())):
        for piece in range(first, last):
            members[cell, table.low[piece] : table.high[piece] + 1] = True
    outside = ~members
    return np.stack([~(members & out).any(axis=1) for out in outside])


def _count_nested(
    cells: Codes,
    tables: Sequence[Cells],
    status: Array,
    equal: Classes,
) -> tuple[Integers, Integers]:
    """How many records have a box that contains all of each class's, or that it contains.

    At each height of a variable one cell at most contains another. So for each combination of
    heights that occurs there is one class to look for. Elsewhere only equal records are counted.
    """
    from sfumato.kernels.trees.boxes import find_heights
    from sfumato.kernels.trees.equivalence_classes import find_classes, sort_by_class

    candidates = np.flatnonzero(status[equal.first] == COVERED)
    if not len(candidates) or any(table.starts is not None for table in tables):
        return equal.counts, equal.counts
    heights: list[Any] = [find_heights(table.low, table.high) for table in tables]
    if any(height is None for height in heights):
        return equal.counts, equal.counts
    distinct = cells[:, equal.first]
    tall = np.stack([height[row] for height, row in zip(heights, distinct, strict=True)])
    levels = [int(height.max(initial=0)) + 1 for height in heights]
    floors = find_classes(tall.astype(np.int32), levels)
    if len(candidates) * len(floors.first) > _LOOKS:
        return equal.counts, equal.counts
    above = [_find_container(table, height) for table, height in zip(tables, heights, strict=True)]
    sizes = [len(table) for table in tables]
    # Whoever is in another's box is hidden by it, so only those are looked for, themselves too.
    containing, contained = equal.counts.copy(), equal.counts.copy()
    containing[candidates] = contained[candidates] = 0
    order, starts = sort_by_class(floors, least=1)
    for floor, first in enumerate(floors.first):
        members = order[starts[floor] : starts[floor + 1]]
        wanted = np.stack(
            [up[tall[j, first], distinct[j, candidates]] for j, up in enumerate(above)]
        ).astype(np.int32)
        some = (wanted >= 0).all(axis=0)
        both = np.concatenate([distinct[:, members], wanted[:, some]], axis=1)
        of = find_classes(both, sizes).of
        records = np.zeros(int(of.max(initial=0)) + 1, np.int64)
        records[of[: len(members)]] = equal.counts[members]
        containing[candidates[some]] += records[of[len(members) :]]
        inside = np.bincount(of[len(members) :], equal.counts[candidates[some]], len(records))
        contained[members] += inside.astype(np.int64)[of[: len(members)]]
    return containing, contained


def _find_container(table: Cells, heights: Codes) -> Integers:
    """For each height and each cell the cell of that height that contains it, or -1."""
    container = np.full((int(heights.max(initial=0)) + 1, len(table)), -1)
    for height, row in enumerate(container):
        level = np.flatnonzero(heights == height)
        level = level[np.argsort(table.low[level])]
        nearest = np.searchsorted(table.low[level], table.low, "right") - 1
        fits = (nearest >= 0) & (table.high[level][nearest] >= table.high)
        row[fits] = level[nearest[fits]]
    return container
