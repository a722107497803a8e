"""Equivalence classes: the records whose cells in what an outsider knows are equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sfumato.cells.codes import encode_unordered
from sfumato.data import Dataset
from sfumato.kernels.arrays import AnyIntegers, Codes, Integers


@dataclass(frozen=True, eq=False)
class EquivalenceClasses:
    """The class of each record, and how many records each class has.

    Every class has at least one record: combinations that nobody has are none.
    """

    of: Codes
    sizes: Integers

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def starts(self) -> Integers:
        """Where each class begins when the records stand class after class, and the end."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)

    @cached_property
    def order(self) -> AnyIntegers:
        """The records, class after class."""
        from sfumato.kernels.trees.equivalence_classes import Classes, sort_by_class

        return sort_by_class(Classes(self.of, self.of[:0], self.sizes), least=1)[0]


def find_equivalence_classes(data: Dataset, known: Sequence[str]) -> EquivalenceClasses:
    """Group records by their cells in `known`, compared as they stand.

    Missing is a value of its own. A release shows which code for "missing" a cell holds, so codes
    are told apart. With nothing known, all records are one class.

    Examples
    --------
    >>> import polars as pl
    >>> data = Dataset(pl.DataFrame({"sex": ["f", "m", None, "f"]}))
    >>> classes = find_equivalence_classes(data, ["sex"])
    >>> classes.of.tolist(), classes.sizes.tolist()
    ([0, 1, 2, 0], [2, 1, 1])
    """
    from sfumato.kernels.trees.equivalence_classes import find_classes

    as_shown = replace(data, schema=data.schema.changed(known, missing=()))
    cells = np.empty((len(known), len(data)), np.int32)
    widths = []
    for row, name in enumerate(known):
        # Classes need equality alone, so codes without an order do.
        cells[row], width = encode_unordered(as_shown.column(name))
        widths.append(width)
    grouped = find_classes(cells, widths)
    return EquivalenceClasses(grouped.of, grouped.counts)
