"""Linking all persons at once: each released record to one person, at the least total distance."""

from __future__ import annotations

import math

import numpy as np

from sfumato.kernels.arrays import Floats, Positions
from sfumato.kernels.fixed import content_order, scattered


def sample(original: Floats, released: Floats, size: int) -> Positions:
    """So many records, without pattern, and the same whatever the order of the records."""
    order = content_order(np.concatenate([original.T, released.T]))
    picked = np.argsort(scattered(len(order), 6), kind="stable")[:size]
    return np.asarray(order[picked])


def assigned(original: Floats, released: Floats, scale: Floats) -> float:
    """The number of records that the best one-to-one assignment links correctly.

    Equal originals can be swapped, and so can equal released records, without any change of the
    total distance. Over all such swaps this is the expected number.

    Examples
    --------
    >>> ages = np.array([[30.0], [40.0], [60.0]])
    >>> assigned(ages, np.array([[41.0], [42.0], [58.0]]), np.ones(1))
    3.0
    >>> assigned(ages, np.array([[50.0], [50.0], [50.0]]), np.ones(1))
    1.0
    """
    from scipy.optimize import linear_sum_assignment

    # Each side in an order of its own, so that the solver's ties know nothing of the pairs.
    rows, columns = content_order(original.T), content_order(released.T)
    cost = np.zeros((len(rows), len(columns)))
    for at, factor in enumerate(scale):
        gap = (released[columns, at][None, :] - original[rows, at][:, None]) * factor
        cost += gap * gap
    taken = linear_sum_assignment(cost)[1]
    person, link = _equals(original), _equals(released)
    pairs = np.stack([person[rows], link[columns[taken]]])
    made, times = np.unique(pairs, axis=1, return_counts=True)
    truth, wanted = np.unique(np.stack([person, link]), axis=1, return_counts=True)
    known = {(int(one), int(other)): int(n) for one, other, n in zip(*truth, wanted, strict=True)}
    persons, links = np.bincount(person), np.bincount(link)
    return math.fsum(
        known.get((int(one), int(other)), 0) * int(n) / (int(persons[one]) * int(links[other]))
        for one, other, n in zip(*made, times, strict=True)
    )


def _equals(values: Floats) -> Positions:
    """The same number for equal records."""
    return np.asarray(np.unique(values, axis=0, return_inverse=True)[1].ravel())
