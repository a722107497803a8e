"""Quantiles that rest on several records each: no value of a single record can be read off.

Question: how high is the 95th percentile, without disclosing anybody's value?
Assumes: whoever reads it does not know all but one of the records behind a quantile. Against
that, too, the result is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import Floats, Integers
from sfumato.outputs.contributors import ALONE, Contributors
from sfumato.outputs.output import OutputRefused
from sfumato.progress import current_progress

FIVE = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Whisker, box, middle line, box, whisker."""
_ENDS = (FIVE[0], FIVE[-1])
GRAINS = 200
"""Steps of the rounding in the spread of the middle 90 % of the records."""
_DIGIT = 16
_DIGITS = 1 << _DIGIT
_SLICE = 1 << 20
_FEW = 1 << 21
"""Values that are sorted at once; more are counted by their leading digits first."""
_NICE = (1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True)
class Quantiles:
    """Safe quantiles, and the grid they were rounded to (0: all of the spread is one value)."""

    values: tuple[float, ...]
    step: float


def count_needed_records(count: int, k: int) -> int:
    """How many records so many safe quantiles need: k each, and the two extremes apart."""
    return count * k + 2


class RankedValues(Protocol):
    """Values that are not in memory, but whose order statistics can be asked for."""

    def __len__(self) -> int:
        """How many there are."""

    def order_statistics(self, ranks: Integers) -> Floats:
        """The values at these ranks (from 0, rising) of the sorted values."""


def safe_quantiles(
    values: Floats | RankedValues,
    *,
    at: Sequence[float] = FIVE,
    k: int = 3,
    step: float | None = None,
    units: Contributors = ALONE,
) -> Quantiles:
    """Quantiles that are means of k neighbouring records each, rounded to a coarse grid.

    No record has a part in two of them, and the two extreme records in none, so no difference
    of two quantiles and no single large value shows through. Where persons or groups are counted,
    each is the mean of as many neighbouring records as k of them have, and each of these counts
    alike.

    Parameters
    ----------
    values : finite numbers, in any order.
    at : shares between 0 and 1, rising.
    k : how many neighbouring order statistics each is the mean of.
    step : the grid to round to. Default: about 1/200 of the spread of the middle 90 %.
    units : whose each value is; of values in memory only.

    Examples
    --------
    >>> safe_quantiles(np.arange(1000.0), k=3)
    Quantiles(values=(50.0, 250.0, 500.0, 750.0, 950.0), step=5.0)
    """
    if units and isinstance(values, np.ndarray):
        return _average_units(values, at, k, step, units)
    starts = find_windows(len(values), list(at), k)
    # The grid comes from the spread, so its two ends are looked up on the way.
    ends = find_windows(len(values), _ENDS, k) if step is None else []
    ranks = _list_ranks([*starts, *ends], k)
    wanted = np.asarray(ranks, np.int64)
    ordered = (
        order_statistics(values, wanted)
        if isinstance(values, np.ndarray)
        else values.order_statistics(wanted)
    )
    value_at = dict(zip(ranks, ordered.tolist(), strict=True))
    means = [
        math.fsum(value_at[start + offset] for offset in range(k)) / k for start in (*starts, *ends)
    ]
    if step is None:
        step = choose_step(means[-1] - means[-2])
        means = means[: len(starts)]
    return Quantiles(tuple(snap_to_grid(mean, step) for mean in means), step)


def _average_units(
    values: Floats, quantiles: Sequence[float], k: int, step: float | None, units: Contributors
) -> Quantiles:
    order = units.sort(values)
    ordered, whose = values[order], units.take(order)

    def average(shares: Sequence[float]) -> list[float]:
        windows = find_unit_windows(whose, len(ordered), shares, k)
        return [whose.take(window).average(ordered[window]) for window in windows]

    if step is None:
        low, high = average(_ENDS)
        step = choose_step(high - low)
    return Quantiles(tuple(snap_to_grid(mean, step) for mean in average(quantiles)), step)


