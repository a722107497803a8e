"""The straight line through what is drawn. It never sees the original."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.figures._sheet.style import INK, Mark
from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes


TREND = Mark("Trend of what is shown", INK, "", "--")


@dataclass(frozen=True)
class Line:
    """Slope and intercept, and from where to where it is drawn."""

    slope: float
    intercept: float
    low: float
    high: float

    def plain(self) -> dict[str, Any]:
        """Slope and intercept."""
        return {"slope": self.slope, "intercept": self.intercept}


def fitted(x: Floats, y: Floats, weights: Floats) -> Line | None:
    """The least-squares line; None where x does not vary. The order of the points is the caller's.

    Examples
    --------
    >>> import numpy as np
    >>> fitted(np.array([0.0, 1.0]), np.array([1.0, 3.0]), np.ones(2)).slope
    2.0
    """
    total = weights.sum()
    middle_x, middle_y = (weights * x).sum() / total, (weights * y).sum() / total
    spread = (weights * (x - middle_x) ** 2).sum()
    if not spread > 0:
        return None
    slope = float((weights * (x - middle_x) * (y - middle_y)).sum() / spread)
    return Line(slope, float(middle_y - slope * middle_x), float(x.min()), float(x.max()))


def draw_line(axes: Axes, line: Line, look: Mark) -> None:
    """Draw it: in ink where there is one group, else in the colour of its group."""
    ends = np.array([line.low, line.high])
    axes.plot(ends, line.intercept + line.slope * ends, color=look.colour if look.name else INK,
              linewidth=1.3, linestyle=(0, (5, 2)), zorder=4)  # fmt: skip
