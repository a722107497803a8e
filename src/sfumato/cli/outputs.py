"""The log of outputs, for the person who checks them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import options
from sfumato.cli.console import say, show_json, show_table
from sfumato.errors import DataError
from sfumato.outputs.log import Log


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: sfumato outputs outputs/ --page outputs.html")(outputs)


def outputs(
    folder: Annotated[Path, typer.Argument(help="The folder of the log.")],
    page: Annotated[
        Path | None, typer.Option(help="Write the log as one page to this HTML file.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with code 3 unless every output passes.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing page.")
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """List every figure and table that was made, with its rule and verdict.

    With --check, exit code 3 if an output needs review. Refused outputs were never made.
    """
    if not (folder / "log.json").is_file():
        raise DataError(
            f"There is no log of outputs in '{folder}'.",
            hint="--log FOLDER records figures and tables there.",
        )
    options.require_free(page, (".html",), overwrite=overwrite)
    log = Log(folder)
    if page is not None:
        log.page(page)
    content = log.plain()
    if json:
        show_json(content | {"page": None if page is None else str(page)})
    else:
        show_table(
            f"{len(log)} outputs:",
            ["no.", "output", "kind", "verdict"],
            [
                (output["number"], output["title"], output["kind"], output["verdict"])
                for output in content["outputs"]
            ],
        )
        for output in () if quiet else content["outputs"]:
            for reason in output["reasons"]:
                say(f"{output['number']}: {reason}")
        if page is not None and not quiet:
            say(f"The page is in '{page}'.")
    if check and any(output["verdict"] == "review" for output in content["outputs"]):
        raise typer.Exit(3)
