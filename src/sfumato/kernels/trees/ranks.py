"""The nearest released record of a target, and how many originals are nearer than the one behind.

Exact, and without comparing all pairs: trees of boxes over the distinct points (see
`neighbours`), where a box that lies wholly within a distance is counted at once. A squared
distance is the sum over the columns, in their order, of ((a - b) * scale)^2, wherever it is
computed, so "as near as" and "nearer than" mean the same in every part. Results depend on the
records and not on their order.

What is equally near in exact arithmetic counts as equally near, whatever the unit and the order of
the columns: decimals are first turned into whole numbers, whose differences are exact, and two
distances are the same if they differ by no more than rounding can do (`_prepare`).

numba caches what it compiled per file: after a change to `neighbours.py` or `lanes.py`, touch
this one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import Codes, Floats, Integers, Mask
from sfumato.kernels.compiled import compiled, inlined, inner
from sfumato.kernels.memory import allocate
from sfumato.kernels.orders import order_by_content
from sfumato.kernels.trees.lanes import (
    LANES,
    boxes_inside,
    boxes_within,
    count_lanes,
    lowest_lane,
    points_within,
)
from sfumato.kernels.trees.neighbours import (
    LEVEL_BITS,
    LEVELS,
    SHIFT,
    arrange_points,
    build_boxes,
    empty_tree,
    gather_points,
    push_boxes,
    seal,
)
from sfumato.progress import current_progress

_SLICE = 1 << 14
_MOST_RANKS = 1 << 26
"""Ranks that are kept at most: a release of few, equal records ties with everybody."""
_NO_CAP = np.iinfo(np.int32).max
_DEPTH = LEVELS * LANES
_DENSE = 64
"""One search costs about as much as reading one in so many points, and sorting them."""
_SMALL = 1 << 14
_UNIT = 2.0**-53
"""The relative error of one rounding."""
_ROUNDINGS = 64
"""Roundings behind a distance, at most: of units, deviations, differences, squares, the root."""
_DECIMALS = 12
"""Digits after the point up to which values count as decimals."""
_WHOLE = 2.0**52
"""Whole numbers whose differences are exact."""


@dataclass(frozen=True, eq=False)
class Nearest:
    """What lies nearest to each target.

    Parameters
    ----------
    squared : the least squared distance; NaN for records that are no target.
    ties : how many records lie at that distance; 0 for records that are no target.
    is_pair : whether the row paired with the target is one of them.
    """

    squared: Floats = field(repr=False)
    ties: Integers = field(repr=False)
    is_pair: Mask = field(repr=False)


@dataclass(frozen=True, eq=False)
class Ranks:
    """How many originals are nearer to each target than the one the attacker takes it for.

    Parameters
    ----------
    ranks : the ranks less 1, for each distinct target one for each released record that ties as
        its nearest, in ascending order.
    starts : where those of each distinct target begin, and the end of the last.
    of : which distinct target each record is; -1 for records that are no target.
    cap : where counting stopped, if it did.
    """

    ranks: Codes = field(repr=False)
    starts: Integers = field(repr=False)
    of: Integers = field(repr=False)
    cap: int | None

    @property
    def ties(self) -> Integers:
        """How many released records tie as the nearest of each record; 0 for no target."""
        return self._spread(np.diff(self.starts), 0)

    def mean(self) -> Floats:
        """The mean over the ties, for each record; NaN for no target, and where it was capped."""
        sums = self._sum_ties(self.ranks.astype(np.int64))
        means = sums / np.maximum(np.diff(self.starts), 1)
        if self.cap is not None:
            means[self._sum_ties(self.ranks >= self.cap) > 0] = np.nan
        return self._spread(means, np.nan)

    def share_below(self, limit: int) -> Floats:
        """The share of the ties whose rank less 1 is below a limit; NaN for no target."""
        if self.cap is not None and limit > self.cap:
            raise ValueError("Counting stopped before that limit.")
        shares = self._sum_ties(self.ranks < limit) / np.maximum(np.diff(self.starts), 1)
        return self._spread(shares, np.nan)

    def _sum_ties(self, values: npt.NDArray[Any]) -> Integers:
        totals = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
        return np.asarray(totals[self.starts[1:]] - totals[self.starts[:-1]])

    def _spread(self, distinct: npt.NDArray[Any], otherwise: float) -> npt.NDArray[Any]:
        """From the distinct targets to the records."""
        return np.where(self.of < 0, otherwise, distinct[self.of]).astype(distinct.dtype)


class _RankMetric(NamedTuple):
    """A factor per column, and how far equal distances may differ: a share, and a distance."""

    scale: Floats
    share: float
    tolerance: float


class _RankTree(NamedTuple):
    """A tree over the distinct rows of a table; see `PointTree`.

    values, order : the rows, and their positions sorted by content.
    of : which distinct point each row is.
    before : how many records come before each position of the tree, so that a box that lies
        wholly within a distance is counted at once.
    """

    values: Floats
    order: Integers
    of: Integers
    source: Floats
    firsts: Integers
    rank: Integers
    before: Integers
    points: Floats
    boxes: Floats
    base: Integers


class _Closest(NamedTuple):
    """Of each distinct target: least squared distance, how many records tie, position of one."""

    squared: Floats
    ties: Integers
    position: Integers


class _Lanes(NamedTuple):
    """Arrays to work in: distances of sixteen points, gaps of sixteen boxes, boxes that wait."""

    distances: Floats
    gaps: Floats
    stack: Floats


def nearest(
    targets: Floats,
    points: Floats,
    scale: Floats,
    *,
    among: Mask | None = None,
    sizes: Floats | None = None,
) -> Nearest:
    """The distance from each target to the nearest of the points, and how many are as near.

    Parameters
    ----------
    targets, points : a row per record; row by row they are pairs.
    scale : a factor per column.
    among : which rows are targets. Default: all.
    sizes : per column, the largest absolute value behind it, where the values are themselves
        results of a computation; it bounds their rounding. Default: the largest value.

    Examples
    --------
    >>> ages = np.array([[30.0], [40.0], [60.0]])
    >>> closest = nearest(ages, np.array([[32.0], [38.0], [38.0]]), np.array([1.0]))
    >>> closest.squared.tolist(), closest.ties.tolist()
    ([4.0, 4.0, 484.0], [1, 2, 2])
    """
    targets, points, metric = _prepare(targets, points, scale, sizes)
    ours, theirs = (_build_tree(values, metric.scale) for values in (targets, points))
    wanted = _mark_targets(ours, among)
    closest = _search_closest(ours, theirs, wanted, metric)
    closest.squared[~wanted] = np.nan
    closest.ties[~wanted] = 0
    rows = np.ones(len(targets), bool) if among is None else among
    squared = np.where(rows, closest.squared[ours.of], np.nan)
    to_pair = np.zeros(len(targets))  # summed as the lanes do, to be equal to the bit
    for target, point, factor in zip(targets.T, points.T, metric.scale, strict=True):
        gap = (point - target) * factor
        to_pair += gap * gap
    reach = (np.sqrt(squared) * (1 + metric.share) + metric.tolerance) ** 2
    return Nearest(
        squared=squared,
        ties=np.where(rows, closest.ties[ours.of], 0),
        is_pair=to_pair <= reach,
    )


def ranks(
    original: Floats,
    released: Floats,
    scale: Floats,
    *,
    among: Mask | None = None,
    cap: int | None = None,
    sizes: Floats | None = None,
) -> Ranks:
    """The rank of what an attacker takes for the target, for each original record as the target.

    The attacker knows the original row of the target and takes the nearest released row. Its rank
    is that of the original behind it among the originals, by distance from the target, less 1:
    0 if it is the target itself or its equal. Of equal distances the least rank counts.

    Parameters
    ----------
    original, released : a row per record; row by row they are pairs.
    scale : a factor per column.
    among : which rows are targets. Default: all.
    cap : stop counting there: such a rank is at least the cap.
    sizes : per column, the largest absolute value behind it, where the values are themselves
        results of a computation; it bounds their rounding. Default: the largest value.

    Examples
    --------
    >>> ages = np.array([[30.0], [40.0], [60.0]])
    >>> ranked = ranks(ages, np.array([[32.0], [59.0], [38.0]]), np.array([1.0]))
    >>> ranked.mean().tolist(), ranked.share_below(1).tolist()
    ([0.0, 2.0, 1.0], [1.0, 0.0, 0.0])
    """
    original, released, metric = _prepare(original, released, scale, sizes)
    if cap is not None and cap < 1:
        raise ValueError("The cap must be at least 1.")
    ours, theirs = (_build_tree(values, metric.scale) for values in (original, released))
    wanted = _mark_targets(ours, among)
    closest = _search_closest(ours, theirs, wanted, metric)
    closest.ties[~wanted] = 0
    if int(closest.ties.sum()) > _MOST_RANKS:
        raise ValueError("too many released records are equally near to the targets.")
    starts = np.concatenate([[0], np.cumsum(closest.ties)]).astype(np.int64)
    counts = allocate((int(starts[-1]),), np.int32)
    most = _NO_CAP if cap is None else cap
    _work_in_slices(
        "counting nearer records",
        len(ours.rank),
        lambda begin, end: _count_ranks(
            begin, end, ours, theirs, wanted, metric, closest, most, starts, counts
        ),
    )
    of = ours.of if among is None else np.where(among, ours.of, -1)
    return Ranks(counts, starts, of, cap)


def _search_closest(
    ours: _RankTree, theirs: _RankTree, wanted: Mask, metric: _RankMetric
) -> _Closest:
    size = len(ours.rank)
    closest = _Closest(
        allocate((size,), np.float64), allocate((size,), np.int64), allocate((size,), np.int64)
    )
    _work_in_slices(
        "looking for the nearest",
        size,
        lambda begin, end: _find_closest(begin, end, ours, theirs, wanted, metric, closest),
    )
    return closest


def _work_in_slices(what: str, total: int, work: Callable[[int, int], None]) -> None:
    """Work slice by slice, and report progress."""
    report = current_progress()
    for begin in range(0, total, _SLICE):
        end = min(total, begin + _SLICE)
        work(begin, end)
        report(what, end, total)


def _mark_targets(tree: _RankTree, among: Mask | None) -> Mask:
    """Which distinct points are targets."""
    if among is not None and among.shape != tree.of.shape:
        raise ValueError("There must be a mark for each row.")
    wanted = np.full(len(tree.rank), among is None)
    if among is not None:
        wanted[tree.of[among]] = True
    return wanted


def _build_tree(values: Floats, scale: Floats) -> _RankTree:
    """The tree over the distinct rows."""
    rows, columns = values.shape
    order = order_by_content(values.T).astype(np.int64)
    fresh = np.zeros(rows, bool)
    fresh[0] = True
    for column in values.T:
        fresh[1:] |= column[order[1:]] != column[order[:-1]]
    of = np.empty(rows, np.int64)
    of[order] = np.cumsum(fresh) - 1
    distinct = int(fresh.sum())
    tree = empty_tree(distinct, columns, turned=False)
    before = allocate((distinct + 1,), np.int64)
    levels = _plant(values, order, fresh, scale, tree, before)
    return _RankTree(
        values=values,
        order=order,
        of=of,
        source=tree.source,
        firsts=tree.firsts,
        rank=tree.rank,
        before=before,
        points=tree.points,
        boxes=tree.boxes,
        base=tree.base[:levels].copy(),
    )


def _prepare(
    first: Floats, second: Floats, scale: Floats, sizes: Floats | None
) -> tuple[Floats, Floats, _RankMetric]:
    """The tables, with decimals as whole numbers, and how distances between them are compared.

    A value is known up to its rounding, and moving a point by so much moves no distance farther.
    So distances that are equal in exact arithmetic differ, as computed, by a few roundings of the
    largest values, and of the distance. Differences of whole numbers are exact, so there the first
    part is nothing.
    """
    tables, largest = _check(first, second, scale)
    scale = np.array(scale, np.float64)
    rounded = largest if sizes is None else np.maximum(largest, sizes)
    for column in range(len(scale)) if sizes is None else ():
        sides = [table[:, column] for table in tables]
        power = _find_power(sides, largest[column])
        if power is not None:
            for side in sides:
                side[:] = np.rint(side * power)
            rounded[column] = 0.0
            scale[column] /= power
    share = _ROUNDINGS * _UNIT * len(scale)
    tolerance = share * math.sqrt(float(((rounded * scale) ** 2).sum()))
    return seal(tables[0]), seal(tables[1]), _RankMetric(seal(scale), share, tolerance)


def _find_power(sides: Sequence[Floats], largest: float) -> float | None:
    """The power of ten that makes all values whole numbers; None where they are no decimals."""
    for digits in range(_DECIMALS + 1):
        power = 10.0**digits
        if not largest * power < _WHOLE:
            return None
        # Most are told apart by the first few.
        if all(
            _are_decimals(side[:_DENSE], power) and _are_decimals(side, power) for side in sides
        ):
            return power
    return None


def _are_decimals(values: Floats, power: float) -> bool:
    """Whether they are, but for some roundings: 172 cm times 0.01 is 1.72 m."""
    gaps = np.abs(np.rint(values * power) / power - values)
    return bool((gaps <= 4 * _UNIT * np.abs(values)).all())


def _check(first: Floats, second: Floats, scale: Floats) -> tuple[list[Floats], Floats]:
    """Copies of the tables, and each column's largest size; fail where there are no distances."""
    tables = [np.array(values, np.float64, order="C") for values in (first, second)]
    scale = np.asarray(scale, np.float64)
    if tables[0].ndim != 2 or tables[0].shape != tables[1].shape:  # noqa: PLR2004 (rows, columns)
        raise ValueError("Both tables must have the same rows and columns.")
    if not all(tables[0].shape):
        raise ValueError("The tables must have at least one row and one column.")
    if scale.shape != tables[0].shape[1:] or not (np.isfinite(scale) & (scale > 0)).all():
        raise ValueError("The scale must have a positive, finite number per column.")
    if not all(np.isfinite(values).all() for values in tables):
        raise ValueError("The values must be finite numbers, without missing ones.")
    with np.errstate(over="ignore"):
        low = np.minimum(tables[0].min(axis=0), tables[1].min(axis=0))
        high = np.maximum(tables[0].max(axis=0), tables[1].max(axis=0))
        if not np.isfinite((len(scale) * ((high - low) * scale) ** 2).sum()):
            raise ValueError("The scale is too large for these values: distances overflow.")
    return tables, np.maximum(-low, high)


