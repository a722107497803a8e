"""How far off an attacker lands."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from sfumato.figures._sheet.picture import Picture
from sfumato.figures._sheet.sheet import finish, label_axes, sheet
from sfumato.figures._sheet.style import INK, Mark, house_style, mark
from sfumato.figures._sheet.words import number
from sfumato.figures.custodian.source import Row, nothing, real, rows_of

_NEEDED = ("from_quantile", "to_quantile")
_UP_TO = re.compile(r"up_to_(\d+)")
_EVERYBODY = Mark("All targets", INK, "o")
_MOST = 4
"""Groups beside all: the outermost two, and those in the middle."""


def landing(found: Any, *, by: str | None = None, public: bool = False) -> Picture:
    """How many persons are nearer to a target than the one found: its distribution, by group.

    Question: how far off does an attacker land, and for whom is it less far?
    Assumes: the table of the measure `h_index`.

    Parameters
    ----------
    found : the evidence of `h_index`, or its table.
    by : the order of the groups, where only the table is given.
    public : the custodian's word that it may be shown outside. It shows shares of many records.

    Examples
    --------
    >>> rows = [{"from_quantile": 0.0, "to_quantile": 1.0, "up_to_0": 0.4, "up_to_1": 0.6}]
    >>> landing(rows).audience
    'custodian'

    References: Goldstein & Shlomo (2020), Table 1.
    """
    rows = rows_of(found, _NEEDED, picture="landing")
    by = by or getattr(found, "details", {}).get("by")
    places = sorted(int(one[1]) for name in rows[0] if (one := _UP_TO.fullmatch(name)))
    drawn = [(row, _line(row, places)) for row in rows]
    drawn = [(row, line) for row, line in drawn if line]
    if not drawn:
        raise nothing("landing")
    shown = [drawn[0], *_chosen(drawn[1:])]
    marks = [_EVERYBODY, *(mark(at, _name(row)) for at, (row, _) in enumerate(shown[1:], 1))]
    with house_style():
        figure, (axes,) = sheet(3.1)
        for (_, line), look in zip(shown, marks, strict=True):
            # Zero has no logarithm: the axis counts from one.
            axes.plot(
                [x + 1 for x, _ in line], [y for _, y in line], color=look.colour,
                marker=look.marker, markersize=4.5, linewidth=1.4,
            )  # fmt: skip
        _scale(axes, places)
        label_axes(axes, "h: persons nearer to the target than the one found", "Share up to h",
                   width=60)  # fmt: skip
        return finish(
            figure,
            "How far off an attacker lands",
            "A line is the share of targets for which at most so many persons are nearer to the "
            "target than the one the attacker finds. At 0 the target itself is found, or somebody "
            "with equal values. The lower a line, the safer."
            + (f" Groups are shares of the targets{_ordered(by)}." if shown[1:] else ""),
            public=public,
            legend=marks,
        )


def _line(row: Row, places: Sequence[int]) -> list[tuple[int, float]]:
    return [(x, y) for x in places if math.isfinite(y := real(row[f"up_to_{x}"]))]


def _chosen(groups: list[Any]) -> list[Any]:
    """The outermost groups and some between, so that lines can be told apart."""
    if len(groups) <= _MOST:
        return groups
    step = (len(groups) - 1) / (_MOST - 1)
    return [groups[round(at * step)] for at in range(_MOST)]


def _name(row: Row) -> str:
    start, end = real(row["from_quantile"]), real(row["to_quantile"])
    if start == end:
        return f"At quantile {number(start)}"
    return f"From {number(start)} to {number(end)}"


def _ordered(by: str | None) -> str:
    if not by:
        return ""
    words = {"sum": "the sum of the variables", "distance": "the distance from the centre"}
    return f" in the order of {words.get(by, by)}"


def _scale(axes: Any, places: Sequence[int]) -> None:
    axes.set_xscale("log")
    axes.set_xticks([x + 1 for x in places], labels=[number(x) for x in places])
    axes.set_xticks([], minor=True)
    axes.set_xlim(0.9, (max(places) + 1) * 1.1)
    axes.set_ylim(-0.02, 1.02)
