"""Words without their accents, so that one spelling in our lists finds them all."""

from __future__ import annotations

import unicodedata

_BESIDES = str.maketrans({"ø": "o", "Ø": "O", "æ": "ae", "Æ": "Ae", "ł": "l", "Ł": "L", "ß": "ss"})


def without_accents(text: str) -> str:
    """The text in plain letters.

    Examples
    --------
    >>> without_accents("Größe, płeć")
    'Grosse, plec'
    """
    apart = unicodedata.normalize("NFKD", text.translate(_BESIDES))
    return "".join(sign for sign in apart if not unicodedata.combining(sign))
