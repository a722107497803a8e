"""Why a column stayed text, and which decimal sign a file uses: traps by their shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from sfumato.io.csv_types import Manner, parse, present_cells

if TYPE_CHECKING:
    from sfumato.io.source import Kind

GUESSES: tuple[Kind, ...] = ("integer", "number", "boolean", "date", "datetime")
SAMPLE = 2000

FITS = {
    "text": "no values, so text",
    "integer": "whole numbers throughout",
    "boolean": "true or false throughout",
    "date": "dates written year-month-day throughout",
    "datetime": "dates with times, written year-month-day, throughout",
}

# All cells of the sample have the first shape and one at least the second.
_TRAPS = (
    (
        r"^-?[0-9]+([.,][0-9]+)?$",
        r"^-?0[0-9]",
        "codes with leading zeros, such as postcodes, stay text",
    ),
    (r"^\+?[0-9]+$", r"^\+", "numbers led by a plus, such as telephone numbers, stay text"),
    (r"^-?[0-9]+$", r"[0-9]{16}", "whole numbers too long to be held exactly stay text"),
    (
        r"^[0-9]{1,4}[./-][0-9]{1,2}[./-][0-9]{1,4}( .*)?$",
        r"",
        (
            "may be dates, but which part is the day is not certain, so it stays text; "
            "declare it under [read]: dates = {{ {name!r} = '%d.%m.%Y' }}, or as it is written"
        ),
    ),
    (
        r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+",
        r"",
        (
            "dates with times in another form than one ISO form throughout, such as with a "
            "time zone, stay text"
        ),
    ),
    (
        r"^-?[0-9]{1,3}([,.'\x{2019} \x{a0}][0-9]{3})*([.,][0-9]+)?$",
        r"[,.'\x{2019} \x{a0}][0-9]{3}",
        "may be numbers with thousands separators, which are not guessed, so it stays text",
    ),
    (
        r"^-?[0-9]+([.,][0-9]+)?$",
        r"[.,]",
        (
            "numbers with another decimal sign than the rest of the file stay text; "
            "declare it under [read]: decimal = ',' or decimal = '.'"
        ),
    ),
    (
        r"^\s*[-+]?[0-9.,]+\s*$",
        r"^\s|\s$",
        (
            "numbers with spaces around them stay text; declare it under [read]: "
            "types = {{ {name!r} = 'number' }}"
        ),
    ),
)


def why_text(text: pl.Series, tokens: frozenset[str], before: Kind | None = None) -> str:
    """A sentence on why the column is text, without any cell of it.

    `before` is the kind that the cells before these had.
    """
    cells = present_cells(text, tokens).head(SAMPLE)
    for shape, trap, sentence in _TRAPS:
        if len(cells) and cells.str.contains(shape).all() and cells.str.contains(trap).any():
            return sentence.format(name=text.name)
    if before is not None:
        return f"not all cells are of the type of the first ones, {before}, so it stays text"
    return "words" if len(cells) else "no values, so text"


def decimal_sign(frame: pl.DataFrame, delimiter: str) -> str:
    """The decimal sign of the file: a comma only where nothing else explains the cells.

    Assumes: one sign per file. Where both are seen, the semicolon speaks for the comma.
    """
    comma = point = False
    sample = frame.head(SAMPLE).select(pl.all().str.contains("[.,]").any())
    for name in (name for name, signs in zip(sample.columns, sample.row(0), strict=True) if signs):
        text = frame[name]
        cells = present_cells(text, Manner().tokens)
        head = cells.head(SAMPLE)
        # 1,234 may be a thousand; 12,5 and 0,125 and 1234,567 cannot
        if (
            not comma
            and head.str.contains(r"^-?[0-9]*(,[0-9]+)?$").all()
            and head.str.contains(r"^-?(0?|[0-9]{4,}),[0-9]+$|,([0-9]{1,2}|[0-9]{4,})$").any()
        ):
            comma = parse(cells, "number", Manner(decimal=",")) is not None
        elif not point and head.str.contains(r"^-?[0-9]+\.[0-9]+$").any():
            point = parse(cells, "number", Manner()) is not None
    return "," if comma and (delimiter == ";" or not point) else "."
