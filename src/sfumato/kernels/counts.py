"""Counts of the records that a combination of values fits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]


def wildcard_counts(codes: Codes, counts: Counts) -> Counts:
    """How many records fit each combination when a missing value fits everything.

    `codes` has a row per distinct combination and a column per variable, -1 where missing;
    `counts` says how many records have it. Two combinations fit when they agree wherever
    neither is missing. Combinations with the same pattern of missing values are compared
    by sorting, so the work grows with the number of patterns and not with n squared.
    """
    seen = codes >= 0
    if seen.all():
        return counts.copy()
    patterns, of = np.unique(seen, axis=0, return_inverse=True)
    members = [np.flatnonzero(of.ravel() == at) for at in range(len(patterns))]
    total = np.zeros(len(codes), np.int64)
    for mine, here in zip(patterns, members, strict=True):
        for other, there in zip(patterns, members, strict=True):
            shared = np.flatnonzero(mine & other)
            total[here] += _matching(codes[:, shared], counts, here, there)
    return total


def _matching(
    codes: Codes, counts: Counts, here: npt.NDArray[np.intp], there: npt.NDArray[np.intp]
) -> Counts:
    """For each row of `here`, the number of records in `there` with the same codes."""
    both = np.concatenate([here, there])
    group = np.zeros(len(both), np.int64)
    for column in codes.T:
        # Fold one variable after the other; renumbering keeps the codes small.
        span = int(column.max()) + 2
        group = np.unique(group * span + column[both], return_inverse=True)[1].ravel()
    weight = np.bincount(group[len(here) :], weights=counts[there], minlength=int(group.max()) + 1)
    return weight[group[: len(here)]].astype(np.int64)
