"""Roles: what is suggested, and a first plan from what was decided."""

from __future__ import annotations

from typing import Any

from sfumato.io import frames
from sfumato.io.source import get_kind
from sfumato.plan import Plan
from sfumato.progress import current_progress
from sfumato.studio.tasks import Work, task
from sfumato.studio.tasks.data import bring_here, get_table
from sfumato.studio.tasks.protect import drop_variables
from sfumato.suggestion.first_linked import first_linked_plan
from sfumato.suggestion.first_plan import first_plan, suggest_schema


@task(lane="slow", depends="source")
def suggest_roles(work: Work, *, table: str = "") -> dict[str, Any]:
    """A role and a kind for every variable, with reasons; nothing of it holds until accepted."""
    whole = get_table(work, table)
    data = bring_here(whole)
    tell = current_progress()
    tell("suggesting roles", 0, 2)
    suggested = suggest_schema(data)
    tell("suggesting roles", 1, 2)
    read_as = frames.infer_kinds(data.frame)
    variables = {}
    for name in data.columns:
        values = data.column(name)
        variables[name] = {
            "label": data.schema[name].label,
            "distinct": values.drop_nulls().n_unique(),
            "missing": values.null_count() / len(values) if len(values) else 0.0,
            "type": get_kind(values.dtype),
            "kind": read_as[name],
            "reason": suggested[name].reason,
        }
    return {
        "records": len(whole),
        "looked_at": len(data),
        # A plan keeps the types of what it holds, dates among them.
        "plan": Plan(schema=suggested).text(),
        "variables": variables,
    }


@task(lane="slow", depends="schema")
def build_first_plan(work: Work, *, profile: str = "") -> dict[str, Any]:
    """Steps and targets that follow from the roles, tried on the data."""
    current_progress()("building the plan", 0, 1)
    if work.source.linked:
        decided = work.plan
        linked = first_linked_plan(work.tables, decided=decided, profile=profile or None).plan
        steps = [
            {
                "table": name,
                "name": step.name,
                "variables": list(getattr(step, "variables", []) or []),
            }
            for name, plan in linked.tables.items()
            for step in plan.steps
        ]
        steps += [{"table": "", "name": step.name, "variables": []} for step in linked.steps]
        targets = [target.describe() for target in linked.targets]
        return {"plan": linked.text(), "steps": steps, "targets": targets}
    plan = first_plan(work.raw, work.table_plan.schema, profile=profile or None)
    return {
        "plan": plan.text(),
        "steps": [
            {
                "table": "",
                "name": step.name,
                "variables": list(step.touches(drop_variables(plan.schema, plan.steps[:number]))),
                "within": list(getattr(step, "strata", None) or ()),
            }
            for number, step in enumerate(plan.steps)
        ],
        "targets": [target.describe() for target in plan.targets],
    }
