"""Several tables and the keys between them: whose each row is, and the view that joins them.

A key leads from each row of a table to one row of another (`visits.patient` to
`patients.patient`). A table from which keys lead to the table of persons is *owned*: each of its
rows is one person's. All others that can be reached are *shared*, such as a list of wards or, on
the far side of a bridge, the doctors of the patients.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl

from sfumato.data import Dataset, read
from sfumato.data.identity import digest_identifiers, match_identities, number_persons
from sfumato.errors import DataError, PlanError, SchemaError, did_you_mean
from sfumato.io import frames
from sfumato.kernels.arrays import Integers, Positions
from sfumato.progress import Progress
from sfumato.schema import Column, Role, Schema

TABLE, PERSON = "table", "person"
"""Columns of the joined view: the table of a row, and whose it is."""
_NAME = re.compile(r"\w(?:[\w \-]{0,62}\w)?")
_SHOWN: tuple[Role, ...] = ("quasi", "sensitive")


@dataclass(frozen=True, order=True)
class ForeignKey:
    """A variable whose values stand for rows of another table.

    Parameters
    ----------
    table, variable : the side of the many, such as `visits` and `patient`.
    to_table, to_variable : the side of the one, such as `patients` and `patient`.

    Examples
    --------
    >>> key = ForeignKey.parse("visits.patient", "patients.patient")
    >>> key.table, key.to_variable, str(key)
    ('visits', 'patient', 'visits.patient')
    """

    table: str
    variable: str
    to_table: str
    to_variable: str

    def __str__(self) -> str:
        return f"{self.table}.{self.variable}"

    @property
    def target(self) -> str:
        """The side of the one, as a plan writes it."""
        return f"{self.to_table}.{self.to_variable}"

    @classmethod
    def parse(cls, child: str, parent: str) -> Self:
        """From `visits.patient` and `patients.patient`."""
        return cls(*split_name(child), *split_name(parent))


def split_name(name: str) -> tuple[str, str]:
    """Table and variable of `visits.patient`."""
    if not isinstance(name, str) or not all((parts := name.partition("."))[::2]):
        raise PlanError(
            f"'{str(name)[:40]}' names no variable of a table.",
            hint='write "visits.patient": the table, a dot, the variable.',
        )
    return parts[0], parts[2]


def require_table_names(names: Iterable[str]) -> None:
    """Refuse names of tables that could not name a file."""
    for name in names:
        if not _NAME.fullmatch(name):
            raise PlanError(
                f"A table cannot be called {ascii(name)[:80]}: its name becomes that of a file.",
                hint="use letters, digits, - and _, at most 64 of them.",
            )


@dataclass(frozen=True)
class Structure:
    """Which tables there are, and how keys lead from one to the other.

    Parameters
    ----------
    tables : their names.
    keys : each leads from many rows to one.
    person : table and variable that say who a person is.
    """

    tables: tuple[str, ...]
    keys: tuple[ForeignKey, ...]
    person: tuple[str, str]

    def __post_init__(self) -> None:
        require_table_names(self.tables)
        for table in [*(t for key in self.keys for t in (key.table, key.to_table)), self.person[0]]:
            if table not in self.tables:
                raise PlanError(
                    f"A key names the table '{table}', which the plan does not have.",
                    hint=did_you_mean(table, self.tables),
                )
        if twice := sorted({str(key) for key in self.keys if self._count(key) > 1}):
            raise PlanError(
                f"'{twice[0]}' is a key to two tables.", hint="keep the one that it stands for."
            )
        _ = self.order, self.owned, self.shared

    def _count(self, key: ForeignKey) -> int:
        return sum(str(other) == str(key) for other in self.keys)

    def keys_of(self, table: str) -> tuple[ForeignKey, ...]:
        """The keys that lead from a table to others."""
        return tuple(key for key in self.keys if key.table == table)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The tables, each after those that its keys lead to."""
        ordered: list[str] = []
        waiting = list(self.tables)
        while waiting:
            ready = [
                table
                for table in waiting
                if all(key.to_table in ordered for key in self.keys_of(table))
            ]
            if not ready:
                circle = self._find_circle(waiting)
                raise PlanError(
                    f"The keys lead in a circle: {' to '.join(circle)}.",
                    hint="leave one of these keys out.",
                )
            ordered += ready
            waiting = [table for table in waiting if table not in ready]
        return tuple(ordered)

    def _find_circle(self, waiting: list[str]) -> list[str]:
        path = [waiting[0]]
        while True:
            following = next(
                key.to_table for key in self.keys_of(path[-1]) if key.to_table in waiting
            )
            if following in path:
                return [*path[path.index(following) :], following]
            path.append(following)

    @cached_property
    def owned(self) -> tuple[str, ...]:
        """The table of persons, and all from which keys lead there, each after its parents."""
        owned = {self.person[0]}
        for table in self.order:
            if any(key.to_table in owned for key in self.keys_of(table)):
                owned.add(table)
        # The table of persons may itself lead to others, such as households.
        return tuple(table for table in self.order if table in owned)

    @cached_property
    def shared(self) -> tuple[str, ...]:
        """Tables whose rows belong to nobody alone."""
        reached = set(self.owned)
        for table in reversed(self.order):
            if table in reached:
                reached.update(key.to_table for key in self.keys_of(table))
        for table in self.tables:
            if table not in reached:
                raise PlanError(
                    f"No key leads from table '{table}' to the persons in '{self.person[0]}', nor "
                    "from their rows to it, so nobody can say whose its rows are.",
                    hint="add its key under [keys], or release the table by a plan of its own.",
                )
        return tuple(t for t in self.order if t in reached and t not in self.owned)

    def is_key(self, table: str, variable: str) -> bool:
        """Whether a variable is one end of a key, or says who a person is."""
        ends = {(key.table, key.variable) for key in self.keys}
        ends |= {(key.to_table, key.to_variable) for key in self.keys}
        return (table, variable) in ends | {self.person}

    def list_key_variables(self, table: str) -> list[str]:
        """The variables of a table that are an end of a key, each once."""
        ends = [key.variable for key in self.keys_of(table)]
        ends += [key.to_variable for key in self.keys if key.to_table == table]
        return list(dict.fromkeys([*ends, *([self.person[1]] if table == self.person[0] else [])]))

    def find_root(self, table: str, variable: str) -> str:
        """The variable on the side of the one to which a key leads in the end, by its name."""
        for key in self.keys_of(table):
            if key.variable == variable:
                return self.find_root(key.to_table, key.to_variable)
        return f"{table}.{variable}"


