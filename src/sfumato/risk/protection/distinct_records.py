"""The distinct records as codes, and which of them each record is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import polars as pl

from sfumato.cells.codes import cast_untyped, encode
from sfumato.data import Dataset
from sfumato.engines.local import count_combinations, find_class_of_each
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import AnyIntegers, Integers
from sfumato.risk.known import known_variables, require_records
from sfumato.units import count_codes

_MOST = (1 << 31) - 1
"""Records at most: below this, products of two counts are exact in 64 bits."""
_DIGITS = 30
"""Digits of a number that are written out."""


class DistinctRows(NamedTuple):
    """Distinct rows of some variables.

    values : the distinct rows as they are.
    codes : the same with values numbered from 0, missing as a value of its own.
    counts : how many records each stands for.
    row_of : which of them each record is.
    """

    values: pl.DataFrame
    codes: AnyIntegers
    counts: AnyIntegers
    row_of: AnyIntegers


@dataclass(frozen=True, eq=False)
class DistinctRecords:
    """Distinct records: known variables first, the sensitive one last.

    known : the variables that an outsider may know, without the sensitive one.
    values, codes, counts, row_of : as in `DistinctRows`.
    """

    known: tuple[str, ...]
    values: pl.DataFrame
    codes: AnyIntegers
    counts: AnyIntegers
    row_of: AnyIntegers

    @property
    def records(self) -> int:
        """How many records there are."""
        return len(self.row_of)


def find_distinct_records(
    data: Dataset, sensitive: str, known: Sequence[str] | None
) -> DistinctRecords:
    """The distinct records in what is known and what is sensitive.

    Examples
    --------
    >>> data = Dataset(pl.DataFrame({"age": [30, 30, 41], "ill": ["n", "n", "y"]}))
    >>> distinct = find_distinct_records(data, "ill", ["age"])
    >>> distinct.counts.sum(), distinct.codes.shape
    (np.int64(3), (2, 2))
    """
    data.schema.require([sensitive])
    require_records(len(data))
    named = known_variables(known, data, "original")
    others = tuple(dict.fromkeys(name for name in named if name != sensitive))
    if not others:
        raise MeasureError(
            f"Nothing is known besides '{sensitive}', which is sensitive.",
            hint='give other variables the role "quasi", or name them: known = [...].',
        )
    if len(data) > _MOST:
        raise MeasureError(f"There are more than {_MOST:,} records.", hint="take fewer of them.")
    return DistinctRecords(others, *code_rows(data, [*others, sensitive]))


def code_rows(data: Dataset, names: Sequence[str], records: Integers | None = None) -> DistinctRows:
    """The distinct rows of some variables, with codes and counts.

    Missing is a value of its own, and a release shows which code for missing a cell holds.
    `records` says how many records each row of the data stands for.
    """
    # Codes for missing are compared like values: whoever sees the file sees them.
    undeclared = replace(data, schema=data.schema.changed(names, missing=()))
    batch = pl.DataFrame([_read_column(undeclared, name) for name in names])
    distinct = count_combinations(batch)
    columns = [encode(column).missing_last for column in distinct.values.get_columns()]
    row_of = find_class_of_each(batch, distinct.values)
    counts = np.asarray(distinct.counts, np.int64)
    if records is not None:
        counts = count_codes(row_of, records, len(counts))
    return DistinctRows(distinct.values, np.column_stack(columns), counts, row_of)


def _read_column(data: Dataset, name: str) -> pl.Series:
    """A variable's values; numbers that came as text are equal if they are equal as numbers."""
    values = cast_untyped(data.column(name))
    if values.dtype != pl.String or data.schema[name].kind not in ("continuous", "integer"):
        return values
    levels = values.drop_nulls().unique()
    return values.replace_strict(
        levels, [_normalise_number(level) for level in levels], return_dtype=pl.String
    )


def _normalise_number(text: str) -> str:
    """One text for a number, however it was written; anything else stays as it is."""
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        return text
    if not number.is_finite():
        return text
    short = number.normalize()
    return f"{short:f}" if abs(short.adjusted()) < _DIGITS else str(short)


def read_threshold(number: float, name: str) -> Fraction:
    """A threshold as the simplest fraction that rounds to it; 0.29 is 29/100."""
    if not 0 <= number < 1:
        raise MeasureError(f"{name} is 0 or more and below 1.")
    return Fraction(number).limit_denominator(_MOST)
