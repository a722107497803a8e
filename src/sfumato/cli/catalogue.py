"""What there is: methods, measures."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from sfumato import catalogue
from sfumato.cli import options
from sfumato.cli.console import out, show_json, show_table
from sfumato.errors import PlanError, did_you_mean
from sfumato.method import Method
from sfumato.plan import Plan

Name = Annotated[str | None, typer.Argument(help="Show this one in full.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this group."""
    app.command(epilog="Example: sfumato methods coarsen")(methods)
    app.command(epilog="Example: sfumato measures uniqueness")(measures)


def methods(name: Name = None, json: options.Json = False) -> None:
    """List the methods that protect, or explain one of them."""
    _show("methods", catalogue.methods(), name, as_json=json)


def measures(name: Name = None, json: options.Json = False) -> None:
    """List the measures of risk and utility, or explain one of them."""
    _show("measures", catalogue.measures(), name, as_json=json)


def _show(what: str, entries: Mapping[str, Any], name: str | None, *, as_json: bool) -> None:
    if name is not None and name not in entries:
        hint = _find_owner(name, entries) or did_you_mean(name, entries)
        raise PlanError(f"There is no '{name}' in {what}.", hint=hint)
    wanted = entries if name is None else {name: entries[name]}
    if as_json:
        show_json({label: _describe(entry) for label, entry in wanted.items()})
    elif name is None:
        rows = [
            (label, catalogue.first_line(entry), ", ".join(entry.runs_on[1:]))
            for label, entry in wanted.items()
        ]
        show_table(what.capitalize(), ["name", "what it does", "also runs on"], rows)
    else:
        _show_prose(entries[name])
        _show_parameters(entries[name])
        _show_plan(entries[name])


def _find_owner(name: str, entries: Mapping[str, Any]) -> str:
    """Where a number is found that is no measure of its own: k is one of uniqueness."""
    owners = [label for label, entry in entries.items() if name in getattr(entry, "provides", ())]
    names = " and ".join(f"'{label}'" for label in owners)
    return f"'{name}' is a number of {names}: sfumato measures {owners[0]}" if owners else ""


def _show_prose(entry: Any) -> None:
    """What its docstring says before the parameters, a paragraph a line: the terminal wraps it."""
    text = (inspect.getdoc(entry) or "").partition("\nParameters\n")[0]
    for part in re.split(r"\n\n|\n(?=Assumes:)", text.strip()):
        out.print(" ".join(part.split()), markup=False)
    out.print()


def _show_plan(entry: Any) -> None:
    """An example for a plan file."""
    example: Mapping[str, Any] = next(
        (entry_example for entry_example in entry.examples if entry_example), {}
    )
    entry_example = entry(**example)
    plan = (
        Plan(steps=[entry_example])
        if isinstance(entry_example, Method)
        else Plan(evaluate={entry_example.name: entry_example})
    )
    lines = "\n".join(
        line
        for line in plan.text().split("\n\n")[1].splitlines()
        if line.partition(" =")[0] in ("method", "measure", *example) or line[0] == "["
    )
    out.print("In a plan", style="bold")
    out.print(lines, markup=False, soft_wrap=True)


def _show_parameters(entry: Any) -> None:
    rows = [
        (
            parameter.name,
            parameter.type,
            "must be given" if parameter.required else _format_default(parameter.default),
            parameter.help,
        )
        for parameter in catalogue.parameters_of(entry)
    ]
    show_table("Parameters", ["name", "type", "default", "meaning"], rows)


def _format_default(value: Any) -> str:
    """A default as the plan file writes it; nothing where nothing is set."""
    if value is None or value == []:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _describe(entry: Any) -> dict[str, Any]:
    return {
        "what": catalogue.first_line(entry),
        "runs_on": list(entry.runs_on),
        "parameters": [vars(parameter) for parameter in catalogue.parameters_of(entry)],
    }
