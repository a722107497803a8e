"""Types from text: a column is what all its cells are, and text whenever that is in doubt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from sfumato.io.source import DTYPES, has_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.io.source import Kind

#: What people write for "no value" in columns of numbers and dates. In text it is text:
#: NA is Namibia.
TOKENS = frozenset(
    {"NA", "N/A", "NaN", "nan", "null", "NULL", "Null", ".", "-", "#N/A", "None", "none", "n/a"}
)
#: From here on a 64-bit float cannot tell neighbouring whole numbers apart.
EXACT = 2**53

_TRUE = ("true", "True", "TRUE")
_FALSE = ("false", "False", "FALSE")


@dataclass(frozen=True)
class Manner:
    """How the cells of one column are to be understood."""

    decimal: str = "."
    tokens: frozenset[str] = TOKENS
    pattern: str = ""  # of dates; empty: the one ISO form the cells have
    strict: bool = True  # False where the type was told: then 007 may be a number


@dataclass(frozen=True)
class Parsed:
    """The typed cells, and the tokens that were read as missing."""

    values: pl.Series
    missing: frozenset[str] = frozenset()


def parse(text: pl.Series, kind: Kind, manner: Manner) -> Parsed | None:
    """The column as this kind, or None if a single cell does not fit."""
    if kind == "text":
        return Parsed(text)
    if not manner.strict:
        text = text.str.strip_chars()
    return _PARSERS[kind](text, manner)


def misfits(text: pl.Series, kind: Kind, manner: Manner) -> pl.Series:
    """Which cells (by place) keep the column from being of a kind that was told."""
    cells = text.str.strip_chars()
    apart = cells.is_not_null() & ~cells.is_in(["", *manner.tokens])
    if kind == "boolean":
        return (apart & ~cells.is_in([*_TRUE, *_FALSE])).arg_true()
    typed = _values(cells, kind, manner)
    return (apart & typed.is_null()).arg_true()


def _values(text: pl.Series, kind: Kind, manner: Manner) -> pl.Series:
    if kind == "number" and manner.decimal == ",":
        text = text.set(text.str.contains(".", literal=True), None)
        text = text.str.replace(",", ".", literal=True)
    if kind in {"integer", "number"}:
        return text.cast(DTYPES[kind], strict=False)
    pattern = manner.pattern or ("%Y-%m-%d" if kind == "date" else _iso(text, manner.tokens))
    dtype: pl.Date | pl.Datetime = pl.Date() if kind == "date" else pl.Datetime("us")
    if not pattern:
        return pl.Series(text.name, [None], dtype=dtype).new_from_index(0, len(text))
    if kind == "datetime" and not has_time(pattern):
        return text.str.to_date(pattern, strict=False).cast(dtype)
    values = text.str.strptime(dtype, pattern, strict=False)
    return values.dt.replace_time_zone("UTC") if pattern.endswith("Z") else values


def _rest(text: pl.Series, values: pl.Series, tokens: frozenset[str]) -> frozenset[str] | None:
    """The tokens among the cells without a value; None if one of them is no token."""
    if values.null_count() == text.null_count():
        return frozenset()
    odd = text.filter(values.is_null() & text.is_not_null())
    if not odd.is_in(["", *tokens]).all():
        return None
    return frozenset(odd.unique().to_list()) - {""}


def _integer(text: pl.Series, manner: Manner) -> Parsed | None:
    values = text.cast(pl.Int64, strict=False)
    missing = _rest(text, values, manner.tokens)
    if missing is None:
        return None
    if manner.strict:
        doubtful = _doubtful(text, values)
        if len(doubtful) and not doubtful.str.contains(r"^-[1-9]").all():
            return None
    return Parsed(values, missing)


def _doubtful(text: pl.Series, values: pl.Series) -> pl.Series:
    """The numbers that may have a leading zero or a sign: all of those sort before "1".

    Few cells, or none. Few calls as well: wide tables pay for each of them per column.
    """
    early = (text < "1") & (text != "0")
    return text.filter(early & values.is_not_null()) if early.any() else text.clear()


def _number(text: pl.Series, manner: Manner) -> Parsed | None:
    values = _values(text, "number", manner)
    missing = _rest(text, values, manner.tokens)
    if missing is None:
        return None
    nan = values.is_nan()
    if nan.any():
        missing |= frozenset(text.filter(nan).unique().to_list())
        values = values.fill_nan(None)
    if manner.strict and _changed(text, values):
        return None
    return Parsed(values, missing)


def _changed(text: pl.Series, values: pl.Series) -> bool:
    """Whether a number would lose what the text says: leading zeros, a plus, last digits."""
    doubtful = _doubtful(text, values)
    if len(doubtful) and doubtful.str.contains(r"^(\+|-?0[0-9])").any():
        return True
    low, high = values.min(), values.max()
    if low is None or (low > -EXACT and high < EXACT):  # type: ignore[operator]  # floats, where there are any
        return False
    return bool(text.filter(values.abs() >= EXACT).str.contains(r"^-?[0-9]+$").any())


def _boolean(text: pl.Series, manner: Manner) -> Parsed | None:
    true = text.is_in(list(_TRUE))
    values = true.set(~(true | text.is_in(list(_FALSE))), None)
    missing = _rest(text, values, manner.tokens)
    return None if missing is None else Parsed(values, missing)


def _temporal(kind: Kind) -> Callable[[pl.Series, Manner], Parsed | None]:
    def parser(text: pl.Series, manner: Manner) -> Parsed | None:
        values = _values(text, kind, manner)
        missing = _rest(text, values, manner.tokens)
        if missing is None:
            return None
        # Lenient parsers take 2021-1-5 and 21-01-05 as well; a guess must not
        if manner.strict:
            shape = _DATE if kind == "date" else _DATETIME
            if not text.filter(values.is_not_null()).str.contains(shape).all():
                return None
        return Parsed(values, missing)

    return parser


_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_DATETIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?Z?$"


def present_cells(text: pl.Series, tokens: frozenset[str]) -> pl.Series:
    """The cells that hold something: neither empty nor a token for missing."""
    return text.filter(text.is_not_null() & ~text.is_in(["", *tokens]))


def _iso(text: pl.Series, tokens: frozenset[str]) -> str:
    """The ISO pattern of the first date-time in the column, empty if it is none."""
    cells = present_cells(text, tokens).head(1)
    if not cells.str.contains(_DATETIME).any():
        return ""
    return iso_pattern(cells[0])


def iso_pattern(cell: str) -> str:
    """The pattern of an ISO date-time: `T` or space, with or without seconds, with or without Z.

    Of a text that is none, a pattern that will not fit it.

    Examples
    --------
    >>> iso_pattern("2021-04-03 10:15")
    '%Y-%m-%d %H:%M'
    """
    seconds = "%H:%M:%S%.f" if cell.count(":") == 2 else "%H:%M"  # noqa: PLR2004 - hours:minutes:seconds
    between = " " if cell[10:11] == " " else "T"
    return f"%Y-%m-%d{between}{seconds}{'Z' if cell.endswith('Z') else ''}"


_PARSERS: dict[str, Callable[[pl.Series, Manner], Parsed | None]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _temporal("date"),
    "datetime": _temporal("datetime"),
}
