"""Make a hierarchy for a variable, or check one: which groups it has, and how many records each."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import options
from sfumato.cli.console import progress, say, show_json, show_table
from sfumato.errors import PlanError
from sfumato.io.atomic import PRIVATE, write_file
from sfumato.io.frames import to_canonical_text
from sfumato.plan import Plan
from sfumato.schema import Schema
from sfumato.schema.hierarchies import format_csv, read
from sfumato.schema.inference.groups import Way, count_levels, suggest_hierarchy

_SHOWN = 3
"""Values whose groups are shown."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: sfumato hierarchy cohort.csv age --by round --out age.csv")(
        hierarchy
    )


def hierarchy(
    file: options.File,
    variable: Annotated[str, typer.Argument(help="The variable.")],
    by: Annotated[
        Way | None,
        typer.Option(
            metavar="<way>",
            help="width, count, round, dates, prefix, neighbours or rare. Default: by its kind.",
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            help="One number for each level, with commas: widths, numbers of ranges, characters "
            "that are kept, levels in a group, or fewest records."
        ),
    ] = None,
    check: Annotated[
        Path | None, typer.Option(help="Check this hierarchy against the data; make none.")
    ] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", "-p", help="Kinds and domains from this plan.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the hierarchy to this CSV file.")
    ] = None,
    table: options.Table = None,
    query: options.Query = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Make a hierarchy for a variable, and say how many records its groups have.

    `sizes` goes with --by: --by width --sizes 5,10 makes ranges of 5 and of 10. The file has a line
    for each value, with its groups from narrow to broad, as ARX has it. Name it in a plan:
    hierarchy = "age.csv". It lists values, so look at it before you pass it on.
    """
    options.require_free(to, (".csv",), overwrite=overwrite)
    if check is not None and (by or sizes):
        raise PlanError("--check makes no hierarchy.", hint="leave --by and --sizes out.")
    with progress(quiet=quiet or json) as tell:
        loaded = Plan.load(plan) if plan else None
        data = options.load(file, plan=loaded, table=table, query=query, engine="local",
                            progress=tell)  # fmt: skip
        data.schema.require([variable])
        known = data.schema if loaded else Schema.infer(data.frame, known=data.schema)
    values = data.column(variable)
    groups = (
        read(check)
        if check is not None
        else suggest_hierarchy(values, known[variable], way=by, sizes=_parse_sizes(sizes))
    )
    counts = Counter(to_canonical_text(values.drop_nulls()).to_list())
    unknown = sum(count for value, count in counts.items() if value not in groups)
    levels = count_levels(counts, groups)
    if to is not None:
        write_file(to, format_csv(groups).encode(), mode=PRIVATE)
    if json:
        show_json({"levels": [asdict(level) for level in levels], "unknown_records": unknown})
    else:
        rows = [
            (str(level.number), f"{level.groups:,}", f"{level.fewest:,}", f"{level.largest:.1%}")
            for level in levels
        ]
        heads = ["level", "groups", "fewest records", "largest share"]
        show_table(f"{variable}: {len(groups):,} values", heads, rows)
        middle = list(groups)[:: max(1, len(groups) // _SHOWN)][:_SHOWN]
        shown = [(value, *groups[value]) for value in middle]
        heads = ["value", *(f"level {level.number}" for level in levels)]
        show_table("For instance", heads, shown)
    if unknown:
        raise PlanError(
            f"{unknown:,} records of '{variable}' have a value that the hierarchy does not know.",
            hint="add all values to it; codes are text, so 01067 is not 1067.",
        )
    if to is not None and not quiet:
        say(f'Written: {to}. In a plan: {variable} = {{ hierarchy = "{to.name}" }}.')


def _parse_sizes(text: str | None) -> list[float]:
    try:
        return [float(part) for part in options.split_names(text) or []]
    except ValueError:
        raise PlanError("--sizes are numbers.", hint="for instance --sizes 5,10.") from None
