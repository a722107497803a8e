"""Read records where a cluster can: folders or files of Parquet or CSV, and tables.

A variable of a CSV file is what all its cells are, and text whenever that is in doubt: the rule of
the local reader (`sfumato.io.csv_types`), asked of every part. Spark's own guess would make the
number 7 of the code 007.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from sfumato.data import Dataset
from sfumato.errors import DataError
from sfumato.io.csv_types import TOKENS, CellFormat, drop_missing_cells, parse
from sfumato.io.source import DTYPES, Kind, Reading, Source

TABLE = "table:"
_KINDS: tuple[Kind, ...] = ("integer", "number", "boolean", "date", "datetime")
_OPTIONS = ("delimiter", "encoding", "decimal", "types", "columns")


def open_session(master: str | None = None) -> Any:
    """A session on a cluster; `master` as Spark writes it, by default what Spark is set up for.

    A session that is open already is used as it is.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise DataError(
            "Spark is not installed.",
            hint="in your copy of Sfumato, pip install '.[spark]'; it needs Java 17 too.",
        ) from None
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        raise DataError(
            "Spark needs Java, which is not installed.",
            hint="install Java 17 (Debian: apt-get install openjdk-17-jre-headless), or set "
            "JAVA_HOME.",
        )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("sfumato")
    settings = {"spark.sql.session.timeZone": "UTC", "spark.ui.showConsoleProgress": "false"}
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return (builder.master(master) if master else builder).getOrCreate()
    except Exception as error:  # noqa: BLE001 - Spark has no type of its own for this
        raise DataError(
            f"No session could be opened on Spark ({type(error).__name__}).",
            hint="is the address right (--master spark://HOST:7077, local[4]), is the cluster up, "
            "and is Java 17 the one that is found?",
        ) from None


def read_on_cluster(session: Any, where: str, **options: Any) -> Dataset:
    """The records of a folder, a file or a table (`table:NAME`), left where they are."""
    if unknown := [name for name in options if name not in _OPTIONS]:
        raise DataError(
            f"On Spark, reading has no option '{unknown[0]}'.",
            hint=f"there are: {', '.join(_OPTIONS)}.",
        )
    if where.startswith(TABLE):
        return _select(Dataset(_open(session.table, where.removeprefix(TABLE), where)), options)
    # A worker may have another current folder.
    address = where if "://" in where else str(Path(where).absolute())
    if _is_csv(where):
        return _read_csv(session, address, where, options)
    frame = _open(session.read.parquet, address, where)
    data = Dataset(frame, source=Source(format="parquet", path=Path(where)))
    return _select(data, options)


def _open(read: Any, address: str, where: str) -> Any:
    try:
        return read(address)
    except Exception:  # noqa: BLE001 - Spark's own texts run over pages, and may quote cells
        raise DataError(
            f"'{where}' cannot be read on the cluster.",
            hint="does every worker see it under this name, and is it Parquet, CSV or a table?",
        ) from None


def _is_csv(where: str) -> bool:
    path = Path(where)
    if path.is_dir():
        return not any(path.glob("*.parquet")) and any(path.glob("*.csv*"))
    return path.name.lower().endswith((".csv", ".csv.gz", ".txt", ".tsv"))


def _select(data: Dataset, options: Mapping[str, Any]) -> Dataset:
    columns = options.get("columns")
    return data if columns is None else data.without(set(data.columns) - set(columns))


def _list_fitting_kinds(values: pl.Series, decimal: str) -> set[str] | None:
    """The kinds that every cell of a text variable has the plain form of; None without a cell."""
    present = values.drop_nulls()
    if drop_missing_cells(present, TOKENS).is_empty():
        return None
    cells = CellFormat(decimal=decimal)
    return {kind for kind in _KINDS if parse(present, kind, cells) is not None}


def _choose_kind(parts: Sequence[set[str] | None]) -> str:
    """The narrowest that fits all parts, else text."""
    known = [part for part in parts if part is not None]
    fitting = set.intersection(*known) if known else set()
    return next((kind for kind in _KINDS if kind in fitting), "text")


def _read_csv(session: Any, address: str, where: str, options: Mapping[str, Any]) -> Dataset:
    from sfumato.engines.spark import SparkEngine, map_parts

    separator = options.get("delimiter", "\t" if where.endswith(".tsv") else ",")
    decimal, declared = options.get("decimal", "."), dict(options.get("types") or {})
    reader = session.read.option("header", True).option("sep", separator).option("escape", '"')
    reader = reader.option("encoding", options.get("encoding", "utf-8"))
    text = _select(Dataset(_open(reader.csv, address, where)), options)
    guessed = [name for name in text.columns if name not in declared]

    def look(batch: pl.DataFrame) -> list[set[str] | None]:
        return [_list_fitting_kinds(batch[name], decimal) for name in guessed]

    parts = SparkEngine().gather(text, look, reads=guessed) if guessed else []
    fitting = zip(guessed, zip(*parts, strict=True), strict=bool(parts))
    kinds = declared | {name: _choose_kind(columns) for name, columns in fitting}
    types = {name: DTYPES[kinds[name]] for name in text.columns}

    def convert(part: pl.DataFrame) -> pl.DataFrame:
        columns = []
        for name, dtype in types.items():
            cells = CellFormat(decimal=decimal, strict=name not in declared)
            parsed = parse(part[name], kinds[name], cells)
            if parsed is None:
                raise DataError(f"Variable '{name}' holds cells that are no {kinds[name]}.")
            columns.append(parsed.values.cast(dtype))
        return pl.DataFrame(columns)

    readings = {
        name: Reading(type=kinds[name], reason="declared" if name in declared else "all its cells")
        for name in types
    }
    source = Source(format="csv", path=Path(where), columns=readings)
    return Dataset(map_parts(text.frame, convert, types), source=source)
