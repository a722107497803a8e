"""Candidates held against the targets and against each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sfumato.evidence import Evidence
from sfumato.measure import Measure
from sfumato.plan import Plan
from sfumato.plan.targets import Judgement, Target, home, judge
from sfumato.tuning.bench import Draw, Run
from sfumato.tuning.trials import sureness

_SAME = 1e-12


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidate:
    """One way to protect the data, and what was measured of it.

    Parameters
    ----------
    number : its place in the table.
    family : which way it is.
    parameters : how far along that way.
    plan : the whole plan, with targets and measures.
    verdict : every target against the worst that draws of noise may bring.
    utility : each utility number, the mean over draws; NaN where it could not be computed.
    loss : what is lost of all of them, 0 for the original and 1 for the worst on the map.
    front : whether no other candidate is as good in every number and better in one.
    draws : how many keys it was measured with.
    evidence : what was measured, with the first key; of the recommended one, with the last key.
    reason : why there is no verdict or a number is lacking.
    refused : whether the data refuse it.
    """

    number: int
    family: str
    parameters: Mapping[str, Any]
    plan: Plan
    verdict: tuple[Judgement, ...] = ()
    utility: Mapping[str, float] = field(default_factory=dict)
    loss: float = math.nan
    front: bool = False
    draws: int = 0
    evidence: Mapping[str, Evidence] = field(default_factory=dict, repr=False)
    reason: str = ""
    refused: bool = False

    @property
    def met(self) -> bool:
        """Whether every target is met. What could not be measured meets none."""
        return bool(self.verdict) and not self.refused and all(one.met for one in self.verdict)

    @property
    def excess(self) -> float:
        """How far it is from meeting every target: up to 1 all are met, infinite for no number."""
        if not self.verdict:
            return math.inf
        return max(excess(one.target, one.number) for one in self.verdict)

    def said(self) -> str:
        """What it is, in words."""
        told = ", ".join(f"{name} = {_short(value)}" for name, value in self.parameters.items())
        return f"{self.family} ({told})" if told else self.family


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def excess(target: Target, number: float) -> float:
    """How many times a number is beyond its bound; 1 is just met.

    Examples
    --------
    >>> excess(Target(name="k", least=10), 5), excess(Target(name="uniqueness", most=0.1), 0.05)
    (2.0, 0.5)
    """
    if math.isnan(number):
        return math.inf
    found = [0.0]
    if target.most is not None:
        found.append(_ratio(number, target.most))
    if target.least is not None:
        found.append(_ratio(target.least, number))
    worst = max(found)
    # Where a bound is 0 or less there is no ratio, and the verdict has the last word.
    return min(worst, 1.0) if target.met_by(number) else max(worst, 1.0 + 1e-9)


def _ratio(above: float, below: float) -> float:
    if below > 0:
        return max(0.0, above / below)
    return 1.0 + max(0.0, above - below)


def held(
    run: Run, targets: tuple[Target, ...], measures: Mapping[str, Measure]
) -> tuple[Judgement, ...]:
    """Every target against the worst of the draws, and against what another draw may bring."""
    if not run.draws:
        return ()
    judged = [judge(targets, measures, draw) for draw in run.draws]
    return tuple(_worst(list(several), measures) for several in zip(*judged, strict=True))


def _worst(several: list[Judgement], measures: Mapping[str, Measure]) -> Judgement:
    """One judgement for several draws: 97.5 % sure that a further draw is no worse."""
    target = several[0].target
    failed = [one for one in several if math.isnan(one.number)]
    if failed:
        return failed[0]
    numbers = [one.number for one in several]
    worst = max(several, key=lambda one: excess(target, one.number))
    if len(numbers) == 1 or max(numbers) == min(numbers):
        return worst
    mean = math.fsum(numbers) / len(numbers)
    spread = math.sqrt(math.fsum((one - mean) ** 2 for one in numbers) / (len(numbers) - 1))
    margin = sureness(len(numbers)) * spread * math.sqrt(1 + 1 / len(numbers))
    ends = _within(target, measures, min(*numbers, mean - margin), max(*numbers, mean + margin))
    number = max(ends, key=lambda one: excess(target, one))
    return replace(worst, number=number, met=worst.met and target.met_by(number))


def _within(
    target: Target, measures: Mapping[str, Measure], low: float, high: float
) -> tuple[float, float]:
    """Both ends, as far as such a number can go."""
    place = home(target, measures)
    if place is None:
        return low, high
    least, most = measures[place[0]].reach.get(place[1], (-math.inf, math.inf))
    return max(low, least), min(high, most)


def utilities(run: Run, labels: Sequence[str]) -> dict[str, float]:
    """Each utility number, the mean over the draws; NaN when one draw has none."""
    return {label: _mean([draw[label].value for draw in run.draws]) for label in labels}


def _mean(numbers: list[float]) -> float:
    if not numbers or any(math.isnan(one) for one in numbers):
        return math.nan
    return math.fsum(numbers) / len(numbers)


def reasons(draw: Draw) -> str:
    """Which measures failed, and why."""
    return " ".join(f"{label}: {one.reason}" for label, one in draw.items() if one.reason)


@dataclass(frozen=True)
class Scale:
    """How utility numbers become one loss.

    Each number is scaled by its own range, from that of the data before protection to the worst on
    the map. What could not be computed on a release has lost everything: 1. The loss is the
    weighted mean.

    Parameters
    ----------
    labels : the utility measures.
    signs : 1 where less is better, -1 where more is.
    weights : how much each counts.
    starts, ends : of each range; NaN when there is none.
    """

    labels: tuple[str, ...]
    signs: tuple[int, ...]
    weights: tuple[float, ...]
    starts: tuple[float, ...]
    ends: tuple[float, ...]

    def loss(self, utility: Mapping[str, float]) -> float:
        """The loss of one candidate."""
        parts = [
            weight * self._part(at, utility.get(label, math.nan))
            for at, (label, weight) in enumerate(zip(self.labels, self.weights, strict=True))
        ]
        return math.fsum(parts) / math.fsum(self.weights)

    def _part(self, at: int, number: float) -> float:
        if math.isnan(number):
            return 1.0
        start, end, sign = self.starts[at], self.ends[at], self.signs[at]
        span = sign * (end - start)
        if not math.isfinite(span) or span <= _SAME:
            return 0.0
        return min(1.0, max(0.0, sign * (number - start) / span))


def scale_of(
    candidates: Sequence[Candidate], measures: Mapping[str, Measure], weights: Mapping[str, float]
) -> Scale:
    """The scale of a map; its first candidate is the data before protection."""
    labels = tuple(candidates[0].utility)
    signs = tuple(-1 if measures[label].direction == "higher" else 1 for label in labels)
    starts, ends = [], []
    for label, sign in zip(labels, signs, strict=True):
        numbers = [one.utility.get(label, math.nan) for one in candidates]
        finite = [number for number in numbers if math.isfinite(number)]
        rising = sorted(finite, key=lambda one: sign * one)
        best, worst = (rising[0], rising[-1]) if rising else (math.nan, math.nan)
        starts.append(numbers[0] if math.isfinite(numbers[0]) else best)
        ends.append(worst)
    return Scale(labels, signs, tuple(weights[label] for label in labels), tuple(starts),
                 tuple(ends))  # fmt: skip


def dominates(one: Candidate, other: Candidate, signs: Mapping[str, int]) -> bool:
    """Whether the first is as good in every number, and better in one."""
    pairs = list(zip(_numbers(one, signs), _numbers(other, signs), strict=True))
    return all(mine <= theirs for mine, theirs in pairs) and any(
        mine < theirs for mine, theirs in pairs
    )


def _numbers(one: Candidate, signs: Mapping[str, int]) -> list[float]:
    """Every number that counts, less is better; what is not known is the worst."""
    found = [_turned(judgement) for judgement in one.verdict]
    found += [sign * one.utility.get(label, math.nan) for label, sign in signs.items()]
    return [math.inf if math.isnan(number) else number for number in found]


def _turned(one: Judgement) -> float:
    if math.isnan(one.number):
        return math.nan
    if one.target.least is not None and one.target.most is not None:
        return max(one.target.least - one.number, one.number - one.target.most, 0.0)
    return -one.number if one.target.least is not None else one.number


def on_map(
    candidates: Sequence[Candidate], measures: Mapping[str, Measure], weights: Mapping[str, float]
) -> list[Candidate]:
    """The candidates with their loss, and which of them are on the front."""
    scale = scale_of(candidates, measures, weights)
    signs = dict(zip(scale.labels, scale.signs, strict=True))
    done = [one for one in candidates if one.verdict]
    front = {id(one) for one in done if not any(dominates(other, one, signs) for other in done)}
    return [
        replace(
            one,
            loss=scale.loss(one.utility) if one.verdict else math.nan,
            front=id(one) in front,
        )
        for one in candidates
    ]
