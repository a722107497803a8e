"""Plans to TOML, on request with a comment that explains each line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tomlkit

from sfumato import catalogue
from sfumato.parameters import list_settings
from sfumato.plan import PARTIES
from sfumato.profiles import load_profile
from sfumato.schema import KINDS, ROLES, Column

if TYPE_CHECKING:
    from sfumato.measure import Measure
    from sfumato.method import Method
    from sfumato.plan import Plan
    from sfumato.plan.targets import Target

VERSION = 1
_NOTHING = '""'
_LEGEND = ("#   ", "# Every variable with its role")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def write(plan: Plan, *, comments: bool) -> str:
    """The whole plan as text."""
    lines = [*_write_header(plan, comments)]
    for number, (name, table) in enumerate(plan.tables.items()):
        written = _write_table(name, table, plan.files.get(name), comments)
        # What roles and kinds mean is said once.
        lines += [line for line in written if not (number and line.startswith(_LEGEND))]
    if plan.tables and comments:
        lines += ["", "# Over all tables, after the steps of each; targets are of the joined view."]
    lines += write_sections(plan, tuple(_SECTIONS), comments)
    return "\n".join(lines).strip() + "\n"


def _write_table(name: str, plan: Plan, file: str | None, comments: bool) -> list[str]:  # noqa: FBT001
    """The sections of one of several tables, each under its name."""
    above = f"tables.{format_key(name)}"
    lines = ["", f"[{above}]", *([f"file = {format_value(file)}"] if file else [])]
    parts = ("read", "columns", "steps", "targets", "evaluate")
    for line in write_sections(plan, parts, comments):
        if line.startswith("[["):
            lines.append(f"[[{above}.{line[2:]}")
        else:
            lines.append(f"[{above}.{line[1:]}" if line.startswith("[") else line)
    return lines


def write_sections(plan: Plan, names: Sequence[str], comments: bool) -> list[str]:  # noqa: FBT001
    """Some sections of a plan, line by line."""
    return [line for name in names for line in _SECTIONS[name](plan, comments)]


def _write_header(plan: Plan, comments: bool) -> list[str]:  # noqa: FBT001
    profile = [] if plan.profile is None else [f"profile = {format_value(plan.profile)}"]
    person = [f"person = {format_value(plan.person)}"] if plan.tables else []
    keys = [f"{format_value(str(key))} = {format_value(key.target)}" for key in plan.keys]
    keys = ["[keys]", *keys] if plan.tables else []
    if not comments:
        return [f"version = {VERSION}", *profile, *person, *(["", *keys] if keys else [])]
    about = "# A plan for Sfumato: roles, steps and targets. Read it before you run it."
    given = "FILE"
    if keys:
        about = "# A plan for several tables of the same people. Read it before you run it."
        given = "FOLDER"
        what = (
            "# Keys lead from many rows to one. They leave as pseudonyms, the same in all tables."
        )
        keys = ["", what, *keys]
    return [
        about,
        f"# Nothing here is applied until you run: sfumato protect {given} --plan THIS --out OUT",
        "",
        f"version = {VERSION}  # the version of this file format",
        *(f"{line}  # {load_profile(str(plan.profile)).title}" for line in profile),
        *(f"{line}  # who a person is: one row for each" for line in person),
        *keys,
    ]


def _write_read(plan: Plan, comments: bool) -> list[str]:  # noqa: FBT001
    if not plan.read:
        return []
    lines = ["", "[read]"]
    if comments:
        lines = ["", "# How the file is read. Correct what was recognised wrongly.", "[read]"]
    return lines + [
        f"{format_key(key)} = {format_value(value)}" for key, value in plan.read.items()
    ]


def _write_columns(plan: Plan, comments: bool) -> list[str]:  # noqa: FBT001
    if not plan.schema:
        return []
    lines = ["", "[columns]"]
    if comments:
        lines = [
            "",
            "# Every variable with its role and kind. The suggestions are guesses: you decide.",
            *(f"#   role {role + ':':<11} {meaning}" for role, meaning in ROLES.items()),
            *(f"#   kind {kind + ':':<11} {meaning}" for kind, meaning in KINDS.items()),
            "#   identity:        says who a record is: noise, and all else by chance, follows it",
            "[columns]",
        ]
    for name, column in plan.schema.items():
        why = ""
        if comments:
            why = f"  # {column.reason or _explain_role(column)}"
        lines.append(f"{format_key(name)} = {format_value(column.declared())}{why}")
    return lines


def _explain_role(column: Column) -> str:
    return ROLES[column.role] if column.role else "no role yet: decide before you protect"


def _write_purpose(plan: Plan, comments: bool) -> list[str]:  # noqa: FBT001
    if plan.purpose is None:
        return []
    about = ["# What the data are for. Each release is held against it."]
    return ["", *(about if comments else []), "[purpose]", *_write_settings(plan.purpose)]


def _write_steps(plan: Plan, comments: bool) -> list[str]:  # noqa: FBT001
    lines: list[str] = []
    if comments and plan.steps:
        lines += ["", "# What is done, in this order. `sfumato methods` lists what there is."]
    for step in plan.steps:
        lines += ["", *write_step(step, comments=comments)]
    return lines


def write_step(step: Method, *, comments: bool) -> list[str]:
    """One step."""
    about = f"  # {catalogue.first_line(type(step))}" if comments else ""
    return ["[[steps]]", f"method = {format_value(step.name)}{about}", *_write_settings(step)]


def _write_settings(entry: object) -> list[str]:
    return [
        f"{format_key(key)} = {format_value(value)}" for key, value in list_settings(entry).items()
    ]


def _write_targets(plan: Plan, comments: bool) -> list[str]:  # noqa: FBT001
    if not plan.targets:
        return []
    lines = ["", "[targets]"]
    if comments:
        lines = ["", "# Targets. If one is missed, nothing is released.", "[targets]"]
    rules = None if plan.profile is None else load_profile(plan.profile)
    for target in plan.targets:
        rule = rules.find_rule(target.name) if rules and comments else None
        lines += [] if rule is None else [f"# {plan.profile}: {rule.text}"]
        lines += write_target(target, comments=comments)
    return lines


def write_target(target: Target, *, comments: bool) -> list[str]:
    """The bounds of one target."""
    lines = []
    for end, value in target.plain().items():
        path = ".".join(format_key(part) for part in target.name.split("."))
        about = f"  # {target.describe()}" if comments else ""
        number = int(value) if float(value).is_integer() else value
        lines.append(f"{path}.{end} = {format_value(number)}{about}")
    return lines


def _write_evaluate(plan: Plan, comments: bool) -> list[str]:  # noqa: FBT001
    lines: list[str] = []
    others = {n: measure for n, measure in plan.evaluate.items() if measure is not plan.purpose}
    if comments and others:
        lines += ["", "# What is measured. `sfumato measures` lists what there is."]
    for label, measure in others.items():
        lines += ["", *write_measure(label, measure, comments=comments)]
    return lines


def write_measure(label: str, measure: Measure, *, comments: bool) -> list[str]:
    """One measure to take."""
    about = f"  # {catalogue.first_line(type(measure))}" if comments else ""
    named = f"measure = {format_value(measure.name)}{about}"
    return [f"[evaluate.{format_key(label)}]", named, *_write_settings(measure)]


def _write_release(plan: Plan, comments: bool) -> list[str]:  # noqa: FBT001
    settings = list_settings(plan.release)
    writing: Any = type(plan.release)
    about = {
        parameter.name: catalogue.first_clause(parameter.help)
        + (f": {parameter.type}" if parameter.type.startswith('"') else "")
        for parameter in catalogue.parameters_of(writing)
    }
    lines = ["", "[release]"]
    if comments:
        lines = ["", "# How the release is written.", "[release]"]
    for key, value in settings.items():
        lines.append(
            f"{format_key(key)} = {format_value(value)}" + (f"  # {about[key]}" if comments else "")
        )
    missing = [name for name in PARTIES if name not in settings]
    if comments and missing:
        lines.append("# For the first page of the report; what is left out is filled in by hand.")
        blank = {"date": "2026-01-31"}
        lines += [f"# {name} = {blank.get(name, _NOTHING)}  # {about[name]}" for name in missing]
    return lines


def _write_tiers(plan: Plan, comments: bool) -> list[str]:  # noqa: FBT001
    lines: list[str] = []
    if plan.tiers and comments:
        about = "# Users of different trust, the most trusted first: a folder for each."
        lines = ["", about]
    for name, changes in plan.tiers.items():
        lines += ["", f"[tiers.{format_key(name)}]", *_write_pairs(changes)]
    if plan.tier is not None:
        about = "  # which tier of which plan this is" if comments else ""
        lines += ["", f"[tier]{about}", *_write_pairs(plan.tier.plain())]
    return lines


def _write_pairs(table: Mapping[str, Any]) -> list[str]:
    return [f"{format_key(key)} = {format_value(value)}" for key, value in table.items()]


_SECTIONS = {
    "read": _write_read,
    "columns": _write_columns,
    "purpose": _write_purpose,
    "steps": _write_steps,
    "targets": _write_targets,
    "evaluate": _write_evaluate,
    "release": _write_release,
    "tiers": _write_tiers,
}


def format_key(name: str) -> str:
    """A key, in quotation marks where TOML asks for them."""
    return name if _BARE.fullmatch(name) else tomlkit.item(name).as_string()


def format_value(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(_format_pairs(value)) + " }" if value else "{}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(format_value(part) for part in value) + "]"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return f"{value:.1f}"
    # Lists of codes can be long, and the library takes its time with each.
    if type(value) is int:
        return str(value)
    if isinstance(value, str) and value.isprintable() and not {'"', "\\"} & {*value}:
        return f'"{value}"'
    return str(tomlkit.item(value).as_string())


def _format_pairs(table: dict[str, Any]) -> Iterator[str]:
    for key, value in table.items():
        yield f"{format_key(str(key))} = {format_value(value)}"
