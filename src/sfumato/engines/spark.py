"""The Spark engine: records on a cluster. The only module that imports pyspark.

Every verb runs the local engine on the parts of a Spark frame, so that a value comes out the same
here and there, to the last bit. What comes back to the driver is small by construction: summaries,
and distinct combinations up to a stated number.

A record's id is worked out once, where the records are, and stays beside them in two columns that
no user sees: it follows from content, so it must not leave.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark

from sfumato.data import Dataset
from sfumato.data.identity import (
    Identity,
    describe_basis,
    digest,
    digest_identifiers,
    digest_records,
    list_identifiers,
    tell_apart,
)
from sfumato.engines.local import LocalEngine
from sfumato.engines.summaries import Distinct, Summary
from sfumato.engines.verbs import Chance, Combinations, GroupFunction, RowFunction
from sfumato.errors import MethodError
from sfumato.io import frames
from sfumato.kernels.arrays import Words
from sfumato.progress import Progress, silent
from sfumato.schema import Schema

MOST_COMBINATIONS = 5_000_000
"""Distinct combinations that are fetched from the cluster."""
MOST_IN_ONE = 20_000_000
"""Records that a step without strata may bring together on one worker."""
_IDS = ("__sfumato_id_0", "__sfumato_id_1")
_KEY = "__sfumato_key"
_COUNT = "__sfumato_count"
Part = Callable[[pl.DataFrame], pl.DataFrame]


class SparkIdentity(Identity):
    """Ids that stay on the cluster, beside the records."""

    def __init__(self, frame: DataFrame, basis: str) -> None:
        super().__init__(lambda: _refuse_to_fetch(basis))
        self.frame = frame
        self.known_basis = basis

    @property
    def basis(self) -> str:
        """Where the ids come from, in words."""
        return self.known_basis


def _refuse_to_fetch(basis: str) -> Any:
    raise MethodError(
        f"The ids of these records ({basis}) are on a cluster, and are not fetched.",
        hint="use a method or a measure that runs on Spark.",
    )


@dataclass(frozen=True)
class SparkEngine:
    """The verbs on Spark frames."""

    progress: Progress = field(default=silent, repr=False)

    def prepare(self, data: Dataset) -> Dataset:
        """See `Engine.prepare`."""
        if isinstance(data.given_identity, SparkIdentity):
            return data
        names = self._find_identifiers(data)
        frame = _number_records(data, names)
        identity = SparkIdentity(frame, describe_basis(names))
        return replace(data, frame=frame.drop(*_IDS), given_identity=identity)

    def _find_identifiers(self, data: Dataset) -> tuple[str, ...]:
        stated, sets = list_identifiers(data.schema)
        for names in sets:
            if stated:
                return names

            def read(part: pl.DataFrame, names: Sequence[str] = names) -> pl.DataFrame:
                columns = [frames.get_column(part, name) for name in names]
                return pl.DataFrame({_KEY: digest_identifiers(columns)[:, 0].view(np.int64)})

            keys = _map_parts(data.frame, read, {_KEY: pl.Int64()})
            known = F.when(F.col(_KEY) != 0, F.col(_KEY))
            counts = keys.agg(F.countDistinct(known), F.count(F.lit(1))).first()
            if counts is not None and tell_apart(*counts):
                return names
        return ()

    def aggregate(
        self, data: Dataset, wanted: Mapping[str, Sequence[Summary]]
    ) -> dict[str, dict[str, Any]]:
        """See `Engine.aggregate`."""
        known: dict[str, dict[str, Any]] = {name: {} for name in wanted}
        open_ones = {name: _order_by_need(summaries) for name, summaries in wanted.items()}
        while any(open_ones.values()):
            # All that can be taken by now, in one job over the records.
            ready = {
                name: [s for s in summaries if all(n.name in known[name] for n in s.needs)]
                for name, summaries in open_ones.items()
                if summaries
            }
            self._take(data, ready, known)
            open_ones = {
                name: [s for s in summaries if s.name not in known[name]]
                for name, summaries in open_ones.items()
            }
        return {
            name: {summary.name: known[name][summary.name] for summary in summaries}
            for name, summaries in wanted.items()
        }

    def _take(
        self,
        data: Dataset,
        ready: Mapping[str, Sequence[Summary]],
        known: dict[str, dict[str, Any]],
    ) -> None:
        counted = [name for name, ones in ready.items() if any(_counts(s) for s in ones)]
        for name in counted:
            column = _read_column(data, name)
            row = data.frame.agg(F.countDistinct(column)).first()
            known[name][Distinct.name] = 0 if row is None else int(row[0])
        others = {name: [s for s in ones if not _counts(s)] for name, ones in ready.items()}
        others = {name: ones for name, ones in others.items() if ones}
        if not others:
            return
        schema = data.schema

        def take(part: pl.DataFrame) -> pl.DataFrame:
            local = Dataset(part, Schema({name: schema[name] for name in others}))
            partials = {
                name: [s.partial(local.column(name).drop_nulls(), known[name]) for s in ones]
                for name, ones in others.items()
            }
            return pl.DataFrame({_KEY: [pickle.dumps(partials)]})

        wanted = data.frame.select(*(_quote(name) for name in others))
        rows = _map_parts(wanted, take, {_KEY: pl.Binary()}).collect()
        parts = [pickle.loads(bytes(row[0])) for row in rows]  # noqa: S301 - our own workers'
        if not parts:
            empty = pl.DataFrame(schema={name: data.dtype(name) for name in others})
            parts = [pickle.loads(take(empty)[_KEY][0])]  # noqa: S301 - made a line above
        for name, ones in others.items():
            for number, summary in enumerate(ones):
                partials = [part[name][number] for part in parts]
                known[name][summary.name] = summary.merge(partials, known[name])

    def distinct(self, data: Dataset, columns: Sequence[str]) -> Combinations:
        """See `Engine.distinct`."""
        if not columns:
            return Combinations(pl.DataFrame(), np.array([len(data)]))
        keys = [_read_column(data, name).alias(str(i)) for i, name in enumerate(columns)]
        counted = data.frame.select(*keys).groupBy(*map(str, range(len(columns))))
        table = counted.agg(F.count(F.lit(1)).alias(_COUNT)).limit(MOST_COMBINATIONS + 1)
        found = pl.DataFrame(_fetch(table))
        if found.height > MOST_COMBINATIONS:
            raise MethodError(
                f"There are more than {MOST_COMBINATIONS:,} different combinations of "
                f"{len(columns)} variables: too many to bring together.",
                hint="take fewer variables, or coarsen some first.",
            )
        values = found.drop(_COUNT)
        values.columns = list(columns)
        return Combinations(values, found[_COUNT].to_numpy())

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
            records = records.coalesce(1)

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
            ids = part.select(_IDS)
            local = Dataset(part.drop(_IDS), schema, given_identity=_read_ids(ids))
            frame: pl.DataFrame = work(local).frame
            return pl.concat([frame, ids], how="horizontal")

        columns = types | dict.fromkeys(_IDS, pl.Int64())
        frame = _map_parts(records, map_part, columns)
        identity = SparkIdentity(frame, data.identity.basis)
        return replace(
            data, frame=frame.drop(*_IDS), schema=example.schema, given_identity=identity
        )

    def rank(self, data: Dataset, score: str) -> Any:
        """See `Engine.rank`."""
        del data
        raise MethodError(
            f"An order of all records by '{score}' is not worked out on Spark.",
            hint="run this step on one machine.",
        )


def _counts(summary: Summary) -> bool:
    """Whether Spark itself takes a summary, since what a part keeps of it is not small."""
    return isinstance(summary, Distinct)


def _order_by_need(summaries: Sequence[Summary]) -> list[Summary]:
    """Summaries with all that they need."""
    ordered: dict[str, Summary] = {}

    def add(summary: Summary) -> None:
        for needed in summary.needs:
            add(needed)
        ordered.setdefault(summary.name, summary)

    for summary in summaries:
        add(summary)
    return list(ordered.values())


def _records(data: Dataset) -> DataFrame:
    """The records with their ids."""
    if not isinstance(data.given_identity, SparkIdentity):
        raise MethodError("These records have no ids yet.", hint="call `engine.prepare` first.")
    frame: DataFrame = data.given_identity.frame
    return frame.select(*(_quote(name) for name in (*data.columns, *_IDS)))


def _read_ids(ids: pl.DataFrame) -> Identity:
    words = np.ascontiguousarray(ids.to_numpy()).view(np.uint64)
    return Identity.known("ids that came with the records", words)


def _make_draws(data: Dataset, chance: Chance) -> Any:
    from sfumato.engines.local import make_draws

    return make_draws(data, chance)


def _make_empty(data: Dataset) -> Dataset:
    """No records of these variables, to see what type a function makes of them."""
    frame = pl.DataFrame(schema={name: data.dtype(name) for name in data.columns})
    ids: Words = np.empty((0, 2), np.uint64)
    return Dataset(frame, data.schema, given_identity=Identity.known("none", ids))


def _number_records(data: Dataset, names: Sequence[str]) -> DataFrame:
    """The records with their ids beside them: the same as on one machine."""
    schema, columns = data.schema, list(data.columns)
    types = {name: data.dtype(name) for name in columns}

    def add_key(part: pl.DataFrame) -> pl.DataFrame:
        content = digest(frames.get_column(part, name) for name in sorted(schema))[:, 0]
        key = content
        if names:
            own = digest_identifiers([frames.get_column(part, name) for name in names])
            key = np.where(own.any(axis=1), own[:, 0], content)
        return part.with_columns(pl.Series(_KEY, key.view(np.int64)))

    keyed = _map_parts(data.frame, add_key, types | {_KEY: pl.Int64()})

    # Whatever must be told apart has the same key, and so comes to the same part.
    def number(part: pl.DataFrame) -> pl.DataFrame:
        words = digest_records(schema, lambda name: frames.get_column(part, name), names)
        ids = [pl.Series(_IDS[i], words[:, i].view(np.int64)) for i in (0, 1)]
        return part.select(columns).with_columns(ids)

    return _map_parts(
        keyed.repartition(F.col(_KEY)), number, types | dict.fromkeys(_IDS, pl.Int64())
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


def _map_parts(frame: DataFrame, work: Part, types: Mapping[str, pl.DataType]) -> DataFrame:
    """Apply a function to whole parts of a frame; `types` says what it returns."""
    target = pa.schema([(name, _ARROW[_name_type(dtype)]) for name, dtype in types.items()])
    before = frames.get_types(frame)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        tables = [pl.DataFrame(pl.from_arrow(batch)) for batch in batches]
        part = pl.concat(tables) if tables else pl.DataFrame(schema=before)
        part = part.cast({name: before[name] for name in part.columns})
        if not part.height:
            return
        result = work(part).select(list(types))
        arrow = result.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(target)
        yield from arrow.to_batches(max_chunksize=1 << 16)

    described = ", ".join(
        f"`{name.replace('`', '``')}` {_name_type(dtype)}" for name, dtype in types.items()
    )
    return frame.mapInArrow(run, described)


def _fetch(frame: DataFrame) -> pa.Table:
    """A small frame on the driver."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    batches = frame._collect_as_arrow()  # noqa: SLF001 - PySpark 3.5 has no other way
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
