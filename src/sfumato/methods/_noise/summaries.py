"""What must be known of the original before noise of the right size can be added."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.engines.summaries import Minimum, Summary, Transformed, to_floats
from sfumato.kernels.arrays import Floats, Integers
from sfumato.kernels.exact_sums import exact_sum
from sfumato.kernels.sampling.deviates import normal
from sfumato.noise.scales import Growth

Counted = tuple[Floats, Integers]
"""Different values, and how often each occurs."""

MOST_KNOTS = 100
LEAST_RECORDS = 20
"""Behind a knot; it is the mean of the inner half of them, so that no extreme value shows."""


def least_variance(growth: Growth) -> Summary:
    """The smallest variance that any value is given; NaN where there is no value."""
    return Transformed(growth.variance, Minimum(), "of the variances")


def fit_knots(data: Dataset, name: str, engine: Engine) -> dict[str, Any]:
    """Values and their normal scores, none of them the value of a single record.

    The sorted records are cut into at most a hundred runs of equal size, none with fewer than
    twenty records. A knot stands for the inner half of a run.
    """

    def count(batch: pl.DataFrame) -> Counted:
        distinct, counts = np.unique(to_floats(batch[name].drop_nulls()), return_counts=True)
        return distinct, counts

    parts = engine.gather(data, count, reads=[name])
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
    return exact_sum(values[first : last + 1] * weights) / (high - low)
