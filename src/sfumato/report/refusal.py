"""The page of a release that was refused: what was missed, by which variables, and what to try."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sfumato.report.front import list_parties, tell_singled_out
from sfumato.report.html import render_block, render_page
from sfumato.report.page import describe_release
from sfumato.report.wording import join_words, name_variables
from sfumato.run.remedies import suggest_for_number

Plain = Mapping[str, Any]
_NOTHING: dict[str, Any] = {
    "records": 0,
    "variables": {},
    "methods": [],
    "targets": [],
    "evidence": {},
    "order_of_rows": "",
    "key_commitment": "",
}


def render_refusal(attempt: Plain, parties: Mapping[str, str], hint: str) -> str:
    """The page of an attempt as it is kept inside; see `keep_attempt`."""
    evidence = attempt["evidence"]
    custody = {
        "evidence": evidence,
        "targets": attempt["targets"],
        "steps": [],
        "input": {"roles": {}, "records": _count_records(evidence)},
        "dossier": attempt.get("dossier"),
    }
    page = describe_release(_NOTHING, custody)
    missed = describe_missed(page["targets"], evidence, _list_methods(attempt))
    count, total = len(missed), len(page["targets"])
    what = f"{count} of {total} numbers {'is' if count == 1 else 'are'} beyond what was asked."
    return render_page(
        "refusal.html",
        title=parties.get("title", ""),
        parties=list_parties(parties),
        verdict={"tone": "bad", "head": "Nothing was released", "text": what},
        summary=tell_singled_out(evidence, custody),
        missed=missed,
        met=[target for target in page["targets"] if target["met"]],
        hint=f"{hint[:1].upper()}{hint[1:]}",
        parts=[
            render_block("release.html", part, **page)
            for part in ("rule", "measured", "assumed", "numbers")
        ],
        attempt=attempt,
    )


def describe_missed(
    targets: Sequence[Plain], evidence: Mapping[str, Plain], methods: Collection[str] = ()
) -> list[Plain]:
    """The targets that are missed, with the variables that decide, and what to try.

    `methods` are those of the plan that was refused: nobody is told to add a step it has.
    """
    return [
        {"filled_in": "", **target, "by": (by := _name_deciding(target, evidence)),
         "remedy": suggest_for_number(target, evidence.get(target.get("measure", "")), by, methods)}
        for target in targets
        if not target["met"]
    ]  # fmt: skip


def _list_methods(attempt: Plain) -> set[str]:
    """The methods of the plan of an attempt, of one table or of several."""
    plan = tomllib.loads(attempt.get("plan") or "")
    plans = [plan, *plan.get("tables", {}).values()]
    return {step["method"] for stated in plans for step in stated.get("steps", ())}


def _count_records(evidence: Mapping[str, Plain]) -> int:
    counts = [item["details"].get("records") for item in evidence.values()]
    return max((int(count) for count in counts if count), default=0)


def _name_deciding(target: Plain, evidence: Mapping[str, Plain]) -> str:
    """The variables on which a missed number rests: the worst of them first where that is known."""
    result = evidence.get(target.get("measure", ""))
    if result is None:
        return ""
    details = result["details"]
    worst = target.get("worst") or details.get("worst_variable")
    rows = [row for row in result["table"] or () if {"variable", result["name"]} <= set(row)]
    ranked = sorted(
        (row for row in rows if isinstance(row[result["name"]], (int, float))),
        key=lambda row: row[result["name"]],
        reverse=result["direction"] == "lower",
    )
    names = [str(name) for name in (worst, *(row["variable"] for row in ranked)) if name]
    known = details.get("known", details.get("variables", ()))
    return join_words(name_variables(list(dict.fromkeys(names)) or [n for n in known if n]))
