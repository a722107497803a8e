"""Statements built from a release that may hold for one person only, and whom they hold for.

A statement is a conjunction: it takes one variable after the other from a released record, until
no other released record satisfies it. Nobody needs to know a person for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import Floats, Positions
from sfumato.kernels.orders import order_by_content, scatter_numbers
from sfumato.progress import current_progress
from sfumato.risk.attacks.attacker_view import (
    ALL,
    CategoricalView,
    OrderedView,
    VariableView,
)
from sfumato.units import Units

Form = Literal["cells", "tails"]
"""Whether ordered variables are taken as they stand, or as "this much or more (or less)"."""
_TARGETS, _ORDERS, _SHUFFLES, _GAPS = 11, 12, 13, 17
_MOST_CATEGORIES = 50
"""With more categories, extremes are looked for among all records only."""
_EACH = 1000
"""Statements between two words on how far it is."""


@dataclass(frozen=True, eq=False)
class StatementOutcomes:
    """What came of some statements.

    Parameters
    ----------
    isolates : the person each statement isolates; -1 where it holds for none or for several.
    weights : the share of released records that each statement holds for.
    variables : how many variables each statement needs.
    records : how many records the release has.
    """

    isolates: Positions = field(repr=False)
    weights: Floats = field(repr=False)
    variables: npt.NDArray[np.int64] = field(repr=False)
    records: int

    @property
    def rate(self) -> float:
        """The share of statements that isolate one person."""
        return int((self.isolates >= 0).sum()) / len(self.isolates)

    @property
    def by_weight(self) -> float:
        """The share that statements of the same weights would isolate if they knew nothing."""
        chances = isolation_chance(self.weights, self.records)
        return float(np.sort(chances).sum()) / len(chances)


def isolation_chance(weights: Floats, records: int) -> Floats:
    """The chance that a statement of some weight holds for just one of so many records.

    Examples
    --------
    >>> isolation_chance(np.array([0.25]), 4).round(3).tolist()
    [0.422]
    """
    # The binomial probability of exactly one success in n trials.
    return records * weights * (1 - weights) ** (records - 1)


def order_records(views: Sequence[VariableView]) -> Positions:
    """The released records in an order that only their content decides."""
    return np.asarray(
        order_by_content(np.array([column for view in views for column in view.content()]))
    )


def shuffle_sources(views: Sequence[VariableView], order: Positions) -> npt.NDArray[np.intp]:
    """For each variable the records in another order, so that a row mixes many of them."""
    return np.stack(
        [
            order[np.argsort(scatter_numbers(len(order), _SHUFFLES + 64 * index), kind="stable")]
            for index in range(len(views))
        ]
    )


def try_conjunctions(
    views: Sequence[VariableView],
    form: Form,
    most: int,
    units: Units,
    *,
    shuffled: bool = False,
) -> StatementOutcomes:
    """Build a statement from each of some released records, and see whom it isolates.

    `units` says whom each row is about. With `shuffled`, each variable is taken from another
    record: the statements then know what values there are, and nothing of any person.
    """
    order = order_records(views)
    count = len(order)
    # For each variable, the record that stands at each place: the same one, or any other.
    sources = shuffle_sources(views, order) if shuffled else np.tile(order, (len(views), 1))
    positions = np.argsort(scatter_numbers(count, _TARGETS), kind="stable")[:most]
    tests = [
        _choose_test(view, form, records) for view, records in zip(views, sources, strict=True)
    ]
    isolates, weights, sizes = [], [], []
    report = current_progress()
    for done, position in enumerate(positions.tolist()):
        # Each statement takes the variables in an order of its own.
        sequence = np.argsort(
            scatter_numbers(len(views), _ORDERS + 64 * position), kind="stable"
        ).tolist()
        whom, remaining, size = _grow_statement(tests, sequence, position, units)
        isolates.append(whom)
        weights.append((count if remaining is None else remaining) / count)
        sizes.append(size)
        if done % _EACH == 0:
            report("measuring statements", done, len(positions))
    return StatementOutcomes(np.array(isolates), np.array(weights), np.array(sizes), units.count)


Test = Callable[[Positions | slice], npt.NDArray[np.bool_]]
"""For which of some a part of a statement holds."""
CellTest = Callable[[int], tuple[Test, Test] | None]
"""The part that a position gives rise to: for released records by position, and for persons."""


def _grow_statement(
    builders: Sequence[CellTest], sequence: Sequence[int], position: int, units: Units
) -> tuple[int, int | None, int]:
    """Whom the statement isolates, how many released records it holds for, and its variables.

    Where it says nothing it holds for all: None.
    """
    matching: Positions | None = None
    persons: Positions | None = None
    tests: list[Test] = []
    for index in sequence:
        part = builders[index](position)
        if part is None:
            continue
        is_alike, test = part
        matching = _narrow(matching, is_alike)
        tests.append(test)
        # Narrow enough: a further variable could only lose the person.
        if len(matching) <= 1:
            break
    for test in tests:
        persons = _narrow(persons, test)
    whom = -1 if persons is None else units.find_only(persons)
    return whom, None if matching is None else len(matching), len(tests)


def _narrow(positions: Positions | None, test: Test) -> Positions:
    """Those of some for which a test holds; at first of all."""
    return np.flatnonzero(test(ALL)) if positions is None else positions[test(positions)]


def _choose_test(view: VariableView, form: Form, records: Positions) -> CellTest:
    """How a released record becomes a part of a statement; nothing where it says nothing.

    `records` says which record stands at each position.
    """
    known = view.shows_value()[records]
    if form == "tails" and isinstance(view, OrderedView):
        low, high, guess = view.low()[records], view.high()[records], view.guess()[records]
        middle = float(np.median(guess[~np.isnan(guess)])) if known.any() else 0.0

        def tail(position: int) -> tuple[Test, Test] | None:
            if not known[position]:
                return None
            if guess[position] >= middle:
                end = low[position]
                return (
                    lambda positions: (low[positions] >= end) & known[positions],
                    lambda rows: view.persons[rows] >= end,
                )
            end = high[position]
            return (
                lambda positions: (high[positions] <= end) & known[positions],
                lambda rows: view.persons[rows] <= end,
            )

        return tail
    kinds = view.kinds[records]

    def cell(position: int) -> tuple[Test, Test] | None:
        if not known[position]:
            return None
        kind, record = kinds[position], int(records[position])
        return lambda positions: kinds[positions] == kind, lambda rows: view.fits(record, rows)

    return cell


def try_extremes(views: Sequence[VariableView], units: Units) -> StatementOutcomes:
    """The statements of one variable that one released record at most satisfies.

    The least and the greatest of what is ordered, the outermost ends of its ranges, the same among
    those of one category, and every category that stands alone.
    """
    isolates, weights = [], []
    count = len(views[0].persons)
    everybody = np.ones(count, bool)
    for view in views:
        statements = list(_find_lone_cells(view))
        if isinstance(view, OrderedView):
            statements += _find_outer_ends(view, view.shows_value(), everybody)
            for other in views:
                if isinstance(other, CategoricalView):
                    for members, persons in _list_categories(other):
                        statements += _find_outer_ends(view, members, persons)
        for rows, alone in statements:
            isolates.append(units.find_only(rows))
            weights.append(alone / count)
    arrays = np.array(isolates, np.intp), np.array(weights)
    return StatementOutcomes(*arrays, np.ones(len(isolates), np.int64), units.count)


def _find_lone_cells(view: VariableView) -> list[tuple[Positions, int]]:
    """The persons who satisfy each statement, and how many released records do."""
    known = view.shows_value()
    if not known.any():
        return []
    if isinstance(view, OrderedView):
        low, high = view.low()[known], view.high()[known]
        least, most = high.min(), low.max()
        return [
            (np.flatnonzero(view.persons <= least), int((high <= least).sum())),
            (np.flatnonzero(view.persons >= most), int((low >= most).sum())),
        ]
    (code,) = view.content()
    values, first, times = np.unique(code[known], return_index=True, return_counts=True)
    records = np.flatnonzero(known)[first]
    return [
        (np.flatnonzero(view.fits(int(record))), 1)
        for _, record, count in zip(values, records, times, strict=True)
        if count == 1
    ]


def _find_outer_ends(
    view: OrderedView, released: npt.NDArray[np.bool_], persons: npt.NDArray[np.bool_]
) -> list[tuple[Positions, int]]:
    """Whoever is just at the outermost ends of some records' ranges; nothing without ranges."""
    shown = released & view.shows_value()
    low, high = view.low()[shown], view.high()[shown]
    if not (low < high).any():
        return []
    return [
        (np.flatnonzero((view.persons == end) & persons), int((ends == end).sum()))
        for ends, end in ((low, low.min()), (high, high.max()))
    ]


