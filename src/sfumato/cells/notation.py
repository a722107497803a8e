"""The notation of generalised cells in text: ranges, sets, masks and the wildcard.

`26` is a value; `[24;28]` a range with both its ends; `{a;b}` a set; `937**` every code of that
length with that beginning; `*` anything. The notation is the same in every file.

It is notation only where the schema declares the variable's cells as generalised, which every step
that writes it does. Elsewhere a `*` or `{f;m}` is a value like any other: see `mark_literals`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

import polars as pl

from sfumato.errors import DataError, MethodError
from sfumato.schema import Column

WILDCARD = "*"
RANGE = re.compile(r"\[([^;]*);([^;]*)\]", re.DOTALL)
SET = re.compile(r"\{(.*)\}", re.DOTALL)
# A noncharacter of Unicode, kept for internal use: before a text it says that it is a value.
_LITERAL = "\ufdd0"
MASK = re.compile(rf"([^*{_LITERAL}][^*]*)(\*+)", re.DOTALL)
CellType = Literal["number", "date", "level"]
# The same three and `*` as one pattern, for the engine.
_NOTATION = r"(?s)\A(?:\*|\[[^;]*;[^;]*\]|\{.*\}|[^*\x{fdd0}][^*]*\*+)\z"
_LAST = ("]", "}", WILDCARD)
# Whole numbers from here on keep their exponent.
_PLAIN = 1e15
# Numbers with more digits than this are no values that somebody has.
_DIGITS = 1000
_EPOCH = dt.date(1970, 1, 1).toordinal()


def format_value(value: Any) -> str:
    """A value as the text of its cell; whole numbers without a point, dates as 1970-01-31.

    Examples
    --------
    >>> [format_value(value) for value in (26, 26.0, 26.5, dt.date(1970, 1, 31), True, "a")]
    ['26', '26', '26.5', '1970-01-31', 'true', 'a']
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return str(int(value)) if value == value.to_integral_value() else f"{value.normalize():f}"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < _PLAIN else repr(value)
    return str(value)


def format_range(low: str, high: str, name: str) -> str:
    """A range with both its ends; of two ranges, what they span."""
    ends = [RANGE.fullmatch(end) for end in (low, high)]
    first = ends[0][1] if ends[0] else _require_single(low, name)
    last = ends[1][2] if ends[1] else _require_single(high, name)
    return f"[{first};{last}]"


def format_set(values: Iterable[str], name: str) -> str:
    """A set of values."""
    return "{" + ";".join(_require_single(value, name) for value in values) + "}"


def _require_single(value: str, name: str) -> str:
    if ";" in value:
        raise MethodError(
            f"Variable '{name}' has a level with a semicolon, which separates values in a range "
            "or a set.",
            hint="rename the level first.",
        )
    return value


def infer_cell_type(texts: Iterable[str], column: Column, name: str) -> CellType:
    """What the cells of a text variable stand for: numbers, dates or levels.

    The declared kind decides. Where it names categories or text, and the cells are generalised,
    ranges of numbers or of dates make it numbers or dates: that is what coarsening leaves behind.
    """
    if column.kind in ("integer", "continuous"):
        return "number"
    if column.kind == "date":
        return "date"
    if not column.generalised:
        return "level"
    levels = {str(level) for level in column.levels or ()}
    ranges = filter(None, map(RANGE.fullmatch, texts))
    types = {_infer_range_type(match[1], match[2], levels) for match in ranges}
    if len(types) > 1:
        raise DataError(
            f"Variable '{name}' mixes ranges of different kinds.",
            hint="a variable's ranges are all of numbers, of dates, or of its declared levels.",
        )
    return types.pop() if types else "level"


def _infer_range_type(low: str, high: str, levels: set[str]) -> CellType:
    if low in levels and high in levels:
        return "level"
    kinds: tuple[CellType, ...] = ("number", "date")
    for kind in kinds:
        if _parse_exactly(low, kind) is not None and _parse_exactly(high, kind) is not None:
            return kind
    return "level"


