"""Many short columns are looked at together, and come out as one by one."""

from __future__ import annotations

import time
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.io import csv_reader, read_table
from sfumato.schema.inference import profile

CELLS = st.sampled_from(
    ["", "NA", "-", "nan", "NaN", "0", "1", "-1", "007", "+5", "-0", "-01", "0.5", ".5", "1e3",
     "12,5", "1,234", "true", "FALSE", "2020-01-31", "2020-1-31", "2020-02-30", "31.01.2020",
     "2020-01-31 10:00", "2020-01-31T10:00:00Z", "9007199254740993", "99999999999999999999", "inf",
     " 5", "5 ", "abc", "a b", "[1;2]", "*", "{a;b}", "x@y.org", "1 234", "1e400", "'5"]
)  # fmt: skip


@settings(max_examples=25)
@given(columns=st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=12))
def test_together_as_one_by_one(columns: list[list[str]], tmp_path_factory) -> None:
    path = tmp_path_factory.mktemp("wide") / "x.csv"
    frame = pl.DataFrame({f"v{index}": cells for index, cells in enumerate(columns)})
    frame.insert_column(0, pl.Series("w", ["a", "b", "c"])).write_csv(path, quote_style="always")
    with pytest.MonkeyPatch.context() as patch:
        results = []
        for wide in (1, 10_000):
            patch.setattr(csv_reader, "_WIDE", wide)
            patch.setattr(profile, "_WIDE", wide)
            table = read_table(path)
            results.append((table, sf.Schema.infer(table.frame)))
    (together, schema), (single, expected) = results
    assert together.frame.schema == single.frame.schema
    assert together.frame.equals(single.frame)
    assert dict(together.source.columns) == dict(single.source.columns)
    assert list(schema.items()) == list(expected.items())


@pytest.mark.parametrize("width", [10_000])
def test_ten_thousand_columns_take_seconds(tmp_path: Path, width: int) -> None:
    path = tmp_path / "wide.csv"
    header = ",".join(f"v{index}" for index in range(width))
    row = ",".join(("1", "2.5", "x", "")[index % 4] for index in range(width))
    path.write_text("\n".join([header, *[row] * 5]) + "\n")
    started = time.process_time()
    assert len(sf.Schema.infer(sf.read(path).frame)) == width
    assert time.process_time() - started < 20  # it was some 50 s
