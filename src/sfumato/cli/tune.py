"""Which plan meets the targets and loses least."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.console import progress, said, say, show_json, show_table
from sfumato.cli.look import write_plan
from sfumato.cli.sweep import PICTURES, require_free
from sfumato.errors import PlanError
from sfumato.io import write_table
from sfumato.io.frames import wrap
from sfumato.parameters import given
from sfumato.plan import Plan
from sfumato.progress import send_progress_to
from sfumato.tuning.compared import Compared
from sfumato.tuning.search import tune as run_tune
from sfumato.tuning.tuned import Tuned

_TABLES = (".csv", ".tsv", ".parquet", ".xlsx")
_PAIR = 2


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="Example: sfumato tune cohort.csv --plan plan.toml --write tuned.toml --map map.svg"
    )(tune)


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
    runs: Annotated[int, typer.Option(help="Try so many candidates at most.", min=2)] = 60,
    budget: Annotated[
        float | None,
        typer.Option(help="Begin no candidate after so many seconds. Default: no limit."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="Keep finished candidates in this folder, and go on from there."),
    ] = None,
    repeats: Annotated[
        int, typer.Option(help="Measure random methods with so many keys.", min=1)
    ] = 5,
    weight: Annotated[
        list[str] | None,
        typer.Option(help="How much a utility measure counts: propensity=2. Repeatable."),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(help="Compare two candidates of the table by their numbers: 3,7."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed, other keys.")] = 0,
    key: Annotated[
        Path | None, typer.Option(help="The key file with which the plan will be carried out.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Try so many at once. The result is the same.", min=1)
    ] = None,
    table: options.Table = None,
    query: options.Query = None,
    overwrite: Annotated[bool, typer.Option(help="Replace existing files.")] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Search methods and parameters for the plan that meets the targets and loses least.

    The plan states what must hold ([targets]) and what matters (utility measures in [evaluate]).
    Nothing is released. Exit code 3 when no candidate meets every target; no plan is written then.
    """
    loaded = Plan.load(plan)
    for path, known in ((write, (".toml",)), (picture, PICTURES), (to, _TABLES)):
        require_free(path, known, overwrite=overwrite)  # said before the work is done
    pair = None if compare is None else _pair(compare)
    with progress(quiet=quiet or json) as tell, send_progress_to(tell):
        tell("reading", 0, 1)
        data = options.load(file, plan=loaded, table=table, query=query, progress=tell)
        found = run_tune(
            data,
            loaded,
            weights=_weights(weight or []),
            runs=runs,
            budget=budget,
            repeats=repeats,
            seed=seed,
            key=key,
            folder=resume,
            workers=workers,
            progress=tell,
        )
        compared = None if pair is None else found.compare(*pair)
        if to is not None:
            write_table(wrap(found.table).to_polars(), to)
        if picture is not None:
            tell("drawing", 0, 1)
            found.picture().save(picture, overwrite=overwrite)
    if write is not None and found.met:
        write_plan(write, found.plan, overwrite=overwrite, source=file, option="--write")
    if json:
        show_json(_plain(found, compared, write if found.met else None))
    else:
        _show(found, compared)
        if not quiet:
            _remark(found, file, write)
    if not found.met:
        raise typer.Exit(3)


def _pair(text: str) -> tuple[int, int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != _PAIR:
        raise PlanError("--compare takes the numbers of two candidates: --compare 3,7.")
    return numbers[0], numbers[1]


def _weights(texts: list[str]) -> dict[str, float] | None:
    found = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        try:
            found[name.strip()] = float(number)
        except ValueError:
            raise PlanError("--weight takes a name and a number: --weight propensity=2.") from None
    return found or None


def _show(found: Tuned, compared: Compared | None) -> None:
    """The front and the verdict; the whole map is in the table and in the picture."""
    targets = [one.name for one in found.bench.plan.targets]
    columns = ["candidate", "plan", *targets, *found.weights, "loss", "met"]
    shown = {one.number: one for one in (*found.front, found.best)}
    ranked = sorted(shown.values(), key=lambda one: (one.loss, one.number))
    rows = [
        (
            f"{one.number}{'*' * (one.number == found.best.number)}",
            one.said(),
            *(_number(judged.number) for judged in one.verdict),
            *(_number(one.utility[label]) for label in found.weights),
            _number(one.loss),
            "yes" if one.met else "no",
        )
        for one in ranked
    ]
    show_table(
        f"Candidates: {len(found.candidates)}. On the front: {len(found.front)}. "
        f"{'Recommended' if found.met else 'Nearest'}: *. Nothing is released.",
        columns,
        rows,
    )
    for line in found.why:
        say(line, style="" if found.met else "yellow")
    if compared is not None:
        show_table(
            f"a: {compared.a}. b: {compared.b}. Differences a - b, with 95% intervals:",
            ["number", "a", "b", "difference", "low", "high", "better"],
            [
                tuple(_cell(row[name]) for name in
                      ("number", "a", "b", "difference", "low", "high", "better"))
                for row in wrap(compared.table).rows(named=True)
            ],
        )  # fmt: skip


def _remark(found: Tuned, file: str, write: Path | None) -> None:
    if found.met and write is not None:
        say(f"The recommended plan is in '{write}'. Read it, then run:")
        say(f"  sfumato protect {file} --plan {write} --out release")
    if not found.met and write is not None:
        say("No plan was written.")


def _number(value: float) -> str:
    return said(None) if math.isnan(value) else said(value)


def _cell(value: Any) -> str:
    return "" if value is None else said(value)


def _plain(found: Tuned, compared: Compared | None, write: Path | None) -> dict[str, Any]:
    rows = wrap(found.table).rows(named=True)
    told = None if compared is None else wrap(compared.table).rows(named=True)
    return {
        "met": found.met,
        "recommended": found.best.number if found.met else None,
        "nearest": None if found.met else found.best.number,
        "steps": [{"method": step.name, **given(step)} for step in found.plan.steps],
        "targets": [one.plain() for one in found.best.verdict],
        "loss": _finite(found.best.loss),
        "weights": dict(found.weights),
        "why": list(found.why),
        "stopped": found.stopped,
        "front": [one.number for one in found.front],
        "candidates": [{name: _finite(value) for name, value in row.items()} for row in rows],
        "compared": None
        if told is None
        else [{name: _finite(value) for name, value in row.items()} for row in told],
        "written": None if write is None else str(write),
    }


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
