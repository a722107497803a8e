"""Equivalence classes: the records whose cells in what an outsider knows are equal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.cells.codes import encode_unordered
from sfumato.data import Dataset
from sfumato.engines import Engine, Rows
from sfumato.engines.local import find_class_of_each
from sfumato.kernels.arrays import AnyIntegers, Codes, Floats, Integers, Mask
from sfumato.kernels.memory import PART, look_up, split_rows

if TYPE_CHECKING:
    from sfumato.kernels.trees.equivalence_classes import Classes

COMPARED = 3000
"""Classes of which each is compared with each other, at most; of more, equal ones alone fit."""


@dataclass(frozen=True, eq=False)
class EquivalenceClasses:
    """The class of each row, and how many records each class has.

    Every class has at least one record: combinations that nobody has are none. Where a person may
    have several rows, everything that is counted is persons: whoever has a row in a class is in
    it once.

    Parameters
    ----------
    of : the class of each row.
    sizes : how many records each class has; or persons.
    counts : how many records each row stands for; None: one each.
    persons : the person of each row, from 0; None: a record is a person.
    """

    of: Codes
    sizes: Integers
    counts: Integers | None = None
    persons: AnyIntegers | None = None

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def _rows(self) -> Integers:
        """How many rows each class has."""
        if self.counts is None and self.persons is None:
            return self.sizes
        return np.bincount(self.of, minlength=len(self))

    @cached_property
    def total(self) -> int:
        """How many records there are, or persons."""
        return int(self.sizes.sum()) if self.persons is None else count_distinct(self.persons)

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

    def count_rows(self) -> int:
        """How many records there are, whoever's they are."""
        return len(self.of) if self.counts is None else int(self.counts.sum())

    def count(self, rows: Mask) -> int:
        """How many records some rows stand for."""
        if self.persons is not None:
            return count_distinct(self.persons[rows])
        return int(rows.sum()) if self.counts is None else int(self.counts[rows].sum())

    def count_in(self, classes: Mask) -> int:
        """How many records some classes have."""
        if self.persons is not None:
            return self.count(look_up(classes, self.of))
        return int(self.sizes[classes].sum())

    def are_all(self, rows: Mask) -> Mask:
        """For each class whether all its records are among these; of each person, one row is."""
        if self.persons is not None:
            among = EquivalenceClasses(self.of[rows], self.sizes, persons=self.persons[rows])
            every: Mask = among.count_persons() == self.sizes
            return every
        complete = np.ones(len(self), bool)
        complete[self.of[~rows]] = False
        return complete

    def count_persons(self) -> Integers:
        """How many persons have a row in each class."""
        return np.bincount(self.of[self.find_pairs()], minlength=len(self))

    def count_united(self, together: Mask) -> Integers:
        """How many persons have a row in any of the classes that each row of a table names."""
        from scipy.sparse import csr_array

        persons = self._require_persons()
        rows = self.find_pairs()
        has_row = csr_array(
            (np.ones(len(rows), np.int64), (self.of[rows], persons[rows])),
            shape=(len(self), int(persons.max()) + 1),
        )
        united = csr_array(together.astype(np.int64)) @ has_row
        counts: Integers = np.diff(united.indptr).astype(np.int64)
        return counts

    def find_pairs(self, codes: AnyIntegers | None = None) -> Integers:
        """The rows that are left when a person counts once in each class, and for each code."""
        from sfumato.kernels.trees.equivalence_classes import find_classes, mark_first_rows

        of = self.of
        if codes is not None:
            # Missing, -1, is a code of its own.
            both = np.stack([of, codes - min(int(codes.min(initial=0)), 0)]).astype(np.int32)
            of = find_classes(both, [int(row.max(initial=0)) + 1 for row in both]).of
        return np.flatnonzero(mark_first_rows(of, self._require_persons()))

    def drop_repeats(self, codes: Codes) -> tuple[EquivalenceClasses, Codes]:
        """Classes of rows of which a person has one for each code in each class, and the codes."""
        if self.persons is None:
            return self, codes
        rows = self.find_pairs(codes)
        return self.select(rows), codes[rows]

    def choose_rows(self, codes: AnyIntegers, scores: Iterable[Floats]) -> Iterator[Integers]:
        """For each person in each class a row with the highest score, of these the least code.

        Rows of a person in a class with the same code have the same score. For each of the scores
        other rows may be chosen.
        """
        rows = self.find_pairs(codes)
        persons = self._require_persons()[rows]
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
        return EquivalenceClasses(of, np.bincount(of, minlength=len(self)))

    def average_chance(self, among: Integers | Floats) -> float:
        """The mean chance that a guess among so many is right; a person's is by their worst row.

        `among` is a number for each class. The mean is exact, whatever the order of the records.
        """
        if self.persons is None:
            return math.fsum(self.sizes / among) / self.total
        worst = np.zeros(int(self.persons.max()) + 1)
        chance = 1 / among
        for part in split_rows(len(self.of)):
            np.maximum.at(worst, self.persons[part], chance[self.of[part]])
        return math.fsum(worst) / self.total

    def _require_persons(self) -> AnyIntegers:
        assert self.persons is not None  # noqa: S101 - the caller has looked
        return self.persons


