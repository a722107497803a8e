"""Groups: the hierarchy of one variable, drawn by hand, with the risk moving along."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from starlette.responses import HTMLResponse, Response

from sfumato.errors import SfumatoError
from sfumato.schema import Column, Schema
from sfumato.schema.hierarchies import Hierarchy
from sfumato.studio.decisions import get_plan, put_plan
from sfumato.studio.grouping import (
    MOST_LEVELS,
    MOST_VALUES,
    cut_numbers,
    find_borders,
    list_grid,
    read_decimal,
    suggest_borders,
    unite_values,
    write_decimal,
)
from sfumato.studio.texts import say
from sfumato.studio.view import Page, View, get_environment

page = Page("groups")
_LEVELS = 3
"""Levels of groups that categories can have here."""
_PATIENCE_SECONDS = 30.0


@page.show
async def show(view: View) -> Mapping[str, Any]:
    """The values of a variable, and the groups that they are in."""
    name, table = view.query.get("name", ""), view.query.get("table", "")
    column = get_plan(view, table).schema.get(name) or Column()
    values = await view.ask("show_values", name=name, table=table)
    shown: dict[str, Any] = {}
    if values.ready and values.value["form"] == "numbers":
        shown = _show_numbers(values.value, column)
    elif values.ready and values.value["form"] == "categories":
        shown = _show_categories(values.value, column)
    # The step stays Roles.
    return {
        "page": "roles",
        "name": name,
        "table": table,
        "column": column,
        "others": [
            other for other in get_plan(view, table).schema.having("quasi") if other != name
        ],
        "values": values,
        "depth": 0 if column.hierarchy is None else len(next(iter(column.hierarchy.values()), ())),
        "most_levels": MOST_LEVELS,
        "levels": _LEVELS,
        "most": MOST_VALUES,
        **shown,
    }


def _show_numbers(values: Mapping[str, Any], column: Column) -> dict[str, Any]:
    """Ends, step and borders of the numbers; those of the plan where it has some."""
    step = Decimal(1).scaleb(-int(values["decimals"]))
    low, high = (Decimal(repr(values[end])).quantize(step) for end in ("low", "high"))
    if column.bounds is not None:
        low = min(low, Decimal(str(column.bounds[0])).quantize(step))
        high = max(high, Decimal(str(column.bounds[1])).quantize(step))
    try:
        list_grid(low, high, step)
    except SfumatoError as error:
        return {"refused": error}
    declared = column.hierarchy
    try:
        borders = suggest_borders(low, high, step) if declared is None else find_borders(declared)
    except SfumatoError:
        borders = suggest_borders(low, high, step)
    return {
        "refused": None,
        "low": write_decimal(low),
        "high": write_decimal(high),
        "step": write_decimal(step),
        "bars": values["bars"],
        "bars_from": values["low"],
        "bars_to": values["high"] + float(step),
        "tallest": max(values["bars"]),
        "borders": [(write_decimal(border), level) for border, level in borders],
    }


def _show_categories(values: Mapping[str, Any], column: Column) -> dict[str, Any]:
    """The categories and the names of their groups, level by level."""
    declared = column.hierarchy or {}
    rows = []
    for value, count in values["values"]:
        path = [value, *declared.get(value, ())]
        names = [path[level] if level < len(path) and path[level] != path[level - 1] else ""
                 for level in range(1, _LEVELS + 1)]  # fmt: skip
        rows.append({"value": value, "count": count, "names": names})
    return {"rows": rows, "labels": column.labels or {}}


def _read_hierarchy(view: View) -> Hierarchy:
    """The groups that a form describes."""
    if "border" in view.form or view.get("form") == "numbers":
        low, high, step = (read_decimal(view.get(name)) for name in ("low", "high", "step"))
        levels = [int(text) for text in view.get_all("depth")]
        borders = [read_decimal(text) for text in view.get_all("border") if text.strip()]
        return cut_numbers(low, high, step, list(zip(borders, levels, strict=False)))
    names = [view.get_all(f"group{level}") for level in range(1, _LEVELS + 1)]
    return unite_values(view.get_all("value"), names)


@page.action("try")
async def try_groups(view: View) -> Response | None:
    """What these groups would do to the risk, while they are being drawn."""
    values: dict[str, Any] = {"failure": None, "outcome": None}
    try:
        groups = {value: list(row) for value, row in _read_hierarchy(view).items()}
        outcome = await view.ask(
            "try_groups",
            soon=_PATIENCE_SECONDS,
            name=view.get("name"),
            table=view.get("table"),
            hierarchy=groups,
            others=view.get_all("known"),
        )
        values = {"failure": outcome.failure, "outcome": outcome.value}
    except SfumatoError as error:
        values["failure"] = {"what": error.what, "hint": error.hint}
    return HTMLResponse(get_environment().get_template("groups_verdict.html").render(values))


@page.action("save")
async def save(view: View) -> Response | None:
    """Put the groups into the plan."""
    name, table = view.get("name"), view.get("table")
    try:
        _declare(view, name, table, _read_hierarchy(view), say("roles.did.hierarchy", name=name))
    except SfumatoError as error:
        view.flash(f"{error.what} {error.hint}".strip(), tone="bad")
        return _return(view, name, table)
    view.flash(say("groups.saved", name=name))
    return view.go("roles", **({"table": table} if table else {}))


@page.action("remove")
async def remove(view: View) -> Response | None:
    """Take the groups out of the plan."""
    name, table = view.get("name"), view.get("table")
    _declare(view, name, table, None, say("roles.did.no_hierarchy", name=name))
    return _return(view, name, table)


def _return(view: View, name: str, table: str) -> Response:
    return view.go("groups", name=name, **({"table": table} if table else {}))


def _declare(view: View, name: str, table: str, hierarchy: Hierarchy | None, what: str) -> None:
    plan = get_plan(view, table)
    column = replace(plan.schema.get(name) or Column(), hierarchy=hierarchy)
    schema = Schema({**dict(plan.schema), name: column})
    put_plan(view, what, replace(plan, schema=schema), table)
