"""Variable by variable: the ledger, the steps in one sentence each, and bars before and after."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato import catalogue
from sfumato.report.wording import (
    format_label,
    format_percent,
    format_result,
    get_evidence,
    name_variables,
)

Plain = Mapping[str, Any]
_ROLES = {
    "direct": "identifier",
    "person": "tells persons apart",
    "quasi": "known to outsiders",
    "sensitive": "confidential",
    "other": "other",
    "weight": "survey weight",
    "cluster": "group of records",
}
CHANGES = {"generalised": "made coarser", "pseudonyms": "replaced by codes"}
"""What was done to cells, in plain words; the method stands with its step."""
_HIGHEST = 100.0


def describe_ledger(manifest: Plain, custody: Plain | None) -> list[dict[str, Any]]:
    """The ledger of variables: inside with what each shows of the original."""
    ledger = get_evidence((custody or {}).get("evidence", {}), "untouched") or {}
    shares = {row["variable"]: row for row in ledger.get("table") or ()}
    prints = ledger.get("details", {}).get("fingerprints", ())
    roles = (custody or {}).get("input", {}).get("roles", {})
    released = manifest["variables"]
    rows = []
    for name in [*released, *(name for name in roles if name not in released)]:
        facts, row = released.get(name, {}), shares.get(name)
        numbers = dict.fromkeys(("unchanged", "unique", "rare", "distinct"), "")
        if name in released and row is not None:
            numbers = {key: format_percent(row[key]) for key in ("unchanged", "unique", "rare")}
            numbers["distinct"] = f"{row['distinct']:,}"
        role = facts.get("role") or roles.get(name, "")
        rows.append(
            {
                "name": name,
                "plain": name_variables([name], released)[0],
                "role": _ROLES.get(role, role),
                "code": role,
                "kind": facts.get("kind") or "",
                "done": _list_steps(name, facts, manifest) if name in released else "left out",
                "fingerprint": name in prints,
                **numbers,
            }
        )
    return rows


def _list_steps(name: str, facts: Plain, manifest: Plain) -> str:
    """Which steps treated a variable, by their numbers in the list of steps."""
    steps = facts.get("steps")
    if steps is None:
        return ""
    if not steps:
        return "released as it is"
    numbers = [
        str(number)
        for number, step in enumerate(manifest["methods"], 1)
        if step["method"] in steps and name in step.get("variables", [name])
    ]
    noisy = name in manifest.get("noise", {}).get("variables", {})
    methods = ", ".join(map(format_label, dict.fromkeys(steps)))
    how = "given noise" if noisy else CHANGES.get(str(facts.get("cells")), methods)
    where = f" ({', '.join(numbers)})" if numbers else ""
    return f"{how}{where}"


def describe_steps(manifest: Plain, custody: Plain | None) -> list[dict[str, Any]]:
    """One sentence a step; inside with what a step says it costs."""
    released = manifest["variables"]
    roles = (custody or {}).get("input", {}).get("roles", {})
    # A step that names no variable drops all direct identifiers.
    direct = [name for name, role in roles.items() if role == "direct" and name not in released]
    gone = ", ".join(name_variables(direct, released)) or "all direct identifiers"
    steps = [_describe_step(step, released) for step in manifest["methods"]]
    steps = [
        step | {"variables": gone} if step["name"] == "drop" and not step["variables"] else step
        for step in steps
    ]
    if custody is None:
        return steps
    losses = [step["fitted"].get("loss", "") for step in custody["steps"]]
    return [step | {"loss": loss} for step, loss in zip(steps, losses, strict=True)]


def _describe_step(step: Plain, released: Mapping[str, Plain]) -> dict[str, Any]:
    method = catalogue.methods().get(step["method"])
    line = catalogue.first_line(method).rstrip(".") if method else format_label(step["method"])
    # What follows is said by the names and settings of the step itself.
    sentence = re.split(r": |, by default", line)[0]
    names = step.get("variables")
    return {
        "name": step["method"],
        "sentence": sentence,
        "variables": ", ".join(name_variables(names, released))
        if isinstance(names, (list, tuple))
        else "",
        "loss": "",
        # An empty list or table is a parameter that nobody has set.
        "parameters": {
            format_label(key): format_result(value)
            for key, value in step.items()
            if key not in ("method", "variables") and value not in ([], {})
        },
    }


def describe_distributions(custody: Plain | None, variables: Mapping[str, Plain]) -> list[Any]:
    """The bars of each variable, their lengths in per cent of the longest."""
    return [
        {
            "name": name_variables([table["variable"]], variables)[0],
            "unit": variables.get(table["variable"], {}).get("unit", ""),
            "numbers": table["scale"] == "numbers",
            **_scale_bars(table["bars"], numbers=table["scale"] == "numbers"),
        }
        for table in (custody or {}).get("distributions", ())
    ]


def _scale_bars(bars: Sequence[Plain], *, numbers: bool) -> dict[str, Any]:
    """Lengths of bars; that of a wide one is its share by bin, so that areas tell the truth."""
    missing = [bar for bar in bars if bar["label"] == "missing" and numbers]
    shown = [bar for bar in bars if bar not in missing]
    longest = max(bar[side] / bar["width"] for bar in shown for side in ("before", "after")) or 1.0
    rows = [
        {
            "label": bar["label"],
            "width": bar["width"],
            **{
                side: round(_HIGHEST * bar[side] / bar["width"] / longest, 2)
                for side in ("before", "after")
            },
            "text": " → ".join(format_percent(bar[side]) for side in ("before", "after")),
        }
        for bar in shown
    ]
    ends = [rows[0]["label"], rows[-1]["label"]]
    gap = [f"missing: {format_percent(bar['before'])} → {format_percent(bar['after'])}"
           for bar in missing]  # fmt: skip
    return {"bars": rows, "ends": ends, "missing": "".join(gap)}
