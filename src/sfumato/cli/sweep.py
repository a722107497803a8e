"""What a parameter or the size does: one row per run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import polars as pl
import typer

from sfumato import catalogue
from sfumato.cli import options
from sfumato.cli.console import finite_or_none, format_number, progress, say, show_json, show_table
from sfumato.data import Dataset, drop_missing_codes
from sfumato.errors import PlanError
from sfumato.io import write_table
from sfumato.io.frames import wrap
from sfumato.measure import AT_WORST
from sfumato.plan import Plan
from sfumato.plan.targets import find_number
from sfumato.tuning.grid import change_plan
from sfumato.tuning.sweep import Simulate
from sfumato.tuning.sweep import sweep as run_sweep

if TYPE_CHECKING:
    from sfumato.datasets.simulation import Simulator
    from sfumato.figures.sheet.picture import Picture

TABLES = (".csv", ".tsv", ".parquet", ".xlsx")
_MOST_AXES = 2
PICTURES = (".svg", ".png", ".pdf")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: sfumato sweep cohort.csv --plan plan.toml --set k=3,5,7")(sweep)


def sweep(
    file: options.File,
    plan: options.PlanFile,
    values: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A parameter and its values: k=3,5,7, or deterministic.k=3,5,7 for one method. "
            "Separate lists and tables by semicolons. May be repeated: all combinations are run.",
        ),
    ] = None,
    sizes: Annotated[
        str | None, typer.Option(help="Draw this many records at random: 500,1000. Default: all.")
    ] = None,
    repeats: Annotated[int, typer.Option(help="How many times each is run.", min=1)] = 1,
    seed: Annotated[int, typer.Option(help="A different seed gives different draws.")] = 0,
    simulate: Annotated[
        str | None,
        typer.Option(
            help="Simulate cohorts of these numbers, after their distribution in the data: "
            "glucose,hdl,height. --sizes says how many records each has."
        ),
    ] = None,
    strata: Annotated[
        str | None,
        typer.Option(
            help="With --simulate: categories in whose combinations the numbers are simulated, "
            "each combination with its share of the records."
        ),
    ] = None,
    nearest_kurtosis: Annotated[
        bool,
        typer.Option(
            "--nearest-kurtosis",
            help="With --simulate: take the nearest shape where that of a number has no match.",
        ),
    ] = False,
    measure: options.Measures = None,
    to: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write the table to this CSV, Parquet or Excel file."),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            help="Draw the measures into this SVG, PNG or PDF file: over one thing that varies, "
            "or one measure over two."
        ),
    ] = None,
    relief: Annotated[
        bool,
        typer.Option(
            "--relief",
            help="Draw one measure over two things as a surface in three dimensions too.",
        ),
    ] = False,
    table: options.Table = None,
    query: options.Query = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Run a plan over values of its parameters and over sample sizes; nothing is released.

    With --simulate, every run has its own cohort, simulated like the data: means, spreads,
    skewness, kurtosis and correlations within strata are those of the complete records.

    One row per run, with what was measured and whether every target is met. Runs that cannot be
    done stay in the table with the reason. Exit code 2 if no run could be done.
    """
    loaded = Plan.load(plan)
    for path, known in ((to, TABLES), (picture, PICTURES)):
        options.require_free(path, known, overwrite=overwrite)  # said before the work is done
    if simulate is None and (strata is not None or nearest_kurtosis):
        raise PlanError(
            "--strata and --nearest-kurtosis are for simulated cohorts.",
            hint="name the numbers to simulate: --simulate glucose,hdl.",
        )
    over = _read_values(loaded, values or [])
    wanted = None if sizes is None else _parse_sizes(sizes)
    axes = [] if picture is None else _choose_axes(over, wanted or [], measure or [])
    if relief and len(axes) != _MOST_AXES:
        raise PlanError(
            "--relief draws one measure over two things that vary.",
            hint="write --picture FILE, --measure NAME and two lists of values.",
        )
    with progress(quiet=quiet or json) as tell:
        tell("reading", 0, 1)
        data = options.load(file, plan=loaded, table=table, query=query, progress=tell)
        source: Dataset | Simulate = data
        if simulate is not None:
            names = _split_names(simulate), _split_names(strata or "")
            drawn, loaded, complete = _fit_simulator(data, loaded, *names, near=nearest_kurtosis)
            wanted = wanted or [complete]
            # Other seeds have other cohorts, repeat by repeat.
            source = lambda records, repeat: drawn.draw(records, seed * repeats + repeat)  # noqa: E731
        table_of_runs = run_sweep(
            source,
            loaded,
            over=over,
            sizes=wanted,
            repeats=repeats,
            measures=options.choose_measures(measure, {}),
            seed=seed,
            progress=tell,
        )
        frame = wrap(table_of_runs).to_polars()
        if to is not None:
            write_table(frame, to)
        if picture is not None:
            tell("drawing", 0, 1)
            figure = _draw(frame, axes, measure or [], relief=relief)
            figure.save(picture, overwrite=overwrite)
    _show(frame, loaded, to, as_json=json, quiet=quiet)


