"""DuckDB and PostgreSQL: read only, nothing spilled, no password kept."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from pathlib import Path

import duckdb
import polars as pl
import psycopg
import pytest

import sfumato as sf
from sfumato.errors import DataError
from sfumato.io import csv_reader as _records
from sfumato.io import databases as _postgres
from sfumato.io import read_table
from sfumato.io.several import list_tables

ROWS = """
    CREATE TABLE people (id BIGINT, name TEXT, height DOUBLE PRECISION, income NUMERIC(12, 2),
                         born DATE, seen TIMESTAMP, ok BOOLEAN);
    INSERT INTO people VALUES
        (1, 'Müller, "M"', 1.5, 10.25, '2001-02-03', '2021-04-03 10:15:30.5', true),
        (2, '', NULL, NULL, NULL, NULL, false),
        (3, NULL, 'NaN', 3, '1899-12-31', '2021-04-03 00:00:00', NULL);
"""
SEEN = datetime.fromisoformat("2021-04-03T10:15:30.5")
DAY = datetime.fromisoformat("2021-04-03")
EXPECTED = [
    (1, 'Müller, "M"', 1.5, 10.25, date(2001, 2, 3), SEEN, True),
    (2, "", None, None, None, None, False),
    (3, None, None, 3.0, date(1899, 12, 31), DAY, None),
]
KINDS = ["integer", "text", "number", "number", "date", "datetime", "boolean"]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "x.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(ROWS)
        connection.execute('CREATE SCHEMA other; CREATE TABLE other."odd ""name" (l INT[])')
    return path


def test_duckdb_table_and_query(database: Path) -> None:
    table = read_table(database, table="people")
    assert table.frame.rows() == EXPECTED
    assert [reading.type for reading in table.source.columns.values()] == KINDS
    assert table.source.options == {"table": "people"}
    asked = read_table(
        f"duckdb:///{database}", query="SELECT sum(id) AS n FROM main.people", types={"n": "text"}
    )
    assert asked.frame.rows() == [("6",)]
    assert read_table(database, table="main.people", columns=["ok", "id"]).frame.width == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "by a table or by a query"),
        ({"table": "a", "query": "b"}, "by a table or by a query"),
        ({"table": "peopel"}, "did you mean 'people'"),
        ({"table": "people; DROP TABLE people"}, "no table"),
        ({"table": 'other.odd "name'}, "'l'"),
        ({"table": "people", "columns": ["idd"]}, "'idd' is not in the data"),
        ({"query": "DROP TABLE people"}, "single SELECT"),
        ({"query": "SELECT 1; SELECT 2"}, "single SELECT"),
        ({"query": "SELECT CAST(name AS INT) FROM people"}, "Conversion"),
        ({"query": "SELECT * FROM read_csv('/etc/passwd')"}, "TABLE_FUNCTION"),
    ],
)
def test_duckdb_refusals(database: Path, options: dict[str, str], words: str) -> None:
    with pytest.raises(DataError) as raised:
        read_table(database, **options)  # type: ignore[arg-type]  # wrong on purpose
    assert words in str(raised.value)
    assert "Müller" not in str(raised.value)


def test_duckdb_leaves_nothing_behind(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private: list[tuple[str, int]] = []
    connect = duckdb.connect

    def spying(*place: str, **options: object) -> duckdb.DuckDBPyConnection:
        settings = options["config"]
        assert isinstance(settings, dict)
        folder = settings["temp_directory"]
        private.append((folder, os.stat(folder).st_mode & 0o777))  # noqa: PTH116 - the mode is the point
        assert options["read_only"] is True
        return connect(*place, **options)  # type: ignore[arg-type]  # handed through

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(duckdb, "connect", spying)
    read_table(database, table="people")
    [(folder, mode)] = private
    assert mode == 0o700
    assert not Path(folder).exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.duckdb"]


def test_duckdb_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"no database" * 1000)
    with pytest.raises(DataError, match="DuckDB file"):
        read_table(tmp_path / "x.db", table="a")


@pytest.fixture(scope="session")
def server(postgres: str) -> str:
    with psycopg.connect(postgres) as connection:
        connection.execute(ROWS)
        connection.execute(
            """CREATE SCHEMA "odd ""schema"; CREATE TABLE "odd ""schema"."Tab" (a INT);
            CREATE SEQUENCE counter; CREATE VIEW counting AS SELECT nextval('counter') AS n;
            CREATE TABLE many AS SELECT i AS id, 'text number ' || i AS label
                FROM generate_series(1, 5000) AS i;
            CREATE TABLE other (z TIMESTAMPTZ, u UUID, j JSON, l INT[], d DATE);
            INSERT INTO other VALUES ('2021-04-03 12:15:00+02',
                '00000000-0000-0000-0000-000000000001', '{"a": 1}', '{1,2}', 'infinity')"""
        )
    return postgres


@pytest.mark.postgres
def test_postgres_table_and_query(server: str) -> None:
    table = read_table(server, table="public.people")
    assert table.frame.rows() == EXPECTED
    assert [reading.type for reading in table.source.columns.values()] == KINDS
    assert "s3cret" not in repr(table.source)
    assert table.source.options["table"] == "public.people"
    assert read_table(server, table='odd "schema.Tab').frame.schema == {"a": pl.Int64}
    asked = read_table(server, query="SELECT id, name FROM people ORDER BY id; ", columns=["name"])
    assert asked.frame["name"].to_list() == ['Müller, "M"', "", None]
    commented = read_table(server, query="SELECT 1 AS one -- note")
    assert commented.frame.rows() == [(1,)]


@pytest.mark.postgres
def test_postgres_streams_in_batches(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_postgres, "BATCH_BYTES", 10_000)
    seen: list[tuple[int, int]] = []
    table = read_table(server, table="many", progress=lambda *done: seen.append(done))
    assert table.frame["id"].to_list() == list(range(1, 5001))
    assert table.frame["label"][-1] == "text number 5000"
    assert len(seen) > 5
    assert seen[-1] == (5000, 0)
    assert _records.BATCH_BYTES > 10_000


@pytest.mark.postgres
def test_postgres_other_types(server: str) -> None:
    table = read_table(server, table="other", columns=["z", "u", "j"])
    assert table.frame.row(0) == (
        datetime(2021, 4, 3, 10, 15, tzinfo=UTC),
        "00000000-0000-0000-0000-000000000001",
        '{"a": 1}',
    )


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "by a table or by a query"),
        ({"table": "peopel"}, "does not exist"),
        ({"table": 'people"; DROP TABLE people; --'}, "does not exist"),
        ({"table": "people", "columns": ["idd"]}, "'idd' is not in the data"),
        ({"table": "other", "columns": ["l"]}, "'l'"),
        ({"table": "other", "columns": ["d"]}, "'d' holds dates"),
        ({"query": "DELETE FROM people RETURNING *"}, "single SELECT"),
        ({"query": "SELECT 1) TO PROGRAM 'true' --"}, "refuses the request"),
        ({"query": "SELECT name::int FROM people"}, "22P02"),
        ({"query": "SELECT nextval('counter') FROM people"}, "calls 'nextval'"),
        ({"table": "counting"}, "would change the database"),
    ],
)
def test_postgres_refusals(server: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(DataError) as raised:
        read_table(server, **options)  # type: ignore[arg-type]  # wrong on purpose
    assert words in str(raised.value)
    assert "Müller" not in str(raised.value)
    assert "s3cret" not in str(raised.value)
    with psycopg.connect(server) as connection:
        assert connection.execute("SELECT count(*) FROM people").fetchone() == (3,)


def test_postgres_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be reached") as raised:
        read_table(f"postgresql://user:s3cret@/db?host={tmp_path}", table="people")
    assert "s3cret" not in str(raised.value)
    with pytest.raises(DataError) as raised:
        read_table("postgresql://user:s3cret@host:port:/db?nonsense=1", table="people")
    assert "s3cret" not in str(raised.value)
    assert raised.value.__suppress_context__


@pytest.mark.postgres
def test_postgres_lists_the_tables_of_a_schema(server: str) -> None:
    with psycopg.connect(server) as connection:
        connection.execute(
            """CREATE SCHEMA clinic; CREATE TABLE clinic.patients AS SELECT 1 AS id;
            CREATE TABLE clinic.visits AS SELECT 1 AS patient"""
        )
    assert list(list_tables(server, schema="clinic")) == ["patients", "visits"]
    found = sf.read_tables(server, schema="clinic")
    assert found["visits"].frame.rows() == [(1,)]
    assert "people" in list_tables(server)
    with pytest.raises(DataError, match="own catalogues"):
        list_tables(server, schema="pg_catalog")
