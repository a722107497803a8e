"""Cells that hold several items, such as the diagnoses of a stay: `E11;I10;N18`.

The schema declares such a variable by `cells = "lists"`. The order of the items and repeats of one
do not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sfumato.cells.notation import WILDCARD, group_members
from sfumato.kernels.itemsets import ItemRows
from sfumato.schema import Column, Schema
from sfumato.units import Units

LISTS = "lists"
DELIMITER = ";"


def find_lists(named: Sequence[str] | None, schema: Schema) -> tuple[str, ...]:
    """The variables with lists: those named, or all that are declared so."""
    if named is not None:
        return tuple(named)
    return tuple(name for name, column in schema.items() if column.cells == LISTS)


def split_items(cells: pl.Series, delimiter: str) -> pl.Series:
    """The items of each cell, without spaces around them; an empty list where there is none.

    Examples
    --------
    >>> split_items(pl.Series(["I10; E11", "E11;E11", "", None]), ";").to_list()
    [['E11', 'I10'], ['E11'], [], []]
    """
    texts = cells.cast(pl.String).fill_null("")
    items = texts.str.split(delimiter).list.eval(pl.element().str.strip_chars())
    return items.list.eval(pl.element().filter(pl.element() != "").unique().sort())


@dataclass(frozen=True, eq=False)
class ItemLists:
    """The lists of a variable.

    Parameters
    ----------
    names : the items, rising; `rows` has their positions.
    rows : the items of each row.
    """

    names: tuple[str, ...]
    rows: ItemRows


def read_items(items: pl.Series, units: Units) -> ItemLists:
    """Number the items of lists that `split_items` has made."""
    lengths = items.list.len().to_numpy().astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    # An empty list would become a row of its own.
    flat = items.filter(pl.Series(lengths > 0)).explode().cast(pl.String)
    names = flat.unique().sort()
    codes = flat.replace_strict(names, pl.Series(np.arange(len(names))), return_dtype=pl.Int64)
    rows = ItemRows(starts, codes.to_numpy().astype(np.int64), len(names), units)
    return ItemLists(tuple(names.to_list()), rows)


def list_readings(lists: ItemRows) -> list[ItemRows]:
    """The lists, and one list for each person, where these have several: all items of all."""
    if lists.units.one_row_each:
        return [lists]
    people = int(lists.units.numbers.max(initial=-1)) + 1
    owners = np.repeat(lists.units.numbers, lists.lengths)
    pairs = np.unique(owners * np.int64(max(lists.width, 1)) + lists.items)
    owner, items = np.divmod(pairs, max(lists.width, 1))
    starts = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=people))])
    return [lists, ItemRows(starts, items, lists.width, Units(people))]


def expand_groups(lists: ItemLists, column: Column) -> ItemRows:
    """The lists in terms of what an outsider may know: single items, not groups of them.

    A list with a group fits whoever knows any item of the group. Items that fit exactly the same
    lists cannot be told apart and are one.
    """
    members = group_members(column)
    if not any(name in members or name == WILDCARD for name in lists.names):
        return lists.rows
    leaves = {*(column.hierarchy or {}), *lists.names} - {*members, WILDCARD}
    covering: dict[str, list[int]] = {leaf: [] for leaf in leaves}
    for position, name in enumerate(lists.names):
        stands_for = leaves if name == WILDCARD else members.get(name, [name])
        for leaf in stands_for:
            covering[leaf].append(position)
    kinds = sorted({tuple(names) for names in covering.values() if names})
    by_token: list[list[int]] = [[] for _ in lists.names]
    for kind, positions in enumerate(kinds):
        for position in positions:
            by_token[position].append(kind)
    rows = lists.rows
    widths = np.array([len(kinds_of) for kinds_of in by_token], np.int64)
    flat = np.array([kind for kinds_of in by_token for kind in kinds_of], np.int64)
    begins = np.concatenate([[0], np.cumsum(widths)])
    times = widths[rows.items]
    row_of = np.repeat(np.repeat(np.arange(len(rows)), rows.lengths), times)
    offsets = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    expanded = flat[np.repeat(begins[rows.items], times) + offsets]
    pairs = np.unique(row_of * np.int64(max(len(kinds), 1)) + expanded)
    row, items = np.divmod(pairs, max(len(kinds), 1))
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(rows)))])
    return ItemRows(starts, items, len(kinds), rows.units)