@compiled(small=_SMALL)
def _plant(values, order, fresh, scale, tree, before):  # type: ignore[no-untyped-def]
    """Build the tree of all rows; how many levels it has."""
    firsts, rank = tree.firsts, tree.rank
    size = gather_points(values, order, fresh, 0, len(values), tree)
    arrange_points(tree.source, rank, tree.keys, size, scale)
    levels = build_boxes(tree, size)
    before[0] = 0
    for position in range(size):
        point = rank[position]
        before[position + 1] = before[position] + firsts[point + 1] - firsts[point]
    return levels


@inlined(borrowing=True, error_model="numpy")
def _squared_distance(values, row, others, other, scale):  # type: ignore[no-untyped-def]
    """The squared distance of two rows, to the bit what the lanes compute."""
    total = 0.0
    for j in range(len(scale)):
        gap = (others[other, j] - values[row, j]) * scale[j]
        total += gap * gap
    return total


@inlined(error_model="numpy")
def _widen(squared, metric):  # type: ignore[no-untyped-def]
    """The largest squared distance that counts as this one."""
    distance = math.sqrt(squared) * (1.0 + metric.share) + metric.tolerance
    return distance * distance


@inlined(error_model="numpy")
def _narrow(squared, metric):  # type: ignore[no-untyped-def]
    """The largest squared distance that counts as less than this one; below 0 if there is none."""
    distance = math.sqrt(squared) * (1.0 - metric.share) - metric.tolerance
    return distance * distance if distance > 0.0 else -1.0


