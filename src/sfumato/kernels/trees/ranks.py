"""The nearest released record of a target, and how many originals are nearer than the one behind.

Exact, and without comparing all pairs: trees of boxes over the distinct points (see
`neighbours`), where a box that lies wholly within a distance is counted at once. A squared
distance is the sum over the columns, in their order, of ((a - b) * scale)^2, wherever it is
computed, so "as near as" and "nearer than" mean the same in every part. Results depend on the
records and not on their order.

numba caches what it compiled per file: after a change to `neighbours.py` or `lanes.py`, touch
this one.
"""

from __future__ import annotations

from collections.abc import Callable
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


@dataclass(frozen=True, eq=False)
class Nearest:
    """What lies nearest to each target.

    Parameters
    ----------
    squared : the least squared distance; NaN for records that are no target.
    ties : how many records lie at that distance; 0 for records that are no target.
    """

    squared: Floats = field(repr=False)
    ties: Integers = field(repr=False)


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
    targets: Floats, points: Floats, scale: Floats, *, among: Mask | None = None
) -> Nearest:
    """The distance from each target to the nearest of the points, and how many are as near.

    Parameters
    ----------
    targets, points : a row per record; row by row they are pairs.
    scale : a factor per column.
    among : which rows are targets. Default: all.

    Examples
    --------
    >>> ages = np.array([[30.0], [40.0], [60.0]])
    >>> closest = nearest(ages, np.array([[32.0], [38.0], [38.0]]), np.array([1.0]))
    >>> closest.squared.tolist(), closest.ties.tolist()
    ([4.0, 4.0, 484.0], [1, 2, 2])
    """
    targets, points, scale = _check(targets, points, scale)
    ours, theirs = _build_tree(targets, scale), _build_tree(points, scale)
    wanted = _mark_targets(ours, among)
    closest = _search_closest(ours, theirs, wanted, scale)
    closest.squared[~wanted] = np.nan
    closest.ties[~wanted] = 0
    rows = np.ones(len(targets), bool) if among is None else among
    return Nearest(
        squared=np.where(rows, closest.squared[ours.of], np.nan),
        ties=np.where(rows, closest.ties[ours.of], 0),
    )


