"""Options that several commands share, and options made from the parameters of the measures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
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
Parameters = Mapping[str, list[str]]
"""What was given for each parameter of a measure, in the order in which it was given."""
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
        # Text for whoever types it; the help says of what type.
        option = typer.Option(
            f"--{_dashed(name)}", help=help_text, metavar="<str>", show_default=False
        )
        shown.append(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                # All that was given arrives, so that nothing said is silently dropped.
                annotation=Annotated[list[str] | None, option],
            )
        )

    def wrapped(**given: Any) -> None:
        parameters = {name: given.pop(name) for name in _options() if name in given}
        command(**given, parameters={k: v for k, v in parameters.items() if v})

    wrapped.__name__ = command.__name__
    wrapped.__doc__ = command.__doc__
    wrapped.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return wrapped


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _options() -> dict[str, str]:
    """The help of every parameter: its type, and what each measure takes it for."""
    told: dict[str, dict[tuple[str, str], list[str]]] = {}
    for name, entry in catalogue.measures().items():
        for one in catalogue.parameters_of(entry):
            told.setdefault(one.name, {}).setdefault((one.type, one.help), []).append(name)
    return {name: _help(about) for name, about in told.items()}


def _help(about: Mapping[tuple[str, str], list[str]]) -> str:
    said: list[str] = []
    last = ""
    for (kind, meaning), owners in about.items():
        said.append(f"{f'({kind}) ' * (kind != last)}{', '.join(owners)}: {meaning}")
        last = kind
    return " / ".join(said)


def chosen(names: Iterable[str] | None, parameters: Parameters) -> dict[str, Measure] | None:
    """The measures that were asked for, each with the parameters that it has."""
    if not names:
        return None
    entries = {name: catalogue.measure(name) for name in names}
    _require_used(parameters, entries.values())
    return {
        name: entry(**catalogue.parsed(entry, _own(entry, parameters)))
        for name, entry in entries.items()
    }


def adjusted(measures: Mapping[str, Measure], parameters: Parameters) -> dict[str, Measure]:
    """The measures that are taken anyway, with the parameters that were given."""
    _require_used(parameters, [type(one) for one in measures.values()])
    made: dict[str, Measure] = {}
    for label, one in measures.items():
        mine = catalogue.parsed(type(one), _own(type(one), parameters))
        # They are all dataclasses, which the type of the base class does not say.
        made[label] = replace(one, **mine) if mine else one  # type: ignore[type-var]
    return made


def needed(
    measures: Mapping[str, Measure], parameters: Parameters, offered: Mapping[str, Measure]
) -> dict[str, Measure]:
    """The measures taken, and those offered that alone have a parameter that was given."""
    made = dict(measures)
    for name in parameters:
        if not any(_own(type(one), {name: []}) for one in made.values()):
            having = {key: one for key, one in offered.items() if _own(type(one), {name: []})}
            made |= having if len(having) == 1 else {}
    return made


def _own(entry: type[Measure], parameters: Parameters) -> dict[str, list[str]]:
    own = {one.name for one in catalogue.parameters_of(entry)}
    return {name: texts for name, texts in parameters.items() if name in own}


def _require_used(parameters: Parameters, entries: Iterable[type[Measure]]) -> None:
    taken = list(entries)
    for name in parameters:
        if any(_own(entry, {name: []}) for entry in taken):
            continue
        having = [key for key, one in catalogue.measures().items() if _own(one, {name: []})]
        listed = ", ".join(f"'{one.name}'" for one in taken)
        raise PlanError(
            f"None of the measures taken here ({listed}) has --{_dashed(name)}.",
            hint=f"{', '.join(having)} {'has' if len(having) == 1 else 'have'} it: "
            f"--measure {having[0]}",
        )
