"""What an outsider could still do, in words for a board: only what evidence says was tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Plain = Mapping[str, Any]
_FULL = 100.0
_NO_BETTER = "no better than the control"
_NO_GAIN = "gains nothing beyond the release as it is"
_UNDONE = 0.9
"""A share of the error below which something was taken back."""
_MANY = 4
"""Variables that are named one by one at most."""


@dataclass(frozen=True)
class _Attack:
    """How one attack is told: its name, what it is held against, and a sentence.

    `verdict` is what is said of one that does better than its control; without one, what it is
    held against is no control, and nothing is called safe by it. `release`: it is held against the
    release as it is, which may be unsafe itself, so that gaining nothing is no good news.
    """

    title: str
    control: str
    sentence: Callable[[Plain, str, str], str]
    verdict: str = "beats the control"
    release: bool = False


def attack_view(evidence: Mapping[str, Plain], *, inside: bool) -> dict[str, Any] | None:
    """What the page shows of attacks that were tried; None where none was."""
    told = [
        (label, one) for name in _ATTACKS for label, one in evidence.items() if one["name"] == name
    ]
    # Standing alone is a count and no attack: it is shown beside others, not by itself.
    if not any(_ATTACKS[one["name"]].verdict for _, one in told):
        return None
    rows = [_row(label, one) for label, one in told]
    names = {one["name"] for _, one in told}
    missing = [one.title.lower() for name, one in _ATTACKS.items() if name not in names]
    return {
        "rows": rows,
        "bars": _bars([row for row in rows if not row["reason"]]),
        "missing": ", ".join(missing) if inside else "",
    }


def _row(label: str, one: Plain) -> dict[str, Any]:
    attack = _ATTACKS[one["name"]]
    title = attack.title if label == one["name"] else f"{attack.title} ({label})"
    if one["value"] is None:
        return {"title": title, "reason": one["reason"] or "no reason was given."}
    value, control = percent(one["value"]), _control(one["baseline"])
    better = _better(one)
    tones = {True: "warn", False: "" if attack.release else "good", None: ""}
    worse = _NO_GAIN if attack.release else _NO_BETTER
    return {
        "title": title,
        "reason": "",
        "success": value,
        "interval": _interval(one["interval"]),
        "control": control,
        "against": attack.control,
        "better": better,
        "tone": tones[better],
        "verdict": {True: attack.verdict, False: worse, None: ""}[better],
        "sentence": attack.sentence(one, value, control),
        "shares": (one["value"], one["baseline"]),
    }


def percent(share: float) -> str:
    r"""A share in per cent, with digits where it is small.

    Examples
    --------
    >>> shares = (0.0, 0.00005, 0.0123, 0.5, 0.9996, 1.0)
    >>> [percent(share).replace("\N{NO-BREAK SPACE}", " ") for share in shares]
    ['0 %', '0.005 %', '1.2 %', '50 %', '99.96 %', '100 %']
    """
    size = _FULL * share
    if size in (0, _FULL) or size > _FULL:
        return f"{size:.0f}\N{NO-BREAK SPACE}%"
    # Neither "0 %" nor "100 %" where that is not so.
    rest = min(size, _FULL - size)
    digits = next((count for count in range(5) if rest >= 10.0 ** (1 - count)), 5)
    said = f"{size:.{digits}f}"
    return f"{said.rstrip('0').rstrip('.') if digits else said}\N{NO-BREAK SPACE}%"


def _control(baseline: float | None) -> str:
    return "not told" if baseline is None else percent(baseline)


def _interval(interval: Any) -> str:
    if interval is None or None in interval:
        return ""
    low, high = (percent(0.0 if end < 1e-9 else min(end, 1.0)) for end in interval)  # noqa: PLR2004
    return f"{low} to {high}"


def _better(one: Plain) -> bool | None:
    """Whether the attack did better than its control, beyond chance; None where that is open."""
    if one["baseline"] is None or not _ATTACKS[one["name"]].verdict:
        return None
    if (one["details"].get("undoing_error_left") or 1.0) < _UNDONE:
        return True  # the share may stay while the error falls: those far off come nearer
    low = one["interval"][0] if one["interval"] else one["value"]
    return bool(low is not None and low > one["baseline"])


def _bars(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Two bars for each attack, on the scale of all: what it achieved, and its control."""
    drawn = []
    for row in rows:
        value, baseline = row["shares"]
        drawn.append(_bar(row["title"], value, alone=bool(row["better"])))
        if baseline is not None:
            label = "control" if row["better"] is not None else row["against"]
            drawn.append(_bar(label, baseline, alone=False))
    if not drawn:
        return None
    return {
        "title": "Share of attempts that succeed (in red: better than the control)",
        "rows": drawn,
    }


def _bar(label: str, share: float, *, alone: bool) -> dict[str, Any]:
    return {
        "label": label,
        "told": percent(share),
        "share": round(_FULL * min(max(share, 0.0), 1.0), 2),
        "alone": alone,
    }


def _singling_out(one: Plain, value: str, control: str) -> str:
    return (
        f"Of {one['details']['attempts']:,} statements made from the released file alone, {value} "
        f"hold for exactly one original person. Of statements that know the values and no person, "
        f"{control} do."
    )


def _linkage(one: Plain, value: str, control: str) -> str:
    del one
    return (
        f"Somebody with a register of everybody's exact numbers takes the right record for {value} "
        f"of the persons. A blind guess would be right for {control}."
    )


def _mixed_linkage(one: Plain, value: str, control: str) -> str:
    return (
        f"Somebody who knows exactly {_listed(one['details']['variables'])} takes the right record "
        f"for {value} of the persons. A blind guess would be right for {control}."
    )


def _listed(names: str) -> str:
    each = names.split(", ")
    return names if len(each) <= _MANY else f"{len(each)} variables of a person"


def _reidentification(one: Plain, value: str, control: str) -> str:
    del one, control
    return f"{value} of the released records may stand for values that no other record fits."


def _attribute_inference(one: Plain, value: str, control: str) -> str:
    return (
        f"Whoever knows a person otherwise guesses '{one['details']['worst_secret']}' right for "
        f"{value} of the persons, and for {control} without help from their own record."
    )


def _averaging(one: Plain, value: str, control: str) -> str:
    told = one["details"]
    return (
        f"After {told['releases']} releases under different keys, {value} of the persons would be "
        f"found within {told['p']} others. Under one key it stays at {control}, however often the "
        "data are released."
    )


def _undoing(one: Plain, value: str, control: str) -> str:
    told = one["details"]
    return (
        f"Working back from the released centres comes within {told['tolerance']:g} standard "
        f"deviations of the truth for {value} of the values, {control} without that work. The "
        f"error left is {percent(told['undoing_error_left'])} of what it was."
    )


_ATTACKS = {
    "singling_out": _Attack("Singling out", "shuffled columns", _singling_out),
    "reidentification": _Attack("Standing alone", "in the original", _reidentification, verdict=""),
    "linkage": _Attack("Linking by numbers", "a blind guess", _linkage),
    "mixed_linkage": _Attack("Linking by all that is known", "a blind guess", _mixed_linkage),
    "attribute_inference": _Attack(
        "Guessing a secret", "without the own record", _attribute_inference
    ),
    "averaging": _Attack(
        "Averaging releases", "one key", _averaging, "if other keys are used", release=True
    ),
    "undoing": _Attack("Undoing centres", "taken as they are", _undoing, release=True),
}
