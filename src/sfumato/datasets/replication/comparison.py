"""One published number beside ours."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from sfumato.datasets.replication.sources import Sources

Status = Literal["same", "explained", "different", "ours", "cannot"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A number of a paper, the same number computed here, and what lies between them.

    Parameters
    ----------
    place : where it stands in the paper.
    what : what it is.
    published : the printed number; none where the paper shows only a picture.
    ours : the number computed here; none where it cannot be.
    within : how far apart the two may be and count as the same: half of the last printed digit,
        or four standard errors of both where chance is in them.
    why : the reason for a difference, or why there is no number.
    """

    place: str
    what: str
    published: float | None
    ours: float | None
    within: float = 0.0
    why: str = ""

    @property
    def difference(self) -> float | None:
        """Ours less the published number."""
        if self.published is None or self.ours is None:
            return None
        return self.ours - self.published

    @property
    def status(self) -> Status:
        """Whether the two are the same, or differ for a reason or none, or one is missing."""
        if self.ours is None or math.isnan(self.ours):
            return "cannot"
        if self.difference is None:
            return "ours"
        # A hair more than the last digit: 0.5 of it is 0.5000000001 in binary.
        if abs(self.difference) <= self.within * (1 + 1e-9) + 1e-12:
            return "same"
        return "explained" if self.why else "different"

    def to_json(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "place": self.place,
            "what": self.what,
            "published": self.published,
            "ours": self.ours,
            "difference": self.difference,
            "within": self.within,
            "status": self.status,
            "why": self.why,
        }


Work = Callable[[Sources], Iterator[Row]]


@dataclass(frozen=True, kw_only=True)
class Paper:
    """One paper: how it is called here, what it is, and how its numbers are computed."""

    name: str
    title: str
    needs: tuple[str, ...]
    work: Work


def round_tolerance(digits: int) -> float:
    """How far a number may be from one that is printed with so many decimals."""
    return 0.5 * 10.0**-digits


def chance_tolerance(share: float, ours: int, theirs: int) -> float:
    """Four standard errors of the difference of two shares, each from so many draws."""
    middle = min(max(share, 0.005), 0.995)
    return 4 * math.sqrt(middle * (1 - middle) * (1 / ours + 1 / theirs))
