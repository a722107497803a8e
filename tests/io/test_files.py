"""The dispatch by suffix, and the formats that bring their own types."""

from __future__ import annotations

import gzip
import subprocess
import sys
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat
import pytest
import xlsxwriter  # type: ignore[import-untyped]  # it has no stubs
from polars.testing import assert_frame_equal

from sfumato.errors import DataError
from sfumato.io import Reading, Source, choose_suffix, read_table, room, write_table
from sfumato.io.source import load_library

FRAME = pl.DataFrame(
    {
        "i": [1, 2, None],
        "f": [1.5, None, 2.25],
        "s": ["01067", "=1+1", None],
        "d": [date(2021, 4, 3), None, date(1999, 12, 31)],
        "t": [datetime(2021, 4, 3, 10, 15, 30), None, datetime(1999, 12, 31, 1, 0)],  # noqa: DTZ001 - local time on purpose
    }
)
ORDER = np.array([2, 0, 1])


@pytest.mark.parametrize(
    "suffix", [".parquet", ".arrow", ".feather", ".ipc", ".xlsx", ".dta", ".sav", ".zsav", ".xpt"]
)
def test_round_trip_in_a_given_order(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    seen: list[tuple[int, int]] = []
    facts = write_table(FRAME, path, order=ORDER, progress=lambda *done: seen.append(done))
    assert facts["records"] == 3
    assert seen[-1] == (3, 3)
    table = read_table(path, progress=lambda *done: seen.append(done))
    assert_frame_equal(table.frame, FRAME[ORDER])
    assert [reading.type for reading in table.source.columns.values()] == [
        "integer",
        "number",
        "text",
        "date",
        "datetime",
    ]
    assert list(tmp_path.iterdir()) == [path]
    assert choose_suffix(table.source) == suffix
    some = read_table(path, columns=["s", "i"], types={"i": "text"})
    assert some.frame.rows() == [(None, None), ("01067", "1"), ("=1+1", "2")]
    with pytest.raises(DataError, match="'S' is not in the data"):
        read_table(path, columns=["S"])


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".xlsx", ".dta", ".sav", ".sas7bdat"])
def test_damaged_files_are_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(b"this is no such file, secret")
    with pytest.raises(DataError) as raised:
        read_table(path)
    assert "secret" not in str(raised.value)
    assert raised.value.__suppress_context__


@pytest.mark.parametrize("version", [5, 8])
@pytest.mark.parametrize("letters", [1, 3, 71, 90])
def test_a_transport_file_that_was_cut_off_never_reads_as_a_shorter_one(
    tmp_path: Path, version: int, letters: int
) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    whole, cut = tmp_path / "whole.xpt", tmp_path / "cut.xpt"
    for records in range(1, 30):
        texts = [f"{number}".rjust(letters, "x") for number in range(records)]
        frame = pl.DataFrame({"income": [n / 7 for n in range(records)], "place": texts})
        pyreadstat.write_xport(frame, whole, file_format_version=version)
        assert read_table(whole).frame.height == records
    content = whole.read_bytes()
    width = 8 + max(map(len, texts))
    first = content.index(b"OBS") // 80 * 80 + 80
    unknown = []
    for size in sorted({*range(0, len(content), 16), *range(len(content) - 100, len(content))}):
        cut.write_bytes(content[:size])
        try:
            height = read_table(cut).frame.height
        except DataError as error:
            assert "SAS transport file" in str(error)
        else:
            unknown.append((size, height))
    # Nothing in a file of version 5 tells it from one that ends between two records and two cards.
    ends = [first + 80 * card for card in range((len(content) - first) // 80)]
    assert unknown == [
        (size, (size - first) // width)
        for size in ends
        if version == 5 and (size - first) % width == 0
    ]


def test_a_packed_text_that_unpacks_to_far_more_than_a_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"a\n")
        for _ in range(70):
            file.write(b"1\n" * (1 << 19))
    assert path.stat().st_size * room.MOST_UNPACKED < room.UNPACKED_FREELY
    with pytest.raises(DataError, match="unpacks to far more"):
        read_table(path)


def test_a_packed_text_that_repeats_itself_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(b"a\n" + b"1\n" * 3_000_000))
    assert path.stat().st_size * room.MOST_UNPACKED < 6_000_000
    assert read_table(path).frame.height == 3_000_000


@pytest.mark.parametrize(("text", "cell"), [("x" * 200_000, 16), (None, 8)])
def test_a_parquet_file_larger_than_memory_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, cell: int
) -> None:
    """Long texts packed well, and few bytes that say many records."""
    path, records = tmp_path / "x.parquet", 1_000 if text else 4_000_000
    values = [f"{text}{number}" for number in range(records)] if text else [1] * records
    pl.DataFrame({"a": values, "b": 0}).write_parquet(path, compression="zstd")
    assert path.stat().st_size < 1 << 20
    monkeypatch.setattr(room, "get_memory", lambda: records * (cell + 4) - 1)
    monkeypatch.setattr(pl, "scan_parquet", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(DataError, match="more than the memory"):
        read_table(path) if text else read_table(path, columns=["a", "b"])
    monkeypatch.undo()
    assert read_table(path, columns=["b"]).frame.height == records


def test_columnar_schema_is_kept(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"c": ["a", "b"], "e": ["x", "y"], "u": [1, 2], "n": [1.0, float("nan")]},
        schema={
            "c": pl.Categorical,
            "e": pl.Enum(["x", "y"]),
            "u": pl.UInt8,
            "n": pl.Float32,
        },
    )
    write_table(frame, tmp_path / "x.parquet")
    table = read_table(tmp_path / "x.parquet")
    assert table.frame.schema == frame.schema
    assert table.frame["n"].to_list() == [1.0, None]
    assert table.source.columns["n"].missing == ("NaN",)
    assert "1 not-a-number" in table.source.notes[0]


