"""Models of noised data from the command line."""

from __future__ import annotations

import json as json_format
import tomllib
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from sfumato.analysis.fit import fit as run_fit
from sfumato.analysis.model_comparison import compare_models
from sfumato.analysis.result import Fit
from sfumato.cli import options
from sfumato.cli.console import finite_or_none, progress, say, show_json, show_table
from sfumato.cli.sweep import PICTURES
from sfumato.errors import PlanError
from sfumato.io import write_table
from sfumato.io.frames import wrap
from sfumato.progress import send_progress_to

_TABLES = (".csv", ".tsv", ".parquet", ".xlsx")
_SHOWN = ("mean", "sd", "low", "high", "naive", "moments", "normal")
_DRAWN = ("rhat", "ess", "mcse")
_LARGE = 1000


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog='Example: sfumato fit "exam ~ reading + (1 | school)" release')(
        options.explain_options(fit, run_fit)
    )


def fit(
    formula: Annotated[str, typer.Argument(help='The model, such as "y ~ x + (1 | school)".')],
    release: Annotated[
        str, typer.Argument(help="The folder of a release; or a data file, with --noise.")
    ],
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
    family: str = "gaussian",
    link: str | None = None,
    trials: str | None = None,
    offset: str | None = None,
    weights: str | None = None,
    method: str = "posterior",
    shape: str = "auto",
    draws: Annotated[int, typer.Option(help="Draws per chain.", min=1)] = 1000,
    chains: Annotated[int, typer.Option(help="How many chains.", min=1)] = 4,
    seed: Annotated[int, typer.Option(help="A different seed gives different draws.")] = 0,
    level: float = 0.95,
    compare: Annotated[
        list[str] | None,
        typer.Option(
            help="Another formula for the same outcome, to compare by leave-one-out "
            "cross-validation (needs ArviZ). Repeatable."
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write the summary to this CSV, Parquet or Excel file."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the coefficients into this SVG, PNG or PDF file.")
    ] = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Fit a model to noised data, with the noise taken out.

    The noise is read from the manifest of the release, or from a file. The summary has the naive
    estimates beside the corrected ones.
    """
    for path, known in ((to, _TABLES), (picture, PICTURES)):
        options.require_free(path, known, overwrite=overwrite)  # said before the work is done
    with progress(quiet=quiet or json) as tell, send_progress_to(tell):
        fit_formula = partial(
            run_fit,
            release=release,
            family=family,
            link=link,
            noise=None if noise is None else read_noise(noise),
            clean=clean or (),
            draws=draws,
            chains=chains,
            seed=seed,
            method=cast("Any", method),  # an unknown one is told with a hint
            shape=cast("Any", shape),
            level=level,
            trials=trials,
            offset=offset,
            weights=weights,
            accredited=accredited,
            pointwise=bool(compare),
        )
        result = fit_formula(formula)
        comparison = _compare([result, *(fit_formula(text) for text in compare or ())])
        if to is not None:
            write_table(wrap(result.table).to_polars(), to)
        if picture is not None:
            tell("drawing", 0, 1)
            result.plot_forest().save(picture, overwrite=overwrite)
    _show(result, comparison, to, as_json=json, quiet=quiet)


def _compare(fits: list[Fit]) -> list[dict[str, Any]]:
    """A row per model, the best first; none where there is one only."""
    if len(fits) == 1:
        return []
    table = compare_models({fit.formula: fit for fit in fits})
    # ArviZ writes an estimate under `elpd_loo` or, from version 1 on, `elpd`.
    table = table.rename(columns={"elpd_loo": "elpd", "p_loo": "p"}).drop(
        columns="scale", errors="ignore"
    )
    return [{"model": str(name), **row} for name, row in table.to_dict("index").items()]


def read_noise(path: Path) -> dict[str, Any]:
    """Descriptions by variable, as they stand in a manifest or under [noise] in a TOML file."""
    try:
        text = path.read_text("utf-8")
        tables = json_format.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError):
        raise PlanError(
            f"'{path}' cannot be read as a description of noise.",
            hint='write a TOML file with a table per variable: [x] distribution = "gaussian" ...',
        ) from None
    for key in ("noise", "variables"):
        nested = tables.get(key) if isinstance(tables, dict) else None
        # A variable may have such a name; then its table says which distribution it is.
        if isinstance(nested, dict) and not isinstance(nested.get("distribution"), str):
            tables = nested
    if not isinstance(tables, dict) or not all(
        isinstance(table, dict) for table in tables.values()
    ):
        raise PlanError(
            f"'{path}' describes no noise.",
            hint='write a table per variable: [x] distribution = "gaussian", variance = 0.2',
        )
    return tables


def _show(
    result: Fit,
    comparison: list[dict[str, Any]],
    to: Path | None,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    rows = [{key: finite_or_none(value) for key, value in row.items()} for row in result.rows]
    if as_json:
        show_json({**_to_json(result, rows), "comparison": comparison})
    elif to is None:
        _show_rows(result, rows)
    elif not quiet:
        say(f"The summary of {result.records:,} records is in '{to}'.")
    if not as_json:
        _show_comparison(comparison)
        for line in () if quiet else result.notes:
            say(line)
        for line in result.warnings:
            say(f"Warning: {line}", style="yellow")
    if not result.complete:
        raise typer.Exit(130)


def _show_rows(result: Fit, rows: list[dict[str, Any]]) -> None:
    title = f"{result.formula} ({result.family}, {result.records:,} records)"
    for head, names in ((title, _SHOWN), ("How well it was drawn", _DRAWN)):
        shown = [name for name in names if any(row.get(name) is not None for row in rows)]
        cells = [[row["term"], *(format_cell(row.get(name)) for name in shown)] for row in rows]
        if shown:
            show_table(head, ["term", *shown], cells)


def _show_comparison(comparison: list[dict[str, Any]]) -> None:
    """The models by how well they predict a record that was left out."""
    if not comparison:
        return
    names = ("elpd", "se", "elpd_diff", "dse", "p", "weight")
    cells = [[row["model"], *(format_cell(row.get(name)) for name in names)] for row in comparison]
    show_table("Prediction of records left out", ["model", *names], cells)
    for row in comparison:
        if row["warning"]:
            say(
                f"Warning: of '{row['model']}' some record sways the fit too much for this "
                "comparison (Pareto k above 0.7).",
                style="yellow",
            )


def _to_json(result: Fit, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The fit for machines."""
    names = ("formula", "family", "link", "method", "records", "left_out", "level", "complete")
    return {
        **{name: getattr(result, name) for name in names},
        "engine": result.engine or None,
        "summary": rows,
        "efficiency": [
            {key: finite_or_none(value) for key, value in row.items()}
            for row in result.efficiency_rows
        ],
        "determinant_ratio": finite_or_none(result.determinant_ratio),
        "warnings": list(result.warnings),
        "notes": list(result.notes),
    }


def format_cell(value: Any) -> str:
    """A number with three digits."""
    if value is None:
        return ""
    return f"{value:.3g}" if abs(value) < _LARGE else f"{value:,.0f}"
