"""The k nearest neighbours of every record within its stratum, exactly.

Neighbours come by distance; those at the same distance by their coordinates, column after
column. Records with equal coordinates are interchangeable. So the result depends on the records
and not on their order, nor on the order or the batching of the strata.

Distances are computed from scaled differences, never from differences of scaled values: ages 30
and 32 are then exactly as far from 31.

The search uses a tree of boxes over the distinct points of a stratum. Points lie in leaves of
sixteen, boxes in groups of sixteen, to be compared all at once (`lanes`). Leaves are numbered so
that sixteen in a row are near each other, and so are sixteen such groups: the tree needs no
pointers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import Floats, Integers
from sfumato.kernels.compiled import compiled, inlined, inner
from sfumato.kernels.memory import allocate
from sfumato.kernels.trees.lanes import (
    LANES,
    boxes_within,
    lowest_lane,
    points_within,
    rank_of_lane,
)

SHIFT = 4  # LANES = 2 ** SHIFT
LEVELS = 8  # of sixteen each: more points than memory holds
LEVEL_BITS = 3  # LEVELS = 2 ** LEVEL_BITS
_LAST = LANES - 1
_FEWEST_LEVELS = 2  # the search starts at the boxes around groups of leaves
_SAMPLE = 32
_RUN = 16
_EPSILON = float(np.finfo(np.float64).eps)
_TINY = 1e-150  # its square is far above all that underflows
_LARGEST = 1e290  # means of larger values could overflow on the way
_MOST = 2**26  # the division in the mean is exact up to here
_HALVES = 134217729.0  # 2 ** 27 + 1 cuts a number into two halves of 26 bits (Dekker 1971)
_SMALL = 1 << 14


class PointTree(NamedTuple):
    """The tree of a stratum.

    source : the distinct points in canonical order, by coordinates, column after column; under a
        matrix with the turned coordinates in front of the raw ones.
    firsts : where in the sorted records those of each distinct point begin, and the end.
    rank : which distinct point lies at each position of the tree.
    keys : room to sort in.
    points : the points again: (leaf, column, lane).
    boxes : (group, low and high of each column, lane); the groups of a level lie together.
    base : where the groups of each level begin.
    """

    source: Floats
    firsts: Integers
    rank: Integers
    keys: Floats
    points: Floats
    boxes: Floats
    base: Integers


class _Metric(NamedTuple):
    """How far points are apart.

    scale : a factor per column of the tree.
    matrix : W of distances |W(a-b)|, empty without one.
    slack : how far rounding may put a turned coordinate off; 0 without a matrix.
    """

    scale: Floats
    matrix: Floats
    slack: float


class _Workspace(NamedTuple):
    """Arrays to work in, made once.

    distances, gaps, outer_gaps : of sixteen points, leaves, groups of leaves.
    nearest : distance and canonical number of the neighbours of a point, in canonical order.
    stack : gap and number of the boxes that wait.
    """

    distances: Floats
    gaps: Floats
    outer_gaps: Floats
    nearest: Floats
    stack: Floats


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
    values, scale, matrix, starts, sizes = _check(values, scale, starts, k)
    means = allocate(values.shape, np.float64)
    _search_strata(values, scale, matrix, starts, sizes, means, np.empty((0, 0), np.int64))
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
    values, scale, matrix, starts, sizes = _check(values, scale, starts, k)
    widest = int(sizes.max()) if len(sizes) else int(np.max(k, initial=0))
    rows = allocate((len(values), widest), np.int64)
    if len(np.unique(sizes)) > 1:
        rows[:] = -1
    _search_strata(values, scale, matrix, starts, sizes, np.empty((0, 0)), rows)
    return rows


def _search_strata(
    values: Floats,
    scale: Floats,
    matrix: Floats,
    starts: Integers,
    sizes: Integers,
    means: Floats,
    rows: Integers,
) -> None:
    largest = int(np.diff(starts).max(initial=0))
    order, fresh = allocate((len(values),), np.int64), allocate((len(values),), np.bool_)
    spares = [allocate((2, largest), np.float64), allocate((largest,), np.int64)]
    _sort_strata(values, starts, order, fresh, *spares)
    spares.clear()
    tree = empty_tree(largest, values.shape[1], turned=len(matrix) > 0)
    _search(values, scale, matrix, starts, sizes, order, fresh, tree, means, rows)


def empty_tree(most: int, columns: int, *, turned: bool) -> PointTree:
    """Room for the tree of a stratum with up to so many points."""
    leaves = (most + LANES - 1) >> SHIFT
    return PointTree(
        source=allocate((most, 2 * columns if turned else columns), np.float64),
        firsts=allocate((most + 1,), np.int64),
        rank=allocate((most,), np.int64),
        keys=allocate((most,), np.float64),
        points=allocate((leaves, columns, LANES), np.float64),
        boxes=allocate((leaves // (LANES - 1) + LEVELS, 2 * columns, LANES), np.float64),
        base=np.empty(LEVELS, np.int64),
    )


def _check(
    values: Floats, scale: Floats, starts: Integers, k: int | Integers
) -> tuple[Floats, Floats, Floats, Integers, Integers]:
    """The arguments as arrays of the right kind; a matrix apart from the scale of the tree."""
    values = seal(np.ascontiguousarray(values, np.float64))
    if values.ndim != 2 or not values.shape[1]:  # noqa: PLR2004 (a table has two dimensions)
        raise ValueError("The values must be a table with at least one column.")
    low, high = _measure_range(values)
    starts = _check_starts(np.asarray(starts), len(values))
    scale, matrix = _separate_matrix(np.ascontiguousarray(scale, np.float64), high - low)
    sizes = _check_sizes(k, np.diff(starts))
    return values, seal(scale), seal(matrix), seal(starts), seal(sizes)


def seal(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A view nobody writes to: numba compiles once for it, wherever the array came from."""
    view = array.view()
    view.flags.writeable = False
    return view


