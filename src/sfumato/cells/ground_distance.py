"""The ground distance of the earth mover's distance: how far apart confidential values are.

The earth mover's distance between two distributions is the least mass times way that turns one
into the other; the way from one value to another is the ground distance, between 0 and 1.
References: Li, Li & Venkatasubramanian (2007), ICDE, section 3.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import polars as pl

from sfumato.cells.confidential import ConfidentialVariable
from sfumato.cells.notation import RANGE, SET, format_value, infer_cell_type
from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Codes, Integers
from sfumato.schema import Column, Schema
from sfumato.schema.hierarchies import Hierarchy
from sfumato.units import count_codes

Distance = Literal["auto", "ordered", "equal", "hierarchical"]
Settled = Literal["ordered", "equal", "hierarchical"]
_NUMBERS = ("continuous", "integer", "date")
_IN_WORDS = {
    "ordered": "as far apart as their places in the order of the values that occur",
    "ordered ranges": "ordered by their lower and then their upper end, and as far apart as "
    "their places in that order",
    "equal": "equally far from each other",
    "hierarchical": "as far apart as the first group they share is high in the hierarchy",
}


@dataclass(frozen=True, eq=False)
class GroundDistance:
    """A confidential variable with the ground distance between its values.

    Parameters
    ----------
    name : the variable.
    codes : a number for each row from 0 on, all of which occur; ordered ones in their order,
        and missing, where some record is, the lowest, or -1 where it is left out.
    missing : whether the lowest code is that of missing.
    counts : how many records have each.
    distance : how far two values are apart.
    tree : for each level of the hierarchy below its top, the group of each code.
    remarks : the same in words.
    """

    name: str
    codes: Codes
    missing: bool
    counts: Integers
    distance: Settled
    tree: Integers | None
    remarks: str

    def leave_out_missing(self) -> GroundDistance:
        """The same variable among the records that have a value."""
        tree = None if self.tree is None else self.tree[:, 1:]
        return replace(
            self, codes=self.codes - np.int32(1), missing=False, counts=self.counts[1:], tree=tree
        )


def choose_ground_distance(
    data: Dataset, variable: ConfidentialVariable, distance: Distance
) -> GroundDistance:
    """Settle the distance, and order the values by it."""
    column = data.schema[variable.name]
    settled = _resolve_distance(variable, column, distance)
    ranks, tree = np.arange(len(variable.distinct)), None
    if settled == "ordered":
        ranks = _rank_values(variable, column)
    gap = int(missing := variable.missing)
    # Missing is the lowest code, so that it is one step below the least value.
    codes = np.append(ranks + gap, 0)[variable.codes].astype(np.int32)  # -1 takes the last: missing
    counts = count_codes(codes, variable.counts)
    if settled == "hierarchical":
        tree = _build_tree(_format_values(variable.distinct), column.hierarchy or {})
        # Missing is a branch of its own: as far from every value as can be.
        tree = np.column_stack([np.full(len(tree), -1), tree]) if gap else tree
    ranges = settled == "ordered" and variable.generalised
    how = _IN_WORDS["ordered ranges" if ranges else settled]
    return GroundDistance(
        variable.name,
        codes,
        missing,
        counts,
        settled,
        tree,
        f"Values of '{variable.name}' are {how}.",
    )


def _resolve_distance(
    variable: ConfidentialVariable, column: Column, distance: Distance
) -> Settled:
    if distance == "hierarchical" and column.hierarchy is None:
        raise MeasureError(
            f"Variable '{variable.name}' has no hierarchy in the schema.",
            hint='declare variable, or use distance = "auto".',
        )
    if distance != "auto":
        return distance
    if column.kind in _NUMBERS or (column.kind == "ordinal" and column.levels):
        return "ordered"
    if column.hierarchy is not None:
        return "hierarchical"
    return "ordered" if _looks_numeric(variable, column) else "equal"


def _looks_numeric(variable: ConfidentialVariable, column: Column) -> bool:
    """Whether text cells are ranges of numbers or dates, as coarsening leaves them behind."""
    if not variable.generalised:
        return False
    return infer_cell_type(variable.distinct, column, variable.name) != "level"


def _rank_values(variable: ConfidentialVariable, column: Column) -> Integers:
    """The rank of each distinct value; equal ones share it."""
    if column.levels:
        return _rank_by_levels(_format_values(variable.distinct), column.levels, variable.name)
    if variable.distinct.dtype != pl.String:
        return np.arange(len(variable.distinct))
    if infer_cell_type(variable.distinct, column, variable.name) == "level":
        raise MeasureError(
            f"The values of variable '{variable.name}' have no order.",
            hint="declare its levels from low to high in the schema, or set distance = 'equal'.",
        )
    from sfumato.cells.boxes import read_boxes

    # Cells are numbered by their lower and then their upper end; those alike share a number.
    few = Dataset(variable.distinct.to_frame(), Schema({variable.name: column}))
    cells = read_boxes(few, [variable.name]).cells[0]
    return np.unique(cells, return_inverse=True)[1].ravel()


def _rank_by_levels(texts: list[str], levels: tuple[Any, ...], name: str) -> Integers:
    """Ranks of declared levels, and of ranges and sets of them by their ends."""
    rank = {format_value(level): index for index, level in enumerate(levels)}
    ends = []
    for text in texts:
        members = [text]
        if text not in rank and (match := RANGE.fullmatch(text)):
            members = list(match.groups())
        elif text not in rank and (match := SET.fullmatch(text)):
            members = match[1].split(";")
        if not all(level in rank for level in members):
            raise MeasureError(
                f"Variable '{name}' has a value that is none of its declared levels, "
                "so it has no place in their order.",
                hint="declare all levels in the schema, or set distance = 'equal'.",
            )
        ranks = [rank[level] for level in members]
        ends.append((min(ranks), max(ranks)))
    order = {pair: index for index, pair in enumerate(sorted(set(ends)))}
    return np.array([order[pair] for pair in ends], np.int64)


def _build_tree(texts: list[str], hierarchy: Mapping[str, tuple[str, ...]]) -> Integers:
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
        numbers = {group: index for index, group in enumerate(sorted(set(groups)))}
        rows.append([numbers[group] for group in groups])
    return np.array(rows, np.int64).reshape(len(rows), len(texts))


def _format_values(distinct: pl.Series) -> list[str]:
    """The values as the schema writes them; pandas makes floats of whole numbers with gaps."""
    return [format_value(value) for value in distinct.to_list()]
