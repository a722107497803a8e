"""Hierarchies: for each value its ever broader groups, as `Column.hierarchy` takes them."""

from __future__ import annotations

import csv
import datetime as dt
import io
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_FLOOR, Decimal
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from sfumato.errors import SchemaError
from sfumato.schema.periods import MONTHS, Period, format_label, format_range

_DELIMITERS = ";,\t"
_ALL = "*"
_MOST = 1_000_000
_TWO = (2,)
"""The digits of 2, 20, 200."""
_LEAST_POWER, _GREATEST_POWER = -12, 16
"""Powers of ten between which round numbers are looked for."""
_ENDS_AND_BREAKS = {"low", "high", "breaks"}
"""What a plan names of ranges between breaks; `step` besides."""


class Hierarchy(dict[str, tuple[str, ...]]):
    """For each value its groups, from narrow to broad. Checked once, when first needed."""

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> Hierarchy:
        """A hierarchy from a mapping: of every value, or of the breaks between ranges."""
        if isinstance(declared, Hierarchy):
            return declared
        # A category may be called "low", but then a list of groups stands beside it.
        if _ENDS_AND_BREAKS <= declared.keys() <= {*_ENDS_AND_BREAKS, "step"} and not isinstance(
            declared["low"], (list, tuple)
        ):
            return cut(**declared)
        return cls((str(value), tuple(map(str, groups))) for value, groups in declared.items())

    def declare(self) -> dict[str, Any]:
        """As a plan writes it."""
        return {value: list(groups) for value, groups in self.items()}

    @property
    def depth(self) -> int:
        """How many levels of groups there are."""
        return len(next(iter(self.values()), ()))

    @cached_property
    def paths(self) -> dict[str, tuple[str, ...]]:
        """The groups above each value, and above each group; below its own level it is itself."""
        paths = dict(self)
        for groups in self.values():
            for level, group in enumerate(groups):
                paths.setdefault(group, (group,) * level + groups[level:])
        return paths

    @cached_property
    def flaw(self) -> str:
        """What is wrong with it, "" where nothing is. It may name a group, never a value."""
        if len({len(groups) for groups in self.values()}) > 1:
            return "the values of its hierarchy differ in how many groups they have"
        return _find_split_group(self) or _find_ambiguous_name(self)

    def at(self, level: int) -> dict[str, str]:
        """The group of each value at a level, 1 for the narrowest.

        Groups of narrower levels are there too, and broader ones stay as they are: no cell can
        become finer than it is.
        """
        group_of = {_ALL: _ALL}
        for value, groups in self.items():
            group_of |= dict(zip(groups[level:], groups[level:], strict=True))
            for narrower in (value, *groups[:level]):
                group_of[narrower] = groups[level - 1]
        return group_of

    def with_level(self, group_of: Callable[[str], str]) -> Hierarchy | None:
        """The same with one level more, less the levels that do not nest with it.

        `None` where a new group would have the name of something else.
        """
        new = {value: group_of(value) for value in self}
        columns = list(zip(*self.values(), strict=True)) if self else []
        labels = tuple(new.values())
        if labels in columns:
            return self
        broader = [level for level in columns if _lies_within(labels, level)]
        narrower = [
            level for level in columns if _lies_within(level, labels) and level not in broader
        ]
        # The new level goes between those it refines and those that refine it.
        rows = zip(*narrower, labels, *broader, strict=True)
        hierarchy = Hierarchy(zip(self, rows, strict=True))
        return None if hierarchy.flaw else hierarchy


class CutRanges(Hierarchy):
    """Ranges between breaks. A plan names the breaks, not each of the values."""

    declaration: dict[str, Any]
    flaw = ""
    """Ranges between fewer and fewer of the same breaks are nested."""

    def declare(self) -> dict[str, Any]:
        """As a plan writes it."""
        return self.declaration


def _lies_within(narrow: Sequence[str], broad: Sequence[str]) -> bool:
    """Whether each narrow group lies within one broad group."""
    return len(set(zip(narrow, broad, strict=True))) == len(set(narrow))


def _find_split_group(hierarchy: Hierarchy) -> str:
    levels = list(zip(*hierarchy.values(), strict=True)) if hierarchy else []
    for number, (narrow, broad) in enumerate(pairwise(levels), start=1):
        if not _lies_within(narrow, broad):
            return (
                f"a group of level {number} of its hierarchy is split over several of level "
                f"{number + 1}"
            )
    return ""


