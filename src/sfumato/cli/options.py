"""Options that several commands share, and options made from the parameters of the measures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato import catalogue
from sfumato.data import Dataset, read
from sfumato.errors import PlanError
from sfumato.measure import Measure
from sfumato.plan import Plan
from sfumato.progress import Progress

Json = Annotated[bool, typer.Option("--json", help="Print JSON to stdout, and nothing else there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no remarks.")]
File = Annotated[
    str, typer.Argument(help="CSV, Parquet, Excel, Stata, SPSS, SAS file, or a database address.")
]
Table = Annotated[str | None, typer.Option(help="The table to read, when FILE is a database.")]
Query = Annotated[str | None, typer.Option(help="The query to read, when FILE is a database.")]
Measures = Annotated[
    list[str] | None, typer.Option("--measure", "-m", help="Which measures; may be repeated.")
]
PlanFile = Annotated[Path, typer.Option("--plan", "-p", help="The plan (TOML).")]


def load(
    file: str,
    *,
    plan: Plan | None = None,
    table: str | None = None,
    query: str | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Read a file as the plan says, and lay the plan's schema over it."""
    options = dict(plan.read) if plan else {}
    options |= {key: value for key, value in (("table", table), ("query", query)) if value}
    data = read(file, progress=progress, **options)
    return data.with_schema(plan.schema) if plan else data


def with_parameters(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for every parameter of every measure; the catalogue knows them."""
    signature = inspect.signature(command, eval_str=True)
    shown = [one for one in signature.parameters.values() if one.name != "parameters"]
    for name, help_text in sorted(_options().items()):
        option = typer.Option(f"--{name.replace('_', '-')}", help=help_text, show_default=False)
        shown.append(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[str | None, option],
            )
        )

    def wrapped(**given: Any) -> None:
        parameters = {name: given.pop(name) for name in _options() if name in given}
        command(**given, parameters={k: v for k, v in parameters.items() if v is not None})

    wrapped.__name__ = command.__name__
    wrapped.__doc__ = command.__doc__
    wrapped.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return wrapped


def _options() -> dict[str, str]:
    found: dict[str, str] = {}
    for name, entry in catalogue.measures().items():
        for one in catalogue.parameters_of(entry):
            about = f"{name}: {one.help}"
            found[one.name] = f"{found[one.name]} / {about}" if one.name in found else about
    return found


def chosen(names: Iterable[str] | None, parameters: dict[str, str]) -> dict[str, Measure] | None:
    """The measures that were asked for, each with the parameters that it has."""
    if not names and not parameters:
        return None
    entries = {name: catalogue.measure(name) for name in names or catalogue.measures()}
    made: dict[str, Measure] = {}
    for name, entry in entries.items():
        own = {one.name for one in catalogue.parameters_of(entry)}
        mine = {key: value for key, value in parameters.items() if key in own}
        if not names and not mine:
            continue
        made[name] = entry(**catalogue.parsed(entry, mine))
    unused = set(parameters) - {
        one.name for entry in entries.values() for one in catalogue.parameters_of(entry)
    }
    if unused:
        listed = ", ".join(sorted(f"--{name}" for name in unused))
        raise PlanError(f"None of the chosen measures has {listed}.")
    return made
