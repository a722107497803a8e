"""Compare: before and after, models, attacks, and the evidence against the targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from sfumato.errors import PlanError, SfumatoError
from sfumato.studio.drawings import draw_bars, draw_forest
from sfumato.studio.pages.protect import choose_tier, show_trial
from sfumato.studio.texts import say
from sfumato.studio.view import Outcome, Page, View
from sfumato.utility.coefficients import Coefficients

page = Page("compare")
FAMILIES = ("linear", "logistic", "poisson")
_MOST_DRAWN = 24
"""Variables that are drawn at once; the others are a page further."""


@page.show
async def show(view: View) -> Mapping[str, Any]:
    """What the trial of the plan changed, and for whom it is still good enough."""
    if view.session.state.source is None or view.plan is None:
        return {"state": "none", "opened": view.session.state.source is not None}
    trial = await show_trial(view)
    if not trial["tried"].ready:
        return {"state": "untried", **trial}
    tables = list(view.plan.by_table)
    table = view.query.get("table", tables[0])
    table = table if table in tables else tables[0]
    variables = await view.ask("compare_variables", table=table, tier=trial["tier"])
    first = view.query.get("first", "0")
    position = int(first) if first.isdigit() else 0
    drawn = []
    if variables.ready:
        drawn = [
            {**chart, "drawn": draw_bars(chart) if chart["numbers"] else []}
            for chart in variables.value["variables"][position : position + _MOST_DRAWN]
        ]
    attacks = (trial["attacked"].value or {}).get("parts", {})
    return {
        "state": "tried",
        **trial,
        "linked": bool(view.plan.tables),
        "tables": tables,
        "table": table,
        "variables": variables,
        "drawn": drawn,
        "position": position,
        "step": _MOST_DRAWN,
        "parts": attacks,
        "measures": {row["label"]: row["name"] for row in trial["tried"].value["results"]},
        **await _show_model(view, table),
    }


async def _show_model(view: View, table: str) -> dict[str, Any]:
    formula = view.query.get("formula", "").strip()
    family = view.query.get("family", FAMILIES[0])
    family = family if family in FAMILIES else FAMILIES[0]
    values: dict[str, Any] = {"formula": formula, "family": family, "families": FAMILIES,
                              "model": Outcome(), "forest": None, "mistake": None,
                              "kept": False}  # fmt: skip
    if not formula:
        return values
    try:
        Coefficients(formula=formula)
    except SfumatoError as error:
        return values | {"mistake": {"what": error.what, "hint": error.hint}}
    model = await view.ask(
        "compare_model", formula=formula, family=family, table=table, tier=choose_tier(view)
    )
    evaluate = view.plan.get_part(table).evaluate if view.plan is not None else {}
    kept = any(isinstance(item, Coefficients) and item.formula == formula
               for item in evaluate.values())  # fmt: skip
    forest = draw_forest(model.value["terms"]) if model.ready else None
    return values | {"model": model, "forest": forest, "kept": kept}


@page.action("keep_model")
async def keep_model(view: View) -> Response:
    """Measure this model with every trial, and in the report."""
    plan, table = view.plan, view.get("table")
    if plan is None:
        raise PlanError(say("compare.no_plan"))
    measure = Coefficients(formula=view.get("formula"), family=view.get("family"))  # type: ignore[arg-type]
    evaluate = dict(plan.get_part(table).evaluate)
    label, count = Coefficients.name, 2
    while label in evaluate:
        label, count = f"{Coefficients.name}_{count}", count + 1
    changed = plan.replace_part(table, evaluate={**evaluate, label: measure})
    view.change(say("compare.did.model"), plan=changed)
    query = {"formula": measure.formula, "family": measure.family}
    return view.go("compare", **query, **({"table": table} if table else {}))