def _find_ambiguous_name(hierarchy: Hierarchy) -> str:
    """A name must stand for the same values wherever it occurs, or cells could not be read."""
    levels = list(zip(*hierarchy.values(), strict=True)) if hierarchy else []
    known: dict[str, int] = dict.fromkeys(hierarchy, 1)
    first = {value: value for value in hierarchy}
    for level in levels:
        sizes: dict[str, int] = {}
        heads: dict[str, str] = {}
        for value, group in zip(hierarchy, level, strict=True):
            sizes[group] = sizes.get(group, 0) + 1
            heads.setdefault(group, value)
        if sizes.get(_ALL, len(hierarchy)) != len(hierarchy):
            return "'*' in its hierarchy stands for some values only, and it means any value"
        for group, size in sizes.items():
            # Nested groups with a common first value and the same size are the same.
            same = known.setdefault(group, size) == size
            if not same or first.setdefault(group, heads[group]) != heads[group]:
                # The name of a group is the custodian's; that of a value is the data's.
                name = "a value's name" if group in hierarchy else f"the name '{group}'"
                return f"{name} in its hierarchy stands for different values at different levels"
    return ""


def build_hierarchy(groups_of_value: Mapping[str, Iterable[str]], what: str) -> Hierarchy:
    """A hierarchy without a flaw, or an error."""
    hierarchy = Hierarchy.of(groups_of_value)
    if hierarchy.flaw:
        hint = "each group lies in one broader group."
        raise SchemaError(f"{what}: {hierarchy.flaw}.", hint=hint)
    return hierarchy


def format_csv(hierarchy: Mapping[str, Sequence[str]]) -> str:
    r"""A hierarchy as text that `read` and ARX read: a value and its groups on each line.

    Examples
    --------
    >>> format_csv({"Ash": ("North", "*"), "Cove; Bay": ("South", "*")})
    'Ash;North;*\n"Cove; Bay";South;*\n'
    """
    text = io.StringIO()
    rows = ((value, *groups) for value, groups in hierarchy.items())
    csv.writer(text, delimiter=";", lineterminator="\n").writerows(rows)
    return text.getvalue()


def read(path: str | Path) -> Hierarchy:
    """Read a hierarchy: a value and its groups on each line, from narrow to broad, no heading.

    Question: which values belong together, and which groups again?
    Assumes: UTF-8 text with `;`, `,` or a tab between the cells, as ARX writes it.

    Parameters
    ----------
    path : the file. A plan names it: `hierarchy = "region.csv"`.
    """
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        name, folder = Path(path).name, Path(path).absolute().parent
        raise SchemaError(f"There is no file '{name}' (looked in {folder}).") from None
    except (OSError, UnicodeDecodeError):
        raise SchemaError(
            f"The hierarchy '{path}' cannot be read.", hint="is it a UTF-8 text file?"
        ) from None
    # Never the text itself in an error: it names what the custodian's data may hold.
    lines = csv.reader(text.splitlines(keepends=True), delimiter=_detect_delimiter(text))
    groups_of: dict[str, tuple[str, ...]] = {}
    for cells in lines:
        if not cells:
            continue
        where = f"{path}, line {lines.line_num}"
        value, *groups = cells
        if not groups or not all(cells):
            raise SchemaError(f"{where}: a value or a group is empty.", hint="value;group;broader")
        if value in groups_of:
            raise SchemaError(f"{where}: this value stood on a line before.")
        if groups_of and len(groups) != len(next(iter(groups_of.values()))):
            raise SchemaError(f"{where}: more or fewer groups than on the lines before.")
        groups_of[value] = tuple(groups)
    if not groups_of:
        raise SchemaError(f"The hierarchy '{path}' is empty.")
    first, *others = (groups[-1] for groups in groups_of.values())
    if others and first != _ALL and set(others) == {_ALL}:
        hint = "is line 1 a heading? A hierarchy has none, so delete it."
        raise SchemaError(f"{path}: every line but the first ends with '*'.", hint=hint)
    return build_hierarchy(groups_of, str(path))


def _detect_delimiter(text: str) -> str:
    first = next((line for line in text.splitlines() if line.strip()), "")
    return max(_DELIMITERS, key=first.count)  # the first of several


