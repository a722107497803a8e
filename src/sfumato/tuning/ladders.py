"""How far along a family to go next: up while targets are missed, down while they are met."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sfumato.tuning.ways import brief

Outcome = Literal["met", "missed", "refused"]
Heights = tuple[float, ...]
_PRECISION = 0.2
"""Two rungs are parted in two, and the right half again; not further."""


@dataclass(frozen=True)
class Axis:
    """One parameter with values from the weakest protection to the strongest.

    Parameters
    ----------
    name : what the parameter is called.
    values : its rungs.
    whole : whether only whole numbers make sense between them; None where nothing lies between.

    Examples
    --------
    >>> axis = Axis("k", (3, 5, 10), whole=True)
    >>> axis.at(1), axis.at(1.5), axis.at(0.25)
    (5, 7, 3)
    """

    name: str
    values: tuple[Any, ...]
    whole: bool | None = None

    @property
    def top(self) -> int:
        """The place of the strongest value."""
        return len(self.values) - 1

    def at(self, height: float) -> Any:
        """The value at a place; between two rungs their geometric mean, weighted."""
        low = min(math.floor(height), self.top)
        part = height - low
        if part <= 0:
            return self.values[low]
        if self.whole is None:
            return self.values[low + 1]
        made = self.values[low] ** (1 - part) * self.values[low + 1] ** part
        return round(made) if self.whole else brief(made)


@dataclass(eq=False)
class Bracket:
    """The least height that meets the targets, between the last that missed and the first that met.

    Assumes: more height protects more. Where that fails, what was found still meets the targets;
    something weaker may do so too.
    """

    top: float
    low: float = -1.0
    """The highest place known to miss; below all places at first."""
    high: float | None = None
    """The lowest place known to meet."""
    closed: float = math.inf
    """The lowest place that the data refuse."""
    start: float | None = None
    asked: set[float] = field(default_factory=set)

    def ask(self) -> float | None:
        """The next height to try; None when there is no more to learn."""
        found = self._next()
        return None if found is None or found in self.asked else found

    def _next(self) -> float | None:
        if not self.asked and self.high is None:
            return self.top // 2 if self.start is None else self.start
        end = self.high if self.high is not None else min(self.closed, self.top + 1)
        inside = [at for at in range(math.ceil(self.top) + 1) if self.low < at < end]
        if inside and end == self.closed and self.low < 0:
            return 0.0  # perhaps the data refuse all of it
        if inside:
            return float(inside[len(inside) // 2 if self.high is None else (len(inside) - 1) // 2])
        if self.high is None or self.low < 0 or self.high - self.low <= _PRECISION:
            return None
        return (self.low + self.high) / 2

    def tell(self, height: float, outcome: Outcome) -> None:
        """What came of it."""
        self.asked.add(height)
        if outcome == "met":
            self.high = height if self.high is None else min(self.high, height)
        elif outcome == "missed":
            self.low = max(self.low, height)
        else:
            self.closed = min(self.closed, height)
            # What is refused hides nobody: something weaker has to do, if anything does.
            if self.high is not None:
                self.low = max(self.low, height)


class Climb:
    """The search in one family: along all its axes at once, then back along each by itself."""

    def __init__(self, axes: Sequence[Axis], start: Sequence[float] | None = None) -> None:
        self._tops = [one.top for one in axes]
        self._length = max(self._tops, default=0)
        begun = None if not start else max(start)
        self._ladder = self._bracket = Bracket(self._length, start=begun)
        self._axis: int | None = None
        self._met: Heights | None = None

    def ask(self) -> Heights | None:
        """The next heights to try, one for each axis; None at the end."""
        while True:
            wanted = self._bracket.ask()
            if wanted is not None:
                return self._heights(wanted)
            if not self._turned():
                return None

    def tell(self, heights: Heights, outcome: Outcome) -> None:
        """What came of it."""
        at = self._along(heights)
        self._bracket.tell(at, outcome)
        if outcome == "met" and self._bracket.high == at:
            self._met = heights

    def rungs(self) -> list[Heights]:
        """All rungs of the ladder, for a map without gaps."""
        return [
            self._diagonal(float(at)) for at in range(self._length + 1) if at < self._ladder.closed
        ]

    def _heights(self, wanted: float) -> Heights:
        if self._axis is None or self._met is None:
            return self._diagonal(wanted)
        return tuple(wanted if at == self._axis else one for at, one in enumerate(self._met))

    def _diagonal(self, wanted: float) -> Heights:
        return tuple(wanted * top / self._length if self._length else 0.0 for top in self._tops)

    def _along(self, heights: Heights) -> float:
        if self._axis is not None:
            return heights[self._axis]
        longest = self._tops.index(self._length)
        return heights[longest]

    def _turned(self) -> bool:
        """Go on along the next axis, downwards from what met the targets."""
        if self._met is None or len(self._tops) == 1:
            return False
        self._axis = 0 if self._axis is None else self._axis + 1
        if self._axis >= len(self._tops):
            return False
        height = self._met[self._axis]
        self._bracket = Bracket(self._tops[self._axis], high=height, asked={height})
        return True