def test_nested_columns_are_refused_by_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ok": [1], "deep": [[1]], "pair": [{"a": 1}]}), tmp_path / "x.parquet")
    with pytest.raises(DataError, match="'deep', 'pair'"):
        read_table(tmp_path / "x.parquet")
    assert read_table(tmp_path / "x.parquet", columns=["ok"]).frame.height == 1


def test_told_types_that_do_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_table(
        pl.DataFrame({"s": ["1", "secret"], "f": [1.0, 2.5], "d": ["3.4.2021", None]}), path
    )
    for types in ({"s": "integer"}, {"f": "integer"}, {"f": "date"}):
        with pytest.raises(DataError, match="of the declared type") as raised:
            read_table(path, types=types)
        assert "secret" not in str(raised.value)
    table = read_table(path, types={"f": "text"}, dates={"d": "%d.%m.%Y"})
    assert table.frame["f"].to_list() == ["1.0", "2.5"]
    assert table.frame["d"].to_list() == [date(2021, 4, 3), None]


def workbook(path: Path, sheets: dict[str, list[list[Any]]]) -> Path:
    book = xlsxwriter.Workbook(str(path), {"strings_to_formulas": False})
    for name, rows in sheets.items():
        sheet = book.add_worksheet(name)
        for row, cells in enumerate(rows):
            for place, cell in enumerate(cells):
                sheet.write(row, place, cell)
    book.close()
    return path


def test_excel_sheets_and_headers(tmp_path: Path) -> None:
    late: list[list[Any]] = [["k", "x"], *[[i, i] for i in range(2000)], [2000, "late text"]]
    path = workbook(
        tmp_path / "x.xlsx",
        {"one": [["a"], ["01067"]], "two": late, "twice": [["a", "a"], [1, 2]], "none": []},
    )
    table = read_table(path)
    assert table.frame["a"].to_list() == ["01067"]
    assert table.source.options["sheet"] == "one"
    assert "one of 4" in table.source.notes[0]
    two = read_table(path, sheet="two").frame
    assert two.schema == {"k": pl.Int64, "x": pl.String}
    assert two["x"].null_count() == 0
    assert read_table(path, sheet=1).source.options["sheet"] == "two"
    with pytest.raises(DataError, match="repeats 'a'"):
        read_table(path, sheet="twice")
    with pytest.raises(DataError, match="is empty"):
        read_table(path, sheet="none")
    with pytest.raises(DataError, match="did you mean 'two'"):
        read_table(path, sheet="tow")


