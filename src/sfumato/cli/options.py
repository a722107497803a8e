"""Options that several commands share, and options made from the parameters of the measures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer

from sfumato import catalogue
from sfumato.data import Dataset, read, scan
from sfumato.errors import DataError, PlanError
from sfumato.measure import Measure
from sfumato.plan import Plan
from sfumato.profiles import load_profile
from sfumato.progress import Progress

if TYPE_CHECKING:
    from sfumato.outputs.rules import Rules

Json = Annotated[bool, typer.Option("--json", help="Print JSON, and only JSON, to stdout.")]
Profile = Annotated[
    str | None,
    typer.Option(help="Take the rules of this profile: `sfumato profiles`. Default: the plan's."),
]
Details = Annotated[
    bool, typer.Option("--details", help="All numbers and tables, and what they assume.")
]
LedgerFolder = Annotated[
    Path | None,
    typer.Option("--ledger", help="The ledger's folder. Default: $SFUMATO_LEDGER, else yours."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no remarks.")]
File = Annotated[
    str, typer.Argument(help="CSV, Parquet, Excel, Stata, SPSS, SAS file, or a database address.")
]
Table = Annotated[str | None, typer.Option(help="The table to read, when FILE is a database.")]
Query = Annotated[str | None, typer.Option(help="The query to read, when FILE is a database.")]
Engine = Annotated[
    Literal["local", "streaming", "spark"] | None,
    typer.Option(
        metavar="<where>",
        help="local: in memory. streaming: in batches, for files larger than memory. spark: on a "
        "cluster. Default: by the size of FILE; spark with --master or a FILE table:NAME.",
    ),
]
Master = Annotated[
    str | None, typer.Option(help="The Spark cluster: spark://HOST:7077, k8s://…, local[4].")
]
Measures = Annotated[
    list[str] | None, typer.Option("--measure", "-m", help="Which measures; may be repeated.")
]
OutputLog = Annotated[Path | None, typer.Option("--log", help="Folder of the log of outputs.")]
HouseRules = Annotated[
    Path | None, typer.Option("--rules", help="The house rules for outputs (TOML).")
]
Parameters = Mapping[str, list[str]]
"""What was given for each parameter of a measure, in the order in which it was given."""
_ABOUT_PARAMETERS = (
    "Every parameter of a measure is an option too, such as --known sex,region: "
    "`sfumato measures NAME` lists those of each."
)
PlanFile = Annotated[Path, typer.Option("--plan", "-p", help="The plan (TOML).")]


def load(
    file: str,
    *,
    plan: Plan | None = None,
    table: str | None = None,
    query: str | None = None,
    engine: str | None = None,
    master: str | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Read a file as the plan says where it is to be worked on, and lay the plan's schema over it.

    On Spark the records stay where they are.
    """
    from sfumato.storage.protecting import is_rather_streamed

    options = dict(plan.require_one_table().read) if plan else {}
    options |= {key: value for key, value in (("table", table), ("query", query)) if value}
    if is_spark(engine, master, file):
        from sfumato.engines.spark_source import read_on_cluster

        data = read_on_cluster(open_session(engine, master, file), file, **options)
    elif engine == "streaming" or (engine is None and is_rather_streamed(file, plan)):
        data = scan(file, progress=progress, **options)
    else:
        data = read(file, progress=progress, **options)
        if not len(data):
            # Else each command would name another thing that is missing.
            raise DataError("There is no record in these data.", hint="is it the right file?")
    return plan.declare(data) if plan else data


def is_spark(engine: str | None, master: str | None, file: str | None = None) -> bool:
    """Whether the work is to be done on Spark."""
    on_cluster = master is not None or (file or "").startswith("table:")
    if on_cluster and engine not in (None, "spark"):
        raise PlanError(
            f"--engine {engine} does not work on a cluster.", hint="leave --master or --engine out."
        )
    return engine == "spark" or on_cluster


def open_session(engine: str | None, master: str | None, file: str | None = None) -> Any:
    """The session of the cluster that was asked for; None where none was."""
    if not is_spark(engine, master, file):
        return None
    from sfumato.engines import spark_source

    return spark_source.open_session(master)


def split_names(text: str | None) -> list[str] | None:
    """Names from "sex, region"; None where nothing was given."""
    if text is None:
        return None
    return [name.strip() for name in text.split(",") if name.strip()]


def parse_weights(
    texts: Iterable[str], example: str, *, option: str = "--weight"
) -> dict[str, float] | None:
    """Weights from "height=0.5"; None where none was given."""
    weights = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        try:
            weights[name.strip()] = float(number)
        except ValueError:
            raise PlanError(f"{option} takes a name and a number: {option} {example}.") from None
    return weights or None


def require_free(path: Path | None, known: tuple[str, ...], *, overwrite: bool) -> None:
    """Refuse a file whose format is not known, or that exists already."""
    if path is None:
        return
    if path.suffix not in known:
        raise PlanError(
            f"'{path}' cannot be written: its format is not known.",
            hint=f"choose a name that ends in {', '.join(known)}.",
        )
    if path.exists() and not overwrite:
        raise PlanError(
            f"'{path}' exists already.", hint="choose another name, or add --overwrite."
        )


def require_plan_path(path: Path, *, overwrite: bool, source: str, option: str = "--plan") -> None:
    """Refuse to write a plan where something else lies."""
    if path.suffix != ".toml" or path.resolve() == Path(source).resolve():
        hint = f"{option} plan.toml"
        raise PlanError("A plan is written to a file that ends in .toml.", hint=hint)
    if path.exists() and not overwrite:
        raise _refuse_existing(path)