def intervals(low: float, high: float, widths: Sequence[float], *, step: float = 1) -> Hierarchy:
    """Intervals of numbers, `[20;24]` within `[20;29]`, for every number from low to high.

    Question: which ages, years of birth or counts are near each other?
    Assumes: numbers lie `step` apart: 1 for whole numbers, 0.1 for one decimal.

    Parameters
    ----------
    low, high : the lowest and the highest value.
    widths : how wide the intervals of each level are; each a multiple of the one before.
    step : how far neighbouring values are apart.

    Examples
    --------
    >>> intervals(18, 29, [2, 6])["21"]
    ('[20;21]', '[18;23]')
    """
    # Decimals: 0.1 * 3 must be 0.3.
    least, most, gap, *sizes = (Decimal(str(number)) for number in (low, high, step, *widths))
    if gap <= 0 or least > most or (most - least) / gap > _MOST:
        raise SchemaError("intervals: no values, or too many, lie between the ends.")
    if (
        not sizes
        or any(broad % narrow for narrow, broad in pairwise((gap, *sizes)))
        or min(sizes) <= 0
    ):
        raise SchemaError(
            "intervals: each width must be a multiple of the one before, the first of the step.",
            hint="for instance widths = [5, 10, 50].",
        )
    values = [least + index * gap for index in range(int((most - least) / gap) + 1)]

    def format_interval(value: Decimal, width: Decimal) -> str:
        start = least + (value - least) // width * width
        return f"[{_format_number(start)};{_format_number(min(start + width - gap, values[-1]))}]"

    return Hierarchy(
        (_format_number(value), tuple(format_interval(value, width) for width in sizes))
        for value in values
    )


def _format_number(number: Decimal) -> str:
    return str(int(number)) if number == int(number) else repr(float(number))


def prefixes(values: Iterable[str], *, keep: Sequence[int], pad: str = "") -> Hierarchy:
    """Codes by how they begin: `01067` in `010**` in `0****`.

    Question: which postcodes or classification codes are near each other?
    Assumes: codes are as long as each other, or are made so by `pad`.

    Parameters
    ----------
    values : the codes.
    keep : how many characters are kept at each level, ever fewer.
    pad : a character to write in front of short codes, such as "0" where it was lost. The keys
        of the hierarchy stay as they are.

    Examples
    --------
    >>> prefixes(["01067", "01099"], keep=[3, 1])["01067"]
    ('010**', '0****')
    """
    codes = [str(value) for value in values]
    longest = max(map(len, codes), default=0)
    if len(pad) > 1:
        raise SchemaError("prefixes: pad is a single character.")
    if not pad and any(len(code) != longest for code in codes):
        raise SchemaError(
            "prefixes: the codes differ in length.", hint='write pad = "0" where zeros were lost.'
        )
    if not keep or any(a <= b for a, b in pairwise((longest, *keep))) or keep[-1] < 1:
        raise SchemaError("prefixes: keep ever fewer characters, such as keep = [3, 1].")
    padded = {code: code.rjust(longest, pad) if pad else code for code in codes}
    groups_of = {
        code: tuple(full[:size] + _ALL * (longest - size) for size in keep)
        for code, full in padded.items()
    }
    return build_hierarchy(groups_of, "prefixes")


def dates(
    low: dt.date,
    high: dt.date,
    *,
    to: Sequence[Period] = ("month", "quarter", "year"),
    output: Literal["range", "label"] = "range",
) -> Hierarchy:
    """The month, quarter, year or decade of every day from low to high.

    Question: how exactly must a date be known?
    Assumes: whole days in the common calendar.

    Parameters
    ----------
    low, high : the first and the last day.
    to : the periods, from short to long.
    output : "range" writes `[2020-04-01;2020-06-30]`; "label" writes `2020-Q2`.

    Examples
    --------
    >>> dates(dt.date(2020, 5, 1), dt.date(2020, 5, 2), output="label")["2020-05-01"]
    ('2020-05', '2020-Q2', '2020')
    """
    lengths = [MONTHS[period] for period in to]
    if not to or lengths != sorted(set(lengths)) or low > high or (high - low).days > _MOST:
        raise SchemaError("dates: the days or the periods are not in order, or too many.")
    days = (low + dt.timedelta(days=number) for number in range((high - low).days + 1))
    format_period = format_label if output == "label" else format_range
    return Hierarchy((str(day), tuple(format_period(day, period) for period in to)) for day in days)


