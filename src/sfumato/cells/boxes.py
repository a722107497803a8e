"""Records as boxes of codes: which values a range, a set, a mask or a wildcard may stand for.

A range is of numbers, dates or ordered levels; a group named in the schema's hierarchy is all its
values; for the others see `notation`. Codes are given
so that every cell is an interval of codes where that is possible; several values that no cell
tells apart share a code.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import polars as pl

from sfumato.cells.codes import encode
from sfumato.cells.level_sets import CodeRuns, encode_level_cells
from sfumato.cells.notation import (
    MASK,
    RANGE,
    SET,
    WILDCARD,
    CellType,
    infer_cell_type,
    is_literal,
    mark_literals,
    mask_bounds,
    parse_number,
    require_rising,
)
from sfumato.data import Dataset
from sfumato.errors import DataError
from sfumato.kernels.arrays import Array, Codes, Integers, Mask
from sfumato.kernels.trees.box_cells import Cells
from sfumato.schema import Column

Missing = Literal["value", "wildcard"]
# Below this, floats tell all whole numbers apart.
_EXACT = 2**53
_LONG = 2**62
_NUMERIC_KINDS = ("continuous", "integer", "date")


@dataclass(frozen=True, eq=False)
class Boxes:
    """The rows as boxes: for each variable the codes that a row may stand for.

    Parameters
    ----------
    names : the variables.
    cells : (variable, row) which of the variable's distinct cells each row has.
    tables : the distinct cells of each variable.
    exact : whether every cell of a variable is a single code.
    literals : how many cells of each variable look like notation, but were not declared as such.
    counts : how many records each row stands for; None: one each.
    """

    names: tuple[str, ...]
    cells: Codes
    tables: tuple[Cells, ...]
    exact: tuple[bool, ...]
    literals: Mapping[str, int] = field(default_factory=dict)
    counts: Integers | None = None


def read_boxes(
    data: Dataset,
    names: Sequence[str],
    *,
    missing: Missing = "value",
    counts: Integers | None = None,
) -> Boxes:
    """Read variables that may be generalised.

    Parameters
    ----------
    data : the records.
    names : the variables to read.
    missing : "value" takes missing for a value of its own, which no wildcard includes;
        "wildcard" takes it for `*`.
    counts : how many records each row stands for; without, one each.

    Examples
    --------
    >>> import polars as pl
    >>> from sfumato.schema import Schema
    >>> schema = Schema({"age": Column(cells="generalised")})
    >>> data = Dataset(pl.DataFrame({"age": ["26", "[24;28]"]}), schema)
    >>> [(table.low.tolist(), table.high.tolist()) for table in read_boxes(data, ["age"]).tables]
    [([0, 1], [2, 1])]
    """
    data.schema.require(names)
    cells = np.empty((len(names), len(data) if counts is None else len(counts)), np.int32)
    tables: list[Cells] = []
    literals: dict[str, int] = {}
    for row, name in enumerate(names):
        cells[row], table, marked = _read_variable(data.column(name), data.schema[name], missing)
        tables.append(table)
        if marked is not None and marked.any():
            literals[name] = int(marked.sum() if counts is None else counts[marked].sum())
    exact = tuple(t.starts is None and bool((t.low == t.high).all()) for t in tables)
    return Boxes(tuple(names), cells, tuple(tables), exact, literals, counts)


def _read_variable(
    values: pl.Series, column: Column, missing: Missing
) -> tuple[Array, Cells, Mask | None]:
    """The cell of each row, the distinct cells, and which rows only look like notation."""
    coded = encode(_simplify_type(values, column))
    distinct, of = coded.levels, coded.missing_last
    wild, literals = None, None
    if distinct.dtype != pl.String:
        numbers = distinct.to_numpy()
        integers = distinct.dtype.is_integer() and column.kind != "continuous"
        ends = _declared_ends(column, values.dtype)
        low, high, size = _encode_intervals(numbers, numbers, ends, integers=integers)
        starts = np.arange(len(numbers) + 1)
    else:
        texts = mark_literals(distinct.to_list(), column)
        wild = texts.index(WILDCARD) if WILDCARD in texts else None
        marked = [index for index, text in enumerate(texts) if is_literal(text)]
        literals = np.isin(of, marked) if marked else None
        kind = infer_cell_type(texts, column, values.name)
        if kind == "level":
            low, high, starts, size = encode_level_cells(texts, column, values.name)
        else:
            low, high, starts, size = _encode_text_cells(texts, column, values.name, kind)
    anything = missing == "wildcard"
    if _open(column) and (anything or wild is not None):
        # No domain is declared, so the variable may take values that no record shows.
        size += 1
        if wild is not None:
            high[starts[wild]] = size - 1
    # The last cell is that of missing: anything, or a code of its own above all others.
    size = max(size, 1) if anything else size + 1
    low = np.append(low, 0 if anything else size - 1)
    high = np.append(high, size - 1)
    cells, table = _renumber_cells(of, low, high, np.append(starts, starts[-1] + 1), size)
    return cells, table, literals


def _open(column: Column) -> bool:
    """Whether nothing says which values the variable may take."""
    return column.bounds is None and not column.levels and not column.hierarchy


def _simplify_type(values: pl.Series, column: Column) -> pl.Series:
    """Text, or whole or other numbers, whatever the library made of them."""
    if values.dtype.is_temporal():
        if values.dtype == pl.Datetime:
            days = values.dt.date()
            values = days if (days.cast(values.dtype) == values).all() else values
        return values.to_physical().cast(pl.Int64)
    if values.dtype.is_decimal():
        numbers = values.cast(pl.Float64)
        # Digits that a float does not tell apart are kept as text.
        values = numbers if numbers.n_unique() == values.n_unique() else values.cast(pl.String)
    if values.dtype.is_float():
        values = values.cast(pl.Float64)
        small = values.abs().max()
        if (values == values.round()).all() and float(small or 0) < _EXACT:  # type: ignore[arg-type]
            values = values.cast(pl.Int64)
    if values.dtype == pl.Binary:
        return values.bin.encode("hex")
    if values.dtype.is_float() and column.kind in _NUMERIC_KINDS:
        return values
    if values.dtype.is_integer() and column.kind in _NUMERIC_KINDS and _fits_in_64_bits(values):
        return values.cast(pl.Int64)
    if values.dtype.is_nested() or values.dtype == pl.Object:
        raise DataError(
            f"Variable '{values.name}' is of a type whose values cannot be compared.",
            hint="leave it out, or turn it into text or numbers.",
        )
    return values.cast(pl.String)


def _fits_in_64_bits(values: pl.Series) -> bool:
    ends: Any = values.min(), values.max()
    return ends[0] is None or bool(ends[0] > -_LONG and ends[1] < _LONG)


def _encode_text_cells(texts: list[str], column: Column, name: str, kind: CellType) -> CodeRuns:
    """Numbers or dates in text: values, ranges, sets, masks and wildcards."""
    pairs = [parse_intervals(text, kind, name) for text in texts]
    starts = np.cumsum([0, *map(len, pairs)])
    low, high = ([end[side] for intervals in pairs for end in intervals] for side in (0, 1))
    finite = [end for end in (*low, *high) if end is not None]
    integers = column.kind != "continuous" and all(isinstance(end, int) for end in finite)
    declared = _declared_ends(column, pl.Date() if kind == "date" else pl.Int64())
    number: Any = np.int64 if integers else np.float64
    dtype = object if _needs_exact([*finite, *declared], integers=integers) else number
    if None in low:
        outermost = [*finite, *(_whole_ends(declared) if integers else declared)] or [0]
        low = [min(outermost) if end is None else end for end in low]
        high = [max(outermost) if end is None else end for end in high]
    ends = np.array(low, dtype), np.array(high, dtype)
    codes_low, codes_high, size = _encode_intervals(*ends, declared, integers=integers)
    return CodeRuns(codes_low, codes_high, starts, size)


def _needs_exact(ends: list[Any], *, integers: bool) -> bool:
    """Whether some numbers have more digits than an array of numbers would tell apart."""
    most = _LONG if integers else _EXACT
    return any(isinstance(end, Decimal) or abs(end) >= most for end in ends)


def parse_intervals(text: str, kind: CellType, name: str) -> list[tuple[Any, Any]]:
    """The intervals a cell consists of; (None, None) is everything."""
    if text == WILDCARD:
        return [(None, None)]
    if match := RANGE.fullmatch(text):
        least, most = (parse_number(end, kind, name) for end in match.groups())
        require_rising(least, most, name)
        return [(least, most)]
    if match := SET.fullmatch(text):
        members = sorted({parse_number(member, kind, name) for member in match[1].split(";")})
        return [(member, member) for member in members]
    if (match := MASK.fullmatch(text)) and match[1].isdecimal() and kind == "number":
        return [mask_bounds(match)]
    value = parse_number(text, kind, name)
    return [(value, value)]


def _declared_ends(column: Column, dtype: pl.DataType) -> list[Any]:
    """The ends of the declared domain of numbers or dates, on the scale of the cells."""
    if column.bounds is None:
        return []
    if column.kind == "date":
        ends = pl.Series(column.bounds)
        ends = ends.cast(dtype if dtype == pl.Datetime else pl.Date)
        return ends.to_physical().to_list()
    return list(column.bounds)


def _whole_ends(declared: list[Any]) -> list[int]:
    """The least and the greatest whole number of a declared domain."""
    return [math.ceil(declared[0]), math.floor(declared[-1])] if declared else []


def _encode_intervals(
    low: Array, high: Array, declared: list[Any], *, integers: bool
) -> tuple[Array, Array, int]:
    """Codes for intervals of numbers: what no end separates shares a code."""
    outermost = np.array(_whole_ends(declared) if integers else declared, low.dtype)
    ends = np.unique(np.concatenate([low, high, outermost]))
    if not len(ends):
        return low, high, 0
    if integers:
        # Whole numbers between two neighbouring cuts lie in the same cells.
        cuts = np.unique(np.concatenate([low, high + 1, ends[:1], ends[-1:] + 1]))
        return np.searchsorted(cuts, low), np.searchsorted(cuts, high + 1) - 1, len(cuts) - 1
    # Codes in turn: a number, and what lies between it and the next. Where no cell is just that
    # number, every cell with it also holds a neighbouring gap, so the number needs no code.
    single = np.zeros(len(ends), bool)
    first, last = np.searchsorted(ends, low), np.searchsorted(ends, high)
    single[first[first == last]] = True
    used = np.ones(2 * len(ends) - 1, np.int64)
    used[::2] = single
    code = np.cumsum(used) - used
    return code[2 * first], np.where(single, code[::2], code[::2] - 1)[last], int(used.sum())


def _renumber_cells(
    of: Codes, low: Array, high: Array, starts: Array, size: int
) -> tuple[Array, Cells]:
    """Number cells anew: those that stand for the same codes are the same, and unused ones go."""
    low, high = low.astype(np.int32), high.astype(np.int32)
    if (np.diff(starts) == 1).all():
        used = np.bincount(of, minlength=len(low)) > 0
        # One number for each interval, so that equal ones are found by sorting.
        pairs = low.astype(np.int64) * (size + 1) + high
        distinct, number = np.unique(np.where(used, pairs, -1), return_inverse=True)
        unused = int(not used.all())
        distinct = distinct[unused:]
        ends = np.divmod(distinct, size + 1)
        table = Cells(ends[0].astype(np.int32), ends[1].astype(np.int32), size)
        return (number.ravel() - unused)[of], table
    pieces = list(zip(low.tolist(), high.tolist(), strict=True))
    keys = [_join_touching(pieces[a:b]) for a, b in itertools.pairwise(starts.tolist())]
    used_keys = sorted({keys[cell] for cell in np.unique(of).tolist()})
    number_of_key = {key: index for index, key in enumerate(used_keys)}
    number = np.array([number_of_key.get(key, -1) for key in keys], np.int32)
    runs = [pair for key in used_keys for pair in key]
    lows, highs = (np.array([pair[side] for pair in runs], np.int32) for side in (0, 1))
    begins = np.cumsum([0, *map(len, used_keys)]).astype(np.int64)
    single = len(runs) == len(used_keys)
    return number[of], Cells(lows, highs, size, None if single else begins)


def _join_touching(pieces: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Intervals that touch are one: `{1;2}` is `[1;2]` where nothing lies between."""
    joined: list[tuple[int, int]] = []
    for low, high in pieces:
        if joined and low == joined[-1][1] + 1:
            joined[-1] = joined[-1][0], high
        else:
            joined.append((low, high))
    return tuple(joined)
