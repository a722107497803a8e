"""A number as a paper prints it, ours beside it, and how far apart the two may be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from replication.sources import Sources

Status = Literal["same", "explained", "different", "ours", "cannot"]
ERRORS = 4.0
"""Standard errors that chance may take: a row in 16,000 is outside them though nothing is wrong."""
_HAIR = 1e-9
"""Half a digit is 0.5000000001 of it in binary."""


@dataclass(frozen=True)
class Printed:
    """A number as it stands in the paper, and the numbers that are printed so.

    Whole numbers and fractions are exact; a decimal may be off by half of its last digit; "<"
    means anything below.

    Examples
    --------
    >>> printed = Printed.read("59 %")
    >>> printed.value, printed.low, printed.high
    (0.59, 0.585, 0.595)
    >>> Printed.read("8.00e-16").high, Printed.read("2/3").low == 2 / 3
    (8.005e-16, True)
    """

    text: str
    value: float
    low: float
    high: float

    @classmethod
    def read(cls, text: str) -> Printed:
        """The printed number, with what its digits leave open."""
        bare = text.removeprefix("<").replace(",", "")
        if "/" in bare:
            above, below = bare.split("/")
            exact = float(above) / float(below)
            return cls(text, exact, exact, exact)
        number = Decimal(bare.removesuffix("%").strip())
        exponent = number.as_tuple().exponent
        digit = Decimal(1).scaleb(int(exponent))
        is_count = digit == 1 and not bare.endswith("%")
        half = Decimal(0) if is_count else digit / 2
        if bare.endswith("%"):
            number, half = number / 100, half / 100
        if text.startswith("<"):
            return cls(text, float(number), -math.inf, float(number))
        return cls(text, float(number), float(number - half), float(number + half))


@dataclass(frozen=True)
class Bound:
    """Where a number must lie if the reason for a difference is the true one.

    It is computed in the same run, from what the reason says: by breaking ties in many ways, from
    the scatter of simulations, from a formula of the paper.

    Parameters
    ----------
    low, high : the ends, which belong to it.
    of : "published": where the printed number lies if ties or chance are the reason. "ours": where
        ours lies if the printed number is wrong, or if the paper prints none.
    """

    low: float
    high: float
    of: Literal["published", "ours"] = "published"

    def meets(self, low: float, high: float) -> bool:
        """Whether some number from low to high lies within."""
        hair = _HAIR * max(abs(self.low), abs(self.high)) + 1e-300
        return low <= self.high + hair and high >= self.low - hair


@dataclass(frozen=True, kw_only=True)
class Row:
    """A number of a paper, the same number computed here, and what lies between them.

    Parameters
    ----------
    place : where it stands in the paper.
    what : what it is.
    printed : the number as the paper prints it; nothing where it prints none.
    ours : the number computed here; none where it cannot be.
    why : the reason for a difference, or why there is no number. It explains nothing by itself:
        only a bound does.
    bound : how far the reason reaches.
    """

    place: str
    what: str
    printed: str = ""
    ours: float | None = None
    why: str = ""
    bound: Bound | None = None

    @property
    def published_value(self) -> float | None:
        """The printed number as a number."""
        return Printed.read(self.printed).value if self.printed else None

    @property
    def difference(self) -> float | None:
        """Ours less the published number."""
        if self.published_value is None or self.ours is None:
            return None
        return self.ours - self.published_value

    @property
    def status(self) -> Status:
        """Whether the two are the same, or differ within or beyond the bound, or one is missing."""
        if self.ours is None or math.isnan(self.ours):
            return "cannot"
        bound = self.bound
        if bound is not None and bound.of == "ours" and not bound.meets(self.ours, self.ours):
            return "different"
        if not self.printed:
            return "ours"
        printed = Printed.read(self.printed)
        if Bound(printed.low, printed.high).meets(self.ours, self.ours):
            return "same"
        if bound is None or (
            bound.of == "published" and not bound.meets(printed.low, printed.high)
        ):
            return "different"
        return "explained"

    @property
    def strain(self) -> float:
        """How much of the bound is used: 0 in its middle, 1 at its ends."""
        bound = self.bound
        number = self.ours if bound is not None and bound.of == "ours" else self.published_value
        if bound is None or number is None or bound.low == bound.high:
            return 0.0
        return abs(2 * number - bound.low - bound.high) / (bound.high - bound.low)

    def to_json(self) -> dict[str, Any]:
        """As plain values for JSON."""
        bound = self.bound
        return {
            "place": self.place,
            "what": self.what,
            "printed": self.printed or None,
            "published": self.published_value,
            "ours": self.ours,
            "difference": self.difference,
            "bound": bound and {"low": bound.low, "high": bound.high, "of": bound.of},
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


def bound_by_range(values: Sequence[float]) -> Bound:
    """From the least to the largest of what was found."""
    return Bound(min(values), max(values))


def bound_by_chance(ours: float, error: float, *, theirs: float = 0.0) -> Bound:
    """Four standard errors of the difference, given those of ours and of the published number."""
    reach = ERRORS * math.hypot(error, theirs)
    return Bound(ours - reach, ours + reach)


def bound_by_scatter(values: Sequence[float], *, published: int = 1, extra: float = 0.0) -> Bound:
    """Where the mean of so many published draws lies, given some draws of the same kind.

    The scatter is itself estimated, so that Student's distribution takes the place of the normal
    one, at the same risk.

    Parameters
    ----------
    values : our draws.
    published : how many draws the published number is the mean of.
    extra : a further standard error of the published number.
    """
    from scipy import stats

    size = len(values)
    mean = math.fsum(values) / size
    variance = math.fsum((value - mean) ** 2 for value in values) / (size - 1)
    error = math.sqrt(variance * (1 / size + 1 / published) + extra**2)
    reach = float(stats.t.isf(stats.norm.sf(ERRORS), size - 1)) * error
    return Bound(mean - reach, mean + reach)


def share_error(share: float, draws: int) -> float:
    """The standard error of a share of so many draws; near 0 and 1, that of half a percent."""
    bounded = min(max(share, 0.005), 0.995)
    return math.sqrt(bounded * (1 - bounded) / draws)


def read_table(text: str) -> list[list[str]]:
    """The cells of a table as printed, line by line."""
    return [line.split() for line in text.strip().splitlines()]
