"""Quantiles against those of a normal distribution: paper 003, Figures 5B, 6B and 7B."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.errors import SfumatoError
from sfumato.figures.public.diagnostics import (
    NOT_REFITTED,
    WHY,
    Cloud,
    is_frame,
    make_cloud,
    read_model,
    replace_values,
)
from sfumato.figures.public.parameters import Binned, takes
from sfumato.figures.public.plot import make_request
from sfumato.figures.public.protection import NOISY
from sfumato.figures.public.subjects import to_dataset
from sfumato.figures.sheet.sheet import label_axes, make_sheet
from sfumato.figures.sheet.style import INK, Mark, use_house_style
from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from typing import Unpack

    from matplotlib.axes import Axes

    from sfumato.figures.public.plot import Plot, Request
    from sfumato.figures.public.subjects import Subjects

_LINE = Mark("Normal distribution", INK, "", "--")
_BEFORE = "Noise was added before the values were put in order, so the points still rise."
_METHOD = "The values were protected before they were put in order."
_QUARTERS = (0.25, 0.75)


@takes(Binned)
def qq(
    model: Any,
    x: str | None = None,
    *,
    data: Any = None,
    **asked: Unpack[Binned],
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
    protection : kind of protection: "noise" is added before ordering; "deterministic" (default),
        "suppress" and "generalise" act on the pairs of theoretical and observed quantile. A method
        acts on the values, before ordering; residuals are called "standardised".

    Examples
    --------
    >>> import numpy as np, polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"bmi": 25 + np.sin(np.arange(100.0))})
    >>> made = sf.plots.qq(frame, "bmi", protection="noise", key=bytes(32))
    >>> made.table["observed"].is_sorted()
    True

    References: Avraam et al. (2021), EPJ Data Science 10:2, section 4.2 and its discussion.
    """
    subject = "standardised residuals" if x is None else x
    request = make_request(
        "qq", f"Normal QQ plot of {subject}", ["standardised" if x is None else x], **asked
    )
    with request.record_refusals():
        subjects = request.select(_read_records(model, x, data, request))
        cloud = _pair_quantiles(subjects, request)
    with use_house_style():
        figure, (axes,) = make_sheet(3.9)
        legend = cloud.draw(axes)
        if _draw_normal_line(axes, cloud):
            legend.append(_LINE)
        label_axes(axes, "Quantile of the normal distribution",
                   "Standardised residual" if x is None else subjects.describe(x),
                   width=60)  # fmt: skip
        notes = [NOT_REFITTED] if x is None else []
        return cloud.make_plot(figure, axes, subjects=subjects, notes=notes, legend=legend)


def _read_records(model: Any, x: str | None, data: Any, request: Request) -> Any:
    if x is None:
        return read_model(model, data, request)[1]
    if not is_frame(model):
        raise SfumatoError(
            "A variable can be named for records only, not for a model.",
            hint="leave x out for the residuals of the model.",
        )
    return to_dataset(model)


def _pair_quantiles(subjects: Subjects, request: Request) -> Cloud:
    """Pairs of theoretical and observed quantile, protected."""
    (name,) = subjects.names
    resolved = request.resolve(subjects, default="deterministic", why=WHY)
    if resolved.name not in NOISY and resolved.method is None:
        return make_cloud(_order_values(subjects, name), resolved, request)
    (values,) = request.protect(subjects, resolved)
    table = pl.DataFrame(_compute_quantiles(values.column(name)))
    points = replace(values, values=table, coinciding=np.zeros(len(table), np.bool_))
    cloud = make_cloud(_order_values(subjects, name), resolved, request, [points])
    note = _BEFORE if resolved.method is None else _METHOD
    return replace(cloud, notes=(note, *cloud.notes))


def _order_values(subjects: Subjects, name: str) -> Subjects:
    """The records by rising value, as pairs of theoretical and observed quantile."""
    values, units = subjects.column(name), subjects.units
    order = units.sort(values)
    table = pl.DataFrame(_compute_quantiles(values))
    return replace_values(subjects, table, units.take(order))


def _compute_quantiles(values: Floats) -> dict[str, Floats]:
    from scipy.special import ndtri

    count = len(values)
    return {
        "theoretical": ndtri((np.arange(count) + 0.5) / count),
        "observed": np.sort(values),
    }


def _draw_normal_line(axes: Axes, cloud: Cloud) -> bool:
    """The line of a normal distribution, through the quarters of what is shown."""
    x, y, weights = cloud.pairs()
    order = np.argsort(x, kind="stable")
    x, y, weights = x[order], y[order], weights[order]
    low, high = _find_quarters(x, weights)
    if not high > low:
        return False
    if cloud.grids is None:
        levels = [float(np.mean(y[_window(x, end, cloud.protection.k)])) for end in (low, high)]
    else:
        levels = [float(np.average(y[x == end], weights=weights[x == end])) for end in (low, high)]
    axes.axline((low, levels[0]), (high, levels[1]), color=INK, linewidth=1.1,
                linestyle=(0, (5, 2)), zorder=1)  # fmt: skip
    return True


def _find_quarters(ordered: Floats, weights: Floats) -> tuple[float, float]:
    """Where a quarter and three quarters of what is shown lie; a cell stands for all it holds."""
    reached = np.cumsum(weights)
    low, high = np.searchsorted(reached, np.array(_QUARTERS) * reached[-1])
    return float(ordered[low]), float(ordered[high])


def _window(ordered: Floats, value: float, k: int) -> slice:
    """The k values around one of them."""
    index = int(np.searchsorted(ordered, value))
    start = min(max(index - k // 2, 0), max(len(ordered) - k, 0))
    return slice(start, start + k)
