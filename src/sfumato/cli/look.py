"""Look at data before anything is done: inspect, assess."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from sfumato import catalogue
from sfumato.cli import options, tables
from sfumato.cli.answers import show_answer, show_summary
from sfumato.cli.console import format_number, progress, say, show_json, show_table
from sfumato.data import Dataset
from sfumato.data.linked import LinkedTables
from sfumato.engines import engine_for
from sfumato.engines.summaries import Count, Distinct, Summary
from sfumato.errors import PlanError
from sfumato.evidence import Evidence
from sfumato.io import Source, frames
from sfumato.io.frames import wrap
from sfumato.measure import Measure
from sfumato.plan import Plan
from sfumato.profiles import load_profile
from sfumato.progress import Progress
from sfumato.report.answers import answer_for_original
from sfumato.run import assess as run_assess
from sfumato.run.joined import add_disclosure
from sfumato.run.measuring import choose_measures
from sfumato.schema import Role, Schema
from sfumato.suggestion.first_plan import first_plan, suggest_schema
from sfumato.suggestion.roles import AssignedRoles, assign_roles
from sfumato.suggestion.search import TriedPlan, search_first_plan
from sfumato.utility.purpose import Purpose

if TYPE_CHECKING:
    from sfumato.figures.sheet.picture import Picture

_LONG = 0.5
"""CPU seconds from which it is said how long a measure took."""
_MOST_SHOWN = 1000
"""Variables that a table on a terminal lists; to lay out more takes longer than to look at them."""
_CLAUSE, _WIDE = re.compile(r"[;:]|\. |, and "), 36
"""Where the first clause of a reason ends, and how much of it fits into a line."""
_SAMPLE = 20_000
"""Records on a cluster whose values are looked at for a suggestion."""


@dataclass(frozen=True)
class _Exact:
    """What was counted of all records on a cluster, by variable."""

    records: int
    counts: Mapping[str, Mapping[str, int]]


def register(app: typer.Typer) -> None:
    """Add the commands of this group."""
    app.command(epilog="Example: sfumato inspect cohort.csv --plan plan.toml")(inspect)
    app.command(epilog="Example: sfumato assess cohort.csv --plan plan.toml --known sex,region")(
        options.add_measure_options(assess)
    )


def inspect(
    file: options.File,
    plan: Annotated[
        Path | None, typer.Option("--plan", "-p", help="Write a first plan to this file.")
    ] = None,
    update: Annotated[
        Path | None,
        typer.Option("--update", "-u", help="Rebuild the steps of this plan from its roles."),
    ] = None,
    known: Annotated[
        str | None, typer.Option(help="Variables by which somebody may be known, with commas.")
    ] = None,
    secret: Annotated[
        str | None, typer.Option(help="Variables that nobody should learn, with commas.")
    ] = None,
    rest: Annotated[
        str | None, typer.Option(help='The role of all other variables, such as "other".')
    ] = None,
    purpose: Annotated[
        list[str] | None,
        typer.Option(
            help='What the data are for: "wage ~ age + sex", "mean wage by sex", "sex * region", '
            '"survival(time, died) by arm"; several times.'
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option(help="Seconds in which better plans are looked for.")
    ] = 20.0,
    profile: Annotated[
        str | None, typer.Option(help="Let the plan meet this profile: `sfumato profiles`.")
    ] = None,
    table: options.Table = None,
    query: options.Query = None,
    engine: options.Engine = None,
    master: options.Master = None,
    ask: Annotated[
        bool, typer.Option("--ask", help="Ask five questions, with suggestions, and try plans.")
    ] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Give every reason in full.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing plan.")
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Suggest a role and a kind for every variable, with reasons, and write a first plan.

    Nothing is applied. The suggestions are guesses from names and values: you decide. When you have
    corrected roles in a plan, --update rebuilds its steps and keeps everything else you wrote.

    With --known, --secret, --rest or --purpose, or with --ask, the plan is tried on the data
    before it is written: what refuses it is changed, and of the plans that pass, the one that keeps
    most of the purpose is taken.

    If FILE is a folder of files, or a whole database, keys between its tables are suggested too.
    """
    if profile is not None:
        load_profile(profile)  # a wrong name is told before the work
        if plan is None:
            raise PlanError("--profile goes into a plan.", hint="add --plan plan.toml.")
    if tables.is_of_several(file, table, query) and engine is None and master is None:
        _inspect_tables(
            file, plan, update, table, profile=profile, overwrite=overwrite, json=json, quiet=quiet
        )
        return
    if update is not None:
        _require_one_of(plan, update)
        _update(file, update, table=table, query=query, json=json, quiet=quiet)
        return
    load = partial(options.load, file, table=table, query=query, engine=engine, master=master)
    asked = _read_asked(known, secret, rest, purpose, profile, seconds)
    if ask:
        asked, plan = _interview(load, plan, profile=profile, seconds=seconds, quiet=quiet)
    if asked is not None:
        _inspect_and_try(load, asked, file, plan, overwrite=overwrite, json=json, quiet=quiet)
        return
    with progress(quiet=quiet or json) as tell:
        tell("reading", 0, 2)
        data = load(progress=tell)
        tell("looking at the variables", 1, 2)
        data, exact = _bring_sample_here(data)
        suggested = None if plan is None else first_plan(data, profile=profile)
        schema = suggest_schema(data) if suggested is None else suggested.schema
    if plan is not None and suggested is not None:
        options.write_plan(plan, suggested, overwrite=overwrite, source=file)
    if json:
        show_json(_describe_variables(data, schema, exact))
        return
    _show(data, schema, exact, explain=explain, quiet=quiet)
    if plan is not None and not quiet:
        say(f"A first plan is in '{plan}'. Read it, correct the roles, then run:")
        say(f"  sfumato protect {file} --plan {plan} --out release")


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What somebody says in one go, and for how long plans are tried."""

    known: list[str]
    secret: list[str]
    rest: Role | None
    purpose: Purpose | None
    profile: str | None
    seconds: float


def _require_one_of(plan: Path | None, update: Path | None) -> None:
    if plan is not None and update is not None:
        raise PlanError(
            "--plan writes a new plan, and --update an existing one.", hint="give one of them."
        )


def _read_asked(
    known: str | None,
    secret: str | None,
    rest: str | None,
    purpose: list[str] | None,
    profile: str | None,
    seconds: float,
) -> _Asked | None:
    """What the options say in one go; None where none of them was given."""
    if not any(option is not None for option in (known, secret, rest, purpose)):
        return None
    return _Asked(
        known=options.split_names(known) or [],
        secret=options.split_names(secret) or [],
        rest=None if rest is None else cast("Role", rest),
        purpose=Purpose(items=purpose) if purpose else None,
        profile=profile,
        seconds=seconds,
    )


def _interview(
    load: Callable[..., Dataset],
    path: Path | None,
    *,
    profile: str | None,
    seconds: float,
    quiet: bool,
) -> tuple[_Asked, Path]:
    """Five questions; what the values suggest is the answer of whoever only presses Enter."""
    with progress(quiet=quiet) as tell:
        schema = suggest_schema(load(progress=tell))
    say(f"Variables: {', '.join(schema)}.")
    known = _prompt("What may others know about a person?", ",".join(schema.having("quasi")))
    secret = _prompt("What should nobody learn?", ",".join(schema.having("sensitive")))
    rest = _prompt("What is everything else? other, or quasi if others may know it", "other")
    say("What are the data for? A line each, such as: wage ~ age + sex. Enter ends.")
    items: list[str] = []
    while line := _prompt(f"  line {len(items) + 1}", ""):
        items.append(line)
    written = Path(_prompt("Where does the plan go?", str(path or "plan.toml")))
    asked = _read_asked(known, secret, rest, items or None, profile, seconds)
    return cast("_Asked", asked), written


def _prompt(question: str, suggested: str) -> str:
    """An answer from the terminal; questions go where messages go."""
    answer: str = typer.prompt(question, default=suggested, show_default=bool(suggested), err=True)
    return answer.strip()


def _inspect_and_try(
    load: Callable[..., Dataset],
    asked: _Asked,
    file: str,
    path: Path | None,
    *,
    overwrite: bool,
    json: bool,
    quiet: bool,
) -> None:
    """Give roles in one go, try plans on the data, and write the best that passes."""
    if path is not None:
        options.require_plan_path(path, overwrite=overwrite, source=file)  # before the work
    with progress(quiet=quiet or json) as tell:
        tell("reading", 0, 2)
        data = load(progress=tell)
        tell("looking at the variables", 1, 2)
        assigned = assign_roles(
            data, known=asked.known, secret=asked.secret, rest=asked.rest,
            needed=[] if asked.purpose is None else asked.purpose.list_variables(),
        )  # fmt: skip
        found = search_first_plan(
            data, assigned.schema, purpose=asked.purpose, profile=asked.profile,
            open_roles=assigned.open_roles, seconds=asked.seconds, progress=tell,
        )  # fmt: skip
    best = found[0]
    if path is not None:
        options.write_plan(path, best.plan, overwrite=overwrite, source=file)
    if json:
        plans = [
            {"kept": tried.kept, "lights": dict(tried.colours), "how": tried.how,
             "changes": list(tried.changes)}
            for tried in found
        ]  # fmt: skip
        show_json({**_describe_variables(data, best.plan.schema, None), "plans": plans})
        return
    _show_tried(data, found, assigned)
    if path is not None and not quiet:
        say(f"The first of them is in '{path}'. It passes its own gate. To carry it out:")
        say(f"  sfumato protect {file} --plan {path} --out release")


def _show_tried(data: Dataset, found: Sequence[TriedPlan], assigned: AssignedRoles) -> None:
    """The roles, the plans, and what the chosen one changes."""
    best = found[0]
    done: dict[str, list[str]] = {}
    for step in best.plan.steps:
        for name in step.touches(best.plan.schema):
            done.setdefault(name, []).append(step.name)
    rows = [
        (name, column.role or "?", column.kind or "?", ", ".join(done.get(name, ["as it is"])))
        for name, column in islice(best.plan.schema.items(), _MOST_SHOWN)
    ]
    title = f"Records: {len(data):,}. Variables: {len(best.plan.schema)}."
    show_table(title, ["variable", "role", "kind", "done"], rows)
    if assigned.held:
        say(f"Not given the role of the rest, since it looks like an identifier, a group or a "
            f"weight: {', '.join(assigned.held)}.")  # fmt: skip
    show_table(
        "Plans that were tried",
        ["plan", "keeps", *best.colours],
        [(tried.how, f"{tried.kept:.0%}", *tried.colours.values()) for tried in found],
    )
    for line in best.changes:
        say(f"- {line}")


def _inspect_tables(
    file: str,
    plan: Path | None,
    update: Path | None,
    table: str | None,
    *,
    profile: str | None,
    overwrite: bool,
    json: bool,
    quiet: bool,
) -> None:
    """The same for several linked tables."""
    if update is not None:
        raise PlanError(
            "--update rebuilds a plan for one table.",
            hint="write a new plan with --plan, and compare the two.",
        )
    with progress(quiet=quiet or json) as tell:
        tell("reading", 0, 2)
        found = tables.inspect(file, table=table, profile=profile, progress=tell)
    if plan is not None:
        options.write_plan(plan, found.plan, overwrite=overwrite, source=file)
    if json:
        show_json(tables.describe_inspected(found))
        return
    tables.show_inspected(found, quiet=quiet)
    if plan is not None and not quiet:
        say(f"A first plan is in '{plan}'. Read it, correct keys and roles, then run:")
        say(f"  sfumato protect {file} --plan {plan} --out release")


def _update(
    file: str, path: Path, *, table: str | None, query: str | None, json: bool, quiet: bool
) -> None:
    """Rebuild the steps of a plan file in place."""
    from sfumato.io.atomic import write_file
    from sfumato.suggestion.update import update_plan

    loaded = Plan.load(path)
    with progress(quiet=quiet or json) as tell:
        tell("reading", 0, 2)
        read_only = Plan(read=loaded.read)
        data = options.load(file, plan=read_only, table=table, query=query, progress=tell)
        tell("rebuilding the steps", 1, 2)
        text = path.read_bytes().decode("utf-8-sig")
        updated = update_plan(text, data, name=str(path), folder=path.parent)
    if updated.text != text:
        write_file(path, updated.text, mode=path.stat().st_mode & 0o777)
    if json:
        show_json({"plan": str(path), **updated.plain()})
    elif not quiet:
        for line in updated.describe():
            say(line)


def _bring_sample_here(data: Dataset) -> tuple[Dataset, _Exact | None]:
    """The data, or a sample of those on a cluster, and what was counted of all of them there."""
    if not frames.is_distributed(data.frame):
        return data, None
    engine = engine_for(data.frame)
    prepared = engine.keep(engine.prepare(data))
    counts: list[Summary] = [Count(), Distinct()]
    found = engine.aggregate(prepared, dict.fromkeys(data.columns, counts))
    records = engine.count(prepared)
    sample = engine.sample(prepared, data.columns, _SAMPLE)
    note = (
        f"roles and kinds are suggested from {len(sample):,} of {records:,} records; how many "
        "values there are was counted in all of them"
    )
    source = replace(data.source or Source(format="table"), notes=(note,))
    return Dataset(sample, data.schema, source), _Exact(records, found)


def _describe_variables(data: Dataset, schema: Schema, exact: _Exact | None) -> dict[str, Any]:
    source = data.source
    read_as = dict(source.columns) if source else {}
    counted = {} if exact is None else exact.counts
    return {
        "records": len(data) if exact is None else exact.records,
        "read": list(source.notes) if source else [],
        "variables": {
            name: {
                "read_as": read_as[name].type if name in read_as else None,
                "read_because": read_as[name].reason if name in read_as else None,
                "role": column.role,
                "kind": column.kind,
                "cells": column.cells,
                "label": column.label or None,
                "missing": list(column.missing),
                "missing_tokens": list(read_as[name].missing) if name in read_as else [],
                "levels": list(column.levels or ()),
                "reason": column.reason,
                **counted.get(name, {}),
            }
            for name, column in schema.items()
        },
    }


def _shorten(reason: str) -> str:
    """The first clause of a reason, in one line of the table.

    Examples
    --------
    >>> _shorten("Its name suggests age; others may know it about a person.")
    'Its name suggests age'
    """
    clause = _CLAUSE.split(reason, maxsplit=1)[0].rstrip(".")
    return clause if len(clause) <= _WIDE else f"{clause[: _WIDE - 1].rstrip()}…"


def _show(
    data: Dataset, schema: Schema, exact: _Exact | None, *, explain: bool, quiet: bool
) -> None:
    description = _describe_variables(data, schema, exact)
    rows = [
        (
            name,
            variable["read_as"] or "",
            variable["role"] or "?",
            variable["kind"] or "?",
            variable["reason"] if explain else _shorten(variable["reason"]),
        )
        for name, variable in islice(description["variables"].items(), _MOST_SHOWN)
    ]
    title = f"Records: {description['records']:,}. Variables: {len(schema)}. These are suggestions."
    show_table(title, ["variable", "read as", "role", "kind", "why"], rows)
    if len(schema) > _MOST_SHOWN:
        say(f"These are the first {_MOST_SHOWN:,} variables; --json and --plan give all of them.")
    if quiet:
        return
    for note in description["read"]:
        say(f"Read: {note}")
    for name, variable in islice(description["variables"].items(), _MOST_SHOWN):
        if "declare" in (variable["read_because"] or ""):
            say(f"Read: variable '{name}': {variable['read_because']}.")
    if schema.unknown:
        named = ", ".join(schema.unknown[:_MOST_SHOWN])
        more = len(schema.unknown) - _MOST_SHOWN
        others = f" and {more:,} more" if more > 0 else ""
        say(f"No role yet (?): {named}{others}. Decide before you protect.")


def assess(
    file: options.File,
    plan: Annotated[Path | None, typer.Option("--plan", "-p", help="Roles from this plan.")] = None,
    measure: options.Measures = None,
    pictures: Annotated[
        Path | None,
        typer.Option(help="Draw what was measured into this new folder. Do not pass it on."),
    ] = None,
    table: options.Table = None,
    query: options.Query = None,
    engine: options.Engine = None,
    master: options.Master = None,
    details: options.Details = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    *,
    parameters: options.Parameters,
) -> None:
    """Say who could be singled out in the unprotected data, and what else was measured.

    Without a plan, roles are only suggestions.
    """
    if pictures is not None and pictures.exists():
        raise PlanError(f"'{pictures}' exists already.", hint="choose another folder.")
    loaded = Plan.load(plan) if plan else None
    with progress(quiet=quiet or json) as tell:
        tell("reading", 0, 1)
        found = tables.read_for(
            file, loaded, table=table, query=query, engine=engine, master=master, progress=tell
        )
        data: Dataset | LinkedTables = (
            found if isinstance(found, Dataset) else tables.link_declared(found, loaded or Plan())
        )
        if loaded is None and isinstance(data, Dataset):
            sample, _ = _bring_sample_here(data)
            data = data.with_schema(Schema.infer(sample.frame, known=data.schema))
        measures = options.choose_measures(measure, parameters)
        if measures is None:
            measures = options.adjust_measures(_choose_usual(data, loaded, parameters), parameters)
        clock = _Clock(tell)
        evidence = run_assess(data, measures, progress=clock)
        records = data if isinstance(data, Dataset) else data.join()
        if pictures is not None:
            tell("drawing", 0, 1)
            _draw_original(pictures, evidence, measures, records)
        sentence = "" if json else answer_for_original(evidence, measures, records)
    if not quiet:
        clock.say(evidence)
    if loaded is None and not quiet:
        say("No plan was given, so the roles are guesses (see `sfumato inspect`).")
    show_evidence(evidence, sentence, details=details, as_json=json, quiet=quiet)


def _choose_usual(
    data: Dataset | LinkedTables, plan: Plan | None, parameters: options.Parameters
) -> dict[str, Measure]:
    """What is measured where nobody has chosen: what the plan names, else all that can be."""
    if not isinstance(data, Dataset):
        return add_disclosure((plan or Plan()).measures, data)
    offered = choose_measures(None, of="one", engine=engine_for(data.frame))
    return options.add_needed_measures(_default_measures(plan) or offered, parameters, offered)


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

    def say(self, evidence: dict[str, Evidence]) -> None:
        """How long those took that went through many combinations."""
        for (label, began), (_, ended) in pairwise(self._began):
            measured = evidence.get(label)
            if measured is None or "combinations" not in measured.details or ended - began < _LONG:
                continue
            variables = 1 if measured.table is None else len(wrap(measured.table))
            say(
                f"{label}: {measured.details['combinations']:,} combinations, "
                f"{variables} variable{'s' if variables != 1 else ''} in turn, in "
                f"{ended - began:.1f} CPU seconds."
            )


def _default_measures(plan: Plan | None) -> dict[str, Measure]:
    """The measures of one data set that the plan names."""
    planned = plan.measures if plan is not None and plan.evaluate else {}
    return {label: measure for label, measure in planned.items() if measure.of == "one"}


def _draw_original(
    folder: Path, evidence: dict[str, Evidence], measures: dict[str, Measure], data: Dataset
) -> None:
    """Pictures of the data as they are; they show single records."""
    from sfumato.figures.custodian.album import album_of_original

    if not engine_for(data.frame).in_memory:
        raise PlanError(
            "Pictures of single records are drawn of data in memory only.",
            hint="leave out --engine, or take a sample of the records.",
        )
    save_pictures(folder, *album_of_original(evidence, measures, data))


def save_pictures(folder: Path, drawings: Mapping[str, Picture], failed: Mapping[str, str]) -> None:
    """Save pictures into a new private folder, and say which could not be drawn."""
    for name, reason in failed.items():
        say(f"No picture of {name}: {reason}")
    if not drawings:
        if not failed:
            say(f"None of these measures has a picture. There are pictures of {list_drawn()}.")
        return
    try:
        folder.mkdir(mode=0o700, parents=True)
    except OSError:
        raise PlanError(
            f"The folder '{folder}' cannot be created.", hint="choose another place."
        ) from None
    for name, picture in drawings.items():
        # A label is anybody's text; a file name is not.
        safe = "".join(sign if sign.isalnum() or sign in "-_" else "_" for sign in name)
        say(f"Picture:   {picture.save(folder / f'{safe}.svg')}")


def list_drawn() -> str:
    """The measures that have a picture, in words."""
    names = [name for name, entry in catalogue.measures().items() if entry.picture]
    grouped = ("attribute_disclosure", "reidentification")
    return ", ".join(f"{name} with groups" if name in grouped else name for name in sorted(names))


def show_evidence(
    evidence: dict[str, Evidence], sentence: str, *, details: bool, as_json: bool, quiet: bool
) -> None:
    """Evidence on stdout, the answer first; leave with 2 when something could not be computed."""
    if as_json:
        show_json({label: item.plain() for label, item in evidence.items()})
    else:
        show_answer(sentence)
        if details:
            for label, item in evidence.items():
                _show_measure(label, item)
            if not quiet:
                _show_assumptions(evidence)
        else:
            show_summary(evidence)
            if not quiet:
                say("All numbers, and what they assume: --details")
    if not all(item.computed for item in evidence.values()):
        raise typer.Exit(2)


def _show_measure(label: str, evidence: Evidence) -> None:
    if not evidence.computed:
        say(f"{label}: could not be computed. {evidence.reason}", style="red")
        return
    content = evidence.plain()
    worst = format_number(content["at_worst"])
    rows = [(evidence.name, worst)]
    if content["at_worst"] != content["value"]:
        milder = (f"{evidence.name}, the milder reading", format_number(content["value"]))
        rows = [(f"{evidence.name}, at worst", worst), milder]
    if content["baseline"] is not None:
        what = "by chance" if evidence.subject == "pair" else "of the original"
        rows.append((f"{evidence.name} {what}", format_number(content["baseline"])))
    rows += [
        (key, format_number(value))
        for key, value in content["details"].items()
        if not _is_table(value)
    ]
    show_table(label, ["number", "value"], rows)
    if content["table"]:
        columns = list(content["table"][0])
        title = f"{label} by {columns[0].replace('_', ' ')}"
        below = [[format_number(row[name]) for name in columns] for row in content["table"]]
        show_table(title, columns, below)
    for line in evidence.warnings:
        say(f"Warning: {line}", style="yellow")


def _is_table(value: Any) -> bool:
    """Whether it is a table of its own, which JSON and the report show."""
    return isinstance(value, list) and any(isinstance(item, dict) for item in value)


def _show_assumptions(evidence: dict[str, Evidence]) -> None:
    """Each assumption once, and which measures make it unless all do."""
    computed = {label: item for label, item in evidence.items() if item.computed}
    for line in dict.fromkeys(line for item in computed.values() for line in item.assumptions):
        made_by = [label for label, item in computed.items() if line in item.assumptions]
        who = "" if len(made_by) == len(computed) else f" ({', '.join(made_by)})"
        say(f"Assumed: {line}{who}")
