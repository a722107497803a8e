"""Everything in the memory of one machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data import Dataset
from sfumato.engines.summaries import Summary
from sfumato.engines.verbs import Chance, Combinations, GroupFunction, RowFunction
from sfumato.randomness import Draws

BATCH = 1 << 17
"""Records a row-wise function gets at a time: what it needs in between stays small."""
_AT = "__sfumato_at__"
At = slice | npt.NDArray[np.int64]


class LocalEngine:
    """The verbs on frames that fit into memory."""

    def aggregate(
        self, data: Dataset, wanted: Mapping[str, Sequence[Summary]]
    ) -> dict[str, dict[str, Any]]:
        """See `Engine.aggregate`."""
        return {
            name: summarise([data.column(name).drop_nulls()], summaries)
            for name, summaries in wanted.items()
        }

    def distinct(self, data: Dataset, columns: Sequence[str]) -> Combinations:
        """See `Engine.distinct`."""
        if not columns:
            return Combinations(pl.DataFrame(), np.array([len(data)]))
        return counted(data.batch(columns))

    def map_rows(
        self,
        data: Dataset,
        function: RowFunction,
        *,
        reads: Sequence[str],
        chance: Chance | None = None,
    ) -> Dataset:
        """See `Engine.map_rows`."""
        batch = data.batch(reads)
        made = [
            function(batch[at : at + BATCH], draws(data, chance, slice(at, at + BATCH)))
            for at in range(0, max(batch.height, 1), BATCH)
        ]
        return data.with_columns(pl.concat(made, rechunk=True))

    def map_groups(
        self,
        data: Dataset,
        function: GroupFunction,
        *,
        by: Sequence[str],
        reads: Sequence[str],
        chance: Chance | None = None,
    ) -> Dataset:
        """See `Engine.map_groups`."""
        batch = data.batch(reads)
        made = [
            function(batch[at], draws(data, chance, at)).with_columns(pl.Series(_AT, at))
            for at in groups(data, by)
        ]
        return data.with_columns(pl.concat(made).sort(_AT).drop(_AT)) if made else data

    def rank(self, data: Dataset, score: str) -> npt.NDArray[np.int64]:
        """See `Engine.rank`."""
        values = data.column(score).cast(pl.Float64).fill_null(np.inf).to_numpy()
        ids = data.identity.digests
        order = np.lexsort((ids[:, 1], ids[:, 0], values))
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        return places


def summarise(parts: Sequence[pl.Series], summaries: Sequence[Summary]) -> dict[str, Any]:
    """Take each summary of the non-missing values of the parts, the ones it needs first."""
    known: dict[str, Any] = {}

    def take(summary: Summary) -> None:
        for before in summary.needs:
            take(before)
        if summary.name not in known:
            partials = [summary.partial(part, known) for part in parts]
            known[summary.name] = summary.merge(partials, known)

    for summary in summaries:
        take(summary)
    return known


def counted(batch: pl.DataFrame) -> Combinations:
    """Distinct rows with their counts."""
    keys = by_place(batch)
    found = keys.group_by(keys.columns).agg(pl.len().cast(pl.Int64).alias(_AT))
    values = found.drop(_AT)
    values.columns = batch.columns
    return Combinations(values, found[_AT].to_numpy())


def by_place(batch: pl.DataFrame) -> pl.DataFrame:
    """The columns named by their place: a user's name may be a pattern, or one of ours."""
    keys = batch.clone()
    keys.columns = [str(place) for place in range(batch.width)]
    return keys


def groups(data: Dataset, by: Sequence[str]) -> list[npt.NDArray[np.int64]]:
    """The positions of each group's records, groups in canonical order."""
    if not by:
        return [np.arange(len(data))] if len(data) else []
    keys = by_place(data.batch(by))
    found = (
        keys.with_row_index(_AT)
        .group_by(keys.columns)
        .agg(pl.col(_AT).cast(pl.Int64))
        .sort(keys.columns, nulls_last=False)
    )
    return [np.asarray(at) for at in found[_AT].to_list()]


def class_of_each(batch: pl.DataFrame, classes: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Which of the combinations each record has."""
    keys, table = by_place(batch), by_place(classes).with_row_index(_AT)
    found = keys.join(table, on=keys.columns, how="left", nulls_equal=True, maintain_order="left")
    return found[_AT].cast(pl.Int64).to_numpy()


def draws(data: Dataset, chance: Chance | None, at: At = slice(None)) -> Draws | None:
    """The draws that belong to some of the records, in their order."""
    if chance is None:
        return None
    return Draws(chance.key, chance.step, data.identity.take(at))
