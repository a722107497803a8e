"""The replication as a page of the docs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from sfumato.datasets.replication.papers import PAPERS
from sfumato.datasets.replication.rows import Row, Status

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
_SAID: Mapping[Status, str] = {
    "same": "same",
    "explained": "explained",
    "different": "**different**",
    "ours": "ours only",
    "cannot": "cannot",
}


def page(found: Mapping[str, Sequence[Row]]) -> str:
    """Markdown: a table of papers, then a table for each place of each paper."""
    lines = [_HEAD, "| paper | rows | same | explained | different | ours only | cannot |",
             "| --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    titles = {one.name: one.title for one in PAPERS}
    for name, rows in found.items():
        count = Counter(one.status for one in rows)
        told = " | ".join(str(count[one]) for one in _SAID)
        lines.append(f"| [{titles[name]}](#{name}) | {len(rows)} | {told} |")
    for name, rows in found.items():
        lines += ["", f"## {titles[name]} {{ #{name} }}"]
        for place, some in groupby(rows, key=lambda one: one.place):
            lines += ["", *_place(place, list(some))]
    return "\n".join(lines) + "\n"


def _place(place: str, rows: list[Row]) -> Iterator[str]:
    count = Counter(one.status for one in rows)
    told = ", ".join(f"{number} {status}" for status, number in count.items())
    if len(rows) > _LONG:
        yield "<details markdown>"
        yield f"<summary><b>{place}</b>: {told}</summary>"
    else:
        yield f"**{place}**: {told}"
    yield ""
    yield "| what | published | ours | difference | |"
    yield "| --- | --- | --- | --- | --- |"
    reasons: dict[str, int] = {}
    for one in rows:
        mark = _SAID[one.status]
        if one.why and one.status != "same":
            mark += f" ({reasons.setdefault(one.why, len(reasons) + 1)})"
        yield f"| {one.what} | {said(one.published)} | {said(one.ours)} | {_apart(one)} | {mark} |"
    yield ""
    for why, number in reasons.items():
        yield f"({number}) {why[0].upper()}{why[1:]}"
        yield ""
    if len(rows) > _LONG:
        yield "</details>"


def said(value: float | None) -> str:
    """A number as it is printed beside another one."""
    if value is None:
        return "\u2013"
    if float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _apart(one: Row) -> str:
    return "\u2013" if one.difference is None else said(float(f"{one.difference:.2g}"))
