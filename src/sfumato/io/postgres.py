"""Tables in PostgreSQL: read in one read-only transaction, streamed, never a password kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from sfumato.errors import DataError
from sfumato.io.csv_batch import text_frame
from sfumato.io.csv_detect import Dialect
from sfumato.io.csv_pieces import Pieces
from sfumato.io.csv_records import BATCH_BYTES, last_record_end
from sfumato.io.csv_types import Manner, parse
from sfumato.io.duckdb_file import one_of_both
from sfumato.io.optional import library
from sfumato.io.retype import present, settle
from sfumato.io.source import DTYPES, Progress, Source, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sfumato.io.source import Kind

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
) -> Table:
    """The records of a table or of a query in a PostgreSQL database.

    Streams them as CSV in a read-only transaction, so that neither side holds them twice.
    The total of the progress is 0: the number of records is not known beforehand.
    """
    psycopg = library("psycopg", extra="postgres", purpose="Reading PostgreSQL")
    one_of_both(table, query)
    try:
        with psycopg.connect(url) as connection:
            connection.read_only = True
            frame = _fetch(connection, _statement(psycopg.sql, table, query), columns, progress)
    except psycopg.Error as error:
        raise _wrapped(error) from None
    frame, readings, notes = settle(
        frame, reason="its type in the database", types=types, dates=dates
    )
    options: dict[str, Any] = {"server": without_secrets(url)}
    options |= {"table": table} if table else {"query": query}
    source = Source(format="postgres", options=options, columns=readings, notes=tuple(notes))
    return Table(frame, source)


def without_secrets(url: str) -> str:
    """Host, port, database and user of a connection string, and nothing else of it."""
    conninfo = library("psycopg.conninfo", extra="postgres", purpose="Reading PostgreSQL")
    parts = conninfo.conninfo_to_dict(url)
    user = f"{parts['user']}@" if "user" in parts else ""
    port = f":{parts['port']}" if "port" in parts else ""
    return f"postgresql://{user}{parts.get('host', '')}{port}/{parts.get('dbname', '')}"


def _statement(sql: Any, table: str | None, query: str | None) -> Any:
    if table:
        return sql.SQL("SELECT * FROM {}").format(sql.Identifier(*table.split(".")))
    # On lines of its own, so that a closing comment does not swallow what follows
    return sql.SQL("\n" + (query or "").strip().rstrip(";") + "\n")


def _fetch(
    connection: Any, asked: Any, columns: Sequence[str] | None, progress: Progress | None
) -> pl.DataFrame:
    sql = library("psycopg.sql", extra="postgres", purpose="Reading PostgreSQL")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL datestyle = 'ISO'; SET LOCAL timezone = 'UTC'")
        cursor.execute(sql.SQL("SELECT * FROM ({}) AS asked LIMIT 0").format(asked))
        described = {column.name: column.type_code for column in cursor.description}
        wanted = list(described) if columns is None else list(columns)
        present(list(described), wanted)
        kinds = _kinds(cursor, {name: described[name] for name in wanted})
        listed = sql.SQL(", ").join(map(sql.Identifier, wanted))
        copy = sql.SQL(
            "COPY (SELECT {} FROM ({}) AS asked) TO STDOUT (FORMAT csv, ENCODING 'UTF8')"
        ).format(listed, asked)
        pieces: dict[str, Pieces] = {name: Pieces(_dtype(kinds[name])) for name in wanted}
        height = 0
        with cursor.copy(copy) as stream:
            for block in _blocks(stream):
                text = text_frame(block, _DIALECT, len(wanted))
                height += text.height
                for name, column in zip(wanted, text, strict=True):
                    pieces[name].append(_typed(column.alias(name), kinds[name]))
                if progress:
                    progress(height, 0)
    return pl.DataFrame([pieces[name].join(name) for name in wanted])


def _blocks(stream: Any) -> Iterator[bytes]:
    """What the server sends, in batches of whole records."""
    gathered: list[bytes] = []
    size = 0
    for part in stream:
        gathered.append(bytes(part))
        size += len(part)
        if size >= BATCH_BYTES:
            block = b"".join(gathered)
            end = last_record_end(block, len(block), '"')
            if end:
                yield block[:end]
            gathered, size = [block[end:]], len(block) - end
    if size:
        yield b"".join(gathered)


def _kinds(cursor: Any, codes: Mapping[str, int]) -> dict[str, str]:
    """The catalogue's name of each variable's type; arrays and records are refused."""
    cursor.execute(
        "SELECT oid::int8, typname, typcategory FROM pg_type WHERE oid = ANY(%s)",
        [list(codes.values())],
    )
    known = {oid: (name, category) for oid, name, category in cursor.fetchall()}
    nested = [name for name, code in codes.items() if known[code][1] in {"A", "C"}]
    nested += [name for name, code in codes.items() if known[code][0] == "bytea"]
    if nested:
        listed = ", ".join(f"'{name}'" for name in nested)
        raise DataError(
            f"the cells of {listed} are lists, structures or raw bytes, not single values.",
            hint="give each part a variable of its own, or leave these out with columns=[…].",
        )
    return {name: known[code][0] for name, code in codes.items()}


def _dtype(typname: str) -> pl.DataType:
    if typname == "timestamptz":
        return pl.Datetime("us", "UTC")
    return DTYPES[_KINDS.get(typname, "text")]


def _typed(text: pl.Series, typname: str) -> pl.Series:
    """The cells in the type the server says they have."""
    kind = _KINDS.get(typname, "text")
    if kind == "boolean":
        return text == "t"
    pattern = ""
    if kind == "datetime":
        pattern = "%Y-%m-%d %H:%M:%S%.f"
        text = text.str.strip_suffix("+00")
    parsed = parse(text, kind, Manner(tokens=_NO_TOKENS, pattern=pattern, strict=False))
    if parsed is None:
        raise DataError(
            f"variable '{text.name}' holds {kind}s that cannot be held here.",
            hint="infinite dates, dates before Christ and the like: cast them in a query.",
        )
    values = parsed.values
    return values.dt.replace_time_zone("UTC") if typname == "timestamptz" else values


def _wrapped(error: Any) -> DataError:
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
