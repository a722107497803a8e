"""Files larger than memory: a lazy frame of what is in them, and how it is read."""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from sfumato.errors import DataError
from sfumato.io import read_table
from sfumato.io.csv_reader import list_names
from sfumato.io.damage import refuse_damage
from sfumato.io.declared_types import require_flat, require_present
from sfumato.io.room import get_free_memory
from sfumato.io.source import Progress, Reading, Source, get_kind

SHARE = 0.25
"""Of the free memory that a file may take before it is rather read batch by batch."""
_SWELLS = {".parquet": 5, ".arrow": 2, ".feather": 2, ".ipc": 2}
"""How many times as large a file may be in memory, with what is made of it; text is 3 times."""
_TEXT = (".csv", ".tsv", ".txt", ".gz")


def is_large(path: Path) -> bool:
    """Whether a file is rather read batch by batch: it would take a quarter of the free memory."""
    if path.is_dir():
        size, suffix = sum(part.stat().st_size for part in path.glob("*.parquet")), ".parquet"
    elif path.is_file():
        size, suffix = path.stat().st_size, path.suffix.lower()
    else:
        return False
    if suffix not in (*_SWELLS, *_TEXT):
        return False
    return size * _SWELLS.get(suffix, 3) > SHARE * get_free_memory()


def scan_table(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> tuple[pl.LazyFrame, Source]:
    """The records of a Parquet, Arrow or CSV file, or of a folder of Parquet files."""
    suffix = path.suffix.lower()
    if not path.exists():
        raise DataError(f"there is no file '{path}'.", hint="check the name and the folder.")
    if path.is_file() and suffix in _TEXT:
        return _scan_text(path, columns, progress, options)
    if options:
        raise DataError(
            f"this format has no option '{next(iter(options))}' when it is read batch by batch.",
            hint="leave it out, or read the file whole.",
        )
    if path.is_dir() or suffix == ".parquet":
        title, lazy = "Parquet", _scan_parquet(path)
    elif suffix in _SWELLS:
        title, lazy = "Arrow", _scan_arrow(path)
    else:
        raise DataError(
            f"files that end in '{suffix}' cannot be read batch by batch.",
            hint="supported are CSV, Parquet and Arrow, and folders of Parquet files.",
        )
    if columns is not None:
        require_present(lazy.collect_schema().names(), columns)
        lazy = lazy.select(list(columns))
    require_flat(pl.DataFrame(schema=lazy.collect_schema()))
    readings = {
        name: Reading(type=get_kind(dtype), reason=f"its type in the {title} file")
        for name, dtype in lazy.collect_schema().items()
    }
    return lazy, Source(format=title.lower(), path=path, columns=readings)


def _scan_parquet(path: Path) -> pl.LazyFrame:
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise DataError(f"there is no Parquet file in '{path}'.", hint="is it the right folder?")
    damage = DataError(
        f"'{path}' is not a whole Parquet file.", hint="was it copied or downloaded in full?"
    )
    with refuse_damage(damage):
        lazy = pl.scan_parquet([file.absolute() for file in files], glob=False)
        lazy.collect_schema()
    return lazy


def _scan_arrow(path: Path) -> pl.LazyFrame:
    """Read by the library of the format's makers, which checks every buffer before use."""
    import pyarrow as pa

    damage = DataError(
        f"'{path}' is not a whole Arrow file.", hint="was it copied or downloaded in full?"
    )
    with refuse_damage(damage), pa.OSFile(str(path)) as file:
        empty = pl.DataFrame(pl.from_arrow(pa.ipc.open_file(file).schema.empty_table()))

    def source(
        columns: list[str] | None, predicate: pl.Expr | None, most: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        remaining = most
        with pa.OSFile(str(path)) as file:
            reader = pa.ipc.open_file(file)
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                batch.validate(full=True)
                part = pl.DataFrame(pl.from_arrow(batch))
                part = part if remaining is None else part.head(remaining)
                part = part if columns is None else part.select(columns)
                remaining = None if remaining is None else remaining - part.height
                yield part if predicate is None else part.filter(predicate)

    return register_io_source(source, schema=empty.schema)


def _scan_text(
    path: Path, columns: Sequence[str] | None, progress: Progress | None, options: dict[str, Any]
) -> tuple[pl.LazyFrame, Source]:
    """Types are found as when the file is read whole, for some of the variables at a time."""
    names = list(columns) if columns is not None else list_names(path, **options)
    room = max(1, int(SHARE * get_free_memory()))
    groups = min(len(names), 1 + path.stat().st_size * 4 // room)
    scans, sources = list[pl.LazyFrame](), list[Source]()
    for group in range(groups):
        some = names[group * len(names) // groups : (group + 1) * len(names) // groups]
        table = read_table(path, columns=some, progress=progress, **options)
        file = tempfile.TemporaryFile()  # noqa: SIM115 - it is read as long as the process lives
        table.frame.write_parquet(file)
        file.flush()
        atexit.register(file.close)
        scans.append(pl.scan_parquet(f"/proc/self/fd/{file.fileno()}", glob=False))
        sources.append(table.source)
        del table
    lazy = scans[0] if len(scans) == 1 else pl.concat(scans, how="horizontal")
    return lazy, _join_sources(sources)


def _join_sources(sources: Sequence[Source]) -> Source:
    """How the variables of all groups were read."""
    options: dict[str, Any] = {}
    for source in sources:
        for option, value in source.options.items():
            known = options.get(option)
            options[option] = {**known, **value} if isinstance(known, dict) else value
    return replace(
        sources[0],
        options=options,
        columns={name: reading for source in sources for name, reading in source.columns.items()},
        notes=tuple(dict.fromkeys(note for source in sources for note in source.notes)),
    )
