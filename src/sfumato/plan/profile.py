"""What a profile adds to a plan, and where the plan asks for less."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sfumato import catalogue
from sfumato.measure import Measure
from sfumato.plan.targets import Target, find_number, measures_for, read_targets
from sfumato.profiles import Profile, load_profile

if TYPE_CHECKING:
    from sfumato.plan import Plan


@dataclass(frozen=True)
class ProfileTargets:
    """What a profile asks of a plan; of several tables, by where it is measured.

    Parameters
    ----------
    targets, measures : of the table; of several, of the joined view, where the whole of a person
        is seen. Measures by label.
    table_targets, table_measures : of every table by itself, such as that no name is left.
    """

    targets: tuple[Target, ...] = ()
    measures: Mapping[str, Measure] = field(default_factory=dict)
    table_targets: tuple[Target, ...] = ()
    table_measures: Mapping[str, Measure] = field(default_factory=dict)


def read_profile_targets(name: str | None, *, several: bool = False) -> ProfileTargets:
    """What a profile asks of a plan for one table, or for several; nothing without a profile.

    Examples
    --------
    >>> [target.name for target in read_profile_targets("ema-0070", several=True).targets]
    ['prosecutor', 'k']
    """
    if name is None:
        return ProfileTargets()
    profile = load_profile(name)
    targets, measures = read_targets(profile.targets), _build_measures(profile)
    if not several:
        return ProfileTargets(targets, measures)
    joined = {target for target in targets if _is_joined(target, measures)}
    return ProfileTargets(
        targets=tuple(target for target in targets if target in joined),
        measures={label: item for label, item in measures.items() if item.joined_numbers()},
        table_targets=tuple(target for target in targets if target not in joined),
        table_measures={label: item for label, item in measures.items()
                        if not item.joined_numbers()},
    )  # fmt: skip


def _is_joined(target: Target, measures: Mapping[str, Measure]) -> bool:
    """Whether a target is on a number of the joined view."""
    named = measures_for((target,), measures)
    where = find_number(target, named)
    return where is not None and where[1] in named[where[0]].joined_numbers()


def add_missing(stated: tuple[Target, ...], required: tuple[Target, ...]) -> tuple[Target, ...]:
    """The targets of a plan, with those of its profile where it sets none."""
    names = {target.name for target in stated}
    return (*stated, *(target for target in required if target.name not in names))


def _build_measures(profile: Profile) -> dict[str, Measure]:
    """The measures that a profile asks for, by label."""
    return {
        label: catalogue.measure(str(settings.get("measure", label)))(
            **{key: value for key, value in settings.items() if key != "measure"}
        )
        for label, settings in profile.evaluate.items()
    }


def compare_with_profile(
    plan: Plan, required: ProfileTargets, declared: AbstractSet[str], *, of_table: bool = False
) -> tuple[str, ...]:
    """Where a plan asks for less than its profile, in words.

    Parameters
    ----------
    plan : for one table, for several, or of a table among several (`of_table`).
    required : by the profile.
    declared : what is declared as known to others.
    """
    targets = required.table_targets if of_table else required.targets
    return (
        *compare_targets(targets, plan.targets),
        *list_narrowed_measures(targets, plan.targets, plan.measures, declared),
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
