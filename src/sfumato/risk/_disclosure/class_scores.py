"""The t and l of every class in one confidential variable, and how few values it may have."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.cells.classes import EquivalenceClasses
from sfumato.kernels.arrays import Codes, Floats, Integers

if TYPE_CHECKING:
    from sfumato.cells.overlaps import CellMeanings
    from sfumato.kernels.clustering.closeness import Rule


def score_classes(
    classes: EquivalenceClasses,
    codes: Codes,
    counts: Integers,
    rules: Sequence[Rule],
    *,
    filled: bool = False,
) -> list[Floats]:
    """Each rule's score of every class.

    Records whose code is -1 are left out; a class of which nothing is left has 0. Or, if `filled`,
    their value is the one by which l is worst. All classes of one record with the same code have
    the same score, so it is taken once: in data that nobody has protected yet, most classes are
    of one record.

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
    if not filled and (class_codes < 0).any():
        present = class_codes >= 0
        starts = np.concatenate([[0], np.cumsum(present)])[starts]
        class_codes = class_codes[present]
    sizes = np.diff(starts)
    large, single = np.flatnonzero(sizes > 1), np.flatnonzero(sizes == 1)
    width = len(counts)
    within = np.repeat(sizes > 1, sizes)
    # Behind the large classes one class for each code stands for all classes of one record; the
    # last is that of -1.
    codes_of_single = np.append(np.arange(width, dtype=np.int32), np.int32(-1))
    all_codes = np.concatenate([class_codes[within], codes_of_single])
    ends = np.cumsum(np.concatenate([[0], sizes[large], np.ones(width + 1, np.int64)]))
    summary = summarise_whole([counts], [np.arange(width)], rules)
    result = []
    for index in range(len(rules)):
        scores = score_parts(all_codes, np.arange(len(all_codes)), ends, index, summary)
        by_class = np.zeros(len(classes))
        by_class[large] = scores[: len(large)]
        by_class[single] = scores[len(large) :][class_codes[starts[single]]]
        result.append(by_class)
    return result


@dataclass(frozen=True, eq=False)
class FewestValues:
    """What the cells of every class may stand for at worst.

    Parameters
    ----------
    counts : how many different values each class has at least; 1 where all are missing.
    codes : a code for each record, -1 where missing: within each class no true distribution of
        values is more unequal than theirs.
    """

    counts: Floats
    codes: Codes


def count_fewest_values(
    classes: EquivalenceClasses, codes: Codes, meanings: CellMeanings
) -> FewestValues:
    """Read the cells of every class as the fewest values that they may stand for.

    Parameters
    ----------
    classes : the classes.
    codes : for each record which cell it has, or -1.
    meanings : what each cell may stand for.
    """
    fewest, at_worst = np.ones(len(classes)), np.full(len(codes), -1, np.int32)
    known: dict[tuple[int, ...], int] = {}
    for number, (first, last) in enumerate(itertools.pairwise(classes.starts.tolist())):
        rows = classes.order[first:last]
        rows = rows[codes[rows] >= 0]
        if not len(rows):
            continue
        distinct, counts = np.unique(codes[rows], return_counts=True)
        cells = tuple(distinct.tolist())
        if cells not in known:
            known[cells] = meanings.count_fewest(cells)
        fewest[number] = known[cells]
        blocks = meanings.list_blocks(cells, counts)
        at_worst[rows] = np.repeat(np.arange(len(blocks)), blocks)
    return FewestValues(fewest, at_worst)
