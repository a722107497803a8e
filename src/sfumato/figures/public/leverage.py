"""Standardised residuals against leverage, with Cook's contours: paper 003, Figures 5C to 7C."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.errors import SfumatoError
from sfumato.figures._sheet.sheet import label_axes, sheet
from sfumato.figures._sheet.style import SMALL, VERMILION, Mark, house_style
from sfumato.figures._sheet.words import number, write
from sfumato.figures.public.diagnostic import (
    NOT_REFITTED,
    Asked,
    Cloud,
    cloud,
    draw,
    level_line,
    told_by,
)
from sfumato.figures.public.drawn import finished, refusals
from sfumato.figures.public.protection import house_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sfumato.figures.public.plot import Plot
    from sfumato.figures.public.protection import Keyed, Protecting
    from sfumato.figures.public.small import Small
    from sfumato.outputs.log import Log
    from sfumato.outputs.rules import Rules

CONTOURS = (0.5, 1.0)
_COOK = Mark("Cook's distance", VERMILION, "", "--")
_POINTS = 200
_BELOW = "Leverages that the protection pushed below 0 are drawn at 0."


def leverage(  # noqa: PLR0913 - all but two by name only
    model: Any,
    data: Any = None,
    *,
    protection: Protecting | None = None,
    k: int | None = None,
    bins: int | None = None,
    sd_share: float = 0.25,
    key: Keyed = None,
    small: Small = "hide",
    title: str | None = None,
    rules: Rules | None = None,
    log: Log | None = None,
) -> Plot:
    """How far records pull a model, and how far they lie from it, without anybody's point.

    Question: do a few records carry the model?
    Assumes: the model was fitted to the original and is not fitted again. A single record of
    great influence is what protection hides: look at it inside, and tell of it in words.

    Parameters
    ----------
    model : results of statsmodels (OLS, WLS, GLM), a scikit-learn LinearRegression or a pipeline
        that ends in one, an `sf.Fit`, or a frame with `fitted`, `residual` and `leverage`.
    data : (X, y) for scikit-learn; elsewhere, if you like, the records of the model in its order.
    protection : "deterministic" (default), "noise", "suppress", "generalise", or a method.
    k : how many records share in a centre, and fewest records behind a cell.
        Default: the rules' k, which is 3.
    bins : cells an axis. Default: about 30, or 15 of "generalise".
    sd_share : SD of the noise as a share of the variable's.
    key : the custodian's secret, for noise that is the same next time.
    small : "show" cells of fewer than k protected values, where many points become a grid.
    title : of the figure.
    rules : the house rules.
    log : where the output is listed.

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
    named, names = title or "Standardised residuals against leverage", ("leverage", "standardised")
    rules, k = house_of(rules, log, k)
    asked = Asked(protection=protection, k=k, bins=bins, sd_share=sd_share, key=key, small=small,
                  rules=rules)  # fmt: skip
    with refusals(log, kind="leverage", title=named, variables=names):
        told, records = told_by(model, data, asked)
        if not told.has_leverage:
            raise SfumatoError(
                "The leverage of the records is not known for this model.",
                hint="pass results of statsmodels, a LinearRegression, or a frame with 'leverage'.",
            )
        made = _not_below_zero(cloud(records, names, asked))
    with house_style():
        figure, (axes,) = sheet(3.9)
        legend = draw(axes, made)
        _window(axes, made)
        level_line(axes)
        seen = _contours(axes, told.parameters)
        label_axes(axes, "Leverage", "Standardised residual", width=60)
        beyond = [] if seen or not told.parameters else [
            f"Cook's distance stays below {number(CONTOURS[0])} all over the panel."]  # fmt: skip
        return finished(
            figure,
            [axes],
            kind="leverage",
            title=named,
            protection=made.way,
            shown_of=made.who,
            table=made.table(),
            notes=[NOT_REFITTED, *beyond, *made.notes],
            reasons=made.reasons,
            rule=made.rule(small),
            details={**made.details(), "contours": seen},
            legend=[*legend, *([_COOK] if seen else [])],
            log=log,
        )


def _not_below_zero(made: Cloud) -> Cloud:
    """No record has a leverage below 0, though noise may say so."""
    if made.points is None or made.cells is not None:
        return made
    (one,) = made.points
    values = one.values
    if not (values["leverage"] < 0).any():
        return made
    inside = values.with_columns(pl.col("leverage").clip(0.0))
    points = [replace(one, values=inside, coinciding=inside.is_duplicated().to_numpy())]
    return replace(made, points=points, notes=(*made.notes, _BELOW))


def _window(axes: Axes, made: Cloud) -> None:
    """Fix the window by what is drawn, so that contours far away do not shrink it."""
    x, y, _ = made.pairs()
    room_x, room_y = 0.05 * (x.max() - x.min() or 1), 0.06 * (y.max() - y.min() or 1)
    axes.set_xlim(max(0.0, float(x.min() - room_x)), float(x.max() + room_x))
    axes.set_ylim(float(y.min() - room_y), float(y.max() + room_y))


def _contours(axes: Axes, parameters: int | None) -> list[float]:
    """Lines of equal influence; those that can be seen."""
    if not parameters:
        return []
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    pull = np.linspace(max(left, 1e-6), min(right, 1 - 1e-9), _POINTS)
    seen = []
    for distance in CONTOURS:
        height = np.sqrt(distance * parameters * (1 - pull) / pull)
        for side in (height, -height):
            inside = (side >= bottom) & (side <= top)
            if not inside.any():
                continue
            axes.plot(pull, side, color=VERMILION, linewidth=1.1, linestyle=(0, (5, 2)),
                      alpha=0.9, scalex=False, scaley=False)  # fmt: skip
            told = axes.annotate("", (pull[-1], np.clip(side[-1], bottom, top)),
                                 xytext=(-3, -10 if side[-1] > 0 else 4),
                                 textcoords="offset points", ha="right", fontsize=SMALL,
                                 color=VERMILION)  # fmt: skip
            write(told, number(distance))
            seen.append(distance)
    return sorted(set(seen))
