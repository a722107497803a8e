"""Standardised residuals against leverage, with Cook's contours: paper 003, Figures 5C to 7C."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import SfumatoError
from sfumato.figures.public.diagnostics import (
    NOT_REFITTED,
    Cloud,
    draw_level_line,
    protect_cloud,
    read_model,
)
from sfumato.figures.public.parameters import Binned, takes
from sfumato.figures.public.plot import make_request
from sfumato.figures.sheet.sheet import label_axes, make_sheet
from sfumato.figures.sheet.style import SMALL, VERMILION, Mark, use_house_style
from sfumato.figures.sheet.text import format_number, write

if TYPE_CHECKING:
    from typing import Unpack

    from matplotlib.axes import Axes

    from sfumato.figures.public.plot import Plot

CONTOURS = (0.5, 1.0)
_COOK = Mark("Cook's distance", VERMILION, "", "--")
_POINTS = 200


@takes(Binned)
def leverage(
    model: Any,
    data: Any = None,
    **asked: Unpack[Binned],
) -> Plot:
    """How far records pull a model, and how far they lie from it, without anybody's point.

    Question: do a few records carry the model?
    Assumes: the model was fitted to the original and is not fitted again. A single record of
    great influence is what protection hides: look at it inside, and describe it in words.

    Parameters
    ----------
    model : results of statsmodels (OLS, WLS, GLM), a scikit-learn LinearRegression or a pipeline
        that ends in one, an `sf.Fit`, or a frame with `fitted`, `residual` and `leverage`.
    data : (X, y) for scikit-learn; elsewhere, if you like, the records of the model in its order,
        so that persons with several of them are counted.

    Examples
    --------
    >>> import numpy as np, polars as pl, sfumato as sf
    >>> at = np.arange(100.0)
    >>> pull = 0.01 + (at - at.mean()) ** 2 / ((at - at.mean()) ** 2).sum()
    >>> frame = pl.DataFrame({"fitted": at, "residual": np.sin(at), "leverage": pull})
    >>> sf.plots.leverage(frame).details["contours"]
    []

    References: Avraam et al. (2021), EPJ Data Science 10:2, section 4.2; Cook (1977),
    Technometrics 19:15.
    """
    request = make_request(
        "leverage",
        "Standardised residuals against leverage",
        ["leverage", "standardised"],
        **asked,
    )
    with request.record_refusals():
        outcomes, records = read_model(model, data, request)
        if not outcomes.has_leverage:
            raise SfumatoError(
                "The leverage of the records is not known for this model.",
                hint="pass results of statsmodels, a LinearRegression, or a frame with 'leverage'.",
            )
        cloud = protect_cloud(records, request)
    with use_house_style():
        figure, (axes,) = make_sheet(3.9)
        legend = cloud.draw(axes)
        _set_window(axes, cloud)
        draw_level_line(axes)
        visible = _draw_contours(axes, outcomes.parameters)
        label_axes(axes, "Leverage", "Standardised residual", width=60)
        notes = [NOT_REFITTED]
        if outcomes.parameters and not visible:
            least = format_number(CONTOURS[0])
            notes.append(f"Cook's distance stays below {least} all over the panel.")
        return cloud.make_plot(
            figure,
            axes,
            notes=notes,
            details={"contours": visible},
            legend=[*legend, *([_COOK] if visible else [])],
        )


def _set_window(axes: Axes, cloud: Cloud) -> None:
    """Fix the window by what is drawn, so that contours far away do not shrink it."""
    x, y, _ = cloud.pairs()
    room_x, room_y = 0.05 * (x.max() - x.min() or 1), 0.06 * (y.max() - y.min() or 1)
    axes.set_xlim(max(0.0, float(x.min() - room_x)), float(x.max() + room_x))
    axes.set_ylim(float(y.min() - room_y), float(y.max() + room_y))


def _draw_contours(axes: Axes, parameters: int | None) -> list[float]:
    """Lines of equal influence; those that can be seen.

    Cook's distance D is constant where the residual is ±sqrt(D p (1 - h) / h), at leverage h.
    """
    if not parameters:
        return []
    (start, end), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    h = np.linspace(max(start, 1e-6), min(end, 1 - 1e-9), _POINTS)
    visible = set()
    for distance in CONTOURS:
        height = np.sqrt(distance * parameters * (1 - h) / h)
        for side in (height, -height):
            if not ((side >= bottom) & (side <= top)).any():
                continue
            axes.plot(h, side, color=VERMILION, linewidth=1.1, linestyle=(0, (5, 2)),
                      alpha=0.9, scalex=False, scaley=False)  # fmt: skip
            label = axes.annotate("", (h[-1], np.clip(side[-1], bottom, top)),
                                  xytext=(-3, -10 if side[-1] > 0 else 4),
                                  textcoords="offset points", ha="right", fontsize=SMALL,
                                  color=VERMILION)  # fmt: skip
            write(label, format_number(distance))
            visible.add(distance)
    return sorted(visible)