@inner(borrowing=True, error_model="numpy")
def _count_within(source, target, limit, cap, tree, distinct, scale, work):  # type: ignore[no-untyped-def]
    """How many records lie within the limit; counting stops at the cap."""
    distances, gaps, stack = work.distances, work.gaps, work.stack
    before, base = tree.before, tree.base
    size, total = len(before) - 1, 0
    stack[0, 0], stack[0, 1] = 0.0, len(base) - 1
    top = 1
    while top and total < cap:
        top -= 1
        code = int(stack[top, 1])
        group, level = code >> LEVEL_BITS, code & (LEVELS - 1)
        block = base[level] + group
        close = boxes_within(tree.boxes, block, source, target, scale, limit, gaps)
        full = boxes_inside(tree.boxes, block, source, target, scale, limit, distances)
        close &= ~full
        child, shift = group << SHIFT, SHIFT * (level + 1)
        while full:
            first = (child + lowest_lane(full)) << shift
            full &= full - 1
            total += before[min(size, first + (1 << shift))] - before[first]
        if level:
            top = push_boxes(close, child, level - 1, gaps, stack, top)
            continue
        while close and total < cap:
            leaf = child + lowest_lane(close)
            close &= close - 1
            mask = points_within(tree.points, leaf, source, target, scale, limit, distances)
            if distinct:
                total += count_lanes(mask)
                continue
            while mask:
                position = (leaf << SHIFT) + lowest_lane(mask)
                mask &= mask - 1
                total += before[position + 1] - before[position]
    return min(total, cap)


