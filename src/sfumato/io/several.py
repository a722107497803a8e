"""Where several tables lie: the files of a folder, or the tables of a database or of a schema."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from sfumato.errors import DataError
from sfumato.io import find_reader
from sfumato.io.databases import list_duckdb_tables, list_postgres_tables

_POSTGRES = ("postgresql://", "postgres://")
_DUCKDB = (".duckdb", ".db")


class TablePlace(NamedTuple):
    """Where one table lies: the file or the database, and the name of the table in the latter."""

    where: str | Path
    table: str | None


def is_several(where: str | Path) -> bool:
    """Whether this is a place of several tables: a folder, or a database as a whole."""
    address = str(where)
    return (
        address.startswith((*_POSTGRES, "duckdb://")) or Path(where).is_dir() or _is_duckdb(where)
    )


def _is_duckdb(where: str | Path) -> bool:
    return Path(where).suffix.lower() in _DUCKDB


def list_tables(where: str | Path, *, schema: str | None = None) -> dict[str, TablePlace]:
    """The tables of a folder or a database by their names, in alphabetical order.

    Parameters
    ----------
    where : a folder of files, each of which is a table called like the file; a DuckDB file; or the
        address of a PostgreSQL database.
    schema : of a database. Default: `main`, or the one that the address leads to.
    """
    address = str(where)
    if address.startswith(_POSTGRES):
        names = list_postgres_tables(address, schema)
    elif address.startswith("duckdb://") or _is_duckdb(where):
        path = Path(address.removeprefix("duckdb://").removeprefix("/")
                    if address.startswith("duckdb://") else where)  # fmt: skip
        if not path.is_file():
            raise DataError(f"there is no file '{path}'.", hint="check the name and the folder.")
        names = list_duckdb_tables(path, schema)
    else:
        return _list_files(Path(where))
    if not names:
        raise DataError(
            "there is no table in this database.",
            hint="name its schema: --table 'SCHEMA.*'." if schema is None else "",
        )
    above = "" if schema is None else f"{schema}."
    return {name: TablePlace(where, f"{above}{name}") for name in sorted(names)}


def _list_files(folder: Path) -> dict[str, TablePlace]:
    if not folder.is_dir():
        raise DataError(f"there is no folder '{folder}'.", hint="check the name.")
    locations: dict[str, TablePlace] = {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not path.is_file() or not _holds_table(path):
            continue
        name = path.name.partition(".")[0]
        if name in locations:
            raise DataError(
                f"two files in '{folder}' are called '{name}'.", hint="leave one of them elsewhere."
            )
        locations[name] = TablePlace(path, None)
    if not locations:
        raise DataError(f"there is no table in '{folder}'.", hint="is it the right folder?")
    return locations


def _holds_table(path: Path) -> bool:
    """Whether a file is one that can be read as one table."""
    try:
        return find_reader(path) != "databases.read_duckdb"
    except DataError:
        return False


def find_file(folder: Path, name: str) -> TablePlace:
    """A table that a plan names by its file."""
    path = folder / name
    if not path.is_file():
        raise DataError(
            f"there is no file '{name}' in '{folder}'.", hint="check [tables.NAME] file."
        )
    return TablePlace(path, None)
