"""How far off an attacker lands."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from sfumato.figures.custodian.source import Row, read_rows, refuse_empty, to_float
from sfumato.figures.sheet.picture import Picture
from sfumato.figures.sheet.sheet import label_axes, make_picture, make_sheet
from sfumato.figures.sheet.style import INK, Mark, pick_mark, use_house_style
from sfumato.figures.sheet.text import format_number

NEEDED = ("from_quantile", "to_quantile")
_UP_TO = re.compile(r"up_to_(\d+)")
_EVERYBODY = Mark("All targets", INK, "o")
_MOST_GROUPS = 4
"""Groups beside all: the outermost two, and those in the middle."""
_ORDERS = {"sum": "the sum of the variables", "distance": "the distance from the centre"}


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
    rows = read_rows(found, NEEDED, picture="landing")
    by = by or getattr(found, "details", {}).get("by")
    steps = sorted(int(match[1]) for name in rows[0] if (match := _UP_TO.fullmatch(name)))
    drawn = [(row, line) for row in rows if (line := _read_line(row, steps))]
    if not drawn:
        raise refuse_empty("landing")
    shown = [drawn[0], *_choose_groups(drawn[1:])]
    names = [_name_group(row) for row, _ in shown[1:]]
    looks = [_EVERYBODY, *(pick_mark(index, name) for index, name in enumerate(names, 1))]
    order = f" in the order of {_ORDERS.get(by, by)}" if by else ""
    with use_house_style():
        figure, (axes,) = make_sheet(3.1)
        for (_, line), look in zip(shown, looks, strict=True):
            # Zero has no logarithm: the axis counts from one.
            axes.plot(
                [x + 1 for x, _ in line], [y for _, y in line], color=look.colour,
                marker=look.marker, markersize=4.5, linewidth=1.4,
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set_xticks([x + 1 for x in steps], labels=[format_number(x) for x in steps])
        axes.set_xticks([], minor=True)
        axes.set_xlim(0.9, (max(steps) + 1) * 1.1)
        axes.set_ylim(-0.02, 1.02)
        label_axes(axes, "h: persons nearer to the target than the one found", "Share up to h",
                   width=60)  # fmt: skip
        return make_picture(
            figure,
            "How far off an attacker lands",
            "A line is the share of targets for which at most so many persons are nearer to the "
            "target than the one the attacker finds. At 0 the target itself is found, or somebody "
            "with equal values. The lower a line, the safer."
            + (f" Groups are shares of the targets{order}." if shown[1:] else ""),
            public=public,
            legend=looks,
        )


def _read_line(row: Row, steps: Sequence[int]) -> list[tuple[int, float]]:
    return [(x, y) for x in steps if math.isfinite(y := to_float(row[f"up_to_{x}"]))]


def _choose_groups(groups: list[Any]) -> list[Any]:
    """The outermost groups and some between, so that lines can be told apart."""
    if len(groups) <= _MOST_GROUPS:
        return groups
    step = (len(groups) - 1) / (_MOST_GROUPS - 1)
    return [groups[round(index * step)] for index in range(_MOST_GROUPS)]


def _name_group(row: Row) -> str:
    start, end = to_float(row["from_quantile"]), to_float(row["to_quantile"])
    if start == end:
        return f"At quantile {format_number(start)}"
    return f"From {format_number(start)} to {format_number(end)}"
