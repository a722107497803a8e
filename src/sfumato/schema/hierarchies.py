"""Hierarchies: for each value its ever broader groups, as `Column.hierarchy` takes them."""

from __future__ import annotations

import csv
import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Literal

from sfumato.errors import SchemaError
from sfumato.schema.periods import MONTHS, Period, label_of, range_of

_DELIMITERS = ";,\t"
_ALL = "*"
_MOST = 1_000_000


class Hierarchy(dict[str, tuple[str, ...]]):
    """For each value its groups, from narrow to broad. Looked through once, when first asked."""

    @classmethod
    def of(cls, told: Mapping[str, Iterable[str]]) -> Hierarchy:
        """A hierarchy from a mapping."""
        if isinstance(told, Hierarchy):
            return told
        return cls((str(value), tuple(map(str, groups))) for value, groups in told.items())

    @property
    def depth(self) -> int:
        """How many levels of groups there are."""
        return len(next(iter(self.values()), ()))

    @cached_property
    def paths(self) -> dict[str, tuple[str, ...]]:
        """The groups above each value, and above each group; below its own level it is itself."""
        found = dict(self)
        for groups in self.values():
            for level, group in enumerate(groups):
                found.setdefault(group, (group,) * level + groups[level:])
        return found

    @cached_property
    def flaw(self) -> str:
        """What is wrong with it, "" where nothing is. Never names a value."""
        if len({len(groups) for groups in self.values()}) > 1:
            return "the values of its hierarchy differ in how many groups they have"
        return _not_nested(self) or _two_meanings(self)

    def at(self, level: int) -> dict[str, str]:
        """The group of each value at a level, 1 for the narrowest.

        Groups of narrower levels are there too, and broader ones stay as they are: no cell can
        become finer than it is.
        """
        found = {_ALL: _ALL}
        for value, groups in self.items():
            found |= dict(zip(groups[level:], groups[level:], strict=True))
            for narrower in (value, *groups[:level]):
                found[narrower] = groups[level - 1]
        return found

    def with_level(self, group_of: Callable[[str], str]) -> Hierarchy | None:
        """The same with one level more, less the levels that do not nest with it.

        `None` where a new group would have the name of something else.
        """
        new = {value: group_of(value) for value in self}
        columns = list(zip(*self.values(), strict=True)) if self else []
        labels = tuple(new.values())
        if labels in columns:
            return self
        broader = [one for one in columns if _functional(labels, one)]
        narrower = [one for one in columns if _functional(one, labels) and one not in broader]
        rows = zip(*narrower, labels, *broader, strict=True)
        made = Hierarchy(zip(self, rows, strict=True))
        return None if made.flaw else made


def _functional(narrow: Sequence[str], broad: Sequence[str]) -> bool:
    """Whether each narrow group lies within one broad group."""
    return len(set(zip(narrow, broad, strict=True))) == len(set(narrow))


def _not_nested(told: Hierarchy) -> str:
    levels = list(zip(*told.values(), strict=True)) if told else []
    for at, (narrow, broad) in enumerate(pairwise(levels), start=1):
        if not _functional(narrow, broad):
            return f"a group of level {at} of its hierarchy is split over several of level {at + 1}"
    return ""


def _two_meanings(told: Hierarchy) -> str:
    """A name must stand for the same values wherever it occurs, or cells could not be read."""
    levels = list(zip(*told.values(), strict=True)) if told else []
    known: dict[str, int] = dict.fromkeys(told, 1)
    first = {value: value for value in told}
    for level in levels:
        sizes: dict[str, int] = {}
        heads: dict[str, str] = {}
        for value, group in zip(told, level, strict=True):
            sizes[group] = sizes.get(group, 0) + 1
            heads.setdefault(group, value)
        if sizes.get(_ALL, len(told)) != len(told):
            return "'*' in its hierarchy stands for some values only, and it means any value"
        for group, size in sizes.items():
            # Nested groups with a common first value and the same size are the same.
            if known.setdefault(group, size) != size:
                return "a name in its hierarchy stands for different values at different levels"
            if first.setdefault(group, heads[group]) != heads[group]:
                return "a name in its hierarchy stands for different values at different levels"
    return ""


def checked(told: Mapping[str, Iterable[str]], what: str) -> Hierarchy:
    """A hierarchy without a flaw, or an error."""
    made = Hierarchy.of(told)
    if made.flaw:
        raise SchemaError(f"{what}: {made.flaw}.", hint="each group lies in one broader group.")
    return made


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
    lines = csv.reader(text.splitlines(keepends=True), delimiter=_delimiter(text))
    found: dict[str, tuple[str, ...]] = {}
    for cells in lines:
        if not cells:
            continue
        where = f"{path}, line {lines.line_num}"
        value, *groups = cells
        if not groups or not all(cells):
            raise SchemaError(f"{where}: a value or a group is empty.", hint="value;group;broader")
        if value in found:
            raise SchemaError(f"{where}: this value stood on a line before.")
        if found and len(groups) != len(next(iter(found.values()))):
            raise SchemaError(f"{where}: more or fewer groups than on the lines before.")
        found[value] = tuple(groups)
    if not found:
        raise SchemaError(f"The hierarchy '{path}' is empty.")
    first, *others = (groups[-1] for groups in found.values())
    if others and first != _ALL and set(others) == {_ALL}:
        hint = "is line 1 a heading? A hierarchy has none, so delete it."
        raise SchemaError(f"{path}: every line but the first ends with '*'.", hint=hint)
    return checked(found, str(path))


def _delimiter(text: str) -> str:
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
    least, most, apart, *each = (Decimal(str(one)) for one in (low, high, step, *widths))
    if apart <= 0 or least > most or (most - least) / apart > _MOST:
        raise SchemaError("intervals: no values, or too many, lie between the ends.")
    if (
        not each
        or any(broad % narrow for narrow, broad in pairwise((apart, *each)))
        or min(each) <= 0
    ):
        raise SchemaError(
            "intervals: each width must be a multiple of the one before, the first of the step.",
            hint="for instance widths = [5, 10, 50].",
        )
    values = [least + at * apart for at in range(int((most - least) / apart) + 1)]

    def around(value: Decimal, width: Decimal) -> str:
        start = least + (value - least) // width * width
        return f"[{_said(start)};{_said(min(start + width - apart, values[-1]))}]"

    return Hierarchy(
        (_said(value), tuple(around(value, width) for width in each)) for value in values
    )


def _said(number: Decimal) -> str:
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
    whole = {code: code.rjust(longest, pad) if pad else code for code in codes}
    made = {
        code: tuple(full[:left] + _ALL * (longest - left) for left in keep)
        for code, full in whole.items()
    }
    return checked(made, "prefixes")


def dates(
    low: dt.date,
    high: dt.date,
    *,
    to: Sequence[Period] = ("month", "quarter", "year"),
    output: Literal["range", "label"] = "range",
) -> Hierarchy:
    """The month, quarter and year of every day from low to high.

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
    lengths = [MONTHS[one] for one in to]
    if not to or lengths != sorted(set(lengths)) or low > high or (high - low).days > _MOST:
        raise SchemaError("dates: the days or the periods are not in order, or too many.")
    days = (low + dt.timedelta(days=at) for at in range((high - low).days + 1))
    written = label_of if output == "label" else range_of
    return Hierarchy((str(day), tuple(written(day, one) for one in to)) for day in days)
