"""Residuals against fitted values: paper 003, Figures 5A, 6A and 7A."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

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
from sfumato.figures.sheet.style import INK, Mark, use_house_style
from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from typing import Unpack

    from matplotlib.axes import Axes

    from sfumato.figures.public.plot import Plot

_MEANS = Mark("Smoothed mean of what is shown", INK, "", "-")
_POSITIONS, _BANDWIDTH, _TAIL, _NEAR = 80, 0.3, 0.02, 0.4
"""How often the mean is taken, over how many SDs, and which share at either end is left alone."""


@takes(Binned)
def residuals(
    model: Any,
    data: Any = None,
    *,
    trend: bool = True,
    **asked: Unpack[Binned],
) -> Plot:
    """What a model leaves over, against what it predicts, without anybody's outcome.

    Question: is the relation linear, and is the spread the same everywhere?
    Assumes: the model was fitted to the original. Fitted value and residual add up to the
    outcome of a record, so the pair is protected as a pair; the model is not fitted again.

    Parameters
    ----------
    model : results of statsmodels, a scikit-learn regressor with data=(X, y), an `sf.Fit`, or a
        frame with `fitted` and `residual`.
    data : (X, y) for scikit-learn; elsewhere, if you like, the records of the model in its order,
        so that noise and log know who is who, and persons with several records are counted.
    trend : draw the smoothed mean of what is shown.

    Examples
    --------
    >>> import numpy as np, polars as pl, sfumato as sf
    >>> at = np.arange(100.0)
    >>> frame = pl.DataFrame({"fitted": at, "residual": np.sin(at)})
    >>> sf.plots.residuals(frame).table.columns
    ['fitted', 'residual']

    References: Avraam et al. (2021), EPJ Data Science 10:2, section 4.2 and Figures 5 to 7.
    """
    request = make_request(
        "residuals", "Residuals against fitted values", ["fitted", "residual"], **asked
    )
    with request.record_refusals():
        outcomes, records = read_model(model, data, request)
        cloud = protect_cloud(records, request)
    with use_house_style():
        figure, (axes,) = make_sheet(3.9)
        legend = cloud.draw(axes)
        draw_level_line(axes)
        if trend and _draw_means(axes, cloud):
            legend.append(_MEANS)
        label_axes(axes, f"Fitted value{f' of {outcomes.outcome}' if outcomes.outcome else ''}",
                   "Residual", width=60)  # fmt: skip
        return cloud.make_plot(figure, axes, notes=[NOT_REFITTED], legend=legend)


def _draw_means(axes: Axes, cloud: Cloud) -> bool:
    """The smoothed mean of what is shown, from left to right; whether there is one."""
    x, y, weights = cloud.pairs()
    curve = fit_local_lines(x, y, weights, cloud.protection.k)
    if curve is None:
        return False
    positions, level = curve
    # Across a gap with nothing in it, a line would stand for nobody.
    gaps = np.flatnonzero(np.diff(positions) > 1.5 * np.diff(positions).min()) + 1
    for part in np.split(np.arange(len(positions)), gaps):
        axes.plot(positions[part], level[part], color=INK, linewidth=1.4, zorder=4)
    return True


def fit_local_lines(x: Floats, y: Floats, weights: Floats, k: int) -> tuple[Floats, Floats] | None:
    """Local linear regression: lines fitted around each position, near points counting more.

    Only where at least k points are near. None where x does not vary.
    """
    order = np.lexsort((y, x))
    x, y, weights = x[order], y[order], weights[order]
    total = weights.sum()
    mean = (weights * x).sum() / total
    spread = np.sqrt((weights * (x - mean) ** 2).sum() / total)
    if not spread > 0:
        return None
    low, high = np.interp([_TAIL * total, (1 - _TAIL) * total], np.cumsum(weights), x)
    positions = np.linspace(float(low), float(high), _POSITIONS)
    distance = (x[None, :] - positions[:, None]) / (_BANDWIDTH * spread)
    kernel = np.exp(-0.5 * distance**2) * weights
    # The intercept of weighted least squares at each position, by its moments.
    moments = [(kernel * distance**power).sum(axis=1) for power in range(3)]
    means = [(kernel * y).sum(axis=1), (kernel * distance * y).sum(axis=1)]
    with np.errstate(divide="ignore", invalid="ignore"):
        level = moments[2] * means[0] - moments[1] * means[1]
        level /= moments[0] * moments[2] - moments[1] ** 2
    near = ((np.abs(distance) < _NEAR) * weights).sum(axis=1)
    known = np.isfinite(level) & (near >= k)
    return (positions[known], level[known]) if known.any() else None
