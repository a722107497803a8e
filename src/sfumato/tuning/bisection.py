"""How far along a family to go next: up while targets are missed, down while they are met."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sfumato.tuning.calibrate import round_size

Outcome = Literal["met", "missed", "refused"]
Heights = tuple[float, ...]
"""A position on each axis: whole numbers are the declared values, others lie between them."""
_PRECISION = 0.2
"""The interval between two values is halved, and the right half again; not further."""


@dataclass(frozen=True)
class Axis:
    """One parameter with values from the weakest protection to the strongest.

    Parameters
    ----------
    name : what the parameter is called.
    values : its values.
    whole : whether only whole numbers make sense between them; None where nothing lies between.

    Examples
    --------
    >>> axis = Axis("k", (3, 5, 10), whole=True)
    >>> axis.value_at(1), axis.value_at(1.5), axis.value_at(0.25)
    (5, 7, 3)
    """

    name: str
    values: tuple[Any, ...]
    whole: bool | None = None

    @property
    def top(self) -> int:
        """The position of the strongest value."""
        return len(self.values) - 1

    def value_at(self, height: float) -> Any:
        """The value at a height; between two values their geometric mean, weighted."""
        low = min(math.floor(height), self.top)
        fraction = height - low
        if fraction <= 0:
            return self.values[low]
        if self.whole is None:
            return self.values[low + 1]
        value = self.values[low] ** (1 - fraction) * self.values[low + 1] ** fraction
        return round(value) if self.whole else round_size(value)


@dataclass(eq=False)
class Bracket:
    """The least height that meets the targets, between the last that missed and the first that met.

    Assumes: more height protects more. Where that fails, the result still meets the targets;
    something weaker may do so too.
    """

    top: float
    low: float = -1.0
    """The highest height known to miss; below all heights at first."""
    high: float | None = None
    """The lowest height known to meet."""
    closed: float = math.inf
    """The lowest height that the data refuse."""
    start: float | None = None
    tried: set[float] = field(default_factory=set)

    def ask(self) -> float | None:
        """The next height to try; None when there is no more to learn."""
        height = self._propose()
        return None if height is None or height in self.tried else height

    def _propose(self) -> float | None:
        if not self.tried and self.high is None:
            return self.top // 2 if self.start is None else self.start
        # The answer lies strictly between `low` and `end`.
        end = self.high if self.high is not None else min(self.closed, self.top + 1)
        between = [height for height in range(math.ceil(self.top) + 1) if self.low < height < end]
        if between and end == self.closed and self.low < 0:
            return 0.0  # perhaps the data refuse all of it
        if between:
            middle = len(between) // 2 if self.high is None else (len(between) - 1) // 2
            return float(between[middle])
        if self.high is None or self.low < 0 or self.high - self.low <= _PRECISION:
            return None
        return (self.low + self.high) / 2

    def tell(self, height: float, outcome: Outcome) -> None:
        """Record the outcome at a height."""
        self.tried.add(height)
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
        self._tops = [axis.top for axis in axes]
        self._length = max(self._tops, default=0)
        self._diagonal = self._bracket = Bracket(
            self._length, start=None if not start else max(start)
        )
        self._axis: int | None = None
        self._met: Heights | None = None

    def ask(self) -> Heights | None:
        """The next heights to try, one for each axis; None at the end."""
        while True:
            height = self._bracket.ask()
            if height is not None:
                return self._place(height)
            if not self._start_next_axis():
                return None

    def tell(self, heights: Heights, outcome: Outcome) -> None:
        """Record the outcome at these heights."""
        axis = self._tops.index(self._length) if self._axis is None else self._axis
        self._bracket.tell(heights[axis], outcome)
        if outcome == "met" and self._bracket.high == heights[axis]:
            self._met = heights

    def list_rungs(self) -> list[Heights]:
        """All declared values along the diagonal, for a map without gaps."""
        return [
            self._place_on_diagonal(float(height))
            for height in range(self._length + 1)
            if height < self._diagonal.closed
        ]

    def _place(self, height: float) -> Heights:
        if self._axis is None or self._met is None:
            return self._place_on_diagonal(height)
        return tuple(height if index == self._axis else met for index, met in enumerate(self._met))

    def _place_on_diagonal(self, height: float) -> Heights:
        return tuple(height * top / self._length if self._length else 0.0 for top in self._tops)

    def _start_next_axis(self) -> bool:
        """Go on along the next axis, downwards from what met the targets."""
        if self._met is None or len(self._tops) == 1:
            return False
        self._axis = 0 if self._axis is None else self._axis + 1
        if self._axis >= len(self._tops):
            return False
        # All other axes stay where the targets were met.
        height = self._met[self._axis]
        self._bracket = Bracket(self._tops[self._axis], high=height, tried={height})
        return True


class Enumeration:
    """One height after the other, whatever the outcome of those before."""

    def __init__(self, heights: Sequence[Heights]) -> None:
        self._waiting = list(heights)

    def ask(self) -> Heights | None:
        """The next heights."""
        return self._waiting[0] if self._waiting else None

    def tell(self, heights: Heights, outcome: Outcome) -> None:
        """These are done."""
        del outcome
        if self._waiting and self._waiting[0] == heights:
            self._waiting.pop(0)