def find_unit_windows(
    units: Contributors, records: int, shares: Sequence[float], k: int
) -> list[slice]:
    """The records of k units around each quantile, which share none and no extreme.

    Parameters
    ----------
    units : whose each record is, in the order of the values.
    records : how many there are.
    shares : between 0 and 1, rising.
    k : how many units each rests on.
    """
    ranks = [share * (records - 1) for share in shares]
    upwards: list[slice] = []
    for rank in ranks:
        window = find_nearest(rank, upwards[-1].stop if upwards else 1, records - 1, k, units)
        if window is None:
            break
        upwards.append(window)
    if len(upwards) == len(ranks):
        return upwards
    downwards: list[slice] = []
    for rank in reversed(ranks):
        end = downwards[-1].start if downwards else records - 1
        window = find_nearest(rank, 1, end, k, units)
        if window is None:
            raise OutputRefused(
                f"{len(shares)} quantiles that rest on {k} {units.word} each need more of them.",
                hint="take larger groups, or a smaller k where the rules allow it.",
            )
        downwards.append(window)
    return downwards[::-1]


def find_nearest(rank: float, start: int, stop: int, k: int, units: Contributors) -> slice | None:
    """The records nearest to a rank that are of k units; None where there are not so many.

    Parameters
    ----------
    rank : where to look, in the order of the values.
    start, stop : only records from and before these.
    k : how many units.
    units : whose each record is, in the order of the values.

    Examples
    --------
    >>> find_nearest(2.0, 0, 5, 2, Contributors((np.array([0, 1, 1, 1, 2]),)))
    slice(0, 4, None)
    """
    rows = np.arange(start, max(stop, start))
    rows = rows[np.argsort(np.abs(rows - rank), kind="stable")]
    depth = units.take(rows).find_depth(k)
    if depth is None or depth > len(rows):
        return None
    nearest = rows[:depth]
    return slice(int(nearest.min()), int(nearest.max()) + 1)


def list_needed_ranks(records: int, k: int) -> list[int]:
    """The ranks of all records that the five quantiles rest on, with the grid or without."""
    return _list_ranks([*find_windows(records, FIVE, k), *find_windows(records, _ENDS, k)], k)


def _list_ranks(starts: Sequence[int], k: int) -> list[int]:
    return sorted({start + offset for start in starts for offset in range(k)})


def find_windows(records: int, shares: Sequence[float], k: int) -> list[int]:
    """Where the k neighbours of each quantile begin in the order of the records.

    Examples
    --------
    >>> find_windows(17, FIVE, 3)
    [1, 4, 7, 10, 13]
    """
    if records < count_needed_records(len(shares), k):
        raise OutputRefused(
            f"{len(shares)} quantiles that rest on {k} records each need at least "
            f"{count_needed_records(len(shares), k)} records.",
            hint="take larger groups, or a smaller k where the rules allow it.",
        )
    # 0 and n - 1 are the extremes: they stay out.
    starts = [math.floor(share * (records - 1) - (k - 1) / 2 + 0.5) for share in shares]
    # Upwards, then downwards: windows that meet move apart, within the extremes.
    lowest = 1
    for index, start in enumerate(starts):
        starts[index] = lowest = max(start, lowest)
        lowest += k
    highest = records - 1
    for index in reversed(range(len(starts))):
        highest = starts[index] = min(starts[index], highest - k)
    return starts


def choose_step(spread: float) -> float:
    """The round number next above a 200th of a spread; 0 where there is no spread.

    Examples
    --------
    >>> choose_step(170.0), choose_step(0.0)
    (1.0, 0.0)
    """
    if not (spread > 0 and math.isfinite(spread)):
        return 0.0
    wanted = spread / GRAINS
    # 1, 2, 5 times a power of ten; a hair of tolerance keeps 0.3 / 3 at 0.1.
    ten = 10.0 ** math.floor(math.log10(wanted))
    return next(nice * ten for nice in _NICE if nice * ten >= wanted * (1 - 1e-12))


def snap_to_grid(value: float, step: float) -> float:
    """The value on the grid; three digits of it where the grid has no width."""
    if not value:
        return 0.0
    if step > 0:
        decimals = max(0, 1 - math.floor(math.log10(step)))
        return round(round(value / step) * step, decimals) + 0.0
    return float(f"{value:.3g}")


