"""The t and l of every class in one confidential variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sfumato.cells.classes import EquivalenceClasses
from sfumato.kernels.arrays import Codes, Floats, Integers

if TYPE_CHECKING:
    from sfumato.kernels.clustering.closeness import Rule


def score_classes(
    classes: EquivalenceClasses, codes: Codes, counts: Integers, rules: Sequence[Rule]
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
    from sfumato.kernels.clustering.closeness import score_parts, summarise_whole

    order, starts = classes.order, classes.starts
    class_codes = codes[order]
    if (class_codes < 0).any():
        present = class_codes >= 0
        starts = np.concatenate([[0], np.cumsum(present)])[starts]
        class_codes = class_codes[present]
    sizes = np.diff(starts)
    large, single = np.flatnonzero(sizes > 1), np.flatnonzero(sizes == 1)
    width = len(counts)
    within = np.repeat(sizes > 1, sizes)
    # Behind the large classes one class for each code stands for all classes of one record.
    all_codes = np.concatenate([class_codes[within], np.arange(width, dtype=np.int32)])
    ends = np.cumsum(np.concatenate([[0], sizes[large], np.ones(width, np.int64)]))
    summary = summarise_whole(int(counts.sum()), [counts], [np.arange(width)], rules)
    result = []
    for index in range(len(rules)):
        scores = score_parts(all_codes, np.arange(len(all_codes)), ends, index, summary)
        by_class = np.zeros(len(classes))
        by_class[large] = scores[: len(large)]
        by_class[single] = scores[len(large) :][class_codes[starts[single]]]
        result.append(by_class)
    return result
