"""Values as codes, and codes as values again.

Every measure, method and table that counts or compares values first turns them into small whole
numbers. This is the one place that does so: `encode` for any values, `encode_levels` for the
declared or observed levels of a category, `encode_strata` for combinations of values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.cells.notation import WILDCARD, format_value
from sfumato.data import Dataset
from sfumato.engines import Combinations
from sfumato.engines.local import find_class_of_each, find_positions
from sfumato.errors import MethodError
from sfumato.io import frames
from sfumato.kernels.arrays import AnyIntegers, Codes, Integers
from sfumato.noise.description import Level
from sfumato.schema import Column

FEWEST_OF_LEVEL = 10
"""Records that must have a level before a manifest names it, unless somebody declared it."""
_KINDS = ("nominal", "ordinal", "integer")
_TRUTH = {"true": True, "false": False, "1": True, "0": False}
_WHOLE = (pl.Int32, pl.Int64, pl.UInt32, pl.UInt64)
_WIDEST = np.iinfo(np.int32).max - 1


@dataclass(frozen=True, eq=False)
class Coded:
    """A variable as codes.

    Parameters
    ----------
    codes : for each record the position of its value among the levels; -1 where it is missing.
    levels : the distinct values, each once.
    """

    codes: Codes
    levels: pl.Series

    @property
    def missing_first(self) -> Codes:
        """The codes from 1 on; 0 is missing."""
        return self.codes + np.int32(1)

    @property
    def missing_last(self) -> Codes:
        """The codes from 0 on; the number after the last is missing."""
        return np.where(self.codes < 0, np.int32(len(self.levels)), self.codes)


def encode(
    values: pl.Series,
    levels: pl.Series | None = None,
    *,
    order: Literal["rising", "appearance"] = "rising",
) -> Coded:
    """Turn values into codes.

    Parameters
    ----------
    values : any values that can be compared.
    levels : what the codes stand for; by default the values that occur. A value that is none of
        them counts as missing; a level that is null is the code of missing values.
    order : of the levels that occur: rising, or as they first appear.

    Examples
    --------
    >>> coded = encode(pl.Series(["b", None, "a", "b"]))
    >>> coded.codes.tolist(), coded.levels.to_list()
    ([1, -1, 0, 1], ['a', 'b'])
    >>> encode(pl.Series([3, 1, 3]), pl.Series([3])).codes.tolist()
    [0, -1, 0]
    """
    values = cast_untyped(values)
    if levels is None and order == "appearance":
        if values.dtype == pl.String:
            return _encode_text(values)
        levels = values.drop_nulls().unique(maintain_order=True)
    elif levels is None:
        levels = values.drop_nulls().unique().sort()
    return Coded(find_positions(values, levels).fill_null(-1).to_numpy(), levels)


def _encode_text(values: pl.Series) -> Coded:
    """Text in the order of appearance, by the table that all columns of text share."""
    kinds = values.cast(pl.Categorical)
    levels = kinds.drop_nulls().unique(maintain_order=True)
    numbers = levels.to_physical().to_numpy()
    # The last is that of missing values.
    code_of = np.full(int(numbers.max(initial=0)) + 2, -1, np.int32)
    code_of[numbers] = np.arange(len(numbers))
    number_of_each = kinds.to_physical().fill_null(len(code_of) - 1).to_numpy()
    return Coded(code_of[number_of_each], levels.cast(pl.String))


def encode_unordered(values: pl.Series) -> tuple[Codes, int]:
    """Codes that are equal for equal cells, 0 where missing, and an upper bound of them.

    They have no order and some stand for nothing, so numbers and dates need no look-up at all.
    """
    values = cast_untyped(values)
    if values.dtype == pl.String:
        numbers = values.cast(pl.Categorical).to_physical()
    elif values.dtype == pl.Boolean:
        numbers = values.cast(pl.Int32)
    elif values.dtype.is_temporal() or values.dtype in _WHOLE:
        numbers = values.to_physical()
    else:
        numbers = find_positions(values, values.drop_nulls().unique())
    least, most = _span(numbers)
    if most - least >= _WIDEST:
        numbers = find_positions(numbers, numbers.drop_nulls().unique())
        least, most = _span(numbers)
    gaps = numbers.null_count()
    array = numbers.fill_null(least).to_numpy() if gaps else numbers.to_numpy()
    codes = (array - array.dtype.type(least)).astype(np.int32, copy=False)
    codes += np.int32(1)
    if gaps:
        codes[numbers.is_null().to_numpy()] = 0
    return codes, most - least + 2


def encode_rows(values: npt.NDArray[Any]) -> AnyIntegers:
    """The same code for equal rows of a matrix, in the order of the rows."""
    return np.unique(values, axis=0, return_inverse=True)[1].ravel()


def _span(values: pl.Series) -> tuple[int, int]:
    ends: Any = values.min(), values.max()
    return (0, 0) if ends[0] is None else (int(ends[0]), int(ends[1]))


def cast_untyped(values: pl.Series) -> pl.Series:
    """The same values; a column that holds nothing at all, and has no type, as text."""
    return values.cast(pl.String) if values.dtype == pl.Null else values


# Levels of categories ----------------------------------------------------------------------------


def find_levels(
    name: str, column: Column, distinct: Combinations, *, most: int, ordered: bool
) -> tuple[list[Level], bool]:
    """All levels of a variable in the order of their codes, and whether the schema declares them.

    Without a declaration they are those that occur, in rising order.

    Parameters
    ----------
    name, column : the variable, and what is known of it.
    distinct : the values that occur.
    most : how many levels there may be.
    ordered : whether the order of ordinal levels matters.
    """
    values = distinct.values[name].drop_nulls()
    _require_categories(name, column, values)
    levels = _declare_levels(name, column, values.dtype, most)
    if levels is None:
        if values.dtype == pl.String and column.generalised and (values == WILDCARD).any():
            raise _category_error(
                name, "has cells that were suppressed", "perturb first, then suppress."
            )
        if ordered and column.kind == "ordinal" and values.dtype == pl.String:
            raise _category_error(
                name,
                "is ordinal, and nothing declares in which order its levels are",
                "declare them as its domain, from low to high.",
            )
        levels = (
            [False, True]
            if values.dtype == pl.Boolean
            else [to_plain(level) for level in values.unique().sort().to_list()]
        )
    if len(levels) > most:
        raise _category_error(
            name,
            f"has {len(levels)} levels, and {most} are the most that can be described",
            'group them first, with "recode"; numbers that count or measure take "noise".',
        )
    if len(levels) <= 1:
        raise _category_error(
            name,
            "has one level at most, so there is none to take it for",
            "declare all its levels as its domain, or leave it out.",
        )
    encode_levels(values, levels)  # refuses values that are none of the levels
    return levels, column.domain is not None


def _require_categories(name: str, column: Column, values: pl.Series) -> None:
    if values.dtype.is_temporal() or values.dtype == pl.Binary:
        what = "dates" if values.dtype.is_temporal() else "bytes"
        raise _category_error(
            name, f"holds {what}, which have no codes", 'group them first: "recode".'
        )
    if column.kind not in _KINDS:
        raise _category_error(
            name,
            f"is declared {column.kind}, and not as categories",
            'declare kind = "nominal" or "ordinal"; measured numbers take "noise".',
        )


def _declare_levels(name: str, column: Column, dtype: pl.DataType, most: int) -> list[Level] | None:
    """The levels that the schema states, in the type of the values."""
    if column.bounds is not None:
        low, high = column.bounds
        # Counted before they are listed: a domain may reach to millions.
        if high - low > most:
            raise _category_error(
                name,
                f"has a domain of more than {most} whole numbers",
                'numbers that count or measure take "noise"; or group them first.',
            )
        return [number for number in range(int(low), int(high) + 1) if low <= number <= high]
    if column.levels is None:
        return None
    try:
        return [_cast_level(level, dtype) for level in column.levels]
    except (KeyError, TypeError, ValueError, OverflowError):
        raise _category_error(
            name,
            "has declared levels of another type than its values",
            "write numbers without quotes and text with quotes.",
        ) from None


def _cast_level(level: Any, dtype: pl.DataType) -> Any:
    if dtype == pl.Boolean:
        return _TRUTH[format_value(level).lower()]
    if dtype.is_numeric():
        number = to_plain(float(level) if isinstance(level, str) else level)
        if isinstance(number, str) or (dtype.is_integer() and isinstance(number, float)):
            raise ValueError
        return number
    return format_value(level) if dtype == pl.String else to_plain(level)


def to_plain(value: Any) -> Any:
    """A value as a manifest holds it: whole numbers as such, dates as text.

    Examples
    --------
    >>> [to_plain(value) for value in (1.0, 1.5, True, "a", None)]
    [1, 1.5, True, 'a', None]
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (float, Decimal)):
        return int(value) if value == int(value) else float(value)
    return format_value(value)


