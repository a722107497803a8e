"""Many short columns are looked at together, and come out as one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.io import csv_reader, csv_types, read_table
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
        for cells, wide in ((1 << 16, 1), (1, 10_000)):
            patch.setattr(csv_types, "_TOGETHER", cells)
            patch.setattr(profile, "_WIDE", wide)
            table = read_table(path)
            results.append((table, sf.Schema.infer(table.frame)))
    (together, schema), (single, expected) = results
    assert together.frame.schema == single.frame.schema
    assert together.frame.equals(single.frame)
    assert dict(together.source.columns) == dict(single.source.columns)
    assert list(schema.items()) == list(expected.items())


def test_a_wide_file_is_looked_at_in_few_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither reading nor looking takes a call for each column, however long its records."""
    width, calls, looks = 3000, 0, 0
    path = tmp_path / "wide.csv"
    header = ",".join(f"v{index}" for index in range(width))
    cells = ("1", "2.5", "x", "2020-01-31", "true")
    row = ",".join(cells[index % 5] for index in range(width))
    path.write_text("\n".join([header, *[row] * 20]) + "\n")
    monkeypatch.setattr(csv_reader, "BATCH_BYTES", 1 << 16)

    parse_stack = csv_types._parse_stack

    def count_call(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return parse_stack(*arguments)

    def count_look(*_: object) -> None:
        nonlocal looks
        looks += 1

    monkeypatch.setattr(csv_types, "_parse_stack", count_call)
    monkeypatch.setattr(profile, "read_profile", count_look)
    data = sf.read(path)
    assert len(sf.Schema.infer(data.frame)) == width
    assert calls < 10
    assert looks == 0
    assert data.frame["v3"].dtype == pl.Date
    assert data.frame["v4"].dtype == pl.Boolean
