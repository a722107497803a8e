"""How much noise is enough, and what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.analysis.efficiency import Efficiency
from sfumato.analysis.efficiency import efficiency as run_efficiency
from sfumato.cli import options
from sfumato.cli.console import progress, say, show_json, show_table
from sfumato.cli.look import write_plan
from sfumato.cli.sweep import PICTURES, require_free
from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.errors import PlanError
from sfumato.io.frames import wrap
from sfumato.methods.noise import Noise
from sfumato.parameters import given
from sfumato.plan import Plan
from sfumato.progress import send_progress_to
from sfumato.tuning.calibrate import Calibrated
from sfumato.tuning.calibrate import calibrate as run_calibrate
from sfumato.tuning.exposed import Who
from sfumato.tuning.recommendation.written import place_for, with_steps
from sfumato.utility.models.regression import Family


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="Example: sfumato calibrate cohort.csv --plan plan.toml --variables height,weight "
        "--mean-h 5 --model 'systolic ~ height' --write noised.toml"
    )(calibrate)


def calibrate(
    file: options.File,
    plan: options.PlanFile,
    variables: Annotated[
        str | None,
        typer.Option(help="The numbers to add noise to: height,weight. Default: what is known."),
    ] = None,
    mean_h: Annotated[
        float | None,
        typer.Option("--mean-h", help="The least mean of h: how many persons off, on average."),
    ] = None,
    at_most: Annotated[
        float | None,
        typer.Option(help="The highest share of records with h below the limit."),
    ] = None,
    below: Annotated[int, typer.Option(help="That limit.", min=1)] = 3,
    who: Annotated[
        str,
        typer.Option(help="For whom: all, deciles, or a share such as 0.05: the most exposed."),
    ] = "all",
    by: Annotated[
        str, typer.Option(help="The order of the deciles: sum, distance, or a variable.")
    ] = "sum",
    known: Annotated[
        str | None, typer.Option(help="What an attacker knows. Default: role quasi.")
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(help="How much noise a variable gets in proportion: height=0.5. Repeatable."),
    ] = None,
    draws: Annotated[int, typer.Option(help="How often each size is drawn.", min=2)] = 10,
    model: Annotated[
        list[str] | None,
        typer.Option(help="A model that analysts will fit: 'y ~ x'. What it loses is told."),
    ] = None,
    family: Annotated[
        str, typer.Option(help="Of the models: linear, logistic or poisson.")
    ] = "linear",
    write: Annotated[
        Path | None,
        typer.Option("--write", "-w", help="Write the plan with the noise to this file."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw what was tried into this SVG, PNG or PDF file.")
    ] = None,
    table: options.Table = None,
    query: options.Query = None,
    overwrite: Annotated[bool, typer.Option(help="Replace existing files.")] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Find the least noise with which an attacker lands far enough off, and say what it costs.

    Nothing is released. Exit code 3 when no noise that was tried suffices.
    """
    if (mean_h is None) == (at_most is None):
        raise PlanError(
            "Say what must hold: either --mean-h, or --at-most for the share below a limit.",
            hint="for instance --mean-h 3, or --below 3 --at-most 0.1.",
        )
    loaded = Plan.load(plan)
    require_free(write, (".toml",), overwrite=overwrite)  # said before the work is done
    require_free(picture, PICTURES, overwrite=overwrite)
    with progress(quiet=quiet or json) as tell, send_progress_to(tell):
        tell("reading", 0, 1)
        data = options.load(file, plan=loaded, table=table, query=query, progress=tell)
        if write is not None:
            _require_untouched(loaded, data, _listed(variables) or [])
        found = run_calibrate(
            data,
            _listed(variables),
            mean_h=mean_h,
            below=below,
            at_most=at_most,
            who=_who(who),
            by=by,
            known=_listed(known),
            weights=_weights(weight or []),
            draws=draws,
        )
        lost = [_lost(data, found.step, one, _family(family)) for one in model or []]
        if picture is not None:
            from sfumato.figures.custodian import calibrated

            calibrated(found).save(picture, overwrite=overwrite)
    if write is not None and found.met:
        _require_untouched(loaded, data, found.step.variables)
        made = with_steps(loaded, place_for(loaded, data), [found.step])
        write_plan(write, made, overwrite=overwrite, source=file, option="--write")
    if json:
        show_json(_plain(found, lost, write if found.met else None))
    else:
        _show(found, lost, quiet=quiet)
        if found.met and write is not None and not quiet:
            say(f"The plan with this noise is in '{write}'. Read it, then run:")
            say(f"  sfumato protect {file} --plan {write} --out release")
    if not found.met:
        raise typer.Exit(3)


