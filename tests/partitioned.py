"""A third engine, for tests: every verb over random partitions in random order.

What gives the same bytes here and locally is ready for a cluster.
"""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl

from sfumato.engines import Combinations
from sfumato.engines.local import (
    count_combinations,
    group_records,
    make_draws,
    name_by_position,
    summarise,
)

_AT = "__at__"


class PartitionedEngine:
    def __init__(self, seed: int, parts: int = 4) -> None:
        self.random = np.random.default_rng(seed)
        self.parts = parts

    def _split(self, records: int):
        """Positions in random order, cut into parts of random size (some of them empty)."""
        order = self.random.permutation(records)
        cuts = np.sort(self.random.integers(0, records + 1, self.parts - 1))
        return np.split(order, cuts)

    def prepare(self, data):
        return data

    def aggregate(self, data, wanted):
        found = {}
        for name, summaries in wanted.items():
            column = data.column(name)
            parts = [column.gather(at).drop_nulls() for at in self._split(len(data))]
            found[name] = summarise(parts, summaries)
        return found

    def distinct(self, data, columns):
        if not columns:
            sizes = [len(at) for at in self._split(len(data))]
            return Combinations(pl.DataFrame(), np.array([sum(sizes)]))
        batch = name_by_position(data.batch(columns))
        parts = [count_combinations(batch[at]) for at in self._split(len(data))]
        tables = [one.values.with_columns(pl.Series(_AT, one.counts)) for one in parts]
        merged = pl.concat(tables).group_by(batch.columns).agg(pl.col(_AT).sum())
        merged = merged[self.random.permutation(merged.height)]
        values = merged.drop(_AT)
        values.columns = list(columns)
        return Combinations(values, merged[_AT].to_numpy())

    def map_rows(self, data, function, *, reads, chance=None):
        batch = data.batch(reads)
        made = [
            function(batch[at], make_draws(data, chance, at)).with_columns(pl.Series(_AT, at))
            for at in self._split(len(data))
        ]
        return data.with_columns(pl.concat(made).sort(_AT).drop(_AT))

    def map_groups(self, data, function, *, by, reads, chance=None):
        batch = data.batch(reads)
        order, starts = group_records(data, by)
        found = [order[low:high] for low, high in itertools.pairwise(starts)]
        made = []
        for some in self._split(len(found) if len(data) else 0):
            if not len(some):
                continue
            each = [self.random.permutation(found[which]) for which in some]
            at = np.concatenate(each)
            cuts = np.concatenate([[0], np.cumsum([len(one) for one in each])])
            done = function(batch[at], cuts, make_draws(data, chance, at))
            made.append(done.with_columns(pl.Series(_AT, at)))
        return data.with_columns(pl.concat(made).sort(_AT).drop(_AT)) if made else data

    def rank(self, data, score):
        """Range-partitioned: sort each range by itself, then add the offset of those before."""
        values = data.column(score).cast(pl.Float64).fill_null(np.inf).to_numpy()
        ids = data.identity.digests
        edges = np.sort(self.random.choice(values, self.parts - 1)) if len(values) else values
        ranges = np.searchsorted(edges, values, side="right")
        places = np.empty(len(values), np.int64)
        offset = 0
        for one in range(self.parts):
            at = self.random.permutation(np.flatnonzero(ranges == one))
            order = at[np.lexsort((ids[at, 1], ids[at, 0], values[at]))]
            places[order] = offset + np.arange(len(order))
            offset += len(order)
        return places
