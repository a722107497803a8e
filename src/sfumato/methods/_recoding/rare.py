"""Values of few records are joined until each group has enough."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

from sfumato.cells.notation import range_of


def rising(texts: Iterable[str]) -> list[str] | None:
    """Whole numbers in rising order; None where a text is no whole number.

    Examples
    --------
    >>> rising(["10", "9", "-1"]), rising(["10", "1.5"])
    (['-1', '9', '10'], None)
    """
    try:
        return sorted(texts, key=lambda one: (int(one), one))
    except ValueError:
        return None  # what it says quotes a cell


def joined_rare(counts: Mapping[str, int], fewest: int, other: str) -> dict[str, str]:
    """The values that become `other`: the rare ones, and the next rarest until it holds.

    Examples
    --------
    >>> joined_rare({"a": 9, "b": 5, "c": 1}, 3, "other")
    {'b': 'other', 'c': 'other'}
    """
    rest = sorted((count, value) for value, count in counts.items() if value != other)
    held = counts.get(other, 0)
    joined: list[str] = []
    for count, value in rest:
        # One that exists already and is too small is filled up as well.
        if count >= fewest and (held >= fewest or not (held or joined)):
            break
        joined.append(value)
        held += count
    return dict.fromkeys(sorted(joined), other)


def joined_neighbours(
    order: Sequence[str], counts: Mapping[str, int], fewest: int, name: str
) -> dict[str, str]:
    """What each value becomes when the smallest group joins its smaller neighbour, and again.

    Examples
    --------
    >>> joined_neighbours(["0", "1", "2", "3"], {"0": 9, "1": 5, "2": 2, "3": 1}, 3, "children")
    {'0': '0', '1': '1', '2': '[2;3]', '3': '[2;3]'}
    """
    last = {at: at for at in range(len(order))}  # each group by its first place
    before = {at: at - 1 for at in range(len(order))}
    sizes = {at: counts[value] for at, value in enumerate(order)}
    small = [(size, at) for at, size in sizes.items() if size < fewest]
    heapq.heapify(small)
    while small and len(sizes) > 1:
        size, at = heapq.heappop(small)
        if sizes.get(at) != size:
            continue  # it has grown, or is part of another
        after = last[at] + 1
        sides = [one for one in (before[at], after) if one in sizes]
        other = min(sides, key=lambda one: (sizes[one], one))
        first, second = min(at, other), max(at, other)
        sizes[first] += sizes.pop(second)
        last[first] = last[second]
        if last[first] + 1 in sizes:
            before[last[first] + 1] = first
        if sizes[first] < fewest:
            heapq.heappush(small, (sizes[first], first))
    made: dict[str, str] = {}
    for first in sorted(sizes):
        inside = order[first : last[first] + 1]
        whole = inside[0] if len(inside) == 1 else range_of(inside[0], inside[-1], name)
        made |= dict.fromkeys(inside, whole)
    return made
