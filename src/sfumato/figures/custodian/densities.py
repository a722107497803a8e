"""The density of a number with the noise taken out, beside that of the released values."""

from __future__ import annotations

import polars as pl

from sfumato.figures.sheet.picture import Picture
from sfumato.figures.sheet.sheet import label_axes, make_picture, make_sheet
from sfumato.figures.sheet.style import BLUE, VERMILION, Mark, use_house_style
from sfumato.figures.sheet.text import format_intervals

_CORRECTED = Mark("Noise taken out", BLUE, "", "-")
_NAIVE = Mark("As released", VERMILION, "", "--")


def draw_corrected_density(
    variable: str, density: pl.DataFrame, *, level: float | None = None
) -> Picture:
    """How a number is distributed with the noise taken out, and as it was released.

    Parameters
    ----------
    variable : its name.
    density : value, density, low, high, naive; as `Exploration.density` returns it.
    level : of the intervals, for the caption.
    """
    with use_house_style():
        figure, (axes,) = make_sheet(3.0)
        axes.fill_between(
            density["value"], density["low"], density["high"], color=BLUE, alpha=0.18, linewidth=0
        )
        axes.plot(density["value"], density["density"], color=BLUE, linewidth=1.8)
        axes.plot(density["value"], density["naive"], color=VERMILION, linewidth=1.2, ls="--")
        axes.set_ylim(bottom=0)
        axes.set_yticks([])
        label_axes(axes, variable, "Density")
        return make_picture(
            figure,
            f"{variable}, with the noise taken out",
            "The line is the density of the true values, the band its "
            f"{format_intervals(level)} point by point; the broken line is that of the released "
            "values.",
            public=True,
            legend=(_CORRECTED, _NAIVE),
        )
