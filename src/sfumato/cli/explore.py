"""A first look at a release with the noise taken out, from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.analysis.explore import QUANTILES, Exploration
from sfumato.analysis.explore import explore as run_explore
from sfumato.cli import options
from sfumato.cli.console import finite_or_none, progress, say, show_json, show_table
from sfumato.cli.fit import format_cell, read_noise
from sfumato.errors import PlanError
from sfumato.progress import send_progress_to


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: sfumato explore release --variable income")(
        options.explain_options(explore, run_explore)
    )


def explore(
    release: Annotated[
        str, typer.Argument(help="The folder of a release; or a data file, with --noise.")
    ],
    variable: Annotated[
        list[str] | None,
        typer.Option("--variable", "-v", help="Which to look at. Repeatable. Default: all."),
    ] = None,
    noise: Annotated[
        Path | None,
        typer.Option(help="A TOML or JSON file that describes the noise of each variable."),
    ] = None,
    accredited: Annotated[
        Path | None, typer.Option(help="The manifest for accredited analysts.")
    ] = None,
    clean: Annotated[
        list[str] | None,
        typer.Option(help="A variable to use unchanged although it was protected. Repeatable."),
    ] = None,
    weights: str | None = None,
    quantile: Annotated[
        list[float] | None, typer.Option(help="A quantile between 0 and 1. Repeatable.")
    ] = None,
    level: float = 0.95,
    seed: int = 0,
    pictures: Annotated[
        Path | None, typer.Option(help="Draw the density of each noised number into this folder.")
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Look at noised data with the noise taken out: means, spreads, quantiles, correlations.

    Each number has an interval, and beside it the uncorrected number.
    """
    if pictures is not None and pictures.exists():
        raise PlanError(f"'{pictures}' exists already.", hint="choose another folder.")
    with progress(quiet=quiet or json) as tell, send_progress_to(tell):
        seen = run_explore(
            release,
            variable or None,
            noise=None if noise is None else read_noise(noise),
            clean=clean or (),
            weights=weights,
            quantiles=quantile or QUANTILES,
            level=level,
            seed=seed,
            accredited=accredited,
        )
        if pictures is not None:
            _draw(pictures, seen, tell)
    if json:
        show_json(_to_json(seen))
        return
    _show(seen, quiet=quiet)


def _draw(folder: Path, seen: Exploration, tell: Any) -> None:
    if not seen.densities:
        say("No number has noise, so there is no density to draw.")
        return
    folder.mkdir(parents=True)
    for done, name in enumerate(seen.densities):
        tell("drawing", done, len(seen.densities))
        # A name is anybody's text; a file name is not.
        safe = "".join(sign if sign.isalnum() or sign in "-_" else "_" for sign in name)
        seen.plot_density(name).save(folder / f"{done + 1:02d}-{safe}.svg")


def _show(seen: Exploration, *, quiet: bool) -> None:
    percent = f"{seen.level:.0%} interval"
    for title, first, value, rows in (
        ("Numbers", ("variable", "statistic"), "estimate", seen.rows),
        ("Categories", ("variable", "level"), "share", seen.share_rows),
        ("Correlations", ("first", "second"), "correlation", seen.correlation_rows),
    ):
        if rows:
            show_table(
                f"{title}, noise taken out ({seen.records:,} records)",
                [*first, value, percent, "as released"],
                [
                    [
                        *(str(row[name]) for name in first),
                        _format(row[value]),
                        f"{_format(row['low'])} to {_format(row['high'])}",
                        _format(row["naive"]),
                    ]
                    for row in rows
                ],
            )
    for name, reason in () if quiet else seen.left_out.items():
        say(f"Not looked at: {name} {reason}.")
    for line in seen.warnings:
        say(f"Warning: {line}", style="yellow")


def _format(value: float) -> str:
    return format_cell(finite_or_none(value)) or "?"


def _to_json(seen: Exploration) -> dict[str, Any]:
    def clean(rows: Any) -> list[dict[str, Any]]:
        return [
            {
                name: value if isinstance(value, str) else finite_or_none(value)
                for name, value in row.items()
            }
            for row in rows
        ]

    return {
        "records": seen.records,
        "level": seen.level,
        "numbers": clean(seen.rows),
        "shares": clean(seen.share_rows),
        "correlations": clean(seen.correlation_rows),
        "densities": {
            name: frame.to_dict(as_series=False) for name, frame in seen.densities.items()
        },
        "left_out": dict(seen.left_out),
        "warnings": list(seen.warnings),
    }
