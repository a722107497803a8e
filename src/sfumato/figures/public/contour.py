"""Two variables as lines of equal density: paper 003, Figure 3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.errors import PlanError
from sfumato.figures._sheet.style import house_style
from sfumato.figures.public.cells import (
    bins_of,
    cell_details,
    extremes,
    grids,
    lost_said,
    parts_in,
    two_limits,
)
from sfumato.figures.public.drawn import finished, refusals
from sfumato.figures.public.facets import colours, facets, within
from sfumato.figures.public.grid import allowed_bins
from sfumato.figures.public.heatmap import BINS, WHY
from sfumato.figures.public.protection import Protecting, house_of, resolve, subjects
from sfumato.figures.public.small import Small, full_reasons, small_reasons
from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sfumato.figures.public.cells import Grid, TwoLimits
    from sfumato.figures.public.plot import Plot
    from sfumato.figures.public.protection import Keyed
    from sfumato.outputs.log import Log
    from sfumato.outputs.rules import Rules

_PAD = 2
"""Empty cells about the grid, so that the lines close."""


def contour(  # noqa: PLR0913 - all but three by name only
    data: Any,
    x: str,
    y: str,
    *,
    hue: str | None = None,
    protection: Protecting | None = None,
    k: int | None = None,
    bins: int | None = None,
    limits: TwoLimits | None = None,
    levels: int = 8,
    smooth: float = 1.0,
    sd_share: float = 0.25,
    key: Keyed = None,
    small: Small = "hide",
    title: str | None = None,
    rules: Rules | None = None,
    log: Log | None = None,
) -> Plot:
    """Lines of equal density, drawn from cells of at least k records each.

    Question: where do most records lie, told so that no island stands for a few people?
    Assumes: one record is one person. The lines are made from the protected cells alone.

    Parameters
    ----------
    data : a frame, a Dataset or a release.
    x : the variable across.
    y : the variable upwards.
    hue : a variable that makes groups, each in a panel of its own.
    protection : "suppress" hides cells of fewer than k in a fine grid, "generalise" in a coarse
        one, the default. "deterministic" and "noise" count protected values.
    k : fewest records behind a cell. Default: the rules' k, which is 3.
    bins : bins an axis. Default: about 15, or 30 of "suppress".
    limits : ((low, high), (low, high)) of the two axes. Default: round numbers.
    levels : how many lines.
    smooth : how far the cells are blurred first, in cells; 0 for not at all.
    sd_share : SD of the noise as a share of the variable's.
    key : the custodian's secret, for noise that is the same next time.
    small : "show" cells of fewer than k protected values, where values are protected themselves.
    title : of the figure.
    rules : the house rules.
    log : where the output is listed.

    Examples
    --------
    >>> import numpy as np, polars as pl, sfumato as sf
    >>> at = np.arange(400)
    >>> frame = pl.DataFrame({"age": 20.5 + at % 20, "bmi": 20.3 + at // 20})
    >>> sf.plots.contour(frame, "age", "bmi", bins=5).verdict
    'pass'

    References: Avraam et al. (2021), EPJ Data Science 10:2, section 4.1 and Figure 3.
    """
    (house, k), named = house_of(rules, log, k), title or f"Density of {y} by {x}"
    if not (isinstance(levels, int) and levels >= 1 and smooth >= 0):
        raise PlanError("levels is a whole number from 1, and smooth is not negative.")
    groups = () if hue is None else (hue,)
    with refusals(log, kind="contour", title=named, variables=[x, y], groups=groups):
        who = subjects(data, [x, y], hue, rules=house, k=k)
        way = resolve(protection, default="generalise", why=WHY, records=who.fewest, k=k,
                      sd_share=sd_share, key=key, rules=house)  # fmt: skip
        concerns = small_reasons(small, way)
        ends = two_limits(x, y, limits)
        allowed = allowed_bins(bins, BINS.get(way.name, 15), who.fewest, house)
        made = grids(who, [x, y], way, bins=allowed, exact=bins is not None, limits=ends,
                     k=k if small == "hide" else 1)  # fmt: skip
        concerns = (*concerns, *full_reasons([one.counts for one in made], house))
    with house_style():
        figure, panels = facets([one.label for one in made], x, y)
        for axes, one in zip(panels, made, strict=True):
            _draw(axes, one, levels, smooth)
        within(panels, made, room=1.5)
        return finished(
            figure,
            panels,
            kind="contour",
            title=named,
            protection=way,
            shown_of=who,
            table=pl.concat([one.table(grouped=hue is not None) for one in made]),
            notes=[*lost_said(made, k), *(said for one in made for said in one.notes)],
            reasons=[*concerns, *extremes(who, [x, y], ends)],
            rule={"bins": bins_of(made), "small": small, "levels": levels, "smooth": smooth},
            details=cell_details(made),
            log=log,
            parts=parts_in(who, [x, y], way, made) if log is not None else None,
        )


def _draw(axes: Axes, one: Grid, levels: int, smooth: float) -> None:
    x, y, density = surface(one, smooth)
    cuts = np.linspace(0, float(density.max()), levels + 2)[1:]
    axes.contourf(x, y, density.T, levels=cuts, cmap=colours(), alpha=0.9, extend="neither")
    lines = axes.contour(x, y, density.T, levels=cuts[:-1], colors="white", linewidths=0.5)
    lines.set_alpha(0.7)


def surface(one: Grid, smooth: float) -> tuple[Floats, Floats, Floats]:
    """The middles of the cells and the density there, relative to the values shown."""
    from scipy.ndimage import gaussian_filter

    x, y = (_middles(cuts) for cuts in (one.x, one.y))
    padded = np.pad(one.counts.astype(np.float64), _PAD)
    blurred = gaussian_filter(padded, smooth, mode="constant") if smooth else padded
    area = (one.x[1] - one.x[0]) * (one.y[1] - one.y[0])
    return x, y, blurred / one.counts.sum() / area


def _middles(cuts: Floats) -> Floats:
    step = cuts[1] - cuts[0]
    inner = (cuts[:-1] + cuts[1:]) / 2
    before = inner[0] - step * np.arange(_PAD, 0, -1)
    return np.concatenate([before, inner, inner[-1] + step * np.arange(1, _PAD + 1)])
