"""Bar charts and the map of groups, as data that the page draws without a script.

The map shows groups of at least ten people who are protected alike, and none of their values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.report.wording import format_label, format_measured
from sfumato.risk.protection.groups import FEW, MOST

Table = Sequence[Mapping[str, Any]]
Chart = dict[str, Any]
_MOST_BARS = 40
_LEFT, _WIDTH, _ROW, _TOP = 150.0, 560.0, 22.0, 18.0
_GAP = 3.0
_LETTERS = 22
"""Letters of a name that fit beside a row."""
_THIN = 0.05
"""The least part of a cell that is dark where some are breached, or light where some are not."""
_TONES = 6
"""Colours of the part that is not breached, from sand to blue: every eye tells them apart."""
_NARROW = 16.0
"""Columns below this have no room for their number."""


def make_bar(
    label: str, text: str, percent: float, *, highlighted: bool = False, hatched: bool = False
) -> Chart:
    """One bar: its label, the number beside it, and its length in per cent of the longest."""
    share = round(percent, 2)
    tones = {"highlighted": highlighted, "hatched": hatched}
    return {"label": label, "text": text, "share": share, **tones}


def build_bars(table: Table) -> Chart:
    """Bars for a table whose first column is a label and which counts `records`."""
    label = next(iter(table[0]))
    most = max(row["records"] for row in table) or 1
    # Only a size can be too small; of words the column says what becomes of the records.
    sizes = str(table[0][label])[:1].isdigit()
    by = format_label(label)
    return {
        "title": f"Records by {by} (in red: fewer than 3)" if sizes else f"Records {by}",
        "rows": [
            make_bar(
                str(row[label]),
                f"{row['records']:,}",
                100 * row["records"] / most,
                highlighted=str(row[label]) in ("1", "2"),
            )
            for row in table
        ],
    }


_FEW = 6
"""Variables of which nothing is to be seen; so many are counted, fewer are drawn."""


def build_variable_bars(table: Table, name: str) -> Chart:
    """Bars of one number per variable; of many variables the largest, in the table's order."""
    sizes = [_get_size(row[name]) for row in table]
    most = max(sizes) or 1.0
    # Ties by the order of the table, so that the page does not change between runs.
    ranked = sorted(range(len(table)), key=lambda index: (-sizes[index], index))
    more = f", the {_MOST_BARS} largest of {len(table):,}" if len(table) > _MOST_BARS else ""
    nothing = [index for index in ranked if table[index][name] == 0]
    if _FEW <= len(nothing) < len(table) <= _MOST_BARS:
        ranked = [index for index in ranked if index not in nothing]
        more = f"; 0 for the {len(nothing)} others"
    return {
        "title": f"{format_label(name).capitalize()} by variable{more}",
        "rows": [
            make_bar(
                str(table[index]["variable"]),
                _format_number(table[index][name], name),
                100 * sizes[index] / most,
            )
            for index in sorted(ranked[:_MOST_BARS])
        ],
    }


def _get_size(value: Any) -> float:
    finite = isinstance(value, (int, float)) and math.isfinite(value)
    return abs(float(value)) if finite else 0.0


def _format_number(value: Any, name: str) -> str:
    number = value if isinstance(value, (int, float)) else None
    return format_measured(name, name, number)


def build_gain_bars(gains: Table | None, sensitive: str) -> Chart | None:
    """Bars of what would be gained if a variable were unknown."""
    if not gains:
        return None
    most = max(abs(row["gain"]) for row in gains) or 1.0
    return {
        "title": f"Which variable to make coarser first: how many more records, in points, would "
        f"have '{sensitive}' protected if it were unknown and all others known",
        "rows": [
            make_bar(
                str(row["variable"]),
                f"{100 * row['gain']:+.1f}",
                100 * max(row["gain"], 0.0) / most,
            )
            for row in gains
        ],
    }


def describe_groups(groups: Table | None) -> Chart | None:
    """What the page draws: columns as wide as their groups, dark as far as people are breached."""
    if not groups:
        return None
    names = [_make_printable(cell["variable"]) for cell in groups[0]["variables"]]
    total = sum(group["records"] for group in groups)
    # Widths are shares of the people; the gaps are taken off first.
    room = _WIDTH - _GAP * (len(groups) - 1)
    columns, left_edge = [], _LEFT
    for group in groups:
        width = room * group["records"] / total
        columns.append(_draw_group(group, left_edge, width, len(groups)))
        left_edge += width + _GAP
    return {
        "columns": columns,
        "names": [
            {
                "shown": name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…",
                "full": name,
                "y": _format_length(_TOP + _ROW * (index + 0.68)),
            }
            for index, name in enumerate(names)
        ],
        "left": _format_length(_LEFT - 8),
        "width": _format_length(_LEFT + _WIDTH),
        "height": _format_length(_TOP + _ROW * len(names) + 2),
        "records": f"{total:,}",
        "tables": [_list_shares(group) for group in groups],
    }


def _draw_group(
    group: Mapping[str, Any], left_edge: float, width: float, groups: int
) -> dict[str, Any]:
    """A group's column: its number, and a cell for each variable with what to read over it."""
    height = _ROW - 2
    cells = []
    for index, cell in enumerate(group["variables"]):
        share = _get_share(cell["breached"])
        # Some is never drawn as none, and nearly all never as all.
        part = share if share in (0, 1) else min(max(share, _THIN), 1 - _THIN)
        top, dark = _TOP + _ROW * index, height * part
        cells.append(
            {
                "y": _format_length(top),
                "height": _format_length(height),
                "dark_y": _format_length(top + height - dark),
                "dark": _format_length(dark),
                "tone": min(int(cell["mean_least_ppp"] * _TONES), _TONES - 1),
                "title": (
                    f"Group {group['group']} of {groups}, {group['records']:,} people. "
                    f"{_make_printable(cell['variable'])}: {_format_breach_share(cell)} breached; "
                    f"mean least share of protective peers {cell['mean_least_ppp']:.3g}."
                ),
            }
        )
    return {
        "number": str(group["group"]) if width >= _NARROW else "",
        "x": _format_length(left_edge),
        "middle": _format_length(left_edge + width / 2),
        "width": _format_length(max(width, 1.0)),
        "cells": cells,
    }


def _list_shares(group: Mapping[str, Any]) -> dict[str, Any]:
    worst = max(group["variables"], key=lambda cell: _get_share(cell["breached"]))
    return {
        "head": f"Group {group['group']}: {group['records']:,} people",
        "worst": f"{worst['variable']}: {_format_breach_share(worst)} breached, "
        f"mean least share {worst['mean_least_ppp']:.3g}",
        "rows": [
            (cell["variable"], _format_breach_share(cell), f"{cell['mean_least_ppp']:.3g}")
            for cell in group["variables"]
        ],
    }


def _get_share(breached: float | str) -> float:
    """A share to be ranked; words stand for hardly any, or hardly any less than all."""
    words = {FEW: 0.0005, MOST: 0.9995}
    return words[breached] if isinstance(breached, str) else breached


def _format_breach_share(cell: Mapping[str, Any]) -> str:
    words = {FEW: "fewer than 10", MOST: "all but fewer than 10"}
    breached = cell["breached"]
    return words[breached] if isinstance(breached, str) else f"{breached:.1%}"


def _make_printable(name: Any) -> str:
    """A name without what no drawing can hold."""
    return "".join(sign if sign.isprintable() else "·" for sign in str(name))


def _format_length(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
