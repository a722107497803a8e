"""Which variables to make coarser, and the plan that does it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.console import progress, say, show_json, show_table
from sfumato.cli.look import write_plan
from sfumato.cli.sweep import PICTURES, require_free
from sfumato.data import Dataset
from sfumato.errors import PlanError
from sfumato.io.frames import wrap
from sfumato.parameters import given
from sfumato.plan import Plan
from sfumato.progress import send_progress_to
from sfumato.risk._peers.gains import gains as run_gains
from sfumato.risk._peers.match_told import measured_apart
from sfumato.risk.peers import Peers
from sfumato.tuning.recommendation.joint import USUAL, JointRecommendation, recommend_jointly
from sfumato.tuning.recommendation.recommended import Recommendation
from sfumato.tuning.recommendation.recommended import recommend as run_recommend
from sfumato.tuning.recommendation.written import Place, names_in, place_for, with_steps

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
    enough: Annotated[float, typer.Option(help="The share of records that suffices.")] = 0.95,
    budget: Annotated[
        int, typer.Option(help="How much may be looked at: records times combinations.", min=1)
    ] = 2_000_000_000,
    write: Annotated[
        Path | None,
        typer.Option("--write", "-w", help="Write the plan with the steps to this file."),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            help="Draw what would be gained if one variable were unknown, person by person, into "
            "this SVG, PNG or PDF file. It stays inside."
        ),
    ] = None,
    table: options.Table = None,
    query: options.Query = None,
    overwrite: Annotated[bool, typer.Option(help="Replace existing files.")] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Say which variables give people's secrets away, and which generalisations would help.

    Each variable is measured alone first. Then generalisations are taken one after the other, each
    measured with those before it, until enough records have protective peers whatever an outsider
    knows. The steps of the plan that treat each value by itself are carried out before.
    """
    loaded = Plan.load(plan)
    require_free(write, (".toml",), overwrite=overwrite)  # said before the work is done
    require_free(picture, PICTURES, overwrite=overwrite)
    with progress(quiet=quiet or json) as tell, send_progress_to(tell):
        tell("reading", 0, 1)
        data = options.load(file, plan=loaded, table=table, query=query, progress=tell)
        place = place_for(loaded, data)
        seen = place.reach(data)
        secret = sensitive or _only(seen)
        p, names = _asked(loaded, secret, p, _listed(known))
        alone = run_recommend(seen, secret, names, p=p, enough=enough, budget=budget)
        # A variable that the first steps leave out can be named by nobody after them.
        here = [[one for one in some if one in seen.schema] for some in (place.fixed, place.needed)]
        joint = recommend_jointly(
            seen, secret, names, p=p, enough=enough, budget=budget, fixed=here[0], needed=here[1]
        )
        if picture is not None:
            tell("drawing", 0, 1)
            _draw(seen, secret, names, p, picture, overwrite=overwrite)
    made = with_steps(loaded, place, joint.steps)
    if write is not None:
        write_plan(write, made, overwrite=overwrite, source=file, option="--write")
    if json:
        told = {"sensitive": secret, "p": p, "enough": enough, **_plain(alone, joint, write)}
        show_json(told | {"warnings": list(_warnings(seen, secret))})
        return
    _show(alone, joint, secret, enough, quiet=quiet)
    for one in _warnings(seen, secret):
        say(f"Warning: {one}", style="yellow")
    if not quiet:
        _remark(place, joint, loaded, seen)
        if write is not None:
            say(f"The plan with these steps is in '{write}'. Read it, then run:")
            say(f"  sfumato protect {file} --plan {write} --out release")


def _only(data: Dataset) -> str:
    """The variable to protect where the plan leaves no doubt."""
    found = data.schema.having("sensitive")
    if len(found) == 1:
        return found[0]
    shown = ", ".join(f"'{name}'" for name in found[:_NAMED])
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    what = f"The plan has several sensitive variables: {shown}{more}." if found else (
        "No variable is declared as sensitive."
    )  # fmt: skip
    raise PlanError(what, hint=f"name one: --sensitive {found[0] if found else 'NAME'}")


def _asked(
    plan: Plan, secret: str, p: float | None, known: list[str] | None
) -> tuple[float, list[str] | None]:
    """What the plan's own measure of peers says, where nothing else was said."""
    for one in plan.measures.values():
        if isinstance(one, Peers) and secret in (one.sensitive or [secret]):
            return one.p if p is None else p, one.known if known is None else known
    return p or 0.0, known


