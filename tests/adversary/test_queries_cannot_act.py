"""SECURITY.md: "A query can only read tables: it cannot write, run or fetch anything."

The plan's query is hostile, the user of the connection is the database's superuser, and the
server itself is asked afterwards what has changed. Nothing of the check's own code is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.postgres_server import start_postgres

import sfumato as sf
from sfumato.errors import DataError
from sfumato.io import databases, read_table

SECRET = "the secret of the server's own file"  # noqa: S105 - a canary

# {mark}: a file that must never come into being; {secret}: a file that must never be read.
STATEMENTS = [
    "SELECT 1) AS a; DELETE FROM people; SELECT * FROM (SELECT 1",
    "SELECT 1; DELETE FROM people",
    "SELECT 1; COPY (SELECT 1) TO PROGRAM 'touch {mark}'",
    "SELECT 1) TO PROGRAM 'touch {mark}' --",
    "SELECT 1) AS r) TO PROGRAM 'touch {mark}' --",
    "SELECT 1) AS r) TO '{mark}' --",
    "SELECT 1 AS a) AS r LIMIT 0; COPY (SELECT 1) TO '{mark}'; SELECT * FROM (SELECT 1 AS a",
    "COPY (SELECT 1) TO PROGRAM 'touch {mark}'",
    "COPY people FROM PROGRAM 'touch {mark}'",
    "COPY (SELECT 1) TO '{mark}'",
    "DELETE FROM people RETURNING *",
    "TRUNCATE people",
    "DROP TABLE people",
    "UPDATE people SET name = 'x' RETURNING *",
    "INSERT INTO people VALUES (9, 'x') RETURNING *",
    "MERGE INTO people USING people p ON false WHEN NOT MATCHED THEN DO NOTHING",
    "WITH gone AS (DELETE FROM people RETURNING *) SELECT * FROM gone",
    "WITH gone AS MATERIALIZED (UPDATE people SET id = 0 RETURNING *) TABLE gone",
    "SELECT * FROM (WITH gone AS (INSERT INTO people VALUES (7, 'y') RETURNING id) TABLE gone) a",
    "SELECT * INTO stolen FROM people",
    "SELECT id INTO TEMP stolen FROM people",
    "CREATE TABLE stolen AS TABLE people",
    "SELECT * FROM people FOR UPDATE",
    "SELECT * FROM people FOR KEY SHARE SKIP LOCKED",
    "LOCK TABLE people",
    "DO $$ BEGIN DELETE FROM people; END $$",
    "CALL wipe()",
    "EXECUTE something",
    "EXPLAIN ANALYZE DELETE FROM people",
    "VACUUM people",
    "SET default_transaction_read_only = off",
    "BEGIN READ WRITE",
    "COMMIT",
    "ROLLBACK; BEGIN; DELETE FROM people; COMMIT",
    "LISTEN everything",
    "NOTIFY everything, 'now'",
    "ALTER SYSTEM SET archive_command = 'touch {mark}'",
    "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "SELECT wipe()",
    "SELECT public.wipe()",
    'SELECT "wipe"()',
    "SELECT * FROM wipe()",
    "SELECT * FROM people, LATERAL wipe()",
    "SELECT * FROM ROWS FROM (wipe()) AS a",
    "SELECT id FROM people ORDER BY wipe()",
    "SELECT id FROM people WHERE wipe() IS NOT NULL",
    "SELECT count(*) FILTER (WHERE wipe() IS NULL) FROM people",
    "SELECT sum(id) OVER (PARTITION BY wipe()) FROM people",
    "VALUES (wipe())",
    "SELECT id FROM people LIMIT length(pg_read_file('{secret}'))",
    "SELECT (SELECT wipe())",
    "SELECT CASE WHEN true THEN wipe() END",
    "SELECT nextval('counter')",
    "SELECT setval('counter', 99)",
    "SELECT pg_read_file('{secret}')",
    "SELECT pg_catalog.pg_read_file('{secret}')",
    "SELECT \"pg_read_file\"('{secret}')",
    "SELECT U&\"pg\\005fread\\005ffile\"('{secret}')",
    "SELECT pg_read_file($a${secret}$a$)",
    "SELECT pg_read_file(E'{secret}')",
    "SELECT/**/pg_read_file/*x*/('{secret}')",
    "SELECT pg_read_file -- a note\n('{secret}')",
    "SELECT encode(pg_read_binary_file('{secret}'), 'escape')",
    "SELECT * FROM pg_ls_dir('/')",
    "SELECT pg_ls_dir('/')",
    "SELECT * FROM pg_stat_file('{secret}')",
    "SELECT lo_import('{secret}')",
    "SELECT lo_export(lo_from_bytea(0, 'x'), '{mark}')",
    "SELECT lo_create(4242)",
    "SELECT query_to_xml('SELECT pg_read_file(''{secret}'')', true, false, '')",
    "SELECT query_to_xml('DELETE FROM people', true, false, '')",
    "SELECT database_to_xml(true, false, '')",
    "SELECT ts_stat('SELECT wipe()')",
    "SELECT dblink('host=127.0.0.1', 'SELECT 1')",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "SELECT set_config('default_transaction_read_only', 'off', false)",
    "SELECT pg_sleep(30)",
    "SELECT pg_terminate_backend(pg_backend_pid())",
    "SELECT pg_reload_conf()",
    "SELECT pg_rotate_logfile()",
    "SELECT pg_switch_wal()",
    "SELECT pg_advisory_lock(1)",
    "SELECT pg_notify('a', 'b')",
    "SELECT pg_logical_emit_message(false, 'a', 'b')",
    "SELECT pg_create_restore_point('x')",
    "SELECT current_setting('data_directory')",
    "SELECT rolpassword FROM pg_authid",
    "SELECT passwd FROM pg_catalog.pg_shadow",
    "TABLE pg_hba_file_rules",
    "SELECT * FROM pg_stat_activity",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM xmltable('/a' PASSING '<a/>' COLUMNS b int)",
    "WITH RECURSIVE loop AS (SELECT 1 AS n UNION ALL SELECT n FROM loop) SELECT n FROM loop",
    "SELECT id OPERATOR(public.+) 1 FROM people",
    "SELECT id FROM people ORDER BY id USING OPERATOR(public.<)",
    "SELECT $1",
    "SELECT 1\0; DELETE FROM people",
    "SELECT '\ud800'",
    "SELECT " + "(" * 50000 + "1" + ")" * 50000,
    "SELECT " + "+".join(["1"] * 5000),
    "",
    ";",
    "-- nothing",
]
HARMLESS = [
    ("SELECT id FROM people ORDER BY id", [1, 2, 3]),
    ("WITH p AS (SELECT id FROM people WHERE id > 1) SELECT id FROM p ORDER BY 1;", [2, 3]),
    ("TABLE numbers", [5]),
    ("VALUES (7)", [7]),
    ("(SELECT 1 AS a) UNION (SELECT 1)", [1]),
    ("SELECT 2 AS a -- a note", [2]),
    ("SELECT /* a /* nested */ note */ 2 AS a", [2]),
    ("SELECT count(*) FROM people p JOIN numbers n ON true WHERE name LIKE 'A%'", [1]),
    ("SELECT round(avg(id), 1)::float8 FROM people GROUP BY substring(name FROM 1 FOR 0)", [2.0]),
    ("SELECT extract(year FROM DATE '2020-03-04')::int", [2020]),
    ("SELECT CASE WHEN EXISTS (SELECT 1 FROM people) THEN 'it''s' ELSE E'b\\n' END", ["it's"]),
    ("SELECT id FROM people WHERE id IN (SELECT v FROM numbers) OR id = ANY(ARRAY[1])", [1]),
    ("SELECT sum(id) OVER (ORDER BY id)::int8 FROM people LIMIT 1", [1]),
    ("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY id) FROM people", [2.0]),
    ("SELECT upper(trim(both ' ' from ' a '))", ["A"]),
    ("SELECT '100%s'", ["100%s"]),
]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with start_postgres() as address:
        with psycopg.connect(address) as connection:
            connection.execute(
                """CREATE TABLE people (id BIGINT, name TEXT);
                INSERT INTO people VALUES (1, 'Anna'), (2, 'Ben'), (3, 'Cleo');
                CREATE TABLE numbers (v BIGINT); INSERT INTO numbers VALUES (5);
                CREATE SEQUENCE counter;
                CREATE FUNCTION wipe() RETURNS int LANGUAGE plpgsql AS
                    $$ BEGIN DELETE FROM people; RETURN 1; END $$;
                CREATE VIEW counting AS SELECT nextval('counter') AS n"""
            )
        yield address
        connect_witness(address).close()


@pytest.fixture(scope="module")
def folder(server: str) -> Path:
    """The server's own folder, in which it may write and read."""
    folder = Path(server.partition("host=")[2])
    secret = folder / "secret.txt"
    secret.write_text(SECRET)
    if os.geteuid() == 0:
        secret.chmod(0o644)
    return folder


