"""Why a plan is recommended, or why none is: for whoever has to sign it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sfumato.plan.targets import Judgement
from sfumato.tuning.bench import by_chance
from sfumato.tuning.judged import Candidate

if TYPE_CHECKING:
    from sfumato.tuning.tuned import Tuned


def sentences(found: Tuned) -> tuple[str, ...]:
    """All that is to be said, the verdict first."""
    made = _met(found) if found.met else _missed(found)
    return (*made, *_how(found), *_left(found))


def _met(found: Tuned) -> Iterator[str]:
    best, others = found.best, [one for one in found.candidates if one.met]
    yield (
        f"Recommended: {best.said()}. Of {_many(len(found.candidates), 'candidate')}, "
        f"{len(others)} {'meets' if len(others) == 1 else 'meet'} every target, and this one loses "
        f"least: {best.loss:.3f}."
    )
    for judgement in best.verdict:
        yield _target(judgement, best)
    if best.draws == 1 and by_chance(best.plan.steps[len(found.bench.plan.steps) :]):
        yield (
            "It draws noise, and was searched with one key only: another key may miss a target. "
            "Measure it with more (repeats)."
        )
    yield from _lost(found)
    if best.front:
        yield "No candidate on the map is as good in every number and better in one."
    rest = sorted((one for one in others if one.number != best.number), key=_order)
    if rest:
        yield f"The next best that meets every target is {rest[0].said()}: loss {rest[0].loss:.3f}."
    less = [one for one in found.candidates if one.verdict and not one.met and one.loss < best.loss]
    if less:
        near = min(less, key=lambda one: (one.excess, one.number))
        yield (
            f"{_many(len(less), 'candidate')} would lose less, but miss a target. The nearest of "
            f"them is {near.said()}: {_missing(near)}."
        )


def _missed(found: Tuned) -> Iterator[str]:
    best = found.best
    yield (
        f"No candidate meets every target; {len(found.candidates)} were tried. "
        f"What comes nearest is {best.said()}: {_missing(best)}."
    )
    done = [one for one in found.candidates if one.verdict]
    for at, target in enumerate(found.bench.plan.targets):
        met = sum(one.verdict[at].met for one in done)
        if not met:
            yield f"The target that blocks: {target.said()} is met by none of {len(done)}."
        else:
            yield f"{target.said()}: met by {met} of {len(done)}."
    yield (
        "Add a step that the plan lacks (topcode what is extreme, drop a variable), make the space "
        "larger, or state a target that you can defend."
    )


def _missing(one: Candidate) -> str:
    told = [
        f"{judgement.target.said()}, but {_got(judgement)}"
        for judgement in one.verdict
        if not judgement.met
    ]
    return "; ".join(told)


def _got(one: Judgement) -> str:
    if math.isnan(one.number):
        return "it could not be measured"
    return f"it is {one.number:.4g}"


def _target(one: Judgement, best: Candidate) -> str:
    worst = "" if best.draws < 2 else f", at worst over {best.draws} keys and a further one"  # noqa: PLR2004 - several
    return f"Target {one.target.said()}: {_got(one)}{worst}."


def _lost(found: Tuned) -> Iterator[str]:
    start = found.candidates[0].utility
    told = [
        f"{label} {_number(found.best.utility[label])} ({_number(start[label])} without protection)"
        for label in found.weights
    ]
    yield f"What it costs: {', '.join(told)}."


def _number(value: float) -> str:
    return "not computable" if math.isnan(value) else f"{value:.4g}"


def _how(found: Tuned) -> Iterator[str]:
    equal = len(set(found.weights.values())) == 1
    told = ", ".join(
        label if equal else f"{label} (weight {weight:g})"
        for label, weight in found.weights.items()
    )
    yield (
        "The loss is the mean of these, each scaled by its own range, from 0 (the data without "
        f"protection) to 1 (the worst on this map, or not computable): {told}."
    )


def _left(found: Tuned) -> Iterator[str]:
    refused = [one for one in found.candidates if one.refused]
    failed = [one for one in found.candidates if not one.refused and one.reason]
    if refused:
        yield f"{_many(len(refused), 'candidate')} could not be carried out; the table says why."
    if failed:
        yield (
            f"Of {_many(len(failed), 'candidate')} a number could not be computed. Where it is a "
            "target's, the candidate is not called safe."
        )
    if found.stopped:
        yield (
            "The number of runs or the budget ended the search before every family was searched to "
            "the end."
        )


def _order(one: Candidate) -> tuple[float, int]:
    return one.loss, one.number


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
