"""The edge between the user's frame and ours.

People bring pandas, polars or pyarrow; inside, everything works on polars columns. What is not
touched keeps its very own object, so that it stays byte-identical; what is changed comes back in
the user's library and, where the values still allow it, in the user's type.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import narwhals as nw
import polars as pl

from sfumato.errors import DataError, refuse_patterns
from sfumato.kernels.arrays import Positions
from sfumato.kernels.memory import split_rows

if TYPE_CHECKING:
    from sfumato.schema import Kind


def wrap(frame: Any) -> nw.DataFrame[Any]:
    """The frame behind Narwhals; a clear error for what is no eager frame or has odd names."""
    names = list(getattr(frame, "columns", [])) if hasattr(frame, "iloc") else []
    odd = sorted({str(name) for name in names if not isinstance(name, str)})
    if odd:
        raise DataError(
            f"Variable names must be text; these are not: {', '.join(odd[:5])}.",
            hint="rename them, for instance frame.columns = [str(name) for name in frame.columns].",
        )
    if len(names) != len(set(names)):
        raise _make_duplicate_error(names)
    try:
        wrapped = nw.from_native(frame, eager_only=True)
    except nw.exceptions.DuplicateError:
        raise _make_duplicate_error(frame.column_names) from None
    except TypeError:
        raise DataError(
            f"A {type(frame).__name__} is not a frame that Sfumato knows.",
            hint="pass a pandas or polars DataFrame or a pyarrow Table (collect a lazy frame).",
        ) from None
    if len(wrapped.columns) != len(set(wrapped.columns)):
        raise _make_duplicate_error(wrapped.columns)
    refuse_patterns(wrapped.columns)
    return cast("nw.DataFrame[Any]", wrapped)


def _make_duplicate_error(names: Sequence[str]) -> DataError:
    twice = sorted({name for name in names if names.count(name) > 1})
    return DataError(
        f"These variable names stand more than once: {', '.join(twice)}.",
        hint="rename them, so that every variable has a name of its own.",
    )


SPARK_TYPES: dict[str, pl.DataType] = {
    "tinyint": pl.Int8(),
    "smallint": pl.Int16(),
    "int": pl.Int32(),
    "bigint": pl.Int64(),
    "float": pl.Float32(),
    "double": pl.Float64(),
    "boolean": pl.Boolean(),
    "string": pl.String(),
    "binary": pl.Binary(),
    "date": pl.Date(),
    "timestamp": pl.Datetime("us", "UTC"),
    "timestamp_ntz": pl.Datetime("us"),
}
"""Types as Spark calls them, and as a part of the records has them."""


def is_distributed(frame: Any) -> bool:
    """Whether a frame's records are on a cluster (a Spark DataFrame)."""
    return type(frame).__module__.startswith("pyspark.sql")


def is_lazy(frame: Any) -> bool:
    """Whether a frame's records are read batch by batch (a polars LazyFrame)."""
    return isinstance(frame, pl.LazyFrame)


def is_in_memory(frame: Any) -> bool:
    """Whether a frame's records are here: neither on a cluster nor still in a file."""
    return not is_distributed(frame) and not is_lazy(frame)


def get_types(frame: Any) -> dict[str, pl.DataType]:
    """The types of the variables of a frame whose records are not in memory."""
    if is_lazy(frame):
        types = dict(frame.collect_schema())
        categories = (pl.Categorical, pl.Enum)
        return {n: pl.String() if isinstance(t, categories) else t for n, t in types.items()}
    return _get_spark_types(frame)


def _get_spark_types(frame: Any) -> dict[str, pl.DataType]:
    types: dict[str, pl.DataType] = {}
    for column in frame.schema.fields:
        dtype = SPARK_TYPES.get(column.dataType.simpleString())
        if dtype is None:
            raise DataError(
                f"Variable '{column.name}' is of a type that is not used here: "
                f"{column.dataType.simpleString()}.",
                hint="cast it to text, a number or a date, or drop it.",
            )
        types[column.name] = dtype
    if len(types) != len(frame.columns):
        raise _make_duplicate_error(frame.columns)
    return types


def infer_kinds(frame: Any) -> dict[str, Kind | None]:
    """What the types alone say about the kind of each variable."""
    if not is_in_memory(frame):
        frame = pl.DataFrame(schema=get_types(frame))
    return {name: _infer_kind(dtype) for name, dtype in wrap(frame).schema.items()}


