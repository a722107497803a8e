"""Residuals against fitted values: paper 003, Figures 5A, 6A and 7A."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.figures._sheet.sheet import label_axes, sheet
from sfumato.figures._sheet.style import INK, Mark, house_style
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
from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sfumato.figures.public.plot import Plot
    from sfumato.figures.public.protection import Keyed, Protecting
    from sfumato.figures.public.small import Small
    from sfumato.outputs.log import Log
    from sfumato.outputs.rules import Rules

_MEANS = Mark("Smoothed mean of what is shown", INK, "", "-")
_PLACES, _WIDTH, _TAIL, _NEAR = 80, 0.3, 0.02, 0.4
"""Where the mean is taken, over how many SDs, and which share at either end is left alone."""


def residuals(  # noqa: PLR0913 - all but two by name only
    model: Any,
    data: Any = None,
    *,
    protection: Protecting | None = None,
    k: int | None = None,
    bins: int | None = None,
    trend: bool = True,
    sd_share: float = 0.25,
    key: Keyed = None,
    small: Small = "hide",
    title: str | None = None,
    rules: Rules | None = None,
    log: Log | None = None,
) -> Plot:
    """What a model leaves over, against what it predicts, without anybody's outcome.

    Question: is the relation straight, and is the spread the same everywhere?
    Assumes: the model was fitted to the original. Fitted value and residual add up to the
    outcome of a record, so the pair is protected as a pair; the model is not fitted again.

    Parameters
    ----------
    model : results of statsmodels, a scikit-learn regressor with data=(X, y), an `sf.Fit`, or a
        frame with `fitted` and `residual`.
    data : (X, y) for scikit-learn; elsewhere, if you like, the records of the model in its order,
        so that noise and log know who is who.
    protection : "deterministic" (default), "noise", "suppress", "generalise", or a method.
    k : how many records share in a centre, and fewest records behind a cell.
        Default: the rules' k, which is 3.
    bins : cells an axis. Default: about 30, or 15 of "generalise".
    trend : draw the smoothed mean of what is shown.
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
    >>> frame = pl.DataFrame({"fitted": at, "residual": np.sin(at)})
    >>> sf.plots.residuals(frame).table.columns
    ['fitted', 'residual']

    References: Avraam et al. (2021), EPJ Data Science 10:2, section 4.2 and Figures 5 to 7.
    """
    named = title or "Residuals against fitted values"
    names = ("fitted", "residual")
    rules, k = house_of(rules, log, k)
    asked = Asked(protection=protection, k=k, bins=bins, sd_share=sd_share, key=key, small=small,
                  rules=rules)  # fmt: skip
    with refusals(log, kind="residuals", title=named, variables=names):
        told, records = told_by(model, data, asked)
        made = cloud(records, names, asked)
    with house_style():
        figure, (axes,) = sheet(3.9)
        legend = draw(axes, made)
        level_line(axes)
        if trend and _means(axes, made):
            legend.append(_MEANS)
        label_axes(axes, f"Fitted value{f' of {told.outcome}' if told.outcome else ''}",
                   "Residual", width=60)  # fmt: skip
        return finished(
            figure,
            [axes],
            kind="residuals",
            title=named,
            protection=made.way,
            shown_of=made.who,
            table=made.table(),
            notes=[NOT_REFITTED, *made.notes],
            reasons=made.reasons,
            rule=made.rule(small),
            details=made.details(),
            legend=legend,
            log=log,
        )


def _means(axes: Axes, made: Cloud) -> bool:
    """The smoothed mean of what is shown, from left to right; whether there is one."""
    x, y, weights = made.pairs()
    found = smoothed(x, y, weights, made.way.k)
    if found is None:
        return False
    places, level = found
    # Across a gap with nothing in it, a line would tell of nobody.
    gaps = np.flatnonzero(np.diff(places) > 1.5 * np.diff(places).min()) + 1
    for part in np.split(np.arange(len(places)), gaps):
        axes.plot(places[part], level[part], color=INK, linewidth=1.4, zorder=4)
    return True


def smoothed(x: Floats, y: Floats, weights: Floats, k: int) -> tuple[Floats, Floats] | None:
    """Straight lines fitted around each place, near points counting more (local regression).

    Only where at least k of them are near. None where x does not vary.
    """
    order = np.lexsort((y, x))
    x, y, weights = x[order], y[order], weights[order]
    total = weights.sum()
    middle = (weights * x).sum() / total
    spread = np.sqrt((weights * (x - middle) ** 2).sum() / total)
    if not spread > 0:
        return None
    low, high = np.interp([_TAIL * total, (1 - _TAIL) * total], np.cumsum(weights), x)
    places = np.linspace(float(low), float(high), _PLACES)
    away = (x[None, :] - places[:, None]) / (_WIDTH * spread)
    near = np.exp(-0.5 * away**2) * weights
    moments = [near.sum(axis=1), (near * away).sum(axis=1), (near * away**2).sum(axis=1)]
    means = [(near * y).sum(axis=1), (near * away * y).sum(axis=1)]
    with np.errstate(divide="ignore", invalid="ignore"):
        level = moments[2] * means[0] - moments[1] * means[1]
        level /= moments[0] * moments[2] - moments[1] ** 2
    held = np.isfinite(level) & (((np.abs(away) < _NEAR) * weights).sum(axis=1) >= k)
    return (places[held], level[held]) if held.any() else None
