"""SPSS, Stata and SAS files: values with their labels and their declared missing codes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from sfumato.errors import DataError
from sfumato.io.atomic import replace_file
from sfumato.io.damage import refuse_damage
from sfumato.io.declared_types import apply_declared_types, require_flat, require_present
from sfumato.io.room import require_room
from sfumato.io.source import Progress, Source, SourceTable, load_library
from sfumato.io.transport_size import require_whole_transport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np

    from sfumato.io.source import Reading

_LONGEST = {".dta": 80}
_MOST_CODES = 3
"""That SPSS has for missing values of a variable."""
_FORMATS = {
    ".sav": ("spss", "SPSS", "read_sav"),
    ".zsav": ("spss", "SPSS", "read_sav"),
    ".dta": ("stata", "Stata", "read_dta"),
    ".sas7bdat": ("sas", "SAS", "read_sas7bdat"),
    ".xpt": ("sas", "SAS transport", "read_xport"),
}
_COMPRESSED = (".zsav", ".sas7bdat")
_MOST_COMPRESSED = 1032
"""No stream of zlib holds more bytes for each of its own."""


def read_statistical(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    progress: Progress | None = None,
    types: Mapping[str, str] | None = None,
    dates: Mapping[str, str] | None = None,
    encoding: str | None = None,
) -> SourceTable:
    """The records of an SPSS, Stata or SAS file.

    User-missing codes stay values in the frame and are named in the readings. These formats
    have no missing text: an empty one is read as missing.
    """
    kind, title, reader = _FORMATS[path.suffix.lower()]
    pyreadstat = load_library("pyreadstat", extra="formats", purpose=f"Reading {title} files")
    read = getattr(pyreadstat, reader)
    options: dict[str, Any] = {"output_format": "polars", "encoding": encoding}
    if path.suffix.lower() != ".xpt":
        options["user_missing"] = True
    damage = DataError(
        f"'{path.name}' cannot be read as a {title} file.",
        hint="was it copied in full? if its accented letters are old, pass encoding='cp1252'.",
    )
    file = path.absolute()  # the library would take ~ for the home folder
    with refuse_damage(damage):
        _, head = read(file, metadataonly=True, encoding=encoding)
        if columns is not None:
            require_present(head.column_names, columns)
            options["usecols"] = list(columns)
        if path.suffix.lower() == ".xpt":
            require_whole_transport(path)
        _require_plausible_size(path, head.number_rows or 0, len(head.column_names))
        width = len(head.column_names if columns is None else columns)
        require_room(path, records=head.number_rows or 0, variables=width, bytes_per_cell=8)
        frame, meta = read(file, **options)
        if columns is not None:
            frame = frame.select(columns)
        frame, letters = _simplify_columns(frame)
    frame, readings, notes = apply_declared_types(
        frame, reason=f"its type in the {title} file", types=types, dates=dates
    )
    ranges = {
        name: list(given_ranges)
        for name, given_ranges in meta.missing_ranges.items()
        if name in readings
    }
    for name, reading in readings.items():
        readings[name] = _add_labels(frame[name], reading, meta, ranges.get(name, []))
        if name in letters:
            coded = tuple(f".{letter}" for letter in letters[name])
            readings[name] = replace(readings[name], missing_codes=coded)
            notes.append(
                f"Variable '{name}': the special missing values {', '.join(coded)} "
                "were read as missing; which of them a cell had is not kept."
            )
    if progress:
        progress(frame.height, frame.height)
    source = Source(
        format=kind,
        path=path,
        options={"missing_ranges": ranges} if ranges else {},
        columns=readings,
        notes=tuple(notes),
    )
    return SourceTable(frame, source)


def _require_plausible_size(path: Path, records: int, variables: int) -> None:
    """Refuse a file too small for the records it says it has, before memory is reserved for them.

    A cell takes a byte at least; where the file is compressed as a whole or by rows, a thousandth.
    """
    most = path.stat().st_size * (_MOST_COMPRESSED if path.suffix.lower() in _COMPRESSED else 1)
    if records * variables > most:
        raise DataError(
            f"'{path.name}' says that it has {records:,} records of {variables:,} variables, more "
            "than fit into it.",
            hint="was it copied in full?",
        )


def _simplify_columns(frame: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, list[str]]]:
    """Numbers as whole numbers where all are, empty texts as missing, special missing as missing.

    Also the letters of the special missing values (.a to .z) met in each variable.
    """
    letters: dict[str, list[str]] = {}
    changed = []
    for column in frame:
        simple = column
        if column.dtype == pl.Object:  # numbers with letters between them
            cells = column.to_list()
            letters[column.name] = sorted({cell for cell in cells if isinstance(cell, str)})
            numbers = [None if isinstance(cell, str) else cell for cell in cells]
            simple = pl.Series(column.name, numbers, strict=False)
        if simple.dtype == pl.String:
            simple = simple.set(simple == "", None)
        elif simple.dtype.is_float() and simple.count():
            integral = simple.cast(pl.Int64, strict=False)
            if integral.null_count() == simple.null_count() and (integral == simple).all():
                simple = integral
        elif simple.dtype == pl.Null:
            simple = simple.cast(pl.Float64)
        if simple is not column:
            changed.append(simple)
    return frame.with_columns(changed), letters


def _add_labels(
    column: pl.Series, reading: Reading, meta: Any, ranges: list[dict[str, Any]]
) -> Reading:
    """The reading with the labels of the variable and its values, and its missing codes."""
    integral = column.dtype.is_integer()
    labels = {
        int(code) if integral and isinstance(code, float) and code.is_integer() else code: text
        for code, text in meta.variable_value_labels.get(column.name, {}).items()
    }
    codes: set[Any] = set()
    for missing_range in ranges:
        low, high = missing_range["lo"], missing_range["hi"]
        met = column.filter(column.is_between(low, high)).unique().to_list()
        single = [int(low) if integral and float(low).is_integer() else low] if low == high else []
        codes.update(met, single, (code for code in labels if _is_within(code, low, high)))
    return replace(
        reading,
        label=meta.column_names_to_labels.get(column.name) or "",
        values=labels,
        missing_codes=tuple(sorted(codes)),
    )


def _is_within(code: Any, low: Any, high: Any) -> bool:
    return isinstance(code, type(low) | int | float) and bool(low <= code <= high)


def write_statistical(
    frame: pl.DataFrame,
    path: Path,
    *,
    source: Source | None = None,
    order: np.ndarray | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write an SPSS, Stata or SAS transport file, with the labels that still apply.

    Missing codes are written for variables that are still numeric; Stata has labels for the values
    of those only, SPSS for those of text as well.
    """
    pyreadstat = load_library("pyreadstat", extra="formats", purpose="Writing this format")
    require_flat(frame)
    readings = dict(source.columns) if source else {}
    numeric = [name for name, dtype in frame.schema.items() if dtype.is_numeric()]
    suffix = path.suffix.lower()
    spss = suffix in {".sav", ".zsav"}
    labels = {name: readings[name].label for name in frame.columns if name in readings}
    options: dict[str, Any] = {
        "column_labels": {name: _shorten(label, suffix) for name, label in labels.items() if label}
    }
    if suffix != ".xpt":
        texts = [name for name, dtype in frame.schema.items() if dtype == pl.String and spss]
        options["variable_value_labels"] = {
            name: applying
            for name in (*numeric, *texts)
            if name in readings
            and (applying := _filter_labels(readings[name].values, set(frame[name].unique())))
        }
    if spss:
        options["compress"] = suffix == ".zsav"
        ranges = source.options.get("missing_ranges", {}) if source else {}
        options["missing_ranges"] = {
            name: codes
            for name in numeric
            if name in readings and (codes := _find_missing_codes(readings[name], ranges.get(name)))
        }
    write = {".dta": "write_dta", ".xpt": "write_xport"}.get(suffix, "write_sav")
    if order is not None:
        frame = frame[order]
    with replace_file(path) as sibling:
        try:
            getattr(pyreadstat, write)(_convert_columns(frame), sibling, **options)
        except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, ValueError, TypeError):
            raise DataError(
                f"these variables cannot be written as {suffix}.",
                hint="its rules for names and lengths of texts are narrow; write .csv or .parquet.",
            ) from None
        _remove_timestamp(sibling, suffix)
    if progress:
        progress(frame.height, frame.height)
    return {"records": frame.height, "escaped_cells": 0}


