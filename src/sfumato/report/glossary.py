"""The words of the report that a reader may not know, each with its meaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ALWAYS = {
    "Known to outsiders (quasi)": "What somebody may know about a person without the data: sex, "
    "age, place. Several together fit only a few people.",
    "Confidential (sensitive)": "What nobody should learn about a person from the release.",
    "Singled out": "Told apart from everybody else, so that a record is known to be one person's.",
    "Class": "All records that look the same in what outsiders may know.",
    "k": "The number of people in the smallest class. With k = 5, everybody looks like at least "
    "four others.",
    "Target": "A limit that the release must meet. If one is missed, nothing is released.",
    "Standard deviation": "How far values usually lie from their mean.",
    "SHA-256": "A check number of a file. If the file changes, so does the number.",
}
_INSIDE = {
    "Attack": "An attempt to find a person or to learn a secret, tried on these very data.",
    "Control": "The same attempt without the release. Anybody could achieve as much.",
    "At worst": "The upper end of the interval if only a sample was measured, and the most "
    "successful of several attackers.",
    "95 % interval": "In 95 of 100 samples, the true number lies in it.",
    "Unique, rare": "The share of records whose released value nobody else has, or only a few "
    "others.",
}
_BY_STEP = {
    "noise": (
        "Noise",
        (
            "Random numbers added to values. Their distribution is public; each single number is "
            "secret."
        ),
    ),
    "pseudonymise": (
        "Pseudonym",
        "A code in place of an identifier. Only the holder of the key can make it again.",
    ),
    "t_closeness": (
        "t",
        (
            "The confidential values of every class differ from those of all records by at most "
            "this much."
        ),
    ),
    "l_diversity": ("l", "Every class has at least this many different confidential values."),
}


def list_terms(manifest: Mapping[str, Any], *, inside: bool) -> dict[str, str]:
    """The terms that this report uses."""
    used = {step["method"] for step in manifest.get("methods", ())}
    steps = {term: meaning for step, (term, meaning) in _BY_STEP.items() if step in used}
    terms = {**_ALWAYS, **(_INSIDE if inside else {}), **steps}
    return {term: terms[term] for term in sorted(terms, key=str.casefold)}
