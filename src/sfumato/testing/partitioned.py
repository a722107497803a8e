"""A third engine, for tests: every verb over random partitions in random order.

What gives the same bytes here and locally is ready for a cluster.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.engines import Chance, Combinations, LocalEngine
from sfumato.engines.local import (
    count_combinations,
    group_records,
    list_sort_keys,
    make_draws,
    name_by_position,
)
from sfumato.engines.summaries import Derive, Summary, line_up, summarise
from sfumato.engines.verbs import (
    HIGH,
    LEVELS,
    LOW,
    RANK,
    RECORDS,
    ROWS,
    Combine,
    GroupFunction,
    RowFunction,
    Rows,
    tabulate_distinct,
)
from sfumato.kernels.arrays import Integers, Mask

_AT = "__at__"


class PartitionedEngine(LocalEngine):
    """The verbs of `engines/verbs.py` over random partitions, each in random order.

    What is not overridden looks at all records at once, and is tested by itself.
    """

    name = "partitioned"
    in_memory = False
    random: np.random.Generator
    parts: int

    def __init__(self, seed: int, parts: int = 4) -> None:
        super().__init__()
        object.__setattr__(self, "random", np.random.default_rng(seed))
        object.__setattr__(self, "parts", parts)

    def _split(self, records: int) -> list[Integers]:
        """Positions in random order, cut into parts of random size: one record, some, or none."""
        order = self.random.permutation(records)
        cuts = np.sort(self.random.integers(0, records + 1, self.parts - 1))
        # A single record is of one stratum, and has no others beside it.
        return np.split(order, np.sort(np.append(cuts, min(1, records))))

    def prepare(self, data: Dataset) -> Dataset:
        return data

    def keep(self, data: Dataset) -> Dataset:
        return data

    def aggregate(
        self,
        data: Dataset,
        wanted: Mapping[str, Sequence[Summary]],
        *,
        derive: Derive | None = None,
        reads: Sequence[str] = (),
    ) -> dict[str, dict[str, Any]]:
        if not wanted:
            return {}
        batch = data.batch(list(wanted) if derive is None else reads)
        parts = [batch[at] for at in self._split(len(data))]
        made = [part if derive is None else derive(part) for part in parts]
        columns = (pl.concat([part[name] for part in made]) for name in wanted)
        return summarise(line_up(columns).lazy(), wanted)

    def _join_some(self, results: list[Any], combine: Combine) -> list[Any]:
        """Some joined, some not, and in any order."""
        cut = int(self.random.integers(1, len(results) + 1))
        order = self.random.permutation(len(results))
        return [
            functools.reduce(combine, [results[i] for i in some])
            for some in (order[:cut], order[cut:])
            if len(some)
        ]

    def distinct(self, data: Dataset, columns: Sequence[str]) -> Combinations:
        if not columns:
            sizes = [len(at) for at in self._split(len(data))]
            return Combinations(pl.DataFrame(), np.array([sum(sizes)]))
        batch = name_by_position(data.batch(columns))
        parts = [count_combinations(batch[at]) for at in self._split(len(data))]
        tables = [part.values.with_columns(pl.Series(_AT, part.counts)) for part in parts]
        merged = pl.concat(tables).group_by(batch.columns).agg(pl.col(_AT).sum())
        merged = merged[self.random.permutation(merged.height)]
        values = merged.drop(_AT)
        values.columns = list(columns)
        return Combinations(values, merged[_AT].to_numpy())

    def tabulate(self, data: Dataset, columns: Sequence[str]) -> Rows:
        return tabulate_distinct(self, data, columns)

    def gather(
        self,
        data: Dataset,
        function: Callable[[pl.DataFrame], Any],
        *,
        reads: Sequence[str],
        combine: Combine | None = None,
    ) -> list[Any]:
        results = [function(data.batch(reads)[at]) for at in self._split(len(data))]
        return results if combine is None else self._join_some(results, combine)

    def count(self, data: Dataset) -> int:
        return len(data)

    def map_rows(
        self,
        data: Dataset,
        function: RowFunction,
        *,
        reads: Sequence[str],
        chance: Chance | None = None,
    ) -> Dataset:
        batch = data.batch(reads)
        made = [
            function(batch[at], make_draws(data, chance, at)).with_columns(pl.Series(_AT, at))
            for at in self._split(len(data))
        ]
        return data.with_columns(pl.concat(made).sort(_AT).drop(_AT))

    def map_groups(
        self,
        data: Dataset,
        function: GroupFunction,
        *,
        by: Sequence[str],
        reads: Sequence[str],
        chance: Chance | None = None,
    ) -> Dataset:
        batch = data.batch(reads)
        order, starts = group_records(data, by)
        groups = [order[low:high] for low, high in itertools.pairwise(starts)]
        made = []
        for some in self._split(len(groups) if len(data) else 0):
            if not len(some):
                continue
            each = [self.random.permutation(groups[which]) for which in some]
            at = np.concatenate(each)
            cuts = np.concatenate([[0], np.cumsum([len(group) for group in each])])
            done = function(batch[at], cuts, make_draws(data, chance, at))
            made.append(done.with_columns(pl.Series(_AT, at)))
        return data.with_columns(pl.concat(made).sort(_AT).drop(_AT)) if made else data

    def rank(self, data: Dataset, by: Sequence[str]) -> Dataset:
        """Range-partitioned: sort each range by itself, then add the offset of those before."""
        keys = list_sort_keys(data.batch(by), data.identity.digests)
        values = np.where(keys[0], np.inf, keys[1]) if by else keys[0]
        edges = np.sort(self.random.choice(values, self.parts - 1)) if len(values) else values
        ranges = np.searchsorted(edges, values, side="right")
        places = np.empty(len(values), np.int64)
        offset = 0
        for part in range(self.parts):
            at = self.random.permutation(np.flatnonzero(ranges == part))
            order = at[np.lexsort([key[at] for key in keys[::-1]])]
            places[order] = offset + np.arange(len(order))
            offset += len(order)
        return data.with_columns(pl.DataFrame({RANK: places}))

    def group(
        self,
        data: Dataset,
        by: Sequence[str],
        *,
        weight: str | None = None,
        extremes: Sequence[str] = (),
        levels: Sequence[str] = (),
    ) -> Dataset:
        frame = data.batch(data.columns)
        wanted = [pl.len().cast(pl.Int64).alias(ROWS)]
        wanted += [pl.col(weight).sum().alias(RECORDS)] if weight else []
        for name in extremes:
            wanted += [pl.col(name).min().alias(name + LOW), pl.col(name).max().alias(name + HIGH)]
        wanted += [pl.col(name).n_unique().cast(pl.Int64).alias(name + LEVELS) for name in levels]
        shuffled = frame[self.random.permutation(frame.height)]
        grouped = shuffled.group_by(by).agg(wanted) if by else shuffled.select(wanted)
        return type(data)(grouped[self.random.permutation(grouped.height)])

    def filter(
        self, data: Dataset, function: Callable[[pl.DataFrame], Mask], reads: Sequence[str]
    ) -> Dataset:
        wanted = np.zeros(len(data), bool)
        batch = data.batch(reads or data.columns[:1])
        for at in self._split(len(data)):
            wanted[at] = function(batch[at])
        return data.take(np.flatnonzero(wanted))

    def repeat(
        self,
        data: Dataset,
        function: Callable[[pl.DataFrame], tuple[Integers, pl.DataFrame]],
        *,
        reads: Sequence[str],
    ) -> Dataset:
        batch = data.batch(reads)
        parts = [(at, *function(batch[at])) for at in self._split(len(data))]
        rows = np.concatenate([at[chosen] for at, chosen, _ in parts])
        return data.take(rows).with_columns(pl.concat([new for _, _, new in parts]))

    def fetch(self, data: Dataset) -> pl.DataFrame:
        return data.batch(data.columns)

    def join(self, data: Dataset, table: Dataset, on: Sequence[str]) -> Dataset:
        left, right = data.batch(data.columns), table.batch(table.columns)
        joined = left.join(right, on=list(on), how="left", maintain_order="left")
        return data.with_columns(joined.select(n for n in joined.columns if n not in data.columns))
