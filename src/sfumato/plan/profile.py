"""What a profile adds to a plan, and where the plan asks for less."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato import catalogue
from sfumato.measure import Measure
from sfumato.plan.targets import Target, find_number, read_targets
from sfumato.profiles import load_profile

if TYPE_CHECKING:
    from sfumato.plan import Plan


def add_profile(
    name: str, targets: tuple[Target, ...], evaluate: Mapping[str, Measure]
) -> tuple[tuple[Target, ...], dict[str, Measure]]:
    """The targets and measures of a plan, with those of its profile where it sets none."""
    profile = load_profile(name)
    stated = {target.name for target in targets}
    added = [target for target in read_targets(profile.targets) if target.name not in stated]
    measures = {
        label: catalogue.measure(str(settings.get("measure", label)))(
            **{key: value for key, value in settings.items() if key != "measure"}
        )
        for label, settings in profile.evaluate.items()
        if label not in evaluate
    }
    return (*targets, *added), {**evaluate, **measures}


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
    stated = {target.name: target for target in plan.targets}
    lines = []
    for wanted in read_targets(load_profile(plan.profile).targets):
        own = stated[wanted.name]
        if wanted.least is not None and (own.least is None or own.least < wanted.least):
            asked, stands = f"at least {wanted.least:g}", replace(own, most=None)
        elif wanted.most is not None and (own.most is None or own.most > wanted.most):
            asked, stands = f"at most {wanted.most:g}", replace(own, least=None)
        else:
            continue
        said = stands.describe() if stands.plain() else f"{own.name} without a bound"
        lines.append(f"{said}, where the profile asks for {asked}.")
    return (*lines, *_list_narrowed(plan))


def _list_narrowed(plan: Plan) -> list[str]:
    """Measures behind the profile's targets that look at less than is declared as known."""
    measures, declared = plan.measures, set(plan.schema.having("quasi"))
    labels = [
        where[0]
        for target in plan.targets
        if target.name in load_profile(str(plan.profile)).targets
        and (where := find_number(target, measures)) is not None
    ]
    return [
        f"'{label}' looks at {', '.join(known)} only, and not at all that others may know."
        for label in dict.fromkeys(labels)
        if (known := getattr(measures[label], "known", None)) and declared - {*known}
    ]
