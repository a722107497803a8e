"""What there is: methods, measures."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.padding import Padding

from sfumato import catalogue
from sfumato.cli import options
from sfumato.cli.console import out, show_json, show_table
from sfumato.errors import PlanError, did_you_mean
from sfumato.measure import Measure
from sfumato.method import Method
from sfumato.plan import Plan
from sfumato.plan.toml_writer import format_value

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
        if issubclass(entries[name], Measure):
            _show_command(entries[name])


def _find_owner(name: str, entries: Mapping[str, Any]) -> str:
    """Where a number is found that is no measure of its own: k is one of uniqueness."""
    owners = [
        label
        for label, entry in entries.items()
        if any(number.name == name for number in getattr(entry, "numbers", ()))
    ]
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
    out.print(f"{lines}\n", markup=False, soft_wrap=True)


def _show_command(entry: type[Measure]) -> None:
    """An example for the command line."""
    example: Mapping[str, Any] = next((example for example in entry.examples if example), {})
    words = ["assess", "FILE"] if entry.of == "one" else ["evaluate", "FILE", "RELEASE"]
    words += [f"--measure {entry.name}"]
    for name, value in example.items():
        is_list = isinstance(value, list) and all(isinstance(part, str) for part in value)
        text = ",".join(value) if is_list else format_value(value).strip('"')
        words += [f"{options.format_flag(name)} {shlex.quote(text)}"]
    lines = ["sfumato"]
    for word in words:
        if len(lines[-1]) + len(word) > out.width - len("  \\"):
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" {word}"
    out.print("On the command line", style="bold")
    out.print("\n".join(lines), markup=False, soft_wrap=True)


def _show_parameters(entry: Any) -> None:
    out.print("Parameters", style="bold")
    for parameter in catalogue.parameters_of(entry):
        default = _format_default(parameter.default)
        needed = "must be given" if parameter.required else default and f"default: {default}"
        out.print(
            f"{parameter.name} ({'; '.join(filter(None, (parameter.type, needed)))})", markup=False
        )
        out.print(Padding(escape(parameter.help), (0, 0, 0, 4), expand=False))
    out.print()


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