def parse_number(text: str, kind: str, name: str) -> Any:
    """A number, or the days since 1970; never a guess."""
    number = _parse_exactly(text, kind)
    if number is None:
        what = "a date such as 1970-01-31" if kind == "date" else "a number"
        raise DataError(
            f"Variable '{name}' has a cell that is neither {what} nor a range, set or wildcard.",
            hint="correct it, or declare the variable in the schema: its kind; "
            'cells = "generalised" if cells stand for several values; missing = ["*"] if `*` is '
            "a code for missing.",
        )
    return number


def _parse_exactly(text: str, kind: str) -> int | float | Decimal | None:
    """A number without loss: whole, a float where it is one, else with all its digits."""
    try:
        if kind == "date":
            return dt.date.fromisoformat(text.strip()).toordinal() - _EPOCH
        # Decimals keep all digits; a float is taken only where it is the same number.
        exact = Decimal(text.strip())
    except (ValueError, InvalidOperation):
        return None
    if exact.is_nan():
        return None
    if not exact.is_finite() or abs(exact.adjusted()) > _DIGITS:
        return float(exact)
    if exact == exact.to_integral_value():
        return int(exact)
    nearest = float(exact)
    return nearest if Decimal(repr(nearest)) == exact else exact


def is_generalised(text: str) -> bool:
    """Whether a cell is written as a range, a set or a mask.

    Examples
    --------
    >>> [is_generalised(text) for text in ("26", "[24;28]", "{a;b}", "937**", "*")]
    [False, True, True, True, False]
    """
    return any(pattern.fullmatch(text) for pattern in (RANGE, SET, MASK))


def reads_as_notation(text: str) -> bool:
    """Whether a text would be read as a range, a set, a mask or `*` in a generalised variable."""
    # By the last character first: that is cheap, and settles nearly all texts.
    return text[-1:] in _LAST and (text == WILDCARD or is_generalised(text))


def find_notation(values: pl.Series) -> pl.Series:
    """Which cells of a text variable read as notation; missing ones do not.

    Examples
    --------
    >>> find_notation(pl.Series(["26", "[24;28]", None, "*"])).to_list()
    [False, True, False, True]
    """
    return values.str.contains(_NOTATION).fill_null(value=False)


def mark_literals(texts: Sequence[str], column: Column) -> list[str]:
    """Texts as they are to be read: where nothing was generalised, all are values.

    Those that look like notation get a sign before them that no text has, and none of the
    patterns matches them any more.

    Examples
    --------
    >>> mark_literals(["f", "{f;m}"], Column(cells="generalised"))
    ['f', '{f;m}']
    >>> [is_generalised(text) for text in mark_literals(["f", "{f;m}"], Column())]
    [False, False]
    """
    if column.generalised:
        return list(texts)
    return mark_literal_values(pl.Series(texts, dtype=pl.String), column).to_list()


def is_literal(text: str) -> bool:
    """Whether a text was marked as a value that only looks like notation."""
    return text.startswith(_LITERAL)


def mark_literal_values(values: pl.Series, column: Column) -> pl.Series:
    """The same for all cells of a text variable."""
    if column.generalised:
        return values
    literal = find_notation(values)
    return (_LITERAL + values).zip_with(literal, values) if literal.any() else values


def mask_bounds(match: re.Match[str]) -> tuple[int, int]:
    """The least and the greatest number that a mask of digits such as `937**` stands for."""
    codes = 10 ** len(match[2])
    return int(match[1]) * codes, int(match[1]) * codes + codes - 1


def require_rising(low: Any, high: Any, name: str) -> None:
    """Refuse a range whose first end is above its second."""
    if low > high:
        raise DataError(
            f"Variable '{name}' has a range whose first end is above its second.",
            hint="write ranges as [lowest;highest].",
        )


def group_members(column: Column) -> dict[str, list[str]]:
    """The values of each group of the hierarchy, apart from groups that are values themselves."""
    groups: dict[str, list[str]] = {}
    values = column.hierarchy or {}
    for leaf, broader in values.items():
        for group in dict.fromkeys(broader):
            if group not in values and group != WILDCARD:
                groups.setdefault(group, []).append(leaf)
    return groups
