"""Text tables written: what goes in comes out, and a spreadsheet runs none of it."""

from __future__ import annotations

import tempfile
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from sfumato.errors import DataError
from sfumato.io import csv_reader, read_table, write_table
from sfumato.io.formulas import escape_name, unescape_name

NASTY = st.text(
    alphabet=st.one_of(
        st.sampled_from("\"',;\t|\n\r=+-@ ab0\uff1d"),
        st.characters(exclude_characters="\0", exclude_categories=["Cs"]),
    ),
    max_size=20,
)
CELLS = st.lists(st.tuples(st.none() | NASTY, st.none() | NASTY), max_size=12)


@settings(max_examples=120, deadline=None)
@given(cells=CELLS, suffix=st.sampled_from([".csv", ".tsv"]), size=st.sampled_from([30, 1 << 20]))
def test_any_text_comes_back(
    cells: list[tuple[str | None, str | None]], suffix: str, size: int
) -> None:
    frame = pl.DataFrame(cells, schema={"a": pl.String, "b": pl.String}, orient="row")
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_reader, "BATCH_BYTES", size)
        path = Path(folder) / f"x{suffix}"
        write_table(frame, path)
        delimiter = "\t" if suffix == ".tsv" else ","
        types = {"a": "text", "b": "text"}
        back = read_table(path, types=types, delimiter=delimiter, formulas="unescape")
    assert_frame_equal(back.frame, frame)


@settings(max_examples=60, deadline=None)
@given(
    cells=st.lists(st.none() | NASTY, max_size=12),
    name=NASTY.filter(str.strip).filter(lambda name: name[0] != "^"),
)
def test_any_single_variable_and_name_come_back(cells: list[str | None], name: str) -> None:
    frame = pl.DataFrame({name: cells}, schema={name: pl.String})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.csv"
        write_table(frame, path)
        back = read_table(path, types={name: "text"}, delimiter=",", formulas="unescape")
    assert_frame_equal(back.frame, frame)


@settings(max_examples=60, deadline=None)
@given(
    numbers=st.lists(
        st.tuples(
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.none() | st.floats(allow_nan=False),
            st.none() | st.booleans(),
            st.none() | st.dates(date(1000, 1, 1)),
            st.none() | st.datetimes(datetime(1000, 1, 1)),  # noqa: DTZ001 - local time on purpose
        ),
        min_size=1,
        max_size=10,
    ),
    decimal=st.sampled_from([".", ","]),
)
def test_typed_cells_come_back(numbers: list[tuple[object, ...]], decimal: str) -> None:
    schema: dict[str, pl.DataType | type[pl.DataType]] = {
        "i": pl.Int64,
        "f": pl.Float64,
        "b": pl.Boolean,
        "d": pl.Date,
        "t": pl.Datetime("us"),
    }
    frame = pl.DataFrame(numbers, schema=schema, orient="row")
    kinds = ["integer", "number", "boolean", "date", "datetime"]
    told = dict(zip(schema, kinds, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder) / "first.csv"
        first.write_text(f"a;b\n1{decimal}5;x\n")
        path = Path(folder) / "x.csv"
        write_table(frame, path, source=read_table(first).source)
        back = read_table(path, types=told, decimal=decimal, delimiter=";")
    assert_frame_equal(back.frame, frame, check_exact=True)


@given(name=NASTY)
def test_escaping_is_undone_exactly_and_leaves_nothing_dangerous(name: str) -> None:
    escaped = escape_name(name)
    assert unescape_name(escaped) == name
    assert not escaped.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))


def test_formulas_are_escaped_and_counted(tmp_path: Path) -> None:
    texts = ["=1+1", "+1", "-1", "@a", "\tx", "\rx", "'=1", "it's", "'", "a=1", "5", None]
    frame = pl.DataFrame({"=x": texts, "n": range(-6, 6), "c": ["-a"] * 12}).cast(
        {"c": pl.Categorical}
    )
    path = tmp_path / "x.csv"
    facts = write_table(frame, path)
    assert (facts["records"], facts["escaped_cells"]) == (12, 7 + 12)
    lines = path.read_text().splitlines()
    assert lines[0] == "'=x,n,c"
    assert lines[1] == "'=1+1,-6,'-a"
    back = read_table(path, formulas="unescape", types={"=x": "text"})
    assert back.frame["=x"].to_list() == texts


def test_formulas_refused_or_kept(tmp_path: Path) -> None:
    frame = pl.DataFrame({"x": ["=secret", "-1", "a"]})
    path = tmp_path / "x.csv"
    with pytest.raises(DataError, match="2 cells of 'x'") as raised:
        write_table(frame, path, formulas="refuse")
    assert "secret" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DataError, match="the name '@x'"):
        write_table(frame.select(pl.lit("a").alias("@x")), path, formulas="refuse")
    write_table(frame, path, formulas="keep")
    assert path.read_text() == "x\n=secret\n-1\na\n"
    with pytest.raises(DataError, match="did you mean 'escape'"):
        write_table(frame, path, formulas="escpae")  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("pieces", [1, 3])
def test_order_is_a_permutation_of_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pieces: int
) -> None:
    monkeypatch.setattr("sfumato.io.csv_writer.SLICE", 7)
    frame = pl.DataFrame({"i": range(60), "s": [f"text number {i}" for i in range(60)]})
    frame = pl.concat([frame[:20], frame[20:40], frame[40:]], rechunk=pieces == 1)
    order = np.random.default_rng(1).permutation(60)
    seen: list[tuple[int, int]] = []
    path = tmp_path / "x.csv"
    write_table(frame, path, order=order, progress=lambda *done: seen.append(done))
    assert_frame_equal(read_table(path).frame, frame[order])
    assert seen[0] == (7, 60)
    assert seen[-1] == (60, 60)


def test_dialect_of_the_source_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes("\ufeffa;b\n1,5;x\n".encode())
    table = read_table(path)
    write_table(table.frame, tmp_path / "y.csv", source=table.source)
    assert (tmp_path / "y.csv").read_bytes() == path.read_bytes()


def test_packed_files_are_the_same_bytes_every_time(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": [1, 2]})
    for name in ("x.csv.gz", "y.csv.gz"):
        write_table(frame, tmp_path / name)
    assert (tmp_path / "x.csv.gz").read_bytes() == (tmp_path / "y.csv.gz").read_bytes()
    assert_frame_equal(read_table(tmp_path / "x.csv.gz").frame, frame)


def test_times_with_a_zone_are_written_in_utc(tmp_path: Path) -> None:
    moment = datetime(2021, 4, 3, 10, 15, tzinfo=UTC)
    frame = pl.DataFrame({"t": [moment], "x": [1]}).with_columns(
        pl.col("t").dt.convert_time_zone("Europe/Berlin")
    )
    write_table(frame, tmp_path / "x.csv")
    assert read_table(tmp_path / "x.csv").frame["t"].to_list() == [moment]


def test_nothing_is_left_behind_on_error(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("before\n")

    def stop(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_table(pl.DataFrame({"a": [1]}), path, progress=stop)
    assert path.read_text() == "before\n"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(DataError, match="folder"):
        write_table(pl.DataFrame({"a": [1]}), tmp_path / "none" / "x.csv")


def test_nested_and_empty_frames_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'l'"):
        write_table(pl.DataFrame({"l": [[1]]}), tmp_path / "x.csv")
    with pytest.raises(DataError, match="no variables"):
        write_table(pl.DataFrame(), tmp_path / "x.csv")