def _check_starts(starts: npt.NDArray[Any], rows: int) -> Integers:
    if starts.dtype.kind not in "iu" or starts.ndim != 1 or not len(starts):
        raise ValueError("The starts of the strata must be whole numbers.")
    if starts[0] or starts[-1] != rows or (starts[1:] < starts[:-1]).any():
        raise ValueError("The starts of the strata must rise from 0 to the number of rows.")
    return np.ascontiguousarray(starts, np.int64)


def _measure_range(values: Floats) -> tuple[Floats, Floats]:
    """The smallest and largest value of each column, if all are finite."""
    if not len(values):
        nothing = np.zeros(values.shape[1])
        return nothing, nothing
    low, high = values[0].copy(), values[0].copy()
    if not _widen_range(values, low, high):
        raise ValueError("The values must be finite numbers, without missing ones.")
    if max(-low.min(), high.max()) > _LARGEST:
        raise ValueError(f"The values must not exceed {_LARGEST:g}; give them in a larger unit.")
    return low, high


def _separate_matrix(scale: Floats, extent: Floats) -> tuple[Floats, Floats]:
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


def _check_sizes(k: int | Integers, records: Integers) -> Integers:
    """K per stratum; each stratum must have as many records."""
    sizes = np.asarray(k)
    if sizes.dtype.kind not in "iu" or sizes.shape not in {(), records.shape}:
        raise ValueError("k must be a whole number, or one per stratum.")
    sizes = np.ascontiguousarray(np.broadcast_to(sizes, records.shape), np.int64)
    if ((sizes < 1) | (sizes > records)).any():
        raise ValueError("k must be between 1 and the number of records of the stratum.")
    if (sizes >= _MOST).any():
        raise ValueError(f"k must be less than {_MOST}.")
    return sizes


# Sorting the records of each stratum.


