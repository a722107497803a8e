"""The result of a search: the risk-utility map, the recommended plan, and why it is recommended."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from sfumato.errors import PlanError
from sfumato.parameters import write_short
from sfumato.plan import Plan
from sfumato.plan.targets import Judgement
from sfumato.tuning.comparison import Compared, compare
from sfumato.tuning.runner import Runner, depends_on_key
from sfumato.tuning.scores import Candidate

if TYPE_CHECKING:
    from sfumato.figures.sheet.picture import Picture


@dataclass(frozen=True, eq=False, kw_only=True)
class Tuned:
    """The risk-utility map of a search, and the plan that it recommends.

    Parameters
    ----------
    candidates : everything that was tried, in order; the first is the data without protection.
    best : the one recommended. Where none meets the targets, the one that comes nearest.
    weights : how much each utility measure counts in the loss.
    stopped : whether `runs` or the budget ended the search before it was done.
    runner : the data and what was measured of them.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = sf.datasets.cohort(200).select("sex", "region", "smoking")
    >>> plan = sf.Plan(
    ...     schema={"sex": "quasi", "region": "quasi", "smoking": "other"}, targets={"k.min": 3})
    >>> steps = [[sf.methods.KAnonymity(k=k)] for k in (3, 5)]
    >>> sf.tune(sf.Dataset(people, plan.schema), plan, space=steps).met
    True
    """

    candidates: tuple[Candidate, ...] = field(repr=False)
    best: Candidate
    weights: Mapping[str, float]
    stopped: bool
    runner: Runner = field(repr=False)

    __repr__ = write_short

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
        front = [candidate for candidate in self.candidates if candidate.front]
        return tuple(sorted(front, key=_by_loss))

    @cached_property
    def table(self) -> Any:
        """A row per candidate, as a frame of the library of the data."""
        return self.runner.data.like(_tabulate(self))

    @cached_property
    def why(self) -> tuple[str, ...]:
        """Why this plan, in sentences for whoever has to sign it."""
        return tuple(explain(self))

    def picture(self, *, public: bool = False) -> Picture:
        """The risk-utility map; see `sfumato.pictures.risk_utility`."""
        from sfumato.figures.custodian.tuning import risk_utility

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
        first, second = self._resolve(a, "a"), self._resolve(b, "b")
        return compare(
            self.runner,
            first[0],
            second[0],
            names=(first[1], second[1]),
            repeats=repeats,
            seed=seed,
        )

    def _resolve(self, chosen: Candidate | Plan | int, name: str) -> tuple[Plan, str]:
        """A plan, and what to call it."""
        if isinstance(chosen, Plan):
            return chosen, name
        if isinstance(chosen, Candidate):
            return chosen.plan, chosen.describe()
        if not 0 <= chosen < len(self.candidates):
            raise PlanError(
                f"There is no candidate {chosen}.",
                hint=f"they are numbered from 0 to {len(self.candidates) - 1} in the table.",
            )
        return self._resolve(self.candidates[chosen], name)


def _by_loss(candidate: Candidate) -> tuple[float, int]:
    return candidate.loss, candidate.number


def _tabulate(tuned: Tuned) -> pl.DataFrame:
    """The map in numbers."""
    candidates = tuned.candidates
    columns: dict[str, pl.Series] = {
        "candidate": _column([candidate.number for candidate in candidates], pl.Int64),
        "family": _column([candidate.family for candidate in candidates], pl.String),
        "parameters": _column(
            [candidate.describe_parameters() for candidate in candidates], pl.String
        ),
        "met": _column([candidate.met for candidate in candidates], pl.Boolean),
    }
    for index, target in enumerate(tuned.runner.plan.targets):
        judged = [
            candidate.verdict[index] if candidate.verdict else None for candidate in candidates
        ]
        columns[target.name] = _numbers(
            [judgement.number if judgement else None for judgement in judged]
        )
        # Without a verdict a target counts as missed.
        columns[f"{target.name} met"] = _column(
            [bool(judgement and judgement.met) for judgement in judged], pl.Boolean
        )
    for label in tuned.weights:
        # A number may be a target as well; there it is the worst of the draws, here the mean.
        name = f"{label} (mean)" if label in columns else label
        columns[name] = _numbers([candidate.utility.get(label) for candidate in candidates])
    columns |= {
        "loss": _numbers([candidate.loss for candidate in candidates]),
        "front": _column([candidate.front for candidate in candidates], pl.Boolean),
        "recommended": _column(
            [tuned.met and candidate.number == tuned.best.number for candidate in candidates],
            pl.Boolean,
        ),
        "draws": _column([candidate.draws for candidate in candidates], pl.Int64),
        "reason": _column([candidate.reason or None for candidate in candidates], pl.String),
    }
    return pl.DataFrame([values.alias(name) for name, values in columns.items()])


def _column(values: list[Any], dtype: Any) -> pl.Series:
    return pl.Series("", values, dtype)


def _numbers(values: list[float | None]) -> pl.Series:
    """What could not be computed is missing, and never a number."""
    finite = [None if value is None or math.isnan(value) else value for value in values]
    return pl.Series("", finite, pl.Float64)


def explain(tuned: Tuned) -> Iterator[str]:
    """Why a plan is recommended, or why none is: the verdict first."""
    yield from _explain_success(tuned) if tuned.met else _explain_failure(tuned)
    yield _describe_loss(tuned)
    yield from _describe_gaps(tuned)


def _explain_success(tuned: Tuned) -> Iterator[str]:
    best, safe = tuned.best, [candidate for candidate in tuned.candidates if candidate.met]
    yield (
        f"Recommended: {best.describe()}. Of {_count(len(tuned.candidates), 'candidate')}, "
        f"{len(safe)} {'meets' if len(safe) == 1 else 'meet'} every target, and this one loses "
        f"least: {best.loss:.3f}."
    )
    # The verdict is that of the worst draw and of what a further one may bring.
    several = "" if best.draws < 2 else f", at worst over {best.draws} keys and a further one"  # noqa: PLR2004 - several
    for judgement in best.verdict:
        yield f"Target {judgement.target.describe()}: {_describe_number(judgement)}{several}."
    if best.draws == 1 and depends_on_key(best.plan.steps[len(tuned.runner.plan.steps) :]):
        yield (
            "It draws noise, and was searched with one key only: another key may miss a target. "
            "Measure it with more (repeats)."
        )
    yield _describe_cost(tuned)
    if best.front:
        yield "No candidate on the map is as good in every number and better in one."
    others = sorted(
        (candidate for candidate in safe if candidate.number != best.number), key=_by_loss
    )
    if others:
        yield (
            f"The next best that meets every target is {others[0].describe()}: "
            f"loss {others[0].loss:.3f}."
        )
    # A custodian will ask why not these: they lose less, but are not safe.
    cheaper = [
        candidate
        for candidate in tuned.candidates
        if candidate.verdict and not candidate.met and candidate.loss < best.loss
    ]
    if cheaper:
        nearest = min(cheaper, key=lambda candidate: (candidate.excess, candidate.number))
        yield (
            f"{_count(len(cheaper), 'candidate')} would lose less, but miss a target. The nearest "
            f"of them is {nearest.describe()}: {_describe_shortfall(nearest)}."
        )


def _explain_failure(tuned: Tuned) -> Iterator[str]:
    best = tuned.best
    yield (
        f"No candidate meets every target; {len(tuned.candidates)} were tried. "
        f"What comes nearest is {best.describe()}: {_describe_shortfall(best)}."
    )
    judged = [candidate for candidate in tuned.candidates if candidate.verdict]
    for index, target in enumerate(tuned.runner.plan.targets):
        met = sum(candidate.verdict[index].met for candidate in judged)
        if not met:
            yield f"The target that blocks: {target.describe()} is met by none of {len(judged)}."
        else:
            yield f"{target.describe()}: met by {met} of {len(judged)}."
    yield (
        "Add a step that the plan lacks (topcode what is extreme, drop a variable), make the space "
        "larger, or state a target that you can defend."
    )


def _describe_shortfall(candidate: Candidate) -> str:
    return "; ".join(
        f"{judgement.target.describe()}, but {_describe_number(judgement)}"
        for judgement in candidate.verdict
        if not judgement.met
    )


def _describe_number(judgement: Judgement) -> str:
    if math.isnan(judgement.number):
        return "it could not be measured"
    return f"it is {judgement.number:.4g}"


def _describe_cost(tuned: Tuned) -> str:
    original = tuned.candidates[0].utility
    costs = [
        f"{label} {_format_number(tuned.best.utility[label])} "
        f"({_format_number(original[label])} without protection)"
        for label in tuned.weights
    ]
    return f"What it costs: {', '.join(costs)}."


def _format_number(value: float) -> str:
    return "not computable" if math.isnan(value) else f"{value:.4g}"


def _describe_loss(tuned: Tuned) -> str:
    equal = len(set(tuned.weights.values())) == 1
    labels = ", ".join(
        label if equal else f"{label} (weight {weight:g})"
        for label, weight in tuned.weights.items()
    )
    return (
        "The loss is the mean of these, each scaled by its own range, from 0 (the data without "
        f"protection) to 1 (the worst on this map, or not computable): {labels}."
    )


def _describe_gaps(tuned: Tuned) -> Iterator[str]:
    refused = [candidate for candidate in tuned.candidates if candidate.refused]
    failed = [
        candidate for candidate in tuned.candidates if not candidate.refused and candidate.reason
    ]
    if refused:
        yield f"{_count(len(refused), 'candidate')} could not be carried out; the table says why."
    if failed:
        yield (
            f"Of {_count(len(failed), 'candidate')} a number could not be computed. Where it is a "
            "target's, the candidate is not called safe."
        )
    if tuned.stopped:
        yield (
            "The number of runs or the budget ended the search before every family was searched to "
            "the end."
        )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
