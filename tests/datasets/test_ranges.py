"""Text files of quasi-identifiers and ranges, with one confidential variable at the end."""

from __future__ import annotations

import datetime as dt
import gzip
import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from tests.conftest import LIBRARIES, drawn, in_library

import sfumato as sf
from sfumato.errors import DataError, SchemaError

HEADER = "oshpd_id,age_yrs,sex,patzip,los,charge\n"


def put(folder: Path, text: str, name: str = "people.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_as_the_study_publishes_them(tmp_path):
    text = HEADER + "380929,25,1,94928,18,220449\n380929,[24;28],*,937**,[0;7],1500\n*,*,2,*,1,0\n"
    path = put(tmp_path, text)
    data = sf.datasets.read_ranges(path)
    assert data.schema.having("quasi") == ("oshpd_id", "age_yrs", "sex", "patzip", "los")
    assert data.schema.having("sensitive") == ("charge",)
    assert {column.kind for column in data.schema.values()} == {"integer"}
    assert data.frame["charge"].dtype == pl.Int64
    assert data.frame["age_yrs"].to_list() == ["25", "[24;28]", "*"]
    # The record itself, and those that fit it: what the measures are for.
    told = sf.risk.Reidentification().measure(data)
    assert told.records["unique"].to_list() == [True, True, True]
    again = sf.datasets.write_ranges(data, tmp_path / "again.csv")
    assert again.read_text() == text


def test_kinds_by_what_every_cell_is(tmp_path):
    text = (
        "whole,range,decimal,wide,day,days,name,flag,stars,charge\n"
        "1,[1;2],1.5,[0.5;2],2020-01-31,[2020-01-01;2020-12-31],a,true,*,1.25\n"
        ",{1;3},2,*,2020-02-01,*,[x;y],false,*,\n"
    )
    data = sf.datasets.read_ranges(put(tmp_path, text))
    kinds = {name: column.kind for name, column in data.schema.items()}
    assert kinds == {
        "whole": "integer", "range": "integer", "decimal": "continuous", "wide": "continuous",
        "day": "date", "days": "date", "name": "nominal", "flag": "nominal", "stars": "nominal",
        "charge": "continuous",
    }  # fmt: skip
    assert data.frame["whole"].to_list() == [1, None]
    assert data.frame["day"].to_list() == [dt.date(2020, 1, 31), dt.date(2020, 2, 1)]


def test_codes_keep_their_zeros(tmp_path):
    data = sf.datasets.read_ranges(put(tmp_path, "zip,x\n01067,1\n010**,2\n"))
    assert data.frame["zip"].to_list() == ["01067", "010**"]


@drawn("library", LIBRARIES)
def test_every_library_writes_the_same_file(library, tmp_path):
    frame = pl.DataFrame(
        {
            "charge": [1.5, None, 3.0],
            "age": ["-5", "[-9;-1]", "*"],
            "town": pl.Series(["a,b", None, "=1+1"], dtype=pl.Categorical),
        }
    )
    roles = {"age": "quasi", "town": "quasi", "charge": "sensitive"}
    data = sf.Dataset(in_library(frame, library), sf.Schema(roles))  # type: ignore[arg-type]
    written = sf.datasets.write_ranges(data, tmp_path / "x.txt").read_text()
    assert written == 'age,town,charge\n-5,"a,b",1.5\n[-9;-1],,\n*,\'=1+1,3.0\n'
    back = sf.datasets.read_ranges(tmp_path / "x.txt")
    assert back.frame["town"].to_list() == ["a,b", None, "=1+1"]
    assert back.schema["age"].kind == "integer"


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    frame = pl.DataFrame({"age": ["[1;2]"], "x": [1]})
    data = sf.Dataset(frame, sf.Schema({"age": "quasi", "x": "sensitive"}))
    path = sf.datasets.write_ranges(data, tmp_path / "x.csv.gz")
    assert gzip.decompress(path.read_bytes()) == b"age,x\n[1;2],1\n"
    assert_frame_equal(sf.datasets.read_ranges(path).frame, frame)
    with pytest.raises(DataError, match="exists already"):
        sf.datasets.write_ranges(data, path)
    sf.datasets.write_ranges(data, path, overwrite=True)
    assert [one.name for one in tmp_path.iterdir()] == ["x.csv.gz"]
    with pytest.raises(DataError, match="does not exist"):
        sf.datasets.write_ranges(data, tmp_path / "nowhere" / "x.csv")


def test_what_such_a_file_cannot_hold(tmp_path):
    frame = pl.DataFrame({"id": ["p"], "age": [30], "x": [1], "y": [2]})
    for roles in (
        {"id": "direct", "age": "quasi", "x": "sensitive", "y": "quasi"},
        {"id": "quasi", "age": "quasi", "x": "sensitive", "y": "sensitive"},
        {"id": "quasi", "age": "quasi", "x": "quasi", "y": "quasi"},
        {"age": "quasi", "x": "sensitive"},
    ):
        with pytest.raises(SchemaError, match="one that is sensitive"):
            sf.datasets.write_ranges(sf.Dataset(frame, sf.Schema(roles)), tmp_path / "x.csv")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="one variable"):
        sf.datasets.read_ranges(put(tmp_path, "age\n1\n"))
    with pytest.raises(DataError, match="does not look like"):
        sf.datasets.read_ranges(tmp_path / "x.parquet")
    with pytest.raises(DataError, match="does not look like"):
        sf.datasets.write_ranges(sf.Dataset(frame), tmp_path / "x.tsv")


