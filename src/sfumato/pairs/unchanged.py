"""Which cells of a release show the very value of the original."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from sfumato.cells.notation import format_value
from sfumato.data import Dataset
from sfumato.engines.local import find_positions
from sfumato.kernels.arrays import Mask
from sfumato.kernels.memory import split_rows


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
    before_texts, after_texts = _CellsAsWritten.of(before), _CellsAsWritten.of(after)
    same = np.empty(len(before), bool)
    # Part by part: all cells as text would take more memory than the data.
    for part in split_rows(len(same)):
        same[part] = before_texts.take(part).eq_missing(after_texts.take(part)).to_numpy()
    return same


def write_cells(values: pl.Series) -> pl.Series:
    """Values as the text of their cells."""
    return _CellsAsWritten.of(values).take(slice(None)).alias(values.name)


class _CellsAsWritten(NamedTuple):
    """The texts of cells, and which of them each record has; None: one each, in their order."""

    texts: pl.Series
    positions: pl.Series | None

    @classmethod
    def of(cls, values: pl.Series) -> _CellsAsWritten:
        if values.dtype == pl.String:
            return cls(values, None)
        # Each distinct value once: formatting is slow, and values repeat.
        distinct = values.drop_nulls().unique()
        texts = pl.Series([format_value(value) for value in distinct.to_list()], dtype=pl.String)
        return cls(texts, find_positions(values, distinct))

    def take(self, part: slice) -> pl.Series:
        return (
            self.texts[part] if self.positions is None else self.texts.gather(self.positions[part])
        )