def fill_in(statement: str, folder: Path) -> str:
    mark, secret = folder / "mark", folder / "secret.txt"
    return statement.replace("{mark}", str(mark)).replace("{secret}", str(secret))


@cache
def connect_witness(server: str) -> psycopg.Connection[Any]:
    return psycopg.connect(server, autocommit=True)


def describe_state(server: str, folder: Path) -> tuple[Any, ...]:
    """Everything that a statement could have changed, as the server tells it."""
    questions = (
        "SELECT array_agg((id, name) ORDER BY id)::text FROM people",
        "SELECT last_value, is_called FROM counter",
        "SELECT array_agg(relname::text ORDER BY 1) FROM pg_class WHERE relkind IN ('r', 'v', 'S')",
        "SELECT count(*) FROM pg_largeobject_metadata",
        "SELECT count(*) FROM pg_proc",
        "SELECT setting FROM pg_settings WHERE name = 'archive_command'",
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'",
    )
    connection = connect_witness(server)
    answers = tuple(connection.execute(question).fetchall() for question in questions)
    return (*answers, sorted(path.name for path in folder.iterdir()))


@pytest.mark.postgres
def test_no_statement_changes_runs_or_fetches_anything(server: str, folder: Path) -> None:
    before = describe_state(server, folder)
    for statement in STATEMENTS:
        with pytest.raises(DataError) as raised:
            read_table(server, query=fill_in(statement, folder))
        assert SECRET not in str(raised.value)
        assert "s3cret" not in str(raised.value)
    assert describe_state(server, folder) == before
    assert not (folder / "mark").exists()


