"""What goes into a file, and whether the file holds it."""

from __future__ import annotations

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.errors import ReleaseError
from sfumato.io import frames


def plain_frame(data: Dataset) -> pl.DataFrame:
    """The records as they are written.

    Levels that no record has would tell of people who are not there, so categories go as text.
    Minus zero counts as zero in every measure, so it is zero in the file. Whole numbers and days
    are written as such, whatever the library had to make of them: pandas turns whole numbers
    with gaps into fractions, and days into midnights.
    """
    return pl.DataFrame([_plain(data, name) for name in data.columns])


def _plain(data: Dataset, name: str) -> pl.Series:
    values = frames.column(data.frame, name)
    kind = data.schema[name].kind
    if kind == "integer" and values.dtype.is_float():
        whole = values.cast(pl.Int64, strict=False)
        if whole.null_count() == values.null_count() and bool((whole == values).all()):
            return whole
    if isinstance(values.dtype, pl.Datetime) and values.dtype.time_zone is None:
        days = values.cast(pl.Date)
        if bool((days.cast(values.dtype) == values).all()):
            return days
    if values.dtype.is_float():
        zero = values == 0
        if bool(np.signbit(values.filter(zero).to_numpy()).any()):
            return values.set(zero, 0.0)
    return values


def type_of(dtype: pl.DataType) -> str:
    """How a variable is to be read back."""
    if dtype.is_integer():
        return "integer"
    if dtype.is_float() or dtype.is_decimal():
        return "number"
    if dtype == pl.Boolean:
        return "boolean"
    if dtype == pl.Date:
        return "date"
    return "datetime" if dtype.is_temporal() else "text"


def require_same(wanted: pl.DataFrame, written: Dataset) -> None:
    """Refuse a file that does not hold what was protected, naming the variables."""
    wrong = {
        name: count
        for name in wanted.columns
        if (count := _differing(wanted[name], frames.column(written.frame, name)))
    }
    if wrong:
        listed = ", ".join(f"{count:,} of '{name}'" for name, count in wrong.items())
        raise ReleaseError(
            f"The file format cannot hold some cells as they are: {listed}.",
            hint='write another format, such as format = "parquet" or "csv".',
        )


def _differing(wanted: pl.Series, written: pl.Series) -> int:
    """How many cells are not the same value, whatever type the format gave them."""
    if wanted.dtype.is_temporal():
        wanted, written = _instants(wanted), _instants(written)
    elif wanted.dtype.is_decimal():
        wanted, written = wanted.cast(pl.Float64), written.cast(pl.Float64, strict=False)
    else:
        written = written.cast(wanted.dtype, strict=False)
    return int((~wanted.eq_missing(written)).sum())


def _instants(values: pl.Series) -> pl.Series:
    if isinstance(values.dtype, pl.Datetime) and values.dtype.time_zone:
        values = values.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    if values.dtype in (pl.Time, pl.Duration):
        return values.cast(pl.Int64)
    return values.cast(pl.Datetime("us"), strict=False)
