"""De-identifiers of free text: functions from text to text, found by name.

Ours is `patterns`. `presidio` is a bridge to Microsoft Presidio. A package brings its own through
the entry point `sfumato.deidentifiers`, which names a function from text to text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, entry_points, version

from sfumato.errors import MethodError, did_you_mean
from sfumato.schema.inference.words import remove_accents

Deidentifier = Callable[[str], str]
"""Gives a text back in which whatever identifies somebody is replaced, such as by `<PERSON>`."""
PRESIDIO = "presidio"
OWN = "<IDENTIFIER>"
"""What stands for an identifier of the record's own."""
_GROUP = "sfumato.deidentifiers"
_PATTERNS = {
    "EMAIL_ADDRESS": r"[\w.+%-]+\s?@\s?[\w-]+(?:\.[\w-]+)+",
    "URL": r"(?:https?://|www\.)\S+|\b[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|edu|gov|info|io|eu|uk|de|fr"
    r"|es|it|nl|at|ch|pl|se|no|dk|fi)\b(?:/\S*)?",
    "DATE_TIME": r"\b\d{1,4}[./-]\d{1,2}[./-]\d{1,4}\b",
    "ID": r"\b[A-Z]{1,4}[ -]?\d[\d -]{3,}\d\b|\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,}\b",
    "PHONE_NUMBER": r"(?<![\w.])\+?\(?\d(?:[ ()./-]{0,3}\d){5,}(?!\w)",
}
"""What can be told by its form alone, in the order in which it is looked for."""
_FEWEST = 3
"""Shorter identifiers and words are not looked for: they are part of too many others."""
_LOOSE = 6
"""From so many letters and digits on, an identifier is found whatever stands between them."""
_SIGN = re.compile(r"[^\W_]")
_WORD = re.compile(r"[^\W\d_]+")
_BETWEEN = r"[\W_]*"


def list_deidentifiers() -> list[str]:
    """The names of all de-identifiers, ours and those of installed packages."""
    return sorted({"patterns", PRESIDIO, *(point.name for point in entry_points(group=_GROUP))})


@cache
def load_deidentifier(name: str, language: str = "en", model: str | None = None) -> Deidentifier:
    """The de-identifier of this name; the last two are for Presidio.

    Examples
    --------
    >>> load_deidentifier("patterns")("Call 020 7946 0123 or write to ada@example.org.")
    'Call <PHONE_NUMBER> or write to <EMAIL_ADDRESS>.'
    """
    if name == "patterns":
        return replace_patterns
    if name == PRESIDIO:
        from sfumato.cells.presidio import load_presidio

        return load_presidio(language, model)
    for point in entry_points(group=_GROUP):
        if point.name == name:
            try:
                function = point.load()
            except Exception as error:
                raise MethodError(
                    f"The de-identifier '{name}' cannot be imported ({type(error).__name__}).",
                    hint="repair the package that provides it, or install it again.",
                ) from error
            return _require_function(name, function)
    raise MethodError(
        f"There is no de-identifier '{name}'.", hint=did_you_mean(name, list_deidentifiers())
    )


def _require_function(name: str, function: object) -> Deidentifier:
    if callable(function):
        return function  # what it returns is checked at each text
    raise MethodError(
        f"The de-identifier '{name}' is no function.",
        hint=f"its entry point in {_GROUP} must name a function from text to text.",
    )


def find_version(name: str) -> str:
    """The version of the package that a de-identifier comes from; empty where it has none."""
    packages = {PRESIDIO: "presidio-analyzer", "patterns": "sfumato"}
    points = {point.name: point.dist.name for point in entry_points(group=_GROUP) if point.dist}
    try:
        return version({**points, **packages}.get(name, ""))
    except (PackageNotFoundError, ValueError):
        return ""


def deidentify(text: str, function: Deidentifier, name: str) -> str:
    """Run a de-identifier; no text of the data is in an error of it."""
    try:
        result = function(text)
    except Exception as error:  # noqa: BLE001 - foreign code may fail in any way
        raise MethodError(
            f"The de-identifier '{name}' failed ({type(error).__name__}).",
            hint="try it on a text of your own; its message may contain text from the data.",
        ) from None
    if not isinstance(result, str):
        raise MethodError(
            f"The de-identifier '{name}' returned no text.",
            hint="it must be a function from text to text.",
        )
    return result


def replace_patterns(text: str) -> str:
    """Replace e-mail and web addresses, telephone numbers, dates and numbers of people.

    Names stay: they have no form by which they could be told.

    Examples
    --------
    >>> replace_patterns("Seen on 3.4.2021, record AB-4711 99, by Dr Meyer.")
    'Seen on <DATE_TIME>, record <ID>, by Dr Meyer.'
    """
    for entity, pattern in _compile_patterns().items():
        text = pattern.sub(f"<{entity}>", text)
    return text


@cache
def _compile_patterns() -> dict[str, re.Pattern[str]]:
    return {entity: re.compile(pattern) for entity, pattern in _PATTERNS.items()}


def replace_own(text: str, identifiers: Sequence[str]) -> str:
    """Replace the identifiers of a record in its text, whole or by their words.

    Case, accents and what stands between letters and digits make no difference. Words and
    identifiers with fewer than three letters or digits stay.

    Examples
    --------
    >>> replace_own("Mrs GARCIA, no 12-34 567, was seen.", ["Ana García", "1234567"])
    'Mrs <IDENTIFIER>, no <IDENTIFIER>, was seen.'
    """
    patterns = dict.fromkeys(p for value in identifiers for p in _list_own_patterns(value))
    if not patterns:
        return text
    # The longest first, so that a whole name is one identifier.
    longest = sorted(patterns, key=len, reverse=True)
    return re.sub("|".join(longest), OWN, text, flags=re.IGNORECASE)


def _list_own_patterns(value: str) -> Iterator[str]:
    for spelling in {value, remove_accents(value)}:
        signs = _SIGN.findall(spelling)
        if len(signs) >= _LOOSE:
            yield _BETWEEN.join(map(re.escape, signs))
        elif len(signs) >= _FEWEST:
            yield _bound(_BETWEEN.join(map(re.escape, signs)))
        for word in list_words(spelling):
            yield _bound(re.escape(word))


def list_words(identifier: str) -> list[str]:
    """The words of an identifier by which somebody can be named; of an e-mail, those before `@`.

    Examples
    --------
    >>> list_words("Ada B. King"), list_words("ada.king1@example.org")
    (['Ada', 'King'], ['ada', 'king'])
    """
    words = _WORD.findall(identifier.partition("@")[0])
    return [word for word in words if len(word) >= _FEWEST]


def _bound(pattern: str) -> str:
    """A whole word."""
    return rf"(?<![^\W_]){pattern}(?![^\W_])"
