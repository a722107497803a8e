"""Spreadsheets: the types are the sheet's own, and nothing in them is ever a formula."""

from __future__ import annotations

import math
import tempfile
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from sfumato.errors import DataError, did_you_mean
from sfumato.io.atomic import replace_file
from sfumato.io.csv_dialect import check_names
from sfumato.io.damage import refuse_damage
from sfumato.io.declared_types import apply_declared_types, require_flat, require_present
from sfumato.io.sheet_size import make_damage_error, require_reasonable_sheets
from sfumato.io.source import Progress, Source, SourceTable, load_library

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np

MOST_RECORDS = 1_048_575
MOST_VARIABLES = 16_384
MOST_LETTERS = 32_767
EXACT_DIGITS = 10**15
_SLICE = 50_000


def read_excel(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    progress: Progress | None = None,
    types: Mapping[str, str] | None = None,
    dates: Mapping[str, str] | None = None,
    sheet: str | int | None = None,
) -> SourceTable:
    """The records of one sheet, the first unless another is named; its first row is the header."""
    fastexcel = load_library("fastexcel", extra="formats", purpose="Reading spreadsheets")
    if path.suffix.lower() != ".xls":
        require_reasonable_sheets(path)
    with refuse_damage(make_damage_error(path)):
        # Absolute: the library would take ~ for the home folder
        book = fastexcel.read_excel(path.absolute())
        name = _choose_sheet(book.sheet_names, sheet)
        names = _read_names(book, name, path)
        # Types must come from all rows: a sample would turn later texts into missing cells
        frame = book.load_sheet(name, schema_sample_rows=None).to_polars()
        frame.columns = names
    frame, skipped = _skip_empty_rows(frame)
    if columns is not None:
        require_present(names, columns)
        frame = frame.select(columns)
    frame = frame.with_columns(
        narrowed for column in frame if (narrowed := _convert_narrow(column)) is not None
    )
    frame, readings, notes = apply_declared_types(
        frame, reason="its type in the spreadsheet", types=types, dates=dates
    )
    if skipped:
        single = skipped == 1
        rows = "1 row" if single else f"{skipped:,} rows"
        notes.append(f"{rows} without any value {'was' if single else 'were'} skipped.")
    if len(book.sheet_names) > 1:
        notes.append(f"Sheet '{name}' was read, one of {len(book.sheet_names)}.")
    if progress:
        progress(frame.height, frame.height)
    source = Source(
        format="excel", path=path, options={"sheet": name}, columns=readings, notes=tuple(notes)
    )
    return SourceTable(frame, source)


def list_sheets(path: Path) -> list[str]:
    """The names of the sheets of a spreadsheet, in their order."""
    fastexcel = load_library("fastexcel", extra="formats", purpose="Reading spreadsheets")
    if path.suffix.lower() != ".xls":
        require_reasonable_sheets(path)
    with refuse_damage(make_damage_error(path)):
        return [str(name) for name in fastexcel.read_excel(path.absolute()).sheet_names]


def _choose_sheet(names: list[str], wanted: str | int | None) -> str:
    if wanted is None:
        return names[0]
    if isinstance(wanted, int) and 0 <= wanted < len(names):
        return names[wanted]
    if wanted not in names:
        raise DataError(
            f"there is no sheet '{wanted}' in the spreadsheet.",
            hint=did_you_mean(str(wanted), names),
        )
    return str(wanted)


def _read_names(book: Any, sheet: str, path: Path) -> list[str]:
    """The header as it stands: the reader itself would rename repeated names in silence."""
    top = book.load_sheet(sheet, header_row=None, n_rows=1, dtypes="string").to_polars()
    if not top.height:
        raise DataError(f"sheet '{sheet}' of '{path.name}' is empty.", hint="name another sheet.")
    names = [name or "" for name in top.row(0)]
    check_names(names)
    return names


