"""Several combinations of variables at once: all of them hold in the end."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Literal

import numpy as np

from sfumato.kernels.arrays import Mask
from sfumato.methods._suppression.rows import Rows, Subset, alike
from sfumato.methods._suppression.values import by_value
from sfumato.methods._suppression.wildcards import by_wildcard, sizes

Missing = Literal["value", "wildcard"]
_ROUNDS = 25
"""After so many rounds, whoever still stands out is blanked wholly."""


def blanks(
    rows: Rows, k: int, weights: Sequence[float], asked: Sequence[Subset], missing: Missing
) -> Mask:
    """Which cells to blank so that each combination has k records or more.

    Blanks for one combination may break a class of another, so all are gone through again until
    none is broken. This ends: a round that finds a broken one blanks at least one cell more, no
    cell is ever restored, and with every cell blank all records are alike.
    """
    mask = np.zeros(rows.codes.shape, bool)
    turn = 0
    while broken := [one for one in asked if not holds(rows, mask, k, one, missing)]:
        before = int(mask.sum())
        for combination in broken:
            part, of = alike(rows.blanked(mask)[:, combination], rows.counts)
            own = [weights[at] for at in combination]
            if turn >= _ROUNDS:
                more = np.repeat((part.counts < k)[:, None], len(combination), axis=1)
                more |= by_value(part, k, own)
            else:
                more = (by_value if missing == "value" else by_wildcard)(part, k, own)
            mask[:, combination] |= more[of]
        # Nothing new is next to impossible: two keys of 64 bits would have to be equal.
        turn = turn + 1 if int(mask.sum()) > before else _ROUNDS
    return mask & (rows.codes > 0)


def holds(rows: Rows, mask: Mask, k: int, combination: Subset, missing: Missing) -> bool:
    """Whether k records or more share (or fit) every row's values of a combination."""
    part, _ = alike(rows.blanked(mask)[:, combination], rows.counts)
    if bool((part.counts >= k).all()):
        return True
    return missing == "wildcard" and bool((sizes(part) >= k).all())


def widest(asked: Sequence[Subset]) -> list[Subset]:
    """The combinations that no other includes: what holds for those holds for their parts."""
    distinct = sorted({tuple(sorted(one)) for one in asked}, key=lambda one: (-len(one), one))
    kept: list[Subset] = []
    for one in distinct:
        if not any(set(one) <= set(other) for other in kept):
            kept.append(one)
    return kept


def every(width: int, size: int) -> list[Subset]:
    """All combinations of so many variables."""
    return list(combinations(range(width), min(size, width)))
