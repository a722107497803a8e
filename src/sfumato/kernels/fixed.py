"""An order that only the records' content decides, and draws that are the same each time.

Both look random and protect nothing: they make results the same whatever the order of the rows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Words = npt.NDArray[np.uint64]


def content_order(values: Numbers) -> Rows:
    """Records in an order that follows from their values alone; a row per variable.

    They are sorted by a 64-bit digest of all their values, so neighbours have nothing else in
    common. Records left in a tie are equal (or share a digest, once in 10 million data sets of a
    million records).

    Examples
    --------
    >>> values = np.array([[2.0, 1.0, 1.0], [1.0, 5.0, 4.0]])
    >>> turned = values[:, ::-1]
    >>> np.array_equal(values[:, content_order(values)], turned[:, content_order(turned)])
    True
    """
    digest = np.zeros(values.shape[1], np.uint64)
    for row in values:
        digest ^= (row + 0.0).view(np.uint64)  # so that 0 and -0 are the same
        digest = _mixed(digest)
    return np.argsort(digest)


def scattered(count: int, stream: int) -> Words:
    """So many numbers without pattern, the same each time."""
    return _mixed(np.arange(count, dtype=np.uint64) + np.uint64(stream << 40))


def _mixed(words: Words) -> Words:
    """One round of SplitMix64: every bit of the result depends on every bit of the word."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words ^= words >> np.uint64(30)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words
