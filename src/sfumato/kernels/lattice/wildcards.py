"""Counts of the records that fit each other where a missing value could be anything."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import AnyIntegers, Integers, Positions

_BITS = 30
_PATTERNS = 32
"""With more patterns of missing values, comparing them two at a time takes too long."""


class FittingCounts(NamedTuple):
    """How many records fit each combination, itself among them.

    covering : those that fit whatever the combination may stand for: whoever knows the true values
        behind it finds so many records that could be theirs.
    covered : those that stand for nothing else than the combination does: of so many persons the
        true values fit the combination, whatever they are.
    """

    covering: Integers
    covered: Integers

    @property
    def smaller(self) -> Integers:
        """The smaller of both."""
        smaller: Integers = np.minimum(self.covering, self.covered)
        return smaller


def count_fitting(codes: AnyIntegers, counts: Integers) -> FittingCounts:
    """Count the records that fit each combination of values when a missing value could be any.

    `codes` has a row per distinct combination and a column per variable, -1 where missing;
    `counts` says how many records have it. What is missing may be a value that no other record
    has. So one combination covers another only if it is missing wherever the other is, and equal
    wherever it has a value. Those with the same pattern of missing values are distinct, so each
    covers only itself there; patterns are compared two at a time.
    """
    present = codes >= 0
    totals = FittingCounts(counts.copy(), counts.copy())
    if present.all():
        return totals
    of = _number_patterns(present)
    if int(of.max()) >= _PATTERNS:
        from sfumato.kernels.lattice.covering_rows import count_covered, count_covering

        # Compiled, so only where it pays.
        return FittingCounts(count_covering(codes, counts), count_covered(codes, counts))
    members = [np.flatnonzero(of == pattern) for pattern in range(int(of.max()) + 1)]
    patterns = [present[rows[0]] for rows in members]
    for wide, narrow in permutations(range(len(patterns)), 2):
        if not (patterns[wide] & ~patterns[narrow]).any():
            shared = [codes[:, column] for column in np.flatnonzero(patterns[wide])]
            _add_covered(shared, counts, members[wide], members[narrow], totals)
    return totals


def _number_patterns(present: npt.NDArray[np.bool_]) -> Integers:
    """The pattern of missing values that each row has, numbered from zero."""
    of = np.zeros(len(present), np.int64)
    for first in range(0, present.shape[1], _BITS):
        for column in present[:, first : first + _BITS].T:
            of = 2 * of + column
        of = np.unique(of, return_inverse=True)[1].ravel()
    return of


def _add_covered(
    shared: Sequence[AnyIntegers],
    counts: Integers,
    wide: Positions,
    narrow: Positions,
    totals: FittingCounts,
) -> None:
    """Add the records of the wide rows to the narrow rows they cover, and the other way round.

    `shared` are the variables in which the wide rows have a value.
    """
    theirs, mine = np.zeros(len(wide), np.int64), np.zeros(len(narrow), np.int64)
    groups = 1
    for column in shared:
        # Fold one variable after the other. Narrow rows that no wide row covers drop out.
        span = int(column.max()) + 2
        keys, theirs = np.unique(theirs * span + column[wide], return_inverse=True)
        sought = mine * span + column[narrow]
        position = np.searchsorted(keys, sought).clip(max=len(keys) - 1)
        fits = keys[position] == sought
        narrow, mine, groups = narrow[fits], position[fits], len(keys)
    theirs = theirs.ravel()
    records = np.bincount(theirs, counts[wide], groups).astype(np.int64)
    totals.covering[narrow] += records[mine]
    totals.covered[wide] += np.bincount(mine, counts[narrow], groups).astype(np.int64)[theirs]
