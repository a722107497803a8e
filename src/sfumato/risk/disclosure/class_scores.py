"""The t and l of every class in one confidential variable, and how few values it may have."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.cells.classes import EquivalenceClasses
from sfumato.cells.confidential import count_by_class
from sfumato.kernels.arrays import Codes, Floats, Integers
from sfumato.units import Units, count_codes

if TYPE_CHECKING:
    from sfumato.cells.overlaps import CellMeanings
    from sfumato.kernels.clustering.closeness import ClosenessRule


def score_classes(
    classes: EquivalenceClasses,
    codes: Codes,
    counts: Integers,
    rules: Sequence[ClosenessRule],
    *,
    filled: bool = False,
) -> list[Floats]:
    """Each rule's score of every class.

    Rows whose code is -1 are left out; a class of which nothing is left has 0. Or, if `filled`,
    their value is the one by which l is worst. All classes of one record with the same code have
    the same score, so it is taken once: in data that nobody has protected yet, most classes are
    of one record.

    Parameters
    ----------
    classes : the classes.
    codes : for each row a number from 0 on, or -1.
    counts : how many records have each code. Where a person may have several rows, they count once
        for each value in each class, and the codes are counted again.
    rules : t or l; what they are about is always this variable.
    """
    from sfumato.kernels.arrays import UNWEIGHTED
    from sfumato.kernels.clustering.closeness import score_parts, summarise_whole

    if not classes.units.one_row_each:
        classes, codes = classes.drop_repeats(codes)
        counts = count_codes(codes, None, len(counts))
    order, starts = classes.order, classes.starts
    class_codes = codes[order]
    counts_of_rows = classes.units.counts
    weights = UNWEIGHTED if counts_of_rows is None else counts_of_rows[order]
    if not filled and (class_codes < 0).any():
        present = class_codes >= 0
        starts = np.concatenate([[0], np.cumsum(present)])[starts]
        class_codes, weights = class_codes[present], weights[present[: len(weights)]]
    rows = np.diff(starts)
    single = rows == 1
    if len(weights):
        single[single] = weights[starts[:-1][single]] == 1
    large = (rows > 0) & ~single
    width = len(counts)
    within = np.repeat(large, rows)
    # Behind the large classes one class for each code stands for all classes of one record; the
    # last is that of -1.
    codes_of_single = np.append(np.arange(width, dtype=np.int32), np.int32(-1))
    all_codes = np.concatenate([class_codes[within], codes_of_single])
    if len(weights):
        weights = np.concatenate([weights[within], np.ones(width + 1, np.int64)])
    ends = np.cumsum(np.concatenate([[0], rows[large], np.ones(width + 1, np.int64)]))
    summary = summarise_whole([counts], [np.arange(width)], rules)
    result = []
    for index in range(len(rules)):
        scores = score_parts(all_codes, np.arange(len(all_codes)), ends, index, summary, weights)
        by_class, many = np.zeros(len(classes)), int(large.sum())
        by_class[large] = scores[:many]
        by_class[single] = scores[many:][class_codes[starts[:-1][single]]]
        result.append(by_class)
    return result


@dataclass(frozen=True, eq=False)
class FewestValues:
    """What the cells of every class may stand for at worst.

    Parameters
    ----------
    counts : how many different values each class has at least; 1 where all are missing.
    classes : the classes, with a row for each value of each.
    codes : the values, -1 for missing: within each class no true distribution of values is more
        unequal than theirs.
    """

    counts: Floats
    classes: EquivalenceClasses
    codes: Codes


def count_fewest_values(
    classes: EquivalenceClasses, codes: Codes, meanings: CellMeanings
) -> FewestValues:
    """Read the cells of every class as the fewest values that they may stand for.

    Parameters
    ----------
    classes : the classes.
    codes : for each row which cell it has, or -1.
    meanings : what each cell may stand for.
    """
    classes, codes = classes.drop_repeats(codes)
    fewest, missing = np.ones(len(classes)), classes.sizes.copy()
    values: list[tuple[int, int, int]] = []
    known: dict[tuple[int, ...], int] = {}
    both = count_by_class(classes, codes, len(meanings))
    order = np.lexsort((both.code, both.at))
    starts = np.searchsorted(both.at[order], np.arange(len(classes) + 1))
    for number, (first, last) in enumerate(itertools.pairwise(starts.tolist())):
        if first == last:
            continue
        rows = order[first:last]
        cells, counts = tuple(both.code[rows].tolist()), both.counts[rows]
        if cells not in known:
            known[cells] = meanings.count_fewest(cells)
        fewest[number] = known[cells]
        missing[number] -= counts.sum()
        blocks = meanings.list_blocks(cells, counts)
        values += [(number, code, records) for code, records in enumerate(blocks)]
    incomplete = np.flatnonzero(missing)
    values += zip(
        incomplete.tolist(),
        [-1] * len(incomplete),
        missing[incomplete].tolist(),
        strict=True,
    )
    of, at_worst, records = np.array(values, np.int64).reshape(-1, 3).T
    units = Units.standing_for(len(of), records)
    again = EquivalenceClasses(of.astype(np.int32), classes.sizes, units)
    return FewestValues(fewest, again, at_worst.astype(np.int32))