@inner(borrowing=True, error_model="numpy")
def _find_closest_of(source, target, worst, tree, metric, work):  # type: ignore[no-untyped-def]
    """Least squared distance up to `worst`, how many records are there, the position of one."""
    distances, gaps, stack = work.distances, work.gaps, work.stack
    before, base = tree.before, tree.base
    scale, reach = metric.scale, _widen(worst, metric)
    ties, position, unsure = 0, -1, False
    stack[0, 0], stack[0, 1] = 0.0, len(base) - 1
    top = 1
    while top:
        top -= 1
        if stack[top, 0] > reach:
            continue
        code = int(stack[top, 1])
        group, level = code >> LEVEL_BITS, code & (LEVELS - 1)
        close = boxes_within(tree.boxes, base[level] + group, source, target, scale, reach, gaps)
        if level:
            top = push_boxes(close, group << SHIFT, level - 1, gaps, stack, top)
            continue
        while close:
            lane = lowest_lane(close)
            close &= close - 1
            if gaps[lane] > reach:
                continue
            leaf = (group << SHIFT) + lane
            mask = points_within(tree.points, leaf, source, target, scale, reach, distances)
            while mask:
                lane = lowest_lane(mask)
                mask &= mask - 1
                if distances[lane] > reach:
                    continue
                if distances[lane] < worst:
                    reach = _widen(distances[lane], metric)
                    # Of those counted so far some may lie just beyond the new reach.
                    unsure = ties > 0 and worst <= reach
                    ties = ties if unsure else 0
                    worst = distances[lane]
                here = (leaf << SHIFT) + lane
                if distances[lane] == worst:
                    position = here
                ties += before[here + 1] - before[here]
    if unsure:
        ties = _count_within(source, target, reach, _NO_CAP, tree, False, scale, work)
    return worst, ties, position