@pytest.mark.postgres
@pytest.mark.parametrize(("query", "expected"), HARMLESS)
def test_honest_queries_are_read(server: str, query: str, expected: list[Any]) -> None:
    assert read_table(server, query=query).frame.to_series().to_list() == expected


@pytest.mark.postgres
def test_what_passes_the_check_meets_a_read_only_session_of_single_statements(
    server: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second wall, alone: the first is taken away."""
    monkeypatch.setattr(databases, "require_postgres_select", lambda query: None)
    before = describe_state(server, folder)
    for statement in STATEMENTS[: STATEMENTS.index("SELECT pg_read_file('{secret}')")]:
        with suppress(DataError):  # some of them only ask, and may be answered
            read_table(server, query=fill_in(statement, folder))
    assert describe_state(server, folder) == before


@pytest.mark.postgres
def test_address_cannot_switch_read_only_off(server: str, folder: Path) -> None:
    before = describe_state(server, folder)
    address = f"{server}&options=-c%20default_transaction_read_only%3Doff"
    with pytest.raises(DataError, match="would change the database"):
        read_table(address, table="counting")  # a view of the owner's that counts its readers
    assert describe_state(server, folder) == before


@pytest.mark.postgres
@pytest.mark.parametrize("table", ["pg_authid", "pg_catalog.pg_shadow", "information_schema.views"])
def test_catalogues_are_no_tables(server: str, table: str) -> None:
    with pytest.raises(DataError, match="catalogues"):
        read_table(server, table=table)


PIECES = st.sampled_from(
    [
        "SELECT 1", "DELETE FROM people", "wipe()", "nextval('counter')", "people", "(", ")", ";",
        "--", "/*", "*/", "'", '"', "$$", "E'\\'", "\n", "FROM", "WITH a AS (", "TABLE people",
        "COPY people TO PROGRAM 'touch /tmp/mark'", "UNION", "AS r", "LIMIT 0", ",", "\\", "U&'",
    ]
)  # fmt: skip


@pytest.mark.postgres
@settings(max_examples=60)
@given(pieces=st.lists(PIECES, min_size=1, max_size=8))
def test_no_combination_of_pieces_changes_anything(
    server: str, folder: Path, pieces: list[str]
) -> None:
    before = describe_state(server, folder)
    with suppress(DataError):
        read_table(server, query=" ".join(pieces))
    assert describe_state(server, folder) == before


@pytest.mark.postgres
def test_plan_of_a_stranger_cannot_empty_a_table(server: str, folder: Path) -> None:
    """The case that was found: a plan file, read by the command line's own way."""
    plan = sf.Plan.parse(
        '[read]\nquery = "SELECT 1) AS a; DELETE FROM people; COMMIT; SELECT * FROM (SELECT 1"'
    )
    before = describe_state(server, folder)
    with pytest.raises(DataError):
        sf.read(server, **plan.read)
    assert describe_state(server, folder) == before


DUCKDB = [
    "COPY people TO '{mark}'",
    "COPY people TO '{mark}' (FORMAT csv)",
    "EXPORT DATABASE '{mark}'",
    "ATTACH '{mark}' AS other",
    "CREATE TABLE stolen AS SELECT 1",
    "INSERT INTO people VALUES (9)",
    "DELETE FROM people RETURNING *",
    "DELETE FROM people",
    "UPDATE people SET id = 0",
    "DROP TABLE people",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "PRAGMA enable_external_access",
    "SELECT 1; COPY people TO '{mark}'",
    "SELECT * FROM read_csv('{secret}')",
    "SELECT * FROM read_text('{secret}')",
    "SELECT * FROM read_blob('{secret}')",
    "SELECT * FROM read_json('{secret}')",
    "SELECT * FROM read_parquet('{secret}')",
    "SELECT * FROM glob('{secret}')",
    "SELECT * FROM '{secret}'",
    "FROM '{secret}'",
    "SELECT * FROM read_csv('http://127.0.0.1:9/x')",
    "SELECT * FROM 's3://bucket/x.parquet'",
    "SELECT * FROM sniff_csv('{secret}')",
    "SELECT * FROM sqlite_scan('{secret}', 'a')",
    "SELECT * FROM postgres_scan('host=127.0.0.1', 'public', 'people')",
    "SELECT getenv('SFUMATO_CANARY')",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM duckdb_settings()",
    "SELECT current_setting('secret_directory')",
    "SELECT * FROM duckdb_logs()",
    "SELECT nextval('counter')",
    "SELECT * FROM query('SELECT getenv(''SFUMATO_CANARY'')')",
    "SELECT * FROM query_table('{secret}')",
    "SELECT * FROM sql_auto_complete('SEL')",
    "CALL pragma_version()",
    "SELECT * FROM pragma_database_size()",
    "EXPLAIN SELECT 1",
    "SHOW TABLES",
    "DESCRIBE people",
    "SUMMARIZE people",
    "CHECKPOINT",
    "PREPARE a AS SELECT 1",
    "SELECT json_execute_serialized_sql(json_serialize_sql('SELECT getenv(''SFUMATO_CANARY'')'))",
    "WITH RECURSIVE a AS (SELECT 1 AS n UNION ALL SELECT n FROM a) SELECT n FROM a",
    "SELECT * FROM range(100000000000)",
    "SELECT * FROM people; --\0",
    "",
    ";",
]
DUCKDB_HARMLESS = [
    ("SELECT id FROM people ORDER BY id", [1, 2, 3]),
    ("FROM people SELECT max(id)", [3]),
    ("WITH p AS (SELECT id FROM people) SELECT count(*) FROM p", [3]),
    ("VALUES (7)", [7]),
    ("TABLE people LIMIT 1", [1]),
    ("SELECT upper(name) FROM people WHERE regexp_matches(name, '^A')", ["ANNA"]),
    ("SELECT year(DATE '2020-01-02')", [2020]),
    ("SELECT id FROM main.people WHERE name ILIKE 'b%' -- a note", [2]),
    ("SELECT sum(id) OVER (ORDER BY id) FROM people LIMIT 1", [1]),
    ("SELECT CASE WHEN id > 1 THEN 'x' ELSE 'y' END FROM people ORDER BY id LIMIT 1", ["y"]),
    ("SELECT count(*) FROM people p JOIN people q USING (id)", [3]),
    ("SELECT quantile_cont(id, 0.5) FROM people", [2.0]),
]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "x.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            """CREATE TABLE people (id BIGINT, name TEXT);
            INSERT INTO people VALUES (1, 'Anna'), (2, 'Ben'), (3, 'Cleo');
            CREATE SEQUENCE counter"""
        )
    return path


def test_duckdb_statements_cannot_act(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.txt").write_text(SECRET)
    monkeypatch.setenv("SFUMATO_CANARY", SECRET)
    monkeypatch.chdir(tmp_path)
    content = database.read_bytes()
    for statement in DUCKDB:
        with pytest.raises(DataError) as raised:
            read_table(database, query=fill_in(statement, tmp_path))
        assert SECRET not in str(raised.value)
    assert database.read_bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret.txt", "x.duckdb"]


def test_what_passes_the_duckdb_check_finds_the_ways_out_shut(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second wall, alone: the first is taken away."""
    monkeypatch.setattr(databases, "require_duckdb_select", lambda connection, query: None)
    (tmp_path / "secret.txt").write_text(SECRET)
    monkeypatch.chdir(tmp_path)
    content = database.read_bytes()
    endless = ("RECURSIVE", "range(")
    for statement in DUCKDB:
        if any(word in statement for word in endless):
            continue
        with suppress(DataError, AttributeError):  # some statements have no result at all
            table = read_table(database, query=fill_in(statement, tmp_path))
            assert SECRET not in str(table.frame.rows())
    assert database.read_bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret.txt", "x.duckdb"]


@pytest.mark.parametrize(("query", "expected"), DUCKDB_HARMLESS)
def test_honest_duckdb_queries_are_read(database: Path, query: str, expected: list[Any]) -> None:
    assert read_table(database, query=query).frame.to_series().to_list() == expected
