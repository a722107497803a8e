"""Equivalence classes: the records whose cells in what an outsider knows are equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from sfumato.cells.codes import encode_unordered
from sfumato.data import Dataset
from sfumato.engines import Engine, Rows
from sfumato.engines.local import find_class_of_each
from sfumato.kernels.arrays import AnyIntegers, Codes, Integers, Mask


@dataclass(frozen=True, eq=False)
class EquivalenceClasses:
    """The class of each row, and how many records each class has.

    Every class has at least one record: combinations that nobody has are none.

    Parameters
    ----------
    of : the class of each row.
    sizes : how many records each class has.
    counts : how many records each row stands for; None: one each.
    """

    of: Codes
    sizes: Integers
    counts: Integers | None = None

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def _rows(self) -> Integers:
        """How many rows each class has."""
        return self.sizes if self.counts is None else np.bincount(self.of, minlength=len(self))

    @cached_property
    def starts(self) -> Integers:
        """Where each class begins when the rows stand class after class, and the end."""
        return np.concatenate([[0], np.cumsum(self._rows)]).astype(np.int64)

    @cached_property
    def order(self) -> AnyIntegers:
        """The rows, class after class."""
        from sfumato.kernels.trees.equivalence_classes import Classes, sort_by_class

        return sort_by_class(Classes(self.of, self.of[:0], self._rows), least=1)[0]

    @cached_property
    def first(self) -> AnyIntegers:
        """A row of each class: its first."""
        first = np.empty(len(self), np.int64)
        first[self.of[::-1]] = np.arange(len(self.of))[::-1]
        return first

    def count(self, rows: Mask) -> int:
        """How many records some rows stand for."""
        return int(rows.sum()) if self.counts is None else int(self.counts[rows].sum())

    def count_in(self, classes: Mask) -> int:
        """How many records some classes have."""
        return int(self.sizes[classes].sum())

    def are_all(self, rows: Mask) -> Mask:
        """For each class whether all its rows are among these."""
        complete = np.ones(len(self), bool)
        complete[self.of[~rows]] = False
        return complete


def count_codes(codes: AnyIntegers, counts: Integers | None, width: int = 0) -> Integers:
    """How many records have each code from 0 on, if each row stands for so many; -1 is left out."""
    if (codes < 0).any():
        present = codes >= 0
        codes, counts = codes[present], None if counts is None else counts[present]
    # Sums of whole numbers in floats are exact below 2**53.
    return np.bincount(codes, counts, width).astype(np.int64, copy=False)


@dataclass(frozen=True, eq=False)
class ClassifiedRecords:
    """All records in classes, wherever they are.

    Parameters
    ----------
    data : the records.
    known : by what they are told apart.
    engine : where they are.
    rows : rows that stand for the records in `known`.
    classes : the classes of these rows.
    """

    data: Dataset
    known: tuple[str, ...]
    engine: Engine
    rows: Rows
    classes: EquivalenceClasses

    def show_classes(self) -> pl.DataFrame:
        """The cells of each class in what is known, as they stand."""
        if not self.known:
            return pl.DataFrame()
        return _show(self.rows.data, self.known).batch(self.known)[self.classes.first]

    def read(self, names: Sequence[str]) -> tuple[Dataset, EquivalenceClasses]:
        """Rows that stand for the records in further variables too, in the same classes."""
        if self.rows.counts is None:
            return self.data, self.classes
        rows = self.engine.tabulate(self.data, [*self.known, *names])
        of = np.zeros(len(rows.data), np.int32)
        if self.known:
            cells = [
                _show(data, self.known).batch(self.known) for data in (rows.data, self.rows.data)
            ]
            of = self.classes.of[find_class_of_each(*cells)]
        return rows.data, EquivalenceClasses(of, self.classes.sizes, rows.counts)


def classify_records(data: Dataset, known: Sequence[str], engine: Engine) -> ClassifiedRecords:
    """Group records by their cells in `known`, on any engine."""
    rows = engine.tabulate(data, known)
    classes = find_equivalence_classes(rows.data, known, rows.counts)
    return ClassifiedRecords(data, tuple(known), engine, rows, classes)


def _show(data: Dataset, names: Sequence[str]) -> Dataset:
    """The cells as a release shows them: which code for missing one holds can be seen."""
    return replace(data, schema=data.schema.changed(names, missing=()))


def find_equivalence_classes(
    data: Dataset, known: Sequence[str], counts: Integers | None = None
) -> EquivalenceClasses:
    """Group rows by their cells in `known`, compared as they stand.

    Missing is a value of its own. A release shows which code for "missing" a cell holds, so codes
    are told apart. With nothing known, all records are one class. `counts` says how many records
    each row stands for.

    Examples
    --------
    >>> import polars as pl
    >>> data = Dataset(pl.DataFrame({"sex": ["f", "m", None, "f"]}))
    >>> classes = find_equivalence_classes(data, ["sex"])
    >>> classes.of.tolist(), classes.sizes.tolist()
    ([0, 1, 2, 0], [2, 1, 1])
    """
    from sfumato.kernels.trees.equivalence_classes import find_classes

    as_shown = _show(data, known)
    rows = len(data) if counts is None else len(counts)
    cells = np.empty((len(known), rows), np.int32)
    widths = []
    for row, name in enumerate(known):
        # Classes need equality alone, so codes without an order do.
        cells[row], width = encode_unordered(as_shown.column(name))
        widths.append(width)
    grouped = find_classes(cells, widths, counts)
    return EquivalenceClasses(grouped.of, grouped.counts, counts)
