"""Several plans side by side: risk, disclosure and loss, as a table and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from sfumato.cli import options
from sfumato.cli.console import finite_or_none, format_number, progress, say, show_json, show_table
from sfumato.cli.sweep import PICTURES, TABLES, list_main
from sfumato.data import Dataset
from sfumato.errors import PlanError
from sfumato.io import write_table
from sfumato.io.frames import wrap
from sfumato.plan import Plan
from sfumato.tuning.plans import compare_plans


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: sfumato compare cohort.csv first.toml second.toml")(compare)


def compare(
    file: options.File,
    plans: Annotated[list[Path], typer.Argument(help="Two plans (TOML) or more.")],
    name: Annotated[
        list[str] | None,
        typer.Option(
            "--name",
            help="What a plan is called; once for each plan, in their order. Default: its file.",
        ),
    ] = None,
    measure: options.Measures = None,
    repeats: Annotated[int, typer.Option(help="How many times each is run.", min=1)] = 1,
    seed: Annotated[int, typer.Option(help="A different seed gives different draws.")] = 0,
    to: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write the table to this CSV, Parquet or Excel file."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the measures into this SVG, PNG or PDF file.")
    ] = None,
    table: options.Table = None,
    query: options.Query = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Carry out several plans on the same records, and show what each protects and costs.

    Nothing is released. A row per plan: who can be singled out, whose secrets are disclosed, how
    much information is lost, or the measures that you name; and whether the plan's own targets are
    met. A plan that cannot be carried out stays in the table, with the reason. Exit code 2 if no
    plan could be carried out.
    """
    loaded = _load_plans(plans, name or [])
    for path, known in ((to, TABLES), (picture, PICTURES)):
        options.require_free(path, known, overwrite=overwrite)  # said before the work is done
    with progress(quiet=quiet or json) as tell:
        tell("reading", 0, 1)
        sources = _read_sources(file, loaded, table=table, query=query, progress=tell)
        compared = compare_plans(
            sources,
            loaded,
            measures=options.choose_measures(measure, {}),
            repeats=repeats,
            seed=seed,
            progress=tell,
        )
        frame = wrap(compared).to_polars()
        if to is not None:
            write_table(frame, to)
        if picture is not None:
            from sfumato.figures import custodian

            tell("drawing", 0, 1)
            panels = {column.replace("_", " "): [column] for column in list_main(frame)}
            custodian.compared(frame, panels).save(picture, overwrite=overwrite)
    _show(frame, to, as_json=json, quiet=quiet)


def _load_plans(paths: list[Path], names: list[str]) -> dict[str, Plan]:
    """The plans by name: what was given, or the names of their files."""
    if names and len(names) != len(paths):
        raise PlanError(
            f"There are {len(paths)} plans and {len(names)} names.",
            hint="give --name once for each plan, in their order.",
        )
    labels = names or [path.stem for path in paths]
    if len(set(labels)) < len(labels):
        raise PlanError("Two plans have the same name.", hint="tell them apart with --name.")
    return {label: Plan.load(path) for label, path in zip(labels, paths, strict=True)}


def _read_sources(file: str, plans: dict[str, Plan], **how: Any) -> dict[str, Dataset]:
    """The records as each plan reads them; plans that read alike share them."""
    sources: dict[str, Dataset] = {}
    for label, plan in plans.items():
        alike = next((other for other in sources if plans[other].read == plan.read), None)
        sources[label] = (
            options.load(file, plan=plan, **how) if alike is None else plan.declare(sources[alike])
        )
    return sources


def _show(frame: pl.DataFrame, to: Path | None, *, as_json: bool, quiet: bool) -> None:
    rows = frame.rows(named=True)
    if as_json:
        show_json([{name: finite_or_none(value) for name, value in row.items()} for row in rows])
    elif to is None:
        shown = ["plan", *list_main(frame), "met"]
        repeated = frame["repeat"].n_unique() > 1
        columns = [*shown[:1], *(["repeat"] if repeated else []), *shown[1:]]
        cells = [[_format_cell(row[name]) for name in columns] for row in rows]
        show_table(f"Plans: {frame['plan'].n_unique():,}. Nothing is released.", columns, cells)
    elif not quiet:
        say(f"The table of {len(frame):,} runs is in '{to}'.")
    for row in rows:
        if row["reason"] and not quiet:
            say(f"{row['plan']}: {row['reason']}", style="yellow")
    if all(row[name] is None for row in rows for name in list_main(frame)):
        raise typer.Exit(2)


def _format_cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    words = {None: "", True: "yes", False: "no"}
    return words[value] if value is None or isinstance(value, bool) else format_number(value)