def encode_levels(values: pl.Series, levels: Sequence[Level]) -> Integers:
    """Which of the levels each value is, -1 where missing; an error where it is none."""
    keys, known = _match_types(values, levels)
    positions = pl.Series(np.arange(len(levels), dtype=np.int64))
    codes = keys.replace_strict(known, positions, default=None, return_dtype=pl.Int64)
    unknown = int((codes.is_null() & values.is_not_null()).sum())
    if unknown:
        raise _category_error(
            values.name,
            f"has {unknown} records with a value that is none of its levels",
            "declare all levels as its domain.",
        )
    return codes.fill_null(-1).to_numpy()


def _match_types(values: pl.Series, levels: Sequence[Level]) -> tuple[pl.Series, pl.Series]:
    """Values and levels in one type in which they can be compared."""
    if values.dtype == pl.String:
        return values, pl.Series([format_value(level) for level in levels], dtype=pl.String)
    integers = all(isinstance(level, int) for level in levels)
    exact = values.dtype.is_integer() or values.dtype in (pl.Boolean, pl.Null)
    dtype = pl.Int64 if integers and exact else pl.Float64
    numbers = [int(level) if dtype == pl.Int64 else float(level) for level in levels]
    return values.cast(dtype, strict=False), pl.Series(numbers, dtype=dtype, strict=False)