def _infer_kind(dtype: nw.dtypes.DType) -> Kind | None:
    if dtype.is_float() or dtype.is_decimal():
        return "continuous"
    if dtype.is_integer():
        return "integer"
    if dtype.is_temporal():
        return "date"
    if isinstance(dtype, (nw.String, nw.Categorical, nw.Enum, nw.Boolean, nw.Object)):
        return "nominal"
    return None


def get_column(frame: Any, name: str) -> pl.Series:
    """One variable as a polars column: categories by their values, NaN as missing."""
    try:
        # Nothing is to be translated here, and this is asked for thousands of times.
        is_polars = isinstance(frame, pl.DataFrame)
        values = frame.get_column(name) if is_polars else _to_polars(wrap(frame)[name])
    except (Exception, pl.exceptions.PanicException):  # noqa: BLE001 - their texts may quote cells
        raise DataError(
            f"Variable '{name}' holds values of several types, or of one that cannot be used.",
            hint="make them all text, all numbers or all dates before you pass the frame on.",
        ) from None
    if values.dtype.is_nested() or values.dtype == pl.Object:
        raise DataError(
            f"Variable '{name}' holds lists or objects, not single values.",
            hint="spread it over several variables, or drop it.",
        )
    if values.dtype.is_float() and values.is_nan().any():
        values = values.fill_nan(None)
    if isinstance(values.dtype, (pl.Categorical, pl.Enum)):
        values = values.cast(pl.String)
    return values.alias(name)


def _to_polars(series: nw.Series[Any]) -> pl.Series:
    native = series.to_native()
    if series.implementation.is_pandas_like():
        if isinstance(series.dtype, (nw.Categorical, nw.Enum)):
            values = native.cat.categories.dtype
            # Whole numbers with gaps have no plain pandas type; categories do not say which of
            # them are missing.
            native = native.astype("Int64" if values.kind in "iu" else values)
        if not len(native) or native.isna().all():
            # An empty or all-missing object column says nothing of its type.
            dtype = native.dtype if str(native.dtype) != "object" else "str"
            native = native.astype(dtype) if len(native) == 0 else native
        converted: pl.Series = pl.from_pandas(native.reset_index(drop=True), nan_to_null=True)
        return converted
    return series.to_polars()


def with_columns(frame: Any, new: pl.DataFrame) -> Any:
    """The frame with some variables replaced or added, in the user's library and type."""
    wrapped = wrap(frame)
    if wrapped.implementation.is_polars():
        return wrapped.to_native().with_columns(new.get_columns())
    old = wrapped.schema
    if wrapped.implementation.is_pandas_like():
        native = wrapped.to_native().copy(deep=False)
        for name in new.columns:
            native[name] = _to_pandas(new[name], native, native[name] if name in old else None)
        return native
    table = wrapped.to_native()
    for name in new.columns:
        values = new[name].to_arrow()
        new_type = nw.from_native(new).schema[name]
        # Yes/no values and categories are of one kind, and not of one type.
        alike = name in old and isinstance(old[name], nw.Boolean) == isinstance(
            new_type, nw.Boolean
        )
        if alike and _infer_kind(old[name]) == _infer_kind(new_type):
            values = values.cast(table.schema.field(name).type)
        index = table.schema.get_field_index(name)
        table = (
            table.append_column(name, values)
            if index < 0
            else table.set_column(index, name, values)
        )
    return table


def _to_pandas(values: pl.Series, native: Any, old: Any) -> Any:
    series = values.to_pandas()
    series.index = native.index
    if old is None or series.dtype == old.dtype or str(old.dtype) in ("object", "category"):
        return series
    if values.dtype == pl.String and old.dtype.kind in "mM":
        return series  # pandas would read "2020-05" as a day
    try:
        cast = series.astype(old.dtype)
    except (TypeError, ValueError):
        return series
    same = cast.isna().eq(series.isna()) & (cast.eq(series).fillna(value=False) | cast.isna())
    return cast if bool(same.all()) else series


def drop_columns(frame: Any, names: Iterable[str]) -> Any:
    """The frame less some variables."""
    gone = set(names)
    if not is_in_memory(frame):
        return frame.drop(*gone)
    wrapped = wrap(frame)
    remaining = [name for name in wrapped.columns if name not in gone]
    return frame[remaining] if wrapped.implementation.is_pandas_like() else frame.select(remaining)


