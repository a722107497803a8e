"""One panel for each group, with the same axes and the same colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.figures._sheet.sheet import head_of_panel, label_axes, plain_numbers, sheet
from sfumato.figures._sheet.style import SMALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

    from sfumato.figures.public.cells import Grid

_ACROSS = 3
_HEIGHTS = {1: 4.3, 2: 2.9, 3: 2.2}


def facets(labels: Sequence[str], x: str, y: str) -> tuple[Figure, list[Axes]]:
    """A sheet with a panel for each label."""
    columns = min(len(labels), _ACROSS)
    rows = math.ceil(len(labels) / columns)
    figure, panels = sheet(_HEIGHTS[columns] * rows, rows=rows, columns=columns)
    for spare in panels[len(labels) :]:
        spare.remove()
    used = panels[: len(labels)]
    for at, (axes, label) in enumerate(zip(used, labels, strict=True)):
        if label:
            head_of_panel(axes, "", label)
        label_axes(axes, x, y if at % columns == 0 else "", width=40 // columns)
    return figure, used


def colours() -> Colormap:
    """From few to many: told apart by everybody, on white paper and on black."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    return ListedColormap(colormaps["viridis"](np.linspace(0.12, 0.95, 200)))


def coloured(axes: Axes, one: Grid, most: int) -> None:
    """The cells of a grid in colour; those that are empty or hidden have none."""
    counts = np.where(one.counts > 0, one.counts, np.nan).T
    mesh = axes.pcolormesh(one.x, one.y, counts, cmap=colours(), vmin=0, vmax=most, rasterized=True)
    mesh.set_edgecolor("none")
    bar_beside(axes, mesh, "Values per cell")


def bar_beside(axes: Axes, mesh: Any, text: str) -> None:
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
    plain_numbers(bar.ax.yaxis)
    bar.set_label(text, fontsize=SMALL)


def within(panels: Sequence[Axes], made: Sequence[Grid], *, room: float = 1.0) -> None:
    """The part of the common grid that shows something in any panel, and some cells more."""
    shown = np.logical_or.reduce([one.counts > 0 for one in made])
    for axis, cuts in enumerate((made[0].x, made[0].y)):
        held = np.flatnonzero(shown.any(axis=1 - axis))
        step = room * (cuts[1] - cuts[0])
        limits = (float(cuts[held[0]] - step), float(cuts[held[-1] + 1] + step))
        for axes in panels:
            axes.set(**{"xlim" if axis == 0 else "ylim": limits})