def decode_levels(codes: Integers, levels: Sequence[Level], values: pl.Series) -> pl.Series:
    """The levels of some codes, in the type of the variable where it holds them all."""
    table = pl.Series(values.name, list(levels), strict=False)
    if values.dtype not in (table.dtype, pl.Null):
        typed = table.cast(values.dtype, strict=False)
        table = typed if not typed.null_count() else table
    return table.gather(pl.Series(codes).set(pl.Series(codes < 0), None))


def restore_categories(before: Dataset, after: Dataset, names: Sequence[str]) -> Dataset:
    """Give variables back the categorical type that their library had for them."""
    frame = after.frame
    if not frames.is_in_memory(frame):
        return after  # text only
    wrapped = frames.wrap(before.frame)
    for name in names:
        old = wrapped[name].to_native()
        if wrapped.implementation.is_polars() and isinstance(old.dtype, (pl.Categorical, pl.Enum)):
            column = frame[name].cast(old.dtype, strict=False)
            if column.null_count() == frame[name].null_count():
                frame = frame.with_columns(column)
        elif wrapped.implementation.is_pandas_like() and str(old.dtype) == "category":
            column = frame[name].astype(old.dtype)
            if column.isna().equals(frame[name].isna()):
                frame = frame.assign(**{name: column})
    return after if frame is after.frame else replace(after, frame=frame)


def report_observed_levels(fitted: Mapping[str, Any]) -> dict[str, Any]:
    """Which variables have levels that were read off the data, for the manifest."""
    observed = [name for name, fit in fitted.items() if not fit["declared"]]
    return {"levels_as_they_occur": observed} if observed else {}


def count_rare_levels(name: str, column: Column, distinct: Combinations) -> int:
    """How many levels few records have and nothing declares; a manifest must not name these.

    Parameters
    ----------
    name, column : the variable, and what is known of it.
    distinct : the values that occur, and how often.
    """
    values = distinct.values[name]
    if column.bounds is not None or column.levels is not None or values.dtype == pl.Boolean:
        return 0
    records = pl.DataFrame({"level": values, "records": distinct.counts}).drop_nulls("level")
    totals = records.group_by("level").agg(pl.sum("records"))["records"]
    return int((totals < FEWEST_OF_LEVEL).sum())


def require_common_levels(fitted: Mapping[str, Any]) -> None:
    """Refuse to publish levels that are known only from a few records."""
    for name, fit in fitted.items():
        if fit["rare"]:
            raise _category_error(
                name,
                f"has {fit['rare']} levels that fewer than {FEWEST_OF_LEVEL} records have and that "
                "nothing declares, and the manifest would name them",
                'declare all levels as its domain, or join rare ones first: "recode" with fewest.',
            )


def _category_error(name: str, what: str, hint: str) -> MethodError:
    return MethodError(f"Variable '{name}' {what}.", hint=hint)


# Strata ------------------------------------------------------------------------------------------


def stratum_key(row: Sequence[Any]) -> tuple[Any, ...]:
    """A stratum as what tells it apart: 1 and 1.0 are the same value, 1 and yes are two."""
    return tuple((type(value).__name__, value) for value in map(to_plain, row))


def sort_strata(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Strata in an order of their own, whatever the order they came in."""
    return sorted(
        rows,
        key=lambda row: [(type(value).__name__, 0 if value is None else value) for value in row],
    )


def encode_strata(
    batch: pl.DataFrame, names: Sequence[str], strata: Sequence[Mapping[str, Any]]
) -> Integers:
    """Which of the fitted strata, each with its values under `where`, every record belongs to."""
    if not names:
        return np.zeros(batch.height, np.int64)
    known = {
        stratum_key([stratum["where"][name] for name in names]): index
        for index, stratum in enumerate(strata)
    }
    values = pl.DataFrame([batch[name] for name in names])
    distinct = values.unique()
    indices = [known.get(stratum_key(row)) for row in distinct.iter_rows()]
    if None in indices:
        raise MethodError(
            "Some records are of a stratum that was not there when the method was fitted.",
            hint="fit and apply it to the same records.",
        )
    stratum_of_row: Integers = np.array(indices, np.int64)
    return stratum_of_row[find_class_of_each(values, distinct)]