@compiled(small=_SMALL)
def _widen_range(values, low, high):  # type: ignore[no-untyped-def]
    """Widen the range of each column to all values; whether they are all finite."""
    finite = True
    for i in range(len(values)):
        for j in range(values.shape[1]):
            value = values[i, j]
            finite &= abs(value) < np.inf
            low[j] = min(low[j], value)
            high[j] = max(high[j], value)
    return finite


@inner(error_model="numpy")
def _merge(keys, order, other_keys, other_order, first, middle, last):  # type: ignore[no-untyped-def]
    """Two sorted runs into one; of equal keys those of the first run come first."""
    front, back = first, middle
    if middle >= last or keys[middle - 1] <= keys[middle]:
        for i in range(first, last):
            other_keys[i], other_order[i] = keys[i], order[i]
        return
    for i in range(first, last):
        if back >= last or (front < middle and keys[front] <= keys[back]):
            other_keys[i], other_order[i] = keys[front], order[front]
            front += 1
        else:
            other_keys[i], other_order[i] = keys[back], order[back]
            back += 1


@inner(error_model="numpy")
def _sort(keys, order, spare_keys, spare_order):  # type: ignore[no-untyped-def]
    """Sort keys and what goes with them, stably, in time n log n whatever the data."""
    size = len(order)
    for first in range(0, size, _RUN):
        for i in range(first + 1, min(first + _RUN, size)):
            key, row, to = keys[i], order[i], i
            while to > first and keys[to - 1] > key:
                keys[to], order[to] = keys[to - 1], order[to - 1]
                to -= 1
            keys[to], order[to] = key, row
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


@compiled(small=_SMALL)
def _sort_strata(values, starts, order, fresh, keys, spare_order):  # type: ignore[no-untyped-def]
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


# The tree.


@inner(error_model="numpy")
def gather_points(values, order, fresh, start, stop, tree):  # type: ignore[no-untyped-def]
    """Take the distinct points of a stratum; how many there are."""
    source, firsts, rank = tree.source, tree.firsts, tree.rank
    columns = values.shape[1]
    raw = source.shape[1] - columns
    size = 0
    for i in range(start, stop):
        if fresh[i]:
            for j in range(columns):
                source[size, raw + j] = values[order[i], j] + 0.0  # -0.0 becomes 0.0
            rank[size], firsts[size] = size, i
            size += 1
    firsts[size] = stop
    return size


@inner(error_model="numpy")
def _turn(source, size, matrix):  # type: ignore[no-untyped-def]
    """Coordinates under the matrix, in front of the raw ones; how far distances may be off."""
    columns = len(matrix)
    slack = 0.0
    for i in range(columns):
        spread = 0.0
        for j in range(columns):
            low = high = source[0, columns + j]
            for point in range(size):
                value = source[point, columns + j]
                low, high = min(low, value), max(high, value)
            spread += abs(matrix[i, j]) * (high - low)
        slack += spread * spread
        for point in range(size):
            source[point, i] = 0.0
            for j in range(columns):
                gap = source[point, columns + j] - source[0, columns + j]
                source[point, i] += matrix[i, j] * gap
    # Each product and sum is off by half an epsilon of what lies in the stratum, at most.
    return _TINY + 8 * (columns + 4) * _EPSILON * np.sqrt(slack) if columns else 0.0


@inlined(error_model="numpy")
def _pick(seed, low, high):  # type: ignore[no-untyped-def]
    """Any position between; chance keeps sorted or periodic data from being the worst case."""
    return low + (((seed >> 33) & 0x7FFFFFFF) * (high - low) >> 31)


@inlined(error_model="numpy")
def _draw_seed(seed):  # type: ignore[no-untyped-def]
    return seed * 6364136223846793005 + 1442695040888963407  # Knuth's MMIX generator


@inlined(error_model="numpy")
def _move_smaller(keys, rank, low, high, pivot, equal):  # type: ignore[no-untyped-def]
    """Move what is less than the pivot (or equal to it) to the front, without a branch."""
    front = low
    for i in range(low, high):
        key, point = keys[i], rank[i]
        keys[i], rank[i] = keys[front], rank[front]
        keys[front], rank[front] = key, point
        front += (key < pivot) | (equal & (key == pivot))
    return front