def count_distinct(persons: AnyIntegers) -> int:
    """How many different persons there are, by their numbers from 0."""
    present = np.zeros(int(persons.max(initial=-1)) + 1, bool)
    for part in split_rows(len(persons)):
        present[persons[part]] = True
    return int(present.sum())


def count_codes(codes: AnyIntegers, counts: Integers | None, width: int = 0) -> Integers:
    """How many records have each code from 0 on, if each row stands for so many; -1 is left out."""
    if (codes < 0).any():
        present = codes >= 0
        codes, counts = codes[present], None if counts is None else counts[present]
    width = max(width, int(codes.max(initial=-1)) + 1)
    total = np.zeros(width, np.int64)
    # Part by part, since numpy copies all codes to 64 bits first. Sums of whole numbers in floats
    # are exact below 2**53.
    for part in split_rows(len(codes), max(PART, width)):
        total += np.bincount(codes[part], None if counts is None else counts[part], width).astype(
            np.int64, copy=False
        )
    return total


@dataclass(frozen=True, eq=False)
class ClassifiedRecords:
    """All records in classes, wherever they are.

    Parameters
    ----------
    data : the records.
    known : by what they are told apart.
    engine : where they are.
    rows : rows that stand for the records in `known`.
    classes : the classes of these rows. Their sizes are persons, where these have several rows.
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
        return rows.data, EquivalenceClasses(of, self.classes.sizes, rows.counts)


def classify_records(data: Dataset, known: Sequence[str], engine: Engine) -> ClassifiedRecords:
    """Group records by their cells in `known`, on any engine."""
    rows = engine.tabulate(data, known)
    persons = _read_persons(data) if engine.in_memory else None
    classes = find_equivalence_classes(rows.data, known, rows.counts, persons)
    return ClassifiedRecords(data, tuple(known), engine, rows, classes)


def find_persons(data: Dataset) -> Integers | None:
    """The person of each row; None where nobody has several, so that rows are persons."""
    persons = _read_persons(data)
    return None if persons is None else persons.astype(np.int64)


def _read_persons(data: Dataset) -> Codes | None:
    """The same in the memory of the data."""
    persons = data.persons
    if persons is None or persons.n_unique() == len(persons):
        return None
    return persons.to_numpy().view(np.int32)


def _show(data: Dataset, names: Sequence[str]) -> Dataset:
    """The cells as a release shows them: which code for missing one holds can be seen."""
    return replace(data, schema=data.schema.changed(names, missing=()))


def find_equivalence_classes(
    data: Dataset,
    known: Sequence[str],
    counts: Integers | None = None,
    persons: AnyIntegers | None = None,
) -> EquivalenceClasses:
    """Group rows by their cells in `known`, compared as they stand.

    Missing is a value of its own. A release shows which code for "missing" a cell holds, so codes
    are told apart. With nothing known, all records are one class. `counts` says how many records
    each row stands for, `persons` whose each row is, where a person may have several.

    Examples
    --------
    >>> import polars as pl
    >>> data = Dataset(pl.DataFrame({"sex": ["f", "m", None, "f"]}))
    >>> classes = find_equivalence_classes(data, ["sex"])
    >>> classes.of.tolist(), classes.sizes.tolist()
    ([0, 1, 2, 0], [2, 1, 1])
    """
    from sfumato.kernels.trees.equivalence_classes import join_classes

    rows, as_shown = len(data) if counts is None else len(counts), _show(data, known)
    # Encoded one after the other, so that no more than one variable is in memory as codes.
    variables = (encode_unordered(as_shown.column(name)) for name in known)
    return _list_classes(join_classes(variables, rows, counts), counts, persons)


def _list_classes(
    found: Classes, counts: Integers | None, persons: AnyIntegers | None
) -> EquivalenceClasses:
    classes = EquivalenceClasses(found.of, found.counts, counts, persons)
    return classes if persons is None else replace(classes, sizes=classes.count_persons())


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

    def classify(
        self,
        variables: Sequence[int],
        counts: Integers | None = None,
        persons: AnyIntegers | None = None,
    ) -> EquivalenceClasses:
        """The classes of rows with equal cells in some of the variables, by their positions."""
        from sfumato.kernels.trees.equivalence_classes import find_classes

        chosen = list(variables)
        # All of them, as most often, need not be copied.
        cells = self.cells if chosen == list(range(len(self.cells))) else self.cells[chosen]
        found = find_classes(cells, [self.widths[variable] for variable in chosen], counts)
        return _list_classes(found, counts, persons)
