"""The bars of a histogram, and how they are drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.figures._sheet.style import BLUE, Mark, mark
from sfumato.kernels.arrays import Floats, Integers

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Bars:
    """The bars of one group."""

    label: str
    cuts: Floats
    counts: Integers
    hidden: int
    lost: float
    notes: tuple[str, ...] = ()

    def heights(self, *, density: bool) -> Floats:
        """How high each bar is."""
        if not density:
            return self.counts.astype(np.float64)
        # By the records shown: their share would tell how many are not.
        made: Floats = self.counts / np.diff(self.cuts) / self.counts.sum()
        return made


def draw_bars(axes: Axes, bars: list[Bars], *, density: bool) -> list[Mark]:
    """Draw the bars of all groups; the legend."""
    looks = [mark(at, one.label) for at, one in enumerate(bars)]
    if len(bars) == 1 and not bars[0].label:
        looks = [Mark("", BLUE)]
    strength = 0.3 if len(bars) == 1 else 0.1
    for one, look in zip(bars, looks, strict=True):
        heights = one.heights(density=density)
        filled = heights > 0
        axes.bar(one.cuts[:-1][filled], heights[filled], np.diff(one.cuts)[filled], align="edge",
                 facecolor=look.colour, alpha=strength, linewidth=0)  # fmt: skip
        if len(bars) > 1:
            _outline(axes, one, heights, look)
            continue
        axes.bar(one.cuts[:-1][filled], heights[filled], np.diff(one.cuts)[filled], align="edge",
                 facecolor="none", edgecolor=look.colour, linewidth=1.0)  # fmt: skip
    axes.margins(x=0.03)
    axes.grid(visible=False, axis="x")
    return [
        one if len(bars) > 1 else replace(one, marker="s", line="") for one in looks if one.name
    ]


def _outline(axes: Axes, one: Bars, heights: Floats, look: Mark) -> None:
    """Only the outline of all bars, and a shape on each: several groups lie over one another."""
    (filled,) = np.nonzero(heights)
    span = slice(filled[0], filled[-1] + 1)
    axes.stairs(heights[span], one.cuts[span.start : span.stop + 1], color=look.colour,
                linewidth=1.3)  # fmt: skip
    middles = (one.cuts[:-1] + one.cuts[1:])[filled] / 2
    axes.plot(middles, heights[filled], linestyle="", marker=look.marker, color=look.colour,
              markersize=3.2)  # fmt: skip
