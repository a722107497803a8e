"""Exact sums: the same to the last bit, whatever the order of the values."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

_WIDTH = 32
"""Bits between one digit of the accumulator and the next."""
_DIGITS = 68
"""Enough digits for every exponent a double can have, and the carries above."""
_LOWEST = -1074
"""The exponent of the smallest double."""
_BEFORE_CARRY = 1 << 29
"""Terms a digit can take before it must hand on its carry: each adds less than 2^33."""


def exact_parts(values: npt.NDArray[np.float64]) -> list[float]:
    """A few floats whose exact sum is the exact sum of the values, which must be finite.

    Every value is added, without rounding, to a long whole number kept in digits of 32 bits
    (Neal 2015, "Fast exact summation using small and large superaccumulators").

    Examples
    --------
    >>> import math
    >>> math.fsum(exact_parts(np.array([1e100, 1.0, -1e100])))
    1.0
    """
    digits = _accumulated(np.ascontiguousarray(values))
    sign = 1.0
    if digits[-1] < 0:  # a negative total: its digits would borrow from beyond the largest double
        digits, sign = -digits, -1.0
        _carry(digits)
    found = np.flatnonzero(digits)
    with np.errstate(over="ignore"):
        parts = np.ldexp(sign * digits[found], _WIDTH * found + _LOWEST)
    return [float(part) for part in parts]


@njit(cache=True, nogil=True)
def _accumulated(values):  # type: ignore[no-untyped-def]
    digits = np.zeros(_DIGITS, np.int64)
    bits = values.view(np.int64)
    waiting = 0
    for at in range(len(bits)):
        word = bits[at]
        exponent = (word >> 52) & 0x7FF
        mantissa = word & 0xFFFFFFFFFFFFF
        if exponent:
            mantissa |= 0x10000000000000
            exponent -= 1
        # The value is mantissa * 2^(exponent + _LOWEST); cut where the digits meet.
        place, shift = exponent >> 5, exponent & 31
        low = (mantissa << shift) & 0xFFFFFFFF
        middle = (mantissa >> (_WIDTH - shift)) & 0xFFFFFFFF
        high = mantissa >> (2 * _WIDTH - shift) if shift > 11 else 0  # noqa: PLR2004 - 64 - 53 bits
        if word < 0:
            low, middle, high = -low, -middle, -high
        digits[place] += low
        digits[place + 1] += middle
        digits[place + 2] += high
        waiting += 1
        if waiting == _BEFORE_CARRY:
            _carry(digits)
            waiting = 0
    _carry(digits)
    return digits


@njit(cache=True, nogil=True)
def _carry(digits):  # type: ignore[no-untyped-def]
    """Bring every digit below 2^32 by handing the rest to the next; the last keeps the sign."""
    for at in range(len(digits) - 1):
        over = digits[at] >> _WIDTH
        digits[at + 1] += over
        digits[at] -= over << _WIDTH
