"""Plans to TOML, on request with a comment that explains each line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import tomlkit

from sfumato import catalogue
from sfumato.parameters import given
from sfumato.schema import KINDS, ROLES, Column

if TYPE_CHECKING:
    from sfumato.plan import Plan

VERSION = 1
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def write(plan: Plan, *, comments: bool) -> str:
    """The whole plan as text."""
    lines: list[str] = []
    for section in (_top, _read, _columns, _steps, _targets, _evaluate, _release):
        lines += section(plan, comments)
    return "\n".join(lines).strip() + "\n"


def _top(_: Plan, comments: bool) -> list[str]:  # noqa: FBT001
    if not comments:
        return [f"version = {VERSION}"]
    return [
        "# A plan for Sfumato: who is what, what to do, what must hold. Read it before you run it.",
        "# Nothing here is applied until you run: sfumato protect FILE --plan THIS --out FOLDER",
        "",
        f"version = {VERSION}  # of the format of this file",
    ]


def _read(plan: Plan, comments: bool) -> list[str]:  # noqa: FBT001
    if not plan.read:
        return []
    lines = ["", "[read]"]
    if comments:
        lines = ["", "# How the file is read. Correct what was recognised wrongly.", "[read]"]
    return lines + [f"{_key(key)} = {_value(value)}" for key, value in plan.read.items()]


def _columns(plan: Plan, comments: bool) -> list[str]:  # noqa: FBT001
    if not plan.schema:
        return []
    lines = ["", "[columns]"]
    if comments:
        lines = [
            "",
            "# Every variable with its role and kind. The suggestions are guesses: you decide.",
            *(f"#   role {role + ':':<11} {meaning}" for role, meaning in ROLES.items()),
            *(f"#   kind {kind + ':':<11} {meaning}" for kind, meaning in KINDS.items()),
            "[columns]",
        ]
    for name, column in plan.schema.items():
        why = ""
        if comments:
            why = f"  # {column.reason or _explained(column)}"
        lines.append(f"{_key(name)} = {_value(column.declared())}{why}")
    return lines


def _explained(column: Column) -> str:
    return ROLES[column.role] if column.role else "no role yet: decide before you protect"


def _steps(plan: Plan, comments: bool) -> list[str]:  # noqa: FBT001
    lines: list[str] = []
    if comments and plan.steps:
        lines += ["", "# What is done, in this order. `sfumato methods` lists what there is."]
    for step in plan.steps:
        lines += ["", "[[steps]]"]
        about = f"  # {catalogue.question(type(step))}" if comments else ""
        lines.append(f"method = {_value(step.name)}{about}")
        lines += [f"{_key(key)} = {_value(value)}" for key, value in given(step).items()]
    return lines


def _targets(plan: Plan, comments: bool) -> list[str]:  # noqa: FBT001
    if not plan.targets:
        return []
    lines = ["", "[targets]"]
    if comments:
        lines = ["", "# What must hold. If one target is missed, nothing is released.", "[targets]"]
    for target in plan.targets:
        for end, value in target.plain().items():
            path = ".".join(_key(part) for part in target.name.split("."))
            about = f"  # {target.said()}" if comments else ""
            number = int(value) if float(value).is_integer() else value
            lines.append(f"{path}.{end} = {_value(number)}{about}")
    return lines


def _evaluate(plan: Plan, comments: bool) -> list[str]:  # noqa: FBT001
    lines: list[str] = []
    if comments and plan.evaluate:
        lines += ["", "# What is measured. `sfumato measures` lists what there is."]
    for label, measure in plan.evaluate.items():
        lines += ["", f"[evaluate.{_key(label)}]"]
        about = f"  # {catalogue.question(type(measure))}" if comments else ""
        lines.append(f"measure = {_value(measure.name)}{about}")
        lines += [f"{_key(key)} = {_value(value)}" for key, value in given(measure).items()]
    return lines


def _release(plan: Plan, comments: bool) -> list[str]:  # noqa: FBT001
    told = given(plan.release)
    about = {
        "format": "file format of the data",
        "keep_order": "false: rows go into a random order that only the key repeats",
        "formulas": "text that a spreadsheet would run as a formula: escape, refuse or keep",
        "noise": "what everybody may know of noise: all, safe (nothing that tells values) or none",
    }
    lines = ["", "[release]"]
    if comments:
        lines = ["", "# How the release is written.", "[release]"]
    for key, value in told.items():
        lines.append(f"{_key(key)} = {_value(value)}" + (f"  # {about[key]}" if comments else ""))
    return lines


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else tomlkit.item(name).as_string()


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(_pairs(value)) + " }" if value else "{}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return f"{value:.1f}"
    return str(tomlkit.item(value).as_string())


def _pairs(table: dict[str, Any]) -> Iterator[str]:
    for key, value in table.items():
        yield f"{_key(str(key))} = {_value(value)}"
