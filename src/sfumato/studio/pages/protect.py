"""Protect: the plan as cards, what must hold, a trial, a search, branches, and the plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from starlette.responses import HTMLResponse, Response

from sfumato import catalogue
from sfumato.catalogue import Entry, first_line, parameters_of
from sfumato.errors import PlanError, SfumatoError
from sfumato.measure import Measure
from sfumato.method import Method
from sfumato.parameters import list_settings
from sfumato.plan import WHOLE, Plan
from sfumato.plan.targets import Target, measures_for
from sfumato.profiles import load_profile
from sfumato.report.measured import describe_target
from sfumato.report.variables import describe_steps
from sfumato.report.wording import format_label, format_result, is_share
from sfumato.run.joined import JOINED
from sfumato.studio.drawings import draw_map
from sfumato.studio.forms import Field, list_fields, read_form
from sfumato.studio.source import parse_plan
from sfumato.studio.tasks.protect import drop_variables
from sfumato.studio.texts import join_sentences, say
from sfumato.studio.view import Outcome, Page, View, get_environment, render

page = Page("protect")
TABS = ("plan", "search", "noise", "branches", "text")
_CHECK_SECONDS = 1.5
"""How long somebody who types waits for what a trial on some records shows."""
_SEARCH = "last-search"
_LEADING = 5
"""Fields that a form shows in any case: whoever writes a method puts what matters first."""
_FOLDED = 3
"""Fields that are folded away at least; fewer may as well be shown."""
_MOST_SHOWN = 40
"""Variables that a card names; of more it says how many."""


@page.show
async def show(view: View) -> Mapping[str, Any]:
    """The plan as cards, what must hold, and what a trial came to; or another tab."""
    if view.session.state.source is None or view.plan is None:
        return {"tab": "none", "opened": view.session.state.source is not None}
    tab = view.query.get("tab") or view.get("tab") or TABS[0]
    tab = tab if tab in TABS else TABS[0]
    linked = bool(view.plan.tables)
    values: dict[str, Any] = {"tab": tab, "tabs": TABS, "linked": linked}
    if tab == "search":
        return values | await _show_search(view)
    if tab == "noise":
        return values | await _show_noise(view)
    if tab == "branches":
        return values | await _show_branches(view)
    if tab == "text":
        return values | _show_text(view)
    return values | await show_trial(view) | _show_plan(view, await peek_trial(view))


def _require_plan(view: View) -> Plan:
    plan = view.plan
    if plan is None:
        raise PlanError(say("protect.no_plan"))
    return plan


# The plan ----------------------------------------------------------------------------------------


def _show_plan(view: View, tried: Outcome) -> dict[str, Any]:
    plan = _require_plan(view)
    own = frozenset(load_profile(plan.profile).targets if plan.profile else ())
    measured = {(row["measure"], row["target"]): row for row in
                (tried.value or {}).get("targets", ())}  # fmt: skip
    parts = [
        {
            "name": name,
            "title": _title_part(plan, name),
            "steps": [
                _describe_card(step, position, plan, name)
                for position, step in enumerate(plan.get_part(name).steps)
            ],
            "targets": _list_targets(plan, name, own, measured),
            "measures": _list_measures(plan.get_part(name)),
        }
        for name in plan.parts
    ]
    return {"parts": parts, "weaker": plan.list_weaker(), "without_roles": _lacks_roles(plan)}


def _lacks_roles(plan: Plan) -> bool:
    return not any(len(table.schema) for table in plan.by_table.values())


def _title_part(plan: Plan, name: str) -> str:
    if not plan.tables:
        return ""
    return say("protect.table", name=name) if name else say("protect.over_all")


def _describe_card(step: Method, position: int, plan: Plan, part: str) -> dict[str, Any]:
    settings = list_settings(step)
    described = describe_steps(
        {"methods": [{"method": step.name, **settings}], "variables": {}}, None
    )[0]
    defaults = {item.name: item.default for item in parameters_of(type(step))}
    changed = {
        format_label(name): format_result(value)
        for name, value in settings.items()
        if name != "variables" and value not in ([], {}) and value != defaults[name]
    }
    return {
        "position": position,
        "method": step.name,
        "title": format_label(step.name),
        "sentence": described["sentence"],
        "settings": changed,
        **_list_treated(step, position, plan, part),
    }


def _list_treated(step: Method, position: int, plan: Plan, part: str) -> dict[str, Any]:
    """The variables that a step names, or those that roles give it."""
    named = list(getattr(step, "variables", None) or ())
    own, names = plan.get_part(part), named
    if not own.tables:
        try:
            names = list(step.touches(drop_variables(own.schema, own.steps[:position])))
        except SfumatoError:
            names = named
    # Keys leave as pseudonyms, whatever the steps say.
    keys = plan.list_key_variables(part) if part else []
    names = [name for name in names if name not in keys]
    return {
        "treats": names[:_MOST_SHOWN],
        "more": len(names[_MOST_SHOWN:]),
        "by_role": not named,
    }


def _list_targets(
    plan: Plan,
    part: str,
    own: frozenset[str],
    measured: Mapping[tuple[str, str], Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """What must hold, with what the last trial of this very plan has found."""
    rows = []
    prefix = f"{part}." if part else f"{JOINED}." if plan.tables else ""
    for target in plan.get_part(part).targets:
        found = next((row for (label, name), row in measured.items()
                      if name == target.name and label.startswith(prefix)), None)  # fmt: skip
        measure = find_measure(target.name, plan.get_part(part))
        stated = {"target": target.name, **target.plain(), "measure": measure, "value": None,
                  "met": True}  # fmt: skip
        described = describe_target(stated, {measure: {"name": measure}})
        rows.append(
            {
                "name": target.name,
                "title": format_label(target.name),
                "question": described["question"],
                "asked": described["asked"],
                "measure": measure,
                "found": found,
                "profile": target.name in own,
            }
        )
    return rows


def find_measure(number: str, plan: Plan) -> str:
    """The name of the measure that gives a number on which a target is set; empty: none does."""
    label, _, last = number.rpartition(".")
    if number in plan.evaluate:
        return plan.evaluate[number].name
    if label in plan.evaluate:
        return plan.evaluate[label].name
    for name, entry in catalogue.measures().items():
        if label in ("", name) and entry.find_number(last) is not None:
            return name
    return ""


def _list_measures(plan: Plan) -> list[dict[str, Any]]:
    """The measures that the plan names, and those that targets and steps bring."""
    rows = []
    for label, measure in {**plan.measures, **plan.evaluate}.items():
        defaults = {item.name: item.default for item in parameters_of(type(measure))}
        settings = {
            format_label(name): format_result(value)
            for name, value in list_settings(measure).items()
            if value not in ([], {}) and value != defaults[name]
        }
        rows.append(
            {
                "label": label,
                "title": format_label(label),
                "name": measure.name,
                "line": first_line(type(measure)),
                "room": measure.room(),
                "settings": settings,
                "own": label in plan.evaluate,
            }
        )
    return rows


# A trial -----------------------------------------------------------------------------------------


def choose_tier(view: View) -> str:
    """The tier that is tried: the one that was chosen, else the one for everybody."""
    plan = view.plan
    if plan is None or not plan.tiers:
        return ""
    asked = view.query.get("tier") or view.get("tier")
    return asked if asked in plan.tiers else list(plan.tiers)[-1]


async def peek_trial(view: View) -> Outcome:
    """What came of trying the plan as it stands; nobody is set to work."""
    return await view.peek("try_plan", tier=choose_tier(view))


async def show_trial(view: View) -> dict[str, Any]:
    """What the trial came to; the attacks follow by themselves when all targets hold."""
    tried, attacked = await peek_trial(view), Outcome()
    if tried.ready and tried.value["met"]:
        attacked = await view.ask("attack_release", tier=choose_tier(view))
    plan = view.plan
    tiers = [] if plan is None else list(plan.tiers)
    return {"tried": tried, "attacked": attacked, "tier": choose_tier(view), "tiers": tiers}


@page.action("try")
async def try_it(view: View) -> Response | None:
    """Carry out the plan in the worker process."""
    await view.start("try_plan", tier=choose_tier(view))
    back, tier = view.get("back") or "protect", choose_tier(view)
    return view.go(back, **({"tier": tier} if tier else {}))


# Steps -------------------------------------------------------------------------------------------


async def _list_variables(view: View, part: str) -> list[str]:
    """The variables of a part; before the data were read, those that the plan declares."""
    known = await view.ask("list_variables")
    if known.ready:
        return [row["name"] for row in known.value.get(part, ())]
    plan = _require_plan(view).get_part(part)
    if not plan.tables:
        return list(plan.schema)
    return [f"{table}.{name}" for table, own in plan.tables.items() for name in own.schema]


@page.part("methods")
async def choose_method(view: View) -> Mapping[str, Any]:
    """All methods, by what they do to the data."""
    part = view.query.get("part", WHOLE)
    groups: dict[str, list[dict[str, str]]] = {"records": [], "rule": [], "chance": []}
    for name, entry in _require_plan(view).list_methods(part).items():
        kind = "records" if entry.treats == "records" else "chance" if entry.keyed else "rule"
        groups[kind].append({"name": name, "title": format_label(name), "line": first_line(entry)})
    return {"groups": {kind: rows for kind, rows in groups.items() if rows}, "part": part}


@page.part("step")
async def edit_step(view: View) -> Mapping[str, Any]:
    """The form of a step that stands in the plan, or of a new one."""
    part, plan = view.query.get("part", WHOLE), _require_plan(view)
    variables = await _list_variables(view, part)
    if "method" in view.query:
        entry = _find_method(plan, part, view.query["method"])
        settings, position = {}, len(plan.get_part(part).steps)
    else:
        position = _read_position(view.query.get("position", ""), plan.get_part(part).steps)
        step = plan.get_part(part).steps[position]
        entry, settings = type(step), list_settings(step)
    return {
        "part": part,
        "position": position,
        "new": "method" in view.query,
        "method": entry.name,
        "title": format_label(entry.name),
        "line": first_line(entry),
        **_sort_fields(entry, settings, variables),
    }


def _sort_fields(
    entry: Entry, settings: Mapping[str, Any], variables: Sequence[str]
) -> dict[str, Any]:
    """What must or was given first, then the rest: a form of twelve fields stops people."""
    fields = list_fields(entry, settings, variables)
    strength = getattr(entry, "strength", None)
    turned = "" if strength is None else strength.parameter
    leading = [item.name for item in fields[:_LEADING]]

    def matters(item: Field) -> bool:
        given = item.name in settings and item.value != item.default
        return item.required or given or item.name in (*leading, turned)

    first = [item for item in fields if matters(item)]
    rest = [item for item in fields if not matters(item)]
    if len(rest) < _FOLDED:
        return {"first": fields, "rest": []}
    return {"first": first, "rest": rest}


def _find_method(plan: Plan, part: str, name: str) -> type[Method]:
    methods = plan.list_methods(part)
    if name not in methods:
        raise PlanError(say("protect.no_method"))
    return methods[name]


def _read_position(text: str, steps: Sequence[Any]) -> int:
    if not text.isdigit() or int(text) >= len(steps):
        raise PlanError(say("protect.no_step"))
    return int(text)


def _read_step(view: View) -> tuple[Plan, str, int, Method]:
    """The plan with the step of a form in it, and where it stands."""
    plan, part = _require_plan(view), view.get("part")
    steps = plan.get_part(part).steps
    entry = _find_method(plan, part, view.get("step"))
    step = entry(**read_form(entry, view.form, before="field-"))
    new = view.get("new") == "1"
    position = len(steps) if new else _read_position(view.get("position"), steps)
    changed = [*steps[:position], step, *steps[position + 1 :]]
    return plan.replace_part(part, steps=changed), part, position, step


@page.action("check_step")
async def check_step(view: View) -> Response:
    """Whether a step is possible, while somebody types."""
    try:
        _, part, position, step = _read_step(view)
    except SfumatoError as error:
        return _answer("bad", error.what, error.hint)
    known = await view.ask(
        "check_step",
        soon=_CHECK_SECONDS,
        part=part,
        position=position,
        method=step.name,
        settings=list_settings(step),
    )
    if known.failure:
        return _answer("bad", known.failure["what"], known.failure["hint"])
    if not known.ready:
        return _answer("good", say("protect.check.formally"))
    if known.value["trouble"]:
        some = say("protect.check.trouble", records=f"{known.value['records']:,}")
        return _answer("warn", some, known.value["trouble"])
    names = known.value["treats"]
    treats = ", ".join(names[:_MOST_SHOWN]) or say("protect.check.nothing")
    key = "protect.check.possible" if names else "protect.check.no_variable"
    return _answer("good" if names else "warn", say(key, variables=treats))


def _answer(tone: str, what: str, hint: str = "") -> Response:
    template = get_environment().get_template("protect_verdict.html")
    return HTMLResponse(template.render(tone=tone, what=what, hint=hint))


@page.action("save_step")
async def save_step(view: View) -> None:
    """Put a step into the plan, or change one."""
    plan, _, _, step = _read_step(view)
    key = "protect.did.added" if view.get("new") == "1" else "protect.did.changed"
    view.change(say(key, method=format_label(step.name)), plan=plan)


@page.action("remove_step")
async def remove_step(view: View) -> None:
    """Take a step out of the plan."""
    plan, part = _require_plan(view), view.get("part")
    steps = list(plan.get_part(part).steps)
    step = steps.pop(_read_position(view.get("position"), steps))
    what = say("protect.did.removed", method=format_label(step.name))
    view.change(what, plan=plan.replace_part(part, steps=steps))


@page.action("copy_step")
async def copy_step(view: View) -> None:
    """The same step once more, behind the first; it is there to be changed."""
    plan, part = _require_plan(view), view.get("part")
    steps = list(plan.get_part(part).steps)
    position = _read_position(view.get("position"), steps)
    steps.insert(position + 1, steps[position])
    what = say("protect.did.copied", method=format_label(steps[position].name))
    view.change(what, plan=plan.replace_part(part, steps=steps))


@page.action("move_step")
async def move_step(view: View) -> None:
    """Carry out a step earlier or later."""
    plan, part = _require_plan(view), view.get("part")
    steps = list(plan.get_part(part).steps)
    start = _read_position(view.get("position"), steps)
    end = _read_position(view.get("to"), steps)
    if start == end:
        return
    step = steps.pop(start)
    steps.insert(end, step)
    what = say("protect.did.moved", method=format_label(step.name), number=end + 1)
    view.change(what, plan=plan.replace_part(part, steps=steps))


# Targets -----------------------------------------------------------------------------------------


@page.part("target")
async def edit_target(view: View) -> Mapping[str, Any]:
    """The form of a target: a number that some measure gives, and its bounds."""
    part, plan = view.query.get("part", WHOLE), _require_plan(view)
    own = plan.get_part(part)
    name = view.query.get("name", "")
    stands = next((target for target in own.targets if target.name == name), None)
    chosen = {target.name for target in own.targets}
    groups = []
    for measure, entry in catalogue.measures().items():
        numbers = [number.name for number in entry.numbers if number.name not in chosen]
        groups.append(
            {"measure": measure, "line": first_line(entry), "room": entry.room(),
             "numbers": [{"name": number, "title": format_label(number),
                          "share": is_share(measure, number)} for number in numbers]}
        )  # fmt: skip
    for label, item in own.evaluate.items():
        if label != item.name:
            numbers = [f"{label}.{number.name}" for number in item.numbers]
            groups.append({"measure": label, "line": first_line(type(item)), "room": item.room(),
                           "numbers": [{"name": number, "title": format_label(number),
                                        "share": False} for number in numbers
                                       if number not in chosen]})  # fmt: skip
    measure = find_measure(name, own) if name else ""
    usual = [{"name": number, "title": format_label(number), "about": _describe_number(number, own)}
             for entry in catalogue.measures().values() for number in [
                 meaning.name for meaning in entry.numbers if meaning.usual]
             if number not in chosen]  # fmt: skip
    return {"part": part, "stands": stands, "groups": groups, "measure": measure, "usual": usual,
            "suggested": view.query.get("suggest", ""),
            "about": _describe_number(name, own) if name else ""}  # fmt: skip


def _describe_number(number: str, plan: Plan) -> str:
    """What a number on which a target can be set counts."""
    measure = find_measure(number, plan)
    stated = {"target": number, "max": 0.0, "measure": measure, "value": None,
              "met": True}  # fmt: skip
    about: str = describe_target(stated, {measure: {"name": measure}})["question"]
    return about


def _read_target(view: View) -> tuple[Plan, Target]:
    plan, part = _require_plan(view), view.get("part")
    own = plan.get_part(part)
    ends = {end: _read_number(view.get(end)) for end in ("least", "most")}
    name = view.get("name").strip()
    if not name:
        raise PlanError(say("protect.target.choose"))
    if all(value is None for value in ends.values()):
        raise PlanError(say("protect.target.bound"))
    if None not in ends.values() and ends["least"] > ends["most"]:  # type: ignore[operator]
        raise PlanError(say("protect.target.apart"))
    target = Target(name=name, **ends)
    kept = [item for item in own.targets if item.name != name]
    at = next((index for index, item in enumerate(own.targets) if item.name == name), len(kept))
    targets = (*kept[:at], target, *kept[at:])
    measures_for(targets, own.evaluate)
    return plan.replace_part(part, targets=targets), target


def _read_number(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        return float(text)
    except ValueError:
        raise PlanError(say("protect.target.number")) from None


@page.action("check_target")
async def check_target(view: View) -> Response:
    """Whether a target can be set."""
    name, plan = view.get("name").strip(), _require_plan(view).get_part(view.get("part"))
    about = _describe_number(name, plan) if name and find_measure(name, plan) else ""
    try:
        _, target = _read_target(view)
    except SfumatoError as error:
        return _answer("bad", join_sentences(error.what, error.hint), about)
    return _answer("good", say("protect.target.possible", target=target.describe()), about)


@page.action("save_target")
async def save_target(view: View) -> None:
    """Set what must hold."""
    plan, target = _read_target(view)
    view.change(say("protect.did.target", target=target.describe()), plan=plan)


@page.action("remove_target")
async def remove_target(view: View) -> None:
    """No longer ask for it; what a profile asks for comes back by itself."""
    plan, part = _require_plan(view), view.get("part")
    targets = [item for item in plan.get_part(part).targets if item.name != view.get("name")]
    changed = plan.replace_part(part, targets=tuple(targets))
    view.change(say("protect.did.no_target", target=format_label(view.get("name"))), plan=changed)


# Measures ----------------------------------------------------------------------------------------


@page.part("measures")
async def choose_measure(view: View) -> Mapping[str, Any]:
    """All measures, by what they are about."""
    groups: dict[str, list[dict[str, str]]] = {"risk": [], "utility": []}
    for name, entry in catalogue.measures().items():
        line = first_line(entry)
        groups[entry.room()].append({"name": name, "title": format_label(name), "line": line})
    return {"groups": groups, "part": view.query.get("part", WHOLE)}


@page.part("measure")
async def edit_measure(view: View) -> Mapping[str, Any]:
    """The form of a measure that the plan takes, or of a new one."""
    part = view.query.get("part", WHOLE)
    plan = _require_plan(view).get_part(part)
    label = view.query.get("label", "")
    if label in plan.evaluate:
        entry: type[Measure] = type(plan.evaluate[label])
        settings = list_settings(plan.evaluate[label])
    else:
        entry, settings = catalogue.measure(view.query.get("measure", "")), {}
        label = entry.name
        count = 2
        while label in plan.evaluate:
            label, count = f"{entry.name}_{count}", count + 1
    return {
        "part": part,
        "label": label,
        "new": label not in plan.evaluate,
        "measure": entry.name,
        "title": format_label(entry.name),
        "line": first_line(entry),
        **_sort_fields(entry, settings, await _list_variables(view, part)),
    }


def _read_measure(view: View) -> tuple[Plan, str]:
    plan, part = _require_plan(view), view.get("part")
    entry = catalogue.measure(view.get("measure"))
    measure = entry(**read_form(entry, view.form, before="field-"))
    before, label = view.get("before"), view.get("label").strip() or entry.name
    evaluate = dict(plan.get_part(part).evaluate)
    if label != before and label in evaluate:
        raise PlanError(say("protect.measure.taken"))
    # Changed in place, so that the order of the plan stays.
    renamed = {label if name == before else name: item for name, item in evaluate.items()}
    return plan.replace_part(part, evaluate={**renamed, label: measure}), label


@page.action("check_measure")
async def check_measure(view: View) -> Response:
    """Whether a measure can be taken."""
    try:
        _read_measure(view)
    except SfumatoError as error:
        return _answer("bad", error.what, error.hint)
    return _answer("good", say("protect.measure.possible"))


@page.action("save_measure")
async def save_measure(view: View) -> None:
    """Take a measure with every trial."""
    plan, label = _read_measure(view)
    view.change(say("protect.did.measure", measure=format_label(label)), plan=plan)


@page.action("remove_measure")
async def remove_measure(view: View) -> None:
    """No longer take it, unless a target or a step asks for it."""
    plan, part = _require_plan(view), view.get("part")
    evaluate = {label: item for label, item in plan.get_part(part).evaluate.items()
                if label != view.get("label")}  # fmt: skip
    changed = plan.replace_part(part, evaluate=evaluate)
    what = say("protect.did.no_measure", measure=format_label(view.get("label")))
    view.change(what, plan=changed)


# The search --------------------------------------------------------------------------------------


async def _show_search(view: View) -> dict[str, Any]:
    """The map of the last search, as long as the same data are open."""
    if _require_plan(view).tables:
        return {"search": Outcome(), "map": None, "runs": 0, "minutes": 0}
    kept = view.session.read_result(_SEARCH)
    asked = (kept or {}).get("result")
    outcome = Outcome() if asked is None else await view.peek("tune_plan", **asked)
    values: dict[str, Any] = {
        "search": outcome,
        "runs": (asked or {}).get("runs", 30),
        "minutes": round((asked or {}).get("seconds", 300) / 60, 2),
        "map": None,
        "has_targets": bool(view.table_plan.targets),
    }
    if outcome.ready and outcome.value["targets"]:
        names = outcome.value["targets"]
        target = view.query.get("target", names[0])
        index = names.index(target) if target in names else 0
        values |= {"map": draw_map(outcome.value, index), "target": names[index],
                   "bounds": outcome.value["bounds"][index], "number": index,
                   "current": _find_current(view, outcome.value)}  # fmt: skip
    return values


def _find_current(view: View, search: Mapping[str, Any]) -> int | None:
    """The candidate whose steps are those of the plan as it stands."""
    steps = Plan(steps=view.table_plan.steps).text()
    found = (item["number"] for item in search["candidates"] if item["steps"] == steps)
    return next(found, None)


@page.action("tune")
async def search_plan(view: View) -> Response:
    """Begin a search from the plan as it stands."""
    runs, minutes = view.get("runs", "30"), view.get("minutes", "5")
    if not runs.isdigit():
        raise PlanError(say("protect.search.whole"))
    seconds = 60 * (_read_number(minutes) or 0.0)
    asked: dict[str, Any] = {"plan": view.session.plan_text, "runs": int(runs), "seconds": seconds}
    view.session.keep_result(_SEARCH, {"result": asked})
    view.session.note(say("protect.did.search"), by=view.user.name)
    await view.start("tune_plan", **asked)
    return view.go("protect", tab="search")


@page.action("choose")
async def choose_candidate(view: View) -> Response:
    """A point of the map becomes the plan."""
    kept = view.session.read_result(_SEARCH)
    outcome = Outcome() if kept is None else await view.peek("tune_plan", **kept["result"])
    number = view.get("candidate")
    known = {str(item["number"]): item for item in (outcome.value or {}).get("candidates", ())}
    if number not in known:
        raise PlanError(say("protect.search.gone"))
    steps = Plan.parse(known[number]["steps"]).steps
    what = say("protect.did.candidate", what=known[number]["what"])
    view.change(what, plan=replace(view.table_plan, steps=steps))
    view.flash(say("protect.search.chosen", what=known[number]["what"]))
    target = view.get("target")
    return view.go("protect", tab="search", **({"target": target} if target else {}))


# The size of noise -------------------------------------------------------------------------------


async def _show_noise(view: View) -> dict[str, Any]:
    if _require_plan(view).tables:
        return {"noise": Outcome(), "asked": None, "variables": []}
    asked = _read_goal(view.query) if "who" in view.query else None
    known = await view.ask("list_variables")
    rows = known.value[WHOLE] if known.ready else []
    numbers = [row["name"] for row in rows if row["kind"] in ("continuous", "integer")
               and row["role"] not in ("direct", "person", "weight", "cluster")]  # fmt: skip
    chosen = view.request.query_params.getlist("variables")
    others = view.request.query_params.getlist("known")
    outcome = Outcome()
    if asked is not None:
        outcome = await view.ask("calibrate_noise", variables=chosen, known=others, **asked)
    return {
        "noise": outcome,
        "listed": known,
        "asked": asked,
        "variables": numbers,
        "all_variables": [row["name"] for row in rows if row["role"] not in ("direct", "person")],
        "chosen": chosen,
        "known": others,
        "goal": view.query.get("goal", "mean"),
    }


def _read_goal(query: Mapping[str, str]) -> dict[str, Any]:
    mean = query.get("goal", "mean") == "mean"
    below = _read_number(query.get("below", "")) or 3
    return {
        "mean_h": (_read_number(query.get("mean_h", "")) or 3.0) if mean else None,
        "at_most": None if mean else _read_number(query.get("at_most", "")) or 0.1,
        "below": int(below),
        "who": query["who"] if query["who"] in ("all", "deciles") else "0.05",
        "draws": 10,
    }


@page.action("use_noise")
async def use_noise(view: View) -> Response:
    """Put the noise that was found into the plan."""
    text = view.get("plan")
    if not text:
        raise PlanError(say("protect.noise.gone"))
    view.change(say("protect.did.noise"), plan=Plan.parse(text).require_one_table())
    view.flash(say("protect.noise.added"))
    return view.go("protect")


# Branches ----------------------------------------------------------------------------------------


async def _show_branches(view: View) -> dict[str, Any]:
    """Every branch with what it comes to, where that was measured."""
    rows = []
    for name in view.session.branches:
        state = view.session.read_branch(name)
        row: dict[str, Any] = {"name": name, "what": state.what, "at": state.at,
                               "current": name == view.session.current, "steps": [],
                               "trouble": "", "outcome": Outcome(), "same": True}  # fmt: skip
        source = view.session.state.source
        row["same"] = state.source == source
        text = view.session.read_plan(state)
        try:
            plan = parse_plan(text, linked=bool(source and source.linked))
            if plan is not None:
                row["steps"] = [format_label(step.name) for part in plan.parts
                                for step in plan.get_part(part).steps]  # fmt: skip
        except SfumatoError as error:
            row["trouble"] = error.what
        if row["same"]:
            row["outcome"] = await view.peek("measure_branch", plan=text)
        rows.append(row)
    measured = [row["outcome"].value["numbers"] for row in rows if row["outcome"].ready]
    return {"branches": rows, "numbers": list(dict.fromkeys(n for row in measured for n in row))}


@page.action("measure_branches")
async def measure_branches(view: View) -> Response:
    """Measure every branch, or one of them, on the data that are open."""
    wanted = view.get_all("branch") or list(view.session.branches)
    for name in wanted:
        if name in view.session.branches:
            state = view.session.read_branch(name)
            if state.source == view.session.state.source:
                await view.ask("measure_branch", soon=0.01, plan=view.session.read_plan(state))
    return view.go("protect", tab="branches")


# The text ----------------------------------------------------------------------------------------


def _show_text(view: View) -> dict[str, Any]:
    """The plan as it is written down; after a mistake, what somebody has typed."""
    typed = view.form.get("text", [None])[-1]
    text = view.session.plan_text if typed is None else typed
    return {"text": text, "failure": None if typed is None else _find_mistake(view, text)}


def _find_mistake(view: View, text: str) -> dict[str, str] | None:
    source = view.session.state.source
    try:
        if not text.strip():
            raise PlanError(say("protect.text.empty"))
        parse_plan(text, linked=bool(source and source.linked))
    except SfumatoError as error:
        return {"what": error.what, "hint": error.hint}
    return None


@page.action("check_text")
async def check_text(view: View) -> Response:
    """Whether the text is a plan, while somebody types."""
    mistake = _find_mistake(view, view.get("text").replace("\r\n", "\n"))
    if mistake:
        return _answer("bad", mistake["what"], mistake["hint"])
    return _answer("good", say("protect.text.possible"))


@page.action("text")
async def save_text(view: View) -> Response:
    """The typed text becomes the plan; with a mistake it stays on the page."""
    text = view.get("text").replace("\r\n", "\n")
    if _find_mistake(view, text):
        return await render(view, page)
    if text != view.session.plan_text:
        view.change(say("protect.did.text"), plan=text)
    return view.go("protect", tab="text")


@page.part("text")
async def return_to_text(view: View) -> Response:
    """The address of a text with a mistake, asked for again."""
    return view.go("protect", tab="text")
