"""Tables in a DuckDB file, read only, with nothing spilled where others could find it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from sfumato.errors import DataError, did_you_mean
from sfumato.io.optional import library
from sfumato.io.retype import present, settle
from sfumato.io.source import Progress, Source, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def read_duckdb(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    progress: Progress | None = None,
    types: Mapping[str, str] | None = None,
    dates: Mapping[str, str] | None = None,
    table: str | None = None,
    query: str | None = None,
) -> Table:
    """The records of a table or of a query on a DuckDB file.

    Assumes: the query needs nothing outside the file. DuckDB's way out to other files is shut.
    """
    duckdb = library("duckdb", extra="formats", purpose="Reading DuckDB files")
    one_of_both(table, query)
    with tempfile.TemporaryDirectory(prefix="sfumato-") as private:
        # A private folder of mode 0700: DuckDB would spill microdata beside the working folder
        settings = {"temp_directory": private}
        try:
            with duckdb.connect(str(path), read_only=True, config=settings) as connection:
                connection.execute("SET enable_external_access = false")
                frame = _fetch(connection, duckdb, table, query, columns)
        except duckdb.Error as error:
            raise _wrapped(error, duckdb, path) from None
    frame = frame.with_columns(
        narrowed for column in frame if (narrowed := _narrow(column)) is not None
    )
    frame, readings, notes = settle(
        frame, reason="its type in the database", types=types, dates=dates
    )
    if progress:
        progress(frame.height, frame.height)
    asked = {"table": table} if table else {"query": query}
    source = Source(format="duckdb", path=path, options=asked, columns=readings, notes=tuple(notes))
    return Table(frame, source)


def one_of_both(table: str | None, query: str | None) -> None:
    """A database needs to be asked for a table or by a query."""
    if bool(table) == bool(query):
        raise DataError(
            "a database is read by a table or by a query.",
            hint="give table='schema.name' or query='SELECT …', one of the two.",
        )


def _fetch(
    connection: Any,
    duckdb: Any,
    table: str | None,
    query: str | None,
    columns: Sequence[str] | None,
) -> pl.DataFrame:
    if table:
        _known(connection, table)
        query = f"SELECT * FROM {_quoted(table)}"  # noqa: S608 - every part of the name is quoted
    statements = connection.extract_statements(query)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise DataError("the query is not a single SELECT.", hint="ask one thing, and only ask.")
    relation = connection.sql(query)
    if columns is not None:
        present(relation.columns, columns)
        relation = relation.select(*(duckdb.ColumnExpression(name) for name in columns))
    frame = pl.from_arrow(relation.to_arrow_table())
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 - a table gives a frame
    return frame.rechunk()


def _quoted(table: str) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))


def _known(connection: Any, table: str) -> None:
    rows = connection.execute(
        "SELECT table_schema, table_name FROM information_schema.tables"
    ).fetchall()
    names = {name for _, name in rows} | {f"{schema}.{name}" for schema, name in rows}
    if table not in names:
        raise DataError(
            f"there is no table '{table}' in the database.", hint=did_you_mean(table, names)
        )


def _narrow(column: pl.Series) -> pl.Series | None:
    """Sums and exact decimals come in types wider than our methods know."""
    dtype = column.dtype
    if isinstance(dtype, pl.Decimal):
        return column.cast(pl.Float64 if dtype.scale else pl.Int64, strict=bool(not dtype.scale))
    return column.cast(pl.Int64) if dtype in (pl.Int128, pl.UInt128) else None


def _wrapped(error: Exception, duckdb: Any, path: Path) -> DataError:
    """What went wrong, without DuckDB's text: that may quote cells."""
    if isinstance(error, duckdb.IOException):
        return DataError(
            f"'{path.name}' cannot be opened as a DuckDB file.",
            hint="is another program writing to it?",
        )
    kind = type(error).__name__.removesuffix("Exception")
    return DataError(
        f"the query fails in DuckDB ({kind}).",
        hint="try it in DuckDB itself; files outside the database cannot be reached from here.",
    )
