"""Several linked tables at the command line: the same commands, for a folder or a database."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato.cli import options
from sfumato.cli.console import say, show_table
from sfumato.data import Dataset
from sfumato.data.linked import LinkedTables, read_tables
from sfumato.errors import PlanError
from sfumato.io.several import is_several, list_tables
from sfumato.plan import Plan
from sfumato.progress import Progress
from sfumato.run.tables import prepare_tables
from sfumato.suggestion.first_linked import FirstLinkedPlan, first_linked_plan

_ALL = ".*"


def is_of_several(file: str, table: str | None, query: str | None) -> bool:
    """Whether what was given is several tables: a folder, a whole database or schema."""
    if query is not None or (table is not None and not table.endswith(_ALL)):
        return False
    return is_several(file) and not _holds_parts(file)


def _holds_parts(file: str) -> bool:
    """Whether a folder holds the parts of one table: Parquet files that are numbered."""
    path = Path(file)
    names = [item.name for item in path.iterdir()] if path.is_dir() else []
    return bool(names) and all(
        name.startswith((".", "_", "part-")) or name.endswith(".crc") for name in names
    )


def refuse_elsewhere(engine: str | None, master: str | None, query: str | None) -> None:
    """Linked tables are joined in memory, before anything else is done."""
    if engine in ("streaming", "spark") or master is not None:
        raise PlanError(
            "Linked tables are joined in memory: neither Spark nor reading batch by batch works.",
            hint="leave --engine and --master out.",
        )
    if query is not None:
        raise PlanError(
            "Linked tables are read whole, not by a query.",
            hint="make a view of the query in the database, and name it in the plan.",
        )


def find_schema(table: str | None) -> str | None:
    """The schema of a database that `--table 'hospital.*'` names."""
    if table is not None and not table.endswith(_ALL):
        raise PlanError(
            "The plan has several tables, and --table names one.",
            hint="leave it out, or name a schema of the database: --table 'hospital.*'.",
        )
    return None if table is None else table.removesuffix(_ALL)


def read_for(
    file: str,
    plan: Plan | None,
    *,
    table: str | None,
    query: str | None,
    engine: str | None,
    master: str | None,
    progress: Progress | None = None,
) -> Dataset | dict[str, Dataset]:
    """The records that a plan is for: of one table, or of several by name."""
    if plan is None or not plan.tables:
        return options.load(
            file, plan=plan, table=table, query=query, engine=engine, master=master,
            progress=progress,
        )  # fmt: skip
    refuse_elsewhere(engine, master, query)
    return read_tables(
        file,
        files=plan.files,
        tables=plan.tables,
        options={name: own.read for name, own in plan.tables.items()},
        schema=find_schema(table),
        progress=progress,
    )


def link_declared(tables: Mapping[str, Dataset], plan: Plan) -> LinkedTables:
    """Tables with the keys and the roles of a plan."""
    linked = plan.link(tables)
    prepared = prepare_tables(linked, plan)
    return linked.with_tables({name: table.original for name, table in prepared.items()})


def inspect(
    file: str, *, table: str | None, profile: str | None, progress: Progress
) -> FirstLinkedPlan:
    """Suggest keys, roles and a first plan for all tables of a folder or a database."""
    schema = find_schema(table)
    tables = read_tables(file, schema=schema, progress=progress)
    progress("looking at the variables", 1, 2)
    places = list_tables(file, schema=schema)
    # A file may have two suffixes, or another case, so it is named where a plan is read by people.
    files = {n: place.where.name for n, place in places.items() if isinstance(place.where, Path)
             and place.table is None}  # fmt: skip
    return first_linked_plan(tables, files, profile=profile)


def describe_inspected(found: FirstLinkedPlan) -> dict[str, Any]:
    """What was suggested, for machines."""
    return {
        "person": found.plan.person,
        "keys": {
            str(s.key): {"to": s.key.target, "reason": s.reason, "orphans": s.orphans}
            for s in found.keys
        },
        "left_out": list(found.left_out),
        "tables": {
            name: {
                variable: {"role": column.role, "kind": column.kind, "reason": column.reason}
                for variable, column in plan.schema.items()
            }
            for name, plan in found.plan.tables.items()
        },
    }


def show_inspected(found: FirstLinkedPlan, *, quiet: bool) -> None:
    """What was suggested, for people."""
    rows = [(str(s.key), s.key.target, s.reason) for s in found.keys]
    show_table("Keys. These are suggestions.", ["variable", "leads to", "why"], rows)
    for name, plan in found.plan.tables.items():
        lines = [
            (variable, column.role or "?", column.kind or "", column.reason)
            for variable, column in plan.schema.items()
        ]
        show_table(f"Table {name}", ["variable", "role", "kind", "why"], lines)
    if quiet:
        return
    say(f"A person is a row of {found.plan.person}.")
    for name in found.left_out:
        say(f"Left out: no key joins '{name}' with the others.", style="yellow")
    for s in found.keys:
        if s.orphans:
            say(
                f"{s.orphans:,} rows of '{s.key.table}' lead nowhere by '{s.key.variable}': "
                "`protect` will stop at them.",
                style="yellow",
            )
    if found.plan.evaluate:
        say("The first plan takes it that outsiders do not know how many rows a person has "
            "(row_counts = false). Decide whether that is so.")  # fmt: skip
