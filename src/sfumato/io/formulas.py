"""Cells that a spreadsheet would run as a formula, made harmless and back again.

Escape: a text that starts with any number of apostrophes and then a dangerous character
gets one apostrophe more. Undo: such a text with at least one apostrophe loses one. The two
are inverse to each other on every text, whether or not it held apostrophes before.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl

# The list of the OWASP page on CSV injection: the brief four, white space that spreadsheets
# skip, and the full-width forms that some of them read as the plain ones.
_STARTS = "=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20"
_ESCAPABLE = rf"^'*[{_STARTS}]"
_ESCAPED = rf"^'+[{_STARTS}]"


def find_dangerous(column: pl.Expr) -> pl.Expr:
    """Which cells need the apostrophe. Cheap comparisons first: few cells reach the pattern."""
    # All the starting characters and the apostrophe sort before "0", between "9" and "A",
    # or from the first full-width form on.
    candidate = (column < "0") | ((column >= ":") & (column < "A")) | (column >= "\uff0b")
    return candidate & column.str.contains(_ESCAPABLE)


def may_be_dangerous(column: pl.Series) -> bool:
    """Whether any cell of the column may be dangerous, at a fraction of the pattern's cost.

    Arrow keeps a text as a view of sixteen bytes whose fifth is the first of the text.
    """
    for piece in column.get_chunks():
        array = piece.to_arrow(compat_level=pl.CompatLevel.newest())
        views = np.frombuffer(array.buffers()[1], np.uint8).reshape(-1, 16)
        first = np.ascontiguousarray(views[array.offset : array.offset + len(array), 4])
        if any((first == byte).any() for byte in _NEAR):
            return True
    return False


# The first bytes of the starting characters, the apostrophe and the full-width forms.
_NEAR = tuple({character.encode()[0] for character in "'=+-@\t\r\n\uff1d"})


def escape(column: pl.Expr) -> pl.Expr:
    """The column with dangerous cells led by an apostrophe.

    Examples
    --------
    >>> pl.Series("x", ["=1+1", "'=1", "it's", None]).to_frame().select(
    ...     escape(pl.col("x"))
    ... )["x"].to_list()
    ["'=1+1", "''=1", "it's", None]
    """
    return column.str.replace(rf"^('*[{_STARTS}])", "'${1}")


def unescape(column: pl.Expr) -> pl.Expr:
    """The column as it was before `escape`."""
    return column.str.replace(rf"^'('*[{_STARTS}])", "${1}")


def escape_name(name: str) -> str:
    """A variable's name as it stands safely in a header."""
    return f"'{name}" if re.match(_ESCAPABLE, name) else name


def unescape_name(name: str) -> str:
    """A variable's name as it was before `escape_name`."""
    return name[1:] if re.match(_ESCAPED, name) else name
