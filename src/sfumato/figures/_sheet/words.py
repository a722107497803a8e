"""Names in pictures. They are untrusted: any length, any script, any sign."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.text import Text

_ODD = {"Cc", "Cs", "Cn", "Co", "Zl", "Zp"}
# They turn the direction of all that follows, so a name could hide or rewrite its neighbours.
_TURNING = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_BOX = "\u25a1"
_MINUS = "\u2212"
_LARGE, _SMALL, _HAIR = 1e6, 1e-4, 1e-9
TRUE_TEXT = "text-"
"""How the id of a text begins whose signs the font lacks; the true text follows in hexadecimal."""


def shown(name: Any, *, width: int = 24, lines: int = 2) -> str:
    r"""A name on few short lines, cut with an ellipsis where it is too long.

    Examples
    --------
    >>> shown("number of rooms in the house of the parents", width=16)
    'number of rooms\nin the house of…'
    """
    left = clean(name)
    made: list[str] = []
    while left and len(made) < lines:
        line = left[:width]
        if len(left) > width:
            space = left.rfind(" ", 0, width + 1)
            line = left[: space if space > width // 3 else width]
        left = left[len(line) :].strip()
        made.append(line)
    if left:
        made[-1] = f"{made[-1][: width - 1].rstrip()}…"
    return "\n".join(made)


def clean(name: Any) -> str:
    """The name without signs that cannot be drawn or that would break a file."""
    text = "".join(
        " " if unicodedata.category(one) in _ODD or one in _TURNING else one for one in str(name)
    )
    return " ".join(text.split()) or "(no name)"


def width_of(text: str, size: float) -> float:
    """How wide a line of text is, in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family="DejaVu Sans", size=size)
    wide = sum(unicodedata.east_asian_width(one) in "WF" for one in text)
    points, _, _ = text_to_path.get_text_width_height_descent(_drawable(text), font, ismath=False)
    # Signs that our font lacks are wider in the reader's than a box is.
    return (float(points) + 0.3 * size * wide) / 72


def write(artist: Text, text: str) -> Text:
    """Put a text into the picture as it is: a $ is a $, not the beginning of a formula.

    Signs that our font lacks are drawn as boxes, but an SVG gets the true text: the reader's own
    fonts may have them.
    """
    drawn = _drawable(text)
    artist.set_parse_math(False)
    artist.set_text(drawn)
    if drawn != text:
        artist.set_gid(TRUE_TEXT + text.encode().hex())
    return artist


def _drawable(text: str) -> str:
    return "".join(one if one == "\n" or ord(one) in _signs() else _BOX for one in text)


def number(value: float, digits: int = 4) -> str:
    """A number as it is written in a picture.

    Examples
    --------
    >>> number(-0.0350422), number(12345.0), number(1234567.0)
    ('−0.03504', '12,345', '1.235e6')
    """
    if value == round(value) and abs(value) < _LARGE:
        return f"{value:,.0f}".replace("-", _MINUS)
    told = f"{value:.{digits}g}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")
    return told.replace("-", _MINUS)


def tick(value: float, ticks: Sequence[float]) -> str:
    """A number at an axis, with as many digits as its neighbours need to differ.

    Examples
    --------
    >>> [tick(one, [0.4999, 0.5, 0.5001]) for one in (0.4999, 0.5)]
    ['0.4999', '0.5000']
    """
    gaps = [abs(b - a) for a, b in pairwise(ticks) if a != b]
    largest = max(map(abs, ticks), default=0.0)
    step = min(gaps, default=largest or 1.0)
    if largest >= _LARGE or largest < _SMALL:
        return number(float(f"{value:.4g}"))
    decimals = max(0, -math.floor(math.log10(step) + _HAIR))
    # A step of 0.25 needs one digit more than its size says.
    decimals += round(step, decimals) != float(f"{step:.12g}")
    return f"{value:,.{decimals}f}".replace("-", _MINUS)


@cache
def _signs() -> frozenset[int]:
    from matplotlib.font_manager import FontProperties, fontManager, get_font

    font = get_font(fontManager.findfont(FontProperties(family="DejaVu Sans")))
    return frozenset(font.get_charmap())
