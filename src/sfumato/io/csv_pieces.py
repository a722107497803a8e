"""Batches of a column joined into one piece as they come, so that no column is held twice.

One piece matters: gathering records from a column in many pieces costs ten times as much,
and joining at the end costs the memory of the pieces and the whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from sfumato.kernels import memory

_INLINE = 12  # bytes up to which Arrow keeps a text within its view

# How Arrow holds a cell. A text is a view of four words: length, three of the text itself
# or its beginning, the number of its buffer and its place there.
_WORDS: dict[type[pl.DataType], tuple[Any, int]] = {
    pl.String: (np.int32, 4),
    pl.Int64: (np.int64, 1),
    pl.Float64: (np.float64, 1),
    pl.Date: (np.int32, 1),
    pl.Datetime: (np.int64, 1),
}


class Pieces:
    """A column that grows batch by batch in one run of memory.

    The bytes of long texts are never copied: only the numbers of their buffers are shifted.
    """

    def __init__(self, dtype: pl.DataType) -> None:
        self.dtype = dtype
        words, per_cell = _WORDS.get(type(dtype), (bool, 1))
        self._cells = np.empty((0, per_cell), words)
        self._valid: np.ndarray | None = None
        self._buffers: list[pa.Buffer] = []
        self.height = 0

    def append(self, batch: pl.Series, *, room: int = 0) -> None:
        """Add a batch; `room` is how many cells the column may get in all."""
        self._cells = self._grown(self._cells, len(batch), room)
        if self._valid is not None:
            self._valid = self._grown(self._valid, len(batch), room)
        for piece in batch.get_chunks():
            self._append(piece.to_arrow(compat_level=pl.CompatLevel.newest()))

    def _grown(self, cells: np.ndarray, more: int, room: int) -> np.ndarray:
        needed = self.height + more
        if needed <= len(cells):
            return cells
        shape = (max(needed, room, len(cells) * 3 // 2), *cells.shape[1:])
        wider = memory.room(shape, cells.dtype)
        wider[: self.height] = cells[: self.height]
        return wider

    def _append(self, piece: pa.Array) -> None:
        here = slice(self.height, self.height + len(piece))
        validity, values, *buffers = piece.buffers()
        cells = self._cells[here]
        within = slice(piece.offset, piece.offset + len(piece))
        cells[:] = _unpacked(values, cells.dtype).reshape(-1, cells.shape[1])[within]
        if piece.null_count:
            if self._valid is None:
                self._valid = np.ones(len(self._cells), bool)
            self._valid[here] = _unpacked(validity, np.dtype(bool))[within]
            cells[~self._valid[here]] = 0
        elif self._valid is not None:
            self._valid[here] = True
        if buffers and self._buffers:
            cells[:, 2] += (cells[:, 0] > _INLINE) * np.int32(len(self._buffers))
        self._buffers += buffers
        self.height = here.stop

    def exact_as_floats(self, limit: int) -> bool:
        """Whether whole numbers stay what they are as floats."""
        cells = self._cells[: self.height]
        return not len(cells) or bool(cells.min() > -limit and cells.max() < limit)

    def to_floats(self) -> None:
        """Turn whole numbers into floats where they stand."""
        floats = self._cells.view(np.float64)
        floats[: self.height] = self._cells[: self.height]
        self._cells, self.dtype = floats, pl.Float64()

    def join(self, name: str) -> pl.Series:
        """The whole column in one piece, in the memory it was gathered in."""
        valid = None if self._valid is None else self._valid[: self.height]
        if self.dtype == pl.Boolean:
            flags = pl.Series(name, self._cells[: self.height, 0], dtype=pl.Boolean)
            return flags if valid is None else flags.set(pl.Series(~valid), None)
        buffers = [
            None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little")),
            pa.py_buffer(self._cells),
            *self._buffers,
        ]
        empty = pl.Series([], dtype=self.dtype).to_arrow(compat_level=pl.CompatLevel.newest())
        array = pa.Array.from_buffers(empty.type, self.height, buffers)
        return pl.Series(name, array)


def _unpacked(buffer: pa.Buffer, dtype: np.dtype[Any]) -> np.ndarray:
    """The cells in a buffer; Arrow keeps flags as single bits."""
    if dtype.kind == "b":
        bits = np.unpackbits(np.frombuffer(buffer, np.uint8), bitorder="little")
        return bits.astype(bool)
    return np.frombuffer(buffer, dtype)
