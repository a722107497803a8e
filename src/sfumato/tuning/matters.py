"""What is kept of a plan, what competes, and by which numbers a release is useful."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from sfumato import catalogue
from sfumato.cells.pairs import numbers_of
from sfumato.data import Dataset
from sfumato.errors import PlanError, did_you_mean
from sfumato.measure import Measure
from sfumato.methods.drop import Drop
from sfumato.plan import Plan
from sfumato.plan.targets import Target, home
from sfumato.run import Measures
from sfumato.tuning.asked import Needs
from sfumato.tuning.space import Steps
from sfumato.utility.information_loss import InformationLoss
from sfumato.utility.moments import Moments
from sfumato.utility.propensity import Propensity

_PREPARING = ("drop", "pseudonymise", "topcode")
"""They treat what names people and what is extreme; no other method takes their place."""
_MOVED = "displacement"
_MORE_IS_SAFER = ("k", "k_of_groups", "k_if_clusters_are_known", "mean_h", "median_h")


def require_protection(plan: Plan) -> None:
    """Refuse a plan none of whose targets limits a risk: raw data would meet it, and look safe."""
    for target in plan.targets:
        place = home(target, plan.measures)
        if place is None or _limits(target, place[1], plan.measures[place[0]]):
            return
    raise PlanError(
        "No target limits a risk, so nothing says what is safe.",
        hint="add one, for instance k.min = 5.",
    )


def _limits(target: Target, number: str, measure: Measure) -> bool:
    """Whether the bound lies on the side where the risk is, as far as that side is known."""
    if measure.room() == "utility":
        # Of utility only how far records moved can protect, and only from below.
        if measure.name != _MOVED or number == "outside_domain":
            return False
        bound = target.most if number.startswith("stayed") else target.least
        return bound is not None
    if number == measure.name:
        bound = target.least if measure.direction == "higher" else target.most
        return bound is not None
    return number not in _MORE_IS_SAFER or target.least is not None


def parted(plan: Plan, data: Dataset) -> tuple[Steps, Steps]:
    """The steps that all candidates begin with, and the plan's own protection.

    Direct identifiers that no step treats are left out first.
    """
    kept = tuple(step for step in plan.steps if step.name in _PREPARING)
    protecting = tuple(step for step in plan.steps if step.name not in _PREPARING)
    treated = {name for step in plan.steps for name in step.touches(data.schema)}
    left = [name for name in data.schema.having("direct") if name not in treated]
    return (Drop(variables=left), *kept) if left else kept, protecting


def what_matters(
    plan: Plan, further: Measures, prepared: Dataset, wanted: Needs
) -> dict[str, Measure]:
    """The utility measures: those of the plan and those given; else the usual three."""
    placed = [home(target, plan.measures) for target in plan.targets]
    targeted = {place[0] for place in placed if place is not None}
    named = {
        label: one
        for label, one in plan.evaluate.items()
        # How far records moved is protection where a target says so, and loss otherwise.
        if one.room() == "utility" and not (one.name == _MOVED and label in targeted)
    }
    named |= _given(plan, further)
    return named or _usual(plan, prepared, wanted)


def _given(plan: Plan, further: Measures) -> dict[str, Measure]:
    if further is None:
        return {}
    if not isinstance(further, Mapping):
        made = [catalogue.measure(one)() if isinstance(one, str) else one for one in further]
        further = {one.name: one for one in made}
    for label, one in further.items():
        if one.room() != "utility":
            raise PlanError(
                f"'{label}' measures risk: set a target on it in the plan.",
                hint="`measures` are those of utility, by which candidates are compared.",
            )
        if label in plan.measures and plan.measures[label] != one:
            raise PlanError(
                f"The plan measures '{label}' already, with other parameters.",
                hint="give it another label.",
            )
    return dict(further)


def _usual(plan: Plan, prepared: Dataset, wanted: Needs) -> dict[str, Measure]:
    usual: list[Measure] = [InformationLoss(), Propensity()]
    # Named, since what became a range would else be left out, and look as if nothing were lost.
    if numbers := [name for name in numbers_of(prepared) if name not in wanted.known]:
        usual.append(Moments(variables=numbers))
    taken = plan.measures
    return {one.name: one for one in usual if taken.get(one.name, one) == one} or {
        "propensity": Propensity()
    }


def checked_weights(weights: Mapping[str, float] | None, labels: Iterable[str]) -> dict[str, float]:
    """How much each utility measure counts; 1 unless something else is said."""
    known, given = list(labels), dict(weights or {})
    for label, weight in given.items():
        if label not in known:
            raise PlanError(
                f"'{label}' has a weight, but is none of the utility measures.",
                hint=did_you_mean(label, known),
            )
        number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
        if not number or not 0 < weight < math.inf:
            raise PlanError(f"The weight of '{label}' must be a number above 0.")
    return {label: float(given.get(label, 1.0)) for label in known}