def _listed(known: str | None) -> list[str] | None:
    if known is None:
        return None
    return [name.strip() for name in known.split(",") if name.strip()]


def _warnings(data: Dataset, secret: str) -> Iterator[str]:
    """What makes the numbers less than they seem; said even when quiet."""
    if measured_apart(data, [secret]):
        yield (
            f"'{secret}' holds measured numbers. Even who has nearly the same number counts as "
            f"protective here. Measure it with a tolerance: sfumato assess FILE --measure peers "
            f"--sensitive {secret} --tolerance '{{ {secret} = ... }}'"
        )


def _percent(share: float) -> str:
    """A share of protected records, never rounded up: all but one are not 100.0%."""
    return f"{math.floor(round(share * 1000, 6)) / 1000:.1%}"


def _draw(
    data: Dataset, sensitive: str, known: list[str] | None, p: float, to: Path, *, overwrite: bool
) -> None:
    from sfumato.figures.custodian import gains

    gains(run_gains(data, sensitive, known, p)).save(to, overwrite=overwrite)


def _plain(alone: Recommendation, joint: JointRecommendation, write: Path | None) -> dict[str, Any]:
    return {
        "before": joint.before,
        "protected": joint.protected,
        "reached": joint.reached,
        "reason": joint.reason,
        "variables": _rows(alone.table),
        "path": _rows(joint.table),
        "steps": [{"method": step.name, **given(step)} for step in joint.steps],
        "written": None if write is None else str(write),
    }


def _rows(table: Any) -> list[dict[str, Any]]:
    """Plain rows; a frame library may hold NaN where there is no number."""
    return [
        {key: None if isinstance(one, float) and math.isnan(one) else one
         for key, one in row.items()}
        for row in wrap(table).rows(named=True)
    ]  # fmt: skip


def _show(
    alone: Recommendation, joint: JointRecommendation, secret: str, enough: float, *, quiet: bool
) -> None:
    rows = _rows(alone.table)
    show_table(
        f"Records whose '{secret}' is protected: {_percent(joint.before)}. Each variable alone: "
        "what would be gained if it were unknown, in points, and its best generalisation.",
        ["variable", "gain", "best generalisation", "categories", "then"],
        [_alone(row) for row in rows],
    )
    path = _rows(joint.table)
    if path:
        show_table(
            "Together, step by step:",
            ["variable", "how", "categories", "then"],
            [_step(row) for row in path],
        )
    tone = "" if joint.reached else "yellow"
    said = f"With all steps {_percent(joint.protected)} of the records are protected"
    wanted = f"{100 * enough:.6g}%"
    end = f"; {wanted} are enough." if joint.reached else f", not {wanted}. {joint.reason}"
    if not quiet or not joint.reached:
        say(said + end, style=tone)


def _alone(row: Mapping[str, Any]) -> tuple[str, ...]:
    best = row["how"] or "none"
    after = "" if row["coarsened"] is None else _percent(row["coarsened"])
    return (
        row["variable"],
        f"{100 * row['gain']:+.1f}",
        best,
        "" if row["categories"] is None else f"{row['categories']:.0f}",
        after,
    )


def _step(row: Mapping[str, Any]) -> tuple[str, ...]:
    # What is usual needs no word; the others do.
    why = "" if row["why"] == USUAL else f" ({row['why']})"
    return (
        row["variable"],
        f"{row['how']}{why}",
        f"{row['categories_before']:.0f} → {row['categories']:.0f}",
        _percent(row["after"]),
    )


def _remark(place: Place, joint: JointRecommendation, plan: Plan, data: Dataset) -> None:
    """What a custodian should know before the plan is run."""
    if place.before:
        first = ", ".join(dict.fromkeys(one.name for one in place.before))
        say(f"Measured after the plan's own first steps: {first}.")
    coarse = [one for one in place.before if one.name == "coarsen"]
    if done := sorted({name for one in coarse for name in one.touches(data.schema)}):
        say(f"The plan coarsens these already: {', '.join(done)}. To go on, change its own steps.")
    if place.fixed:
        say(f"Left as they are, since later steps need numbers: {', '.join(place.fixed)}.")
    changed = {name for step in joint.steps for name in step.touches(data.schema)}
    for label, one in plan.evaluate.items():
        if some := [name for name in names_in(one, data) if name in changed]:
            say(f"{label} names {', '.join(some)}, which become coarser: does it still suit?")
