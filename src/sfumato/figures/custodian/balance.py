"""What protection costs: risk against use, a point for each run."""

from __future__ import annotations

import math
from typing import Any

from sfumato.figures._sheet.picture import Picture
from sfumato.figures._sheet.sheet import finish, label_axes, sheet
from sfumato.figures._sheet.style import BLUE, SMALL, Mark, house_style
from sfumato.figures._sheet.words import number, write
from sfumato.figures.custodian.source import nothing, real, rows_of

_RUN = Mark("A run", BLUE, "o")


def balance(
    table: Any,
    *,
    risk: str = "h_index",
    use: str = "efficiency",
    label: str = "variance_share",
    public: bool = False,
) -> Picture:
    """Risk against use, joined in the order of a parameter.

    Question: how much use does each step of protection cost?
    Assumes: the table of `sf.sweep` with one measure of risk and one of use.

    Parameters
    ----------
    table : a row per run.
    risk, use : the columns to draw.
    label : the parameter that was varied; it is written at the points.
    public : the custodian's word that it may be shown outside. It shows numbers of whole data
        sets.

    Examples
    --------
    >>> runs = [{"variance_share": s, "h_index": 0.5 - s, "efficiency": 1 - s} for s in (0.1, 0.2)]
    >>> balance(runs).title
    'Risk and use'
    """
    rows = [
        (real(row[label]), real(row[use]), real(row[risk]))
        for row in rows_of(table, (label, risk, use), picture="balance")
    ]
    rows = sorted(one for one in rows if all(map(math.isfinite, one)))
    if not rows:
        raise nothing("balance")
    with house_style():
        figure, (axes,) = sheet(3.3)
        axes.plot([one[1] for one in rows], [one[2] for one in rows], color=_RUN.colour,
                  marker="o", markersize=5, linewidth=1.2)  # fmt: skip
        for at, x, y in rows:
            made = axes.annotate("", (x, y), xytext=(-6, 5), textcoords="offset points",
                                 fontsize=SMALL, ha="right")  # fmt: skip
            write(made, number(at))
        axes.margins(0.12)
        label_axes(axes, use, risk)
        return finish(
            figure,
            "Risk and use",
            f"A point is one run; the number at it is {label}.",
            public=public,
        )
