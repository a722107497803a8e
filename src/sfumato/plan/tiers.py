"""Tiers of a plan: users of different trust get noise of different size, under one key.

The noise of a tier is that of the tier before it and more, so all tiers together tell no more than
the best of them. `docs/how-to/tiers.md` has the proof.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import PlanError, did_you_mean
from sfumato.plan.targets import Target, measures_for, read_targets

if TYPE_CHECKING:
    from sfumato.method import Method
    from sfumato.plan import Plan

Changes = Mapping[str, Any]
_APART = ("targets", "release")
_NUMBERED = re.compile(r"step_([1-9]\d*)")
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_FEWEST = 2


@dataclass(frozen=True)
class TierOf:
    """Which tier of which plan a plan is.

    Parameters
    ----------
    name : of the tier.
    names : of all tiers, from the most trusted users to the least.
    plan : the digest of the plan that has them all.
    """

    name: str
    names: tuple[str, ...]
    plan: str

    def plain(self) -> dict[str, Any]:
        """As it stands in a plan."""
        return {"name": self.name, "names": list(self.names), "plan": self.plan}

    @classmethod
    def from_plain(cls, table: Mapping[str, Any]) -> TierOf:
        """As it stood in a plan."""
        names = table.get("names", [])
        texts = [table.get("name"), table.get("plan"), *(names if isinstance(names, list) else [0])]
        if set(table) != {"name", "names", "plan"} or not all(isinstance(t, str) for t in texts):
            raise PlanError(
                "[tier] has a name, the names of all tiers and the digest of their plan.",
                hint="`sfumato protect` writes it; for tiers of your own write [tiers.NAME].",
            )
        return cls(table["name"], tuple(names), table["plan"])


def read_tiers(tiers: Mapping[str, Changes]) -> dict[str, dict[str, Any]]:
    """What each tier changes, with its targets in one form."""
    changes_of: dict[str, dict[str, Any]] = {}
    for name, changes in tiers.items():
        if not isinstance(changes, Mapping) or not all(
            isinstance(part, Mapping) for part in changes.values()
        ):
            raise PlanError(
                f"Tier '{name}' must be a table of what it changes.",
                hint=f"for instance [tiers.{name}] with noise.variance_share = 0.4.",
            )
        changes_of[name] = {part: dict(settings) for part, settings in changes.items()}
        if "targets" in changes:
            targets = read_targets(changes["targets"])
            changes_of[name]["targets"] = {target.name: target.plain() for target in targets}
    return changes_of


def require_tiers(plan: Plan) -> None:
    """Refuse tiers that cannot be carried out, each with its name."""
    names = list(plan.tiers)
    if not names:
        return
    if len(names) < _FEWEST:
        raise PlanError(
            f"There is one tier only, '{names[0]}'.",
            hint="name at least two, from the most trusted users to the least.",
        )
    for name in names:
        if not _FOLDER.fullmatch(name):
            raise PlanError(
                f"A tier cannot be called '{name}'.",
                hint="a folder is named after it: letters, digits, - and _.",
            )
    if len({name.casefold() for name in names}) < len(names):
        raise PlanError(
            "Two tiers have the same name.",
            hint="names that differ only in upper case may be the same folder.",
        )
    for name in names:
        derive_tier(plan, name)
    if not any(list_tiered_parameters(plan)):
        raise PlanError(
            "No step differs between the tiers.",
            hint="for instance [tiers.public] with noise.variance_share = 0.4.",
        )


def with_tiers(plan: Plan, tiers: Mapping[str, Changes], tier: TierOf | None) -> Plan:
    """The same plan with tiers, or as one of them."""
    from sfumato.plan import Plan

    parts = {field.name: getattr(plan, field.name) for field in fields(plan)}
    return Plan(**{**parts, "tiers": tiers, "tier": tier})


def derive_tier(plan: Plan, name: str) -> Plan:
    """The plan of one tier: the steps with its sizes, its targets, its way of writing."""
    from sfumato.plan import Plan

    if name not in plan.tiers:
        raise PlanError(f"The plan has no tier '{name}'.", hint=did_you_mean(name, plan.tiers))
    names = tuple(plan.tiers)
    sizes = [_find_sizes(plan, tier) for tier in names]
    try:
        steps = [
            _change_step(step, [by_step[number] for by_step in sizes], names.index(name))
            for number, step in enumerate(plan.steps)
        ]
        release = replace(plan.release, **plan.tiers[name].get("release", {}))
        targets = _merge_targets(plan.targets, plan.tiers[name].get("targets", {}))
        measures_for(targets, plan.evaluate)
    except PlanError as error:
        raise PlanError(f"Tier '{name}': {error.what}", hint=error.hint) from None
    return Plan(
        schema=plan.schema,
        steps=steps,
        targets=targets,
        evaluate=plan.evaluate,
        read=plan.read,
        release=release,
        tier=TierOf(name, names, plan.digest),
        profile=plan.profile,
    )


def list_tiered_parameters(plan: Plan) -> list[tuple[str, ...]]:
    """By step, the parameters in which some tier differs from it."""
    sizes = [_find_sizes(plan, tier) for tier in plan.tiers]
    return [
        tuple(dict.fromkeys(name for by_step in sizes for name in by_step[number]))
        for number in range(len(plan.steps))
    ]


def _find_sizes(plan: Plan, tier: str) -> list[dict[str, Any]]:
    """By step, what a tier changes in it."""
    by_step: list[dict[str, Any]] = [{} for _ in plan.steps]
    for label, settings in plan.tiers[tier].items():
        if label in _APART:
            continue
        number = _find_step(plan, tier, label)
        step = plan.steps[number]
        for name in settings:
            if name not in step.tiered:
                allowed = ", ".join(step.tiered)
                raise PlanError(
                    f"Tier '{tier}' changes '{name}' of '{step.name}', and tiers must not differ "
                    "in it: one would not be the other with more noise.",
                    hint=f"they may differ in {allowed}."
                    if allowed
                    else "only noise, correlated_noise, code_noise and misclassify have tiers.",
                )
        by_step[number].update(settings)
    return by_step


def _find_step(plan: Plan, tier: str, label: str) -> int:
    """The step that a tier means: by its method, or step_1, step_2 and so on."""
    numbered = _NUMBERED.fullmatch(label)
    if numbered and int(numbered[1]) <= len(plan.steps):
        return int(numbered[1]) - 1
    same = [number for number, step in enumerate(plan.steps) if step.name == label]
    if len(same) > 1:
        several = " or ".join(f"step_{number + 1}" for number in same)
        raise PlanError(
            f"Tier '{tier}' names '{label}', and several steps are that.", hint=f"write {several}."
        )
    if not same:
        known = [*_APART, *dict.fromkeys(step.name for step in plan.steps)]
        raise PlanError(
            f"Tier '{tier}' names '{label}', which is no step of the plan.",
            hint=did_you_mean(label, known),
        )
    return same[0]


def _change_step(step: Method, by_tier: list[dict[str, Any]], position: int) -> Method:
    """A step as one tier has it."""
    changed = set().union(*by_tier)
    if not changed:
        return step
    finer: dict[str, Any] = {}
    if "finer" in {field.name for field in fields(step)}:  # type: ignore[arg-type]
        # What is exchanged again must know all that went before.
        finer["finer"] = [_list_tiered_settings(step, sizes) for sizes in by_tier[:position]]
    return replace(step, **by_tier[position], **finer)  # type: ignore[type-var]


def _list_tiered_settings(step: Method, sizes: Mapping[str, Any]) -> dict[str, Any]:
    settings = {name: sizes.get(name, getattr(step, name)) for name in step.tiered}
    return {name: value for name, value in settings.items() if value not in (None, False)}


def _merge_targets(common: tuple[Target, ...], of_tier: Mapping[str, Any]) -> tuple[Target, ...]:
    """The targets of the plan, with those of the tier in place of the same ones."""
    by_name = {target.name: target for target in (*common, *read_targets(of_tier))}
    return tuple(by_name.values())
