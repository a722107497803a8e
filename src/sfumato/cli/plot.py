"""A figure that may be released."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.console import progress, say, show_json
from sfumato.cli.sweep import PICTURES
from sfumato.data import Dataset
from sfumato.errors import PlanError, did_you_mean
from sfumato.figures.public.linear_model import fit_model
from sfumato.figures.public.parameters import Binned
from sfumato.outputs.output import OutputRefused
from sfumato.plan import Plan
from sfumato.progress import send_progress_to

_TABLES = (".csv", ".json")
_OF_MODELS = ("residuals", "qq", "leverage", "forest")
_VARIABLES: dict[str, tuple[str, ...]] = {
    "histogram": ("x",),
    "bar": ("x",),
    "scatter": ("x", "y"),
    "heatmap": ("x", "y"),
    "contour": ("x", "y"),
    "box": ("x",),
    "violin": ("x",),
    "density": ("x",),
    "survival": ("time", "event"),
}
KINDS = (*_VARIABLES, *_OF_MODELS)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="Example: sfumato plot scatter cohort.csv --x height --y weight_kg --hue sex "
        "--out figure.svg --log outputs"
    )(options.explain_options(plot, Binned))


def plot(
    kind: Annotated[str, typer.Argument(help=f"What to draw: {', '.join(KINDS)}.")],
    file: options.File,
    x: Annotated[
        str | None, typer.Option(help="The horizontal variable; for a box plot also several: a,b.")
    ] = None,
    y: str | None = None,
    time: Annotated[str | None, typer.Option(help="For survival: the time.")] = None,
    event: Annotated[str | None, typer.Option(help="For survival: whether it happened.")] = None,
    hue: Annotated[str | None, typer.Option("--hue", "--by")] = None,
    model: Annotated[
        str | None, typer.Option(help="For residuals, qq, leverage, forest: linear model 'y ~ x'.")
    ] = None,
    protection: Annotated[
        str | None,
        typer.Option(
            help="suppress, generalise, deterministic, mahalanobis, noise or growing_noise. "
            "Default: by kind."
        ),
    ] = None,
    k: int | None = None,
    bins: int | None = None,
    edges: Annotated[
        str | None, typer.Option(help="For a histogram: the edges of unequal bins, 0,18,40,65.")
    ] = None,
    mean: Annotated[bool, typer.Option("--mean", help="For a box plot: the mean as well.")] = False,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare", help="The original beside all four protections. Do not pass it on."
        ),
    ] = False,
    sd_share: float | None = None,
    key: Annotated[
        Path | None, typer.Option(help="Key file, so that the noise is the same next time.")
    ] = None,
    small: str | None = None,
    title: str | None = None,
    to: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write to this SVG, PNG, PDF or HTML file.")
    ] = None,
    table: Annotated[
        Path | None, typer.Option(help="Write what is drawn to this CSV or JSON file.")
    ] = None,
    log: options.OutputLog = None,
    rules: options.HouseRules = None,
    profile: options.Profile = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", "-p", help="The plan: ranges, missing codes.")
    ] = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Draw a figure that may be released: it contains protected values and nothing else.

    Exit code 3 if the rules refuse the figure; the log, if there is one, says why.
    """
    if kind not in KINDS:
        raise PlanError("This kind of figure is not known.", hint=did_you_mean(kind, KINDS))
    # Said before the work is done.
    options.require_free(to, (*PICTURES, ".html"), overwrite=overwrite)
    options.require_free(table, _TABLES, overwrite=overwrite)
    named = {"x": x, "y": y, "time": time, "event": event, "model": model, "hue": hue}
    settings = {
        "protection": protection,
        "k": k,
        "bins": bins,
        "edges": None if edges is None else _parse_edges(edges),
        "mean": mean or None,
        "sd_share": sd_share,
        "small": small,
        "key": None if key is None else str(key),
        "title": title,
    }
    with progress(quiet=quiet or json) as tell, send_progress_to(tell):
        tell("reading", 0, 1)
        loaded = Plan.load(plan) if plan else None
        data = options.load(file, plan=loaded, progress=tell)
        tell("drawing", 0, 1)
        try:
            options_of_plot = {**settings, **load_house_rules(rules, log, profile, loaded)}
            figure = _draw_plot(kind, data, named, options_of_plot, compared=compare)
        except OutputRefused as refusal:
            if json:
                hint = {"hint": refusal.hint}
                show_json({"verdict": "refuse", "reasons": [refusal.what], **hint})
                raise typer.Exit(refusal.exit_code) from None
            raise
        if to is not None:
            figure.save(to, overwrite=overwrite)
        if table is not None:
            figure.export(table, overwrite=overwrite)
    _show_plot(figure, kind, to, table, as_json=json, quiet=quiet)


