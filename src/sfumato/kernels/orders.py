"""An order that only the records' content decides, and draws that are the same each time.

Both look random and protect nothing: they make results the same whatever the order of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sfumato.kernels.arrays import Array, Floats, Positions, Words

_CELLS = 1 << 14
_SAMPLED, _MOST_PIECES, _CHUNK = 1 << 14, 255, 1 << 20
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


def cut_by_keys(keys: Sequence[Array], most: int) -> Iterator[Positions]:
    """Positions in pieces of at most so many, the pieces in the order of some keys.

    The first key counts most. A piece has more only where all keys are equal. Positions within a
    piece rise, whatever their keys: to sort each piece by itself is to sort all of them.

    Examples
    --------
    >>> keys = [np.array([7, 1, 7, 7, 2]), np.array([0, 0, 5, 0, 0])]
    >>> [piece.tolist() for piece in cut_by_keys(keys, 2)]
    [[1], [4], [0, 3], [2]]
    """
    yield from _cut(keys, most, None)


def _cut(keys: Sequence[Array], most: int, rows: Positions | None) -> Iterator[Positions]:
    count = len(keys[0]) if rows is None and keys else len(rows if rows is not None else ())
    if count <= most or not keys:
        yield np.arange(count) if rows is None else rows
        return
    key = keys[0] if rows is None else keys[0][rows]
    low, high = key.min(), key.max()
    if low == high:
        del key
        yield from _cut(keys[1:], most, np.arange(count) if rows is None else rows)
        return
    sampled = np.sort(key[:: max(1, count // _SAMPLED)])
    pieces = min(_MOST_PIECES, -(-2 * count // most))
    bounds = np.unique(sampled[np.arange(1, pieces) * len(sampled) // pieces])
    bounds = bounds[bounds > low]
    if not len(bounds):
        bounds = np.array([high])
    number = np.empty(count, np.uint8)
    for start in range(0, count, _CHUNK):
        some = slice(start, start + _CHUNK)
        number[some] = np.searchsorted(bounds, key[some], side="right")
    del key
    for piece in range(len(bounds) + 1):
        own = np.flatnonzero(number == piece)
        if len(own):
            yield from _cut(keys, most, own if rows is None else rows[own])


def sort_by_keys(keys: Sequence[Array]) -> Positions:
    """Positions in the order of some keys, the first of which tells nearly all apart.

    Examples
    --------
    >>> sort_by_keys([np.array([5, 9, 5, 1]), np.array([7, 0, 2, 0])]).tolist()
    [3, 2, 0, 1]
    """
    order = np.argsort(keys[0])
    known = keys[0][order]
    same = known[1:] == known[:-1]
    if same.any():
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        rows = order[tied]
        order[tied] = rows[np.lexsort((rows, *(key[rows] for key in keys[::-1])))]
    return order


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