def order_statistics(values: Floats, ranks: Integers) -> Floats:
    """The values at these ranks (from 0, rising) of the sorted values, without sorting them.

    Numbers are looked at as words of 64 bits that rise with them. One pass counts the leading
    16 bits; the next counts the following 16 among the words that still matter; and so on. The
    memory needed does not grow with the number of values.

    Examples
    --------
    >>> order_statistics(np.array([3.0, -1.0, 2.0]), np.array([0, 2]))
    array([-1.,  3.])
    """
    heads, remaining = np.zeros(len(ranks), np.uint64), ranks.astype(np.int64)
    matter = len(values)
    for shift in range(64 - _DIGIT, -1, -_DIGIT):
        known = np.unique(heads)
        if matter <= _FEW:
            return _select_by_sorting(values, known, shift + _DIGIT, heads, remaining)
        counts = _count_digits(values, known, shift)
        below = np.cumsum(counts, axis=1)
        rows = np.searchsorted(known, heads)
        digits = np.empty(len(ranks), np.int64)
        for index, (row, rank) in enumerate(zip(rows, remaining, strict=True)):
            digits[index] = digit = np.searchsorted(below[row], rank, "right")
            remaining[index] = rank - (below[row, digit - 1] if digit else 0)
        # The digits found so far; only values that begin with them still matter.
        heads = (heads << np.uint64(_DIGIT)) | digits.astype(np.uint64)
        chosen = np.unique(np.stack([rows, digits]), axis=1)
        matter = int(counts[chosen[0], chosen[1]].sum())
    return _convert_to_numbers(heads)


def _convert_to_words(values: Floats) -> npt.NDArray[np.uint64]:
    """Whole numbers that rise as the values do; 0.0 and -0.0 are the same."""
    # Flip all bits of negative numbers and the sign bit of the others: then order is kept.
    bits = (values + 0.0).view(np.int64)
    flipped = bits ^ ((bits >> 63) | np.int64(-(2**63)))
    return flipped.view(np.uint64)


def _convert_to_numbers(words: npt.NDArray[np.uint64]) -> Floats:
    bits = words.view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(-(2**63)), ~bits).view(np.float64)


def _count_digits(values: Floats, known: npt.NDArray[np.uint64], shift: int) -> Integers:
    """How many values have each next digit, for each head that matters."""
    progress, size = current_progress(), len(known) * _DIGITS
    counts = np.zeros(size, np.int64)
    for start in range(0, len(values), _SLICE):
        words = _convert_to_words(values[start : start + _SLICE])
        digits = ((words >> np.uint64(shift)) & np.uint64(_DIGITS - 1)).astype(np.int64)
        if shift + _DIGIT < 64:  # noqa: PLR2004 - the bits of a double
            rows, matters = _match_heads(words, known, shift + _DIGIT)
            digits = digits[matters] + rows * _DIGITS
        counts += np.bincount(digits, minlength=size)
        progress("looking for quantiles", min(start + _SLICE, len(values)), len(values))
    return counts.reshape(len(known), _DIGITS)


def _match_heads(
    words: npt.NDArray[np.uint64], known: npt.NDArray[np.uint64], shift: int
) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Which of the known heads each word has, and whether it has one."""
    heads = words >> np.uint64(shift)
    row = np.minimum(np.searchsorted(known, heads), len(known) - 1)
    matters = known[row] == heads
    return row[matters].astype(np.int64), matters


def _select_by_sorting(
    values: Floats,
    known: npt.NDArray[np.uint64],
    shift: int,
    heads: npt.NDArray[np.uint64],
    remaining: Integers,
) -> Floats:
    """Sort the few values that still matter, and look the ranks up."""
    if shift == 64:  # noqa: PLR2004 - nothing has been counted yet: all values matter
        return np.asarray(np.sort(values + 0.0)[remaining], np.float64)
    candidates = []
    for start in range(0, len(values), _SLICE):
        words = _convert_to_words(values[start : start + _SLICE])
        candidates.append(words[_match_heads(words, known, shift)[1]])
    ordered = np.sort(np.concatenate(candidates))
    first = np.searchsorted(ordered >> np.uint64(shift), heads)
    return _convert_to_numbers(ordered[first + remaining])
