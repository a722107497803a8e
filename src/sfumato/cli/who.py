"""Each record by itself: whom the data give away, and by what. It stays inside."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from sfumato.cli import options
from sfumato.cli.console import finite_or_none, format_number, progress, say, show_json, show_table
from sfumato.errors import PlanError
from sfumato.io.atomic import PRIVATE, write_file
from sfumato.plan import Plan
from sfumato.risk.uniqueness import Uniqueness
from sfumato.run.exposure import list_exposed_records
from sfumato.schema import Schema
from sfumato.storage.opening import read_plan_of

_FORMATS = (".csv", ".parquet")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: sfumato who cohort.csv --plan plan.toml --out inside/who.csv")(
        options.add_measure_options(who)
    )


def who(
    file: options.File,
    release: Annotated[
        Path | None, typer.Argument(help="Look at this release of FILE, with custody/.")
    ] = None,
    plan: Annotated[Path | None, typer.Option("--plan", "-p", help="Roles from this plan.")] = None,
    measure: options.Measures = None,
    to: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write all records to this CSV or Parquet file."),
    ] = None,
    rows: Annotated[int, typer.Option(help="How many records are shown.", min=1)] = 20,
    table: options.Table = None,
    query: options.Query = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    *,
    parameters: options.Parameters,
) -> None:
    """List how exposed each record is, those at the highest risk first. Do not pass it on.

    `record` is the place of the record in FILE, from 1. `class_size` says how many people share
    all that others may know, and `alone_by` the fewest variables, up to three, in which the person
    stands alone. No value is shown. With --measure, the columns are those of other measures.
    """
    options.require_free(to, _FORMATS, overwrite=overwrite)
    if plan is not None and release is not None:
        raise PlanError("A release has its own plan.", hint="leave --plan out.")
    with progress(quiet=quiet or json) as tell:
        tell("reading", 0, 1)
        loaded = read_plan_of(release) if release is not None else plan and Plan.load(plan)
        data = options.load(
            file, plan=loaded or None, table=table, query=query, engine="local", progress=tell
        )
        if not loaded:
            data = data.with_schema(Schema.infer(data.frame, known=data.schema))
        chosen = options.choose_measures(measure, parameters)
        measures = chosen or options.adjust_measures({Uniqueness.name: Uniqueness()}, parameters)
        frame = list_exposed_records(data, measures, release, progress=tell)
    if to is not None:
        _write(frame, to)
    if json:
        records = frame.rows(named=True)
        show_json([{name: finite_or_none(value) for name, value in row.items()} for row in records])
        return
    if to is None:
        shown = frame.head(rows).rows()
        title = f"{len(shown):,} of {len(frame):,} records. This must stay inside."
        cells = [[_format_cell(value) for value in row] for row in shown]
        show_table(title, frame.columns, cells)
    elif not quiet:
        say(f"{len(frame):,} records are in '{to}', which must stay inside.")


def _format_cell(value: Any) -> str:
    words = {None: "", True: "yes", False: "no"}
    return words[value] if value is None or isinstance(value, bool) else format_number(value)


def _write(frame: pl.DataFrame, to: Path) -> None:
    content: Any = io.BytesIO()
    if to.suffix == ".csv":
        frame.write_csv(content)
    else:
        frame.write_parquet(content)
    write_file(to, content.getvalue(), mode=PRIVATE)
