"""Statements built from a release that may hold for one person only, and whom they hold for.

A statement is a conjunction: it takes one variable after the other from a released record, until
no other released record satisfies it. Nobody needs to know a person for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import Floats, Positions
from sfumato.kernels.orders import order_by_content, scatter_numbers
from sfumato.progress import current_progress
from sfumato.risk._attacks.attacker_view import OrderedView, VariableView

Form = Literal["cells", "tails"]
"""Whether ordered variables are taken as they stand, or as "this much or more (or less)"."""
_TARGETS, _ORDERS, _SHUFFLES = 11, 12, 13
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


def try_conjunctions(
    views: Sequence[VariableView], form: Form, most: int, *, shuffled: bool = False
) -> StatementOutcomes:
    """Build a statement from each of some released records, and see whom it isolates.

    With `shuffled`, each variable is taken from another record: the statements then know what
    values there are, and nothing of any person.
    """
    order = order_records(views)
    count = len(order)
    # For each variable, the record that stands at each place: the same one, or any other.
    sources = np.tile(order, (len(views), 1))
    if shuffled:
        for index in range(len(views)):
            sources[index] = order[
                np.argsort(scatter_numbers(count, _SHUFFLES + 64 * index), kind="stable")
            ]
    positions = np.argsort(scatter_numbers(count, _TARGETS), kind="stable")[:most]
    tests = [_choose_test(view, form) for view in views]
    isolates, weights, sizes = [], [], []
    report = current_progress()
    for done, position in enumerate(positions.tolist()):
        # Each statement takes the variables in an order of its own.
        sequence = np.argsort(
            scatter_numbers(len(views), _ORDERS + 64 * position), kind="stable"
        ).tolist()
        whom, remaining, size = _grow_statement(views, tests, sources, sequence, position)
        isolates.append(whom)
        weights.append(remaining / count)
        sizes.append(size)
        if done % _EACH == 0:
            report("measuring statements", done, len(positions))
    return StatementOutcomes(np.array(isolates), np.array(weights), np.array(sizes), count)


CellTest = Callable[
    [int], tuple[npt.NDArray[np.bool_], Callable[[Positions], npt.NDArray[np.bool_]]] | None
]


def _grow_statement(
    views: Sequence[VariableView],
    builders: Sequence[CellTest],
    sources: npt.NDArray[np.intp],
    sequence: Sequence[int],
    position: int,
) -> tuple[int, int, int]:
    """Whom the statement isolates, how many released records it holds for, and its variables."""
    matching = np.arange(sources.shape[1])
    tests: list[Callable[[Positions], npt.NDArray[np.bool_]]] = []
    for index in sequence:
        part = builders[index](int(sources[index, position]))
        if part is None:
            continue
        alike, test = part
        matching = matching[alike[sources[index, matching]]]
        tests.append(test)
        # Narrow enough: a further variable could only lose the person.
        if len(matching) <= 1:
            break
    persons: Positions = np.arange(len(views[0].persons))
    for test in tests:
        persons = persons[test(persons)]
    whom = int(persons[0]) if len(persons) == 1 and tests else -1
    return whom, len(matching), len(tests)


def _choose_test(view: VariableView, form: Form) -> CellTest:
    """How a released record becomes a part of a statement; nothing where it says nothing."""
    known = view.shows_value()
    if form == "tails" and isinstance(view, OrderedView):
        low, high = view.low(), view.high()
        guess = view.guess()
        middle = float(np.median(guess[~np.isnan(guess)])) if known.any() else 0.0

        def tail(record: int):  # type: ignore[no-untyped-def]
            if not known[record]:
                return None
            if guess[record] >= middle:
                end = low[record]
                return (low >= end) & known, lambda rows: view.persons[rows] >= end
            end = high[record]
            return (high <= end) & known, lambda rows: view.persons[rows] <= end

        return tail
    content = np.array(view.content())

    def cell(record: int):  # type: ignore[no-untyped-def]
        if not known[record]:
            return None
        alike = (content == content[:, record : record + 1]).all(axis=0)
        return alike, lambda rows: view.fits(record, rows, view.persons)

    return cell


def try_extremes(views: Sequence[VariableView]) -> StatementOutcomes:
    """The statements of one variable that one released record at most satisfies.

    The least and the greatest of what is ordered, and every category that stands alone.
    """
    isolates, weights = [], []
    count = len(views[0].persons)
    for view in views:
        for rows, alone in _find_lone_cells(view):
            isolates.append(int(rows[0]) if len(rows) == 1 else -1)
            weights.append(alone / count)
    arrays = np.array(isolates, np.intp), np.array(weights)
    return StatementOutcomes(*arrays, np.ones(len(isolates), np.int64), count)


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
    everybody = np.arange(len(view.persons))
    records = np.flatnonzero(known)[first]
    return [
        (np.flatnonzero(view.fits(int(record), everybody, view.persons)), 1)
        for _, record, count in zip(values, records, times, strict=True)
        if count == 1
    ]
