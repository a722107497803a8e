"""A table that may be released."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.console import disarm, out, progress, say, show_json
from sfumato.errors import PlanError
from sfumato.io.atomic import write_file
from sfumato.outputs.log import Log
from sfumato.outputs.output import OutputRefused
from sfumato.outputs.tables.crosstabs import crosstab
from sfumato.outputs.tables.table import Table
from sfumato.plan import Plan
from sfumato.progress import send_progress_to

_FORMATS = (".csv", ".html", ".md", ".tex")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="Example: sfumato table cohort.csv --rows education --columns sex --out table.csv"
    )(options.explain_options(table, crosstab))


def table(
    file: options.File,
    rows: Annotated[str, typer.Option(help="Variables down the side: education,region.")],
    columns: str | None = None,
    values: str | None = None,
    aggregate: str | None = None,
    weights: str | None = None,
    protection: str = "suppress",
    k: int | None = None,
    base: Annotated[int, typer.Option(min=2)] = 5,
    normalize: str | None = None,
    missing: Annotated[
        str, typer.Option(help="Missing values: level (of their own), or leave-out.")
    ] = "level",
    margins: bool = True,
    subtotals: bool = False,
    attack: Annotated[
        bool, typer.Option(help="Also show what anybody can work out about suppressed cells.")
    ] = False,
    to: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write to this CSV, HTML, MD or TEX file.")
    ] = None,
    log: options.OutputLog = None,
    rules: options.HouseRules = None,
    profile: options.Profile = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", "-p", help="The plan: roles, missing codes.")
    ] = None,
    title: str | None = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Make a table that may be released: small cells are suppressed, and none can be worked out.

    Exit code 3 if the rules refuse the table; the log, if there is one, says why.
    """
    options.require_free(to, _FORMATS, overwrite=overwrite)  # said before the work is done
    loaded = Plan.load(plan) if plan else None
    house = options.load_rules(rules, profile, loaded)
    noted = Log(log, house) if log else None
    with progress(quiet=quiet or json) as tell, send_progress_to(tell):
        tell("reading", 0, 1)
        data = options.load(file, plan=loaded, progress=tell)
        try:
            result = crosstab(
                data,
                options.split_names(rows) or [],
                options.split_names(columns) or [],
                values=values,
                aggregate=options.split_names(aggregate),
                weights=weights,
                margins=margins,
                subtotals=subtotals,
                normalize=_require_choice("--normalize", normalize, ("all", "index", "columns"))
                or False,
                protection=_require_choice("--protection", protection, ("suppress", "round")),
                k=k,
                base=base,
                missing=_parse_missing(missing),
                title=title,
                rules=house,
                log=noted,
            )
        except OutputRefused as refusal:
            if json:
                content = {"verdict": "refuse", "reasons": [refusal.what], "hint": refusal.hint}
                show_json(content)
                raise typer.Exit(refusal.exit_code) from None
            raise
        bounds = result.attack().rows(named=True) if attack else None
    if to is not None:
        _write(result, to)
    if json:
        show_json(_to_json(result, bounds, to))
    else:
        _show(result, bounds, to, quiet=quiet)


def _require_choice(option: str, text: str | None, known: tuple[str, ...]) -> Any:
    if text is not None and text not in known:
        raise PlanError(f"{option} is {', '.join(known[:-1])} or {known[-1]}.")
    return text


def _parse_missing(text: str) -> Any:
    known = {"level": "level", "leave-out": "leave out"}
    return known[_require_choice("--missing", text, tuple(known))]


def _write(result: Table, to: Path) -> None:
    if to.suffix == ".csv":
        result.to_csv(to, overwrite=True)
        return
    text = {".html": result.to_html, ".md": result.to_markdown, ".tex": result.to_latex}[
        to.suffix
    ]()
    write_file(to, f"{text}\n")


def _to_json(result: Table, bounds: list[dict[str, Any]] | None, to: Path | None) -> dict[str, Any]:
    content = {
        "title": result.title,
        "verdict": result.verdict,
        "reasons": list(result.reasons),
        "notes": list(result.notes),
        "rule": dict(result.rule),
        "cells": result.cells.rows(named=True),
        "written": None if to is None else str(to),
    }
    return content if bounds is None else content | {"attack": bounds}


def _show(
    result: Table, bounds: list[dict[str, Any]] | None, to: Path | None, *, quiet: bool
) -> None:
    if to is None:
        out.print(disarm(str(result)), markup=False, highlight=False, soft_wrap=True)
    for row in bounds or []:
        *labels, low, high = row.values()
        line = f"{', '.join(labels)}: {low:.6g} to {high:.6g}"
        out.print(disarm(line), markup=False, highlight=False)
    if quiet:
        return
    say(f"Verdict: {result.verdict}.", style="green" if result.verdict == "pass" else "yellow")
    for reason in result.reasons:
        say(f"  {reason}")
    if to is not None:
        say(f"The table is in '{to}'.")
