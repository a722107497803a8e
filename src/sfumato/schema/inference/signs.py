"""Signs: what a name may speak of, the role that follows, and what the values must show besides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sfumato.schema import Kind, Role
from sfumato.schema.inference.words import NUMBERS, PEOPLE, WORDS

Need = Literal["", "own", "many", "text", "groups", "positive", "degrees", "weight"]


@dataclass(frozen=True, kw_only=True)
class Sign:
    """What words in a name speak of, the role that follows, and what the values must show besides.

    `needs`: nearly every record its `own` value; `many` different ones; `text`; `groups` of
    records; `positive` numbers; `degrees`; or enough to tell a body `weight` from a survey weight.
    """

    role: Role
    what: str
    phrases: tuple[str, ...] = field(repr=False)
    note: str = ""
    kind: Kind | None = None
    needs: Need = ""


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


def _phrases(words: str) -> tuple[str, ...]:
    return tuple(" ".join(word.split()) for word in words.split(",") if word.strip())


def _signs() -> dict[str, Sign]:
    who, number = _phrases(PEOPLE), _phrases(NUMBERS)
    codes = (*number, "code")
    more = {
        "a person's name": tuple(f"{one} {name}" for one in who for name in ("name", "nom")),
        "the number of a person": tuple(f"{one} {code}" for one in who for code in codes)
        # `id_paciente` is a number of a person; `num_patients` counts them.
        + tuple(f"{code} {one}" for one in who for code in ("id", "identifiant", "numero")),
        "a number or code of a record": number,
    }
    return {
        what: Sign(
            role=role,
            what=what,
            phrases=_phrases(words) + more.get(what, ()),
            note=NOTES.get(what, ""),
            kind=KINDS.get(what),
            needs=NEEDS.get(what, ""),
        )
        for role, signs in WORDS.items()
        for what, words in signs.items()
    }


SIGNS = _signs()
