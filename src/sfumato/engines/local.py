"""The local engine: all records in the memory of one machine."""

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
_INDEX = "__sfumato_at__"
Rows = slice | npt.NDArray[np.int64]


@dataclass(frozen=True)
class LocalEngine:
    """The verbs on frames that fit into memory."""

    progress: Progress = field(default=silent, repr=False)

    def prepare(self, data: Dataset) -> Dataset:
        """See `Engine.prepare`."""
        return data  # an id is worked out when it is asked for

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
        return count_combinations(data.batch(columns))

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
        parts = [
            function(
                batch[start : start + BATCH], make_draws(data, chance, slice(start, start + BATCH))
            )
            for start in range(0, max(batch.height, 1), BATCH)
        ]
        return data.with_columns(pl.concat(parts, rechunk=True))

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
        # Columns are read once, and groups cut from them by position.
        batch = data.batch(reads)
        order, starts = group_records(data, by)

        def map_part(groups: slice) -> pl.DataFrame:
            ends = starts[groups.start : groups.stop + 1]
            rows = order[ends[0] : ends[-1]]
            return function(batch[rows], ends - ends[0], make_draws(data, chance, rows))

        mapped = pl.concat(self._run_parts(map_part, cut_batches(starts)), rechunk=True)
        # Back from the order of the groups to that of the records.
        position = np.empty(len(order), np.int64)
        position[order] = np.arange(len(order))
        return data.with_columns(mapped[position])

    def _run_parts(
        self, work: Callable[[slice], pl.DataFrame], parts: Sequence[slice]
    ) -> list[pl.DataFrame]:
        """Run the parts in parallel: compiled work releases the interpreter lock."""
        results: list[pl.DataFrame] = []
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            for result in pool.map(work, parts):
                results.append(result)
                self.progress("working through the strata", len(results), len(parts))
        return results

    def rank(self, data: Dataset, score: str) -> npt.NDArray[np.int64]:
        """See `Engine.rank`."""
        values = data.column(score).cast(pl.Float64).fill_null(np.inf).to_numpy()
        # Ties go by record id, so that the order of the rows does not matter.
        ids = data.identity.digests
        order = np.lexsort((ids[:, 1], ids[:, 0], values))
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        return ranks


def summarise(parts: Sequence[pl.Series], summaries: Sequence[Summary]) -> dict[str, Any]:
    """Take each summary of the non-missing values of the parts, the ones it needs first."""
    known: dict[str, Any] = {}

    def take(summary: Summary) -> None:
        for before in summary.needs:
            take(before)
        # A summary that several others need is taken once.
        if summary.name not in known:
            partials = [summary.partial(part, known) for part in parts]
            known[summary.name] = summary.merge(partials, known)

    for summary in summaries:
        take(summary)
    return {summary.name: known[summary.name] for summary in summaries}


def count_combinations(batch: pl.DataFrame) -> Combinations:
    """Distinct rows with their counts."""
    keys = name_by_position(batch)
    classes = keys.group_by(keys.columns).agg(pl.len().cast(pl.Int64).alias(_INDEX))
    values = classes.drop(_INDEX)
    values.columns = batch.columns
    return Combinations(values, classes[_INDEX].to_numpy())


def name_by_position(batch: pl.DataFrame) -> pl.DataFrame:
    """The columns named by position: a user's name may be a pattern, or one of ours."""
    keys = batch.clone()  # a shallow copy: only the names differ
    keys.columns = [str(position) for position in range(batch.width)]
    return keys


def group_records(data: Dataset, by: Sequence[str]) -> tuple[npt.NDArray[np.int64], Integers]:
    """The positions of all records, group after group, and where each group starts."""
    if not by:
        return np.arange(len(data)), np.array([0, len(data)])
    batch = data.batch(by)
    classes = count_combinations(batch)
    group = find_class_of_each(batch, classes.values)
    # Numbers of 16 bits are sorted in linear time.
    small = group.astype(np.uint16) if len(classes) <= np.iinfo(np.uint16).max else group
    order = np.argsort(small, kind="stable")
    return order, np.concatenate([[0], np.cumsum(classes.counts)])


def cut_batches(starts: Integers) -> list[slice]:
    """Whole groups, as many at a time as make up a batch."""
    cuts, first = [], 0
    for last in range(1, len(starts)):
        if starts[last] - starts[first] >= BATCH or last == len(starts) - 1:
            cuts.append(slice(first, last))
            first = last
    return cuts


def find_class_of_each(batch: pl.DataFrame, classes: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Which of the combinations each record has."""
    keys, table = name_by_position(batch), name_by_position(classes).with_row_index(_INDEX)
    joined = keys.join(table, on=keys.columns, how="left", nulls_equal=True, maintain_order="left")
    return joined[_INDEX].cast(pl.Int64).to_numpy()


def make_draws(data: Dataset, chance: Chance | None, rows: Rows = slice(None)) -> Draws | None:
    """The draws that belong to some of the records, in their order."""
    if chance is None:
        return None  # a step without randomness
    return Draws(chance.key, chance.step, data.identity.take(rows))
