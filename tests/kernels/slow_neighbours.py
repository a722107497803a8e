"""The same neighbours by comparing every record with every other, in plain numpy."""

from __future__ import annotations

from fractions import Fraction

import numpy as np


def squared_distances(one, others, scale):
    """From scaled differences, added column by column."""
    gaps = others - one
    total = np.zeros(len(others))
    for row in np.diag(scale) if scale.ndim == 1 else scale:
        part = np.zeros(len(others))
        for column, factor in enumerate(row):
            part = part + factor * gaps[:, column]
        total = total + part * part
    return total


def slow_neighbours(values, scale, starts, k):
    """A full sort of each stratum for each of its records."""
    wanted = np.broadcast_to(k, len(starts) - 1)
    rows = np.full((len(values), max(wanted, default=0)), -1)
    for first, last, count in zip(starts, starts[1:], wanted, strict=False):
        stratum = values[first:last]
        for i, one in enumerate(stratum):
            distance = squared_distances(one, stratum, scale)
            other = (stratum != one).any(axis=1)
            itself = np.arange(len(stratum)) == i
            # The last key counts most; lexsort is stable, so equal records stay in row order.
            order = np.lexsort((*stratum.T[::-1], distance, other, ~itself))
            rows[first + i, :count] = first + order[:count]
    return rows


def slow_centroids(values, scale, starts, k):
    """The exact mean, in fractions, rounded once."""
    rows = slow_neighbours(values, scale, starts, k)
    means = np.empty_like(values)
    for i, row in enumerate(rows):
        members = values[row[row >= 0]]
        for j, column in enumerate(members.T):
            means[i, j] = float(sum(map(Fraction, column.tolist())) / len(column))
    return means
