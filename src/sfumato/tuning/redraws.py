"""What a measure would find on average, if the chance in a release were drawn again and again.

One release holds one draw: whose noise was small is at risk, by bad luck. What a custodian can
promise is the mean over draws. Nothing made here is released, written or kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.io.frames import wrap
from sfumato.measure import Measure
from sfumato.method import Method
from sfumato.plan import Plan
from sfumato.progress import current_progress
from sfumato.randomness import Key
from sfumato.release import aligned

_FEWEST = 2
_SAME = ("from_quantile", "to_quantile", "variable")
"""Columns that say what a row is about, and are no results."""


@dataclass(frozen=True, eq=False)
class Redrawn:
    """Means over draws, each with its Monte Carlo standard error.

    Parameters
    ----------
    draws : how many releases were drawn.
    numbers : a row per number of the measure: `number`, `mean`, `error`, `lowest`, `highest`.
    table : the measure's table: each column of results is the mean over the draws, and beside it
        stands `…_error`. None where the rows are not the same in every draw.
    """

    draws: int
    numbers: Any = field(repr=False)
    table: Any = field(repr=False)

    def number(self, name: str) -> tuple[float, float]:
        """The mean of a number and its Monte Carlo standard error."""
        rows = {row["number"]: row for row in wrap(self.numbers).rows(named=True)}
        if name not in rows:
            raise MeasureError(f"'{name}' was not measured.", hint=f"there are {', '.join(rows)}.")
        return float(rows[name]["mean"]), float(rows[name]["error"])


def redrawn(
    data: Dataset,
    by: Plan | Method,
    measure: Measure,
    *,
    draws: int = 100,
    key: Key | bytes | str | Path | None = None,
) -> Redrawn:
    """Measure many releases of the same data that differ in nothing but chance.

    Question: how well are people protected on average, not just in this one draw?
    Assumes: each draw has a key of its own, derived from the base key, so the draws are
    independent of each other and of a release made under the base key itself.

    Parameters
    ----------
    data : the original records.
    by : the plan or the method that protects them; it must take draws.
    measure : what to measure, such as `sf.risk.HIndex(at=[0.1, 0.5])`.
    draws : how many releases to draw. The error falls with its root.
    key : the base key; the same one gives the same result. Default: a new one.

    Examples
    --------
    >>> import sfumato as sf
    >>> data = sf.Dataset(sf.datasets.cohort(500), sf.datasets.cohort_schema())
    >>> noise = sf.methods.Noise(variables=["height", "weight_kg"], variance_share=0.1)
    >>> measure = sf.risk.HIndex(variables=["height", "weight_kg"], p=3)
    >>> mean, error = redrawn(data, noise, measure, draws=20, key=bytes(32)).number("h_index")
    >>> mean < 0.5 and error < 0.01
    True
    """
    original, steps = _prepared(data, by)
    if draws < _FEWEST:
        raise MeasureError("An error takes at least two draws.", hint="give a larger `draws`.")
    if not any(step.keyed for step in steps):
        raise MeasureError(
            "Nothing here is drawn by chance, so every release would be the same.",
            hint="measure one release.",
        )
    base, say = Key.of(key), current_progress()
    found = []
    for draw in range(draws):
        released = original
        for at, step in enumerate(steps):
            released = step.apply(released, key=Key(base.subkey("redraw", draw)), step=at)
        kept = original if measure.whole else aligned(original, released)
        found.append(measure.measure(kept, released))
        say("drawing releases", draw + 1, draws)
    return Redrawn(draws, data.like(_numbers(measure, found)), _table(data, found))


def _prepared(data: Dataset, by: Plan | Method) -> tuple[Dataset, tuple[Method, ...]]:
    if isinstance(by, Plan):
        return data.with_schema(by.schema), tuple(by.steps)
    return data, (by,)


def _numbers(measure: Measure, found: list[Evidence]) -> pl.DataFrame:
    rows = []
    for name in (measure.name, *measure.provides):
        values = [one.number(name) for one in found]
        mean, error = _mean_and_error(values)
        rows.append((name, mean, error, min(values), max(values)))
    names = ["number", "mean", "error", "lowest", "highest"]
    return pl.DataFrame(rows, schema=names, orient="row")


def _table(data: Dataset, found: list[Evidence]) -> Any:
    tables = [[] if one.table is None else wrap(one.table).rows(named=True) for one in found]
    labels = [[[row.get(name) for name in _SAME] for row in table] for table in tables]
    if not tables[0] or any(other != labels[0] for other in labels):
        return None
    return data.like(pl.DataFrame([_row(several) for several in zip(*tables, strict=True)]))


def _row(several: tuple[Mapping[str, Any], ...]) -> dict[str, Any]:
    """One row of the table: the means of what is measured, and all else where it is the same."""
    row: dict[str, Any] = {}
    for name, first in several[0].items():
        values = [one[name] for one in several]
        if name not in _SAME and isinstance(first, float):
            row[name], row[f"{name}_error"] = _mean_and_error(values)
        else:
            row[name] = first if all(value == first for value in values) else None
    return row


def _mean_and_error(values: list[Any]) -> tuple[float, float]:
    """NaN as soon as one draw could not be measured: leaving it out would flatter the mean."""
    if any(value is None or not math.isfinite(value) for value in values):
        return math.nan, math.nan
    mean = math.fsum(values) / len(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    return mean, math.sqrt(squares / (len(values) - 1) / len(values))
