"""The Spark engine: records on a cluster. The only module that imports pyspark.

Counts, ends and ranks are queries of Spark. A released byte must not follow the order of records,
so sums are exact, by our own code on the parts of a frame, as all the rest is. What comes back to
the driver is small by construction: summaries, and distinct combinations up to a stated number.

A record's id is worked out once, where the records are, and stays beside them in two columns that
no user sees: it follows from content, so it must not leave.
"""

from __future__ import annotations

import gc
import json
import math
import os
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import chain
from typing import Any, ClassVar
from zipimport import zipimporter

import numpy as np
import polars as pl
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark

from sfumato import errors
from sfumato.data import Dataset
from sfumato.data.identity import (
    Identity,
    describe_basis,
    digest,
    digest_buckets,
    digest_identifiers,
    digest_records,
    find_buckets,
    list_identifiers,
    tell_apart,
)
from sfumato.engines.local import LocalEngine, list_sort_keys, look_up, place_by_id, refuse_to_pair
from sfumato.engines.summaries import (
    Derive,
    Deviation,
    Distinct,
    Infinite,
    Maximum,
    Mean,
    Minimum,
    OrderStatistics,
    Quantile,
    Summary,
    Total,
    Transformed,
    join_squares,
    line_up,
    square_distances,
    to_floats,
)
from sfumato.engines.verbs import (
    AFTER,
    BEFORE,
    HIGH,
    LEVELS,
    LOW,
    PRESENT,
    RANK,
    RECORDS,
    ROWS,
    Chance,
    Combinations,
    Combine,
    GroupFunction,
    RowFunction,
    Rows,
    declare_pairs,
    tabulate_distinct,
)
from sfumato.errors import MethodError, SfumatoError
from sfumato.io import frames
from sfumato.kernels.arrays import Floats, Integers, Mask, Words
from sfumato.kernels.exact_sums import exact_parts
from sfumato.progress import Progress, silent
from sfumato.randomness import Key
from sfumato.schema import Schema

MOST_COMBINATIONS = 5_000_000
"""Distinct combinations that are fetched from the cluster."""
MOST_IN_ONE = 20_000_000
"""Records that a step without strata may bring together on one worker."""
ID_COLUMNS = ("__sfumato_id_0", "__sfumato_id_1")
"""Beside the records, never among them."""
_MOST_TIMES = 4
"""How many times more records than asked for a sample of whole classes may have."""
_IN_RANGE, _SAMPLED = 1_000_000, 64
"""Records that a range of ranks has at least, and those looked at for where each ends."""
_KEY = "__sfumato_key"
_COUNT = "__sfumato_count"
_MARK = "an error of Sfumato: "
_WORK = "_sfumato_work"
Part = Callable[[pl.DataFrame], pl.DataFrame]
Types = Mapping[str, pl.DataType]
Transform = Callable[[Floats], Floats]
_Asked = tuple[str, Summary]
"""A column, and what is to be known of it."""


class SparkIdentity(Identity):
    """Ids that stay on the cluster, beside the records."""

    def __init__(self, frame: DataFrame, basis: str, columns: tuple[str, ...] = ()) -> None:
        super().__init__(lambda: _refuse_to_fetch(basis))
        self.frame = frame
        self.known_basis = basis
        self.known_columns = columns
        self._sum = ""

    @property
    def basis(self) -> str:
        """Where the ids come from, in words."""
        return self.known_basis

    @property
    def columns(self) -> tuple[str, ...]:
        """The variables that they come from, in alphabetical order."""
        return self.known_columns

    def total(self) -> str:
        """A digest of all records together: one job, the first time it is asked for."""
        self._sum = self._sum or _add_up(_choose(self.frame, ID_COLUMNS), _read_words)
        return self._sum

    def change_frame(self, frame: DataFrame) -> SparkIdentity:
        """The same records in another frame."""
        return SparkIdentity(frame, self.known_basis, self.known_columns)


def _refuse_to_fetch(basis: str) -> Any:
    raise MethodError(
        f"The ids of these records ({basis}) are on a cluster, and are not fetched.",
        hint="use a method or a measure that runs on Spark.",
    )


