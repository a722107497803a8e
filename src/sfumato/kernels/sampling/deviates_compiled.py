"""The same steps as in `deviates`, compiled: the same bits in half the time, for many numbers.

They are the same because nothing but + - * / and the square root is used, one after the other.
"""

from __future__ import annotations

import math

from numba import njit

from sfumato.kernels.arrays import Floats
from sfumato.kernels.sampling.deviates import (
    CENTRE,
    FAR_TAIL,
    LN2_HIGH,
    LN2_LOW,
    LOG,
    ROOT_HALF,
    TAIL,
)

_SIDE, _MIDDLE_SQUARE, _NEAR, _FAR, _TERMS = 0.5, 0.180625, 1.6, 5.0, 8


@njit(cache=True, nogil=True)
def _polynomial(x, factors):  # type: ignore[no-untyped-def]
    made = x * factors[0] + factors[1]
    for at in range(2, _TERMS):
        made = made * x + factors[at]
    return made


@njit(cache=True, nogil=True)
def _log(x):  # type: ignore[no-untyped-def]
    rest, whole = math.frexp(x)
    power = float(whole)
    if rest < ROOT_HALF:
        rest *= 2.0
        power -= 1.0
    rest -= 1.0
    share = rest / (rest + 2.0)
    half = rest * rest * 0.5
    series = (_polynomial(share * share, LOG) + half) * share + power * LN2_LOW
    return power * LN2_HIGH - (half - series - rest)


@njit(cache=True, nogil=True)
def _tail(inside):  # type: ignore[no-untyped-def]
    root = math.sqrt(-_log(inside))
    if root > _FAR:
        return _polynomial(root - _FAR, FAR_TAIL[0]) / _polynomial(root - _FAR, FAR_TAIL[1])
    return _polynomial(root - _NEAR, TAIL[0]) / _polynomial(root - _NEAR, TAIL[1])


@njit(cache=True, nogil=True)
def normal(uniform: Floats, out: Floats) -> None:
    """Standard normal numbers into `out`, which may be the uniform numbers themselves."""
    for at in range(len(uniform)):
        one = uniform[at]
        from_middle = one - _SIDE
        square = _MIDDLE_SQUARE - from_middle * from_middle
        if square >= 0:
            ratio = _polynomial(square, CENTRE[0]) / _polynomial(square, CENTRE[1])
            out[at] = ratio * from_middle
        else:
            out[at] = math.copysign(_tail(min(one, 1.0 - one)), from_middle)


@njit(cache=True, nogil=True)
def laplace(uniform: Floats, out: Floats) -> None:
    """Laplace numbers of variance 1 into `out`."""
    for at in range(len(uniform)):
        one = uniform[at]
        size = _log(2.0 * min(one, 1.0 - one)) * -ROOT_HALF
        out[at] = math.copysign(size, one - _SIDE)