@compiled(small=_SMALL)
def _find_closest(begin, end, ours, theirs, wanted, metric, closest):  # type: ignore[no-untyped-def]
    """Fill in the closest of the targets from `begin` to `end` in the order of their tree.

    No target's closest is farther than the row paired with it, nor than the closest of the target
    before, which lies beside it.
    """
    work = _Lanes(np.empty(LANES), np.empty(LANES), np.empty((_DEPTH, 2)))
    source, scale = ours.source, metric.scale
    last = -1
    for i in range(begin, end):
        target = ours.rank[i]
        if not wanted[target]:
            continue
        pair = ours.order[ours.firsts[target]]
        worst = _squared_distance(source, target, theirs.values, pair, scale)
        if last >= 0:
            point = theirs.rank[last]
            worst = min(worst, _squared_distance(source, target, theirs.source, point, scale))
        squared, ties, last = _find_closest_of(source, target, worst, theirs, metric, work)
        closest.squared[target], closest.ties[target] = squared, ties
        closest.position[target] = last


@inner(borrowing=True, error_model="numpy")
def _list_ties(source, target, reach, tree, scale, work, rows):  # type: ignore[no-untyped-def]
    """The rows of all records at the least distance, which reaches so far."""
    distances, gaps, stack = work.distances, work.gaps, work.stack
    base = tree.base
    stack[0, 0], stack[0, 1] = 0.0, len(base) - 1
    top, filled = 1, 0
    while top:
        top -= 1
        code = int(stack[top, 1])
        group, level = code >> LEVEL_BITS, code & (LEVELS - 1)
        close = boxes_within(tree.boxes, base[level] + group, source, target, scale, reach, gaps)
        if level:
            top = push_boxes(close, group << SHIFT, level - 1, gaps, stack, top)
            continue
        while close:
            leaf = (group << SHIFT) + lowest_lane(close)
            close &= close - 1
            mask = points_within(tree.points, leaf, source, target, scale, reach, distances)
            while mask:
                point = tree.rank[(leaf << SHIFT) + lowest_lane(mask)]
                mask &= mask - 1
                for i in range(tree.firsts[point], tree.firsts[point + 1]):
                    rows[filled] = tree.order[i]
                    filled += 1


