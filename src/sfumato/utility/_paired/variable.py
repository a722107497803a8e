"""One variable of the original and of the release, read by the original's kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.cells.ends import Ends, Type, number_ends
from sfumato.cells.held import held, levels_of, rank_ends, texts_of
from sfumato.cells.records import coded
from sfumato.cells.renamed import with_renamed
from sfumato.data import Dataset
from sfumato.kernels.arrays import Codes
from sfumato.schema import Column
from sfumato.utility._paired.lost import Lost, lost_levels, lost_numbers

_NUMBERS: dict[str, Type] = {"continuous": "number", "integer": "number", "date": "date"}


@dataclass(frozen=True, eq=False)
class Loss:
    """What a variable lost, and how it was read.

    Parameters
    ----------
    name : the variable.
    lost : what it lost.
    code : for each released record a number for its cell; None where the release dropped it.
    extremes : whether cells without a value took what the original holds as the domain.
    """

    name: str
    lost: Lost
    code: tuple[Codes, int] | None
    extremes: bool


def losses(
    original: Dataset, released: Dataset, name: str, at: npt.NDArray[np.intp] | None
) -> Loss | None:
    """What a variable lost; None where the original has no value that could be lost."""
    values = original.column(name)
    after = released.column(name) if name in released.columns else None
    column = _told(original.schema[name], released.schema.get(name))
    now = pl.Series(name, [None] * len(released), dtype=pl.String) if after is None else after
    levels = _levels(values, column)
    if after is not None and levels:
        column = with_renamed(column, levels, values, now, at, released.schema.get(name))
    if column.kind in (*_NUMBERS, "ordinal"):
        return _of_numbers(values, now, column, at, dropped=after is None)
    was, cells = (held(one, levels, column) for one in (values, now))
    if was.open[was.of].all():
        return None
    code = None if after is None else coded(cells)
    taken = cells.taken(at)
    lost = lost_levels(name, was, taken, len(levels))
    nothing = bool(taken.open[taken.of].any())
    return Loss(name, lost, code, nothing and not column.levels)


def _told(column: Column, after: Column | None) -> Column:
    """The original's declaration; a hierarchy may have come with the release."""
    if column.hierarchy is None and after is not None and after.hierarchy is not None:
        return replace(column, hierarchy=after.hierarchy)
    return column


def _levels(values: pl.Series, column: Column) -> list[str]:
    """The levels of a variable that has some; of an ordinal one, from low to high."""
    if column.kind in _NUMBERS:
        return []
    return levels_of(_distinct(values), column, values.name, ordered=column.kind == "ordinal")


def _distinct(values: pl.Series) -> list[str]:
    return texts_of(values.drop_nulls().unique()).to_list()


def _of_numbers(
    values: pl.Series,
    now: pl.Series,
    column: Column,
    at: npt.NDArray[np.intp] | None,
    *,
    dropped: bool,
) -> Loss | None:
    was = ends_of(values, column, values)
    if was.each(was.open).all():
        return None
    cells = ends_of(now, column, values)
    taken = cells.taken(at)
    domain, declared = _domain(values, column, was)
    nothing = bool(taken.each(taken.open).any())
    lost = lost_numbers(values.name, was, taken, domain)
    return Loss(values.name, lost, None if dropped else coded(cells), nothing and not declared)


def ends_of(values: pl.Series, column: Column, original: pl.Series) -> Ends:
    """Read a variable on the scale of its kind: numbers, days, or ranks of its levels."""
    kind = _NUMBERS.get(column.kind or "")
    if kind is not None:
        return number_ends(values, column, kind)
    return rank_ends(values, ranked(original, column), column)


def ranked(original: pl.Series, column: Column) -> Sequence[str]:
    """The levels of an ordinal variable, from low to high."""
    return levels_of(_distinct(original), column, original.name, ordered=True)


def _domain(values: pl.Series, column: Column, was: Ends) -> tuple[tuple[float, float], bool]:
    """The declared domain, else the smallest and largest value; and whether it was declared."""
    if column.kind == "ordinal":
        return (0.0, float(len(ranked(values, column)) - 1)), bool(column.levels)
    if column.bounds is not None:
        kind = _NUMBERS[column.kind or ""]
        ends = number_ends(pl.Series(values.name, list(column.bounds)), Column(), kind)
        low, high = ends.each(ends.low)
        return (float(low), float(high)), True
    known = ~was.open
    return (float(was.low[known].min()), float(was.high[known].max())), False
