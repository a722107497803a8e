"""Parts of a plan: of one table the plan itself; of several, one for each and one over all.

Cards, targets and measures are the same for all of them. The name of a part is that of its table,
and empty for the plan of a single table and for what holds over all tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sfumato import catalogue
from sfumato.errors import PlanError, did_you_mean
from sfumato.method import Method
from sfumato.plan import Plan
from sfumato.plan.linked import SHARED_METHODS, LinkedPlan
from sfumato.profiles import load_profile

WHOLE = ""


def list_parts(plan: Plan | LinkedPlan) -> list[str]:
    """The names of the parts, in the order in which they are carried out.

    Examples
    --------
    >>> list_parts(Plan())
    ['']
    """
    return [WHOLE] if isinstance(plan, Plan) else [*plan.tables, WHOLE]


def get_part(plan: Plan | LinkedPlan, part: str) -> Plan | LinkedPlan:
    """The plan that has the steps, targets and measures of a part."""
    if part == WHOLE:
        return plan
    tables: Mapping[str, Plan] = plan.tables if isinstance(plan, LinkedPlan) else {}
    if part not in tables:
        raise PlanError(f"The plan has no table '{part}'.", hint=did_you_mean(part, tables))
    return tables[part]


def replace_part(plan: Plan | LinkedPlan, part: str, **changes: Any) -> Plan | LinkedPlan:
    """The whole plan, with other steps, targets or measures in one part."""
    if part == WHOLE or isinstance(plan, Plan):
        get_part(plan, part)
        return replace(plan, **changes)
    get_part(plan, part)
    return replace(plan, tables={**plan.tables, part: replace(plan.tables[part], **changes)})


def list_methods(plan: Plan | LinkedPlan, part: str) -> dict[str, type[Method]]:
    """The methods that a part can have: over all tables only some work."""
    methods = catalogue.methods()
    if part == WHOLE and isinstance(plan, LinkedPlan):
        return {name: entry for name, entry in methods.items() if entry in SHARED_METHODS}
    return methods


def list_profile_targets(plan: Plan | LinkedPlan) -> frozenset[str]:
    """The names of the targets that the profile of a plan asks for."""
    return frozenset() if plan.profile is None else frozenset(load_profile(plan.profile).targets)
