"""Text tables read in batches: text first, then the type that every cell bears out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from sfumato.errors import DataError, did_you_mean
from sfumato.io.csv_batch import NotUtf8Error, text_frame
from sfumato.io.csv_column import Column
from sfumato.io.csv_detect import (
    DELIMITERS,
    Dialect,
    check_names,
    detect_delimiter,
    detect_encoding,
    guess_encoding,
    header_names,
)
from sfumato.io.csv_reasons import decimal_sign
from sfumato.io.csv_records import batches, first_record_end, opened
from sfumato.io.csv_types import TOKENS, Manner
from sfumato.io.formulas import unescape, unescape_name
from sfumato.io.retype import present, told
from sfumato.io.source import Progress, Source, Table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Tokens = Sequence[str] | Mapping[str, Sequence[str]]

_SAMPLE_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What the custodian told about the file."""

    columns: Sequence[str] | None
    types: Mapping[str, str]
    dates: Mapping[str, str]
    missing: Tokens | None
    decimal: str | None
    formulas: str

    def tokens(self, name: str) -> frozenset[str] | None:
        """The tokens told for this variable; None where the usual ones hold."""
        if isinstance(self.missing, Mapping):
            return frozenset(self.missing[name]) if name in self.missing else None
        return None if self.missing is None else frozenset(self.missing)


def read_csv(  # noqa: PLR0913 - the options are the interface
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    progress: Progress | None = None,
    types: Mapping[str, str] | None = None,
    dates: Mapping[str, str] | None = None,
    missing: Tokens | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    quote: str | None = '"',
    formulas: str = "keep",
) -> Table:
    """The records of a CSV or TSV file, packed with gzip or not.

    `missing` are tokens that mean no value, in all variables or per variable; told ones take
    the place of the usual ones, and count in text too. `formulas="unescape"` takes away the
    apostrophes that writing put before cells a spreadsheet would run.
    """
    _one_of("delimiter", delimiter, [None, *DELIMITERS])
    _one_of("decimal", decimal, [None, ".", ","])
    _one_of("quote", quote, [None, '"', "'"])
    _one_of("formulas", formulas, ["keep", "unescape"])
    asked = _Asked(
        columns=columns,
        types=types or {},
        dates=dates or {},
        missing=missing,
        decimal=decimal,
        formulas=formulas,
    )
    dialect = _dialect(path, delimiter, encoding, quote)
    try:
        run = _Run(path, dialect, asked)
        frame = run.read(progress)
    except NotUtf8Error as broken:
        if encoding or dialect.bom:
            raise DataError(
                f"'{path.name}' is not in the encoding {encoding or 'of its byte order mark'}.",
                hint="tell the right one, e.g. encoding='cp1252'.",
            ) from None
        run = _Run(path, replace(dialect, encoding=guess_encoding(broken.block)), asked)
        frame = run.read(progress)
    return Table(frame, run.source())


def _one_of(option: str, value: str | None, allowed: list[str | None]) -> None:
    if value not in allowed:
        known = [repr(other) for other in allowed]
        raise DataError(
            f"the option {option} cannot be {value!r}.", hint=did_you_mean(repr(value), known)
        )


def _dialect(path: Path, delimiter: str | None, encoding: str | None, quote: str | None) -> Dialect:
    with opened(path) as (stream, _):
        sample = stream.read(_SAMPLE_BYTES)
    known, bom = detect_encoding(sample, encoding)
    text = sample[len(bom) :].decode(known, errors="replace")
    if not text.strip("\r\n \t\ufeff"):
        raise DataError(f"'{path.name}' is empty.", hint="was it copied in full?")
    if "\n" not in text and "\r" in text.rstrip("\r"):
        raise DataError(
            f"the lines of '{path.name}' end in carriage returns alone, as on old Macintoshes.",
            hint="save it with the line ends of today.",
        )
    return Dialect(
        delimiter=delimiter or detect_delimiter(text, quote),
        encoding=known,
        bom=bom,
        quote=quote,
    )


