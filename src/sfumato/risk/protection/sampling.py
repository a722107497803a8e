"""A random sample of individuals, and an interval for all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.data import Dataset
from sfumato.kernels.arrays import Integers
from sfumato.randomness import Key, keyed_order

LEVEL = 0.95
_PURPOSE = b"sfumato sample of individuals, version 2\0"


def draw_individuals(data: Dataset, individuals: int) -> npt.NDArray[np.intp]:
    """The records drawn, without replacement, in ascending order.

    The sample follows from the records themselves and not from a seed, so nobody can draw again
    until a target is met. It need not be secret, but it must not depend on the order of rows.

    Examples
    --------
    >>> import polars as pl
    >>> data = Dataset(pl.DataFrame({"age": range(100)}))
    >>> len(draw_individuals(data, 10))
    10
    """
    key = _derive_key(data)
    return np.sort(keyed_order(data.identity.ids(key), key)[:individuals])


def draw_persons(data: Dataset, individuals: int) -> Integers:
    """The numbers of the persons drawn, in ascending order; see `draw_individuals`."""
    persons = data.identity.persons
    assert persons is not None  # noqa: S101 - the caller has looked
    present = np.unique(persons.numbers)
    order = keyed_order(persons.digests[present], _derive_key(data))
    return np.sort(present[order[:individuals]])


def _derive_key(data: Dataset) -> Key:
    return Key(hashlib.sha256(_PURPOSE + data.identity.total().encode()).digest())


def population_interval(
    successes: int, drawn: int, records: int, level: float = LEVEL
) -> tuple[int, int]:
    """How many of all records there may be if so many of those drawn are: least and most.

    Both tests of the hypergeometric distribution are inverted, each with half of what may go
    wrong: the counterpart of Clopper and Pearson's interval for finite populations. Exact.

    Examples
    --------
    >>> population_interval(0, 50, 100)
    (0, 5)
    >>> population_interval(30, 100, 100)
    (30, 30)
    """
    # Half of the error on either side, as Clopper and Pearson do.
    half = (1 - level) / 2

    def at_least(total: int) -> bool:
        return 1 - _add_up_to(successes - 1, records, total, drawn) > half

    def at_most(total: int) -> bool:
        return _add_up_to(successes, records, total, drawn) > half

    first, last = successes, records - (drawn - successes)
    least = _find_first(at_least, first, last)
    # The most is the last for which few enough are still plausible.
    most = _find_first(lambda total: not at_most(total), first, last + 1) - 1
    # However many were drawn, the next who was not may be one more: 0 takes all records.
    return least, max(most, min(successes + 1, last))


def _add_up_to(successes: int, records: int, total: int, drawn: int) -> float:
    """The hypergeometric chance of at most so many successes among those drawn.

    `scipy.stats` has it too, but takes a second to be imported.
    """
    from scipy.special import betaln

    def log_choose(among: Any, chosen: Any) -> Any:
        return -np.log1p(among) - betaln(among - chosen + 1, chosen + 1)

    counts = np.arange(max(0, drawn - (records - total)), min(total, drawn) + 1)
    logs = log_choose(total, counts) + log_choose(records - total, drawn - counts)
    chances = np.exp(logs - log_choose(records, drawn))
    below = int(np.searchsorted(counts, successes, "right"))
    # The shorter tail has the smaller error.
    return float(chances[:below].sum() if 2 * below < len(counts) else 1 - chances[below:].sum())


def _find_first(holds: Callable[[int], Any], low: int, high: int) -> int:
    """The first whole number from `low` on for which something holds, at most `high`."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