def _skip_empty_rows(frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The records, and how many rows were none: tables in sheets are set apart by empty rows.

    In a single variable such a row is a missing value.
    """
    if frame.width < 2:  # noqa: PLR2004 - more than one variable
        return frame, 0
    filled = frame.select(
        pl.any_horizontal(
            (pl.col(name).str.strip_chars() != "").fill_null(value=False)
            if dtype == pl.String
            else pl.col(name).is_not_null()
            for name, dtype in frame.schema.items()
        )
    ).to_series()
    return frame.filter(filled), int((~filled).sum())


def _convert_narrow(column: pl.Series) -> pl.Series | None:
    """Spreadsheets know neither whole numbers nor days: the narrower type where all cells fit."""
    if column.dtype == pl.Null:
        return column.cast(pl.String)
    if column.dtype.is_float() and column.is_finite().all():
        integral = column.cast(pl.Int64, strict=False)
        return integral if (integral == column).all() and column.count() else None
    if column.dtype == pl.Datetime:
        days = column.cast(pl.Date)
        same = days.cast(column.dtype) == column
        return days if same.all() and column.count() else column.cast(pl.Datetime("us"))
    return None


def write_excel(
    frame: pl.DataFrame,
    path: Path,
    *,
    order: np.ndarray | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write one sheet. Text is written as text, whatever it starts with."""
    xlsxwriter = load_library("xlsxwriter", extra="formats", purpose="Writing spreadsheets")
    _check_limits(frame)
    settings: dict[str, Any] = {
        "constant_memory": True,
        "strings_to_formulas": False,
        "strings_to_urls": False,
        "strings_to_numbers": False,
    }
    # The writer keeps rows in temporary files: in a folder that only we can read
    with replace_file(path) as sibling, tempfile.TemporaryDirectory(prefix="sfumato-") as private:
        book = xlsxwriter.Workbook(str(sibling), {**settings, "tmpdir": private})
        # No clock in the file: equal records give equal bytes
        book.set_properties({"created": datetime(2000, 1, 1, tzinfo=UTC).replace(tzinfo=None)})
        sheet = book.add_worksheet("data")
        for index, name in enumerate(frame.columns):
            sheet.write_string(0, index, name)
        writers = [_make_writer(book, sheet, dtype) for dtype in frame.dtypes]
        for start in range(0, frame.height, _SLICE):
            part = (
                frame[start : start + _SLICE]
                if order is None
                else frame[order[start : start + _SLICE]]
            )
            for row, cells in enumerate(part.iter_rows(), start + 1):
                for index, cell in enumerate(cells):
                    if cell is not None:
                        writers[index](row, index, cell)
            if progress:
                progress(min(start + _SLICE, frame.height), frame.height)
        book.close()
    return {"records": frame.height, "escaped_cells": 0}


def _make_writer(book: Any, sheet: Any, dtype: pl.DataType) -> Any:
    if dtype == pl.Boolean:
        return sheet.write_boolean
    if dtype.is_numeric():
        return lambda row, index, cell: (
            None if math.isnan(cell) else sheet.write_number(row, index, cell)
        )
    if dtype in (pl.Date, pl.Datetime):
        shown = "yyyy-mm-dd" if dtype == pl.Date else "yyyy-mm-dd hh:mm:ss.000"
        style = book.add_format({"num_format": shown})
        return lambda row, index, cell: sheet.write_datetime(
            row, index, cell.replace(tzinfo=None) if isinstance(cell, datetime) else cell, style
        )
    return lambda row, index, cell: sheet.write_string(row, index, str(cell))


def _check_limits(frame: pl.DataFrame) -> None:
    """Refuse what a spreadsheet would cut off or round in silence."""
    require_flat(frame)
    if frame.height > MOST_RECORDS or frame.width > MOST_VARIABLES:
        raise DataError(
            f"a spreadsheet holds {MOST_RECORDS} records of {MOST_VARIABLES} variables at most.",
            hint="write .csv or .parquet.",
        )
    empty = int(frame.select(pl.all_horizontal(pl.all().is_null()).sum()).item())
    if empty:
        records = "1 record has" if empty == 1 else f"{empty:,} records have"
        raise DataError(
            f"{records} no value in any variable, and would be an empty row in a spreadsheet.",
            hint="write .csv or .parquet.",
        )
    for column in frame:
        why = ""
        if column.dtype.is_integer() and (column.abs() >= EXACT_DIGITS).any():
            why = "whole numbers of more than 15 digits, which a spreadsheet rounds"
        elif column.dtype.is_float() and column.is_infinite().any():
            why = "infinite numbers, which a spreadsheet does not know"
        elif column.dtype == pl.String and (column.str.len_chars() > MOST_LETTERS).any():
            why = f"texts of more than {MOST_LETTERS} letters, which a spreadsheet cuts off"
        elif column.dtype in (pl.Date, pl.Datetime) and (column.dt.year() < 1900).any():  # noqa: PLR2004 - where its calendar begins
            why = "dates before 1900, which a spreadsheet does not know"
        if why:
            raise DataError(f"variable '{column.name}' has {why}.", hint="write .csv or .parquet.")
