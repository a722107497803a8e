"""What several releases of the same data under different keys reveal: drawn, averaged, measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.measure import Measure
from sfumato.method import Method
from sfumato.plan import Plan
from sfumato.progress import current_progress
from sfumato.randomness import Key
from sfumato.release import aligned


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
    most frequent is taken, of equally frequent ones the first in the alphabet. Nothing made here
    is released, written or kept.

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
    original = data.with_schema(by.schema) if isinstance(by, Plan) else data
    steps = tuple(by.steps) if isinstance(by, Plan) else (by,)
    if not any(step.keyed for step in steps):
        raise MeasureError(
            "Nothing here is drawn by chance, so every release would be the same: there is nothing "
            "to average.",
            hint="measure one release.",
        )
    if not releases or min(releases) < 1:
        raise MeasureError("Some number of releases is needed.", hint="releases = [1, 2, 4, 10].")
    base, say, made = Key.of(key), current_progress(), []
    for draw in range(max(releases)):
        one = original
        for at, step in enumerate(steps):
            one = step.apply(one, key=Key(base.subkey("several releases", draw)), step=at)
        if len(one) != len(original):
            raise MeasureError(
                "A step removes records, so the rows of several releases do not belong together.",
                hint="leave that step out.",
            )
        made.append(one)
        say("drawing releases", draw + 1, max(releases))
    kept = original if measure.whole else aligned(original, made[0])
    return {many: measure.measure(kept, averaged_over(made[:many])) for many in releases}


def averaged_over(made: Sequence[Dataset]) -> Dataset:
    """One data set of several releases whose rows correspond: means, or most frequent values.

    Examples
    --------
    >>> one, other = (Dataset(pl.DataFrame({"age": [age, 40]})) for age in (31, 34))
    >>> averaged_over([one, other]).frame["age"].to_list()
    [32.5, 40.0]
    """
    first = made[0]
    new = []
    for name in first.columns:
        columns = [one.column(name) for one in made]
        if all(column.equals(columns[0], null_equal=True) for column in columns):
            continue
        new.append(_together(name, columns))
    kinds = [one.name for one in new if one.dtype.is_float()]
    return (
        first.with_columns(pl.DataFrame(new), first.schema.changed(kinds, kind="continuous"))
        if new
        else first
    )


def _together(name: str, columns: Sequence[pl.Series]) -> pl.Series:
    if columns[0].dtype.is_numeric():
        table = np.array([one.cast(pl.Float64).fill_null(np.nan).to_numpy() for one in columns])
        return pl.Series(name, table.sum(axis=0) / len(table)).fill_nan(None)
    texts = pl.DataFrame({str(at): one.cast(pl.String) for at, one in enumerate(columns)})
    most = texts.select(
        pl.concat_list(pl.all()).list.eval(pl.element().mode().sort().first()).list.first()
    )
    return most.to_series().alias(name)
