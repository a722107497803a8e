"""Look at data before anything is done: inspect, assess."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.console import progress, said, say, show_json, show_table
from sfumato.data import Dataset
from sfumato.errors import PlanError
from sfumato.evidence import Evidence
from sfumato.io.frames import wrap
from sfumato.measure import Measure
from sfumato.plan import Plan
from sfumato.plan.first_plan import first_plan
from sfumato.progress import Progress
from sfumato.run import assess as run_assess
from sfumato.run import named
from sfumato.schema import Schema

_LONG = 0.5
"""CPU seconds from which it is said how long a measure took."""
_WIDE = 5
"""Columns beside the first that a terminal can show."""


def register(app: typer.Typer) -> None:
    """Add the commands of this group."""
    app.command(epilog="Example: sfumato inspect cohort.csv --plan plan.toml")(inspect)
    app.command(epilog="Example: sfumato assess cohort.csv --plan plan.toml --known sex,region")(
        options.with_parameters(assess)
    )


def inspect(
    file: options.File,
    plan: Annotated[
        Path | None, typer.Option("--plan", "-p", help="Write a first plan to this file.")
    ] = None,
    table: options.Table = None,
    query: options.Query = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an existing plan.")] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Suggest a role and a kind for every variable, with reasons, and write a first plan.

    Nothing is applied. The suggestions are guesses from names and values: you decide.
    """
    with progress(quiet=quiet or json) as tell:
        tell("reading", 0, 2)
        data = options.load(file, table=table, query=query, progress=tell)
        tell("looking at the variables", 1, 2)
        made = first_plan(data)
    if plan is not None:
        write_plan(plan, made, overwrite=overwrite, source=file)
    if json:
        show_json(_described(data, made.schema))
        return
    _show(data, made.schema, quiet=quiet)
    if plan is not None and not quiet:
        say(f"A first plan is in '{plan}'. Read it, correct the roles, then run:")
        say(f"  sfumato protect {file} --plan {plan} --out release")


def write_plan(
    path: Path, plan: Plan, *, overwrite: bool, source: str, option: str = "--plan"
) -> None:
    """Write a plan with its comments; never over another file unless that was said."""
    if path.suffix != ".toml" or path.resolve() == Path(source).resolve():
        hint = f"{option} plan.toml"
        raise PlanError("A plan is written to a file that ends in .toml.", hint=hint)
    try:
        with path.open("w" if overwrite else "x", encoding="utf-8") as file:
            file.write(plan.text(comments=True))
    except FileExistsError:
        raise PlanError(
            f"'{path}' exists already.", hint="choose another name, or say --overwrite."
        ) from None
    except OSError:
        raise PlanError(f"'{path}' cannot be written.", hint="is there such a folder?") from None


def _described(data: Dataset, schema: Schema) -> dict[str, Any]:
    source = data.source
    read_as = dict(source.columns) if source else {}
    return {
        "records": len(data),
        "read": list(source.notes) if source else [],
        "variables": {
            name: {
                "read_as": read_as[name].type if name in read_as else None,
                "read_because": read_as[name].reason if name in read_as else None,
                "role": told.role,
                "kind": told.kind,
                "reason": told.reason,
            }
            for name, told in schema.items()
        },
    }


def _show(data: Dataset, schema: Schema, *, quiet: bool) -> None:
    told = _described(data, schema)
    rows = [
        (name, one["read_as"] or "", one["role"] or "?", one["kind"] or "?", one["reason"])
        for name, one in told["variables"].items()
    ]
    title = f"Records: {len(data):,}. Variables: {len(schema)}. These are suggestions."
    show_table(title, ["variable", "read as", "role", "kind", "why"], rows)
    if quiet:
        return
    for note in told["read"]:
        say(f"Read: {note}")
    for name, one in told["variables"].items():
        if "declare" in (one["read_because"] or ""):
            say(f"Read: variable '{name}': {one['read_because']}.")
    if schema.unknown:
        say(f"No role yet (?): {', '.join(schema.unknown)}. Decide before you protect.")


