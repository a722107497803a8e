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
from sfumato.kernels.fixed import content_order, scattered
from sfumato.progress import current_progress
from sfumato.risk._attacks.sights import Ordered, Sight

Form = Literal["cells", "tails"]
"""Whether ordered variables are taken as they stand, or as "this much or more (or less)"."""
_TARGETS, _ORDERS, _SHUFFLES = 11, 12, 13
_EACH = 1000
"""Statements between two words on how far it is."""


@dataclass(frozen=True, eq=False)
class Tried:
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
        chances = expected(self.weights, self.records)
        return float(np.sort(chances).sum()) / len(chances)


def expected(weights: Floats, records: int) -> Floats:
    """The chance that a statement of some weight holds for just one of so many records.

    Examples
    --------
    >>> expected(np.array([0.25]), 4).round(3).tolist()
    [0.422]
    """
    return records * weights * (1 - weights) ** (records - 1)


def order_of_records(seen: Sequence[Sight]) -> Positions:
    """The released records in an order that only their content decides."""
    return np.asarray(content_order(np.array([column for one in seen for column in one.content()])))


def conjunctions(seen: Sequence[Sight], form: Form, most: int, *, shuffled: bool = False) -> Tried:
    """Build a statement from each of some released records, and see whom it isolates.

    With `shuffled`, each variable is taken from another record: the statements then know what
    values there are, and nothing of any person.
    """
    order = order_of_records(seen)
    count = len(order)
    # For each variable, the record that stands at each place: the same one, or any other.
    held = np.tile(order, (len(seen), 1))
    if shuffled:
        for at in range(len(seen)):
            held[at] = order[np.argsort(scattered(count, _SHUFFLES + 64 * at), kind="stable")]
    places = np.argsort(scattered(count, _TARGETS), kind="stable")[:most]
    ways = [_way(one, form) for one in seen]
    isolates, weights, sizes = [], [], []
    say = current_progress()
    for done, place in enumerate(places.tolist()):
        # Each statement takes the variables in an order of its own.
        turn = np.argsort(scattered(len(seen), _ORDERS + 64 * place), kind="stable").tolist()
        whom, left, size = _grown(seen, ways, held, turn, place)
        isolates.append(whom)
        weights.append(left / count)
        sizes.append(size)
        if done % _EACH == 0:
            say("measuring statements", done, len(places))
    return Tried(np.array(isolates), np.array(weights), np.array(sizes), count)


Way = Callable[
    [int], tuple[npt.NDArray[np.bool_], Callable[[Positions], npt.NDArray[np.bool_]]] | None
]


def _grown(
    seen: Sequence[Sight],
    ways: Sequence[Way],
    held: npt.NDArray[np.intp],
    turn: Sequence[int],
    place: int,
) -> tuple[int, int, int]:
    """Whom the statement isolates, how many released records it holds for, and its variables."""
    alive = np.arange(held.shape[1])
    tests: list[Callable[[Positions], npt.NDArray[np.bool_]]] = []
    for at in turn:
        made = ways[at](int(held[at, place]))
        if made is None:
            continue
        alike, test = made
        alive = alive[alike[held[at, alive]]]
        tests.append(test)
        if len(alive) <= 1:
            break
    persons: Positions = np.arange(len(seen[0].persons))
    for test in tests:
        persons = persons[test(persons)]
    whom = int(persons[0]) if len(persons) == 1 and tests else -1
    return whom, len(alive), len(tests)


def _way(one: Sight, form: Form) -> Way:
    """How a released record becomes a part of a statement; nothing where it says nothing."""
    known = one.known()
    if form == "tails" and isinstance(one, Ordered):
        low, high = one.low(), one.high()
        guess = one.guess()
        middle = float(np.median(guess[~np.isnan(guess)])) if known.any() else 0.0

        def tail(record: int):  # type: ignore[no-untyped-def]
            if not known[record]:
                return None
            if guess[record] >= middle:
                end = low[record]
                return (low >= end) & known, lambda rows: one.persons[rows] >= end
            end = high[record]
            return (high <= end) & known, lambda rows: one.persons[rows] <= end

        return tail
    content = np.array(one.content())

    def cell(record: int):  # type: ignore[no-untyped-def]
        if not known[record]:
            return None
        alike = (content == content[:, record : record + 1]).all(axis=0)
        return alike, lambda rows: one.fits(record, rows, one.persons)

    return cell


def extremes(seen: Sequence[Sight]) -> Tried:
    """The statements of one variable that one released record at most satisfies.

    The least and the greatest of what is ordered, and every category that stands alone.
    """
    isolates, weights = [], []
    count = len(seen[0].persons)
    for one in seen:
        for rows, alone in _alone(one):
            isolates.append(int(rows[0]) if len(rows) == 1 else -1)
            weights.append(alone / count)
    made = np.array(isolates, np.intp), np.array(weights)
    return Tried(*made, np.ones(len(isolates), np.int64), count)


def _alone(one: Sight) -> list[tuple[Positions, int]]:
    """The persons who satisfy each statement, and how many released records do."""
    known = one.known()
    if not known.any():
        return []
    if isinstance(one, Ordered):
        low, high = one.low()[known], one.high()[known]
        least, most = high.min(), low.max()
        return [
            (np.flatnonzero(one.persons <= least), int((high <= least).sum())),
            (np.flatnonzero(one.persons >= most), int((low >= most).sum())),
        ]
    (code,) = one.content()
    values, first, times = np.unique(code[known], return_index=True, return_counts=True)
    every = np.arange(len(one.persons))
    records = np.flatnonzero(known)[first]
    return [
        (np.flatnonzero(one.fits(int(record), every, one.persons)), 1)
        for _, record, many in zip(values, records, times, strict=True)
        if many == 1
    ]
