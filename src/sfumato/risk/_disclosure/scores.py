"""The t and l of every class in one confidential variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sfumato.cells.classes import EqualClasses
from sfumato.kernels.arrays import Codes, Floats, Integers

if TYPE_CHECKING:
    from sfumato.kernels.clustering.rules import Rule


def class_scores(
    classes: EqualClasses, codes: Codes, counts: Integers, rules: Sequence[Rule]
) -> list[Floats]:
    """Each rule's score of every class.

    Records whose code is -1 are left out; a class of which nothing is left has 0. All classes of
    one record with the same code have the same score, so it is taken once: in data that nobody
    has protected yet, most classes are of one record.

    Parameters
    ----------
    classes : the classes.
    codes : for each record a number from 0 on, or -1.
    counts : how many records have each code.
    rules : t or l; what they are about is always this variable.
    """
    from sfumato.kernels.clustering.distances import cluster_scores
    from sfumato.kernels.clustering.rules import compared

    order, starts = classes.order, classes.starts
    held = codes[order]
    if (held < 0).any():
        kept = held >= 0
        starts = np.concatenate([[0], np.cumsum(kept)])[starts]
        held = held[kept]
    sizes = np.diff(starts)
    large, single = np.flatnonzero(sizes > 1), np.flatnonzero(sizes == 1)
    width = len(counts)
    within = np.repeat(sizes > 1, sizes)
    every = np.concatenate([held[within], np.arange(width, dtype=np.int32)])
    ends = np.cumsum(np.concatenate([[0], sizes[large], np.ones(width, np.int64)]))
    whole = compared(int(counts.sum()), [counts], [np.arange(width)], rules)
    made = []
    for at in range(len(rules)):
        scores = cluster_scores(every, np.arange(len(every)), ends, at, whole)
        found = np.zeros(len(classes))
        found[large] = scores[: len(large)]
        found[single] = scores[len(large) :][held[starts[single]]]
        made.append(found)
    return made
