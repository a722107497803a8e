"""Everything in the memory of one machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data import Dataset
from sfumato.engines.summaries import Summary
from sfumato.engines.verbs import Chance, Combinations, GroupFunction, RowFunction
from sfumato.kernels.arrays import Integers
from sfumato.progress import Progress, silent
from sfumato.randomness import Draws

BATCH = 1 << 17
"""Records a row-wise function gets at a time: what it needs in between stays small."""
_AT = "__sfumato_at__"
At = slice | npt.NDArray[np.int64]


@dataclass(frozen=True)
class LocalEngine:
    """The verbs on frames that fit into memory."""

    say: Progress = field(default=silent, repr=False)

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
        if not len(data):
            return data
        batch = data.batch(reads)
        order, starts = grouped(data, by)

        def part(one: slice) -> pl.DataFrame:
            inside = starts[one.start : one.stop + 1]
            at = order[inside[0] : inside[-1]]
            return function(batch[at], inside - inside[0], draws(data, chance, at))

        made = pl.concat(self._each(part, batches(starts)), rechunk=True)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return data.with_columns(made[back])

    def _each(
        self, work: Callable[[slice], pl.DataFrame], parts: Sequence[slice]
    ) -> list[pl.DataFrame]:
        """Do the parts side by side: compiled work lets others run meanwhile."""
        made: list[pl.DataFrame] = []
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            for one in pool.map(work, parts):
                made.append(one)
                self.say("working through the strata", len(made), len(parts))
        return made

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


def grouped(data: Dataset, by: Sequence[str]) -> tuple[npt.NDArray[np.int64], Integers]:
    """The positions of all records, group after group, and where each group starts."""
    if not by:
        return np.arange(len(data)), np.array([0, len(data)])
    batch = data.batch(by)
    found = counted(batch)
    group = class_of_each(batch, found.values)
    # Numbers of 16 bits are sorted in linear time.
    small = group.astype(np.uint16) if len(found) <= np.iinfo(np.uint16).max else group
    order = np.argsort(small, kind="stable")
    return order, np.concatenate([[0], np.cumsum(found.counts)])


def batches(starts: Integers) -> list[slice]:
    """Whole groups, as many at a time as make up a batch."""
    cuts, first = [], 0
    for last in range(1, len(starts)):
        if starts[last] - starts[first] >= BATCH or last == len(starts) - 1:
            cuts.append(slice(first, last))
            first = last
    return cuts


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
