"""What a variable is after its values were grouped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import groupby

from sfumato.cells.notation import RANGE, written
from sfumato.schema import Column, Kind
from sfumato.schema.hierarchies import Hierarchy


def regrouped(
    column: Column,
    levels: Iterable[str] | None,
    hierarchy: Hierarchy | None,
    *,
    kind: Kind = "nominal",
) -> Column:
    """The declaration with other levels. Codes and free text stay text."""
    if column.kind == "text":
        return replace(column, domain=None, hierarchy=hierarchy or None)
    domain = None if levels is None else tuple(levels) or None
    return replace(column, kind=kind, domain=domain, hierarchy=hierarchy or None)


def grouped(
    column: Column,
    new: Mapping[str, str],
    hierarchy: Hierarchy | None,
    *,
    values: list[str] | None = None,
) -> Column:
    """The declaration after each value was replaced by its group.

    Groups of neighbours have an order where the values have one. `values` gives them in their
    order where neither the domain nor the hierarchy lists them.
    """
    ranked = values is not None
    if values is None:
        values, ranked = _in_order(column, hierarchy)
    if values is None:
        return regrouped(column, None, hierarchy)
    labels = [new.get(value, value) for value in values]
    runs = [label for label, _ in groupby(labels)]
    if not ranked or len(runs) > len(set(runs)):
        return regrouped(column, dict.fromkeys(labels), hierarchy)
    if column.levels is not None and any(_is_range(one) for one in set(runs).difference(values)):
        # The ends of a range of levels must stay known, or nobody could read it.
        runs = list(_with_ranges(values, labels))
    return regrouped(column, runs, hierarchy, kind="ordinal")


def _is_range(label: str) -> bool:
    return RANGE.fullmatch(label) is not None


def _with_ranges(values: list[str], labels: list[str]) -> Iterable[str]:
    """All levels in order, each range behind the last of its own."""
    for at, (value, label) in enumerate(zip(values, labels, strict=True)):
        yield value
        if label != value and label not in labels[at + 1 :]:
            yield label


def _in_order(column: Column, hierarchy: Hierarchy | None) -> tuple[list[str] | None, bool]:
    """All values there may be, where that is known, and whether their order means something."""
    if column.levels is not None:
        return [written(level) for level in column.levels], column.kind == "ordinal"
    if not hierarchy:
        return None, False
    values = list(hierarchy)
    if column.kind == "date":
        return sorted(values), True
    if column.kind in ("integer", "continuous") and all(_number(one) is not None for one in values):
        return sorted(values, key=float), True
    return values, False


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
