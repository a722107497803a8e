"""Blanking where a blank fits anything: what a record still shows, k records must fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.kernels.arrays import Integers, Mask, Words
from sfumato.kernels.lattice.counts import wildcard_counts
from sfumato.methods._suppression.rows import Rows, Subset, less, pieces
from sfumato.methods._suppression.subsets import ascending

_PATTERNS = 16
"""Rows with so many different patterns of missing cells are looked for among the others."""


def by_wildcard(rows: Rows, k: int, weights: Sequence[float]) -> Mask:
    """Which cells of each row to blank so that it fits k records or more.

    Each row takes the cheapest subset for which k records agree with what it still shows. Blanks
    only ever make more records fit, so what holds for one row is not undone by the next: one
    pass is enough. It would take far fewer cells to blank a few records wholly, which then fit
    everybody; but that would leave the others as exposed as before.
    """
    mask = np.zeros(rows.codes.shape, bool)
    waiting = np.flatnonzero(sizes(rows) < k)
    parts = pieces(rows.codes)
    keys = parts.sum(axis=1, dtype=np.uint64)
    missing = rows.codes == 0
    groups = _by_pattern(missing)
    for subset in (one for same in ascending(rows.codes, weights) for one in same):
        if not len(waiting):
            break
        # Its own missing cells fit anything: they belong to the subset, at no cost.
        shown = [at for at in range(rows.codes.shape[1]) if at not in subset]
        asked = waiting[~missing[waiting][:, shown].any(axis=1)]
        fits = _fitting(rows, keys, parts, subset, asked, groups)
        settled = asked[fits >= k]
        mask[settled[:, None], list(subset)] = True
        waiting = np.setdiff1d(waiting, settled, assume_unique=True)
    mask[waiting] = True  # a row without a value fits everybody
    return mask


def sizes(rows: Rows) -> Integers:
    """How many records fit each row."""
    return wildcard_counts(rows.codes - 1, rows.counts)


def _by_pattern(missing: Mask) -> list[tuple[Subset, Integers]]:
    """The rows by which of their cells are missing, the most frequent patterns first."""
    patterns, of, many = np.unique(missing, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(-many, kind="stable")[:_PATTERNS]
    return [
        (tuple(np.flatnonzero(patterns[at]).tolist()), np.flatnonzero(of.ravel() == at))
        for at in order.tolist()
    ]


def _fitting(
    rows: Rows,
    keys: Words,
    parts: Words,
    subset: Subset,
    asked: Integers,
    groups: list[tuple[Subset, Integers]],
) -> Integers:
    """How many records fit each asked row, once the subset is blanked; at least so many."""
    found = np.zeros(len(asked), np.int64)
    if not len(asked):
        return found
    for absent, members in groups:
        both = tuple(sorted({*subset, *absent}))
        sought, of = np.unique(less(keys, parts, both, asked), return_inverse=True)
        theirs = less(keys, parts, both, members)
        at = np.searchsorted(sought, theirs).clip(max=len(sought) - 1)
        same = sought[at] == theirs
        held = np.bincount(at[same], rows.counts[members[same]], len(sought)).astype(np.int64)
        found += held[of.ravel()]
    return found
