"""What an outsider could still do, in words for a board: only attacks that the evidence shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato import catalogue
from sfumato.measure import AttackWording
from sfumato.report.charts import Chart, make_bar
from sfumato.report.wording import format_interval, format_percent, format_variables, read_worst

Evidence = Mapping[str, Any]
_NO_BETTER = "no better than the control"
_NO_GAIN = "gains nothing beyond the release as it is"
_TOO_MUCH = "more than is acceptable"
_UNDONE = 0.9
"""A share of the error below which something was taken back."""


def describe_attacks(
    evidence: Mapping[str, Evidence],
    *,
    inside: bool,
    judged: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any] | None:
    """What the page shows of attacks that were tried; None where none was.

    `judged` says by attack what is acceptable, and what it achieved; of records that were made
    without it, an attack is compared with its control alone.
    """
    attacks = _list_attacks()
    tried = [(label, result) for label, result in evidence.items() if result["name"] in attacks]
    # Standing alone is a count and no attack: it is shown beside others, not by itself.
    if not any(attacks[result["name"]].verdict for _, result in tried):
        return None
    rows = [
        _describe_attack(label, result, attacks[result["name"]])
        | _describe_limit((judged or {}).get(label))
        for label, result in tried
    ]
    names = {result["name"] for _, result in tried}
    missing, foreign = list[str](), list[str]()
    for name, attack in attacks.items():
        if name not in names:
            # All that apply were tried, or say why not, where what they achieve was judged.
            applies = judged is None or catalogue.measure(name).trial is None
            (missing if applies else foreign).append(attack.title.lower())
    return {
        "rows": rows,
        "bars": _build_bars([row for row in rows if not row["reason"]]),
        "missing": ", ".join(missing) if inside else "",
        "foreign": ", ".join(foreign) if inside else "",
        "caveat": _describe_all(rows, judged or {}),
    }


def _describe_limit(judged: Mapping[str, Any] | None) -> dict[str, Any]:
    """Whether what an attack achieves is acceptable, in place of whether it beats its control."""
    if judged is None or judged["at_worst"] is None:
        return {"limit": "", "room": None}
    achieved, acceptable = (format_percent(judged[part]) for part in ("at_worst", "acceptable"))
    # A gain or an excess is what the attack achieves beyond its control.
    beyond = judged["number"].rpartition(".")[2].rpartition("_")[2] in ("gain", "excess")
    limit = f"{achieved}{' beyond the control' * beyond}; up to {acceptable} is acceptable"
    facts = {"limit": limit, "number": judged["number"], "beyond": not judged["met"]}
    if judged["met"]:
        room = judged["at_worst"] / judged["acceptable"] if judged["acceptable"] else 1.0
        return {**facts, "verdict": "acceptable", "tone": "good", "room": room}
    accepted = judged["accepted"] is not None
    verdict = "more than is acceptable, but the plan accepts it" if accepted else _TOO_MUCH
    return {**facts, "verdict": verdict, "tone": "warn" if accepted else "bad", "room": None}


def _describe_all(rows: list[dict[str, Any]], judged: Mapping[str, Any]) -> str:
    """All attacks in a sentence or two, for the top of the page."""
    tried = [row for row in rows if not row["reason"] and row["verdict"]]
    if not any(row["limit"] for row in tried):
        won = sum(bool(row["better"]) for row in tried)
        does = "does" if won == 1 else "do"
        return (
            f"{won} of {len(tried)} attacks that were tried {does} better than the control: see "
            "what an outsider could still do."
            if won
            else ""
        )
    limited = [row for row in tried if row["limit"]]
    several = len(limited) != 1
    count = (
        f"{len(limited)} attack{'s' * several} with a limit {'were' if several else 'was'} tried. "
    )
    if beyond := sum(row["beyond"] for row in limited):
        achieves = "achieves" if beyond == 1 else "achieve"
        reason = any(entry["accepted"] and not entry["met"] for entry in judged.values())
        accepted = ", which the plan accepts" if reason else ""
        return f"{count}{beyond} {achieves} more than is acceptable{accepted}."
    nearest = max(limited, key=lambda row: row["room"])
    return (
        f"{count}None achieves more than is acceptable. Nearest to its limit: "
        f"{nearest['title'].lower()}, with {nearest['limit']}."
    )


def _list_attacks() -> dict[str, AttackWording]:
    """The attacks of the catalogue, by the names of their measures."""
    entries = catalogue.measures().items()
    return {name: entry.attack for name, entry in entries if entry.attack is not None}


def _describe_attack(label: str, result: Evidence, attack: AttackWording) -> dict[str, Any]:
    title = attack.title if label == result["name"] else f"{attack.title} ({label})"
    if result["value"] is None:
        return {"title": title, "reason": result["reason"] or "no reason was given."}
    share, baseline = _read_success(result), result["baseline"]
    # Of a sample it is the bad end of the interval, of several attackers the best one.
    success = f"{'up to ' if share > result['value'] else ''}{format_percent(share)}"
    control = "not known" if baseline is None else format_percent(baseline)
    better = _is_better(result, attack)
    tones = {True: "warn", False: "" if attack.against_release else "good", None: ""}
    # "No better than an unsafe release" must not read as good news.
    worse = _NO_GAIN if attack.against_release else _NO_BETTER
    return {
        "title": title,
        "reason": "",
        "success": success,
        # The interval is that of the value; the best attacker's share may lie beyond it.
        "interval": format_interval(result["interval"])
        if _find_success(result) == result["value"]
        else "",
        "control": control,
        "against": attack.control,
        "better": better,
        "tone": tones[better],
        "verdict": {True: attack.verdict, False: worse, None: ""}[better],
        "sentence": attack.sentence.format_map(_list_fields(result, success, control)),
        "shares": (share, baseline),
        "hypothetical": attack.hypothetical,
    }


def _read_success(result: Evidence) -> float:
    """The headline: the worst reading, never less than the best attacker's share."""
    return max(read_worst(result) or 0.0, _find_success(result))


