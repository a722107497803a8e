"""The codebook of a release: what an analyst needs to read its cells and to use them.

It is made of the public manifest alone. So it says nothing that the release does not show, and
the same release has the same codebook, as a page and as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato import catalogue
from sfumato.cells.notation import format_value
from sfumato.report.html import render_page
from sfumato.report.noise import describe_noise
from sfumato.schema import KINDS, ROLES

Plain = Mapping[str, Any]
FORMAT = 1
_NUMERIC = ("integer", "continuous")
TYPES = {
    "integer": "whole numbers",
    "number": "numbers",
    "boolean": "true or false",
    "date": "dates",
    "datetime": "dates with a time",
    "text": "text",
}
_RANGES = {
    "integer": ("[24;28]", "a whole number from 24 to 28, both included"),
    "continuous": ("[24;28]", "a number from 24 to 28, both included"),
    "date": ("[1970-01-01;1979-12-31]", "a day from the first to the last, both included"),
    "ordinal": ("[low;high]", "a level from the first to the last, both included"),
}
_SET = ("{a;b}", "one of the values between the braces; which one is not said")
_MASK = ("937**", "a code that begins like this; each * stands for one character")
_WILDCARD = ("*", "nothing is said: any value, or a missing one")
_WEIGHTS = (
    "A record stands for as many people of the population as its weight says. Use it as a sampling "
    "weight, with estimates of variance that are made for surveys; it is no count of equal records."
)
_ROUNDED_WEIGHTS = (
    " It was rounded at random to a few levels, up or down so that totals stay nearly the same: "
    "weighted totals and means are slightly less precise."
)
_CHANGED_WEIGHTS = " It was changed for the release, so that weighted totals are not exact."


def describe_codebook(manifest: Plain) -> dict[str, Any]:
    """The codebook as JSON; of several tables that of each, and the keys between them."""
    if "tables" in manifest:
        made_by = {"made_by": manifest["made_by"]}
        return {
            "format": FORMAT,
            **made_by,
            "person": manifest["person"],
            "keys": dict(manifest["keys"]),
            "tables": {
                name: describe_codebook({**facts, **made_by})
                for name, facts in manifest["tables"].items()
            },
        }
    noise = {row["name"]: row["text"] for row in (describe_noise(manifest) or {}).get("rows", [])}
    data = manifest.get("data", {})
    variables = [
        _describe_variable(name, facts, data.get("types", {}).get(name), noise.get(name))
        for name, facts in manifest["variables"].items()
    ]
    return {
        "format": FORMAT,
        "made_by": manifest["made_by"],
        "file": data.get("file"),
        "records": manifest["records"],
        "order_of_rows": manifest["order_of_rows"],
        **{part: manifest[part] for part in ("tier", "tiers") if part in manifest},
        "variables": variables,
        "fitting": describe_fitting(manifest["variables"]),
    }


def render_codebook(manifest: Plain) -> str:
    """The codebook as one page."""
    codebook = describe_codebook(manifest)
    if "tables" in codebook:
        from sfumato.report.tables import describe_codebooks

        tables = describe_codebooks(codebook)
        return render_page("codebook_of_tables.html", codebook=codebook, tables=tables)
    return render_page("codebook.html", codebook=codebook, types=TYPES)


def _describe_variable(
    name: str, facts: Plain, written: str | None, noise: str | None
) -> dict[str, Any]:
    kind, steps = facts["kind"], facts.get("steps", ())
    generalised = facts.get("cells") == "generalised"
    levels = [format_value(level) for level in facts.get("domain", ())]
    bounds = levels if kind in (*_NUMERIC, "date") else []
    described = {
        "name": name,
        "label": facts.get("label", ""),
        "unit": facts.get("unit", ""),
        "role": facts["role"],
        "role_means": ROLES.get(facts["role"], ""),
        "kind": kind,
        "kind_means": KINDS.get(kind, ""),
        "type": written,
        "done": [{"method": step, "what": _describe_step(step)} for step in steps],
        "reading": _list_notations(kind) if generalised else [],
        "note": _describe_type(kind, written, generalised=generalised),
        "levels": [] if bounds else levels,
        "bounds": bounds,
        "labels": dict(facts.get("labels", {})),
        "missing_codes": [format_value(code) for code in facts.get("missing_codes", ())],
        "missing_tokens": list(facts.get("missing_tokens", ())),
        "noise": noise or "",
        "formula": facts.get("formula", ""),
        "weight": _describe_weight(steps) if facts["role"] == "weight" else "",
    }
    return {key: value for key, value in described.items() if value not in ("", [], {}, None)}


def _describe_step(step: str) -> str:
    method = catalogue.methods().get(step)
    return catalogue.first_line(method) if method else ""


def _list_notations(kind: str) -> list[dict[str, str]]:
    """How to read a cell that stands for several values."""
    notations = [_RANGES[kind]] if kind in _RANGES else []
    if kind not in (*_NUMERIC, "date"):
        notations += [_SET, *([_MASK] if kind == "text" else [])]
    return [{"cell": cell, "means": means} for cell, means in (*notations, _WILDCARD)]


def _describe_type(kind: str, written: str | None, *, generalised: bool) -> str:
    """What differs between the variable and the column of the file."""
    if generalised and written == "text" and kind in (*_NUMERIC, "date", "ordinal"):
        return (
            "Some cells stand for several values, so the column is text. A cell without brackets "
            "is a single value."
        )
    return ""


def _describe_weight(steps: Sequence[str]) -> str:
    if not steps:
        return _WEIGHTS
    return _WEIGHTS + (_ROUNDED_WEIGHTS if list(steps) == ["weights"] else _CHANGED_WEIGHTS)


def describe_fitting(variables: Mapping[str, Plain]) -> dict[str, str]:
    """How a model is fitted, with names of this release where they can stand in a formula."""
    numbers = [
        name
        for name, facts in variables.items()
        if facts["kind"] in _NUMERIC
        and facts["role"] not in ("weight", "cluster")
        and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
    ]
    # Confidential variables are what most people want to explain.
    numbers.sort(key=lambda name: variables[name]["role"] != "sensitive")
    outcome, *predictors = numbers[:3] or ["outcome"]
    formula = f"{outcome} ~ {' + '.join(predictors) or 'predictor'}"
    return {
        "python": f'import sfumato as sf\n\nfound = sf.fit("{formula}", "FOLDER")\nfound.summary()',
        "command": f'sfumato fit "{formula}" FOLDER',
    }