def _shorten(label: str, suffix: str) -> str:
    """A label as long as the format allows."""
    most = _LONGEST.get(suffix, len(label))
    return label if len(label) <= most else f"{label[: most - 1]}…"


def _find_missing_codes(reading: Reading, ranges: list[dict[str, Any]] | None) -> list[Any]:
    """The user-missing codes of a variable: as the file had them, or as they are declared."""
    codes = [code for code in reading.missing_codes if isinstance(code, (int, float))]
    if not codes or ranges:
        # What a method made of the variable may have no codes any more.
        return list(ranges or []) if codes else []
    return codes if len(codes) <= _MOST_CODES else []


def _filter_labels(labels: Mapping[Any, str], present: set[Any]) -> dict[Any, str]:
    """The labels of the values that are there: the others could disclose who was taken out."""
    return {code: text for code, text in labels.items() if code in present}


# Where the formats say when a file was made. Equal records are to give equal bytes, and the
# moment is nobody's business.
_MOMENTS = {
    ".sav": (rb"(?s)(?<=\A.{92}).{17}", b"01 Jan 7000:00:00"),
    ".zsav": (rb"(?s)(?<=\A.{92}).{17}", b"01 Jan 7000:00:00"),
    ".dta": (rb"(?s)(?<=<timestamp>.).{17}(?=</timestamp>)", b"01 Jan 1970 00:00"),
    ".xpt": (rb"[0-9]{2}[A-Z]{3}[0-9]{2}(:[0-9]{2}){3}", b"01JAN70:00:00:00"),
}


def _remove_timestamp(path: Path, suffix: str) -> None:
    pattern, moment = _MOMENTS[suffix]
    with path.open("r+b") as file:
        head = file.read(2048)
        file.seek(0)
        file.write(re.sub(pattern, moment, head))


def _convert_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """Categories as their text, times without zones, decimals as floats."""
    changes = []
    for name, dtype in frame.schema.items():
        if dtype in (pl.Categorical, pl.Enum):
            changes.append(pl.col(name).cast(pl.String))
        elif isinstance(dtype, pl.Datetime) and dtype.time_zone:
            changes.append(pl.col(name).dt.convert_time_zone("UTC").dt.replace_time_zone(None))
        elif dtype.is_decimal():
            changes.append(pl.col(name).cast(pl.Float64))
    return frame.with_columns(changes)
