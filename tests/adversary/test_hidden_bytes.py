"""SECURITY.md: "a release that shows more than its manifest says" is a vulnerability.

A blank cell of an Arrow column is a bit in a mask, and the bytes of the value may still lie beneath
it. Columns of text also keep the buffers they were made from. The attacker here looks for bytes in
the file, and takes a column's buffers apart.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.plan import Writing

KEY = sf.Key(bytes(range(32)))
SHORT, LONG, LEVEL = "Quedlinburg", "Wernigerode am Brocken, im Harz", "Xanten-Birten"
HEIGHT = 1.987654321
SECRETS = [SHORT.encode(), LONG.encode(), LEVEL.encode(), np.float64(HEIGHT).tobytes()]
FORMATS = ["csv", "parquet", "arrow", "xlsx", "dta", "sav", "xpt"]


def people(records: int = 120) -> pl.DataFrame:
    """Three towns and a height that one person has, among few that many have."""
    draw = np.random.default_rng(3)
    towns = draw.choice(["Ulm", "Castrop-Rauxel-Habinghorst"], records).tolist()
    levels = draw.choice(["a", "b"], records).tolist()
    heights = np.full(records, 1.5)
    towns[:2], levels[2], heights[3] = [SHORT, LONG], LEVEL, HEIGHT
    return pl.DataFrame({"town": towns, "level": levels, "height": heights, "ill": "flu"})


def make(library: str) -> Any:
    frame = people().with_columns(pl.col("level").cast(pl.Categorical))
    if library == "pandas":
        return frame.to_pandas()
    return frame.to_arrow() if library == "pyarrow" else frame


def protect(frame: Any, file_format: Any = "arrow") -> sf.Release:
    roles: dict[str, Any] = dict.fromkeys(("town", "level", "height"), "quasi")
    schema = sf.Schema(roles | {"ill": "sensitive"})
    plan = sf.Plan(
        schema=schema,
        steps=[sf.methods.Suppress(k=5)],
        targets={"k.min": 5},
        release=Writing(format=file_format),
    )
    return sf.protect(sf.Dataset(frame), plan, key=KEY)


def list_public_bytes(folder: Path) -> bytes:
    content = b""
    for path in folder.rglob("*"):
        if path.is_file() and "custody" not in path.relative_to(folder).parts:
            content += path.read_bytes()
            if path.suffix == ".xlsx":
                with zipfile.ZipFile(path) as parts:
                    content += b"".join(parts.read(name) for name in parts.namelist())
    return content


@pytest.mark.parametrize("library", ["polars", "pandas", "pyarrow"])
@pytest.mark.parametrize("file_format", FORMATS)
def test_no_public_file_holds_a_blanked_value(tmp_path, library, file_format):
    folder = protect(make(library), file_format).write(tmp_path / "release")
    content = list_public_bytes(folder)
    assert not [secret for secret in SECRETS if secret in content]


def list_buffers(frame: Any) -> bytes:
    table = frame.to_arrow() if isinstance(frame, pl.DataFrame) else frame
    chunks = [chunk for column in table.columns for chunk in column.chunks]
    chunks += [chunk.dictionary for chunk in chunks if pa.types.is_dictionary(chunk.type)]
    return b"".join(
        buffer.to_pybytes() for chunk in chunks for buffer in chunk.buffers() if buffer is not None
    )


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_no_frame_in_memory_holds_a_blanked_value(library):
    content = list_buffers(protect(make(library)).data)
    assert not [secret for secret in SECRETS if secret in content]


def test_cells_that_somebody_blanked_before_are_not_written(tmp_path):
    """The mask of a pandas column hides a value from pandas, not from the file."""
    number = 987_654_321_987
    values = np.full(120, 7)
    values[5] = number
    mask = np.zeros(120, dtype=bool)
    mask[:10] = True
    frame = people().select("level").with_columns(level=pl.lit("a")).to_pandas()
    frame["number"] = pd.arrays.IntegerArray(values, mask)
    schema = sf.Schema({"level": "quasi", "number": "quasi"})
    plan = sf.Plan(schema=schema, steps=[], release=Writing(format="arrow"))
    folder = sf.protect(sf.Dataset(frame), plan, key=KEY).write(tmp_path / "release")
    assert np.int64(number).tobytes() not in (folder / "data.arrow").read_bytes()


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_records_that_were_cut_off_before_are_not_written(tmp_path, library):
    """A slice of a frame holds on to the buffers of the whole."""
    frame: Any = people()
    frame = (frame if library == "polars" else frame.to_arrow())[5:]
    plan = sf.Plan(
        schema=sf.Schema(dict.fromkeys(people().columns, "quasi")),
        steps=[],
        release=Writing(format="arrow"),
    )
    release = sf.protect(sf.Dataset(frame), plan, key=KEY)
    content = (release.write(tmp_path / "release") / "data.arrow").read_bytes()
    if library == "pyarrow":
        content += list_buffers(release.data)
    assert not [secret for secret in SECRETS if secret in content]


def test_blanks_and_values_stay_as_they_are(tmp_path):
    frame = people().with_columns(
        day=pl.when(pl.int_range(pl.len()) % 3 > 0).then(pl.date(2020, 5, 17)),
        yes=pl.when(pl.int_range(pl.len()) % 4 > 0).then(pl.col("town") == "Ulm"),
        price=pl.when(pl.int_range(pl.len()) % 5 > 0).then(pl.lit("1.25").cast(pl.Decimal(9, 2))),
        nothing=pl.lit(None, dtype=pl.String),
    )
    plan = sf.Plan(
        schema=sf.Schema(dict.fromkeys(frame.columns, "other")),
        steps=[],
        release=Writing(format="arrow", keep_order=True),
    )
    for given in (frame, frame.to_arrow()):
        release = sf.protect(sf.Dataset(given), plan, key=KEY)
        folder = release.write(tmp_path / type(given).__name__)
        read: Any = pl.from_arrow(pa.ipc.open_file(folder / "data.arrow").read_all())
        assert read.equals(frame)
        assert read.schema == frame.schema
        data: Any = (
            release.data if isinstance(release.data, pl.DataFrame) else pl.from_arrow(release.data)
        )
        assert data.equals(frame)
        assert data.schema == frame.schema
