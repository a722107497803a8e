"""How many people share a column of a map, and what they are like together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.kernels.arrays import AnyIntegers, Floats
from sfumato.risk._peers.groups_order import CLUSTERED, alike_together, at_or_below

__all__ = [
    "CLUSTERED",
    "AnyIntegers",
    "Column",
    "Floats",
    "alike_together",
    "at_or_below",
    "columns_of",
]


@dataclass(frozen=True, eq=False)
class Column:
    """Some people together: for each variable the share of them at or below p, the mean of others.

    The mean is NaN where there are no others.
    """

    people: int
    shares: Floats
    means: Floats


def columns_of(values: Floats, order: AnyIntegers, p: float, most: int) -> list[Column]:
    """Neighbours in the order put together into at most so many columns, as even as possible."""
    made = []
    for people in np.array_split(order, min(most, len(order))):
        some = values[people]
        low = at_or_below(some, p)
        shares = low.mean(axis=0)
        rest = np.where(low, 0.0, some).sum(axis=0)
        others = (~low).sum(axis=0)
        means = np.where(others > 0, rest / np.maximum(others, 1), np.nan)
        made.append(Column(len(people), shares, means))
    return made
