"""Numbers that are kept as text: "90000", "90,000.00", "90 000", "9e4", "90k" and "EUR 90000".

A comma or a point before three digits may divide thousands or begin the decimals. So there are
three readings: commas divide thousands, points do, or both do. A text that has no sense by one
custom is read by another.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

import numpy as np
import polars as pl

from sfumato.kernels.arrays import Floats, Mask

_MONEY = "$€£¥"
_CODES = "eur|usd|gbp|chf|cny|jpy"
_CURRENCIES = {*_CODES.split("|"), "euro", "euros", "dollar", "dollars", "pound", "pounds"}
_LIKELY = rf"(?i)^\W*(?:{_CODES})?\W*\p{{Nd}}"
"""A digit, and nothing before it but signs, blanks and currencies."""
_THOUSANDS = {"k": 1e3, "tsd": 1e3, "thousand": 1e3, "mio": 1e6, "mn": 1e6, "million": 1e6}
_NUMBER = re.compile(
    rf"(?P<sign>(?:[-+({_MONEY} ]|{_CODES})*)(?P<digits>[.,]?\d(?:[\d., ']*\d)?)[.,]?"
    r"(?:e(?P<power>[-+]?\d{1,3}))?(?P<unit>[^\d]*)"
)
_SIGNS = str.maketrans(
    {**dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"), "\u2019": "'", "_": " "}
)
_CUSTOMS = tuple(
    re.compile(rf"(\d+|\d{{1,3}}(?:[ '{thousands}]\d{{2,3}})*[ '{thousands}]\d{{3}})?"
               rf"(?:{decimals}(\d*))?")
    for thousands, decimals in ((",", "[.]"), (".", ","), (",.", "(?!)"))
)  # fmt: skip
_AMBIGUOUS = r"^\W*\d{1,3}([.]\d{3})+\W*$"


@dataclass(frozen=True, eq=False)
class TextNumbers:
    """Texts as numbers, by one custom.

    Parameters
    ----------
    numbers : the number of each text, NaN where it is none.
    units : what follows the number, such as "mg"; "" for none and for currencies.
    """

    numbers: Floats
    units: tuple[str, ...]

    @property
    def readable(self) -> Mask:
        """Which texts are numbers."""
        return ~np.isnan(self.numbers)


def read_text_numbers(texts: pl.Series) -> list[TextNumbers]:
    """Texts as numbers by each custom that makes a difference; none where no text is a number.

    Examples
    --------
    >>> texts = pl.Series(["90000.04", "90,000", "9e4", "90 000 EUR", "5 mg", "E11.9"])
    >>> [reading.numbers.tolist() for reading in read_text_numbers(texts)]
    [[90000.04, 90000.0, 90000.0, 90000.0, 5.0, nan], [90000.04, 90.0, 90000.0, 90000.0, 5.0, nan]]
    """
    customs = len(_CUSTOMS)
    likely = texts.str.contains(_LIKELY).arg_true().to_numpy()
    if not len(likely):
        return []
    numbers, units = np.full((customs, len(texts)), np.nan), [""] * len(texts)
    # Most are written as a computer writes them.
    plain = texts.gather(likely).cast(pl.Float64, strict=False).to_numpy()
    numbers[:, likely] = plain
    for position in likely[np.isnan(plain)].tolist():
        numbers[:, position], units[position] = _read_number(texts[position])
    # "1.234" is a plain number, and by the other custom a thousand.
    for position in texts.str.contains(_AMBIGUOUS).arg_true().to_list():
        numbers[:, position] = _read_number(texts[position])[0]
    numbers[np.isinf(numbers)] = np.nan
    if np.isnan(numbers).all():
        return []
    different = {row.tobytes(): row for row in numbers}
    return [TextNumbers(row, tuple(units)) for row in different.values()]


def _read_number(text: str) -> tuple[list[float], str]:
    """The number by each custom, NaN where it is none, and its unit."""
    none = [np.nan] * len(_CUSTOMS), ""
    signs = unicodedata.normalize("NFKC", text.translate(_SIGNS)).casefold()
    plain = "".join(
        str(unicodedata.decimal(sign, sign)) for sign in signs if unicodedata.category(sign) != "Cf"
    )
    plain = " ".join(plain.split()).strip(" \"';:!?")
    match = _NUMBER.fullmatch(plain)
    if match is None:
        return none
    words = re.sub(rf"[{_MONEY})]", " ", match["unit"]).split()
    factor = _THOUSANDS[words.pop(0)] if words and words[0] in _THOUSANDS else 1.0
    unit = " ".join(word for word in words if word.strip(".") not in _CURRENCIES)
    factor *= -1.0 if "-" in match["sign"] or "(" in match["sign"] else 1.0
    factor *= 10.0 ** int(match["power"] or 0)
    by_custom = [_read_digits(match["digits"], custom) for custom in _CUSTOMS]
    sensible = [number for number in by_custom if not np.isnan(number)]
    if not sensible:
        return none
    numbers = [sensible[0] if np.isnan(number) else number for number in by_custom]
    return [number * factor for number in numbers], unit


def _read_digits(digits: str, custom: re.Pattern[str]) -> float:
    match = custom.fullmatch(digits)
    if match is None:
        return np.nan
    whole = re.sub(r"\D", "", match[1] or "0")
    return float(f"{whole}.{match[2] or '0'}")
