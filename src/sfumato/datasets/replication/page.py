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
why. What else they hold is [listed item by item](evidence/papers.md). The page is written by one
command:

```text
sfumato replicate --data FOLDER --page docs/replication.md
```

The published numbers stand here as the paper prints them. *Same* means: ours, rounded like that,
is the printed number. *Explained* means: it differs, the reason stands beside it, and it lies
within the bound that the same run computed from that reason: the range over ways to break ties,
four standard errors of both simulations, or what a formula of the paper gives. A bound is for the
published number, or for ours where it says so. *Different* means: outside the bound, or without a
reason; the command then ends with exit code 3. *Ours only* means: the paper prints no such number;
it may have a bound all the same. *Cannot* means: the data are not public or not at hand, or it is
no number.

*In kind* means: the records of the paper cannot be had, so the same analysis is done on invented
ones of the same number and structure. The bound then is what the paper says of its own in words, or
what must come out by algebra. The 1958 birth cohort and the sugar cane farms stand here so.

Computed wrongly on purpose, the rows say so. With k = 8 instead of 3 at least 35 of the 42 rows on
our release of the Titanic are different; with ten times the noise at least 280 of the 333 rows of
Tables 1 to 5 on noise, with 1.2 times the noise at least 100; and 5 where naive estimates are taken
for adjusted ones. `pytest -m study tests/datasets/replication/test_mutants.py` checks these four
numbers.
"""
_NONE = "\u2013"
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
        for passage, rows_of_passage in groupby(rows, key=lambda item: item.place):
            lines += ["", *_render_passage(passage, list(rows_of_passage))]
    return "\n".join(lines) + "\n"


def _render_passage(passage: str, rows: list[Row]) -> Iterator[str]:
    count = Counter(row.status for row in rows)
    counts = ", ".join(f"{number} {status}" for status, number in count.items())
    if len(rows) > _LONG:
        yield "<details markdown>"
        yield f"<summary><b>{passage}</b>: {counts}</summary>"
    else:
        yield f"**{passage}**: {counts}"
    yield ""
    yield "| what | published | ours | difference | bound | |"
    yield "| --- | --- | --- | --- | --- | --- |"
    reasons: dict[str, int] = {}
    for row in rows:
        mark = _STATUS_LABELS[row.status]
        if row.why and row.status != "same":
            mark += f" ({reasons.setdefault(row.why, len(reasons) + 1)})"
        cells = (
            row.printed or _NONE,
            format_number(row.ours),
            _NONE if row.difference is None else format_number(float(f"{row.difference:.2g}")),
            format_bound(row),
        )
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
        return _NONE
    if float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.4g}"


def format_bound(row: Row) -> str:
    """From where to where the reason reaches; nothing where the number is the same without it."""
    if row.bound is None or (row.status == "same" and row.bound.of == "published"):
        return _NONE
    low, high = format_number(row.bound.low), format_number(row.bound.high)
    return f"{low} to {high}" + (", ours" if row.bound.of == "ours" else "")
