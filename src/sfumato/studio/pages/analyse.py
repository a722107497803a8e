"""Analyse: open a release that one received, look at it, and fit models without its noise."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from sfumato.analysis.fit import fit
from sfumato.analysis.problem import Family
from sfumato.analysis.result import Method
from sfumato.catalogue import read_parameter_docs
from sfumato.errors import DataError, PlanError
from sfumato.io.atomic import PRIVATE, write_file
from sfumato.storage.contents import MANIFEST, is_plain_file, sha256
from sfumato.studio.paths import confine
from sfumato.studio.texts import say
from sfumato.studio.view import Outcome, Page, View

page = Page("analyse", roles=("analyst",))
_FILE = "analysis.json"
"""Which release is open, and which models were asked for: in the session's folder."""
_MODELS = 20
_CHOICES = {"family": get_args(Family), "method": get_args(Method)}


@page.show
async def show(view: View) -> Mapping[str, Any]:
    """The release that is open, a first look, and every model that was fitted."""
    state = _read(view)
    shared = {
        "roots": view.studio.settings.places.allowed,
        "folder": state["folder"],
        "help": read_parameter_docs(inspect.getdoc(fit) or ""),
        "choices": _CHOICES,
        "seen": Outcome(),
        "models": [],
        "table": "",
        "opened": None,
        "looked": state["look"],
    }
    if not state["folder"]:
        return shared
    folder = _find_release(view, state["folder"])
    stamp = sha256(folder / MANIFEST)
    place: dict[str, Any] = {"folder": str(folder), "stamp": stamp}
    opened = await view.ask("open_received", **place)
    tables = list(opened.value["tables"]) if opened.ready else []
    table = view.query.get("table", state["table"])
    table = table if table in tables else (tables or [""])[0]
    seen = Outcome()
    if opened.ready and state["look"]:
        seen = await view.ask("explore_received", table=table, **place)
    models = [
        {**item, "outcome": await view.ask(
            "fit_received", soon=0.02, table=item["table"], formula=item["formula"],
            settings=item["settings"], **place)}
        for item in reversed(state["models"])
    ]  # fmt: skip
    return {**shared, "opened": opened, "table": table, "seen": seen, "models": models}


def _read(view: View) -> dict[str, Any]:
    path = view.session.folder / _FILE
    empty = {"folder": "", "table": "", "look": False, "models": []}
    return {**empty, **json.loads(path.read_text("utf-8"))} if path.exists() else empty


def _keep(view: View, **changes: Any) -> None:
    content = json.dumps({**_read(view), **changes})
    write_file(view.session.folder / _FILE, content, mode=PRIVATE)


def _find_release(view: View, text: str) -> Path:
    folder = confine(text, view.studio.settings.places)
    if not is_plain_file(folder / MANIFEST):
        raise DataError(
            "There is no release in this folder.",
            hint="choose the folder that holds manifest.json. A release with tiers has one for "
            "each of them.",
        )
    return folder


@page.action("open")
async def open_folder(view: View) -> None:
    """Open a release; the models of the one before are forgotten."""
    folder = _find_release(view, view.get("folder"))
    _keep(view, folder=str(folder), table="", look=False, models=[])
    view.session.note(f"release in '{folder}' opened for analysis", by=view.user.name)


@page.action("close")
async def close_folder(view: View) -> None:
    """Close the release."""
    _keep(view, folder="", table="", look=False, models=[])


@page.action("look")
async def look(view: View) -> None:
    """Take a first look."""
    _keep(view, look=True, table=view.get("table"))


@page.action("fit")
async def fit_model(view: View) -> None:
    """Fit a model."""
    formula = " ".join(view.get("formula").split())
    if "~" not in formula:
        raise PlanError("This is no model.", hint="write it as outcome ~ variable + variable.")
    settings: dict[str, Any] = {}
    for name, known in _CHOICES.items():
        chosen = view.get(f"as-{name}", known[0])
        if chosen not in known:
            raise PlanError(f"'{name}' is one of {', '.join(known)}.")
        settings[name] = chosen
    for name in ("trials", "offset"):
        if text := view.get(f"as-{name}").strip():
            settings[name] = text
    if clean := view.get_all("as-clean"):
        settings["clean"] = clean
    model = {"formula": formula, "table": view.get("table"), "settings": settings}
    models = [item for item in _read(view)["models"] if item != model]
    _keep(view, models=[*models, model][-_MODELS:], table=view.get("table"))
    view.flash(say("analyse.asked"), tone="neutral")


@page.action("forget")
async def forget(view: View) -> None:
    """Take a model off the page."""
    number = view.get("number")
    models = list(reversed(_read(view)["models"]))
    if number.isdigit() and int(number) < len(models):
        del models[int(number)]
    _keep(view, models=list(reversed(models)))
