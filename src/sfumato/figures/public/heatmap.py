"""Two variables as a grid of coloured cells of many records each: paper 003, Figure 3."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.figures.public.distance import (
    IN_CORNERS,
    Distance,
    compare_grid,
    list_reference_edges,
    measure_groups,
)
from sfumato.figures.public.grid import (
    Grid,
    Limits,
    TwoLimits,
    check_two_limits,
    count_bins,
    count_grid_cells,
    describe_lost_of_grids,
    judge_limits,
    label_records_of_grids,
    make_grids,
)
from sfumato.figures.public.parameters import Binned, takes
from sfumato.figures.public.plot import Request, join_names, make_plot, make_request
from sfumato.figures.public.protected_values import find_possible_range
from sfumato.figures.public.protection import judge_full_cells, judge_small_cells
from sfumato.figures.sheet.sheet import format_axis, make_panels
from sfumato.figures.sheet.style import SMALL, use_house_style

if TYPE_CHECKING:
    from typing import Unpack

    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

    from sfumato.figures.public.plot import Plot
    from sfumato.figures.public.subjects import Subjects

BINS = {"suppress": 30}
USUAL_BINS = 15
ANYWHERE: Limits = (-math.inf, math.inf)
"""A variable without ends."""
_WHY = "Wide cells were chosen: in a fine grid most cells hold too few records to be shown."


@takes(Binned)
def heatmap(
    data: Any,
    x: str,
    y: str,
    *,
    hue: str | None = None,
    limits: TwoLimits | None = None,
    **asked: Unpack[Binned],
) -> Plot:
    """How many records lie where, as colours of cells of at least k records each.

    Question: how are two variables related, shown so that no cell stands for a few people?
    Assumes: one record is one person, or the role "person" says whose it is. Empty cells and hidden
    ones look the same.

    Parameters
    ----------
    hue : variable that forms groups, each in a panel of its own.
    protection : kind of protection: "suppress" hides cells of fewer than k in a fine grid,
        "generalise" in a coarse one, the default. "deterministic" and "noise" count protected
        values.
    bins : number of cells an axis. Default: about 15, or 30 for "suppress".

    Examples
    --------
    >>> import numpy as np, polars as pl, sfumato as sf
    >>> at = np.arange(400)
    >>> frame = pl.DataFrame({"age": 20.5 + at % 20, "bmi": 20.3 + at // 20})
    >>> made = sf.plots.heatmap(frame, "age", "bmi", bins=4)
    >>> made.table["records"].min() >= 3, made.verdict
    (True, 'pass')

    References: Avraam et al. (2021), EPJ Data Science 10:2, section 4.1 and Figure 3.
    """
    request = make_request("heatmap", join_names(y, x, hue), [x, y], hue=hue, **asked)
    return plot_grids(data, request, limits, draw_cells)


def plot_grids(
    data: Any,
    request: Request,
    limits: TwoLimits | None,
    draw: Callable[[Sequence[Axes], Sequence[Grid], tuple[Limits, Limits]], None],
    rule: Mapping[str, Any] | None = None,
) -> Plot:
    """Count in cells, and draw a panel for each group; what heatmap and contour share."""
    x, y = request.variables
    with request.record_refusals():
        subjects = request.select(data)
        resolved = request.resolve(subjects, default="generalise", why=_WHY)
        concerns = judge_small_cells(request.small, resolved)
        ends = check_two_limits(x, y, limits)
        grids = make_grids(subjects, resolved, request, limits=ends,
                           default=BINS.get(resolved.name, USUAL_BINS))  # fmt: skip
        concerns += judge_full_cells([grid.counts for grid in grids], request.rules)
    with use_house_style():
        figure, panels = make_panels(subjects.labels, *map(subjects.describe, (x, y)))
        draw(panels, grids, (_find_possible(subjects, x), _find_possible(subjects, y)))
        return make_plot(
            figure,
            panels,
            request,
            protection=resolved,
            subjects=subjects,
            table=pl.concat([grid.table(grouped=subjects.hue is not None) for grid in grids]),
            notes=[
                *describe_lost_of_grids(grids, request.k),
                *(note for grid in grids for note in grid.notes),
            ],
            reasons=[*concerns, *judge_limits(subjects, ends)],
            rule={"bins": count_bins(grids), "small": request.small, **(rule or {})},
            details=count_grid_cells(grids),
            parts=None
            if request.log is None
            else label_records_of_grids(subjects, resolved, grids),
            distance=measure_cells(subjects, grids, exact=request.bins is not None),
        )


def _find_possible(subjects: Subjects, name: str) -> Limits:
    """What is possible for a variable in any of the groups."""
    ranges = [find_possible_range(group, name) for group in subjects.groups]
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def measure_cells(subjects: Subjects, grids: Sequence[Grid], *, exact: bool = False) -> Distance:
    """How far cells are from those of a usual grid, or of one of the bins asked for."""
    edges = [grids[0].x, grids[0].y]
    if not exact:
        edges = [list_reference_edges(subjects, name) for name in subjects.names]
    gaps = [
        compare_grid([group.column(name) for name in subjects.names], grid, edges)
        for group, grid in zip(subjects.groups, grids, strict=True)
    ]
    return measure_groups(IN_CORNERS, subjects, gaps)


def get_colormap() -> Colormap:
    """From few to many: told apart by everybody, on white paper and on black."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    return ListedColormap(colormaps["viridis"](np.linspace(0.12, 0.95, 200)))


def draw_cells(
    panels: Sequence[Axes],
    grids: Sequence[Grid],
    possible: tuple[Limits, Limits] = (ANYWHERE, ANYWHERE),
) -> None:
    """The cells of a grid in colour; those that are empty or hidden have none."""
    del possible  # cells are where values are
    most = max(int(grid.counts.max()) for grid in grids)
    for axes, grid in zip(panels, grids, strict=True):
        counts = np.where(grid.counts > 0, grid.counts, np.nan).T
        mesh = axes.pcolormesh(
            grid.x, grid.y, counts, cmap=get_colormap(), vmin=0, vmax=most, rasterized=True
        )
        mesh.set_edgecolor("none")
        _draw_colorbar(axes, mesh, "Values per cell")
    crop_to_grids(panels, grids)


def _draw_colorbar(axes: Axes, mesh: Any, text: str) -> None:
    """What the colours mean."""
    from matplotlib.ticker import MaxNLocator

    figure = axes.get_figure(root=True)
    if figure is None:
        return
    bar = figure.colorbar(mesh, ax=axes, pad=0.02, fraction=0.06, aspect=24)
    if bar.solids is not None:
        bar.solids.set_rasterized(True)
    bar.ax.set_facecolor("none")
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=2, labelsize=SMALL)
    bar.locator = MaxNLocator(integer=True, nbins=6)
    format_axis(bar.ax.yaxis)
    bar.set_label(text, fontsize=SMALL)


def crop_to_grids(
    panels: Sequence[Axes],
    grids: Sequence[Grid],
    *,
    room: float = 1.0,
    possible: tuple[Limits, Limits] = (ANYWHERE, ANYWHERE),
) -> None:
    """The part of the common grid that shows something in any panel, and some cells more."""
    shown = np.logical_or.reduce([grid.counts > 0 for grid in grids])
    for axis, cuts in enumerate((grids[0].x, grids[0].y)):
        filled = np.flatnonzero(shown.any(axis=1 - axis))
        step = room * (cuts[1] - cuts[0])
        low, high = possible[axis]
        limits = (
            max(float(cuts[filled[0]] - step), min(low, float(cuts[filled[0]]))),
            min(float(cuts[filled[-1] + 1] + step), max(high, float(cuts[filled[-1] + 1]))),
        )
        for axes in panels:
            axes.set(**{"xlim" if axis == 0 else "ylim": limits})
