"""Text tables read in batches of whole records: text first, then the type that every cell fits.

The file is never held whole: a batch is read, decoded, checked and handed on.
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.errors import DataError, did_you_mean
from sfumato.io.csv_dialect import (
    DELIMITERS,
    Dialect,
    check_names,
    describe_ragged_record,
    detect_delimiter,
    detect_encoding,
    guess_encoding,
    make_quote_error,
    parse_header,
)
from sfumato.io.csv_types import TOKENS, CellFormat, TextColumn, add_batch, detect_decimal_sign
from sfumato.io.declared_types import check_declared_types, require_present
from sfumato.io.formulas import unescape, unescape_name
from sfumato.io.room import bound_unpacked
from sfumato.io.source import Progress, Source, SourceTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.io.source import Progress


BATCH_BYTES = 4 << 20
#: Records that the first batch of a wide file holds: each batch costs something for every column.
_FEWEST_RECORDS = 64
#: A record longer than this is taken for a quotation mark that was never closed.
RECORD_BYTES = 64 << 20
_NAMES_AMONG_VALUES = 2
_MOST_NAMED = 30
"""Variables that a note names."""


class _BoundedGzip(gzip.GzipFile):
    """A packed file that does not unpack to far more than a table does."""

    def __init__(self, path: Path, raw: IO[bytes]) -> None:
        super().__init__(fileobj=raw, mode="rb")
        self._path = path
        self._bound = bound_unpacked(path.stat().st_size)

    def read(self, size: int | None = -1) -> bytes:
        block = super().read(size)
        if self.tell() > self._bound:
            raise DataError(
                f"'{self._path.name}' unpacks to far more than a table does.",
                hint="it may be made to exhaust the memory; if it is not, unpack it yourself.",
            )
        return block


@contextmanager
def open_bytes(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """The file's bytes (unpacked) and the raw file, whose position tells the progress."""
    with path.open("rb") as raw:
        if path.suffix.lower() != ".gz":
            yield raw, raw
            return
        with _BoundedGzip(path, raw) as unpacked:
            try:
                yield unpacked, raw  # type: ignore[misc]  # GzipFile is a file of bytes in all but name
            except (gzip.BadGzipFile, EOFError, zlib.error):
                raise DataError(f"'{path.name}' is not a whole gzip file.") from None


def read_batches(
    path: Path, dialect: Dialect, *, progress: Progress | None = None
) -> Iterator[bytes]:
    """The file in UTF-8, in batches that each end with a record; the header is in the first."""
    total, rest, ended = path.stat().st_size, b"", False
    decoder = codecs.getincrementaldecoder(dialect.encoding)(errors="strict")
    with open_bytes(path) as (stream, raw):
        stream.read(len(dialect.bom))
        while not ended:
            block = stream.read(BATCH_BYTES)
            ended = not block
            if dialect.encoding != "utf-8":
                block = _decode(decoder, block, dialect, final=ended)
            if 0 in block:
                raise DataError(
                    f"'{path.name}' holds NUL bytes, which no text table does.",
                    hint="is it UTF-16? then pass encoding='utf-16-le'; else it is damaged.",
                )
            rest += block
            del block  # batches in flight are what the peak is made of
            fewest = min((rest.find(b"\n") + 1) * _FEWEST_RECORDS, RECORD_BYTES)
            if ended or len(rest) >= fewest:
                end = len(rest) if ended else find_last_record_end(rest, dialect.quote)
                records, rest = rest[:end], rest[end:]
                if records:
                    yield records
                del records
            if progress:
                progress(min(raw.tell(), total), total)
            if len(rest) > RECORD_BYTES:
                raise make_quote_error()


def _decode(
    decoder: codecs.IncrementalDecoder, block: bytes, dialect: Dialect, *, final: bool
) -> bytes:
    try:
        return decoder.decode(block, final).encode()
    except UnicodeError:
        raise DataError(
            f"the file is not in the encoding {dialect.encoding}.",
            hint="name the right one, e.g. encoding='cp1252'.",
        ) from None


def find_last_record_end(block: bytes, quote: str | None) -> int:
    """Where the last whole record of the block ends; 0 if it holds none.

    A line break ends a record if the quotation marks before it pair. Blank lines at the end
    stay behind: only the next block shows whether they end the file.
    """
    end = block.rfind(b"\n") + 1
    mark = (quote or "").encode()
    # To look for a mark is far cheaper than to count them
    if quote is not None and block.find(mark, 0, end) >= 0:
        odd = block.count(mark, 0, end) % 2
        while end and odd:
            before = block.rfind(b"\n", 0, end - 1) + 1
            odd = (odd + block.count(mark, before, end)) % 2
            end = before
    while block.endswith((b"\n\n", b"\n\r\n"), max(0, end - 3), end):
        end = block.rfind(b"\n", 0, end - 1) + 1
    return end