@inner(error_model="numpy")
def _select(keys, rank, low, high, nth):  # type: ignore[no-untyped-def]
    """Reorder until no key before `nth` is larger than any from `nth` on."""
    seed = high
    while high - low > 1:
        seed = _draw_seed(seed)
        first = keys[_pick(seed, low, high)]
        seed = _draw_seed(seed)
        second = keys[_pick(seed, low, high)]
        seed = _draw_seed(seed)
        third = keys[_pick(seed, low, high)]
        pivot = max(min(first, second), min(max(first, second), third))
        front = _move_smaller(keys, rank, low, high, pivot, False)
        if front == nth:
            return
        if front > nth:
            high = front
        elif front > low:
            low = front
        else:  # the pivot is the smallest key: all its equals are where they belong
            low = _move_smaller(keys, rank, low, high, pivot, True)
            if low >= nth:
                return


@inner(error_model="numpy")
def _find_widest(source, rank, start, stop, scale):  # type: ignore[no-untyped-def]
    """The column in which these points lie farthest apart, judged by some of them."""
    widest, column = -1.0, 0
    step = (stop - start) // _SAMPLE | 1  # odd, so that it hardly ever beats with the data
    for j in range(len(scale)):
        low = high = source[rank[start], j]
        for i in range(start, stop, step):
            value = source[rank[i], j]
            low, high = min(low, value), max(high, value)
        if (high - low) * scale[j] > widest:
            widest, column = (high - low) * scale[j], j
    return column


@inner(error_model="numpy")
def arrange_points(source, rank, keys, size, scale):  # type: ignore[no-untyped-def]
    """Order the points so that each run of 16, of 256, … lies close together."""
    stack = np.empty((2 * LEVELS * SHIFT, 2), np.int64)
    stack[0, 0], stack[0, 1] = 0, (size + LANES - 1) >> SHIFT
    top = 1
    while top:
        top -= 1
        first, last = stack[top, 0], stack[top, 1]
        start, stop = first << SHIFT, min(last << SHIFT, size)
        if last - first == 1:
            for i in range(start + 1, stop):  # within a leaf in canonical order: ties need it
                point = rank[i]
                j = i
                while j > start and rank[j - 1] > point:
                    rank[j] = rank[j - 1]
                    j -= 1
                rank[j] = point
            continue
        half = 1
        while 2 * half < last - first:
            half *= 2
        middle = first + half
        column = _find_widest(source, rank, start, stop, scale)
        for i in range(start, stop):
            keys[i] = source[rank[i], column]
        _select(keys, rank, start, stop, middle << SHIFT)
        stack[top, 0], stack[top, 1] = first, middle
        stack[top + 1, 0], stack[top + 1, 1] = middle, last
        top += 2


@inlined(error_model="numpy")
def _enclose(blocks, block, low_row, high_row):  # type: ignore[no-untyped-def]
    """The least and the most of a block; empty lanes are not numbers and compare as false."""
    low, high = blocks[block, low_row, 0], blocks[block, high_row, 0]
    for lane in range(1, LANES):
        low = min(low, blocks[block, low_row, lane])
        high = max(high, blocks[block, high_row, lane])
    return low, high


@inlined(error_model="numpy")
def _empty_block(blocks, block):  # type: ignore[no-untyped-def]
    for row in range(blocks.shape[1]):
        for lane in range(LANES):
            blocks[block, row, lane] = np.nan


