"""How records match on one variable: by equal values, within bounds, or by cells that fit.

All but cells with gaps are one test: the other's cell begins at or before one bound of the record
and ends at or after another. What differs is which bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import AnyIntegers
from sfumato.kernels.lattice.match_pairs import PackedRelations
from sfumato.kernels.trees.box_cells import Cells

Kind = Literal["equal", "near", "boxed", "listed"]
_CELLS = 8192
"""Different cells with gaps that one variable may have: their table of pairs fits into memory."""


@dataclass(frozen=True, eq=False)
class Relation:
    """How each row matches others on one variable.

    Parameters
    ----------
    kind : "equal" values; "near" ones, within bounds of each row; cells "boxed" in by two codes;
        or cells "listed" one by one, where some have gaps.
    low, high : both ends of each row's own cell, inclusive. One position if it is a single value.
        For listed cells, which of them each row has.
    sure : of each row, where another's cell must at latest begin and at earliest end so that it
        matches for sure: whatever the row's true value is.
    possible : the same for a match that some true value would make.
    pairs : listed cells only: bit 0 where the second contains the first, bit 1 where both share
        a code.
    """

    kind: Kind
    low: AnyIntegers
    high: AnyIntegers
    sure: tuple[AnyIntegers, AnyIntegers]
    possible: tuple[AnyIntegers, AnyIntegers]
    pairs: npt.NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        return len(self.low)

    @property
    def certain(self) -> bool:
        """Whether a possible match is always a sure one."""
        return self.kind in ("equal", "near")


def match_equal(codes: AnyIntegers) -> Relation:
    """Only equal values match."""
    numbers = np.ascontiguousarray(codes, np.int32)
    return Relation("equal", numbers, numbers, (numbers, numbers), (numbers, numbers))


def match_near(positions: AnyIntegers, low: AnyIntegers, high: AnyIntegers) -> Relation:
    """Values match whose position lies between two positions of the row, both included.

    It need not be mutual: a tolerance may be relative to the row's own value.
    """
    position, first, last = (
        np.ascontiguousarray(array, np.int32) for array in (positions, low, high)
    )
    if not (first <= position).all() or not (position <= last).all():
        raise ValueError("A row matches itself: its position lies between its bounds.")
    return Relation("near", position, position, (last, first), (last, first))


def match_cells(cells: AnyIntegers, table: Cells) -> Relation:
    """Cells that stand for several values. `cells` says which of the table each row has."""
    if table.starts is None:
        low, high = (np.ascontiguousarray(one[cells], np.int32) for one in (table.low, table.high))
        return Relation("boxed", low, high, (low, high), (high, low))
    if len(table) > _CELLS:
        raise ValueError(
            f"A variable has {len(table):,} different sets of values; at most {_CELLS:,} can be "
            "compared with each other."
        )
    numbers = np.ascontiguousarray(cells, np.int32)
    pair, pairs = (numbers, numbers), _compare_cells(table)
    return Relation("listed", numbers, numbers, pair, pair, pairs)


def _compare_cells(table: Cells) -> npt.NDArray[np.uint8]:
    """For each cell and each other: whether the other contains it, and whether they share a code.

    A cell is contained if each of its intervals lies in one of the other's: those never touch.
    """
    starts = table.starts
    assert starts is not None  # noqa: S101 - for the types; `fitting` has looked
    of = np.repeat(np.arange(len(table)), np.diff(starts))
    table_of_pairs = np.empty((len(table), len(table)), np.uint8)
    for cell in range(len(table)):
        contained, shared = np.ones(len(table), bool), np.zeros(len(table), bool)
        for low, high in zip(
            table.low[starts[cell] : starts[cell + 1]],
            table.high[starts[cell] : starts[cell + 1]],
            strict=True,
        ):
            holds = np.zeros(len(table), bool)
            holds[of[(table.low <= low) & (table.high >= high)]] = True
            contained &= holds
            shared[of[(table.low <= high) & (table.high >= low)]] = True
        table_of_pairs[cell] = contained + 2 * shared.astype(np.uint8)
    return table_of_pairs


def pack_relations(relations: Sequence[Relation]) -> PackedRelations:
    """The relations side by side, for compiled work."""
    tables = [np.empty(0, np.uint8) if r.pairs is None else r.pairs.ravel() for r in relations]
    cells = [0 if r.pairs is None else len(r.pairs) for r in relations]
    return PackedRelations(
        low=np.stack([r.low for r in relations]),
        high=np.stack([r.high for r in relations]),
        sure_begin=np.stack([r.sure[0] for r in relations]),
        sure_end=np.stack([r.sure[1] for r in relations]),
        possible_begin=np.stack([r.possible[0] for r in relations]),
        possible_end=np.stack([r.possible[1] for r in relations]),
        cells=np.array(cells, np.int64),
        offsets=np.cumsum([0, *map(len, tables[:-1])]).astype(np.int64),
        pairs=np.concatenate(tables),
    )
