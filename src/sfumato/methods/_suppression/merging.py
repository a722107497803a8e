"""Classes that are too small join the class that costs least."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.kernels.arrays import Integers, Mask
from sfumato.methods._suppression.rows import Rows, alike


def merged(rows: Rows, mask: Mask, k: int, weights: Sequence[float]) -> Mask:
    """Blank more until every class, compared cell by cell, has k records.

    Two classes become one by blanking whatever they differ in. Each turn leaves one class fewer,
    and a single class holds all records: with k records or more this ends.
    """
    classes, of = alike(rows.blanked(mask), rows.counts)
    codes, sizes = classes.codes.copy(), classes.counts.copy()
    if bool((sizes >= k).all()):
        return mask
    alone = np.arange(len(sizes))
    while bool((small := (sizes > 0) & (sizes < k)).any()):
        one = int(np.flatnonzero(small)[0])
        other = _cheapest(codes, sizes, one, weights)
        codes[other] = np.where(codes[one] == codes[other], codes[other], 0)
        # What came out may be a class that is there already.
        same = np.flatnonzero((sizes > 0) & (codes == codes[other]).all(axis=1))
        for gone in {one, *same.tolist()} - {other}:
            sizes[other] += sizes[gone]
            sizes[gone] = 0
            alone[alone == gone] = other
    left: Mask = codes[alone[of]] == 0
    return mask | left & (rows.codes > 0)


def _cheapest(codes: Integers, sizes: Integers, one: int, weights: Sequence[float]) -> int:
    """The class that it costs least to become one with; the first of several."""
    each = np.asarray(weights, np.float64)
    differ = codes != codes[one]
    theirs = (differ & (codes > 0)) @ each * sizes
    mine = (differ & (codes[one] > 0)) @ each * sizes[one]
    cost = np.where(sizes > 0, theirs + mine, np.inf)
    cost[one] = np.inf
    return int(np.argmin(cost))