@inner(error_model="numpy")
def build_boxes(tree, size):  # type: ignore[no-untyped-def]
    """Fill leaves and boxes, level by level; how many levels of boxes there are."""
    points, boxes, base = tree.points, tree.boxes, tree.base
    columns = points.shape[1]
    count = (size + LANES - 1) >> SHIFT
    _empty_block(points, count - 1)
    for i in range(size):
        for j in range(columns):
            points[i >> SHIFT, j, i & _LAST] = tree.source[tree.rank[i], j]
    level, start = 0, 0
    while count > 1 or level < _FEWEST_LEVELS:
        groups = (count + LANES - 1) >> SHIFT
        base[level] = start
        _empty_block(boxes, start + groups - 1)
        for i in range(count):
            for j in range(columns):
                if level == 0:
                    low, high = _enclose(points, i, j, j)
                else:
                    low, high = _enclose(boxes, base[level - 1] + i, 2 * j, 2 * j + 1)
                boxes[start + (i >> SHIFT), 2 * j, i & _LAST] = low
                boxes[start + (i >> SHIFT), 2 * j + 1, i & _LAST] = high
        level, start, count = level + 1, start + groups, groups
    return level


@inlined(borrowing=True, error_model="numpy")
def push_boxes(mask, child, level, gaps, stack, top):  # type: ignore[no-untyped-def]
    """Put boxes on the stack, the nearest on top; how many wait there."""
    floor = top
    while mask:
        lane = lowest_lane(mask)
        mask &= mask - 1
        to = top
        while to > floor and stack[to - 1, 0] < gaps[lane]:
            stack[to, 0], stack[to, 1] = stack[to - 1, 0], stack[to - 1, 1]
            to -= 1
        stack[to, 0], stack[to, 1] = gaps[lane], (child + lane) << LEVEL_BITS | level
        top += 1
    return top


# The search.


@inlined(borrowing=True, error_model="numpy")
def _count_records(tree, point):  # type: ignore[no-untyped-def]
    """How many records share these coordinates."""
    return tree.firsts[point + 1] - tree.firsts[point]


@inlined(borrowing=True, error_model="numpy")
def _reach(worst, slack):  # type: ignore[no-untyped-def]
    """How far to look. Turned coordinates are rounded, so there it is a little farther."""
    if slack == 0.0:
        return worst
    reach = np.sqrt(worst) + slack
    return reach * reach * (1.0 + 1e-12)


@inner(borrowing=True, error_model="numpy")
def _turned_distance(source, point, other, matrix):  # type: ignore[no-untyped-def]
    """The distance under a matrix, from the raw values behind the turned coordinates."""
    columns = len(matrix)
    total = 0.0
    for i in range(columns):
        part = 0.0
        for j in range(columns):
            part += matrix[i, j] * (source[point, columns + j] - source[other, columns + j])
        total += part * part
    return total


@inlined(borrowing=True, error_model="numpy")
def _add_neighbour(distance, point, tree, k, nearest, count, total):  # type: ignore[no-untyped-def]
    """Take a neighbour in and drop those that k records no longer need."""
    to = count
    while to > 1 and (  # the point itself stays the first
        distance < nearest[to - 1, 0]
        or (distance == nearest[to - 1, 0] and point < nearest[to - 1, 1])
    ):
        nearest[to, 0], nearest[to, 1] = nearest[to - 1, 0], nearest[to - 1, 1]
        to -= 1
    nearest[to, 0], nearest[to, 1] = distance, point
    total += _count_records(tree, point)
    last = _count_records(tree, int(nearest[count, 1]))
    while total - last >= k:
        total -= last
        count -= 1
        last = _count_records(tree, int(nearest[count, 1]))
    return count + 1, total


@inlined(borrowing=True, error_model="numpy")
def _begin_in_leaf(position, tree, metric, k, work):  # type: ignore[no-untyped-def]
    """Put the points of its own leaf into order, the point itself first."""
    rank, distances, nearest = tree.rank, work.distances, work.nearest
    target, start = rank[position], position & ~_LAST
    filled = min(LANES, len(rank) - start)
    points_within(
        tree.points, position >> SHIFT, tree.source, target, metric.scale, np.inf, distances
    )
    if metric.slack > 0.0:
        for lane in range(filled):
            distances[lane] = _turned_distance(
                tree.source, rank[start + lane], target, metric.matrix
            )
    distances[position & _LAST] = -1.0
    for lane in range(filled):
        to = rank_of_lane(distances, lane)
        nearest[to, 0], nearest[to, 1] = distances[lane], rank[start + lane]
    nearest[0, 0] = 0.0
    count, total = 0, 0
    while count < filled and total < k:
        total += _count_records(tree, int(nearest[count, 1]))
        count += 1
    return count, total, nearest[count - 1, 0] if total >= k else np.inf