def _refuse_existing(path: Path) -> PlanError:
    return PlanError(f"'{path}' exists already.", hint="choose another name, or add --overwrite.")


def write_plan(
    path: Path, plan: Plan, *, overwrite: bool, source: str, option: str = "--plan"
) -> None:
    """Write a plan with its comments; never over another file unless --overwrite was given."""
    require_plan_path(path, overwrite=overwrite, source=source, option=option)
    try:
        with path.open("w" if overwrite else "x", encoding="utf-8") as file:
            file.write(plan.text(comments=True))
    except FileExistsError:
        raise _refuse_existing(path) from None
    except OSError:
        raise PlanError(f"'{path}' cannot be written.", hint="does the folder exist?") from None


def explain_options(command: Callable[..., None], described: Any) -> Callable[..., None]:
    """Give the options that have no help what a docstring says of the parameter of that name."""
    docs = catalogue.read_parameter_docs(inspect.getdoc(described) or "")
    signature = inspect.signature(command, eval_str=True)
    explained = []
    for parameter in signature.parameters.values():
        kind, *others = (
            get_args(parameter.annotation)
            if get_origin(parameter.annotation) is Annotated
            else (parameter.annotation,)
        )
        option = others[0] if others else typer.Option()
        if option.help is None:
            option.help = docs[parameter.name][:1].upper() + docs[parameter.name][1:]
        explained.append(parameter.replace(annotation=Annotated[kind, option]))
    command.__signature__ = signature.replace(parameters=explained)  # type: ignore[attr-defined]
    return command


def add_measure_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for every parameter of every measure; the catalogue knows them.

    They are hidden, since there are more than a hundred: `sfumato measures NAME` explains them.
    """
    signature = inspect.signature(command, eval_str=True)
    shown = [
        parameter for parameter in signature.parameters.values() if parameter.name != "parameters"
    ]
    names = sorted(
        {
            parameter.name
            for entry in catalogue.measures().values()
            for parameter in catalogue.parameters_of(entry)
        }
    )
    shown += [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            # All that was given arrives, so that nothing said is silently dropped.
            annotation=Annotated[list[str] | None, typer.Option(format_flag(name), hidden=True)],
        )
        for name in names
    ]

    def wrapped(**values: Any) -> None:
        parameters = {name: values.pop(name) for name in names}
        command(**values, parameters={k: v for k, v in parameters.items() if v})

    wrapped.__name__ = command.__name__
    wrapped.__doc__ = f"{inspect.getdoc(command)}\n\n{_ABOUT_PARAMETERS}"
    wrapped.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return wrapped


def load_rules(rules: Path | None, profile: str | None, plan: Plan | None) -> Rules | None:
    """The house rules of a file or a profile; by default those of the plan's profile, if any."""
    from sfumato.outputs.rules import Rules

    if rules is not None and profile is not None:
        raise PlanError("--rules and --profile both say what may leave.", hint="give one of them.")
    if rules is not None:
        return Rules.load(rules)
    if profile is None and plan is not None and plan.profile is not None:
        profile = plan.profile if load_profile(plan.profile).outputs else None
    return None if profile is None else Rules.from_profile(profile)


def format_flag(name: str) -> str:
    """The option for a parameter of a measure.

    Examples
    --------
    >>> format_flag("missing_confidential")
    '--missing-confidential'
    """
    return f"--{name.replace('_', '-')}"


def choose_measures(
    names: Iterable[str] | None, parameters: Parameters
) -> dict[str, Measure] | None:
    """The measures that were asked for, each with the parameters that it has."""
    if not names:
        return None
    entries = {name: catalogue.measure(name) for name in names}
    _require_owner(parameters, entries.values())
    return {
        name: entry(**catalogue.parse_parameters(entry, _select_own(entry, parameters)))
        for name, entry in entries.items()
    }


def adjust_measures(measures: Mapping[str, Measure], parameters: Parameters) -> dict[str, Measure]:
    """The measures that are taken anyway, with the parameters that were given."""
    _require_owner(parameters, [type(measure) for measure in measures.values()])
    result: dict[str, Measure] = {}
    for label, measure in measures.items():
        mine = catalogue.parse_parameters(type(measure), _select_own(type(measure), parameters))
        # They are all dataclasses, which the type of the base class does not say.
        result[label] = replace(measure, **mine) if mine else measure  # type: ignore[type-var]
    return result


def add_needed_measures(
    measures: Mapping[str, Measure], parameters: Parameters, offered: Mapping[str, Measure]
) -> dict[str, Measure]:
    """The measures taken, and those offered that alone have a parameter that was given."""
    result = dict(measures)
    for name in parameters:
        if not any(_select_own(type(measure), {name: []}) for measure in result.values()):
            having = {
                key: measure
                for key, measure in offered.items()
                if _select_own(type(measure), {name: []})
            }
            result |= having if len(having) == 1 else {}
    return result


def _select_own(entry: type[Measure], parameters: Parameters) -> dict[str, list[str]]:
    names = {parameter.name for parameter in catalogue.parameters_of(entry)}
    return {name: texts for name, texts in parameters.items() if name in names}


def _require_owner(parameters: Parameters, entries: Iterable[type[Measure]]) -> None:
    taken = list(entries)
    for name in parameters:
        if any(_select_own(entry, {name: []}) for entry in taken):
            continue
        having = [
            key for key, entry in catalogue.measures().items() if _select_own(entry, {name: []})
        ]
        names = ", ".join(f"'{entry.name}'" for entry in taken)
        raise PlanError(
            f"None of the measures taken here ({names}) has {format_flag(name)}.",
            hint=f"{', '.join(having)} {'has' if len(having) == 1 else 'have'} it: "
            f"--measure {having[0]}",
        )
