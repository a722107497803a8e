"""Hierarchies as a person draws them: borders between numbers or days, categories in groups."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any

from sfumato.cells.notation import reads_as_notation
from sfumato.errors import SchemaError
from sfumato.schema.hierarchies import CutRanges, Hierarchy, build_hierarchy, cut

MOST_VALUES = 50_000
"""Numbers or days of a hierarchy: 130 years of days."""
MOST_LEVELS = 4
_LEVELS = [str(level) for level in range(1, MOST_LEVELS + 1)]
_BINS = 8
_MOST_PRESET, _FEW = 120, 12
"""Borders that a preset may have, and those that are drawn to begin with."""
PERIODS = {"month": 1, "quarter": 3, "year": 12, "five_years": 60, "decade": 120,
           "fifty_years": 600}  # fmt: skip
"""In months; each consists of whole ones of those before."""
_PRESET_LEVELS = 3
Point = Any
"""A number (`Decimal`) or a day."""
Border = tuple[Point, int]
"""Where a group begins, and the broadest level at which it still does."""


def read_point(text: str, *, days: bool = False) -> Point:
    """A number or a day that a person typed.

    Examples
    --------
    >>> read_point("2.5"), read_point("1970-01-31", days=True)
    (Decimal('2.5'), datetime.date(1970, 1, 31))
    """
    if days:
        try:
            return dt.date.fromisoformat(text.strip())
        except ValueError:
            raise SchemaError("A border is not a date.", hint="write it like 1970-01-31.") from None
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        raise SchemaError("A border is not a number.", hint="write it like 25 or 2.5.") from None
    if not number.is_finite():
        raise SchemaError("A border is not a number.", hint="write it like 25 or 2.5.")
    return number


def write_point(point: Point) -> str:
    """A number or a day as a hierarchy spells it: 5 and not 5.0.

    Examples
    --------
    >>> write_point(Decimal("5.0")), write_point(Decimal("2.50")), write_point(dt.date(1970, 1, 31))
    ('5', '2.5', '1970-01-31')
    """
    if isinstance(point, dt.date):
        return point.isoformat()
    return str(int(point)) if point == int(point) else repr(float(point))


def require_few(low: Point, high: Point, step: Decimal = Decimal(1)) -> None:
    """Refuse numbers or days that are too many to be grouped one by one."""
    if isinstance(low, dt.date) and isinstance(high, dt.date):
        low, high = Decimal(low.toordinal()), Decimal(high.toordinal())
    count = int((high - low) / step) + 1 if high >= low and step > 0 else 0
    if not 0 < count <= MOST_VALUES:
        raise SchemaError(
            f"These are more than {MOST_VALUES:,} different values, too many to be grouped here.",
            hint="cut them under Protect with coarsen, or round them first.",
        )


def cut_values(
    low: Point, high: Point, borders: Sequence[Border], step: Decimal = Decimal(1)
) -> Hierarchy:
    """Ranges of numbers or days; a border of a broad level is one of all narrower levels.

    Examples
    --------
    >>> five, ten = (Decimal(5), 1), (Decimal(10), 2)
    >>> cut_values(Decimal(0), Decimal(14), [five, ten])["7"]
    ('[5;9]', '[0;9]')
    """
    require_few(low, high, step)
    inside = [(border, level) for border, level in borders if low < border <= high]
    if not inside:
        raise SchemaError("There is no border between these values.", hint="add one.")
    depth = max(level for _, level in inside)
    breaks = [sorted({border for border, broadest in inside if broadest >= level})
              for level in range(1, depth + 1)]  # fmt: skip
    return cut(low, high, breaks, step=step)


def build_groups(drawing: Mapping[str, Any]) -> Hierarchy:
    """The groups that a form describes: borders of numbers or days, or names of categories."""
    if drawing["form"] == "categories":
        return unite_values(drawing["values"], drawing["names"])
    days = drawing["form"] == "dates"
    low, high = (read_point(drawing[end], days=days) for end in ("low", "high"))
    if any(level not in _LEVELS for _, level in drawing["borders"]):
        raise SchemaError("A border counts up to a level.", hint=f"from 1 to {MOST_LEVELS}.")
    borders = [(read_point(text, days=days), int(level)) for text, level in drawing["borders"]]
    return cut_values(low, high, borders, read_point(drawing.get("step", "1")))


def find_borders(hierarchy: Mapping[str, Sequence[str]], *, days: bool = False) -> list[Border]:
    """Where groups of numbers or days begin, and up to which level.

    Examples
    --------
    >>> find_borders({"1": ("[1;2]",), "2": ("[1;2]",), "3": ("3",)})
    [(Decimal('3'), 1)]
    """
    if isinstance(hierarchy, CutRanges):
        levels = hierarchy.declaration["breaks"]
        return [(read_point(str(border), days=days), sum(border in level for level in levels))
                for border in levels[0]]  # fmt: skip
    points = sorted(
        (read_point(value, days=days), tuple(groups)) for value, groups in hierarchy.items()
    )
    borders = []
    for (_, before), (point, after) in pairwise(points):
        changed = [level for level, pair in enumerate(zip(before, after, strict=True), 1)
                   if pair[0] != pair[1]]  # fmt: skip
        if changed:
            borders.append((point, max(changed)))
    return borders


def suggest_borders(low: Decimal, high: Decimal, step: Decimal) -> list[Border]:
    """Round borders to begin with: about eight ranges, and every other one of them broader."""
    share = (high - low) / _BINS
    power = Decimal(10) ** (share.adjusted() if share else 0)
    width = max(step, next(factor * power for factor in (1, 2, 5, 10) if factor * power >= share))
    first = (low // width + 1) * width
    borders: list[Border] = []
    while first <= high and len(borders) < MOST_VALUES:
        borders.append((first, 2 if first % (2 * width) == 0 else 1))
        first += width
    return borders


def list_presets(low: dt.date, high: dt.date) -> dict[str, int]:
    """The periods into which these days can be cut, and how many borders each has.

    Examples
    --------
    >>> list_presets(dt.date(1950, 1, 1), dt.date(1969, 12, 31))
    {'quarter': 79, 'year': 19, 'five_years': 3, 'decade': 1}
    """
    counts = {period: len(cut_into_periods(low, high, period)) for period in PERIODS}
    return {period: count for period, count in counts.items() if 0 < count <= _MOST_PRESET}


def choose_preset(low: dt.date, high: dt.date) -> str:
    """The shortest periods that are few; "" where no period ends between these days."""
    presets = list_presets(low, high)
    few = [period for period, count in presets.items() if count <= _FEW]
    return (few or list(presets) or [""])[0]


def cut_into_periods(low: dt.date, high: dt.date, period: str) -> list[Border]:
    """Borders where a period begins; one where a longer period begins counts up to its level.

    Examples
    --------
    >>> cut_into_periods(dt.date(1958, 5, 1), dt.date(1961, 2, 1), "year")[-2:]
    [(datetime.date(1960, 1, 1), 3), (datetime.date(1961, 1, 1), 1)]
    """
    chain = [months for months in PERIODS.values() if months >= PERIODS[period]][:_PRESET_LEVELS]
    first = -(-_count_months(low) // chain[0]) * chain[0]
    begins = range(first, _count_months(high) + 1, chain[0])
    borders = [(dt.date(month // 12, month % 12 + 1, 1),
                sum(month % months == 0 for months in chain)) for month in begins]  # fmt: skip
    return [(day, level) for day, level in borders if low < day <= high]


def _count_months(day: dt.date) -> int:
    return day.year * 12 + day.month - 1


def unite_values(values: Sequence[str], names: Sequence[Sequence[str]]) -> Hierarchy:
    """Categories in named groups, level by level; what has no group stays what it was.

    Parameters
    ----------
    values : the categories.
    names : for each level the group of each category; empty: as on the level before.

    Examples
    --------
    >>> unite_values(["a", "b", "c"], [["ab", "ab", ""], ["all", "all", "all"]])["c"]
    ('c', 'all')
    """
    levels: list[list[str]] = []
    before = list(values)
    for level in names:
        now = [name.strip() or old for name, old in zip(level, before, strict=True)]
        odd = next((name for name in now if name not in values and reads_as_notation(name)), None)
        if odd is not None:
            raise SchemaError(
                "The name of a group reads as a range, a set or a mask.",
                hint="leave *, ; and brackets out of it.",
            )
        if now != before:
            levels.append(now)
        before = now
    if not levels:
        raise SchemaError("No two categories are in one group.", hint="drag some into a group.")
    rows = zip(*levels, strict=True)
    return build_hierarchy(dict(zip(values, rows, strict=True)), "groups")