class LinkedTables:
    """Several tables with keys between them. Every row of an owned table is one person's.

    Question: which rows of all tables are one person's, and what could be joined?
    Assumes: a key is one variable. Spellings of one identifier ("17", "017") are one row.

    Parameters
    ----------
    tables : a `Dataset` or a frame by the table's name.
    keys : from the many to the one, `{"visits.patient": "patients.patient"}`. Many to many goes
        through a table with two keys.
    person : the variable that says who a person is, `"patients.patient"`. It has one row for each.

    Examples
    --------
    >>> import polars as pl
    >>> tables = LinkedTables(
    ...     {"patients": pl.DataFrame({"id": [1, 2], "sex": ["f", "m"]}),
    ...      "visits": pl.DataFrame({"patient": [2, 1, 2]})},
    ...     keys={"visits.patient": "patients.id"}, person="patients.id")
    >>> tables.persons["visits"].tolist() == tables.persons["patients"][[1, 0, 1]].tolist()
    True
    """

    def __init__(
        self,
        tables: Mapping[str, Any],
        *,
        keys: Mapping[str, str] | Iterable[ForeignKey],
        person: str,
    ) -> None:
        if isinstance(keys, Mapping):
            keys = [ForeignKey.parse(child, parent) for child, parent in keys.items()]
        self.structure = Structure(tuple(tables), tuple(keys), split_name(person))
        self.tables = {
            name: table if isinstance(table, Dataset) else Dataset(table)
            for name, table in tables.items()
        }
        self._require_usable()
        self.parents = dict(self._find_parents())
        self.tables = {name: self._respell(name) for name in self.tables}

    def __repr__(self) -> str:
        return f"LinkedTables({', '.join(f'{n}: {len(d):,} rows' for n, d in self.tables.items())})"

    def __getitem__(self, table: str) -> Dataset:
        return self.tables[table]

    def _require_usable(self) -> None:
        for name, data in self.tables.items():
            if not frames.is_in_memory(data.frame):
                raise DataError(
                    f"Table '{name}' is not in memory, and linked tables are joined there only.",
                    hint="read its file whole.",
                )
            if not len(data):
                raise DataError(
                    f"There is no record in table '{name}'.",
                    hint="is it the right file? Leave the table out of the plan if it is empty.",
                )
            lacking = [v for v in self.structure.list_key_variables(name) if v not in data.schema]
            if lacking:
                raise SchemaError(
                    f"the key '{name}.{lacking[0]}' is not in the data.",
                    hint=did_you_mean(lacking[0], data.columns),
                )

    def _find_parents(self) -> Iterator[tuple[ForeignKey, Positions]]:
        """For every key, the row that each row leads to."""
        ones = {(key.to_table, key.to_variable) for key in self.structure.keys}
        digests = {}
        for table, variable in sorted(ones | {self.structure.person}):
            words = digest_identifiers([self.tables[table].column(variable)])
            if empty := int((~words.any(axis=1)).sum()):
                raise DataError(
                    f"'{table}.{variable}' is missing in {empty:,} of {len(words):,} rows, and "
                    "must name each row.",
                    hint="fill it in, or leave these rows out.",
                )
            repeated = len(words) - len(np.unique(words, axis=0))
            if repeated:
                raise DataError(
                    f"'{table}.{variable}' must name each row once, and {repeated:,} of "
                    f"{len(words):,} rows repeat a value.",
                    hint="keep one row for each value; several rows of a person go into a table "
                    "of their own.",
                )
            digests[table, variable] = words
        for key in self.structure.keys:
            words = digest_identifiers([self.tables[key.table].column(key.variable)])
            rows = match_identities(digests[key.to_table, key.to_variable], words)
            rows[~words.any(axis=1)] = -1
            if orphans := int((rows < 0).sum()):
                raise DataError(
                    f"{orphans:,} of {len(rows):,} rows of table '{key.table}' have no row in "
                    f"'{key.to_table}': their '{key.variable}' is missing, or no value of "
                    f"'{key.target}'.",
                    hint="add the missing rows, or leave the orphans out, before you protect.",
                )
            yield key, rows

    def _respell(self, name: str) -> Dataset:
        """A table whose keys are spelled as in the tables that they lead to."""
        data = self.tables[name]
        columns = []
        for key in self.structure.keys_of(name):
            # Parents may be spelled like their own parents: follow the key to its end.
            table, variable, rows = key.to_table, key.to_variable, self.parents[key]
            while further := [k for k in self.structure.keys_of(table) if k.variable == variable]:
                rows = self.parents[further[0]][rows]
                table, variable = further[0].to_table, further[0].to_variable
            spelled = frames.get_column(self.tables[table].frame, variable)[rows]
            written = frames.get_column(data.frame, key.variable)
            if written.dtype != spelled.dtype or not written.equals(spelled):
                columns.append(spelled.alias(key.variable))
        if not columns:
            return data
        return replace(data, frame=frames.with_columns(data.frame, pl.DataFrame(columns)))

    @cached_property
    def persons(self) -> dict[str, Integers]:
        """For each row of an owned table the number of its person, whatever the order of rows."""
        table, variable = self.structure.person
        numbers = number_persons(self.tables[table].column(variable)).numbers
        person_of_row = {table: numbers.astype(np.int64)}
        for name in self.structure.owned:
            for key in self.structure.keys_of(name):
                if key.to_table not in person_of_row:
                    continue
                persons = person_of_row[key.to_table][self.parents[key]]
                if name not in person_of_row:
                    person_of_row[name] = persons
                elif different := int((person_of_row[name] != persons).sum()):
                    raise DataError(
                        f"Two keys lead from {different:,} of {len(persons):,} rows of table "
                        f"'{name}' to different persons.",
                        hint="correct these rows; or keep the key to the person whose rows they "
                        "are, and take the other out of [keys].",
                    )
        return person_of_row

    @property
    def person_count(self) -> int:
        """How many persons there are."""
        return len(self.tables[self.structure.person[0]])

    def with_tables(self, tables: Mapping[str, Dataset]) -> LinkedTables:
        """The same keys over other tables, which are checked again."""
        table, variable = self.structure.person
        return LinkedTables(tables, keys=self.structure.keys, person=f"{table}.{variable}")

    def _list_ancestors(self, table: str) -> Iterator[tuple[str, str, Positions]]:
        """A table and all that its keys lead to: by which path, and which row stands for each."""
        waiting = [(table, "", np.arange(len(self.tables[table])))]
        known: dict[str, list[Positions]] = {}
        while waiting:
            name, path, rows = waiting.pop(0)
            if any((rows == other).all() for other in known.get(name, ())):
                continue
            # The same table by another key, such as two doctors of a visit, is told apart.
            yield name, path if name in known else "", rows
            known.setdefault(name, []).append(rows)
            waiting += [
                (key.to_table, f" by {key}", self.parents[key][rows])
                for key in self.structure.keys_of(name)
            ]

    def join(self) -> Dataset:
        """What an outsider can put together: all rows of all persons, in one table.

        Each row of an owned table has the values of its own and of every row that its keys lead
        to, those of the person among them. Tables stand below each other, so there are as many
        rows as in all of them, never those of one table times those of another.

        Examples
        --------
        >>> import polars as pl
        >>> sex = Dataset(pl.DataFrame({"id": [1, 2], "sex": ["f", "m"]}), Schema({"sex": "quasi"}))
        >>> ward = Dataset(pl.DataFrame({"id": [2, 2], "ward": [7, 8]}), Schema({"ward": "quasi"}))
        >>> tables = LinkedTables({"patients": sex, "stays": ward},
        ...                       keys={"stays.id": "patients.id"}, person="patients.id")
        >>> view = tables.join()
        >>> view.columns
        ('table', 'person', 'patients.sex', 'stays.ward')
        >>> view.frame["patients.sex"].to_list()
        ['f', 'm', 'm', 'm']
        """
        return stack_rows([self.join_rows(table) for table in self.structure.owned])

    def join_rows(self, table: str, roles: Sequence[Role] = _SHOWN) -> Dataset:
        """The rows of one owned table, each with the values of every row that its keys lead to.

        Parameters
        ----------
        table : whose rows they are.
        roles : those of the variables that are wanted; keys are none of them.
        """
        count = len(self.tables[table])
        columns = {
            TABLE: pl.repeat(table, count, dtype=pl.String, eager=True),
            PERSON: pl.Series(self.persons[table], dtype=pl.Int64),
        }
        declared = {
            TABLE: Column(role="quasi", kind="nominal"),
            PERSON: Column(role="person", cells="pseudonyms"),
        }
        for name, path, rows in self._list_ancestors(table):
            data = self.tables[name]
            shown = (*roles, "weight") if name == self.structure.person[0] else roles
            for variable in data.schema.having(*shown):
                if self.structure.is_key(name, variable):
                    continue
                label = f"{name}.{variable}{path}"
                columns[label] = frames.get_column(data.frame, variable)[rows]
                declared[label] = replace(data.schema[variable], identity=None)
        return Dataset(pl.DataFrame(columns), Schema(declared))


