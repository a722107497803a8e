"""Many releases of the same data under different keys: what one finds on average, or by averaging.

One release holds one draw: whose noise was small is at risk, by bad luck. What a custodian can
promise is the mean over draws. Nothing drawn here is released, written or stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.io.frames import wrap
from sfumato.measure import Measure
from sfumato.method import Method
from sfumato.parameters import write_short
from sfumato.plan import Plan
from sfumato.progress import current_progress
from sfumato.randomness import Key
from sfumato.release import align_original
from sfumato.run.steps import apply_steps

_FEWEST = 2
_LABELS = ("from_quantile", "to_quantile", "variable")
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

    __repr__ = write_short

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
    if draws < _FEWEST:
        raise MeasureError("An error takes at least two draws.", hint="give a larger `draws`.")
    original, steps = _read_steps(data, by)
    evidence = [
        measure.measure(original if measure.whole else align_original(original, released), released)
        for released in _draw_releases(original, steps, Key.of(key), "redraw", draws)
    ]
    return Redrawn(
        draws, data.like(_average_numbers(measure, evidence)), _average_tables(data, evidence)
    )


def several(
    data: Dataset,
    by: Plan | Method,
    measure: Measure,
    *,
    releases: Sequence[int] = (1, 2, 4, 10),
    key: Key | bytes | str | Path | None = None,
) -> dict[int, Evidence]:
    """Measure what somebody sees who averages several releases under different keys.

    Question: the same data, released again under other keys: who is found then?
    Assumes: somebody can tell which rows belong together. Numbers are averaged; of categories the
    most frequent is taken, of equally frequent ones the first in the alphabet. Nothing drawn here
    is released, written or stored.

    Parameters
    ----------
    data : the original records.
    by : the plan or the method that protects them; it must take draws, and remove no record.
    measure : what to measure, such as `sf.risk.HIndex(variables=["age"])`.
    releases : how many releases to average.
    key : the base key, from which those of the releases are derived. Default: a new one.

    Examples
    --------
    >>> import sfumato as sf
    >>> data = sf.Dataset(sf.datasets.cohort(500), sf.datasets.cohort_schema())
    >>> noise = sf.methods.Noise(variables=["height"], variance_share=0.2)
    >>> measure = sf.risk.HIndex(variables=["height"])
    >>> found = several(data, noise, measure, releases=[1, 10], key=bytes(32))
    >>> found[10].value > found[1].value
    True
    """
    original, steps = _read_steps(data, by)
    if not releases or min(releases) < 1:
        raise MeasureError("Some number of releases is needed.", hint="releases = [1, 2, 4, 10].")
    drawn = []
    for released in _draw_releases(original, steps, Key.of(key), "several releases", max(releases)):
        if len(released) != len(original):
            raise MeasureError(
                "A step removes records, so the rows of several releases do not belong together.",
                hint="leave that step out.",
            )
        drawn.append(released)
    target = original if measure.whole else align_original(original, drawn[0])
    return {count: measure.measure(target, averaged_over(drawn[:count])) for count in releases}


def _read_steps(data: Dataset, by: Plan | Method) -> tuple[Dataset, tuple[Method, ...]]:
    """The data as declared, and the steps; those that take no draws are refused."""
    original, steps = (
        (data.with_schema(by.require_one_table().schema), tuple(by.steps))
        if isinstance(by, Plan)
        else (data, (by,))
    )
    if not any(step.keyed for step in steps):
        raise MeasureError(
            "Nothing here is drawn by chance, so every release would be the same: there is nothing "
            "to average.",
            hint="measure one release.",
        )
    return original, steps


def _draw_releases(
    original: Dataset, steps: Sequence[Method], base: Key, purpose: str, count: int
) -> Iterator[Dataset]:
    report = current_progress()
    for draw in range(count):
        # Each draw has a key of its own, derived for this purpose only.
        yield apply_steps(original, steps, Key(base.subkey(purpose, draw)))[0]
        report("drawing releases", draw + 1, count)


def averaged_over(made: Sequence[Dataset]) -> Dataset:
    """One data set of several releases whose rows correspond: means, or most frequent values.

    Examples
    --------
    >>> one, other = (Dataset(pl.DataFrame({"age": [age, 40]})) for age in (31, 34))
    >>> averaged_over([one, other]).frame["age"].to_list()
    [32.5, 40.0]
    """
    first = made[0]
    averages = []
    for name in first.columns:
        columns = [release.column(name) for release in made]
        if not all(column.equals(columns[0], null_equal=True) for column in columns):
            averages.append(_average_column(name, columns))
    if not averages:
        return first
    numbers = [column.name for column in averages if column.dtype.is_float()]
    return first.with_columns(
        pl.DataFrame(averages), first.schema.changed(numbers, kind="continuous")
    )


def _average_column(name: str, columns: Sequence[pl.Series]) -> pl.Series:
    if columns[0].dtype.is_numeric():
        table = np.array(
            [column.cast(pl.Float64).fill_null(np.nan).to_numpy() for column in columns]
        )
        return pl.Series(name, table.sum(axis=0) / len(table)).fill_nan(None)
    texts = pl.DataFrame({str(draw): column.cast(pl.String) for draw, column in enumerate(columns)})
    modes = texts.select(
        pl.concat_list(pl.all()).list.eval(pl.element().mode().sort().first()).list.first()
    )
    return modes.to_series().alias(name)


def _average_numbers(measure: Measure, draws: list[Evidence]) -> pl.DataFrame:
    rows = []
    for name in [number.name for number in measure.numbers]:
        values = [evidence.number(name) for evidence in draws]
        mean, error = _mean_and_error(values)
        rows.append((name, mean, error, min(values), max(values)))
    names = ["number", "mean", "error", "lowest", "highest"]
    return pl.DataFrame(rows, schema=names, orient="row")


def _average_tables(data: Dataset, draws: list[Evidence]) -> Any:
    tables = [
        [] if evidence.table is None else wrap(evidence.table).rows(named=True)
        for evidence in draws
    ]
    labels = [[[row.get(name) for name in _LABELS] for row in table] for table in tables]
    if not tables[0] or any(other != labels[0] for other in labels):
        return None
    return data.like(pl.DataFrame([_average_rows(rows) for rows in zip(*tables, strict=True)]))


def _average_rows(rows: tuple[Mapping[str, Any], ...]) -> dict[str, Any]:
    """One row of the table: the means of what is measured, and all else where it is the same."""
    average: dict[str, Any] = {}
    for name, first in rows[0].items():
        values = [row[name] for row in rows]
        if name not in _LABELS and isinstance(first, float):
            average[name], average[f"{name}_error"] = _mean_and_error(values)
        else:
            average[name] = first if all(value == first for value in values) else None
    return average


def _mean_and_error(values: list[Any]) -> tuple[float, float]:
    """NaN as soon as one draw could not be measured: leaving it out would flatter the mean."""
    if any(value is None or not math.isfinite(value) for value in values):
        return math.nan, math.nan
    mean = math.fsum(values) / len(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    return mean, math.sqrt(squares / (len(values) - 1) / len(values))
