"""Candidates judged by the targets and compared with each other: loss, dominance, Pareto front."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sfumato.evidence import Evidence
from sfumato.measure import Measure
from sfumato.pairs.alignment import NOT_COMPARED
from sfumato.plan import Plan
from sfumato.plan.targets import Judgement, Target, find_number, judge
from sfumato.tuning.calibrate import t_quantile
from sfumato.tuning.checkpoint import Draw
from sfumato.tuning.runner import Run

_NEGLIGIBLE = 1e-12


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidate:
    """One way to protect the data, and what was measured of it.

    Parameters
    ----------
    number : its position in the table.
    family : which kind of protection it is.
    parameters : how strong it is.
    plan : the complete plan, with targets and measures.
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
        judged = bool(self.verdict) and not self.refused
        return judged and all(judgement.met for judgement in self.verdict)

    @property
    def excess(self) -> float:
        """How far it is from meeting every target: up to 1 all are met, infinite for no number."""
        if not self.verdict:
            return math.inf
        return max(excess(judgement.target, judgement.number) for judgement in self.verdict)

    def describe(self) -> str:
        """What it is, in words."""
        values = self.describe_parameters()
        return f"{self.family} ({values})" if values else self.family

    def describe_parameters(self) -> str:
        """Its parameters, in words."""
        return ", ".join(
            f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}"
            for name, value in self.parameters.items()
        )


def excess(target: Target, number: float) -> float:
    """How many times a number is beyond its bound; 1 is just met.

    Examples
    --------
    >>> excess(Target(name="k", least=10), 5), excess(Target(name="uniqueness", most=0.1), 0.05)
    (2.0, 0.5)
    """
    if math.isnan(number):
        return math.inf
    ratios = [0.0]
    if target.most is not None:
        ratios.append(_ratio(number, target.most))
    if target.least is not None:
        ratios.append(_ratio(target.least, number))
    worst = max(ratios)
    # Where a bound is 0 or less there is no ratio, and the verdict has the last word.
    return min(worst, 1.0) if target.met_by(number) else max(worst, 1.0 + 1e-9)


def _ratio(above: float, below: float) -> float:
    if below > 0:
        return max(0.0, above / below)
    return 1.0 + max(0.0, above - below)


def judge_run(
    run: Run, targets: tuple[Target, ...], measures: Mapping[str, Measure]
) -> tuple[Judgement, ...]:
    """Every target against the worst of the draws, and against what another draw may bring."""
    if not run.draws:
        return ()
    by_draw = [judge(targets, measures, draw) for draw in run.draws]
    return tuple(_judge_worst(list(draws), measures) for draws in zip(*by_draw, strict=True))


def _judge_worst(draws: list[Judgement], measures: Mapping[str, Measure]) -> Judgement:
    """One judgement for several draws: 97.5 % sure that a further draw is no worse.

    The bound is that of a prediction interval for one more draw: mean ± t s √(1 + 1/n).
    """
    target = draws[0].target
    # One draw that could not be measured decides: nobody knows its risk.
    failed = [judgement for judgement in draws if math.isnan(judgement.number)]
    if failed:
        return failed[0]
    numbers = [judgement.number for judgement in draws]
    worst = max(draws, key=lambda judgement: excess(target, judgement.number))
    if len(numbers) == 1 or max(numbers) == min(numbers):
        return worst
    mean = math.fsum(numbers) / len(numbers)
    variance = math.fsum((number - mean) ** 2 for number in numbers) / (len(numbers) - 1)
    margin = t_quantile(len(numbers)) * math.sqrt(variance) * math.sqrt(1 + 1 / len(numbers))
    low, high = min(*numbers, mean - margin), max(*numbers, mean + margin)
    ends = _clip_to_reach(target, measures, low, high)
    number = max(ends, key=lambda end: excess(target, end))
    return replace(worst, number=number, met=worst.met and target.met_by(number))


def _clip_to_reach(
    target: Target, measures: Mapping[str, Measure], low: float, high: float
) -> tuple[float, float]:
    """Both ends, as far as such a number can go."""
    position = find_number(target, measures)
    if position is None:
        return low, high
    number = measures[position[0]].find_number(position[1])
    return (low, high) if number is None else (max(low, number.lowest), min(high, number.highest))


def average_utility(
    run: Run, labels: Sequence[str], incomparable: Mapping[str, str]
) -> dict[str, float]:
    """Each utility number, the mean over the draws; NaN when one draw has none to compare."""
    return {
        label: math.nan
        if label in incomparable
        else _mean([draw[label].value for draw in run.draws])
        for label in labels
    }


