"""The values of a variable in their order, as places from 0 on."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sfumato.data import Dataset, coded_missing
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import AnyIntegers

_EPOCH = dt.date(1970, 1, 1)
_WIDEST = 1 << 31


@dataclass(frozen=True, eq=False)
class Places:
    """Where each distinct record stands in the order of one variable.

    at : the place, 0 where the value is missing.
    missing : whether it is.
    span : how many places there are.
    value : the value at a place.
    numbers : whether the values are numbers or dates, as the method "coarsen" takes them.
    """

    at: AnyIntegers
    missing: Any
    span: int
    value: Callable[[int], Any]
    numbers: bool


def placed(data: Dataset, name: str, values: pl.Series) -> Places:
    """The places of whole numbers, dates or ordered categories; others have none.

    Examples
    --------
    >>> ages = pl.Series("age", [30, 33, None])
    >>> found = placed(Dataset(pl.DataFrame([ages])), "age", ages)
    >>> found.at.tolist(), found.span, found.value(3)
    ([0, 3, 0], 4, 33)
    """
    column = data.schema[name]
    absent = coded_missing(values, column)
    values = values if absent is None else values.set(absent, None)
    missing = values.is_null().to_numpy()
    if missing.all():
        raise MeasureError(f"Variable '{name}' has no values.", hint="leave it out.")
    if column.kind == "ordinal" and column.domain is not None:
        return _levels(name, values, missing, column.domain)
    numbers = _whole(name, values)
    low = int(numbers.min())  # type: ignore[arg-type]
    at = (numbers - low).fill_null(0).to_numpy()
    span = int(at.max()) + 1
    if values.dtype.is_temporal():
        return Places(at, missing, span, lambda one: _EPOCH + dt.timedelta(low + one), numbers=True)
    return Places(at, missing, span, lambda one: low + one, numbers=True)


def _levels(name: str, values: pl.Series, missing: Any, levels: Sequence[Any]) -> Places:
    told = {level: at for at, level in enumerate(levels)}
    at = [0 if one is None else told.get(one, -1) for one in values.to_list()]
    if min(at) < 0:
        raise MeasureError(
            f"Variable '{name}' has values that its declared domain lacks.",
            hint="correct them or the domain.",
        )
    numbers = values.dtype.is_numeric() and list(levels) == sorted(levels)
    return Places(np.array(at), missing, len(levels), lambda one: levels[one], numbers)


def _whole(name: str, values: pl.Series) -> pl.Series:
    """The values as whole numbers; dates are days."""
    dated = values.dtype in (pl.Date, pl.Datetime)
    plain = values.cast(pl.Date).to_physical() if dated else values
    whole = plain.dtype.is_integer() or (
        plain.dtype.is_float() and bool((plain == plain.floor()).all())
    )
    # Not strictly, since the text of that error would quote a value.
    numbers = plain.cast(pl.Int64, strict=False) if whole else plain
    if not whole or numbers.null_count() > plain.null_count():
        raise MeasureError(
            f"Variable '{name}' holds neither whole numbers nor ordered categories.",
            hint='round it first, or declare kind = "ordinal" with its levels in order as domain.',
        )
    if int(numbers.max()) - int(numbers.min()) >= _WIDEST:  # type: ignore[arg-type]
        raise MeasureError(f"The values of variable '{name}' lie too far apart to be cut.")
    return numbers
