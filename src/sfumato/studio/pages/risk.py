"""Risk: who stands out in the data as they are, by what, and what would protect them."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from sfumato import catalogue
from sfumato.errors import PlanError
from sfumato.plan import Plan
from sfumato.studio.forms import list_fields, read_form
from sfumato.studio.security import DOCUMENT_POLICY
from sfumato.studio.tasks import list_tasks
from sfumato.studio.texts import say
from sfumato.studio.view import Outcome, Page, View

page = Page("risk")
LOOKS = ("combinations", "people", "map", "coarser", "measures")
"""The ways to look at the risk, as the address names them."""
_K, _LARGEST_K = 5, 1000
_ENOUGH = 0.95
_PATIENCE_SECONDS = 5.0
"""How long an action waits: a new step is placed within a moment."""


@page.show
async def show(view: View) -> Mapping[str, Any]:
    """The answer in a sentence, what an attacker knows, and one way to look at the risk."""
    if view.session.state.source is None:
        return {"missing": "data"}
    if view.plan is None:
        return {"missing": "keys"}
    offered = await view.ask("list_known")
    look = view.query.get("look", "")
    values: dict[str, Any] = {
        "missing": "",
        "offered": offered,
        "look": look if look in LOOKS else LOOKS[0],
        "looks": LOOKS,
        "k": _read_k(view),
        "known": [],
    }
    if not offered.ready:
        return values
    known = _read_known(view, offered.value)
    values |= {"known": known, "link": _Link(view, known, values["k"])}
    if values["look"] == "measures":
        answer, shown = await asyncio.gather(_answer(view, known), _show_measures(view, offered))
    elif not known:
        return values | {"answer": Outcome()}
    else:
        find = {"combinations": _show_combinations, "people": _show_people, "map": _show_map,
                "coarser": _show_coarser}[values["look"]]  # fmt: skip
        answer, shown = await asyncio.gather(
            _answer(view, known), find(view, known, values["k"], offered.value)
        )
    return {**values, "answer": answer, **shown}


class _Link:
    """Addresses of this page that keep what was ticked."""

    def __init__(self, view: View, known: Sequence[str], k: int) -> None:
        self._address = view.address("risk")
        self._query = [("ticked", "1"), *(("known", name) for name in known), ("k", str(k))]

    def to(self, part: str = "", **query: Any) -> str:
        """The page, or one of its parts."""
        asked = urlencode([*self._query, *((name, str(value)) for name, value in query.items())])
        return f"{self._address}{f'/{part}' if part else ''}?{asked}"

    def back(self, **query: Any) -> str:
        """The page, as forms name where to go back to."""
        return self.to(**query).rpartition("/")[2]


def _read_k(view: View) -> int:
    asked = view.query.get("k", "")
    if asked.isdecimal():
        return min(max(int(asked), 2), _LARGEST_K)
    return _find_target(view.plan) or _K


def _find_target(plan: Plan | None) -> int | None:
    """The k that the plan asks for."""
    targets = () if plan is None else plan.targets
    wanted = [target.least for target in targets if target.name == "k" and target.least]
    return max(int(max(wanted)), 2) if wanted else None


def _read_known(view: View, offered: Mapping[str, Any]) -> list[str]:
    """What is ticked; at first, what the roles say."""
    names = [variable["name"] for variable in offered["variables"]]
    if "ticked" not in view.query:
        return [name for name in names if name in offered["quasi"]]
    ticked = {*view.request.query_params.getlist("known")}
    return [name for name in names if name in ticked]


async def _answer(view: View, known: Sequence[str]) -> Outcome:
    return await view.ask("answer_risk", known=known) if known else Outcome()


async def _show_combinations(
    view: View, known: Sequence[str], k: int, offered: Mapping[str, Any]
) -> dict[str, Any]:
    del offered
    return {"combinations": await view.ask("list_combinations", known=known, k=k)}


async def _show_people(
    view: View, known: Sequence[str], k: int, offered: Mapping[str, Any]
) -> dict[str, Any]:
    del k, offered
    asked = view.query.get("first", "0")
    first = int(asked) if asked.isdecimal() else 0
    return {"people": await view.ask("list_riskiest", known=known, first=first)}


async def _show_map(
    view: View, known: Sequence[str], k: int, offered: Mapping[str, Any]
) -> dict[str, Any]:
    del k
    if offered["linked"]:
        # Rows of several tables stand below each other there, and protect nobody's secret.
        return {"map": Outcome(), "in_turn": False}
    in_turn = view.query.get("in_turn") == "1" or not offered["sensitive"]
    found = await view.ask("map_protection", known=known, in_turn=in_turn)
    return {"map": found, "in_turn": in_turn}


async def _show_coarser(
    view: View, known: Sequence[str], k: int, offered: Mapping[str, Any]
) -> dict[str, Any]:
    combinations = view.ask("list_combinations", known=known, k=k)
    secrets = [name for name in offered["sensitive"] if name not in known]
    chosen = view.query.get("sensitive", "")
    secret = chosen if chosen in secrets else secrets[0] if secrets else ""
    values = {"secrets": secrets, "secret": secret, "enough": _ENOUGH, "advice": Outcome()}
    if not secret or offered["linked"]:
        return values | {"combinations": await combinations}
    alone, advice = await asyncio.gather(
        combinations,
        view.ask("advise_coarser", known=known, sensitive=secret, enough=_ENOUGH),
    )
    return values | {"combinations": alone, "advice": advice}


async def _show_measures(view: View, offered: Outcome) -> dict[str, Any]:
    entries = list_measures(linked=offered.value["linked"])
    name = view.query.get("measure", "")
    if name not in entries:
        return {"entries": entries, "measure": "", "evidence": Outcome(), "fields": []}
    asked = view.query.get("asked", "")
    settings = _read_settings(view, asked)
    names = [variable["name"] for variable in offered.value["variables"]]
    evidence = Outcome()
    if settings is not None:
        evidence = await view.ask("take_measure", name=name, settings=settings)
    return {
        "entries": entries,
        "measure": name,
        "asked": asked,
        "evidence": evidence,
        "fields": list_fields(catalogue.measure(name), settings, names),
    }


def list_measures(*, linked: bool) -> dict[str, str]:
    """Measures of one data set, with a line on each; of linked tables, those of the joined view."""
    return {
        name: catalogue.first_line(entry)
        for name, entry in catalogue.measures().items()
        if entry.of == "one" and (not linked or entry.joined_numbers())
    }


def _read_settings(view: View, asked: str) -> dict[str, Any] | None:
    """What a form said; the address names it by its digest, so that no value stands there."""
    if not asked.isalnum():
        return None
    kept = view.session.read_result(asked)
    return None if kept is None else kept["result"]


@page.action("measure")
async def take(view: View) -> Response | None:
    """Measure what was chosen."""
    name = view.get("measure")
    entry = catalogue.measure(name)
    settings = read_form(entry, view.form)
    entry(**settings)  # what is impossible is said before anything is measured
    digest = hashlib.sha256(json.dumps([name, settings], default=str).encode()).hexdigest()
    view.session.keep_result(digest, {"result": settings, "warnings": []})
    back = view.get("back") or "risk"
    joint = "&" if "?" in back else "?"
    return view.go(f"{back}{joint}{urlencode({'measure': name, 'asked': digest})}")


@page.action("add")
async def add(view: View) -> Response | None:
    """Put steps into the plan."""
    steps = json.loads(view.get("steps") or "[]")
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise PlanError("There are no steps to add.")
    placed = await view.ask("place_steps", soon=_PATIENCE_SECONDS, steps=steps)
    if placed.failure:
        raise PlanError(placed.failure["what"], hint=placed.failure["hint"])
    if not placed.ready:
        raise PlanError("The plan could not be changed right now.", hint="try again in a moment.")
    names = list(dict.fromkeys(name for step in steps for name in step.get("variables") or ()))
    methods = ", ".join(dict.fromkeys(str(step.get("method")) for step in steps))
    what = say("risk.added", methods=methods, variables=", ".join(names))
    view.change(what, plan=str(placed.value))
    view.flash(say("risk.added_flash", what=what))
    return None


@page.part("record")
async def show_record(view: View) -> Mapping[str, Any]:
    """One record, with its values: they go into this answer and nowhere else."""
    offered = await view.ask("list_known")
    asked = view.query.get("record", "")
    if not offered.ready or not asked.isdecimal():
        raise PlanError("There is no such record.")
    known, k = _read_known(view, offered.value), _read_k(view)
    record = int(asked)
    found, fixes = await asyncio.gather(
        _ask_once(view, "describe_record", known=known, record=record, k=k),
        view.ask("find_fixes", known=known, record=record, k=k),
    )
    return {
        "found": found,
        "fixes": fixes,
        "k": k,
        "labels": {item["name"]: item["label"] for item in offered.value["variables"]},
        "treated": _list_treated(view.plan),
        "back": _Link(view, known, k).back(look="people"),
        "linked": offered.value["linked"],
    }


async def _ask_once(view: View, task: str, **parameters: Any) -> Outcome:
    """Ask for what nobody keeps; an answer that has just come is taken as it is."""
    key = view.session.compute_key(task, list_tasks()[task].depends, parameters)
    latest = view.find_latest(task)
    if latest.ready and latest.job is not None and latest.job.key == key:
        return latest
    return await view.ask(task, **parameters)


def _list_treated(plan: Plan | None) -> dict[str, str]:
    """The variables that a step of the plan makes coarser already, with its method."""
    if plan is None:
        return {}
    return {
        name: step.name
        for step in plan.steps
        if step.name in ("coarsen", "recode", "drop")
        for name in step.touches(plan.schema)
    }


@page.part("picture")
async def draw(view: View) -> Response | Mapping[str, Any]:
    """The picture of a measure."""
    name, settings = (
        view.query.get("measure", ""),
        _read_settings(view, view.query.get("asked", "")),
    )
    evidence = await view.peek("take_measure", name=name, settings=settings or {})
    if not evidence.ready or not evidence.value["svg"]:
        raise PlanError("There is no picture.")
    return Response(
        evidence.value["svg"],
        media_type="image/svg+xml",
        headers={"Content-Security-Policy": DOCUMENT_POLICY},
    )
