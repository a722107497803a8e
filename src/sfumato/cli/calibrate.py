"""How much noise is enough, and what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.analysis.efficiency import PredictedEfficiency
from sfumato.analysis.efficiency import efficiency as run_efficiency
from sfumato.cli import options
from sfumato.cli.console import progress, say, show_json, show_table
from sfumato.cli.sweep import PICTURES
from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.errors import PlanError
from sfumato.io.frames import wrap
from sfumato.methods.noise import Noise
from sfumato.parameters import list_settings
from sfumato.plan import Plan
from sfumato.progress import send_progress_to
from sfumato.tuning.calibrate import Calibrated, Who
from sfumato.tuning.calibrate import calibrate as run_calibrate
from sfumato.tuning.recommendation.placement import (
    find_placement,
    insert_steps,
    require_untouched_variables,
)
from sfumato.utility.models.fitting import Family


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="Example: sfumato calibrate cohort.csv --plan plan.toml --variables height,weight "
        "--mean-h 5 --model 'systolic ~ height' --write noised.toml"
    )(options.explain_options(calibrate, run_calibrate))


def calibrate(
    file: options.File,
    plan: options.PlanFile,
    variables: Annotated[
        str | None,
        typer.Option(help="The numbers to add noise to: height,weight. Default: those known."),
    ] = None,
    mean_h: float | None = None,
    at_most: Annotated[
        float | None,
        typer.Option(help="The highest share of records with h below the limit."),
    ] = None,
    below: Annotated[int, typer.Option(help="That limit.", min=1)] = 3,
    who: str = "all",
    by: str = "sum",
    known: Annotated[
        str | None,
        typer.Option(
            help="What an attacker knows, categories too: height,sex. Default: numbers of role "
            "quasi."
        ),
    ] = None,
    misclassified: Annotated[
        list[str] | None,
        typer.Option(
            help="The share of records that keep their level of a known category: region=0.8. "
            "Repeatable. Default: all."
        ),
    ] = None,
    errors: float = 0.0,
    sampling_fraction: float = 1.0,
    weight: Annotated[
        list[str] | None,
        typer.Option(help="How much noise a variable gets in proportion: height=0.5. Repeatable."),
    ] = None,
    attacker: str = "best",
    draws: Annotated[int, typer.Option(min=2)] = 10,
    model: Annotated[
        list[str] | None,
        typer.Option(help="A model that analysts will fit: 'y ~ x'. Its loss is reported."),
    ] = None,
    family: Annotated[
        str, typer.Option(help="Family of the models: linear, logistic or poisson.")
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
    overwrite: options.Overwrite = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Find the least noise that misleads an attacker enough, and report what it costs.

    Nothing is released. Exit code 3 if no noise that was tried is enough.
    """
    if (mean_h is None) == (at_most is None):
        raise PlanError(
            "Set a goal: either --mean-h, or --at-most for the share below a limit.",
            hint="for instance --mean-h 3, or --below 3 --at-most 0.1.",
        )
    loaded = Plan.load(plan)
    options.require_free(write, (".toml",), overwrite=overwrite)  # said before the work is done
    options.require_free(picture, PICTURES, overwrite=overwrite)
    with progress(quiet=quiet or json) as tell, send_progress_to(tell):
        tell("reading", 0, 1)
        data = options.load(file, plan=loaded, table=table, query=query, progress=tell)
        if write is not None:
            require_untouched_variables(loaded, data.schema, options.split_names(variables) or [])
        calibration = run_calibrate(
            data,
            options.split_names(variables),
            mean_h=mean_h,
            below=below,
            at_most=at_most,
            who=_parse_who(who),
            by=by,
            known=options.split_names(known),
            misclassified=options.parse_weights(
                misclassified or [], "region=0.8", option="--misclassified"
            ),
            errors=errors,
            sampling_fraction=sampling_fraction,
            weights=options.parse_weights(weight or [], "height=0.5"),
            attacker=attacker,  # type: ignore[arg-type]  # what is none of both is refused there
            draws=draws,
        )
        losses = [
            _measure_loss(data, calibration.step, formula, _parse_family(family))
            for formula in model or []
        ]
        if picture is not None:
            from sfumato.figures.custodian.tuning import calibrated

            calibrated(calibration).save(picture, overwrite=overwrite)
    if write is not None and calibration.met:
        require_untouched_variables(loaded, data.schema, calibration.step.touches(data.schema))
        extended = insert_steps(loaded, find_placement(loaded, data), [calibration.step])
        options.write_plan(write, extended, overwrite=overwrite, source=file, option="--write")
    if json:
        show_json(_to_json(calibration, losses, write if calibration.met else None))
    else:
        _show(calibration, losses, quiet=quiet)
        if calibration.met and write is not None and not quiet:
            say(f"The plan with this noise is in '{write}'. Read it, then run:")
            say(f"  sfumato protect {file} --plan {write} --out release")
    if not calibration.met:
        raise typer.Exit(3)


