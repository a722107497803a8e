"""Quantiles against those of a normal distribution: paper 003, Figures 5B, 6B and 7B."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.errors import SfumatoError
from sfumato.figures._sheet.sheet import label_axes, sheet
from sfumato.figures._sheet.style import INK, Mark, house_style
from sfumato.figures.public.diagnostic import (
    NOT_REFITTED,
    Asked,
    Cloud,
    cloud_of,
    draw,
    is_frame,
    pairs_as,
    told_by,
    way_of,
)
from sfumato.figures.public.drawn import finished, refusals
from sfumato.figures.public.points import Protected, points
from sfumato.figures.public.protection import house_of, house_rules
from sfumato.figures.public.subjects import dataset_of, subjects
from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sfumato.figures.public.plot import Plot
    from sfumato.figures.public.protection import Keyed, Protecting
    from sfumato.figures.public.small import Small
    from sfumato.figures.public.subjects import Subjects
    from sfumato.outputs.log import Log
    from sfumato.outputs.rules import Rules

_LINE = Mark("Normal distribution", INK, "", "--")
_BEFORE = "Noise was added before the values were put in order, so the points still rise."
_METHOD = "The values were protected before they were put in order."
_QUARTERS = (0.25, 0.75)


def qq(  # noqa: PLR0913 - all but two by name only
    model: Any,
    x: str | None = None,
    *,
    data: Any = None,
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
    """Ordered residuals, or an ordered variable, against the quantiles of a normal distribution.

    Question: is it normal, and if not, where does it deviate?
    Assumes: points at the far ends are protected most: that a tail is heavy can be seen, how
    far its last record lies cannot.

    Parameters
    ----------
    model : results of statsmodels, a scikit-learn regressor with data=(X, y), an `sf.Fit`, a
        frame with `fitted` and `residual`; or, with `x`, any records.
    x : a variable of the records. Default: the standardised residuals of the model.
    data : (X, y) for scikit-learn.
    protection : "noise" is added before ordering; "deterministic" (default), "suppress" and
        "generalise" act on the pairs of theoretical and observed quantile. A method acts on the
        values, before ordering; residuals are called "standardised".
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
    >>> frame = pl.DataFrame({"bmi": 25 + np.sin(np.arange(100.0))})
    >>> made = sf.plots.qq(frame, "bmi", protection="noise", key=bytes(32))
    >>> made.table["observed"].is_sorted()
    True

    References: Avraam et al. (2021), EPJ Data Science 10:2, section 4.2 and its discussion.
    """
    name = "standardised" if x is None else x
    shown = "standardised residuals" if x is None else x
    named = title or f"Normal QQ plot of {shown}"
    rules, k = house_of(rules, log, k)
    asked = Asked(protection=protection, k=k, bins=bins, sd_share=sd_share, key=key, small=small,
                  rules=rules)  # fmt: skip
    with refusals(log, kind="qq", title=named, variables=[name]):
        who = _who(model, x, data, asked)
        made = _paired(who, name, asked)
    with house_style():
        figure, (axes,) = sheet(3.9)
        legend = draw(axes, made)
        line = _straight(axes, made)
        label_axes(axes, "Quantile of the normal distribution",
                   "Standardised residual" if x is None else x, width=60)  # fmt: skip
        return finished(
            figure,
            [axes],
            kind="qq",
            title=named,
            protection=made.way,
            shown_of=who,
            table=made.table(),
            notes=[*([NOT_REFITTED] if x is None else []), *made.notes],
            reasons=made.reasons,
            rule=made.rule(small),
            details=made.details(),
            legend=[*legend, *([_LINE] if line else [])],
            log=log,
        )


def _who(model: Any, x: str | None, data: Any, asked: Asked) -> Subjects:
    house = house_rules(asked.rules)
    if x is None:
        return subjects(told_by(model, data, asked)[1], ["standardised"], rules=house, k=asked.k)
    if not is_frame(model):
        raise SfumatoError(
            "A variable can be named for records only, not for a model.",
            hint="leave x out for the residuals of the model.",
        )
    return subjects(dataset_of(model), [x], rules=house, k=asked.k)


def _paired(who: Subjects, name: str, asked: Asked) -> Cloud:
    """Pairs of theoretical and observed quantile, protected."""
    way = way_of(who, asked)
    if way.name != "noise" and way.method is None:
        table = pl.DataFrame(_pairs(who.column(name)))
        return cloud_of(pairs_as(who, table), way, asked)
    moved = points(who, [name], way, lonely=asked.small == "show")
    table = pl.DataFrame(_pairs(moved.column(name)))
    made = Protected(values=table, coinciding=np.zeros(len(table), np.bool_),
                     left_out=moved.left_out, outside=moved.outside, stays=moved.stays,
                     alone=moved.alone)  # fmt: skip
    cloud = cloud_of(pairs_as(who, table), way, asked, [made])
    said = _BEFORE if way.method is None else _METHOD
    return replace(cloud, notes=(said, *cloud.notes))


def _pairs(values: Floats) -> dict[str, Floats]:
    from scipy.special import ndtri

    count = len(values)
    return {
        "theoretical": ndtri((np.arange(count) + 0.5) / count),
        "observed": np.sort(values),
    }


def _straight(axes: Axes, made: Cloud) -> bool:
    """The line of a normal distribution, through the quarters of what is shown."""
    x, y, weights = made.pairs()
    order = np.argsort(x, kind="stable")
    x, y, weights = x[order], y[order], weights[order]
    low, high = _quarters(x, weights)
    if not high > low:
        return False
    if made.cells is None:
        near = [float(np.mean(y[_around(x, at, made.way.k)])) for at in (low, high)]
    else:
        near = [float(np.average(y[x == at], weights=weights[x == at])) for at in (low, high)]
    axes.axline((low, near[0]), (high, near[1]), color=INK, linewidth=1.1,
                linestyle=(0, (5, 2)), zorder=1)  # fmt: skip
    return True


def _quarters(ordered: Floats, weights: Floats) -> tuple[float, float]:
    """Where a quarter and three quarters of what is shown lie; a cell stands for all it holds."""
    reached = np.cumsum(weights)
    low, high = np.searchsorted(reached, np.array(_QUARTERS) * reached[-1])
    return float(ordered[low]), float(ordered[high])


def _around(ordered: Floats, at: float, k: int) -> slice:
    place = int(np.searchsorted(ordered, at))
    start = min(max(place - k // 2, 0), max(len(ordered) - k, 0))
    return slice(start, start + k)