def _listed(text: str | None) -> list[str] | None:
    if text is None:
        return None
    return [name.strip() for name in text.split(",") if name.strip()]


def _who(text: str) -> Who:
    if text in ("all", "deciles"):
        return text  # type: ignore[return-value]
    try:
        return float(text)
    except ValueError:
        raise PlanError(
            "--who is all, deciles, or a share such as 0.05.",
            hint="0.05 is the twentieth that has the fewest others around.",
        ) from None


def _weights(texts: list[str]) -> dict[str, float] | None:
    found = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        try:
            found[name] = float(number)
        except ValueError:
            raise PlanError("--weight takes a name and a number: --weight height=0.5.") from None
    return found or None


def _family(text: str) -> Family:
    if text not in ("linear", "logistic", "poisson"):
        raise PlanError("--family is linear, logistic or poisson.")
    return text  # type: ignore[return-value]


def _lost(data: Dataset, step: Noise, formula: str, family: Family) -> Efficiency:
    fitted = step.fit(data, engine_for(data.frame))
    return run_efficiency(data, step.describes(fitted, data.schema), formula, family)


def _require_untouched(plan: Plan, data: Dataset, names: list[str]) -> None:
    """No other step may change the variables that get noise."""
    touched = {name for one in plan.steps for name in one.touches(data.schema)}
    if both := sorted(touched & set(names)):
        listed = ", ".join(f"'{name}'" for name in both)
        raise PlanError(
            f"Another step of the plan changes these variables, so analysts could not take the "
            f"noise out again: {listed}.",
            hint="leave them out of that step, or name other --variables.",
        )


def _plain(found: Calibrated, lost: list[Efficiency], write: Path | None) -> dict[str, Any]:
    return {
        "met": found.met,
        "asked": found.asked,
        "goal": found.goal,
        "share": found.share,
        "achieved": found.achieved,
        "error": found.error,
        "worst": found.worst,
        "reason": found.reason,
        "warnings": list(found.warnings),
        "step": {"method": found.step.name, **given(found.step)},
        "tried": list(wrap(found.table).rows(named=True)),
        "groups": list(wrap(found.groups).rows(named=True)),
        "offers": [
            {"achieved": one.achieved, "step": {"method": one.step.name, **given(one.step)}}
            for one in found.offers
        ],
        "models": [
            {
                "formula": one.formula,
                "family": one.family,
                "determinant_ratio": one.determinant_ratio,
                "terms": list(wrap(one.table).rows(named=True)),
            }
            for one in lost
        ],
        "written": None if write is None else str(write),
    }


def _show(found: Calibrated, lost: list[Efficiency], *, quiet: bool) -> None:
    shares = found.step.variance_share
    rows = (
        [(name, f"{one:.3g}") for name, one in shares.items()] if isinstance(shares, dict) else []
    )
    show_table(
        f"Asked for: {found.asked}. "
        + ("The least noise that suffices:" if found.met else "The most that was tried:"),
        ["variable", "variance of the noise, as a share of the variable's"],
        rows,
    )
    show_table(
        "What it brings, by group:",
        ["group", "records", "reached", "error"],
        [
            (row["group"], f"{row['records']:,}", f"{row['achieved']:.3g}", f"{row['error']:.2g}")
            for row in wrap(found.groups).rows(named=True)
        ],
    )
    for one in lost:
        show_table(
            f"What {one.formula} loses when the noise is taken out again:",
            ["term", "standard error", "with noise", "times"],
            [
                (row["term"], f"{row['se_original']:.3g}", f"{row['se_predicted']:.3g}",
                 f"{row['inflation']:.2f}")
                for row in wrap(one.table).rows(named=True)
            ],
        )  # fmt: skip
    for warning in found.warnings:
        say(f"Warning: {warning}", style="yellow")
    if not found.met:
        say(found.reason, style="yellow")
        for offer in found.offers:
            cut = offer.step.at_most is not None
            how = "cut off at the tails" if cut else "larger in the tails"
            say(f"Noise that is {how} does suffice: {given(offer.step)}")
        if not found.offers and not quiet:
            say("Cut the tails off first (method topcode), or state a target you can defend.")
