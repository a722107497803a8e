"""Coefficients with the noise taken out, beside those of somebody who knows of none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sfumato.errors import SfumatoError
from sfumato.figures._sheet.picture import Picture
from sfumato.figures._sheet.sheet import (
    beside,
    finish,
    label_axes,
    name_row,
    rows_only,
    sheet,
    upright,
)
from sfumato.figures._sheet.style import BLUE, FAINT, INK, SMALL, VERMILION, Mark, house_style
from sfumato.figures._sheet.words import number
from sfumato.figures.custodian.source import nothing, real, rows_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NEEDED = ("term", "mean", "low", "high", "naive", "naive_low", "naive_high")
_CORRECTED = Mark("Noise taken out", BLUE, "o")
_NAIVE = Mark("Naive", VERMILION, "D", hollow=True)
_COLUMNS = (54, 106)
"""Points from the edge to the end of the numbers beside the panel."""
_MOST = 200


def adjusted(rows: Any, *, level: float | None = None) -> Picture:
    """Coefficients of a model of noised data with their intervals, beside the naive ones.

    Question: what did the noise do to the model, and what is left when it is taken out?
    Assumes: nothing. All coefficients are drawn on one axis, in half-widths of their intervals.

    Parameters
    ----------
    rows : a row per term: term, mean, low, high, naive, naive_low, naive_high.
    level : of the intervals, for the caption.

    Examples
    --------
    >>> row = {"term": "x", "mean": 1.0, "low": 0.8, "high": 1.2, "naive": 0.7,
    ...        "naive_low": 0.6, "naive_high": 0.8}
    >>> adjusted([row]).audience
    'public'
    """
    found = rows_of(rows, NEEDED, picture="adjusted")
    if len(found) > _MOST:
        raise SfumatoError(
            f"The model has {len(found)} terms; a picture shows {_MOST} at most.",
            hint="name those to draw: terms=[...].",
        )
    drawn = [_scaled(row) for row in found]
    if not any(math.isfinite(one["mean"]) for one in drawn):
        raise nothing("adjusted")
    intervals = "intervals" if level is None else f"{100 * level:.10g}\u00a0% intervals"
    with house_style():
        figure, (axes,) = sheet(0.75 + 0.36 * len(found))
        _limits(axes, drawn)
        rows_only(axes, len(found))
        upright(axes, 0)
        for at, (row, scaled) in enumerate(zip(found, drawn, strict=True)):
            _draw(axes, at, row, scaled)
        for points, text in zip(_COLUMNS, ("Corrected", "Naive"), strict=True):
            beside(axes, -0.75, text, points, size=SMALL)
        label_axes(axes, "Coefficient, in half-widths of its corrected interval", width=60)
        return finish(
            figure,
            "Coefficients with the noise taken out, and naive",
            f"Points are estimates, lines their {intervals}; the numbers beside them are the "
            "coefficients.",
            public=True,
            legend=(_CORRECTED, _NAIVE),
        )


def _scaled(row: Mapping[str, Any]) -> dict[str, float]:
    half = (real(row["high"]) - real(row["low"])) / 2
    factor = 1 / half if half > 0 else math.nan
    return {name: real(row[name]) * factor for name in NEEDED if name != "term"}


def _limits(axes: Axes, drawn: Sequence[Mapping[str, float]]) -> None:
    from matplotlib.ticker import MaxNLocator

    ends = [0.0, *(one for row in drawn for one in row.values() if math.isfinite(one))]
    low, high = min(ends), max(ends)
    pad = 0.04 * (high - low or 1.0)
    axes.set_xlim(low - pad, high + pad)
    axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))


def _draw(axes: Axes, at: int, row: Mapping[str, Any], scaled: Mapping[str, float]) -> None:
    if at:
        axes.axhline(at - 0.5, color=INK, alpha=FAINT, linewidth=0.6)
    name_row(axes, at, str(row["term"]))
    for look, shift, names in (
        (_CORRECTED, -0.16, ("mean", "low", "high")),
        (_NAIVE, 0.16, ("naive", "naive_low", "naive_high")),
    ):
        value, low, high = (scaled[name] for name in names)
        y = at + shift
        if math.isfinite(low) and math.isfinite(high):
            axes.plot([low, high], [y, y], color=look.colour, linewidth=1.6, solid_capstyle="butt")
        if math.isfinite(value):
            axes.plot([value], [y], color=look.colour, marker=look.marker, markersize=5,
                      fillstyle="none" if look.hollow else "full")  # fmt: skip
    for points, name in zip(_COLUMNS, ("mean", "naive"), strict=True):
        value = real(row[name])
        beside(axes, at, number(value, 3) if math.isfinite(value) else "none", points, size=SMALL)
