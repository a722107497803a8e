"""The papers behind Sfumato, recomputed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import options
from sfumato.cli.console import progress, say, show_json, show_table
from sfumato.errors import PlanError
from sfumato.progress import send_progress_to


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: sfumato replicate --data data --paper centres")(replicate)


def replicate(
    paper: Annotated[
        list[str] | None,
        typer.Option(help="Which: centres, noise, crowds, figures, individuals. Default: all."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="The folder of the data. Default: that of SFUMATO_DATA.")
    ] = None,
    download: Annotated[
        str | None,
        typer.Option(help="A web folder with the data files; they are saved in --data."),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Write the result as a Markdown page to this file.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an existing page.")] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Recompute the tables of the papers: published value, ours, difference, and why.

    Exit code 3 if a number differs and no reason is known.
    """
    from sfumato.datasets.replication.page import format_number
    from sfumato.datasets.replication.page import render_page as written
    from sfumato.datasets.replication.papers import replicate as run
    from sfumato.datasets.replication.sources import Sources
    from sfumato.io.atomic import write_file

    options.require_free(page, (".md",), overwrite=overwrite)
    if download is not None and data is None:
        raise PlanError("--download needs a folder for the data.", hint="add --data FOLDER.")
    with progress(quiet=quiet or json) as tell, send_progress_to(tell):
        sources = (
            Sources.download(download, into=data)
            if download is not None and data is not None
            else Sources.locate(data)
        )
        papers = run(paper, sources)
    if page is not None:
        write_file(page, written(papers))
    if json:
        show_json({name: [row.to_json() for row in rows] for name, rows in papers.items()})
    else:
        for name, rows in papers.items():
            differ = [row for row in rows if row.status not in ("same", "ours")]
            count = Counter(row.status for row in rows)
            counts = ", ".join(f"{number} {status}" for status, number in count.items())
            show_table(
                f"{name}: {counts}",
                ["where", "what", "published", "ours", "", "why"],
                [
                    (
                        row.place,
                        row.what,
                        format_number(row.published),
                        format_number(row.ours),
                        row.status,
                        row.why,
                    )
                    for row in differ
                ],
            )
        if page is not None and not quiet:
            say(f"Everything is in '{page}'.")
    if any(row.status == "different" for rows in papers.values() for row in rows):
        raise typer.Exit(3)
