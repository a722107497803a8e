"""Recompute the tables of the papers: the printed number, ours, the bound, and why.

    python -m replication --data FOLDER --paper centres        or     make replicate PAPER=centres

A reason explains a difference only within the bound that is computed from it: the range over ways
to break ties, or what chance does in both simulations. Exit code 3 if a number lies outside, or
differs and no reason is known; the others are those of `sfumato`. It takes about a minute.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from replication.comparison import Row
from replication.page import format_bound, format_number, render_page
from replication.papers import PAPERS, replicate
from replication.sources import Sources
from sfumato.cli.app import run
from sfumato.cli.console import progress, say, show_json, show_table
from sfumato.cli.options import require_free
from sfumato.errors import PlanError
from sfumato.io.atomic import write_file
from sfumato.progress import send_progress_to

_DIFFERENT = 3


def make_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m replication",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    names = ", ".join(paper.name for paper in PAPERS)
    add("--paper", action="append", help=f"which: {names}; may be repeated (default: all)")
    add("--data", type=Path, help="the folder of the data (default: that of SFUMATO_DATA)")
    add("--download", help="a web folder with the data files; they are saved in --data")
    add("--page", type=Path, help="write the result as a Markdown page to this file")
    add("--overwrite", action="store_true", help="replace an existing page")
    add("--json", action="store_true", help="print JSON, and only JSON, to stdout")
    add("--quiet", "-q", action="store_true", help="show no progress and no remarks")
    return parser


def recompute_papers() -> None:
    """Carry out what the words of the command ask for."""
    chosen = make_parser().parse_args()
    require_free(chosen.page, (".md",), overwrite=chosen.overwrite)
    if chosen.download is not None and chosen.data is None:
        raise PlanError("--download needs a folder for the data.", hint="add --data FOLDER.")
    with progress(quiet=chosen.quiet or chosen.json) as tell, send_progress_to(tell):
        if chosen.download is not None:
            sources = Sources.download(chosen.download, into=chosen.data)
        else:
            sources = Sources.locate(chosen.data)
        papers = replicate(chosen.paper, sources)
    if chosen.page is not None:
        write_file(chosen.page, render_page(papers))
    if chosen.json:
        show_json({name: [row.to_json() for row in rows] for name, rows in papers.items()})
    else:
        _show_papers(papers)
        if chosen.page is not None and not chosen.quiet:
            say(f"Everything is in '{chosen.page}'.")
    if any(row.status == "different" for rows in papers.values() for row in rows):
        sys.exit(_DIFFERENT)


def _show_papers(papers: Mapping[str, Sequence[Row]]) -> None:
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


def _select_rows(rows: Sequence[Row]) -> Iterator[tuple[str, Row]]:
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


def main() -> None:
    """Recompute, and leave with the exit codes of `sfumato`."""
    run(recompute_papers)


if __name__ == "__main__":
    main()