def find_first_record_end(block: bytes, quote: str | None) -> int:
    """Where the header ends."""
    end = block.find(b"\n") + 1
    while end and quote is not None and block.count(quote.encode(), 0, end) % 2:
        end = block.find(b"\n", end) + 1
    return end or len(block)


def check_quotes(block: bytes, dialect: Dialect) -> bool:
    """Whether the block holds quotation marks; refuses marks within a cell that are not doubled.

    Polars would drop such marks without a word.
    """
    if dialect.quote is None or dialect.quote.encode() not in block:
        return False
    codes = np.frombuffer(b"\n%b\n" % block, np.uint8)
    marks = np.flatnonzero(codes == ord(dialect.quote))
    edges = np.zeros(256, bool)
    edges[[ord(sign) for sign in f"{dialect.quote}{dialect.delimiter}\n\r"]] = True
    if len(marks) % 2 or not (edges[codes[marks - 1]] | edges[codes[marks + 1]]).all():
        raise make_quote_error()
    return True


_RAGGED = "every record needs a cell for every variable; a cell that holds the delimiter is quoted."


class NotUtf8Error(Exception):
    """The bytes are not UTF-8 after all; never reaches the user. Holds the bytes."""

    def __init__(self, block: bytes) -> None:
        super().__init__("not UTF-8")
        self.block = block


def read_text_frame(
    block: bytes,
    dialect: Dialect,
    width: int,
    *,
    before: int = 0,
    only: Sequence[int] | None = None,
) -> pl.DataFrame:
    """The cells of the records as text; columns are named by their place.

    `only` reads some of the columns of a batch that was checked before. An empty cell is
    null, a quoted empty one is an empty text.
    """
    quoted = check_quotes(block, dialect)
    try:
        frame = pl.read_csv(
            block,
            has_header=False,
            schema={str(position): pl.String for position in range(width)},
            columns=None if only is None else list(only),
            separator=dialect.delimiter,
            quote_char=dialect.quote,
        )
    except pl.exceptions.PolarsError:
        # Its text quotes cells: find out ourselves what is wrong, and say only that
        raise _diagnose(block, dialect, width, before) from None
    if only is None and width > 1 and _has_short_record(frame, block, dialect, quoted=quoted):
        raise _diagnose(block, dialect, width, before)
    return frame


def _has_short_record(frame: pl.DataFrame, block: bytes, dialect: Dialect, *, quoted: bool) -> bool:
    """Whether a record has too few cells; polars fills those up in silence.

    It does refuse records with too many, so a count of the delimiters settles it. A record
    that is short has nothing in the last variable, so most quoted batches need no count.
    """
    quoted_count = 0
    if quoted:
        if not frame.to_series(-1).null_count():
            return False
        counted = frame.select(pl.all().str.count_matches(dialect.delimiter, literal=True).sum())
        quoted_count = sum(counted.row(0))
    codes = np.frombuffer(block, np.uint8)  # several times as fast as counting in bytes
    delimiters = np.count_nonzero(codes == ord(dialect.delimiter)) - quoted_count
    return bool(delimiters != frame.height * (frame.width - 1))


def _diagnose(block: bytes, dialect: Dialect, width: int, before: int) -> Exception:
    try:
        block.decode()
    except UnicodeDecodeError:
        return NotUtf8Error(block)
    uneven = describe_ragged_record(block, dialect, width, before)
    return DataError(uneven, hint=_RAGGED) if uneven else make_quote_error()


Tokens = Sequence[str] | Mapping[str, Sequence[str]]

_SAMPLE_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class _Options:
    """What the custodian declared about the file."""

    columns: Sequence[str] | None
    types: Mapping[str, str]
    dates: Mapping[str, str]
    missing: Tokens | None
    decimal: str | None
    formulas: str

    def tokens(self, name: str) -> frozenset[str] | None:
        """The tokens declared for this variable; None where the usual ones hold."""
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
) -> SourceTable:
    """The records of a CSV or TSV file, packed with gzip or not.

    `missing` are tokens that mean no value, in all variables or per variable; declared ones take
    the place of the usual ones, and count in text too. `formulas="unescape"` takes away the
    apostrophes that writing put before cells a spreadsheet would run.
    """
    _require_choice("delimiter", delimiter, [None, *DELIMITERS])
    _require_choice("decimal", decimal, [None, ".", ","])
    _require_choice("quote", quote, [None, '"', "'"])
    _require_choice("formulas", formulas, ["keep", "unescape"])
    options = _Options(
        columns=columns,
        types=types or {},
        dates=dates or {},
        missing=missing,
        decimal=decimal,
        formulas=formulas,
    )
    dialect = _detect_dialect(path, delimiter, encoding, quote)
    try:
        run = _CsvReader(path, dialect, options)
        frame = run.read(progress)
    except NotUtf8Error as broken:
        if encoding or dialect.bom:
            raise DataError(
                f"'{path.name}' is not in the encoding {encoding or 'of its byte order mark'}.",
                hint="name the right one, e.g. encoding='cp1252'.",
            ) from None
        run = _CsvReader(path, replace(dialect, encoding=guess_encoding(broken.block)), options)
        try:
            frame = run.read(progress)
        except NotUtf8Error:  # the file ends within a character
            raise DataError(
                f"'{path.name}' holds bytes that are no text.",
                hint="was it copied in full? else name its encoding, e.g. encoding='cp1252'.",
            ) from None
    return SourceTable(frame, run.describe_source())


