"""All variables a little coarser, in a few fixed levels."""

from __future__ import annotations

import math

from sfumato.data import Dataset
from sfumato.method import Method
from sfumato.methods.coarsen import Coarsen
from sfumato.methods.recode import Recode
from sfumato.schema.hierarchies import Hierarchy

LEVELS = 5
_INTERVALS = (32, 16, 8, 4, 2)
_RARE = (0.005, 0.01, 0.03, 0.1, 0.2)
"""Categories of a smaller share of the records than this are joined."""


def coarser(data: Dataset, names: list[str], level: int) -> tuple[Method, ...]:
    """Steps that make variables coarser, from level 1 (a little) to 5 (two parts); 0 is none.

    Numbers and dates with a declared domain get ever fewer intervals, categories with a hierarchy
    its levels; of other categories the rare ones are joined. Text stays as it is.
    """
    if not level:
        return ()
    cut = _INTERVALS[level - 1]
    groups: dict[tuple[str, int], list[str]] = {}
    for name in names:
        told = data.schema[name]
        if told.kind in ("continuous", "integer", "date"):
            if _parts(data, name) > cut:
                groups.setdefault(("coarsen", cut), []).append(name)
            continue
        depth = told.hierarchy.depth if isinstance(told.hierarchy, Hierarchy) else 0
        fewest = max(2, math.ceil(_RARE[level - 1] * len(data)))
        if depth and level > 1:
            groups.setdefault(("level", min(depth, level - 1)), []).append(name)
        elif _joinable(data, name, fewest):
            groups.setdefault(("fewest", fewest), []).append(name)
    return tuple(_step(*about, some) for about, some in groups.items())


def _step(how: str, number: int, names: list[str]) -> Method:
    if how == "coarsen":
        return Coarsen(variables=names, intervals=number)
    if how == "level":
        return Recode(variables=names, level=number)
    return Recode(variables=names, fewest=number)


def _parts(data: Dataset, name: str) -> float:
    """How many parts the declared domain has already; 0 where it cannot be cut."""
    bounds, values = data.schema[name].bounds, data.column(name)
    if bounds is None or not (values.dtype.is_numeric() or values.dtype.is_temporal()):
        return 0
    if data.schema[name].kind != "integer":
        return math.inf
    return float(bounds[1] - bounds[0] + 1)


def _joinable(data: Dataset, name: str, fewest: int) -> bool:
    """Whether there are rare categories, and it is known which go together."""
    told = data.schema[name]
    if told.kind not in ("nominal", "ordinal"):
        return False
    if told.kind == "ordinal" and told.levels is None:
        return False
    counts = data.column(name).drop_nulls().value_counts()["count"]
    return bool((counts < fewest).any())
