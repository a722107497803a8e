"""Types that the custodian declares, and frames that bring their own types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from sfumato.errors import DataError, did_you_mean
from sfumato.io.csv_types import CellFormat, parse
from sfumato.io.source import DTYPES, KINDS, Kind, Reading, get_kind, has_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sfumato.io.source import Batches


def check_declared_types(
    names: Sequence[str], types: Mapping[str, str] | None, dates: Mapping[str, str] | None
) -> dict[str, Kind]:
    """The types declared per variable, after checking that variables and types exist."""
    known: dict[str, Kind] = {}
    for name, kind in (types or {}).items():
        require_present(names, [name])
        if kind not in KINDS:
            raise DataError(
                f"'{kind}' is not a type, in types for variable '{name}'.",
                hint=did_you_mean(str(kind), KINDS),
            )
        known[name] = next(other for other in KINDS if other == kind)
    for name, pattern in (dates or {}).items():
        require_present(names, [name])
        temporal: Kind = "datetime" if has_time(pattern) else "date"
        if known.setdefault(name, temporal) not in {"date", "datetime"}:
            raise DataError(
                f"variable '{name}' is declared as {known[name]} and a date at once.",
                hint="name it in types or in dates, not in both.",
            )
    return known


def require_present(names: Sequence[str], wanted: Iterable[str]) -> None:
    """Refuse names that are not among the variables, all at once."""
    absent = [name for name in wanted if name not in names]
    if absent:
        quoted = ", ".join(f"'{name}'" for name in absent)
        single = len(absent) == 1
        raise DataError(
            f"variable{'' if single else 's'} {quoted} {'is' if single else 'are'} not in "
            "the data.",
            hint=did_you_mean(absent[0], names),
        )


def apply_declared_types(
    frame: pl.DataFrame,
    *,
    reason: str,
    types: Mapping[str, str] | None = None,
    dates: Mapping[str, str] | None = None,
) -> tuple[pl.DataFrame, dict[str, Reading], list[str]]:
    """A frame of a typed format, its readings and notes.

    Nested columns are refused; not-a-number becomes missing, since no measure can use it.
    """
    require_flat(frame)
    kinds = check_declared_types(frame.columns, types, dates)
    readings: dict[str, Reading] = {}
    notes: list[str] = []
    for name in frame.columns:
        column = frame[name]
        why = reason
        missing: tuple[str, ...] = ()
        if column.dtype.is_float() and (nans := int(column.is_nan().sum())):
            column = column.fill_nan(None)
            why, missing = f"{reason}; not-a-number is read as missing", ("NaN",)
            notes.append(f"Variable '{name}': {nans} not-a-number cells were read as missing.")
        if name in kinds:
            column = _cast(column, kinds[name], (dates or {}).get(name))
            why = "as declared"
        if column is not frame[name]:
            frame = frame.with_columns(column)
        readings[name] = Reading(type=get_kind(column.dtype), reason=why, missing=missing)
    return frame, readings, notes


def require_flat(frame: pl.DataFrame | Batches) -> None:
    """Refuse columns whose cells are tables or objects themselves."""
    bad = [
        name
        for name, dtype in frame.schema.items()
        if dtype.is_nested() or dtype in (pl.Object, pl.Binary)
    ]
    if bad:
        quoted = ", ".join(f"'{name}'" for name in bad)
        raise DataError(
            f"the cells of {quoted} are lists, structures or raw bytes, not single values.",
            hint="give each part a variable of its own, or leave these out with columns=[…].",
        )


def _cast(column: pl.Series, kind: Kind, pattern: str | None) -> pl.Series:
    """The column in its declared type; cells that do not fit are an error with their number."""
    nothing = pl.Series(column.name, [None], dtype=DTYPES[kind]).new_from_index(0, len(column))
    integral = column.cast(pl.Int64, strict=False) if column.dtype.is_float() else column
    exact = (integral == column).all()
    if column.dtype == pl.String:
        parsed = parse(
            column, kind, CellFormat(tokens=frozenset(), pattern=pattern or "", strict=False)
        )
        cast = parsed.values if parsed else nothing
    elif kind == "text":
        # An Excel or Stata code 1067.0 is the text 1067
        cast = (integral if exact else column).cast(pl.String)
    elif kind == "integer":
        cast = column.cast(pl.Int64, strict=False) if exact else nothing
    elif kind == "boolean" and column.dtype.is_numeric():
        cast = column.cast(pl.Boolean) if column.is_in([0, 1]).all() else nothing
    elif kind in {"date", "datetime"} and column.dtype.is_numeric():
        cast = nothing  # since which day? Never guessed
    else:
        cast = column.cast(DTYPES[kind], strict=False)
    if cast.null_count() > column.null_count():
        raise DataError(
            f"not all cells of variable '{column.name}' are of the declared type, {kind}.",
            hint="declare another type, or correct the cells.",
        )
    return cast
