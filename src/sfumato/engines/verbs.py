"""The few verbs that everything rests on. An engine is these verbs and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data import Dataset
from sfumato.engines.summaries import Derive, Summary
from sfumato.kernels.arrays import AnyIntegers, Integers, Mask
from sfumato.randomness import Draws, Key
from sfumato.schema import Column, Schema
from sfumato.units import Units

RowFunction = Callable[[pl.DataFrame, Draws | None], pl.DataFrame]
"""A batch of records in, new or replaced columns of the same records out."""


Starts = Integers
"""Where each stratum begins in a batch in which strata stand one after the other, and its end."""
GroupFunction = Callable[[pl.DataFrame, Starts, Draws | None], pl.DataFrame]
"""Some whole groups in, one after the other, new columns of the same records out.

It gets several groups at once, because thousands of small ones would cost more in calls than in
work. What it makes of a group must not depend on which others came with it.
"""


Combine = Callable[[Any, Any], Any]
"""What was made of two parts in, what would have been made of both out."""


ROWS, RECORDS, RANK = "__sfumato_rows", "__sfumato_records", "__sfumato_rank"
"""Columns of `group` and `rank`."""
LOW, HIGH, LEVELS = "__low", "__high", "__levels"
"""How the names of further columns of `group` end."""


@dataclass(frozen=True)
class Chance:
    """Which draws a step may take: the key, and the step's number in the plan."""

    key: Key
    step: int


@dataclass(frozen=True, eq=False)
class Combinations:
    """The distinct combinations of some variables, and how many records have each."""

    values: pl.DataFrame = field(repr=False)
    counts: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.counts)


BEFORE, AFTER, PRESENT = "original ", "released ", "is released"
"""What stands before the name of an original and a released variable in `pairs`."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in memory that stand for all records in some variables.

    Parameters
    ----------
    data : the rows.
    counts : how many records each stands for; None: each is one record, and they are in the order
        of the records.
    """

    data: Dataset
    counts: Integers | None

    @property
    def total(self) -> int:
        """How many records they stand for."""
        return len(self.data) if self.counts is None else int(self.counts.sum())

    @property
    def units(self) -> Units:
        """Whom each row is about. Persons with several rows are told apart in memory only."""
        if self.counts is None:
            return self.data.units
        return Units.standing_for(len(self.counts), self.counts)

    def show_records(self, table: pl.DataFrame) -> Any:
        """What a table says of each record; None where a row stands for several."""
        return self.data.like(table) if self.counts is None else None


class Engine(Protocol):
    """What an engine must be able to do.

    On one engine the numbers are the same to the last bit, however the records lie. Across engines
    summaries agree to 1e-9, and classes are equal except at ties within that.
    """

    name: ClassVar[str]
    """What `runs_on` calls it."""
    in_memory: ClassVar[bool]
    """Whether columns can be read as they are, without a verb."""
    in_batches: ClassVar[bool]
    """Whether one machine reads the records batch by batch, always in the same order.

    So it has room for a number of each record, though not for the records; see `BatchEngine`.
    """

    def prepare(self, data: Dataset) -> Dataset:
        """The data with an id at every record, before anything is changed."""

    def keep(self, data: Dataset) -> Dataset:
        """The same data, worked out once: an engine that puts work off would do it each time."""

    def aggregate(
        self,
        data: Dataset,
        wanted: Mapping[str, Sequence[Summary]],
        *,
        derive: Derive | None = None,
        reads: Sequence[str] = (),
    ) -> dict[str, dict[str, Any]]:
        """A small summary of each variable, by the summary's name.

        With `derive`, of the columns that it makes of the variables in `reads`. Neither they nor
        ids are put beside the records, so that nothing but what is read moves.
        """

    def distinct(self, data: Dataset, columns: Sequence[str]) -> Combinations:
        """The combinations that occur, in no particular order, with their counts.

        Missing is a value of its own here; what it means is the measure's business.
        """

    def tabulate(self, data: Dataset, columns: Sequence[str]) -> Rows:
        """Rows that stand for all records: what a measure looks at, wherever the records are.

        In memory they are the records themselves; elsewhere the distinct combinations. Cells are as
        they stand: a code for missing is told from another.
        """

    def gather(
        self,
        data: Dataset,
        function: Callable[[pl.DataFrame], Any],
        *,
        reads: Sequence[str],
        combine: Combine | None = None,
    ) -> list[Any]:
        """What a function makes of each part of the records: something small, such as sums.

        How the records are parted must not matter for what is made of all the results. Where a
        result is not a few numbers, `combine` makes one of two of them, so that an engine with many
        parts need not hold all.
        """

    def count(self, data: Dataset) -> int:
        """How many records there are."""

    def sample(self, data: Dataset, columns: Sequence[str], size: int) -> pl.DataFrame:
        """Some records, at most so many: those first in an order of the ids that is as good as any.

        So they are the same however the records lie, and nobody can draw again.
        """

    def attach(self, data: Dataset, table: pl.DataFrame, on: Sequence[str]) -> Dataset:
        """The data with further columns from a small table, where the variables in `on` agree.

        Missing agrees with missing. Each combination is in the table once at most; a record whose
        own is not there gets missing values.
        """

    def pairs(self, original: Dataset, released: Dataset, columns: Sequence[str]) -> Dataset:
        """Every original record beside its released one, by record id.

        Variables are called as in `BEFORE` and `AFTER`; those that the release lacks are left out.
        `PRESENT` says whether the record was released.
        """

    def map_rows(
        self,
        data: Dataset,
        function: RowFunction,
        *,
        reads: Sequence[str],
        chance: Chance | None = None,
    ) -> Dataset:
        """Apply a function record by record; how they are batched must not matter."""

    def map_groups(
        self,
        data: Dataset,
        function: GroupFunction,
        *,
        by: Sequence[str],
        reads: Sequence[str],
        chance: Chance | None = None,
    ) -> Dataset:
        """Apply a function to all records of each group (stratum), several groups at a time."""

    def rank(self, data: Dataset, by: Sequence[str]) -> Dataset:
        """The data with each record's rank, from 0, as a column `RANK`.

        The order is that of the first variable, of the second where the first is equal, and so on,
        missing last; what is equal in all goes by record id.
        """


