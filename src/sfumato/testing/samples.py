"""Data to hold a method or a measure against."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.io import frames

Odd = Literal["empty", "one row", "all missing", "constant"]
LIBRARIES = ("polars", "pandas", "pyarrow")
KEY = bytes(range(32))
_ROWS = 20


@cache
def invent_cohort(records: int = 300) -> Dataset:
    """The bundled cohort, on which the examples of our classes make sense."""
    from sfumato.datasets import cohort, cohort_schema

    return Dataset(cohort(records), cohort_schema())


def make_odd(data: Dataset, kind: Odd) -> Dataset:
    """The same variables without records, with one, with nothing known, or with one value each."""
    frame = frames.wrap(data.frame).to_polars()
    made = {
        "empty": frame.clear(),
        "one row": frame.head(1),
        "all missing": frame.head(_ROWS).with_columns(
            pl.lit(None).cast(dtype).alias(name) for name, dtype in frame.schema.items()
        ),
        "constant": pl.concat([frame.head(1)] * _ROWS),
    }[kind]
    return Dataset(made, data.schema)


def convert(data: Dataset, library: str) -> Dataset:
    """The same records in another frame library."""
    frame = frames.wrap(data.frame).to_polars()
    if library == "pandas":
        return Dataset(frame.to_pandas(), data.schema)
    return Dataset(frame.to_arrow() if library == "pyarrow" else frame, data.schema)


def shuffle(data: Dataset, seed: int) -> tuple[Dataset, np.ndarray[Any, np.dtype[np.int64]]]:
    """The same records in another order, and which record stands where."""
    order = np.random.default_rng(seed).permutation(len(data))
    return Dataset(frames.wrap(data.frame).to_polars()[order], data.schema), order


def write_content(data: Dataset) -> bytes:
    """All values with their types, as bytes."""
    columns = [frames.get_column(data.frame, name) for name in data.columns]
    # The shortest text of a float is exact, so equal texts are equal bits.
    return repr([(column.name, column.dtype, column.to_list()) for column in columns]).encode()


def is_odd(stated: Mapping[str, Any], kind: Odd, position: int) -> Any:
    """What a class states of odd data for one of its examples; None: nothing."""
    found = stated.get(kind)
    if isinstance(found, Mapping):
        return found.get(position)
    if isinstance(found, tuple):
        return "refused" if position in found else None
    return found
