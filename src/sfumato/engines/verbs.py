"""The few verbs that everything rests on. An engine is these verbs and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data import Dataset
from sfumato.engines.summaries import Summary
from sfumato.kernels.arrays import Integers
from sfumato.randomness import Draws, Key

RowFunction = Callable[[pl.DataFrame, Draws | None], pl.DataFrame]
"""A batch of records in, new or replaced columns of the same records out."""


Starts = Integers
"""Where each stratum begins in a batch in which strata stand one after the other, and its end."""
GroupFunction = Callable[[pl.DataFrame, Starts, Draws | None], pl.DataFrame]
"""Some whole groups in, one after the other, new columns of the same records out.

It gets several groups at once, because thousands of small ones would cost more in calls than in
work. What it makes of a group must not depend on which others came with it.
"""


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


class Engine(Protocol):
    """What an engine must be able to do. Same numbers on every engine, to the last bit."""

    def prepare(self, data: Dataset) -> Dataset:
        """The data with an id at every record, before anything is changed."""

    def aggregate(
        self, data: Dataset, wanted: Mapping[str, Sequence[Summary]]
    ) -> dict[str, dict[str, Any]]:
        """A small summary of each variable, by the summary's name."""

    def distinct(self, data: Dataset, columns: Sequence[str]) -> Combinations:
        """The combinations that occur, in no particular order, with their counts.

        Missing is a value of its own here; what it means is the measure's business.
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

    def rank(self, data: Dataset, score: str) -> npt.NDArray[np.int64]:
        """Each record's rank in the order of a score; equal scores by record id."""