def load_house_rules(
    rules: Path | None, log: Path | None, profile: str | None, plan: Plan | None
) -> dict[str, Any]:
    """The house rules and the log that a figure is drawn under."""
    from sfumato.outputs.log import Log

    house = options.load_rules(rules, profile, plan)
    noted = Log(log, house) if log else None
    # A log was begun under rules, and they hold for all that is put into it.
    return {"rules": house or (noted.rules if noted else None), "log": noted}


def _parse_edges(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise PlanError("--edges takes numbers.", hint="for instance --edges 0,18,40,65.") from None


def _draw_plot(
    kind: str,
    data: Dataset,
    named: dict[str, str | None],
    settings: dict[str, Any],
    *,
    compared: bool = False,
) -> Any:
    from sfumato.figures import public as plots

    draw: Callable[..., Any] = getattr(plots, kind)
    takes = inspect.signature(draw).parameters
    if compared:
        draw, settings = partial(plots.compare, kind), {**settings}
        if settings.pop("protection") or settings.pop("small"):
            raise PlanError(
                "--compare shows all protections.", hint="leave out --protection and --small."
            )
    arguments = {name: value for name, value in settings.items() if value is not None}
    odd = sorted(set(arguments) - set(takes) - {"key"})
    if named["hue"] is not None:
        group = next((name for name in ("hue", "by") if name in takes), None)
        arguments |= {group: named["hue"]} if group else {}
        odd += [] if group else ["hue"]
    if odd:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in odd)
        raise PlanError(f"A {kind} plot has no {flags}.", hint="leave it out.")
    if "key" not in takes:
        arguments.pop("key", None)
    if kind in _OF_MODELS and named["model"] is not None:
        return draw(fit_model(data, named["model"]), **arguments)
    if kind == "qq" and named["x"] is not None:
        return draw(data, named["x"], **arguments)
    if kind in _OF_MODELS:
        raise PlanError(
            f"A {kind} plot needs a model.", hint="for instance --model 'weight_kg ~ height'."
        )
    return draw(data, *_list_variables(kind, named), **arguments)


def _list_variables(kind: str, named: dict[str, str | None]) -> list[Any]:
    wanted = _VARIABLES[kind]
    missing = [name for name in wanted if not named[name]]
    if missing:
        flags = " and ".join(f"--{name}" for name in missing)
        raise PlanError(f"A {kind} plot needs {flags}.", hint="name the variable.")
    spare = [name for name in ("x", "y", "time", "event") if named[name] and name not in wanted]
    if spare:
        raise PlanError(f"A {kind} plot has no --{spare[0]}.", hint="leave it out.")
    if kind == "box":
        return [[name.strip() for name in str(named["x"]).split(",") if name.strip()]]
    return [named[name] for name in wanted]


def _show_plot(
    figure: Any, kind: str, to: Path | None, table: Path | None, *, as_json: bool, quiet: bool
) -> None:
    if as_json:
        show_json(
            {
                "kind": kind,
                "title": figure.title,
                "caption": figure.caption,
                "description": figure.description,
                "verdict": figure.verdict,
                "reasons": list(figure.reasons),
                "rule": dict(figure.rule),
                "figure": None if to is None else str(to),
                "table": None if table is None else str(table),
            }
        )
        return
    if quiet:
        return
    say(figure.caption)
    say(figure.description, style="dim")
    say(f"Verdict: {figure.verdict}.", style="green" if figure.verdict == "pass" else "yellow")
    for reason in figure.reasons:
        say(f"  {reason}")
    for what, path in (("figure", to), ("table", table)):
        if path is not None:
            say(f"The {what} is in '{path}'.")
    if to is None and table is None:
        say("Nothing was written: name a file with --out or --table.")
