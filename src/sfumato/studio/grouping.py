"""Hierarchies as a person draws them: borders between numbers, categories in named groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import pairwise

from sfumato.cells.notation import reads_as_notation
from sfumato.errors import SchemaError
from sfumato.schema.hierarchies import Hierarchy, build_hierarchy

MOST_VALUES = 5_000
"""Numbers of a hierarchy: a plan that lists more would not be read."""
MOST_LEVELS = 4
_BINS = 8
Border = tuple[Decimal, int]
"""Where a group begins, and the broadest level at which it still does."""


def read_decimal(text: str) -> Decimal:
    """A number that a person typed."""
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        raise SchemaError("A border is not a number.", hint="write it like 25 or 2.5.") from None
    if not number.is_finite():
        raise SchemaError("A border is not a number.", hint="write it like 25 or 2.5.")
    return number


def write_decimal(number: Decimal) -> str:
    """A number as a hierarchy spells it: 5 and not 5.0.

    Examples
    --------
    >>> write_decimal(Decimal("5.0")), write_decimal(Decimal("2.50"))
    ('5', '2.5')
    """
    return str(int(number)) if number == int(number) else repr(float(number))


def list_grid(low: Decimal, high: Decimal, step: Decimal) -> list[Decimal]:
    """Every number from low to high; too many are refused."""
    count = int((high - low) / step) + 1 if high >= low and step > 0 else 0
    if not 0 < count <= MOST_VALUES:
        raise SchemaError(
            f"These are more than {MOST_VALUES:,} different numbers, too many to be listed.",
            hint="cut them under Protect with coarsen, which needs no list, or round them first.",
        )
    return [low + index * step for index in range(count)]


def cut_numbers(low: Decimal, high: Decimal, step: Decimal, borders: Sequence[Border]) -> Hierarchy:
    """Ranges of numbers, from narrow to broad; a border of a broad level is one of all narrower.

    Examples
    --------
    >>> five, ten = (Decimal(5), 1), (Decimal(10), 2)
    >>> cut_numbers(Decimal(0), Decimal(14), Decimal(1), [five, ten])["7"]
    ('[5;9]', '[0;9]')
    """
    inside = [(border, level) for border, level in borders if low < border <= high]
    if not inside:
        raise SchemaError("There is no border between these numbers.", hint="add one.")
    depth = max(level for _, level in inside)
    grid = list_grid(low, high, step)
    levels = [
        _name_ranges(grid, sorted({border for border, at in inside if at >= level}), step)
        for level in range(1, depth + 1)
    ]
    rows = zip(*levels, strict=True)
    groups = {write_decimal(n): tuple(row) for n, row in zip(grid, rows, strict=True)}
    return build_hierarchy(groups, "groups")


def _name_ranges(grid: Sequence[Decimal], cuts: Sequence[Decimal], step: Decimal) -> list[str]:
    """The range of each number."""
    starts = [grid[0], *cuts]
    names = []
    for start, end in pairwise([*starts, grid[-1] + step]):
        inside = [number for number in grid if start <= number < end]
        if inside:
            first, last = write_decimal(inside[0]), write_decimal(inside[-1])
            name = first if first == last else f"[{first};{last}]"
            names += [name] * len(inside)
    return names


def find_borders(hierarchy: Mapping[str, Sequence[str]]) -> list[Border]:
    """Where groups of numbers begin, and up to which level.

    Examples
    --------
    >>> find_borders({"1": ("[1;2]",), "2": ("[1;2]",), "3": ("3",)})
    [(Decimal('3'), 1)]
    """
    numbers = sorted((read_decimal(value), tuple(groups)) for value, groups in hierarchy.items())
    borders = []
    for (_, before), (number, after) in pairwise(numbers):
        changed = [level for level, pair in enumerate(zip(before, after, strict=True), 1)
                   if pair[0] != pair[1]]  # fmt: skip
        if changed:
            borders.append((number, max(changed)))
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
