"""An attacker who shares no code with the log: exact fractions, every group of few people tried."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations


def reduce_rows(rows: Iterable[Sequence[int]]) -> list[list[Fraction]]:
    """The rows in reduced echelon form, by schoolbook elimination."""
    reduced: list[list[Fraction]] = []
    for row in rows:
        left = [Fraction(number) for number in row]
        for known in reduced:
            pivot = next(i for i, number in enumerate(known) if number)
            left = [a - left[pivot] * b for a, b in zip(left, known, strict=True)]
        if any(left):
            pivot = next(i for i, number in enumerate(left) if number)
            left = [number / left[pivot] for number in left]
            reduced = [
                [a - known[pivot] * b for a, b in zip(known, left, strict=True)]
                for known in reduced
            ]
            reduced.append(left)
    return reduced


def is_combination(target: Sequence[int], rows: Sequence[Sequence[int]]) -> bool:
    """Whether the target is a sum of the rows, with any factors."""
    return len(reduce_rows([*rows, target])) == len(reduce_rows(rows))


def list_known_groups(rows: Sequence[Sequence[int]], fewest: int) -> set[frozenset[int]]:
    """Groups of fewer people than that for which some combination of rows is 0 for all others.

    Without the people of a group the rows lose a dimension.
    """
    people = range(len(rows[0]) if rows else 0)
    rank = len(reduce_rows(rows))
    known = set()
    for size in range(1, fewest):
        for group in combinations(people, size):
            left = [[row[i] for i in people if i not in group] for row in rows]
            if len(reduce_rows(left)) < rank:
                known.add(frozenset(group))
    return known
