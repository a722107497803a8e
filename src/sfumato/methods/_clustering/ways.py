"""The ways to find clusters, on coded variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.data import Dataset
from sfumato.kernels.arrays import Codes, Integers
from sfumato.methods._clustering.cells import Clusters
from sfumato.methods._clustering.coded import Variable
from sfumato.methods._clustering.numbers import numbers, standardised

if TYPE_CHECKING:
    from sfumato.kernels.clustering.rules import Rule


def cut(
    variables: Sequence[Variable],
    k: int,
    *,
    sensitive: Codes | None = None,
    rules: Sequence[Rule] = (),
) -> Clusters:
    """Mondrian: cut in two as long as both halves have k records and keep the rules."""
    from sfumato.kernels.clustering.mondrian import mondrian

    order, starts = mondrian(
        _table(variables),
        k,
        ordered=[one.worth is not None for one in variables],
        values=[one.worth for one in variables],
        sensitive=sensitive,
        rules=rules,
    )
    return Clusters(order, starts)


def along_origin(variables: Sequence[Variable], k: int, rank: Integers) -> Clusters:
    """Algorithm S2: k after k along the distance to the zero record."""
    from sfumato.kernels.clustering.clusters import origin_order

    persons = np.argsort(rank)
    values = numbers(variables, 'The clustering "origin"')[persons]
    return _named(persons, *origin_order(values, k))


def person_ranks(data: Dataset) -> Integers:
    """Each record's place in an order that follows the person.

    Where a clustering divides records that are equal in all its variables, the person decides who
    goes where, not the place in the file.
    """
    digests = data.identity.digests
    ranks = np.empty(len(digests), np.int64)
    ranks[np.lexsort((digests[:, 1], digests[:, 0]))] = np.arange(len(digests))
    return ranks


def _named(persons: Integers, order: Integers, starts: Integers) -> Clusters:
    """Clusters of records that were numbered in another order."""
    return Clusters(persons[order], starts)


def spread(
    variables: Sequence[Variable], confidential: Codes, k: int, t: float | None, rank: Integers
) -> Clusters:
    """Algorithm S4: each cluster takes records from the whole range of a confidential variable."""
    from sfumato.kernels.clustering.clusters import spread_order

    persons = np.argsort(rank)
    values = numbers(variables, 'The clustering "spread"')[persons]
    return _named(persons, *spread_order(values, confidential[persons], k, t))


def gathered(variables: Sequence[Variable], k: int, rank: Integers) -> Clusters:
    """MDAV on standardised values; k and more equal records are a cluster of their own."""
    from sfumato.kernels.clustering.mdav import mdav
    from sfumato.kernels.clustering.mondrian import distinct_rows

    values = standardised(variables, 'The clustering "mdav"')
    persons = np.argsort(rank)
    order, starts = distinct_rows(_table(variables)[persons])
    order = persons[order]
    sizes = np.diff(starts)
    alone = sizes >= k
    if 0 < sizes[~alone].sum() < k:
        alone[:] = False  # too few would be left over
    kept = np.repeat(alone, sizes)
    same, rest = order[kept], order[~kept]
    ends = np.concatenate([[0], np.cumsum(sizes[alone])]).astype(np.int64)
    if not len(rest):
        return Clusters(same, ends)
    inside, begins = mdav(values[rest], k)
    return Clusters(
        np.concatenate([same, rest[inside]]), np.concatenate([ends, ends[-1] + begins[1:]])
    )


def _table(variables: Sequence[Variable]) -> Any:
    return np.column_stack([one.codes for one in variables])