def round_numbers(low: float, high: float, *, groups: int = 20, step: float = 1) -> Hierarchy:
    """Ranges that begin at round numbers: in 5s, then in 10s, 20s, 100s, down to two ranges.

    Question: which groups would people name who do not know the data?
    Assumes: numbers lie `step` apart, as in `cut`. Ends are where they are for any data with the
    same `low` and `high`; take these from the domain, not from the least and the greatest value.

    Parameters
    ----------
    low, high : the lowest and the highest value.
    groups : about how many ranges the narrowest level has at most.
    step : how far numbers lie apart: 1 for whole numbers, 0.1 for one decimal.

    Examples
    --------
    >>> round_numbers(0, 99)["34"]
    ('[30;34]', '[30;39]', '[20;39]')
    """
    least, most, gap = (Decimal(str(number)) for number in (low, high, step))
    if not least < most or gap <= 0 or groups < 1:
        raise SchemaError("round_numbers: the ends are not in order, or there are no groups.")
    levels: list[list[Decimal]] = []
    for width in _list_round_widths((most - least) / groups, gap):
        first = _round_down(least, width) + width
        breaks = [first + width * index for index in range(int((most - first) / width) + 1)]
        breaks = [each for each in breaks if least < each <= most]
        if breaks and (not levels or len(breaks) < len(levels[-1])):
            levels.append(breaks)
        if len(breaks) <= 1:
            break
    if not levels:
        raise SchemaError("round_numbers: no round number lies between the ends.",
                          hint="take more groups, or leave the values as they are.")  # fmt: skip
    return cut(_to_plain(least, days=False), _to_plain(most, days=False),
               [[_to_plain(each, days=False) for each in level] for level in levels],
               step=gap)  # fmt: skip


def _list_round_widths(least: Decimal, gap: Decimal) -> Iterator[Decimal]:
    """Round numbers from the first that is no less, each a multiple of the one before."""
    width = next(each for each in _list_round_numbers(gap) if each >= least and each > gap)
    while True:
        yield width
        # 1, 2, 10, 20 ... or 5, 10, 20, 100 ...: five is no multiple of two.
        width *= 5 if width.normalize().as_tuple().digits == _TWO else 2


