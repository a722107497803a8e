"""Secrets that differ and are nearly the same: salaries within 400, three stages of HIV."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from sfumato.cells.classes import EquivalenceClasses
from sfumato.cells.confidential import ConfidentialVariable
from sfumato.kernels.arrays import AnyIntegers, Floats
from sfumato.risk._persons import choose_readings
from sfumato.schema import Column
from sfumato.units import count_codes

IN_MEANING = (
    "Numbers and dates within `close_within` of the spread of all are also taken as one, and so "
    "are categories of one group (the first level of a hierarchy, a chapter of ICD-10, HIV and "
    "AIDS): targets are checked against the worse."
)
_QUARTILES = 1.349
"""The interquartile range of a normal variable over its standard deviation."""
_ICD = re.compile(r"[A-TV-Z][0-9][0-9A-Z](\.?[0-9A-Z]{1,4})?")
_FEWEST_ICD = 4
"""Different codes that must all look like ICD-10 before they are read as such."""
_HIV = re.compile(r"\b(hiv|aids)\b|\bhiv[-_ ]?[0-9]", re.IGNORECASE)
_CHAPTERS = (
    "A00", "C00", "D50", "E00", "F00", "G00", "H00", "H60", "I00", "J00", "K00", "L00", "M00",
    "N00", "O00", "P00", "Q00", "R00", "S00", "V00", "Z00",
)  # fmt: skip
"""Where each chapter of ICD-10 begins."""


def measure_spread(variable: ConfidentialVariable, column: Column) -> float:
    """The scale of a number or a date on which values are near; 0 for categories.

    It is the standard deviation, or that which the middle half of the values has if that is less: a
    few very large values must not make all others alike.
    """
    values = _read_numbers(variable, column)
    if values is None:
        return 0.0
    counts = count_codes(
        variable.codes[variable.codes >= 0],
        None if variable.counts is None else variable.counts[variable.codes >= 0],
        len(values),
    )
    reached = np.cumsum(counts) / counts.sum()
    at = np.minimum(np.searchsorted(reached, (0.25, 0.75)), len(values) - 1)
    quarters = values[at]
    middle = float(counts @ values) / int(counts.sum())
    deviation = float(np.sqrt(counts @ np.square(values - middle) / int(counts.sum())))
    within = float(quarters[1] - quarters[0]) / _QUARTILES
    return min(deviation, within) if within > 0 else deviation


def find_closest(
    variable: ConfidentialVariable, column: Column, classes: EquivalenceClasses, width: float
) -> Floats:
    """For each class the largest share of its units with a value whose values lie that near.

    A class in which no value is known has 0. Persons with several values are taken with one value
    each, chosen in several ways; the way that brings most together counts.
    """
    values = _read_numbers(variable, column)
    largest = np.zeros(len(classes))
    if values is None or not width > 0:
        return largest
    if classes.units.one_row_each:
        counts = classes.units.counts
        weights = np.ones(len(variable.codes)) if counts is None else counts.astype(np.float64)
        return _slide(classes.of, values, variable.codes, weights, width, len(classes))
    for chosen in choose_readings(classes, variable.codes):
        of, codes = chosen.classes.of, chosen.codes
        shares = _slide(of, values, codes, np.ones(len(codes)), width, len(classes))
        largest = np.maximum(largest, shares)
    return largest


def _slide(
    of: AnyIntegers, values: Floats, codes: AnyIntegers, weights: Floats, width: float, classes: int
) -> Floats:
    """The largest share of each class that a window of some width holds."""
    known = codes >= 0
    of, codes, weights = of[known], codes[known], weights[known]
    largest = np.zeros(classes)
    if not len(of):
        return largest
    order = np.lexsort((codes, of))
    of, weights = of[order].astype(np.int64), weights[order]
    own = values[codes[order]]
    # Each class is moved beyond the last: one sorted list, and no window reaches into the next.
    begins = np.flatnonzero(np.append(True, of[1:] != of[:-1]))
    lengths = np.diff(np.append(begins, len(of)))
    own = (own - np.repeat(own[begins], lengths)) / width
    ends = own[np.append(begins[1:], len(of)) - 1]
    offsets = np.concatenate([[0.0], np.cumsum(np.floor(ends[:-1]) + 3)])
    moved = own + np.repeat(offsets, lengths)
    reached = np.searchsorted(moved, moved + 1 + 1e-9, side="right")
    added = np.concatenate([[0.0], np.cumsum(weights)])
    held = added[reached] - added[:-1]
    totals = np.add.reduceat(weights, begins)
    largest[of[begins]] = np.maximum.reduceat(held, begins) / totals
    return largest


def _read_numbers(variable: ConfidentialVariable, column: Column) -> Floats | None:
    """The values as numbers or days; None for categories, and for cells that are ranges."""
    distinct = variable.distinct
    if not len(distinct) or column.kind in ("nominal", "ordinal", "text"):
        return None
    if distinct.dtype.is_temporal():
        distinct = distinct.to_physical()
    if not distinct.dtype.is_numeric():
        return None
    numbers: Floats = distinct.cast(pl.Float64).to_numpy()
    return numbers if bool(np.isfinite(numbers).all()) else None


def group_by_meaning(variable: ConfidentialVariable, column: Column) -> list[str] | None:
    """For each value the group that it belongs to; None where there are no groups.

    A hierarchy says it, by its first level. Without one, codes of ICD-10 are known by their form,
    and their chapters; and whatever names HIV or AIDS is one group. Groups that hold all values
    tell nobody's, so they are none.

    Examples
    --------
    >>> from sfumato.cells.confidential import encode_confidential
    >>> from sfumato.data import Dataset
    >>> ill = encode_confidential(Dataset(pl.DataFrame({"x": ["AIDS", "HIV stage 1", "no"]})), "x")
    >>> group_by_meaning(ill, Column(kind="nominal"))
    ['HIV', 'HIV', 'no']
    """
    if variable.distinct.dtype != pl.String or variable.generalised:
        return None
    texts = variable.distinct.to_list()
    if column.hierarchy:
        broader = {value: groups[0] for value, groups in column.hierarchy.items() if groups}
        groups = [broader.get(text, text) for text in texts]
    elif len(texts) >= _FEWEST_ICD and all(_ICD.fullmatch(text) for text in texts):
        groups = [_find_chapter(text) for text in texts]
    else:
        groups = ["HIV" if _HIV.search(text) else text for text in texts]
    return groups if 1 < len(set(groups)) < len(texts) else None


def _find_chapter(code: str) -> str:
    return max(start for start in _CHAPTERS if start <= code[:3])