def test_rows_without_any_value_are_no_records_and_are_counted(tmp_path: Path) -> None:
    """Tidy tables are separated by empty rows, and some are formatted far below the last record."""
    rows: list[list[Any]] = [
        ["id", "age", "town"],
        ["", "", ""],
        ["a", 30, "x"],
        [None] * 3,
        [" ", None, "\u00a0"],
    ]
    rows += [["b", None, None], [None] * 3]
    path = workbook(tmp_path / "x.xlsx", {"one": rows, "single": [["a"], [1], [None], [2]]})
    table = read_table(path, sheet="one")
    assert table.frame["id"].to_list() == ["a", "b"]
    assert table.frame.schema == {"id": pl.String, "age": pl.Int64, "town": pl.String}
    assert "3 rows without any value were skipped." in table.source.notes
    assert read_table(path, sheet="one", columns=["town"]).frame["town"].to_list() == ["x", None]
    # Of a single variable it is a missing value.
    assert read_table(path, sheet="single").frame["a"].to_list() == [1, None, 2]


def test_records_without_any_value_are_not_written_as_empty_rows(tmp_path: Path) -> None:
    """Whoever reads the sheet would not see them."""
    for frame in (pl.DataFrame({"a": [1, None], "b": ["x", None]}), pl.DataFrame({"a": [None, 1]})):
        with pytest.raises(DataError, match="1 record has no value in any variable"):
            write_table(frame, tmp_path / "x.xlsx")
    assert list(tmp_path.iterdir()) == []


def test_excel_refuses_what_it_would_round_or_cut(tmp_path: Path) -> None:
    path = tmp_path / "x.xlsx"
    for cell, words in (
        (10**15, "15 digits"),
        (float("inf"), "infinite"),
        ("x" * 32_768, "letters"),
        (date(1850, 1, 1), "1900"),
    ):
        with pytest.raises(DataError, match=words):
            write_table(pl.DataFrame({"v": [cell]}), path)
    with pytest.raises(DataError, match="at most"):
        write_table(pl.DataFrame({"v": pl.zeros(1_048_576, eager=True)}), path)
    assert list(tmp_path.iterdir()) == []


def test_excel_never_holds_a_formula(tmp_path: Path) -> None:
    frame = pl.DataFrame({"=x": ["=1+1", "http://a.b", "5"], "b": [True, None, False]})
    write_table(frame, tmp_path / "x.xlsx")
    assert_frame_equal(read_table(tmp_path / "x.xlsx").frame, frame)
    write_table(frame, tmp_path / "y.xlsx")
    assert (tmp_path / "x.xlsx").read_bytes() == (tmp_path / "y.xlsx").read_bytes()


def test_spss_labels_and_missing_codes_go_through(tmp_path: Path) -> None:
    path = tmp_path / "x.sav"
    frame = pl.DataFrame({"a": [1.0, 2.0, -9.0, None], "r": [1.5, 97.0, 98.0, 2.0]})
    pyreadstat.write_sav(
        frame,
        str(path),
        column_labels={"a": "Answer"},
        variable_value_labels={"a": {1: "yes", 2: "no", -9: "refused"}},
        missing_ranges={"a": [-9.0], "r": [{"lo": 97, "hi": 99}]},
    )
    table = read_table(path)
    assert table.frame["a"].to_list() == [1, 2, -9, None]
    reading = table.source.columns["a"]
    assert reading == Reading(
        type="integer",
        reason="its type in the SPSS file",
        label="Answer",
        values={1: "yes", 2: "no", -9: "refused"},
        missing_codes=(-9,),
    )
    assert table.source.columns["r"].missing_codes == (97.0, 98.0)
    write_table(table.frame, tmp_path / "y.sav", source=table.source)
    again = read_table(tmp_path / "y.sav")
    assert again.source.columns == table.source.columns
    assert_frame_equal(again.frame, table.frame)
    # A variable that a method turned into text has codes no longer
    turned = table.frame.with_columns(pl.col("a").cast(pl.String))
    write_table(turned, tmp_path / "z.sav", source=table.source)
    assert read_table(tmp_path / "z.sav").source.columns["a"].values == {}
    write_table(table.frame.drop("a"), tmp_path / "z.sav", source=table.source)
    assert list(read_table(tmp_path / "z.sav").source.columns) == ["r"]


