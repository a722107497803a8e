"""Broader groups: values of few records joined, masked or put into periods, and their schema."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import polars as pl

from sfumato.cells.grids import spread_ends
from sfumato.cells.notation import RANGE, format_range, format_value
from sfumato.io.frames import to_canonical_text
from sfumato.schema import Column, Kind
from sfumato.schema.hierarchies import Hierarchy

_LENGTHS = {"month": "1mo", "quarter": "1q", "year": "1y"}


# Values as text ----------------------------------------------------------------------------------


def format_values(values: pl.Series) -> pl.Series:
    """One text for each value, the same for every frame library: days have no time of day."""
    if values.dtype != pl.Datetime:
        return to_canonical_text(values)
    days, moments = values.dt.date(), values.dt.replace_time_zone(None).cast(pl.Datetime("us"))
    midnight = (days.cast(pl.Datetime("us")) == moments).fill_null(value=False)
    exact = moments.dt.to_string("%Y-%m-%d %H:%M:%S%.6f")
    return days.cast(pl.String).zip_with(midnight, exact).alias(values.name)


def are_codes(values: pl.Series) -> bool:
    """Whether there are characters to keep: only text and whole numbers from 0 on have some."""
    if values.dtype == pl.String or values.null_count() == len(values):
        return True
    if not values.dtype.is_numeric():
        return False
    integers = values == values.cast(pl.Int64, strict=False)
    return bool(((values >= 0) & integers).fill_null(values.is_null()).all())


def mask_codes(texts: pl.Series, keep: int) -> pl.Series:
    """Codes with only their beginning left: `937**`."""
    stars = texts.str.slice(keep).str.replace_all(r"(?s).", "*")
    return (texts.str.head(keep) + stars).alias(texts.name)


def group_in_periods(values: pl.Series, period: str, output: str) -> pl.Series:
    """The month, quarter or year of dates, as the range of its days or as a label."""
    days = values.cast(pl.Date) if values.dtype == pl.Null else values.dt.date()
    if output == "label":
        if period == "quarter":
            quarter = days.dt.quarter().cast(pl.String)
            return (days.dt.to_string("%Y-Q") + quarter).alias(values.name)
        return days.dt.to_string("%Y" if period == "year" else "%Y-%m").alias(values.name)
    first = days.dt.truncate(_LENGTHS[period])
    last = first.dt.offset_by(_LENGTHS[period]).dt.offset_by("-1d")
    texts = first.dt.to_string("[%Y-%m-%d;") + last.dt.to_string("%Y-%m-%d]")
    return texts.alias(values.name)


# Rare values -------------------------------------------------------------------------------------


def sort_integers(texts: Iterable[str]) -> list[str] | None:
    """Whole numbers in rising order; None where a text is no whole number.

    Examples
    --------
    >>> sort_integers(["10", "9", "-1"]), sort_integers(["10", "1.5"])
    (['-1', '9', '10'], None)
    """
    try:
        return sorted(texts, key=lambda text: (int(text), text))
    except ValueError:
        return None  # its message quotes a cell


def join_neighbours(
    order: Sequence[str],
    counts: Mapping[str, int],
    fewest: int,
    name: str,
    *,
    whole: bool = False,
    bounds: tuple[float, float] | None = None,
) -> dict[str, str]:
    """What each value becomes when the smallest group joins its smaller neighbour, and again.

    With `whole` the values are whole numbers; `bounds` are those of their declared domain.

    Examples
    --------
    >>> join_neighbours(["0", "1", "2", "3"], {"0": 9, "1": 5, "2": 2, "3": 1}, 3, "children")
    {'0': '0', '1': '1', '2': '[2;3]', '3': '[2;3]'}
    """
    last = {index: index for index in range(len(order))}  # each group by its first value
    before = {index: index - 1 for index in range(len(order))}
    sizes = {index: counts[value] for index, value in enumerate(order)}
    small = [(size, index) for index, size in sizes.items() if size < fewest]
    heapq.heapify(small)
    while small and len(sizes) > 1:
        size, group = heapq.heappop(small)
        if sizes.get(group) != size:
            continue  # it has grown, or is part of another
        neighbours = [index for index in (before[group], last[group] + 1) if index in sizes]
        other = min(neighbours, key=lambda index: (sizes[index], index))
        first, second = min(group, other), max(group, other)
        sizes[first] += sizes.pop(second)
        last[first] = last[second]
        if last[first] + 1 in sizes:
            before[last[first] + 1] = first
        if sizes[first] < fewest:
            heapq.heappush(small, (sizes[first], first))
    groups: dict[str, str] = {}
    for first in sorted(sizes):
        members = order[first : last[first] + 1]
        label = members[0]
        if len(members) > 1:
            after = order[last[first] + 1] if last[first] + 1 < len(order) else None
            ends = members[0], members[-1]
            if whole:
                ends = _move_ends_outwards(*ends, after, outermost=first == 0, bounds=bounds)
            label = format_range(*ends, name)
        groups |= dict.fromkeys(members, label)
    return groups


def _move_ends_outwards(
    low: str,
    high: str,
    after: str | None,
    *,
    outermost: bool,
    bounds: tuple[float, float] | None,
) -> tuple[str, str]:
    """Ends of a group of whole numbers that do not say which of them occur.

    A group reaches to the next one; the first and the last end on round numbers, but not beyond
    the declared domain.
    """
    least, most = spread_ends(int(low), int(high), whole=True)
    if bounds is not None and bounds[0] <= int(low) and int(high) <= bounds[1]:
        least, most = max(least, math.ceil(bounds[0])), min(most, math.floor(bounds[1]))
    most = most if after is None else int(after) - 1
    # An end that stays keeps its spelling.
    first = str(least) if outermost and least != int(low) else low
    return first, str(most) if most != int(high) else high


# Schema ------------------------------------------------------------------------------------------


def redeclare(
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


def redeclare_groups(
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
        values, ranked = _sort_values(column, hierarchy)
    if values is None:
        return redeclare(column, None, hierarchy)
    labels = [new.get(value, value) for value in values]
    runs = [label for label, _ in groupby(labels)]
    if not ranked or len(runs) > len(set(runs)):
        return redeclare(column, dict.fromkeys(labels), hierarchy)
    if column.levels is not None and any(map(RANGE.fullmatch, set(runs).difference(values))):
        # The ends of a range of levels must stay known, or nobody could read it.
        runs = list(_insert_ranges(values, labels))
    return redeclare(column, runs, hierarchy, kind="ordinal")


def _insert_ranges(values: list[str], labels: list[str]) -> Iterable[str]:
    """All levels in order, each range behind the last of its own."""
    for index, (value, label) in enumerate(zip(values, labels, strict=True)):
        yield value
        if label != value and label not in labels[index + 1 :]:
            yield label


def _sort_values(column: Column, hierarchy: Hierarchy | None) -> tuple[list[str] | None, bool]:
    """All values there may be, where that is known, and whether their order means something."""
    if column.levels is not None:
        return [format_value(level) for level in column.levels], column.kind == "ordinal"
    if not hierarchy:
        return None, False
    values = list(hierarchy)
    if column.kind == "date":
        return sorted(values), True
    if column.kind in ("integer", "continuous") and all(map(_is_number, values)):
        return sorted(values, key=float), True
    return values, False


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
