"""Which identifiers survive in de-identified text: the records' own, and planted ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.cells.deidentifiers import deidentify, list_words, load_deidentifier
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.engines.verbs import AFTER
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.io.frames import to_canonical_text
from sfumato.kernels.arrays import Mask
from sfumato.measure import AttackWording, Measure, Trial
from sfumato.numbers import Number
from sfumato.parameters import parameters
from sfumato.schema import IDENTIFYING
from sfumato.schema.inference.words import remove_accents

_ASSUMPTIONS = (
    "Identifiers are planted in sentences of a common form; in the data they may stand in others.",
    "Of a record's own identifiers and of planted names, a single word that is left counts.",
    "What else a text tells of a person, such as a rare event, is not looked for.",
)
_CANARIES = {
    "name": (
        "Ottilie Brannigan", "Kwabena Oyelaran", "Margit Dziedzic", "Tomás Echeverría",
        "Xiuying Zhao", "Anneliese Kleinhenz", "Rhiannon Prothero", "Bartholomew Quigley",
        "Fatoumata Diarra", "Yusuf Karadeniz", "Svetlana Morozova", "Hamish Abercrombie",
        "Priyanka Raghunathan", "Leopold Winterfeld", "Guadalupe Zamorano", "Ingeborg Falkenrath",
    ),
    # Numbers that are kept for films and plays.
    "telephone number": (
        "020 7946 0123", "(212) 555-0147", "+49 30 23125 123", "01 99 00 12 34",
        "+44 7700 900 461", "555-0199", "0161-496-0958", "+1-303-555-0112",
    ),
    "e-mail address": (
        "o.brannigan@example.org", "kwabena_77@mail.example.com", "m-dziedzic@example.net",
        "tomas+clinic@example.co.uk",
    ),
    "number of a person": (
        "999 234 5678", "MRN-4822719", "K 8820113", "078-05-1120", "DE89 3704 0044 0532 0130 00",
        "48227193", "AB-123456-C",
    ),
}  # fmt: skip
_SENTENCES = {
    "en": "{name} called from {telephone number}, wrote from {e-mail address}, and gave "
    "{number of a person} as their number.",
    "de": "{name} rief von {telephone number} an, schrieb von {e-mail address} und nannte die "
    "Nummer {number of a person}.",
    "fr": "{name} a appelé du {telephone number}, a écrit de {e-mail address} et a donné le numéro "
    "{number of a person}.",
    "es": "{name} llamó desde {telephone number}, escribió desde {e-mail address} y dio el número "
    "{number of a person}.",
    "it": "{name} ha chiamato da {telephone number}, ha scritto da {e-mail address} e ha dato il "
    "numero {number of a person}.",
    "nl": "{name} belde vanaf {telephone number}, schreef vanaf {e-mail address} en gaf het nummer "
    "{number of a person}.",
}
_PLAIN = "{name}, {telephone number}, {e-mail address}, {number of a person}."
_OWN = "of the record's own"
_PLACEHOLDER = re.compile(r"<[A-Z_]+>")
_APART = "|"
_LOOSE, _FEWEST = 6, 3


@parameters
class SurvivingIdentifiers(Measure):
    """Largest share of some kind of identifiers that is still in de-identified text.

    Question: does the de-identifier find whatever names people?
    Assumes: what is planted in the texts is found as well as what stands there already. Names,
    telephone numbers, e-mail addresses and numbers of people are written into some of the texts,
    which are de-identified again. Besides, each released text is searched for the identifiers of
    its own record.

    The value is the largest share of all kinds: `surviving_planted` is that of planted
    identifiers, `surviving_own` the share of persons of whom an own identifier is left in a text.
    Nothing may survive unless the plan says why: [release] accept_attacks.

    Parameters
    ----------
    variables : the free text.
    deidentifier : program that finds names: as in the method `deidentify_text`.
    language : language of the text.
    model : the model of spaCy that finds the names.
    texts : most texts in which identifiers are planted.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> notes = {"name": ["Ada King"] * 2, "note": ["Mrs King is in pain today.", "Back home."]}
    >>> data = sf.Dataset(pl.DataFrame(notes), sf.Schema({"name": "direct", "note": "sensitive"}))
    >>> how = {"variables": ["note"], "deidentifier": "patterns"}
    >>> released = sf.methods.DeidentifyText(**how).apply(data)
    >>> found = SurvivingIdentifiers(**how).measure(data, released)
    >>> found.details["surviving_own"], found.table["identifier", "share"].rows()[0]
    (0.0, ('name', 1.0))
    """

    name = "surviving_identifiers"
    attack = AttackWording(
        title="Names and numbers left in text",
        control="none",
        sentence="Of one kind of identifiers, {success} survive in free text. Of all persons, "
        "{surviving_own_percent} have an identifier of their own left in a text.",
    )
    trial = Trial(exploits=("wording",), acceptable=0.0, seconds=5.0, in_sample="as it is")
    odd = {"one row": 1}
    examples = ({"variables": ["address"], "deidentifier": "patterns"},)
    of = "pair"
    counts_persons = True
    numbers = (
        Number.share("surviving_identifiers"),
        Number.share("surviving_planted"),
        Number.share("surviving_own"),
    )
    variables: Annotated[list[str], Field(min_length=1)]
    deidentifier: str
    language: str = "en"
    model: str | None = None
    texts: Annotated[int, Field(ge=1)] = 100

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Plant identifiers, de-identify, and look for them; and for the records' own."""
        original.schema.require(self.variables)
        released.schema.require(self.variables)
        planted = self._plant(original, engine)
        found_persons, persons = self._find_own(original, released, engine)
        table = pl.DataFrame(
            [
                *((kind, len(survived), int(survived.sum())) for kind, survived in planted.items()),
                (_OWN, persons, found_persons),
            ],
            schema={"identifier": pl.String, "looked_for": pl.Int64, "survived": pl.Int64},
            orient="row",
        ).with_columns(share=pl.col("survived") / pl.col("looked_for").clip(1))
        shares = table["share"].to_list()
        return Evidence(
            name=self.name,
            subject="pair",
            value=max(shares),
            direction=self.direction,
            baseline=0.0,
            table=original.like(table),
            details={
                "surviving_planted": max(shares[:-1]),
                "surviving_own": shares[-1],
                "persons_with_text": persons,
                "planted": int(table["looked_for"][:-1].sum()),
                "deidentifier": self.deidentifier,
                "variables": tuple(self.variables),
            },
            assumptions=_ASSUMPTIONS,
        )

    def _plant(self, original: Dataset, engine: Engine) -> dict[str, Mask]:
        """By kind whether each planted identifier survives."""
        function = load_deidentifier(self.deidentifier, self.language, self.model)
        rows = engine.sample(original, self.variables, self.texts)
        texts = [
            text
            for name in self.variables
            for text in rows[name].cast(pl.String).drop_nulls().to_list()
        ][: self.texts]
        if not texts:
            raise MeasureError(
                f"'{self.name}' finds no text in which it could plant identifiers.",
                hint="name variables that hold text.",
            )
        survived = {kind: np.zeros(len(texts), bool) for kind in _CANARIES}
        sentence = _SENTENCES.get(self.language, _PLAIN)
        for index, text in enumerate(texts):
            canaries = {kind: some[index % len(some)] for kind, some in _CANARIES.items()}
            words = text.split()
            half = (0, len(words) // 2, len(words))[index % 3]
            planted_text = " ".join([*words[:half], sentence.format_map(canaries), *words[half:]])
            result = _Searched(deidentify(planted_text, function, self.deidentifier))
            for kind, canary in canaries.items():
                survived[kind][index] = result.holds(canary, by_word=kind == "name")
        return survived

    def _find_own(self, original: Dataset, released: Dataset, engine: Engine) -> tuple[int, int]:
        """How many persons have an own identifier in a released text, and how many a text."""
        identifiers = [
            name for name in original.schema.having(*IDENTIFYING) if name not in self.variables
        ]
        pairs = engine.pairs(original, released, self.variables)
        texts = [pairs.column(f"{AFTER}{name}").cast(pl.String) for name in self.variables]
        known = [to_canonical_text(original.column(name)) for name in identifiers]
        has_text = np.zeros(len(original), bool)
        survives = np.zeros(len(original), bool)
        identifiers_of_row = pl.DataFrame(known).rows() if known else [()] * len(original)
        for series in texts:
            has_text |= series.is_not_null().to_numpy()
            for row, (text, values) in enumerate(
                zip(series.to_list(), identifiers_of_row, strict=True)
            ):
                if text is not None and not survives[row]:
                    searched = _Searched(text)
                    survives[row] = any(value and searched.holds(value) for value in values)
        return original.units.count_among(survives), original.units.count_among(has_text)


class _Searched:
    """A text, normalised once, in which identifiers are looked for."""

    def __init__(self, text: str) -> None:
        normalised = _normalise(_PLACEHOLDER.sub(_APART, text))
        self._words = set(re.findall(r"[^\W_]+", normalised))
        self._signs = re.sub(rf"[^\w{_APART}]|_", "", normalised)

    def holds(self, identifier: str, *, by_word: bool = True) -> bool:
        """Whether the identifier, or a word of it, is in the text."""
        signs = re.sub(r"[\W_]", "", _normalise(identifier))
        if len(signs) >= _LOOSE and signs in self._signs:
            return True
        if len(signs) >= _FEWEST and signs in self._words:
            return True
        return by_word and self._has_any(list_words(identifier))

    def _has_any(self, words: Sequence[str]) -> bool:
        return any(_normalise(word) in self._words for word in words)


def _normalise(text: str) -> str:
    return remove_accents(text).casefold()
