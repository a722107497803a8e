"""Generalisations that go together: taken one by one, each measured with those before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import polars as pl

from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.methods.drop import Drop
from sfumato.progress import current_progress
from sfumato.risk._peers.rows import Rows, distinct_rows, share_of
from sfumato.tuning.recommendation.joint_choices import Choice, Step, as_it_is, choices, left_out
from sfumato.tuning.recommendation.joint_state import State, enough_records

_OFFSETS = 6
_OFFSETS_ABOVE = 2
"""Places to begin that are tried for each width; above a share each takes far longer."""
_SPENT = "The budget is spent; more may be found with a larger one."
USUAL = "most gain per loss"
_WHY = {
    "first": USUAL,
    "pair": "helps together with another",
    "last": "last resort: nothing finer helps",
    "back": "no longer needed so coarse",
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
    above = share_of(p, "p")
    rows = distinct_rows(data, sensitive, known)
    data.schema.require([*fixed, *needed])
    say = current_progress()
    offsets = _OFFSETS if above == 0 else _OFFSETS_ABOVE
    offered: list[list[Choice]] = []
    for at, name in enumerate(rows.known):
        say("recommending: looking for generalisations", at, len(rows.known))
        offered.append([] if name in fixed else choices(data, rows, at, fewest, offsets))
    state = State.of(rows, above, budget)
    search = _Search(rows, state, offered, enough_records(enough, rows.records))
    stay = {*fixed, *needed} if drop else {*rows.known}
    search.go(stay)
    return search.told(data)


def _nothing(needed: set[str]) -> str:
    """Why the search has come to an end."""
    if not needed:
        return "Nothing else protects more records."
    listed = ", ".join(f"'{name}'" for name in sorted(needed))
    return f"Nothing else protects more records, and other steps need {listed}, which stay."


class _Search:
    """The state of a search: what was chosen for each variable, and the path so far."""

    def __init__(self, rows: Rows, state: State, offered: list[list[Choice]], wanted: int) -> None:
        self.rows, self.state, self.offered, self.wanted = rows, state, offered, wanted
        self.now = [as_it_is(rows, at) for at in range(len(rows.known))]
        self.order: list[int] = []
        self.start = self.protected = state.protected(self.now)
        self.path: list[dict[str, Any]] = []
        self.reason = ""

    def go(self, stay: set[str]) -> None:
        """Take one generalisation after the other; then take back what is not needed."""
        while self.protected < self.wanted:
            coarser = [
                one
                for offered in self.offered
                for one in offered
                if one.loss > self.now[one.variable].loss
            ]
            if self._take(coarser, "first") or (not self.reason and self._leap()):
                continue
            if self.reason or not self._take(self._dropped(stay), "last"):
                self.reason = self.reason or _nothing(stay.intersection(self.rows.known))
                break
        self._take_back()

    def _leap(self) -> bool:
        """Where nothing helps alone, as when every record is unique: two together, or all."""
        ends = [
            offered[-1]
            for offered, now in zip(self.offered, self.now, strict=True)
            if offered and offered[-1].loss > now.loss
        ]
        tried = [*combinations(ends, 2), tuple(ends)] if len(ends) > 1 else []
        found = []
        for some in tried:
            if not self.state.affords(self.now):
                self.reason = _SPENT
                return False
            gained = self.state.protected(self._with(*some)) - self.protected
            if gained > 0:
                found.append((len(some) > 2, -gained, some))  # noqa: PLR2004 - all only if no two
        if not found:
            return False
        _, gained, some = min(found, key=lambda one: one[:2])
        for one in some:
            last = one is some[-1]
            self._put(one, self.protected - gained * last, "pair", len(tried))
        return True

    def _dropped(self, stay: set[str]) -> list[Choice]:
        left = [one.variable for one in self.now if not one.drops]
        if len(left) == 1:
            return []  # with nothing known there is nothing to protect from
        return [left_out(self.rows, at) for at in left if self.rows.known[at] not in stay]

    def _take(self, some: list[Choice], why: str) -> bool:
        """Take what gains most per loss; of those that are enough, what loses least."""
        say, found = current_progress(), []
        for at, one in enumerate(some):
            say(f"recommending: step {len(self.path) + 1}", at, len(some))
            if not self.state.affords(self.now):
                self.reason = _SPENT
                break
            gained = self.state.protected(self._with(one)) - self.protected
            if gained > 0:
                found.append((one, gained))
        if not found:
            return False
        best, gained = min(found, key=self._rank)
        self._put(best, self.protected + gained, why, len(some))
        return True

    def _rank(self, found: tuple[Choice, int]) -> tuple[bool, float, int, int, float]:
        one, gained = found
        lost = one.loss - self.now[one.variable].loss
        reached = self.protected + gained >= self.wanted
        return (not reached, lost if reached else -gained / lost, -gained, one.variable, one.loss)

    def _take_back(self) -> None:
        """Make each variable as fine as the others allow, the one that lost most first."""
        if self.protected < self.wanted:
            return
        for at in sorted(self.order, key=lambda at: (-self.now[at].loss, at)):
            finer = [as_it_is(self.rows, at), *self.offered[at]]
            finer = [one for one in finer if one.loss < self.now[at].loss]
            for tried, one in enumerate(finer, start=1):
                if not self.state.affords(self.now):
                    return
                protected = self.state.protected(self._with(one))
                if protected >= self.wanted:
                    self._put(one, protected, "back", tried)
                    break

    def _with(self, *some: Choice) -> list[Choice]:
        new = {one.variable: one for one in some}
        return [new.get(held.variable, held) for held in self.now]

    def _put(self, one: Choice, protected: int, why: str, tried: int) -> None:
        old, records = self.now[one.variable], self.rows.records
        self.now = self._with(one)
        if one.variable not in self.order:
            self.order.append(one.variable)
        self.path.append(
            {
                "step": len(self.path) + 1,
                "variable": self.rows.known[one.variable],
                "method": one.step.name if one.step else None,
                "how": one.how,
                "why": _WHY[why],
                "categories_before": old.categories,
                "categories": one.categories,
                "before": self.protected / records,
                "after": protected / records,
                "loss": sum(held.loss for held in self.now) / len(self.now),
                "tried": tried,
            }
        )
        self.protected = protected

    def told(self, data: Dataset) -> JointRecommendation:
        """The path and the steps that are left."""
        held = [self.now[at] for at in self.order]
        gone = [self.rows.known[one.variable] for one in held if one.drops]
        steps = [one.step for one in held if one.step and not one.drops]
        records = self.rows.records
        return JointRecommendation(
            table=data.like(pl.DataFrame(self.path, schema=_SCHEMA)),
            steps=(*([Drop(variables=gone)] if gone else []), *steps),
            before=self.start / records,
            protected=self.protected / records,
            reached=self.protected >= self.wanted,
            reason="" if self.protected >= self.wanted else self.reason,
        )


_SCHEMA = {
    "step": pl.Int64,
    **dict.fromkeys(("variable", "method", "how", "why"), pl.String),
    **dict.fromkeys(("categories_before", "categories"), pl.Int64),
    **dict.fromkeys(("before", "after", "loss"), pl.Float64),
    "tried": pl.Int64,
}
