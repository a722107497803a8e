"""The records: a frame of the user's own library, its schema, and the identity of each record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from sfumato.data.identity import Identity, Persons, identify, number_persons
from sfumato.data.stream import Stream, identify_stream
from sfumato.errors import DataError, SchemaError
from sfumato.io import frames
from sfumato.kernels.arrays import Positions
from sfumato.progress import Progress, part_of
from sfumato.schema import Column, Role, Schema
from sfumato.units import Units

if TYPE_CHECKING:
    from sfumato.io import Reading, Source


@dataclass(frozen=True, eq=False)
class Dataset:
    """Records that nobody changes: every method returns a new one.

    Parameters
    ----------
    frame : a pandas or polars DataFrame or a pyarrow Table. It is never modified. The records of a
        polars LazyFrame are read batch by batch, those of a Spark DataFrame stay on the cluster.
    schema : who is what. Variables it leaves out have no role yet.
    source : where the records come from and how they were read, when from a file.

    Examples
    --------
    >>> import polars as pl
    >>> data = Dataset(pl.DataFrame({"age": [34, 51], "sex": ["f", "m"]}), Schema({"age": "quasi"}))
    >>> len(data), data.schema.having("quasi"), data.schema.unknown
    (2, ('age',), ('sex',))
    """

    frame: Any = field(repr=False)
    schema: Schema = field(default_factory=Schema)
    source: Source | None = None
    given_identity: Identity | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        schema = self.schema if isinstance(self.schema, Schema) else Schema(self.schema)
        object.__setattr__(self, "schema", schema.completed(frames.infer_kinds(self.frame)))

    def __len__(self) -> int:
        frame = self.frame
        if frames.is_lazy(frame):
            return Stream.of(self).records
        if frames.is_distributed(frame):
            return self._row_count
        return _count_rows(frame)

    @cached_property
    def _row_count(self) -> int:
        """Counting records on a cluster is a job: once is enough."""
        return int(self.frame.count())

    def __repr__(self) -> str:
        # A frame's own text shows cells, and this may end up in a log or a notebook.
        library = type(self.frame).__module__.partition(".")[0]
        if not frames.is_in_memory(self.frame):  # counting them is a job
            return f"Dataset({len(self.columns)} variables, {library})"
        return f"Dataset({len(self):,} records, {len(self.columns)} variables, {library})"

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the variables, in order."""
        return tuple(self.schema)

    @cached_property
    def identity(self) -> Identity:
        """What makes each record itself; given once, and kept through every step."""
        if self.given_identity is not None:
            return self.given_identity
        if frames.is_lazy(self.frame):
            return identify_stream(self.schema, Stream.of(self))
        return identify(
            self.schema, lambda name: frames.get_column(self.frame, name), self._number_persons
        )

    @cached_property
    def units(self) -> Units:
        """Whom each row is about: itself, or a person who may have several rows.

        Persons are known where a variable has the role "person", and are kept when it is dropped or
        replaced by pseudonyms. Their numbers, from 0, mean nothing else.

        Examples
        --------
        >>> visits = pl.DataFrame({"patient": ["a", "b", "a"], "age": [30, 41, 31]})
        >>> data = Dataset(visits, Schema({"patient": "person"})).without(["patient"])
        >>> bool(data.units.numbers[0] == data.units.numbers[2]), data.units.count
        (True, 2)
        """
        given_persons = None if self.given_identity is None else self.given_identity.persons
        persons = self._number_persons() if given_persons is None else given_persons
        if persons is not None:
            return Units.of(persons.numbers)
        here = frames.is_in_memory(self.frame)
        return Units(_count_rows(self.frame) if here else partial(len, self))

    def _number_persons(self) -> Persons | None:
        person = self.schema.person
        return None if person is None else number_persons(self.column(person))

    def dtype(self, name: str) -> pl.DataType:
        """The type of a variable's column, without reading it where the frame tells."""
        self.schema.require([name])
        if not frames.is_in_memory(self.frame):
            return frames.get_types(self.frame)[name]
        if not isinstance(self.frame, pl.DataFrame):
            return self.column(name).dtype
        dtype = self.frame.schema[name]
        return pl.String() if isinstance(dtype, (pl.Categorical, pl.Enum)) else dtype

    def column(self, name: str) -> pl.Series:
        """One variable as a polars column; declared missing codes and NaN are missing."""
        self.schema.require([name])
        if not frames.is_in_memory(self.frame):
            lazy = frames.is_lazy(self.frame)
            raise DataError(
                f"The records of variable '{name}' are {'in a file' if lazy else 'on a cluster'}, "
                "and are not fetched.",
                hint="use a method or a measure that runs on "
                + ("files larger than memory, or read the file whole." if lazy else "Spark."),
            )
        values = frames.get_column(self.frame, name).to_frame()
        return drop_missing_codes(values, self.schema).to_series()

    def batch(self, names: Sequence[str]) -> pl.DataFrame:
        """Some variables as polars columns, the records in their order."""
        self.schema.require(names)
        return pl.DataFrame([self.column(name) for name in names])

    def with_schema(self, schema: Schema | Mapping[str, Column | Role | None]) -> Dataset:
        """The same records, with these declarations laid over the ones they have."""
        declared = schema if isinstance(schema, Schema) else Schema(schema)
        self.schema.require(declared)
        # Other roles may mean another identity, so a computed one does not carry over.
        return replace(self, schema=self.schema.over(dict(declared)))

    def with_columns(self, new: pl.DataFrame, schema: Schema | None = None) -> Dataset:
        """Replace or add variables. A cell that held a missing code keeps it, where types allow."""
        columns = [self._restore_codes(new[name]) for name in new.columns]
        frame = frames.with_columns(self.frame, pl.DataFrame(columns)) if columns else self.frame
        declared = self.schema if schema is None else schema
        known = {name: declared[name] for name in frames.infer_kinds(frame) if name in declared}
        return replace(self, frame=frame, schema=Schema(known), given_identity=self.identity)

    def _restore_codes(self, new: pl.Series) -> pl.Series:
        if new.name not in self.schema or not self.schema[new.name].missing:
            return new
        old = frames.get_column(self.frame, new.name)
        absent = find_missing_codes(old, self.schema[new.name])
        if absent is None or old.dtype != new.dtype:
            return new
        return new.zip_with(~absent, old)

    def without(self, names: Iterable[str]) -> Dataset:
        """The same records less some variables."""
        dropped = list(names)
        self.schema.require(dropped)
        return replace(
            self,
            frame=frames.drop_columns(self.frame, dropped),
            schema=self.schema.without(dropped),
            given_identity=self.identity,
        )

    def take(self, positions: Positions) -> Dataset:
        """Some of the records, in this order."""
        frame = frames.take(self.frame, positions)
        return replace(self, frame=frame, given_identity=self.identity.take(positions))

    def like(self, made: pl.DataFrame) -> Any:
        """A frame of ours in the library of this dataset's frame."""
        return frames.convert_like(self.frame, made)


