"""Whom the attacker looks for: everybody, tenths of the persons, or those at chosen quantiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Positions
from sfumato.parameters import write_short
from sfumato.risk.attacks.distances import Space

TENTHS = 10
_ROUNDING = 256 * 2.0**-53
"""By what share of the largest value behind them equal sums may differ."""


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of targets along an order.

    Parameters
    ----------
    starts, ends : the quantiles between which each group lies; the same for chosen quantiles.
    rows : the records of each group.
    """

    starts: tuple[float, ...]
    ends: tuple[float, ...]
    rows: tuple[Positions, ...] = field(repr=False)

    __repr__ = write_short


def order_values(where: Space, by: str, *, standardise: bool, owner: str) -> Floats:
    """What the targets are ordered by.

    - "sum": the sum of the variables, each from its mean and in standard deviations of the
      original; as they stand where the attacker does not standardise;
    - "distance": the distance from the centre, as the attacker measures it;
    - the name of a variable: that variable.

    They differ: the records in the middle by the sum are not those near the centre.
    """
    words = {"sum", "distance"} & set(where.names)
    if by in words:
        raise MeasureError(
            f"'{owner}': by = '{by}' is a word for an order, and the name of a variable too.",
            hint="rename the variable.",
        )
    if by == "distance":
        squares = np.zeros(len(where.original))
        for index, scale in enumerate(where.scale):
            squares += ((where.original[:, index] - where.centre[index]) * scale) ** 2
        sizes = np.abs(where.original).max(axis=0) if where.sizes is None else where.sizes
        return _join_equal(np.sqrt(squares), float((sizes * where.scale).sum()))
    if by == "sum":
        total = np.zeros(len(where.original))
        for column, mean, spread in zip(where.plain.T, where.means, where.deviations, strict=True):
            total += (column - mean) / spread if standardise else column
        units = where.deviations if standardise else np.ones(len(where.deviations))
        return _join_equal(total, float((np.abs(where.plain).max(axis=0) / units).sum()))
    if by not in where.names:
        names = ", ".join(f"'{name}'" for name in where.names)
        raise MeasureError(
            f"'{owner}' orders targets by 'sum', by 'distance', or by a variable that is compared "
            f"and varies: {names}. '{by}' is none of these.",
            hint="choose one of them.",
        )
    return where.plain[:, where.names.index(by)]


def _join_equal(values: Floats, size: float) -> Floats:
    """The values, those alike that differ by rounding only: ties in any unit and order of columns.

    `size` is how large the values are, at most, that these are computed from.
    """
    order = np.argsort(values, kind="stable")
    is_larger = np.diff(values[order], prepend=-np.inf) > _ROUNDING * size
    joined = np.empty_like(values)
    joined[order] = values[order][is_larger][np.cumsum(is_larger) - 1]
    return joined


def tenths(values: Floats) -> Groups:
    """Ten groups along an order; equal values are in the same group, so that some may be empty."""
    # By how many are less, so that ties fall into one group.
    less = np.searchsorted(np.sort(values), values, side="left")
    tenth = less * TENTHS // len(values)
    used = [int(tenth_index) for tenth_index in np.unique(tenth)]
    return Groups(
        tuple(tenth_index / TENTHS for tenth_index in used),
        tuple((tenth_index + 1) / TENTHS for tenth_index in used),
        tuple(np.flatnonzero(tenth == tenth_index) for tenth_index in used),
    )


def at_quantiles(values: Floats, quantiles: Sequence[float]) -> Groups:
    """The record at each quantile, the least value that so large a share does not exceed.

    Several records of exactly that value are all targets.
    """
    ordered = np.sort(values)
    # 0.1 of 1000 records is the hundredth, whatever a float makes of it.
    positions = [max(math.ceil(quantile * len(values) - 1e-9) - 1, 0) for quantile in quantiles]
    rows = tuple(np.flatnonzero(values == ordered[position]) for position in positions)
    return Groups(tuple(quantiles), tuple(quantiles), rows)
