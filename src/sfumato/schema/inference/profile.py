"""What is looked at of a variable: its different values, and how often each occurs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import narwhals as nw
import polars as pl

from sfumato.errors import DataError
from sfumato.io import frames
from sfumato.schema import Kind
from sfumato.schema.inference.cells import has_ranges, kind_of_cells
from sfumato.schema.inference.levels import YES_OR_NO, known_levels

FEW = 10
"""Whole numbers with so few different values may be codes."""

_SAMPLE = 10_000  # distinct values whose writing is looked at
_LEVELS = 50  # an ordered scale has no more levels
_RECORDS = 20  # fewer records say nothing about how unique values are
_NEARLY = 0.9  # share of the records that must differ in a measurement
_SHARED = 3  # a value that so few records share is nearly a record's own
_DIGITS = 8  # shorter whole numbers carry no check digit
_EXACT = 2**53  # beyond this a float no longer tells neighbouring whole numbers apart
_DATE = r"^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?$"
_NOTHING = pl.Series([], dtype=pl.UInt32)

Family = Literal["number", "flag", "date", "text", "empty", "other"]


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The distinct values of a variable in order, how often each occurs, and what follows.

    `ordered`: the frame itself declares an order of the levels.
    """

    family: Family
    values: pl.Series
    counts: pl.Series
    ordered: bool

    @property
    def distinct(self) -> int:
        """How many different values there are."""
        return len(self.values)

    @cached_property
    def records(self) -> int:
        """Records with a value."""
        return int(self.counts.sum())

    @property
    def telling(self) -> bool:
        """Whether there are records enough to say how unique values are."""
        return self.records >= _RECORDS

    @cached_property
    def whole(self) -> bool:
        """Whole numbers, also where a missing value made them floats."""
        if self.family != "number" or self.values.dtype.is_integer():
            return self.family == "number"
        exact = self.values.is_finite() & (self.values.abs() <= _EXACT)
        return bool((exact & (self.values == self.values.floor())).all())

    @cached_property
    def few(self) -> bool:
        """Few different values, each of several records; 0 and 1 are few in any case."""
        binary = self.whole and self.distinct > 1 and self.within(0, 1)
        return binary or (self.distinct <= FEW and self.distinct * 3 <= self.records)

    @cached_property
    def own(self) -> bool:
        """Whether nearly every record has a value of its own."""
        rare = self.counts.filter(self.counts <= _SHARED).sum()
        return self.distinct * 2 > self.records or (
            self.distinct >= _LEVELS and rare * 2 >= self.records
        )

    @property
    def measured(self) -> bool:
        """Whether nearly every record has its own measurement."""
        many = self.telling and self.distinct >= _NEARLY * self.records
        return self.family == "number" and not self.whole and many

    @cached_property
    def sample(self) -> pl.Series:
        """Values as text, evenly from all of them; as many digits as the longest number has."""
        some = self.values.gather_every(-(-self.distinct // _SAMPLE) or 1)
        if self.family == "text":
            return some
        if not self.whole:
            return pl.Series([], dtype=pl.String)
        digits = some.cast(pl.Int128).cast(pl.String)
        longest = int(digits.str.len_chars().max() or 0)  # type: ignore[arg-type]
        return digits.str.zfill(longest) if longest >= _DIGITS else digits.clear()

    @cached_property
    def levels(self) -> frozenset[str]:
        """The levels of a short scale, less those that say "not known"."""
        short = self.family == "text" and self.distinct <= _LEVELS
        return known_levels(self.values) if short else frozenset()

    @property
    def flagged(self) -> bool:
        """Text that only says yes or no."""
        return bool(self.levels) and self.levels <= YES_OR_NO

    @cached_property
    def dated(self) -> bool:
        """Text of which every value is a date, year first."""
        if self.family != "text" or not self.values.str.contains(_DATE).all():
            return False
        return self.values.str.head(10).str.to_date("%Y-%m-%d", strict=False).null_count() == 0

    @cached_property
    def generalised(self) -> Kind | None:
        """What ranges written as text are about: whole numbers, other numbers or dates."""
        if self.family != "text" or not has_ranges(self.values):
            return None
        return kind_of_cells(self.values)

    def within(self, low: float, high: float) -> bool:
        """Whether all numbers lie between two ends."""
        return bool(low <= self.values[0] and self.values[-1] <= high)


def read_profile(table: nw.DataFrame[Any], name: str) -> Profile | None:
    """Look at a variable; `None` where its values cannot be brought to one type."""
    series = table[name]
    ordered = isinstance(series.dtype, nw.Enum) or _declared(series.to_native())
    # Missing values go first: beside them pandas cannot turn categories into whole numbers.
    present = table[[name]].drop_nulls()
    try:
        values = _values(present, name)
    except DataError:
        return _unlooked(present[name], ordered=ordered)
    family = "empty" if values.is_empty() else _family(values.dtype)
    if family in ("empty", "other"):
        return Profile(family=family, values=_NOTHING, counts=_NOTHING, ordered=ordered)
    runs = values.sort().rle().struct.unnest()
    return Profile(family=family, values=runs["value"], counts=runs["len"], ordered=ordered)


def _values(present: nw.DataFrame[Any], name: str) -> pl.Series:
    """The values in one of few types, blanks and NaN taken out."""
    values = frames.column(present, name)
    categories = isinstance(present[name].dtype, nw.Categorical | nw.Enum)
    if categories and _family(values.dtype) == "other":
        # Levels of a kind of their own, such as the intervals of pandas.cut.
        values = frames.column(present.with_columns(nw.col(name).cast(nw.String)), name)
    if isinstance(values.dtype, pl.Decimal):
        values = values.cast(pl.Float64)
    elif values.dtype == pl.Duration:
        values = values.cast(pl.Int64)
    elif values.dtype == pl.String:
        values = values.set(values.str.strip_chars() == "", None)
    return values.drop_nulls()


def _family(dtype: pl.DataType) -> Family:
    if dtype.is_numeric():
        return "number"
    if dtype.is_temporal():
        return "date"
    if dtype == pl.Boolean:
        return "flag"
    return "text" if dtype == pl.String else "other"


def _unlooked(present: nw.Series[Any], *, ordered: bool) -> Profile | None:
    """Lists and records leave the name to judge by; values of several types leave nothing."""
    if not _nested(present):
        return None
    family: Family = "other" if len(present) else "empty"
    return Profile(family=family, values=_NOTHING, counts=_NOTHING, ordered=ordered)


def _declared(native: Any) -> bool:
    """Whether a pyarrow dictionary says that its levels have an order."""
    return getattr(getattr(native, "type", None), "ordered", False) is True


def _nested(series: nw.Series[Any]) -> bool:
    """Whether every value is a list or a record of its own."""
    return series.dtype.is_nested() or all(
        isinstance(value, Collection) and not isinstance(value, str | bytes)
        for value in series.to_list()
    )
