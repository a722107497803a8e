"""Generalisations that go together: taken one by one, each measured with those before it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from typing import Any

import polars as pl

from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.methods.drop import Drop
from sfumato.parameters import write_short
from sfumato.progress import current_progress
from sfumato.risk.protection.distinct_records import (
    DistinctRecords,
    find_distinct_records,
    read_threshold,
)
from sfumato.tuning.recommendation.generalisations import (
    Generalisation,
    ProtectedCounter,
    Step,
    build_identity,
    drop_variable,
    list_generalisations,
)

_OFFSETS = 6
_OFFSETS_ABOVE = 2
"""Offsets that are tried for each width; above a share each takes far longer."""
_SPENT = "The budget is spent; more may be found with a larger one."
USUAL = "most gain per loss"
_WHY = {
    "first": USUAL,
    "pair": "helps together with another",
    "last": "last resort: nothing finer helps",
    "back": "no longer needed so coarse",
}
_SCHEMA = {
    "step": pl.Int64,
    **dict.fromkeys(("variable", "method", "how", "why"), pl.String),
    **dict.fromkeys(("categories_before", "categories"), pl.Int64),
    **dict.fromkeys(("before", "after", "loss"), pl.Float64),
    "tried": pl.Int64,
}


@dataclass(frozen=True, eq=False, kw_only=True)
class JointRecommendation:
    """What to make coarser, as steps that were measured together.

    Parameters
    ----------
    table : the path, a row per decision: the `variable`, the `method` and `how` it makes the
        variable coarser, `why` it was taken; categories and the share of records protected over
        all combinations `before` and `after`; the `loss` so far (the mean share of entropy that
        the known variables have lost); and how many generalisations were `tried` for it.
    steps : what is left at the end as steps of a plan, one for each variable. What is to be left
        out comes first.
    before, protected : the share of records that are protected over all combinations, without and
        with all steps.
    reached : whether that is enough.
    reason : why the search ended where it is not.
    """

    table: Any = field(repr=False)
    steps: tuple[Step, ...]
    before: float
    protected: float
    reached: bool
    reason: str = ""

    __repr__ = write_short


def recommend_jointly(  # noqa: PLR0913 - all but three by name only
    data: Dataset,
    sensitive: str,
    known: Sequence[str] | None = None,
    *,
    p: float = 0.0,
    enough: float = 0.95,
    fewest: int = 2,
    fixed: Sequence[str] = (),
    needed: Sequence[str] = (),
    drop: bool = True,
    budget: int = 2_000_000_000,
) -> JointRecommendation:
    """Generalisations of several variables that together protect enough records.

    Question: which few changes protect people, and at what loss?
    Assumes: as `widths`. The search is greedy: each time it takes the generalisation that protects
    most further records per entropy lost, measured with all before it carried out. At the end each
    is made as fine as the others allow. It need not find the best set of all.

    Numbers and dates are cut into intervals, ordered categories into groups of neighbours, and
    other categories recoded along their hierarchy; where they have none, rare values are joined.
    To leave a variable out is the last resort: it is thought of only when nothing else helps.

    Parameters
    ----------
    data : the records.
    sensitive : the variable to protect.
    known : what an outsider may know. Default: all whose role is "quasi".
    p : the share of protective peers that is still a breach.
    enough : the share of records that suffices.
    fewest : how many categories of a variable must stay at least, unless it is left out.
    fixed : variables that must stay as they are.
    needed : variables that must not be left out.
    drop : whether anything may be left out at all.
    budget : how many generalisations times records times combinations may be looked at. A search
        that runs out of it says so.

    Examples
    --------
    >>> frame = pl.DataFrame(
    ...     {"age": [30, 31, 40, 41], "sex": ["f", "f", "m", "m"], "ill": [0, 1, 1, 0]}
    ... )
    >>> found = recommend_jointly(Dataset(frame), "ill", ["age", "sex"])
    >>> found.before, found.protected, [step.name for step in found.steps]
    (0.0, 1.0, ['coarsen'])

    References: Kroes, Janssen, Groenwold & van Leeuwen (2021), Health Informatics Journal 27(2).
    """
    if fewest < 1 or not 0 < enough <= 1:
        raise MeasureError("`fewest` is 1 or more, and `enough` above 0 and at most 1.")
    above = read_threshold(p, "p")
    records = find_distinct_records(data, sensitive, known)
    data.schema.require([*fixed, *needed])
    report = current_progress()
    offsets = _OFFSETS if above == 0 else _OFFSETS_ABOVE
    offered: list[list[Generalisation]] = []
    for index, name in enumerate(records.known):
        report("recommending: looking for generalisations", index, len(records.known))
        offered.append(
            [] if name in fixed else list_generalisations(data, records, index, fewest, offsets)
        )
    counter = ProtectedCounter(records, above, budget)
    search = _GreedySearch(records, counter, offered, least_count(enough, records.records))
    search.run({*fixed, *needed} if drop else {*records.known})
    return search.result(data)


def least_count(share: float, records: int) -> int:
    """How many records a share of them are at least; 0.95 of 20 is 19.

    Examples
    --------
    >>> least_count(0.95, 20), least_count(0.95, 21)
    (19, 20)
    """
    return math.ceil(Fraction(share).limit_denominator(1 << 31) * records)


class _GreedySearch:
    """The state of a search: what was chosen for each variable, and the path so far."""

    def __init__(
        self,
        records: DistinctRecords,
        counter: ProtectedCounter,
        offered: list[list[Generalisation]],
        wanted: int,
    ) -> None:
        self.records, self.counter, self.offered = records, counter, offered
        self.wanted = wanted
        self.chosen = [build_identity(records, index) for index in range(len(records.known))]
        self.order: list[int] = []
        self.start = self.protected = counter.count(self.chosen)
        self.path: list[dict[str, Any]] = []
        self.reason = ""

    def run(self, stay: set[str]) -> None:
        """Take one generalisation after the other; then take back what is not needed."""
        while self.protected < self.wanted:
            coarser = [
                candidate
                for offered in self.offered
                for candidate in offered
                if candidate.loss > self.chosen[candidate.variable].loss
            ]
            if self._take_best(coarser, "first") or (not self.reason and self._take_several()):
                continue
            if self.reason or not self._take_best(self._list_drops(stay), "last"):
                self.reason = self.reason or _explain_end(stay.intersection(self.records.known))
                break
        self._refine()

    def _take_several(self) -> bool:
        """Where nothing helps alone, as when every record is unique: two together, or all."""
        coarsest = [
            offered[-1]
            for offered, chosen in zip(self.offered, self.chosen, strict=True)
            if offered and offered[-1].loss > chosen.loss
        ]
        sets = [*combinations(coarsest, 2), tuple(coarsest)] if len(coarsest) > 1 else []
        helpful = []
        for candidates in sets:
            if not self.counter.affords(self.chosen):
                self.reason = _SPENT
                return False
            gained = self.counter.count(self._with(*candidates)) - self.protected
            if gained > 0:
                helpful.append((len(candidates) > 2, -gained, candidates))  # noqa: PLR2004 - all only if no two
        if not helpful:
            return False
        _, gained, candidates = min(helpful, key=lambda candidate: candidate[:2])
        for candidate in candidates:
            # Together they gain; the path credits the last of them.
            last = candidate is candidates[-1]
            self._choose(candidate, self.protected - gained * last, "pair", len(sets))
        return True

    def _list_drops(self, stay: set[str]) -> list[Generalisation]:
        present = [candidate.variable for candidate in self.chosen if not candidate.drops]
        if len(present) == 1:
            return []  # with nothing known there is nothing to protect from
        return [
            drop_variable(self.records, variable)
            for variable in present
            if self.records.known[variable] not in stay
        ]

    def _take_best(self, candidates: list[Generalisation], why: str) -> bool:
        """Take what gains most per loss; of those that are enough, what loses least."""
        report, helpful = current_progress(), []
        for index, candidate in enumerate(candidates):
            report(f"recommending: step {len(self.path) + 1}", index, len(candidates))
            if not self.counter.affords(self.chosen):
                self.reason = _SPENT
                break
            gained = self.counter.count(self._with(candidate)) - self.protected
            if gained > 0:
                helpful.append((candidate, gained))
        if not helpful:
            return False
        best, gained = min(helpful, key=self._rank)
        self._choose(best, self.protected + gained, why, len(candidates))
        return True

    def _rank(self, helpful: tuple[Generalisation, int]) -> tuple[bool, float, int, int, float]:
        candidate, gained = helpful
        lost = candidate.loss - self.chosen[candidate.variable].loss
        # What is enough is ranked by its loss alone; all else by gain per loss.
        reached = self.protected + gained >= self.wanted
        return (
            not reached,
            lost if reached else -gained / lost,
            -gained,
            candidate.variable,
            candidate.loss,
        )

    def _refine(self) -> None:
        """Make each variable as fine as the others allow, the one that lost most first."""
        if self.protected < self.wanted:
            return
        # What lost most has most to regain.
        by_loss = sorted(self.order, key=lambda variable: (-self.chosen[variable].loss, variable))
        for variable in by_loss:
            finer = [
                candidate
                for candidate in [
                    build_identity(self.records, variable),
                    *self.offered[variable],
                ]
                if candidate.loss < self.chosen[variable].loss
            ]
            for tried, candidate in enumerate(finer, start=1):
                if not self.counter.affords(self.chosen):
                    return
                protected = self.counter.count(self._with(candidate))
                if protected >= self.wanted:
                    self._choose(candidate, protected, "back", tried)
                    break

    def _with(self, *candidates: Generalisation) -> list[Generalisation]:
        new = {candidate.variable: candidate for candidate in candidates}
        return [new.get(chosen.variable, chosen) for chosen in self.chosen]

    def _choose(self, candidate: Generalisation, protected: int, why: str, tried: int) -> None:
        old, records = self.chosen[candidate.variable], self.records.records
        self.chosen = self._with(candidate)
        if candidate.variable not in self.order:
            self.order.append(candidate.variable)
        self.path.append(
            {
                "step": len(self.path) + 1,
                "variable": self.records.known[candidate.variable],
                "method": candidate.step.name if candidate.step else None,
                "how": candidate.how,
                "why": _WHY[why],
                "categories_before": old.categories,
                "categories": candidate.categories,
                "before": self.protected / records,
                "after": protected / records,
                "loss": sum(chosen.loss for chosen in self.chosen) / len(self.chosen),
                "tried": tried,
            }
        )
        self.protected = protected

    def result(self, data: Dataset) -> JointRecommendation:
        """The path and the steps that are left."""
        chosen = [self.chosen[variable] for variable in self.order]
        dropped = [
            self.records.known[candidate.variable] for candidate in chosen if candidate.drops
        ]
        steps = [candidate.step for candidate in chosen if candidate.step and not candidate.drops]
        records = self.records.records
        return JointRecommendation(
            table=data.like(pl.DataFrame(self.path, schema=_SCHEMA)),
            steps=(*([Drop(variables=dropped)] if dropped else []), *steps),
            before=self.start / records,
            protected=self.protected / records,
            reached=self.protected >= self.wanted,
            reason="" if self.protected >= self.wanted else self.reason,
        )


def _explain_end(needed: set[str]) -> str:
    """Why the search has come to an end."""
    if not needed:
        return "Nothing else protects more records."
    names = ", ".join(f"'{name}'" for name in sorted(needed))
    return f"Nothing else protects more records, and other steps need {names}, which stay."
