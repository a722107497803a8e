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
        hint = _given_by(name, entries) or did_you_mean(name, entries)
        raise PlanError(f"There is no '{name}' in {what}.", hint=hint)
    wanted = entries if name is None else {name: entries[name]}
    if as_json:
        show_json({one: _described(entry) for one, entry in wanted.items()})
    elif name is None:
        rows = [(one, catalogue.question(entry)) for one, entry in wanted.items()]
        show_table(what.capitalize(), ["name", "what it does"], rows)
    else:
        _show_prose(entries[name])
        _show_parameters(entries[name])
        _show_plan(entries[name])


def _given_by(name: str, entries: Mapping[str, Any]) -> str:
    """Where a number is found that is no measure of its own: k is one of uniqueness."""
    owners = [one for one, entry in entries.items() if name in getattr(entry, "provides", ())]
    listed = " and ".join(f"'{one}'" for one in owners)
    return f"'{name}' is a number of {listed}: sfumato measures {owners[0]}" if owners else ""


def _show_prose(entry: Any) -> None:
    """What its docstring says before the parameters, a paragraph a line: the terminal wraps it."""
    text = (inspect.getdoc(entry) or "").partition("\nParameters\n")[0]
    for part in re.split(r"\n\n|\n(?=Assumes:)", text.strip()):
        out.print(" ".join(part.split()), markup=False)
    out.print()


def _show_plan(entry: Any) -> None:
    """An example for a plan file."""
    example: Mapping[str, Any] = next((one for one in entry.examples if one), {})
    one = entry(**example)
    plan = Plan(steps=[one]) if isinstance(one, Method) else Plan(evaluate={one.name: one})
    given = "\n".join(
        line
        for line in plan.text().split("\n\n")[1].splitlines()
        if line.partition(" =")[0] in ("method", "measure", *example) or line[0] == "["
    )
    out.print("In a plan", style="bold")
    out.print(given, markup=False, soft_wrap=True)


def _show_parameters(entry: Any) -> None:
    rows = [
        (one.name, one.type, "must be given" if one.required else _default(one.default), one.help)
        for one in catalogue.parameters_of(entry)
    ]
    show_table("Parameters", ["name", "type", "default", "meaning"], rows)


def _default(value: Any) -> str:
    """A default as the plan file writes it; nothing where nothing is set."""
    if value is None or value == []:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _described(entry: Any) -> dict[str, Any]:
    return {
        "what": catalogue.question(entry),
        "parameters": [vars(one) for one in catalogue.parameters_of(entry)],
    }
