"""Statements about the classes of a release: their ends, what they leave out, and parts of them.

A class is a combination of released cells, whoever shares it. An outsider who reads "[1958-02-21;
1959-01-27], female" can say more than "one of these": somebody of the class is at each end of a
range and has each member of a set, if that is how the cell was written; somebody is just outside;
and the cell of one variable, or of two, may fit one original person although several released
records have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

import numpy as np
import numpy.typing as npt

from sfumato.cells.notation import SET
from sfumato.kernels.arrays import Floats, Mask, Positions
from sfumato.kernels.orders import scatter_numbers
from sfumato.progress import current_progress
from sfumato.risk.attacks.attacker_view import (
    CategoricalView,
    OrderedView,
    VariableView,
)
from sfumato.risk.attacks.statements import StatementOutcomes, order_records, shuffle_sources
from sfumato.units import Units

Family = Literal["ends", "members", "outside", "two variables", "all variables"]
Key = tuple[Family, str]
"""A family of statements, and the variables that they are about."""
_CLASSES, _CHANCE = 14, 15
_EACH = 200
_MOST_MEMBERS = 12
"""Members of a set that are tried; a longer one says little."""


@dataclass(eq=False)
class Tally:
    """Statements that were tried, by family and variable.

    Parameters
    ----------
    units : whom each row is about.
    isolates : the unit that each statement isolates, -1 where it is none or several.
    weights : the share of released records that each statement holds for.
    """

    units: Units
    isolates: dict[Key, list[int]] = field(default_factory=dict)
    weights: dict[Key, list[float]] = field(default_factory=dict)

    def add(self, key: Key, rows: Positions, weight: float) -> None:
        """Note whom a statement holds for."""
        self.isolates.setdefault(key, []).append(self.units.find_only(rows))
        self.weights.setdefault(key, []).append(weight)

    def outcomes(self, key: Key, records: int) -> StatementOutcomes:
        """What came of the statements of a family; none where none could be made."""
        isolates = np.array(self.isolates.get(key, ()), np.intp)
        weights = np.array(self.weights.get(key, ()), np.float64)
        return StatementOutcomes(isolates, weights, np.ones(len(isolates), np.int64), records)


def try_classes(
    views: Sequence[VariableView],
    most: int,
    units: Units,
    *,
    shuffled: bool = False,
) -> tuple[Tally, Tally]:
    """Make statements from at most so many classes, and see whom they isolate.

    The second tally is the control of ends, members and outsides: instead of an end, any value
    that occurs in the file within the range; instead of a member, any that occurs in the file; and
    outside the cell of another record. With `shuffled` every variable's cell is that of another
    record, which is the control of the other families.
    """
    order = order_records(views)
    # For each variable, the record whose cell stands at each position.
    mixed = shuffle_sources(views, order)
    sources = mixed if shuffled else np.tile(order, (len(views), 1))
    positions, sizes = _sample_classes(views, order, most)
    makers = [_Maker.read(view) for view in views]
    pairs = list(combinations(range(len(views)), 2))
    tried, control = Tally(units), Tally(units)
    report = current_progress()
    for done, (position, size) in enumerate(zip(positions.tolist(), sizes.tolist(), strict=True)):
        records = sources[:, position]
        is_known = np.array(
            [maker.known[record] for maker, record in zip(makers, records, strict=True)]
        )
        fits = np.stack(
            [maker.find_fitting(int(record)) for maker, record in zip(makers, records, strict=True)]
        )
        weight = size / len(order)
        fitting = fits.sum(axis=0, dtype=np.int16)
        members = np.flatnonzero(fitting == len(views))
        nearly = np.flatnonzero(fitting == len(views) - 1)
        if is_known.any():
            tried.add(("all variables", ""), members, weight)
        for index in np.flatnonzero(is_known).tolist():
            maker = makers[index]
            outside = nearly[~fits[index, nearly] & maker.has_value[nearly]]
            if shuffled:
                continue
            tried.add(("outside", maker.view.name), outside, weight)
            around = np.union1d(members, outside)
            elsewhere = maker.find_fitting(int(mixed[index, position]))[around]
            control.add(("outside", maker.view.name), around[~elsewhere], weight)
            family, values = maker.list_named_values(int(records[index]))
            persons = maker.view.persons
            ends = values if family == "ends" else None
            # Of a set every value is a member: any value of the file takes its place.
            others = around if family == "members" else members
            for number, value in enumerate(values.tolist()):
                key: Key = (family, maker.view.name)
                tried.add(key, members[persons[members] == value], weight)
                drawn = maker.draw_value(position, number, within=ends)
                control.add(key, others[persons[others] == drawn], weight)
        _add_pairs(tried, makers, fits, is_known, pairs)
        if done % _EACH == 0:
            report("measuring classes", done, len(positions))
    return tried, control


def try_single_cells(view: VariableView, units: Units) -> StatementOutcomes:
    """For the cell of every released record in one variable, whom it holds for by itself.

    However many released records have the same cell.
    """
    find = _find_in_intervals if isinstance(view, OrderedView) else _find_in_level_sets
    isolates = find(view, units)  # type: ignore[arg-type]  # of its own type
    if view.cells.of is not None:
        isolates = isolates[view.cells.of]
    content = np.array(view.content())
    _, of_record, sizes = np.unique(content, axis=1, return_inverse=True, return_counts=True)
    known = view.shows_value()
    weights = sizes[of_record.ravel()] / len(known)
    return StatementOutcomes(
        isolates[known], weights[known], np.ones(int(known.sum()), np.int64), units.count
    )


def _find_in_intervals(view: OrderedView, units: Units) -> Positions:
    """The one person that each distinct cell holds for, by a row of theirs; -1 where none is."""
    order = np.argsort(view.persons, kind="stable")[: int((~np.isnan(view.persons)).sum())]
    values = view.persons[order]
    begins = np.searchsorted(values, view.cells.low, "left")
    ends = np.searchsorted(values, view.cells.high, "right")
    # In the order of the values, a range is one person's if nowhere within it another one begins.
    changes = np.append(np.cumsum(np.diff(units.numbers[order], prepend=-1) != 0), 0)
    alone = (ends > begins) & (changes[np.maximum(ends - 1, 0)] == changes[begins])
    isolates = np.where(alone, order[np.minimum(begins, len(order) - 1)], -1)
    for cell, members in view.cells.sets.items():
        isolates[cell] = units.find_only(np.flatnonzero(np.isin(view.persons, members)))
    return isolates


def _find_in_level_sets(view: CategoricalView, units: Units) -> Positions:
    """The same for categories."""
    known, owners = np.flatnonzero(~np.isnan(view.persons)), units.numbers
    levels = view.persons[known].astype(np.int64)
    # Of some rows of a file the numbers have gaps.
    persons = int(owners.max()) + 1
    least = np.full(len(view.levels) + 1, persons)
    most = np.full(len(view.levels) + 1, -1)
    np.minimum.at(least, levels, owners[known])
    np.maximum.at(most, levels, owners[known])
    row = np.zeros(persons + 1, np.int64)
    row[owners[known][::-1]] = known[::-1]
    # The least and the greatest number of a person over the levels of each cell; the last stands
    # for a cell without levels.
    starts = view.cells.starts
    padded = np.append(view.cells.levels, len(view.levels))
    lowest = np.minimum.reduceat(least[padded], starts[:-1])
    highest = np.maximum.reduceat(most[padded], starts[:-1])
    alone = (lowest == highest) & (np.diff(starts) > 0)
    isolates: Positions = np.where(alone, row[np.minimum(lowest, persons)], -1)
    return isolates


def _sample_classes(
    views: Sequence[VariableView], order: Positions, most: int
) -> tuple[Positions, Positions]:
    """Where classes begin in the order of content, at most so many, and how large they are."""
    content = np.array([column for view in views for column in view.content()])[:, order]
    new = np.ones(len(order), bool)
    new[1:] = (content[:, 1:] != content[:, :-1]).any(axis=0)
    begins = np.flatnonzero(new)
    sizes = np.diff(np.append(begins, len(order)))
    chosen = np.argsort(scatter_numbers(len(begins), _CLASSES), kind="stable")[:most]
    return begins[chosen], sizes[chosen]


def _add_pairs(
    tried: Tally,
    makers: Sequence[_Maker],
    fits: npt.NDArray[np.bool_],
    is_known: Mask,
    pairs: Sequence[tuple[int, int]],
) -> None:
    """Statements of two variables; eight rows are a byte, so that all pairs are tried."""
    packed = np.packbits(fits, axis=1)
    for first, second in pairs:
        if not (is_known[first] and is_known[second]):
            continue
        both = packed[first] & packed[second]
        rows: Positions = np.empty(0, np.intp)
        if 0 < int(np.bitwise_count(both).sum()) <= tried.units.most_rows:
            rows = np.flatnonzero(fits[first] & fits[second])
        names = f"{makers[first].view.name}, {makers[second].view.name}"
        tried.add(("two variables", names), rows, 0.0)


@dataclass(frozen=True, eq=False)
class _Maker:
    """What statements of one variable are made of."""

    view: VariableView
    known: Mask
    has_value: Mask
    values: Floats

    @classmethod
    def read(cls, view: VariableView) -> _Maker:
        """What is known of the persons and the cells is read once for all statements."""
        has_value = ~np.isnan(view.persons)
        return cls(view, view.shows_value(), has_value, np.unique(view.persons[has_value]))

    def find_fitting(self, record: int) -> Mask:
        """Which persons a cell holds for; one that says nothing holds for everybody."""
        if not self.known[record]:
            return np.ones(len(self.view.persons), bool)
        return self.view.fits(record)

    def list_named_values(self, record: int) -> tuple[Family, Floats]:
        """The values that a range or a set names: its ends, or its members."""
        nothing: Floats = np.empty(0)
        if isinstance(self.view, OrderedView):
            cells = self.view.cells
            cell = record if cells.of is None else int(cells.of[record])
            if cell in cells.sets:
                return "members", _take_few(cells.sets[cell])
            low, high = cells.low[cell], cells.high[cell]
            return "ends", np.array([low, high]) if low < high else nothing
        cell = int(self.view.cells.of[record])
        # A group or a mask names no member; what it stands for says nothing of this class.
        if cell >= len(self.view.cells.texts) or not SET.fullmatch(self.view.cells.texts[cell]):
            return "members", nothing
        starts = self.view.cells.starts
        return "members", _take_few(self.view.cells.levels[starts[cell] : starts[cell + 1]])

    def draw_value(self, position: int, number: int, within: Floats | None) -> float:
        """A value that somebody in the file has, between two ends if there are some."""
        first, last = 0, len(self.values)
        if within is not None:
            first = int(np.searchsorted(self.values, within[0], "left"))
            last = int(np.searchsorted(self.values, within[-1], "right"))
        if first >= last:
            return np.nan
        draw = scatter_numbers(number + 1, _CHANCE + 64 * position)[number]
        return float(self.values[first + int(draw) % (last - first)])


def _take_few(members: npt.NDArray[np.floating] | npt.NDArray[np.integer]) -> Floats:
    if len(members) <= 1:
        return np.empty(0)
    return np.asarray(members[:_MOST_MEMBERS], np.float64)


def count_classes(views: Sequence[VariableView]) -> int:
    """How many different combinations of cells the release has."""
    order = order_records(views)
    return len(_sample_classes(views, order, len(order))[0])


def list_keys(*tallies: Tally) -> Iterator[Key]:
    """The families and variables that statements were made of."""
    yield from dict.fromkeys(key for tally in tallies for key in tally.isolates)
