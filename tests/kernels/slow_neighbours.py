"""The same neighbours by comparing a record with every other, in plain numpy."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np


def added(terms):
    """One after the other, as the kernel does; numpy's own sums go in pairs."""
    total = np.zeros(len(terms))
    for column in terms.T:
        total = total + column
    return total


def squared_distances(item, others, scale):
    """From scaled differences of the raw values."""
    gaps = others - item
    if scale.ndim == 1:
        return added((gaps * scale) ** 2)
    return added(np.column_stack([added(gaps * row) for row in scale]) ** 2)


def slow_neighbours(values, scale, starts, k, only=None):
    """A full sort of its stratum for each record, or for some."""
    wanted = np.broadcast_to(k, len(starts) - 1)
    rows = np.full((len(values), max(wanted, default=0)), -1)
    for (first, last), count in zip(pairwise(starts), wanted, strict=True):
        stratum = values[first:last]
        for i in range(last - first) if only is None else only:
            distance = squared_distances(stratum[i], stratum, scale)
            different = (stratum != stratum[i]).any(axis=1)
            other = np.arange(len(stratum)) != i
            # The last key counts most; lexsort is stable, so equal records stay in row order.
            order = np.lexsort((*stratum.T[::-1], distance, different, other))
            rows[first + i, :count] = first + order[:count]
    return rows


def exact_means(values, rows):
    """Means of the rows listed, in fractions, rounded once."""
    means = np.empty((len(rows), values.shape[1]))
    for i, row in enumerate(rows):
        members = values[row[row >= 0]]
        for j, column in enumerate(members.T.tolist()):
            means[i, j] = float(sum(map(Fraction, column)) / len(column))
    return means
