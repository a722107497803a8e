"""What came of the attacks: means of h and shares, by group of targets and by record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.kernels.arrays import Floats, Mask, Positions
from sfumato.kernels.canonical import total_of
from sfumato.measure import AT_WORST
from sfumato.risk._attacks.targets import Groups

if TYPE_CHECKING:
    from sfumato.kernels.trees.ranks import Ranks

_UP_TO = (0, 1, 2, 3, 5, 10, 20, 50, 100)
"""Where the table tells the cumulative distribution of h."""
_STOPPED = "counting stopped at the cap."


def by_group(found: Ranks, groups: Groups, *, p: int, share: str) -> pl.DataFrame:
    """A row for all targets, then one for each group; `share` names the column of Pr(h < p)."""
    mean, zero, below = found.mean(), found.share_below(1), found.share_below(p)
    told = {x: found.share_below(x + 1) for x in _UP_TO if found.cap is None or x < found.cap}
    rows = []
    for start, end, members in _parts(groups, found):
        rows.append(
            {
                "from_quantile": start,
                "to_quantile": end,
                "targets": len(members),
                "mean_h": None if np.isnan(mean[members]).any() else mean_of(mean[members]),
                "pr_h_0": mean_of(zero[members]),
                share: mean_of(below[members]),
                **{f"up_to_{x}": mean_of(each[members]) for x, each in told.items()},
            }
        )
    return pl.DataFrame(rows, schema_overrides={"mean_h": pl.Float64})


def distributed(found: Ranks, groups: Groups, *, most: int) -> pl.DataFrame:
    """Pr(h = x) and Pr(h <= x) for x up to `most`, for all targets and for each group."""
    below = [found.share_below(x) for x in range(most + 2)]
    rows = []
    for start, end, members in _parts(groups, found):
        shares = [mean_of(each[members]) for each in below]
        steps = pairwise(shares)
        rows += [(start, end, x, up - low, up) for x, (low, up) in enumerate(steps)]
    names = ["from_quantile", "to_quantile", "h", "share", "cumulative"]
    return pl.DataFrame(rows, schema=names, orient="row")


def means_told(table: pl.DataFrame) -> dict[str, Any]:
    """The mean of h for all, and for the group where it is least; NaN where it is not known."""
    every, *parts = table["mean_h"].to_list()
    least = None if None in parts else min(parts)
    found: dict[str, Any] = {}
    for name, value in (("mean_h", every), ("mean_h_worst_group", least)):
        found |= (
            {name: value} if value is not None else {name: math.nan, f"{name}_reason": _STOPPED}
        )
    return found


def at_worst(one: Mapping[str, Any], other: Mapping[str, Any], unseen: str = "") -> dict[str, Any]:
    """What targets are held against: whichever attacker does better. Not known stays so.

    With a reason in `unseen`, none of it is known.

    Examples
    --------
    >>> at_worst({"mean_h": 7.0, "pr_h_0": 0.1}, {"mean_h": 2.0, "pr_h_0": 0.3})
    {'mean_h_at_worst': 2.0, 'pr_h_0_at_worst': 0.3}
    """
    found: dict[str, Any] = {}
    for name, value in one.items():
        if not isinstance(value, float):
            continue
        worse = np.minimum if name.startswith("mean") else np.maximum
        found[f"{name}{AT_WORST}"] = math.nan if unseen else float(worse(value, other[name]))
        if unseen:
            found[f"{name}_reason"] = unseen
    return found


def by_record(complete: Mask, columns: dict[str, Floats]) -> pl.DataFrame:
    """A row for each record; null where it was no target, or lacks a value: not known, not safe."""
    frame = {}
    for name, each in columns.items():
        whole = np.full(len(complete), np.nan)
        whole[complete] = each
        frame[name] = pl.Series(whole).fill_nan(None)
    return pl.DataFrame(frame)


def mean_of(values: Floats) -> float:
    """The mean from an exact sum, rounded once or twice."""
    return total_of(values) / len(values)


def _parts(groups: Groups, found: Ranks) -> list[tuple[float, float, Positions]]:
    everybody = (0.0, 1.0, np.flatnonzero(found.ties > 0))
    return [everybody, *zip(groups.starts, groups.ends, groups.rows, strict=True)]
