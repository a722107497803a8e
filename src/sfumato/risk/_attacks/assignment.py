"""Linking all persons at once: each released record to one person, at the least total distance."""

from __future__ import annotations

import math

import numpy as np

from sfumato.cells.codes import encode_rows
from sfumato.kernels.arrays import Floats, Positions
from sfumato.kernels.orders import order_by_content, scatter_numbers


def sample_pairs(original: Floats, released: Floats, size: int) -> Positions:
    """So many records, without pattern, and the same whatever the order of the records."""
    order = order_by_content(np.concatenate([original.T, released.T]))
    picked = np.argsort(scatter_numbers(len(order), 6), kind="stable")[:size]
    return np.asarray(order[picked])


def count_correct_links(original: Floats, released: Floats, scale: Floats) -> float:
    """The number of records that the best one-to-one assignment links correctly.

    Equal originals can be swapped, and so can equal released records, without any change of the
    total distance. Over all such swaps this is the expected number.

    Examples
    --------
    >>> ages = np.array([[30.0], [40.0], [60.0]])
    >>> count_correct_links(ages, np.array([[41.0], [42.0], [58.0]]), np.ones(1))
    3.0
    >>> count_correct_links(ages, np.array([[50.0], [50.0], [50.0]]), np.ones(1))
    1.0
    """
    from scipy.optimize import linear_sum_assignment

    # Each side in an order of its own, so that the solver's ties know nothing of the pairs.
    rows, columns = order_by_content(original.T), order_by_content(released.T)
    cost = np.zeros((len(rows), len(columns)))
    for column, factor in enumerate(scale):
        gap = (released[columns, column][None, :] - original[rows, column][:, None]) * factor
        cost += gap * gap
    taken = linear_sum_assignment(cost)[1]
    person, link = encode_rows(original), encode_rows(released)
    pairs = np.stack([person[rows], link[columns[taken]]])
    assigned, times = np.unique(pairs, axis=1, return_counts=True)
    truth, wanted = np.unique(np.stack([person, link]), axis=1, return_counts=True)
    # Of a class of n equal persons and one of m equal links, each pair is right by 1 / (n m).
    known = {
        (int(person_class), int(link_class)): int(count)
        for person_class, link_class, count in zip(*truth, wanted, strict=True)
    }
    persons, links = np.bincount(person), np.bincount(link)
    return math.fsum(
        known.get((int(person_class), int(link_class)), 0)
        * int(count)
        / (int(persons[person_class]) * int(links[link_class]))
        for person_class, link_class, count in zip(*assigned, times, strict=True)
    )
