"""An order that only the records' content decides, and draws that are the same each time.

Both look random and protect nothing: they make results the same whatever the order of the rows.
"""

from __future__ import annotations

import numpy as np

from sfumato.kernels.arrays import Floats, Positions, Words

_CELLS = 1 << 14
_SHIFT = 0.381966011250105
"""No whole or half number, so that values on a regular grid keep off the edges of the cells."""


def order_by_content(values: Floats) -> Positions:
    """Records in an order that follows from their values alone; a row per variable.

    They are sorted by a 64-bit digest of all their values, so neighbours have nothing else in
    common. Records left in a tie are equal (or share a digest, once in 10 million data sets of a
    million records); they stay in the order they have.

    Examples
    --------
    >>> values = np.array([[2.0, 1.0, 1.0], [1.0, 5.0, 4.0]])
    >>> turned = values[:, ::-1]
    >>> np.array_equal(values[:, order_by_content(values)], turned[:, order_by_content(turned)])
    True
    """
    digest = np.zeros(values.shape[1], np.uint64)
    for row in values:
        digest ^= (row + 0.0).view(np.uint64)  # so that 0 and -0 are the same
        digest = _mix(digest)
    return np.argsort(digest, kind="stable")


def order_by_cell(scaled: Floats) -> Positions:
    """The same, but changes in the last digits of the values leave the order as it is.

    `scaled` has a row per variable, about 0 and about 1 wide. Records are sorted by the cell of a
    grid that they lie in. Those of one cell are scattered too: equal records are no neighbours.

    Examples
    --------
    >>> values = np.array([[0.1, 0.7, -2.0], [1.0, 0.3, 0.5]])
    >>> np.array_equal(order_by_cell(values), order_by_cell(values * (1 + 1e-14)))
    True
    """
    digest = np.zeros(scaled.shape[1], np.uint64)
    for row in scaled:
        # Far out the cells are wider, so that a share of any value stays small beside them.
        cell = np.floor(row / (1 + np.abs(row)) * _CELLS + _SHIFT)
        digest = _mix(digest ^ cell.astype(np.int64).view(np.uint64))
    order = np.argsort(digest)
    known = digest[order]
    same = known[1:] == known[:-1]
    if not same.any():
        return order
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    rows = order[tied]
    # By their sum first: it tells records of a cell apart, even if some variables are equal.
    within = np.take(scaled, rows, axis=1)
    order[tied] = rows[np.lexsort((*within, within.sum(axis=0), digest[rows]))]
    first = np.flatnonzero(np.append(True, ~same))
    position = np.arange(len(order)) - np.repeat(first, np.diff(first, append=len(order)))
    return order[np.argsort(_mix(known + position.astype(np.uint64)))]


def scatter_numbers(count: int, stream: int) -> Words:
    """So many numbers without pattern, the same each time."""
    return _mix(np.arange(count, dtype=np.uint64) + np.uint64(stream << 40))


def _mix(words: Words) -> Words:
    """One round of SplitMix64: every bit of the result depends on every bit of the word."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words ^= words >> np.uint64(30)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words
