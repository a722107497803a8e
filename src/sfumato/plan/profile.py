"""What a profile adds to a plan, and where the plan asks for less."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato import catalogue
from sfumato.measure import Measure
from sfumato.plan.targets import Target, find_number, read_targets
from sfumato.profiles import Profile, load_profile

if TYPE_CHECKING:
    from sfumato.plan import Plan


def add_profile(
    name: str, targets: tuple[Target, ...], evaluate: Mapping[str, Measure]
) -> tuple[tuple[Target, ...], dict[str, Measure]]:
    """The targets and measures of a plan, with those of its profile where it sets none."""
    profile = load_profile(name)
    stated = {target.name for target in targets}
    added = [target for target in read_targets(profile.targets) if target.name not in stated]
    measures = build_measures(profile)
    # What the plan names comes first, as it was written.
    return (*targets, *added), {**evaluate, **measures, **evaluate}


def build_measures(profile: Profile) -> dict[str, Measure]:
    """The measures that a profile asks for, by label."""
    return {
        label: catalogue.measure(str(settings.get("measure", label)))(
            **{key: value for key, value in settings.items() if key != "measure"}
        )
        for label, settings in profile.evaluate.items()
    }


def list_weaker(plan: Plan) -> tuple[str, ...]:
    """Where the targets of a plan ask for less than its profile, in words.

    Examples
    --------
    >>> import sfumato as sf
    >>> list_weaker(sf.Plan(profile="ema-0070", targets={"k.min": 5}))
    ('k at least 5, where the profile asks for at least 12.',)
    """
    if plan.profile is None:
        return ()
    wanted = read_targets(load_profile(plan.profile).targets)
    declared = set(plan.schema.having("quasi"))
    return (
        *compare_targets(wanted, plan.targets),
        *list_narrowed_measures(wanted, plan.targets, plan.measures, declared),
    )


def compare_targets(wanted: Sequence[Target], stated: Sequence[Target]) -> list[str]:
    """Where the targets that a plan states ask for less than those of a profile, in words."""
    own_targets = {target.name: target for target in stated}
    lines = []
    for target in wanted:
        plan_target = own_targets[target.name]
        if target.least is not None and (
            plan_target.least is None or plan_target.least < target.least
        ):
            bound, stands = f"at least {target.least:g}", replace(plan_target, most=None)
        elif target.most is not None and (
            plan_target.most is None or plan_target.most > target.most
        ):
            bound, stands = f"at most {target.most:g}", replace(plan_target, least=None)
        else:
            continue
        described = stands.describe() if stands.plain() else f"{plan_target.name} without a bound"
        lines.append(f"{described}, where the profile asks for {bound}.")
    return lines


def list_narrowed_measures(
    wanted: Sequence[Target],
    stated: Sequence[Target],
    measures: Mapping[str, Measure],
    declared: AbstractSet[str],
) -> list[str]:
    """Measures behind the profile's targets that look at less than is declared as known."""
    names = {target.name for target in wanted}
    labels = [
        where[0]
        for target in stated
        if target.name in names and (where := find_number(target, measures)) is not None
    ]
    return [
        f"'{label}' looks at {', '.join(known)} only, and not at all that others may know."
        for label in dict.fromkeys(labels)
        if (known := getattr(measures[label], "known", None)) and declared - {*known}
    ]
