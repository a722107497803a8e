"""Records on the disk for a while: in a file without a name, which ends with the process.

Nobody else can open it, and nothing of it is left behind, not even by a process that is killed.
"""

from __future__ import annotations

import io
import tempfile
import weakref
from pathlib import Path

import numpy as np
import polars as pl

from sfumato.kernels.arrays import AnyIntegers


class Spill:
    """Records put into buckets on the disk, and taken out bucket by bucket.

    Parameters
    ----------
    buckets : how many there are, at most 65,536.
    folder : on whose disk. Default: that of temporary files (`$TMPDIR`).
    """

    def __init__(self, buckets: int, folder: Path | None = None) -> None:
        # On Linux it never has a name; elsewhere it loses it at once, or when it is closed.
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed with the object
        self.close = weakref.finalize(self, self._file.close)
        """Give the disk back; done with the object at the latest."""
        self._pieces: list[list[tuple[int, int]]] = [[] for _ in range(buckets)]
        self._empty: pl.DataFrame | None = None

    def __len__(self) -> int:
        return len(self._pieces)

    def add(self, records: pl.DataFrame, bucket: AnyIntegers) -> None:
        """Put each record into its bucket; within one they keep their order."""
        if self._empty is None:
            self._empty = records.clear()
        small = bucket.astype(np.uint16)
        order = np.argsort(small, kind="stable")
        ends = np.cumsum(np.bincount(small, minlength=len(self._pieces)))
        arranged = records[order]
        for number, end in enumerate(ends.tolist()):
            first = int(ends[number - 1]) if number else 0
            if first == end:
                continue
            buffer = io.BytesIO()
            arranged[first:end].rechunk().write_ipc_stream(buffer, compression="lz4")
            self._pieces[number].append((self._file.tell(), buffer.tell()))
            self._file.write(buffer.getbuffer())

    def take(self, number: int) -> pl.DataFrame:
        """The records of a bucket, in the order in which they came."""
        if not self._pieces[number]:
            return pl.DataFrame() if self._empty is None else self._empty
        parts = []
        for start, size in self._pieces[number]:
            self._file.seek(start)
            parts.append(pl.read_ipc_stream(self._file.read(size)))
        self._file.seek(0, io.SEEK_END)
        return pl.concat(parts, rechunk=True)