def _count_rows(frame: Any) -> int:
    """How many records a frame in memory has."""
    return frame.height if isinstance(frame, pl.DataFrame) else len(frames.wrap(frame))


def find_missing_codes(values: pl.Series, column: Column) -> pl.Series | None:
    """Which cells hold a code that the schema declares to mean "missing"."""
    codes = [code for code in column.missing if _can_occur(code, values)]
    if not codes:
        return None
    missing = pl.repeat(value=False, n=len(values), dtype=pl.Boolean, eager=True)
    for code in codes:
        missing |= (values == code).fill_null(value=False)
    return missing


def drop_missing_codes(batch: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """The values of some records, with the cells that hold a code for "missing" empty."""
    columns = []
    for values in batch.get_columns():
        absent = find_missing_codes(values, schema[values.name])
        columns.append(values if absent is None else values.set(absent, None))
    return pl.DataFrame(columns)


def _can_occur(code: Any, values: pl.Series) -> bool:
    """Whether a code can stand among these values; one of the wrong type is an error."""
    dtype = values.dtype
    number = isinstance(code, (int, float)) and not isinstance(code, bool)
    if dtype.is_integer() and number:
        return float(code).is_integer() and int(code) in range(*_get_range(dtype))
    if (dtype.is_numeric() and number) or (dtype == pl.String and isinstance(code, str)):
        return True
    if values.null_count() == len(values):
        return False  # nothing in it, so nothing to mistake
    raise SchemaError(
        f"variable '{values.name}': a missing code is of another type than the values.",
        hint="write numbers without quotes and text with quotes.",
    )


def _get_range(dtype: pl.DataType) -> tuple[int, int]:
    size = int(str(dtype).removeprefix("U").removeprefix("Int"))  # Int64, UInt8, …
    signed = dtype.is_signed_integer()
    return (-(1 << size - 1), 1 << size - 1) if signed else (0, 1 << size)


def read(
    where: str | Path,
    *,
    schema: Schema | Mapping[str, Column | Role | None] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Dataset:
    """Read records from a file or a database; `data.source` says how each variable was read.

    Question: what is in this file, without anything being guessed silently?
    Assumes: text stays text unless every value of a variable has another type's plain form.

    Parameters
    ----------
    where : path of a CSV, Parquet, Arrow, Excel, Stata, SPSS, SAS or DuckDB file, or the address
        `postgresql://…` of a database.
    schema : who is what, when already known.
    progress : called with how far reading is.
    options : what to overrule: `delimiter`, `decimal`, `encoding`, `missing`, `types`, `dates`,
        `columns`, `sheet`, `table`, `query`.
    """
    from sfumato.io import read_table

    table = read_table(where, progress=part_of(progress, "reading"), **options)
    if not table.frame.width:
        raise DataError(
            "There is no variable in these data.", hint="is it the right file or table?"
        )
    data = Dataset(table.frame, Schema(_declare_read(table.source)), table.source)
    return data if schema is None else data.with_schema(schema)


def scan(
    where: str | Path,
    *,
    schema: Schema | Mapping[str, Column | Role | None] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Dataset:
    """Records of a file that may be larger than memory: they are read batch by batch.

    Question: what is in this file, which this machine cannot hold?
    Assumes: the plan has methods and measures that run batch by batch; all others say so before
    any work starts.

    Parameters
    ----------
    where : path of a Parquet, Arrow or CSV file, or of a folder of Parquet files, which are read
        in the order of their names. A CSV file is first turned into typed columns on the disk, a
        few variables at a time, in a file without a name (in `$TMPDIR`).
    schema, progress, options : as for `read`.

    Examples
    --------
    >>> import tempfile, polars as pl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pl.DataFrame({"age": [34, 51]}).write_parquet(f"{folder}/ages.parquet")
    ...     data = scan(f"{folder}/ages.parquet", schema={"age": "quasi"})
    ...     len(data), data.schema.having("quasi")
    (2, ('age',))
    """
    from sfumato.io.scanning import scan_table

    frame, source = scan_table(Path(where), progress=part_of(progress, "reading"), **options)
    data = Dataset(frame, Schema(_declare_read(source)), source)
    return data if schema is None else data.with_schema(schema)


def _declare_read(source: Source) -> dict[str, Column]:
    """What a file itself says of its variables."""
    return {
        name: Column(
            # Stata's `.a` among numbers is missing in the frame already.
            missing=tuple(code for code in reading.missing_codes if _is_in_frame(code, reading)),
            label=reading.label,
            labels=reading.values or None,
        )
        for name, reading in source.columns.items()
        if reading.missing_codes or reading.label or reading.values
    }


def _is_in_frame(code: Any, reading: Reading) -> bool:
    """Whether a code for missing can stand in a cell: text among numbers cannot."""
    return not isinstance(code, str) or reading.type == "text"
