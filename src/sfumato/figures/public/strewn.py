"""Protected points on a sheet: as dots, as cells sized by count, or as a mist of many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sfumato.figures._sheet.style import FAINT, INK, VERMILION, Mark
from sfumato.figures.public.trend import Line, fitted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sfumato.figures.public.cells import Grid
    from sfumato.figures.public.points import Protected

COINCIDING = Mark("Several at the same place", VERMILION, "o", "")
RINGED = Mark(COINCIDING.name, INK, "o", "", hollow=True)
"""The same where there are groups: vermilion is the colour of one of them."""
_LARGEST = 130.0
"""Area of the largest cell's dot, in square points."""
_FEW, _LARGE, _SMALL = 600, 13.0, 5.0


def dots(axes: Axes, made: Protected, look: Mark) -> Line | None:
    """Each protected value as a dot, as pixels; the line through them."""
    x, y = _both(made)
    size = _LARGE if len(made) <= _FEW else _SMALL
    axes.scatter(x, y, s=size, marker=look.marker, color=look.colour, alpha=0.65, linewidths=0,
                 rasterized=True)  # fmt: skip
    return fitted(x, y, np.ones(len(x)))


def spots(axes: Axes, all_made: Sequence[Protected], looks: Sequence[Mark]) -> list[Mark]:
    """Mark the places where several protected values coincide; the legend, if there are any."""
    found = []
    for made, look in zip(all_made, looks, strict=True):
        if not made.coinciding.any():
            continue
        x, y = (one[made.coinciding] for one in _both(made))
        if look.name:
            axes.scatter(x, y, s=_LARGE * 1.3, marker=look.marker, facecolors="none",
                         edgecolors=look.colour, linewidths=0.7, rasterized=True,
                         zorder=3)  # fmt: skip
        else:
            axes.scatter(x, y, s=_LARGE * 0.8, color=VERMILION, linewidths=0, rasterized=True,
                         zorder=3)  # fmt: skip
        found = [RINGED if look.name else COINCIDING]
    return found


def bubbles(axes: Axes, one: Grid, look: Mark, every: Sequence[Grid]) -> Line | None:
    """The middle of each cell, its area by the count; the weighted line through them."""
    x, y, counts = one.centres()
    most = max(int(other.counts.max()) for other in every)
    axes.scatter(x, y, s=_LARGEST * counts / most, marker=look.marker, color=look.colour,
                 alpha=0.6, linewidths=0, rasterized=True)  # fmt: skip
    if one is every[0]:
        for cuts, line in ((one.x, axes.axvline), (one.y, axes.axhline)):
            for at in cuts:
                line(float(at), color=INK, alpha=FAINT / 2, linewidth=0.4, zorder=0)
        axes.grid(visible=False)
    return fitted(x, y, counts.astype(np.float64))


def mist(axes: Axes, one: Grid, look: Mark) -> Line | None:
    """Many values as a fine grid in one colour, the denser the stronger."""
    from matplotlib.colors import to_rgb

    strength = np.sqrt(one.counts / one.counts.max()).T
    image = np.empty((*strength.shape, 4))
    image[..., :3] = to_rgb(look.colour)
    image[..., 3] = np.where(strength > 0, 0.12 + 0.88 * strength, 0.0)
    mesh = axes.pcolormesh(one.x, one.y, image, rasterized=True)
    mesh.set_edgecolor("none")
    x, y, counts = one.centres()
    return fitted(x, y, counts.astype(np.float64))


def _both(made: Protected) -> tuple[np.ndarray, np.ndarray]:
    names = made.values.columns
    return made.column(names[0]), made.column(names[-1])
