"""How far away the nearest other records are, without a matrix of all distances."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import AnyIntegers, Floats, Integers, Positions
from sfumato.kernels.orders import order_by_content

if TYPE_CHECKING:
    from sfumato.units import Units

_AT_ONCE = 1 << 20
"""Distances computed at a time."""


def distance_to_other(
    values: Floats,
    rows: Positions,
    number: int,
    limit: float,
    units: Units,
) -> Floats:
    """Euclidean distance from each of some records to its `number`-th nearest other record.

    `values` has a row per variable and NaN where a value is missing. A record is compared in the
    variables it has; others that lack one of them do not count as near. Distances beyond `limit`
    are infinite. Where `units` are persons with several rows, the `number`-th nearest other person
    is looked for.
    """
    distances = np.full(len(rows), np.inf)
    present = ~np.isnan(values[:, rows])
    if present.all() and not np.isnan(values).any():
        return _measure(values, rows, number, limit, units)
    for pattern, members in find_patterns(present):
        has = np.flatnonzero(pattern)
        if not len(has):
            continue
        part = values[has]
        comparable = np.flatnonzero(~np.isnan(part).any(axis=0))
        # `comparable` is in order, so each record is found where it went.
        positions = np.searchsorted(comparable, rows[members])
        distances[members] = _measure(
            np.take(part, comparable, axis=1), positions, number, limit, units.take(comparable)
        )
    return distances


def find_patterns(present: npt.NDArray[np.bool_]) -> list[tuple[npt.NDArray[np.bool_], Positions]]:
    """Which variables records have (a row per variable), and the records that have just those."""
    packed = np.packbits(present, axis=0).T
    distinct, of = np.unique(packed, axis=0, return_inverse=True)
    flags = np.unpackbits(distinct, axis=1, count=len(present)).astype(bool)
    return [
        (flags[number], np.flatnonzero(of.ravel() == number)) for number in range(len(distinct))
    ]


def _measure(values: Floats, rows: Positions, number: int, limit: float, units: Units) -> Floats:
    """The same for complete records."""
    if units.one_row_each:
        return _measure_complete(values, rows, number, limit)
    return _measure_persons(values, rows, number, limit, units.numbers)


def _measure_persons(
    values: Floats, rows: Positions, number: int, limit: float, persons: AnyIntegers
) -> Floats:
    """The distance to the `number`-th nearest other person. Rows that somebody repeats are one."""
    from scipy.spatial import cKDTree

    points = values.T
    keep = np.unique(np.column_stack([points, persons]), axis=0, return_index=True)[1]
    tree = cKDTree(points[keep], balanced_tree=False, compact_nodes=False)
    owners = np.append(persons[keep], -1)  # beyond the last: nobody
    distances = np.full(len(rows), np.inf)
    open_, most = np.arange(len(rows)), min(4 * (number + 1), len(keep))
    while len(open_):
        left = []
        step = max(1, _AT_ONCE // most)
        for first in range(0, len(open_), step):
            part = open_[first : first + step]
            far, neighbours = tree.query(
                points[rows[part]],
                k=np.arange(1, most + 1),
                distance_upper_bound=np.nextafter(limit, np.inf),
            )
            enough = _count_others(owners[neighbours], persons[rows[part]]) >= number
            reached = far[np.arange(len(part)), enough.argmax(axis=1)]
            distances[part] = np.where(enough.any(axis=1), reached, np.inf)
            left.append(part[~enough.any(axis=1) & np.isfinite(far[:, -1])])
        open_ = np.concatenate(left) if most < len(keep) else open_[:0]
        most = min(4 * most, len(keep))
    return distances


def _count_others(owners: AnyIntegers, own: AnyIntegers) -> Integers:
    """How many different persons, oneself apart, there are up to each neighbour; -1 is nobody."""
    order = np.argsort(owners, axis=1, kind="stable")
    ordered = np.take_along_axis(owners, order, axis=1)
    new = np.ones(owners.shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    new &= (ordered != own[:, None]) & (ordered >= 0)
    first = np.zeros(owners.shape, np.int64)
    np.put_along_axis(first, order, new.astype(np.int64), axis=1)
    return np.cumsum(first, axis=1)


def _measure_complete(values: Floats, rows: Positions, number: int, limit: float) -> Floats:
    """The same for complete records. Equal records are one point, so that ties cost nothing."""
    from scipy.spatial import cKDTree

    order = order_by_content(values)
    points = np.take(values, order, axis=1).T.copy()
    new = np.ones(len(points), bool)
    new[1:] = (points[1:] != points[:-1]).any(axis=1)
    start = np.flatnonzero(new)
    sizes = np.diff(start, append=len(points))
    where = np.empty(len(order), np.intp)
    where[order] = np.cumsum(new) - 1
    sought, back = np.unique(where[rows], return_inverse=True)
    distances = np.where(sizes[sought] > number, 0.0, np.inf)
    # Among one more distinct point than needed there are enough records, itself included.
    open_ = np.flatnonzero(sizes[sought] <= number)
    most = min(number + 1, len(start))
    if len(open_) and most > 1:
        tree = cKDTree(points[start], balanced_tree=False, compact_nodes=False)
        step = max(1, _AT_ONCE // most)
        for first in range(0, len(open_), step):
            part = open_[first : first + step]
            far, neighbours = tree.query(
                points[start[sought[part]]],
                k=most,
                distance_upper_bound=np.nextafter(limit, np.inf),
            )
            # A column without a neighbour has the index after the last point: nobody is there.
            enough = np.cumsum(np.append(sizes, 0)[neighbours], axis=1) > number
            position = enough.argmax(axis=1)
            reached = far[np.arange(len(part)), position]
            distances[part] = np.where(enough.any(axis=1), reached, np.inf)
    return distances[back.ravel()]
