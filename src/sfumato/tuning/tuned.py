"""What a search found: the map, the recommended plan, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from sfumato.errors import PlanError
from sfumato.plan import Plan
from sfumato.tuning.bench import Bench
from sfumato.tuning.compared import Compared, compare
from sfumato.tuning.judged import Candidate
from sfumato.tuning.reasons import sentences

if TYPE_CHECKING:
    from sfumato.figures._sheet.picture import Picture


@dataclass(frozen=True, eq=False, kw_only=True)
class Tuned:
    """The risk-utility map of a search, and the plan that it recommends.

    Parameters
    ----------
    candidates : everything that was tried, in the order in which it was; the first is the data
        without protection.
    best : the one recommended. Where none meets the targets, the one that comes nearest.
    weights : how much each utility measure counts in the loss.
    stopped : whether `runs` or the budget ended the search before it was done.
    bench : the data and what was measured of them.
    """

    candidates: tuple[Candidate, ...] = field(repr=False)
    best: Candidate
    weights: Mapping[str, float]
    stopped: bool
    bench: Bench = field(repr=False)

    @property
    def met(self) -> bool:
        """Whether the recommended plan meets every target."""
        return self.best.met

    @property
    def plan(self) -> Plan:
        """The recommended plan, ready to be written: `plan.text(comments=True)`."""
        return self.best.plan

    @property
    def front(self) -> tuple[Candidate, ...]:
        """The candidates that no other one beats in every number, the least loss first."""
        some = [one for one in self.candidates if one.front]
        return tuple(sorted(some, key=lambda one: (one.loss, one.number)))

    @cached_property
    def table(self) -> Any:
        """A row per candidate, as a frame of the library of the data."""
        return self.bench.data.like(_table(self))

    @cached_property
    def why(self) -> tuple[str, ...]:
        """Why this plan, in sentences for whoever has to sign it."""
        return sentences(self)

    def picture(self, *, public: bool = False) -> Picture:
        """The risk-utility map; see `sfumato.pictures.risk_utility`."""
        from sfumato.figures.custodian.risk_utility import risk_utility

        return risk_utility(self, public=public)

    def compare(
        self,
        a: Candidate | Plan | int,
        b: Candidate | Plan | int,
        *,
        repeats: int = 20,
        seed: int = 0,
    ) -> Compared:
        """Which of two is better for the whole data, and how sure that is; see `compare`.

        Parameters
        ----------
        a, b : candidates, their numbers in the table, or plans.
        repeats : how many halves of the records are drawn, each with a key of its own.
        seed : another seed, other draws.
        """
        plans = [self._plan(one) for one in (a, b)]
        names = [self._name(one, other) for one, other in ((a, "a"), (b, "b"))]
        return compare(self.bench, plans[0], plans[1], names=(names[0], names[1]),
                       repeats=repeats, seed=seed)  # fmt: skip

    def _plan(self, one: Candidate | Plan | int) -> Plan:
        if isinstance(one, Plan):
            return one
        return self._candidate(one).plan

    def _candidate(self, one: Candidate | int) -> Candidate:
        if isinstance(one, Candidate):
            return one
        if not 0 <= one < len(self.candidates):
            raise PlanError(
                f"There is no candidate {one}.",
                hint=f"they are numbered from 0 to {len(self.candidates) - 1} in the table.",
            )
        return self.candidates[one]

    def _name(self, one: Candidate | Plan | int, other: str) -> str:
        return other if isinstance(one, Plan) else self._candidate(one).said()


def _table(found: Tuned) -> pl.DataFrame:
    """The map in numbers."""
    candidates = found.candidates
    columns: dict[str, pl.Series] = {
        "candidate": _column([one.number for one in candidates], pl.Int64),
        "family": _column([one.family for one in candidates], pl.String),
        "parameters": _column([_told(one) for one in candidates], pl.String),
        "met": _column([one.met for one in candidates], pl.Boolean),
    }
    for at, target in enumerate(found.bench.plan.targets):
        judged = [one.verdict[at] if one.verdict else None for one in candidates]
        columns[target.name] = _numbers([one.number if one else None for one in judged])
        columns[f"{target.name} met"] = _column(
            [bool(one and one.met) for one in judged], pl.Boolean
        )
    for label in found.weights:
        # A number may be a target as well; there it is the worst of the draws, here the mean.
        name = f"{label} (mean)" if label in columns else label
        columns[name] = _numbers([one.utility.get(label) for one in candidates])
    columns |= {
        "loss": _numbers([one.loss for one in candidates]),
        "front": _column([one.front for one in candidates], pl.Boolean),
        "recommended": _column(
            [found.met and one.number == found.best.number for one in candidates], pl.Boolean
        ),
        "draws": _column([one.draws for one in candidates], pl.Int64),
        "reason": _column([one.reason or None for one in candidates], pl.String),
    }
    return pl.DataFrame([values.alias(name) for name, values in columns.items()])


def _told(one: Candidate) -> str:
    return one.said().removeprefix(one.family).strip(" ()")


def _column(values: list[Any], dtype: Any) -> pl.Series:
    return pl.Series("", values, dtype)


def _numbers(values: list[float | None]) -> pl.Series:
    """What could not be computed is missing, and never a number."""
    kept = [None if value is None or math.isnan(value) else value for value in values]
    return pl.Series("", kept, pl.Float64)
