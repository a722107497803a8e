"""Text tables written in slices: harmless in a spreadsheet, whole or not at all."""

from __future__ import annotations

import gzip
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Literal

import polars as pl

from sfumato.errors import DataError
from sfumato.io.atomic import replace_file
from sfumato.io.declared_types import require_flat
from sfumato.io.formulas import escape, escape_name, find_dangerous, may_be_dangerous
from sfumato.io.source import Batches

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np

    from sfumato.io.source import Progress, Source

Formulas = Literal["escape", "refuse", "keep"]
SLICE = 200_000


def write_csv(
    frame: pl.DataFrame | Batches,
    path: Path,
    *,
    source: Source | None = None,
    formulas: Formulas = "escape",
    order: np.ndarray | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write the records, in the delimiter and decimal sign of the source if that was a CSV.

    The text is UTF-8, dates are year-month-day, a missing cell is empty and an empty text is
    a quoted nothing, so that reading gives back what was written.
    """
    require_flat(frame)
    if not frame.schema:
        raise DataError("there are no variables to write.")
    table = Batches.of(frame, order, SLICE)
    if formulas == "refuse":
        _refuse_formulas(table)
    options = dict(source.options) if source and source.format == "csv" else {}
    dialect: dict[str, Any] = {
        "separator": "\t" if ".tsv" in path.suffixes else options.get("delimiter", ","),
        "decimal_comma": options.get("decimal") == ",",
    }
    with replace_file(path) as sibling, _open_for_writing(sibling) as stream:
        if options.get("bom"):
            stream.write(b"\xef\xbb\xbf")
        _write_header(list(table.schema), stream, dialect, formulas)
        escaped, done = 0, 0
        for batch in table.regroup(SLICE):
            part, changed = _escape_formulas(_convert_columns(batch), formulas)
            part.write_csv(stream, include_header=False, **dialect)
            escaped, done = escaped + changed, done + part.height
            if progress:
                progress(done, table.height)
    return {
        "records": table.height,
        "escaped_cells": escaped,
        "delimiter": dialect["separator"],
        "decimal": "," if dialect["decimal_comma"] else ".",
    }


@contextmanager
def _open_for_writing(path: Path) -> Iterator[IO[bytes]]:
    with path.open("xb") as raw:
        if path.suffix.lower() != ".gz":
            yield raw
            return
        # No name and no time within: equal records give equal bytes
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
            yield packed  # type: ignore[misc]  # GzipFile is a file of bytes in all but name


def _write_header(
    variables: list[str], stream: IO[bytes], dialect: dict[str, Any], formulas: Formulas
) -> None:
    """Names are written as cells: they need the same quoting."""
    names = [escape_name(name) if formulas == "escape" else name for name in variables]
    row = pl.DataFrame([[name] for name in names], schema=[str(i) for i in range(len(names))])
    row.write_csv(stream, include_header=False, **dialect)


def _convert_columns(part: pl.DataFrame) -> pl.DataFrame:
    """Categories as their text; times with a zone in UTC, marked by a Z."""
    changes = []
    for name, dtype in part.schema.items():
        if dtype in (pl.Categorical, pl.Enum):
            changes.append(pl.col(name).cast(pl.String))
        elif isinstance(dtype, pl.Datetime) and dtype.time_zone:
            utc = pl.col(name).dt.convert_time_zone("UTC").dt.cast_time_unit("us")
            changes.append(utc.dt.to_string("%Y-%m-%dT%H:%M:%S%.6fZ"))
    return part.with_columns(changes) if changes else part


def _escape_formulas(part: pl.DataFrame, formulas: Formulas) -> tuple[pl.DataFrame, int]:
    """The slice with dangerous cells escaped, and how many there were."""
    texts = [name for name, dtype in part.schema.items() if dtype == pl.String]
    if formulas != "escape" or not texts:
        return part, 0
    suspects = [name for name in texts if may_be_dangerous(part[name])]
    if not suspects:
        return part, 0
    counts = part.select(find_dangerous(pl.col(name)).sum().alias(name) for name in suspects).row(0)
    hit = [name for name, count in zip(suspects, counts, strict=True) if count]
    return part.with_columns(escape(pl.col(name)) for name in hit), sum(counts)


def _refuse_formulas(table: Batches) -> None:
    """Refuse texts and names that a spreadsheet would run, with their number."""
    problems = [f"the name '{name}'" for name in table.schema if escape_name(name) != name]
    texts = [n for n, t in table.schema.items() if t in (pl.String, pl.Categorical, pl.Enum)]
    counts = dict.fromkeys(texts, 0)
    for part in table.read():
        for name in texts:
            counts[name] += part.select(find_dangerous(pl.col(name).cast(pl.String)).sum()).item()
    problems += [f"{count} cells of '{name}'" for name, count in counts.items() if count]
    if problems:
        raise DataError(
            f"a spreadsheet would run as a formula: {', '.join(problems)}.",
            hint="let them be escaped, or change what they start with (= + - @).",
        )
