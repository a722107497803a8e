"""Compare the original with what a plan makes of it: variables, means, models."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from sfumato.analysis.fit import fit
from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.engines.summaries import Count
from sfumato.errors import DataError, SfumatoError
from sfumato.evidence import Evidence
from sfumato.io.frames import wrap
from sfumato.plan import WHOLE
from sfumato.progress import current_progress
from sfumato.release import Release, align_original
from sfumato.report.variables import describe_distributions
from sfumato.report.wording import format_change, name_variables
from sfumato.run.distributions import tabulate_distributions
from sfumato.run.measuring import take_measures
from sfumato.studio.tasks import Work, task
from sfumato.studio.tasks.protect import get_trial
from sfumato.utility.coefficients import Coefficients
from sfumato.utility.models.fitting import Family
from sfumato.utility.models.formula import read_formula
from sfumato.utility.moments import Moments

_FAMILIES: Mapping[Family, str] = {
    "linear": "gaussian",
    "logistic": "bernoulli",
    "poisson": "poisson",
}
"""What the models of `utility` are called in `analysis`."""


@task()
def compare_variables(work: Work, *, table: str = "", tier: str = "") -> dict[str, Any]:
    """Each variable before and after: bars, mean and spread, and how much is missing."""
    release = _find_table(work, table, tier)
    original, released = release.original, release.dataset
    facts = release.manifest["variables"]
    bars = tabulate_distributions(original, released)
    drawn = describe_distributions({"distributions": bars}, facts)
    current_progress()("comparing means", 0, 1)
    measured = take_measures(
        {Moments.name: Moments()}, original, released, progress=current_progress()
    )[Moments.name]
    return {
        "records": [len(original), len(released)],
        "released": list(released.columns),
        "left_out": [name for name in original.columns if name not in released.columns],
        "variables": [
            {**chart, "variable": bar["variable"]} for chart, bar in zip(drawn, bars, strict=True)
        ],
        "means": list(_list_means(measured, facts)),
        "missing": _count_missing(original, released),
        "reason": measured.reason,
    }


def _find_table(work: Work, table: str, tier: str) -> Release:
    release = get_trial(work, tier=tier)
    if table not in release.tables:
        raise DataError("There is no such table in this release.", hint="choose one of the list.")
    return release.tables[table]


def _list_means(measured: Evidence, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Mean and spread of each number before and after, and by how much they moved."""
    if measured.table is None:
        return
    rows: dict[str, dict[str, Any]] = {}
    for row in wrap(measured.table).rows(named=True):
        if row["statistic"] in ("mean", "sd") and row["variable"] in facts:
            about = facts[row["variable"]]
            sides = {side: _finite(row[side]) for side in ("original", "released")}
            change = format_change({**row, **sides}, about)
            rows.setdefault(row["variable"], {})[row["statistic"]] = {**sides, "change": change}
    for name, statistics in rows.items():
        about = facts[name]
        yield {
            "variable": name,
            "name": name_variables([name], facts)[0],
            "unit": about.get("unit", ""),
            **statistics,
        }


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def _count_missing(original: Dataset, released: Dataset) -> dict[str, list[float]]:
    """The share of records without a value, before and after, by variable."""
    names = [name for name in released.columns if name in original.schema]
    shares: dict[str, list[float]] = {}
    for data in (original, released):
        found = engine_for(data.frame).aggregate(data, {name: [Count()] for name in names})
        for name in names:
            shares.setdefault(name, []).append(1 - found[name]["count"] / max(1, len(data)))
    return {name: sides for name, sides in shares.items() if any(sides)}


@task()
def compare_model(
    work: Work, *, formula: str, family: Family, table: str = "", tier: str = ""
) -> dict[str, Any]:
    """One model of the original and of the release; with noise, also with the noise taken out."""
    release = _find_table(work, table, tier)
    measure = Coefficients(formula=formula, family=family)
    original = align_original(release.original, release.dataset)
    current_progress()("fitting the model", 0, 1)
    evidence = measure.measure(original, release.dataset)
    terms = [dict(row) for row in wrap(evidence.table).rows(named=True)]
    noisy = [name for name in read_formula(formula).variables if name in release.noise]
    corrected: dict[str, Any] = {}
    trouble, warned = "", list[str]()
    if noisy:
        try:
            found = fit(formula, release, family=_FAMILIES[family], progress=current_progress())
        except SfumatoError as error:
            trouble = error.what
        else:
            warned = list(found.warnings)
            corrected = {
                row["term"]: {name: _finite(row[name]) for name in ("mean", "low", "high")}
                for row in found.rows
            }
    return {
        "formula": formula,
        "family": family,
        "table": table or WHOLE,
        "terms": [_describe_term(row, corrected) for row in terms],
        "noisy": noisy,
        "trouble": trouble,
        "value": _finite(evidence.value),
        "numbers": {
            number.name: _finite(evidence.number(number.name)) for number in measure.numbers[1:]
        },
        "assumptions": list(evidence.assumptions),
        "warnings": [*evidence.warnings, *warned],
    }


def _describe_term(row: Mapping[str, Any], corrected: Mapping[str, Any]) -> dict[str, Any]:
    sides = {
        side: {"mean": _finite(row[side]), "low": _finite(row[f"{side}_low"]),
               "high": _finite(row[f"{side}_high"])}
        for side in ("original", "released")
    }  # fmt: skip
    term = str(row["term"])
    return {
        "term": term,
        **sides,
        "corrected": corrected.get(term),
        "error": _finite(row["original_se"]),
        "moved": _finite(row["coefficients"]),
        "overlap": _finite(row["overlap"]),
        "sign_kept": bool(row["sign_kept"]),
        "significance_kept": bool(row["significance_kept"]),
    }
