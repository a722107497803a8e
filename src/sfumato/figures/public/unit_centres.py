"""Neighbours and centres where the rules count persons or groups, who have several records.

The nearest records of somebody with many are their own. Neighbours are therefore records of others:
of each of these the nearest one, so that a centre rests on k of them.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import polars as pl

from sfumato.kernels.arrays import AnyIntegers, Floats, Integers
from sfumato.outputs.contributors import Contributors
from sfumato.outputs.output import OutputRefused

_AT_ONCE = 1 << 22
"""Pairs of records that are looked at together."""
_MORE = 4


def find_unit_neighbours(
    values: Floats, rows: AnyIntegers, units: Contributors, count: int, *, norm: float = 2.0
) -> Integers:
    """For some records, each with itself and its nearest records of others; -1 where too few.

    Parameters
    ----------
    values : a row per record.
    rows : the records whose neighbours are wanted.
    units : whose each record is.
    count : how many records, itself counted; no two of them of one unit.
    norm : of the distance: 2 is the usual one, infinity the largest difference.

    Examples
    --------
    >>> values = np.array([[0.0], [0.1], [5.0], [6.0]])
    >>> units = Contributors((np.array([0, 0, 1, 2]),), "persons")
    >>> find_unit_neighbours(values, np.array([0, 3]), units, 2).tolist()
    [[0, 2], [3, 2]]
    """
    from scipy.spatial import cKDTree

    from sfumato.kernels.trees.unit_neighbours import pick_units

    # Equal records of one unit stand once: however many there are, they are nobody's neighbours.
    # Sorted, so that of equally near ones the same are taken whatever the order of the records.
    whose = np.column_stack(units.numbers)
    content, first, of = np.unique(
        np.column_stack([values, whose]), axis=0, return_index=True, return_inverse=True
    )
    of = of.ravel()
    points, owners = content[:, : values.shape[1]], whose[first]
    tree = cKDTree(points)
    wanted, of_wanted = np.unique(of[rows], return_inverse=True)
    picked = np.full((len(wanted), count), -1, np.int64)
    pending, near = np.arange(len(wanted)), min(_MORE * count, len(points))
    while len(pending):
        for start in range(0, len(pending), max(1, _AT_ONCE // near)):
            some = pending[start : start + max(1, _AT_ONCE // near)]
            _, found = tree.query(points[wanted[some]], k=np.arange(1, near + 1), p=norm)
            picked[some] = pick_units(found.astype(np.int64), wanted[some], owners, count)
        pending = pending[picked[pending, -1] < 0] if near < len(points) else pending[:0]
        near = min(_MORE * near, len(points))
    return np.where(picked < 0, -1, first[picked])[of_wanted.ravel()]


def find_unit_centres(
    frame: pl.DataFrame, units: Contributors, k: int, distance: Literal["euclidean", "mahalanobis"]
) -> pl.DataFrame:
    """The centre of each record and the nearest records of k - 1 others, in the original's spread.

    As the method `deterministic`, which takes every record for a person.

    Parameters
    ----------
    frame : the values, a column per variable, without a gap.
    units : whose each record is.
    k : how many units share in a centre.
    distance : on standardised values, or one that takes out correlation.
    """
    values = frame.to_numpy()
    order = np.lexsort(values.T)
    mean, spread = values[order].mean(axis=0), values[order].std(axis=0)
    standard = (values - mean) / np.where(spread > 0, spread, 1.0)
    if distance == "mahalanobis":
        correlation = np.atleast_2d(np.corrcoef(standard[order].T))
        # With R the correlations and L L' = inv(R), |L'z| is the Mahalanobis distance of z from 0.
        standard = standard @ np.linalg.cholesky(np.linalg.pinv(correlation))
    nearest = find_unit_neighbours(standard, np.arange(len(values)), units, k)
    if (nearest < 0).any():
        raise OutputRefused(
            f"There are too few {units.word} for centres of {k} of them.",
            hint='take larger groups, a smaller k, or protection="suppress".',
        )
    centres = values[nearest].mean(axis=1)
    shrunk = centres[order].std(axis=0)
    if not (shrunk > 0).all():
        raise OutputRefused(
            f"With k = {k} every record would get the same value.", hint="take a smaller k."
        )
    return pl.DataFrame(mean + (centres - mean) * (spread / shrunk), schema=frame.columns)
