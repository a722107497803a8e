"""Means and medians of clusters, exact where they can be."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.errors import MethodError
from sfumato.kernels.arrays import Floats, Integers
from sfumato.methods._clustering.coded import Variable

_EXACT = 2**53
"""Up to here floats hold every whole number."""
_MOST = 2**63
_WIDE = (pl.Int128,)


def medians(one: Variable, worth: Floats, first: Integers, last: Integers) -> pl.Series:
    """The median of each cluster, given the codes of its two middle records.

    Of whole numbers it is whole or ends in .5. Where floats would not hold all of them, halves
    are rounded down: any number between the two middles is a median.
    """
    levels = _whole(one.levels)
    if levels is None:
        low, high = worth[first], worth[last]
        # Halves of halves stay exact, but for the very smallest numbers.
        return _typed(one, np.where(low == high, low, low / 2 + high / 2))
    low, high = levels[first], levels[last]
    middle = (low & high) + ((low ^ high) >> 1)  # rounded down, and never too large
    half = ((low ^ high) & 1).astype(bool)
    numbers = middle.astype(np.float64)
    if not half.any() or np.abs(numbers).max() >= _EXACT / 2:
        return _like(one, middle)
    return _typed(one, numbers + half / 2)


def means(
    one: Variable, worth: Floats, codes: npt.NDArray[np.int32], starts: Integers
) -> pl.Series:
    """The mean of each cluster, given all codes cluster after cluster; of one value that value."""
    levels, sizes = _whole(one.levels), np.diff(starts)
    firsts = codes[starts[:-1]]
    single = np.add.reduceat(codes != np.repeat(firsts, sizes), starts[:-1]) == 0
    if levels is None:
        found = np.add.reduceat(worth[codes], starts[:-1]) / sizes
        # A sum of equal numbers, divided by how many, need not be that number again.
        return _typed(one, np.where(single, worth[firsts], found))
    largest = max(abs(int(levels.min())), abs(int(levels.max())))
    exact = levels.astype(np.int64 if largest * int(sizes.max()) < _MOST else object)
    totals = np.add.reduceat(exact[codes], starts[:-1])
    if not (totals % sizes).any():
        return _like(one, totals // sizes)
    alone = exact[firsts[single]]
    if any(int(float(value)) != value for value in alone.tolist()):
        raise MethodError(
            f"Variable '{one.name}' has whole numbers too large to stand beside means with a "
            "fraction.",
            hint='choose the output "median" or "range" for it.',
        )
    found = (totals / sizes).astype(np.float64)
    found[single] = alone
    return _typed(one, found)


def _whole(levels: pl.Series) -> Any:
    """All levels as whole numbers, of any length; None where one is not."""
    if levels.dtype.is_integer() and levels.dtype not in _WIDE:
        return levels.to_numpy()
    if not levels.dtype.is_integer() and not levels.dtype.is_decimal():
        return None
    plain = levels.to_list()
    exact = np.array([int(value) for value in plain], dtype=object)
    return exact if exact.tolist() == plain else None


def _like(one: Variable, numbers: Any) -> pl.Series:
    """Whole numbers in the type that the variable has."""
    if one.levels.dtype.is_decimal() or one.levels.dtype in _WIDE:
        return pl.Series(one.name, numbers.tolist(), pl.Int128).cast(one.levels.dtype)
    return pl.Series(one.name, numbers.astype(one.levels.to_numpy().dtype))


def _typed(one: Variable, numbers: Floats) -> pl.Series:
    """Dates as dates, and what is whole in a variable of whole numbers as whole numbers."""
    made = pl.Series(one.name, numbers)
    if one.levels.dtype == pl.Date:
        return made.floor().cast(pl.Int32).cast(pl.Date)
    if one.column.kind != "integer":
        return made
    whole = bool(((made == made.floor()) & (made.abs() <= _EXACT)).all())
    return made.cast(pl.Int64) if whole else made