@inlined(borrowing=True, error_model="numpy")
def _scan_leaf(leaf, target, tree, metric, k, work, count, total, worst):  # type: ignore[no-untyped-def]
    """Compare the points of a leaf with the nearest so far."""
    distances, slack = work.distances, metric.slack
    mask = points_within(
        tree.points, leaf, tree.source, target, metric.scale, _reach(worst, slack), distances
    )
    while mask:
        lane = lowest_lane(mask)
        mask &= mask - 1
        point, distance = tree.rank[(leaf << SHIFT) + lane], distances[lane]
        if slack > 0.0:
            distance = _turned_distance(tree.source, point, target, metric.matrix)
        if distance <= worst:
            count, total = _add_neighbour(distance, point, tree, k, work.nearest, count, total)
            if total >= k:
                worst = work.nearest[count - 1, 0]
    return count, total, worst


@inlined(borrowing=True, error_model="numpy")
def _scan_group(group, skip, target, tree, metric, k, work, count, total, worst):  # type: ignore[no-untyped-def]
    """Scan the leaves of a group that are near enough, except those to skip."""
    gaps, slack = work.gaps, metric.slack
    mask = boxes_within(
        tree.boxes, group, tree.source, target, metric.scale, _reach(worst, slack), gaps
    )
    mask &= ~skip
    while mask:
        lane = lowest_lane(mask)
        mask &= mask - 1
        if gaps[lane] <= _reach(worst, slack):
            leaf = (group << SHIFT) + lane
            count, total, worst = _scan_leaf(
                leaf, target, tree, metric, k, work, count, total, worst
            )
    return count, total, worst


@inlined(borrowing=True, error_model="numpy")
def _find_nearest(position, tree, metric, k, work):  # type: ignore[no-untyped-def]
    """Fill `work.nearest` with the nearest of one point; how many it takes."""
    base, gaps, stack = tree.base, work.outer_gaps, work.stack
    scale, slack = metric.scale, metric.slack
    target = tree.rank[position]
    work.nearest[0, 0], work.nearest[0, 1] = 0.0, target
    if _count_records(tree, target) >= k:
        return 1
    count, total, worst = _begin_in_leaf(position, tree, metric, k, work)
    # From its own leaf upwards: its own group, then at each level what lies beside it.
    leaf, node = position >> SHIFT, position >> SHIFT >> SHIFT
    home, skip_leaf, skip = node & _LAST, 1 << (leaf & _LAST), 0
    child, level, step, top = node & ~_LAST, 1, 1, 0
    while True:
        group = base[level] + (child >> SHIFT)
        mask = boxes_within(
            tree.boxes, group, tree.source, target, scale, _reach(worst, slack), gaps
        )
        mask &= ~skip
        if level > 1:
            top = push_boxes(mask, child, level, gaps, stack, top)
            mask = 0
        while mask:
            lane = lowest_lane(mask) if home < 0 else home
            mask &= ~(1 << lane)
            if gaps[lane] <= _reach(worst, slack):
                count, total, worst = _scan_group(
                    child + lane, skip_leaf, target, tree, metric, k, work, count, total, worst
                )
            home, skip_leaf = -1, 0
        # Coordinates decide a tie, so a box at exactly the distance of the last is opened too.
        while top and stack[top - 1, 0] > _reach(worst, slack):
            top -= 1
        if top:
            top -= 1
            code = int(stack[top, 1])
            child, level, skip = code >> LEVEL_BITS << SHIFT, (code & (LEVELS - 1)) - 1, 0
        else:
            step, node = step + 1, node >> SHIFT
            if step == len(base):
                return count
            child, level, skip = node & ~_LAST, step, 1 << (node & _LAST)


