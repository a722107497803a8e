"""The nearest released record of a target, and how many originals are nearer than the one behind.

Exact, and without looking at all pairs: trees of boxes, where a box that lies wholly within a
distance is counted at once. A squared distance is the sum over the columns, in their order, of
((a - b) * scale)^2, wherever it is computed, so "as near as" and "nearer than" mean the same in
every part. Results depend on the records and not on their order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import Floats, Integers
from sfumato.kernels.fixed import content_order
from sfumato.kernels.memory import room
from sfumato.kernels.trees.neighbour_tree import LEVELS, empty_tree
from sfumato.kernels.trees.ranks_search import closest, count, plant
from sfumato.progress import current_progress

_SLICE = 1 << 14
_MOST_RANKS = 1 << 26
"""Ranks that are kept at most: a release of few, equal records ties with everybody."""
_NO_CAP = np.iinfo(np.int32).max


@dataclass(frozen=True, eq=False)
class Nearest:
    """What lies nearest to each record that was asked for.

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

    ranks: npt.NDArray[np.int32] = field(repr=False)
    starts: Integers = field(repr=False)
    of: Integers = field(repr=False)
    cap: int | None

    @property
    def ties(self) -> Integers:
        """How many released records tie as the nearest of each record; 0 for no target."""
        return self._each(np.diff(self.starts), 0)

    def mean(self) -> Floats:
        """The mean over the ties, for each record; NaN for no target, and where it was capped."""
        sums = self._sums(self.ranks.astype(np.int64))
        means = sums / np.maximum(np.diff(self.starts), 1)
        if self.cap is not None:
            means[self._sums(self.ranks >= self.cap) > 0] = np.nan
        return self._each(means, np.nan)

    def share_below(self, limit: int) -> Floats:
        """The share of the ties whose rank less 1 is below a limit; NaN for no target."""
        if self.cap is not None and limit > self.cap:
            raise ValueError("Counting stopped before that limit.")
        shares = self._sums(self.ranks < limit) / np.maximum(np.diff(self.starts), 1)
        return self._each(shares, np.nan)

    def _sums(self, each: npt.NDArray[Any]) -> Integers:
        totals = np.concatenate([[0], np.cumsum(each, dtype=np.int64)])
        return np.asarray(totals[self.starts[1:]] - totals[self.starts[:-1]])

    def _each(self, distinct: npt.NDArray[Any], otherwise: float) -> npt.NDArray[Any]:
        return np.where(self.of < 0, otherwise, distinct[self.of]).astype(distinct.dtype)


@dataclass(frozen=True, eq=False)
class _Tree:
    """A tree over the distinct rows of a table; see `neighbour_tree`."""

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


