"""What came of the attacks: means of h and shares, by group of targets and by record."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.kernels.arrays import Floats, Mask, Positions
from sfumato.kernels.exact_sums import exact_sum
from sfumato.measure import AT_WORST
from sfumato.risk.attacks.targets import Groups
from sfumato.risk.protection.sampling import population_interval

if TYPE_CHECKING:
    from sfumato.kernels.trees.ranks import Ranks

_UP_TO = (0, 1, 2, 3, 5, 10, 20, 50, 100)
"""Where the table tells the cumulative distribution of h."""
_TWO_SIDED = 1.959963984540054
"""The normal quantile of an interval that holds 95 %."""
_LUCK = 0.01
_STOPPED = "counting stopped at the cap."


def tabulate_groups(ranks: Ranks, groups: Groups, *, p: int, share: str) -> pl.DataFrame:
    """A row for all targets, then one for each group; `share` names the column of Pr(h < p)."""
    mean, zero, below = ranks.mean(), ranks.share_below(1), ranks.share_below(p)
    cumulative = {x: ranks.share_below(x + 1) for x in _UP_TO if ranks.cap is None or x < ranks.cap}
    rows = []
    for start, end, members in _parts(groups, ranks):
        rows.append(
            {
                "from_quantile": start,
                "to_quantile": end,
                "targets": len(members),
                "mean_h": None if np.isnan(mean[members]).any() else mean_of(mean[members]),
                "pr_h_0": mean_of(zero[members]),
                share: mean_of(below[members]),
                **{f"up_to_{x}": mean_of(shares[members]) for x, shares in cumulative.items()},
            }
        )
    return pl.DataFrame(rows, schema_overrides={"mean_h": pl.Float64})


def tabulate_distribution(ranks: Ranks, groups: Groups, *, most: int) -> pl.DataFrame:
    """Pr(h = x) and Pr(h <= x) for x up to `most`, for all targets and for each group."""
    below = [ranks.share_below(x) for x in range(most + 2)]
    rows = []
    for start, end, members in _parts(groups, ranks):
        shares = [mean_of(share[members]) for share in below]
        steps = pairwise(shares)
        rows += [(start, end, x, up - low, up) for x, (low, up) in enumerate(steps)]
    names = ["from_quantile", "to_quantile", "h", "share", "cumulative"]
    return pl.DataFrame(rows, schema=names, orient="row")


def summarise_means(table: pl.DataFrame) -> dict[str, Any]:
    """The mean of h for all, and for the group where it is least; NaN where it is not known."""
    overall, *parts = table["mean_h"].to_list()
    least = None if None in parts else min(parts)
    summary: dict[str, Any] = {}
    for name, value in (("mean_h", overall), ("mean_h_worst_group", least)):
        summary |= (
            {name: value} if value is not None else {name: math.nan, f"{name}_reason": _STOPPED}
        )
    return summary


def choose_worst(
    first: Mapping[str, Any], others: Iterable[Mapping[str, Any]], unseen: str = ""
) -> dict[str, Any]:
    """What targets are checked against: whichever attacker does best. Not known stays so.

    An attacker who says nothing of a number does not count for it. With a reason in `unseen`, none
    of it is known.

    Examples
    --------
    >>> choose_worst({"mean_h": 7.0, "pr_h_0": 0.1}, [{"mean_h": 2.0, "pr_h_0": 0.3}])
    {'mean_h_at_worst': 2.0, 'pr_h_0_at_worst': 0.3}
    """
    attackers = [first, *others]
    worst: dict[str, Any] = {}
    for name, value in first.items():
        if not isinstance(value, float):
            continue
        # A mean of h protects when it is large; every share is a risk.
        worse = np.minimum if name.startswith("mean") else np.maximum
        values = [numbers[name] for numbers in attackers if name in numbers]
        worst[f"{name}{AT_WORST}"] = math.nan if unseen else float(worse.reduce(values))
        if unseen:
            worst[f"{name}_reason"] = unseen
    return worst


def bound_share(total: float, looked: int, records: int) -> tuple[float, float]:
    """The 95 % interval of a share among all records, of which some were looked at.

    Of all records it is Wilson's: how far chance could move it, if records were independent. Of a
    sample it is exact for a finite population, and its upper end is above 0 even if nobody was
    found. A person who is found by a guess counts as a whole one.

    Examples
    --------
    >>> bound_share(0.0, 50, 100)
    (0.0, 0.05)
    """
    if looked >= records:
        return wilson(total / looked, looked)
    low, _ = population_interval(math.floor(total), looked, records)
    _, high = population_interval(math.ceil(total), looked, records)
    return low / records, high / records


def wilson(share: float, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share.

    Examples
    --------
    >>> [round(end, 3) for end in wilson(0.0, 100)]
    [0.0, 0.037]
    """
    # Wilson (1927): the interval of the score test.
    square = _TWO_SIDED * _TWO_SIDED
    middle = share + square / (2 * count)
    reach = _TWO_SIDED * math.sqrt(share * (1 - share) / count + square / (4 * count * count))
    denominator = 1 + square / count
    return max(0.0, (middle - reach) / denominator), min(1.0, (middle + reach) / denominator)


def bound_by_luck(hits: int, tries: int) -> float:
    """The least chance of a hit with which so many hits come about once in a hundred times.

    Examples
    --------
    >>> [round(bound_by_luck(hits, 14), 3) for hits in (0, 3, 8)]
    [0.0, 0.033, 0.249]
    """
    if not hits:
        return 0.0
    from scipy.special import betaincinv

    # Clopper & Pearson (1934), the lower end.
    return float(betaincinv(hits, tries - hits + 1, _LUCK))


def tabulate_records(complete: Mask, columns: dict[str, Floats]) -> pl.DataFrame:
    """A row for each record; null where it was no target, or lacks a value: not known, not safe."""
    frame = {}
    for name, values in columns.items():
        column = np.full(len(complete), np.nan)
        column[complete] = values
        frame[name] = pl.Series(column).fill_nan(None)
    return pl.DataFrame(frame)


def mean_of(values: Floats) -> float:
    """The mean from an exact sum, rounded once or twice."""
    return exact_sum(values) / len(values)


def _parts(groups: Groups, ranks: Ranks) -> list[tuple[float, float, Positions]]:
    # Records without a rank were no targets; of a person with several rows the best one is.
    is_target = ranks.ties > 0
    everybody = (0.0, 1.0, np.flatnonzero(is_target))
    parts = zip(groups.starts, groups.ends, groups.rows, strict=True)
    targets = [(start, end, rows[is_target[rows]]) for start, end, rows in parts]
    return [everybody, *(part for part in targets if len(part[2]))]
