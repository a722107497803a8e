"""How the records of a data set match on each variable: by value, by tolerance, or by fitting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.data import Dataset, coded_missing
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import AnyIntegers
from sfumato.risk._peers.rows import coded_rows
from sfumato.schema import Column, Schema

if TYPE_CHECKING:
    from sfumato.kernels.lattice.matches import Relation

_SLACK = 2.0**-40
"""A computer holds decimals such as 0.1 inexactly: so much of the numbers compared is forgiven."""
_DAY = 86_400_000_000
"""Microseconds."""


@dataclass(frozen=True, eq=False)
class Matched:
    """The distinct records, and how they match each other on each variable.

    names : the variables.
    relations : one for each.
    counts : how many records each row stands for.
    of : which row each record is.
    tolerated : the variables with a tolerance.
    fitted : the variables with cells that stand for several values.
    """

    names: tuple[str, ...]
    relations: tuple[Relation, ...]
    counts: AnyIntegers
    of: AnyIntegers
    tolerated: tuple[str, ...]
    fitted: tuple[str, ...]

    @property
    def codes(self) -> AnyIntegers | None:
        """The rows as codes if all that matters is whether they are equal."""
        if any(one.kind != "equal" for one in self.relations):
            return None
        return np.column_stack([one.low for one in self.relations])


def matched(
    data: Dataset,
    names: Sequence[str],
    tolerance: Mapping[str, float],
    relative: Mapping[str, float],
) -> Matched:
    """Read variables; tolerances by name, absolute or relative to the record's own value.

    Examples
    --------
    >>> data = Dataset(pl.DataFrame({"age": [30, 31, 40], "sex": ["f", "{f;m}", "m"]}))
    >>> found = matched(data, ["age", "sex"], {"age": 1}, {})
    >>> [one.kind for one in found.relations], found.tolerated, found.fitted
    (['near', 'boxed'], ('age',), ('sex',))
    """
    from sfumato.kernels.lattice.matches import equal

    values, codes, counts, of = coded_rows(data, names)
    relations, fitted = [], []
    for at, name in enumerate(names):
        column = data.schema[name]
        if tolerance.get(name) or relative.get(name):
            told = tolerance.get(name, 0.0), relative.get(name, 0.0)
            relations.append(_tolerated(values[name], column, *told))
            continue
        found = _fitted(values[name], codes[:, at], column)
        if found is not None:
            fitted.append(name)
        relations.append(equal(codes[:, at]) if found is None else found)
    tolerated = tuple(one for one in names if tolerance.get(one) or relative.get(one))
    return Matched(tuple(names), tuple(relations), counts, of, tolerated, tuple(fitted))


def _fitted(values: pl.Series, codes: AnyIntegers, column: Column) -> Relation | None:
    """The relation of cells that stand for several values; None where all are single values.

    Cells that are equal or apart match like values, whatever they stand for.
    """
    from sfumato.cells.boxes import boxes
    from sfumato.kernels.lattice.matches import equal, fitting

    levels = values.drop_nulls().unique().sort()
    if not _generalised(levels, column):
        return None
    if values.null_count():
        levels = levels.extend_constant(None, 1)
    made = boxes(Dataset(levels.to_frame(), Schema({values.name: column})), [values.name])
    if made.exact[0]:
        return None
    own, table = made.cells[0][codes], made.tables[0]
    return equal(own) if table.disjoint else fitting(own, table)


def _generalised(levels: pl.Series, column: Column) -> bool:
    """Whether some cell may stand for several values."""
    from sfumato.cells.notation import MASK, RANGE, SET, WILDCARD

    if levels.dtype.is_numeric() or levels.dtype.is_temporal() or levels.dtype == pl.Boolean:
        return bool(column.hierarchy) and column.kind in ("nominal", "ordinal")
    if levels.dtype not in (pl.String, pl.Categorical, pl.Enum):
        return False
    if column.hierarchy:
        return True
    forms = (RANGE, SET, MASK)
    texts = levels.cast(pl.String).to_list()
    return any(text == WILDCARD or any(form.fullmatch(text) for form in forms) for text in texts)


def _tolerated(values: pl.Series, column: Column, absolute: float, relative: float) -> Relation:
    """Numbers match within a tolerance of the record's own; missing only the same missing."""
    from sfumato.kernels.lattice.matches import near

    numbers, unit = _numbers(values, relative)
    known = numbers.is_not_null()
    absent = coded_missing(values, column)
    if absent is not None:
        known &= ~absent
    real = known.to_numpy()
    levels = np.unique(numbers.filter(known).to_numpy())
    # What is missing, and by which code, is a place of its own beyond all numbers.
    beyond, code = np.unique(
        numbers.fill_null(np.nan).to_numpy()[~real], return_inverse=True, equal_nan=True
    )
    del beyond
    own = np.empty(len(values), np.int64)
    own[~real] = len(levels) + code.ravel()
    low, high = own.copy(), own.copy()
    exact = numbers.filter(known).to_numpy()
    own[real] = np.searchsorted(levels, exact)
    low[real], high[real] = _bounds(levels, exact, absolute * unit, relative)
    return near(own, low, high)


def _bounds(
    levels: Any, own: Any, absolute: float, relative: float
) -> tuple[AnyIntegers, AnyIntegers]:
    """The first and the last level within the tolerance of each number.

    What is infinite is near to nothing but itself.
    """
    far = np.finfo(np.float64).max
    with np.errstate(over="ignore", invalid="ignore"):
        within = absolute + relative * np.abs(own)
        within = within + _SLACK * (np.abs(own) + within)
        low, high = np.maximum(own - within, -far), np.minimum(own + within, far)
    infinite = np.isinf(own)
    low, high = np.where(infinite, own, low), np.where(infinite, own, high)
    return np.searchsorted(levels, low, "left"), np.searchsorted(levels, high, "right") - 1


def _numbers(values: pl.Series, relative: float) -> tuple[pl.Series, float]:
    """The values as floats, and what a tolerance of 1 is among them: for dates, a day."""
    dtype = values.dtype
    if (dtype == pl.Date or isinstance(dtype, pl.Datetime)) and not relative:
        if dtype == pl.Date:
            return values.to_physical().cast(pl.Float64), 1.0
        return values.dt.cast_time_unit("us").to_physical().cast(pl.Float64), float(_DAY)
    if not dtype.is_numeric():
        what = "relative tolerance" if relative else "tolerance"
        raise MeasureError(
            f"Variable '{values.name}' has a {what}, but does not hold single numbers"
            + ("." if relative else " or dates."),
            hint="leave the tolerance out; ranges, sets and wildcards are matched as they are.",
        )
    numbers = values.cast(pl.Float64)
    if numbers.n_unique() != values.n_unique():
        raise MeasureError(
            f"Variable '{values.name}' has numbers too long to be compared within a tolerance.",
            hint="round them, or leave the tolerance out.",
        )
    return numbers, 1.0