def ranks(
    original: Floats,
    released: Floats,
    scale: Floats,
    *,
    among: Mask | None = None,
    cap: int | None = None,
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

    Examples
    --------
    >>> ages = np.array([[30.0], [40.0], [60.0]])
    >>> ranked = ranks(ages, np.array([[32.0], [59.0], [38.0]]), np.array([1.0]))
    >>> ranked.mean().tolist(), ranked.share_below(1).tolist()
    ([0.0, 2.0, 1.0], [1.0, 0.0, 0.0])
    """
    original, released, scale = _check(original, released, scale)
    if cap is not None and cap < 1:
        raise ValueError("The cap must be at least 1.")
    ours, theirs = _build_tree(original, scale), _build_tree(released, scale)
    wanted = _mark_targets(ours, among)
    closest = _search_closest(ours, theirs, wanted, scale)
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
            begin, end, ours, theirs, wanted, scale, closest, most, starts, counts
        ),
    )
    of = ours.of if among is None else np.where(among, ours.of, -1)
    return Ranks(counts, starts, of, cap)


def _search_closest(ours: _RankTree, theirs: _RankTree, wanted: Mask, scale: Floats) -> _Closest:
    size = len(ours.rank)
    closest = _Closest(
        allocate((size,), np.float64), allocate((size,), np.int64), allocate((size,), np.int64)
    )
    _work_in_slices(
        "looking for the nearest",
        size,
        lambda begin, end: _find_closest(begin, end, ours, theirs, wanted, scale, closest),
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


def _check(first: Floats, second: Floats, scale: Floats) -> tuple[Floats, Floats, Floats]:
    """The arguments as arrays of the right kind."""
    tables = [np.ascontiguousarray(values, np.float64) for values in (first, second)]
    scale = np.ascontiguousarray(scale, np.float64)
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
    return seal(tables[0]), seal(tables[1]), seal(scale)


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


@inner(borrowing=True, error_model="numpy")
def _find_closest_of(source, target, worst, tree, scale, work):  # type: ignore[no-untyped-def]
    """Least squared distance up to `worst`, how many records are there, the position of one."""
    distances, gaps, stack = work.distances, work.gaps, work.stack
    before, base = tree.before, tree.base
    ties, position = 0, -1
    stack[0, 0], stack[0, 1] = 0.0, len(base) - 1
    top = 1
    while top:
        top -= 1
        if stack[top, 0] > worst:
            continue
        code = int(stack[top, 1])
        group, level = code >> LEVEL_BITS, code & (LEVELS - 1)
        close = boxes_within(tree.boxes, base[level] + group, source, target, scale, worst, gaps)
        if level:
            top = push_boxes(close, group << SHIFT, level - 1, gaps, stack, top)
            continue
        while close:
            lane = lowest_lane(close)
            close &= close - 1
            if gaps[lane] > worst:
                continue
            leaf = (group << SHIFT) + lane
            mask = points_within(tree.points, leaf, source, target, scale, worst, distances)
            while mask:
                lane = lowest_lane(mask)
                mask &= mask - 1
                if distances[lane] < worst:
                    worst, ties = distances[lane], 0
                if distances[lane] == worst:
                    position = (leaf << SHIFT) + lane
                    ties += before[position + 1] - before[position]
    return worst, ties, position


@compiled(small=_SMALL)
def _find_closest(begin, end, ours, theirs, wanted, scale, closest):  # type: ignore[no-untyped-def]
    """Fill in the closest of the targets from `begin` to `end` in the order of their tree.

    No target's closest is farther than the row paired with it, nor than the closest of the target
    before, which lies beside it.
    """
    work = _Lanes(np.empty(LANES), np.empty(LANES), np.empty((_DEPTH, 2)))
    source = ours.source
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
        squared, ties, last = _find_closest_of(source, target, worst, theirs, scale, work)
        closest.squared[target], closest.ties[target] = squared, ties
        closest.position[target] = last


@inner(borrowing=True, error_model="numpy")
def _count_within(target, limit, cap, tree, distinct, scale, work):  # type: ignore[no-untyped-def]
    """How many records lie within the limit; counting stops at the cap."""
    distances, gaps, stack = work.distances, work.gaps, work.stack
    source, before, base = tree.source, tree.before, tree.base
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
def _list_ties(source, target, least, tree, scale, work, rows):  # type: ignore[no-untyped-def]
    """The rows of all records at the least distance."""
    distances, gaps, stack = work.distances, work.gaps, work.stack
    base = tree.base
    stack[0, 0], stack[0, 1] = 0.0, len(base) - 1
    top, filled = 1, 0
    while top:
        top -= 1
        code = int(stack[top, 1])
        group, level = code >> LEVEL_BITS, code & (LEVELS - 1)
        close = boxes_within(tree.boxes, base[level] + group, source, target, scale, least, gaps)
        if level:
            top = push_boxes(close, group << SHIFT, level - 1, gaps, stack, top)
            continue
        while close:
            leaf = (group << SHIFT) + lowest_lane(close)
            close &= close - 1
            mask = points_within(tree.points, leaf, source, target, scale, least, distances)
            while mask:
                point = tree.rank[(leaf << SHIFT) + lowest_lane(mask)]
                mask &= mask - 1
                for i in range(tree.firsts[point], tree.firsts[point + 1]):
                    rows[filled] = tree.order[i]
                    filled += 1


@inner(error_model="numpy")
def _count_all_within(target, source, firsts, scale, radii, cap, counts):  # type: ignore[no-untyped-def]
    """How many records are nearer than each of many radii, in order, by one pass over all."""
    size = len(firsts) - 1
    distances = np.empty(size)
    for point in range(size):
        distances[point] = _squared_distance(source, target, source, point, scale)
    order = np.argsort(distances)
    total = i = 0
    for radius in range(len(radii)):
        while i < size and distances[order[i]] < radii[radius]:
            total += firsts[order[i] + 1] - firsts[order[i]]
            i += 1
        counts[radius] = min(total, cap)


@compiled(small=_SMALL)
def _count_ranks(begin, end, ours, theirs, wanted, scale, closest, cap, starts, counts):  # type: ignore[no-untyped-def]
    """Fill in the ranks of the originals behind the closest, for some targets.

    `starts` says where the ranks of each target lie in `counts`: one for each record that ties
    as the closest, in ascending order.
    """
    work = _Lanes(np.empty(LANES), np.empty(LANES), np.empty((_DEPTH, 2)))
    source, before = ours.source, ours.before
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
            _list_ties(source, target, closest.squared[target], theirs, scale, work, rows)
        for j in range(len(rows)):
            radii[j] = _squared_distance(source, target, ours.values, rows[j], scale)
        radii.sort()
        if len(radii) * _DENSE > len(ours.rank) + _DENSE * _DENSE:
            _count_all_within(target, source, ours.firsts, scale, radii, cap, mine)
            continue
        for j in range(len(radii)):
            if j and radii[j] == radii[j - 1]:
                mine[j] = mine[j - 1]
            elif radii[j] == 0.0:
                mine[j] = 0
            else:
                limit = np.nextafter(radii[j], 0.0)
                mine[j] = _count_within(target, limit, cap, ours, distinct, scale, work)
