"""The k nearest neighbours of every record within its stratum, exactly.

Neighbours come by distance; those at the same distance by their coordinates, column after
column. Records with equal coordinates are interchangeable. So the result depends on the records
and not on their order, nor on the order or the batching of the strata.

Distances are computed from scaled differences, never from differences of scaled values: ages 30
and 32 are then exactly as far from 31.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from sfumato.kernels.arrays import Floats, Integers
from sfumato.kernels.memory import room
from sfumato.kernels.trees.neighbour_search import search
from sfumato.kernels.trees.neighbour_tree import INNER, empty_tree

_RUN = 16
_LARGEST = 1e290  # means of larger values could overflow on the way
_MOST = 2**26  # the division in the mean is exact up to here


def centroids(values: Floats, scale: Floats, starts: Integers, k: int | Integers) -> Floats:
    """The mean of each point and its k-1 nearest within its stratum.

    The mean is rounded once: equal values have exactly their value as mean, and records with
    the same neighbours have the same centroid to the last bit.

    Parameters
    ----------
    values : a row per record; the rows of a stratum lie together.
    scale : 1/sd per variable (Euclid on z-scores), or a matrix W for distances |W(a-b)|.
    starts : where each stratum begins, and the end of the last.
    k : how many records make a centroid, the record itself among them; one for all or per stratum.

    Examples
    --------
    >>> ages = np.array([[30.0], [31.0], [35.0], [36.0]])
    >>> centroids(ages, np.array([1.0]), np.array([0, 4]), 2).ravel().tolist()
    [30.5, 30.5, 35.5, 35.5]
    """
    values, scale, matrix, starts, wanted = _checked(values, scale, starts, k)
    means = room(values.shape, np.float64)
    _search(values, scale, matrix, starts, wanted, means, np.empty((0, 0), np.int64))
    return means


def neighbours(values: Floats, scale: Floats, starts: Integers, k: int | Integers) -> Integers:
    """The rows of each record and its k-1 nearest within its stratum, -1 where k is smaller.

    The record itself comes first, its duplicates next. Identical records are in row order.

    Parameters
    ----------
    values, scale, starts, k : as for `centroids`.

    Examples
    --------
    >>> ages = np.array([[30.0], [31.0], [35.0], [36.0]])
    >>> neighbours(ages, np.array([1.0]), np.array([0, 4]), 2).tolist()
    [[0, 1], [1, 0], [2, 3], [3, 2]]
    """
    values, scale, matrix, starts, wanted = _checked(values, scale, starts, k)
    widest = int(wanted.max()) if len(wanted) else int(np.max(k, initial=0))
    rows = room((len(values), widest), np.int64)
    if len(np.unique(wanted)) > 1:
        rows[:] = -1
    _search(values, scale, matrix, starts, wanted, np.empty((0, 0)), rows)
    return rows


def _search(
    values: Floats,
    scale: Floats,
    matrix: Floats,
    starts: Integers,
    wanted: Integers,
    means: Floats,
    rows: Integers,
) -> None:
    largest = int(np.diff(starts).max(initial=0))
    order, fresh = room((len(values),), np.int64), room((len(values),), np.bool_)
    spares = [room((2, largest), np.float64), room((largest,), np.int64)]
    _canonical(values, starts, order, fresh, *spares)
    spares.clear()
    tree = empty_tree(largest, values.shape[1], turned=len(matrix) > 0)
    search(values, scale, matrix, starts, wanted, order, fresh, tree, means, rows)


def _checked(
    values: Floats, scale: Floats, starts: Integers, k: int | Integers
) -> tuple[Floats, Floats, Floats, Integers, Integers]:
    """The arguments as arrays of the right kind; a matrix apart from the scale of the tree."""
    values = _sealed(np.ascontiguousarray(values, np.float64))
    if values.ndim != 2 or not values.shape[1]:  # noqa: PLR2004 (a table has two dimensions)
        raise ValueError("The values must be a table with at least one column.")
    low, high = _range(values)
    starts = _starts(np.asarray(starts), len(values))
    scale, matrix = _scales(np.ascontiguousarray(scale, np.float64), high - low)
    wanted = _wanted(k, np.diff(starts))
    return values, _sealed(scale), _sealed(matrix), _sealed(starts), _sealed(wanted)


def _sealed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A view nobody writes to: numba compiles once for it, wherever the array came from."""
    view = array.view()
    view.flags.writeable = False
    return view


def _starts(starts: npt.NDArray[Any], rows: int) -> Integers:
    if starts.dtype.kind not in "iu" or starts.ndim != 1 or not len(starts):
        raise ValueError("The starts of the strata must be whole numbers.")
    if starts[0] or starts[-1] != rows or (starts[1:] < starts[:-1]).any():
        raise ValueError("The starts of the strata must rise from 0 to the number of rows.")
    return np.ascontiguousarray(starts, np.int64)


