"""Peers who are persons with several rows: each of them counts once, by the row that is worst."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.kernels.arrays import AnyIntegers, Floats, Integers

if TYPE_CHECKING:
    from sfumato.kernels.lattice.matches import Matches


@dataclass(frozen=True, eq=False)
class PersonMembers:
    """The distinct rows of each person.

    Parameters
    ----------
    numbers : the persons, in rising order.
    rows : the distinct rows of each, one person after the other.
    starts : where each person begins among these; the end stands last.
    """

    numbers: Integers
    rows: Integers
    starts: Integers

    @classmethod
    def of(cls, persons: AnyIntegers, row_of: AnyIntegers) -> PersonMembers:
        """From the person and the distinct row of each record."""
        width = int(row_of.max()) + 1
        person, row = np.divmod(np.unique(persons * np.int64(width) + row_of), width)
        numbers, first = np.unique(person, return_index=True)
        return cls(numbers, row, np.append(first, len(person)))

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def of_pair(self) -> Integers:
        """The position of each pair's person."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def select(self, positions: Integers) -> PersonMembers:
        """Some of the persons."""
        sizes = np.diff(self.starts)[positions]
        ends = np.concatenate([[0], np.cumsum(sizes)])
        members = np.repeat(self.starts[positions] - ends[:-1], sizes) + np.arange(ends[-1])
        return PersonMembers(self.numbers[positions], self.rows[members], ends)


def keep_worst_rows(matches: Matches, members: PersonMembers) -> Matches:
    """What protects each person, given what protects each of their rows.

    The least share over all combinations, and the combination, are those of the row with the least
    one; so are peers with everything known. The smallest combination that breaches any row
    breaches the person.

    Parameters
    ----------
    matches : of the target rows, among which all rows of these persons are.
    members : the persons.
    """
    position = np.searchsorted(matches.targets, members.rows)
    person, starts = members.of_pair, members.starts[:-1]

    def sort_first(*keys: AnyIntegers | Floats) -> Integers:
        """The pair of each person that comes first in the order of some keys."""
        return np.lexsort((*reversed(keys), person))[starts]

    worst: dict[str, list[AnyIntegers]] = {}

    def keep(variable: int, pairs: Integers, *names: str) -> None:
        for name in names:
            values = getattr(matches, name)[variable][position[pairs]]
            worst.setdefault(name, []).append(values)

    for variable in range(len(matches.sensitive)):
        top, peers, same, others, least, least_mask, breach, breach_size, fewest, left = (
            getattr(matches, name)[variable][position]
            for name in (
                "ppp", "peers", "same", "alternatives", "least_ppp", "least_mask", "breach_mask",
                "breach_size", "fewest_protective", "fewest_alternatives",
            )
        )  # fmt: skip
        # Rows are numbered in no order, so of equal shares the fewest peers decide.
        keep(
            variable, sort_first(top, peers - same, peers, others), "peers", "same", "alternatives"
        )
        keep(
            variable,
            sort_first(least, np.bitwise_count(least_mask), least_mask),
            "least_protective", "least_peers", "least_mask",
        )  # fmt: skip
        keep(variable, sort_first(breach == 0, breach_size, breach), "breach_mask", "breach_size")
        keep(variable, sort_first(fewest, left), "fewest_protective", "fewest_alternatives")
    stacked: dict[str, Any] = {name: np.stack(arrays) for name, arrays in worst.items()}
    return replace(
        matches,
        **stacked,
        targets=members.numbers,
        exact=np.logical_and.reduceat(matches.exact[position], starts),
    )
