"""Values of the parameters of a plan's steps: what they are called, and how they are set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from sfumato.errors import PlanError, did_you_mean
from sfumato.method import Method
from sfumato.plan import Plan


def read_values(name: str, values: Any, *, example: str) -> list[Any]:
    """The values to try of one parameter; anything but a list is an error."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise PlanError(f"The values of '{name}' must be a list.", hint=f"for instance {example}.")
    # Numbers of numpy become plain ones: a parameter is checked for its type.
    return [value.item() if hasattr(value, "item") else value for value in values]


def name_parameters(steps: Sequence[Method]) -> list[dict[str, str]]:
    """For each step the names its parameters may be called by, and the parameter that is meant.

    A name alone is that of every step, "coarsen.intervals" that of every such step, and
    "coarsen.2.intervals" that of the second.
    """
    names, counts = [], Counter[str]()
    for step in steps:
        counts[step.name] += 1
        parameters = [field.name for field in fields(step)]  # type: ignore[arg-type]  # all are dataclasses
        prefixes = ("", f"{step.name}.", f"{step.name}.{counts[step.name]}.")
        names.append({f"{prefix}{name}": name for prefix in prefixes for name in parameters})
    return names


def require_parameters(wanted: Iterable[str], steps: Sequence[Method], *, whose: str) -> None:
    """Fail when no step has a parameter of this name."""
    known = {name for names in name_parameters(steps) for name in names}
    for name in wanted:
        if name not in known:
            raise PlanError(
                f"No {whose} of the plan has a parameter '{name}'.", hint=did_you_mean(name, known)
            )


def set_parameters(steps: Sequence[Method], values: Mapping[str, Any]) -> tuple[Method, ...]:
    """The steps with these values, each in every step it belongs to."""
    changed = []
    for step, names in zip(steps, name_parameters(steps), strict=True):
        matching = [name for name in values if name in names]
        parameters = {names[name]: values[name] for name in matching}
        if len(parameters) < len(matching):
            raise PlanError(f"A parameter of '{step.name}' is varied twice: {', '.join(matching)}.")
        changed.append(replace(step, **parameters) if parameters else step)  # type: ignore[type-var]
    return tuple(changed)


def change_plan(plan: Plan, **changes: Any) -> Plan:
    """The plan with other steps, targets or measures."""
    unchanged = {field.name: getattr(plan, field.name) for field in fields(plan)}
    return Plan(**{**unchanged, **changes})
