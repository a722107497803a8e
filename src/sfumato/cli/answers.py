"""The answer before the tables, and a row for each measure, on the terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.markup import escape

from sfumato import catalogue
from sfumato.cli.console import disarm, format_number, out, say, show_table
from sfumato.evidence import Evidence
from sfumato.report.wording import format_percent


def show_answer(sentence: str) -> None:
    """The answer on stdout, before everything else."""
    if sentence:
        out.print(escape(disarm(sentence)), style="bold")
        out.print()


def show_summary(evidence: Mapping[str, Evidence]) -> None:
    """A row for each measure, and what must not be overlooked."""
    computed = {label: item for label, item in evidence.items() if item.computed}
    compared = any(item.baseline is not None for item in computed.values())
    if computed:
        show_table(
            "What was measured",
            ["measure", "number", *(["beside it"] if compared else []), "what it is"],
            [_list_cells(label, item, compared=compared) for label, item in computed.items()],
        )
    for label, item in evidence.items():
        if not item.computed:
            say(f"{label}: could not be computed. {item.reason}", style="red")
        for line in item.warnings:
            say(f"Warning: {label}: {line}", style="yellow")


def _list_cells(label: str, evidence: Evidence, *, compared: bool) -> list[str]:
    entry = catalogue.measure(evidence.name)
    what_it_is = catalogue.first_line(entry)
    write = format_percent if what_it_is.startswith("Share") else format_number
    cells = [label, write(evidence.at_worst)]
    if compared:
        what = "by chance" if evidence.subject == "pair" else "original"
        beside = evidence.baseline
        cells.append("" if beside is None else f"{what}: {write(beside)}")
    return [*cells, what_it_is]
