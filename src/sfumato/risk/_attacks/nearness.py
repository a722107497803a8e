"""The released records nearest to persons, by numbers, categories and ranges together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import Floats, Positions
from sfumato.kernels.fixed import content_order, scattered
from sfumato.progress import current_progress
from sfumato.risk._attacks.sights import Sight

_AT_ONCE = 1 << 21
"""Distances held at a time: 16 MB."""
_STREAM = 9
_ALIKE = 1 + 1e-9
"""Distances that differ by no more than this factor differ by rounding."""


def picked(seen: Sequence[Sight], most: int) -> Positions:
    """At most so many records, without pattern, and the same whatever the order of the records."""
    columns = [column for one in seen for column in (one.persons, *one.content())]
    order = content_order(np.array([np.nan_to_num(column, nan=0.5) for column in columns]))
    if len(order) <= most:
        return np.asarray(order)
    return np.asarray(order[np.argsort(scattered(len(order), _STREAM), kind="stable")[:most]])


def costs(
    seen: Sequence[Sight], persons: Sequence[Floats], rows: Positions, *, what: str
) -> Iterator[tuple[Positions, Floats]]:
    """For some persons at a time, how far each released record is from each of them.

    `persons` holds the values of the persons, a column per variable seen.
    """
    say = current_progress()
    released = len(seen[0].known())
    step = max(1, _AT_ONCE // max(released, 1))
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        total = np.zeros((len(some), released))
        for one, values in zip(seen, persons, strict=True):
            total += one.costs(values[some])
        say(what, start + len(some), len(rows))
        yield some, total


def as_near(distance: Floats, limit: Any) -> npt.NDArray[np.bool_]:
    """Which distances are no larger than a limit, but for rounding."""
    return np.asarray(distance <= limit * _ALIKE)