def _find_success(result: Evidence) -> float:
    """The share that the best attacker achieves; a sample's bad end is no success."""
    details = result["details"]
    best = details.get("best_share", details.get(f"{result['name']}_by_noise"))
    value = float(result["value"])
    return value if best is None else max(value, float(best))


def _list_fields(result: Evidence, success: str, control: str) -> dict[str, Any]:
    """What the sentence on an attack may name."""
    details: Mapping[str, Any] = result["details"]
    shares = {name: value for name, value in details.items() if isinstance(value, float)}
    lists = {name: value for name, value in details.items() if isinstance(value, (list, tuple))}
    return {
        **details,
        **{f"{name}_percent": format_percent(value) for name, value in shares.items()},
        **{f"{name}_list": format_variables(value) for name, value in lists.items()},
        "success": success,
        "control": control,
    }


def _is_better(result: Evidence, attack: AttackWording) -> bool | None:
    """Whether the attack did better than its control, beyond chance; None where that is open."""
    if result["baseline"] is None or not attack.verdict:
        return None
    if (result["details"].get("undoing_error_left") or 1.0) < _UNDONE:
        return True  # the share may stay while the error falls: those far off come nearer
    # The lower end counts: a lucky sample is no success.
    low = result["interval"][0] if result["interval"] else result["value"]
    if result["interval"] and _find_success(result) > result["interval"][1]:
        return True
    return bool(low is not None and low > result["baseline"])


def _build_bars(rows: list[dict[str, Any]]) -> Chart | None:
    """Two bars for each attack, on the scale of all: its success, and its control."""
    bars = []
    limited = any(row["limit"] for row in rows)
    for row in rows:
        value, baseline = row["shares"]
        highlighted = row["beyond"] if row["limit"] else bool(row["better"]) and not limited
        # What has not happened is no success, however large: its bar is hatched.
        tone = {"hatched": True} if row["hypothetical"] else {"highlighted": highlighted}
        bars.append(_build_bar(row["title"], value, **tone))
        if baseline is not None:
            label = "control" if row["better"] is not None else row["against"]
            bars.append(_build_bar(label, baseline))
    if not bars:
        return None
    red = "more than is acceptable" if limited else "better than the control"
    hatched = "; hatched: would need what has not happened" if any(
        row["hypothetical"] for row in rows
    ) else ""  # fmt: skip
    title = f"Share of attempts that succeed (in red: {red}{hatched})"
    return {"title": title, "rows": bars}


def _build_bar(
    label: str, share: float, *, highlighted: bool = False, hatched: bool = False
) -> Chart:
    # An unbiased estimate of a share may lie beyond 0 and 1; a bar cannot.
    percent = 100 * min(max(share, 0.0), 1.0)
    text = format_percent(share)
    return make_bar(label, text, percent, highlighted=highlighted, hatched=hatched)
