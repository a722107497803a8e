"""Where the records of repeated runs come from: a data set, parts of it, or a simulation."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.data import Dataset
from sfumato.errors import DataError, PlanError
from sfumato.plan import Plan
from sfumato.randomness import Key, keyed_order

Simulate = Callable[[int, int], Any]
"""Makes the cohort of a size for a repeat: a `Dataset`, or a frame that the plan describes."""


class Cohorts:
    """The records and the key of every size and repeat; the same each time they are asked for."""

    def __init__(
        self,
        data: Dataset | Simulate,
        plan: Plan,
        *,
        seed: int,
        key: Key | bytes | str | Path | None,
    ) -> None:
        self.source = data.with_schema(plan.schema) if isinstance(data, Dataset) else data
        made = hashlib.sha256(f"sfumato sweep {seed}".encode()).digest()
        self.key = Key(made) if key is None else Key.of(key)

    def sizes(self, wanted: Iterable[int] | None) -> Sequence[int | None]:
        """The sizes to run; those that cannot be had are an error."""
        if wanted is None:
            if not isinstance(self.source, Dataset):
                raise PlanError(
                    "Nothing says how many records to simulate.", hint="for instance sizes=[500]."
                )
            return [None]
        try:
            sizes = [operator.index(one) for one in wanted]
        except TypeError:
            sizes = []
        if not sizes or min(sizes) < 1:
            raise PlanError(
                "Sizes are a list of whole numbers, 1 or more.", hint="for instance sizes=[500]."
            )
        if isinstance(self.source, Dataset) and max(sizes) > len(self.source):
            raise DataError(
                f"There are {len(self.source)} records; {max(sizes)} cannot be drawn from them.",
                hint="choose smaller sizes, or simulate: sf.datasets.simulator(frame).",
            )
        return sizes

    def draw(self, size: int | None, repeat: int) -> tuple[Dataset, Key]:
        """The records of a repeat, and the key of its noise."""
        key = Key(self.key.subkey("sweep", repeat))
        if not isinstance(self.source, Dataset):
            made = self.source(size or 0, repeat)
            return (made if isinstance(made, Dataset) else Dataset(made)), key
        if size is None or size == len(self.source):
            return self.source, key
        # By who they are, not where they stand: the order of the rows changes nothing. A smaller
        # size is part of a larger one, so that sizes are compared on the same people.
        drawn = keyed_order(self.source.identity.ids(key), key)[:size]
        return self.source.take(np.sort(drawn)), key
