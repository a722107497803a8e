"""A long whole number to which doubles are added without rounding: compiled part of exact sums.

Neal (2015), "Fast exact summation using small and large superaccumulators", section 2.
"""

from __future__ import annotations

import numpy as np

from sfumato.kernels.compiled import compiled, inner, run_in_python

WIDTH = 32
"""Bits between one digit of the accumulator and the next."""
_DIGITS = 68
"""Enough digits for every exponent a double can have, and the carries above."""
LOWEST = -1074
"""The exponent of the smallest double."""
_BEFORE_CARRY = 1 << 29
"""Terms a digit can take before it must hand on its carry: each adds less than 2^33."""


@compiled(small=1 << 12)
def accumulate(values):  # type: ignore[no-untyped-def]
    """The digits of the exact sum of the values."""
    digits = np.zeros(_DIGITS, np.int64)
    bits = values.view(np.int64)
    waiting = 0
    for i in range(len(bits)):
        word = bits[i]
        exponent = (word >> 52) & 0x7FF
        mantissa = word & 0xFFFFFFFFFFFFF
        if exponent:
            mantissa |= 0x10000000000000
            exponent -= 1
        # The value is mantissa * 2^(exponent + LOWEST); cut where the digits meet.
        digit, shift = exponent >> 5, exponent & 31
        low = (mantissa << shift) & 0xFFFFFFFF
        middle = (mantissa >> (WIDTH - shift)) & 0xFFFFFFFF
        high = mantissa >> (2 * WIDTH - shift) if shift > 11 else 0  # noqa: PLR2004 - 64 - 53 bits
        if word < 0:
            low, middle, high = -low, -middle, -high
        digits[digit] += low
        digits[digit + 1] += middle
        digits[digit + 2] += high
        waiting += 1
        if waiting == _BEFORE_CARRY:
            _carry(digits)
            waiting = 0
    _carry(digits)
    return digits


@inner
def _carry(digits):  # type: ignore[no-untyped-def]
    """Bring every digit below 2^32 by handing the rest to the next; the last keeps the sign."""
    for digit in range(len(digits) - 1):
        over = digits[digit] >> WIDTH
        digits[digit + 1] += over
        digits[digit] -= over << WIDTH


carry_in_python = run_in_python(_carry)