@dataclass(frozen=True)
class SparkEngine:
    """The verbs on Spark frames."""

    name: ClassVar[str] = "spark"
    in_memory: ClassVar[bool] = False
    in_batches: ClassVar[bool] = False
    progress: Progress = field(default=silent, repr=False)

    def prepare(self, data: Dataset) -> Dataset:
        """See `Engine.prepare`."""
        if isinstance(data.given_identity, SparkIdentity):
            return data
        names = self._find_identifiers(data)
        frame = _number_records(data, names)
        columns = names or tuple(sorted(data.schema))
        identity = SparkIdentity(frame, describe_basis(names), columns)
        return replace(data, frame=frame.drop(*ID_COLUMNS), given_identity=identity)

    def keep(self, data: Dataset) -> Dataset:
        """See `Engine.keep`."""
        cached = _records(data).persist(StorageLevel.MEMORY_AND_DISK)
        identity = _get_identity(data).change_frame(cached)
        return replace(data, frame=cached.drop(*ID_COLUMNS), given_identity=identity)

    def let_go(self, data: Dataset) -> None:
        """Give up the room that `keep` has taken."""
        if isinstance(data.given_identity, SparkIdentity):
            data.given_identity.frame.unpersist()

    def align(self, original: Dataset, released: Dataset) -> Dataset:
        """The original records that were released; all of them where none was removed."""
        mine, theirs = _get_identity(original), _get_identity(released)
        if mine.total() == theirs.total():
            return original
        remaining = mine.frame.join(theirs.frame.select(*ID_COLUMNS), list(ID_COLUMNS), "left_semi")
        identity = mine.change_frame(remaining.select(*mine.frame.columns))
        return replace(original, frame=identity.frame.drop(*ID_COLUMNS), given_identity=identity)

    def list_removed_ids(self, original: Dataset, released: Dataset, key: Key) -> Words:
        """The keyed ids of the original records that were not released."""
        mine, theirs = _get_identity(original), _get_identity(released)
        if mine.total() == theirs.total():
            return np.empty((0, 2), np.uint64)
        ids = [frame.select(*ID_COLUMNS) for frame in (mine.frame, theirs.frame)]
        gone = ids[0].join(ids[1], list(ID_COLUMNS), "left_anti").limit(MOST_COMBINATIONS + 1)
        words = _read_words(pl.DataFrame(_fetch(gone)))
        if len(words) > MOST_COMBINATIONS:
            raise MethodError(
                f"More than {MOST_COMBINATIONS:,} records were left out: too many to list.",
                hint="leave out fewer.",
            )
        return Identity.from_digests("left out", words).ids(key)

    def sample_classes(
        self, original: Dataset, released: Dataset, known: Sequence[str], size: int
    ) -> tuple[Dataset, Dataset]:
        """About so many records of both, in memory and in one order: all of some released classes.

        A class is chosen by a digest of its cells, so that it is the same however records lie.
        """
        total = _get_identity(released).total().partition("-")[0]
        share = min(1.0, size / max(int(total, 16), 1))
        limit = np.uint64(min(int(share * 2**64), 2**64 - 1))
        columns = (*released.columns, *ID_COLUMNS)

        def choose(part: pl.DataFrame) -> pl.DataFrame:
            words = digest(frames.get_column(part, name) for name in known)
            return part.filter(words[:, 0] <= limit)

        types = {name: released.dtype(name) for name in released.columns}
        types |= dict.fromkeys(ID_COLUMNS, pl.Int64())
        chosen = map_parts(_records(released), choose, types)
        chosen = chosen.orderBy(*ID_COLUMNS).limit(_MOST_TIMES * size)
        after = pl.DataFrame(_fetch(chosen.select(*(_quote(name) for name in columns))))
        rows, described = after.select(ID_COLUMNS).rows(), " bigint, ".join(ID_COLUMNS) + " bigint"
        ids = original.frame.sparkSession.createDataFrame(rows, described)
        both = _records(original).join(F.broadcast(ids), list(ID_COLUMNS))
        before = pl.DataFrame(_fetch(both.select(*map(_quote, (*original.columns, *ID_COLUMNS)))))
        pair = [(original, before), (released, after)]
        ordered = [(data, frame.sort(ID_COLUMNS)) for data, frame in pair]
        identity = _read_ids(ordered[1][1].select(ID_COLUMNS))
        here = [
            Dataset(frame.select(data.columns), data.schema, given_identity=identity)
            for data, frame in ordered
        ]
        return here[0], here[1]

    def digest_values(self, data: Dataset) -> dict[int, bytes]:
        """See `digest_buckets`: the digests stay on the cluster, those of buckets come here."""
        names = sorted(data.columns)

        def read(part: pl.DataFrame) -> pl.DataFrame:
            words = digest(frames.get_column(part, name) for name in names)
            bucket = pl.Series(_KEY, find_buckets(words).astype(np.int64))
            return _write_words(words).with_columns(bucket)

        def join(part: pl.DataFrame) -> pl.DataFrame:
            buckets = digest_buckets(_read_words(part.select(ID_COLUMNS)))
            numbers = pl.Series(_KEY, list(buckets), pl.Int64)
            return pl.DataFrame([numbers, pl.Series(_COUNT, list(buckets.values()), pl.Binary)])

        types = {_KEY: pl.Int64(), **dict.fromkeys(ID_COLUMNS, pl.Int64())}
        records = map_parts(_choose(data.frame, names), read, types).repartition(F.col(_KEY))
        rows = collect(map_parts(records, join, {_KEY: pl.Int64(), _COUNT: pl.Binary()}))
        return {int(row[0]): bytes(row[1]) for row in rows}

    def add_up(self, data: Dataset) -> str:
        """A digest of all values of all records together, in one pass without a shuffle."""
        names = sorted(data.columns)

        def read(part: pl.DataFrame) -> Words:
            return digest(frames.get_column(part, name) for name in names)

        return _add_up(_choose(data.frame, names), read)

    def _find_identifiers(self, data: Dataset) -> tuple[str, ...]:
        stated, sets = list_identifiers(data.schema)
        for names in sets:
            if stated:
                return names

            def read(part: pl.DataFrame, names: Sequence[str] = names) -> pl.DataFrame:
                columns = [frames.get_column(part, name) for name in names]
                return pl.DataFrame({_KEY: digest_identifiers(columns)[:, 0].view(np.int64)})

            keys = map_parts(data.frame, read, {_KEY: pl.Int64()})
            known = F.when(F.col(_KEY) != 0, F.col(_KEY))
            counts = collect(keys.agg(F.countDistinct(known), F.count(F.lit(1))))[0]
            if tell_apart(*counts):
                return names
        return ()

    def aggregate(
        self,
        data: Dataset,
        wanted: Mapping[str, Sequence[Summary]],
        *,
        derive: Derive | None = None,
        reads: Sequence[str] = (),
    ) -> dict[str, dict[str, Any]]:
        """See `Engine.aggregate`."""
        unfolded = {(name, s.name): _unfold(s) for name, ones in wanted.items() for s in ones}
        if not unfolded:
            return {name: {} for name in wanted}
        sources = list(dict.fromkeys((n, steps) for (n, _), (steps, _) in unfolded.items()))
        columns, named = data, [name for name, _ in sources]
        if derive is not None or any(steps for _, steps in sources):
            columns = _derive_columns(data, sources, derive, reads or list(wanted))
            named = list(columns.columns)
        column_of = dict(zip(sources, named, strict=True))
        asked = {key: (column_of[key[0], steps], inner) for key, (steps, inner) in unfolded.items()}
        taken = self._take(columns, list(dict.fromkeys(asked.values())))
        return {n: {s.name: taken[asked[n, s.name]] for s in ones} for n, ones in wanted.items()}

    def _take(self, data: Dataset, asked: Sequence[_Asked]) -> dict[_Asked, Any]:
        """Counts and ends by one query, and values at ranks and sums by one more each."""
        names = list(dict.fromkeys(name for name, _ in asked))
        queries = {ask: _write_query(data, *ask) for ask in asked}
        quick = [(ask, query) for ask, query in queries.items() if query is not None]
        counted = (F.count(_read_column(data, name)) for name in names)
        row = collect(data.frame.agg(*counted, *(query for _, query in quick)))[0]
        counts = dict(zip(names, row, strict=False))
        taken: dict[_Asked, Any] = {ask: counts[ask[0]] for ask in asked}
        for (ask, _), value in zip(quick, row[len(names) :], strict=True):
            taken[ask] = math.nan if value is None else value
        return taken | self._pick(data, asked, counts) | self._add_up(data, asked, counts)

    def _pick(
        self, data: Dataset, asked: Sequence[_Asked], counts: Mapping[str, int]
    ) -> dict[_Asked, Any]:
        """What follows from values at ranks: one worker must hold the different values."""
        ranked = [(n, s) for n, s in asked if isinstance(s, (Quantile, OrderStatistics))]
        wanted = {ask: ask[1].list_ranks(counts[ask[0]]) for ask in ranked}
        pairs = dict.fromkeys((n, rank) for (n, _), ranks in wanted.items() for rank in ranks)
        if not pairs:
            return {ask: ask[1].read((), 0) for ask in ranked}
        names = list(dict.fromkeys(name for name, _ in pairs))
        numbers = [_read_number(data, name).alias(str(i)) for i, name in enumerate(names)]
        queries = [_find_rank(names.index(n), rank, counts[n]) for n, rank in pairs]
        row = collect(data.frame.select(*numbers).agg(*queries))[0]
        found = {pair: value + 0.0 for pair, value in zip(pairs, row, strict=True)}
        return {
            (name, s): s.read([found[name, rank] for rank in wanted[name, s]], counts[name])
            for name, s in ranked
        }

    def _add_up(
        self, data: Dataset, asked: Sequence[_Asked], counts: Mapping[str, int]
    ) -> dict[_Asked, Any]:
        """What follows from sums: exact ones, since Spark adds up in an order of its own."""

        def add(centres: Mapping[str, float | None]) -> dict[str, float]:
            def take(batch: pl.DataFrame) -> list[list[float]]:
                floats = ((to_floats(batch[n].drop_nulls()), mean) for n, mean in centres.items())
                return [
                    exact_parts(v if mean is None else square_distances(v, mean))
                    for v, mean in floats
                ]

            parts = self.gather(data, take, reads=list(centres)) if centres else []
            columns = zip(centres, zip(*parts, strict=True), strict=True)
            return {name: math.fsum(chain.from_iterable(terms)) for name, terms in columns}

        summed = [ask for ask in asked if isinstance(ask[1], (Total, Mean, Deviation))]
        totals = add({name: None for name, _ in summed})
        means = {n: total / counts[n] if counts[n] else math.nan for n, total in totals.items()}
        squares = add({name: means[name] for name, s in summed if isinstance(s, Deviation)})
        return {
            (name, s): join_squares(squares[name], counts[name])
            if isinstance(s, Deviation)
            else (totals if isinstance(s, Total) else means)[name]
            for name, s in summed
        }

    def distinct(self, data: Dataset, columns: Sequence[str]) -> Combinations:
        """See `Engine.distinct`."""
        if not columns:
            return Combinations(pl.DataFrame(), np.array([len(data)]))
        keys = [_read_column(data, name).alias(str(i)) for i, name in enumerate(columns)]
        counted = data.frame.select(*keys).groupBy(*map(str, range(len(columns))))
        table = counted.agg(F.count(F.lit(1)).alias(_COUNT)).limit(MOST_COMBINATIONS + 1)
        combinations = pl.DataFrame(_fetch(table))
        if combinations.height > MOST_COMBINATIONS:
            raise MethodError(
                f"There are more than {MOST_COMBINATIONS:,} different combinations of "
                f"{len(columns)} variables: too many to bring together.",
                hint="take fewer variables, or coarsen some first.",
            )
        values = combinations.drop(_COUNT)
        values.columns = list(columns)
        return Combinations(values, combinations[_COUNT].to_numpy())

    def tabulate(self, data: Dataset, columns: Sequence[str]) -> Rows:
        """See `Engine.tabulate`."""
        return tabulate_distinct(self, data, columns)

    def gather(
        self,
        data: Dataset,
        function: Callable[[pl.DataFrame], Any],
        *,
        reads: Sequence[str],
        combine: Combine | None = None,
    ) -> list[Any]:
        """See `Engine.gather`."""
        schema = Schema({name: data.schema[name] for name in reads})

        def take(part: pl.DataFrame) -> pl.DataFrame:
            result = function(Dataset(part, schema).batch(reads))
            return pl.DataFrame({_KEY: [pickle.dumps(result)]})

        taken = map_parts(_choose(data.frame, reads), take, {_KEY: pl.Binary()})
        if combine is not None:
            taken = _join_parts(taken, partial(reduce, combine))
        rows = collect(taken)
        if not rows:
            empty = pl.DataFrame(schema={name: data.dtype(name) for name in reads})
            return [function(Dataset(empty, schema).batch(reads))]
        return [pickle.loads(bytes(row[0])) for row in rows]  # noqa: S301 - our own workers'

    def count(self, data: Dataset) -> int:
        """See `Engine.count`."""
        return len(data)

    def sample(self, data: Dataset, columns: Sequence[str], size: int) -> pl.DataFrame:
        """See `Engine.sample`."""

        def place(part: pl.DataFrame, ids: Identity) -> pl.DataFrame:
            order_keys = place_by_id(ids.digests)
            return part.with_columns(
                pl.Series(_KEY, order_keys[:, 0]), pl.Series(_COUNT, order_keys[:, 1])
            )

        types = {name: data.dtype(name) for name in columns}
        keyed = types | dict.fromkeys((_KEY, _COUNT), pl.Int64())
        records = map_records(data, place, keyed, reads=columns).orderBy(_KEY, _COUNT).limit(size)
        frame = pl.DataFrame(_fetch(records)).select(
            pl.col(name).cast(types[name]) for name in types
        )
        return Dataset(frame, Schema({name: data.schema[name] for name in columns})).batch(columns)

    def attach(self, data: Dataset, table: pl.DataFrame, on: Sequence[str]) -> Dataset:
        """See `Engine.attach`."""
        return self.map_rows(data, lambda batch, _: look_up(batch, table, on), reads=on)

    def pairs(self, original: Dataset, released: Dataset, columns: Sequence[str]) -> Dataset:
        """See `Engine.pairs`."""
        mine, theirs = _get_identity(original), _get_identity(released)
        if mine.basis != theirs.basis:
            raise refuse_to_pair(len(original), len(released))
        before = [_quote(name).alias(f"{BEFORE}{name}") for name in columns]
        after = [
            _quote(name).alias(f"{AFTER}{name}") for name in columns if name in released.schema
        ]
        right = theirs.frame.select(*after, F.lit(True).alias(PRESENT), *ID_COLUMNS)
        joined = mine.frame.select(*before, *ID_COLUMNS).join(right, list(ID_COLUMNS), "left")
        present = F.coalesce(F.col(PRESENT), F.lit(False))
        frame = joined.withColumn(PRESENT, present)
        schema = declare_pairs(original, released, columns)
        identity = mine.change_frame(frame)
        return Dataset(frame.drop(*ID_COLUMNS), schema, given_identity=identity)

    def map_rows(
        self,
        data: Dataset,
        function: RowFunction,
        *,
        reads: Sequence[str],
        chance: Chance | None = None,
    ) -> Dataset:
        """See `Engine.map_rows`."""
        schema, local = data.schema, LocalEngine()

        def work(part: Dataset) -> Dataset:
            return local.map_rows(part, function, reads=reads, chance=chance)

        return self._map(data, _records(data), work, work(_make_empty(data)), schema)

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
        schema, local, records = data.schema, LocalEngine(), _records(data)
        if by:
            records = records.repartition(*(_read_column(data, name) for name in by))
        else:
            if len(data) > MOST_IN_ONE:
                raise MethodError(
                    f"Without strata all {len(data):,} records would come together on one worker.",
                    hint="name strata, or use a method that treats each record by itself.",
                )
            records = records.repartition(1)  # what comes before still runs in parallel

        def work(part: Dataset) -> Dataset:
            return local.map_groups(part, function, by=by, reads=reads, chance=chance)

        empty = _make_empty(data)
        draws = None if chance is None else _make_draws(empty, chance)
        changed = empty.with_columns(function(empty.batch(reads), np.zeros(1, np.int64), draws))
        return self._map(data, records, work, changed, schema)

    def _map(
        self,
        data: Dataset,
        records: DataFrame,
        work: Callable[[Dataset], Dataset],
        example: Dataset,
        schema: Schema,
    ) -> Dataset:
        """Apply a function to the parts, with an example of what comes out of no records."""
        types = {name: example.dtype(name) for name in example.columns}

        def map_part(part: pl.DataFrame) -> pl.DataFrame:
            ids = part.select(ID_COLUMNS)
            local = Dataset(part.drop(ID_COLUMNS), schema, given_identity=_read_ids(ids))
            frame: pl.DataFrame = work(local).frame
            return pl.concat([frame, ids], how="horizontal")

        columns = types | dict.fromkeys(ID_COLUMNS, pl.Int64())
        frame = map_parts(records, map_part, columns)
        identity = _get_identity(data).change_frame(frame)
        return replace(
            data,
            frame=_choose(frame, example.columns),
            schema=example.schema,
            given_identity=identity,
        )

    def rank(self, data: Dataset, by: Sequence[str]) -> Dataset:
        """See `Engine.rank`."""
        records, total = _records(data), len(data)
        ranges = max(_count_shuffle_partitions(records), -(-total // _IN_RANGE))
        # Where ranges end is a matter of size only; each record is put where its own values say.
        share = min(1.0, _SAMPLED * ranges / max(total, 1))
        sampled = records.select(*(_quote(name) for name in (*by, *ID_COLUMNS)))
        bounds = _choose_bounds(pl.DataFrame(_fetch(sampled.sample(share, seed=0))), by, ranges)
        types = {name: data.dtype(name) for name in data.columns}
        types |= dict.fromkeys(ID_COLUMNS, pl.Int64())

        def place(part: pl.DataFrame) -> pl.DataFrame:
            return part.with_columns(pl.Series(_KEY, _find_range(_list_keys(part, by), bounds)))

        placed = map_parts(records, place, types | {_KEY: pl.Int64()})
        counts = {row[0]: row[1] for row in collect(placed.groupBy(_KEY).count())}
        before = np.cumsum([0, *(counts.get(number, 0) for number in range(ranges))])

        def number(part: pl.DataFrame) -> pl.DataFrame:
            partition = part[_KEY].to_numpy()
            order = np.lexsort((*_list_keys(part, by)[::-1], partition))
            within = np.arange(len(partition)) - np.searchsorted(partition[order], partition[order])
            ranks = before[partition[order]] + within
            return part[order].drop(_KEY).with_columns(pl.Series(RANK, ranks))

        columns = types | {RANK: pl.Int64()}
        frame = map_parts(placed.repartition(ranges, F.col(_KEY)), number, columns)
        frame = frame.select(*(_quote(name) for name in (*data.columns, RANK, *ID_COLUMNS)))
        return replace(
            data,
            frame=frame.drop(*ID_COLUMNS),
            given_identity=_get_identity(data).change_frame(frame),
        )

    def group(
        self,
        data: Dataset,
        by: Sequence[str],
        *,
        weight: str | None = None,
        extremes: Sequence[str] = (),
        levels: Sequence[str] = (),
    ) -> Dataset:
        """See `GroupingEngine.group`."""
        wanted = [F.count(F.lit(1)).alias(ROWS)]
        wanted += [F.sum(_quote(weight)).alias(RECORDS)] if weight else []
        for name in extremes:
            wanted.append(F.min(_quote(name)).alias(name + LOW))
            wanted.append(F.max(_quote(name)).alias(name + HIGH))
        wanted += [F.countDistinct(_quote(name)).alias(name + LEVELS) for name in levels]
        frame = data.frame.groupBy(*(_quote(name) for name in by)).agg(*wanted)
        # Rows are nobody's: they have no ids.
        frame = frame.select("*", *(F.lit(0).cast("bigint").alias(name) for name in ID_COLUMNS))
        return Dataset(
            frame.drop(*ID_COLUMNS), given_identity=SparkIdentity(frame, "no ids: rows of counts")
        )

    def filter(
        self, data: Dataset, function: Callable[[pl.DataFrame], Mask], reads: Sequence[str]
    ) -> Dataset:
        """See `GroupingEngine.filter`."""

        def mark(batch: pl.DataFrame, draws: object) -> pl.DataFrame:
            del draws
            return pl.DataFrame({_KEY: function(batch)})

        marked = _records(self.map_rows(data, mark, reads=reads or data.columns[:1]))
        frame, identity = split_off_ids(data, marked.filter(F.col(_KEY)).drop(_KEY))
        return replace(data, frame=frame, given_identity=identity)

    def repeat(
        self,
        data: Dataset,
        function: Callable[[pl.DataFrame], tuple[Integers, pl.DataFrame]],
        *,
        reads: Sequence[str],
    ) -> Dataset:
        """See `GroupingEngine.repeat`."""
        schema = data.schema
        new_types = function(_make_empty(data).batch(reads))[1].schema
        types = {name: data.dtype(name) for name in data.columns} | dict(new_types)

        def repeat_rows(part: pl.DataFrame) -> pl.DataFrame:
            rows, new = function(Dataset(part.drop(ID_COLUMNS), schema).batch(reads))
            return pl.concat([part[rows], new], how="horizontal")

        repeated = map_parts(
            _records(data), repeat_rows, types | dict.fromkeys(ID_COLUMNS, pl.Int64())
        )
        frame, identity = split_off_ids(data, repeated)
        return replace(data, frame=frame, given_identity=identity)

    def fetch(self, data: Dataset) -> pl.DataFrame:
        """See `GroupingEngine.fetch`."""
        rows = pl.DataFrame(_fetch(data.frame.limit(MOST_COMBINATIONS + 1)))
        if rows.height > MOST_COMBINATIONS:
            raise MethodError(
                f"There are more than {MOST_COMBINATIONS:,} rows: too many to bring together.",
                hint="take fewer variables, or coarsen some first.",
            )
        return rows

    def join(self, data: Dataset, table: Dataset, on: Sequence[str]) -> Dataset:
        """See `GroupingEngine.join`."""
        names = (*data.columns, *(name for name in table.columns if name not in data.columns))
        # Spark sorts both by the first key, and by all of them where it is the same: that is slow.
        key = F.xxhash64(*(_quote(name) for name in on)).alias(_KEY)
        records, rows = (frame.select("*", key) for frame in (_records(data), table.frame))
        joined = records.join(rows, [_KEY, *on], "left")
        frame = joined.select(*(_quote(name) for name in (*names, *ID_COLUMNS)))
        return replace(
            data,
            frame=frame.drop(*ID_COLUMNS),
            given_identity=_get_identity(data).change_frame(frame),
        )


def _list_keys(part: pl.DataFrame, by: Sequence[str]) -> list[Any]:
    return list_sort_keys(part.select(by), _read_words(part.select(ID_COLUMNS)))


def _choose_bounds(sampled: pl.DataFrame, by: Sequence[str], ranges: int) -> list[Any]:
    """Keys at which ranges of about equal size end."""
    keys = _list_keys(sampled, by)
    order = np.lexsort(keys[::-1])
    ends = order[np.arange(1, ranges) * len(order) // ranges] if len(order) else order
    return [key[ends] for key in keys]


def _find_range(keys: Sequence[Any], bounds: Sequence[Any]) -> Any:
    """In which range each record lies: how many bounds are not above it."""
    both = [np.concatenate(pair) for pair in zip(bounds, keys, strict=True)]
    is_record = np.arange(len(both[0])) >= len(bounds[0])
    order = np.lexsort((is_record, *both[::-1]))
    reached = np.empty(len(order), np.int64)
    reached[order] = np.cumsum(~is_record[order])
    return reached[is_record]


def _unfold(summary: Summary) -> tuple[tuple[Transform, ...], Summary]:
    """What values go through, and the summary of what comes out."""
    steps: tuple[Transform, ...] = ()
    while isinstance(summary, Transformed):
        steps, summary = (*steps, summary.function), summary.inner
    return steps, summary


def _derive_columns(
    data: Dataset,
    sources: Sequence[tuple[str, tuple[Transform, ...]]],
    derive: Derive | None,
    reads: Sequence[str],
) -> Dataset:
    """Columns that functions make of the records; no ids stand beside them."""
    schema = Schema({name: data.schema[name] for name in reads})

    def make(part: pl.DataFrame) -> pl.DataFrame:
        batch = Dataset(part, schema).batch(list(schema))
        values = batch if derive is None else derive(batch)
        return line_up(_transform(values[name].drop_nulls(), steps) for name, steps in sources)

    types = make(pl.DataFrame(schema={name: data.dtype(name) for name in schema})).schema
    return Dataset(map_parts(_choose(data.frame, list(schema)), make, dict(types)))


def _transform(values: pl.Series, steps: Iterable[Transform]) -> pl.Series:
    for function in steps:
        values = pl.Series(function(to_floats(values)), dtype=pl.Float64)
    return values


def _write_query(data: Dataset, name: str, summary: Summary) -> SparkColumn | None:
    """What Spark itself takes; None for the others."""
    if isinstance(summary, Distinct):
        return F.countDistinct(_read_column(data, name))
    if isinstance(summary, Infinite):
        infinite = _read_number(data, name).isin(math.inf, -math.inf)
        return F.count(F.when(infinite, 1)) if data.dtype(name).is_float() else F.count(F.lit(None))
    if isinstance(summary, Minimum):
        return F.min(_read_number(data, name)) + 0.0
    return F.max(_read_number(data, name)) + 0.0 if isinstance(summary, Maximum) else None


def _read_number(data: Dataset, name: str) -> SparkColumn:
    """A variable as a float; dates as days since 1970."""
    values = _read_column(data, name)
    if data.dtype(name).is_temporal():
        values = F.unix_date(values.cast("date"))
    return values.cast("double")


def _find_rank(column: int, rank: int, count: int) -> SparkColumn:
    """The value at a rank of the sorted ones, from 0."""
    # The middle between two shares at which it changes. Before 3.5.2 Spark counted the shares of
    # n - 1 and not of n; this lies within the same step either way.
    low = rank / (count - 1) if count > 1 else 0.0
    share = (low + (rank + 1) / count) / 2
    return F.expr(f"percentile_disc({share!r}D) WITHIN GROUP (ORDER BY `{column}`)")


def _get_identity(data: Dataset) -> SparkIdentity:
    if not isinstance(data.given_identity, SparkIdentity):
        raise MethodError("These records have no ids yet.", hint="call `engine.prepare` first.")
    return data.given_identity


def _records(data: Dataset) -> DataFrame:
    """The records with their ids."""
    frame = _get_identity(data).frame
    return _choose(frame, (*data.columns, *ID_COLUMNS))


def map_records(
    data: Dataset,
    work: Callable[[pl.DataFrame, Identity], pl.DataFrame],
    types: Types,
    *,
    reads: Sequence[str] | None = None,
) -> DataFrame:
    """Apply a function to the records of each part, or some of their variables, and their ids."""

    def run(part: pl.DataFrame) -> pl.DataFrame:
        return work(part.drop(ID_COLUMNS), _read_ids(part.select(ID_COLUMNS)))

    names = (*(data.columns if reads is None else reads), *ID_COLUMNS)
    return map_parts(_choose(_get_identity(data).frame, names), run, types)


def split_off_ids(data: Dataset, frame: DataFrame) -> tuple[DataFrame, SparkIdentity]:
    """The records of a frame with the ids of `data` beside them; and its identity."""
    return frame.drop(*ID_COLUMNS), _get_identity(data).change_frame(frame)


def _read_ids(ids: pl.DataFrame) -> Identity:
    return Identity.from_digests("ids that came with the records", _read_words(ids))


def _read_words(ids: pl.DataFrame) -> Words:
    return np.ascontiguousarray(ids.to_numpy()).view(np.uint64)


def _write_words(words: Words) -> pl.DataFrame:
    return pl.DataFrame([pl.Series(ID_COLUMNS[i], words[:, i].view(np.int64)) for i in (0, 1)])


def _add_up(frame: DataFrame, read: Callable[[pl.DataFrame], Words]) -> str:
    """The sum of 128 bits a record, whatever their order; see `Identity.total`."""

    def add(part: pl.DataFrame) -> pl.DataFrame:
        sums = read(part).sum(axis=0, dtype=np.uint64).reshape(1, 2)
        return _write_words(sums).with_columns(pl.Series(_COUNT, [part.height]))

    rows = collect(map_parts(frame, add, dict.fromkeys((*ID_COLUMNS, _COUNT), pl.Int64())))
    low, high = (sum(int(row[i]) for row in rows) % (1 << 64) for i in (0, 1))
    return f"{sum(int(row[2]) for row in rows):x}-{high:016x}{low:016x}"


_FEW_PARTS = 16
"""What comes from so many parts is joined by the driver."""
_USUAL_PARTS = 200


def _join_parts(taken: DataFrame, join: Callable[[list[Any]], Any]) -> DataFrame:
    """What was kept of each part, joined on the cluster until few parts are left (a tree).

    Derivatives of a model may take a megabyte: of a thousand parts, the driver would get them all.
    """

    def join_some(part: pl.DataFrame) -> pl.DataFrame:
        partials = [pickle.loads(content) for content in part[_KEY]]  # noqa: S301 - our own workers'
        return pl.DataFrame({_KEY: [pickle.dumps(join(partials))]})

    parts = _count_shuffle_partitions(taken)
    while parts > _FEW_PARTS:
        parts = -(-parts // _FEW_PARTS)
        taken = map_parts(taken.repartition(parts), join_some, {_KEY: pl.Binary()})
    return taken


def _count_shuffle_partitions(frame: DataFrame) -> int:
    """About how many parts a frame has; to count them exactly is a job."""
    stated = frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or ""
    return int(stated) if stated.isdigit() else _USUAL_PARTS


def _make_draws(data: Dataset, chance: Chance) -> Any:
    from sfumato.engines.local import make_draws

    return make_draws(data, chance)


def _make_empty(data: Dataset) -> Dataset:
    """No records of these variables, to see what type a function makes of them."""
    frame = pl.DataFrame(schema={name: data.dtype(name) for name in data.columns})
    ids: Words = np.empty((0, 2), np.uint64)
    return Dataset(frame, data.schema, given_identity=Identity.from_digests("none", ids))


def _number_records(data: Dataset, names: Sequence[str]) -> DataFrame:
    """The records with their ids beside them: the same as on one machine."""
    schema, columns = data.schema, list(data.columns)
    types = {name: data.dtype(name) for name in columns}

    def add_key(part: pl.DataFrame) -> pl.DataFrame:
        content = digest(frames.get_column(part, name) for name in sorted(schema))[:, 0]
        key = content
        if names:
            digests = digest_identifiers([frames.get_column(part, name) for name in names])
            key = np.where(digests.any(axis=1), digests[:, 0], content)
        return part.with_columns(pl.Series(_KEY, key.view(np.int64)))

    keyed = map_parts(data.frame, add_key, types | {_KEY: pl.Int64()})

    # Whatever must be told apart has the same key, and so comes to the same part.
    def number(part: pl.DataFrame) -> pl.DataFrame:
        words = digest_records(schema, lambda name: frames.get_column(part, name), names)
        ids = [pl.Series(ID_COLUMNS[i], words[:, i].view(np.int64)) for i in (0, 1)]
        return part.select(columns).with_columns(ids)

    return map_parts(
        keyed.repartition(F.col(_KEY)), number, types | dict.fromkeys(ID_COLUMNS, pl.Int64())
    )


def _quote(name: str) -> SparkColumn:
    """A column by its name, whatever signs are in it."""
    return F.col(f"`{name.replace('`', '``')}`")


def _read_column(data: Dataset, name: str) -> SparkColumn:
    """A variable as `Dataset.column` reads it: codes for missing, and NaN, are missing."""
    column, values = _quote(name), data.schema[name]
    dtype = data.dtype(name)
    if dtype.is_float():
        column = F.when(~F.isnan(column), column)
    codes = [code for code in values.missing if isinstance(code, str) == (dtype == pl.String)]
    return F.when(~column.isin(*codes), column) if codes else column


def _choose(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Some columns of a frame; work that is still to be done on its parts goes along."""
    chosen = frame.select(*(_quote(name) for name in names))
    source, work = _get_work(frame)
    if work is not None:
        wanted = list(names)
        vars(chosen)[_WORK] = (source, lambda part: work(part).select(wanted))
    return chosen


def _get_work(frame: DataFrame) -> tuple[DataFrame, Part | None]:
    """The frame that another is made of part by part, and by what; the frame itself if by nothing.

    What is kept on the cluster is not made once more.
    """
    work: tuple[DataFrame, Part] | None = vars(frame).get(_WORK)
    return (frame, None) if work is None or frame.is_cached else work


def map_parts(frame: DataFrame, work: Part, types: Types) -> DataFrame:
    """Apply a function to whole parts of a frame; `types` says what it returns.

    Functions that follow one another run in one process of a worker: each process takes memory of
    its own, and records would be copied from one to the next.
    """
    target = pa.schema([(name, _ARROW[_name_type(dtype)]) for name, dtype in types.items()])
    before, described_types = frames.get_types(frame), dict(types)
    source, earlier = _get_work(frame)
    read = frames.get_types(source)

    def apply(part: pl.DataFrame) -> pl.DataFrame:
        if earlier is not None:
            part = earlier(part)
            if not part.height:
                return pl.DataFrame(schema=described_types)
            part = part.cast({name: before[name] for name in part.columns})
        return work(part).select(list(described_types))

    def run(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        _lighten_worker()
        tables = [pl.DataFrame(pl.from_arrow(batch)) for batch in batches]
        part = pl.concat(tables) if tables else pl.DataFrame(schema=read)
        part = part.cast({name: read[name] for name in part.columns})
        if not part.height:
            return
        with _send_errors():
            result = apply(part)
        arrow = result.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(target)
        yield from arrow.to_batches(max_chunksize=1 << 16)

    described = ", ".join(
        f"`{name.replace('`', '``')}` {_name_type(dtype)}" for name, dtype in types.items()
    )
    mapped = source.mapInArrow(run, described)
    vars(mapped)[_WORK] = (source, apply)
    return mapped


def _lighten_worker() -> None:
    """Let this process of a worker begin its further tasks without delay.

    Before each of them PySpark tells all importers to look anew at what there is to import, and
    those of its own zip file read all of its contents. After each it looks for garbage among the
    objects of all modules. Together that is a fifth of a second, often more than the task takes.
    """
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter):
            del sys.path_importer_cache[path]  # it is made again when something is imported
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()


@contextmanager
def _send_errors() -> Iterator[None]:
    """Mark an error of ours, so that it is found in what Spark makes of it."""
    try:
        yield
    except SfumatoError as error:
        parts = [type(error).__name__, error.what, error.hint]
        raise RuntimeError(f"{_MARK}{json.dumps(parts)}") from None


@contextmanager
def _receive_errors() -> Iterator[None]:
    """An error of ours as it was raised. The text of any other may quote cells: it is not shown."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if os.environ.get("SFUMATO_DEBUG"):
            raise
        if ours := re.search(rf"{_MARK}(\[.*\])", str(error)):
            name, what, hint = json.loads(ours[1])
            raise getattr(errors, name)(what, hint=hint) from None
        raise MethodError(
            f"The cluster could not do it ({type(error).__name__}).",
            hint="the logs of its executors say why, and may quote values of the data; with "
            "SFUMATO_DEBUG=1 it is shown here. Often memory is short: take more partitions.",
        ) from None


def collect(frame: DataFrame) -> list[Any]:
    """The rows of a small frame on the driver."""
    with _receive_errors():
        return frame.collect()


def _fetch(frame: DataFrame) -> pa.Table:
    """A small frame on the driver."""
    with _receive_errors():
        return _fetch_table(frame)


def _fetch_table(frame: DataFrame) -> pa.Table:
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    batches = frame._collect_as_arrow()  # type: ignore[operator]  # noqa: SLF001 - PySpark 3.5
    if not batches:
        types = {name: _ARROW[_name_type(dtype)] for name, dtype in frames.get_types(frame).items()}
        return pa.schema(list(types.items())).empty_table()
    return pa.Table.from_batches(batches)


_ARROW = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def _name_type(dtype: pl.DataType) -> str:
    """What Spark calls a type."""
    names: dict[Any, str] = {dtype: name for name, dtype in frames.SPARK_TYPES.items()}
    wider = {pl.UInt8: "smallint", pl.UInt16: "int", pl.UInt32: "bigint", pl.Null: "string"}
    name = names.get(dtype) or wider.get(type(dtype))
    if name is None:
        raise MethodError(
            f"Spark has no type for {dtype} among those that are used here.",
            hint="make it text or a number first.",
        )
    return name
