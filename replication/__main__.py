"""The papers behind Sfumato, recomputed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli import options
from sfumato.cli.console import progress, say, show_json, show_table
from sfumato.errors import PlanError
from sfumato.progress import send_progress_to

if TYPE_CHECKING:
    from sfumato.datasets.replication.comparison import Row


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
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing page.")
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Recompute the tables of the papers: the printed number, ours, the bound, and why.

    A reason explains a difference only within the bound that is computed from it: the range over
    ways to break ties, or what chance does in both simulations. Exit code 3 if a number lies
    outside, or differs and no reason is known. It takes about a minute.
    """
    from sfumato.datasets.replication.page import format_bound, format_number
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
            count = Counter(row.status for row in rows)
            counts = ", ".join(f"{number} {status}" for status, number in count.items())
            reasons: dict[str, int] = {}
            table = [
                (
                    row.place,
                    what,
                    row.printed or format_number(None),
                    format_number(row.ours),
                    format_bound(row),
                    f"{row.status} ({reasons.setdefault(row.why, len(reasons) + 1)})"
                    if row.why
                    else row.status,
                )
                for what, row in _select_rows(rows)
            ]
            columns = ["where", "what", "published", "ours", "bound", ""]
            show_table(f"{name}: {counts}", columns, table)
            show_table("", ["", "why"], [(number, why) for why, number in reasons.items()])
        if page is not None and not quiet:
            say(f"Everything is in '{page}'.")
    if any(row.status == "different" for rows in papers.values() for row in rows):
        raise typer.Exit(3)


def _select_rows(rows: list[Row]) -> Iterator[tuple[str, Row]]:
    """What differs; of rows that one reason explains, the one that strains it most."""
    explained: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.status == "explained":
            explained.setdefault((row.place, row.why), []).append(row)
        elif row.status not in ("same", "ours"):
            yield row.what, row
    for group in explained.values():
        worst = max(group, key=lambda row: row.strain)
        others = f"{len(group)} rows, nearest to its bound: " if len(group) > 1 else ""
        yield f"{others}{worst.what}", worst
