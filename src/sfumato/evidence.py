"""One measured fact, with what is needed to believe it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sfumato.parameters import write_short

Subject = Literal["original", "released", "pair"]
Direction = Literal["lower", "higher"]
Audience = Literal["custodian", "public"]
AT_WORST = "_at_worst"
"""A detail with this ending is what targets are checked against: the worse of two readings."""
FILLED_IN = "_filled_in"
"""A detail with this ending is the number for who has put in what the release gives away."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """What one measure found.

    Parameters
    ----------
    name : the measure's name.
    subject : what was measured: the original, the released data, or the pair.
    value : the number, NaN when it could not be computed; `reason` then says why.
    interval : its uncertainty, where it has one.
    baseline : the number it is to be compared with, for instance that of the original.
    direction : whether a lower or a higher value is better.
    records : a frame with a row per record (custodian only).
    table : a small frame behind the number.
    details : further numbers by name; targets may be set on them.
    assumptions : what must hold for the number to mean what it says.
    warnings : what was found that makes the number less than it seems, or hides risk.
    audience : "public" only when it holds nothing that the release does not show already.
    sampled : of how many records how many were looked at, where it was not all of them: (looked
        at, all). Targets are then held against the bad end of an interval.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> people = sf.Dataset(pl.DataFrame({"sex": ["f", "f", "m"]}), sf.Schema({"sex": "quasi"}))
    >>> found = sf.assess(people, ["uniqueness"])["uniqueness"]
    >>> round(found.value, 3), found.details["k"], found.direction
    (0.333, 1, 'lower')
    """

    name: str
    subject: Subject
    value: float
    direction: Direction = "lower"
    interval: tuple[float, float] | None = None
    baseline: float | None = None
    records: Any = field(default=None, repr=False)
    table: Any = field(default=None, repr=False)
    details: Mapping[str, Any] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    audience: Audience = "custodian"
    reason: str = ""
    sampled: tuple[int, int] | None = None

    __repr__ = write_short

    @classmethod
    def failed(cls, name: str, subject: Subject, reason: str) -> Evidence:
        """A measure that could not be computed. No target on it can be met."""
        return cls(name=name, subject=subject, value=math.nan, reason=reason)

    @property
    def computed(self) -> bool:
        """Whether there is a number at all."""
        return not math.isnan(self.value)

    @property
    def at_worst(self) -> float:
        """What is shown first: the value for the best attacker, and as a target would see it.

        Of a sample it is the bad end of the interval. NaN where the worst could not be computed.
        """
        stated = f"{self.name}{AT_WORST}"
        if stated in self.details:
            readings = [self.number(stated)]
        else:
            readings = [self.value, *((self.sampled and self.interval) or ())]
        if f"{self.name}{FILLED_IN}" in self.details:
            readings.append(self.number(f"{self.name}{FILLED_IN}"))
        if any(math.isnan(reading) for reading in readings):
            return math.nan
        return max(readings) if self.direction == "lower" else min(readings)

    def number(self, name: str) -> float:
        """The value itself or a detail by name; NaN when there is none."""
        number = self.value if name == self.name else self.details.get(name, math.nan)
        return float(number) if isinstance(number, (int, float)) else math.nan

    def interval_of(self, name: str) -> tuple[float, float] | None:
        """The interval of the value itself, or of a detail: `…_low` and `…_high` beside it."""
        if name == self.name:
            return self.interval
        ends = [self.details.get(f"{name}_{end}") for end in ("low", "high")]
        if not all(isinstance(end, (int, float)) for end in ends):
            return None
        return float(ends[0]), float(ends[1])  # type: ignore[arg-type]

    def public(self) -> Evidence:
        """Only what may leave the building: no baseline, nothing per record."""
        return replace(self, baseline=None, records=None)

    def plain(self) -> dict[str, Any]:
        """Everything except the per-record values, as plain values for JSON."""
        rows = None if self.table is None else _list_rows(self.table)
        return {
            "name": self.name,
            "subject": self.subject,
            "value": _replace_infinite(self.value),
            "at_worst": _replace_infinite(self.at_worst),
            "direction": self.direction,
            "interval": None
            if self.interval is None
            else [_replace_infinite(end) for end in self.interval],
            "baseline": _replace_infinite(self.baseline),
            "details": {key: _replace_infinite(value) for key, value in self.details.items()},
            "table": rows,
            "assumptions": list(self.assumptions),
            "warnings": list(self.warnings),
            "audience": self.audience,
            "reason": self.reason,
            **({} if self.sampled is None else {"sampled": list(self.sampled)}),
        }


def _list_rows(table: Any) -> list[dict[str, Any]]:
    from sfumato.io.frames import wrap

    rows: list[dict[str, Any]] = wrap(table).rows(named=True)
    return [{key: _replace_infinite(value) for key, value in row.items()} for row in rows]


def _replace_infinite(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.item() if hasattr(value, "item") else value
