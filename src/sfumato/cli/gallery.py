"""All plots in all protections, of one's own data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import options
from sfumato.cli.console import progress, say, show_json
from sfumato.cli.plot import load_house_rules
from sfumato.figures.public.linear_model import fit_model
from sfumato.figures.public.parameters import DEFAULTS, Binned
from sfumato.plan import Plan
from sfumato.progress import send_progress_to


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="Example: sfumato gallery cohort.csv --x height --y systolic --out gallery.html"
    )(options.explain_options(gallery, Binned))


def gallery(
    file: options.File,
    x: Annotated[str, typer.Option(help="A variable of numbers.")],
    y: Annotated[str, typer.Option(help="Another one.")],
    to: Annotated[Path, typer.Option("--out", "-o", help="Write to this HTML file.")],
    hue: Annotated[str | None, typer.Option("--hue", "--by")] = None,
    time: Annotated[str | None, typer.Option(help="For survival: the time.")] = None,
    event: Annotated[str | None, typer.Option(help="For survival: whether it happened.")] = None,
    model: Annotated[
        str | None, typer.Option(help="For diagnostics: a linear model 'y ~ x'.")
    ] = None,
    k: int | None = None,
    sd_share: Annotated[float, typer.Option(show_default=False)] = DEFAULTS["sd_share"],
    key: Annotated[Path | None, typer.Option(help="Key file, for the noise.")] = None,
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
    """Draw every plot in every protection on one page, to choose from. Do not pass it on."""
    from sfumato.figures import public as plots

    options.require_free(to, (".html",), overwrite=overwrite)
    with progress(quiet=quiet or json) as tell, send_progress_to(tell):
        tell("reading", 0, 1)
        loaded = Plan.load(plan) if plan else None
        data = options.load(file, plan=loaded, engine="local", progress=tell)
        tell("drawing", 0, 1)
        made = plots.gallery(
            data, x, y, hue=hue, time=time, event=event, k=k, sd_share=sd_share,
            key=None if key is None else str(key), **load_house_rules(rules, log, profile, loaded),
            model=None if model is None else fit_model(data, model),
        )  # fmt: skip
        made.save(to, overwrite=overwrite)
    if json:
        show_json({"page": str(to), "plots": list(made.plots), "refused": dict(made.refused)})
        return
    if not quiet:
        for name, why in made.refused.items():
            say(f"Not drawn: {name}: {why}")
        say(f"{len(made.plots)} plots are in '{to}'. It shows the original: keep it inside.")
