"""Hierarchies: what a variable holds, and what groups of it do to the risk."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from sfumato.cells.grids import spread_ends
from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.engines.verbs import Combinations
from sfumato.io import frames
from sfumato.methods.recode import Recode
from sfumato.risk.uniqueness import Uniqueness
from sfumato.schema.hierarchies import Hierarchy
from sfumato.studio.grouping import build_groups
from sfumato.studio.tasks import Work, task
from sfumato.studio.tasks.data import bring_here, get_table

_BARS = 60
MOST_CATEGORIES = 300
_MOST_DECIMALS = 3
_COUNT = "__records__"
_NUMBERS = ("continuous", "integer")
_PARTS = 10
"""As for `coarsen`: what is drawn ends on a round number, or on the first day of a period."""
_EPOCH = dt.date(1970, 1, 1)


def get_declared(work: Work, table: str) -> Dataset:
    """The records of a table with its roles."""
    data = bring_here(get_table(work, table))
    return data.with_schema(work.plan.by_table[table].schema)


@task(lane="quick", depends="schema", keep=False)
def show_values(work: Work, *, name: str, table: str = "") -> dict[str, Any]:
    """A histogram of numbers or days, or categories and how many records have each."""
    data = get_declared(work, table)
    data.schema.require([name])
    values = data.column(name).drop_nulls()
    kind = data.schema[name].kind
    if values.dtype.is_numeric() and kind in _NUMBERS:
        return _describe_numbers(values)
    if values.dtype.is_temporal():
        return _describe_days(values)
    texts = frames.to_canonical_text(values)
    counted = texts.value_counts(name="records").sort(
        "records", values.name, descending=[True, False]
    )
    if counted.height > MOST_CATEGORIES:
        return {"form": "many", "count": counted.height}
    return {"form": "categories", "values": [list(row) for row in counted.iter_rows()]}


def _describe_numbers(values: pl.Series) -> dict[str, Any]:
    numbers = values.cast(pl.Float64).to_numpy()
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return {"form": "many", "count": 0}
    decimals = next(
        (d for d in range(_MOST_DECIMALS) if (np.round(numbers, d) == numbers).all()),
        _MOST_DECIMALS,
    )
    low, high = float(numbers.min()), float(numbers.max())
    bins = min(_BARS, max(1, round((high - low) * 10**decimals) + 1))
    step = 10.0**-decimals
    counts, _ = np.histogram(numbers, bins=bins, range=(low, high + step))
    return {
        "form": "numbers",
        "low": low,
        "high": high,
        "ends": spread_ends(low, high, whole=decimals == 0, parts=_PARTS),
        "decimals": decimals,
        "bars": counts.tolist(),
    }


def _describe_days(values: pl.Series) -> dict[str, Any]:
    """Days are counted from 1970 on; a time of day has no place in groups of days."""
    if values.dtype not in (pl.Date, pl.Datetime):
        return {"form": "moments"}
    days = _drop_midnight(values)
    if days.dtype != pl.Date:
        return {"form": "moments"}
    numbers = days.to_physical().to_numpy()
    if not len(numbers):
        return {"form": "many", "count": 0}
    low, high = int(numbers.min()), int(numbers.max())
    counts, _ = np.histogram(numbers, bins=min(_BARS, high - low + 1), range=(low, high + 1))
    ends = spread_ends(low, high, whole=True, date=True, parts=_PARTS)
    return {
        "form": "dates",
        "low": low,
        "high": high,
        "ends": [(_EPOCH + dt.timedelta(days=int(end))).isoformat() for end in ends],
        "bars": counts.tolist(),
    }


def _drop_midnight(values: pl.Series) -> pl.Series:
    """Days, where no value has a time of day; else the values as they are."""
    if values.dtype != pl.Datetime:
        return values
    days = values.dt.date()
    return days if (values.dt.time() == dt.time()).all() else values


@task(lane="quick", depends="schema", keep=False)
def try_groups(
    work: Work,
    *,
    name: str,
    drawing: Mapping[str, Any],
    table: str = "",
    others: list[str] | None = None,
) -> dict[str, Any]:
    """Who can be singled out with the values as they are, and with each level of groups.

    The outsider knows this variable and `others`; by default all that others may know. `drawing`
    is what `build_groups` takes.
    """
    data = get_declared(work, table)
    quasi = data.schema.having("quasi")
    chosen = quasi if others is None else [other for other in others if other in quasi]
    known = list(dict.fromkeys([*chosen, name]))
    groups = build_groups(drawing)
    if data.schema.person is not None:
        return {"known": known, "levels": _measure_levels(data, known, name, groups)}
    facts = json.dumps([work.source.stamp, work.plan_text, table, known])
    combinations = work.workshop.keep(
        f"combinations:{facts}", lambda: engine_for(data.frame).distinct(data, known)
    )
    return {"known": known, "levels": _count_levels(combinations, name, groups)}


def _count_levels(combinations: Combinations, name: str, groups: Hierarchy) -> list[dict[str, Any]]:
    """How many combinations one record has, level by level, where each record is a person.

    The combinations are looked up once: while somebody drags a border, only they are united.
    """
    frame = combinations.values.with_columns(pl.Series(_COUNT, combinations.counts))
    others = [other for other in combinations.values.columns if other != name]
    texts = frames.to_canonical_text(_drop_midnight(combinations.values[name]))
    records, lines = int(combinations.counts.sum()), []
    for level in range(groups.depth + 1):
        cells = texts if level == 0 else texts.replace(groups.at(level))
        united = frame.with_columns(cells.alias(name)).group_by(*others, name).agg(pl.sum(_COUNT))
        sizes = united[_COUNT].to_numpy()
        unique = int((sizes == 1).sum()) / records
        count = cells.drop_nulls().n_unique()
        lines.append({"level": level, "groups": count, "unique": unique, "k": int(sizes.min())})
    return lines


def _measure_levels(
    data: Dataset, known: list[str], name: str, groups: Hierarchy
) -> list[dict[str, Any]]:
    """The same where a person has several rows."""
    grouped = data.with_schema(data.schema.changed([name], hierarchy=groups))
    tables = [data, *(Recode(variables=[name], level=level).apply(grouped)
                      for level in range(1, groups.depth + 1))]  # fmt: skip
    lines = []
    for level, table in enumerate(tables):
        found = Uniqueness(known=known).measure(table)
        count = table.column(name).drop_nulls().n_unique()
        lines.append({"level": level, "groups": count, "unique": found.value,
                      "k": found.details["k"]})  # fmt: skip
    return lines
