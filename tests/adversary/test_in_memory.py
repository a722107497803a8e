"""Claim: "`release.data` holds the protected values and nothing else: no index, no notes, no levels
and no cells of people who are not in it."

The adversary gets the frame as a notebook would pass it on: pickled, or as Arrow or Parquet bytes.
"""

from __future__ import annotations

import io
import pickle

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sfumato as sf

SECRETS = [f"Zoe Secret {i:03d}" for i in range(60)]
FRAME = pl.DataFrame(
    {"name": SECRETS, "sex": ["f", "m"] * 30, "site": ["north", "south", "east"] * 20}
)
SCHEMA = sf.Schema({"name": "direct", "sex": "quasi", "site": "quasi"})
PLAN = sf.Plan(schema=SCHEMA, steps=[sf.methods.Drop()])


def by_index() -> pd.DataFrame:
    return FRAME.to_pandas().set_index("name", drop=False)


def by_two_indices() -> pd.DataFrame:
    frame = FRAME.to_pandas()
    frame.index = pd.MultiIndex.from_arrays([SECRETS, range(60)], names=["Zoe Secret", "n"])
    return frame


def with_column_label() -> pd.DataFrame:
    frame = FRAME.to_pandas()
    frame.columns.name = "Zoe Secret"
    frame.attrs = {"who": "Zoe Secret"}
    return frame


def with_levels() -> pd.DataFrame:
    frame = FRAME.to_pandas()
    frame["site"] = pd.Categorical(frame["site"], ["north", "east", "south", "Zoe Secret"])
    return frame


def arrow_metadata() -> pa.Table:
    table = pa.Table.from_pandas(by_index(), preserve_index=False)
    fields = [field.with_metadata({"who": "Zoe Secret"}) for field in table.schema]
    return table.cast(pa.schema(fields, metadata={"path": "Zoe Secret"}))


def arrow_levels() -> pa.Table:
    table = FRAME.to_arrow()
    levels = pa.DictionaryArray.from_arrays([0, 1, 2] * 20, ["north", "south", "east", *SECRETS])
    return table.set_column(2, "site", levels)


def arrow_slice() -> pa.Table:
    sites = ["north", "south", "east"] * 20 + SECRETS
    more = pa.table({"name": SECRETS * 2, "sex": ["f", "m"] * 60, "site": sites})
    return more.slice(0, 60)


def polars_levels() -> pl.DataFrame:
    levels = pl.Enum(["Zoe Secret", "north", "south", "east"])
    return FRAME.with_columns(pl.col("site").cast(levels))


def polars_slice() -> pl.DataFrame:
    more = pl.DataFrame({"name": SECRETS, "sex": ["m"] * 60, "site": SECRETS})
    return pl.concat([FRAME, more], rechunk=True).head(60)


MAKERS = (
    by_index, by_two_indices, with_column_label, with_levels, arrow_metadata, arrow_levels,
    arrow_slice, polars_levels, polars_slice,
)  # fmt: skip


def serialise(frame) -> list[bytes]:
    out = [pickle.dumps(frame), repr(frame).encode()]
    if isinstance(frame, pd.DataFrame):
        frame = pa.Table.from_pandas(frame)
    if isinstance(frame, pa.Table):
        sink = io.BytesIO()
        with pa.ipc.new_file(sink, frame.schema) as writer:
            writer.write_table(frame)
        # What the buffers hold, seen through the slice or not.
        buffers = [
            buffer.to_pybytes()
            for column in frame.columns
            for chunk in column.chunks
            for buffer in chunk.buffers()
            if buffer is not None
        ]
        return [*out, sink.getvalue(), *buffers]
    sink = io.BytesIO()
    frame.write_ipc(sink)
    return [*out, sink.getvalue()]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_nothing_of_anybody_hangs_on_the_frame(make):
    given = make()
    assert any(b"Secret" in content for content in serialise(given))
    release = sf.protect(sf.Dataset(given, SCHEMA), PLAN, key=bytes(32))
    for frame in (release.data, release.dataset.frame):
        assert not any(b"Secret" in content for content in serialise(frame))
        assert type(frame) is type(given)
    sites = release.dataset.column("site").cast(pl.String).to_list()
    assert sites == FRAME["site"].to_list()
