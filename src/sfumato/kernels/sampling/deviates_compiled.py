"""The same steps as in `deviates`, compiled: the same bits in half the time, for many numbers.

They are the same because nothing but + - * / and the square root is used, one after the other. The
file is apart so that few numbers can be drawn without loading the compiler.
"""

from __future__ import annotations

import math

from numba import njit

from sfumato.kernels.arrays import Floats
from sfumato.kernels.sampling.deviates import (
    CENTRE,
    FAR_SHIFT,
    FAR_TAIL,
    LN2_HIGH,
    LN2_LOW,
    LOG,
    MIDDLE_SQUARE,
    ROOT_HALF,
    TAIL,
    TAIL_SHIFT,
)

_MIDDLE, _TERMS = 0.5, 8


@njit(cache=True, nogil=True)
def _polynomial(x, coefficients):  # type: ignore[no-untyped-def]
    value = x * coefficients[0] + coefficients[1]
    for power in range(2, _TERMS):
        value = value * x + coefficients[power]
    return value


@njit(cache=True, nogil=True)
def _log(x):  # type: ignore[no-untyped-def]
    fraction, exponent = math.frexp(x)
    power = float(exponent)
    if fraction < ROOT_HALF:
        fraction *= 2.0
        power -= 1.0
    fraction -= 1.0
    ratio = fraction / (fraction + 2.0)
    half = fraction * fraction * 0.5
    series = (_polynomial(ratio * ratio, LOG) + half) * ratio + power * LN2_LOW
    return power * LN2_HIGH - (half - series - fraction)


@njit(cache=True, nogil=True)
def _tail_quantile(smaller):  # type: ignore[no-untyped-def]
    root = math.sqrt(-_log(smaller))
    if root > FAR_SHIFT:
        x = root - FAR_SHIFT
        return _polynomial(x, FAR_TAIL[0]) / _polynomial(x, FAR_TAIL[1])
    x = root - TAIL_SHIFT
    return _polynomial(x, TAIL[0]) / _polynomial(x, TAIL[1])


@njit(cache=True, nogil=True)
def fill_normal(uniform: Floats, out: Floats) -> None:
    """Standard normal numbers into `out`, which may be the uniform numbers themselves."""
    for i in range(len(uniform)):
        p = uniform[i]
        from_middle = p - _MIDDLE
        square = MIDDLE_SQUARE - from_middle * from_middle
        if square >= 0:
            ratio = _polynomial(square, CENTRE[0]) / _polynomial(square, CENTRE[1])
            out[i] = ratio * from_middle
        else:
            out[i] = math.copysign(_tail_quantile(min(p, 1.0 - p)), from_middle)


@njit(cache=True, nogil=True)
def fill_exponential(uniform: Floats, out: Floats) -> None:
    """Exponential numbers of mean 1 into `out`."""
    for i in range(len(uniform)):
        out[i] = -_log(uniform[i])
