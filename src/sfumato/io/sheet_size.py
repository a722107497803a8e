"""How large a spreadsheet's table is, read off its cells before the table is built.

The library that reads spreadsheets builds the whole rectangle from the first to the last cell: two
cells in opposite corners of a sheet, a file of 1.4 kB, are 17 billion cells and 550 GB.
"""

from __future__ import annotations

import html
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from xml.parsers import expat

from sfumato.errors import DataError
from sfumato.io.damage import refuse_damage
from sfumato.io.room import bound_unpacked, require_room

_CELL_BYTES = 32  # of memory, for each cell of the rectangle
_SPARSE = 200  # cells of the rectangle for each cell that is filled
_LARGE = 2_000_000  # cells below which a rectangle may be as empty as it likes
_BLOCK = 4 << 20
_DIGITS = 10  # of a row's number; what is longer is no number of a row

# As every program writes it, and as XML allows it. Possessive: each letter is looked at once.
_USUAL_CELL = re.compile(rb'<c r="([A-Z]{1,3})([0-9]{1,7})"')
_BEGINNING = re.compile(rb"<(?:[\w.-]+:)?(?:c|row)(?=[\s/>])")
_TAG = re.compile(rb"""<([\w.:-]++)((?:[^<>"']++|"[^"<]*+"|'[^'<]*+')*+)>""")
_ATTRIBUTE = re.compile(rb"""([\w.:-]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")
_REFERENCE = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")


def make_damage_error(path: Path) -> DataError:
    """The error for a file that is no spreadsheet, or not a whole one."""
    return DataError(
        f"'{path.name}' is not a whole spreadsheet file.", hint="is it protected by a password?"
    )


def require_reasonable_sheets(path: Path) -> None:
    """Refuse a packed spreadsheet (.xlsx, .ods) that says far more than its size allows.

    Every part of the file is looked at: any of them may be declared to be the sheet.
    """
    # A part that is longer than it says, packed in a way Python does not know, or no XML, is not
    # given to another library either: it might believe what could not be looked at here
    with refuse_damage(make_damage_error(path)), zipfile.ZipFile(path) as archive:
        for part in archive.infolist():
            if part.file_size > bound_unpacked(part.compress_size):
                raise DataError(
                    f"'{path.name}' unpacks to far more than a spreadsheet does.",
                    hint="it may be made to exhaust the memory; do not open it.",
                )
            measure = _measure_ods if part.filename == "content.xml" else _measure_xlsx
            with archive.open(part) as stream:
                # Excel's own drawings of comments (.vml) are not always well-formed
                paired = not part.filename.lower().endswith(".vml")
                for rectangle in measure(_read_whole_tags(stream, paired=paired)):
                    rectangle.check(path)


@dataclass
class _Rectangle:
    """The cells from the first to the last, and how many of them are filled."""

    top: int = 1 << 60
    bottom: int = -1
    left: int = 1 << 60
    right: int = -1
    filled: int = 0

    def add(self, row: int, column: int, *, rows: int = 1, columns: int = 1) -> None:
        self.top, self.bottom = min(self.top, row), max(self.bottom, row + rows - 1)
        self.left, self.right = min(self.left, column), max(self.right, column + columns - 1)
        self.filled += 1

    def check(self, path: Path) -> None:
        if not self.filled:
            return
        rows, columns = self.bottom - self.top + 1, self.right - self.left + 1
        if rows * columns > max(_LARGE, _SPARSE * self.filled):
            raise DataError(
                f"'{path.name}' has cells far away from the others: "
                f"{rows:,} rows and {columns:,} columns with {self.filled:,} cells in all.",
                hint="clear the stray cells, or save the sheet as .csv.",
            )
        require_room(path, records=rows, variables=columns, bytes_per_cell=_CELL_BYTES)


def _read_whole_tags(stream: IO[bytes], *, paired: bool = True) -> Iterator[bytes]:
    """The part in blocks that end before a tag; one block where it does not begin like XML.

    Refuses tags that do not pair: some keep the reading library in an endless loop.
    """
    block = stream.read(_BLOCK)
    if not block.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        yield block + stream.read()
        return
    parser = expat.ParserCreate()
    tail = b""
    while block:
        if paired:
            parser.Parse(block, False)
        text = tail + block
        cut = max(text.rfind(b"<"), 0)
        yield text[:cut]
        tail = text[cut:]
        if len(tail) > _BLOCK:
            raise ValueError("a tag, or a text between tags, longer than any cell")
        block = stream.read(_BLOCK)
    if paired:
        parser.Parse(b"", True)
    yield tail


def _measure_xlsx(blocks: Iterator[bytes]) -> Iterator[_Rectangle]:
    """The rectangle of a part's cells, such as `<c r="B7">`."""
    rectangle = _Rectangle()
    row = column = 0
    for text in blocks:
        cells = _USUAL_CELL.findall(text)
        if cells and len(cells) == len(re.findall(rb"<(?:[\w.-]+:)?c[\s/>]", text)):
            rows = [int(number) for _, number in cells]
            columns = [_read_letters(letters.decode()) for letters in {cell[0] for cell in cells}]
            row, column = rows[-1], _read_letters(cells[-1][0].decode())
            rectangle.add(min(rows), min(columns))
            rectangle.add(max(rows), max(columns))
            rectangle.filled += len(cells) - 2
            continue
        tags = 0
        for name, attributes in _TAG.findall(text):
            kind = name.rpartition(b":")[2]
            if kind not in {b"c", b"row"}:
                continue
            tags += 1
            reference = html.unescape(_read_attribute(attributes, b"r")).strip().upper()
            if kind == b"row":
                row, column = _read_number(reference, row + 1), 0
                continue
            match = _REFERENCE.fullmatch(reference)
            if reference and not match:
                raise ValueError("a reference that no sheet has")
            row = _read_number(match[2], row) if match else row
            column = _read_letters(match[1]) if match else column + 1
            rectangle.add(row, column)
        if tags != len(_BEGINNING.findall(text)) and text.lstrip(b"\xef\xbb\xbf \r\n")[:1] == b"<":
            raise ValueError("tags that are not closed")
    yield rectangle


def _measure_ods(blocks: Iterator[bytes]) -> Iterator[_Rectangle]:
    """The rectangles of the tables; a cell or row that is repeated counts as often as it is."""
    rectangle = _Rectangle()
    row, column, repeated_rows = 0, 0, 1
    for text in blocks:
        for name, attributes in _TAG.findall(text):
            kind = name.rpartition(b":")[2]
            if kind == b"table":
                yield rectangle
                rectangle = _Rectangle()
                row, column, repeated_rows = 0, 0, 1
            elif kind == b"table-row":
                row, column = row + repeated_rows, 0
                repeated_rows = _read_repetition(attributes, b"number-rows-repeated")
            elif kind in {b"table-cell", b"covered-table-cell"}:
                repeated = _read_repetition(attributes, b"number-columns-repeated")
                if b"value" in attributes or b"formula" in attributes:
                    rectangle.add(row, column, rows=repeated_rows, columns=repeated)
                column += repeated
    yield rectangle


def _read_attribute(attributes: bytes, wanted: bytes) -> str:
    for name, double, single in _ATTRIBUTE.findall(attributes):
        if name.rpartition(b":")[2] == wanted:
            return str(double or single, "utf-8", errors="replace")
    return ""


def _read_repetition(attributes: bytes, wanted: bytes) -> int:
    return max(1, _read_number(html.unescape(_read_attribute(attributes, wanted)).strip(), 1))


def _read_number(text: str, otherwise: int) -> int:
    digits = text.isascii() and text.isdigit() and len(text) <= _DIGITS
    return int(text) if digits else otherwise


def _read_letters(letters: str) -> int:
    """The number of a column: A is 1, AA is 27."""
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number
