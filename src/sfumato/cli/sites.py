"""Several sites without pooling: what a site lets out, and what all say together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.console import (
    disarm,
    format_number,
    out,
    progress,
    say,
    show_json,
    show_table,
)
from sfumato.plan import Plan
from sfumato.progress import send_progress_to


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        epilog="Example: sfumato site cohort.csv --request request.toml --site North "
        "--log outputs --out north"
    )(site)
    app.command(epilog="Example: sfumato combine north south east --out results")(combine)


def site(
    file: options.File,
    request: Annotated[Path, typer.Option("--request", "-r", help="The request (TOML).")],
    to: Annotated[Path, typer.Option("--out", "-o", help="Write the bundle to this folder.")],
    log: Annotated[
        Path, typer.Option(help="Folder of this site's log of outputs. Every answer is counted.")
    ],
    name: Annotated[
        str | None, typer.Option("--site", help="The site's name. Default: that of the bundle.")
    ] = None,
    round_file: Annotated[
        Path | None, typer.Option("--round", help="The next round, as `combine` wrote it.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="Key file, for points with noise.")] = None,
    rules: options.HouseRules = None,
    profile: options.Profile = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", "-p", help="The plan: roles, missing codes.")
    ] = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Answer a request of several sites: the bundle has only what may be released.

    Exit code 3 if the rules let nothing out; the log says why.
    """
    from sfumato.outputs.log import Log
    from sfumato.sites.answering import answer
    from sfumato.sites.bundle import FitRound
    from sfumato.sites.request import SiteRequest

    wanted = SiteRequest.load(request)
    current = None if round_file is None else FitRound.load(round_file)
    with progress(quiet=quiet or json) as tell, send_progress_to(tell):
        tell("reading", 0, 1)
        loaded = Plan.load(plan) if plan else None
        data = options.load(file, plan=loaded, engine="local", progress=tell)
        tell("answering", 0, 1)
        outputs = Log(log, options.load_rules(rules, profile, loaded))
        before = len(outputs)
        bundle = answer(
            data, wanted, site=name or to.resolve().name, log=outputs, round=current,
            key=None if key is None else str(key),
        )  # fmt: skip
        bundle.write(to, overwrite=overwrite)
    judged = list(outputs)[before:]
    rows = [
        {"result": result, "verdict": output.verdict, "reasons": list(output.reasons)}
        for result, output in zip(bundle.results, judged, strict=True)
    ]
    if json:
        show_json({"site": bundle.site, "bundle": str(to), "round": bundle.round is not None
                   and bundle.round.number, "results": rows})  # fmt: skip
    elif not quiet:
        _show_answers(rows, to)
    if all(output.verdict == "refuse" for output in judged):
        raise typer.Exit(3)


def _show_answers(rows: list[dict[str, Any]], to: Path) -> None:
    words = {"pass": "in the bundle", "review": "in the bundle, look again", "refuse": "withheld"}
    show_table(
        "Answers:", ["result", "what became of it"],
        [(row["result"], words[row["verdict"]]) for row in rows],
    )  # fmt: skip
    for row in rows:
        for reason in row["reasons"]:
            say(f"{row['result']}: {reason}")
    if any(row["verdict"] == "review" for row in rows):
        say("Look at what needs a second look before you send the bundle.", style="yellow")
    say(f"The bundle is in '{to}'. The reasons stay here: they are not in it.")


def combine(
    bundles: Annotated[list[Path], typer.Argument(help="The folders of the bundles.")],
    to: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the results to this folder.")
    ] = None,
    level: Annotated[float, typer.Option(help="Of the intervals of models.")] = 0.95,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Combine the bundles of several sites: pooled figures, tables and models.

    While a logistic or Poisson model has not converged, the results hold a round for the sites.
    """
    from sfumato.sites import combining

    with progress(quiet=quiet or json) as tell, send_progress_to(tell):
        tell("combining", 0, 1)
        pooled = combining.combine(bundles, level=level)
        if to is not None:
            pooled.write(to, overwrite=overwrite)
    if json:
        show_json(pooled.plain() | {"folder": None if to is None else str(to)})
        return
    for name, table in pooled.tables.items():
        out.print(f"{name}:", markup=False)
        out.print(disarm(str(table)), markup=False, highlight=False)
    for name, model in pooled.models.items():
        rows = [
            [row["term"], *(format_number(row[column]) for column in _SHOWN)]
            for row in combining.tabulate_model(model).to_dicts()
        ]
        show_table(f"{name} ({model.records:,} records):", ["term", *_SHOWN], rows)
    if pooled.ranges:
        out.print(disarm(pooled.format_ranges()), markup=False, highlight=False)
    if quiet:
        return
    for sentence in pooled.list_statements():
        say(sentence)
    if pooled.round is not None:
        names = ", ".join(sorted(pooled.round.models))
        where = f"send '{to / combining.ROUND}' to the sites" if to else "add --out"
        say(f"{names}: not converged yet; {where} for round {pooled.round.number}.")
    if to is not None:
        say(f"The results are in '{to}'.")


_SHOWN = ("estimate", "error", "p", "low", "high")