def stack_rows(parts: Sequence[Dataset]) -> Dataset:
    """Tables below each other; a variable that one of them lacks is missing there."""
    view = pl.concat([part.frame for part in parts], how="diagonal_relaxed")
    declared = {name: column for part in parts for name, column in part.schema.items()}
    return Dataset(view, Schema(declared))


def read_tables(
    where: str | Path,
    *,
    files: Mapping[str, str] | None = None,
    tables: Iterable[str] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    schema: str | None = None,
    progress: Progress | None = None,
) -> dict[str, Dataset]:
    """Read several tables from a folder of files or from a database, by the names of the tables.

    Parameters
    ----------
    where : a folder, in which each file is a table called like the file; a DuckDB file; or the
        address `postgresql://...` of a database.
    files : the file of a table that is not called like it, or its table in the database.
    tables : which to read. Default: all that are there.
    options : how to read each; see `read`.
    schema : of a database.

    Examples
    --------
    >>> import tempfile, polars as pl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pl.DataFrame({"id": [1, 2]}).write_csv(f"{folder}/patients.csv")
    ...     read_tables(folder)
    {'patients': Dataset(2 records, 1 variables, polars)}
    """
    from sfumato.io.several import find_file, list_tables

    named = dict(files or {})
    is_folder = Path(where).is_dir()
    locations = {} if is_folder and tables is not None and {*tables} <= {*named} else list_tables(
        where, schema=schema
    )  # fmt: skip
    datasets: dict[str, Dataset] = {}
    for name in locations if tables is None else tables:
        if name in named and is_folder:
            location = find_file(Path(where), named[name])
        elif (known := named.get(name, name)) in locations:
            location = locations[known]
        else:
            raise DataError(
                f"There is no table '{name}' in this folder or database.",
                hint=did_you_mean(known, locations),
            )
        request = dict((options or {}).get(name, {}))
        request |= {"table": location.table} if location.table else {}
        try:
            datasets[name] = read(location.where, progress=progress, **request)
        except DataError as error:
            raise DataError(f"Table '{name}': {error.what}", hint=error.hint) from None
    return datasets
