"""The replication as a page of the docs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from replication.comparison import Row, Status
from replication.papers import PAPERS

_LONG = 12
"""Tables of more rows than this are folded away."""
_HEAD = """# The papers, replicated

Sfumato is built on five papers. This page recomputes their numbers, and says where ours differ
and why. [Another page](evidence/papers.md) lists what else the papers contain, item by item. One
command writes this page, in the repository of Sfumato:

```text
python -m replication --data FOLDER --page docs/replication.md --overwrite
```

The column *published* has each number as the paper prints it. The last column says how ours
compares:

- *same*: ours, rounded like the published number, is that number;
- *explained*: it differs, for the reason given below the table, and it lies within the bound that
  the same run computed from that reason. A bound is the range over different ways to break ties,
  four standard errors of both simulations, or what a formula in the paper gives. It applies to
  the published number, or to ours if it says so;
- *different*: it lies outside the bound, or there is no reason. The command then ends with exit
  code 3;
- *ours only*: the paper prints no such number, but there may still be a bound;
- *cannot*: the data are not public or not at hand, or it is not a number.

*In kind* means that the paper's records are not available, so we did the same analysis on the
same number of invented records with the same structure. The bound is then what the paper says
about its own result in words, or what must follow by algebra. This concerns the 1958 birth cohort
and the sugar cane farms.

We also checked that wrong results would show up. With k = 8 instead of 3, at least 35 of the 42
rows on our release of the Titanic are different. With ten times the noise, at least 280 of the
333 rows of Tables 1 to 5 on noise are different, and with 1.2 times the noise at least 100. If
naive estimates are used instead of adjusted ones, 5 are. `pytest -m study
tests/replication/test_mutants.py` checks these four numbers.
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
