"""Which records are hidden by others when cells are ranges, sets or wildcards.

A record is a box: for each variable the values it may stand for. It is hidden if the boxes of
the other records cover every combination of values in its own. Everything here is exact; what
the budget does not reach is left undecided and never called hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from sfumato.kernels.arrays import Codes, Integers
from sfumato.kernels.memory import room
from sfumato.kernels.trees import box_cover, box_nested, box_tree
from sfumato.kernels.trees.box_classes import Classes, by_class, classes, numbered
from sfumato.kernels.trees.box_cover import COVERED, OPEN, UNDECIDED

__all__ = ["COVERED", "OPEN", "UNDECIDED", "Cells", "Classes", "classes", "covered"]

_PIECES = 64
"""Boxes without gaps that one record may fall into at most."""


@dataclass(frozen=True, eq=False)
class Cells:
    """The distinct cells of one variable: each one or several intervals of codes.

    Parameters
    ----------
    low, high : both ends, inclusive, of every interval.
    size : how many codes the variable has, from 0 on.
    starts : where the intervals of each cell begin, and an end; None if each has one.
    """

    low: Codes
    high: Codes
    size: int
    starts: Integers | None = None

    def __len__(self) -> int:
        return len(self.low) if self.starts is None else len(self.starts) - 1

    @property
    def disjoint(self) -> bool:
        """Whether no two different cells share a code."""
        order = np.argsort(self.low)
        return bool(np.all(self.high[order][:-1] < self.low[order][1:]))


def covered(cells: Codes, tables: Sequence[Cells], *, budget: int) -> npt.NDArray[np.int8]:
    """For each record whether others hide it: COVERED, OPEN, or UNDECIDED within the budget.

    Parameters
    ----------
    cells : (variable, record) the number of each record's cell among those of the variable.
    tables : the distinct cells of each variable.
    budget : how many comparisons may be made for one box.
    """
    alike = classes(cells, [len(table) for table in tables])
    if all(table.disjoint for table in tables):
        return np.where(alike.counts > 1, COVERED, OPEN).astype(np.int8)[alike.of]
    if alike.counts.min(initial=2) > 1:
        return np.full(cells.shape[1], COVERED, np.int8)
    distinct = np.ascontiguousarray(cells[:, alike.first])
    if all(table.starts is None for table in tables):
        return _by_intervals(distinct, alike.counts, tables, budget)[alike.of]
    return _by_pieces(distinct, alike.counts, tables, budget)[alike.of]


def _by_pieces(
    cells: Codes, counts: Integers, tables: Sequence[Cells], budget: int
) -> npt.NDArray[np.int8]:
    """Cells with gaps: a record falls into boxes without gaps, and each must be covered.

    They do not overlap, so a record's own pieces never cover each other. A record of too many
    pieces covers nobody here and stays undecided, and so does who is then not covered.
    """
    whole = [_whole(table) for table in tables]
    parts = np.ones(cells.shape[1], np.int64)
    for column, (_, starts, _) in zip(cells, whole, strict=True):
        parts = np.minimum(parts * np.diff(starts)[column], _PIECES + 1)
    fits = np.flatnonzero(parts <= _PIECES)
    owner = np.repeat(fits, parts[fits])
    ends = np.cumsum(parts[fits])
    left = np.arange(len(owner)) - np.repeat(ends - parts[fits], parts[fits])
    pieces = np.empty((len(cells), len(owner)), np.int32)
    for j, (_, starts, numbers) in enumerate(whole):
        own = cells[j][owner]
        held = np.diff(starts)[own]
        pieces[j] = numbers[starts[own] + left % held]
        left //= held
    intervals = [table for table, _, _ in whole]
    alike = classes(pieces, [len(table) for table in intervals])
    held = np.bincount(alike.of, counts[owner], len(alike.first)).astype(np.int64)
    distinct = np.ascontiguousarray(pieces[:, alike.first])
    of_pieces = _by_intervals(distinct, held, intervals, budget)[alike.of]
    found = np.full(cells.shape[1], COVERED, np.int8)
    found[owner[of_pieces == UNDECIDED]] = UNDECIDED
    found[owner[of_pieces == OPEN]] = OPEN
    if len(fits) < cells.shape[1]:
        found[parts > _PIECES] = UNDECIDED
        found[found == OPEN] = UNDECIDED
    found[counts > 1] = COVERED
    return found


def _whole(table: Cells) -> tuple[Cells, Integers, Codes]:
    """The distinct intervals of a variable as cells, and which of them each cell consists of."""
    starts = np.arange(len(table) + 1) if table.starts is None else table.starts
    pairs, numbers = np.unique(
        np.column_stack([table.low, table.high]), axis=0, return_inverse=True
    )
    low, high = np.ascontiguousarray(pairs.T)
    return Cells(low, high, table.size), starts, numbers.ravel().astype(np.int32)


def _by_intervals(
    cells: Codes, counts: Integers, tables: Sequence[Cells], budget: int
) -> npt.NDArray[np.int8]:
    """Distinct boxes without gaps: nested cells by look-up, others by a tree."""
    tall = [box_nested.heights(table.low, table.high) for table in tables]
    if all(one is not None for one in tall):
        intervals = [(table.low, table.high) for table in tables]
        sizes = np.array([table.size for table in tables], np.int64)
        nested = box_nested.table(cells, tall, intervals, sizes, numbered)
        if nested is not None:
            return _by_look_up(cells, counts, tables, nested, budget)
    return _by_tree(cells, counts, tables, budget)


def _by_look_up(
    cells: Codes, counts: Integers, tables: Sequence[Cells], nested: Any, budget: int
) -> npt.NDArray[np.int8]:
    edges = _edges(cells, tables)
    scarce = _scarce(cells, counts, tables)
    none = np.zeros(0, np.int64)
    index = box_tree.empty_tree(edges), nested
    return box_cover.decide(edges, counts == 1, scarce, (none, none), index, budget)


def _by_tree(
    cells: Codes, counts: Integers, tables: Sequence[Cells], budget: int
) -> npt.NDArray[np.int8]:
    """A tree of boxes for each combination of those cells that never overlap partly."""
    apart = [j for j, table in enumerate(tables) if table.disjoint]
    rest = [j for j, table in enumerate(tables) if not table.disjoint]
    groups = classes(cells[apart], [len(tables[j]) for j in apart])
    order, starts = by_class(groups, least=2)
    found = np.where(counts > 1, COVERED, OPEN).astype(np.int8)
    if not len(order):
        return found
    rest.sort(key=lambda j: _share(cells[j], tables[j]))
    inside = [tables[j] for j in rest]
    near = np.ascontiguousarray(cells[rest][:, order])
    edges = _edges(near, inside)
    scarce = _scarce(near, counts[order], inside)
    sizes = np.array([table.size for table in inside], np.int64)
    tree, nodes = box_tree.grown(edges, order, starts, sizes)
    within = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    index = tree, box_nested.no_table()
    around = nodes[within], nodes[within + 1]
    found[order] = box_cover.decide(edges, counts[order] == 1, scarce, around, index, budget)
    return found


def _share(column: Codes, table: Cells) -> float:
    """The mean share of its variable that a cell takes: what says most is compared first."""
    wide = table.high.astype(np.int64) - table.low + 1
    return float(np.dot(np.bincount(column, minlength=len(wide)), wide)) / table.size


def _edges(cells: Codes, tables: Sequence[Cells]) -> Codes:
    """Both ends of each box in each variable, lows first; as short as the codes allow."""
    short = max(table.size for table in tables) < np.iinfo(np.int16).max
    edges: Codes = room((cells.shape[1], 2 * len(cells)), np.int16 if short else np.int32)
    starts = np.cumsum([0, *(len(table) for table in tables)])
    low = np.concatenate([table.low for table in tables])
    high = np.concatenate([table.high for table in tables])
    _placed(cells, starts, low, high, edges)
    return edges


@njit(cache=True, nogil=True)
def _placed(cells, starts, low, high, edges):  # type: ignore[no-untyped-def]
    columns = len(cells)
    for first in range(0, len(edges), 256):
        last = min(first + 256, len(edges))
        for j in range(columns):
            for i in range(first, last):
                cell = starts[j] + cells[j, i]
                edges[i, j], edges[i, columns + j] = low[cell], high[cell]


def _scarce(cells: Codes, counts: Integers, tables: Sequence[Cells]) -> box_cover.Scarcity:
    """How many boxes contain each code. Those of several records count twice: 1 is alone."""
    weights = np.minimum(counts, 2)
    found = []
    for column, table in zip(cells, tables, strict=True):
        held = _held(column, weights, len(table))
        begun = np.bincount(table.low, held, table.size + 1)
        ended = np.bincount(table.high + 1, held, table.size + 1)
        found.append(np.cumsum(begun - ended)[: table.size].astype(np.int64))
    return box_cover.scarcity(found)


@njit(cache=True, nogil=True)
def _held(column, weights, size):  # type: ignore[no-untyped-def]
    held = np.zeros(size, np.int64)
    for i in range(len(column)):
        held[column[i]] += weights[i]
    return held
