"""What an outsider could still do, in words for a board: only attacks that the evidence shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.report.charts import Chart, make_bar
from sfumato.report.wording import format_interval, format_percent, format_variables

Evidence = Mapping[str, Any]
_NO_BETTER = "no better than the control"
_NO_GAIN = "gains nothing beyond the release as it is"
_UNDONE = 0.9
"""A share of the error below which something was taken back."""


@dataclass(frozen=True)
class _AttackWording:
    """How an attack is described: its title, its control, and a sentence on its success.

    `verdict` is what is said of an attack that does better than its control; without one, the
    comparison is no control, and nothing is called safe by it. `release`: the control is the
    release as it is, which may be unsafe itself, so that gaining nothing is no good news.
    """

    title: str
    control: str
    sentence: Callable[[Evidence, str, str], str]
    verdict: str = "beats the control"
    release: bool = False


def describe_attacks(evidence: Mapping[str, Evidence], *, inside: bool) -> dict[str, Any] | None:
    """What the page shows of attacks that were tried; None where none was."""
    tried = [
        (label, result)
        for name in _ATTACKS
        for label, result in evidence.items()
        if result["name"] == name
    ]
    # Standing alone is a count and no attack: it is shown beside others, not by itself.
    if not any(_ATTACKS[result["name"]].verdict for _, result in tried):
        return None
    rows = [_describe_attack(label, result) for label, result in tried]
    names = {result["name"] for _, result in tried}
    missing = [attack.title.lower() for name, attack in _ATTACKS.items() if name not in names]
    return {
        "rows": rows,
        "bars": _build_bars([row for row in rows if not row["reason"]]),
        "missing": ", ".join(missing) if inside else "",
    }


def _describe_attack(label: str, result: Evidence) -> dict[str, Any]:
    attack = _ATTACKS[result["name"]]
    title = attack.title if label == result["name"] else f"{attack.title} ({label})"
    if result["value"] is None:
        return {"title": title, "reason": result["reason"] or "no reason was given."}
    success, baseline = format_percent(result["value"]), result["baseline"]
    control = "not known" if baseline is None else format_percent(baseline)
    better = _is_better(result)
    tones = {True: "warn", False: "" if attack.release else "good", None: ""}
    # "No better than an unsafe release" must not read as good news.
    worse = _NO_GAIN if attack.release else _NO_BETTER
    return {
        "title": title,
        "reason": "",
        "success": success,
        "interval": format_interval(result["interval"]),
        "control": control,
        "against": attack.control,
        "better": better,
        "tone": tones[better],
        "verdict": {True: attack.verdict, False: worse, None: ""}[better],
        "sentence": attack.sentence(result, success, control),
        "shares": (result["value"], baseline),
    }


def _is_better(result: Evidence) -> bool | None:
    """Whether the attack did better than its control, beyond chance; None where that is open."""
    if result["baseline"] is None or not _ATTACKS[result["name"]].verdict:
        return None
    if (result["details"].get("undoing_error_left") or 1.0) < _UNDONE:
        return True  # the share may stay while the error falls: those far off come nearer
    # The lower end counts: a lucky sample is no success.
    low = result["interval"][0] if result["interval"] else result["value"]
    return bool(low is not None and low > result["baseline"])


def _build_bars(rows: list[dict[str, Any]]) -> Chart | None:
    """Two bars for each attack, on the scale of all: its success, and its control."""
    bars = []
    for row in rows:
        value, baseline = row["shares"]
        bars.append(_build_bar(row["title"], value, highlighted=bool(row["better"])))
        if baseline is not None:
            label = "control" if row["better"] is not None else row["against"]
            bars.append(_build_bar(label, baseline))
    if not bars:
        return None
    title = "Share of attempts that succeed (in red: better than the control)"
    return {"title": title, "rows": bars}


def _build_bar(label: str, share: float, *, highlighted: bool = False) -> Chart:
    # An unbiased estimate of a share may lie beyond 0 and 1; a bar cannot.
    percent = 100 * min(max(share, 0.0), 1.0)
    return make_bar(label, format_percent(share), percent, highlighted=highlighted)


def _describe_singling_out(result: Evidence, success: str, control: str) -> str:
    return (
        f"Of {result['details']['attempts']:,} statements drawn from the released file alone, "
        f"{success} hold for exactly one original person. Of statements made with the values but "
        f"without any person, {control} do."
    )


def _describe_linkage(result: Evidence, success: str, control: str) -> str:
    del result
    return (
        f"Somebody with a register of everybody's exact numbers picks the right record for "
        f"{success} of the persons. A blind guess would be right for {control}."
    )


def _describe_mixed_linkage(result: Evidence, success: str, control: str) -> str:
    known = format_variables(result["details"]["variables"])
    return (
        f"Somebody who knows exactly {known} picks the right record for {success} of the persons. "
        f"A blind guess would be right for {control}."
    )


def _describe_reidentification(result: Evidence, success: str, control: str) -> str:
    del result, control
    return f"{success} of the released records may stand for values that no other record fits."


def _describe_attribute_inference(result: Evidence, success: str, control: str) -> str:
    return (
        f"Somebody who knows everything else about a person guesses "
        f"'{result['details']['worst_secret']}' correctly for {success} of the persons, and for "
        f"{control} without help from that person's own record."
    )


def _describe_averaging(result: Evidence, success: str, control: str) -> str:
    details = result["details"]
    return (
        f"After {details['releases']} releases under different keys, {success} of the persons "
        f"would be found within {details['p']} others. Under one key it stays at {control}, "
        "however often the data are released."
    )


def _describe_undoing(result: Evidence, success: str, control: str) -> str:
    details = result["details"]
    return (
        f"Working back from the released centres comes within {details['tolerance']:g} standard "
        f"deviations of the truth for {success} of the values, and for {control} without that "
        f"work. The remaining error is {format_percent(details['undoing_error_left'])} of what it "
        "was."
    )


_ATTACKS = {
    "singling_out": _AttackWording("Singling out", "shuffled columns", _describe_singling_out),
    "reidentification": _AttackWording(
        "Standing alone", "in the original", _describe_reidentification, verdict=""
    ),
    "linkage": _AttackWording("Linking by numbers", "a blind guess", _describe_linkage),
    "mixed_linkage": _AttackWording(
        "Linking by all that is known", "a blind guess", _describe_mixed_linkage
    ),
    "attribute_inference": _AttackWording(
        "Guessing a secret", "without that person's record", _describe_attribute_inference
    ),
    "averaging": _AttackWording(
        "Averaging releases", "one key", _describe_averaging, "if other keys are used", release=True
    ),
    "undoing": _AttackWording(
        "Undoing centres", "taken as they are", _describe_undoing, release=True
    ),
}