def _split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _fit_simulator(
    data: Dataset, plan: Plan, numbers: list[str], strata: list[str], *, near: bool
) -> tuple[Simulator, Plan, int]:
    """What draws cohorts like the data, the plan for them, and how many records it rests on."""
    from sfumato.datasets.simulation import simulator

    data.schema.require([*numbers, *strata])
    complete = drop_missing_codes(data.batch([*strata, *numbers]), data.schema).drop_nulls()
    if not len(complete):
        raise PlanError(
            "No record has all of these values, so there is nothing to simulate after.",
            hint="name other variables in --simulate and --strata.",
        )
    drawn = simulator(complete, continuous=numbers, strata=strata, nearest_kurtosis=near)
    # What is simulated has no codes for missing, and may lie beyond a declared domain.
    columns = {
        **{name: replace(data.schema[name], missing=()) for name in strata},
        **{
            name: replace(data.schema[name], missing=(), domain=None, kind="continuous")
            for name in numbers
        },
    }
    say(f"Simulated: cohorts after {len(complete):,} complete of {len(data):,} records.")
    return drawn, change_plan(plan, schema=columns), len(complete)


def _choose_axes(
    over: Mapping[str, Sequence[Any]], sizes: Sequence[int], measures: Sequence[str]
) -> list[str]:
    """The columns that vary: one is drawn as lines, two as a map of one number."""
    varied = [name for name, values in over.items() if len(values) > 1]
    if len(sizes) > 1:
        varied.append("records")
    # Of more, lines or cells would be means over the others.
    if len(varied) > _MOST_AXES or (len(varied) == _MOST_AXES and len(measures) != 1):
        raise PlanError(
            f"--picture draws the runs over one thing that varies, or one measure over two; here "
            f"vary {_join_names(varied)}.",
            hint="vary one at a time; or two, with --measure NAME; or ask for the table: --out.",
        )
    return varied or [[*over, "records"][0]]


def _join_names(names: Sequence[str]) -> str:
    words = [{"records": "the size"}.get(name, f"'{name}'") for name in names]
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _read_values(plan: Plan, texts: list[str]) -> dict[str, list[Any]]:
    """The values of each parameter, read as the methods of the plan have them."""
    over: dict[str, list[Any]] = {}
    for text in texts:
        name, sign, values_text = (part.strip() for part in text.partition("="))
        if not (name and sign and values_text):
            raise PlanError(
                f"'--set {text}' names no parameter with values.", hint="write --set k=3,5,7"
            )
        if name in over:
            raise PlanError(f"--set {name} is given twice.", hint="write --set k=3,5,7")
        over[name] = _parse_values(plan, name, values_text)
    return over


