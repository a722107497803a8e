"""Numbers and dates that may be generalised: the ends of what each cell may stand for.

Text is read once for each distinct cell, never for each record.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.cells.notation import MASK, RANGE, SET, WILDCARD, number_of
from sfumato.errors import DataError
from sfumato.kernels.arrays import Codes, Floats
from sfumato.schema import Column

Type = Literal["number", "date"]
_DAY = 86_400_000_000
_EPOCH = dt.date(1970, 1, 1)
_PERIOD = re.compile(r"([1-9]\d{3})(?:-(?:Q([1-4])|(0[1-9]|1[0-2])))?")
"""`2020`, `2020-Q2` and `2020-05`: the years from 1000 on."""
_MONTHS = 12
_TABLE = 1 << 20
"""Whole numbers that lie closer together than this are looked up, not sorted."""


@dataclass(frozen=True, eq=False)
class Ends:
    """What the cells of a variable may stand for, on one scale.

    Parameters
    ----------
    of : which cell each record has; None where every record has one of its own.
    low, high : both ends of each cell; minus and plus infinity where it says nothing.
    sets : the values of cells that are sets, by cell.
    """

    of: Codes | None = field(repr=False)
    low: Floats = field(repr=False)
    high: Floats = field(repr=False)
    sets: Mapping[int, Floats] = field(default_factory=dict, repr=False)

    @property
    def open(self) -> npt.NDArray[np.bool_]:
        """Which cells say nothing: `*` and missing."""
        return np.isneginf(self.low)

    def each(self, of_cells: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Something known of each cell, for each record."""
        return of_cells if self.of is None else of_cells[self.of]

    def middles(self) -> Floats:
        """For each record the middle of what it may stand for; NaN where it says nothing."""
        return self.each(self.middles_of_cells())

    def middles_of_cells(self) -> Floats:
        """The middle of each cell; NaN where it says nothing."""
        with np.errstate(invalid="ignore"):
            middle = self.low + (self.high - self.low) / 2
        for at, members in self.sets.items():
            middle[at] = members.mean()
        return np.where(self.open, np.nan, middle)

    def taken(self, at: npt.NDArray[np.intp] | None) -> Ends:
        """The cells of other records; a place below 0 has none, and says nothing."""
        if at is None:
            return self
        own = np.arange(len(self.low), dtype=np.int32) if self.of is None else self.of
        of = np.where(at < 0, len(self.low), own[at]).astype(np.int32)
        low, high = np.append(self.low, -np.inf), np.append(self.high, np.inf)
        return replace(self, of=of, low=low, high=high)


def same_cells(was: Ends, now: Ends, first: Any, second: Any) -> npt.NDArray[np.bool_]:
    """For pairs of cells, whether both stand for just the same.

    `first` and `second` are the numbers of the cells, or all of them in turn.
    """
    low, high = was.low[first], was.high[first]
    same: npt.NDArray[np.bool_] = (low == now.low[second]) & (high == now.high[second])
    if not was.sets and not now.sets:
        return same
    one, other = (np.arange(len(cells.low))[at] for cells, at in ((was, first), (now, second)))
    among = np.isin(one, list(was.sets)) | np.isin(other, list(now.sets))
    for at in np.flatnonzero(among & same & (low < high)).tolist():
        before, after = was.sets.get(int(one[at])), now.sets.get(int(other[at]))
        # A range is no set, though it has the same ends.
        same[at] = before is not None and after is not None and np.array_equal(before, after)
    return same


