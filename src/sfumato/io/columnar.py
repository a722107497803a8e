"""Parquet and Arrow files: the schema is in the file and is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from sfumato.errors import DataError
from sfumato.io.atomic import replacing
from sfumato.io.retype import flat, present, settle
from sfumato.io.source import Progress, Source, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any

    import numpy as np


def read_parquet(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    progress: Progress | None = None,
    types: Mapping[str, str] | None = None,
    dates: Mapping[str, str] | None = None,
) -> Table:
    """The records of a Parquet file."""
    return _read(path, "parquet", columns, progress, types, dates)


def read_arrow(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    progress: Progress | None = None,
    types: Mapping[str, str] | None = None,
    dates: Mapping[str, str] | None = None,
) -> Table:
    """The records of an Arrow file (also called Feather or IPC)."""
    return _read(path, "arrow", columns, progress, types, dates)


def _read(
    path: Path,
    kind: str,
    columns: Sequence[str] | None,
    progress: Progress | None,
    types: Mapping[str, str] | None,
    dates: Mapping[str, str] | None,
) -> Table:
    title = {"parquet": "Parquet", "arrow": "Arrow"}[kind]
    try:
        lazy = pl.scan_parquet(path, glob=False) if kind == "parquet" else pl.read_ipc(path).lazy()
        names = lazy.collect_schema().names()
        if columns is not None:
            present(names, columns)
            lazy = lazy.select(columns)
        frame = lazy.collect()
    except pl.exceptions.PolarsError:
        raise DataError(
            f"'{path}' is not a whole {title} file.", hint="was it copied or downloaded in full?"
        ) from None
    frame, readings, notes = settle(
        frame, reason=f"its type in the {title} file", types=types, dates=dates
    )
    if progress:
        progress(frame.height, frame.height)
    source = Source(format=kind, path=path, columns=readings, notes=tuple(notes))
    return Table(frame, source)


def write_columnar(
    frame: pl.DataFrame,
    path: Path,
    *,
    order: np.ndarray | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write a Parquet or Arrow file, as the suffix says."""
    flat(frame)
    if order is not None:
        frame = frame[order]
    with replacing(path) as sibling:
        if path.suffix.lower() == ".parquet":
            frame.write_parquet(sibling)
        else:
            frame.write_ipc(sibling)
    if progress:
        progress(frame.height, frame.height)
    return {"records": frame.height, "escaped_cells": 0}
