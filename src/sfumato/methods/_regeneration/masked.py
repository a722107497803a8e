"""Cells that are masked, and which values would fit them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.cells.ends import encoded, number_ends
from sfumato.cells.held import held, is_level, levels_of
from sfumato.cells.notation import WILDCARD, Type, number_of, type_of
from sfumato.errors import DataError, MethodError
from sfumato.kernels.arrays import Integers, Mask
from sfumato.schema import Column


@dataclass(frozen=True, eq=False)
class Masked:
    """The cells of a variable, plain or masked.

    Parameters
    ----------
    sort : for each record the sort of its masked cell: 0 where it says nothing at all, -1 where
        it is not to be filled.
    partial : the cells of the sorts from 1 on, as text.
    plain : which records have a single value.
    type : what the values are.
    """

    sort: npt.NDArray[np.int32] = field(repr=False)
    partial: Sequence[str]
    plain: Mask = field(repr=False)
    type: Type

    @property
    def counts(self) -> Integers:
        """How many cells there are of each sort."""
        found: Integers = np.bincount(self.sort[self.sort >= 0], minlength=len(self.partial) + 1)
        return found


def masked_cells(values: pl.Series, absent: Mask, column: Column, which: Sequence[str]) -> Masked:
    """Find the masked cells.

    Parameters
    ----------
    values : the variable.
    absent : which cells are missing, by a code or without one.
    column : what is known of the variable.
    which : what counts: "missing", "wildcard", "partial".
    """
    sort = np.full(len(values), -1, np.int32)
    if "missing" in which:
        sort[absent] = 0
    if values.dtype != pl.String:
        return Masked(sort, (), ~absent, "date" if values.dtype.is_temporal() else "number")
    of, texts = encoded(values.set(pl.Series(absent), None) if absent.any() else values)
    kind = type_of(texts, column, values.name)
    several = _several(texts, column, kind, values.name)
    partial = sorted(text for text, wide in zip(texts, several, strict=True) if wide)
    number = {text: at for at, text in enumerate(partial, 1)} if "partial" in which else {}
    if "wildcard" in which:
        number[WILDCARD] = 0
    # Beyond the last text is missing, which is settled already.
    numbers = np.array([*(number.get(text, -1) for text in texts), -1], np.int32)[of]
    single = np.array([*(~several & np.array([text != WILDCARD for text in texts], bool)), False])
    filled = partial if "partial" in which else ()
    return Masked(np.where(numbers >= 0, numbers, sort), filled, single[of], kind)


def _several(texts: Sequence[str], column: Column, kind: Type, name: str) -> Mask:
    """Which cells stand for several values, though not for all."""
    if kind == "level":
        plain = is_level(texts, column)
        wide = (not one and text != WILDCARD for one, text in zip(plain, texts, strict=True))
        return np.fromiter(wide, bool, len(texts))
    ends = number_ends(pl.Series(name, texts, dtype=pl.String), column, kind)
    wide_ends: Mask = ends.each((ends.low < ends.high) & ~ends.open)
    return wide_ends


def fitting(found: Masked, values: pl.Series, column: Column) -> list[Integers]:
    """For each sort the positions of the values that it may stand for.

    `values` are in rising order, each once; text where the variable is text.
    """
    every = np.arange(len(values))
    if not found.partial:
        return [every]
    cells = pl.Series(values.name, found.partial, dtype=pl.String)
    if found.type == "level":
        texts = values.to_list()
        levels = levels_of(texts, column, values.name, ordered=False)
        place = {text: at for at, text in enumerate(texts)}
        at_level = np.array([place.get(level, -1) for level in levels], np.int64)
        told = held(cells, levels, column)
        ends = list(pairwise(told.starts.tolist()))[: len(cells)]
        each = [at_level[told.levels[low:high]] for low, high in ends]
        return [every, *(np.sort(one[one >= 0]) for one in each)]
    own = number_ends(values, column, found.type)
    numbers = own.each(own.low)
    ends_of_cells = number_ends(cells, column, found.type)
    fits: list[Integers] = [every]
    for at in range(len(cells)):
        inside = (numbers >= ends_of_cells.low[at]) & (numbers <= ends_of_cells.high[at])
        if at in ends_of_cells.sets:
            inside &= np.isin(numbers, ends_of_cells.sets[at])
        fits.append(np.flatnonzero(inside))
    return fits


def typed(texts: Sequence[str], values: pl.Series, kind: Type) -> pl.Series:
    """Values given as text, in the type of the variable; an error where one is of another."""
    dtype = values.dtype
    try:
        if dtype == pl.String:
            if kind != "level":
                for text in texts:
                    number_of(text, kind, values.name)
            return pl.Series(values.name, texts, dtype=dtype)
        made = pl.Series(values.name, [_typed(text, dtype, values.name) for text in texts])
        return made.cast(dtype)
    except (DataError, ValueError, LookupError, ArithmeticError, pl.exceptions.PolarsError):
        raise MethodError(
            f"The counts for variable '{values.name}' name a value that it cannot take.",
            hint="write the values as the data hold them: 26, 1970-01-31, true or text.",
        ) from None


def _typed(text: str, dtype: pl.DataType, name: str) -> Any:
    if dtype == pl.Boolean:
        return {"true": True, "false": False, "1": True, "0": False}[text.lower()]
    if dtype == pl.Binary:
        return text.encode()
    if dtype == pl.Date:
        return dt.date.fromisoformat(text)
    if dtype == pl.Datetime:
        return dt.datetime.fromisoformat(text)
    number = number_of(text, "number", name)
    if dtype.is_integer() and not float(number).is_integer():
        msg = "not whole"
        raise ValueError(msg)
    return int(number) if dtype.is_integer() else float(number)


def typed_back(values: pl.Series, kind: Type) -> pl.Series:
    """Text that holds nothing but numbers or dates, as numbers or dates; else as it is."""
    if values.dtype != pl.String or kind == "level":
        return values
    if kind == "date":
        tried = [values.str.to_date("%Y-%m-%d", strict=False)]
    else:
        tried = [values.cast(dtype, strict=False) for dtype in (pl.Int64, pl.Float64)]
    gaps = values.null_count()
    return next((made for made in tried if made.null_count() == gaps), values)