def _parse_values(plan: Plan, name: str, values_text: str) -> list[Any]:
    method, _, parameter = name.rpartition(".")
    for step in plan.steps:
        types = {field.name: field.type for field in catalogue.parameters_of(type(step))}
        # "coarsen.2.intervals" is that of the second such step.
        if method.partition(".")[0] in ("", step.name) and parameter in types:
            inner = types[parameter].startswith(("list", "table")) or "{" in values_text
            parts = values_text.split(";" if inner else ",")
            return [
                catalogue.parse_parameters(type(step), {parameter: part.strip()})[parameter]
                for part in parts
            ]
    return [values_text]  # no step has it, which the sweep tells with a hint


def _parse_sizes(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise PlanError(
            "--sizes must be whole numbers, separated by commas.", hint="write --sizes 500,1000"
        ) from None


def _list_measured(frame: pl.DataFrame) -> list[str]:
    """The columns of measured numbers: they stand between the run and the verdict."""
    columns = frame.columns
    return columns[columns.index("repeat") + 1 : columns.index("met")]


def list_main(frame: pl.DataFrame) -> list[str]:
    """One column a measure, at worst, without its further numbers and those of each variable."""
    measured = _list_measured(frame)
    main = [name for name in measured if "." not in name and "[" not in name]
    return [worst if (worst := f"{name}.{AT_WORST[1:]}") in measured else name for name in main]


def _list_targeted(frame: pl.DataFrame, plan: Plan) -> set[str]:
    """The columns that hold the numbers of the targets, at worst."""
    numbers = [find_number(target, plan.measures) for target in plan.targets]
    names = {".".join(number) for number in numbers if number is not None}
    return {worst if (worst := f"{name}{AT_WORST}") in frame.columns else name for name in names}


def _draw(
    frame: pl.DataFrame, axes: Sequence[str], measures: Sequence[str], *, relief: bool
) -> Picture:
    """The measures that were asked for, else all of them, over what varies."""
    from sfumato.figures import custodian

    columns = list_main(frame)
    if measures:
        columns = [column for name in measures for column in columns
                   if column.partition(".")[0] == name]  # fmt: skip
    if not columns:
        raise PlanError(
            f"No run has one number for {' or '.join(map(repr, measures))}, so there is nothing to "
            "draw.",
            hint="ask for the table: --out.",
        )
    if len(axes) > 1:
        return custodian.surface(frame, axes[0], axes[1], columns[0], relief=relief)
    panels = {name: [name] for name in columns}
    return custodian.sweep(frame, axes[0], panels, log_x="records" in axes)


def _show(frame: pl.DataFrame, plan: Plan, to: Path | None, *, as_json: bool, quiet: bool) -> None:
    rows = frame.rows(named=True)
    if as_json:
        show_json([{name: finite_or_none(value) for name, value in row.items()} for row in rows])
    elif to is None:
        # The whole table is wide: the measures themselves, and what a target is set on.
        left_out = set(_list_measured(frame)) - {*list_main(frame), *_list_targeted(frame, plan)}
        shown = [
            name for name in frame.columns if name not in left_out and _has_values(frame[name])
        ]
        cells = [[_format_cell(row[name]) for name in shown] for row in rows]
        show_table(f"Runs: {len(frame):,}. Nothing is released.", shown, cells)
        if left_out and not quiet:
            say(f"Further numbers ({len(left_out)} columns): with --out FILE or --json.")
    elif not quiet:
        say(f"The table of {len(frame):,} runs is in '{to}'.")
    short = frame["reason"].is_not_null().sum()
    if short and not quiet:
        say(f"Runs that lack numbers: {short}. The column 'reason' says why.", style="yellow")
    if not any(_has_values(frame[name]) for name in _list_measured(frame)):
        raise typer.Exit(2)


def _format_cell(value: Any) -> str:
    words = {None: "", True: "yes", False: "no"}
    return words[value] if value is None or isinstance(value, bool) else format_number(value)


def _has_values(values: pl.Series) -> bool:
    return values.null_count() < len(values)
