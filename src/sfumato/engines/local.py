"""The local engine: all records in the memory of one machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data import Dataset
from sfumato.data.identity import match_identities
from sfumato.engines.summaries import Derive, Summary, line_up, summarise
from sfumato.engines.verbs import (
    AFTER,
    BEFORE,
    PRESENT,
    RANK,
    Chance,
    Combinations,
    Combine,
    GroupFunction,
    RowFunction,
    Rows,
    declare_pairs,
)
from sfumato.errors import MeasureError
from sfumato.io import frames
from sfumato.kernels.arrays import Integers, Positions, Words
from sfumato.progress import Progress, silent
from sfumato.randomness import KEY_BYTES, Draws, encrypt

BATCH = 1 << 17
"""Records a row-wise function gets at a time: what it needs in between stays small."""
_INDEX = "__sfumato_at__"
_ORDER = bytes(reversed(range(KEY_BYTES)))  # public and fixed: a sample need not be secret
Selection = slice | npt.NDArray[np.int64]


@dataclass(frozen=True)
class LocalEngine:
    """The verbs on frames that fit into memory."""

    name: ClassVar[str] = "local"
    in_memory: ClassVar[bool] = True
    in_batches: ClassVar[bool] = False
    progress: Progress = field(default=silent, repr=False)

    def prepare(self, data: Dataset) -> Dataset:
        """See `Engine.prepare`."""
        return data  # an id is worked out when it is asked for

    def keep(self, data: Dataset) -> Dataset:
        """See `Engine.keep`."""
        return data

    def aggregate(
        self,
        data: Dataset,
        wanted: Mapping[str, Sequence[Summary]],
        *,
        derive: Derive | None = None,
        reads: Sequence[str] = (),
    ) -> dict[str, dict[str, Any]]:
        """See `Engine.aggregate`."""
        if derive is not None:
            columns = derive(data.batch(reads))
            return summarise(line_up(columns[name] for name in wanted).lazy(), wanted)
        results: dict[str, dict[str, Any]] = {}
        for name, summaries in wanted.items():
            # One after the other: a column of another library is copied to be read.
            results |= summarise(line_up([data.column(name)]).lazy(), {name: summaries})
        return results

    def distinct(self, data: Dataset, columns: Sequence[str]) -> Combinations:
        """See `Engine.distinct`."""
        if not columns:
            return Combinations(pl.DataFrame(), np.array([len(data)]))
        return count_combinations(data.batch(columns))

    def tabulate(self, data: Dataset, columns: Sequence[str]) -> Rows:
        """See `Engine.tabulate`."""
        del columns
        return Rows(data, None)

    def gather(
        self,
        data: Dataset,
        function: Callable[[pl.DataFrame], Any],
        *,
        reads: Sequence[str],
        combine: Combine | None = None,
    ) -> list[Any]:
        """See `Engine.gather`."""
        del combine  # there is one part
        return [function(data.batch(reads))]

    def count(self, data: Dataset) -> int:
        """See `Engine.count`."""
        return len(data)

    def sample(self, data: Dataset, columns: Sequence[str], size: int) -> pl.DataFrame:
        """See `Engine.sample`."""
        places = place_by_id(data.identity.digests)
        return data.batch(columns)[np.lexsort(places.T[::-1])[:size]]

    def attach(self, data: Dataset, table: pl.DataFrame, on: Sequence[str]) -> Dataset:
        """See `Engine.attach`."""
        return data.with_columns(look_up(data.batch(on), table, on))

    def pairs(self, original: Dataset, released: Dataset, columns: Sequence[str]) -> Dataset:
        """See `Engine.pairs`."""
        rows = find_partners(original, released)
        found = np.arange(len(original)) if rows is None else rows
        index = pl.Series(found, dtype=pl.Int64).set(pl.Series(found < 0), None)
        schema = declare_pairs(original, released, columns)
        frame = pl.DataFrame(
            [
                *(frames.get_column(original.frame, n).alias(f"{BEFORE}{n}") for n in columns),
                *(
                    frames.get_column(released.frame, n).gather(index).alias(f"{AFTER}{n}")
                    for n in columns
                    if n in released.schema
                ),
                pl.Series(PRESENT, found >= 0),
            ]
        )
        return Dataset(frame, schema, given_identity=original.identity)

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

    def rank(self, data: Dataset, by: Sequence[str]) -> Dataset:
        """See `Engine.rank`."""
        keys = list_sort_keys(data.batch(by), data.identity.digests)
        ranks = np.empty(len(data), np.int64)
        ranks[np.lexsort(keys[::-1])] = np.arange(len(ranks))
        return data.with_columns(pl.DataFrame({RANK: ranks}))


def list_sort_keys(batch: pl.DataFrame, ids: Words) -> list[npt.NDArray[Any]]:
    """What records are sorted by, the most important first: values, missing last, then ids.

    Ties go by record id, so that the order of the rows does not matter.
    """
    keys: list[npt.NDArray[Any]] = []
    for values in batch.get_columns():
        keys += [values.is_null().to_numpy(), values.fill_null(0).to_numpy()]
    return [*keys, ids[:, 0], ids[:, 1]]


def find_partners(original: Dataset, released: Dataset) -> Positions | None:
    """Where each original record stands in the release, -1 where it was removed.

    None where both stand row by row in one order.
    """
    theirs = released.given_identity
    if theirs is not None and theirs.basis == original.identity.basis:
        # By identity first: a release may have fewer records, in another order.
        mine = original.identity.digests
        if mine.shape == theirs.digests.shape and bool((mine == theirs.digests).all()):
            return None
        positions = match_identities(theirs.digests, mine)
        # Otherwise the identity was given anew, and does not say which records belong together.
        if int((positions >= 0).sum()) == len(released):
            return positions
    if len(original) != len(released):
        raise refuse_to_pair(len(original), len(released))
    return None


def refuse_to_pair(original: int, released: int) -> MeasureError:
    """What to say where nothing tells which records belong together."""
    return MeasureError(
        f"A measure compares record by record; the original has {original} records, the released "
        f"data {released}.",
        hint="evaluate a Release or its folder, so that the records can be paired.",
    )


def place_by_id(digests: Words) -> Integers:
    """Numbers that put records in an order which follows from their ids, and from nothing else."""
    return encrypt(digests, _ORDER).view(np.int64)


def look_up(batch: pl.DataFrame, table: pl.DataFrame, on: Sequence[str]) -> pl.DataFrame:
    """The further columns of a table for each record, where the variables in `on` agree."""
    index = _find_rows(batch.select(on), table.select(on))
    return table.drop(on).select(pl.all().gather(index))


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
    return _find_rows(batch, classes).to_numpy()


def _find_rows(batch: pl.DataFrame, table: pl.DataFrame) -> pl.Series:
    """In which row of a table each record's combination stands; missing where it does not."""
    keys, numbered = name_by_position(batch), name_by_position(table).with_row_index(_INDEX)
    joined = keys.join(
        numbered, on=keys.columns, how="left", nulls_equal=True, maintain_order="left"
    )
    return joined[_INDEX].cast(pl.Int64)


def find_positions(values: pl.Series, levels: pl.Series) -> pl.Series:
    """Which of the levels each value is; missing where it is none of them."""
    table = pl.DataFrame({"value": levels, "position": np.arange(len(levels), dtype=np.int32)})
    frame = values.alias("value").to_frame()
    # Nulls meet only where null is a level.
    joined = frame.join(table, on="value", how="left", nulls_equal=True, maintain_order="left")
    return joined["position"]


def make_draws(data: Dataset, chance: Chance | None, rows: Selection = slice(None)) -> Draws | None:
    """The draws that belong to some of the records, in their order."""
    if chance is None:
        return None  # a step without randomness
    return Draws(chance.key, chance.step, data.identity.take(rows))
