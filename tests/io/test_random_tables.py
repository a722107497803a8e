"""Random tables: the rules of reading said cell by cell, and no difference between batches."""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.io.random_tables import make_table

from sfumato.errors import DataError
from sfumato.io import SourceTable, csv_reader, read_table
from sfumato.io.csv_types import TOKENS
from sfumato.io.missing_words import is_word_for_missing

SEEDS, MANY = range(250), range(250, 6000)


@pytest.mark.parametrize("check", ["batches", "cells"])
def test_random_tables_are_read_by_the_rules(check: str, tmp_path: Path) -> None:
    for seed in SEEDS:
        _CHECKS[check](seed, tmp_path)


@pytest.mark.study
@pytest.mark.parametrize("check", ["batches", "cells"])
def test_many_random_tables_are_read_by_the_rules(check: str, tmp_path: Path) -> None:
    for seed in MANY:
        _CHECKS[check](seed, tmp_path)


def check_batches(seed: int, folder: Path) -> None:
    """However the file is cut, the same comes out of it, or it is refused."""
    # The first batch shows the decimal sign
    decimal = make_table(seed).options.get("decimal", ".")
    whole = read_seed(seed, folder, decimal=decimal)
    for size in (40, 333):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(csv_reader, "BATCH_BYTES", size)
            parts = read_seed(seed, folder, decimal=decimal)
        assert (seed, type(parts)) == (seed, type(whole))
        if isinstance(whole, SourceTable) and isinstance(parts, SourceTable):
            assert (seed, parts.source) == (seed, whole.source)
            assert parts.frame.schema == whole.frame.schema
            assert parts.frame.equals(whole.frame), seed


def check_cells(seed: int, folder: Path) -> None:
    """Every cell is what stands in the file, and every column what the rules say of its cells."""
    plain: dict[str, Any] = dict.fromkeys(("types", "dates", "missing", "columns"))
    typed = read_seed(seed, folder, **plain, decimal=".", formulas="keep")
    if isinstance(typed, DataError):
        return
    names = typed.frame.columns
    plain["types"] = dict.fromkeys(names, "text")
    text = read_seed(seed, folder, **plain, decimal=".", formulas="keep")
    assert isinstance(text, SourceTable)
    cells = [[cell or "" for cell in row] for row in text.frame.rows()]
    records = split_records(seed, typed.source.options)
    returns = {cell for row in cells for cell in row if "\r" in cell}
    if not returns or (typed.source.options["quote"] and returns <= {"\r\n", "ends\r"}):
        assert (seed, [names, *cells]) == (seed, records)  # else Python ends a record there
    for name in names:
        if name in typed.source.options["dates"]:
            continue  # the order of day and month has tests of its own
        column = text.frame[name].to_list()
        found = (typed.source.columns[name].type, typed.frame[name].to_list())
        assert (seed, name, *found) == (seed, name, *find_kind(column))


_CHECKS = {"batches": check_batches, "cells": check_cells}


def read_seed(seed: int, folder: Path, **options: Any) -> SourceTable | DataError:
    """The table of this seed, or the error for it."""
    table = make_table(seed)
    path = folder / table.name
    path.write_bytes(table.content)
    try:
        return read_table(path, **(table.options | options))
    except DataError as error:
        return error


def split_records(seed: int, dialect: Any) -> list[list[str]]:
    """The records of the file, as Python's own reader splits them."""
    table = make_table(seed)
    content = gzip.decompress(table.content) if table.name.endswith(".gz") else table.content
    text = content.decode(dialect["encoding"]).removeprefix("\ufeff")
    style: dict[str, Any] = {"quoting": csv.QUOTE_NONE}
    if dialect["quote"]:
        style = {"quotechar": dialect["quote"]}
    stream = io.StringIO(text, newline="")
    records = list(csv.reader(stream, delimiter=dialect["delimiter"], **style))
    if len(records[0]) == 1:
        return [record or [""] for record in records]
    return [record for record in records if record]


def find_kind(cells: list[str | None]) -> tuple[str, list[Any]]:
    """The kind of a column and its values, by the rules: text first, and in doubt."""
    present = [cell for cell in cells if cell and cell not in TOKENS]
    for kind, read_cell in _RULES.items():
        values = [read_cell(cell) for cell in present]
        words = {cell for cell, value in zip(present, values, strict=True) if value is None}
        if not present or not all(map(is_word_for_missing, words)):
            continue
        typed = {
            cell: None if is_nan(value) else value
            for cell, value in zip(present, values, strict=True)
        }
        several = len(set(typed.values()) - {None}) > 1
        if words and (kind == "boolean" or len(words) > 5 or not several):
            continue
        forms = {get_form(cell) for cell in typed.keys() - words}
        if kind != "datetime" or len(forms) == 1:
            return kind, [typed.get(cell or "") for cell in cells]
    return "text", cells


def read_integer(cell: str) -> int | None:
    """A whole number of 64 bits, written as one writes it."""
    if not re.fullmatch("0|-?[1-9][0-9]*", cell):
        return None
    return int(cell) if -(2**63) <= int(cell) < 2**63 else None


def read_number(cell: str) -> float | None:
    """A number that says all that its text says."""
    if re.match(r"\+|-?0[0-9]", cell) and cell.lower().lstrip("+-") != "nan":
        return None
    if re.fullmatch("-?[0-9]+", cell) and abs(float(cell)) >= 2**53:
        return None
    try:
        return float(cell) if cell == cell.strip() and "_" not in cell else None
    except ValueError:
        return None


def read_boolean(cell: str) -> bool | None:
    """A truth value in one of three spellings."""
    return {"true": True, "false": False}.get(cell.lower()) if cell in _SPELLINGS else None


_SPELLINGS = ("true", "True", "TRUE", "false", "False", "FALSE")


def read_date(cell: str) -> date | None:
    """A day of the calendar, written year-month-day."""
    try:
        return date.fromisoformat(cell) if re.fullmatch("[0-9]{4}(-[0-9]{2}){2}", cell) else None
    except ValueError:
        return None


def read_datetime(cell: str) -> datetime | None:
    """A moment in one of the ISO forms."""
    if not re.fullmatch(r"[0-9-]{10}[T ][0-9]{2}(:[0-9]{2}){1,2}(\.[0-9]{1,6})?Z?", cell):
        return None
    whole, _, fraction = cell.removesuffix("Z").partition(".")
    moment = datetime.fromisoformat(whole).replace(microsecond=int(f"{fraction:0<6}"))
    return moment.replace(tzinfo=UTC) if cell.endswith("Z") else moment


def is_nan(value: object) -> bool:
    """Whether this is not-a-number."""
    return isinstance(value, float) and math.isnan(value)


def get_form(cell: str) -> tuple[str, int, bool]:
    """What must be alike in all date-times of a column."""
    return cell[10:11], cell.count(":"), cell.endswith("Z")


_RULES: dict[str, Callable[[str], Any]] = {
    "integer": read_integer,
    "number": read_number,
    "boolean": read_boolean,
    "date": read_date,
    "datetime": read_datetime,
}
