"""Rows that agree in some columns: numbered exactly, whatever the number of columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import AnyIntegers
from sfumato.kernels.clustering.orders import grouped
from sfumato.kernels.lattice.walk import tally_groups

_LARGEST = 1 << 62


def keys(codes: AnyIntegers, columns: Iterable[int]) -> npt.NDArray[np.int64]:
    """A number per row; two rows have the same one if and only if they agree in the columns."""
    found, size = np.zeros(len(codes), np.int64), 1
    for column in columns:
        values = int(codes[:, column].max(initial=0)) + 1
        if size * values > _LARGEST:
            found = np.unique(found, return_inverse=True)[1].ravel().astype(np.int64)
            size = int(found.max(initial=0)) + 1
        found *= values
        found += codes[:, column]
        size *= values
    return found


def at_maximum(
    codes: AnyIntegers, counts: AnyIntegers, sensitive: int, known: Sequence[int], q: Fraction
) -> tuple[AnyIntegers, AnyIntegers, AnyIntegers]:
    """Peers of each row in all known columns, those of the same value, and other likely values."""
    order, bounds = grouped(keys(codes, [one for one in known if one != sensitive]))
    column = np.ascontiguousarray(codes[:, sensitive])
    size = int(column.max()) + 1
    found: tuple[AnyIntegers, AnyIntegers, AnyIntegers] = tally_groups(
        order, bounds[1:], column, counts, size, q.numerator, q.denominator
    )
    return found


def value_peers(
    codes: AnyIntegers, counts: AnyIntegers, *, sensitive: int, known: Sequence[int]
) -> npt.NDArray[np.int64]:
    """Peers of each row in all known columns, by the value of the sensitive one: rows x values.

    Divided by its sum, a row is the value-specific peer protection at maximum information.
    """
    others = keys(codes, [one for one in known if one != sensitive])
    _, group = np.unique(others, return_inverse=True)
    size = int(codes[:, sensitive].max()) + 1
    cell = group.ravel() * size + codes[:, sensitive]
    table = np.bincount(cell, counts, (int(group.max()) + 1) * size).astype(np.int64)
    return table.reshape(-1, size)[group.ravel()]
