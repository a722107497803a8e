"""Generalised cells: which values a range, a set, a mask or a wildcard may stand for.

The notation, the same in every file: `26` is a value; `[24;28]` a range with both its ends, of
numbers, dates or ordered levels; `{a;b}` a set; `937**` every code of that length with that
beginning; `*` anything; a group named in the schema's hierarchy all its values. Codes are given
so that every cell is an interval of codes where that is possible; several values that no cell
tells apart share a code.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.cells.levels import level_cells
from sfumato.cells.notation import MASK, RANGE, SET, WILDCARD, Type, number_of, type_of
from sfumato.data import Dataset
from sfumato.errors import DataError
from sfumato.kernels.trees.boxes import Cells
from sfumato.schema import Column

Missing = Literal["value", "wildcard"]
_EXACT = 2**53
"""Below this, floats tell all whole numbers apart."""
_LONG = 2**62
_NUMBERS = ("continuous", "integer", "date")


@dataclass(frozen=True, eq=False)
class Boxes:
    """The records as boxes: for each variable the codes that a record may stand for.

    Parameters
    ----------
    names : the variables.
    cells : (variable, record) which of the variable's distinct cells each record has.
    tables : the distinct cells of each variable.
    exact : whether every cell of a variable is a single code.
    """

    names: tuple[str, ...]
    cells: npt.NDArray[np.int32]
    tables: tuple[Cells, ...]
    exact: tuple[bool, ...]


def boxes(data: Dataset, names: Sequence[str], *, missing: Missing = "value") -> Boxes:
    """Read variables that may be generalised.

    Parameters
    ----------
    data : the records.
    names : the variables to read.
    missing : "value" takes missing for a value of its own, which no wildcard includes;
        "wildcard" takes it for `*`.

    Examples
    --------
    >>> import polars as pl
    >>> data = Dataset(pl.DataFrame({"age": ["26", "[24;28]"]}))
    >>> [(table.low.tolist(), table.high.tolist()) for table in boxes(data, ["age"]).tables]
    [([0, 1], [2, 1])]
    """
    data.schema.require(names)
    cells = np.empty((len(names), len(data)), np.int32)
    tables = []
    for at, name in enumerate(names):
        cells[at], table = _variable(data.column(name), data.schema[name], missing)
        tables.append(table)
    exact = tuple(t.starts is None and bool((t.low == t.high).all()) for t in tables)
    return Boxes(tuple(names), cells, tuple(tables), exact)


def _variable(values: pl.Series, column: Column, missing: Missing) -> tuple[Any, Cells]:
    """The cell of each record, and the distinct cells of the variable."""
    plain = _plain(values, column)
    distinct = plain.drop_nulls().unique().sort()
    of = _places(plain, distinct)
    wild = None
    if distinct.dtype != pl.String:
        numbers = distinct.to_numpy()
        whole = distinct.dtype.is_integer() and column.kind != "continuous"
        ends = _declared(column, values.dtype)
        low, high, size = _coded(numbers, numbers, ends, whole=whole)
        starts = np.arange(len(numbers) + 1)
    else:
        texts = distinct.to_list()
        wild = texts.index(WILDCARD) if WILDCARD in texts else None
        kind = type_of(texts, column, values.name)
        if kind == "level":
            low, high, starts, size = level_cells(texts, column, values.name)
        else:
            low, high, starts, size = _text_cells(texts, column, values.name, kind)
    anything = missing == "wildcard"
    if _open(column) and (anything or wild is not None):
        # Nobody has said what the variable may be, so it may be what no record shows.
        size += 1
        if wild is not None:
            high[starts[wild]] = size - 1
    # The last cell is that of missing: anything, or a code of its own above all others.
    size = max(size, 1) if anything else size + 1
    low = np.append(low, 0 if anything else size - 1)
    high = np.append(high, size - 1)
    return _canonical(of, low, high, np.append(starts, starts[-1] + 1), size)


def _open(column: Column) -> bool:
    """Whether nothing says which values the variable may take."""
    return column.bounds is None and not column.levels and not column.hierarchy


def _plain(values: pl.Series, column: Column) -> pl.Series:
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
    if values.dtype.is_float() and column.kind in _NUMBERS:
        return values
    if values.dtype.is_integer() and column.kind in _NUMBERS and _small(values):
        return values.cast(pl.Int64)
    if values.dtype.is_nested() or values.dtype == pl.Object:
        raise DataError(
            f"Variable '{values.name}' is of a type whose values cannot be compared.",
            hint="leave it out, or turn it into text or numbers.",
        )
    return values.cast(pl.String)


def _small(values: pl.Series) -> bool:
    ends: Any = values.min(), values.max()
    return ends[0] is None or bool(ends[0] > -_LONG and ends[1] < _LONG)


def _places(values: pl.Series, distinct: pl.Series) -> npt.NDArray[np.int64]:
    """Which of the distinct values each is; the number after the last where missing."""
    table = pl.DataFrame({"value": distinct, "at": np.arange(len(distinct))})
    frame = values.alias("value").to_frame()
    found = frame.join(table, on="value", how="left", maintain_order="left")
    return found["at"].fill_null(len(distinct)).to_numpy()


def _text_cells(texts: list[str], column: Column, name: str, kind: Type) -> Any:
    """Numbers or dates in text: values, ranges, sets, masks and wildcards."""
    pairs = [_ends(text, kind, name) for text in texts]
    starts = np.cumsum([0, *map(len, pairs)])
    low, high = ([end[side] for held in pairs for end in held] for side in (0, 1))
    finite = [end for end in (*low, *high) if end is not None]
    whole = column.kind != "continuous" and all(isinstance(end, int) for end in finite)
    given = _declared(column, pl.Date() if kind == "date" else pl.Int64())
    plain: Any = np.int64 if whole else np.float64
    dtype = object if _long([*finite, *given], whole=whole) else plain
    every = [*finite, *(_whole(given) if whole else given)] or [0]
    if None in low:
        low = [min(every) if end is None else end for end in low]
        high = [max(every) if end is None else end for end in high]
    ends = np.array(low, dtype), np.array(high, dtype)
    codes_low, codes_high, size = _coded(*ends, given, whole=whole)
    return codes_low, codes_high, starts, size


def _long(ends: list[Any], *, whole: bool) -> bool:
    """Whether some numbers have more digits than an array of numbers would tell apart."""
    most = _LONG if whole else _EXACT
    return any(isinstance(end, Decimal) or abs(end) >= most for end in ends)


def _ends(text: str, kind: Type, name: str) -> list[tuple[Any, Any]]:
    """The intervals a cell consists of; (None, None) is everything."""
    if text == WILDCARD:
        return [(None, None)]
    if found := RANGE.fullmatch(text):
        least, most = (number_of(end, kind, name) for end in found.groups())
        if least > most:
            raise DataError(
                f"Variable '{name}' has a range whose first end is above its second.",
                hint="write ranges as [lowest;highest].",
            )
        return [(least, most)]
    if found := SET.fullmatch(text):
        members = sorted({number_of(one, kind, name) for one in found[1].split(";")})
        return [(one, one) for one in members]
    if (found := MASK.fullmatch(text)) and found[1].isdecimal() and kind == "number":
        codes = 10 ** len(found[2])
        return [(int(found[1]) * codes, int(found[1]) * codes + codes - 1)]
    value = number_of(text, kind, name)
    return [(value, value)]


def _declared(column: Column, dtype: pl.DataType) -> list[Any]:
    """The ends of the declared domain of numbers or dates, on the scale of the cells."""
    if column.bounds is None:
        return []
    if column.kind == "date":
        ends = pl.Series(column.bounds)
        ends = ends.cast(dtype if dtype == pl.Datetime else pl.Date)
        return ends.to_physical().to_list()
    return list(column.bounds)


def _whole(declared: list[Any]) -> list[int]:
    """The least and the greatest whole number of a declared domain."""
    return [math.ceil(declared[0]), math.floor(declared[-1])] if declared else []


def _coded(low: Any, high: Any, declared: list[Any], *, whole: bool) -> tuple[Any, Any, int]:
    """Codes for intervals of numbers: what no end separates shares a code."""
    given = np.array(_whole(declared) if whole else declared, low.dtype)
    ends = np.unique(np.concatenate([low, high, given]))
    if not len(ends):
        return low, high, 0
    if whole:
        cuts = np.unique(np.concatenate([low, high + 1, ends[:1], ends[-1:] + 1]))
        return np.searchsorted(cuts, low), np.searchsorted(cuts, high + 1) - 1, len(cuts) - 1
    # Codes in turn: a number, and what lies between it and the next. Where no cell is just that
    # number, every cell with it also holds a neighbouring gap, so the number needs no code.
    alone = np.zeros(len(ends), bool)
    first, last = np.searchsorted(ends, low), np.searchsorted(ends, high)
    alone[first[first == last]] = True
    used = np.ones(2 * len(ends) - 1, np.int64)
    used[::2] = alone
    code = np.cumsum(used) - used
    return code[2 * first], np.where(alone, code[::2], code[::2] - 1)[last], int(used.sum())


def _canonical(of: Any, low: Any, high: Any, starts: Any, size: int) -> tuple[Any, Cells]:
    """Number cells anew: those that stand for the same codes are the same, and unused ones go."""
    low, high = low.astype(np.int32), high.astype(np.int32)
    if (np.diff(starts) == 1).all():
        used = np.bincount(of, minlength=len(low)) > 0
        pairs = low.astype(np.int64) * (size + 1) + high
        kept, number = np.unique(np.where(used, pairs, -1), return_inverse=True)
        unused = int(not used.all())
        kept = kept[unused:]
        ends = (kept // (size + 1)).astype(np.int32), (kept % (size + 1)).astype(np.int32)
        return (number.ravel() - unused)[of], Cells(*ends, size)
    pieces = list(zip(low.tolist(), high.tolist(), strict=True))
    keys = [_merged(pieces[a:b]) for a, b in itertools.pairwise(starts.tolist())]
    used_keys = sorted({keys[at] for at in np.unique(of).tolist()})
    number_of_key = {key: at for at, key in enumerate(used_keys)}
    number = np.array([number_of_key.get(key, -1) for key in keys], np.int32)
    flat = [pair for key in used_keys for pair in key]
    lows, highs = (np.array([pair[side] for pair in flat], np.int32) for side in (0, 1))
    begins = np.cumsum([0, *map(len, used_keys)]).astype(np.int64)
    whole = len(flat) == len(used_keys)
    return number[of], Cells(lows, highs, size, None if whole else begins)


def _merged(pieces: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Intervals that touch are one: `{1;2}` is `[1;2]` where nothing lies between."""
    merged: list[tuple[int, int]] = []
    for low, high in pieces:
        if merged and low == merged[-1][1] + 1:
            merged[-1] = merged[-1][0], high
        else:
            merged.append((low, high))
    return tuple(merged)