@inner(error_model="numpy")
def _count_all_within(target, source, firsts, metric, radii, cap, counts):  # type: ignore[no-untyped-def]
    """How many records are nearer than each of many radii, in order, by one pass over all."""
    size = len(firsts) - 1
    distances = np.empty(size)
    for point in range(size):
        distances[point] = _squared_distance(source, target, source, point, metric.scale)
    order = np.argsort(distances)
    total = i = 0
    for radius in range(len(radii)):
        limit = _narrow(radii[radius], metric)
        while i < size and distances[order[i]] <= limit:
            total += firsts[order[i] + 1] - firsts[order[i]]
            i += 1
        counts[radius] = min(total, cap)


@compiled(small=_SMALL)
def _count_ranks(begin, end, ours, theirs, wanted, metric, closest, cap, starts, counts):  # type: ignore[no-untyped-def]
    """Fill in the ranks of the originals behind the closest, for some targets.

    `starts` says where the ranks of each target lie in `counts`: one for each record that ties
    as the closest, in ascending order.
    """
    work = _Lanes(np.empty(LANES), np.empty(LANES), np.empty((_DEPTH, 2)))
    source, before = ours.source, ours.before
    scale = metric.scale
    distinct = len(before) - 1 == before[-1]
    for i in range(begin, end):
        target = ours.rank[i]
        if not wanted[target]:
            continue
        mine = counts[starts[target] : starts[target + 1]]
        radii, rows = np.empty(len(mine)), np.empty(len(mine), np.int64)
        if len(mine) == 1:
            rows[0] = theirs.order[theirs.firsts[theirs.rank[closest.position[target]]]]
        else:
            reach = _widen(closest.squared[target], metric)
            _list_ties(source, target, reach, theirs, scale, work, rows)
        for j in range(len(rows)):
            radii[j] = _squared_distance(source, target, ours.values, rows[j], scale)
        radii.sort()
        if len(radii) * _DENSE > len(ours.rank) + _DENSE * _DENSE:
            _count_all_within(target, source, ours.firsts, metric, radii, cap, mine)
            continue
        for j in range(len(radii)):
            if j and radii[j] == radii[j - 1]:
                mine[j] = mine[j - 1]
                continue
            limit = _narrow(radii[j], metric)
            mine[j] = 0
            if limit >= 0.0:
                mine[j] = _count_within(source, target, limit, cap, ours, distinct, scale, work)
