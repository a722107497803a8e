"""Classes: the records whose cells in what an outsider knows are equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data import Dataset
from sfumato.kernels.arrays import Codes, Integers

_WHOLE = (pl.Int32, pl.Int64, pl.UInt32, pl.UInt64)
_WIDEST = np.iinfo(np.int32).max - 1


@dataclass(frozen=True, eq=False)
class EqualClasses:
    """The class of each record, and how many records each class has.

    Every class has at least one record: combinations that nobody has are none.
    """

    of: Codes
    sizes: Integers

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def starts(self) -> Integers:
        """Where each class begins when the records stand class after class, and the end."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)

    @cached_property
    def order(self) -> npt.NDArray[np.integer]:
        """The records, class after class."""
        from sfumato.kernels.trees.box_classes import Classes, by_class

        return by_class(Classes(self.of, self.of[:0], self.sizes), least=1)[0]


def equal_classes(data: Dataset, known: Sequence[str]) -> EqualClasses:
    """Group records by their cells in `known`, compared as they stand.

    Missing is a value of its own. A release shows which code for "missing" a cell holds, so codes
    are told apart. With nothing known, all records are one class.

    Examples
    --------
    >>> data = Dataset(pl.DataFrame({"sex": ["f", "m", None, "f"]}))
    >>> found = equal_classes(data, ["sex"])
    >>> found.of.tolist(), found.sizes.tolist()
    ([0, 1, 2, 0], [2, 1, 1])
    """
    from sfumato.kernels.trees.box_classes import classes

    seen = replace(data, schema=data.schema.changed(known, missing=()))
    cells = np.empty((len(known), len(data)), np.int32)
    widths = []
    for at, name in enumerate(known):
        cells[at], width = _numbered(typed(seen.column(name)))
        widths.append(width)
    found = classes(cells, widths)
    return EqualClasses(found.of, found.counts)


def _numbered(values: pl.Series) -> tuple[Codes, int]:
    """A whole number for each cell, equal for equal cells, 0 where missing; and their bound."""
    if values.dtype == pl.String:
        plain = values.cast(pl.Categorical).to_physical()
    elif values.dtype == pl.Boolean:
        plain = values.cast(pl.Int32)
    elif values.dtype.is_temporal() or values.dtype in _WHOLE:
        plain = values.to_physical()
    else:
        plain = places(values, values.drop_nulls().unique())
    least, most = _ends(plain)
    if most - least >= _WIDEST:
        plain = places(plain, plain.drop_nulls().unique())
        least, most = _ends(plain)
    gaps = plain.null_count()
    numbers = plain.fill_null(least).to_numpy() if gaps else plain.to_numpy()
    codes = (numbers - numbers.dtype.type(least)).astype(np.int32) + np.int32(1)
    if gaps:
        codes[plain.is_null().to_numpy()] = 0
    return codes, most - least + 2


def _ends(values: pl.Series) -> tuple[int, int]:
    ends: Any = values.min(), values.max()
    return (0, 0) if ends[0] is None else (int(ends[0]), int(ends[1]))


def places(values: pl.Series, distinct: pl.Series) -> pl.Series:
    """Which of the distinct values each value is; missing where it is none of them."""
    table = pl.DataFrame({"value": distinct, "at": np.arange(len(distinct), dtype=np.int32)})
    frame = values.alias("value").to_frame()
    return frame.join(table, on="value", how="left", maintain_order="left")["at"]


def typed(values: pl.Series) -> pl.Series:
    """The same values; a column that holds nothing at all, and has no type, as text."""
    return values.cast(pl.String) if values.dtype == pl.Null else values
