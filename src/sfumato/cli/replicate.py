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
        typer.Option(help="A web folder that holds the data files; they are put into --data."),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Write the result as a Markdown page to this file.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an existing page.")] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Recompute the tables of the papers: published value, ours, difference, and why.

    Exit code 3 when a number differs and no reason is known.
    """
    from sfumato.cli.sweep import require_free
    from sfumato.datasets.replication.page import page as written
    from sfumato.datasets.replication.page import said
    from sfumato.datasets.replication.papers import replicate as run
    from sfumato.datasets.replication.sources import Sources
    from sfumato.io.atomic import replacing

    require_free(page, (".md",), overwrite=overwrite)
    if download is not None and data is None:
        raise PlanError("Say where the data go.", hint="--data FOLDER, together with --download.")
    with progress(quiet=quiet or json) as tell, send_progress_to(tell):
        sources = (
            Sources.downloaded(download, into=data)
            if download is not None and data is not None
            else Sources.found(data)
        )
        found = run(paper, sources)
    if page is not None:
        with replacing(page) as sibling:
            sibling.write_text(written(found), "utf-8")
    if json:
        show_json({name: [one.plain() for one in rows] for name, rows in found.items()})
    else:
        for name, rows in found.items():
            differ = [one for one in rows if one.status not in ("same", "ours")]
            count = Counter(one.status for one in rows)
            told = ", ".join(f"{number} {status}" for status, number in count.items())
            show_table(
                f"{name}: {told}",
                ["where", "what", "published", "ours", "", "why"],
                [
                    (one.place, one.what, said(one.published), said(one.ours), one.status, one.why)
                    for one in differ
                ],
            )
        if page is not None and not quiet:
            say(f"Everything is in '{page}'.")
    if any(one.status == "different" for rows in found.values() for one in rows):
        raise typer.Exit(3)
