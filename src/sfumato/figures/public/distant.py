"""Values of a figure whose records are on a cluster or in a file: nothing but counts comes here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.engines.summaries import OrderStatistics
from sfumato.engines.verbs import Combine
from sfumato.kernels.arrays import Floats, Integers


@dataclass(frozen=True, eq=False)
class DistantRecords:
    """The records of a figure, where they are.

    Parameters
    ----------
    data : all of them.
    engine : where they are.
    names : the variables drawn; only records that have all of them count.
    hue : the variable that makes the groups.
    values : those at some ranks that were looked up already, by variable and groups.
    """

    data: Dataset = field(repr=False)
    engine: Engine
    names: tuple[str, ...]
    hue: str | None
    values: dict[Any, dict[int, float]] = field(default_factory=dict, repr=False)

    @property
    def reads(self) -> list[str]:
        """The variables that are looked at."""
        return list(dict.fromkeys([*self.names, *([] if self.hue is None else [self.hue])]))

    def gather(
        self, function: Callable[[pl.DataFrame], Any], combine: Combine | None = None
    ) -> list[Any]:
        """What a function makes of each part of the records."""
        return self.engine.gather(self.data, function, reads=self.reads, combine=combine)


def read_complete(
    batch: pl.DataFrame, names: Sequence[str], hue: str | None, labels: Sequence[str] | None
) -> pl.DataFrame:
    """The variables drawn, as floats, of the complete records of some groups; None: of all."""
    columns = [batch[name].cast(pl.Float64) for name in names]
    complete = pl.Series(np.ones(batch.height, bool))
    for column in columns:
        complete &= column.is_not_null()
    if hue is not None:
        groups = batch[hue].cast(pl.String)
        complete &= groups.is_not_null()
        if labels is not None:
            complete &= groups.is_in(list(labels)).fill_null(value=False)
    return pl.DataFrame(columns).filter(complete)


@dataclass(frozen=True, eq=False)
class DistantColumn:
    """One variable of some groups: how many values, their ends, their ranks and their counts.

    Parameters
    ----------
    records : where the values are.
    name : the variable.
    labels : the groups; None: all.
    size : how many values there are.
    low, high : the least and the greatest of them.
    """

    records: DistantRecords
    name: str
    labels: tuple[str, ...] | None
    size: int
    low: float
    high: float

    def __len__(self) -> int:
        return self.size

    def min(self) -> float:
        """The least value."""
        return self.low

    def max(self) -> float:
        """The greatest value."""
        return self.high

    def order_statistics(self, ranks: Integers) -> Floats:
        """The values at these ranks (from 0, rising) of the sorted values."""
        wanted = [int(rank) for rank in ranks]
        if not self.known.keys() >= set(wanted):
            look_up_ranks([self], lambda _: wanted)
        return np.array([self.known[rank] for rank in wanted])

    @property
    def known(self) -> dict[int, float]:
        """The values at ranks that were looked up already."""
        return self.records.values.setdefault((self.name, self.labels), {})

    def count(
        self, names: Sequence[str], count_part: Callable[[Sequence[Floats]], Integers]
    ) -> Integers:
        """Counts of the values of some variables of the same groups, added up."""
        read = self.make_reader(names)

        def count_cells(batch: pl.DataFrame) -> Integers:
            return count_part([column.to_numpy() for column in read(batch).iter_columns()])

        total: Integers = np.sum(self.records.gather(count_cells, np.add), axis=0)
        return total

    def make_reader(self, names: Sequence[str]) -> Callable[[pl.DataFrame], pl.DataFrame]:
        """What gives the values of some variables in a part of the records."""
        drawn, hue, labels, wanted = self.records.names, self.records.hue, self.labels, list(names)

        def read(batch: pl.DataFrame) -> pl.DataFrame:
            return read_complete(batch, drawn, hue, labels).select(wanted)

        return read


def look_up_ranks(columns: Sequence[Any], list_ranks: Callable[[int], Sequence[int]]) -> None:
    """Look up values at ranks that will be asked for, of several columns together.

    Parameters
    ----------
    columns : of the same records; those in memory need it not.
    list_ranks : the number of values of a column to the ranks.
    """
    distant = {repr((c.name, c.labels)): c for c in columns if isinstance(c, DistantColumn)}
    if not distant:
        return
    readers = {key: (c.name, c.make_reader([c.name])) for key, c in distant.items()}

    def derive(batch: pl.DataFrame) -> dict[str, pl.Series]:
        return {key: read(batch)[name] for key, (name, read) in readers.items()}

    wanted = {
        key: OrderStatistics(tuple(list_ranks(len(column)))) for key, column in distant.items()
    }
    records = next(iter(distant.values())).records
    taken = records.engine.aggregate(
        records.data,
        {key: [statistics] for key, statistics in wanted.items()},
        derive=derive,
        reads=records.reads,
    )
    for key, column in distant.items():
        found = taken[key][wanted[key].name]
        column.known.update(zip(wanted[key].ranks, found, strict=True))


def pool_columns(columns: Sequence[DistantColumn]) -> DistantColumn:
    """The same variable of all these groups together."""
    if len(columns) == 1:
        return columns[0]
    labels = [label for column in columns for label in column.labels or ()]
    return replace(
        columns[0],
        labels=tuple(labels),
        size=sum(map(len, columns)),
        low=min(column.low for column in columns),
        high=max(column.high for column in columns),
    )


@dataclass(frozen=True, eq=False)
class GroupSummary:
    """A group of complete records: how many, and the least and greatest value of each variable."""

    size: int
    low: tuple[float, ...]
    high: tuple[float, ...]

    def join(self, other: GroupSummary) -> GroupSummary:
        """The same group of two parts."""
        return GroupSummary(
            self.size + other.size,
            tuple(map(min, self.low, other.low)),
            tuple(map(max, self.high, other.high)),
        )


@dataclass(frozen=True, eq=False)
class FigureSummary:
    """What is known of the records before a figure is drawn.

    Parameters
    ----------
    records : how many there are, complete or not.
    infinite : the variables with infinite values.
    labels : of the groups, missing among them; not all, where there are more than asked for.
    groups : the groups of complete records, by label.
    """

    records: int
    infinite: frozenset[str]
    labels: frozenset[str | None]
    groups: dict[str, GroupSummary] = field(repr=False)

    def join(self, other: FigureSummary) -> FigureSummary:
        """The same of two parts."""
        groups = dict(self.groups)
        for label, group in other.groups.items():
            groups[label] = groups[label].join(group) if label in groups else group
        return FigureSummary(
            self.records + other.records,
            self.infinite | other.infinite,
            self.labels | other.labels,
            groups,
        )


def summarise_records(records: DistantRecords, most_labels: int) -> FigureSummary:
    """One pass over the records: groups, sizes and ends."""
    names, hue = records.names, records.hue

    def look(batch: pl.DataFrame) -> FigureSummary:
        labels: frozenset[str | None] = frozenset()
        if hue is not None:
            labels = frozenset(batch[hue].cast(pl.String).unique()[: most_labels + 1])
        infinite = [
            name
            for name in names
            if batch[name].dtype.is_float() and batch[name].is_infinite().any()
        ]
        groups = {}
        if len(labels) <= most_labels:
            for label in [""] if hue is None else [text for text in labels if text is not None]:
                values = read_complete(batch, names, hue, None if hue is None else [label])
                if values.height:
                    numbers = values.to_numpy()
                    low, high = numbers.min(axis=0).tolist(), numbers.max(axis=0).tolist()
                    groups[label] = GroupSummary(values.height, tuple(low), tuple(high))
        return FigureSummary(batch.height, frozenset(infinite), labels, groups)

    parts: list[FigureSummary] = records.gather(look, FigureSummary.join)
    return reduce(FigureSummary.join, parts)