def test_stata_labels_and_special_missing(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "x.dta"
    pyreadstat.write_dta(
        pandas.DataFrame({"a": [1, "a", 3, None], "b": [1, 2, 3, 4]}, dtype=object),
        str(path),
        missing_user_values={"a": ["a"]},
        variable_value_labels={"a": {"a": "refused", 1: "one"}},  # type: ignore[dict-item]  # letters are the special missing values
        column_labels={"a": "Answer"},
    )
    table = read_table(path)
    assert table.frame["a"].to_list() == [1, None, 3, None]
    assert table.source.columns["a"].missing_codes == (".a",)
    assert table.source.columns["a"].values == {1: "one", "a": "refused"}
    assert ".a" in table.source.notes[0]
    write_table(table.frame, tmp_path / "y.dta", source=table.source)
    again = read_table(tmp_path / "y.dta").source.columns["a"]
    assert again.values == {1: "one"}
    assert again.label == "Answer"


def test_names_that_a_format_cannot_hold(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot be written as \.dta"):
        write_table(pl.DataFrame({"a b": [1]}), tmp_path / "x.dta")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("source", "suffix"),
    [
        (None, ".parquet"),
        (Source(format="csv", path=Path("a.b.CSV.gz")), ".csv.gz"),
        (Source(format="csv", path=Path("a.tsv")), ".tsv"),
        (Source(format="sas", path=Path("a.sas7bdat")), ".csv"),
        (Source(format="excel", path=Path("a.xls")), ".xlsx"),
        (Source(format="duckdb", path=Path("a.db")), ".parquet"),
        (Source(format="postgres"), ".parquet"),
    ],
)
def test_suffix_of_a_release(source: Source | None, suffix: str) -> None:
    assert choose_suffix(source) == suffix


def test_unknown_places_are_refused(tmp_path: Path) -> None:
    for name in ("x.pdf", "x", "x.parquet.gz"):
        with pytest.raises(DataError, match=r"supported are \.csv, \.tsv"):
            read_table(tmp_path / name)
    with pytest.raises(DataError, match="there is no file"):
        read_table(tmp_path / "x.csv")
    with pytest.raises(DataError, match="addresses") as raised:
        read_table("mysql://user:s3cret@host/db")
    assert "s3cret" not in str(raised.value)
    with pytest.raises(DataError, match="cannot be written"):
        write_table(FRAME, tmp_path / "x.sas7bdat")


def test_absent_library_says_how_to_install() -> None:
    with pytest.raises(DataError, match=r"pip install '\.\[formats\]'"):
        load_library("no_such_library", extra="formats", purpose="Reading this")


def test_import_and_csv_need_no_heavy_library(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    code = (
        "import sys; from sfumato.io import read_table; "
        f"read_table({str(tmp_path / 'x.csv')!r}); "
        "heavy = {'pandas', 'duckdb', 'psycopg', 'pyreadstat', 'fastexcel', 'xlsxwriter'}; "
        "sys.exit(len(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.stderr == b""
    assert done.returncode == 0


@pytest.mark.parametrize("suffix", [".sav", ".dta", ".xpt"])
def test_the_moment_of_writing_is_not_in_the_file(tmp_path: Path, suffix: str) -> None:
    import datetime as dt

    path = tmp_path / f"x{suffix}"
    write_table(pl.DataFrame({"x": [1.0, 2.0]}), path)
    content = path.read_bytes()
    assert b"70" in content[:2048]
    now = dt.datetime.now(dt.UTC)
    for said in (
        now.strftime("%d %b %y"),
        now.strftime("%d %b %Y"),
        now.strftime("%d%b%y").upper(),
    ):
        assert said.encode() not in content
    assert read_table(path).frame["x"].to_list() == [1.0, 2.0]


def test_labels_of_values_that_are_gone_are_not_written(tmp_path: Path) -> None:
    from sfumato.io import Reading, Source

    reading = Reading(type="number", reason="", values={50: "fifty", 60: "Duke of York"})
    source = Source(format="spss", path=None, options={}, columns={"x": reading}, notes=())
    write_table(pl.DataFrame({"x": [50.0, 50.0]}), tmp_path / "x.sav", source=source)
    assert b"Duke" not in (tmp_path / "x.sav").read_bytes()
    assert b"fifty" in (tmp_path / "x.sav").read_bytes()