def strip_metadata(frame: Any) -> Any:
    """The same records without what frames carry unseen: labels of rows, notes, unused levels.

    An index is often the identifier that the plan drops; levels that no record has, and cells that
    a slice still points to, are of people who are not in the release. A Spark frame carries none.
    """
    if is_distributed(frame):
        return frame
    if is_lazy(frame):
        return frame  # nothing is in memory; what is written is written anew
    wrapped = wrap(frame)
    if wrapped.implementation.is_polars():
        return _strip_polars(frame)
    if not wrapped.implementation.is_pandas_like():
        return _strip_arrow(frame)
    native = frame.reset_index(drop=True)
    native.attrs = {}
    native.columns.name = None
    for name, dtype in wrapped.schema.items():
        if isinstance(dtype, (nw.Categorical, nw.Enum)):
            native[name] = native[name].cat.remove_unused_categories()
    return native


def _strip_polars(frame: pl.DataFrame) -> pl.DataFrame:
    columns = []
    for column in frame.get_columns():
        if isinstance(column.dtype, pl.Enum):
            present = set(column.unique().drop_nulls().cast(pl.String))
            levels = [level for level in column.dtype.categories if level in present]
            column = column.cast(pl.String).cast(pl.Enum(levels))  # noqa: PLW2901
        columns.append(column)
    return forget_hidden_cells(pl.DataFrame(columns))


def forget_hidden_cells(frame: pl.DataFrame) -> pl.DataFrame:
    """The same records without the bytes that lie beneath blanks or that no cell points to.

    A blank is a bit in a mask: the value that was blanked may still lie there, and an Arrow file
    holds it. A column of text also holds on to the texts of the column it was made from.
    """
    return pl.DataFrame([_forget_hidden_cells(column) for column in frame.get_columns()])


def _forget_hidden_cells(column: pl.Series) -> pl.Series:
    blank, dtype = column.is_null(), column.dtype
    if dtype.is_nested() or dtype == pl.Object:
        return column  # refused when it is written
    if blank.all():
        return column.clear(len(column))
    clean = column.fill_null(strategy="min")  # a value that is released
    if dtype in (pl.String, pl.Binary):
        # Part by part: what a copy goes through takes as much memory as the copy.
        parts = (clean[part] for part in split_rows(len(clean)))
        clean = pl.concat([_copy_texts(part) for part in parts], rechunk=False)
    if not blank.any():
        return clean
    return pl.select(pl.when(~blank).then(clean).alias(column.name)).to_series()


def _copy_texts(column: pl.Series) -> pl.Series:
    if column.dtype == pl.Binary:
        return pl.Series(column.name, column.to_list(), dtype=pl.Binary)
    return column + ""  # a sum is written anew, text by text


def _strip_arrow(table: Any) -> Any:
    import pyarrow as pa

    columns = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            values = column.cast(column.type.value_type)
            columns.append(values.combine_chunks().dictionary_encode())
        else:
            # Copied, so that nothing beyond the records hangs on to it.
            copied = pa.concat_arrays(column.chunks) if column.num_chunks else column
            columns.append(_forget_beneath_blanks(copied) if column.null_count else copied)
    return pa.table(dict(zip(table.column_names, columns, strict=True)))


def _forget_beneath_blanks(values: Any) -> Any:
    import pyarrow as pa
    from pyarrow import compute

    if values.null_count == len(values):
        return pa.nulls(len(values), values.type)
    try:
        filled = compute.fill_null(values, compute.min(values))
        return compute.if_else(values.is_valid(), filled, pa.scalar(None, values.type))
    except pa.ArrowNotImplementedError:  # a rare type
        return pa.array(values.to_pylist(), values.type)


def take(frame: Any, positions: Positions) -> Any:
    """Some records, in this order. Row labels of a pandas frame go along."""
    wrapped = wrap(frame)
    if wrapped.implementation.is_pandas_like():
        return wrapped.to_native().iloc[positions]
    return wrapped[positions, :].to_native() if len(wrapped) else frame


def convert_like(frame: Any, result: pl.DataFrame) -> Any:
    """A frame of ours in the library of the user's; what comes from elsewhere stays ours."""
    if not is_in_memory(frame):
        return result
    implementation = wrap(frame).implementation
    if implementation.is_polars():
        return result
    if implementation.is_pandas_like():
        return result.to_pandas()
    return result.to_arrow()


def to_canonical_text(values: pl.Series) -> pl.Series:
    """One text per value, the same whether a file held 17, 17.0 or "17"."""
    if values.dtype == pl.Binary:
        return values.bin.encode("hex")
    text = values.cast(pl.String)
    if values.dtype.is_float():
        integral = values.cast(pl.Int64, strict=False)
        same = (integral.cast(values.dtype) == values).fill_null(value=False)
        return integral.cast(pl.String).zip_with(same, text)
    if values.dtype.is_decimal():
        return text.str.replace(r"(\.\d*?)0+$", "${1}").str.strip_suffix(".")
    return text
