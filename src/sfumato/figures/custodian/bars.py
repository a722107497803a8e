"""Bars that lie in rows, each with its number at the end."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.figures._sheet.style import INK, SMALL, Mark
from sfumato.figures._sheet.words import number, width_of, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_THICK, _ALONE = 0.76, 0.54
"""Of a row's height, all its bars together, or one that is alone."""
_DIGITS = 3
_GAP = 0.06
"""Inches between a bar and its number."""


@dataclass(frozen=True)
class Bar:
    """A number in a row; `place` among so many bars of the row."""

    row: int
    value: float
    place: int = 0
    among: int = 1

    @property
    def middle(self) -> float:
        """How far down it lies."""
        return self.row + self._thick * ((self.place + 0.5) / self.among - 0.5)

    @property
    def height(self) -> float:
        """How thick it is; a little air parts it from the next."""
        return 0.92 * self._thick / self.among

    @property
    def _thick(self) -> float:
        return _THICK if self.among > 1 else _ALONE


def ends_of(bars: Iterable[Bar]) -> list[float]:
    """The numbers that can be drawn."""
    return [bar.value for bar in bars if math.isfinite(bar.value)]


def set_reach(
    axes: Axes, ends: Sequence[float], *, room: float, most: float = math.inf, ticks: int = 6
) -> None:
    """Limits from zero to the ends, with room (of so many inches) for the numbers beside them.

    No tick beyond `most`: a share above 1 does not exist.
    """
    from matplotlib.ticker import MaxNLocator

    low, high = min([*ends, 0.0]), max([*ends, 0.0])
    if low == high:
        high = min(1.0, most)
    said = max((width_of(number(one, _DIGITS), SMALL) for one in ends), default=0.0) + 2 * _GAP
    # Never more than half of the panel for the numbers.
    share = min(said / room, 0.5)
    width = (high - low) / (1 - share * (1 + (low < 0)))
    right = low < 0 <= high
    axes.set_xlim(low - width * share * (low < 0), high + width * share * (high > 0 or not right))
    found = MaxNLocator(ticks, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    axes.set_xticks([float(one) for one in found if low <= one <= min(high, most)])


def put_bars(axes: Axes, bars: Sequence[Bar], look: Mark) -> None:
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
        write(text, number(bar.value, _DIGITS) if known else "no number")
    axes.axvline(0, color=INK, linewidth=0.8)
