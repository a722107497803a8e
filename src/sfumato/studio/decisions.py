"""The plan of one table, whether it is the only one or one of several."""

from __future__ import annotations

from dataclasses import replace

from sfumato.errors import PlanError
from sfumato.plan import Plan
from sfumato.studio.view import View


def get_plan(view: View, table: str = "") -> Plan:
    """The plan of a table; of the only one where there is one."""
    plan = view.plan
    if plan is None:
        raise PlanError(
            "The keys between these tables are not set yet.",
            hint="accept or correct the keys between them under Roles.",
        )
    if table not in plan.by_table:
        raise PlanError("There is no such table in the plan.")
    return plan.by_table[table]


def put_plan(view: View, what: str, plan: Plan, table: str = "") -> None:
    """Go on with another plan for a table."""
    whole = view.plan
    if whole is None or not whole.tables:
        view.change(what, plan=plan)
    else:
        tables = {**whole.tables, table: plan}
        view.change(f"{table}: {what}", plan=replace(whole, tables=tables))
