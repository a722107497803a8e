"""Groups: the hierarchy of one variable, drawn by hand, with the risk moving along."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from starlette.responses import HTMLResponse, Response

from sfumato.errors import SfumatoError
from sfumato.schema import Column, Schema
from sfumato.schema.hierarchies import CutRanges, Hierarchy
from sfumato.studio.decisions import get_plan, put_plan
from sfumato.studio.grouping import (
    MOST_LEVELS,
    Border,
    build_groups,
    choose_preset,
    cut_into_periods,
    find_borders,
    list_presets,
    require_few,
    suggest_borders,
    write_point,
)
from sfumato.studio.texts import join_sentences, say
from sfumato.studio.view import Page, View, get_environment

page = Page("groups")
_LEVELS = 3
"""Levels of groups that categories can have here."""
_PATIENCE_SECONDS = 30.0
_EPOCH = dt.date(1970, 1, 1)


@page.show
async def show(view: View) -> Mapping[str, Any]:
    """The values of a variable, and the groups that they are in."""
    name, table = view.query.get("name", ""), view.query.get("table", "")
    column = get_plan(view, table).schema.get(name) or Column()
    values = await view.ask("show_values", name=name, table=table)
    shown: dict[str, Any] = {}
    if values.ready and values.value["form"] == "numbers":
        shown = _show_numbers(values.value, column)
    elif values.ready and values.value["form"] == "dates":
        shown = _show_dates(values.value, column, view.query.get("preset", ""))
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
        "presets": {},
        **shown,
    }


def _show_numbers(values: Mapping[str, Any], column: Column) -> dict[str, Any]:
    """Ends, step and borders of the numbers; those of the plan where it has some."""
    step = Decimal(1).scaleb(-int(values["decimals"]))
    observed = [Decimal(repr(values[end])).quantize(step) for end in ("low", "high")]
    spread = [Decimal(repr(end)).quantize(step) for end in values["ends"]]
    bounds = [Decimal(str(end)).quantize(step) for end in _list_bounds(column, days=False)]
    low, high = _choose_ends(observed, spread, bounds)
    return {
        "step": write_point(step),
        "axis": {"low": float(low), "high": float(high), "step": float(step)},
        **_draw(values, column, low, high, lambda: suggest_borders(low, high, step), step),
    }


def _show_dates(values: Mapping[str, Any], column: Column, preset: str) -> dict[str, Any]:
    """The same of days; they can be cut into years, quarters and the like at once."""
    observed = [_EPOCH + dt.timedelta(days=values[end]) for end in ("low", "high")]
    spread = [dt.date.fromisoformat(end) for end in values["ends"]]
    low, high = _choose_ends(observed, spread, _list_bounds(column, days=True))
    presets = list_presets(low, high)
    chosen = preset if preset in presets else ""
    if chosen:
        column = replace(column, hierarchy=None)
    first = chosen or choose_preset(low, high)
    return {
        "step": "1",
        "axis": {"low": (low - _EPOCH).days, "high": (high - _EPOCH).days, "step": 1},
        "presets": presets,
        "preset": chosen or ("" if column.hierarchy else first),
        **_draw(values, column, low, high,
                lambda: cut_into_periods(low, high, first) if first else []),
    }  # fmt: skip


def _list_bounds(column: Column, *, days: bool) -> list[Any]:
    """The declared ends, of the domain or of the groups; none where nobody declared them."""
    ends = list(column.bounds or ())
    if not ends and isinstance(column.hierarchy, CutRanges):
        ends = [column.hierarchy.declaration[end] for end in ("low", "high")]
    ends = [end.date() if isinstance(end, dt.datetime) else end for end in ends]
    return ends if all(isinstance(end, dt.date) == days for end in ends) else []


def _choose_ends(observed: list[Any], spread: list[Any], bounds: list[Any]) -> list[Any]:
    """The declared ends. Where there are none, round ones: the least value is somebody's own."""
    if not bounds:
        return spread
    return [bounds[0] if bounds[0] <= observed[0] else spread[0],
            bounds[1] if bounds[1] >= observed[1] else spread[1]]  # fmt: skip


def _draw(
    values: Mapping[str, Any],
    column: Column,
    low: Any,
    high: Any,
    suggest: Callable[[], list[Border]],
    step: Decimal = Decimal(1),
) -> dict[str, Any]:
    """The bars and the borders; those of the plan where it has some that can be drawn."""
    try:
        require_few(low, high, step)
    except SfumatoError as error:
        return {"refused": error}
    try:
        declared = column.hierarchy
        days = isinstance(low, dt.date)
        borders = suggest() if declared is None else find_borders(declared, days=days)
    except SfumatoError:
        borders = suggest()
    return {
        "refused": None,
        "low": write_point(low),
        "high": write_point(high),
        "bars": values["bars"],
        "bars_from": values["low"],
        "bars_to": values["high"] + float(step),
        "tallest": max(values["bars"]),
        "borders": [(write_point(border), level) for border, level in borders],
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


def _read_drawing(view: View) -> dict[str, Any]:
    """What a form describes, as `build_groups` takes it."""
    form = view.get("form")
    if form == "categories":
        names = [view.get_all(f"group{level}") for level in range(1, _LEVELS + 1)]
        return {"form": form, "values": view.get_all("value"), "names": names}
    borders = [[text, level] for text, level in zip(view.get_all("border"), view.get_all("depth"),
                                                    strict=False) if text.strip()]  # fmt: skip
    return {"form": form, **{name: view.get(name) for name in ("low", "high", "step")},
            "borders": borders}  # fmt: skip


@page.action("try")
async def try_groups(view: View) -> Response | None:
    """What these groups would do to the risk, while they are being drawn."""
    values: dict[str, Any] = {"failure": None, "outcome": None}
    try:
        outcome = await view.ask(
            "try_groups",
            soon=_PATIENCE_SECONDS,
            name=view.get("name"),
            table=view.get("table"),
            drawing=_read_drawing(view),
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
        hierarchy = build_groups(_read_drawing(view))
        _declare(view, name, table, hierarchy, say("roles.did.hierarchy", name=name))
    except SfumatoError as error:
        view.flash(join_sentences(error.what, error.hint), tone="bad")
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