def equal_counts(
    values: Iterable[float], *, groups: Sequence[int] = (16, 4), step: float = 1
) -> Hierarchy:
    """Ranges with about as many records each; they begin at round numbers between the values.

    Question: where must borders lie so that no group is nearly empty?
    Assumes: that where most people are may be told: borders depend on the data. Each is the
    roundest number that does, and so are both ends; among few or dense values it may still be
    somebody's.

    Parameters
    ----------
    values : the numbers of all records.
    groups : how many ranges each level has, ever fewer; each number divides the one before.
    step : how far numbers lie apart: 1 for whole numbers, 0.1 for one decimal.

    Examples
    --------
    >>> equal_counts([1, 2, 2, 3, 5, 8, 13, 21, 34, 55], groups=[4, 2])["20"]
    ('[20;59]', '[8;59]')
    """
    ranked = sorted(Decimal(str(value)) for value in values)
    gap = Decimal(str(step))
    if len(set(ranked)) <= 1:
        raise SchemaError("equal_counts: there are no different values to put into groups.")
    if not groups or groups[-1] <= 1 or any(a <= b or a % b for a, b in pairwise(groups)):
        raise SchemaError("equal_counts: each number of groups divides the one before.",
                          hint="for instance groups = [16, 4].")  # fmt: skip
    quantiles = [ranked[len(ranked) * index // groups[0]] for index in range(groups[0])]
    breaks = [_find_roundest((a + b) / 2, b, gap) for a, b in pairwise(quantiles)]
    first, last = (_find_round_unit(width / 2, gap) for width in (
        max(breaks[0] - ranked[0], gap), max(ranked[-1] - breaks[-1], gap)))  # fmt: skip
    least, most = _round_down(ranked[0], first), _round_down(ranked[-1], last) + last - gap
    levels = []
    for number in groups:
        chosen = breaks[groups[0] // number - 1 :: groups[0] // number]
        levels.append(sorted({each for each in chosen if least < each <= most}))
    if not any(levels):
        raise SchemaError("equal_counts: most values are the same, so no border lies between.",
                          hint="take ranges of equal width, or of round numbers.")  # fmt: skip
    return cut(_to_plain(least, days=False), _to_plain(most, days=False),
               [[_to_plain(each, days=False) for each in level] for level in levels if level],
               step=gap)  # fmt: skip


def _list_round_numbers(gap: Decimal) -> list[Decimal]:
    """1, 2, 5, 10 and so on, as far as they are multiples of the step."""
    powers = range(_LEAST_POWER, _GREATEST_POWER)
    every = [Decimal(mantissa).scaleb(power) for power in powers for mantissa in (1, 2, 5)]
    return [number for number in every if not number % gap]


def _find_round_unit(most: Decimal, gap: Decimal) -> Decimal:
    """The largest round number that is no more; or the step."""
    return max((number for number in _list_round_numbers(gap) if number <= most), default=gap)


def _find_roundest(low: Decimal, high: Decimal, gap: Decimal) -> Decimal:
    """The roundest number above `low` and no more than `high`; or `high`."""
    for unit in reversed(_list_round_numbers(gap)):
        if _round_down(high, unit) > low:
            return _round_down(high, unit)
    return high


def _round_down(number: Decimal, unit: Decimal) -> Decimal:
    """To a multiple of the unit; `//` would go towards zero."""
    return (number / unit).to_integral_value(ROUND_FLOOR) * unit


def neighbours(levels: Sequence[str], *, sizes: Sequence[int]) -> Hierarchy:
    """Neighbours in an order, so many at a time: `[low;middle]`.

    Question: which levels of a scale are near each other?
    Assumes: the levels are in their order.

    Parameters
    ----------
    levels : all levels, from low to high.
    sizes : how many make a group at each level; each a multiple of the one before.

    Examples
    --------
    >>> neighbours(["none", "school", "college", "master"], sizes=[2])["school"]
    ('[none;school]',)
    """
    names = list(map(str, levels))
    if not sizes or sizes[0] <= 1 or any(b <= a or b % a for a, b in pairwise(sizes)):
        raise SchemaError("neighbours: each size is a multiple of the one before, from 2 on.")
    starts = [range(size, len(names), size) for size in sizes]
    ranges = [_name_ranges(names, list(each)) for each in starts]
    return build_hierarchy(dict(zip(names, zip(*ranges, strict=True), strict=True)), "neighbours")


def merge_rare(
    counts: Mapping[str, int], *, fewest: Sequence[int], other: str = "other"
) -> Hierarchy:
    """Rare values joined in one group, at each level more of them.

    Question: which values are so rare that they tell who somebody is?
    Assumes: that it may be told which values are rare. The rarest are joined, until each value and
    their group have `fewest` records.

    Parameters
    ----------
    counts : how many records have each value.
    fewest : the fewest records of a group at each level, ever more.
    other : what joined values are called; with several levels, the number stands behind.

    Examples
    --------
    >>> merge_rare({"a": 90, "b": 50, "c": 3, "d": 1}, fewest=[4, 60])["c"]
    ('other (4)', 'other (60)')
    """
    if not fewest or fewest[0] <= 1 or any(a >= b for a, b in pairwise(fewest)):
        raise SchemaError("merge_rare: ever more records are asked for, from 2 on.")
    names = [other] if len(fewest) == 1 else [f"{other} ({number})" for number in fewest]
    if taken := [name for name in names if name in counts]:
        raise SchemaError(f"merge_rare: {len(taken)} values are called like the group.",
                          hint="choose another name for `other`.")  # fmt: skip
    levels = [join_rare(counts, *each) for each in zip(fewest, names, strict=True)]
    return build_hierarchy(
        {value: tuple(level.get(value, value) for level in levels) for value in sorted(counts)},
        "merge_rare",
    )


def join_rare(counts: Mapping[str, int], fewest: int, other: str) -> dict[str, str]:
    """The values that become `other`: the rare ones, and the next rarest until it holds.

    Examples
    --------
    >>> join_rare({"a": 9, "b": 5, "c": 1}, 3, "other")
    {'b': 'other', 'c': 'other'}
    """
    rarest_first = sorted((count, value) for value, count in counts.items() if value != other)
    total = counts.get(other, 0)
    joined: list[str] = []
    for count, value in rarest_first:
        # One that exists already and is too small is filled up as well.
        if count >= fewest and (total >= fewest or not (total or joined)):
            break
        joined.append(value)
        total += count
    return dict.fromkeys(sorted(joined), other)


def cut(
    low: float | dt.date,
    high: float | dt.date,
    breaks: Sequence[Sequence[float | dt.date]],
    *,
    step: float | Decimal = 1,
) -> Hierarchy:
    """Ranges between breaks of one's own, for every number or day from low to high.

    Question: where do the groups begin that an analyst needs?
    Assumes: numbers lie `step` apart, and days are whole days. A plan that holds such a hierarchy
    names the breaks only: `hierarchy = { low = 0, high = 99, breaks = [[18, 65]] }`.

    Parameters
    ----------
    low, high : the lowest and the highest value.
    breaks : for each level, from narrow to broad, where a range begins. The breaks of a level are
        some of those of the level before.
    step : how far numbers lie apart: 1 for whole numbers, 0.1 for one decimal.

    Examples
    --------
    >>> cut(0, 99, [[18, 40, 65], [65]])["34"]
    ('[18;39]', '[0;64]')
    >>> born = cut(dt.date(1950, 1, 1), dt.date(1969, 12, 31), [[dt.date(1960, 1, 1)]])
    >>> born["1951-03-02"]
    ('[1950-01-01;1959-12-31]',)
    """
    days = isinstance(low, dt.date)
    ends = [_to_grid(value, days=days) for value in (low, high)]
    gap = Decimal(1) if days else _to_grid(step, days=False)
    levels = [[_to_grid(value, days=days) for value in level] for level in breaks]
    if not gap > 0 or not ends[0] <= ends[1] or (ends[1] - ends[0]) / gap > _MOST:
        raise SchemaError("cut: the ends are not in order, or too many values lie between them.")
    if not levels or not all(levels):
        raise SchemaError("cut: a level without a break has one group for everybody.")
    if any(not ends[0] < first for first, *_ in levels) or any(
        any(a >= b for a, b in pairwise([*level, ends[1] + gap])) for level in levels
    ):
        raise SchemaError("cut: breaks rise, and lie between the lowest and the highest value.")
    if any(not {*broad} <= {*narrow} for narrow, broad in pairwise(levels)):
        raise SchemaError("cut: a break of a broader level is one of the narrower level, too.")
    grid = [ends[0] + index * gap for index in range(int((ends[1] - ends[0]) / gap) + 1)]
    texts = [dt.date.fromordinal(int(day)).isoformat() if days else _format_number(day)
             for day in grid]  # fmt: skip
    names = [_name_ranges(texts, [bisect_left(grid, value) for value in level]) for level in levels]
    ranges = CutRanges(zip(texts, zip(*names, strict=True), strict=True))
    ranges.declaration = {
        "low": _to_plain(ends[0], days=days),
        "high": _to_plain(ends[1], days=days),
        **({} if gap == 1 else {"step": _to_plain(gap, days=False)}),
        "breaks": [[_to_plain(value, days=days) for value in level] for level in levels],
    }
    return ranges


def _to_grid(value: Any, *, days: bool) -> Decimal:
    """A number, or the number of a day."""
    if days and isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return Decimal(value.toordinal())
    if days or isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise SchemaError(
            "cut: ends and breaks are all numbers, or all dates.",
            hint="for instance { low = 1920-01-01, high = 2009-12-31, breaks = [[1950-01-01]] }.",
        )
    number = Decimal(str(value))
    if not number.is_finite():
        raise SchemaError("cut: ends and breaks are finite numbers.")
    return number


def _to_plain(number: Decimal, *, days: bool) -> Any:
    if days:
        return dt.date.fromordinal(int(number))
    return int(number) if number == int(number) else float(number)


def _name_ranges(texts: Sequence[str], starts: Sequence[int]) -> list[str]:
    """For each value the range that it lies in; a range of one value is that value."""
    names: list[str] = []
    for first, end in pairwise([0, *starts, len(texts)]):
        if first < end:
            name = texts[first] if end - first == 1 else f"[{texts[first]};{texts[end - 1]}]"
            names += [name] * (end - first)
    return names
