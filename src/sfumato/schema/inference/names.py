"""What the names of variables speak of: which signs their words give.

A sign is what words in a name speak of, the role that follows from it, and what the values must
show besides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Literal

from sfumato.schema import Kind, Role
from sfumato.schema.inference.words import ENDINGS, NUMBERS, PEOPLE, WORDS, remove_accents

Need = Literal[
    "", "own", "many", "text", "groups", "positive", "degrees", "weight", "age", "weights"
]


@dataclass(frozen=True, kw_only=True)
class Sign:
    """What words in a name speak of, the role that follows, and what the values must show besides.

    `needs`: nearly every record its `own` value; `many` different ones; `text`; `groups` of
    records; `positive` numbers; `degrees`; enough to tell a body `weight` from a survey weight;
    numbers that can be an `age`; or survey `weights`, of which some may be 0. `coded`: whole
    numbers are codes, however many there are. `says`: what it is that speaks of this.
    """

    role: Role
    what: str
    phrases: tuple[str, ...] = field(repr=False)
    note: str = ""
    kind: Kind | None = None
    needs: Need = ""
    coded: bool = False
    says: str = "Its name suggests"


NOTES: dict[str, str] = {
    "the date or year of birth": "with sex and postcode it singles most people out",
    "free text": "in which people may be named",
    "a postcode": "the finer it is, the fewer people share it",
}
KINDS: dict[str, Kind] = {
    "the date or year of birth": "integer",
    "a date in a person's life": "integer",
    "an age group": "ordinal",
    "age": "integer",
    "education": "ordinal",
    "a postcode": "nominal",
    "a place": "nominal",
    "the home": "nominal",
    "the cabin, room or bed": "nominal",
    "household or family": "integer",
    "travel or social class": "ordinal",
    "a school, household, site or other group": "nominal",
}
"""What whole numbers are where a name speaks of these; few of them are codes otherwise."""
NEEDS: dict[str, Need] = {
    "a medical record number": "many",
    "free text": "text",
    "the number of a person": "many",
    "a number or code of a record": "own",
    "coordinates of a place": "degrees",
    "body weight": "weight",
    "a survey weight": "positive",
    "a school, household, site or other group": "groups",
}


LOOSE_NEEDS: dict[str, Need] = {"age": "age", "a survey weight": "weights"}
"""The same where it is a label, or the code of a survey, that speaks of these."""


def _split_phrases(words: str) -> tuple[str, ...]:
    return tuple(" ".join(word.split()) for word in words.split(",") if word.strip())


def _build_signs() -> dict[str, Sign]:
    people, number = _split_phrases(PEOPLE), _split_phrases(NUMBERS)
    codes = (*number, "code")
    more = {
        "a person's name": tuple(
            f"{person} {name}" for person in people for name in ("name", "nom")
        ),
        "the number of a person": tuple(f"{who} {code}" for who in people for code in codes)
        # `id_paciente` is a number of a person; `num_patients` counts them.
        + tuple(
            f"{code} {person}" for person in people for code in ("id", "identifiant", "numero")
        ),
        "a number or code of a record": number,
    }
    return {
        what: Sign(
            role=role,
            what=what,
            phrases=_split_phrases(words) + more.get(what, ()),
            note=NOTES.get(what, ""),
            kind=KINDS.get(what),
            needs=NEEDS.get(what, ""),
        )
        for role, signs in WORDS.items()
        for what, words in signs.items()
    }


SIGNS = _build_signs()


_SPAN = 6  # words in the longest phrase
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_A-Za-z]+")
_INDEX: dict[str, tuple[Sign, bool]] = {
    phrase.lstrip("=").replace(" ", ""): (sign, phrase.startswith("="))
    for sign in reversed(SIGNS.values())  # the first to claim a phrase keeps it
    for phrase in sign.phrases
}
_ENDINGS = tuple(ENDINGS)
_RECORD = SIGNS["a number or code of a record"]
_OF = (["of"], ["de"], ["di"], ["d"], ["von"], ["van"], ["av"])  # `number_of_visits` is a count


def find_signs(name: str) -> list[Sign]:
    """What the words of a name speak of, the likeliest first.

    The last word says what a thing is (`hospital_charges` are charges), and of two phrases that
    end there the longer one (`date_of_birth`) says more.

    Examples
    --------
    >>> [sign.what for sign in find_signs("PatientBirthDate")][0]
    'the date or year of birth'
    """
    words = [word.casefold() for word in _WORD.findall(remove_accents(name))]
    bare = "".join(word for word in words if not word.isdigit())
    matches: list[tuple[int, int, Sign]] = []
    for start in range(len(words)):
        for end in range(start + 1, min(start + _SPAN, len(words)) + 1):
            run = "".join(words[start:end])
            sign, alone = _INDEX.get(run, (None, False))
            counts = sign == _RECORD and words[end : end + 1] in _OF
            if sign and not counts and (not alone or run == bare):
                matches.append((end, len(run), sign))
    matches.sort(key=lambda match: (-match[0], -match[1]))
    signs = [sign for _, _, sign in matches]
    compounds = [word for word in words if word.endswith(_ENDINGS)]
    signs += [
        SIGNS[ENDINGS[end]]
        for word in compounds
        for end in ENDINGS
        if word.endswith(end) and word != end
    ]
    # `phone_no` is a telephone number and `household_no` a household before they are numbers.
    numbers = [sign for sign in signs if sign.needs == "own"]
    others = [sign for sign in signs if sign.needs != "own"]
    specific = others and others[0].role in ("direct", "cluster")
    return others + numbers if specific else numbers + others


def find_label_signs(label: str) -> list[Sign]:
    """What the words of a variable's label speak of, the likeliest first.

    A label is a sentence, in which words like "phone" or "name" come up easily: that it points to a
    person must be borne out by the values.
    """
    return [
        replace(
            sign,
            says="Its label suggests",
            needs="own" if sign.role == "direct" else LOOSE_NEEDS.get(sign.what, sign.needs),
        )
        for sign in find_signs(label)
    ]
