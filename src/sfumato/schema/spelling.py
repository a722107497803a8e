"""Texts that say the same to a reader though a computer tells them apart.

Case, blanks, accents, invisible characters, punctuation at the ends and letters of other alphabets
that look like Latin ones do not count. Synonyms, typing errors and look-alikes beyond the Cyrillic
and the Greek alphabet are not found.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

import numpy as np
import polars as pl

from sfumato.kernels.arrays import Integers

_BLANKS = re.compile(r"[\s_]+|(?<=[^\W\d_])-(?=[^\W\d_])")
_AROUND = " .,;:!?'\""
_DASHES = dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d", "-")
_QUOTES = dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u00b4\u0060\u02bc", "'") | dict.fromkeys(
    "\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'
)
# Letters of the Cyrillic and Greek alphabets, after case folding, that look like Latin ones.
_LOOKALIKES = dict(
    zip("аеорсухіјѕкмтвнӏԁԛԝһαορνικυχτεı", "aeopcyxijskmtbhldqwhaopvikuxtei", strict=True)
)  # fmt: skip
_SAME_SIGN = str.maketrans({**_DASHES, **_QUOTES})
_SAME_LETTER = str.maketrans(_LOOKALIKES)
# Fillers that are drawn as nothing although Unicode calls them letters or symbols.
_INVISIBLE = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\u034f")
_MARKS = ("\u0300", "\u036f")
_PLAIN = r"^[ -~]*$"


def normalise_spelling(text: str) -> str:
    """A text as a reader takes it, whatever its case, blanks and invisible characters.

    Examples
    --------
    >>> {normalise_spelling(text) for text in ("HIV", "hiv", " HIV ", "ＨＩＶ", "НIV", '"HIV".')}
    {'hiv'}
    >>> normalise_spelling("A+") == normalise_spelling("A-")
    False
    """
    signs = (
        sign
        for sign in unicodedata.normalize("NFKD", text.translate(_SAME_SIGN))
        if not _is_invisible(sign)
    )
    folded = unicodedata.normalize("NFKC", "".join(signs)).casefold().translate(_SAME_LETTER)
    # Case folding may leave marks behind, as with a dotted capital I.
    visible = "".join(sign for sign in folded if not _is_invisible(sign))
    return _BLANKS.sub(" ", visible.translate(_SAME_SIGN)).strip(_AROUND)


def _is_invisible(sign: str) -> bool:
    """Whether a character is drawn as nothing, or as an accent on the letter before it."""
    if _MARKS[0] <= sign <= _MARKS[1] or sign in _INVISIBLE:
        return True
    category = unicodedata.category(sign)
    return category == "Cf" or (category in ("Cc", "Mn") and _is_ignorable(sign))


def _is_ignorable(sign: str) -> bool:
    """A control character that is no blank, or a selector of how the one before is drawn."""
    return not sign.isspace() and (
        unicodedata.category(sign) == "Cc" or "VARIATION SELECTOR" in unicodedata.name(sign, "")
    )


_FEW = 32


def normalise_spellings(texts: pl.Series) -> pl.Series:
    """The same for many texts, in one pass where they are plain ASCII."""
    if len(texts) <= _FEW and not texts.null_count():
        # A pass over columns costs more than some texts one by one.
        return pl.Series(texts.name, map(normalise_spelling, texts.to_list()), dtype=pl.String)
    is_ascii = texts.str.contains(_PLAIN)
    keys = texts.str.to_lowercase().str.replace_all("`", "'", literal=True)
    if keys.str.contains(r"[a-z]-[a-z]").any():
        # Twice: of `a-b-c` the first match takes the b with it.
        for _ in range(2):
            keys = keys.str.replace_all(r"([a-z])-([a-z])", "$1 $2")
    keys = keys.str.replace_all(r"[ _]+", " ").str.strip_chars(_AROUND)
    if is_ascii.all():
        return keys
    odd = texts.filter(~is_ascii).to_list()
    slow = pl.Series(map(normalise_spelling, odd), dtype=pl.String)
    return keys.scatter((~is_ascii).arg_true(), slow)


def choose_representatives(texts: pl.Series, keys: pl.Series, first: Iterable[str]) -> Integers:
    """For each text the position of the one that stands for all with the same key.

    Those in `first` come first, in their order; then the texts in theirs.
    """
    position = {text: index for index, text in enumerate(texts.to_list())}
    wanted = [position[text] for text in dict.fromkeys(first) if text in position]
    order = dict.fromkeys([*wanted, *range(len(texts))])
    chosen: dict[str, int] = {}
    spelt = keys.to_list()
    for index in order:
        chosen.setdefault(spelt[index], index)
    return np.array([chosen[key] for key in spelt], np.int64)
