"""Names and numbers as they are written in figures and captions.

Names are untrusted: any length, any script, any character. Numbers in the captions of public
figures are so rough that nobody can work out a few records from them.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.text import Text

_UNPRINTABLE = {"Cc", "Cs", "Cn", "Co", "Zl", "Zp"}
# They turn the direction of all that follows, so a name could hide or rewrite its neighbours.
_BIDIRECTIONAL = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_BOX = "\u25a1"
_MINUS = "\u2212"
_LARGE, _SMALL, _TOLERANCE = 1e6, 1e-4, 1e-9
_ROUGH, FINEST_COUNT = 100, 5
_FINEST_SHARE = 0.01
TRUE_TEXT = "text-"
"""Prefix of the id of a text whose characters the font lacks; the true text follows in hex."""


def wrap_name(name: Any, *, width: int = 24, lines: int = 2) -> str:
    r"""A name on few short lines, cut with an ellipsis where it is too long.

    Examples
    --------
    >>> wrap_name("number of rooms in the house of the parents", width=16)
    'number of rooms\nin the house of…'
    """
    remaining = clean_name(name)
    wrapped: list[str] = []
    while remaining and len(wrapped) < lines:
        line = remaining[:width]
        if len(remaining) > width:
            space = remaining.rfind(" ", 0, width + 1)
            line = remaining[: space if space > width // 3 else width]
        remaining = remaining[len(line) :].strip()
        wrapped.append(line)
    if remaining:
        wrapped[-1] = f"{wrapped[-1][: width - 1].rstrip()}…"
    return "\n".join(wrapped)


def clean_name(name: Any) -> str:
    """The name without characters that cannot be drawn or that would break a file."""
    text = "".join(
        " " if unicodedata.category(char) in _UNPRINTABLE or char in _BIDIRECTIONAL else char
        for char in str(name)
    )
    return " ".join(text.split()) or "(no name)"


def measure_width(text: str, size: float) -> float:
    """How wide a line of text is, in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family="DejaVu Sans", size=size)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    points, _, _ = text_to_path.get_text_width_height_descent(
        _replace_missing(text), font, ismath=False
    )
    # Characters that our font lacks are wider in the reader's font than a box is.
    return (float(points) + 0.3 * size * wide) / 72


def write(artist: Text, text: str) -> Text:
    """Put a text into the figure as it is: a $ is a $, not the beginning of a formula.

    Characters that our font lacks are drawn as boxes, but an SVG gets the true text: the reader's
    own fonts may have them.
    """
    drawn = _replace_missing(text)
    artist.set_parse_math(False)
    artist.set_text(drawn)
    if drawn != text:
        artist.set_gid(TRUE_TEXT + text.encode().hex())
    return artist


def _replace_missing(text: str) -> str:
    known = _read_charmap()
    return "".join(char if char == "\n" or ord(char) in known else _BOX for char in text)


@cache
def _read_charmap() -> frozenset[int]:
    from matplotlib.font_manager import FontProperties, fontManager, get_font

    font = get_font(fontManager.findfont(FontProperties(family="DejaVu Sans")))
    return frozenset(font.get_charmap())


def format_number(value: float, digits: int = 4) -> str:
    """A number as it is written in a figure.

    Examples
    --------
    >>> format_number(-0.0350422), format_number(12345.0), format_number(1234567.0)
    ('−0.03504', '12,345', '1.235e6')
    """
    if value == round(value) and abs(value) < _LARGE:
        return f"{value:,.0f}".replace("-", _MINUS)
    text = f"{value:.{digits}g}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")
    return text.replace("-", _MINUS)


def format_tick(value: float, ticks: Sequence[float]) -> str:
    """A number at an axis, with as many digits as its neighbours need to differ.

    Examples
    --------
    >>> [format_tick(value, [0.4999, 0.5, 0.5001]) for value in (0.4999, 0.5)]
    ['0.4999', '0.5000']
    """
    gaps = [abs(b - a) for a, b in pairwise(ticks) if a != b]
    largest = max(map(abs, ticks), default=0.0)
    step = min(gaps, default=largest or 1.0)
    if largest >= _LARGE or largest < _SMALL:
        return format_number(float(f"{value:.4g}"))
    decimals = max(0, -math.floor(math.log10(step) + _TOLERANCE))
    # A step of 0.25 needs one digit more than its size says.
    decimals += round(step, decimals) != float(f"{step:.12g}")
    return f"{value:,.{decimals}f}".replace("-", _MINUS)


def format_intervals(level: float | None) -> str:
    """What the lines of a forest plot are, as far as their level is known.

    Examples
    --------
    >>> format_intervals(0.95).replace("\u00a0", " "), format_intervals(None)
    ('95 % intervals', 'intervals')
    """
    return "intervals" if level is None else f"{100 * level:.10g}\u00a0% intervals"


def format_records(records: int, word: str = "records") -> str:
    """How many records, or persons, a figure rests on, rounded down.

    Examples
    --------
    >>> format_records(497), format_records(38)
    ('at least 490 records', 'at least 35 records')
    """
    return f"at least {round_records(records):,} {word}"


def round_records(records: int) -> int:
    """A number of records, rounded down to a multiple of 5, or to two digits where they are many.

    Examples
    --------
    >>> round_records(497), round_records(38)
    (490, 35)
    """
    step = FINEST_COUNT if records < _ROUGH else 10 ** max(1, len(str(records)) - 2)
    return records // step * step


def format_rough_share(share: float, *, records: int, k: int) -> str:
    """A share of the records in words; never so fine that it stands for fewer than k of them.

    Examples
    --------
    >>> format_rough_share(0.0712, records=5000, k=3), format_rough_share(2e-4, records=5000, k=3)
    ('about 7 %', 'less than 1 %')
    >>> format_rough_share(0.05, records=20, k=3)
    'less than 30 %'
    """
    finest = max(_FINEST_SHARE, math.ceil(200 * k / max(records, 1)) / 100)
    if share < finest:
        return f"less than {100 * min(finest, 1.0):.0f} %"
    steps = round(share / finest)
    return f"about {min(100 * finest * steps, 100):.0f} %"
