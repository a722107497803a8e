"""Levels of short scales: yes and no, the sexes, "not known", and scales that have an order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

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
    return frozenset(map(normalise_level, values)) - NOT_KNOWN


def normalise_level(value: str) -> str:
    """A level in small plain letters."""
    return remove_accents(value).casefold().strip()


_LISTS = """
    none, no, nil, keine, aucun, ninguno, nessuno, geen, ingen, brak < very low, sehr niedrig,
    tres faible, muy bajo, molto basso, zeer laag, mycket lag, bardzo niski < low, lower, niedrig,
    gering, faible, bas, bajo, baja, basso, bassa, laag, lag, lav, matala, niski < medium, middle,
    mid, moderate, average, normal, mittel, moyen, medio, media, gemiddeld, medel, middel,
    keskitaso, sredni < high, higher, elevated, hoch, eleve, haut, alto, alta, hoog, hog, hoy, hoj,
    korkea, wysoki < very high, sehr hoch, tres eleve, muy alto, molto alto, zeer hoog, mycket hog,
    bardzo wysoki;
    bottom < lower, low < mid, middle < upper < top;
    none, absent, no, keine, aucun < minimal < mild, leicht, leger, leve, lieve, licht, let <
    moderate, moderat, mittel, modere, moderado, moderato, matig < severe, schwer, schwerwiegend,
    grave, ernstig, svar, alvorlig, ciezki < very severe, sehr schwer, tres grave < critical,
    kritisch, critique, critico;
    very small, sehr klein < small, klein, petit, pequeno, piccolo, liten, lille, maly < medium,
    mittel, moyen, mediano, medio, middel, sredni < large, big, gross, grand, grande, groot, stor,
    duzy < very large, sehr gross;
    never, nie, niemals, jamais, nunca, mai, nooit, aldrig, aldri, ei koskaan, nigdy < very rarely,
    hardly ever, almost never < rarely, seldom, selten, rarement, raramente, rara vez, zelden,
    sallan, sjaelden, sjelden, harvoin, rzadko < occasionally, gelegentlich < sometimes, manchmal,
    parfois, a veces, a volte, soms, ibland, noen ganger, joskus, czasami < often, frequently, oft,
    haufig, souvent, a menudo, spesso, vaak, ofta, ofte, usein, czesto < usually, meistens < very
    often, almost always, sehr oft < always, immer, toujours, siempre, sempre, altijd, alltid,
    altid, aina, zawsze;
    never, nie < yearly, annually, jahrlich < monthly, monatlich < weekly, wochentlich < daily,
    taglich;
    strongly disagree, disagree strongly, completely disagree, stimme gar nicht zu,
    stimme uberhaupt nicht zu < disagree, stimme nicht zu < somewhat disagree, slightly disagree,
    stimme eher nicht zu < neutral, undecided, neither, neither agree nor disagree, teils teils <
    slightly agree, somewhat agree, stimme eher zu < agree, stimme zu < strongly agree,
    agree strongly, completely agree, stimme voll zu, stimme voll und ganz zu;
    very dissatisfied, sehr unzufrieden < dissatisfied, unzufrieden < neutral, teils teils <
    satisfied, zufrieden < very satisfied, sehr zufrieden;
    not at all, gar nicht, pas du tout < a little, slightly, ein wenig, un peu < somewhat,
    moderately, etwas < quite, quite a bit, ziemlich, assez < very, very much, sehr, beaucoup <
    extremely, ausserst;
    very poor, very bad, sehr schlecht, tres mauvais, muy malo < poor, bad, schlecht, mauvais, malo,
    cattivo, slecht, dalig < fair, satisfactory, mittelmassig, befriedigend, passable, regular <
    good, gut, bon, bueno, buono, goed, bra, god, hyva, dobry < very good, sehr gut, tres bon,
    muy bueno < excellent, ausgezeichnet;
    young, jung, jeune < middle aged, mittleren alters < old, elderly, alt, age;
    child, kind, enfant < adolescent, teenager, jugendlicher < adult, erwachsener, adulte < senior,
    elderly;
    none, no education, no schooling, ohne abschluss < preschool, kindergarten, nursery < primary,
    elementary, primary school, elementary school, grundschule, primaire < 1st 4th < 5th 6th < 7th
    8th < 9th < 10th < 11th < 12th < lower secondary, middle school, hauptschule <
    secondary, secondary school, mittlere reife, realschule, secondaire < upper secondary, high
    school, high school graduate, hs grad, abitur, gymnasium, lycee, baccalaureat < vocational,
    some college < assoc voc < assoc acdm, associate, associates < college, tertiary, post
    secondary, university, degree, hochschule, universitat, universite, superieur < bachelor,
    bachelors, graduate < master, masters, postgraduate < prof school < phd, doctorate, promotion,
    doctorat;
    first, erste, erster, premier, premiere, primero, primera, primo, prima, eerste, forsta <
    second, zweite, zweiter, deuxieme, segundo, segunda, secondo, seconda, tweede, andra < third,
    dritte, dritter, troisieme, tercero, tercera, terzo, terza, derde, tredje < fourth, vierte,
    vierter, quatrieme, cuarto, cuarta, quarto, quarta, vierde, fjarde < fifth, funfte, funfter,
    cinquieme, quinto, quinta, vijfde, femte"""


def _parse_ranks(scale: str) -> dict[str, int]:
    """The rank of each level of a scale: `<` between the ranks, a comma between words for one."""
    return {
        " ".join(level.split()): rank
        for rank, levels in enumerate(scale.split("<"))
        for level in levels.split(",")
    }


_SCALES = tuple(map(_parse_ranks, _LISTS.split(";")))
_KNOWN = frozenset(level for scale in _SCALES for level in scale)
_BETWEEN = re.compile(r"[\s_-]+")
_BEHIND = re.compile(r"[\d%.\s]+$")
_TO = r"(?:-|\u2013|to|bis|a|;|,|\.\.)"
_NUMBER = r"(-?\d+(?:\.\d+)?)k?"
_UNIT = r"(?: ?(?:years|yrs|jahre|ans|anos|anni|jaar|ar|lat))?(?: old)?"
_BAND = re.compile(rf"[\[(]?\s*{_NUMBER}\s*{_TO}\s*{_NUMBER}\s*[\])]?{_UNIT}")
_BELOW = re.compile(
    rf"(?:[<≤]=?|under|below|less than|unter|up to|bis|moins de)\s*{_NUMBER}{_UNIT}"
)
_ABOVE = re.compile(
    rf"(?:[>≥]=?|over|above|more than|uber|ab|plus de)\s*{_NUMBER}{_UNIT}"
    rf"|{_NUMBER}{_UNIT}\s*"
    r"(?:\+|(?:and|or) (?:over|older|more|above)|plus|und (?:mehr|alter)|et plus)"
)
_RANK = re.compile(
    r"(?:stage|grade|level|grad|stufe|stadium|stade|estadio|tier|quartile|quintile|decile|nyha|asa"
    r"|class|klasse|q|g|t)?\s?(?P<number>0|[1-9]|i{1,3}|iv|v)(?P<letter>[abc]?)"
)
_NTH = re.compile(r"([1-9][0-9]?)(?:st|nd|rd|th|er|ere|re|eme|e|o|a|\.)(?: [a-z]+)?")
_ROMAN = {"i": 1, "ii": 2, "iii": 3, "iv": 4, "v": 5}

Key = tuple[float, ...]


def order_levels(levels: frozenset[str]) -> dict[str, Key] | None:
    """A key to sort each level by: known words, bands of numbers, or numbered stages; else None.

    Examples
    --------
    >>> keys = order_levels(frozenset(["high", "low", "medium"])) or {}
    >>> sorted(keys, key=keys.__getitem__)
    ['low', 'medium', 'high']
    """
    if len(levels) < 2:  # noqa: PLR2004 - one level has no order
        return None
    words = {level: _BETWEEN.sub(" ", level) for level in levels}
    # "low 1", "high 3": numbers behind the words are taken off.
    worded = {level: _BEHIND.sub("", word) for level, word in words.items()}
    for spelt in (words, worded):
        different = set(spelt.values())
        if len(different) > 1 and different <= _KNOWN:
            scale = next((scale for scale in _SCALES if different <= scale.keys()), None)
            if scale is not None:
                return {level: (scale[word],) for level, word in spelt.items()}
    return (
        _read_keys(levels, levels, _read_band)
        or _read_keys(levels, words.values(), _read_rank)
        or _read_keys(levels, levels, _read_nth)
    )


def _read_keys(
    levels: Iterable[str], texts: Iterable[str], read_key: Callable[[str], Key | None]
) -> dict[str, Key] | None:
    keys: dict[str, Key] = {}
    for level, text in zip(levels, texts, strict=True):
        key = read_key(text)
        if key is None:
            return None
        keys[level] = key
    return keys


def sort_levels(values: Iterable[str], keys: Mapping[str, Key] | None = None) -> tuple[str, ...]:
    """The levels as they are written, in their order; none where two could change places.

    `keys` are those of `order_levels`; values that have none are left out.
    """
    normalised = {value: normalise_level(value) for value in values}
    keys = order_levels(frozenset(normalised.values())) if keys is None else keys
    if not keys or len(set(keys.values())) < len(keys):
        return ()
    ordered = [value for value, level in normalised.items() if level in keys]
    return tuple(sorted(ordered, key=lambda value: (keys[normalised[value]], value)))


def _read_band(level: str) -> Key | None:
    """Where a band of numbers lies; below and above a number on their side of it."""
    closed = _BAND.fullmatch(level)
    if closed:
        padded = "0" in (closed[1][:1], closed[2][:1]) and len(closed[1]) != len(closed[2])
        codes = padded and len(closed[1]) > 1  # `01-01301` is an area, `00-04` are ages
        rises = float(closed[1]) < float(closed[2])
        return (float(closed[1]), 0.0) if rises and not codes else None
    if below := _BELOW.fullmatch(level):
        return float(below[1]), -1.0
    above = _ABOVE.fullmatch(level)
    return (float(above[1] or above[2]), 1.0) if above else None


def _read_rank(level: str) -> Key | None:
    match = _RANK.fullmatch(level)
    if not match or not re.search("[a-z]", level):
        return None
    number = _ROMAN.get(match["number"]) or float(match["number"])
    return number, float("abc".find(match["letter"]) if match["letter"] else -1)


def _read_nth(level: str) -> Key | None:
    match = _NTH.fullmatch(level)
    return (float(match[1]),) if match else None
