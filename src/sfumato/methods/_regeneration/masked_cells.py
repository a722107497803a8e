"""Masked cells: which values would fit them, and values drawn for them."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from sfumato.cells.codes import encode
from sfumato.cells.intervals import read_intervals
from sfumato.cells.level_sets import are_levels, list_levels, read_level_sets
from sfumato.cells.notation import (
    MASK,
    RANGE,
    SET,
    WILDCARD,
    CellType,
    format_value,
    infer_cell_type,
    mark_literals,
    parse_number,
)
from sfumato.errors import DataError, MethodError
from sfumato.kernels.arrays import Codes, Floats, Integers, Mask
from sfumato.schema import Column

Draw = Callable[[Floats], list[str]]
PARTIAL_HINT = 'masked = ["missing", "wildcard"]'
_EPOCH = dt.date(1970, 1, 1)
# Decimals that a float has at most.
_DIGITS = 15


@dataclass(frozen=True, eq=False)
class MaskedColumn:
    """The cells of a variable, single values or masked.

    Parameters
    ----------
    sort : for each record the sort of its masked cell: 0 where it says nothing at all, -1 where
        it is not to be filled.
    partial : the cells of the sorts from 1 on, as text.
    single : which records have a single value.
    type : what the values are.
    """

    sort: Codes = field(repr=False)
    partial: Sequence[str]
    single: Mask = field(repr=False)
    type: CellType

    @property
    def counts(self) -> Integers:
        """How many cells there are of each sort."""
        counts: Integers = np.bincount(self.sort[self.sort >= 0], minlength=len(self.partial) + 1)
        return counts


def find_masked_cells(
    values: pl.Series, absent: Mask, column: Column, which: Sequence[str]
) -> MaskedColumn:
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
        return MaskedColumn(sort, (), ~absent, "date" if values.dtype.is_temporal() else "number")
    visible = values.set(pl.Series(absent), None) if absent.any() else values
    coded = encode(visible, order="appearance")
    of, texts = coded.missing_last, mark_literals(coded.levels.to_list(), column)
    kind = infer_cell_type(texts, column, values.name)
    several = _find_partial(texts, column, kind, values.name)
    partly = sorted(text for text, wide in zip(texts, several, strict=True) if wide)
    number = {text: sort for sort, text in enumerate(partly, 1)} if "partial" in which else {}
    if "wildcard" in which:
        number[WILDCARD] = 0
    # Beyond the last text is missing, which is settled already.
    numbers = np.array([*(number.get(text, -1) for text in texts), -1], np.int32)[of]
    single = np.array([*(~several & np.array([text != WILDCARD for text in texts], bool)), False])
    filled = partly if "partial" in which else ()
    return MaskedColumn(np.where(numbers >= 0, numbers, sort), filled, single[of], kind)


def _find_partial(texts: Sequence[str], column: Column, kind: CellType, name: str) -> Mask:
    """Which cells stand for several values, though not for all."""
    if kind == "level":
        levels = are_levels(texts, column)
        wide = (not level and text != WILDCARD for level, text in zip(levels, texts, strict=True))
        return np.fromiter(wide, bool, len(texts))
    ends = read_intervals(pl.Series(name, texts, dtype=pl.String), column, kind)
    wide_ends: Mask = ends.per_record((ends.low < ends.high) & ~ends.open)
    return wide_ends


def find_fitting_values(cells: MaskedColumn, values: pl.Series, column: Column) -> list[Integers]:
    """For each sort the positions of the values that it may stand for.

    `values` are in rising order, each once; text where the variable is text.
    """
    anything = np.arange(len(values))
    if not cells.partial:
        return [anything]
    texts_partial = pl.Series(values.name, cells.partial, dtype=pl.String)
    if cells.type == "level":
        texts = values.to_list()
        levels = list_levels(texts, column, values.name, ordered=False)
        position = {text: index for index, text in enumerate(texts)}
        of_level = np.array([position.get(level, -1) for level in levels], np.int64)
        sets = read_level_sets(texts_partial, levels, column)
        ends = list(pairwise(sets.starts.tolist()))[: len(texts_partial)]
        positions = [of_level[sets.levels[low:high]] for low, high in ends]
        return [anything, *(np.sort(fitting[fitting >= 0]) for fitting in positions)]
    intervals = read_intervals(values, column, cells.type)
    numbers = intervals.per_record(intervals.low)
    ranges = read_intervals(texts_partial, column, cells.type)
    fits: list[Integers] = [anything]
    for cell in range(len(texts_partial)):
        fitting = (numbers >= ranges.low[cell]) & (numbers <= ranges.high[cell])
        if cell in ranges.sets:
            fitting &= np.isin(numbers, ranges.sets[cell])
        fits.append(np.flatnonzero(fitting))
    return fits


def cast_texts(texts: Sequence[str], values: pl.Series, kind: CellType) -> pl.Series:
    """Values given as text, in the type of the variable; an error where one is of another."""
    dtype = values.dtype
    try:
        if dtype == pl.String:
            if kind != "level":
                for text in texts:
                    parse_number(text, kind, values.name)
            return pl.Series(values.name, texts, dtype=dtype)
        return pl.Series(
            values.name, [_cast_text(text, dtype, values.name) for text in texts]
        ).cast(dtype)
    except (DataError, ValueError, LookupError, ArithmeticError, pl.exceptions.PolarsError):
        raise MethodError(
            f"The counts for variable '{values.name}' name a value that it cannot take.",
            hint="write the values as the data hold them: 26, 1970-01-31, true or text.",
        ) from None


def _cast_text(text: str, dtype: pl.DataType, name: str) -> Any:
    if dtype == pl.Boolean:
        return {"true": True, "false": False, "1": True, "0": False}[text.lower()]
    if dtype == pl.Binary:
        return text.encode()
    if dtype == pl.Date:
        return dt.date.fromisoformat(text)
    if dtype == pl.Datetime:
        return dt.datetime.fromisoformat(text)
    number = parse_number(text, "number", name)
    if dtype.is_integer() and not float(number).is_integer():
        msg = "not whole"
        raise ValueError(msg)
    return int(number) if dtype.is_integer() else float(number)


def restore_type(values: pl.Series, kind: CellType) -> pl.Series:
    """Text that holds nothing but numbers or dates, as numbers or dates; else as it is."""
    if values.dtype != pl.String or kind == "level":
        return values
    if kind == "date":
        candidates = [values.str.to_date("%Y-%m-%d", strict=False)]
    else:
        candidates = [values.cast(dtype, strict=False) for dtype in (pl.Int64, pl.Float64)]
    gaps = values.null_count()
    return next((column for column in candidates if column.null_count() == gaps), values)


# Draws -------------------------------------------------------------------------------------------


def draw_values(
    values: pl.Series,
    cells: MaskedColumn,
    column: Column,
    choice: pl.Series,
    counts: Integers,
    u: Floats,
) -> pl.Series:
    """The variable with a value in each cell that says something, though not everything.

    A cell draws from the unmasked values that fit, in their proportions. Where none fits, every
    whole number, day or level in the cell is as likely.

    Parameters
    ----------
    values : the variable, as text.
    cells : its masked cells.
    column : what is known of it.
    choice, counts : the unmasked values in rising order, each once, and how often each occurs.
    u : for each record a draw from 0 to 1.
    """
    rows = np.flatnonzero(cells.sort > 0)
    if not len(rows):
        return values
    fits = [np.zeros(0, np.int64)] * (len(cells.partial) + 1)
    if len(choice):
        fits = find_fitting_values(cells, choice, column)
    order = rows[np.argsort(cells.sort[rows], kind="stable")]
    unfit = [sort for sort in range(1, len(fits)) if not len(fits[sort])]
    texts_unfit = [cells.partial[sort - 1] for sort in unfit]
    draw = dict(zip(unfit, _draws_within(texts_unfit, cells, column, values.name), strict=True))
    texts: list[str] = []
    for sort, members in enumerate(np.split(order, np.cumsum(cells.counts[1:])[:-1]), 1):
        if sort in draw:
            texts += draw[sort](u[members])
        else:
            fitting = fits[sort]
            positions = _draw_by_weight(counts[fitting], fitting, u[members])
            texts += choice.gather(positions).to_list()
    return values.scatter(order, pl.Series(texts, dtype=values.dtype))


def _draw_by_weight(weights: Integers, positions: Integers, u: Floats) -> Integers:
    # Inverse of the cumulative distribution of the values that fit.
    ends = np.cumsum(weights)
    index = np.searchsorted(ends, u * ends[-1], side="right").clip(0, len(ends) - 1)
    chosen: Integers = positions[index]
    return chosen


def draw_from_domain(cells: MaskedColumn, column: Column, name: str, u: Floats) -> list[str]:
    """Values of the declared domain, each as likely as the others, as text."""
    if cells.type == "level":
        levels = list_levels([], column, name, ordered=False)
        if not levels:
            raise _unknown_values_error(name)
        return _draw_members(levels, u, write=str)
    low, high = (end.date() if isinstance(end, dt.datetime) else end for end in column.bounds or ())
    domain = f"[{format_value(low)};{format_value(high)}]"
    return _draws_within([domain], cells, column, name)[0](u)


def _draws_within(
    texts: Sequence[str], cells: MaskedColumn, column: Column, name: str
) -> list[Draw]:
    """For each cell how to draw from all that it may stand for."""
    if cells.type == "level":
        return _draws_of_levels(texts, column, name)
    ends = read_intervals(pl.Series(name, texts, dtype=pl.String), column, cells.type)
    bounds = -math.inf, math.inf
    if column.bounds is not None:
        known = read_intervals(pl.Series(name, list(column.bounds)), Column(), cells.type)
        bounds = float(known.per_record(known.low)[0]), float(known.per_record(known.low)[1])
    draws: list[Draw] = []
    for cell, text in enumerate(texts):
        if cell in ends.sets:
            write = _write_day if cells.type == "date" else format_value
            draws.append(partial(_draw_members, ends.sets[cell].tolist(), write=write))
            continue
        low, high = max(ends.low[cell], bounds[0]), min(ends.high[cell], bounds[1])
        if low > high:  # a domain that the data do not keep to says nothing
            low, high = ends.low[cell], ends.high[cell]
        draws.append(_draws_of_numbers(text, float(low), float(high), column, cells.type))
    return draws


def _draws_of_numbers(text: str, low: float, high: float, column: Column, kind: str) -> Draw:
    """Whole numbers and days; other numbers as fine as the ends of the range are written."""
    first, last = math.ceil(low), math.floor(high)
    if first <= last and (kind == "date" or column.kind == "integer"):
        ends, decimals = (Decimal(first), Decimal(last)), 0
    else:
        ends = Decimal(repr(low)), Decimal(repr(high))
        match = RANGE.fullmatch(text)
        decimals = max(map(_count_decimals, (*(match.groups() if match else ()), *ends)))
    write = _write_day if kind == "date" else _write_number
    return partial(_draw_steps, ends, decimals, write=write)


def _write_number(value: Decimal) -> str:
    return format_value(float(value))


def _count_decimals(end: str | Decimal) -> int:
    try:
        exponent = Decimal(end).normalize().as_tuple().exponent
    except InvalidOperation:
        return 0
    return min(max(-int(exponent), 0), _DIGITS)


def _draw_steps(
    ends: tuple[Decimal, Decimal], decimals: int, u: Floats, *, write: Callable[[Decimal], str]
) -> list[str]:
    """Draws from one end to the other in steps of so many decimals."""
    scale = 10**decimals
    first, last = (int(end * scale) for end in ends)
    # Exact, since there may be more steps than a float can count.
    numbers = (first + int(Fraction(draw) * (last - first + 1)) for draw in u.tolist())
    return [write(Decimal(number) / scale) for number in numbers]


def _draws_of_levels(texts: Sequence[str], column: Column, name: str) -> list[Draw]:
    """Levels inside the cells: those declared, in the hierarchy, or named by a cell itself."""
    matches = (SET.fullmatch(text) for text in texts)
    named = {level for match in matches if match for level in match[1].split(";")}
    levels = list_levels([*named, *(column.hierarchy or ())], column, name, ordered=False)
    cells = pl.Series(name, texts, dtype=pl.String)
    sets = read_level_sets(cells, levels, column) if levels else None
    draws: list[Draw] = []
    for cell, text in enumerate(texts):
        codes = sets.levels[sets.starts[cell] : sets.starts[cell + 1]].tolist() if sets else ()
        mask = MASK.fullmatch(text)
        if len(codes):
            draws.append(partial(_draw_members, [levels[code] for code in codes], write=str))
        elif mask and mask[1].isdecimal():
            ends = Decimal(0), Decimal(10 ** len(mask[2]) - 1)
            write = partial(_write_code, mask[1], len(mask[2]))
            draws.append(partial(_draw_steps, ends, 0, write=write))
        else:
            raise _unknown_values_error(name)
    return draws


def _write_code(start: str, digits: int, number: Decimal) -> str:
    return f"{start}{int(number):0{digits}}"


def _draw_members(
    members: Sequence[str] | Sequence[float], u: Floats, *, write: Callable[..., str]
) -> list[str]:
    indices = (u * len(members)).astype(np.int64).clip(0, len(members) - 1)
    return [write(members[index]) for index in indices.tolist()]


def _write_day(days: float | Decimal) -> str:
    return str(_EPOCH + dt.timedelta(days=int(days)))


def _unknown_values_error(name: str) -> MethodError:
    return MethodError(
        f"Variable '{name}' has masked cells, and neither an unmasked value nor the schema tells "
        "what they could be.",
        hint=f"declare its domain, give counts for it, or leave partial cells as they are: "
        f"{PARTIAL_HINT}.",
    )
