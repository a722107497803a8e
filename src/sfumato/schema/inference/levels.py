"""Levels that tell what a short scale is about: yes and no, the sexes, and "not known"."""

from __future__ import annotations

from collections.abc import Iterable

from sfumato.schema.inference.accents import without_accents


def level_sets(text: str, between: str | None) -> tuple[frozenset[str], ...]:
    """Sets of levels out of a list: a semicolon between the sets, `between` their levels.

    Examples
    --------
    >>> [sorted(levels) for levels in level_sets("low, very high; m, f", ",")]
    [['low', 'very high'], ['f', 'm']]
    """
    return tuple(
        frozenset(" ".join(level.split()) for level in one.split(between))
        for one in text.split(";")
    )


(YES_OR_NO,) = level_sets(
    "0 1 yes no y n true false ja nein oui non si nee nej nei ei tak nie x", None
)
(NOT_KNOWN,) = level_sets(
    """?, na, n/a, other, unknown, missing, mixed, divers, diverse, d, x, unknown/invalid,
    not stated, unbekannt, inconnu, desconocido, no answer, refused""",
    ",",
)
SEXES = level_sets(
    """m f; male female; man woman; men women; boy girl; boys girls; m w; mann frau;
    maennlich weiblich; mannlich weiblich; h f; homme femme; masculin feminin; hombre mujer;
    masculino femenino; maschio femmina; m v; man vrouw; man kvinna; mand kvinde; mann kvinne;
    mies nainen; m k; mezczyzna kobieta""",
    None,
)


def known_levels(values: Iterable[str]) -> frozenset[str]:
    """The levels in small plain letters, less those that say "not known"."""
    return frozenset(without_accents(value).casefold().strip() for value in values) - NOT_KNOWN
