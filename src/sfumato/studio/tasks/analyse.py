"""Analyse a release that somebody received: a first look, and models with the noise taken out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sfumato.analysis.explore import explore
from sfumato.analysis.fit import fit
from sfumato.errors import PlanError
from sfumato.progress import current_progress
from sfumato.storage.opened_tables import open_tables
from sfumato.storage.opening import is_of_several, read_any_manifest
from sfumato.studio.tasks import Work, task

_SHOWN = ("low", "high", "rhat", "ess")


@task(lane="quick", depends="nothing")
def open_received(work: Work, *, folder: str, stamp: str) -> dict[str, Any]:
    """What the manifest of a release says: its tables, variables, noise and who it is for."""
    del work, stamp
    manifest = read_any_manifest(Path(folder))
    tables = manifest.get("tables", {"": manifest})
    return {
        "parties": manifest.get("parties", {}),
        "tables": {
            name: {
                "records": table["records"],
                "variables": [
                    {"name": variable, "kind": facts.get("kind") or "",
                     "steps": facts.get("steps", []), "noise": variable in _list_noised(table)}
                    for variable, facts in table["variables"].items()
                ],
            }
            for name, table in tables.items()
        },
    }  # fmt: skip


def _list_noised(manifest: Mapping[str, Any]) -> set[str]:
    noise = manifest.get("noise", {})
    return set(noise.get("variables", noise))


def _open(folder: str, table: str) -> Any:
    """What `fit` and `explore` take: the folder, or one of its tables."""
    if not is_of_several(read_any_manifest(Path(folder))):
        return Path(folder)
    tables = open_tables(folder)
    if table not in tables:
        raise PlanError("This release has several tables.", hint="choose one of them.")
    return tables[table]


@task(depends="nothing")
def fit_received(
    work: Work, *, folder: str, stamp: str, table: str, formula: str, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """A model of the released data, with the noise taken out, beside the naive one."""
    del work, stamp
    result = fit(formula, _open(folder, table), progress=current_progress(), **settings)
    return {
        **{name: getattr(result, name) for name in
           ("formula", "family", "link", "method", "records", "left_out", "level", "complete")},
        "rows": [_describe_row(row, result.naive.error.get(row["term"], math.nan), result.level)
                 for row in result.rows],
        "warnings": list(result.warnings),
        "notes": list(result.notes),
    }  # fmt: skip


def _describe_row(row: Mapping[str, Any], error: float, level: float) -> dict[str, Any]:
    """A coefficient: corrected and naive, each with its interval, and how well it was drawn."""
    from scipy.special import ndtri

    reach = float(ndtri((1 + level) / 2)) * error
    return {
        "term": row["term"],
        "estimate": _clean(row["mean"]),
        **{name: _clean(row[name]) for name in _SHOWN},
        "naive": _clean(row["naive"]),
        "naive_low": _clean(row["naive"] - reach),
        "naive_high": _clean(row["naive"] + reach),
    }


@task(depends="nothing")
def explore_received(work: Work, *, folder: str, stamp: str, table: str) -> dict[str, Any]:
    """A first look: means, spreads, shares and correlations with the noise taken out."""
    del work, stamp
    seen = explore(_open(folder, table), progress=current_progress())
    return {
        "records": seen.records,
        "level": seen.level,
        "numbers": _clean_rows(seen.rows),
        "shares": _clean_rows(seen.share_rows),
        "correlations": _clean_rows(seen.correlation_rows),
        "left_out": dict(seen.left_out),
        "warnings": list(seen.warnings),
    }


def _clean_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value if isinstance(value, str) else _clean(value)
             for name, value in row.items()} for row in rows]  # fmt: skip


def _clean(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