def _parse_who(text: str) -> Who:
    if text in ("all", "deciles"):
        return text  # type: ignore[return-value]
    try:
        return float(text)
    except ValueError:
        raise PlanError(
            "--who is all, deciles, or a share such as 0.05.",
            hint="0.05 is the twentieth of the records with the fewest others nearby.",
        ) from None


def _parse_family(text: str) -> Family:
    if text not in ("linear", "logistic", "poisson"):
        raise PlanError("--family is linear, logistic or poisson.")
    return text  # type: ignore[return-value]


def _measure_loss(data: Dataset, step: Noise, formula: str, family: Family) -> PredictedEfficiency:
    fitted = step.fit(data, engine_for(data.frame))
    return run_efficiency(data, step.describes(fitted, data.schema), formula, family)


def _to_json(
    calibration: Calibrated, losses: list[PredictedEfficiency], write: Path | None
) -> dict[str, Any]:
    return {
        "met": calibration.met,
        "asked": calibration.asked,
        "goal": calibration.goal,
        "share": calibration.share,
        "achieved": calibration.achieved,
        "error": calibration.error,
        "worst": calibration.worst,
        "reason": calibration.reason,
        "warnings": list(calibration.warnings),
        "step": {"method": calibration.step.name, **list_settings(calibration.step)},
        "tried": list(wrap(calibration.table).rows(named=True)),
        "groups": list(wrap(calibration.groups).rows(named=True)),
        "offers": [
            {
                "achieved": entry.achieved,
                "step": {"method": entry.step.name, **list_settings(entry.step)},
            }
            for entry in calibration.offers
        ],
        "models": [
            {
                "formula": entry.formula,
                "family": entry.family,
                "determinant_ratio": entry.determinant_ratio,
                "terms": list(wrap(entry.table).rows(named=True)),
            }
            for entry in losses
        ],
        "written": None if write is None else str(write),
    }


def _show(calibration: Calibrated, losses: list[PredictedEfficiency], *, quiet: bool) -> None:
    shares = calibration.step.variance_share
    rows = (
        [(name, f"{entry:.3g}") for name, entry in shares.items()]
        if isinstance(shares, dict)
        else []
    )
    show_table(
        f"Asked for: {calibration.asked}. "
        + ("The least noise that suffices:" if calibration.met else "The most that was tried:"),
        ["variable", "variance of the noise, as a share of the variable's"],
        rows,
    )
    show_table(
        "What it brings, by group:",
        ["group", "records", "reached", "error"],
        [
            (row["group"], f"{row['records']:,}", f"{row['achieved']:.3g}", f"{row['error']:.2g}")
            for row in wrap(calibration.groups).rows(named=True)
        ],
    )
    for entry in losses:
        show_table(
            f"What {entry.formula} loses when the noise is taken out again:",
            ["term", "standard error", "with noise", "times"],
            [
                (row["term"], f"{row['se_original']:.3g}", f"{row['se_predicted']:.3g}",
                 f"{row['inflation']:.2f}")
                for row in wrap(entry.table).rows(named=True)
            ],
        )  # fmt: skip
    for warning in calibration.warnings:
        say(f"Warning: {warning}", style="yellow")
    if not calibration.met:
        say(calibration.reason, style="yellow")
        for offer in calibration.offers:
            cut = offer.step.at_most is not None
            how = "cut off at the tails" if cut else "larger in the tails"
            say(f"Noise that is {how} is enough: {list_settings(offer.step)}")
        if not calibration.offers and not quiet:
            say("Cut the tails off first (method topcode), or state a target you can defend.")
