"""What the ranges of a class tell together: somebody is near each end.

`k_anonymity` and its relatives write, for each class, the narrowest range on a grid of round
numbers or of the calendar that holds the values of its records. So at least one record of the class
lies within one step of the lower end, and one within one step of the upper end. Of a skewed
variable this says more than the ranges by themselves: that the income of fourteen people ranges up
to 250,000 does not follow from any shape of incomes below 50,000.

The step of a range is not published, but bounded. It divides both ends; and it is the least of the
ladder 1, 2, 5, 10 ... (times the unit of the grid, a power of ten that divides all ends) of which a
few are as wide as the range. With a bound on the step the statement is true, if weaker.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import polars as pl

from sfumato.cells.intervals import NumberType
from sfumato.kernels.arrays import Floats, Integers, Mask

_LEAST, _GREATEST = -9, 18
"""Powers of ten between which steps are looked for."""
_SAME = 1e-12
_MONTHS = (1200, 600, 240, 120, 60, 24, 12, 6, 3, 1)
_LONGEST_MONTH = 31
_YEAR_ZERO = 1970 * 12
_PARTS_OF_MONTHS = ((11.0, (1, 11, 21)), (6.0, (1, 6, 11, 16, 21, 26)))
"""The longest of ten and of five days at the end of a month, and the days on which they begin."""


def bound_grid_steps(
    low: Floats,
    high: Floats,
    kind: NumberType,
    *,
    whole: bool,
    parts: int,
    limits: tuple[float, float] | None,
) -> Floats:
    """For each range the widest step of a grid on which it may end; infinite where it is anything.

    Parameters
    ----------
    low, high : both ends of the distinct ranges of a variable, as they are written.
    kind : numbers, or dates in days since 1970.
    whole : whether values are whole numbers, so that the last one is just before a step begins.
    parts : of how many steps a range may consist before its step is a wider one.
    limits : the declared domain. A range that ends there may have been cut off.

    Examples
    --------
    >>> ends = np.array([50_000.0, 30_000.0]), np.array([249_999.0, 30_999.0])
    >>> bound_grid_steps(*ends, "number", whole=True, parts=5, limits=None).tolist()
    [50000.0, 1000.0]
    """
    steps = np.full(len(low), math.inf)
    ranges = np.flatnonzero(np.isfinite(low) & np.isfinite(high) & (low < high)).tolist()
    ends: dict[int, list[float]] = {}
    for cell in ranges:
        both = (float(low[cell]), float(high[cell]) + whole)
        cut = (False, False)
        if limits is not None:
            cut = (bool(low[cell] <= limits[0]), bool(high[cell] >= limits[1]))
        ends[cell] = [end for end, is_cut in zip(both, cut, strict=True) if not is_cut]
    find_step = _find_period if kind == "date" else _find_step
    unit = find_step([end for some in ends.values() for end in some], only_units=True)
    for cell in ranges:
        width = float(high[cell]) + whole - float(low[cell])
        if not ends[cell]:
            continue
        if kind == "date":
            steps[cell] = min(find_step(ends[cell]), _widen_period(width / parts, unit))
            continue
        steps[cell] = _bound_step(ends[cell], width, parts, unit)
    return steps


def _bound_step(ends: list[float], width: float, parts: int, unit: float) -> float:
    """How far from its end the nearest value of a range of numbers may be.

    A step is taken only if its values span more than `parts` of the next finer one. So of a wide
    step they must come nearer to both ends than the step itself says.
    """
    widest, farthest = _widen_step(width / parts, unit), 0.0
    if math.isinf(widest):
        return _find_step(ends)
    power = math.floor(math.log10(widest / unit) + _SAME)
    steps = [unit * m * 10**p for p in range(power + 1) for m in (1, 2, 5)]
    for finer, step in pairwise([0.0, *steps]):
        # The values are no farther than a step from either end, and span at most `parts` of it.
        if step <= widest and width < (parts + 2) * step and _divides(step, ends):
            farthest = max(farthest, min(step, width - parts * finer))
    return farthest or min(_find_step(ends), widest)


def _find_step(ends: list[float], *, only_units: bool = False) -> float:
    """The greatest of 1, 2, 5, 10 ... and their fractions that divides all ends, or of 1, 10 ..."""
    if not any(ends):
        return math.inf
    for power in range(_GREATEST, _LEAST - 1, -1):
        for mantissa in (1.0,) if only_units else (5.0, 2.0, 1.0):
            step = mantissa * 10.0**power
            if _divides(step, ends):
                return step
    return 0.0


def _divides(step: float, ends: list[float]) -> bool:
    return all(math.isclose(end, round(end / step) * step, rel_tol=_SAME) for end in ends)


def _widen_step(least: float, unit: float) -> float:
    """The least of 1, 2, 5, 10 ... units that is not below a width, in whole units."""
    if not 0 < unit < math.inf:
        return math.inf
    units = max(math.ceil(least / unit * (1 - _SAME)), 1)
    power = 10 ** (len(str(units)) - 1)
    mantissa = next(step for step in (1, 2, 5, 10) if step * power >= units)
    return unit * float(mantissa * power)


def _find_period(ends: list[float], *, only_units: bool = False) -> float:
    """The longest period of the calendar that begins on all of these days, in days at most."""
    del only_units
    if not ends:
        return math.inf
    days = np.array(ends).astype(np.int64).astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    day = (days - months.astype("datetime64[D]")).astype(np.int64) + 1
    if (day == 1).all():
        number = months.astype(np.int64) + _YEAR_ZERO
        return float(_LONGEST_MONTH * next(step for step in _MONTHS if not (number % step).any()))
    for length, begins in _PARTS_OF_MONTHS:
        if np.isin(day, begins).all():
            return length
    return 1.0


def _widen_period(least: float, unit: float) -> float:
    """The shortest period that is not below a length, or the unit, in days at most."""
    lengths = [1.0, 6.0, 11.0, *(float(_LONGEST_MONTH * months) for months in reversed(_MONTHS))]
    return max(next((length for length in lengths if length >= least), math.inf), unit)


def number_classes(cells: pl.DataFrame, complete: Mask) -> Integers:
    """The class of each complete record; -1 where a record of its class is missing.

    Parameters
    ----------
    cells : what was clustered together, as released, of all records.
    complete : which records the model uses.
    """
    codes = (
        cells.select(pl.struct(pl.all()).rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()
    )
    torn = np.zeros(int(codes.max()) + 1, bool)
    torn[codes[~complete]] = True
    classes: Integers = np.where(torn[codes], -1, codes)[complete]
    return classes