whole = st.integers(-(10**6), 10**6)
numbers = st.one_of(
    st.none(),
    whole.map(str),
    st.tuples(whole, whole).map(lambda e: f"[{min(e)};{max(e)}]"),
    st.sets(whole, min_size=1, max_size=3).map(lambda s: "{" + ";".join(map(str, s)) + "}"),
    st.just("*"),
    st.just("937**"),
)
signs = st.text(alphabet="aZ ,;\"'=+-@[]{}*\n\r\té😀\\", max_size=6)
# A letter at the end: what looks like a number or a date comes back as one.
names = st.one_of(st.none(), st.just(""), signs.map(lambda text: f"{text}x"))


@given(st.lists(st.tuples(numbers, names, st.none() | whole), min_size=1, max_size=8))
@settings(max_examples=150)
def test_what_is_written_is_what_is_read(records):
    types = {"age, in years": pl.String, "=town": pl.String, 'the "charge"': pl.Int64}
    first = ("[1;2]", "x", 1)  # of each variable one cell that shows what it is
    frame = pl.DataFrame([first, *records], schema=types, orient="row")
    roles = dict(zip(types, ("quasi", "quasi", "sensitive"), strict=True))
    data = sf.Dataset(frame, sf.Schema(roles))  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as folder:
        path = sf.datasets.write_ranges(data, Path(folder) / "x.csv")
        back = sf.datasets.read_ranges(path)
        assert_frame_equal(back.frame, frame)
        kinds = [column.kind for column in back.schema.values()]
        assert kinds == ["integer", "nominal", "integer"]
        once = path.read_bytes()
        sf.datasets.write_ranges(back, path, overwrite=True)
        assert path.read_bytes() == once


@drawn("library", LIBRARIES)
def test_a_plain_frame_is_refused_with_a_hint(tmp_path, library):
    frame = in_library(pl.DataFrame({"age": [26], "charge": [100]}), library)
    with pytest.raises(DataError, match=r"needs a Dataset.*Hint: for instance sf.Dataset\("):
        sf.datasets.write_ranges(frame, tmp_path / "people.csv")
    assert not list(tmp_path.iterdir())


def test_the_schema_says_that_the_last_column_was_taken_as_confidential(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("age,charge\n26,100\n")
    schema = sf.datasets.read_ranges(path).schema
    assert "last column as confidential" in schema["charge"].reason
    assert "before the last" in schema["age"].reason