class _Run:
    """One reading of one file in one dialect."""

    def __init__(self, path: Path, dialect: Dialect, asked: _Asked) -> None:
        self.path = path
        self.dialect = dialect
        self.asked = asked
        self.decimal = asked.decimal or "."
        self.names: list[str] = []
        self.wanted: list[str] = []
        self.columns: dict[str, Column] = {}
        self.line_breaks = False

    def read(self, progress: Progress | None) -> pl.DataFrame:
        """The typed frame. The columns whose guess broke are read a second time, as text."""
        height = 0
        for block in self._blocks(progress):
            text = text_frame(block, self.dialect, len(self.names), before=height)
            height += text.height
            self.line_breaks = self.line_breaks or _has_line_breaks(block, text.height)
            if height == text.height:
                self._make_room(text.height / len(block))
            self._take(text, self.wanted)
        broken = [name for name in self.wanted if self.columns[name].again]
        if broken:
            for name in broken:
                self.columns[name] = self.columns[name].read_again()
            only = [self.names.index(name) for name in broken]
            for block in self._blocks(None):
                text = text_frame(block, self.dialect, len(self.names), only=only)
                self._take(text, broken)
        # One column after the other: each gives its pieces back before the next is joined
        return pl.DataFrame([self.columns[name].finish() for name in self.wanted])

    def source(self) -> Source:
        """What was detected and told, in facts and in plain sentences."""
        dialect = self.dialect
        options: dict[str, Any] = {
            "delimiter": dialect.delimiter,
            "decimal": self.decimal,
            "encoding": dialect.encoding,
            "bom": bool(dialect.bom),
            "quote": dialect.quote,
            "dates": dict(self.asked.dates),
        }
        if self.asked.missing is not None:
            options["missing"] = self.asked.missing
        return Source(
            format="csv",
            path=self.path,
            options=options,
            columns={name: self.columns[name].reading() for name in self.wanted},
            notes=tuple(self._notes()),
        )

    def _notes(self) -> Iterator[str]:
        dialect = self.dialect
        if len(self.names) > 1:
            yield f"The cells are separated by {DELIMITERS[dialect.delimiter]}."
        if self.decimal == ",":
            yield "The numbers have a decimal comma."
        if dialect.bom:
            yield "The file begins with a byte order mark."
        if dialect.encoding != "utf-8":
            yield f"The text is in the encoding {dialect.encoding}; look at the accented letters."
        if self.line_breaks:
            yield "Some cells hold line breaks."

    def _blocks(self, progress: Progress | None) -> Iterator[bytes]:
        """The batches of records, without the header, which names the columns."""
        first = True
        for block in batches(self.path, self.dialect, progress=progress):
            records = block
            if first:
                end = first_record_end(block, self.dialect.quote)
                if not self.names:
                    self._head(block[:end])
                records, first = block[end:], False
            # Only the last batch can end with blank lines; they are no records, unless the
            # file has a single variable, whose missing cells look like that
            if len(self.names) > 1 and records.endswith((b"\n\n", b"\n\r\n")):
                records = records.rstrip(b"\r\n") + b"\n"
            blank = not records[:64].strip(b"\r\n") and not records.strip(b"\r\n")
            if len(self.names) > 1 and blank:
                continue
            if records:
                yield records

    def _make_room(self, records_per_byte: float) -> None:
        """Tell the columns how many records may come, going by the first batch."""
        size = self.path.stat().st_size
        for column in self.columns.values():
            column.room = int(size * records_per_byte * 1.1)

    def _head(self, record: bytes) -> None:
        """Name the columns, and hold what was told against the names."""
        asked = self.asked
        try:
            names = header_names(record.decode(), self.dialect)
        except UnicodeDecodeError:
            raise NotUtf8Error(record) from None
        if asked.formulas == "unescape":
            names = [unescape_name(name) for name in names]
            check_names(names)
        self.names = names
        kinds = told(names, asked.types, asked.dates)
        if isinstance(asked.missing, Mapping):
            present(names, asked.missing)
        present(names, asked.columns or [])
        self.wanted = names if asked.columns is None else list(dict.fromkeys(asked.columns))
        for name in self.wanted:
            tokens = asked.tokens(name)
            manner = Manner(
                decimal=self.decimal,
                tokens=TOKENS if tokens is None else tokens,
                pattern=asked.dates.get(name, ""),
                strict=name not in kinds,
            )
            self.columns[name] = Column(
                name, manner, told=kinds.get(name), told_tokens=tokens or frozenset()
            )

    def _take(self, text: pl.DataFrame, wanted: list[str]) -> None:
        """Hand a batch to its columns; the first one shows the decimal sign of the file."""
        text.columns = [self.names[int(place)] for place in text.columns]
        if self.asked.formulas == "unescape":
            text = _unescaped(text)
        if self.asked.decimal is None and not any(c.height for c in self.columns.values()):
            self.decimal = decimal_sign(text, self.dialect.delimiter)
            for column in self.columns.values():
                column.manner = replace(column.manner, decimal=self.decimal)
        for name in wanted:
            self.columns[name].take(text[name])


def _has_line_breaks(block: bytes, height: int) -> bool:
    return b'"' in block and block.count(b"\n") > height


def _unescaped(text: pl.DataFrame) -> pl.DataFrame:
    led = text.select(((pl.all() >= "'") & (pl.all() < "(")).any()).row(0)
    return text.with_columns(
        unescape(pl.col(name)) for name, any_led in zip(text.columns, led, strict=True) if any_led
    )