def list_names(
    path: Path,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    quote: str | None = '"',
    formulas: str = "keep",
    **_: Any,
) -> list[str]:
    """The names of the variables, without the records."""
    dialect = _detect_dialect(path, delimiter, encoding, quote)
    block = next(read_batches(path, dialect))
    record = block[: find_first_record_end(block, quote)]
    try:
        header = record.decode()
    except UnicodeDecodeError:
        dialect = replace(dialect, encoding=guess_encoding(block))
        header = record.decode(dialect.encoding)
    names = parse_header(header, dialect)
    return [unescape_name(name) for name in names] if formulas == "unescape" else names


def _require_choice(option: str, value: str | None, allowed: list[str | None]) -> None:
    if value not in allowed:
        known = [repr(other) for other in allowed]
        raise DataError(
            f"the option {option} cannot be {value!r}.", hint=did_you_mean(repr(value), known)
        )


def _detect_dialect(
    path: Path, delimiter: str | None, encoding: str | None, quote: str | None
) -> Dialect:
    with open_bytes(path) as (stream, _):
        sample = stream.read(_SAMPLE_BYTES)
    known, bom = detect_encoding(sample, encoding)
    text = sample[len(bom) :].decode(known, errors="replace")
    if not text.strip("\r\n \t\ufeff"):
        raise DataError(f"'{path.name}' is empty.", hint="was it copied in full?")
    if "\n" not in text and "\r" in text.rstrip("\r"):
        raise DataError(
            f"the lines of '{path.name}' end in carriage returns alone, as on old Macintoshes.",
            hint="save it with modern line ends.",
        )
    return Dialect(
        delimiter=delimiter or detect_delimiter(text, quote),
        encoding=known,
        bom=bom,
        quote=quote,
    )


