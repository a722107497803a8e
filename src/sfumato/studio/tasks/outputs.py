"""Make a figure or a table that may be released, and put it into the log of outputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato.data import Dataset
from sfumato.errors import PlanError
from sfumato.figures.public.linear_model import fit_model
from sfumato.io.atomic import PRIVATE, write_file
from sfumato.outputs.log import Log
from sfumato.outputs.output import OutputRefused
from sfumato.outputs.rules import Rules
from sfumato.outputs.tables.rendering import format_grid
from sfumato.profiles import load_profile
from sfumato.storage.opened_tables import open_tables
from sfumato.storage.opening import open_release
from sfumato.studio.output_decisions import FILES, OUTPUTS
from sfumato.studio.output_forms import MODEL, get_kind
from sfumato.studio.tasks import Work, task

_SHOWN_ROWS = 200


@task(keep=False)
def make_output(
    work: Work, *, kind: str, of: str, table: str, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """A figure or table of the data, or of a release; refused ones are in the log, too.

    Parameters
    ----------
    kind : which.
    of : the folder of a release; empty for the session's data.
    table : of several tables, which.
    settings : the parameters of the kind.
    """
    chosen, folder = get_kind(kind), work.folder / OUTPUTS
    log = Log(folder, None if (folder / "log.json").is_file() else _choose_rules(work))
    arguments: dict[str, Any] = {**settings, "log": log, "rules": log.rules}
    if "key" in chosen.takes:
        arguments["key"] = work.key  # the same noise next time
    data = _read(work, of, table)
    first: Any = data
    if MODEL in arguments:
        first = fit_model(data, str(arguments.pop(MODEL)))
    elif chosen.of == MODEL and "x" not in arguments:
        raise PlanError(f"A {kind} needs a model.", hint="write one, such as weight ~ height.")
    try:
        made = chosen.make(first, **arguments)
    except OutputRefused as refusal:
        return {"refused": f"{refusal.what} {refusal.hint}".strip()}
    number = len(log)
    if made.verdict == "refuse":
        return {"refused": " ".join(made.reasons)}
    _keep(folder / FILES, number, kind, made)
    return {"number": number, "verdict": made.verdict, "refused": ""}


def _choose_rules(work: Work) -> Rules | None:
    """The house rules of the plan's profile, if it has any."""
    profile = work.plan.profile
    if profile is None or not load_profile(profile).outputs:
        return None
    return Rules.from_profile(profile)


def _read(work: Work, of: str, table: str) -> Dataset:
    if of:
        place = Path(of)
        return open_tables(place)[table].dataset if table else open_release(place).dataset
    if table:
        return work.tables[table].with_schema(work.plan.tables[table].schema)
    return work.data


def _keep(folder: Path, number: int, kind: str, made: Any) -> None:
    """Keep a figure with the table of what is drawn, or a table, for the checker."""
    folder.mkdir(mode=0o700, exist_ok=True)
    stem = f"{number:05d}-{kind}"
    facts: dict[str, Any] = {"head": [], "rows": [], "notes": []}
    if hasattr(made, "figure"):
        made.save(folder / f"{stem}.svg")
        made.export(folder / f"{stem}.csv")
        facts |= {"files": [f"{stem}.csv", f"{stem}.svg"], "caption": made.caption,
                  "description": made.description}  # fmt: skip
    else:
        made.to_csv(folder / f"{stem}.csv")
        head, rows = format_grid(made)
        facts |= {"files": [f"{stem}.csv"], "caption": made.title, "description": "",
                  "head": head, "rows": rows[:_SHOWN_ROWS], "notes": list(made.notes)}  # fmt: skip
    write_file(folder / f"{number:05d}.json", json.dumps(facts), mode=PRIVATE)
