"""Grids for the ends of ranges: round numbers and calendar periods, wherever people stand on them.

A range that ends at the least and the greatest value of its records prints two people's values.
Here a value counts only by the cell of a grid that it lies in, and a range ends where a coarser
cell of the same grid ends. So whatever is written is a function of cells, never of values.

The grid of a variable is the coarsest that still tells enough values apart. It is looked for from
coarse to fine along a ladder whose grids are nested: each coarser cell consists of whole finer
ones. So a value that moves within its cell changes no decision on the way, and not the grid.
"""

from __future__ import annotations

import datetime as dt
import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from sfumato.cells.notation import format_value
from sfumato.errors import PlanError
from sfumato.kernels.arrays import Array

CalendarStep = Literal[
    "day",
    "5 days",
    "10 days",
    "month",
    "quarter",
    "half-year",
    "year",
    "2 years",
    "5 years",
    "10 years",
    "20 years",
    "50 years",
    "100 years",
]
CALENDAR_STEPS: tuple[CalendarStep, ...] = get_args(CalendarStep)
"""From fine to coarse."""
PARTS = 5
"""A range consists of at most so many cells of its grid, and two more."""
# Cells per month; 26 to 31 and 21 to 31 are the last of their month.
_DAYS: dict[str, int] = {"day": 1, "5 days": 5, "10 days": 10}
_MONTHS: dict[str, int] = {
    "month": 1,
    "quarter": 3,
    "half-year": 6,
    "year": 12,
    "2 years": 24,
    "5 years": 60,
    "10 years": 120,
    "20 years": 240,
    "50 years": 600,
    "100 years": 1200,
}
_MEAN_MONTH = 30.436875
# Each of these consists of whole cells of the next: two years are no part of five.
_NESTED: tuple[CalendarStep, ...] = (
    "100 years",
    "10 years",
    "year",
    "quarter",
    "month",
    "10 days",
    "5 days",
    "day",
)
_YEAR_ZERO = 1970 * 12
_FIRST_DAY, _LAST_DAY = np.datetime64("0001-01-01"), np.datetime64("9999-12-31")
# Powers of ten below the largest number that the grid of fractions may go down.
_DEPTH = 9
_LEAST_EXPONENT, _GREATEST_EXPONENT = -300, 308
_LADDER = [mantissa * 10**power for power in range(400) for mantissa in (1, 2, 5)]
_LARGEST = 2**53
_LONG = 2**60
_PRECISION = 400
# Cells for each part of a range, before a coarser grid is chosen for its ends.
_FINE = 10
_BETWEEN_QUARTILES = 20


