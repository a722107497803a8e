"""Levels of short scales: yes and no, the sexes, "not known", and scales that have an order."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sfumato.schema.inference.words import remove_accents


def parse_level_sets(text: str, between: str | None) -> tuple[frozenset[str], ...]:
    """Sets of levels out of a list: a semicolon between the sets, `between` their levels.

    Examples
    --------
    >>> [sorted(levels) for levels in parse_level_sets("low, very high; m, f", ",")]
    [['low', 'very high'], ['f', 'm']]
    """
    return tuple(
        frozenset(" ".join(level.split()) for level in levels.split(between))
        for levels in text.split(";")
    )


(YES_OR_NO,) = parse_level_sets(
    "0 1 yes no y n true false ja nein oui non si nee nej nei ei tak nie x", None
)
(NOT_KNOWN,) = parse_level_sets(
    """?, na, n/a, other, unknown, missing, mixed, divers, diverse, d, x, unknown/invalid,
    not stated, unbekannt, inconnu, desconocido, no answer, refused""",
    ",",
)
SEXES = parse_level_sets(
    """m f; male female; man woman; men women; boy girl; boys girls; m w; mann frau;
    maennlich weiblich; mannlich weiblich; h f; homme femme; masculin feminin; hombre mujer;
    masculino femenino; maschio femmina; m v; man vrouw; man kvinna; mand kvinde; mann kvinne;
    mies nainen; m k; mezczyzna kobieta""",
    None,
)


def normalise_levels(values: Iterable[str]) -> frozenset[str]:
    """The levels in small plain letters, less those that say "not known"."""
    return frozenset(remove_accents(value).casefold().strip() for value in values) - NOT_KNOWN


_SCALES = parse_level_sets(
    """none, very low, low, lower, medium, middle, mid, moderate, average, normal, high, higher,
    very high, elevated, niedrig, mittel, hoch, faible, moyen, eleve, bajo, medio, alto, basso,
    laag, gemiddeld, hoog, lag, medel, hog, lav, middel, hoy, hoj, niski, sredni, wysoki;
    bottom, lower, low, mid, middle, upper, top;
    none, absent, minimal, mild, moderate, severe, very severe, critical, leicht, mittel, schwer;
    small, medium, large, very large, klein, mittel, gross;
    never, rarely, seldom, sometimes, occasionally, often, usually, very often, always, nie, selten,
    manchmal, oft, haufig, immer, jamais, rarement, parfois, souvent, toujours, daily, weekly,
    monthly, yearly;
    strongly disagree, disagree, somewhat disagree, slightly disagree, neutral, undecided,
    neither agree nor disagree, slightly agree, somewhat agree, agree, strongly agree;
    very dissatisfied, dissatisfied, neutral, satisfied, very satisfied;
    very poor, very bad, poor, bad, fair, satisfactory, good, very good, excellent, schlecht,
    mittelmassig, gut, sehr gut;
    none, no education, preschool, kindergarten, primary, elementary, primary school,
    elementary school, 1st 4th, 5th 6th, 7th 8th, 9th, 10th, 11th, 12th, lower secondary,
    middle school, secondary, secondary school, upper secondary, high school, hs grad, college,
    high school graduate, some college, assoc voc, assoc acdm, associate, vocational, tertiary,
    post secondary, university, degree, bachelor, bachelors, master, masters, graduate, phd,
    postgraduate, prof school, doctorate, hauptschule, mittlere reife, realschule, abitur,
    gymnasium, hochschule, universitat""",
    ",",
)
_TO = r"(?:-|\u2013|to|bis|a|;|,|\.\.)"
_NUMBER = r"(-?\d+(?:\.\d+)?)k?"
_BAND = re.compile(rf"[\[(]?\s*{_NUMBER}\s*{_TO}\s*{_NUMBER}\s*[\])]?(?: (?:years|jahre))?")
_OPEN_BAND = re.compile(
    rf"(?:[<>≤≥]=?|under|over|below|above|unter|uber|up to|bis)\s*{_NUMBER}"
    rf"|{_NUMBER}\s*(?:\+|and over)"
)
_RANK = re.compile(
    r"(?:stage|grade|level|grad|stufe|stadium|stade|estadio|tier|quartile|quintile|nyha|asa|q|g|t)?"
    r"\s?(?:0|[1-9]|i{1,3}|iv|v)[abc]?"
)


def is_ordered_scale(levels: frozenset[str]) -> bool:
    """Whether these are the levels of a known scale, bands of numbers, or numbered stages."""
    if len(levels) < 2:  # noqa: PLR2004 - one level has no order
        return False
    words = {re.sub(r"[\s_-]+", " ", level) for level in levels}
    # "low 1", "high 3": numbers behind the words are taken off.
    worded = {re.sub(r"[\d%.\s]+$", "", level) for level in words}
    if any(words <= scale or (len(worded) > 1 and worded <= scale) for scale in _SCALES):
        return True
    if all(_is_band(level) for level in levels):
        return True
    return all(_RANK.fullmatch(level) and re.search("[a-z]", level) for level in words)


def _is_band(level: str) -> bool:
    closed = _BAND.fullmatch(level)
    if closed:
        return float(closed[1]) < float(closed[2])
    return _OPEN_BAND.fullmatch(level) is not None