def _range(values: Floats) -> tuple[Floats, Floats]:
    """The smallest and largest value of each column, if all are finite."""
    if not len(values):
        nothing = np.zeros(values.shape[1])
        return nothing, nothing
    low, high = values[0].copy(), values[0].copy()
    if not _spread(values, low, high):
        raise ValueError("The values must be finite numbers, without missing ones.")
    if max(-low.min(), high.max()) > _LARGEST:
        raise ValueError(f"The values must not exceed {_LARGEST:g}; give them in a larger unit.")
    return low, high


def _scales(scale: Floats, extent: Floats) -> tuple[Floats, Floats]:
    """The scale of each column of the tree, and the matrix, which is empty without one."""
    columns = len(extent)
    if scale.shape not in {(columns,), (columns, columns)}:
        raise ValueError("The scale must have a number per column, or a matrix.")
    if not np.isfinite(scale).all() or (scale.ndim == 1 and (scale <= 0).any()):
        raise ValueError("The scale must be positive and finite, a matrix finite.")
    with np.errstate(over="ignore"):
        farthest = abs(scale) @ extent if scale.ndim > 1 else scale * extent
        if not np.isfinite((columns * farthest**2).sum()):
            raise ValueError("The scale is too large for these values: distances overflow.")
    if scale.ndim == 1:
        return scale, np.empty((0, 0))
    return np.ones(columns), scale


def _wanted(k: int | Integers, sizes: Integers) -> Integers:
    """K per stratum; each stratum must have as many records."""
    wanted = np.asarray(k)
    if wanted.dtype.kind not in "iu" or wanted.shape not in {(), sizes.shape}:
        raise ValueError("k must be a whole number, or one per stratum.")
    wanted = np.ascontiguousarray(np.broadcast_to(wanted, sizes.shape), np.int64)
    if ((wanted < 1) | (wanted > sizes)).any():
        raise ValueError("k must be between 1 and the number of records of the stratum.")
    if (wanted >= _MOST).any():
        raise ValueError(f"k must be less than {_MOST}.")
    return wanted


@njit(cache=True, nogil=True)
def _spread(values, low, high):  # type: ignore[no-untyped-def]
    """Widen the range of each column to all values; whether they are all finite."""
    finite = True
    for i in range(len(values)):
        for j in range(values.shape[1]):
            value = values[i, j]
            finite &= abs(value) < np.inf
            low[j] = min(low[j], value)
            high[j] = max(high[j], value)
    return finite


@njit(**INNER)
def _merge(keys, order, other_keys, other_order, first, middle, last):  # type: ignore[no-untyped-def]
    """Two sorted runs into one; of equal keys those of the first run come first."""
    left, right = first, middle
    if middle >= last or keys[middle - 1] <= keys[middle]:
        for at in range(first, last):
            other_keys[at], other_order[at] = keys[at], order[at]
        return
    for at in range(first, last):
        if right >= last or (left < middle and keys[left] <= keys[right]):
            other_keys[at], other_order[at] = keys[left], order[left]
            left += 1
        else:
            other_keys[at], other_order[at] = keys[right], order[right]
            right += 1


@njit(**INNER)
def _sort(keys, order, spare_keys, spare_order):  # type: ignore[no-untyped-def]
    """Sort keys and what goes with them, stably, in time n log n whatever the data."""
    size = len(order)
    for first in range(0, size, _RUN):
        for i in range(first + 1, min(first + _RUN, size)):
            key, one, at = keys[i], order[i], i
            while at > first and keys[at - 1] > key:
                keys[at], order[at] = keys[at - 1], order[at - 1]
                at -= 1
            keys[at], order[at] = key, one
    width, swapped = _RUN, False
    while width < size:
        for first in range(0, size, 2 * width):
            middle, last = min(first + width, size), min(first + 2 * width, size)
            if swapped:
                _merge(spare_keys, spare_order, keys, order, first, middle, last)
            else:
                _merge(keys, order, spare_keys, spare_order, first, middle, last)
        width, swapped = 2 * width, not swapped
    if swapped:
        for i in range(size):
            keys[i], order[i] = spare_keys[i], spare_order[i]


@njit(cache=True, nogil=True)
def _canonical(values, starts, order, fresh, keys, spare_order):  # type: ignore[no-untyped-def]
    """Sort the rows of each stratum by their coordinates; mark the first of each distinct point."""
    for stratum in range(len(starts) - 1):
        begin, end = starts[stratum], starts[stratum + 1]
        for i in range(begin, end):
            order[i], fresh[i] = i, i == begin
        for column in range(values.shape[1]):
            # Rows that agree in all columns so far lie together; sort them by the next one.
            first = begin
            while first < end:
                last = first + 1
                while last < end and not fresh[last]:
                    last += 1
                for i in range(first, last):
                    keys[0, i - first] = values[order[i], column]
                if last - first > 1:
                    _sort(keys[0], order[first:last], keys[1], spare_order)
                    for i in range(first + 1, last):
                        fresh[i] = keys[0, i - first] != keys[0, i - first - 1]
                first = last
