"""The bytes of a text table, cut into batches of whole records.

The file is never held whole: a batch is read, decoded, checked and handed on.
"""

from __future__ import annotations

import codecs
import gzip
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

import numpy as np

from sfumato.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.io.csv_detect import Dialect
    from sfumato.io.source import Progress

BATCH_BYTES = 8 << 20
#: A record longer than this is taken for a quotation mark that was never closed.
RECORD_BYTES = 64 << 20


@contextmanager
def opened(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """The file's bytes (unpacked) and the raw file, whose position tells the progress."""
    with path.open("rb") as raw:
        if path.suffix.lower() != ".gz":
            yield raw, raw
            return
        with gzip.open(raw) as unpacked:
            try:
                yield unpacked, raw  # type: ignore[misc]  # GzipFile is a file of bytes in all but name
            except (gzip.BadGzipFile, EOFError):
                raise DataError(f"'{path.name}' is not a whole gzip file.") from None


def batches(path: Path, dialect: Dialect, *, progress: Progress | None = None) -> Iterator[bytes]:
    """The file in UTF-8, in batches that each end with a record; the header is in the first."""
    total = path.stat().st_size
    decoder = (
        None
        if dialect.encoding == "utf-8"
        else codecs.getincrementaldecoder(dialect.encoding)(errors="strict")
    )
    # One buffer for all batches: fresh memory for each would cost as much as reading them
    buffer, filled = bytearray(BATCH_BYTES), 0
    with opened(path) as (stream, raw):
        stream.read(len(dialect.bom))
        ended = False
        while not ended:
            before = filled
            if decoder:
                block = stream.read(BATCH_BYTES)
                ended = not block
                text = _decoded(decoder, block, dialect, final=ended)
                filled += len(text)
                buffer[before:filled] = text
            else:
                filled += _filled(stream, buffer, before)
                ended = filled == before
            if buffer.find(0, before, filled) >= 0:
                raise DataError(
                    f"'{path.name}' holds NUL bytes, which no text table does.",
                    hint="is it UTF-16? then tell encoding='utf-16-le'; else it is damaged.",
                )
            end = filled if ended else last_record_end(buffer, filled, dialect.quote)
            if end:
                with memoryview(buffer) as view:
                    records = bytes(view[:end])
                buffer[: filled - end] = buffer[end:filled]
                filled -= end
                yield records
                del records  # batches in flight are what the peak is made of
            if progress:
                progress(min(raw.tell(), total), total)
            if filled > RECORD_BYTES:
                raise unclosed()


def _filled(stream: IO[bytes], buffer: bytearray, start: int) -> int:
    """Read into the buffer from there on; it grows where a record is longer than a batch."""
    if len(buffer) - start < BATCH_BYTES // 2:
        buffer.extend(bytes(BATCH_BYTES))
    with memoryview(buffer) as view:
        return stream.readinto(view[start:])  # type: ignore[attr-defined, no-any-return]  # both kinds of file have it


def unclosed() -> DataError:
    """The error for quotation marks that do not pair."""
    return DataError(
        "the quotation marks do not pair: one is opened and never closed, "
        "or stands within a cell without being doubled.",
        hint="write a mark within a cell twice, or tell quote=None if marks are plain text.",
    )


def _decoded(
    decoder: codecs.IncrementalDecoder | None, block: bytes, dialect: Dialect, *, final: bool
) -> bytes:
    if decoder is None:
        return block
    try:
        return decoder.decode(block, final).encode()
    except UnicodeError:
        raise DataError(
            f"the file is not in the encoding {dialect.encoding}.",
            hint="tell the right one, e.g. encoding='cp1252'.",
        ) from None


def last_record_end(block: bytes | bytearray, size: int, quote: str | None) -> int:
    """Where the last whole record of the block's first bytes ends; 0 if they hold none.

    A line break ends a record if the quotation marks before it pair. Blank lines at the end
    stay behind: only the next block shows whether they end the file.
    """
    end = block.rfind(b"\n", 0, size) + 1
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


def first_record_end(block: bytes, quote: str | None) -> int:
    """Where the header ends."""
    end = 0
    while True:
        found = block.find(b"\n", end)
        if found < 0:
            return len(block)
        end = found + 1
        if quote is None or block.count(quote.encode(), 0, end) % 2 == 0:
            return end


def check_quotes(block: bytes, dialect: Dialect) -> bool:
    """Whether the block holds quotation marks; refuses marks within a cell that are not doubled.

    The fast reader would drop such marks without a word.
    """
    if dialect.quote is None or dialect.quote.encode() not in block:
        return False
    codes = np.frombuffer(block, np.uint8)
    at = np.flatnonzero(codes == ord(dialect.quote))
    if len(at) % 2:
        raise unclosed()
    edge = np.zeros(256, bool)
    edge[[ord(dialect.quote), ord(dialect.delimiter), ord("\n"), ord("\r")]] = True
    opens = (at == 0) | edge[codes[np.maximum(at - 1, 0)]]
    last = len(codes) - 1
    closes = (at == last) | edge[codes[np.minimum(at + 1, last)]]
    if not (opens | closes).all():
        raise unclosed()
    return True