class BatchEngine(Engine, Protocol):
    """An engine that reads records batch by batch (`in_batches`)."""

    def require_memory(self, needed: int, what: str) -> None:
        """Refuse what would take more bytes than its share of the free memory."""

    def write_by_number(
        self,
        data: Dataset,
        numbers: AnyIntegers,
        function: Callable[[AnyIntegers], pl.DataFrame],
        schema: Schema,
    ) -> Dataset:
        """New columns that follow from a number of each record, such as that of its class.

        Parameters
        ----------
        numbers : the number of each record.
        function : some of the numbers to their new columns.
        schema : what the variables are afterwards.
        """


class GroupingEngine(Engine, Protocol):
    """An engine whose records are not in the memory of one machine, but can be grouped there."""

    def group(
        self,
        data: Dataset,
        by: Sequence[str],
        *,
        weight: str | None = None,
        extremes: Sequence[str] = (),
        levels: Sequence[str] = (),
    ) -> Dataset:
        """A row for each combination of some whole numbers; the rows stay where the records are.

        `ROWS` counts what each stands for, `RECORDS` adds up `weight` instead. For each variable in
        `extremes` the least and the greatest value are in columns whose names end in `LOW` and
        `HIGH`; for each in `levels`, how many different values there are, in one that ends in
        `LEVELS`.
        """

    def filter(
        self, data: Dataset, function: Callable[[pl.DataFrame], Mask], reads: Sequence[str]
    ) -> Dataset:
        """The records for which a function of some variables is true."""

    def repeat(
        self,
        data: Dataset,
        function: Callable[[pl.DataFrame], tuple[Integers, pl.DataFrame]],
        *,
        reads: Sequence[str],
    ) -> Dataset:
        """Each record as often as a function says, with further columns.

        A batch of records in; out come the positions of its records, each as often as wanted, and
        the new columns for these. A record that comes twice has its id twice: `filter` has to leave
        one of each before the records are anybody's again.
        """

    def fetch(self, data: Dataset) -> pl.DataFrame:
        """All rows, in no particular order, where they are few enough; an error where not."""

    def join(self, data: Dataset, table: Dataset, on: Sequence[str]) -> Dataset:
        """The data with the further columns of a large table, where whole numbers agree.

        Every record finds its one row in the table.
        """


def tabulate_distinct(engine: Engine, data: Dataset, columns: Sequence[str]) -> Rows:
    """The distinct combinations as rows, for engines whose records are not in memory."""
    as_shown = replace(data, schema=data.schema.changed(columns, missing=()))
    combinations = engine.distinct(as_shown, columns)
    schema = Schema({name: data.schema[name] for name in columns})
    return Rows(Dataset(combinations.values, schema), combinations.counts)


def declare_pairs(original: Dataset, released: Dataset, columns: Sequence[str]) -> Schema:
    """What the variables are in `pairs`."""
    sides = ((BEFORE, original.schema), (AFTER, released.schema))
    return Schema(
        {
            f"{prefix}{name}": schema[name]
            for prefix, schema in sides
            for name in columns
            if name in schema
        }
        | {PRESENT: Column()}
    )
