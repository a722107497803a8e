"""What is in the data: how they were read, their first records, and what is odd about them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from sfumato.data import Dataset
from sfumato.data.linked import ForeignKey
from sfumato.engines import engine_for
from sfumato.engines.local import BATCH
from sfumato.io import frames
from sfumato.io.excel import list_sheets
from sfumato.io.several import list_tables
from sfumato.kernels.memory import split_rows
from sfumato.progress import current_progress
from sfumato.schema.spelling import normalise_spellings
from sfumato.studio.tasks import Work, task
from sfumato.suggestion.key_search import check_key, suggest_keys, suggest_person

_SHOWN_COLUMNS = 50
"""Variables of which single records are shown at once."""
_LONGEST_CELL = 200
_SAMPLE = 200_000
"""Records that are looked at of a file that does not fit into memory."""
_SPELLED = 10_000
"""Different texts up to which spellings are compared."""
_MIXED = 0.5
"""The share of texts that read as numbers or dates from which on the others are odd."""
_DATE = r"^\s*\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\s*$"


def get_table(work: Work, table: str = "") -> Dataset:
    """The records of the table, or of one of several, as they were read."""
    if not work.source.linked:
        return work.raw
    tables = work.tables
    return tables[table] if table in tables else next(iter(tables.values()))


def bring_here(data: Dataset) -> Dataset:
    """The records, or a sample of those that are too many for memory."""
    if frames.is_in_memory(data.frame):
        return data
    sample = engine_for(data.frame).sample(data, data.columns, _SAMPLE)
    return Dataset(sample, data.schema, data.source)


@task(lane="quick", depends="source", keep=False)
def preview(
    work: Work, *, first: int = 0, rows: int = 20, table: str = "", column: int = 0
) -> dict[str, Any]:
    """Some records as they are in the file. They go to the page that asked, and nowhere else."""
    data = get_table(work, table)
    names = list(data.columns)[column : column + _SHOWN_COLUMNS]
    return {
        "records": len(data),
        "first": first,
        "column": column,
        "width": len(data.columns),
        "variables": names,
        "labels": {name: label for name in names if (label := data.schema[name].label)},
        "cells": _list_cells(data, names, first, rows),
    }


def _list_cells(data: Dataset, names: list[str], first: int, rows: int) -> list[list[Any]]:
    if frames.is_lazy(data.frame):
        frame = data.frame.select(names).slice(first, rows).collect()
    else:
        frame = frames.wrap(data.frame).select(names)[first : first + rows].to_polars()
    words = [data.schema[name].labels or {} for name in names]
    return [
        [_write_cell(cell, known) for cell, known in zip(row, words, strict=True)]
        for row in frame.iter_rows()
    ]


def _write_cell(cell: Any, words: Mapping[str, str]) -> list[str] | None:
    """The cell as text, and what its code stands for; None where there is nothing."""
    if cell is None:
        return None
    text = str(cell)
    short = text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…"
    return [short, words.get(str(int(cell)) if _is_whole(cell) else text, "")]


def _is_whole(cell: Any) -> bool:
    return isinstance(cell, float) and cell.is_integer()


@task(lane="slow", depends="source")
def describe_data(work: Work, *, table: str = "") -> dict[str, Any]:
    """How each variable was read and why, what is missing, and what looks wrong. No value."""
    whole = get_table(work, table)
    data = bring_here(whole)
    source, tell = whole.source, current_progress()
    variables = []
    for number, name in enumerate(data.columns):
        tell("looking at the variables", number, len(data.columns))
        variables.append({"name": name, **describe_variable(data, name)})
    tell("looking for duplicate rows", 0, 1)
    return {
        "records": len(whole),
        "looked_at": len(data),
        "format": "" if source is None else source.format,
        "options": {} if source is None else _list_options(source.options),
        "notes": [] if source is None else list(source.notes),
        "duplicates": _count_duplicates(data),
        "variables": variables,
    }


def _list_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """How the file was read; the server of a database has nothing to correct."""
    known = ("delimiter", "decimal", "encoding", "quote", "sheet", "missing", "dates")
    return {name: options[name] for name in known if options.get(name)}


def describe_variable(data: Dataset, name: str) -> dict[str, Any]:
    """What is known of one variable, in counts and words."""
    values = data.column(name)
    reading = None if data.source is None else data.source.columns.get(name)
    texts = values.drop_nulls().unique() if values.dtype == pl.String else None
    distinct = values.drop_nulls().n_unique() if texts is None else len(texts)
    return {
        "label": data.schema[name].label,
        "type": "" if reading is None else reading.type,
        "reason": "" if reading is None else reading.reason,
        "tokens": [] if reading is None else [str(token) for token in reading.missing],
        "distinct": distinct,
        "missing": values.null_count() / len(values) if len(values) else 0.0,
        "united": None if texts is None else _count_united(texts),
        "mixed": None if texts is None else _find_mixture(values),
    }


def _count_united(texts: pl.Series) -> int | None:
    """How many values there are if spellings of the same do not count; None where as many."""
    if not 1 < len(texts) <= _SPELLED:
        return None
    united = normalise_spellings(texts).n_unique()
    return united if united < len(texts) else None


def _find_mixture(values: pl.Series) -> dict[str, Any] | None:
    """What most texts of a variable read as, and how many cells do not; None where that is text."""
    cells = len(values) - values.null_count()
    if not cells:
        return None
    numeric = dates = 0
    for part in split_rows(len(values), BATCH):
        texts = values[part].drop_nulls()
        numbers = texts.str.strip_chars().str.replace(",", ".", literal=True)
        numeric += int(numbers.cast(pl.Float64, strict=False).is_not_null().sum())
        dates += int(texts.str.contains(_DATE).sum())
    for what, count in (("numbers", numeric), ("dates", dates)):
        # Dates throughout that were not read as dates: the day is unclear, or they are mixed.
        if _MIXED * cells <= count < cells or (what == "dates" and count == cells):
            return {"mostly": what, "others": cells - count}
    return None


def _count_duplicates(data: Dataset) -> int:
    """Rows that are the same in every variable as one before them."""
    frame = frames.wrap(data.frame).to_polars()
    # By digests of 64 bits: rows that are compared whole take several times their memory.
    return frame.height - frame.hash_rows().n_unique() if frame.height else 0


@task(lane="quick", depends="source", keep=False)
def list_spellings(work: Work, *, name: str, table: str = "") -> list[list[list[Any]]]:
    """Values that are spelled in several ways, each with its number of records."""
    data = bring_here(get_table(work, table))
    counted = data.column(name).drop_nulls().value_counts(name="records", sort=True)
    texts = counted[name].cast(pl.String)
    groups: dict[str, list[list[Any]]] = {}
    for key, text, count in zip(normalise_spellings(texts), texts, counted["records"], strict=True):
        groups.setdefault(key, []).append([text, count])
    return [group for group in groups.values() if len(group) > 1][:100]


@task(lane="quick", depends="source")
def list_book(work: Work) -> list[str]:
    """The sheets of a spreadsheet; none where it is none."""
    path = Path(work.source.where)
    return list_sheets(path) if path.suffix.lower() in (".xlsx", ".xls", ".ods") else []


@task(lane="slow", depends="source")
def suggest_links(work: Work) -> dict[str, Any]:
    """The tables, the keys between them as far as names and values show them, and the person."""
    tables = work.tables
    current_progress()("looking for keys", 0, 1)
    keys = suggest_keys(tables)
    schema = None if work.source.table is None else work.source.table.removesuffix(".*")
    places = list_tables(work.source.where, schema=schema)
    # A file may have two suffixes, or another case, so it is named where a plan is read by people.
    files = {
        name: place.where.name
        for name, place in places.items()
        if isinstance(place.where, Path) and place.table is None
    }
    return {
        "tables": {
            name: {"rows": len(data), "variables": list(data.columns)}
            for name, data in tables.items()
        },
        "files": files,
        "keys": [[str(item.key), item.key.target, item.reason] for item in keys],
        "person": suggest_person(tables, keys),
    }


@task(lane="slow", depends="source")
def check_links(work: Work, *, keys: list[list[str]]) -> dict[str, dict[str, int]]:
    """For each key the rows that lead nowhere, and those of the other table that share a value."""
    tables = work.tables
    found = {}
    for many, one in keys:
        key = ForeignKey.parse(many, one)
        if key.table not in tables or key.to_table not in tables:
            continue
        found[many] = vars(check_key(tables, key))
    return found
