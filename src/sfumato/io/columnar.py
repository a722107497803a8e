"""Parquet and Arrow files: the schema is in the file and is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from sfumato.errors import DataError
from sfumato.io.atomic import replace_file
from sfumato.io.declared_types import apply_declared_types, require_flat, require_present
from sfumato.io.source import Progress, Source, SourceTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any

    import numpy as np


def read_columnar(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    progress: Progress | None = None,
    types: Mapping[str, str] | None = None,
    dates: Mapping[str, str] | None = None,
) -> SourceTable:
    """The records of a Parquet file, or of an Arrow file (also called Feather or IPC)."""
    parquet = path.suffix.lower() == ".parquet"
    title = "Parquet" if parquet else "Arrow"
    try:
        lazy = pl.scan_parquet(path, glob=False) if parquet else pl.read_ipc(path).lazy()
        if columns is not None:
            require_present(lazy.collect_schema().names(), columns)
            lazy = lazy.select(columns)
        frame = lazy.collect()
    except pl.exceptions.PolarsError:
        raise DataError(
            f"'{path}' is not a whole {title} file.", hint="was it copied or downloaded in full?"
        ) from None
    frame, readings, notes = apply_declared_types(
        frame, reason=f"its type in the {title} file", types=types, dates=dates
    )
    if progress:
        progress(frame.height, frame.height)
    source = Source(format=title.lower(), path=path, columns=readings, notes=tuple(notes))
    return SourceTable(frame, source)


def write_columnar(
    frame: pl.DataFrame,
    path: Path,
    *,
    order: np.ndarray | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write a Parquet or Arrow file, as the suffix says."""
    require_flat(frame)
    if order is not None:
        frame = frame[order]
    with replace_file(path) as sibling:
        if path.suffix.lower() == ".parquet":
            frame.write_parquet(sibling)
        else:
            frame.write_ipc(sibling)
    if progress:
        progress(frame.height, frame.height)
    return {"records": frame.height, "escaped_cells": 0}