def nearest(
    targets: Floats, points: Floats, scale: Floats, *, among: npt.NDArray[np.bool_] | None = None
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
    >>> found = nearest(ages, np.array([[32.0], [38.0], [38.0]]), np.array([1.0]))
    >>> found.squared.tolist(), found.ties.tolist()
    ([4.0, 4.0, 484.0], [1, 2, 2])
    """
    targets, points, scale = _checked(targets, points, scale)
    ours, theirs = _planted(targets, scale), _planted(points, scale)
    wanted = _wanted(ours, among)
    least, ties, _ = _closest(ours, theirs, wanted, scale)
    least[~wanted] = np.nan
    ties[~wanted] = 0
    asked = np.ones(len(targets), bool) if among is None else among
    return Nearest(np.where(asked, least[ours.of], np.nan), np.where(asked, ties[ours.of], 0))


def ranks(
    original: Floats,
    released: Floats,
    scale: Floats,
    *,
    among: npt.NDArray[np.bool_] | None = None,
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
    >>> found = ranks(ages, np.array([[32.0], [59.0], [38.0]]), np.array([1.0]))
    >>> found.mean().tolist(), found.share_below(1).tolist()
    ([0.0, 2.0, 1.0], [1.0, 0.0, 0.0])
    """
    original, released, scale = _checked(original, released, scale)
    if cap is not None and cap < 1:
        raise ValueError("The cap must be at least 1.")
    ours, theirs = _planted(original, scale), _planted(released, scale)
    wanted = _wanted(ours, among)
    least, ties, place = _closest(ours, theirs, wanted, scale)
    ties[~wanted] = 0
    if int(ties.sum()) > _MOST_RANKS:
        raise ValueError("too many released records are equally near to the targets.")
    starts = np.concatenate([[0], np.cumsum(ties)]).astype(np.int64)
    found = room((int(starts[-1]),), np.int32)
    _in_slices(
        "counting nearer records",
        len(ours.rank),
        lambda begin, end: count(
            begin, end, wanted, original, _NO_CAP if cap is None else cap,
            ours.source, ours.firsts, ours.rank, ours.before, ours.points, ours.boxes, ours.base,
            theirs.firsts, theirs.order, theirs.rank, theirs.points, theirs.boxes, theirs.base,
            scale, least, place, starts, found,
        ),
    )  # fmt: skip
    of = ours.of if among is None else np.where(among, ours.of, -1)
    return Ranks(found, starts, of, cap)


def _closest(
    ours: _Tree, theirs: _Tree, wanted: npt.NDArray[np.bool_], scale: Floats
) -> tuple[Floats, Integers, Integers]:
    size = len(ours.rank)
    least, ties = room((size,), np.float64), room((size,), np.int64)
    place = room((size,), np.int64)
    _in_slices(
        "looking for the nearest",
        size,
        lambda begin, end: closest(
            begin, end, wanted, theirs.values, ours.source, ours.firsts, ours.order, ours.rank,
            theirs.source, theirs.rank, theirs.before, theirs.points, theirs.boxes, theirs.base,
            scale, least, ties, place,
        ),
    )  # fmt: skip
    return least, ties, place


def _in_slices(what: str, total: int, work: Callable[[int, int], None]) -> None:
    """Work slice by slice, and tell how far it is."""
    say = current_progress()
    for begin in range(0, total, _SLICE):
        end = min(total, begin + _SLICE)
        work(begin, end)
        say(what, end, total)


def _wanted(tree: _Tree, among: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_]:
    """Which distinct points are targets."""
    if among is not None and among.shape != tree.of.shape:
        raise ValueError("There must be a mark for each row.")
    wanted = np.full(len(tree.rank), among is None)
    if among is not None:
        wanted[tree.of[among]] = True
    return wanted


def _planted(values: Floats, scale: Floats) -> _Tree:
    """The tree over the distinct rows."""
    rows, columns = values.shape
    order = content_order(values.T).astype(np.int64)
    fresh = np.zeros(rows, bool)
    fresh[0] = True
    for column in values.T:
        fresh[1:] |= column[order[1:]] != column[order[:-1]]
    of = np.empty(rows, np.int64)
    of[order] = np.cumsum(fresh) - 1
    distinct = int(fresh.sum())
    tree = empty_tree(distinct, columns, turned=False)
    before, base = room((distinct + 1,), np.int64), np.empty(LEVELS, np.int64)
    _, levels = plant(values, order, fresh, scale, tree, before, base)
    source, firsts, rank, _, points, boxes = tree
    return _Tree(
        values, order, of, source, firsts, rank, before, points, boxes, base[:levels].copy()
    )


def _checked(one: Floats, other: Floats, scale: Floats) -> tuple[Floats, Floats, Floats]:
    """The arguments as arrays of the right kind."""
    tables = [np.ascontiguousarray(values, np.float64) for values in (one, other)]
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
        low, high = (np.array([end(table) for table in tables]) for end in (_lowest, _highest))
        farthest = (high.max(axis=0) - low.min(axis=0)) * scale
        if not np.isfinite((len(scale) * farthest**2).sum()):
            raise ValueError("The scale is too large for these values: distances overflow.")
    return _sealed(tables[0]), _sealed(tables[1]), _sealed(scale)


def _lowest(values: Floats) -> Floats:
    return np.asarray(values.min(axis=0))


def _highest(values: Floats) -> Floats:
    return np.asarray(values.max(axis=0))


def _sealed(array: Floats) -> Floats:
    """A view nobody writes to: numba compiles once for it, wherever the array came from."""
    view = array.view()
    view.flags.writeable = False
    return view
