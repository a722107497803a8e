"""What must be known of the original before noise of the right size can be added."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import polars as pl

from sfumato.cells.noise.scales import Growth
from sfumato.engines.summaries import Summary, exact_sum, to_floats
from sfumato.kernels.arrays import Floats, Integers
from sfumato.kernels.sampling.deviates import normal

Counted = tuple[Floats, Integers]
"""Different values, and how often each occurs."""

MOST_KNOTS = 100
LEAST_RECORDS = 20
"""Behind a knot; it is the mean of the inner half of them, so that no extreme value shows."""


@dataclass(frozen=True)
class Least:
    """The smallest variance that any value is given; infinite where there is no value."""

    growth: Growth
    name: ClassVar[str] = "least variance"
    needs: ClassVar[tuple[Summary, ...]] = ()

    def partial(self, values: pl.Series, earlier: Mapping[str, Any]) -> float:
        """Least of one part."""
        del earlier
        return float(self.growth.variance(to_floats(values)).min()) if len(values) else math.inf

    def merge(self, parts: Sequence[float], earlier: Mapping[str, Any]) -> float:
        """Least of all."""
        del earlier
        return min(parts, default=math.inf)


@dataclass(frozen=True)
class Knots:
    """Values and their normal scores, none of them the value of a single record.

    The sorted records are cut into at most a hundred runs of equal size, none with fewer than
    twenty records. A knot stands for the inner half of a run.
    """

    name: ClassVar[str] = "knots"
    needs: ClassVar[tuple[Summary, ...]] = ()

    def partial(self, values: pl.Series, earlier: Mapping[str, Any]) -> Counted:
        """Different values of one part, with their counts."""
        del earlier
        distinct, counts = np.unique(to_floats(values), return_counts=True)
        return distinct, counts

    def merge(self, parts: Sequence[Counted], earlier: Mapping[str, Any]) -> dict[str, Any]:
        """The knots of all."""
        del earlier
        distinct = np.concatenate([values for values, _ in parts])
        values, number = np.unique(distinct, return_inverse=True)
        counts = np.zeros(len(values), np.int64)
        np.add.at(counts, number, np.concatenate([often for _, often in parts]))
        return _place_knots(values, counts)


def _place_knots(values: Floats, counts: Integers) -> dict[str, Any]:
    records = int(counts.sum())
    runs = min(MOST_KNOTS, records // LEAST_RECORDS)
    ends = [records * run // max(runs, 1) for run in range(runs + 1)]
    cumulative = np.cumsum(counts)
    # Equal knots, where one value fills several runs, become one.
    knots: dict[float, list[int]] = {}
    for low, high in pairwise(ends):
        cut = (high - low) // 4
        value = _mean_between(values, cumulative, low + cut, high - cut)
        knots[value] = [knots.get(value, [low])[0], high]
    knots = _round_knots(knots)
    middles = np.array([(low + high) / 2 for low, high in knots.values()], float)
    # Normal scores of the middle ranks, as in a normal quantile plot.
    scores = normal(middles / max(records, 1)).round(6)
    return {"values": list(knots), "scores": scores.tolist()}


def _round_knots(knots: dict[float, list[int]]) -> dict[float, list[int]]:
    """Knots to a twentieth of the way to the next one, so that they still rise.

    Somebody who knows all records of a run but one cannot work out the last from their mean; and
    a new record or two often leave it as it was.
    """
    values = np.array(list(knots))
    if len(values) < 2:  # noqa: PLR2004 - one has no next
        return knots
    gaps = np.diff(values)
    nearest = np.minimum(np.append(gaps, math.inf), np.insert(gaps, 0, math.inf))
    digits = 1 - np.floor(np.log10(nearest)).astype(int)
    rounded = [
        float(f"{round(v, d):.15g}") for v, d in zip(values.tolist(), digits.tolist(), strict=True)
    ]
    rising = all(low < high for low, high in pairwise(rounded))
    return dict(zip(rounded, knots.values(), strict=True)) if rising else knots


def _mean_between(values: Floats, cumulative: Integers, low: int, high: int) -> float:
    """The mean of the sorted records from number `low` up to number `high`."""
    first, last = np.searchsorted(cumulative, [low, high - 1], side="right")
    if first == last:
        return float(values[first])
    upto = np.minimum(cumulative[first : last + 1], high)
    weights = np.diff(upto, prepend=low)
    return math.fsum(exact_sum(values[first : last + 1] * weights)) / (high - low)
