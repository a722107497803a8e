"""Two variables as lines of equal density: paper 003, Figure 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import PlanError
from sfumato.figures.public.grid import Grid, Limits, TwoLimits
from sfumato.figures.public.heatmap import ANYWHERE, crop_to_grids, get_colormap, plot_grids
from sfumato.figures.public.parameters import Binned, takes
from sfumato.figures.public.plot import join_names, make_request
from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from typing import Unpack

    from matplotlib.axes import Axes

    from sfumato.figures.public.plot import Plot

_PAD = 2
"""Empty cells about the grid, so that the lines close."""


@takes(Binned)
def contour(
    data: Any,
    x: str,
    y: str,
    *,
    hue: str | None = None,
    limits: TwoLimits | None = None,
    levels: int = 8,
    smooth: float = 1.0,
    **asked: Unpack[Binned],
) -> Plot:
    """Lines of equal density, drawn from cells of at least k records each.

    Question: where do most records lie, shown so that no island stands for a few people?
    Assumes: one record is one person, or the role "person" says whose it is. The lines are made
    from the protected cells alone.

    Parameters
    ----------
    hue : variable that forms groups, each in a panel of its own.
    protection : kind of protection: "suppress" hides cells of fewer than k in a fine grid,
        "generalise" in a coarse one, the default. "deterministic" and "noise" count protected
        values.
    bins : number of cells an axis. Default: about 15, or 30 for "suppress".
    levels : number of lines.
    smooth : how far the cells are blurred first, in cells; 0 for not at all.

    Examples
    --------
    >>> import numpy as np, polars as pl, sfumato as sf
    >>> at = np.arange(400)
    >>> frame = pl.DataFrame({"age": 20.5 + at % 20, "bmi": 20.3 + at // 20})
    >>> sf.plots.contour(frame, "age", "bmi", bins=5).verdict
    'pass'

    References: Avraam et al. (2021), EPJ Data Science 10:2, section 4.1 and Figure 3.
    """
    request = make_request(
        "contour", f"Density of {join_names(y, x, hue)}", [x, y], hue=hue, **asked
    )
    if not (isinstance(levels, int) and levels >= 1 and smooth >= 0):
        raise PlanError("levels is a whole number from 1, and smooth is not negative.")

    def draw(
        panels: Sequence[Axes], grids: Sequence[Grid], possible: tuple[Limits, Limits]
    ) -> None:
        for axes, grid in zip(panels, grids, strict=True):
            draw_contours(axes, grid, levels, smooth, possible)
        crop_to_grids(panels, grids, room=1.5, possible=possible)

    return plot_grids(data, request, limits, draw, {"levels": levels, "smooth": smooth})


def draw_contours(
    axes: Axes,
    grid: Grid,
    levels: int,
    smooth: float,
    possible: tuple[Limits, Limits] = (ANYWHERE, ANYWHERE),
) -> None:
    """The lines of one group, and the colours between them, within what is possible."""
    from matplotlib.patches import Rectangle

    x, y, density = smooth_grid(grid, smooth, possible)
    cuts = np.linspace(0, float(density.max()), levels + 2)[1:]
    areas = axes.contourf(
        x, y, density.T, levels=cuts, cmap=get_colormap(), alpha=0.9, extend="neither"
    )
    lines = axes.contour(x, y, density.T, levels=cuts[:-1], colors="white", linewidths=0.5)
    lines.set_alpha(0.7)
    (left, right), (bottom, top) = (
        (max(low, float(middles[0])), min(high, float(middles[-1])))
        for (low, high), middles in zip(possible, (x, y), strict=True)
    )
    for drawn in (areas, lines):
        frame = Rectangle((left, bottom), right - left, top - bottom, transform=axes.transData)
        drawn.set_clip_path(frame)
        drawn.set_in_layout(False)  # it lies within the axes, whatever its frame


def smooth_grid(
    grid: Grid, smooth: float, possible: tuple[Limits, Limits] = (ANYWHERE, ANYWHERE)
) -> tuple[Floats, Floats, Floats]:
    """The middles of the cells and the density there, relative to the values shown.

    Where the grid ends with what is possible, the density is mirrored at that end, as that of a
    curve is: no fare below 0 takes a part of those just above.
    """
    from scipy.ndimage import gaussian_filter

    x, y = (_pad_middles(cuts) for cuts in (grid.x, grid.y))
    padded = grid.counts.astype(np.float64)
    for axis, (cuts, ends) in enumerate(zip((grid.x, grid.y), possible, strict=True)):
        close = [abs(cuts[end] - ends[end]) < (cuts[1] - cuts[0]) / 2 for end in (0, -1)]
        for side, mirrored in enumerate(close):
            width = [(0, 0), (0, 0)]
            width[axis] = (0, _PAD) if side else (_PAD, 0)
            padded = np.pad(padded, width, mode="symmetric" if mirrored else "constant")
    blurred = gaussian_filter(padded, smooth, mode="constant") if smooth else padded
    area = (grid.x[1] - grid.x[0]) * (grid.y[1] - grid.y[0])
    return x, y, blurred / grid.counts.sum() / area


def _pad_middles(cuts: Floats) -> Floats:
    step = cuts[1] - cuts[0]
    inner = (cuts[:-1] + cuts[1:]) / 2
    before = inner[0] - step * np.arange(_PAD, 0, -1)
    return np.concatenate([before, inner, inner[-1] + step * np.arange(1, _PAD + 1)])
