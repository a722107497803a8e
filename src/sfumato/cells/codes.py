"""Categories as codes and back: the levels of a variable, and the place of each value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl

from sfumato.cells.noise.described import Level
from sfumato.cells.notation import WILDCARD, written
from sfumato.data import Dataset
from sfumato.engines import Combinations
from sfumato.errors import MethodError
from sfumato.io import frames
from sfumato.kernels.arrays import Floats, Integers
from sfumato.schema import Column

_GRID = 2.0**30
_KINDS = ("nominal", "ordinal", "integer")
_TRUTH = {"true": True, "false": False, "1": True, "0": False}


def levels_of(
    name: str, column: Column, found: Combinations, *, most: int, ordered: bool
) -> tuple[list[Level], bool]:
    """All levels of a variable in the order of their codes, and whether the schema declares them.

    Without a declaration they are those that occur, in rising order.

    Parameters
    ----------
    name, column : the variable, and what is known of it.
    found : the values that occur.
    most : how many levels there may be.
    ordered : whether the order of ordinal levels matters.
    """
    values = found.values[name].drop_nulls()
    _require_categories(name, column, values)
    told = _declared(name, column, values.dtype, most)
    if told is None:
        if values.dtype == pl.String and (values == WILDCARD).any():
            raise _refused(name, "has cells that were suppressed", "perturb first, then suppress.")
        if ordered and column.kind == "ordinal" and values.dtype == pl.String:
            raise _refused(
                name,
                "is ordinal, and nobody says in which order its levels are",
                "declare them as its domain, from low to high.",
            )
        told = [False, True] if values.dtype == pl.Boolean else _observed(values)
    declared = column.domain is not None
    if len(told) > most:
        raise _refused(
            name,
            f"has {len(told)} levels, and {most} are the most that can be described",
            'group them first, with "recode"; numbers that count or measure take "noise".',
        )
    if len(told) <= 1:
        raise _refused(
            name,
            "has one level at most, so there is none to take it for",
            "declare all its levels as its domain, or leave it out.",
        )
    places(values, told)
    return told, declared


def _require_categories(name: str, column: Column, values: pl.Series) -> None:
    if values.dtype.is_temporal() or values.dtype == pl.Binary:
        what = "dates" if values.dtype.is_temporal() else "bytes"
        raise _refused(name, f"holds {what}, which have no codes", 'group them first: "recode".')
    if column.kind not in _KINDS:
        raise _refused(
            name,
            f"is declared {column.kind}, and not as categories",
            'declare kind = "nominal" or "ordinal"; measured numbers take "noise".',
        )


def _declared(name: str, column: Column, dtype: pl.DataType, most: int) -> list[Level] | None:
    """The levels that the schema states, in the type of the values."""
    if column.bounds is not None:
        low, high = column.bounds
        # Counted before they are listed: a domain may reach to millions.
        if high - low > most:
            raise _refused(
                name,
                f"has a domain of more than {most} whole numbers",
                'numbers that count or measure take "noise"; or group them first.',
            )
        return [one for one in range(int(low), int(high) + 1) if low <= one <= high]
    if column.levels is None:
        return None
    try:
        return [_typed(one, dtype) for one in column.levels]
    except (KeyError, TypeError, ValueError, OverflowError):
        raise _refused(
            name,
            "has declared levels of another type than its values",
            "write numbers without quotes and text with quotes.",
        ) from None


def _typed(level: Any, dtype: pl.DataType) -> Any:
    if dtype == pl.Boolean:
        return _TRUTH[written(level).lower()]
    if dtype.is_numeric():
        number = plain(float(level) if isinstance(level, str) else level)
        if isinstance(number, str) or (dtype.is_integer() and isinstance(number, float)):
            raise ValueError
        return number
    return written(level) if dtype == pl.String else plain(level)


def plain(value: Any) -> Any:
    """A value as a manifest holds it: whole numbers as such, dates as text.

    Examples
    --------
    >>> [plain(one) for one in (1.0, 1.5, True, "a", None)]
    [1, 1.5, True, 'a', None]
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (float, Decimal)):
        return int(value) if value == int(value) else float(value)
    return written(value)


def _observed(values: pl.Series) -> list[Level]:
    return [plain(one) for one in values.unique().sort().to_list()]


def places(values: pl.Series, levels: Sequence[Level]) -> Integers:
    """Which of the levels each value is; an error where it is none."""
    keys, known = _keys(values, levels)
    at = pl.Series(np.arange(len(levels), dtype=np.int64))
    found = keys.replace_strict(known, at, default=None, return_dtype=pl.Int64)
    unknown = int((found.is_null() & values.is_not_null()).sum())
    if unknown:
        raise _refused(
            values.name,
            f"has {unknown} records with a value that is none of its levels",
            "declare all levels as its domain.",
        )
    return found.fill_null(-1).to_numpy()


def _keys(values: pl.Series, levels: Sequence[Level]) -> tuple[pl.Series, pl.Series]:
    """Values and levels in one type in which they can be compared."""
    if values.dtype == pl.String:
        return values, pl.Series([written(one) for one in levels], dtype=pl.String)
    whole = all(isinstance(one, int) for one in levels)
    exact = values.dtype.is_integer() or values.dtype in (pl.Boolean, pl.Null)
    dtype = pl.Int64 if whole and exact else pl.Float64
    numbers = [int(one) if dtype == pl.Int64 else float(one) for one in levels]
    return values.cast(dtype, strict=False), pl.Series(numbers, dtype=dtype, strict=False)


def back(at: Integers, levels: Sequence[Level], values: pl.Series) -> pl.Series:
    """The levels at some places, in the type of the variable where it holds them all."""
    made = pl.Series(values.name, list(levels), strict=False)
    dtype = values.dtype
    if dtype not in (made.dtype, pl.Null):
        typed = made.cast(dtype, strict=False)
        made = typed if not typed.null_count() else made
    return made.gather(pl.Series(at).set(pl.Series(at < 0), None))


def on_grid(noise: Floats) -> Floats:
    """Noise in steps of 2**-30, so that adding it to a whole number loses nothing.

    A sum of floats is rounded, and its last digits tell how large the terms were: without the
    steps, most released numbers between 0 and 1/4 would give away whether the true code was 0.
    """
    made: Floats = np.rint(noise * _GRID) / _GRID
    return made


def retyped(before: Dataset, after: Dataset, names: Sequence[str]) -> Dataset:
    """Give variables back the categorical type that their library had for them."""
    frame = after.frame
    wrapped = frames.wrap(before.frame)
    for name in names:
        old = wrapped[name].to_native()
        if wrapped.implementation.is_polars() and isinstance(old.dtype, (pl.Categorical, pl.Enum)):
            made = frame[name].cast(old.dtype, strict=False)
            if made.null_count() == frame[name].null_count():
                frame = frame.with_columns(made)
        elif wrapped.implementation.is_pandas_like() and str(old.dtype) == "category":
            made = frame[name].astype(old.dtype)
            if made.isna().equals(frame[name].isna()):
                frame = frame.assign(**{name: made})
    return after if frame is after.frame else replace(after, frame=frame)


def levels_told(fitted: Mapping[str, Any]) -> dict[str, Any]:
    """Which variables have levels that were read off the data, for the manifest."""
    found = [name for name, told in fitted.items() if not told["declared"]]
    return {"levels_as_they_occur": found} if found else {}


def _refused(name: str, what: str, hint: str) -> MethodError:
    return MethodError(f"Variable '{name}' {what}.", hint=hint)
