"""The same steps as in `brownian`, compiled: the same bits, for many records.

They are the same because nothing but + - * / and the square root is used, one after the other. The
file is apart so that few numbers can be drawn without loading the compiler.

Random blocks come as signed words, since the compiler makes fractions of signed with unsigned. A
place that all records share is an array of one, at which every record looks.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from sfumato.kernels.arrays import Floats, Integers
from sfumato.kernels.sampling.brownian import (
    BITS,
    DEGREE,
    DEPTH,
    DEVIATIONS,
    EDGES,
    FIRST,
    MANTISSA,
    PASSES,
    QUANTILES,
    ROOT_BLOCK,
    ROOT_CARRY,
    SHARES,
)

_LAST = PASSES - 1
_MASK = (1 << MANTISSA) - 1
_ALL = (1 << BITS) - 1
_LOW = (1 << 22) - 1
_TAIL_UNIT, _PART_UNIT = 2.0**-BITS, 2.0**-MANTISSA


@njit(cache=True, nogil=True)
def _draw_normal(bits):  # type: ignore[no-untyped-def]
    number = np.float64((float(bits >> 1) + 0.5) * _TAIL_UNIT).view(np.int64)
    # Unsigned, so that the compiler does not ask whether to count from the end.
    part = np.uint64((number >> MANTISSA) - FIRST)
    t = float(number & _MASK) * _PART_UNIT
    size = QUANTILES[part, np.uint64(DEGREE)]
    for power in range(DEGREE - 1, -1, -1):
        size = size * t + QUANTILES[part, np.uint64(power)]
    return size if bits & 1 else -size


@njit(cache=True, nogil=True)
def _take_bits(words, row, slot):  # type: ignore[no-untyped-def]
    if slot < 2:  # noqa: PLR2004 - the first two are the high bits of either word
        return (words[row, slot] >> 22) & _ALL
    return (words[row, 0] & _LOW) << 20 | (words[row, 1] & _LOW) >> 2


@njit(cache=True, nogil=True)
def mix(ids: Integers, values: Integers, tweaks: Integers, out: Integers) -> None:
    """The blocks to encrypt: record, value and place on the path."""
    step = 1 if len(tweaks) > 1 else 0
    for i in range(len(values)):
        out[i, 0] = ids[i, 0] ^ values[i]
        out[i, 1] = ids[i, 1] ^ tweaks[i * step]


@njit(cache=True, nogil=True)
def begin(block: Integers, first: Integers, second: Integers, low: Floats, high: Floats) -> None:
    """See `brownian.begin`."""
    step = 1 if len(block) > 1 else 0
    for i in range(len(low)):
        odd = block[i * step] & 1
        two_below = _draw_normal(_take_bits(first, i, odd))
        below = _draw_normal(_take_bits(second, i, 0) if odd else _take_bits(first, i, 1))
        here = _draw_normal(_take_bits(second, i, odd))
        start = two_below * ROOT_CARRY + below
        low[i] = start
        high[i] = start + here * ROOT_BLOCK


@njit(cache=True, nogil=True)
def halve(cell: Integers, number: int, words: Integers, low: Floats, high: Floats) -> None:
    """See `brownian.halve`, for all passes but the last."""
    step = 1 if len(cell) > 1 else 0
    for i in range(len(low)):
        at_cell = cell[i * step]
        node = (1 << 2 * number) + (at_cell >> (DEPTH - 2 * number))
        bit = (at_cell >> (DEPTH - 1 - 2 * number)) & 1
        deviate = _draw_normal(_take_bits(words, i, 0))
        a, b = low[i], high[i]
        middle = a + (b - a) * SHARES[np.uint64(node)] + DEVIATIONS[np.uint64(node)] * deviate
        if bit:
            a = middle
        else:
            b = middle
        deviate = _draw_normal(_take_bits(words, i, 1 + bit))
        node = 2 * node + bit
        middle = a + (b - a) * SHARES[np.uint64(node)] + DEVIATIONS[np.uint64(node)] * deviate
        if (at_cell >> (DEPTH - 2 - 2 * number)) & 1:
            a = middle
        else:
            b = middle
        low[i] = a
        high[i] = b


@njit(cache=True, nogil=True)
def finish(
    cell: Integers,
    beyond: Floats,
    unit: Floats,
    words: Integers,
    low: Floats,
    high: Floats,
    out: Floats,
) -> None:
    """The last pass: the last halving, and the path itself."""
    step = 1 if len(cell) > 1 else 0
    for i in range(len(low)):
        at_cell = cell[i * step]
        node = np.uint64((1 << 2 * _LAST) + (at_cell >> (DEPTH - 2 * _LAST)))
        bit = at_cell & 1
        a, b = low[i], high[i]
        middle = (
            a + (b - a) * SHARES[node] + DEVIATIONS[node] * _draw_normal(_take_bits(words, i, 0))
        )
        if bit:
            a = middle
        else:
            b = middle
        width = EDGES[np.uint64(at_cell + 1)] - EDGES[np.uint64(at_cell)]
        above = beyond[i * step]
        spread = math.sqrt(above * ((width - above) / width))
        deviate = _draw_normal(_take_bits(words, i, 1 + bit))
        out[i] = (a + (b - a) * (above / width) + spread * deviate) * unit[i * step]
