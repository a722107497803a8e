"""How a text table is written: encoding, delimiter, header. Found out, never assumed."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.errors import DataError, refuse_patterns

if TYPE_CHECKING:
    from collections.abc import Iterator

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SAMPLE_RECORDS = 500
_WORD = re.compile(r"[^\W\d_]*[^\x00-\x7f]\S*")


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How the cells of a text table are separated."""

    delimiter: str
    encoding: str
    bom: bytes = b""
    quote: str | None = '"'


def detect_encoding(sample: bytes, encoding: str | None) -> tuple[str, bytes]:
    """The encoding and the byte order mark of a file that begins with the sample.

    Assumes: a mark tells the truth; else UTF-8 where the bytes are valid UTF-8, since other
    encodings hardly ever are by chance; else a guess that the custodian sees in the notes.
    """
    mark, marked = next(
        ((mark, name) for mark, name in _BOMS if sample.startswith(mark)), (b"", "")
    )
    if encoding:
        known = _look_up_encoding(encoding)
        if known in {"utf-16", "utf-8-sig"}:
            known = marked or {"utf-16": "utf-16-le"}.get(known, "utf-8")
        return known, mark if known == marked else b""
    if marked:
        return marked, mark
    return guess_encoding(sample), b""


# Codecs of Python that are no encodings of tables; decoding some of them takes for ever.
_NO_ENCODINGS = ("idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape")


def _look_up_encoding(encoding: str) -> str:
    """Python's name of an encoding of text; packings such as zlib are codecs too, but no such."""
    try:
        known = codecs.lookup(encoding).name
        "a".encode(known, errors="replace")  # refused where it is no encoding of text
        if known.replace("-", "_") not in _NO_ENCODINGS:
            return known
    except (LookupError, ValueError):  # a name with NUL or letters that no encoding has
        pass
    raise DataError(f"the encoding '{encoding}' is not known.", hint="try 'utf-8' or 'cp1252'.")


def guess_encoding(sample: bytes) -> str:
    """UTF-8 if it is, Windows-1252 if that reads like words, else what the statistics say."""
    try:
        # The sample may end within a character: an incremental decoder does not mind
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        pass
    else:
        return "utf-8"
    lines = [line for line in sample.split(b"\n") if not line.isascii()]
    telling = b"\n".join(lines[: 4 * _SAMPLE_RECORDS])
    if _reads_western(telling):
        return "cp1252"
    from charset_normalizer import from_bytes

    # Best first; its measure of chaos overlooks what a wrong code page does to words
    likely = [codecs.lookup(match.encoding).name for match in from_bytes(telling)]
    for name in likely:
        if _reads_as_words(telling.decode(name, errors="replace")):
            return name
    raise DataError(
        "the encoding of the file cannot be detected.", hint="name it, e.g. encoding='cp1252'."
    )


def _reads_western(telling: bytes) -> bool:
    """Whether the bytes read as Windows-1252 give words as western languages write them.

    Statistics on letters fail on the few short names that a table holds. Assumes: western
    words have more plain letters than accented ones.
    """
    try:
        text = telling.decode("cp1252")
    except UnicodeDecodeError:
        return False
    letters = [letter for word in _WORD.findall(text) for letter in word if letter.isalpha()]
    unaccented = sum(letter.isascii() for letter in letters)
    return 2 * unaccented >= len(letters) and _reads_as_words(text)


def _reads_as_words(text: str) -> bool:
    """Whether no word has a sign within it or a capital after a small letter.

    That is what a wrong code page does to words.
    """
    for word in _WORD.findall(text):
        for before, letter, after in zip(word, word[1:], f"{word[2:]} ", strict=False):
            if letter.isascii() or not before.isalpha():
                continue
            if after.isalpha() and not letter.isalpha():
                return False
            if letter.isupper() and before.islower():
                return False
    return True


def detect_delimiter(text: str, quote: str | None) -> str:
    """The delimiter that gives most records as many cells as the header has.

    Assumes: the first record is the header. A file of one variable has no delimiter; a comma
    is then as good as any.
    """
    best = (0.0, 0, ",")
    for delimiter in DELIMITERS:
        widths = _count_cells(text, delimiter, quote)
        header, rows = widths[0], widths[1:]
        share = Counter(rows)[header] / len(rows) if rows else 1.0
        if header > 1 and share > 1 / 2:
            best = max(best, (share, header, delimiter))
    return best[2]


def _count_cells(text: str, delimiter: str, quote: str | None) -> list[int]:
    widths: list[int] = []
    try:
        for cells in _parse_rows(text, delimiter, quote):
            if cells:
                widths.append(len(cells))
            if len(widths) > _SAMPLE_RECORDS:
                break
    except csv.Error:  # a cell longer than Python's reader takes; what was seen must do
        pass
    # The sample ends within a record as a rule
    return widths[:-1] if len(widths) > 2 else widths or [1]  # noqa: PLR2004 - header and one record


def _parse_rows(text: str, delimiter: str, quote: str | None) -> Iterator[list[str]]:
    stream = io.StringIO(text, newline="")
    if quote is None:
        return csv.reader(stream, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    return csv.reader(stream, delimiter=delimiter, quotechar=quote)


def make_quote_error() -> DataError:
    """The error for quotation marks that do not pair."""
    return DataError(
        "the quotation marks do not pair: one is opened and never closed, "
        "or stands within a cell without being doubled.",
        hint="write a mark within a cell twice, or pass quote=None if marks are plain text.",
    )


def parse_header(record: str, dialect: Dialect) -> list[str]:
    """The names in the header record; empty and repeated ones are refused by name."""
    rows = iter(_parse_rows(record, dialect.delimiter, dialect.quote))
    names = next(rows, None) or [""]
    if next(rows, None) is not None:  # a mark within a name took records for names
        raise make_quote_error()
    check_names(names)
    if any(re.fullmatch(_CELL, name.strip()) for name in names):
        raise DataError(
            "the first line looks like a record, not like the names of the variables.",
            hint="add a line with the names above it.",
        )
    return names


# Dates, decimal numbers and e-mail addresses: nobody calls a variable that.
_CELL = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}.*|[0-9]{1,2}[./][0-9]{1,2}[./][0-9]{4}"
    r"|-?[0-9]+[.,][0-9]+|\S+@\S+\.\S+"
)


def check_names(names: list[str]) -> None:
    """Refuse empty and repeated names of variables."""
    empty = [str(number) for number, name in enumerate(names, 1) if not name.strip()]
    if empty:
        raise DataError(
            f"the header has no name for column {', '.join(empty)}.",
            hint="give every column a name; R writes row names without one (row.names=FALSE).",
        )
    refuse_patterns(names)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(
            "the header repeats " + ", ".join(f"'{name}'" for name in twice) + ".",
            hint="every variable needs a name of its own.",
        )


def describe_ragged_record(block: bytes, dialect: Dialect, width: int, before: int) -> str:
    """Which record has another number of cells than the header, said without quoting it.

    Empty if no record of the block has.
    """
    text = block.decode("utf-8", errors="replace")
    try:
        for number, cells in enumerate(_parse_rows(text, dialect.delimiter, dialect.quote), 1):
            if len(cells) != width:
                return (
                    f"record {before + number} has {len(cells)} cells where the header has {width}."
                )
    except csv.Error:  # a cell longer than Python's reader takes
        return f"a record after number {before} has another number of cells than the header."
    return ""
