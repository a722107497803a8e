"""The first page of a report: for whom and what for, the verdict, five sentences, the lights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sfumato.report.measured import is_barely_met
from sfumato.report.variables import CHANGES
from sfumato.report.wording import (
    format_change,
    format_percent,
    get_evidence,
    join_words,
    name_variables,
    read_worst,
)

Plain = Mapping[str, Any]
_LABELS = {
    "title": "Data",
    "custodian": "Custodian",
    "recipient": "Recipient",
    "purpose": "Purpose",
    "legal_basis": "Legal basis",
    "date": "Date of the plan",
    "contact": "Questions to",
}
_PERHAPS = "may have been changed"
_MOST = 0.5
"""The share of unchanged cells from which on it is said."""
_STAND_OUT = 2.0
"""So many times the share of all, and people far out are named."""
_NOT_TRIED = "No attack was tried."
_TONES = {"green": "good", "amber": "warn", "red": "bad"}
_IN_MEMORY = (
    "Every target holds for the protected records in memory. No file was written yet; all targets "
    "are measured again on the file when it is."
)
_MEANINGS = {
    "targets": {
        "green": "The released file meets every target.",
        "amber": "No target is missed. Decide on this before you sign:",
        "red": "A target is missed.",
    },
    "attacks": {
        "green": "Every attack that applies was tried; none succeeds too often.",
        "amber": "No attack succeeds more often than is acceptable or the plan accepts. Decide on "
        "this before you sign:",
        "red": "An attack succeeds too often.",
    },
    "use": {
        "green": "Nearly all answers for which the data are shared stay the same.",
        "amber": "Some answers for which the data are shared change:",
        "red": "Most answers for which the data are shared change:",
    },
}
_OF_SAFETY = ("targets", "attacks")


def list_parties(parties: Mapping[str, str]) -> list[dict[str, str]]:
    """Custodian, recipient and the like; what the plan leaves out is a line to fill in by hand."""
    return [{"label": label, "text": parties.get(name, "")} for name, label in _LABELS.items()]


def describe_verdict(
    manifest: Plain, evidence: Mapping[str, Plain], attacks: Plain | None, *, inside: bool
) -> dict[str, Any]:
    """What the board reads first; `caveats` say what the targets leave open."""
    targets = manifest["targets"]
    if not targets:
        head, tone = "No target was set", "warn"
        text = (
            "The steps below were carried out, but nothing is guaranteed. "
            "Set targets in the plan before you sign."
        )
    elif missed := sum(not target["met"] for target in targets):
        head, tone = f"{missed} of {len(targets)} targets missed", "bad"
        text = "These data must not be released."
    else:
        # The verdict promises what was measured, and where; no more.
        which = "The target is" if len(targets) == 1 else f"All {len(targets)} targets are"
        head, tone = f"{which} met", "good"
        where = (
            "on the released file as it is on the disk"
            if "data" in manifest
            else "in memory; no file was written yet"
        )
        text = (
            f"Measured {where}. Nothing beyond that is promised, and only under the assumptions "
            "given below."
        )
    caveats = _list_caveats(evidence, attacks, inside=inside)
    return {"tone": tone, "head": head, "text": text, "caveats": caveats}


def _list_caveats(
    evidence: Mapping[str, Plain], attacks: Plain | None, *, inside: bool
) -> list[str]:
    caveats: list[str] = []
    if attacks is not None:
        caveats += filter(None, [attacks["caveat"]])
    elif inside:
        caveats.append(_NOT_TRIED)
    if failed := sum(result["value"] is None for result in evidence.values()):
        what = "measure" if failed == 1 else "measures"
        caveats.append(f"{failed} {what} could not be computed; the reason is given below.")
    return caveats


def add_lights(verdict: dict[str, Any], manifest: Plain, custody: Plain | None) -> dict[str, Any]:
    """The verdict is good only if the lights of targets and attacks are green.

    In public it is good if nothing was left open, and no target is barely met.
    """
    stated: Mapping[str, Plain] = (custody or {}).get("lights", {})
    lights = [light for name, light in stated.items() if name in _OF_SAFETY]
    attacks = manifest.get("attacks", {})
    tones = [_TONES[light["colour"]] for light in lights]
    barely = any(is_barely_met(target) for target in manifest["targets"])
    if custody is None and (barely or attacks.get("not_tried") or attacks.get("accepted")):
        tones.append("warn")
    # What the lights say, they say beside it.
    caveats = [line for line in verdict["caveats"] if not lights or line != _NOT_TRIED]
    if verdict["tone"] != "good" or {*tones} <= {"good"}:
        return {**verdict, "caveats": caveats}
    tone = "bad" if "bad" in tones else "warn"
    return {**verdict, "tone": tone, "head": f"{verdict['head']}, but look twice",
            "caveats": caveats}  # fmt: skip


def describe_lights(custody: Plain | None, *, written: bool) -> list[dict[str, Any]]:
    """The lights with their reasons; of a release that was made without any, none.

    Of a release that is not `written` nothing can be said about its file.
    """
    lights: Mapping[str, Plain] = (custody or {}).get("lights", {})
    return [
        {
            "title": name.capitalize(),
            "colour": light["colour"],
            "tone": _TONES[light["colour"]],
            "reasons": light["reasons"],
            "meaning": _IN_MEMORY
            if not written and (name, light["colour"]) == ("targets", "green")
            else _MEANINGS[name][light["colour"]],
        }
        for name, light in lights.items()
    ]


def summarise(
    manifest: Plain, evidence: Mapping[str, Plain], custody: Plain | None
) -> list[dict[str, str]]:
    """Five sentences for those who read no further, and one on what the targets leave open."""
    inside = custody is not None
    open_still = _tell_left_open(manifest, evidence) if inside else ""
    lines = {
        "Before": _tell_before(evidence, custody),
        "Now": _tell_now(evidence) + _tell_linkage(evidence),
        **({"Left open": open_still} if open_still else {}),
        "Changed": _tell_changes(manifest, evidence, custody),
        "As it was": _tell_kept(manifest, evidence),
        "For analysis": _tell_loss(manifest, evidence, inside=inside),
    }
    return [{"head": head, "text": text} for head, text in lines.items()]


def tell_singled_out(evidence: Mapping[str, Plain], custody: Plain) -> list[dict[str, str]]:
    """Who could be singled out before and after, for a release that never left."""
    after = _tell_now(evidence) + _tell_linkage(evidence)
    lines = {"Before": _tell_before(evidence, custody), "After": after}
    return [{"head": head, "text": text} for head, text in lines.items()]


def _tell_before(evidence: Mapping[str, Plain], custody: Plain | None) -> str:
    if custody is None:
        return "Only the custodian knows how many people the original singles out."
    counted = get_evidence(evidence, "uniqueness") or get_evidence(evidence, "reidentification")
    share = counted["baseline"] if counted else None
    if counted is None or share is None:
        return (
            "Nobody has counted who could be singled out in the original. Set a target on k, or "
            "name uniqueness under [evaluate]."
        )
    people = counted["details"].get("persons") or custody["input"].get("records", 0)
    # Who was left out of linked tables was not counted.
    group = "people of the release" if custody["input"].get("persons_left_out") else "people"
    by = f"by what an outsider may know about them ({_list_known(counted)})"
    if share == 0:
        return f"In the original, none of {people:,} {group} could be singled out {by}."
    # The release is told at worst, the original in the milder reading.
    least = "" if counted["value"] == read_worst(counted) else "at least "
    who = f"all {people:,}" if share == 1 else f"{least}{format_percent(share)} of {people:,}"
    return f"In the original, {who} {group} could be singled out {by}."


def _tell_left_open(manifest: Plain, evidence: Mapping[str, Plain]) -> str:
    """What no target limits, and who signs should know: lone values, and people far out."""
    variables, parts = manifest["variables"], []
    ledger = get_evidence(evidence, "untouched") or {}
    lone = [
        row
        for row in ledger.get("table") or ()
        if row["unchanged"] >= _MOST and row["unique"] > 0
        and variables.get(row["variable"], {}).get("role") in ("sensitive", "other")
    ]  # fmt: skip
    if lone:
        lone.sort(key=lambda row: row["unique"], reverse=True)
        named = [f"{name_variables([row['variable']], variables)[0]} "
                 f"({format_percent(row['unique'])} of the records)" for row in lone]  # fmt: skip
        parts.append(
            f"Some values belong to one record only and are released: {join_words(named)}. "
            "Whoever knows such a value finds the record; the plan takes it that nobody does."
        )
    reached = get_evidence(evidence, "h_index")
    details = reached["details"] if reached else {}
    tail, everybody = details.get("h_index_tail"), reached and reached["value"]
    if tail and everybody and tail >= _STAND_OUT * everybody:
        parts.append(
            f"People with extreme values are less hidden: an attacker comes within "
            f"{details.get('p', 3)} persons of {format_percent(tail)} of those farthest out, and "
            f"of {format_percent(everybody)} of all."
        )
    return " ".join(parts)


def _list_known(counted: Plain) -> str:
    return join_words(name_variables(counted["details"].get("known", ()))) or "no variable"


def _tell_now(evidence: Mapping[str, Plain]) -> str:
    counted, fitted = (get_evidence(evidence, name) for name in ("uniqueness", "reidentification"))
    worst = [
        share for item in (counted, fitted) if item and (share := read_worst(item)) is not None
    ]
    if not worst:
        return "Nobody has counted who can be singled out in the release."
    if max(worst) > 0:
        return f"In the release, {format_percent(max(worst))} of the records still can be."
    details = (counted or fitted or {})["details"]
    k = details.get("k_at_worst", details.get("k", details.get("k_by_fitting")))
    others = f"{k - 1:,.0f} other{'s' * (k > 2)}" if k else ""  # noqa: PLR2004 - several
    alike = f": everybody looks like at least {others}" if k and k > 1 else ""
    return f"In the release, nobody can be singled out that way{alike}."


def _tell_linkage(evidence: Mapping[str, Plain]) -> str:
    """What the strongest register attack still achieves: looking alike is not being unfindable."""
    linked = get_evidence(evidence, "mixed_linkage")
    share = linked and read_worst(linked)
    if not share:
        return ""
    return (
        " Somebody who knows all of it exactly picks the right record for up to "
        f"{format_percent(share)} of them."
    )


def _tell_changes(manifest: Plain, evidence: Mapping[str, Plain], custody: Plain | None) -> str:
    released = manifest["variables"]
    roles = (custody or {}).get("input", {}).get("roles", {})
    dropped = [name for step in manifest["methods"] if step["method"] == "drop"
               for name in step.get("variables", ())]  # fmt: skip
    gone = [name for name in dict.fromkeys([*roles, *dropped]) if name not in released]
    kept = _list_kept(manifest, evidence)
    unnamed = any(step["method"] == "drop" and "variables" not in step
                  for step in manifest["methods"])  # fmt: skip
    if custody is None and unnamed:
        gone = ["direct identifiers", *gone]
    groups: dict[str, list[str]] = {"left out": gone}
    noisy = manifest.get("noise", {}).get("variables", {})
    for name, facts in released.items():
        if facts.get("steps") and name not in kept:
            cells = facts.get("cells")
            # In public nobody can say whether a step changed a cell; see `_list_kept`.
            other = "changed" if custody is not None else _PERHAPS
            how = "given noise" if name in noisy else CHANGES.get(str(cells), other)
            groups.setdefault(how, []).append(name)
    parts = []
    for how, names in groups.items():
        if names:
            verb = "was" if len(names) == 1 and not names[0].endswith("identifiers") else "were"
            did = how if how == _PERHAPS else f"{verb} {how}"
            parts.append(f"{join_words(name_variables(names, released))} {did}")
    removed = ((custody or {}).get("input", {}).get("records") or 0) - manifest["records"]
    left_out = (custody or {}).get("input", {}).get("persons_left_out") or 0
    if left_out:
        parts.append(f"{left_out:,} {'person was' if left_out == 1 else 'people were'} left out")
    elif custody is not None and removed > 0:
        parts.append(f"{removed:,} records were removed")
    return _make_sentence(parts) or "Nothing was left out or changed."


def _make_sentence(parts: Sequence[str]) -> str:
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _list_kept(manifest: Plain, evidence: Mapping[str, Plain]) -> list[str]:
    """Variables of which every cell left as it was; in public, those that no step treats."""
    ledger = get_evidence(evidence, "untouched")
    if ledger is None:
        variables = manifest["variables"].items()
        return [name for name, facts in variables if facts.get("steps") == []]
    shares = {row["variable"]: row["unchanged"] for row in ledger["table"] or ()}
    return [name for name in manifest["variables"] if shares.get(name) == 1]


def _tell_kept(manifest: Plain, evidence: Mapping[str, Plain]) -> str:
    released = manifest["variables"]
    kept = name_variables(_list_kept(manifest, evidence), released)
    ledger = get_evidence(evidence, "untouched") or {}
    mostly = [
        f"{name_variables([row['variable']], released)[0]} ({format_percent(row['unchanged'])})"
        for row in ledger.get("table") or ()
        if _MOST <= row["unchanged"] < 1 and row["variable"] in released
    ]
    parts = []
    if kept:
        verb = "is unchanged" if len(kept) == 1 else "are unchanged"
        parts.append(f"{join_words(kept, most=6)} {verb}")
    if mostly:
        parts.append(f"so are most cells of {join_words(mostly)}" if kept
                     else f"most cells of {join_words(mostly)} are unchanged")  # fmt: skip
    return _make_sentence(parts) or "No variable is unchanged."


def _tell_loss(manifest: Plain, evidence: Mapping[str, Plain], *, inside: bool) -> str:
    if not inside:
        return _tell_public_loss(manifest)
    parts = [*_list_losses(manifest, evidence)]
    if not parts:
        return (
            "Nobody has measured what an analyst loses. Name moments and information_loss under "
            "[evaluate]."
        )
    return _make_sentence(parts)


def _list_losses(manifest: Plain, evidence: Mapping[str, Plain]) -> Iterator[str]:
    variables = manifest["variables"]
    lost = get_evidence(evidence, "information_loss")
    if lost and (share := lost["details"].get("generalised_cells")) is not None:
        yield f"{format_percent(share)} of the cells of what outsiders may know are coarser"
    moments = get_evidence(evidence, "moments")
    for statistic, what in (("mean", "the mean that changes most is that of"),
                            ("sd", "the spread that changes most is that of")):  # fmt: skip
        rows = [row for row in (moments or {}).get("table") or ()
                if row["statistic"] == statistic and row["moments"] is not None]  # fmt: skip
        if rows:
            row = max(rows, key=lambda row: abs(row["moments"]))
            name = name_variables([row["variable"]], variables)[0]
            yield f"{what} {name}, by {format_change(row, variables.get(row['variable'], {}))}"
    model = get_evidence(evidence, "coefficients")
    if model and (signs := model["details"].get("signs_kept")) is not None:
        kept = "all coefficients" if signs == 1 else f"{format_percent(signs)} of the coefficients"
        overlap = model["details"].get("mean_overlap")
        overlapping = (
            f", and their intervals overlap by {format_percent(overlap)} on average"
            if overlap is not None
            else ""
        )
        yield f"in the model {model['details']['formula']}, {kept} keep their sign{overlapping}"


def _tell_public_loss(manifest: Plain) -> str:
    variables = manifest["variables"]
    coarser = [name for name, facts in variables.items() if facts.get("cells") == "generalised"]
    noisy = [name for name in manifest.get("noise", {}).get("variables", {}) if name in variables]
    parts = []
    if coarser:
        verb = "has" if len(coarser) == 1 else "have"
        parts.append(f"{join_words(name_variables(coarser, variables))} {verb} ranges or groups "
                     "in place of values")  # fmt: skip
    if noisy:
        verb = "has" if len(noisy) == 1 else "have"
        parts.append(f"{join_words(name_variables(noisy, variables))} {verb} noise, which analyses "
                     f"must take into account")  # fmt: skip
    sentence = _make_sentence(parts) or "There are no ranges or noise in place of values."
    return f"{sentence} The codebook says how to read every variable."