@inlined(borrowing=True, error_model="numpy")
def _divide(high, low, k):  # type: ignore[no-untyped-def]
    """(high + low) / k, rounded once: a guess, and the exact remainder divided."""
    total = high + low
    part = total - high
    remainder = (high - (total - part)) + (low - part)
    guess = total * (1.0 / k)
    cut = _HALVES * guess
    front = cut - (cut - guess)
    return guess + ((total - front * k) - (guess - front) * k + remainder) / k


@inlined(borrowing=True, error_model="numpy")
def _mean(source, column, members):  # type: ignore[no-untyped-def]
    """The mean of some records, rounded once.

    The sum carries its rounding errors along (Knuth's two-sum), so that equal values have exactly
    their mean, and the same neighbours the same mean whichever of them it is computed for.
    """
    high = low = 0.0
    for i in range(len(members)):
        value = source[members[i], column]
        total = high + value
        part = total - high
        low += (high - (total - part)) + (value - part)
        high = total
    return _divide(high, low, len(members))


@inlined(borrowing=True, error_model="numpy")
def _write_rows(tree, order, nearest, k, rows):  # type: ignore[no-untyped-def]
    """The rows of the neighbours, for every record of the point: itself, then its equals."""
    firsts, target = tree.firsts, int(nearest[0, 1])
    for position in range(firsts[target], firsts[target + 1]):
        row, filled, i = order[position], 1, 0
        rows[row, 0] = row
        while filled < k:
            point = int(nearest[i, 1])
            other, last = firsts[point], firsts[point + 1]
            while filled < k and other < last:
                if other != position:
                    rows[row, filled] = order[other]
                    filled += 1
                other += 1
            i += 1


@inner(borrowing=True, error_model="numpy")
def _search_stratum(tree, metric, k, work, members, order, means, rows):  # type: ignore[no-untyped-def]
    """All points of a stratum, in the order of the tree: what one read, the next needs."""
    firsts, raw = tree.firsts, len(metric.matrix)
    for position in range(len(tree.rank)):
        count = _find_nearest(position, tree, metric, k, work)
        if len(rows):
            _write_rows(tree, order, work.nearest, k, rows)
        if len(means):
            filled = 0
            for i in range(count):
                point = int(work.nearest[i, 1])
                for _ in range(min(k - filled, _count_records(tree, point))):
                    members[filled] = point
                    filled += 1
            target = tree.rank[position]
            for j in range(means.shape[1]):
                mean = _mean(tree.source, raw + j, members)
                for i in range(firsts[target], firsts[target + 1]):
                    means[order[i], j] = mean


@compiled(small=_SMALL)
def _search(values, scale, matrix, starts, sizes, order, fresh, tree, means, rows):  # type: ignore[no-untyped-def]
    """Fill `means` with the centroid and `rows` with the neighbours of every record.

    Either may be empty. Strata are taken one by one; the room for the largest serves all.
    """
    most = 1
    for stratum in range(len(sizes)):
        most = max(most, sizes[stratum])
    members, lanes = np.empty(most, np.int64), np.empty((3, LANES))
    nearest, stack = np.empty((most + LANES, 2)), np.empty((LEVELS * LANES, 2))
    work = _Workspace(lanes[0], lanes[1], lanes[2], nearest, stack)
    for stratum in range(len(sizes)):
        k = sizes[stratum]
        size = gather_points(values, order, fresh, starts[stratum], starts[stratum + 1], tree)
        metric = _Metric(scale, matrix, _turn(tree.source, size, matrix))
        arrange_points(tree.source, tree.rank, tree.keys, size, scale)
        levels = build_boxes(tree, size)
        filled = PointTree(
            tree.source,
            tree.firsts,
            tree.rank[:size],
            tree.keys,
            tree.points,
            tree.boxes,
            tree.base[:levels],
        )
        _search_stratum(filled, metric, k, work, members[:k], order, means, rows)