def encoded(values: pl.Series) -> tuple[Codes, list[str]]:
    """The distinct texts, and which each record has: the number after the last where missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array = values.cast(pl.String).to_arrow(compat_level=pl.CompatLevel.oldest())
    found: Any = pc.dictionary_encode(array.cast(pa.large_string()))
    texts = found.dictionary.to_pylist()
    places = found.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    return places.astype(np.int32, copy=False), texts


def number_ends(values: pl.Series, column: Column, kind: Type) -> Ends:
    """Read numbers or dates (as days since 1970): values, ranges, sets, masks, groups, `*`.

    Examples
    --------
    >>> ends = number_ends(pl.Series("age", ["26", "[24;28]", None]), Column(), "number")
    >>> ends.low.tolist(), ends.high.tolist(), ends.of.tolist()
    ([26.0, 24.0, -inf], [26.0, 28.0, inf], [0, 1, 2])
    """
    if values.dtype == pl.String:
        return _of_text(values, column, kind)
    if values.null_count() == len(values):
        plain = pl.Series(values.name, [None] * len(values), dtype=pl.Float64)
    elif (kind == "date") != values.dtype.is_temporal() or not _counts(values.dtype):
        raise DataError(
            f"Variable '{values.name}' holds values that are no {kind}s.",
            hint="declare its kind in the schema, or leave it out.",
        )
    elif values.dtype == pl.Datetime:
        plain = values.cast(pl.Datetime("us")).to_physical() / _DAY
    elif values.dtype == pl.Duration:
        plain = values.cast(pl.Duration("us")).to_physical() / _DAY
    else:
        plain = (values.to_physical() if kind == "date" else values).cast(pl.Float64)
    numbers = plain.fill_null(np.nan).to_numpy()
    _require_finite(numbers, values.name)
    gone = np.isnan(numbers)
    # By value and not by type: pandas makes floats of whole numbers with gaps.
    few = _few(numbers, gone)
    if few is not None:
        return few
    if not gone.any():
        return Ends(None, numbers, numbers)
    return Ends(None, np.where(gone, -np.inf, numbers), np.where(gone, np.inf, numbers))


def _few(numbers: Floats, gone: npt.NDArray[np.bool_]) -> Ends | None:
    """Whole numbers close together: every one between the least and the greatest is a cell."""
    held = numbers[~gone]
    if not len(held):
        return None
    least, most = float(held.min()), float(held.max())
    if not most - least < min(_TABLE, len(numbers)) or (held != np.floor(held)).any():
        return None
    table = np.arange(least, most + 1)
    places = np.where(gone, len(table), numbers - least).astype(np.int32)
    return Ends(places, np.append(table, -np.inf), np.append(table, np.inf))


def _counts(dtype: pl.DataType) -> bool:
    return dtype.is_numeric() or dtype.is_temporal() or dtype == pl.Boolean


def _require_finite(numbers: Floats, name: str) -> None:
    if np.isinf(numbers).any():
        raise DataError(
            f"Variable '{name}' holds infinite values.",
            hint="set them to missing, or correct them at the source.",
        )


def _of_text(values: pl.Series, column: Column, kind: Type) -> Ends:
    of, texts = encoded(values)
    cells = pl.Series(texts, dtype=pl.String)
    ends = cells.str.extract_groups(r"(?s)^\[([^;]*);([^;]*)\]$").struct.unnest()
    # Most cells are plain values or ranges of them; the rest goes through the exact reader.
    single = _parsed(cells, kind)
    low = np.append(np.fmax(single, _parsed(ends.to_series(0), kind)), -np.inf)
    high = np.append(np.fmax(single, _parsed(ends.to_series(1), kind)), np.inf)
    sets: dict[int, Floats] = {}
    groups = _groups(column)
    for at in np.flatnonzero(np.isnan(low) | np.isnan(high) | (low > high)).tolist():
        low[at], high[at], members = _cell(texts[at], kind, values.name, groups)
        if members is not None:
            sets[at] = members
    return Ends(of, low, high, sets)


def _parsed(texts: pl.Series, kind: Type) -> Floats:
    """Numbers or days; NaN where the text is neither."""
    if kind == "date":
        days = texts.str.to_date("%Y-%m-%d", strict=False, exact=True)
        found = days.to_physical().cast(pl.Float64)
    else:
        found = texts.cast(pl.Float64, strict=False)
    numbers = found.fill_null(np.nan).to_numpy()
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _cell(
    text: str, kind: Type, name: str, groups: Mapping[str, list[str]]
) -> tuple[float, float, Floats | None]:
    """The ends of one cell, and its values where it is a set."""
    if text == WILDCARD:
        return -np.inf, np.inf, None
    if found := RANGE.fullmatch(text):
        low, high = _ends(found[1], kind, name)[0], _ends(found[2], kind, name)[1]
        if low > high:
            raise DataError(
                f"Variable '{name}' has a range whose first end is above its second.",
                hint="write ranges as [lowest;highest].",
            )
        return low, high, None
    found = SET.fullmatch(text)
    if members := found[1].split(";") if found else groups.get(text):
        return _of_set(members, kind, name)
    if (found := MASK.fullmatch(text)) and found[1].isdecimal() and kind == "number":
        codes = 10 ** len(found[2])
        return float(int(found[1]) * codes), float(int(found[1]) * codes + codes - 1), None
    return *_ends(text, kind, name), None


def _ends(text: str, kind: Type, name: str) -> tuple[float, float]:
    """Both ends of a value: for a year, a quarter or a month its first and its last day."""
    if (found := _PERIOD.fullmatch(text)) and kind == "date":
        return _period(*found.groups())
    value = _number(text, kind, name)
    return value, value


def _period(year: str, quarter: str | None, month: str | None) -> tuple[float, float]:
    """The first and the last day of a year, a quarter or a month, in days since 1970."""
    begins = 3 * int(quarter) - 2 if quarter else int(month or 1)
    months = 3 if quarter else 1 if month else 12
    first = dt.date(int(year), begins, 1)
    after = dt.date(int(year) + (begins + months > _MONTHS), (begins + months - 1) % _MONTHS + 1, 1)
    return float((first - _EPOCH).days), float((after - _EPOCH).days - 1)


def _of_set(texts: list[str], kind: Type, name: str) -> tuple[float, float, Floats]:
    held = [_ends(one, kind, name) for one in texts]
    # A period among the members is all its days.
    each = [np.arange(low, high + 1) if low < high else np.array([low]) for low, high in held]
    members = np.unique(np.concatenate(each))
    return float(members[0]), float(members[-1]), members


def _number(text: str, kind: Type, name: str) -> float:
    try:
        value = float(number_of(text, kind, name))
    except OverflowError:
        value = np.inf
    _require_finite(np.array([value]), name)
    return value


def _groups(column: Column) -> dict[str, list[str]]:
    """The values of each group of the hierarchy."""
    groups: dict[str, list[str]] = {}
    values = column.hierarchy or {}
    for leaf, broader in values.items():
        for group in dict.fromkeys(broader):
            if group not in values and group != WILDCARD:
                groups.setdefault(group, []).append(leaf)
    return groups
