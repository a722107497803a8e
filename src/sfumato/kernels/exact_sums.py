"""Numbers that do not depend on the order of records, not even in their last bit.

Sums are exact. Where a library sums in an order of its own, the records are put into a canonical
order first: records that compare equal are interchangeable, so their order does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.kernels.arrays import Floats, Integers

_SAFE = 400
"""Powers of two whose squares are still ordinary floats."""
_PIECE = 1 << 14
"""Values summed at a time: they fit into a processor's cache."""


def canonical_order(columns: Sequence[npt.NDArray[Any]]) -> Integers:
    """The positions of the records in an order that depends on nothing but their values.

    They are sorted by the column with the most different values, then by the next, and so on:
    sorting is fast when the first column has few ties.

    Examples
    --------
    >>> canonical_order([np.array([2, 1, 2]), np.array([0.5, 0.7, 0.1])]).tolist()
    [2, 0, 1]
    """
    frame = pl.DataFrame({str(number): column for number, column in enumerate(columns)})
    if not frame.height:
        return np.empty(0, np.int64)
    by = sorted(frame.columns, key=lambda name: -frame[name].n_unique())
    return frame.select(pl.arg_sort_by(by)).to_series().cast(pl.Int64).to_numpy()


@contextmanager
def use_one_thread() -> Iterator[None]:
    """Linear algebra on one thread.

    How many threads there are decides in which order they add up, and small matrices only wait
    for them.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(limits=1, user_api="blas"):
        yield


def exact_sum(values: Floats) -> float:
    """The exact sum, rounded once: what `math.fsum` gives, several times as fast.

    Examples
    --------
    >>> exact_sum(np.array([1e100, 3.0, -1e100]))
    3.0
    """
    return math.fsum(exact_parts(values))


def exact_parts(values: Floats) -> list[float]:
    """A few floats whose exact sum is the exact sum of the values, to be added to those of others.

    Examples
    --------
    >>> math.fsum(exact_parts(np.array([1e100, 1.0, -1e100])))
    1.0
    """
    starts = range(0, len(values), _PIECE)
    return [part for start in starts for part in _split_sum(values[start : start + _PIECE])]


def _split_sum(values: Floats) -> Iterator[float]:
    """A few floats whose exact sum is that of the values.

    Adding and taking away a large power of two rounds all values to multiples of one unit, few
    enough of it that their sum is exact in any order. The rest is treated the same way.
    """
    while top := float(np.abs(values).max(initial=0.0)):
        power = math.frexp(top)[1] + len(values).bit_length()
        if not (math.isfinite(top) and power < 2 * _SAFE):
            yield from values.tolist()
            return
        unit = math.ldexp(1.5, power)
        high = (values + unit) - unit
        yield float(high.sum())
        values = values - high


def exact_mean(values: Floats) -> float:
    """The mean from an exact sum; NaN when there is no value.

    Examples
    --------
    >>> exact_mean(np.array([1e100, 3.0, -1e100]))
    1.0
    """
    if not len(values):
        return math.nan
    scaled, power = _scale(values)
    return math.ldexp(exact_sum(scaled) / len(values), power)


def standard_deviation(values: Floats) -> float:
    """The standard deviation with n - 1; NaN below two values, and 0 only when all are equal.

    Examples
    --------
    >>> standard_deviation(np.array([1.0, 3.0])), standard_deviation(np.array([0.1, 0.1, 0.1]))
    (1.4142135623730951, 0.0)
    """
    if len(values) <= 1:
        return math.nan
    if values.min() == values.max():
        # A mean of equal values may miss them by a last bit.
        return 0.0
    scaled, power = _scale(values - exact_mean(values))
    return math.ldexp(math.sqrt(exact_sum(scaled * scaled) / (len(values) - 1)), power)


def _scale(values: Floats) -> tuple[Floats, int]:
    """The values over a power of two, so that no square is beyond all floats."""
    power = math.frexp(float(np.abs(values).max()))[1]
    if abs(power) <= _SAFE:
        return values, 0
    return np.ldexp(values, -power), power
