"""Which records satisfy a statement, where cells may stand for several values.

The constants of the statement cut each variable into regions on which it does not change: for
numbers those below, at, between and above the constants. A cell touches some regions. A record
satisfies the statement if it holds on all combinations of regions that its cells touch, and may
satisfy it if it holds on some. That is exact, also for `x < 5 or x >= 5` and a range around 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Mask
from sfumato.risk._disclosure.predicate import Comparison, Not, Predicate, comparisons, variables_of
from sfumato.risk._disclosure.regions import Regions, regions

_LARGEST = 1 << 22
"""Combinations of regions that are looked at, at most."""


@dataclass(frozen=True, eq=False)
class Satisfied:
    """For each record whether it satisfies a statement.

    Parameters
    ----------
    surely : it holds for every value that the record may stand for.
    possibly : it holds for some of them.
    unknown : a variable is missing and the statement is not decided without it. Such a record
        satisfies nothing, neither the statement nor its opposite.
    """

    surely: Mask
    possibly: Mask
    unknown: Mask


def satisfied(data: Dataset, predicate: Predicate) -> Satisfied:
    """Hold a statement against every record.

    Examples
    --------
    >>> import polars as pl
    >>> from sfumato.risk._disclosure.predicate import parse
    >>> data = Dataset(pl.DataFrame({"x": ["[10;30]", "[20;30]", "12", None]}))
    >>> found = satisfied(data, parse("x >= 20"))
    >>> found.surely.tolist(), found.possibly.tolist()
    ([False, True, False, False], [True, True, False, False])
    """
    names = variables_of(predicate)
    told = list(comparisons(predicate))
    parts = [regions(data, name, [one for one in told if one.variable == name]) for name in names]
    if math.prod(len(part) for part in parts) > _LARGEST:
        raise MeasureError(
            "The statement has too many values in too many variables to be held against the data.",
            hint="split it into several measures.",
        )
    sure, maybe = _evaluated(predicate, names, parts)
    for axis, part in enumerate(parts):
        sure = _over(part.patterns, sure, axis, np.all)
        maybe = _over(part.patterns, maybe, axis, np.any)
    at = tuple(part.of for part in parts)
    absent = np.logical_or.reduce([part.missing[part.of] for part in parts])
    surely, possibly = sure[at], maybe[at]
    return Satisfied(surely, possibly & ~absent | surely, possibly & absent & ~surely)


def _over(patterns: Mask, truth: Mask, axis: int, reduced: Any) -> Mask:
    """Replace an axis of regions by one of patterns: truth over all (or any) that each touches."""
    moved = np.moveaxis(truth, axis, 0)
    made = np.stack([reduced(moved[touched], axis=0) for touched in patterns])
    return np.moveaxis(made, 0, axis)


def _evaluated(
    predicate: Predicate, names: tuple[str, ...], parts: list[Regions]
) -> tuple[Mask, Mask]:
    """Whether it holds, and whether it may hold, on every combination of regions."""
    if isinstance(predicate, Comparison):
        at = names.index(predicate.variable)
        shape = [len(part) if axis == at else 1 for axis, part in enumerate(parts)]
        whole = [len(part) for part in parts]
        # On the last region, that of missing, nothing holds and anything might.
        sure, maybe = (
            np.broadcast_to(np.append(parts[at].holds(predicate), last).reshape(shape), whole)
            for last in (False, True)
        )
        return sure, maybe
    if isinstance(predicate, Not):
        sure, maybe = _evaluated(predicate.part, names, parts)
        return ~maybe, ~sure
    each = [_evaluated(part, names, parts) for part in predicate.parts]
    join = np.logical_and if predicate.every else np.logical_or
    sures, maybes = zip(*each, strict=True)
    return join.reduce(sures), join.reduce(maybes)
