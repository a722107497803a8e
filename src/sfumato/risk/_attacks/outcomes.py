"""What came of the attacks: means of h and shares, by group of targets and by record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.kernels.arrays import Floats, Mask, Positions
from sfumato.kernels.exact_sums import exact_sum
from sfumato.measure import AT_WORST
from sfumato.risk._attacks.targets import Groups

if TYPE_CHECKING:
    from sfumato.kernels.trees.ranks import Ranks

_UP_TO = (0, 1, 2, 3, 5, 10, 20, 50, 100)
"""Where the table tells the cumulative distribution of h."""
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
    first: Mapping[str, Any], second: Mapping[str, Any], unseen: str = ""
) -> dict[str, Any]:
    """What targets are held against: whichever attacker does better. Not known stays so.

    With a reason in `unseen`, none of it is known.

    Examples
    --------
    >>> choose_worst({"mean_h": 7.0, "pr_h_0": 0.1}, {"mean_h": 2.0, "pr_h_0": 0.3})
    {'mean_h_at_worst': 2.0, 'pr_h_0_at_worst': 0.3}
    """
    worst: dict[str, Any] = {}
    for name, value in first.items():
        if not isinstance(value, float):
            continue
        # A mean of h protects when it is large; every share is a risk.
        worse = np.minimum if name.startswith("mean") else np.maximum
        worst[f"{name}{AT_WORST}"] = math.nan if unseen else float(worse(value, second[name]))
        if unseen:
            worst[f"{name}_reason"] = unseen
    return worst


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
    # Records without a rank were no targets.
    everybody = (0.0, 1.0, np.flatnonzero(ranks.ties > 0))
    return [everybody, *zip(groups.starts, groups.ends, groups.rows, strict=True)]