@dataclass(frozen=True)
class NumberGrid:
    """Cells of one width, from 0 on in both directions.

    Parameters
    ----------
    unit : how wide a cell is.
    whole : whether the values are whole numbers, so that cells end just before the next begins.
    """

    unit: Decimal
    whole: bool

    def locate(self, levels: pl.Series) -> Array:
        """The number of the cell that each value lies in."""
        if self.whole and self.unit < _LONG and _is_long(levels):
            cells: Array = levels.cast(pl.Int64).to_numpy() // int(self.unit)
            return cells
        if levels.dtype.is_float() and not self.whole and self._tells_floats_apart(levels):
            return self._locate_floats(levels.to_numpy())
        with localcontext(prec=_PRECISION):
            exact = [Decimal(value) // self.unit - _is_below(value, self.unit) for value in levels]
        return np.array([int(cell) for cell in exact], object)

    def _tells_floats_apart(self, levels: pl.Series) -> bool:
        """Whether cells are so wide that floats can number them."""
        largest = float(np.abs(levels.to_numpy()).max(initial=0.0))
        return Decimal(largest) / self.unit < _LARGEST

    def _locate_floats(self, values: Array) -> Array:
        cells = np.floor(values / float(self.unit))
        # A quotient may be rounded to the wrong side of a whole number.
        cells = np.where(self._begin_floats(cells) > values, cells - 1, cells)
        return np.where(self._begin_floats(cells + 1) <= values, cells + 1, cells)

    def _begin_floats(self, cells: Array) -> Array:
        """Where cells begin; a decimal fraction is divided, so that it is the nearest float."""
        inverse = 1 / self.unit
        with np.errstate(over="ignore"):
            if self.unit < 1 and inverse == inverse.to_integral_value():
                begins: Array = cells / float(inverse)
            else:
                begins = cells * float(self.unit)
        return np.clip(begins, -np.finfo(np.float64).max, np.finfo(np.float64).max)

    def begin(self, cells: Array) -> pl.Series:
        """Where each cell begins, as numbers to compute with."""
        if cells.dtype == object:
            return pl.Series([float(int(cell) * self.unit) for cell in cells], dtype=pl.Float64)
        if self.whole:
            return pl.Series(cells * int(self.unit))
        return pl.Series(self._begin_floats(cells))

    def widen(self, first: Array, last: Array, parts: int) -> tuple[list[Any], list[Any]]:
        """Both ends of the ranges from one cell to another, on a coarser grid.

        Its cells are 1, 2, 5, 10, 20 ... of these: the fewest of which at most `parts` are as
        wide as the range.
        """
        if first.dtype == object:
            steps: Any = [
                _LADDER[bisect_left(_LADDER, -(-(b - a + 1) // parts))]
                for a, b in zip(first, last, strict=True)
            ]
            factors = np.array(steps, object)
        else:
            fewest = np.ceil((last - first + 1) / parts)
            ladder = np.array(_LADDER[:57], np.int64)
            factors = ladder[np.searchsorted(ladder, fewest)]
        low, high = first // factors * factors, last // factors * factors + factors
        if self.whole:
            unit = int(self.unit)
            return [int(a) * unit for a in low], [int(b) * unit - 1 for b in high]
        if first.dtype == object:
            with localcontext(prec=_PRECISION):
                return [int(a) * self.unit for a in low], [int(b) * self.unit for b in high]
        return self._begin_floats(low).tolist(), self._begin_floats(high).tolist()


@dataclass(frozen=True)
class CalendarGrid:
    """Days, parts of months, months, or years.

    Parameters
    ----------
    unit : what a cell is. Of five and of ten days, the last of a month are those to its end.
    """

    unit: CalendarStep

    def locate(self, levels: pl.Series) -> Array:
        """The number of the cell that each day lies in."""
        return _locate_days(_to_days(levels), self.unit)

    def begin(self, cells: Array) -> pl.Series:
        """The first day of each cell."""
        return pl.Series(_begin_period(cells, self.unit).clip(_FIRST_DAY)).cast(pl.Date)

    def widen(self, first: Array, last: Array, parts: int) -> tuple[list[Any], list[Any]]:
        """The first and the last day of ranges from one cell to another, on a coarser grid."""
        begins, after = _begin_period(first, self.unit), _begin_period(last + 1, self.unit)
        fewest = (after - begins).astype(np.int64) / parts
        finest = CALENDAR_STEPS.index(self.unit)
        coarser = CALENDAR_STEPS[finest:]
        lengths = np.array([_count_days(step) for step in coarser])
        chosen = np.searchsorted(lengths, fewest).clip(max=len(coarser) - 1)
        low, high = begins.copy(), after.copy()
        for number in np.unique(chosen).tolist():
            rows = chosen == number
            step = coarser[number]
            low[rows] = _begin_period(_locate_days(begins[rows], step), step)
            high[rows] = _begin_period(_locate_days(after[rows] - 1, step) + 1, step)
        # The calendar of cells begins with the year 1.
        return low.clip(_FIRST_DAY).tolist(), (high - 1).clip(None, _LAST_DAY).tolist()


Grid = NumberGrid | CalendarGrid


def choose_grid(levels: pl.Series, *, whole: bool, enough: float, spanned: bool = False) -> Grid:
    """The coarsest grid of the nested ladder on which there are enough cells.

    Parameters
    ----------
    levels : the distinct values, rising; none missing.
    whole : whether they are whole numbers.
    enough : so many occupied cells are enough. Where no grid has them, it is the finest: days,
        whole numbers, and of fractions a billionth of the largest.
    spanned : count all cells from the first value to the last, occupied or not.

    Examples
    --------
    >>> choose_grid(pl.Series([17.25, 20.5, 36.0, 88.75]), whole=False, enough=3)
    NumberGrid(unit=Decimal('1E+1'), whole=False)
    """
    count = _count_spanned if spanned else _count_occupied
    for grid in _list_nested(levels, whole=whole):
        if count(grid.locate(levels)) >= enough:
            break
    return grid


def _list_nested(levels: pl.Series, *, whole: bool) -> Iterator[Grid]:
    """Grids from coarse to fine, the cells of each divided by the next."""
    if levels.dtype == pl.Date:
        yield from map(CalendarGrid, _NESTED)
        return
    largest = max((abs(Decimal(value)) for value in (levels[0], levels[-1])), default=Decimal(0))
    top = largest.adjusted() + 1 if largest else 1
    top = top if whole else min(top, _GREATEST_EXPONENT)
    bottom = 0 if whole else max(top - _DEPTH, _LEAST_EXPONENT)
    for exponent in range(max(top, bottom), bottom - 1, -1):
        yield NumberGrid(Decimal(1).scaleb(exponent), whole)


def require_grid(name: str, step: float | str, levels: pl.Series, *, whole: bool) -> Grid:
    """The grid that a plan declares for a variable."""
    if (levels.dtype == pl.Date) != isinstance(step, str):
        raise PlanError(
            f"The grid declared for variable '{name}' is not of its kind.",
            hint=f"dates take one of {', '.join(CALENDAR_STEPS)}; numbers take a number.",
        )
    if isinstance(step, str):
        return CalendarGrid(next(known for known in CALENDAR_STEPS if known == step))
    unit = Decimal(repr(step)) if isinstance(step, float) else Decimal(step)
    if whole and unit != unit.to_integral_value():
        raise PlanError(
            f"The grid declared for variable '{name}' has a fraction, and its values have none.",
            hint="declare a whole number.",
        )
    return NumberGrid(unit, whole)


def spread_ends(
    low: float, high: float, *, whole: bool, date: bool = False, parts: int = PARTS
) -> tuple[float, float]:
    """Ends at or outside the least and the greatest of some values: round numbers, or days.

    Dates are days since 1970. One step of the grid is at least one of `parts` of the range.

    Examples
    --------
    >>> spread_ends(17.0, 93.0, whole=True)
    (0, 99)
    >>> spread_ends(17.31, 92.8, whole=False, parts=10)
    (10.0, 100.0)
    """
    levels = pl.Series([low, high])
    if whole or date:
        levels = levels.cast(pl.Int64)
    if date:
        levels = levels.cast(pl.Int32).cast(pl.Date)
    grid = choose_grid(levels, whole=whole, enough=_FINE * parts, spanned=True)
    cells = grid.locate(levels)
    first, last = (ends[0] for ends in grid.widen(cells[:1], cells[1:], parts))
    return (_number_day(first), _number_day(last)) if date else (first, last)


def round_limit(limit: float, quartiles: tuple[float, float], *, whole: bool, up: bool) -> float:
    """A limit moved to a round number: down, or up.

    The step is a power of ten, of which the quartiles of the variable (or, where they are equal,
    zero and the limit) are at least 20 apart.

    Examples
    --------
    >>> round_limit(87_341.22, (31_250.0, 58_400.0), whole=False, up=False)
    87000.0
    """
    spread = quartiles if quartiles[0] < quartiles[1] else (min(limit, 0.0), max(limit, 0.0))
    levels = pl.Series(spread)
    # The cells between quartiles that need not be whole numbers themselves.
    grid = choose_grid(levels, whole=False, enough=_BETWEEN_QUARTILES, spanned=True)
    unit = grid.unit if isinstance(grid, NumberGrid) else Decimal(1)
    # Of a limit far outside the quartiles, ten digits are enough.
    least = Decimal(1).scaleb(Decimal(limit).adjusted() - _DEPTH) if limit else unit
    fractions = NumberGrid(max(unit, least, Decimal(1) if whole else least), whole=False)
    cell = fractions.locate(pl.Series([float(limit)]))
    begins = float(fractions.begin(cell)[0])
    return begins if not up or begins == limit else float(fractions.begin(cell + 1)[0])


def _number_day(day: Any) -> float:
    return float((day - dt.date(1970, 1, 1)).days)


def format_ends(ends: Sequence[Any]) -> list[str]:
    """Ends as the text of cells."""
    return [format_value(end) for end in ends]


def _is_below(value: Any, unit: Decimal) -> bool:
    """Whether a quotient that is cut off towards 0 was cut upwards."""
    return bool(value < 0 and Decimal(value) % unit != 0)


def _is_long(levels: pl.Series) -> bool:
    if not len(levels):
        return True
    if levels.dtype.is_float():
        return bool(abs(levels[0]) < _LARGEST and abs(levels[-1]) < _LARGEST)
    if not levels.dtype.is_integer():
        return False
    return int(levels[0]) > -_LONG and int(levels[-1]) < _LONG


def _count_spanned(cells: Array) -> int:
    return int(cells[-1] - cells[0]) + 1


def _count_occupied(cells: Array) -> int:
    """How many cells hold a value; the values rise."""
    return 1 + int((cells[1:] != cells[:-1]).sum()) if len(cells) else 0


# Calendar ----------------------------------------------------------------------------------------


def _to_days(levels: pl.Series) -> Any:
    return levels.cast(pl.Date).to_physical().to_numpy().astype("datetime64[D]")


def _count_days(step: CalendarStep) -> float:
    return float(_DAYS[step]) if step in _DAYS else _MONTHS[step] * _MEAN_MONTH


def _locate_days(days: Any, step: CalendarStep) -> Array:
    if step == "day":
        return np.asarray(days.astype(np.int64))
    month = days.astype("datetime64[M]")
    number = month.astype(np.int64)
    if step in _MONTHS:
        return np.asarray((number + _YEAR_ZERO) // _MONTHS[step])
    most = 30 // _DAYS[step]
    day = (days - month.astype("datetime64[D]")).astype(np.int64)
    return np.asarray(number * most + np.minimum(day // _DAYS[step], most - 1))


def _begin_period(cells: Array, step: CalendarStep) -> Any:
    if step == "day":
        return cells.astype("datetime64[D]")
    if step in _MONTHS:
        months = cells * _MONTHS[step] - _YEAR_ZERO
        return months.astype("datetime64[M]").astype("datetime64[D]")
    most = 30 // _DAYS[step]
    month, part = np.divmod(cells, most)
    return month.astype("datetime64[M]").astype("datetime64[D]") + part * _DAYS[step]


def count_enough(records: int, k: int, variables: int) -> float:
    """How many cells of a grid leave the clusters about as narrow as exact values would.

    One variable alone is cut into n / k clusters: with four cells for each, none grows much.
    Several share the cuts, so that each is cut less often.
    """
    clusters = max(records / k, 1.0)
    return 4 * clusters if variables == 1 else min(4 * clusters, 10 * math.sqrt(clusters))
