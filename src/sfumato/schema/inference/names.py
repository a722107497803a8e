"""Reads the names of variables: which signs their words give."""

from __future__ import annotations

import re

from sfumato.schema.inference.accents import without_accents
from sfumato.schema.inference.signs import SIGNS, Sign
from sfumato.schema.inference.words import ENDINGS

_SPAN = 6  # words in the longest phrase
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_A-Za-z]+")
_INDEX: dict[str, tuple[Sign, bool]] = {
    phrase.lstrip("=").replace(" ", ""): (sign, phrase.startswith("="))
    for sign in reversed(SIGNS.values())  # the first to claim a phrase keeps it
    for phrase in sign.phrases
}
_RECORD = SIGNS["a number or code of a record"]
_OF = (["of"], ["de"], ["di"], ["d"], ["von"], ["van"], ["av"])  # `number_of_visits` is a count


def signs_in(name: str) -> list[Sign]:
    """What the words of a name speak of, the likeliest first.

    The last word says what a thing is (`hospital_charges` are charges), and of two phrases that
    end there the longer one (`date_of_birth`) says more.

    Examples
    --------
    >>> [sign.what for sign in signs_in("PatientBirthDate")][0]
    'the date or year of birth'
    """
    words = [word.casefold() for word in _WORD.findall(without_accents(name))]
    bare = "".join(word for word in words if not word.isdigit())
    found: list[tuple[int, int, Sign]] = []
    for start in range(len(words)):
        for end in range(start + 1, min(start + _SPAN, len(words)) + 1):
            run = "".join(words[start:end])
            sign, whole = _INDEX.get(run, (None, False))
            counts = sign == _RECORD and words[end : end + 1] in _OF
            if sign and not counts and (not whole or run == bare):
                found.append((end, len(run), sign))
    found.sort(key=lambda one: (-one[0], -one[1]))
    signs = [sign for _, _, sign in found]
    compounds = ((word, end) for word in words for end in ENDINGS if word != end)
    signs += [SIGNS[ENDINGS[end]] for word, end in compounds if word.endswith(end)]
    # `phone_no` is a telephone number and `household_no` a household before they are numbers.
    numbers, rest = ([s for s in signs if (s.needs == "own") is own] for own in (True, False))
    specific = rest and rest[0].role in ("direct", "cluster")
    return rest + numbers if specific else numbers + rest
