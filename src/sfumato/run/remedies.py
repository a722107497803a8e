"""What brings a missed target nearer: every hint of a refusal."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sfumato import catalogue
from sfumato.data import Dataset
from sfumato.evidence import Evidence
from sfumato.method import Method
from sfumato.pairs.alignment import quote_names
from sfumato.plan.targets import (
    Judgement,
)


def name_untreated_variables(steps: Sequence[Method], released: Dataset) -> str:
    """The quasi-identifiers that no step makes alike, and the step that leaves them out."""
    alike = [(number, step) for number, step in enumerate(steps, 1) if step.treats == "records"]
    if not alike:
        return ""
    treated = {
        name
        for _, step in alike
        for name in (*step.touches(released.schema), *getattr(step, "strata", ()))
    }
    left_out = [name for name in released.schema.having("quasi") if name not in treated]
    if not left_out:
        return ""
    number, step = alike[-1]
    return (
        f"step {number}, {step.name}, does not treat {quote_names(left_out)}: leave `variables` "
        "out of the step, so that it follows the roles, or name them there."
    )


def _is_on_classes(missed: Iterable[Judgement], evidence: Mapping[str, Evidence]) -> bool:
    """Whether a missed target counts records that are alike, which needs all that is known."""
    measures = (catalogue.measure(evidence[judgement.measure].name) for judgement in missed)
    return any(measure.of == "one" and measure.room() == "risk" for measure in measures)


def _name_tools(missed: list[Judgement], evidence: Mapping[str, Evidence]) -> str:
    """What to do where a target is missed only because other variables give something away."""
    filled = [judgement for judgement in missed if judgement.filled_in]
    if not filled:
        return ""
    what = evidence[filled[0].measure].details["filled_in"]
    return (
        f"the release gives away {what}: drop, coarsen or blur what it is worked out from (method "
        '"weights" for a survey weight). `recoverable` lists all of it.'
    )


def suggest_remedy(
    missed: list[Judgement], evidence: Mapping[str, Evidence], *, untreated: str = ""
) -> str:
    """What to do about missed targets: what goes with the first of these that is the case.

    Parameters
    ----------
    untreated : what a step leaves out, if any; said where a target on classes is missed.
    """
    return (
        _name_tools(missed, evidence)
        or (untreated if _is_on_classes(missed, evidence) else "")
        or _remedy_worst(missed, evidence)
        or _remedy_room(missed, evidence)
    )


def _remedy_worst(missed: list[Judgement], evidence: Mapping[str, Evidence]) -> str:
    """What to do about the variables that decide, where it is known which these are."""
    decided = [judgement for judgement in missed if judgement.worst]
    if not decided:
        return ""
    names = ", ".join(sorted({f"'{judgement.worst}'" for judgement in decided}))
    label = decided[0].measure
    measure = catalogue.measure(evidence[label].name)
    if tools := evidence[label].details.get("worst_tools"):
        return (
            f"the release gives away {names} from {quote_names(tools)}: drop, "
            "coarsen or blur what it is worked out from."
        )
    if measure.of == "pair":
        return (
            f"move the values of {names} further (more noise, more neighbours, or ranges), or "
            f"say which variables count: [evaluate.{label}] variables = [...]."
        )
    if hasattr(measure, "sensitive"):
        return (
            f"make what is known coarser (`sfumato recommend` says what protects {names}), or "
            f"say which variables count: [evaluate.{label}] sensitive = [...]."
        )
    return (
        f"name {names} in the step as well, or say which variables count: "
        f"[evaluate.{label}] confidential = [...]."
    )


def _remedy_room(missed: list[Judgement], evidence: Mapping[str, Evidence]) -> str:
    """Whether to protect more or less."""
    rooms = {catalogue.measure(evidence[judgement.measure].name).room() for judgement in missed}
    if rooms == {"utility"}:
        return "protect less (a smaller k, finer intervals), or state a target that you can defend."
    if "utility" in rooms:
        return "some ask for more protection, some for less: state targets that go together."
    return "protect more (coarsen further, drop a variable), or state a target that you can defend."


def suggest_for_number(
    target: Mapping[str, Any], result: Mapping[str, Any] | None, by: str, methods: Collection[str]
) -> str:
    """What brings one missed number nearer to what was asked, for the page of a refusal.

    Parameters
    ----------
    target, result : the target and the evidence behind it, as they are kept inside.
    by : the variables that decide, as people call them.
    methods : those of the plan that was refused: nobody is told to add a step it has.
    """
    measure = None if result is None else catalogue.measures().get(result["name"])
    if result is None or measure is None or not by:
        return ""
    if target.get("filled_in") or result["name"] == "recoverable":
        # Blurring what is given back does not help: unchanged variables give it back.
        source = "the attacker works from" if target.get("filled_in") else f"gives {by} back"
        return f"make coarser, or leave out, what {source}."
    number = measure.find_number(str(target["target"]).rpartition(".")[2])
    if number is None or number.safer == "neither":
        return f"protect {by} less, or leave another variable out instead."
    if measure.of == "pair":
        return f"blur {by} further: a larger noise, wider ranges, or leave it out."
    if "confidential" in result["details"]:
        return f"add a step l_diversity or t_closeness for {by}, or leave it out."
    least = target.get("min")
    k = f" with k = {math.ceil(least)}" if least and least > 1 else ""
    grouped = sorted({"k_anonymity", "l_diversity", "t_closeness"} & {*methods})
    step = f"raise k in the step {grouped[0]}" if grouped else f"add a step k_anonymity{k}"
    return f"make {by} coarser, leave one of them out, or {step}."


def suggest_for_joined_view() -> str:
    """What to do where the joined view of several tables misses a target."""
    return (
        "make persons alike in all tables at once with a step k_anonymity over all of them "
        "([[steps]]), with a larger k if confidential values are learnt, even out the number of "
        "rows (`thin_rows`), or say what outsiders do not know: [evaluate.uniqueness] known_rows, "
        "row_counts or known."
    )
