"""The report of a release: one page to sign, then what it rests on, then the annexes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato import catalogue
from sfumato.measure import Measure
from sfumato.report.attacks import describe_attacks
from sfumato.report.codebook import describe_fitting
from sfumato.report.front import (
    add_lights,
    describe_lights,
    describe_verdict,
    list_parties,
    summarise,
)
from sfumato.report.glossary import list_terms
from sfumato.report.html import render_page
from sfumato.report.measured import (
    LEDGER,
    build_dumbbells,
    describe_losses,
    describe_purpose,
    describe_result,
    describe_target,
    group_by_room,
    list_assumptions,
)
from sfumato.report.noise import describe_noise
from sfumato.report.variables import describe_distributions, describe_ledger, describe_steps
from sfumato.schema import ROLES

Plain = Mapping[str, Any]


def render_report(manifest: Plain, custody: Plain | None = None) -> str:
    """The public edition from the manifest alone; the inside edition with the custody record."""
    if "tables" in manifest:
        from sfumato.report.tables import describe_tables

        return render_page("tables.html", **describe_tables(manifest, custody))
    return render_page("release.html", **describe_release(manifest, custody))


def list_tables(manifest: Plain) -> list[Plain]:
    """What is known of each table of a release: of one table, the manifest itself."""
    return list(manifest.get("tables", {}).values()) or [manifest]


def describe_release(manifest: Plain, custody: Plain | None = None) -> dict[str, Any]:
    """What the page of a release shows."""
    inside = custody is not None
    evidence = (custody or manifest)["evidence"]
    # The ledger of variables has a table of its own.
    measured = {label: item for label, item in evidence.items() if item["name"] != LEDGER}
    assumptions = list_assumptions(measured)
    results = [
        describe_result(label, item, assumptions if not item["reason"] else item["assumptions"],
                        inside=inside)
        for label, item in measured.items()
    ]  # fmt: skip
    judged = (custody or {}).get("judged_attacks")
    attacks = describe_attacks(evidence, inside=inside, judged=judged)
    verdict = describe_verdict(manifest, evidence, attacks, inside=inside)
    targets = [describe_target(target, evidence) for target in (custody or manifest)["targets"]]
    if not (custody or {}).get("lights"):  # else the light says it, with what it means
        verdict["caveats"][:0] = [
            f"Barely met ({target['target']}): {target['measured']}, asked {target['asked']}."
            for target in targets
            if target["verdict"] == "barely met"
        ]
    parties = manifest.get("parties", {})
    return {
        "inside": inside,
        "draft": bool(manifest.get("draft")),
        "manifest": manifest,
        "custody": custody,
        "title": parties.get("title", ""),
        "contact": parties.get("contact", ""),
        "parties": list_parties(parties),
        "persons": _count_persons(evidence),
        "verdict": add_lights(verdict, manifest, custody),
        "lights": describe_lights(custody, written="data" in list_tables(manifest)[0]),
        "summary": summarise(manifest, evidence, custody),
        "dossier": (custody or manifest).get("dossier"),
        "attempts": [] if inside else _describe_public_attacks(manifest),
        "ledger": describe_ledger(manifest, custody),
        "targets": targets,
        "steps": describe_steps(manifest, custody),
        "distributions": describe_distributions(custody, manifest["variables"]),
        "noise": describe_noise(manifest),
        "attacks": attacks,
        "h_index_measured": any(result["name"] == "h_index" for result in evidence.values()),
        "rooms": group_by_room(results),
        "dumbbells": build_dumbbells(results),
        "losses": describe_losses(evidence, manifest["variables"]),
        "purpose": describe_purpose(evidence) if inside else None,
        "assumptions": assumptions,
        "terms": list_terms(manifest, inside=inside),
        "fitting": describe_fitting(manifest["variables"]),
        "roles": ROLES,
    }


def _count_persons(evidence: Mapping[str, Plain]) -> int | None:
    """How many persons the records are of, where classes were counted in persons."""
    classes = (item["details"] for item in evidence.values() if item["name"] == "uniqueness")
    return next((details["persons"] for details in classes if "persons" in details), None)


def _describe_public_attacks(manifest: Plain) -> list[str]:
    """What everybody may know of attacks: which were tried, never what they achieved."""
    facts = manifest.get("attacks")
    if facts is None:
        return []
    # Only what has a limit can do better than that.
    limited = [label for label in facts["tried"] if _has_limit(label)]
    others = [label for label in facts["tried"] if label not in limited]
    tried, unlimited, untried = (
        ", ".join(_get_title(label).lower() for label in labels)
        for labels in (limited, others, facts["not_tried"])
    )
    lines = [f"The custodian tried: {tried}."] if tried else ["No attack was tried."]
    if tried and not facts["accepted"]:
        lines.append("None of them succeeds more often than the custodian accepts.")
    if facts["accepted"]:
        lines.append("What they achieve is accepted by the plan.")
    if unlimited:
        lines.append(f"Reported to the custodian without a limit: {unlimited}.")
    return [*lines, f"Not tried: {untried}."] if tried and untried else lines


def _find_attack(label: str) -> type[Measure] | None:
    """The measure of a label; `averaging_2` is a second of its kind."""
    measures = catalogue.measures()
    return measures.get(label) or measures.get(label.rpartition("_")[0])


def _has_limit(label: str) -> bool:
    entry = _find_attack(label)
    return entry is not None and entry.trial is not None and entry.trial.acceptable is not None


def _get_title(label: str) -> str:
    """What an attacker does, by the label of the measure."""
    entry = _find_attack(label)
    return entry.attack.title if entry is not None and entry.attack is not None else label
