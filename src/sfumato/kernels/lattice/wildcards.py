"""Counts of the records that a combination of values fits."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import Integers, Positions

_BITS = 30
_PATTERNS = 32
"""With more patterns of missing values, comparing them two at a time takes too long."""


def count_with_wildcards(codes: Integers, counts: Integers) -> Integers:
    """How many records fit each combination when a missing value fits everything.

    `codes` has a row per distinct combination and a column per variable, -1 where missing;
    `counts` says how many records have it. Two combinations fit when they agree wherever
    neither is missing. Those with the same pattern of missing values are distinct, so each fits
    only itself there; patterns are compared two at a time, the larger sought in the smaller.
    """
    present = codes >= 0
    total = counts.copy()
    if present.all():
        return total
    of = _number_patterns(present)
    if int(of.max()) >= _PATTERNS:
        from sfumato.kernels.lattice.partial_agreement import count_agreeing

        return count_agreeing(codes, counts)  # compiled, so only where it pays
    members = [np.flatnonzero(of == pattern) for pattern in range(int(of.max()) + 1)]
    patterns = [present[rows[0]] for rows in members]
    for first, second in combinations(range(len(patterns)), 2):
        shared = np.flatnonzero(patterns[first] & patterns[second])
        small, large = sorted((members[first], members[second]), key=len)
        _add_matching(codes[:, shared], counts, small, large, total)
    return total


def _number_patterns(present: npt.NDArray[np.bool_]) -> Integers:
    """The pattern of missing values that each row has, numbered from zero."""
    of = np.zeros(len(present), np.int64)
    for first in range(0, present.shape[1], _BITS):
        for column in present[:, first : first + _BITS].T:
            of = 2 * of + column
        of = np.unique(of, return_inverse=True)[1].ravel()
    return of


def _add_matching(
    codes: Integers, counts: Integers, small: Positions, large: Positions, total: Integers
) -> None:
    """Add to each row of either set the records of the other that have the same codes."""
    mine, theirs = np.zeros(len(small), np.int64), np.zeros(len(large), np.int64)
    groups = 1
    for column in codes.T:
        # Fold one variable after the other. Rows of the large set that fit nobody drop out.
        span = int(column.max()) + 2
        keys, mine = np.unique(mine * span + column[small], return_inverse=True)
        sought = theirs * span + column[large]
        position = np.searchsorted(keys, sought).clip(max=len(keys) - 1)
        fits = keys[position] == sought
        large, theirs, groups = large[fits], position[fits], len(keys)
    records = np.bincount(mine.ravel(), counts[small], groups).astype(np.int64)
    total[large] += records[theirs]
    total[small] += np.bincount(theirs, counts[large], groups).astype(np.int64)[mine.ravel()]
