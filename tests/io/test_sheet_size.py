"""A spreadsheet's size is known before its table is built."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.soak.fuzz import make_ods

from sfumato.errors import DataError
from sfumato.io import excel, read_table, room, sheet_size

SHEET = "xl/worksheets/sheet1.xml"
FAR = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'


@pytest.fixture
def change(tmp_path: Path) -> Callable[..., Path]:
    """A small spreadsheet, one part of which was rewritten."""

    def changing(old: bytes, new: bytes, *, name: str = "x.xlsx", part: str = SHEET) -> Path:
        import polars as pl

        plain = tmp_path / f"plain{Path(name).suffix}"
        if name.endswith(".ods"):
            plain.write_bytes(make_ods())
        else:
            excel.write_excel(pl.DataFrame({"a": [1, 2], "b": ["x", "y"]}), plain)
        path = tmp_path / name
        with (
            zipfile.ZipFile(plain) as source,
            zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target,
        ):
            for inner in source.namelist():
                content = source.read(inner)
                if inner == part:
                    assert old in content
                    content = content.replace(old, new)
                target.writestr(inner, content)
        return path

    return changing


@pytest.mark.parametrize(
    "far",
    [
        FAR,
        FAR.replace(b'"', b"'"),
        FAR.replace(b'r="XFD', b'\n r = "XFD'),
        FAR.replace(b"XFD", b"XF&#68;"),
        FAR.replace(b"XFD", b"xfd"),
        FAR.replace(b"<c ", b'<c t=">" '),
        FAR.replace(b"<c ", b"<x:c ").replace(b"</c>", b"</x:c>"),
        b'<row r="1048576">' + b"<c><v>1</v></c>" * 16000 + b"</row></sheetData>",
    ],
)
def test_a_file_of_some_kilobytes_cannot_ask_for_gigabytes(
    change: Callable[..., Path], far: bytes
) -> None:
    path = change(b"</sheetData>", far)
    assert path.stat().st_size < 10_000
    with pytest.raises(DataError, match="far away from the others"):
        read_table(path)


def test_what_cannot_be_looked_at_is_not_handed_on(
    change: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.raises(DataError, match="not a whole"):
        read_table(change(b"</sheetData>", FAR.replace(b"<c ", b'<c t="<" ')))
    path = change(b"</sheetData>", FAR)
    lying = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        size = archive.getinfo(SHEET).file_size
    path.write_bytes(lying.replace(size.to_bytes(4, "little"), (200).to_bytes(4, "little")))
    with pytest.raises(DataError, match="not a whole"):
        read_table(path)


def test_packed_emptiness_is_refused(change: Callable[..., Path]) -> None:
    path = change(b"</sheetData>", b" " * (70 << 20) + b"</sheetData>")
    assert path.stat().st_size < 100_000
    with pytest.raises(DataError, match="unpacks to far more"):
        read_table(path)


def test_repeated_cells_of_opendocument_count_as_often_as_they_are_repeated(
    change: Callable[..., Path],
) -> None:
    assert read_table(change(b'"2"', b'"3"', name="a.ods", part="content.xml")).frame.height == 3
    path = change(b'"2"', b'"1048000"', name="y.ods", part="content.xml")
    with pytest.raises(DataError, match="far away"):
        read_table(path)


def test_a_stray_cell_nearby_is_read(change: Callable[..., Path]) -> None:
    path = change(b"</sheetData>", b'<row r="900"><c r="B900"><v>1</v></c></row></sheetData>')
    read = read_table(path)
    assert read.frame.height == 3
    assert any("896 rows without any value were skipped" in note for note in read.source.notes)


def test_the_said_dimension_does_not_matter(change: Callable[..., Path]) -> None:
    path = change(b'<dimension ref="A1:B3"/>', b'<dimension ref="A1:XFD1048576"/>')
    assert read_table(path).frame.shape == (2, 2)


@settings(max_examples=60)
@given(
    cells=st.lists(
        st.tuples(st.integers(1, 3000), st.integers(1, 800)), min_size=1, max_size=30, unique=True
    ),
    quote=st.sampled_from(("'", '"')),
    block=st.integers(40, 400),
)
def test_the_rectangle_is_that_of_the_cells(
    cells: list[tuple[int, int]], quote: str, block: int
) -> None:
    tags = "".join(
        f"<c r={quote}{_write_letters(column)}{row}{quote}><v>1</v></c>" for row, column in cells
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sheet_size, "_BLOCK", block)
        import io

        blocks = sheet_size._read_whole_tags(io.BytesIO(f"<sheetData>{tags}</sheetData>".encode()))
        [rectangle] = sheet_size._measure_xlsx(blocks)
    rows, columns = zip(*cells, strict=True)
    assert (rectangle.top, rectangle.bottom) == (min(rows), max(rows))
    assert (rectangle.left, rectangle.right) == (min(columns), max(columns))
    assert rectangle.filled == len(cells)


def _write_letters(number: int) -> str:
    letters = ""
    while number:
        number, letter = divmod(number - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return letters


def test_memory_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert room.get_memory() > 1 << 28
    limit = tmp_path / "memory.max"
    limit.write_text("1000000\n")
    monkeypatch.setattr(room, "_LIMITS", (tmp_path / "none", limit))
    assert room.get_memory() == 1_000_000
    with pytest.raises(DataError, match="more than the memory"):
        room.require_room(tmp_path / "x.dta", records=10**6, variables=1, bytes_per_cell=8)
    limit.write_text("max\n")
    assert room.get_memory() > 1_000_000
    monkeypatch.delattr(os, "sysconf")
    assert room.get_memory() == room._UNKNOWN
