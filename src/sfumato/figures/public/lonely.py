"""Records that lie so far from all others that no protection by their spread hides them.

A centre of k neighbours, or noise by the share of an SD, moves a record by about as much as others
are spread. Who lies a hundred times as far away is still seen where he is, to within a percent; and
what he adds to the SD shifts everybody else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import Floats, Mask

if TYPE_CHECKING:
    import polars as pl

_FAR = 1.0
"""Spreads of the middle of the records, by which a record must be apart from others to be alone."""
_HARDLY = 0.25
"""Share of that distance; a record that moves by less is still seen where it was."""
_ENDS, _IN_SDS = (0.05, 0.95), 3.29
_MOST = 3


def seen_alone(original: pl.DataFrame, made: pl.DataFrame, k: int) -> Mask:
    """Which records have fewer than k - 1 others near them, and are drawn near to where they were.

    Distances are the largest over the variables, in units of the spread of the middle 90 %.

    Examples
    --------
    >>> import polars as pl
    >>> before = pl.DataFrame({"x": [*np.linspace(0.0, 1.0, 50), 100.0]})
    >>> seen_alone(before, before + 0.1, 3).nonzero()[0].tolist()
    [50]
    """
    values = np.column_stack([_scaled(original[name].to_numpy()) for name in original.columns])
    moved = np.column_stack(
        [
            np.abs(made[name].to_numpy() - original[name].to_numpy())
            / _spread(original[name].to_numpy())
            for name in original.columns
        ]
    ).max(axis=1)
    found = np.zeros(len(values), bool)
    some = np.flatnonzero(_few_in_cell(values, k))
    if len(some):
        gap = _gaps(values, some, min(k, _MOST, len(values) - 1))
        found[some] = (gap > _FAR) & (moved[some] < _HARDLY * gap)
    return found


def _spread(values: Floats) -> float:
    """The SD by the middle of the records: far ones do not count."""
    low, high = np.quantile(values, _ENDS)
    return float((high - low) / _IN_SDS or values.std() or 1.0)


def _scaled(values: Floats) -> Floats:
    made: Floats = values / _spread(values)
    return made


def _few_in_cell(values: Floats, k: int) -> Mask:
    """Records in cells of one spread that hold fewer than k: all others have k - 1 near them."""
    cells = np.floor(values / _FAR)
    _, at, counts = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    return np.asarray(counts[at.ravel()] < k)


def _gaps(values: Floats, some: npt.NDArray[np.intp], others: int) -> Floats:
    """How far the (k - 1)-th nearest other record is."""
    from scipy.spatial import cKDTree

    near, _ = cKDTree(values).query(values[some], k=[others], p=np.inf)
    return np.asarray(near, np.float64)[:, -1]
