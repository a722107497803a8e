"""The words behind the signs."""

from __future__ import annotations

from sfumato.schema import KINDS, ROLES
from sfumato.schema.inference import names as signs
from sfumato.schema.inference.names import SIGNS
from sfumato.schema.inference.words import ENDINGS


def test_words_are_well_formed() -> None:
    for sign in SIGNS.values():
        assert sign.role in ROLES
        assert sign.kind is None or sign.kind in KINDS
        assert sign.phrases
        for phrase in sign.phrases:
            assert phrase == phrase.casefold().strip(), phrase
            assert phrase.isascii(), f"accents are taken off before looking: {phrase}"
    assert set(signs.KINDS) | set(signs.NEEDS) | set(signs.NOTES) <= set(SIGNS)
    assert set(ENDINGS.values()) <= set(SIGNS)
