"""Linking all persons at once: each released record to one person, at the least total distance."""

from __future__ import annotations

import math

import numpy as np

from sfumato.cells.codes import encode_rows
from sfumato.kernels.arrays import AnyIntegers, Floats, Positions
from sfumato.kernels.orders import order_by_content, scatter_numbers

_SAME = 1e-9
"""Assignments whose cost differs by less than this share of a typical link cost the same."""


def sample_pairs(original: Floats, released: Floats, size: int) -> Positions:
    """So many records, without pattern, and the same whatever the order of the records."""
    order = order_by_content(np.concatenate([original.T, released.T]))
    picked = np.argsort(scatter_numbers(len(order), 6), kind="stable")[:size]
    return np.asarray(order[picked])


def count_correct_links(original: Floats, released: Floats, scale: Floats) -> float:
    """The number of records that the best one-to-one assignment links correctly.

    Examples
    --------
    >>> ages = np.array([[30.0], [40.0], [60.0]])
    >>> count_correct_links(ages, np.array([[41.0], [42.0], [58.0]]), np.ones(1))
    3.0
    >>> count_correct_links(ages, np.array([[50.0], [50.0], [50.0]]), np.ones(1))
    1.0
    """
    # In an order of their own: the same whatever the order of the records.
    rows = order_by_content(np.concatenate([original.T, released.T]))
    cost = np.zeros((len(rows), len(rows)))
    for shown, known, factor in zip(released[rows].T, original[rows].T, scale, strict=True):
        gap = (shown[None, :] - known[:, None]) * factor
        cost += gap * gap
    return assign_all(cost, encode_rows(original[rows]), encode_rows(released[rows]))


def assign_all(cost: Floats, person: AnyIntegers, link: AnyIntegers) -> float:
    """The number of persons that are linked to their own record at the least total cost.

    Row by row, persons and records belong together. Equal persons can be swapped, and so can equal
    records: over all such swaps this is the expected number. Where different assignments cost the
    same, the one that links the most counts, whatever a solver happens to find.

    Parameters
    ----------
    cost : of linking each person (row) to each record (column).
    person, link : which class of equal persons, and of equal records, each of them is in.
    """
    from scipy.optimize import linear_sum_assignment

    sizes = [np.bincount(classes) for classes in (person, link)]
    # Of a class of n equal persons and one of m equal records, each pair is right by 1 / (n m).
    share = np.zeros((len(sizes[0]), len(sizes[1])))
    np.add.at(share, (person, link), 1.0)
    share /= np.outer(*sizes)
    chance = share[person][:, link]
    least = cost.min(axis=1)
    small = next((part[part > 0] for part in (least, cost) if (part > 0).any()), np.ones(1))
    taken = linear_sum_assignment(cost - _SAME * float(np.median(small)) * chance)[1]
    return math.fsum(chance[np.arange(len(taken)), taken].tolist())
