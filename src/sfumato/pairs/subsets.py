"""In which variables the release lies closest to the original: the worst of them, and of subsets.

Records that lie close in all variables at once are few as soon as one variable has noise, however
exact the others are. So each variable counts by itself, and each combination of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.pairs.alignment import FEWEST_TO_FIT, rescale_released
from sfumato.units import count_codes

_EFFORT = 20_000_000
"""Subsets times patterns that are gone through; beyond it the search is greedy."""
_WIDEST = 12
"""Variables of which all subsets are tried."""
_CANDIDATES = 30
"""Variables, those in which most lie close, that a greedy search chooses from."""
_CODED = 31
"""Variables whose patterns fit into one whole number."""


@dataclass(frozen=True, eq=False)
class SubsetCloseness:
    """Which records lie close to their original, variable by variable.

    Parameters
    ----------
    close : whether each value lies close; a row per record, or per pattern.
    known : whether there is a value to compare.
    counts : how many records have each pattern; None: each row is a record.
    """

    close: Mask = field(repr=False)
    known: Mask = field(repr=False)
    counts: Integers | None = field(default=None, repr=False)

    def share(self, columns: Sequence[int]) -> float:
        """The share of records that lie close in all of some variables that they have, or -1."""
        count = self.compared(columns)
        return self.count(columns) / count if count else -1.0

    def count(self, columns: Sequence[int]) -> int:
        """How many records lie close in all of some variables that they have."""
        return self._add_up(self.mark(columns))

    def compared(self, columns: Sequence[int]) -> int:
        """How many records have a value of some variable to compare."""
        return self._add_up(np.asarray(self.known[:, list(columns)].any(axis=1), bool))

    def _add_up(self, rows: Mask) -> int:
        return int(rows.sum() if self.counts is None else self.counts[rows].sum())

    def mark(self, columns: Sequence[int]) -> Mask:
        """Which records these are."""
        close, known = self.close[:, list(columns)], self.known[:, list(columns)]
        return np.asarray((close | ~known).all(axis=1) & known.any(axis=1), bool)


def find_close(
    original: Floats, released: Floats, spread: Floats, within: float
) -> SubsetCloseness:
    """Which values lie within some standard deviations of where they were."""
    change = np.abs(released - original) / spread
    return SubsetCloseness(np.less_equal(change, within), ~np.isnan(change))


def share_rescaled(original: Floats, released: Floats, spread: Floats, within: float) -> float:
    """The share that lies close, in the worst variable, but for the unit it is given in."""
    closeness = find_close(original, rescale_released(original, released), spread, within)
    known, close = (flags.sum(axis=0) for flags in (closeness.known, closeness.close))
    return find_worst_share(close, known)


def find_worst_share(close: Integers, known: Integers) -> float:
    """The share that lies close in the worst variable of which enough is known."""
    enough = known >= FEWEST_TO_FIT
    return max((close[enough] / known[enough]).tolist(), default=0.0)


@dataclass(frozen=True)
class WorstSubset:
    """The variables in which the largest share of records lies close.

    Parameters
    ----------
    variable : the worst variable by itself.
    columns : the worst subset; a single variable unless values are missing.
    share : of the records that have a value in it, those that lie close.
    pair : the worst two variables together; None where there is one only.
    pair_share : the share for these two.
    exhaustive : whether all subsets were tried; otherwise the search was greedy.
    """

    variable: int
    columns: tuple[int, ...]
    share: float
    pair: tuple[int, int] | None
    pair_share: float
    exhaustive: bool


def find_worst_subset(closeness: SubsetCloseness) -> WorstSubset:
    """The variable, the pair and the subset in which the largest share lies close.

    Without missing values no subset is worse than its worst variable: whoever is close in several
    is close in each. With missing values a record is compared in what it has, and a subset can be
    worse; all are tried up to a bound, and beyond it the worst is made larger step by step.

    Examples
    --------
    >>> close = np.array([[True, False], [True, False], [True, True]])
    >>> worst = find_worst_subset(SubsetCloseness(close, np.ones_like(close)))
    >>> worst.columns, worst.share, round(worst.pair_share, 2)
    ((0,), 1.0, 0.33)
    """
    patterns = count_patterns(closeness)
    width = closeness.close.shape[1]
    singles = [patterns.share((column,)) for column in range(width)]
    # The first of equals, so that the order of the variables decides and nothing else.
    variable = max(range(width), key=lambda column: singles[column])
    best: tuple[int, ...] = (variable,)
    exhaustive = True
    if not closeness.known.all():
        best, exhaustive = _search(patterns, best, singles)
    pair = _find_worst_pair(patterns, singles)
    return WorstSubset(
        variable,
        best,
        patterns.share(best),
        pair,
        math.nan if pair is None else patterns.share(pair),
        exhaustive,
    )


def share_by_chance(
    original: Floats, released: Floats, width: float, counts: Integers | None = None
) -> float | None:
    """The share of close values if released ones are paired with any record but their own.

    None where there is nobody else. `counts` says how many records have each pair of values.

    Examples
    --------
    >>> share_by_chance(np.array([1.0, 2.0, 9.0]), np.array([1.0, 2.0, 2.0]), 0.5)
    0.16666666666666666
    """
    own = np.abs(released - original)
    known = ~np.isnan(own)
    truths, shown, stayed = original[known], released[known], own[known] <= width
    times = None if counts is None else counts[known]
    count = len(truths) if times is None else int(times.sum())
    if count < 2:  # noqa: PLR2004 - nobody else
        return None
    order = slice(None) if times is None else np.argsort(shown)
    values = np.sort(shown) if times is None else shown[order]
    low = np.searchsorted(values, truths - width, "left")
    high = np.searchsorted(values, truths + width, "right")
    if times is None:
        pairs = int((high - low).sum()) - int(stayed.sum())
    else:
        below = np.concatenate([[0], np.cumsum(times[order])])
        pairs = int(((below[high] - below[low]) * times).sum()) - int(times[stayed].sum())
    return max(pairs, 0) / (count * (count - 1))


def _search(
    patterns: SubsetCloseness, start: tuple[int, ...], singles: Sequence[float]
) -> tuple[tuple[int, ...], bool]:
    width = len(singles)
    if width <= _WIDEST and (2**width) * len(patterns.close) <= _EFFORT:
        subsets = [
            subset for size in range(1, width + 1) for subset in combinations(range(width), size)
        ]
        return max(subsets, key=patterns.share), True
    # Only variables in which many lie close can make a bad subset worse.
    candidates = sorted(range(width), key=lambda column: (-singles[column], column))[:_CANDIDATES]
    best = start
    while len(best) < len(candidates):
        larger = [tuple(sorted((*best, column))) for column in candidates if column not in best]
        candidate = max(larger, key=patterns.share)
        if patterns.share(candidate) <= patterns.share(best):
            break
        best = candidate
    return best, False


def _find_worst_pair(patterns: SubsetCloseness, singles: Sequence[float]) -> tuple[int, int] | None:
    width = len(singles)
    if width == 1:
        return None
    columns: Sequence[int] = range(width)
    if width > _CANDIDATES or width * (width - 1) // 2 * len(patterns.close) > _EFFORT:
        # Whoever is close in two is close in each, so the worst pair is sought there.
        columns = sorted(columns, key=lambda column: (-singles[column], column))[:_CANDIDATES]
    pairs = [(min(pair), max(pair)) for pair in combinations(columns, 2)]
    return max(pairs, key=lambda pair: (patterns.share(pair), (-pair[0], -pair[1])))


def count_patterns(closeness: SubsetCloseness) -> SubsetCloseness:
    """The distinct rows of what is close and known, and how many records have each."""
    width = closeness.close.shape[1]
    table = np.concatenate([closeness.close & closeness.known, closeness.known], axis=1)
    if width <= _CODED:
        codes = table @ (np.int64(1) << np.arange(2 * width, dtype=np.int64))
        _, first, of = np.unique(codes, return_index=True, return_inverse=True)
    else:
        packed = np.packbits(table, axis=1)
        _, first, of = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    counts = count_codes(of.ravel(), closeness.counts, len(first))
    return SubsetCloseness(table[first, :width], table[first, width:], counts)
