"""The verdict and no more than it holds; and all numbers at a glance, risk before utility."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfumato import catalogue

Plain = Mapping[str, Any]
_ROOMS = {"risk": "Risk", "utility": "Utility"}
_NUMBERS = {
    "k": "Records in the smallest class of people who look alike to an outsider.",
    "prosecutor": "Highest chance that an outsider finds a given person.",
    "t": "How far the confidential values of a class may be from those of all records.",
    "l": "Confidential values in the class that has fewest.",
    "stayed": "Share of records that hardly moved.",
    "mean_h": "Persons who lie nearer to the target than the one an attacker finds, on average.",
}
"""What the numbers are that boards see most often, besides those named like their measure."""


def verdict_of(
    manifest: Plain, evidence: Mapping[str, Plain], attacks: Plain | None, *, inside: bool
) -> dict[str, Any]:
    """What the board reads first; `but` says what the targets leave open."""
    targets = manifest["targets"]
    if not targets:
        head, tone = "No target was set", "warn"
        text = (
            "The steps below were carried out, but nothing is guaranteed. "
            "Set targets in the plan before you sign."
        )
    elif missed := sum(not one["met"] for one in targets):
        head, tone = f"{missed} of {len(targets)} targets missed", "bad"
        text = "These data must not be released."
    else:
        number = "The target is" if len(targets) == 1 else f"All {len(targets)} targets are"
        head, tone = f"{number} met", "good"
        where = (
            "on the released file as it lies on the disk"
            if "data" in manifest
            else "in memory; no file was written yet"
        )
        text = (
            f"Measured {where}. That is what is promised, under the assumptions that stand with "
            "each number, and nothing beyond."
        )
    return {"tone": tone, "head": head, "text": text, "but": _but(evidence, attacks, inside=inside)}


def _but(evidence: Mapping[str, Plain], attacks: Plain | None, *, inside: bool) -> list[str]:
    said = []
    if attacks is not None:
        tried = [row for row in attacks["rows"] if not row["reason"] and row["verdict"]]
        won = sum(bool(row["better"]) for row in tried)
        if won:
            does = "does" if won == 1 else "do"
            said.append(
                f"{won} of {len(tried)} attacks that were tried {does} better than the control: "
                "see what an outsider could still do."
            )
    elif inside:
        said.append("No attack was tried.")
    if failed := sum(one["value"] is None for one in evidence.values()):
        what = "measure" if failed == 1 else "measures"
        said.append(f"{failed} {what} could not be computed; the reason stands below.")
    return said


def target_view(one: Plain, evidence: Mapping[str, Plain]) -> dict[str, Any]:
    """A target with the question that its measure answers."""
    label = one.get("measure", "")
    name = evidence[label]["name"] if label in evidence else label
    known = catalogue.measures().get(name)
    number = str(one["target"]).rpartition(".")[2]
    question = catalogue.question(known) if known else ""
    if number not in (label, name):
        question = _NUMBERS.get(number, f"One of the numbers of {name}." if name else "")
    return {**one, "question": question}


def rooms_of(shown: Sequence[Plain]) -> list[dict[str, Any]]:
    """What was measured, risk first: for a table at a glance, then one by one."""
    made = []
    for room, title in _ROOMS.items():
        some = [one for one in shown if one["room"] == room]
        if some:
            made.append(
                {
                    "title": title,
                    "evidence": some,
                    "original": any(_original(one) for one in some),
                    "control": any(_control(one) for one in some),
                    "rows": [_row(one) for one in some],
                }
            )
    return made


def _row(one: Plain) -> dict[str, Any]:
    failed = bool(one["reason"])
    return {
        "label": one["label"],
        "question": one["question"],
        "value": "could not be computed" if failed else one["value"],
        "original": _original(one),
        "control": _control(one),
        "direction": one["direction"],
    }


def _original(one: Plain) -> str:
    """The same number of the original, where it has one."""
    return one["baseline"] or "" if one["subject"] != "pair" else ""


def _control(one: Plain) -> str:
    return one["baseline"] or "" if one["subject"] == "pair" else ""
