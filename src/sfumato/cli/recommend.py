"""Which variables to make coarser, and the plan that does it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.console import progress, say, show_json, show_table
from sfumato.cli.sweep import PICTURES
from sfumato.data import Dataset
from sfumato.errors import PlanError
from sfumato.io.frames import wrap
from sfumato.parameters import list_settings
from sfumato.plan import Plan
from sfumato.progress import send_progress_to
from sfumato.risk.protection.gains import gains as run_gains
from sfumato.tuning.recommendation.advice import Advice, advise
from sfumato.tuning.recommendation.joint import USUAL
from sfumato.tuning.recommendation.placement import find_placement

_NAMED = 5
"""Variables that are named before the others are only counted."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="Example: sfumato recommend cohort.csv --plan plan.toml --sensitive diagnosis "
        "--write new-plan.toml"
    )(recommend)


def recommend(
    file: options.File,
    plan: options.PlanFile,
    sensitive: Annotated[
        str | None,
        typer.Option(help="The variable to protect. Default: the only sensitive one of the plan."),
    ] = None,
    known: Annotated[
        str | None,
        typer.Option(help="What an outsider may know: sex,region. Default: role quasi."),
    ] = None,
    p: Annotated[
        float | None,
        typer.Option(
            "--p",
            help="The share of protective peers that is still a breach. Default: the plan's, or 0.",
        ),
    ] = None,
    enough: Annotated[float, typer.Option(help="The share of records that is enough.")] = 0.95,
    budget: Annotated[
        int, typer.Option(help="How much to examine at most: records times combinations.", min=1)
    ] = 2_000_000_000,
    write: Annotated[
        Path | None,
        typer.Option("--write", "-w", help="Write the plan with the steps to this file."),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            help="Draw what would be gained if one variable were unknown, person by person, into "
            "this SVG, PNG or PDF file. Do not pass it on."
        ),
    ] = None,
    table: options.Table = None,
    query: options.Query = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show which variables give people's secrets away, and which generalisations would help.

    Each variable is first measured alone. Then generalisations are added one by one, each measured
    together with those before it, until enough records have protective peers whatever an outsider
    knows. Steps of the plan that treat each value on its own are carried out first.
    """
    loaded = Plan.load(plan)
    options.require_free(write, (".toml",), overwrite=overwrite)  # said before the work is done
    options.require_free(picture, PICTURES, overwrite=overwrite)
    with progress(quiet=quiet or json) as tell, send_progress_to(tell):
        tell("reading", 0, 1)
        data = options.load(file, plan=loaded, table=table, query=query, progress=tell)
        placement = find_placement(loaded, data)
        prepared = placement.reach(data)
        secret = sensitive or _choose_sensitive(prepared)
        advice = advise(
            loaded,
            placement,
            prepared,
            secret,
            options.split_names(known),
            p=p,
            enough=enough,
            budget=budget,
        )
        if picture is not None:
            tell("drawing", 0, 1)
            _draw(advice, picture, overwrite=overwrite)
    if write is not None:
        options.write_plan(
            write, advice.extended, overwrite=overwrite, source=file, option="--write"
        )
    if json:
        show_json(_to_json(advice, write) | {"warnings": list(_warnings(advice))})
        return
    _show(advice, quiet=quiet)
    for name in _warnings(advice):
        say(f"Warning: {name}", style="yellow")
    if not quiet:
        for remark in advice.list_remarks():
            say(remark)
        if write is not None:
            say(f"The plan with these steps is in '{write}'. Read it, then run:")
            say(f"  sfumato protect {file} --plan {write} --out release")


def _choose_sensitive(data: Dataset) -> str:
    """The variable to protect where the plan leaves no doubt."""
    candidates = data.schema.having("sensitive")
    if len(candidates) == 1:
        return candidates[0]
    shown = ", ".join(f"'{name}'" for name in candidates[:_NAMED])
    more = f" and {len(candidates) - _NAMED} more" if len(candidates) > _NAMED else ""
    what = f"The plan has several sensitive variables: {shown}{more}." if candidates else (
        "No variable is declared as sensitive."
    )  # fmt: skip
    raise PlanError(what, hint=f"name one: --sensitive {candidates[0] if candidates else 'NAME'}")


def _warnings(advice: Advice) -> Iterator[str]:
    """What makes the numbers less than they seem; said even when quiet."""
    secret = advice.sensitive
    if advice.is_measured_number:
        yield (
            f"'{secret}' holds measured numbers. Even somebody with nearly the same number counts "
            "as protective here. Measure it with a tolerance: sfumato assess FILE --measure peers "
            f"--sensitive {secret} --tolerance '{{ {secret} = ... }}'"
        )


def _format_percent(share: float) -> str:
    """A share of protected records, never rounded up: all but one are not 100.0%."""
    return f"{math.floor(round(share * 1000, 6)) / 1000:.1%}"


def _draw(advice: Advice, to: Path, *, overwrite: bool) -> None:
    from sfumato.figures.custodian.peers import gains

    found = run_gains(advice.data, advice.sensitive, advice.known, advice.p)
    gains(found).save(to, overwrite=overwrite)


def _to_json(advice: Advice, write: Path | None) -> dict[str, Any]:
    joint = advice.joint
    return {
        "sensitive": advice.sensitive,
        "p": advice.p,
        "enough": advice.enough,
        "before": joint.before,
        "protected": joint.protected,
        "reached": joint.reached,
        "reason": joint.reason,
        "variables": _list_rows(advice.alone.table),
        "path": _list_rows(joint.table),
        "steps": [{"method": step.name, **list_settings(step)} for step in joint.steps],
        "written": None if write is None else str(write),
    }


def _list_rows(table: Any) -> list[dict[str, Any]]:
    """Plain rows; a frame library may hold NaN where there is no number."""
    return [
        {key: None if isinstance(value, float) and math.isnan(value) else value
         for key, value in row.items()}
        for row in wrap(table).rows(named=True)
    ]  # fmt: skip


def _show(advice: Advice, *, quiet: bool) -> None:
    joint, secret, enough = advice.joint, advice.sensitive, advice.enough
    rows = _list_rows(advice.alone.table)
    show_table(
        f"Records whose '{secret}' is protected: {_format_percent(joint.before)}. Each variable "
        "alone: what would be gained if it were unknown, in points, and its best generalisation.",
        ["variable", "gain", "best generalisation", "categories", "then"],
        [_format_alone(row) for row in rows],
    )
    path = _list_rows(joint.table)
    if path:
        show_table(
            "Together, step by step:",
            ["variable", "how", "categories", "then"],
            [_format_step(row) for row in path],
        )
    tone = "" if joint.reached else "yellow"
    outcome = f"With all steps {_format_percent(joint.protected)} of the records are protected"
    wanted = f"{100 * enough:.6g}%"
    end = f"; {wanted} are enough." if joint.reached else f", not {wanted}. {joint.reason}"
    if not quiet or not joint.reached:
        say(outcome + end, style=tone)


def _format_alone(row: Mapping[str, Any]) -> tuple[str, ...]:
    best = row["how"] or "none"
    after = "" if row["coarsened"] is None else _format_percent(row["coarsened"])
    return (
        row["variable"],
        f"{100 * row['gain']:+.1f}",
        best,
        "" if row["categories"] is None else f"{row['categories']:.0f}",
        after,
    )


def _format_step(row: Mapping[str, Any]) -> tuple[str, ...]:
    # What is usual needs no word; the others do.
    why = "" if row["why"] == USUAL else f" ({row['why']})"
    return (
        row["variable"],
        f"{row['how']}{why}",
        f"{row['categories_before']:.0f} → {row['categories']:.0f}",
        _format_percent(row["after"]),
    )
