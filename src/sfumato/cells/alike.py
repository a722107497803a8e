"""One variable of two data sets, in a form in which both can be held side by side."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from sfumato.data import Dataset
from sfumato.errors import MeasureError

_MICROSECONDS_A_DAY = 86_400_000_000


@dataclass(frozen=True, eq=False)
class Alike:
    """Both sides of a variable: text, or numbers (dates as days, yes and no as 1 and 0).

    Parameters
    ----------
    original, released : the values, all text or all floats.
    categories : whether they are categories: text, or declared as nominal or ordinal.
    """

    original: pl.Series = field(repr=False)
    released: pl.Series = field(repr=False)
    categories: bool


def alike(original: Dataset, released: Dataset, name: str) -> Alike | str:
    """Both sides of a variable, or the reason why they cannot be compared."""
    if name not in released.columns:
        return "it is not in the release"
    sides = [data.column(name) for data in (original, released)]
    kinds = {_kind(side.dtype) for side in sides if side.null_count() < len(side)}
    if not kinds:
        return "it has no value at all"
    if "other" in kinds:
        return "its values can be neither counted nor ordered"
    if len(kinds) > 1:
        return "the release holds another kind of values"
    was, now = (_plain(side, kinds) for side in sides)
    for side in (was, now):
        if side.dtype.is_float() and side.is_infinite().any():
            raise MeasureError(
                f"Variable '{name}' holds infinite values.",
                hint="set them to missing, or correct them at the source.",
            )
    declared = original.schema[name].kind in ("nominal", "ordinal")
    # Yes and no are as good as 1 and 0.
    declared &= original.column(name).dtype != pl.Boolean
    return Alike(was, now, was.dtype == pl.String or declared)


def _kind(dtype: pl.DataType) -> str:
    if dtype == pl.String:
        return "text"
    if dtype in (pl.Date, pl.Datetime):
        return "date"
    return "number" if dtype.is_numeric() or dtype == pl.Boolean else "other"


def _plain(values: pl.Series, kinds: set[str]) -> pl.Series:
    if values.null_count() == len(values):
        values = values.cast(pl.Null)  # an empty column says nothing of its type
    elif values.dtype == pl.Datetime:
        return values.cast(pl.Datetime("us")).to_physical() / _MICROSECONDS_A_DAY
    elif values.dtype == pl.Date:
        values = values.to_physical()
    return values.cast(pl.String if kinds == {"text"} else pl.Float64)
