"""Equivalence classes: the records whose cells in what an outsider knows are equal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.cells.codes import encode_unordered
from sfumato.data import Dataset
from sfumato.engines import Engine, Rows
from sfumato.engines.local import find_class_of_each
from sfumato.kernels.arrays import AnyIntegers, Codes, Floats, Integers, Mask, Positions
from sfumato.kernels.memory import look_up, split_rows
from sfumato.units import Units

if TYPE_CHECKING:
    from sfumato.kernels.trees.equivalence_classes import Classes

COMPARED = 3000
"""Classes of which each is compared with each other, at most; of more, equal ones alone fit."""


@dataclass(frozen=True, eq=False)
class EquivalenceClasses:
    """The class of each row, and how many units each class has.

    Every class has at least one row: combinations that nobody has are none. Everything that is
    counted is units: whoever has a row in a class is in it once.

    Parameters
    ----------
    of : the class of each row.
    sizes : how many units each class has.
    units : whom each row is about.
    """

    of: Codes
    sizes: Integers
    units: Units

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def _rows(self) -> Integers:
        """How many rows each class has."""
        if self.units.one_row_each and self.units.counts is None:
            return self.sizes
        return np.bincount(self.of, minlength=len(self))

    @property
    def total(self) -> int:
        """How many units there are."""
        return self.units.count

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
        # From the last row to the first, which is the one that stays.
        for part in reversed(list(split_rows(len(self.of)))):
            first[self.of[part][::-1]] = np.arange(part.stop - 1, part.start - 1, -1)
        return first

    def count_in(self, classes: Mask) -> int:
        """How many units some classes have."""
        if self.units.one_row_each:
            return int(self.sizes[classes].sum())
        return self.units.count_among(look_up(classes, self.of))

    def count_some(self, rows: Mask) -> Integers:
        """How many units have one of some rows in each class."""
        return self.units.take(rows).count_groups(self.of[rows], len(self))

    def are_all(self, rows: Mask) -> Mask:
        """For each class whether all its units have one of these rows."""
        every: Mask = self.count_some(rows) == self.sizes
        return every

    def count_united(self, together: Mask) -> Integers:
        """How many persons have a row in any of the classes that each row of a table names."""
        from scipy.sparse import csr_array

        persons = self.units.numbers
        rows = self.units.find_once(self.of)
        has_row = csr_array(
            (np.ones(len(rows), np.int64), (self.of[rows], persons[rows])),
            shape=(len(self), int(persons.max()) + 1),
        )
        united = csr_array(together.astype(np.int64)) @ has_row
        counts: Integers = np.diff(united.indptr).astype(np.int64)
        return counts

    def drop_repeats(self, codes: Codes) -> tuple[EquivalenceClasses, Codes]:
        """Classes of rows of which a person has one for each code in each class, and the codes."""
        if self.units.one_row_each:
            return self, codes
        rows = self._find_once(codes)
        return self.select(rows), codes[rows]

    def _find_once(self, codes: AnyIntegers) -> Positions:
        """The rows that are left when a person counts once for each code in each class."""
        from sfumato.kernels.trees.equivalence_classes import find_classes

        # Missing, -1, is a code of its own.
        both = np.stack([self.of, codes - min(int(codes.min(initial=0)), 0)]).astype(np.int32)
        return self.units.find_once(
            find_classes(both, [int(row.max(initial=0)) + 1 for row in both]).of
        )

    def choose_rows(self, codes: AnyIntegers, scores: Iterable[Floats]) -> Iterator[Integers]:
        """For each person in each class a row with the highest score, of these the least code.

        Rows of a person in a class with the same code have the same score. For each of the scores
        other rows may be chosen.
        """
        rows = self._find_once(codes)
        persons = self.units.numbers[rows]
        pair = self.of[rows] * np.int64(int(persons.max(initial=0)) + 1) + persons
        order = np.lexsort((codes[rows], pair))
        rows, pair = rows[order], pair[order]
        new = np.ones(len(rows), bool)
        new[1:] = pair[1:] != pair[:-1]
        starts, group = np.flatnonzero(new), np.cumsum(new) - 1
        for score in scores:
            of_rows = score[rows]
            best = np.flatnonzero(of_rows == np.maximum.reduceat(of_rows, starts)[group])
            first = np.diff(group[best], prepend=-1) > 0
            yield np.sort(rows[best[first]])

    def select(self, rows: Integers) -> EquivalenceClasses:
        """The same classes with some of the rows, each of which counts by itself."""
        of = self.of[rows]
        return EquivalenceClasses(of, np.bincount(of, minlength=len(self)), Units(len(rows)))

    def average_chance(self, among: Integers | Floats) -> float:
        """The mean chance that a guess among so many is right; see `Units`.

        `among` is a number for each class.
        """
        return self.units.average_chance(among, self.of, self.sizes)


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

    def encode_classes(self) -> Codes | None:
        """The cells of each class by variable and class; None where no cell of any is missing.

        Missing is -1, and so is any code for it.
        """
        data = self.rows.data
        if not any(data.column(name).null_count() for name in self.known):
            return None
        cells = np.empty((len(self.known), len(self.classes)), np.int32)
        for row, name in enumerate(self.known):
            cells[row] = look_up(encode_unordered(data.column(name))[0], self.classes.first)
        cells -= 1
        return cells

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
        return rows.data, EquivalenceClasses(of, self.classes.sizes, rows.units)


def classify_records(data: Dataset, known: Sequence[str], engine: Engine) -> ClassifiedRecords:
    """Group records by their cells in `known`, on any engine."""
    rows = engine.tabulate(data, known)
    classes = find_equivalence_classes(rows.data, known, rows.units)
    return ClassifiedRecords(data, tuple(known), engine, rows, classes)


def _show(data: Dataset, names: Sequence[str]) -> Dataset:
    """The cells as a release shows them: which code for missing one holds can be seen."""
    return replace(data, schema=data.schema.changed(names, missing=()))


def find_equivalence_classes(
    data: Dataset, known: Sequence[str], units: Units | None = None
) -> EquivalenceClasses:
    """Group rows by their cells in `known`, compared as they stand.

    Missing is a value of its own. A release shows which code for "missing" a cell holds, so codes
    are told apart. With nothing known, all records are one class. `units` says whom each row is
    about; without, itself.

    Examples
    --------
    >>> import polars as pl
    >>> data = Dataset(pl.DataFrame({"sex": ["f", "m", None, "f"]}))
    >>> classes = find_equivalence_classes(data, ["sex"])
    >>> classes.of.tolist(), classes.sizes.tolist()
    ([0, 1, 2, 0], [2, 1, 1])
    """
    from sfumato.kernels.trees.equivalence_classes import join_classes

    units, as_shown = units or Units(len(data)), _show(data, known)
    # Encoded one after the other, so that no more than one variable is in memory as codes.
    variables = (encode_unordered(as_shown.column(name)) for name in known)
    return count_classes(join_classes(variables, len(units), units.counts), units)


def count_classes(found: Classes, units: Units) -> EquivalenceClasses:
    """Classes that were found, with their units."""
    sizes = found.counts
    if not units.one_row_each:
        sizes = units.count_groups(found.of, len(sizes))
    return EquivalenceClasses(found.of, sizes, units)


@dataclass(frozen=True, eq=False)
class CellCodes:
    """The cells of some variables as codes, to be classified by any of them.

    Parameters
    ----------
    cells : codes by variable and row; equal codes are equal cells, as a release shows them.
    widths : how many codes each variable has.
    """

    cells: Codes
    widths: tuple[int, ...]

    @classmethod
    def of(cls, data: Dataset, known: Sequence[str], rows: int) -> CellCodes:
        """Encode each variable once."""
        as_shown = _show(data, known)
        cells = np.empty((len(known), rows), np.int32)
        widths = []
        for row, name in enumerate(known):
            # Classes need equality alone, so codes without an order do.
            cells[row], width = encode_unordered(as_shown.column(name))
            widths.append(width)
        return cls(cells, tuple(widths))

    def classify(self, variables: Sequence[int], units: Units) -> EquivalenceClasses:
        """The classes of rows with equal cells in some of the variables, by their positions."""
        from sfumato.kernels.trees.equivalence_classes import find_classes

        chosen = list(variables)
        # All of them, as most often, need not be copied.
        cells = self.cells if chosen == list(range(len(self.cells))) else self.cells[chosen]
        found = find_classes(cells, [self.widths[variable] for variable in chosen], units.counts)
        return count_classes(found, units)