def find_incomparable(run: Run, labels: Sequence[str], before: Draw) -> dict[str, str]:
    """By measure, which variables are not compared here though they are before protection.

    With fewer variables a measure finds less to tell apart, and would call the candidate better.
    """
    incomparable = {}
    for label in labels:
        left_out_before = list_left_out(before[label]) if label in before else set()
        left_out = {name for draw in run.draws for name in list_left_out(draw[label])}
        if names := sorted(left_out - left_out_before):
            incomparable[label] = ", ".join(names)
    return incomparable


def list_left_out(evidence: Evidence) -> set[str]:
    """The variables that a measure could not compare."""
    return set(evidence.details.get(NOT_COMPARED, ()))


def describe_incomparable(incomparable: Mapping[str, str]) -> str:
    """Which measures cannot be compared with those of the other candidates, and why."""
    return " ".join(
        f"{label}: not measurable as for the others, since the release says nothing of {names}."
        for label, names in incomparable.items()
    )


def _mean(numbers: list[float]) -> float:
    if not numbers or any(math.isnan(number) for number in numbers):
        return math.nan
    return math.fsum(numbers) / len(numbers)


def list_failures(draw: Draw) -> str:
    """Which measures failed, and why."""
    return " ".join(
        f"{label}: {evidence.reason}" for label, evidence in draw.items() if evidence.reason
    )


@dataclass(frozen=True)
class LossScale:
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
            weight * self._scale(index, utility.get(label, math.nan))
            for index, (label, weight) in enumerate(zip(self.labels, self.weights, strict=True))
        ]
        return math.fsum(parts) / math.fsum(self.weights)

    def _scale(self, index: int, number: float) -> float:
        if math.isnan(number):
            return 1.0
        start, end, sign = self.starts[index], self.ends[index], self.signs[index]
        span = sign * (end - start)
        # A number that does not vary on this map tells candidates not apart.
        if not math.isfinite(span) or span <= _NEGLIGIBLE:
            return 0.0
        return min(1.0, max(0.0, sign * (number - start) / span))


def fit_scale(
    candidates: Sequence[Candidate], measures: Mapping[str, Measure], weights: Mapping[str, float]
) -> LossScale:
    """The scale of a map; its first candidate is the data before protection."""
    labels = tuple(candidates[0].utility)
    signs = tuple(-1 if measures[label].direction == "higher" else 1 for label in labels)
    starts, ends = [], []
    for label, sign in zip(labels, signs, strict=True):
        numbers = [candidate.utility.get(label, math.nan) for candidate in candidates]
        finite = sorted(filter(math.isfinite, numbers), key=lambda number: sign * number)
        best, worst = (finite[0], finite[-1]) if finite else (math.nan, math.nan)
        starts.append(numbers[0] if math.isfinite(numbers[0]) else best)
        ends.append(worst)
    chosen = tuple(weights[label] for label in labels)
    return LossScale(labels, signs, chosen, tuple(starts), tuple(ends))


def dominates(first: Candidate, second: Candidate, signs: Mapping[str, int]) -> bool:
    """Whether the first is as good in every number, and better in one."""
    pairs = list(zip(_to_minimise(first, signs), _to_minimise(second, signs), strict=True))
    return all(mine <= theirs for mine, theirs in pairs) and any(
        mine < theirs for mine, theirs in pairs
    )


def _to_minimise(candidate: Candidate, signs: Mapping[str, int]) -> list[float]:
    """Every number that counts, so that less is better; what is not known is the worst."""
    numbers = [_distance_from_target(judgement) for judgement in candidate.verdict]
    # Utility measures where more is better change their sign.
    numbers += [sign * candidate.utility.get(label, math.nan) for label, sign in signs.items()]
    return [math.inf if math.isnan(number) else number for number in numbers]


def _distance_from_target(judgement: Judgement) -> float:
    target, number = judgement.target, judgement.number
    if math.isnan(number):
        return math.nan
    if target.least is not None and target.most is not None:
        return max(target.least - number, number - target.most, 0.0)
    return -number if target.least is not None else number


def score_candidates(
    candidates: Sequence[Candidate], measures: Mapping[str, Measure], weights: Mapping[str, float]
) -> list[Candidate]:
    """The candidates with their loss, and which of them are on the Pareto front."""
    # The range of each number is known only when all candidates are measured.
    scale = fit_scale(candidates, measures, weights)
    signs = dict(zip(scale.labels, scale.signs, strict=True))
    judged = [candidate for candidate in candidates if candidate.verdict]
    front = {
        id(candidate)
        for candidate in judged
        if not any(dominates(other, candidate, signs) for other in judged)
    }
    return [
        replace(
            candidate,
            loss=scale.loss(candidate.utility) if candidate.verdict else math.nan,
            front=id(candidate) in front,
        )
        for candidate in candidates
    ]
