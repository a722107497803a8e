"""Parquet and Arrow files: the schema is in the file and is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source
from pyarrow import parquet

from sfumato.errors import DataError
from sfumato.io.atomic import replace_file
from sfumato.io.damage import refuse_damage
from sfumato.io.declared_types import apply_declared_types, require_flat, require_present
from sfumato.io.frames import forget_hidden_cells
from sfumato.io.room import require_room
from sfumato.io.source import Batches, Progress, Source, SourceTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    import numpy as np

GROUP = 262_144
"""Records that are written as one group, on every machine."""


_CELL_BYTES = {"BOOLEAN": 1 / 8, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8}
"""Of memory, for a cell of each physical type of a Parquet file."""
_SMALL_BYTES = {"INT_8": 1, "UINT_8": 1, "INT_16": 2, "UINT_16": 2}
_WIDEST = 16


def read_columnar(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    progress: Progress | None = None,
    types: Mapping[str, str] | None = None,
    dates: Mapping[str, str] | None = None,
) -> SourceTable:
    """The records of a Parquet file, or of an Arrow file (also called Feather or IPC)."""
    is_parquet = path.suffix.lower() == ".parquet"
    title = "Parquet" if is_parquet else "Arrow"
    read = _read_parquet if is_parquet else _read_arrow
    damage = DataError(
        f"'{path}' is not a whole {title} file.", hint="was it copied or downloaded in full?"
    )
    with refuse_damage(damage):
        frame = read(path.absolute(), columns)  # a library would take ~ for the home folder
    frame, readings, notes = apply_declared_types(
        frame, reason=f"its type in the {title} file", types=types, dates=dates
    )
    if progress:
        progress(frame.height, frame.height)
    source = Source(format=title.lower(), path=path, columns=readings, notes=tuple(notes))
    return SourceTable(frame, source)


def _read_parquet(path: Path, columns: Sequence[str] | None) -> pl.DataFrame:
    metadata = parquet.read_metadata(path)
    _require_room_for_parquet(path, metadata, columns)
    lazy = pl.scan_parquet(path, glob=False)
    if columns is not None:
        require_present(lazy.collect_schema().names(), columns)
        lazy = lazy.select(columns)
    return lazy.collect()


def _require_room_for_parquet(
    path: Path, metadata: parquet.FileMetaData, columns: Sequence[str] | None
) -> None:
    """Refuse a file that says it has more cells, or unpacks to more bytes, than memory holds."""
    leaves = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    chosen = [
        number
        for number, leaf in enumerate(leaves)
        if columns is None or leaf.path.partition(".")[0] in columns
    ]
    width = sum(_measure_cell(leaves[number]) for number in chosen)
    unpacked = sum(
        metadata.row_group(group).column(number).total_uncompressed_size
        for group in range(metadata.num_row_groups)
        for number in chosen
    )
    # A column that repeats one value has few bytes and many cells; long texts have many bytes.
    needed = max(metadata.num_rows * width, unpacked)
    cells = metadata.num_rows * len(chosen)
    if cells:
        require_room(path, records=metadata.num_rows, variables=len(chosen),
                     bytes_per_cell=needed / cells)  # fmt: skip


def _measure_cell(leaf: parquet.ColumnSchema) -> float:
    small = _SMALL_BYTES.get(leaf.converted_type)
    return small or _CELL_BYTES.get(leaf.physical_type, _WIDEST)


def _read_arrow(path: Path, columns: Sequence[str] | None) -> pl.DataFrame:
    """Read by the library of the format's makers, which checks every buffer before use.

    What a damaged file says of the sizes of its buffers makes others reserve any amount of memory.
    """
    with pa.OSFile(str(path)) as file:
        reader = pa.ipc.open_file(file)
        if columns is not None:
            names = reader.schema.names
            require_present(names, columns)
            fields = [names.index(name) for name in columns]
            reader = pa.ipc.open_file(file, options=pa.ipc.IpcReadOptions(included_fields=fields))
        table = reader.read_all()
    table.validate(full=True)
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 - a table gives a frame
    return frame if columns is None else frame.select(columns)


def write_columnar(
    frame: pl.DataFrame | Batches,
    path: Path,
    *,
    order: np.ndarray | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write a Parquet or Arrow file, as the suffix says: the same bytes however records come."""
    require_flat(frame)
    table = Batches.of(frame, order, GROUP)
    is_parquet = path.suffix.lower() == ".parquet"
    failed: list[BaseException] = []

    def source(*_: Any) -> Iterator[pl.DataFrame]:
        done = 0
        try:
            for part in table.regroup(GROUP):
                yield part if is_parquet else forget_hidden_cells(part)
                done += part.height
                if progress:
                    progress(done, table.height)
        except BaseException as error:
            failed.append(error)
            raise

    lazy = register_io_source(source, schema=table.schema)
    with replace_file(path) as sibling:
        try:
            if is_parquet:
                lazy.sink_parquet(sibling, row_group_size=GROUP, engine="streaming")
            else:
                lazy.sink_ipc(sibling, record_batch_size=GROUP, engine="streaming")
        except pl.exceptions.PolarsError:
            # What went wrong while records were read comes back as a text, and may quote cells.
            raise (failed or [DataError(f"'{path.name}' could not be written.")])[0] from None
    return {"records": table.height, "escaped_cells": 0}
