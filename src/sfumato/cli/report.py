"""The report of a release, written again: another place, another edition, more measured."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.console import progress, say, show_json
from sfumato.data import Dataset
from sfumato.errors import PlanError
from sfumato.evidence import Evidence
from sfumato.run import evaluate
from sfumato.storage.opening import OpenedRelease, open_release


class Edition(StrEnum):
    """For whom a report is."""

    PUBLIC = "public"
    INSIDE = "inside"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="Example: sfumato report release --edition inside --original cohort.csv --attacks "
        "--out signed.html"
    )(report)


def report(
    release: Annotated[Path, typer.Argument(help="The folder of the release.")],
    to: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the page to this .html file.")
    ] = None,
    edition: Annotated[
        Edition, typer.Option(help="public: for everybody. inside: with custody/, for signing.")
    ] = Edition.PUBLIC,
    original: Annotated[
        str | None, typer.Option(help="The original file, to measure more for the inside edition.")
    ] = None,
    measure: options.Measures = None,
    attacks: Annotated[
        bool, typer.Option("--attacks", help="Try every attack that applies. Needs --original.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing page.")
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write the report of a release again, from its evidence; `--json` prints it as JSON.

    Every release already has both editions in its folder. The inside edition can be written again
    with more measures, such as the attacks.
    """
    options.require_free(to, (".html",), overwrite=overwrite)
    if to is None and not json:
        raise PlanError("State where to write the page.", hint="--out report.html, or --json.")
    more = bool(measure) or attacks
    if more and (original is None or edition is Edition.PUBLIC):
        raise PlanError(
            "Measuring more needs the original, and belongs to the inside edition.",
            hint="add --original FILE --edition inside.",
        )
    opened = open_release(release)
    custody = opened.record() if edition is Edition.INSIDE else None
    if more and original is not None and custody is not None:
        with progress(quiet=quiet or json) as tell:
            tell("reading", 0, 1)
            data = options.load(original, plan=opened.plan(), progress=tell)
            further = _measure_more(data, opened, measure, attacks=attacks, progress=tell)
        custody = {**custody, "evidence": {**custody["evidence"], **further}}
    if to is not None:
        _write(to, opened.manifest, custody)
    if json:
        show_json({"edition": str(edition), "manifest": opened.manifest, "custody": custody})
    elif not quiet:
        say(f"Report:    {to}  ({edition})")


def _measure_more(
    data: Dataset, opened: OpenedRelease, names: list[str] | None, *, attacks: bool, progress: Any
) -> dict[str, Any]:
    """Further evidence, as it would stand in the custody record."""
    evidence: dict[str, Evidence] = {}
    if names:
        evidence |= evaluate(data, opened.folder, names, progress=progress)
    if attacks:
        from sfumato.run.attacks import tried

        evidence |= tried(data, opened.folder, progress=progress)
    return {label: item.plain() for label, item in evidence.items()}


def _write(to: Path, manifest: Mapping[str, Any], custody: Mapping[str, Any] | None) -> None:
    from sfumato.io.atomic import PRIVATE, PUBLIC, write_file
    from sfumato.report import render_report

    write_file(to, render_report(manifest, custody), mode=PUBLIC if custody is None else PRIVATE)
