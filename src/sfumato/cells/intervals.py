"""Numbers and dates that may be generalised: the interval that each cell may stand for.

Text is read once for each distinct cell, never for each record.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import polars as pl

from sfumato.cells.codes import encode
from sfumato.cells.notation import (
    MASK,
    RANGE,
    SET,
    WILDCARD,
    group_members,
    mark_literals,
    mask_bounds,
    parse_number,
    require_rising,
)
from sfumato.errors import DataError
from sfumato.kernels.arrays import Array, Codes, Floats, Mask, Positions
from sfumato.kernels.memory import split_rows
from sfumato.schema import Column

NumberType = Literal["number", "date"]
_DAY = 86_400_000_000
_EPOCH = dt.date(1970, 1, 1)
# `2020`, `2020-Q2` and `2020-05`: the years from 1000 on.
_PERIOD = re.compile(r"([1-9]\d{3})(?:-(?:Q([1-4])|(0[1-9]|1[0-2])))?")
_MONTHS = 12
# Whole numbers that lie closer together than this are looked up, not sorted.
_TABLE = 1 << 20


@dataclass(frozen=True, eq=False)
class Intervals:
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
    def open(self) -> Mask:
        """Which cells say nothing: `*` and missing."""
        return np.isneginf(self.low)

    def per_record(self, of_cells: Array) -> Array:
        """Something known of each cell, for each record."""
        return of_cells if self.of is None else of_cells[self.of]

    def midpoints(self) -> Floats:
        """For each record the middle of what it may stand for; NaN where it says nothing."""
        return self.per_record(self.cell_midpoints())

    def cell_midpoints(self) -> Floats:
        """The middle of each cell; NaN where it says nothing."""
        with np.errstate(invalid="ignore"):
            middle = self.low + (self.high - self.low) / 2
        for cell, members in self.sets.items():
            middle[cell] = members.mean()
        return np.where(self.open, np.nan, middle)

    def take(self, rows: Positions | None) -> Intervals:
        """The cells of some records; a position below 0 has none, and says nothing."""
        if rows is None:
            return self
        cells = np.arange(len(self.low), dtype=np.int32) if self.of is None else self.of
        of = np.where(rows < 0, len(self.low), cells[rows]).astype(np.int32)
        low, high = np.append(self.low, -np.inf), np.append(self.high, np.inf)
        return replace(self, of=of, low=low, high=high)


def are_same_cells(was: Intervals, now: Intervals, first: Any, second: Any) -> Mask:
    """For pairs of cells, whether both stand for just the same.

    `first` and `second` are the numbers of the cells, or all of them in turn.
    """
    low, high = was.low[first], was.high[first]
    same: Mask = (low == now.low[second]) & (high == now.high[second])
    if not was.sets and not now.sets:
        return same
    cell_was, cell_now = np.arange(len(was.low))[first], np.arange(len(now.low))[second]
    sets = np.isin(cell_was, list(was.sets)) | np.isin(cell_now, list(now.sets))
    for pair in np.flatnonzero(sets & same & (low < high)).tolist():
        before, after = was.sets.get(int(cell_was[pair])), now.sets.get(int(cell_now[pair]))
        # A range is no set, though it has the same ends.
        same[pair] = before is not None and after is not None and np.array_equal(before, after)
    return same


def read_intervals(values: pl.Series, column: Column, kind: NumberType) -> Intervals:
    """Read numbers or dates (as days since 1970): values, ranges, sets, masks, groups, `*`.

    Examples
    --------
    >>> column = Column(cells="generalised")
    >>> ends = read_intervals(pl.Series("age", ["26", "[24;28]", None]), column, "number")
    >>> ends.low.tolist(), ends.high.tolist(), ends.of.tolist()
    ([26.0, 24.0, -inf], [26.0, 28.0, inf], [0, 1, 2])
    """
    if values.dtype == pl.String:
        return _read_texts(values, column, kind)
    if values.null_count() == len(values):
        converted = pl.Series(values.name, [None] * len(values), dtype=pl.Float64)
    elif (kind == "date") != values.dtype.is_temporal() or not _is_countable(values.dtype):
        raise DataError(
            f"Variable '{values.name}' holds values that are no {kind}s.",
            hint="declare its kind in the schema, or leave it out.",
        )
    elif values.dtype == pl.Datetime:
        converted = values.cast(pl.Datetime("us")).to_physical() / _DAY
    elif values.dtype == pl.Duration:
        converted = values.cast(pl.Duration("us")).to_physical() / _DAY
    else:
        converted = (values.to_physical() if kind == "date" else values).cast(pl.Float64)
    numbers = converted.fill_null(np.nan).to_numpy()
    _require_finite(numbers, values.name)
    gone = np.isnan(numbers)
    # By value and not by type: pandas makes floats of whole numbers with gaps.
    tabled = _tabulate(numbers, gone)
    if tabled is not None:
        return tabled
    if not gone.any():
        return Intervals(None, numbers, numbers)
    return Intervals(None, np.where(gone, -np.inf, numbers), np.where(gone, np.inf, numbers))


def _tabulate(numbers: Floats, gone: Mask) -> Intervals | None:
    """Whole numbers close together: every one between the least and the greatest is a cell."""
    present = numbers[~gone] if gone.any() else numbers
    if not len(present):
        return None
    least, most = float(present.min()), float(present.max())
    if not most - least < min(_TABLE, len(numbers)) or (present != np.floor(present)).any():
        return None
    table = np.arange(least, most + 1)
    cells = np.empty(len(numbers), np.int32)
    for part in split_rows(len(cells)):
        cells[part] = np.where(gone[part], len(table), numbers[part] - least)
    return Intervals(cells, np.append(table, -np.inf), np.append(table, np.inf))


def _is_countable(dtype: pl.DataType) -> bool:
    return dtype.is_numeric() or dtype.is_temporal() or dtype == pl.Boolean


def _require_finite(numbers: Floats, name: str) -> None:
    if np.isinf(numbers).any():
        raise DataError(
            f"Variable '{name}' holds infinite values.",
            hint="set them to missing, or correct them at the source.",
        )


def _read_texts(values: pl.Series, column: Column, kind: NumberType) -> Intervals:
    coded = encode(values, order="appearance")
    texts = mark_literals(coded.levels.to_list(), column)
    cells = pl.Series(values.name, texts, dtype=pl.String)
    # All distinct cells at once: a Python call for each would take most of the time.
    ends = cells.str.extract_groups(r"(?s)^\[([^;]*);([^;]*)\]$").struct.unnest()
    # Most cells are values or ranges of them; the others go through the exact reader.
    single = _parse_plain(cells, kind)
    low = np.append(np.fmax(single, _parse_plain(ends.to_series(0), kind)), -np.inf)
    high = np.append(np.fmax(single, _parse_plain(ends.to_series(1), kind)), np.inf)
    sets: dict[int, Floats] = {}
    groups = group_members(column)
    for cell in np.flatnonzero(np.isnan(low) | np.isnan(high) | (low > high)).tolist():
        low[cell], high[cell], members = _parse_cell(texts[cell], kind, values.name, groups)
        if members is not None:
            sets[cell] = members
    return Intervals(coded.missing_last, low, high, sets)


def _parse_plain(texts: pl.Series, kind: NumberType) -> Floats:
    """Numbers or days; NaN where the text is neither."""
    if kind == "date":
        days = texts.str.to_date("%Y-%m-%d", strict=False, exact=True)
        parsed = days.to_physical().cast(pl.Float64)
    else:
        parsed = texts.cast(pl.Float64, strict=False)
    numbers = parsed.fill_null(np.nan).to_numpy()
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _parse_cell(
    text: str, kind: NumberType, name: str, groups: Mapping[str, list[str]]
) -> tuple[float, float, Floats | None]:
    """The ends of one cell, and its values where it is a set."""
    if text == WILDCARD:
        return -np.inf, np.inf, None
    if match := RANGE.fullmatch(text):
        low = _parse_bounds(match[1], kind, name)[0]
        high = _parse_bounds(match[2], kind, name)[1]
        require_rising(low, high, name)
        return low, high, None
    match = SET.fullmatch(text)
    if members := match[1].split(";") if match else groups.get(text):
        return _parse_set(members, kind, name)
    if (match := MASK.fullmatch(text)) and match[1].isdecimal() and kind == "number":
        least, most = mask_bounds(match)
        return float(least), float(most), None
    return *_parse_bounds(text, kind, name), None


def _parse_bounds(text: str, kind: NumberType, name: str) -> tuple[float, float]:
    """Both ends of a value: for a year, a quarter or a month its first and its last day."""
    if (match := _PERIOD.fullmatch(text)) and kind == "date":
        return _period_bounds(*match.groups())
    value = _parse_finite(text, kind, name)
    return value, value


def _period_bounds(year: str, quarter: str | None, month: str | None) -> tuple[float, float]:
    """The first and the last day of a year, a quarter or a month, in days since 1970."""
    begins = 3 * int(quarter) - 2 if quarter else int(month or 1)
    months = 3 if quarter else 1 if month else 12
    first = dt.date(int(year), begins, 1)
    after = dt.date(int(year) + (begins + months > _MONTHS), (begins + months - 1) % _MONTHS + 1, 1)
    return float((first - _EPOCH).days), float((after - _EPOCH).days - 1)


def _parse_set(texts: list[str], kind: NumberType, name: str) -> tuple[float, float, Floats]:
    bounds = [_parse_bounds(text, kind, name) for text in texts]
    # A period among the members is all its days.
    days = [np.arange(low, high + 1) if low < high else np.array([low]) for low, high in bounds]
    members = np.unique(np.concatenate(days))
    return float(members[0]), float(members[-1]), members


def _parse_finite(text: str, kind: NumberType, name: str) -> float:
    try:
        value = float(parse_number(text, kind, name))
    except OverflowError:
        value = np.inf
    _require_finite(np.array([value]), name)
    return value
