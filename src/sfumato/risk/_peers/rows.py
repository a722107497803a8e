"""The distinct records as whole numbers, and who is who among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction

import numpy as np
import polars as pl

from sfumato.cells.classes import places, typed
from sfumato.data import Dataset
from sfumato.engines.local import class_of_each, counted
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import AnyIntegers
from sfumato.risk._known import known_variables

_MOST = (1 << 31) - 1
"""Records at most: below this, products of two counts are exact in 64 bits."""
_PLACES = 30
"""Digits of a number that are written out."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Distinct records: known variables first, the sensitive one last.

    known : the variables that an outsider may know, without the sensitive one.
    values : the distinct records as they are.
    codes : the same with values numbered from 0, missing as a value of its own.
    counts : how many records each stands for.
    of : which of them each record is.
    """

    known: tuple[str, ...]
    values: pl.DataFrame
    codes: AnyIntegers
    counts: AnyIntegers
    of: AnyIntegers

    @property
    def records(self) -> int:
        """How many records there are."""
        return len(self.of)


def distinct_rows(data: Dataset, sensitive: str, known: Sequence[str] | None) -> Rows:
    """The distinct records in what is known and what is sensitive.

    Examples
    --------
    >>> data = Dataset(pl.DataFrame({"age": [30, 30, 41], "ill": ["n", "n", "y"]}))
    >>> found = distinct_rows(data, "ill", ["age"])
    >>> found.counts.sum(), found.codes.shape
    (np.int64(3), (2, 2))
    """
    data.schema.require([sensitive])
    named = known_variables(known, data, "original")
    others = tuple(dict.fromkeys(name for name in named if name != sensitive))
    if not others:
        raise MeasureError(
            f"Nothing is known besides '{sensitive}', which is sensitive.",
            hint='give other variables the role "quasi", or name them: known = [...].',
        )
    if len(data) > _MOST:
        raise MeasureError(f"There are more than {_MOST:,} records.", hint="take fewer of them.")
    values, codes, counts, of = coded_rows(data, [*others, sensitive])
    return Rows(others, values, codes, counts, of)


def coded_rows(
    data: Dataset, names: Sequence[str]
) -> tuple[pl.DataFrame, AnyIntegers, AnyIntegers, AnyIntegers]:
    """The distinct rows, the same as codes, how many records each has, and which each record is.

    Missing is a value of its own, and a release shows which code for missing a cell holds.
    """
    seen = replace(data, schema=data.schema.changed(names, missing=()))
    batch = pl.DataFrame([_read(seen, name) for name in names])
    found = counted(batch)
    columns = []
    for one in found.values.get_columns():
        levels = one.drop_nulls().unique().sort()
        columns.append(places(one, levels).fill_null(len(levels)).to_numpy())
    counts = np.asarray(found.counts, np.int64)
    return found.values, np.column_stack(columns), counts, class_of_each(batch, found.values)


def _read(data: Dataset, name: str) -> pl.Series:
    """A variable's values; numbers that came as text are equal if they are equal as numbers."""
    values = typed(data.column(name))
    if values.dtype != pl.String or data.schema[name].kind not in ("continuous", "integer"):
        return values
    levels = values.drop_nulls().unique()
    return values.replace_strict(levels, [_plain(one) for one in levels], return_dtype=pl.String)


def _plain(text: str) -> str:
    """One text for a number, however it was written; anything else stays as it is."""
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        return text
    if not number.is_finite():
        return text
    short = number.normalize()
    return f"{short:f}" if abs(short.adjusted()) < _PLACES else str(short)


def share_of(number: float, name: str) -> Fraction:
    """A threshold as the simplest fraction that rounds to it; 0.29 is 29/100."""
    if not 0 <= number < 1:
        raise MeasureError(f"{name} is 0 or more and below 1.")
    return Fraction(number).limit_denominator(_MOST)
