"""What was read, from where, and how: the facts that a custodian confirms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from sfumato.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

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


@dataclass(frozen=True, eq=False)
class Batches:
    """Records that come batch by batch, since all of them may be too many to hold.

    Parameters
    ----------
    schema : the types of the variables.
    height : how many records there are.
    read : gives them out, from the first to the last, as often as it is called.
    """

    schema: pl.Schema
    height: int
    read: Callable[[], Iterator[pl.DataFrame]] = field(repr=False)

    @classmethod
    def of(cls, frame: pl.DataFrame | Batches, order: np.ndarray | None, size: int) -> Batches:
        """Records in memory, in this order, so many at a time; others as they come."""
        if isinstance(frame, Batches):
            return frame
        # Gathering from many pieces costs ten times as much.
        table = frame.rechunk() if order is not None and frame.n_chunks() > 1 else frame

        def read() -> Iterator[pl.DataFrame]:
            for start in range(0, table.height, size):
                rows = slice(start, start + size)
                yield table[rows] if order is None else table[order[rows]]

        return cls(table.schema, table.height, read)

    def regroup(self, size: int) -> Iterator[pl.DataFrame]:
        """The same records, exactly so many at a time."""
        parts: list[pl.DataFrame] = []
        for batch in self.read():
            parts.append(batch)
            while (count := sum(part.height for part in parts)) >= size:
                together = pl.concat(parts)
                yield together[:size]
                parts = [together[size:]] if count > size else []
        if parts:
            yield pl.concat(parts)


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
            hint=f"in your copy of Sfumato: pip install '.[{extra}]'",
        ) from None
