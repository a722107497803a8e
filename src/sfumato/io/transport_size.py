"""Whether a SAS transport file is whole, which the library that reads it does not ask.

The format has no end: a file that was cut off reads as a shorter one. What there is to go by is
its form. Everything comes in cards of 80 bytes; records follow one another without regard to
cards, and only blanks fill the last card. Version 8 also says how many records there are.

References: SAS Institute, TS-140 (version 5) and TS-140-2 (version 8).
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import IO

from sfumato.errors import DataError

_CARD = 80
_HEADER = re.compile(rb"HEADER RECORD\*{7}(\w+) +HEADER RECORD!{7}([ 0-9]{32})")
_TABLE = (b"MEMBER", b"MEMBV8")
_VARIABLES = (b"NAMESTR", b"NAMSTV8")
_OBSERVATIONS = (b"OBS", b"OBSV8")
_MOST_CARDS = 2_000_000  # of descriptions and labels: those of a hundred thousand variables


def require_whole_transport(path: Path) -> None:
    """Refuse a SAS transport file that ends within a card or a record, or has too few of them.

    Assumes: one table, as the library reads it. A file of version 5 that was cut off exactly
    between two records, at the end of a card, cannot be told from a whole one.
    """
    with path.open("rb") as file:
        width, told = _read_headers(path, file)
        start = file.tell()
        size = file.seek(0, os.SEEK_END) - start
        records, rest = divmod(size, width)
        file.seek(-rest, os.SEEK_END)
        filled = file.read().strip(b" ")
    whole = size % _CARD == 0 and rest < _CARD and not filled
    if not whole or (told is not None and records < told):
        raise _make_error(path)


def _read_headers(path: Path, file: IO[bytes]) -> tuple[int, int | None]:
    """The bytes of a record, and how many records there are, where that is told.

    The file then stands where the first record begins.
    """
    width = described_by = 0
    for _ in range(_MOST_CARDS):
        card = file.read(_CARD)
        header = _HEADER.match(card)
        if header is None:
            if len(card) < _CARD:
                break
            continue
        kind, numbers = header[1], header[2]
        if kind in _TABLE:
            described_by = int(numbers[25:30])  # bytes for each variable
        elif kind in _VARIABLES and described_by:
            length = int(numbers[5:10]) * described_by
            described = file.read(-(-length // _CARD) * _CARD)
            # Bytes 4 and 5 of a description are how many bytes the variable takes of a record.
            starts = range(0, length, described_by)
            width = sum(int.from_bytes(described[at + 4 : at + 6]) for at in starts)
        elif kind in _OBSERVATIONS and width:
            told = numbers[:15].strip() if kind == b"OBSV8" else b""
            return width, int(told) if told else None
    raise _make_error(path)


def _make_error(path: Path) -> DataError:
    return DataError(
        f"'{path.name}' is not a whole SAS transport file: its last records are missing.",
        hint="copy it again, and compare its size with that of the original.",
    )
