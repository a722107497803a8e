"""One batch of records as a frame of text, with nothing lost, shifted or mended in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from sfumato.errors import DataError
from sfumato.io.csv_detect import ragged
from sfumato.io.csv_records import check_quotes, unclosed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.io.csv_detect import Dialect

_RAGGED = "every record needs a cell for every variable; a cell that holds the delimiter is quoted."
_WORTH_KEEPING = 2000  # records in a piece


class NotUtf8Error(Exception):
    """The bytes are not UTF-8 after all; never reaches the user. Holds the bytes."""

    def __init__(self, block: bytes) -> None:
        super().__init__("not UTF-8")
        self.block = block


def text_frame(
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
            schema={str(place): pl.String for place in range(width)},
            columns=None if only is None else list(only),
            separator=dialect.delimiter,
            quote_char=dialect.quote,
        )
    except pl.exceptions.PolarsError:
        # Its text quotes cells: find out ourselves what is wrong, and say only that
        raise _diagnosis(block, dialect, width, before) from None
    if only is None and width > 1 and _short(frame, block, dialect, quoted=quoted):
        raise _diagnosis(block, dialect, width, before)
    # Many small pieces, as wide tables give, cost more to handle than to join
    return frame.rechunk() if frame.height < _WORTH_KEEPING * frame.n_chunks() else frame


def _short(frame: pl.DataFrame, block: bytes, dialect: Dialect, *, quoted: bool) -> bool:
    """Whether a record has too few cells; the fast reader fills those up in silence.

    It does refuse records with too many, so a count of the delimiters settles it. A record
    that is short has nothing in the last variable, so most quoted batches need no count.
    """
    inside = 0
    if quoted:
        if not frame.to_series(-1).null_count():
            return False
        counted = frame.select(pl.all().str.count_matches(dialect.delimiter, literal=True).sum())
        inside = sum(counted.row(0))
    codes = np.frombuffer(block, np.uint8)  # several times as fast as counting in bytes
    found = np.count_nonzero(codes == ord(dialect.delimiter)) - inside
    return bool(found != frame.height * (frame.width - 1))


def _diagnosis(block: bytes, dialect: Dialect, width: int, before: int) -> Exception:
    try:
        block.decode()
    except UnicodeDecodeError:
        return NotUtf8Error(block)
    uneven = ragged(block, dialect, width, before)
    return DataError(uneven, hint=_RAGGED) if uneven else unclosed()
