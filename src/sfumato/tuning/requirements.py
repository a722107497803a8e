"""What a plan requires: which variables its targets protect, and which numbers are its utility."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.errors import PlanError, SfumatoError, did_you_mean
from sfumato.measure import Measure
from sfumato.methods.drop import Drop
from sfumato.pairs.alignment import find_numeric_variables
from sfumato.plan import Plan
from sfumato.plan.targets import Target, find_number, limits_risk, read_for_target
from sfumato.run.measuring import Measures, choose_measures
from sfumato.tuning.runner import Steps
from sfumato.utility.information_loss import InformationLoss
from sfumato.utility.moments import Moments
from sfumato.utility.propensity import Propensity

_BY_KNOWN = ("h_index", "linkage")
_PREPARING = ("drop", "pseudonymise", "topcode", "weights")
"""They treat what names people and what is extreme; no other method replaces them."""


@dataclass(frozen=True)
class Requirements:
    """What must still be protected, in the data as the preparation leaves them.

    Parameters
    ----------
    known : the variables among which people must not stand out.
    distant : the numbers that must lie away from their original.
    confidential : the variables that nobody may learn; empty where no target is about them.
    k : the least class size that a target names; or None.
    only_k : whether class size is all that is required of equivalence classes.
    h : the target on h that noise can be calibrated for, with its measure; or None.
    """

    known: tuple[str, ...]
    distant: tuple[str, ...]
    confidential: tuple[str, ...]
    k: int | None
    only_k: bool
    h: tuple[Target, Measure] | None


def read_requirements(
    targets: Iterable[Target], measures: Mapping[str, Measure], prepared: Dataset
) -> Requirements:
    """Read the requirements off the targets."""
    known, distant, confidential = dict[str, None](), dict[str, None](), dict[str, None]()
    k, h, only_k = None, None, True
    for target, number, measure in _resolve_targets(targets, measures):
        if _already_holds(target, number, measure, prepared):
            continue
        if measure.of == "one" and hasattr(measure, "known"):
            known |= dict.fromkeys(_select(_parameter(measure, "known"), prepared, "quasi"))
            only_k = only_k and _is_class_size(measure, number)
        if hasattr(measure, "confidential") or hasattr(measure, "sensitive"):
            named = _parameter(measure, "confidential") or _parameter(measure, "sensitive")
            confidential |= dict.fromkeys(_select(named, prepared, "sensitive"))
        if _is_distance(measure):
            distant |= dict.fromkeys(_select_numbers(measure, prepared))
        # The strictest of several targets on class size.
        if _is_class_size(measure, number) and target.least:
            k = max(k or 2, math.ceil(target.least))
        if (number == "mean_h" and target.least is not None) or (
            number == "h_index" and target.most is not None
        ):
            h = target, measure
    return Requirements(
        tuple(name for name in known if prepared.schema[name].role != "weight"),
        tuple(distant),
        tuple(name for name in confidential if name not in known),
        k,
        only_k and k is not None,
        h,
    )


def _resolve_targets(
    targets: Iterable[Target], measures: Mapping[str, Measure]
) -> Iterator[tuple[Target, str, Measure]]:
    for target in targets:
        position = find_number(target, measures)
        if position is not None:
            yield target, position[1], measures[position[0]]


def _already_holds(target: Target, number: str, measure: Measure, prepared: Dataset) -> bool:
    """Whether the preparation suffices, so that nothing need be done for this target."""
    # A pair measure needs a release; the preparation alone is none.
    if measure.of == "pair":
        return False
    try:
        evidence = measure.look(prepared, "released", engine_for(prepared.frame))
    except SfumatoError:
        return False
    return target.met_by(read_for_target(target, number, evidence)[0])


def _is_distance(measure: Measure) -> bool:
    """Whether it asks how far released numbers lie from the original ones."""
    pair = measure.room() == "risk" and measure.of == "pair" and hasattr(measure, "variables")
    return pair or _protects_by_distance(measure)


def _protects_by_distance(measure: Measure) -> bool:
    """Whether what it calls a loss is protection at the same time: how far values moved."""
    return measure.room() == "utility" and measure.numbers[0].safer == "more"


def _is_class_size(measure: Measure, name: str) -> bool:
    number = measure.find_number(name)
    return number is not None and number.counts == "units in a class"


def _parameter(measure: Measure, name: str) -> tuple[str, ...]:
    value: Any = getattr(measure, name, None)
    return (value,) if isinstance(value, str) else tuple(value or ())


def _select(named: tuple[str, ...], prepared: Dataset, role: Any) -> tuple[str, ...]:
    """Those named, or those of a role, as far as the preparation left them."""
    wanted = named or prepared.schema.having(role)
    return tuple(name for name in wanted if name in prepared.schema)


def _select_numbers(measure: Measure, prepared: Dataset) -> tuple[str, ...]:
    numbers = find_numeric_variables(prepared)
    if named := _parameter(measure, "variables"):
        return tuple(name for name in named if name in numbers)
    # They compare what an attacker knows: quasi-identifiers before sensitive numbers.
    if measure.name in _BY_KNOWN:
        for role in ("quasi", "sensitive"):
            of_role = [name for name in numbers if prepared.schema[name].role == role]
            if of_role:
                return tuple(of_role)
    return numbers


def require_protection(plan: Plan) -> None:
    """Refuse a plan none of whose targets limits a risk: raw data would meet it, and look safe."""
    if any(limits_risk(target, plan.measures) for target in plan.targets):
        return
    raise PlanError(
        "No target limits a risk, so nothing says what is safe.",
        hint="add one, for instance k.min = 5.",
    )


def split_steps(plan: Plan, data: Dataset) -> tuple[Steps, Steps]:
    """The steps that all candidates begin with, and the plan's own protection.

    Direct identifiers that no step treats are dropped first.
    """
    preparing = tuple(step for step in plan.steps if step.name in _PREPARING)
    protecting = tuple(step for step in plan.steps if step.name not in _PREPARING)
    treated = {name for step in plan.steps for name in step.touches(data.schema)}
    direct = [name for name in data.schema.identifiers if name not in treated]
    return (Drop(variables=direct), *preparing) if direct else preparing, protecting


def choose_utility(plan: Plan, further: Measures, prepared: Dataset) -> dict[str, Measure]:
    """The utility measures: those of the plan and further ones; else the usual three."""
    positions = [find_number(target, plan.measures) for target in plan.targets]
    targeted = {position[0] for position in positions if position is not None}
    named = {
        label: measure
        for label, measure in plan.evaluate.items()
        # How far records moved is protection where a target says so, and loss otherwise.
        if measure.room() == "utility"
        and not (_protects_by_distance(measure) and label in targeted)
    }
    named |= _check_measures(plan, further)
    return named or _usual_measures(plan, prepared)


def _check_measures(plan: Plan, further: Measures) -> dict[str, Measure]:
    if further is None:
        return {}
    chosen = choose_measures(further)
    for label, measure in chosen.items():
        if measure.room() != "utility":
            raise PlanError(
                f"'{label}' measures risk: set a target on it in the plan.",
                hint="`measures` are those of utility, by which candidates are compared.",
            )
        if label in plan.measures and plan.measures[label] != measure:
            raise PlanError(
                f"The plan measures '{label}' already, with other parameters.",
                hint="give it another label.",
            )
    return chosen


def _usual_measures(plan: Plan, prepared: Dataset) -> dict[str, Measure]:
    usual: list[Measure] = [InformationLoss(), Propensity()]
    # Named: a number that a release no longer has is an error, and never left out.
    if numbers := find_numeric_variables(prepared):
        usual.append(Moments(variables=list(numbers)))
    taken = plan.measures
    return {
        measure.name: measure for measure in usual if taken.get(measure.name, measure) == measure
    } or {"propensity": Propensity()}


def check_weights(weights: Mapping[str, float] | None, labels: Iterable[str]) -> dict[str, float]:
    """How much each utility measure counts; 1 by default."""
    known, chosen = list(labels), dict(weights or {})
    for label, weight in chosen.items():
        if label not in known:
            raise PlanError(
                f"'{label}' has a weight, but is none of the utility measures.",
                hint=did_you_mean(label, known),
            )
        number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
        if not number or not 0 < weight < math.inf:
            raise PlanError(f"The weight of '{label}' must be a number above 0.")
    return {label: float(chosen.get(label, 1.0)) for label in known}
