"""A table that may leave."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.console import out, progress, say, show_json
from sfumato.cli.sweep import require_free
from sfumato.errors import PlanError
from sfumato.io.atomic import replacing
from sfumato.outputs.judged import OutputRefused
from sfumato.outputs.log import Log
from sfumato.outputs.rules import Rules
from sfumato.outputs.tables.crossing import crosstab
from sfumato.outputs.tables.table import Table
from sfumato.plan import Plan
from sfumato.progress import send_progress_to

_FORMATS = (".csv", ".html", ".md", ".tex")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="Example: sfumato table cohort.csv --rows education --columns sex --out table.csv"
    )(table)


def table(
    file: options.File,
    rows: Annotated[str, typer.Option(help="Variables down the side: education,region.")],
    columns: Annotated[str | None, typer.Option(help="Variables across the top.")] = None,
    values: Annotated[str | None, typer.Option(help="The variable to sum up.")] = None,
    aggregate: Annotated[
        str | None,
        typer.Option(help="count, sum, mean, std, median, a percentile (q25); or several."),
    ] = None,
    weights: Annotated[str | None, typer.Option(help="The variable with survey weights.")] = None,
    protection: Annotated[
        str, typer.Option(help="suppress: hide cells; round: round counts to multiples of --base.")
    ] = "suppress",
    k: Annotated[
        int | None, typer.Option("--k", help="Fewest records in a cell. Default: the rules' k.")
    ] = None,
    base: Annotated[int, typer.Option(help="What to round to.", min=2)] = 5,
    normalize: Annotated[
        str | None, typer.Option(help="Shares instead of counts: all, index or columns.")
    ] = None,
    missing: Annotated[
        str, typer.Option(help="Missing values: level (of their own), or leave-out.")
    ] = "level",
    margins: Annotated[bool, typer.Option(help="Show totals.")] = True,
    subtotals: Annotated[bool, typer.Option(help="Show totals of nested rows.")] = False,
    attack: Annotated[
        bool, typer.Option(help="Also tell what anybody can work out of the hidden cells.")
    ] = False,
    to: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write to this CSV, HTML, MD or TEX file.")
    ] = None,
    log: Annotated[Path | None, typer.Option(help="Folder of the log of outputs.")] = None,
    rules: Annotated[Path | None, typer.Option(help="The rules of the house (TOML).")] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", "-p", help="The plan: roles, missing codes.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="What the log calls it.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an existing file.")] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Make a table that may leave: small cells are hidden, and none can be worked out.

    Exit code 3 when the rules refuse the table; the log, where there is one, says why.
    """
    require_free(to, _FORMATS, overwrite=overwrite)  # said before the work is done
    house = Rules.load(rules) if rules else None
    loaded = Plan.load(plan) if plan else None
    noted = Log(log, house) if log else None
    with progress(quiet=quiet or json) as tell, send_progress_to(tell):
        tell("reading", 0, 1)
        data = options.load(file, plan=loaded, progress=tell)
        try:
            made = crosstab(
                data,
                _listed(rows),
                _listed(columns or ""),
                values=values,
                aggregate=_listed(aggregate) if aggregate else None,
                weights=weights,
                margins=margins,
                subtotals=subtotals,
                normalize=_chosen("--normalize", normalize, ("all", "index", "columns")) or False,
                protection=_chosen("--protection", protection, ("suppress", "round")),
                k=k,
                base=base,
                missing=_missing(missing),
                title=title,
                rules=house,
                log=noted,
            )
        except OutputRefused as refusal:
            if json:
                told = {"verdict": "refuse", "reasons": [refusal.what], "hint": refusal.hint}
                show_json(told)
                raise typer.Exit(refusal.exit_code) from None
            raise
        found = made.attack().rows(named=True) if attack else None
    if to is not None:
        _write(made, to)
    if json:
        show_json(_plain(made, found, to))
    else:
        _show(made, found, to, quiet=quiet)


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _chosen(option: str, text: str | None, known: tuple[str, ...]) -> Any:
    if text is not None and text not in known:
        raise PlanError(f"{option} is {', '.join(known[:-1])} or {known[-1]}.")
    return text


def _missing(text: str) -> Any:
    known = {"level": "level", "leave-out": "leave out"}
    return known[_chosen("--missing", text, tuple(known))]


def _write(made: Table, to: Path) -> None:
    if to.suffix == ".csv":
        made.to_csv(to, overwrite=True)
        return
    text = {".html": made.to_html, ".md": made.to_markdown, ".tex": made.to_latex}[to.suffix]()
    with replacing(to) as sibling:
        sibling.write_text(f"{text}\n", "utf-8")


def _plain(made: Table, found: list[dict[str, Any]] | None, to: Path | None) -> dict[str, Any]:
    told = {
        "title": made.title,
        "verdict": made.verdict,
        "reasons": list(made.reasons),
        "notes": list(made.notes),
        "rule": dict(made.rule),
        "cells": made.cells.rows(named=True),
        "written": None if to is None else str(to),
    }
    return told if found is None else told | {"attack": found}


def _show(made: Table, found: list[dict[str, Any]] | None, to: Path | None, *, quiet: bool) -> None:
    if to is None:
        out.print(str(made), markup=False, highlight=False, soft_wrap=True)
    for row in found or []:
        *labels, low, high = row.values()
        out.print(f"{', '.join(labels)}: {low:.6g} to {high:.6g}", markup=False, highlight=False)
    if quiet:
        return
    say(f"Verdict: {made.verdict}.", style="green" if made.verdict == "pass" else "yellow")
    for reason in made.reasons:
        say(f"  {reason}")
    if to is not None:
        say(f"The table is in '{to}'.")
