"""Bars that lie in rows, each with its number at the end."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.figures.sheet.style import INK, SMALL, Mark
from sfumato.figures.sheet.text import format_number, measure_width, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TOGETHER, _ALONE = 0.76, 0.54
"""Share of a row's height that all its bars take together, or a bar that is alone."""
_DIGITS = 3
_GAP = 0.06
"""Inches between a bar and its number."""


@dataclass(frozen=True)
class Bar:
    """A number in a row; `index` among so many bars of the row."""

    row: int
    value: float
    index: int = 0
    among: int = 1

    @property
    def middle(self) -> float:
        """How far down it lies."""
        return self.row + self._total_height * ((self.index + 0.5) / self.among - 0.5)

    @property
    def height(self) -> float:
        """How thick it is; a little air parts it from the next."""
        return 0.92 * self._total_height / self.among

    @property
    def _total_height(self) -> float:
        return _TOGETHER if self.among > 1 else _ALONE


def draw_bars(
    axes: Axes,
    series: Sequence[Iterable[float]],
    looks: Sequence[Mark],
    *,
    room: float,
    most: float = math.inf,
    ticks: int = 6,
) -> None:
    """Draw a bar for each number, a row for each place in the series.

    Parameters
    ----------
    axes : the panel, with its rows set.
    series : the numbers of each look, row by row.
    looks : how each series looks.
    room : inches across that the panel has.
    most : no tick lies beyond it: a share above 1 does not exist.
    ticks : about how many.
    """
    bars = [
        [Bar(row, value, index, len(series)) for row, value in enumerate(values)]
        for index, values in enumerate(series)
    ]
    finite = [bar.value for row in bars for bar in row if math.isfinite(bar.value)]
    _set_limits(axes, finite, room=room, most=most, ticks=ticks)
    for row, look in zip(bars, looks, strict=True):
        _put_bars(axes, row, look)


def _set_limits(
    axes: Axes, values: Sequence[float], *, room: float, most: float, ticks: int
) -> None:
    """Limits from zero to the ends, with room for the numbers beside them."""
    from matplotlib.ticker import MaxNLocator

    low, high = min([*values, 0.0]), max([*values, 0.0])
    if low == high:
        high = min(1.0, most)
    widths = (measure_width(format_number(value, _DIGITS), SMALL) for value in values)
    widest = max(widths, default=0.0) + 2 * _GAP
    # Never more than half of the panel for the numbers.
    share = min(widest / room, 0.5)
    width = (high - low) / (1 - share * (1 + (low < 0)))
    both = low < 0 <= high
    axes.set_xlim(low - width * share * (low < 0), high + width * share * (high > 0 or not both))
    located = MaxNLocator(ticks, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    axes.set_xticks([float(tick) for tick in located if low <= tick <= min(high, most)])


def _put_bars(axes: Axes, bars: Sequence[Bar], look: Mark) -> None:
    """Draw them; where there is no number, say so."""
    from matplotlib.patches import Rectangle

    for bar in bars:
        known = math.isfinite(bar.value)
        if known and bar.value:
            low = bar.middle - bar.height / 2
            box = Rectangle((0, low), bar.value, bar.height, edgecolor=look.colour, linewidth=1.1)
            box.set(facecolor="none" if look.hollow else look.colour)
            axes.add_patch(box)
        text = axes.annotate(
            "",
            (bar.value if known else 0.0, bar.middle),
            xytext=((-1 if known and bar.value < 0 else 1) * _GAP * 72, 0),
            textcoords="offset points",
            ha="right" if known and bar.value < 0 else "left",
            va="center_baseline",
            fontsize=SMALL,
            annotation_clip=False,
        )
        write(text, format_number(bar.value, _DIGITS) if known else "no number")
    axes.axvline(0, color=INK, linewidth=0.8)
