"""Groups of people who are protected alike: a map to hover over, and a table to open for each.

No script is needed. What is shown are groups of at least ten people, and none of their values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.risk._peers.groups import FEW, MOST

Groups = Sequence[Mapping[str, Any]]
_LEFT, _WIDTH, _ROW, _TOP = 150.0, 560.0, 22.0, 18.0
_GAP = 3.0
_LETTERS = 22
"""Letters of a name that fit beside a row."""
_THIN = 0.05
"""How much of a cell few people fill at least, and leave at least: enough to be seen."""
_TONES = 6
"""Colours of the part that is not breached, from sand to blue: every eye tells them apart."""
_NARROW = 16.0
"""Columns below this have no room for their number."""


def group_view(groups: Groups | None) -> dict[str, Any] | None:
    """What the page draws: columns as wide as their groups, dark as far as people are breached."""
    if not groups:
        return None
    names = [_plain(one["variable"]) for one in groups[0]["variables"]]
    total = sum(one["records"] for one in groups)
    room = _WIDTH - _GAP * (len(groups) - 1)
    columns, left = [], _LEFT
    for one in groups:
        width = room * one["records"] / total
        columns.append(_column(one, left, width, len(groups)))
        left += width + _GAP
    return {
        "columns": columns,
        "names": [
            {"shown": _short(name), "whole": name, "y": _said(_TOP + _ROW * (at + 0.68))}
            for at, name in enumerate(names)
        ],
        "left": _said(_LEFT - 8),
        "width": _said(_LEFT + _WIDTH),
        "height": _said(_TOP + _ROW * len(names) + 2),
        "records": f"{total:,}",
        "tables": [_table(one) for one in groups],
    }


def _column(one: Mapping[str, Any], left: float, width: float, of: int) -> dict[str, Any]:
    """One group: its number, and a cell for each variable with what to say over it."""
    height = _ROW - 2
    cells = []
    for at, told in enumerate(one["variables"]):
        top, dark = _TOP + _ROW * at, height * _drawn(_share(told["breached"]))
        cells.append(
            {
                "y": _said(top),
                "height": _said(height),
                "dark_y": _said(top + height - dark),
                "dark": _said(dark),
                "tone": min(int(told["mean_least_ppp"] * _TONES), _TONES - 1),
                "title": (
                    f"Group {one['group']} of {of}, {one['records']:,} people. "
                    f"{_plain(told['variable'])}: {_words(told['breached'])} breached; "
                    f"mean least share of protective peers {told['mean_least_ppp']:.3g}."
                ),
            }
        )
    return {
        "number": str(one["group"]) if width >= _NARROW else "",
        "x": _said(left),
        "middle": _said(left + width / 2),
        "width": _said(max(width, 1.0)),
        "cells": cells,
    }


def _table(one: Mapping[str, Any]) -> dict[str, Any]:
    worst = max(one["variables"], key=lambda told: _share(told["breached"]))
    return {
        "head": f"Group {one['group']}: {one['records']:,} people",
        "worst": f"{worst['variable']}: {_words(worst['breached'])} breached, "
        f"mean least share {worst['mean_least_ppp']:.3g}",
        "rows": [
            (told["variable"], _words(told["breached"]), f"{told['mean_least_ppp']:.3g}")
            for told in one["variables"]
        ],
    }


def gain_bars(gains: Groups | None, sensitive: str) -> dict[str, Any] | None:
    """Bars of what would be gained if a variable were unknown."""
    if not gains:
        return None
    most = max(abs(one["gain"]) for one in gains) or 1.0
    return {
        "title": f"Which variable to make coarser first: how many more records, in points, would "
        f"have '{sensitive}' protected if it were unknown and all others known",
        "rows": [
            {
                "label": str(one["variable"]),
                "told": f"{100 * one['gain']:+.1f}",
                "share": round(100 * max(one["gain"], 0.0) / most, 2),
                "alone": False,
            }
            for one in gains
        ],
    }


def _share(told: float | str) -> float:
    """A share to be ranked; words stand for hardly any, or hardly any less than all."""
    words = {FEW: 0.0005, MOST: 0.9995}
    return words[told] if isinstance(told, str) else told


def _drawn(share: float) -> float:
    """How much of a cell is dark: some is never none, and nearly all is never all."""
    return share if share in (0, 1) else min(max(share, _THIN), 1 - _THIN)


def _words(told: float | str) -> str:
    words = {FEW: "fewer than 10", MOST: "all but fewer than 10"}
    return words[told] if isinstance(told, str) else f"{told:.1%}"


def _plain(name: Any) -> str:
    """A name without what no drawing can hold."""
    return "".join(sign if sign.isprintable() else "·" for sign in str(name))


def _short(name: str) -> str:
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"


def _said(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
