"""The words of the report that a reader may not know, each with its meaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ALWAYS = {
    "Known to outsiders (quasi)": "What somebody may know of a person without the data: sex, age, "
    "place. Several together point to few people.",
    "Confidential (sensitive)": "What nobody should learn about a person from the release.",
    "Singled out": "Told apart from everybody else, so that a record is known to be one person's.",
    "Class": "All records that look the same in what outsiders may know.",
    "k": "The number of people in the smallest class. With k = 5, everybody looks like at least "
    "four others.",
    "Target": "A number that must hold. If one is missed, nothing is released.",
    "Standard deviation": "How far values usually lie from their mean.",
    "SHA-256": "A check number of a file. Whoever changes the file changes it.",
}
_INSIDE = {
    "Attack": "An attempt to find a person or to learn a secret, tried on these very data.",
    "Control": "The same attempt without the help of the release. What it achieves, anybody can.",
    "At worst": "The upper end of the interval where only a sample was looked at, and the better "
    "of several attackers.",
    "95 % interval": "The true number lies in it in 95 of 100 samples.",
    "Unique, rare": "The share of records whose released value nobody shares, or only few.",
}
_BY_STEP = {
    "noise": (
        "Noise",
        "Random numbers, added to values. Their distribution is public, each draw is secret.",
    ),
    "pseudonymise": (
        "Pseudonym",
        "A code in place of an identifier. Only the holder of the key can make it again.",
    ),
    "t_closeness": (
        "t",
        "How far the confidential values of a class are from those of all records, at most.",
    ),
    "l_diversity": ("l", "How many different confidential values every class has at least."),
}


def list_terms(manifest: Mapping[str, Any], *, inside: bool) -> dict[str, str]:
    """The terms that this report uses."""
    used = {step["method"] for step in manifest.get("methods", ())}
    steps = {term: meaning for step, (term, meaning) in _BY_STEP.items() if step in used}
    terms = {**_ALWAYS, **(_INSIDE if inside else {}), **steps}
    return {term: terms[term] for term in sorted(terms, key=str.casefold)}
