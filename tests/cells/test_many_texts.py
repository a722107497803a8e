"""Texts of more records than are worked on at a time."""

from __future__ import annotations

import numpy as np
import polars as pl

import sfumato as sf
from sfumato.cells.codes import encode
from sfumato.io.frames import forget_hidden_cells
from sfumato.kernels.memory import PART
from sfumato.pairs.unchanged import mark_unchanged

ROWS = PART + 5


def test_codes_follow_the_first_appearance_in_any_part():
    values = pl.Series(["b", None, "a"] * (PART // 3) + ["a", "c", "b", None, "d"])
    coded = encode(values, order="appearance")
    assert coded.levels.to_list() == ["b", "a", "c", "d"]
    codes = pl.Series(coded.codes)
    assert coded.levels.gather(codes.set(codes < 0, None)).equals(values, check_names=False)


def test_cells_written_as_text_are_compared_in_every_part():
    ages = np.arange(ROWS) % 90
    texts = pl.Series("age", ages).cast(pl.String)
    generalised = np.isin(np.arange(ROWS), [0, PART - 1, PART, ROWS - 1])
    shown = texts.set(pl.Series(generalised), "[0;89]")
    schema = sf.Schema({"age": "quasi"})
    original = sf.Dataset(pl.DataFrame({"age": ages}), schema)
    released = sf.Dataset(pl.DataFrame([shown]), schema)
    assert np.array_equal(mark_unchanged(original, released, "age"), ~generalised)


def test_blanked_texts_are_forgotten_in_every_part():
    blank = np.isin(np.arange(ROWS), [0, PART, ROWS - 1])
    texts = pl.Series("text", ["a text beyond twelve bytes"] * ROWS)
    held = texts.set(pl.Series(blank), "secret of somebody").set(pl.Series(blank), None)
    assert b"somebody" in _read_buffers(held)
    clean = forget_hidden_cells(held.to_frame())["text"]
    assert clean.equals(held)
    assert b"somebody" not in _read_buffers(clean)


def _read_buffers(column: pl.Series) -> bytes:
    chunks = (chunk.to_arrow() for chunk in column.get_chunks())
    return b"".join(bytes(buffer) for chunk in chunks for buffer in chunk.buffers() if buffer)
