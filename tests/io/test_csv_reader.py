"""Text tables: what is detected, what is refused, and that no cell is ever quoted."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import polars as pl
import pytest

from sfumato.errors import DataError
from sfumato.io import SourceTable, csv_reader, read_table

Read = Callable[..., SourceTable]


def column(table: SourceTable, name: str = "x") -> list[object]:
    return table.frame[name].to_list()


def kind(table: SourceTable, name: str = "x") -> str:
    return table.source.columns[name].type


@pytest.mark.parametrize(
    ("cells", "expected", "values"),
    [
        (["1", "-2", "0"], "integer", [1, -2, 0]),
        (["01067", "10115"], "text", ["01067", "10115"]),
        (["0", "-0"], "number", [0.0, -0.0]),
        (["+49", "5"], "text", ["+49", "5"]),
        (["1.5", ".5", "1e3", "inf"], "number", [1.5, 0.5, 1000.0, float("inf")]),
        (["01.1", "10.2"], "text", ["01.1", "10.2"]),
        (["9223372036854775807", "1"], "integer", [9223372036854775807, 1]),
        (["9223372036854775808", "1"], "text", ["9223372036854775808", "1"]),
        (["9007199254740993", "1.5"], "text", ["9007199254740993", "1.5"]),
        (["true", "FALSE", "True"], "boolean", [True, False, True]),
        (["NA", "DE"], "text", ["NA", "DE"]),
        (["1", "NA", "."], "integer", [1, None, None]),
        (["1.5", "NaN", "nan"], "number", [1.5, None, None]),
        (["2021-04-03", "-"], "date", [date(2021, 4, 3), None]),
        (["2021-4-3", "2021-12-01"], "text", ["2021-4-3", "2021-12-01"]),
        (["2021-02-30"], "text", ["2021-02-30"]),
        (["03.04.2021"], "text", ["03.04.2021"]),
        (["2021-04-03T10:15:01.5"], "datetime", [datetime(2021, 4, 3, 10, 15, 1, 500000)]),  # noqa: DTZ001 - local time on purpose
        (["2021-04-03 10:15"], "datetime", [datetime(2021, 4, 3, 10, 15)]),  # noqa: DTZ001 - local time on purpose
        (["2021-04-03T10:15:00Z"], "datetime", [datetime(2021, 4, 3, 10, 15, tzinfo=UTC)]),
        (["2021-04-03T10:15:00+02:00"], "text", ["2021-04-03T10:15:00+02:00"]),
        (["1,234", "5,678"], "text", ["1,234", "5,678"]),
        ([" 1", "2"], "text", [" 1", "2"]),
        (["NA", "NA"], "text", ["NA", "NA"]),
        (["", ""], "text", [None, None]),
        (["1e5x", "2"], "text", ["1e5x", "2"]),
    ],
)
def test_types_come_from_the_text(
    read: Read, cells: list[str], expected: str, values: list[object]
) -> None:
    table = read("x|y\n" + "".join(f"{cell}|a\n" for cell in cells))
    assert kind(table) == expected
    assert column(table) == values


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["01067"], "leading zeros"),
        (["03.04.2021"], "dates = { 'x' = '%d.%m.%Y' }"),
        (["+491"], "plus"),
        (["123456789012345678901"], "too long"),
        (["1,234"], "thousands"),
        ([" 1"], "spaces"),
        (["2021-04-03T10:15:00+02:00"], "time zone"),
        (["abc"], "words"),
        ([""], "no values"),
    ],
)
def test_reason_tells_why_a_column_stays_text(read: Read, cells: list[str], words: str) -> None:
    reading = read("x|y\n" + "".join(f"{cell}|a\n" for cell in cells)).source.columns["x"]
    assert reading.type == "text"
    assert words in reading.reason
    assert not cells[0] or cells[0] not in reading.reason


def test_tokens_read_as_missing_are_named(read: Read) -> None:
    reading = read("x,y\n1,a\nNA,b\n.,c\n,d\n").source.columns["x"]
    assert reading.missing == (".", "NA")
    assert "missing" in reading.reason


def test_told_tokens_replace_the_usual_ones(read: Read) -> None:
    table = read("x,y\n1,NA\n-9,-9\n", missing=["-9"])
    assert column(table) == [1, None]
    assert column(table, "y") == ["NA", None]
    assert table.source.columns["y"].missing == ("-9",)
    only = read("x,y\n1,NA\n-9,DE\n", missing={"x": ["-9"]})
    assert column(only) == [1, None]
    assert column(only, "y") == ["NA", "DE"]


def test_told_types_and_dates_overrule(read: Read) -> None:
    text = "a,b,c,d\n007,1,03.04.2021, 5\n010,2,04.05.2021,6\n"
    types = {"a": "integer", "b": "text", "d": "integer"}
    table = read(text, types=types, dates={"c": "%d.%m.%Y"})
    assert table.frame.rows() == [
        (7, "1", date(2021, 4, 3), 5),
        (10, "2", date(2021, 5, 4), 6),
    ]
    assert table.source.columns["a"].reason == "as declared"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"types": {"x": "integer"}}, "1 cells are not; the first is in record 2"),
        ({"types": {"x": "boolean"}}, "2 cells are not"),
        ({"dates": {"x": "%d.%m.%Y"}}, "declared as date"),
        ({"dates": {"x": "%d.%m.%Y %H:%M"}}, "declared as datetime"),
        ({"types": {"x": "float"}}, "'float' is not a type"),
        ({"types": {"z": "text"}}, "'z' is not in the data"),
        ({"types": {"x": "text"}, "dates": {"x": "%Y"}}, "at once"),
        ({"columns": ["z", "x"]}, "'z' is not in the data"),
        ({"missing": {"z": ["1"]}}, "'z' is not in the data"),
        ({"delimiter": "#"}, "delimiter"),
        ({"decimal": "'"}, "decimal"),
        ({"formulas": "run"}, "formulas"),
        ({"encoding": "klingon"}, "klingon"),
        ({"delimeter": ","}, "did you mean 'delimiter'"),
    ],
)
def test_what_is_told_wrongly_is_refused(
    read: Read, options: dict[str, object], words: str
) -> None:
    with pytest.raises(DataError) as raised:
        read("x,y\n17,a\nsecret,b\n", **options)
    assert words in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiter_is_found_and_noted(read: Read, delimiter: str) -> None:
    table = read(delimiter.join("ab") + "\n" + delimiter.join("12") + "\n")
    assert table.frame.rows() == [(1, 2)]
    assert table.source.options["delimiter"] == delimiter
    assert "separated by" in table.source.notes[0]


def test_decimal_comma(read: Read) -> None:
    table = read("a;b;c\n1,5;2;1.000\n-0,25;3;2.000\n")
    assert table.source.options["decimal"] == ","
    assert column(table, "a") == [1.5, -0.25]
    assert column(table, "b") == [2, 3]
    # A thousand or a one? In a file with decimal commas a point is not a decimal sign
    assert column(table, "c") == ["1.000", "2.000"]
    assert any("comma" in note for note in table.source.notes)


def test_decimal_comma_beside_points_is_not_guessed_without_semicolons(read: Read) -> None:
    table = read("a\tb\n1,5\t1.5\n2,5\t2.5\n")
    assert column(table, "a") == ["1,5", "2,5"]
    assert column(table, "b") == [1.5, 2.5]
    assert "decimal" in table.source.columns["a"].reason


def test_decimal_told(read: Read) -> None:
    assert column(read("x;y\n1,234;a\n", decimal=","), "x") == [1.234]


@pytest.mark.parametrize(
    ("encoding", "mark", "found"),
    [
        ("utf-8", b"", "utf-8"),
        ("utf-8", b"\xef\xbb\xbf", "utf-8"),
        ("utf-16-le", b"\xff\xfe", "utf-16-le"),
        ("utf-16-be", b"\xfe\xff", "utf-16-be"),
        ("latin-1", b"", "cp1252"),
        ("cp1252", b"", "cp1252"),
    ],
)
def test_encodings(read: Read, encoding: str, mark: bytes, found: str) -> None:
    text = "Größe;Name\n1;Müller\n2;Jäger\n3;Größmann-Çelik\n"
    table = read(mark + text.encode(encoding))
    assert table.frame.columns == ["Größe", "Name"]
    assert column(table, "Name") == ["Müller", "Jäger", "Größmann-Çelik"]
    assert table.source.options["encoding"] == found
    assert table.source.options["bom"] == bool(mark)


def test_eastern_encoding_is_not_taken_for_western(read: Read) -> None:
    names = ["Wrocław", "Bełchatów", "Białystok", "Łódź", "Częstochowa", "Zielona Góra"] * 20
    table = read(("miasto\n" + "\n".join(names) + "\n").encode("cp1250"))
    assert table.frame["miasto"].to_list() == names
    city = "\u041c\u043e\u0441\u043a\u0432\u0430"  # Moscow, in Cyrillic letters
    table = read(f"x\n{city}\n".encode("cp1251"), encoding="cp1251")
    assert column(table) == [city]


def test_encoding_that_shows_late(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.io.csv_reader._SAMPLE_BYTES", 64)
    monkeypatch.setattr(csv_reader, "BATCH_BYTES", 64)
    content = b"n,name\n" + b"1,Meier\n" * 40 + "2,Müller\n".encode("cp1252")
    table = read(content)
    assert table.source.options["encoding"] == "cp1252"
    assert table.frame.row(-1) == (2, "Müller")
    with pytest.raises(DataError, match="not in the encoding"):
        read(content, encoding="utf-8")
    with pytest.raises(DataError, match="not in the encoding"):
        read(content, encoding="ascii")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a,b,a\n1,2,3\n", "repeats 'a'"),
        (b"a,,c\n1,2,3\n", "no name for column 2"),
        (b"a,b\n1,secret\n3\n", "record 2 has 1 cells where the header has 2"),
        (b"a,b\n1,secret,3\n", "record 1 has 3 cells where the header has 2"),
        (b'a,b\n"1",secret\n"3"\n', "record 2 has 1 cells"),
        (b"a,b\n1,2\n\n3,secret\n", "record 2 has 0 cells"),
        (b"a,b\n1,sec\0ret\n", "NUL"),
        (b'a,b\n1,"secret\n2,3\n', "do not pair"),
        (b'a,b\n1,5" secret\n2,6" secret\n', "do not pair"),
        (b'a,b\n1,"p"secret"r"\n', "do not pair"),
        (b'a,b\n1,"say \\"secret\\" now"\n', "do not pair"),
        (b"a,b\r1,secret\r", "carriage returns"),
        (b'a",b\n1,secret\n2,x\n', "do not pair"),
        (b'a"x,b\n1",secret\n2,x\n', "do not pair"),
    ],
)
def test_broken_files_are_refused_without_quoting_them(
    read: Read, content: bytes, words: str
) -> None:
    with pytest.raises(DataError) as raised:
        read(content)
    assert words in str(raised.value)
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


def test_marks_as_plain_text(read: Read) -> None:
    assert column(read('x,y\n5" pipe,1\n"a,2\n', quote=None)) == ['5" pipe', '"a']


def test_header_alone_gives_no_records(read: Read) -> None:
    table = read("a,b\n")
    assert table.frame.schema == {"a": pl.String, "b": pl.String}
    assert table.frame.height == 0
    assert read("a,b", types={"a": "integer"}).frame.schema["a"] == pl.Int64


def test_names_are_just_text(read: Read) -> None:
    names = ["<b>x</b>", "../../etc/passwd", "a b", '"q"', "new\nline", "Ж"]
    header = ",".join('"' + name.replace('"', '""') + '"' for name in names)
    assert read(header + "\n1,2,3,4,5,6\n").frame.columns == names


def test_line_breaks_ends_and_blank_last_lines(read: Read) -> None:
    table = read('a,b\r\n1,"x\ny"\r\n2,z\r\n\r\n\r\n')
    assert table.frame.rows() == [(1, "x\ny"), (2, "z")]
    assert "Some cells hold line breaks." in table.source.notes


def test_empty_and_quoted_empty_differ_in_text_only(read: Read) -> None:
    table = read('x,y\n,1\n"",""\na,\n')
    assert column(table) == [None, "", "a"]
    assert column(table, "y") == [1, None, None]


def test_single_variable_keeps_its_blank_records(read: Read) -> None:
    assert column(read("x\n1\n\n3\n\n")) == [1, None, 3, None]


def test_columns_in_the_order_asked(read: Read) -> None:
    table = read("a,b,c\n1,2,3\n", columns=["c", "a"])
    assert table.frame.columns == ["c", "a"]
    assert list(table.source.columns) == ["c", "a"]
    with pytest.raises(DataError, match="record 2"):
        read("a,b,c\n1,2,3\n1,2,3,4\n5,6\n", columns=["a"])


def test_packed_file_and_progress(tmp_path: Path) -> None:
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,x\n"))
    seen: list[tuple[int, int]] = []
    table = read_table(path, progress=lambda done, total: seen.append((done, total)))
    assert table.frame.rows() == [(1, "x")]
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)
    path.write_bytes(gzip.compress(b"a,b\n1,x\n" * 99)[:-9])
    with pytest.raises(DataError, match="gzip"):
        read_table(path)


def test_a_header_that_stands_in_the_file_again_is_found_in_any_batch(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_reader, "BATCH_BYTES", 100)
    with pytest.raises(DataError, match="header is repeated further down"):
        read("a,b\n" + "1,secret\n" * 99 + "a,b\n" + "2,x\n" * 99)


def test_line_breaks_are_noted_without_a_last_line_end(read: Read) -> None:
    assert "Some cells hold line breaks." in read('a,b\n1,"x\ny"').source.notes


BREAKS = [
    ("1", "2.5", "number", [1.0, 2.5]),
    ("1", "01067", "text", ["1", "01067"]),
    ("1", "x", "text", ["1", "x"]),
    ("9007199254740993", "2.5", "text", ["9007199254740993", "2.5"]),
    ("1.5", "x", "text", ["1.5", "x"]),
    ("true", "maybe", "text", ["true", "maybe"]),
    ("2021-04-03", "2021-04-31", "text", ["2021-04-03", "2021-04-31"]),
    (
        "2021-04-03T10:15",
        "2021-04-03T10:15:30",
        "text",
        ["2021-04-03T10:15", "2021-04-03T10:15:30"],
    ),
    ("NA", "5", "integer", [None, 5]),
    ("NA", "DE", "text", ["NA", "DE"]),
    ("", "2021-04-03", "date", [None, date(2021, 4, 3)]),
    ("NA", "true", "boolean", [None, True]),
]


@pytest.mark.parametrize(("first", "last", "expected", "values"), BREAKS)
def test_a_guess_that_breaks_later_is_mended(
    read: Read,
    monkeypatch: pytest.MonkeyPatch,
    first: str,
    last: str,
    expected: str,
    values: list[object],
) -> None:
    monkeypatch.setattr(csv_reader, "BATCH_BYTES", 100)
    content = "x,y\n" + f"{first},some text that is long\n" * 50 + f"{last},z\n"
    table = read(content)
    assert kind(table) == expected
    assert column(table) == [values[0]] * 50 + [values[1]]
    assert table.frame["y"].to_list() == ["some text that is long"] * 50 + ["z"]
    assert table.frame.n_chunks() == 1
    # Single letters and "true" are part of any sentence
    assert len(last) < 5 or last not in table.source.columns["x"].reason


def test_record_longer_than_a_batch(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_reader, "BATCH_BYTES", 50)
    long = "word\n" * 100
    table = read(f'x,y\n1,"{long}"\n2,b\n')
    assert table.frame.rows() == [(1, long), (2, "b")]
    monkeypatch.setattr(csv_reader, "RECORD_BYTES", 200)
    with pytest.raises(DataError, match="do not pair"):
        read(f'x,y\n1,"{long}\n2,b\n')


@pytest.mark.parametrize("line", ["Ann Smith,1950-01-02,f", "1.5,x,y", "a,ann@example.org,c"])
def test_a_first_line_that_is_a_record_is_not_taken_for_names(read: Read, line: str) -> None:
    with pytest.raises(DataError, match="looks like a record") as error:
        read(f"{line}\n{line}\n")
    assert "1950" not in str(error.value)
    assert "ann@" not in str(error.value)
