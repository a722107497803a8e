"""Which plan meets the targets and loses least."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.console import finite_or_none, format_number, progress, say, show_json, show_table
from sfumato.cli.sweep import PICTURES
from sfumato.errors import PlanError
from sfumato.io import write_table
from sfumato.io.frames import wrap
from sfumato.parameters import list_settings
from sfumato.plan import Plan
from sfumato.progress import send_progress_to
from sfumato.tuning.comparison import Compared
from sfumato.tuning.result import Tuned
from sfumato.tuning.search import tune as run_tune

_TABLES = (".csv", ".tsv", ".parquet", ".xlsx")
_PAIR = 2


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="Example: sfumato tune cohort.csv --plan plan.toml --write tuned.toml --map map.svg"
    )(options.explain_options(tune, run_tune))


def tune(
    file: options.File,
    plan: options.PlanFile,
    write: Annotated[
        Path | None,
        typer.Option("--write", "-w", help="Write the recommended plan to this file."),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option("--map", help="Draw the risk-utility map into this SVG, PNG or PDF file."),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write the table to this CSV, Parquet or Excel file."),
    ] = None,
    runs: Annotated[int, typer.Option(min=2)] = 60,
    budget: float | None = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="Keep finished candidates in this folder, and continue from there."),
    ] = None,
    repeats: Annotated[int, typer.Option(min=1)] = 5,
    weight: Annotated[
        list[str] | None,
        typer.Option(help="How much a utility measure counts: propensity=2. Repeatable."),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(help="Compare two candidates of the table by their numbers: 3,7."),
    ] = None,
    seed: int = 0,
    key: Annotated[
        Path | None, typer.Option(help="The key file with which the plan will be carried out.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1)] = None,
    table: options.Table = None,
    query: options.Query = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Search methods and parameters for the plan that meets the targets and loses least.

    The plan states what must hold ([targets]) and what matters (utility measures in [evaluate]).
    Nothing is released. Exit code 3 if no candidate meets every target; then no plan is written.
    """
    loaded = Plan.load(plan)
    for path, known in ((write, (".toml",)), (picture, PICTURES), (to, _TABLES)):
        options.require_free(path, known, overwrite=overwrite)  # said before the work is done
    pair = None if compare is None else _parse_pair(compare)
    with progress(quiet=quiet or json) as tell, send_progress_to(tell):
        tell("reading", 0, 1)
        data = options.load(file, plan=loaded, table=table, query=query, progress=tell)
        tuned = run_tune(
            data,
            loaded,
            weights=options.parse_weights(weight or [], "propensity=2"),
            runs=runs,
            budget=budget,
            repeats=repeats,
            seed=seed,
            key=key,
            folder=resume,
            workers=workers,
            progress=tell,
        )
        compared = None if pair is None else tuned.compare(*pair)
        if to is not None:
            write_table(wrap(tuned.table).to_polars(), to)
        if picture is not None:
            tell("drawing", 0, 1)
            tuned.picture().save(picture, overwrite=overwrite)
    if write is not None and tuned.met:
        options.write_plan(write, tuned.plan, overwrite=overwrite, source=file, option="--write")
    if json:
        show_json(_to_json(tuned, compared, write if tuned.met else None))
    else:
        _show(tuned, compared)
        if not quiet:
            _show_next_steps(tuned, file, write)
    if not tuned.met:
        raise typer.Exit(3)


def _parse_pair(text: str) -> tuple[int, int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != _PAIR:
        raise PlanError("--compare takes the numbers of two candidates: --compare 3,7.")
    return numbers[0], numbers[1]


def _show(tuned: Tuned, compared: Compared | None) -> None:
    """The front and the verdict; the whole map is in the table and in the picture."""
    targets = [candidate.name for candidate in tuned.runner.plan.targets]
    columns = ["candidate", "plan", *targets, *tuned.weights, "loss", "met"]
    shown = {candidate.number: candidate for candidate in (*tuned.front, tuned.best)}
    ranked = sorted(shown.values(), key=lambda candidate: (candidate.loss, candidate.number))
    rows = [
        (
            f"{candidate.number}{'*' * (candidate.number == tuned.best.number)}",
            candidate.describe(),
            *(_format_number(judged.number) for judged in candidate.verdict),
            *(_format_number(candidate.utility[label]) for label in tuned.weights),
            _format_number(candidate.loss),
            "yes" if candidate.met else "no",
        )
        for candidate in ranked
    ]
    show_table(
        f"Candidates: {len(tuned.candidates)}. On the front: {len(tuned.front)}. "
        f"{'Recommended' if tuned.met else 'Nearest'}: *. Nothing is released.",
        columns,
        rows,
    )
    for line in tuned.why:
        say(line, style="" if tuned.met else "yellow")
    if compared is not None:
        show_table(
            f"a: {compared.a}. b: {compared.b}. Differences a - b, with 95% intervals:",
            ["number", "a", "b", "difference", "low", "high", "better"],
            [
                tuple(_format_cell(row[name]) for name in
                      ("number", "a", "b", "difference", "low", "high", "better"))
                for row in wrap(compared.table).rows(named=True)
            ],
        )  # fmt: skip


def _show_next_steps(tuned: Tuned, file: str, write: Path | None) -> None:
    if tuned.met and write is not None:
        say(f"The recommended plan is in '{write}'. Read it, then run:")
        say(f"  sfumato protect {file} --plan {write} --out release")
    if not tuned.met and write is not None:
        say("No plan was written.")


def _format_number(value: float) -> str:
    return format_number(None) if math.isnan(value) else format_number(value)


def _format_cell(value: Any) -> str:
    return "" if value is None else format_number(value)


def _to_json(tuned: Tuned, compared: Compared | None, write: Path | None) -> dict[str, Any]:
    rows = wrap(tuned.table).rows(named=True)
    rows_compared = None if compared is None else wrap(compared.table).rows(named=True)
    return {
        "met": tuned.met,
        "recommended": tuned.best.number if tuned.met else None,
        "nearest": None if tuned.met else tuned.best.number,
        "steps": [{"method": step.name, **list_settings(step)} for step in tuned.plan.steps],
        "targets": [candidate.plain() for candidate in tuned.best.verdict],
        "loss": finite_or_none(tuned.best.loss),
        "weights": dict(tuned.weights),
        "why": list(tuned.why),
        "stopped": tuned.stopped,
        "front": [candidate.number for candidate in tuned.front],
        "candidates": [
            {name: finite_or_none(value) for name, value in row.items()} for row in rows
        ],
        "compared": None
        if rows_compared is None
        else [
            {name: finite_or_none(value) for name, value in row.items()} for row in rows_compared
        ],
        "written": None if write is None else str(write),
    }
