"""What is looked at of a variable: its different values, and how often each occurs.

Text may stand for numbers or dates: values among ranges, sets, masks and wildcards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import narwhals as nw
import numpy as np
import polars as pl

from sfumato.errors import DataError
from sfumato.io import frames
from sfumato.schema import Kind
from sfumato.schema.inference.free_text import SENTENCE, are_sentences
from sfumato.schema.inference.scales import (
    YES_OR_NO,
    Key,
    normalise_levels,
    order_levels,
)
from sfumato.schema.spelling import normalise_spellings

_INTEGER = r"[+-]?[0-9]+"
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_FORMS: dict[Kind, str] = {"integer": _INTEGER, "continuous": _NUMBER, "date": _DATE}
_NAMES: dict[Kind, str] = {"integer": "whole numbers", "continuous": "numbers", "date": "dates"}
_MASK = r"[0-9]+\*+"
_RANGE = r"^\[[^;]+;[^;]+\]$"
WILDCARD = "*"
_CODE = r"[A-Za-z]{0,4}[0-9][0-9A-Za-z.-]{0,7}"
_DELIMITERS = (";", "|")
_LISTED = 0.1
"""The share of records with several codes from which on cells are lists."""
_NOTATION = r"(?s)^(?:\[[^;]*;[^;]*\]|\{.*\}|[^*]*\*+)$"


def infer_cell_kind(cells: pl.Series) -> Kind | None:
    """What the cells of a text variable stand for; None where not all are numbers or dates.

    Values, ranges `[24;28]`, sets `{24;28}`, masked codes `937**` and wildcards `*` may stand
    side by side. Wildcards alone say nothing.

    Examples
    --------
    >>> infer_cell_kind(pl.Series(["26", "[24;28]", "*"])), infer_cell_kind(pl.Series(["a", "*"]))
    ('integer', None)
    """
    values = cells.drop_nulls()
    values = values.filter(values != WILDCARD)
    if values.is_empty():
        return None
    for kind, form in _FORMS.items():
        if values.str.contains(_build_pattern(kind, form)).all():
            return kind if kind != "date" or _are_dates(values) else None
    return None


def describe_ranges(kind: Kind) -> str:
    """The remark on a variable of such cells."""
    return f"Its values are ranges of {_NAMES[kind]}."


def _build_pattern(kind: Kind, form: str) -> str:
    masks = "" if kind == "date" else f"|{_MASK}"
    return rf"^(?:{form}|\[{form};{form}\]|\{{{form}(?:;{form})*\}}{masks})$"


def _are_dates(cells: pl.Series) -> bool:
    """Whether every date in the cells is a day of the calendar."""
    dates = cells.str.extract_all(_DATE).explode()
    return dates.str.to_date("%Y-%m-%d", strict=False).null_count() == 0


FEW = 10
"""Whole numbers with so few different values may be codes."""

_SAMPLE = 10_000  # distinct values whose writing is looked at
_LEVELS = 50  # an ordered scale has no more levels
_RECORDS = 20  # fewer records say nothing about how unique values are
_NEARLY = 0.9  # share of the records that must differ in a measurement
_SHARED = 3  # a value that so few records share is nearly a record's own
_DIGITS = 8  # shorter whole numbers carry no check digit
_EXACT = 2**53  # beyond this a float no longer tells neighbouring whole numbers apart
_ISO_DATE = r"^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?$"
_NOTHING = pl.Series([], dtype=pl.UInt32)
_NO_TEXT = pl.Series([], dtype=pl.String)

Family = Literal["number", "flag", "date", "text", "empty", "other"]


@dataclass(frozen=True, kw_only=True)
class ValueProfile:
    """The distinct values of a variable in order, how often each occurs, and what follows.

    `ordered`: the frame itself declares an order of the levels.
    """

    family: Family
    values: pl.Series
    counts: pl.Series
    ordered: bool
    matches: dict[str, int] = field(default_factory=dict, repr=False, compare=False)
    extremes: tuple[Any, Any] | None = field(default=None, repr=False, compare=False)

    def count_matches(self, pattern: str) -> int:
        """How many of the different values of a text hold the pattern."""
        if pattern not in self.matches:
            self.matches[pattern] = int(self.values.str.contains(pattern).sum())
        return self.matches[pattern]

    def without(self, codes: Collection[Any]) -> ValueProfile:
        """The same less the values that stand for "no value"."""
        is_value = ~self.values.is_in(pl.Series(list(codes), dtype=self.values.dtype, strict=False))
        if not is_value.any():
            return ValueProfile(
                family="empty", values=_NOTHING, counts=_NOTHING, ordered=self.ordered
            )
        return replace(
            self,
            values=self.values.filter(is_value),
            counts=self.counts.filter(is_value),
            matches={},
            extremes=None,
        )

    @cached_property
    def distinct(self) -> int:
        """How many different values there are."""
        return len(self.values)

    @cached_property
    def records(self) -> int:
        """Records with a value."""
        return int(self.counts.sum())

    @cached_property
    def repeated_share(self) -> float:
        """The share of records whose value another record has too."""
        return int(self.counts.filter(self.counts > 1).sum()) / max(self.records, 1)

    @property
    def has_enough_records(self) -> bool:
        """Whether there are records enough to say how unique values are."""
        return self.records >= _RECORDS

    @cached_property
    def integral(self) -> bool:
        """Whole numbers, also where a missing value made them floats."""
        if self.family != "number" or self.values.dtype.is_integer():
            return self.family == "number"
        numbers = self.values.to_numpy()
        # In order: the first and the last are the extremes, and what is not finite is beyond them
        if not (numbers[0] >= -_EXACT and numbers[-1] <= _EXACT):
            return False
        return bool((numbers == np.floor(numbers)).all())

    @cached_property
    def few(self) -> bool:
        """Few different values, each of several records; 0 and 1 are few in any case."""
        binary = self.integral and self.distinct > 1 and self.within(0, 1)
        return binary or (self.distinct <= FEW and self.distinct * 3 <= self.records)

    @cached_property
    def nearly_unique(self) -> bool:
        """Whether nearly every record has a value of its own."""
        if self.distinct * 2 > self.records:
            return True
        if self.distinct < _LEVELS:
            return False
        rare = self.counts.filter(self.counts <= _SHARED).sum()
        return bool(rare * 2 >= self.records)

    @property
    def is_measurement(self) -> bool:
        """Whether nearly every record has its own measurement."""
        many = self.has_enough_records and self.distinct >= _NEARLY * self.records
        return self.family == "number" and not self.integral and many

    @cached_property
    def sample(self) -> pl.Series:
        """Values as text, evenly from all of them; as many digits as the longest number has."""
        apart = -(-self.distinct // _SAMPLE) or 1
        some = self.values if apart == 1 else self.values.gather_every(apart)
        if self.family == "text":
            return some
        if not self.integral or max(abs(some[0]), abs(some[-1])) < 10 ** (_DIGITS - 2):
            return _NO_TEXT  # the shorter ones carry no check digit
        # Leading zeros that a number lost are put back before check digits are tried.
        digits = some.cast(pl.Int128).cast(pl.String)
        longest = int(digits.str.len_chars().max() or 0)  # type: ignore[arg-type]
        return digits.str.zfill(longest) if longest >= _DIGITS else digits.clear()

    @cached_property
    def levels(self) -> frozenset[str]:
        """The levels of a short scale, less those that say "not known"."""
        short = self.family == "text" and self.distinct <= _LEVELS
        return normalise_levels(self.values) if short else frozenset()

    @cached_property
    def order(self) -> dict[str, Key] | None:
        """A key to sort each of the levels by; None where they have no order that is known."""
        return order_levels(self.levels) if self.levels else None

    @property
    def is_yes_or_no(self) -> bool:
        """Text that only says yes or no."""
        return bool(self.levels) and self.levels <= YES_OR_NO

    @cached_property
    def holds_free_text(self) -> bool:
        """Text of which many records have a sentence of their own."""
        if self.family != "text" or not self.count_matches(SENTENCE):
            return False
        return are_sentences(self.values, self.counts)

    @cached_property
    def holds_dates(self) -> bool:
        """Text of which every value is a date, year first."""
        if self.family != "text" or self.count_matches(_ISO_DATE) < self.distinct:
            return False
        return self.values.str.head(10).str.to_date("%Y-%m-%d", strict=False).null_count() == 0

    @cached_property
    def range_kind(self) -> Kind | None:
        """What ranges written as text are about: whole numbers, other numbers or dates."""
        if self.family != "text" or not self.count_matches(_RANGE):
            return None
        return infer_cell_kind(self.values)

    @cached_property
    def list_delimiter(self) -> str:
        """What stands between the codes of lists such as `I10;E11`; "" where there are none.

        Codes recur in several lists, and lists differ in length: pairs of numbers are none.
        """
        if self.family != "text" or self.holds_dates:
            return ""
        for delimiter, pattern in LISTS_OF_CODES.items():
            if self.count_matches(pattern) < self.distinct:
                continue
            lengths = self.values.str.count_matches(delimiter, literal=True) + 1
            items = self.values.str.split(delimiter).explode().str.strip_chars()
            several = int(self.counts.filter(lengths > 1).sum())
            recurring = items.n_unique() * 2 <= len(items)
            if several >= max(2, _LISTED * self.records) and lengths.n_unique() > 1 and recurring:
                return delimiter
        return ""

    def describe_text(self) -> Iterator[str]:
        """What a reader of text should know: spellings of one value, and text like notation."""
        if self.family != "text":
            return
        if self.distinct <= _SAMPLE:
            united = normalise_spellings(self.values).n_unique()
            if united < self.distinct:
                yield f"{self.distinct} spellings of {united} values: unite them first."
        if self.count_matches(_NOTATION):
            cells = int(self.counts.filter(self.values.str.contains(_NOTATION)).sum())
            yield (
                f"{cells} cells look like ranges, sets, masks or `*`: they are text, unless "
                'cells = "generalised" is declared.'
            )

    @cached_property
    def ends(self) -> tuple[Any, Any]:
        """The least and the greatest value."""
        return self.extremes or (self.values[0], self.values[-1])

    def within(self, low: float, high: float) -> bool:
        """Whether all numbers lie between two ends."""
        return bool(low <= self.ends[0] and self.ends[1] <= high)


LISTS_OF_CODES = {
    delimiter: rf"^\s*{_CODE}\s*(?:\{delimiter}\s*{_CODE}\s*)*$" for delimiter in _DELIMITERS
}
"""By what stands between them: cells of one code or several."""
_WIDE = 50
"""Variables from which short ones are looked at together."""
_TOGETHER = 1_000_000
"""Cells that are looked at together."""


def read_profiles(
    table: nw.DataFrame[Any], patterns: Sequence[str]
) -> Iterator[tuple[str, ValueProfile | None]]:
    """Look at all variables; where there are many short ones, at many in one go.

    Every call on a variable costs more than its values do where a table is wide and short. The
    patterns are counted among the values of texts at the same time.
    """
    frame = table.to_native()
    together: dict[str, ValueProfile] = {}
    if isinstance(frame, pl.DataFrame) and frame.width >= _WIDE and 0 < frame.height <= _SAMPLE:
        by_type: dict[pl.DataType, list[pl.Series]] = {}
        for column in frame:
            if column.dtype in _PLAIN:
                by_type.setdefault(column.dtype, []).append(column)
        size = max(1, _TOGETHER // frame.height)
        for columns in by_type.values():
            for start in range(0, len(columns), size):
                some = columns[start : start + size]
                together |= zip(
                    (column.name for column in some),
                    _read_together(
                        some,
                        [
                            *patterns,
                            _ISO_DATE,
                            _RANGE,
                            _NOTATION,
                            SENTENCE,
                            *LISTS_OF_CODES.values(),
                        ],
                    ),
                    strict=True,
                )
    for name in table.columns:
        yield name, together[name] if name in together else read_profile(table, name)


_PLAIN = (pl.Int64, pl.Float64, pl.String, pl.Date, pl.Boolean)


def _read_together(columns: list[pl.Series], patterns: Sequence[str]) -> Iterator[ValueProfile]:
    """The profiles of columns of one type and height."""
    stacked = pl.concat(columns, rechunk=True)
    number = np.repeat(np.arange(len(columns)), len(columns[0]))
    cells = pl.DataFrame({"column": number, "value": stacked})
    family = _get_family(stacked.dtype)
    if family == "text":
        cells = cells.filter(pl.col("value").str.strip_chars() != "")
    elif stacked.dtype.is_float():
        cells = cells.with_columns(pl.col("value").fill_nan(None))
    runs = cells.drop_nulls().group_by("column", "value").len().sort("column", "value")
    ends = np.searchsorted(runs["column"].to_numpy(), np.arange(len(columns) + 1))
    values, counts = runs["value"], runs["len"]
    if runs.is_empty():
        for _ in columns:
            yield ValueProfile(family="empty", values=_NOTHING, counts=_NOTHING, ordered=False)
        return
    matches = _count_together(runs, patterns, len(columns)) if family == "text" else {}
    # The ends of all at once: to ask each column for its own costs more than to look at them
    least = values.gather(np.minimum(ends[:-1], len(runs) - 1)).to_list()
    most = values.gather(np.maximum(ends[1:] - 1, 0)).to_list()
    for index, (start, end) in enumerate(pairwise(ends.tolist())):
        if start == end:
            yield ValueProfile(family="empty", values=_NOTHING, counts=_NOTHING, ordered=False)
            continue
        yield ValueProfile(
            family=family,
            values=values.slice(start, end - start),
            counts=counts.slice(start, end - start),
            ordered=False,
            matches={pattern: int(numbers[index]) for pattern, numbers in matches.items()},
            extremes=(least[index], most[index]),
        )


def _count_together(
    runs: pl.DataFrame, patterns: Sequence[str], width: int
) -> dict[str, np.ndarray]:
    column = runs["column"].to_numpy()
    return {
        pattern: np.bincount(
            column, weights=runs["value"].str.contains(pattern).to_numpy(), minlength=width
        )
        for pattern in patterns
    }


def read_profile(table: nw.DataFrame[Any], name: str) -> ValueProfile | None:
    """Look at a variable; `None` where its values cannot be brought to one type."""
    series = table[name]
    ordered = isinstance(series.dtype, nw.Enum) or _has_declared_order(series.to_native())
    # Missing values go first: beside them pandas cannot turn categories into whole numbers.
    present = table[[name]].drop_nulls()
    try:
        values = _read_values(present, name)
    except DataError:
        return _profile_without_values(present[name], ordered=ordered)
    family = "empty" if values.is_empty() else _get_family(values.dtype)
    if family in ("empty", "other"):
        return ValueProfile(family=family, values=_NOTHING, counts=_NOTHING, ordered=ordered)
    # Sorted runs: distinct values and counts, whatever the order of the records.
    runs = values.sort().rle().struct.unnest()
    return ValueProfile(family=family, values=runs["value"], counts=runs["len"], ordered=ordered)


def _read_values(present: nw.DataFrame[Any], name: str) -> pl.Series:
    """The values in one of few types, blanks and NaN taken out."""
    values = frames.get_column(present, name)
    categories = isinstance(present[name].dtype, nw.Categorical | nw.Enum)
    if categories and _get_family(values.dtype) == "other":
        # Levels of a kind of their own, such as the intervals of pandas.cut.
        values = frames.get_column(present.with_columns(nw.col(name).cast(nw.String)), name)
    if isinstance(values.dtype, pl.Decimal):
        values = values.cast(pl.Float64)
    elif values.dtype == pl.Duration:
        values = values.cast(pl.Int64)
    elif values.dtype == pl.String:
        values = values.set(values.str.strip_chars() == "", None)
    return values.drop_nulls()


def _get_family(dtype: pl.DataType) -> Family:
    if dtype.is_numeric():
        return "number"
    if dtype.is_temporal():
        return "date"
    if dtype == pl.Boolean:
        return "flag"
    return "text" if dtype == pl.String else "other"


def _profile_without_values(present: nw.Series[Any], *, ordered: bool) -> ValueProfile | None:
    """Lists and records leave the name to judge by; values of several types leave nothing."""
    if not _holds_collections(present):
        return None
    family: Family = "other" if len(present) else "empty"
    return ValueProfile(family=family, values=_NOTHING, counts=_NOTHING, ordered=ordered)


def _has_declared_order(native: Any) -> bool:
    """Whether a pyarrow dictionary says that its levels have an order."""
    return getattr(getattr(native, "type", None), "ordered", False) is True


def _holds_collections(series: nw.Series[Any]) -> bool:
    """Whether every value is a list or a record of its own."""
    return series.dtype.is_nested() or all(
        isinstance(value, Collection) and not isinstance(value, str | bytes)
        for value in series.to_list()
    )
