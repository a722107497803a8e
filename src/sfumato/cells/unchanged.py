"""Which cells of a release show the very value of the original."""

from __future__ import annotations

import polars as pl

from sfumato.cells.notation import format_value
from sfumato.data import Dataset
from sfumato.kernels.arrays import Mask


def mark_unchanged(original: Dataset, released: Dataset, name: str) -> Mask:
    """For each record whether its cell is as it was; missing and missing counts as unchanged.

    A value that a step wrote as text, `26` for 26, is unchanged; a range, a set or `*` is not.

    Assumes: the records of both are in the same order.
    """
    before, after = original.column(name), released.column(name)
    if before.dtype == after.dtype:
        return before.eq_missing(after).to_numpy()
    if before.dtype.is_numeric() and after.dtype.is_numeric():
        return before.cast(pl.Float64).eq_missing(after.cast(pl.Float64)).to_numpy()
    if before.dtype.is_temporal() and after.dtype.is_temporal():
        return before.cast(pl.Datetime("us")).eq_missing(after.cast(pl.Datetime("us"))).to_numpy()
    return write_cells(before).eq_missing(write_cells(after)).to_numpy()


def write_cells(values: pl.Series) -> pl.Series:
    """Values as the text of their cells."""
    if values.dtype == pl.String:
        return values
    # Each distinct value once: formatting is slow, and values repeat.
    distinct = values.drop_nulls().unique()
    texts = pl.Series([format_value(value) for value in distinct.to_list()], dtype=pl.String)
    return values.replace_strict(distinct, texts, default=None, return_dtype=pl.String)
