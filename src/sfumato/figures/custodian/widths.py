"""How many people are protected, the coarser a variable becomes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sfumato.figures._sheet.picture import Picture
from sfumato.figures._sheet.sheet import finish, label_axes, sheet
from sfumato.figures._sheet.style import BLUE, VERMILION, Mark, house_style
from sfumato.figures._sheet.words import shown
from sfumato.figures.custodian.columns import rows_with
from sfumato.figures.custodian.source import Row, nothing, real

_NEEDED = ("categories", "protected", "best")
_WIDE = 24
"""More categories than this need a scale of powers."""
_EACH = Mark("One generalisation", BLUE, "o", "", alpha=0.45)
_BEST = Mark("The best of as many categories", VERMILION, "*", "-")


def widths(table: Any, *, variable: str = "", public: bool = False) -> Picture:
    """The share of records that are protected, by the number of categories of a variable.

    Question: how coarse must a variable become, and how much depends on where it is cut?
    Assumes: nothing.

    Parameters
    ----------
    table : what `peering.widths` returns.
    variable : the name of the generalised variable.
    public : the custodian's word that it may be shown outside. It shows shares of all records.

    Examples
    --------
    >>> rows = [{"categories": 2, "protected": 0.5, "best": True},
    ...         {"categories": 1, "protected": 0.75, "best": True}]
    >>> widths(rows, variable="age").title
    'Records protected when age is made coarser'

    References: Kroes, Janssen, Groenwold & van Leeuwen (2021), Health Informatics Journal 27(2),
    Fig. 4.
    """
    rows = [
        row
        for row in rows_with(table, _NEEDED, picture="widths")
        if math.isfinite(real(row["protected"])) and real(row["categories"]) >= 1
    ]
    if not rows:
        raise nothing("widths")
    name = shown(variable, width=30, lines=1) if variable else "a variable"
    best = sorted(_point(row) for row in rows if row["best"])
    with house_style():
        figure, (axes,) = sheet(3.1)
        _draw(axes, sorted({_point(row) for row in rows}), best)
        label_axes(axes, f"Categories of {name}", "Share of records protected")
        return finish(
            figure,
            f"Records protected when {name} is made coarser",
            "A point is one way to cut the values into categories of equal width; ways with as "
            "many categories differ in width or in where they begin. A star marks the best. One "
            "category is as good as no variable.",
            public=public,
            legend=(_EACH, _BEST),
        )


def _point(row: Row) -> tuple[float, float]:
    return real(row["categories"]), real(row["protected"])


def _draw(
    axes: Any, points: Sequence[tuple[float, float]], best: Sequence[tuple[float, float]]
) -> None:
    most = max(x for x, _ in points)
    if most > _WIDE:
        from matplotlib.ticker import FixedLocator, NullLocator

        axes.set_xscale("log")
        ticks = [base * 10**power for power in range(9) for base in (1, 2, 5)]
        axes.xaxis.set_major_locator(FixedLocator([one for one in ticks if one <= most]))
        axes.xaxis.set_minor_locator(NullLocator())
        from sfumato.figures._sheet.sheet import plain_numbers

        plain_numbers(axes.xaxis)
        axes.set_xlim(0.85, most * 1.18)
    else:
        from matplotlib.ticker import MaxNLocator

        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.set_xlim(0.5, most + 0.5)
    axes.set_ylim(-0.03, 1.03)
    _put(axes, points, _EACH, 3.6)
    _put(axes, best, _BEST, 8)


def _put(axes: Any, points: Sequence[tuple[float, float]], mark: Mark, size: float) -> None:
    if points:
        axes.plot(
            *zip(*points, strict=True), color=mark.colour, marker=mark.marker, markersize=size,
            linestyle=mark.line or "none", linewidth=1.0, alpha=mark.alpha, markeredgewidth=0,
        )  # fmt: skip
