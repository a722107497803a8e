"""Generalised cells as likelihoods: a range holds the true number, a set the true level.

A cell says of the true value that it lies within, and nothing else: neither that its ends were
attained (they lie on a grid of round numbers) nor that its middle is likelier than the rest.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sfumato.analysis.latent_scale import choose_scale, to_scale
from sfumato.analysis.problem import Category, GeneralisedNumber
from sfumato.analysis.tight_ranges import bound_grid_steps
from sfumato.cells.grids import PARTS
from sfumato.cells.intervals import Intervals, NumberType, read_intervals
from sfumato.cells.level_sets import (
    LevelSets,
    list_distinct_texts,
    list_levels,
    read_level_sets,
)
from sfumato.cells.notation import RANGE, SET, infer_cell_type
from sfumato.errors import DataError
from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.schema import Column
from sfumato.utility.models.covariates import MOST_LEVELS

_NEVER = -745.0
"""The log of the smallest number above 0: a level outside its set is this unlikely."""
_HALF = 0.5
"""Of a unit: a whole number stands for all that is rounded to it."""
_MANY_UNITS = 30.0
"""The SD from which on whole numbers are as good as fractions: rounding adds 1/12 to its square."""


def find_number_type(values: pl.Series, column: Column) -> NumberType | None:
    """Whether the cells of a generalised variable are numbers or dates; None for levels.

    Examples
    --------
    >>> column = Column(cells="generalised")
    >>> find_number_type(pl.Series("age", ["[20;29]", "31"]), column)
    'number'
    >>> find_number_type(pl.Series("sex", ["{f;m}", "f"]), column) is None
    True
    """
    if column.kind not in ("integer", "continuous", "date") and values.dtype != pl.String:
        return None
    cell_type = infer_cell_type(list_distinct_texts(values), column, values.name)
    return None if cell_type == "level" else cell_type


def looks_generalised(values: pl.Series) -> bool:
    """Whether some cells are written as ranges or sets, whatever the schema says."""
    if values.dtype != pl.String:
        return False
    texts = values.drop_nulls().unique().to_list()
    return any(RANGE.fullmatch(text) or SET.fullmatch(text) for text in texts)


def build_cells(
    values: pl.Series, column: Column, classes: Integers | None = None, k: int = 2
) -> GeneralisedNumber | Category:
    """A generalised variable as what it is: a number, a date, or a category.

    Parameters
    ----------
    values, column : the variable as released, and its declaration.
    classes, k : see `build_cell_number`.
    """
    number_type = find_number_type(values, column)
    if number_type is None:
        return build_cell_category(values, column)
    return build_cell_number(values, column, number_type, classes, k)


# Numbers and dates


def build_cell_number(
    values: pl.Series,
    column: Column,
    kind: NumberType,
    classes: Integers | None = None,
    k: int = 2,
) -> GeneralisedNumber:
    """A number, or a date in days since 1970, of which cells were released.

    Parameters
    ----------
    values, column : the variable as released, and its declaration.
    kind : what the cells are.
    classes : the class of each record, where the ranges of a class are as narrow as can be; -1
        where not all of its records are here. None where nobody knows.
    k : of the step that wrote the ranges, on which their grid depends.

    Examples
    --------
    >>> column = Column(kind="integer", cells="generalised")
    >>> age = build_cell_number(pl.Series("age", ["[20;29]", "31", "*"]), column, "number")
    >>> age.lower.tolist(), age.upper.tolist()
    ([19.5, 30.5, -inf], [29.5, 31.5, inf])
    """
    name = values.name
    intervals = read_intervals(values, Column(kind=None, cells="generalised"), kind)
    whole = kind == "date" or column.kind == "integer" or _are_whole_steps(intervals, column)
    _require_no_gaps(intervals, name, whole=whole)
    low, high = intervals.per_record(intervals.low), intervals.per_record(intervals.high)
    middle = intervals.midpoints()
    if (low[~np.isnan(middle)] != np.rint(low[~np.isnan(middle)])).any():
        whole = False
    reach = _HALF if whole else 0.0
    lower, upper = low - reach, high + reach
    bounds = _read_bounds(column, kind)
    if bounds is not None:
        # What may be anything is still a value that the variable may take.
        lower, upper = np.maximum(lower, bounds[0] - reach), np.minimum(upper, bounds[1] + reach)
    if (lower > upper).any():
        raise DataError(
            f"Variable '{name}' has cells outside its declared domain.",
            hint="declare the domain that it has, or none.",
        )
    # Rounding does not matter where values are many units apart, and would cost time.
    spread = float(np.nanstd(middle)) if np.isfinite(middle).any() else 0.0
    fine = whole and spread < _MANY_UNITS
    step = np.full(len(lower), np.inf)
    if classes is not None:
        step = intervals.per_record(
            bound_grid_steps(
                intervals.low, intervals.high, kind, whole=whole, parts=min(PARTS, k), limits=bounds
            )
        )
    # A step as wide as the range says nothing.
    tells = (high > low) & (step < upper - lower) & (step > 0)
    # What half a unit below 0 would be rounded to 0.
    positive = np.where(low >= 0, np.maximum(lower, 0.0), lower)
    scale = None if fine or kind == "date" else choose_scale(positive, upper)
    ends = to_scale(scale, lower, upper)
    step = np.where(tells, step, 0.0)
    near_ends = to_scale(scale, lower + step, upper - step)
    return GeneralisedNumber(
        name=name,
        observed=middle if scale is None else scale.forth(middle),
        lower=ends[0],
        upper=ends[1],
        whole=fine,
        scale=scale,
        classes=None if classes is None else np.where(tells, classes, -1),
        near_lower=None if classes is None else near_ends[0],
        near_upper=None if classes is None else near_ends[1],
    )


def build_cut_number(
    name: str, values: Floats, limits: tuple[float, float], column: Column
) -> GeneralisedNumber:
    """A number of which values beyond limits were set to these (top and bottom coding).

    What stands at a limit may lie anywhere from there on; all else is known.

    Parameters
    ----------
    name, values, column : the variable as released, and its declaration; NaN where missing.
    limits : below and above; infinite where nothing was cut off.

    Examples
    --------
    >>> age = build_cut_number("age", np.array([18.5, 40.0, 90.0]), (-np.inf, 90), Column())
    >>> age.lower.tolist(), age.upper.tolist()
    ([18.5, 40.0, 90.0], [18.5, 40.0, inf])
    """
    known = values[~np.isnan(values)]
    # A whole number at a limit is one that was rounded to it, or lies beyond.
    reach = _HALF if len(known) and (known == np.rint(known)).all() else 0.0
    bottom, top = column.bounds if column.bounds is not None else (-np.inf, np.inf)
    below, above = values <= limits[0], values >= limits[1]
    missing = np.isnan(values)
    lower = np.where(
        below | missing, float(bottom) - reach, np.where(above, values - reach, values)
    )
    upper = np.where(above | missing, float(top) + reach, np.where(below, values + reach, values))
    positive = len(known) > 0 and bool((known > 0).all())
    floor = np.where(np.isfinite(lower), lower, 0.0) if positive else lower
    scale = choose_scale(floor, upper)
    if scale is not None:
        lower = np.where(lower < 0, 0.0, lower)
    ends = to_scale(scale, lower, upper)
    return GeneralisedNumber(
        name=name,
        observed=values if scale is None else scale.forth(values),
        lower=ends[0],
        upper=ends[1],
        scale=scale,
    )


def _are_whole_steps(intervals: Intervals, column: Column) -> bool:
    """Whether ranges that are levels of a scale begin a unit after the one before ends."""
    if column.kind != "ordinal":
        return False
    ends = np.unique(np.column_stack([intervals.low, intervals.high])[~intervals.open], axis=0)
    if len(ends) < 2 or (ends != np.rint(ends)).any():  # noqa: PLR2004 - two have a gap
        return False
    return bool((ends[1:, 0] > ends[:-1, 1]).all())


def _require_no_gaps(intervals: Intervals, name: str, *, whole: bool) -> None:
    """Refuse sets of numbers that leave out some between their ends."""
    for members in intervals.sets.values():
        if len(members) > 1 and not (whole and (np.diff(members) == 1).all()):
            raise DataError(
                f"Variable '{name}' has cells that are sets of numbers, which a model cannot "
                "read yet.",
                hint="ask for ranges, or leave it out of the formula.",
            )


def _read_bounds(column: Column, kind: NumberType) -> tuple[float, float] | None:
    if column.bounds is None:
        return None
    ends = pl.Series("bounds", [str(end) for end in column.bounds])
    bounds = read_intervals(ends, Column(cells="generalised"), kind)
    return float(bounds.low[bounds.of][0]), float(bounds.high[bounds.of][1])


def widen_for_outcome(number: GeneralisedNumber) -> GeneralisedNumber:
    """The same as an outcome: a whole number that is known stays as it is, and is not rounded."""
    known = number.known & number.whole
    middle, back = number.at_face_value(), number.scale.back if number.scale else np.array
    return GeneralisedNumber(
        name=number.name,
        observed=middle,
        lower=np.where(known, middle, back(number.lower)),
        upper=np.where(known, middle, back(number.upper)),
    )


def measure_cell_variance(number: GeneralisedNumber) -> Floats:
    """The variance of a value that may be anywhere in its cell; infinite where it says nothing."""
    with np.errstate(invalid="ignore"):
        variance: Floats = (number.upper - number.lower) ** 2 / 12
    return np.where(number.known, 0.0, variance)


# Categories


def build_cell_category(values: pl.Series, column: Column) -> Category:
    """A category of which sets of levels were released.

    Examples
    --------
    >>> column = Column(kind="nominal", cells="generalised")
    >>> sex = build_cell_category(pl.Series("sex", ["f", "{f;m}", "*"]), column)
    >>> sex.levels, sex.density.tolist()
    (('f', 'm'), [[0.0, -745.0], [0.0, 0.0], [0.0, 0.0]])
    """
    name, texts = values.name, list_distinct_texts(values)
    # A level may stand in sets and groups only, and never alone.
    members = {part for text in texts if (s := SET.fullmatch(text)) for part in s[1].split(";")}
    named = [*texts, *sorted(members), *(column.hierarchy or ())]
    levels = list_levels(named, column, name, ordered=column.kind == "ordinal")
    cells = read_level_sets(values, levels, column)
    if bool((cells.beyond & ~cells.open).any()):
        raise DataError(
            f"Variable '{name}' has cells that may stand for values that are not listed.",
            hint="declare all levels in the schema, or leave it out of the formula.",
        )
    possible = _tabulate_levels(cells, len(levels))
    # A level that no cell but `*` stands for has nothing to be estimated from.
    used: Mask = np.asarray(possible[~cells.open].any(axis=0), bool)
    if not 1 < int(used.sum()) <= MOST_LEVELS:
        count = f"more than {MOST_LEVELS} levels" if used.any() else "no level that is known"
        count = "one level at most" if int(used.sum()) == 1 else count
        raise DataError(f"Category '{name}' has {count}.", hint="leave it out of the formula.")
    density = np.where(possible[:, used], 0.0, _NEVER)[cells.of]
    used_levels = tuple(level for level, is_used in zip(levels, used, strict=True) if is_used)
    return Category(name=name, levels=used_levels, density=density, generalised=True)


def _tabulate_levels(cells: LevelSets, levels: int) -> Mask:
    """(cell, level): whether a cell may stand for a level."""
    possible = np.zeros((len(cells.counts), levels), bool)
    possible[np.repeat(np.arange(len(cells.counts)), cells.counts), cells.levels] = True
    possible[cells.open] = True
    return possible


def find_single_levels(category: Category) -> Floats:
    """The index of each record's level where its cell stands for one only; else NaN."""
    possible = category.density > _NEVER / 2
    return np.where(possible.sum(axis=1) == 1, possible.argmax(axis=1), np.nan)
