"""The replication as a page of the docs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from sfumato.datasets.replication.comparison import Row, Status
from sfumato.datasets.replication.papers import PAPERS

_LONG = 12
"""Tables of more rows than this are folded away."""
_HEAD = """# The papers, replicated

Sfumato stands on five papers. This page recomputes their numbers, and says where ours differ, and
why. It is written by one command:

```text
sfumato replicate --data FOLDER --page docs/replication.md
```

*Same* means: equal to the last printed digit, or, where chance is in the number, within four
standard errors of both. *Explained* means: it differs, and the reason stands beside it. *Ours
only* means: the paper prints no number, only a picture or nothing. *Cannot* means: the data are not
public or not at hand, or it is a picture. A difference without a reason would stop the
command with exit code 3.
"""
_STATUS_LABELS: Mapping[Status, str] = {
    "same": "same",
    "explained": "explained",
    "different": "**different**",
    "ours": "ours only",
    "cannot": "cannot",
}


def render_page(papers: Mapping[str, Sequence[Row]]) -> str:
    """Markdown: a table of papers, then a table for each place of each paper."""
    lines = [_HEAD, "| paper | rows | same | explained | different | ours only | cannot |",
             "| --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    titles = {item.name: item.title for item in PAPERS}
    for name, rows in papers.items():
        count = Counter(item.status for item in rows)
        counts = " | ".join(str(count[item]) for item in _STATUS_LABELS)
        lines.append(f"| [{titles[name]}](#{name}) | {len(rows)} | {counts} |")
    for name, rows in papers.items():
        lines += ["", f"## {titles[name]} {{ #{name} }}"]
        for place, rows_of_place in groupby(rows, key=lambda item: item.place):
            lines += ["", *_render_place(place, list(rows_of_place))]
    return "\n".join(lines) + "\n"


def _render_place(place: str, rows: list[Row]) -> Iterator[str]:
    count = Counter(row.status for row in rows)
    counts = ", ".join(f"{number} {status}" for status, number in count.items())
    if len(rows) > _LONG:
        yield "<details markdown>"
        yield f"<summary><b>{place}</b>: {counts}</summary>"
    else:
        yield f"**{place}**: {counts}"
    yield ""
    yield "| what | published | ours | difference | |"
    yield "| --- | --- | --- | --- | --- |"
    reasons: dict[str, int] = {}
    for row in rows:
        mark = _STATUS_LABELS[row.status]
        if row.why and row.status != "same":
            mark += f" ({reasons.setdefault(row.why, len(reasons) + 1)})"
        cells = format_number(row.published), format_number(row.ours), _format_difference(row)
        yield f"| {row.what} | {' | '.join(cells)} | {mark} |"
    yield ""
    for why, number in reasons.items():
        yield f"({number}) {why[0].upper()}{why[1:]}"
        yield ""
    if len(rows) > _LONG:
        yield "</details>"


def format_number(value: float | None) -> str:
    """A number as it is printed beside another one."""
    if value is None:
        return "\u2013"
    if float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _format_difference(row: Row) -> str:
    return "\u2013" if row.difference is None else format_number(float(f"{row.difference:.2g}"))