def _list_categories(
    view: CategoricalView,
) -> Iterator[tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]]:
    """For each category that cells show by itself: the released records, and the persons."""
    levels = view.guess()
    categories = np.unique(levels[~np.isnan(levels)])
    if len(categories) <= _MOST_CATEGORIES:
        for level in categories.tolist():
            yield levels == level, view.persons == level


def try_gaps(
    view: OrderedView, most: int, units: Units, *, shifted: bool = False
) -> StatementOutcomes:
    """Statements that a value lies where no released cell of a variable does.

    Below all of them, above all of them, and in each gap between. The control (`shifted`) takes
    gaps of the same width that begin just above the value of anybody in the file.
    """
    rows = np.argsort(view.persons, kind="stable")[: int((~np.isnan(view.persons)).sum())]
    persons = view.persons[rows]
    shown = np.asarray(~view.cells.open)
    order = np.lexsort((view.cells.high[shown], view.cells.low[shown]))
    low = view.cells.low[shown][order]
    reach = np.maximum.accumulate(view.cells.high[shown][order])
    apart = np.flatnonzero(low[1:] > reach[:-1])
    starts = np.concatenate([[-np.inf], reach[apart], reach[-1:]])
    ends = np.concatenate([low[:1], low[1:][apart], [np.inf]])
    chosen = np.argsort(scatter_numbers(len(starts), _GAPS), kind="stable")[:most]
    starts, ends = starts[chosen], ends[chosen]
    if shifted:
        inner = np.isfinite(starts) & np.isfinite(ends)
        draws = scatter_numbers(len(starts), _GAPS + 1) % np.uint64(len(persons))
        ends = np.where(inner, persons[draws.astype(np.int64)] + (ends - starts), ends)
        starts = np.where(inner, persons[draws.astype(np.int64)], starts)
    first = np.searchsorted(persons, starts, "right")
    last = np.maximum(np.searchsorted(persons, ends, "left"), first)
    alone = [
        units.find_only(rows[begin:end])
        for begin, end in zip(first.tolist(), last.tolist(), strict=True)
    ]
    return StatementOutcomes(
        np.array(alone, np.intp),
        np.zeros(len(alone)),
        np.ones(len(alone), np.int64),
        units.count,
    )
