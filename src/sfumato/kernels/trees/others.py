"""How far away the nearest other records are, without a matrix of all distances."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import Floats, Positions
from sfumato.kernels.fixed import content_order

_AT_ONCE = 1 << 20
"""Distances asked for at a time."""


def distance_to_other(values: Floats, rows: Positions, number: int, limit: float) -> Floats:
    """Euclidean distance from each of some records to its `number`-th nearest other record.

    `values` has a row per variable and NaN where a value is missing. A record is compared in the
    variables it has; others that lack one of them do not count as near. Distances beyond `limit`
    are infinite.
    """
    found = np.full(len(rows), np.inf)
    seen = ~np.isnan(values[:, rows])
    if seen.all() and not np.isnan(values).any():
        return _among(values, rows, number, limit)
    for pattern, members in patterns(seen):
        has = np.flatnonzero(pattern)
        if not len(has):
            continue
        part = values[has]
        comparable = np.flatnonzero(~np.isnan(part).any(axis=0))
        # `comparable` is in order, so each record is found where it went.
        at = np.searchsorted(comparable, rows[members])
        found[members] = _among(np.take(part, comparable, axis=1), at, number, limit)
    return found


def patterns(seen: npt.NDArray[np.bool_]) -> list[tuple[npt.NDArray[np.bool_], Positions]]:
    """Which variables records have (a row per variable), and the records that have just those."""
    packed = np.packbits(seen, axis=0).T
    distinct, of = np.unique(packed, axis=0, return_inverse=True)
    flags = np.unpackbits(distinct, axis=1, count=len(seen)).astype(bool)
    return [(flags[at], np.flatnonzero(of.ravel() == at)) for at in range(len(distinct))]


def _among(values: Floats, rows: Positions, number: int, limit: float) -> Floats:
    """The same for complete records. Equal records are one point, so that ties cost nothing."""
    from scipy.spatial import cKDTree

    order = content_order(values)
    points = np.take(values, order, axis=1).T.copy()
    new = np.ones(len(points), bool)
    new[1:] = (points[1:] != points[:-1]).any(axis=1)
    start = np.flatnonzero(new)
    held = np.diff(start, append=len(points))
    where = np.empty(len(order), np.intp)
    where[order] = np.cumsum(new) - 1
    sought, back = np.unique(where[rows], return_inverse=True)
    found = np.where(held[sought] > number, 0.0, np.inf)
    # Among one more distinct point than asked for there are enough records, itself included.
    open_ = np.flatnonzero(held[sought] <= number)
    most = min(number + 1, len(start))
    if len(open_) and most > 1:
        tree = cKDTree(points[start], balanced_tree=False, compact_nodes=False)
        step = max(1, _AT_ONCE // most)
        for first in range(0, len(open_), step):
            part = open_[first : first + step]
            far, near = tree.query(
                points[start[sought[part]]],
                k=most,
                distance_upper_bound=np.nextafter(limit, np.inf),
            )
            # A place without a neighbour has the index after the last point: nobody is there.
            enough = np.cumsum(np.append(held, 0)[near], axis=1) > number
            at = enough.argmax(axis=1)
            reached = far[np.arange(len(part)), at]
            found[part] = np.where(enough.any(axis=1), reached, np.inf)
    return found[back.ravel()]


def _distinct(values: Floats) -> tuple[Floats, npt.NDArray[np.int64], Positions]:
    """The distinct records (a row each), how many there are of each, and which each one is."""
    order = content_order(values)
    ordered = np.take(values, order, axis=1)
    new = np.zeros(len(order), bool)
    new[:1] = True
    for one in ordered:
        new[1:] |= one[1:] != one[:-1]
    start = np.flatnonzero(new)
    where = np.empty(len(order), np.intp)
    where[order] = np.cumsum(new) - 1
    points = np.ascontiguousarray((ordered if new.all() else ordered[:, start]).T)
    return points, np.diff(start, append=len(order)), where
