"""How far apart the values of a confidential variable are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.cells.confidential import Coded
from sfumato.cells.notation import RANGE, SET, type_of, written
from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Codes, Integers
from sfumato.schema import Column, Schema
from sfumato.schema.hierarchies import Hierarchy

Distance = Literal["auto", "ordered", "equal", "hierarchical"]
Settled = Literal["ordered", "equal", "hierarchical"]
_NUMBERS = ("continuous", "integer", "date")
_SAID = {
    "ordered": "as far apart as their places in the order of the values that occur",
    "ordered ranges": "ordered by their lower and then their upper end, and as far apart as "
    "their places in that order",
    "equal": "equally far from each other",
    "hierarchical": "as far apart as the first group they share is high in the hierarchy",
}


@dataclass(frozen=True, eq=False)
class Spread:
    """A confidential variable with the distance between its values.

    Parameters
    ----------
    name : the variable.
    codes : a number for each record from 0 on, all of which occur; ordered ones in their order,
        and missing, where some record is, the lowest.
    counts : how many records have each.
    distance : how far two values are apart.
    tree : for each level of the hierarchy below its top, the group of each code.
    said : the same in words.
    """

    name: str
    codes: Codes
    counts: Integers
    distance: Settled
    tree: npt.NDArray[np.int64] | None
    said: str


def spread(data: Dataset, one: Coded, distance: Distance) -> Spread:
    """Settle the distance, and order the values by it."""
    column = data.schema[one.name]
    settled = _settled(one, column, distance)
    ranks, tree = np.arange(len(one.distinct)), None
    if settled == "ordered":
        ranks = _ranks(one, column)
    gap = int(one.missing)
    codes = np.append(ranks + gap, 0)[one.codes].astype(np.int32)  # -1 takes the last: missing
    counts = np.bincount(codes)
    if settled == "hierarchical":
        tree = _tree(_texts(one.distinct), column.hierarchy or {})
        # Missing is a branch of its own: as far from every value as can be.
        tree = np.column_stack([np.full(len(tree), -1), tree]) if gap else tree
    ranges = settled == "ordered" and one.generalised
    how = _SAID["ordered ranges" if ranges else settled]
    return Spread(one.name, codes, counts, settled, tree, f"Values of '{one.name}' are {how}.")


def _settled(one: Coded, column: Column, distance: Distance) -> Settled:
    if distance == "hierarchical" and column.hierarchy is None:
        raise MeasureError(
            f"Variable '{one.name}' has no hierarchy in the schema.",
            hint='declare one, or use distance = "auto".',
        )
    if distance != "auto":
        return distance
    if column.kind in _NUMBERS or (column.kind == "ordinal" and column.levels):
        return "ordered"
    if column.hierarchy is not None:
        return "hierarchical"
    return "ordered" if _like_numbers(one, column) else "equal"


def _like_numbers(one: Coded, column: Column) -> bool:
    """Whether text cells are ranges of numbers or dates, as coarsening leaves them behind."""
    if not one.generalised:
        return False
    return type_of(one.distinct, column, one.name) != "level"


def _ranks(one: Coded, column: Column) -> npt.NDArray[np.int64]:
    """The place of each distinct value in the order; equal ones share it."""
    if column.levels:
        return _by_levels(_texts(one.distinct), column.levels, one.name)
    if one.distinct.dtype != pl.String:
        return np.arange(len(one.distinct))
    if type_of(one.distinct, column, one.name) == "level":
        raise MeasureError(
            f"The values of variable '{one.name}' have no order.",
            hint="declare its levels from low to high in the schema, or set distance = 'equal'.",
        )
    from sfumato.cells.boxes import boxes

    # Cells are numbered by their lower and then their upper end; those alike share a number.
    few = Dataset(one.distinct.to_frame(), Schema({one.name: column}))
    return _dense(boxes(few, [one.name]).cells[0])


def _dense(keys: Any) -> npt.NDArray[np.int64]:
    return np.unique(keys, return_inverse=True)[1].ravel()


def _by_levels(texts: list[str], levels: tuple[Any, ...], name: str) -> npt.NDArray[np.int64]:
    """Places of declared levels, and of ranges and sets of them by their ends."""
    place = {written(level): at for at, level in enumerate(levels)}
    ends = []
    for text in texts:
        held = [text]
        if text not in place and (found := RANGE.fullmatch(text)):
            held = list(found.groups())
        elif text not in place and (found := SET.fullmatch(text)):
            held = found[1].split(";")
        if not all(level in place for level in held):
            raise MeasureError(
                f"Variable '{name}' has a value that is none of its declared levels, "
                "so it has no place in their order.",
                hint="declare all levels in the schema, or set distance = 'equal'.",
            )
        at = [place[level] for level in held]
        ends.append((min(at), max(at)))
    order = {pair: at for at, pair in enumerate(sorted(set(ends)))}
    return np.array([order[pair] for pair in ends], np.int64)


def _tree(texts: list[str], hierarchy: Mapping[str, tuple[str, ...]]) -> npt.NDArray[np.int64]:
    """The group of each value at each level of the hierarchy, from the lowest to below the top.

    A cell that is itself a group stands below its own broader groups. What the hierarchy does not
    list is a branch of its own.
    """
    paths, declared = Hierarchy.of(hierarchy).paths, list(hierarchy.values())
    rows: list[list[int]] = []
    for level in range(len(declared[0]) if declared else 0):
        if len({groups[level] for groups in declared}) == 1:
            break  # one group of all: the top, and what lies above it
        groups = [paths[text][level] if text in paths else f"\0{text}" for text in texts]
        names = {group: at for at, group in enumerate(sorted(set(groups)))}
        rows.append([names[group] for group in groups])
    return np.array(rows, np.int64).reshape(len(rows), len(texts))


def _texts(distinct: pl.Series) -> list[str]:
    """The values as the schema writes them; pandas makes floats of whole numbers with gaps."""
    return [written(value) for value in distinct.to_list()]
