"""Suggests a hierarchy for a variable, and says how many records each of its groups has."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

import polars as pl

from sfumato.errors import SchemaError
from sfumato.schema import Column
from sfumato.schema.hierarchies import (
    Hierarchy,
    dates,
    equal_counts,
    intervals,
    merge_rare,
    neighbours,
    prefixes,
    round_numbers,
)

Way = Literal["width", "count", "round", "dates", "prefix", "neighbours", "rare"]
_SIZES: dict[Way, tuple[float, ...]] = {
    "width": (5, 10),
    "count": (16, 4),
    "round": (20,),
    "neighbours": (2, 4),
    "rare": (20, 100),
}
"""What is taken where nobody says: widths, numbers of groups, groups, and the fewest records."""
_CODES = 3
"""Characters from which texts that are all as long as each other are taken for codes."""


@dataclass(frozen=True)
class Level:
    """One level of a hierarchy among records.

    Parameters
    ----------
    number : 1 for the narrowest.
    groups : how many groups some record is in.
    fewest : records in the smallest of these.
    largest : share of the records that the largest of them has.
    """

    number: int
    groups: int
    fewest: int
    largest: float


def suggest_hierarchy(
    values: pl.Series, column: Column, *, way: Way | None = None, sizes: Sequence[float] = ()
) -> Hierarchy:
    """A hierarchy for the values of a variable; by its kind, unless a way is named.

    Question: which groups would people name?
    Assumes: `sizes` are what the way's builder in `sf.hierarchies` asks for: widths of ranges,
    numbers of ranges ("count"), ranges of the narrowest level ("round"), characters that are kept
    ("prefix"), levels in a group ("neighbours"), or fewest records ("rare"). Where no domain is
    declared, ranges end on round numbers outside the values.

    Examples
    --------
    >>> ages = pl.Series("age", [18, 34, 61, 90])
    >>> suggest_hierarchy(ages, Column(kind="integer"))["34"]
    ('[30;34]', '[30;39]', '[20;39]')
    """
    present = values.drop_nulls()
    if not len(present):
        raise SchemaError(f"Variable '{values.name}' has no values to put into groups.")
    chosen = way or _choose_way(present, column)
    numbers = tuple(sizes) or _SIZES.get(chosen, ())
    if chosen in ("width", "count", "round"):
        return _group_numbers(present, column, chosen, numbers)
    if chosen == "dates":
        return _group_dates(present, column)
    whole = [int(number) for number in numbers]
    texts = present.cast(pl.String)
    if chosen == "prefix":
        codes = texts.unique().sort().to_list()
        longest = max(map(len, codes))
        return prefixes(codes, keep=whole or range(longest - 1, 0, -1))
    if chosen == "neighbours":
        if column.kind != "ordinal" or column.levels is None:
            raise SchemaError(
                f"Variable '{values.name}' has no declared order of its levels.",
                hint='declare it: kind = "ordinal", and its levels as the domain.',
            )
        return neighbours(list(map(str, column.levels)), sizes=whole)
    return merge_rare(Counter(texts.to_list()), fewest=whole)


def _choose_way(values: pl.Series, column: Column) -> Way:
    if values.dtype.is_temporal():
        return "dates"
    if values.dtype.is_numeric() and column.kind in ("integer", "continuous", None):
        return "round"
    if column.kind == "ordinal" and column.levels is not None:
        return "neighbours"
    lengths = values.cast(pl.String).str.len_chars()
    alike = lengths.min() == lengths.max() and int(lengths[0]) >= _CODES
    return "prefix" if alike and column.kind == "text" else "rare"


def _group_numbers(
    values: pl.Series, column: Column, way: Way, numbers: Sequence[float]
) -> Hierarchy:
    if not values.dtype.is_numeric():
        raise SchemaError(f"Variable '{values.name}' holds no numbers.", hint="choose another way.")
    step = _find_step(values)
    if way == "count":
        return equal_counts(values.to_list(), groups=[int(n) for n in numbers], step=step)
    least, most = float(values.min()), float(values.max())  # type: ignore[arg-type]
    unit = numbers[-1] if way == "width" else _find_round_width((most - least) / numbers[0], step)
    low, high = math.floor(least / unit) * unit, (math.floor(most / unit) + 1) * unit - step
    if column.bounds is not None:
        low, high = column.bounds
    if way == "width":
        return intervals(low, high, list(numbers), step=step)
    return round_numbers(low, high, groups=int(numbers[0]), step=step)


def _find_step(values: pl.Series) -> float:
    """How far numbers lie apart: one of the last decimal that occurs."""
    if values.dtype.is_integer():
        return 1
    places = [-int(Decimal(repr(x)).normalize().as_tuple().exponent) for x in values.unique()]
    return 10 ** -max(0, *places) if max(places) > 0 else 1


def _find_round_width(least: float, step: float) -> float:
    power = math.floor(math.log10(max(least, step)))
    return next(m * 10.0**power for m in (1, 2, 5, 10) if m * 10.0**power >= least)


def _group_dates(values: pl.Series, column: Column) -> Hierarchy:
    if not values.dtype.is_temporal():
        raise SchemaError(f"Variable '{values.name}' holds no dates.", hint="choose another way.")
    days = values.cast(pl.Date)
    low, high = dt.date(days.dt.year().min(), 1, 1), dt.date(days.dt.year().max(), 12, 31)  # type: ignore[arg-type]
    if column.bounds is not None:
        low, high = column.bounds
    return dates(low, high, to=("month", "quarter", "year", "decade"))


def count_levels(counts: Mapping[str, int], hierarchy: Hierarchy) -> list[Level]:
    """How many records the groups of each level have; values that it does not know are left out.

    Examples
    --------
    >>> count_levels({"a": 3, "b": 1}, Hierarchy({"a": ("x", "*"), "b": ("y", "*")}))[0].fewest
    1
    """
    known = {value: count for value, count in counts.items() if value in hierarchy}
    total = max(sum(known.values()), 1)
    levels = []
    for number in range(1, hierarchy.depth + 1):
        sizes: Counter[str] = Counter()
        for value, count in known.items():
            sizes[hierarchy[value][number - 1]] += count
        smallest, largest = min(sizes.values(), default=0), max(sizes.values(), default=0)
        levels.append(Level(number, len(sizes), smallest, largest / total))
    return levels
