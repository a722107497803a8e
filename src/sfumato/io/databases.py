"""Tables in a DuckDB file or in PostgreSQL, read only: nothing spilled, no password kept."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from sfumato.errors import DataError, did_you_mean
from sfumato.io.csv_dialect import Dialect
from sfumato.io.csv_reader import BATCH_BYTES, find_last_record_end, read_text_frame
from sfumato.io.csv_types import CellFormat, parse
from sfumato.io.declared_types import apply_declared_types, require_present
from sfumato.io.select_statement import (
    require_duckdb_select,
    require_own_table,
    require_postgres_select,
)
from sfumato.io.source import DTYPES, Progress, Source, SourceTable, load_library

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sfumato.io.source import Kind


def read_duckdb(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    progress: Progress | None = None,
    types: Mapping[str, str] | None = None,
    dates: Mapping[str, str] | None = None,
    table: str | None = None,
    query: str | None = None,
) -> SourceTable:
    """The records of a table or of a query on a DuckDB file.

    Assumes: the query needs nothing outside the file. DuckDB's way out to other files is shut.
    """
    duckdb = load_library("duckdb", extra="formats", purpose="Reading DuckDB files")
    require_table_or_query(table, query)
    with tempfile.TemporaryDirectory(prefix="sfumato-") as private:
        # A private folder of mode 0700: DuckDB would spill microdata beside the working folder
        settings = {"temp_directory": private}
        try:
            # Absolute: md:x.db would be a database in the cloud
            file = str(path.absolute())
            with duckdb.connect(file, read_only=True, config=settings) as connection:
                connection.execute("SET enable_external_access = false")
                # Else a name that is no table could be a variable of ours
                connection.execute("SET python_enable_replacements = false")
                frame = _fetch_duckdb(connection, duckdb, table, query, columns)
        except duckdb.Error as error:
            raise _convert_duckdb_error(error, duckdb, path) from None
    frame = frame.with_columns(
        narrowed for column in frame if (narrowed := _convert_narrow(column)) is not None
    )
    frame, readings, notes = apply_declared_types(
        frame, reason="its type in the database", types=types, dates=dates
    )
    if progress:
        progress(frame.height, frame.height)
    request = {"table": table} if table else {"query": query}
    source = Source(
        format="duckdb", path=path, options=request, columns=readings, notes=tuple(notes)
    )
    return SourceTable(frame, source)


def list_duckdb_tables(path: Path, schema: str | None) -> list[str]:
    """The names of the tables of a DuckDB file, in one of its schemas."""
    duckdb = load_library("duckdb", extra="formats", purpose="Reading DuckDB files")
    try:
        with duckdb.connect(str(path.absolute()), read_only=True) as connection:
            rows = connection.execute(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = ?",
                [schema or "main"],
            ).fetchall()
    except duckdb.Error as error:
        raise _convert_duckdb_error(error, duckdb, path) from None
    return [name for (name,) in rows]


def list_postgres_tables(url: str, schema: str | None) -> list[str]:
    """The names of the tables and views in a schema of a PostgreSQL database."""
    psycopg = load_library("psycopg", extra="postgres", purpose="Reading PostgreSQL")
    if schema is not None:
        require_own_table(schema, "")
    try:
        with psycopg.connect(url, **_restrict_session(url)) as connection:
            connection.read_only = True
            rows = connection.execute(
                "SELECT table_name FROM information_schema.tables "
                "WHERE table_schema = coalesce(%s, current_schema())",
                [schema],
            ).fetchall()
    except psycopg.Error as error:
        raise _convert_postgres_error(error) from None
    return [str(name) for (name,) in rows]


def require_table_or_query(table: str | None, query: str | None) -> None:
    """A database is read by a table or by a query, not by both."""
    if bool(table) == bool(query):
        raise DataError(
            "a database is read by a table or by a query.",
            hint="give table='schema.name' or query='SELECT …', one of the two.",
        )


def _fetch_duckdb(
    connection: Any,
    duckdb: Any,
    table: str | None,
    query: str | None,
    columns: Sequence[str] | None,
) -> pl.DataFrame:
    if table:
        _require_table(connection, table)
        query = f"SELECT * FROM {_quote_name(table)}"  # noqa: S608 - every part of the name is quoted
    require_duckdb_select(connection, query or "")
    relation = connection.sql(query)
    if columns is not None:
        require_present(relation.columns, columns)
        relation = relation.select(*(duckdb.ColumnExpression(name) for name in columns))
    frame = pl.from_arrow(relation.to_arrow_table())
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 - a table gives a frame
    return frame.rechunk()


def _quote_name(table: str) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))


def _require_table(connection: Any, table: str) -> None:
    rows = connection.execute(
        "SELECT table_schema, table_name FROM information_schema.tables"
    ).fetchall()
    names = {name for _, name in rows} | {f"{schema}.{name}" for schema, name in rows}
    if table not in names:
        raise DataError(
            f"there is no table '{table}' in the database.", hint=did_you_mean(table, names)
        )


def _convert_narrow(column: pl.Series) -> pl.Series | None:
    """Sums and exact decimals come in types wider than our methods know."""
    dtype = column.dtype
    if isinstance(dtype, pl.Decimal):
        return column.cast(pl.Float64 if dtype.scale else pl.Int64, strict=bool(not dtype.scale))
    return column.cast(pl.Int64) if dtype in (pl.Int128, pl.UInt128) else None


def _convert_duckdb_error(error: Exception, duckdb: Any, path: Path) -> DataError:
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


# The types by their names in the catalogue; whatever is not here is read as its text.
_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("int2", "int4", "int8"), "integer"),
    **dict.fromkeys(("float4", "float8", "numeric"), "number"),
    "bool": "boolean",
    "date": "date",
    **dict.fromkeys(("timestamp", "timestamptz"), "datetime"),
}
_DIALECT = Dialect(delimiter=",", encoding="utf-8")
_NO_TOKENS: frozenset[str] = frozenset()


def read_postgres(
    url: str,
    *,
    columns: Sequence[str] | None = None,
    progress: Progress | None = None,
    types: Mapping[str, str] | None = None,
    dates: Mapping[str, str] | None = None,
    table: str | None = None,
    query: str | None = None,
) -> SourceTable:
    """The records of a table or of a query in a PostgreSQL database.

    Streams them as CSV in a read-only transaction, so that neither side holds them twice.
    The total of the progress is 0: the number of records is not known beforehand.

    Assumes: the address is the custodian's own, the table or query may be a stranger's. A query
    is checked before a connection is made, and whatever passed the check still meets a session
    that is read only from its start and takes one statement at a time.
    """
    psycopg = load_library("psycopg", extra="postgres", purpose="Reading PostgreSQL")
    require_table_or_query(table, query)
    if query:
        require_postgres_select(query)
    if table:
        *schema, name = table.split(".")
        require_own_table(".".join(schema), name)
    try:
        with psycopg.connect(url, **_restrict_session(url)) as connection:
            connection.read_only = True
            frame = _fetch_postgres(
                connection, _build_statement(psycopg.sql, table, query), columns, progress
            )
    except psycopg.Error as error:
        raise _convert_postgres_error(error) from None
    frame, readings, notes = apply_declared_types(
        frame, reason="its type in the database", types=types, dates=dates
    )
    options: dict[str, Any] = {"server": remove_secrets(url)}
    options |= {"table": table} if table else {"query": query}
    source = Source(format="postgres", options=options, columns=readings, notes=tuple(notes))
    return SourceTable(frame, source)


def _restrict_session(url: str) -> dict[str, str]:
    """Options of the connection: read only from the start, and text as the check read it."""
    conninfo = load_library("psycopg.conninfo", extra="postgres", purpose="Reading PostgreSQL")
    theirs = conninfo.conninfo_to_dict(url).get("options", "")
    # The last setting of a name wins, so ours come after what the address says
    ours = "-c default_transaction_read_only=on -c standard_conforming_strings=on"
    return {"options": f"{theirs} {ours}".strip(), "client_encoding": "UTF8"}


def remove_secrets(url: str) -> str:
    """Host, port, database and user of a connection string, and nothing else of it."""
    conninfo = load_library("psycopg.conninfo", extra="postgres", purpose="Reading PostgreSQL")
    parts = conninfo.conninfo_to_dict(url)
    user = f"{parts['user']}@" if "user" in parts else ""
    port = f":{parts['port']}" if "port" in parts else ""
    return f"postgresql://{user}{parts.get('host', '')}{port}/{parts.get('dbname', '')}"


def _build_statement(sql: Any, table: str | None, query: str | None) -> Any:
    if table:
        return sql.SQL("SELECT * FROM {}").format(sql.Identifier(*table.split(".")))
    # On lines of its own, so that a closing comment does not swallow what follows
    return sql.SQL("\n" + (query or "").strip().rstrip(";") + "\n")


def _fetch_postgres(
    connection: Any, request: Any, columns: Sequence[str] | None, progress: Progress | None
) -> pl.DataFrame:
    sql = load_library("psycopg.sql", extra="postgres", purpose="Reading PostgreSQL")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL datestyle = 'ISO'")
        cursor.execute("SET LOCAL timezone = 'UTC'")
        # Prepared, that is by the extended protocol, as COPY is below: the server then takes one
        # statement and no more, whatever the text says
        described_request = sql.SQL("SELECT * FROM ({}) AS request LIMIT 0").format(request)
        cursor.execute(described_request, prepare=True)
        described = {column.name: column.type_code for column in cursor.description}
        wanted = list(described) if columns is None else list(columns)
        require_present(list(described), wanted)
        kinds = _read_types(cursor, {name: described[name] for name in wanted})
        selection = sql.SQL(", ").join(map(sql.Identifier, wanted))
        copy = sql.SQL(
            "COPY (SELECT {} FROM ({}) AS request) TO STDOUT (FORMAT csv, ENCODING 'UTF8')"
        ).format(selection, request)
        pieces = {name: [pl.Series(name, [], _get_dtype(kinds[name]))] for name in wanted}
        height = 0
        for block in _read_blocks(_copy_out(connection, copy)):
            text = read_text_frame(block, _DIALECT, len(wanted))
            height += text.height
            for name, column in zip(wanted, text, strict=True):
                pieces[name].append(_parse_column(column.alias(name), kinds[name]))
            if progress:
                progress(height, 0)
    return pl.DataFrame([pl.concat(pieces.pop(name), rechunk=True) for name in wanted])


def _copy_out(connection: Any, statement: Any) -> Iterator[bytes]:
    """What COPY … TO STDOUT sends, asked for by the extended protocol.

    The cursor's own copy() uses the simple protocol, in which a text may be several statements.
    """
    psycopg = load_library("psycopg", extra="postgres", purpose="Reading PostgreSQL")
    server, status = connection.pgconn, psycopg.pq.ExecStatus
    result = server.exec_params(statement.as_string(connection).encode(), None)
    if result.status != status.COPY_OUT:
        raise psycopg.errors.error_from_result(result)
    ended = False
    try:
        while not ended:
            size, part = server.get_copy_data(0)
            ended = size < 0
            if not ended:
                yield bytes(part)
    finally:
        if not ended:  # a cell could not be used: the server need not send the rest
            connection.close()
    results = list(iter(server.get_result, None))
    if results[0].status != status.COMMAND_OK:
        raise psycopg.errors.error_from_result(results[0])


def _read_blocks(stream: Iterator[bytes]) -> Iterator[bytes]:
    """What the server sends, in batches of whole records."""
    gathered: list[bytes] = []
    size = 0
    for part in stream:
        gathered.append(part)
        size += len(part)
        if size >= BATCH_BYTES:
            block = b"".join(gathered)
            end = find_last_record_end(block, '"')
            if end:
                yield block[:end]
            gathered, size = [block[end:]], len(block) - end
    if size:
        yield b"".join(gathered)


def _read_types(cursor: Any, codes: Mapping[str, int]) -> dict[str, str]:
    """The catalogue's name of each variable's type; arrays and records are refused."""
    cursor.execute(
        "SELECT oid::int8, typname, typcategory FROM pg_type WHERE oid = ANY(%s)",
        [list(codes.values())],
    )
    known = {oid: (name, category) for oid, name, category in cursor.fetchall()}
    nested = [name for name, code in codes.items() if known[code][1] in {"A", "C"}]
    nested += [name for name, code in codes.items() if known[code][0] == "bytea"]
    if nested:
        quoted = ", ".join(f"'{name}'" for name in nested)
        raise DataError(
            f"the cells of {quoted} are lists, structures or raw bytes, not single values.",
            hint="give each part a variable of its own, or leave these out with columns=[…].",
        )
    return {name: known[code][0] for name, code in codes.items()}


def _get_dtype(typname: str) -> pl.DataType:
    if typname == "timestamptz":
        return pl.Datetime("us", "UTC")
    return DTYPES[_KINDS.get(typname, "text")]


def _parse_column(text: pl.Series, typname: str) -> pl.Series:
    """The cells in the type the server says they have."""
    kind = _KINDS.get(typname, "text")
    if kind == "boolean":
        return text == "t"
    pattern = ""
    if kind == "datetime":
        pattern = "%Y-%m-%d %H:%M:%S%.f"
        text = text.str.strip_suffix("+00")
    parsed = parse(text, kind, CellFormat(tokens=_NO_TOKENS, pattern=pattern, strict=False))
    if parsed is None:
        raise DataError(
            f"variable '{text.name}' holds {kind}s that cannot be held here.",
            hint="infinite dates, dates before the year 1 and the like: cast them in a query.",
        )
    values = parsed.values
    return values.dt.replace_time_zone("UTC") if typname == "timestamptz" else values


def _convert_postgres_error(error: Any) -> DataError:
    """What went wrong. Only errors about the statement are quoted: others may hold cells."""
    state = error.sqlstate or ""
    if state.startswith("42"):  # syntax, unknown names, rights
        return DataError(
            f"PostgreSQL refuses the request: {error.diag.message_primary}.",
            hint="check the names of the table and its schema, and the query.",
        )
    if state == "25006":
        return DataError("the query would change the database.", hint="ask only with SELECT.")
    if state:
        return DataError(f"the request fails in PostgreSQL (state {state}).")
    return DataError(
        "the PostgreSQL server cannot be reached, or does not let this user in.",
        hint="check host, port, database, user and password, e.g. with psql.",
    )