class _CsvReader:
    """One reading of one file in one dialect."""

    def __init__(self, path: Path, dialect: Dialect, options: _Options) -> None:
        self.path = path
        self.dialect = dialect
        self.options = options
        self.decimal = options.decimal or "."
        self.names: list[str] = []
        self.wanted: list[str] = []
        self.columns: dict[str, TextColumn] = {}
        self.line_breaks = False
        self.repeated: set[str] = set()

    def read(self, progress: Progress | None) -> pl.DataFrame:
        """The typed frame. Columns that are of no type throughout are read once more, as text."""
        height = 0
        for block in self._read_blocks(progress):
            height += self._add_batch(block, self.wanted, height)
        for column in self.columns.values():
            column.settle()
        broken = [name for name in self.wanted if self.columns[name].must_reread]
        for name in broken:
            self.columns[name].restart()
        height = 0
        for block in self._read_blocks(None) if broken else ():
            height += self._add_batch(block, broken, height, again=True)
        # One column after the other: each gives its pieces back before the next is joined
        return pl.DataFrame([self.columns[name].finish() for name in self.wanted])

    def describe_source(self) -> Source:
        """What was detected and declared, in facts and in plain sentences."""
        dialect = self.dialect
        options: dict[str, Any] = {
            "delimiter": dialect.delimiter,
            "decimal": self.decimal,
            "encoding": dialect.encoding,
            "bom": bool(dialect.bom),
            "quote": dialect.quote,
            "dates": {
                name: pattern
                for name in self.wanted
                if (pattern := self.options.dates.get(name) or self.columns[name].day_order)
            },
        }
        if missing := self._describe_missing():
            options["missing"] = missing
        return Source(
            format="csv",
            path=self.path,
            options=options,
            columns={name: self.columns[name].describe_reading() for name in self.wanted},
            notes=tuple(self._list_notes()),
        )

    def _describe_missing(self) -> Tokens:
        """The tokens as declared, and those of variables in which words for "no value" stand."""
        declared = self.options.missing or {}
        if not isinstance(declared, Mapping):
            return sorted(declared)
        met = {name: column for name, column in self.columns.items() if column.words}
        return {
            **{name: list(tokens) for name, tokens in declared.items()},
            **{name: sorted(column.missing) for name, column in met.items()},
        }

    def _list_notes(self) -> Iterator[str]:
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
        yield from self._list_words()
        yield from (
            f"Variable '{name}': {column.reason}."
            for name, column in self.columns.items()
            if column.day_order or "contradict" in column.reason
        )

    def _list_words(self) -> Iterator[str]:
        """Which words among numbers were read as missing, in which variables, and how often."""
        variables: dict[frozenset[str], list[str]] = {}
        for name, column in self.columns.items():
            if column.words:
                counted = f"{name} ({column.word_cells:,})"
                variables.setdefault(column.words, []).append(counted)
        for words, named in variables.items():
            quoted = " and ".join(f'"{word}"' for word in sorted(words))
            more = len(named) - _MOST_NAMED
            others = f" and {more:,} more variables" if more > 0 else ""
            lost = "" if len(words) == 1 else "; which of them a cell had is not kept"
            yield (
                f"Among numbers or dates {quoted} is read as missing{lost}. Cells: "
                f"{', '.join(named[:_MOST_NAMED])}{others}."
            )

    def _read_blocks(self, progress: Progress | None) -> Iterator[bytes]:
        """The batches of records, without the header, which names the columns."""
        first = True
        for block in read_batches(self.path, self.dialect, progress=progress):
            records = block
            if first:
                end = find_first_record_end(block, self.dialect.quote)
                if not self.names:
                    self._start_columns(block[:end])
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

    def _start_columns(self, record: bytes) -> None:
        """Name the columns, and check what was declared against the names."""
        options = self.options
        try:
            names = parse_header(record.decode(), self.dialect)
        except UnicodeDecodeError:
            raise NotUtf8Error(record) from None
        if options.formulas == "unescape":
            names = [unescape_name(name) for name in names]
            check_names(names)
        self.names = names
        kinds = check_declared_types(names, options.types, options.dates)
        if isinstance(options.missing, Mapping):
            require_present(names, options.missing)
        require_present(names, options.columns or [])
        self.wanted = names if options.columns is None else list(dict.fromkeys(options.columns))
        for name in self.wanted:
            tokens = options.tokens(name)
            cell_format = CellFormat(
                decimal=self.decimal,
                tokens=TOKENS if tokens is None else tokens,
                pattern=options.dates.get(name, ""),
                strict=name not in kinds,
                words=name not in kinds and not tokens,
            )
            self.columns[name] = TextColumn(
                name, cell_format, declared=kinds.get(name), declared_tokens=tokens or frozenset()
            )

    def _add_batch(
        self, block: bytes, names: list[str], before: int, *, again: bool = False
    ) -> int:
        """Hand the cells of a batch to these columns; the number of its records."""
        chosen = set(names)
        only = [place for place, name in enumerate(self.names) if name in chosen] if again else None
        text = read_text_frame(block, self.dialect, len(self.names), before=before, only=only)
        text.columns = [self.names[int(position)] for position in text.columns]
        if self.options.formulas == "unescape":
            text = _unescape_cells(text)
        if not again:
            self.line_breaks |= _has_line_breaks(block, text.height, self.dialect.quote)
            self._refuse_header(text)
        if not before and not again:
            self.decimal = self.options.decimal or detect_decimal_sign(text, self.dialect.delimiter)
            for column in self.columns.values():
                column.format = replace(column.format, decimal=self.decimal)
        add_batch([self.columns[name] for name in names], text, before)
        return text.height

    def _refuse_header(self, text: pl.DataFrame) -> None:
        """Refuse a file whose first line is a record: it would be published as names of variables.

        One name among the values of its own column can be chance ("other" in a column "other");
        two are a record, or a header that stands in the file again.
        """
        self.repeated |= {name for name in text.columns if (text[name] == name).any()}
        if len(self.repeated) >= _NAMES_AMONG_VALUES:
            raise DataError(
                f"{len(self.repeated)} of {text.width} names of variables stand among the values "
                "of their own column: the first line seems to be a record, or the header is "
                "repeated further down.",
                hint="begin the file with a line of names, once.",
            )


def _has_line_breaks(block: bytes, height: int, quote: str | None) -> bool:
    if quote is None or quote.encode() not in block:
        return False
    return block.removesuffix(b"\n").count(b"\n") >= height


def _unescape_cells(text: pl.DataFrame) -> pl.DataFrame:
    led = text.select(((pl.all() >= "'") & (pl.all() < "(")).any()).row(0)
    return text.with_columns(
        unescape(pl.col(name)) for name, any_led in zip(text.columns, led, strict=True) if any_led
    )
