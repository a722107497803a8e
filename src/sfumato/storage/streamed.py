"""The records of a release that are too many for memory, written and checked batch by batch.

The bytes are those that the same release from memory has: the order of the rows follows from key,
plan and original alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import polars as pl

from sfumato.data import Dataset
from sfumato.data.identity import digest
from sfumato.data.stream import Stream
from sfumato.engines.streaming import LARGE, StreamingEngine
from sfumato.io import Batches, frames
from sfumato.kernels.arrays import Words
from sfumato.randomness import encrypt
from sfumato.release import Release


class Digest:
    """A digest of records in their order, whatever the batches they come in."""

    def __init__(self) -> None:
        self._total = hashlib.sha256()

    def add(self, batch: pl.DataFrame) -> None:
        """The next records."""
        self._total.update(digest(batch.get_columns()).tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Digest) and self._total.digest() == other._total.digest()

    __hash__ = None  # type: ignore[assignment]  # it changes with every batch


def batches_to_write(release: Release, folder: Path) -> Batches:
    """The records as `frame_to_write` gives them, in the order of the release.

    `folder` is where they lie meanwhile, in a file without a name.
    """
    data = release.dataset
    types = _choose_types(data)

    def read() -> Iterator[pl.DataFrame]:
        for batch in _read_in_order(release, folder):
            yield pl.DataFrame(
                [_convert(frames.get_column(batch, name), types[name]) for name in data.columns]
            )

    return Batches(pl.Schema(types), len(data), read)


def _read_in_order(release: Release, folder: Path) -> Iterator[pl.DataFrame]:
    stream, names = Stream.of(release.dataset), list(release.dataset.columns)
    if release.plan.release.keep_order:
        for _, batch in stream.read(names):
            yield batch
        return
    identity, subkey = release.dataset.identity, release.key.subkey("order", release.arrangement)

    def make_keys(rows: slice) -> Words:
        return encrypt(identity.take(rows).ids(release.key), subkey)

    yield from stream.arrange(names, make_keys, size=LARGE, folder=folder)


def _is_whole(values: pl.Series) -> bool:
    """Whether all values are whole numbers, or midnights: as such they are written."""
    present = values.drop_nulls()
    narrow = present.cast(_narrow(values.dtype), strict=False)
    return not narrow.null_count() and bool((narrow.cast(values.dtype) == present).all())


def _narrow(dtype: pl.DataType) -> pl.DataType:
    return pl.Int64() if dtype.is_float() else pl.Date()


def _choose_types(data: Dataset) -> dict[str, pl.DataType]:
    types = {name: data.dtype(name) for name in data.columns}
    candidates = [
        name
        for name, dtype in types.items()
        if (data.schema[name].kind == "integer" and dtype.is_float())
        or (isinstance(dtype, pl.Datetime) and dtype.time_zone is None)
    ]
    # Codes for missing are written too.
    shown = replace(data, schema=data.schema.changed(candidates, missing=()))

    def look(batch: pl.DataFrame) -> list[bool]:
        return [_is_whole(values) for values in batch]

    parts = StreamingEngine().gather(shown, look, reads=candidates) if candidates else []
    whole = zip(candidates, zip(*parts, strict=True), strict=bool(parts))
    return types | {name: _narrow(types[name]) for name, columns in whole if all(columns)}


def _convert(values: pl.Series, dtype: pl.DataType) -> pl.Series:
    converted = values.cast(dtype)
    return converted + 0.0 if dtype.is_float() else converted  # minus zero is zero


def digest_batches(batches: Batches, total: Digest) -> Batches:
    """The same batches, which are digested as they are read."""

    def read() -> Iterator[pl.DataFrame]:
        for batch in batches.read():
            total.add(batch)
            yield batch

    return replace(batches, read=read)


def digest_file(data: Dataset, types: Mapping[str, pl.DataType]) -> Digest:
    """The digest of the records in a file, read as they were written."""
    total = Digest()
    for _, batch in Stream.of(data).read(list(data.columns)):
        total.add(batch.cast(pl.Schema(types)))
    return total
