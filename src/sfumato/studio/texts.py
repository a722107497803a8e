"""What the studio says, in one catalogue, so that others can translate it.

`texts/en/*.toml` has a file for each page. Templates and pages name a text by its place, such as
"roles.title"; a translation is another folder with the same files.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

LANGUAGE = "en"


@cache
def load_texts(language: str = LANGUAGE) -> Mapping[str, str]:
    """All texts of a language, by their place."""
    texts: dict[str, str] = {}
    for file in sorted((files("sfumato.studio") / "texts" / language).iterdir(), key=str):
        if file.name.endswith(".toml"):
            page = tomllib.loads(file.read_text("utf-8"))
            texts |= _flatten(page, file.name.removesuffix(".toml"))
    return texts


def _flatten(table: Mapping[str, Any], above: str) -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in table.items():
        place = f"{above}.{name}"
        flat |= _flatten(value, place) if isinstance(value, Mapping) else {place: str(value)}
    return flat


def join_sentences(what: str, hint: str) -> str:
    """What went wrong and what helps, as sentences.

    Examples
    --------
    >>> join_sentences("There is no such file.", "check the name.")
    'There is no such file. Check the name.'
    """
    return f"{what} {hint[:1].upper()}{hint[1:]}".strip()


def say(place: str, **values: Any) -> str:
    """A text of the catalogue, with values put into it.

    Examples
    --------
    >>> say("shell.steps.roles")
    'Roles'
    """
    text = load_texts()[place]
    return text.format(**values) if values else text
