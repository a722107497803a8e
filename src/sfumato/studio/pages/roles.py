"""Roles: what each variable gives away, decided by a person; suggestions come with reasons."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from starlette.responses import Response

from sfumato.data.linked import ForeignKey, Structure, split_name
from sfumato.errors import PlanError, SchemaError
from sfumato.plan import Plan
from sfumato.plan.targets import read_targets
from sfumato.profiles import Profile, list_profiles, load_profile
from sfumato.schema import KINDS, ROLES, Column, Schema
from sfumato.studio.decisions import get_plan, put_plan
from sfumato.studio.pages.data import draw
from sfumato.studio.paging import cut_page, read_number
from sfumato.studio.source import parse_plan
from sfumato.studio.texts import say
from sfumato.studio.view import Outcome, Page, View
from sfumato.suggestion.first_linked import declare_keys, find_joined_tables

page = Page("roles")
_NUMBERS = ("continuous", "integer")
_OFFERED = 400
"""Variables that are offered as ends of a key."""
_OPEN = "open"


@page.show
async def show(view: View) -> Mapping[str, Any]:
    """Every variable with its role, or with the suggestion that waits for a decision."""
    source = view.session.source
    linked = await _show_keys(view) if source.linked else {}
    table = linked.get("table", "")
    if view.plan is None:
        return {"linked": True, **linked, "suggested": None, "waiting_for_keys": True}
    suggested = await view.ask("suggest_roles", table=table)
    rows = list_rows(view, suggested.value, table) if suggested.ready else []
    open_rows = [row for row in rows if row["role"] is None]
    building = await view.peek("build_first_plan", profile=_get_profile(view))
    return {
        "linked": source.linked,
        **linked,
        "table": table,
        "waiting_for_keys": False,
        "suggested": suggested,
        "rows": _choose_rows(view, rows),
        "counts": _count_roles(rows),
        "open_names": [row["name"] for row in open_rows],
        "offers": [row for row in open_rows if row["offer"].role],
        "open_elsewhere": await _count_open_elsewhere(view, table),
        "roles": ROLES,
        "kinds": KINDS,
        "query": view.query,
        **_show_profile(view),
        "building": building,
        "step_count": _count_steps(view),
        "built": _is_built(view, building),
    }


# What is shown ------------------------------------------------------------------------------------


def list_rows(view: View, suggested: Mapping[str, Any], table: str) -> list[dict[str, Any]]:
    """Each variable of a table: what is decided, what is suggested, and why."""
    plan = get_plan(view, table)
    offers = read_suggestions(suggested)
    keys = _list_keys(view, table)
    rows = []
    for name, facts in suggested["variables"].items():
        column = plan.schema.get(name) or Column()
        rows.append(
            {
                "name": name,
                **facts,
                "label": column.label or facts["label"],
                "role": column.role,
                "declared_kind": column.kind,
                "accessibility": column.accessibility,
                "levels": 0 if column.hierarchy is None else _count_levels(column),
                "key": name in keys,
                "offer": offers[name],
                "offered": describe_offer(offers[name]),
            }
        )
    return rows


def _count_levels(column: Column) -> int:
    return len(next(iter((column.hierarchy or {}).values()), ()))


def read_suggestions(suggested: Mapping[str, Any]) -> Schema:
    """What was suggested, as a schema."""
    plan = Plan.parse(suggested["plan"])
    names = suggested["variables"]
    return Schema({name: plan.schema.get(name) or Column() for name in names})


def describe_offer(column: Column) -> list[str]:
    """What accepting a suggestion sets besides the role, in words."""
    lines = []
    if column.kind:
        lines.append(say("roles.offer.kind", kind=column.kind))
    if column.bounds is not None:
        low, high = column.bounds
        lines.append(say("roles.offer.bounds", low=low, high=high))
    elif column.levels:
        lines.append(say("roles.offer.levels", count=len(column.levels)))
    if column.missing:
        lines.append(say("roles.offer.missing", codes=", ".join(map(str, column.missing))))
    if column.identity:
        lines.append(say("roles.offer.identity"))
    if column.cells:
        lines.append(say("roles.offer.cells", cells=column.cells))
    return lines


def _list_keys(view: View, table: str) -> list[str]:
    plan = view.plan
    return [] if plan is None else plan.list_key_variables(table)


def _choose_rows(view: View, rows: Sequence[dict[str, Any]]) -> Any:
    """The variables that are looked for, a page of them."""
    search, only = view.query.get("search", "").casefold(), view.query.get("only", "")
    chosen = [
        row
        for row in rows
        if (search in row["name"].casefold() or search in row["label"].casefold())
        and (not only or only == (row["role"] or _OPEN))
    ]
    return cut_page(chosen, read_number(view.query, "at"))


def _count_roles(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    counts: dict[str, int] = {_OPEN: 0}
    for row in rows:
        role = row["role"] or _OPEN
        counts[role] = counts.get(role, 0) + 1
    return counts


async def _count_open_elsewhere(view: View, table: str) -> dict[str, int]:
    """For each other table how many variables nobody has decided on."""
    plan = view.plan
    if plan is None or not plan.tables:
        return {}
    links = await view.ask("suggest_links")
    if not links.ready:
        return {}
    counts = {}
    for name, own in plan.tables.items():
        variables = links.value["tables"][name]["variables"]
        undecided = [v for v in variables if v not in own.schema or own.schema[v].role is None]
        if name != table and undecided:
            counts[name] = len(undecided)
    return counts


def _get_profile(view: View) -> str:
    plan = view.plan
    return "" if plan is None else plan.profile or ""


def _show_profile(view: View) -> dict[str, Any]:
    """The profile of the plan, the one that is looked at, and what it asks for."""
    plan, profiles = view.plan, list_profiles()
    own = _get_profile(view)
    return {
        "profiles": profiles,
        "profile": own,
        "looked_at": profiles.get(view.query.get("profile", own)),
        "weaker": () if plan is None else plan.list_weaker(),
    }


def _count_steps(view: View) -> int:
    plan = view.plan
    return 0 if plan is None else sum(len(plan.get_part(part).steps) for part in plan.parts)


def _is_built(view: View, building: Outcome) -> bool:
    """Whether the plan has the steps that were built already."""
    if not building.ready:
        return False
    built = parse_plan(building.value["plan"], linked=view.session.source.linked)
    plan = view.plan
    if built is None or plan is None or built.parts != plan.parts:
        return False
    return all(plan.get_part(p).steps == built.get_part(p).steps for p in plan.parts)


# Roles --------------------------------------------------------------------------------------------


def _go_back(view: View) -> Response:
    kept = ("table", "search", "only", "at")
    return view.go("roles", **{name: view.get(name) for name in kept if view.get(name)})


def _declare(view: View, table: str, columns: Mapping[str, Column], what: str) -> None:
    """Lay declarations over those of the plan; a key keeps what it is."""
    plan = get_plan(view, table)
    refused = [name for name in columns if name in _list_keys(view, table)]
    if refused:
        raise PlanError(f"'{refused[0]}' is a key, and leaves as a pseudonym anyway.")
    schema = Schema({**dict(plan.schema), **columns})
    put_plan(view, what, replace(plan, schema=schema), table)


@page.action("role")
async def set_role(view: View) -> Response | None:
    """Decide on role, kind and accessibility of one variable."""
    table, name = view.get("table"), view.get("name")
    column = get_plan(view, table).schema.get(name) or Column()
    role, kind = view.get("role") or None, view.get("kind") or None
    changes: dict[str, Any] = {"role": role, "kind": kind}
    if kind != column.kind and column.domain is not None:
        changes["domain"] = None  # that of another kind
    if view.get("accessibility") != view.get("accessibility_was"):
        changes["accessibility"] = float(view.get("accessibility"))
    words = say("roles.did.role", name=name, role=role or say("roles.open"))
    if role == column.role:
        words = say("roles.did.kind", name=name)
    _declare(view, table, {name: replace(column, **changes)}, words)
    return _go_back(view)


@page.action("accept")
async def accept(view: View) -> Response | None:
    """Accept the suggestion for one variable."""
    table, name = view.get("table"), view.get("name")
    offers = await _get_suggestions(view, table)
    column = _lay_over(get_plan(view, table), name, offers[name])
    _declare(view, table, {name: column}, say("roles.did.accept", name=name))
    return _go_back(view)


@page.action("accept_all")
async def accept_all(view: View) -> Response | None:
    """Accept all suggestions of a table; what was decided and what nothing speaks for stays."""
    table = view.get("table")
    plan, keys = get_plan(view, table), _list_keys(view, table)
    offers = await _get_suggestions(view, table)
    taken = {
        name: _lay_over(plan, name, offer)
        for name, offer in offers.items()
        if offer.role and name not in keys and (plan.schema.get(name) or Column()).role is None
    }
    _declare(view, table, taken, say("roles.did.accept_all", count=len(taken)))
    left = [n for n in offers if n not in taken and n not in keys
            and (plan.schema.get(n) or Column()).role is None]  # fmt: skip
    view.flash(say("roles.accepted", count=f"{len(taken):,}"))
    if left:
        view.flash(say("roles.left_open", count=f"{len(left):,}"), tone="warn")
    return _go_back(view)


@page.action("set_shown")
async def set_shown(view: View) -> Response | None:
    """Give all variables that a search finds one role."""
    table, role = view.get("table"), view.get("role") or None
    suggested = await view.ask("suggest_roles", table=table)
    if not suggested.ready:
        return _go_back(view)
    rows = list_rows(view, suggested.value, table)
    search, only = view.get("search").casefold(), view.get("only")
    plan = get_plan(view, table)
    taken = {
        row["name"]: replace(plan.schema.get(row["name"]) or Column(), role=role)
        for row in rows
        if (search in row["name"].casefold() or search in row["label"].casefold())
        and (not only or only == (row["role"] or _OPEN))
        and not row["key"]
    }
    words = say("roles.did.several", count=len(taken), role=role or say("roles.open"))
    _declare(view, table, taken, words)
    return view.go("roles", **({"table": table} if table else {}))


async def _get_suggestions(view: View, table: str) -> Schema:
    suggested = await view.ask("suggest_roles", soon=5.0, table=table)
    if not suggested.ready:
        raise PlanError("The suggestions are not there yet.", hint="wait a moment.")
    return read_suggestions(suggested.value)


def _lay_over(plan: Plan, name: str, offer: Column) -> Column:
    """The suggestion where nothing is decided."""
    declared = plan.schema.get(name) or Column()
    known = {key: value for key, value in vars(declared).items() if value not in (None, (), "")}
    return Column(**{**vars(offer), **known})


# Details of one variable --------------------------------------------------------------------------


@page.part("variable")
async def show_variable(view: View) -> Mapping[str, Any]:
    """Label, unit, domain, missing codes and labels of a variable, for the dialog."""
    table, name = view.query.get("table", ""), view.query.get("name", "")
    suggested = await view.ask("suggest_roles", soon=5.0, table=table)
    column = get_plan(view, table).schema.get(name) or Column()
    facts = {**dict.fromkeys(("reason", "label", "type", "kind"), "")}
    if suggested.ready:
        facts |= suggested.value["variables"].get(name, {})
    return {
        "name": name,
        "table": table,
        "column": column,
        "facts": facts,
        "kind": column.kind or facts["kind"],
        "numbers": _NUMBERS,
        "levels": _count_levels(column) if column.hierarchy else 0,
    }


@page.action("details")
async def set_details(view: View) -> Response | None:
    """Label, unit, domain, missing codes and labels of a variable."""
    table, name = view.get("table"), view.get("name")
    column = get_plan(view, table).schema.get(name) or Column()
    kind, text = view.get("kind"), view.get("type") == "text"
    domain = read_domain(kind, view)
    changes: dict[str, Any] = {
        "label": view.get("label").strip(),
        "unit": view.get("unit").strip(),
        "domain": domain,
        "missing": tuple(read_code(code, text=text) for code in _split(view.get("missing"), ",")),
        "labels": read_labels(view.get("labels")),
    }
    if domain is not None and column.kind is None:
        changes["kind"] = kind
    words = say("roles.did.details", name=name)
    _declare(view, table, {name: replace(column, **changes)}, words)
    return _go_back(view)


def _split(text: str, sign: str) -> list[str]:
    return [part.strip() for part in text.split(sign) if part.strip()]


def read_code(code: str, *, text: bool) -> Any:
    """A code for missing: a number, unless the variable is text.

    Examples
    --------
    >>> read_code("-9", text=False), read_code("9.5", text=False), read_code("-9", text=True)
    (-9, 9.5, '-9')
    """
    if not text:
        for convert in (int, float):
            try:
                return convert(code)
            except ValueError:
                continue
    return code


def read_domain(kind: str, view: View) -> tuple[Any, ...] | None:
    """The domain as a form gives it: two ends, or a level a line; None where it is empty."""
    if kind not in (*_NUMBERS, "date"):
        return tuple(_split(view.get("levels"), "\n")) or None
    ends = [view.get("low").strip(), view.get("high").strip()]
    if not any(ends):
        return None
    if not all(ends):
        raise SchemaError("A domain has a lowest and a highest value.", hint="give both, or none.")
    try:
        if kind == "date":
            return tuple(dt.date.fromisoformat(end) for end in ends)
        return tuple(int(end) if end.lstrip("-").isdigit() else float(end) for end in ends)
    except ValueError:
        raise SchemaError("These are not the ends of a domain.", hint="write numbers, or dates as "
                          "2020-12-31.") from None  # fmt: skip


def read_labels(text: str) -> dict[str, str] | None:
    """What codes stand for, a line each: `1 = male`."""
    labels = {}
    for line in _split(text, "\n"):
        code, sign, words = line.partition("=")
        if not sign or not code.strip() or not words.strip():
            raise SchemaError("A label is written as: code = text.", hint="one on each line.")
        labels[code.strip()] = words.strip()
    return labels or None


# Profile ------------------------------------------------------------------------------------------


@page.action("profile")
async def choose_profile(view: View) -> Response | None:
    """Let the plan meet a profile: its targets take the place of those of the one before."""
    plan, name = view.plan, view.get("profile") or None
    if plan is None:
        raise PlanError("There is no plan yet.", hint="accept the keys between the tables first.")
    bare = drop_profile(plan)
    view.change(
        say("roles.did.profile", name=name or say("roles.profile.none")),
        plan=replace(bare, profile=name),
    )
    if name is not None:
        count = len(load_profile(name).targets)
        view.flash(say("roles.profile.set", count=count, name=name))
    return view.go("roles")


def drop_profile(plan: Plan) -> Plan:
    """The plan without its profile and what that asked for; targets of one's own stay.

    Examples
    --------
    >>> drop_profile(Plan(profile="ema-0070", targets={"k.min": 20})).targets
    (Target(name='k', least=20.0, most=None),)
    """
    if plan.profile is None:
        return plan
    profile = load_profile(plan.profile)
    tables = {name: _drop_asked(own, profile) for name, own in plan.tables.items()}
    return replace(_drop_asked(plan, profile), tables=tables)


def _drop_asked(plan: Plan, profile: Profile) -> Plan:
    asked = read_targets(profile.targets)
    own = tuple(target for target in plan.targets if target not in asked)
    measures = {n: m for n, m in plan.evaluate.items() if n not in profile.evaluate}
    return replace(plan, targets=own, evaluate=measures, profile=None)


# First plan ---------------------------------------------------------------------------------------


@page.action("build")
async def build(view: View) -> Response | None:
    """Ask for a first plan from these roles; it is shown before it is used."""
    await view.ask("build_first_plan", profile=_get_profile(view))
    return view.go("roles")


@page.action("use")
async def use_built(view: View) -> Response | None:
    """Go on with the first plan that was built."""
    building = await view.peek("build_first_plan", profile=_get_profile(view))
    if not building.ready:
        raise PlanError("The first plan is not there yet.", hint="wait a moment.")
    plan, text = view.plan, building.value["plan"]
    built = parse_plan(text, linked=view.session.source.linked)
    if built is not None and plan is not None:
        built = replace(built, release=plan.release, read={**built.read, **plan.read})
    view.change(say("roles.did.built"), plan=built)
    steps = [step["name"] for step in building.value["steps"]]
    view.flash(
        say("roles.build.used", steps=", ".join(dict.fromkeys(steps)) or say("roles.build.no_step"),
            targets="; ".join(building.value["targets"]) or say("roles.build.no_target"))
    )  # fmt: skip
    return view.go("protect")


# Keys between several tables ----------------------------------------------------------------------


async def _show_keys(view: View) -> dict[str, Any]:
    """The keys of the plan, or those that are suggested, and which table is looked at."""
    links = await view.ask("suggest_links")
    if not links.ready:
        return {"links": links, "drawing": None, "tables": [], "table": "", "keys": []}
    plan = view.plan
    suggested = {key: (target, reason) for key, target, reason in links.value["keys"]}
    if plan is not None:
        keys = [[str(key), key.target, ""] for key in plan.keys]
        keys += [[key, *rest] for key, rest in suggested.items()
                 if key not in {str(own) for own in plan.keys}]  # fmt: skip
        tables, person = list(plan.tables), plan.person
    else:
        keys = [[key, *rest] for key, rest in suggested.items()]
        tables, person = list(links.value["tables"]), links.value["person"]
    asked = view.query.get("table", "")
    ends = [f"{name}.{variable}" for name, facts in links.value["tables"].items()
            for variable in facts["variables"]]  # fmt: skip
    checks = await view.ask("check_links", keys=[key[:2] for key in keys])
    return {
        "links": links,
        "drawing": await draw(view, links.value),
        "accepted": plan is not None,
        "in_use": set(suggested) if plan is None else {str(key) for key in plan.keys},
        "keys": keys,
        "checks": checks.value if checks.ready else {},
        "person": person or "",
        "ends": ends[:_OFFERED],
        "tables": tables,
        "table": asked if asked in tables else tables[0],
    }


@page.action("keys")
async def set_keys(view: View) -> Response | None:
    """Accept or correct the keys between tables, and say which variable is the person."""
    links = await view.ask("suggest_links", soon=5.0)
    if not links.ready:
        raise PlanError("The tables are not read yet.", hint="wait a moment.")
    pairs = [text.split(" → ", 1) for text in view.get_all("key")]
    if view.get("from").strip():
        pairs.append([view.get("from").strip(), view.get("to").strip()])
    keys = [ForeignKey.parse(*pair) for pair in pairs]
    person = view.get("person").strip()
    split_name(person)
    available = links.value["tables"]
    for table, variable in [
        *((key.table, key.variable) for key in keys),
        *((key.to_table, key.to_variable) for key in keys),
        split_name(person),
    ]:
        if table not in available or variable not in available[table]["variables"]:
            raise PlanError(f"There is no variable '{table}.{variable}'.", hint="choose another.")
    joined = find_joined_tables(keys, person)
    names = [name for name in available if name in joined]
    kept = [key for key in keys if {key.table, key.to_table} <= joined]
    structure = Structure(tuple(names), tuple(kept), split_name(person))
    old = view.plan
    tables = {name: _plan_keys(structure, name, old) for name in names}
    if old is None:
        files = {name: file for name, file in links.value["files"].items() if name in names}
        plan = Plan(tables=tables, keys=kept, person=person, files=files)
    else:
        plan = replace(old, tables=tables, keys=tuple(kept), person=person)
    view.change(say("roles.did.keys"), plan=plan)
    left = [name for name in available if name not in joined]
    view.flash(say("roles.keys.set", count=len(kept), person=person))
    if left:
        view.flash(say("roles.keys.left_out", tables=", ".join(left)), tone="warn")
    return view.go("roles")


def _plan_keys(structure: Structure, name: str, old: Plan | None) -> Plan:
    """The plan of a table with the roles of its keys; what was a key and is none is open again."""
    keys = declare_keys(structure, name)
    if old is None or name not in old.tables:
        return Plan(schema=keys)
    own = old.tables[name]
    were = set(old.structure.list_key_variables(name))
    others = {v: column for v, column in own.schema.items() if v not in were and v not in keys}
    return replace(own, schema=Schema({**keys, **others}))


@page.action("keys_again")
async def begin_again(view: View) -> Response | None:
    """Forget keys and roles, and begin with the suggestions; it can be undone."""
    view.change(say("roles.did.keys_again"), plan="")
    return view.go("roles")
