"""What was read, from where, and how: the facts that a custodian confirms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from sfumato.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

#: Called once per batch with what is done and the total, in a unit of the format's own
#: (bytes, records); the total is 0 where it cannot be known beforehand.
Progress = Callable[[int, int], None]

Kind = Literal["text", "integer", "number", "boolean", "date", "datetime"]
KINDS: tuple[Kind, ...] = ("text", "integer", "number", "boolean", "date", "datetime")

DTYPES: Mapping[str, pl.DataType] = {
    "text": pl.String(),
    "integer": pl.Int64(),
    "number": pl.Float64(),
    "boolean": pl.Boolean(),
    "date": pl.Date(),
    "datetime": pl.Datetime("us"),
}

_NOTHING: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How one variable was read, and why. Never holds a cell of the data.

    `missing` are the tokens that were read as missing; `missing_codes` are user-missing
    codes that stay values in the frame, for the schema to treat as missing.
    """

    type: Kind
    reason: str
    missing: tuple[str, ...] = ()
    label: str = ""
    values: Mapping[Any, str] = field(default_factory=lambda: _NOTHING)
    missing_codes: tuple[Any, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the records came from: format, path, what was detected or declared."""

    format: str
    path: Path | None = None
    options: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    columns: Mapping[str, Reading] = field(default_factory=lambda: _NOTHING)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SourceTable:
    """The records and how they were read."""

    frame: pl.DataFrame = field(repr=False)
    source: Source


def get_kind(dtype: pl.DataType | type[pl.DataType]) -> Kind:
    """The kind that a column of this type holds; whatever is none of the others is text.

    Examples
    --------
    >>> get_kind(pl.UInt8)
    'integer'
    """
    if dtype.is_integer():
        return "integer"
    if dtype.is_numeric():
        return "number"
    if dtype == pl.Boolean:
        return "boolean"
    if dtype == pl.Date:
        return "date"
    return "datetime" if dtype == pl.Datetime else "text"


def has_time(pattern: str) -> bool:
    """Whether a date pattern also tells the time of day."""
    return any(part in pattern for part in ("%H", "%I", "%M", "%S", "%T", "%R", "%s"))


def load_library(name: str, *, extra: str, purpose: str) -> Any:
    """A library that only some formats need, or an error that says how to install it."""
    try:
        return import_module(name)
    except ImportError:
        raise DataError(
            f"{purpose} needs the library '{name}', which is not installed.",
            hint=f"pip install 'sfumato[{extra}]'",
        ) from None
