"""The notation of generalised cells in text."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

from sfumato.errors import DataError, MethodError
from sfumato.schema import Column

WILDCARD = "*"
RANGE = re.compile(r"\[([^;]*);([^;]*)\]", re.DOTALL)
SET = re.compile(r"\{(.*)\}", re.DOTALL)
MASK = re.compile(r"([^*]+)(\*+)", re.DOTALL)
Type = Literal["number", "date", "level"]
_PLAIN = 1e15
"""Whole numbers from here on keep their exponent."""
_DIGITS = 1000
"""Numbers with more digits than this are no values that somebody has."""
_EPOCH = dt.date(1970, 1, 1).toordinal()


def written(value: Any) -> str:
    """A value as the text of its cell; whole numbers without a point, dates as 1970-01-31.

    Examples
    --------
    >>> [written(value) for value in (26, 26.0, 26.5, dt.date(1970, 1, 31), True, "a")]
    ['26', '26', '26.5', '1970-01-31', 'true', 'a']
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return str(int(value)) if value == value.to_integral_value() else f"{value.normalize():f}"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < _PLAIN else repr(value)
    return str(value)


def range_of(low: str, high: str, name: str) -> str:
    """A range with both its ends; of two ranges, what they span."""
    ends = [RANGE.fullmatch(end) for end in (low, high)]
    first = ends[0][1] if ends[0] else _single(low, name)
    last = ends[1][2] if ends[1] else _single(high, name)
    return f"[{first};{last}]"


def set_of(values: Iterable[str], name: str) -> str:
    """A set of values."""
    return "{" + ";".join(_single(value, name) for value in values) + "}"


def _single(value: str, name: str) -> str:
    if ";" in value:
        raise MethodError(
            f"Variable '{name}' has a level with a semicolon, which separates values in a range "
            "or a set.",
            hint="rename the level first.",
        )
    return value


def type_of(texts: Iterable[str], column: Column, name: str) -> Type:
    """What the cells of a text variable stand for: numbers, dates or levels.

    The declared kind decides. Where it names categories or text, ranges of numbers or of dates
    make it numbers or dates: that is what coarsening leaves behind.
    """
    if column.kind in ("integer", "continuous"):
        return "number"
    if column.kind == "date":
        return "date"
    levels = {str(level) for level in column.levels or ()}
    found = {
        _type_of_range(match[1], match[2], levels) for match in map(RANGE.fullmatch, texts) if match
    }
    if len(found) > 1:
        raise DataError(
            f"Variable '{name}' mixes ranges of different kinds.",
            hint="a variable's ranges are all of numbers, of dates, or of its declared levels.",
        )
    return found.pop() if found else "level"


def _type_of_range(low: str, high: str, levels: set[str]) -> Type:
    if low in levels and high in levels:
        return "level"
    kinds: tuple[Type, ...] = ("number", "date")
    for kind in kinds:
        if _parsed(low, kind) is not None and _parsed(high, kind) is not None:
            return kind
    return "level"


def number_of(text: str, kind: str, name: str) -> Any:
    """A number, or the days since 1970; never a guess."""
    found = _parsed(text, kind)
    if found is None:
        what = "a date such as 1970-01-31" if kind == "date" else "a number"
        raise DataError(
            f"Variable '{name}' has a cell that is neither {what} nor a range, set or wildcard.",
            hint="correct it, or declare the variable's kind in the schema.",
        )
    return found


def _parsed(text: str, kind: str) -> int | float | Decimal | None:
    """A number without loss: whole, a float where it is one, else with all its digits."""
    try:
        if kind == "date":
            return dt.date.fromisoformat(text.strip()).toordinal() - _EPOCH
        exact = Decimal(text.strip())
    except (ValueError, InvalidOperation):
        return None
    if exact.is_nan():
        return None
    if not exact.is_finite() or abs(exact.adjusted()) > _DIGITS:
        return float(exact)
    if exact == exact.to_integral_value():
        return int(exact)
    near = float(exact)
    return near if Decimal(repr(near)) == exact else exact