def assess(
    file: options.File,
    plan: Annotated[Path | None, typer.Option("--plan", "-p", help="Roles from this plan.")] = None,
    measure: options.Measures = None,
    table: options.Table = None,
    query: options.Query = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    *,
    parameters: options.Parameters,
) -> None:
    """Measure the risk of the data as they are. Without a plan, roles are only suggestions."""
    loaded = Plan.load(plan) if plan else None
    with progress(quiet=quiet or json) as tell:
        tell("reading", 0, 1)
        data = options.load(file, plan=loaded, table=table, query=query, progress=tell)
        if loaded is None:
            data = data.with_schema(Schema.infer(data.frame))
        measures = options.chosen(measure, parameters)
        if measures is None:
            usual = options.needed(_usual(loaded), parameters, named(None, of="one"))
            measures = options.adjusted(usual, parameters)
        clock = _Clock(tell)
        found = run_assess(data, measures, progress=clock)
    if not quiet:
        clock.say(found)
    if loaded is None and not quiet:
        say("No plan was given, so the roles are guesses (see `sfumato inspect`).")
    show_evidence(found, as_json=json, quiet=quiet)


class _Clock:
    """Hears when each measure begins, so that it can be said how long it took.

    It is said here and nowhere else: a report of the same data has the same bytes tomorrow.
    """

    def __init__(self, tell: Progress) -> None:
        self._tell = tell
        self._began: list[tuple[str, float]] = []

    def __call__(self, what: str, done: int, total: int) -> None:
        """Take note of the beginning of each measure, and pass everything on."""
        if what == "measuring" or what.startswith("measuring: "):
            self._began.append((what.removeprefix("measuring: "), process_time()))
        self._tell(what, done, total)

    def say(self, found: dict[str, Evidence]) -> None:
        """How long those took that went through many combinations."""
        for (label, began), (_, ended) in pairwise(self._began):
            one = found.get(label)
            if one is None or "combinations" not in one.details or ended - began < _LONG:
                continue
            variables = 1 if one.table is None else len(wrap(one.table))
            say(
                f"{label}: {one.details['combinations']:,} combinations, "
                f"{variables} variable{'s' if variables != 1 else ''} in turn, in "
                f"{ended - began:.1f} CPU seconds."
            )


def _usual(plan: Plan | None) -> dict[str, Measure]:
    """The measures of one data set that are taken when none is named."""
    planned = plan.measures if plan is not None and plan.evaluate else {}
    return {label: one for label, one in planned.items() if one.of == "one"} or named(
        None, of="one"
    )


def show_evidence(found: dict[str, Evidence], *, as_json: bool, quiet: bool) -> None:
    """Evidence on stdout; leave with 2 when something could not be computed."""
    if as_json:
        show_json({label: one.plain() for label, one in found.items()})
    else:
        for label, one in found.items():
            _show_one(label, one)
        if not quiet:
            _show_assumptions(found)
    if not all(one.computed for one in found.values()):
        raise typer.Exit(2)


def _show_one(label: str, one: Evidence) -> None:
    if not one.computed:
        say(f"{label}: could not be computed. {one.reason}", style="red")
        return
    plain = one.plain()
    rows = [(one.name, said(plain["value"]))]
    if plain["baseline"] is not None:
        what = "by chance" if one.subject == "pair" else "of the original"
        rows.append((f"{one.name} {what}", said(plain["baseline"])))
    rows += [(key, said(value)) for key, value in plain["details"].items() if not _long(value)]
    show_table(label, ["number", "value"], rows)
    if plain["table"]:
        columns = list(plain["table"][0])
        title = f"{label} by {columns[0].replace('_', ' ')}"
        for first in range(1, max(2, len(columns)), _WIDE):
            # The first column says what a row is about; the others a few at a time.
            shown = [columns[0], *columns[first : first + _WIDE]]
            below = [[said(row[name]) for name in shown] for row in plain["table"]]
            show_table(title, shown, below)
    for line in one.warnings:
        say(f"Warning: {line}", style="yellow")


def _long(value: Any) -> bool:
    """Whether it is a table of its own, which JSON and the report show."""
    return isinstance(value, list) and any(isinstance(one, dict) for one in value)


def _show_assumptions(found: dict[str, Evidence]) -> None:
    """Each assumption once, and which measures make it unless all do."""
    computed = {label: one for label, one in found.items() if one.computed}
    for line in dict.fromkeys(line for one in computed.values() for line in one.assumptions):
        made_by = [label for label, one in computed.items() if line in one.assumptions]
        who = "" if len(made_by) == len(computed) else f" ({', '.join(made_by)})"
        say(f"Assumed: {line}{who}")
