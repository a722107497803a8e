"""An attacker who shares no code with the one in the package: other unknowns, other arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from scipy.optimize import linprog


def margin_rows(sizes: tuple[int, ...]) -> list[np.ndarray]:
    """For each cell of the table, margins among them, which inner cells it adds up."""
    found = []
    for place in product(*(range(size + 1) for size in sizes)):
        mask = np.ones(sizes, bool)
        for axis, (at, size) in enumerate(zip(place, sizes, strict=True)):
            if at < size:
                keep = np.zeros(size, bool)
                keep[at] = True
                mask &= keep.reshape([-1 if axis == other else 1 for other in range(len(sizes))])
        found.append(mask.ravel().astype(float))
    return found


def linear(
    sizes: tuple[int, ...],
    shown: np.ndarray,
    *,
    nonnegative: bool = True,
    only: np.ndarray | None = None,
) -> dict[int, tuple[float, float]]:
    """The interval of each hidden cell: the unknowns are the inner cells, all of them."""
    rows = margin_rows(sizes)
    seen = [at for at in range(len(rows)) if not np.isnan(shown[at])]
    matrix, right = np.array([rows[at] for at in seen]), shown[seen]
    bounds = (0, None) if nonnegative else (None, None)
    found = {}
    for at in np.flatnonzero(np.isnan(shown) if only is None else only):
        ends = []
        for sign in (1, -1):
            told = linprog(sign * rows[at], A_eq=matrix, b_eq=right, bounds=bounds)
            assert told.status in (0, 3)
            ends.append(sign * told.fun if told.status == 0 else -sign * np.inf)
        found[int(at)] = (ends[0], ends[1])
    return found


def whole(sizes: tuple[int, ...], shown: np.ndarray) -> dict[int, tuple[int, int]]:
    """The same by trying every table of whole numbers that has the cells shown."""
    rows = [row.astype(int) for row in margin_rows(sizes)]
    hidden = np.flatnonzero(np.isnan(shown))
    found: dict[int, tuple[int, int]] = {}
    for table in _tables(sizes, rows, shown):
        for at in hidden:
            value = int(rows[at] @ table)
            low, high = found.get(int(at), (value, value))
            found[int(at)] = min(low, value), max(high, value)
    return found


def _tables(
    sizes: tuple[int, ...], rows: list[np.ndarray], shown: np.ndarray
) -> Iterator[np.ndarray]:
    count = int(np.prod(sizes))
    known = [(row, int(shown[at])) for at, row in enumerate(rows) if not np.isnan(shown[at])]
    table = np.zeros(count, int)

    def fill(at: int) -> Iterator[np.ndarray]:
        if at == count:
            if all(int(row @ table) == value for row, value in known):
                yield table
            return
        mine = [(row, value) for row, value in known if row[at]]
        most = min(value - int(row[:at] @ table[:at]) for row, value in mine)
        least = 0
        for row, value in mine:
            if not row[at + 1 :].any():  # the last of its sum: nothing is left to choose
                least = max(least, value - int(row[:at] @ table[:at]))
        for value in range(least, most + 1):
            table[at] = value
            yield from fill(at + 1)
        table[at] = 0

    yield from fill(0)
