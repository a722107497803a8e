"""The report of a release: verdict first, then what was done, what was measured, and the proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from sfumato import catalogue
from sfumato.errors import SfumatoError
from sfumato.report.attacks import describe_attacks
from sfumato.report.charts import (
    Chart,
    build_bars,
    build_gain_bars,
    build_variable_bars,
    describe_groups,
)
from sfumato.report.html import render_page
from sfumato.report.noise import describe_noise
from sfumato.report.wording import format_percent, format_result, read_worst
from sfumato.schema import ROLES

if TYPE_CHECKING:
    from sfumato.figures.custodian import Picture

Plain = Mapping[str, Any]
Table = Sequence[Plain]
_ROOMS = {"risk": "Risk", "utility": "Utility"}
_LEDGER = "untouched"
_NOT_TRIED = "No attack was tried."
_TONES = {"green": "good", "amber": "warn", "red": "bad"}
_MEANINGS = {
    "targets": {
        "green": "Every target holds on the released file.",
        "amber": "There is no target, one holds only just, or something could not be measured.",
        "red": "A target is missed.",
    },
    "attacks": {
        "green": "Every attack that applies was tried; none does better than is acceptable.",
        "amber": "An attack was not tried or comes near its limit, a variable is as good as a "
        "fingerprint, or the plan accepts what an attack achieves.",
        "red": "An attack does better than is acceptable.",
    },
}
_NUMBERS = {
    "k": "People in the smallest class of those who look alike to an outsider.",
    "prosecutor": "Highest chance that an outsider finds a given person.",
    "t": "How far the confidential values of a class may be from those of all records.",
    "l": "Confidential values in the class that has fewest.",
    "stayed": "Share of records that hardly moved in the worst variable.",
    "mean_h": "Persons who lie nearer to the target than the one an attacker finds, on average.",
}
"""What the numbers are that boards see most often, besides those named like their measure."""


def render_report(manifest: Plain, custody: Plain | None = None) -> str:
    """The public edition from the manifest alone; the inside edition with the custody record."""
    return render_page("release.html", **describe_release(manifest, custody))


def describe_release(manifest: Plain, custody: Plain | None = None) -> dict[str, Any]:
    """What the page of a release shows."""
    inside = custody is not None
    evidence = (custody or manifest)["evidence"]
    # The ledger of variables has a table of its own.
    measured = {label: item for label, item in evidence.items() if item["name"] != _LEDGER}
    results = [_describe_result(label, item, inside=inside) for label, item in measured.items()]
    judged = (custody or {}).get("judged_attacks")
    attacks = describe_attacks(evidence, inside=inside, judged=judged)
    return {
        "inside": inside,
        "manifest": manifest,
        "persons": _count_persons(evidence),
        "custody": custody,
        "verdict": add_lights(
            describe_verdict(manifest, evidence, attacks, inside=inside), manifest, custody
        ),
        "lights": _describe_lights(custody),
        "attempts": [] if inside else _describe_public_attacks(manifest),
        "ledger": _describe_variables(manifest, custody),
        "targets": [
            _describe_target(target, evidence) for target in (custody or manifest)["targets"]
        ],
        "methods": _describe_methods(manifest, custody),
        "noise": describe_noise(manifest),
        "attacks": attacks,
        "h_index_measured": any(result["name"] == "h_index" for result in evidence.values()),
        "rooms": _group_by_room(results),
        "roles": ROLES,
    }


def _count_persons(evidence: Mapping[str, Plain]) -> int | None:
    """How many persons the records are of, where classes were counted in persons."""
    classes = (item["details"] for item in evidence.values() if item["name"] == "uniqueness")
    return next((details["persons"] for details in classes if "persons" in details), None)


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
            "on the released file as it lies on the disk"
            if "data" in manifest
            else "in memory; no file was written yet"
        )
        text = (
            f"Measured {where}. That is what is promised, under the assumptions given with each "
            "number, and nothing beyond."
        )
    caveats = _list_caveats(evidence, attacks, inside=inside)
    return {"tone": tone, "head": head, "text": text, "caveats": caveats}


def add_lights(verdict: dict[str, Any], manifest: Plain, custody: Plain | None) -> dict[str, Any]:
    """The verdict is good only if both lights are green; in public, if nothing was left open."""
    lights = (custody or {}).get("lights", {}).values()
    attacks = manifest.get("attacks", {})
    tones = [_TONES[light["colour"]] for light in lights]
    if custody is None and (attacks.get("not_tried") or attacks.get("accepted")):
        tones.append("warn")
    # What the lights say, they say beside it.
    caveats = [line for line in verdict["caveats"] if not lights or line != _NOT_TRIED]
    if verdict["tone"] != "good" or {*tones} <= {"good"}:
        return {**verdict, "caveats": caveats}
    tone = "bad" if "bad" in tones else "warn"
    return {**verdict, "tone": tone, "head": f"{verdict['head']}, but look twice",
            "caveats": caveats}  # fmt: skip


def _describe_lights(custody: Plain | None) -> list[dict[str, Any]]:
    """Both lights with the reasons; of a release that was made without any, none."""
    lights: Mapping[str, Plain] = (custody or {}).get("lights", {})
    return [
        {
            "title": name.capitalize(),
            "colour": light["colour"],
            "tone": _TONES[light["colour"]],
            "reasons": light["reasons"],
            "meaning": _MEANINGS[name][light["colour"]],
        }
        for name, light in lights.items()
    ]


def _describe_public_attacks(manifest: Plain) -> list[str]:
    """What everybody may know of attacks: which were tried, never what they achieved."""
    facts = manifest.get("attacks")
    if facts is None:
        return []
    tried, untried = (
        ", ".join(_get_title(label).lower() for label in facts[key])
        for key in ("tried", "not_tried")
    )
    lines = [f"The custodian tried: {tried}."] if tried else ["No attack was tried."]
    if tried and not facts["accepted"]:
        lines.append("None of them does better than the custodian accepts.")
    if facts["accepted"]:
        lines.append("What they achieve is accepted by the plan.")
    return [*lines, f"Not tried: {untried}."] if tried and untried else lines


def _get_title(label: str) -> str:
    """What an attacker does, by the label of the measure; `averaging_2` is a second of its kind."""
    measures = catalogue.measures()
    entry = measures.get(label) or measures.get(label.rpartition("_")[0])
    return entry.attack.title if entry is not None and entry.attack is not None else label


def _describe_variables(manifest: Plain, custody: Plain | None) -> list[dict[str, Any]]:
    """The ledger of variables: inside with what each shows of the original."""
    evidence = (custody or {}).get("evidence", {}).values()
    ledger = next((item for item in evidence if item["name"] == _LEDGER), None) or {}
    shares = {row["variable"]: row for row in ledger.get("table") or ()}
    prints = str(ledger.get("details", {}).get("fingerprints", "")).split(", ")
    roles = (custody or {}).get("input", {}).get("roles", {})
    released = manifest["variables"]
    names = [*released, *(name for name in roles if name not in released)]
    rows = []
    for name in names:
        entry, row = released.get(name, {}), shares.get(name)
        role = entry.get("role") or roles.get(name, "")
        steps = entry.get("steps")
        done = "released as it is" if steps == [] else ", ".join(steps or ())
        numbers = dict.fromkeys(("unchanged", "unique", "rare"), "")
        if name in released and row is not None:
            numbers = {key: format_percent(row[key]) for key in numbers}
        distinct = f"{row['distinct']:,}" if row is not None and name in released else ""
        rows.append(
            {
                "name": name,
                "role": role,
                "kind": entry.get("kind") or "",
                "done": done if name in released else "left out",
                "distinct": distinct,
                "fingerprint": name in prints,
                **numbers,
            }
        )
    return rows


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


def _describe_target(target: Plain, evidence: Mapping[str, Plain]) -> dict[str, Any]:
    """A target with the question that its measure answers."""
    label = target.get("measure", "")
    name = evidence[label]["name"] if label in evidence else label
    number = str(target["target"]).rpartition(".")[2]
    # A target may be on a number beside the measure's own, such as `reidentification.k`.
    question = _get_measure_facts(name)["question"]
    if number not in (label, name):
        question = _NUMBERS.get(number, f"One of the numbers of {name}." if name else "")
    return {**target, "question": question}


def _describe_methods(manifest: Plain, custody: Plain | None) -> list[dict[str, Any]]:
    """The steps; inside with what a step says it costs, which follows from the original."""
    steps = [_describe_method(step) for step in manifest["methods"]]
    if custody is None:
        return steps
    losses = [step["fitted"].get("loss", "") for step in custody["steps"]]
    return [step | {"loss": loss} for step, loss in zip(steps, losses, strict=True)]


def _describe_method(step: Plain) -> dict[str, Any]:
    method = catalogue.methods().get(step["method"])
    return {
        "name": step["method"],
        "question": catalogue.first_line(method) if method else "",
        "loss": "",
        # An empty list or table is a parameter that nobody has set.
        "parameters": {
            key: format_result(value)
            for key, value in step.items()
            if key != "method" and value not in ([], {})
        },
    }


def _get_measure_facts(name: str) -> dict[str, str]:
    """The room and the question of a measure; of one that is not installed here, a guess."""
    measure = catalogue.measures().get(name)
    if measure is None:
        return {"room": "risk", "question": ""}
    return {"room": measure.room(), "question": catalogue.first_line(measure)}


def _describe_result(label: str, result: Plain, *, inside: bool) -> dict[str, Any]:
    table, details, baseline = result["table"] or [], result["details"], result["baseline"]
    numbers = {key: value for key, value in details.items() if isinstance(value, (int, float))}
    # Groups of people, and what would protect them, are known by their details, and stay inside.
    groups, gains = (details.get("groups"), details.get("gains")) if inside else (None, None)
    return {
        **result,
        **_get_measure_facts(result["name"]),
        "label": label,
        "numbers": {key: format_result(value) for key, value in numbers.items()},
        "words": {key: value for key, value in details.items() if isinstance(value, str)},
        "value": format_result(read_worst(result)),
        "mild": _describe_mild(result),
        "baseline": None if baseline is None else format_result(baseline),
        "columns": list(table[0]) if table else [],
        "rows": [[format_result(value) for value in row.values()] for row in table],
        "bars": _build_bars(result["name"], table),
        **_draw_picture(result, table, inside=inside),
        "groups": describe_groups(groups),
        "gains": build_gain_bars(gains, str(details.get("worst_variable", ""))),
    }


def _describe_mild(result: Plain) -> str:
    """The value as the papers count it, where the worst reading is another."""
    value = result["value"]
    return "" if value is None or value == read_worst(result) else format_result(value)


def _group_by_room(results: Sequence[Plain]) -> list[dict[str, Any]]:
    """What was measured, risk first: for a table at a glance, then number by number."""
    rooms = []
    for room, title in _ROOMS.items():
        rows = [
            {
                "label": result["label"],
                "question": result["question"],
                "value": "could not be computed" if result["reason"] else result["value"],
                # A measure of one data set has the original's number beside it, one of a pair
                # that of chance.
                "original": (result["baseline"] or "") if result["subject"] != "pair" else "",
                "control": (result["baseline"] or "") if result["subject"] == "pair" else "",
                "direction": result["direction"],
            }
            for result in results
            if result["room"] == room
        ]
        if rows:
            rooms.append(
                {
                    "title": title,
                    "evidence": [result for result in results if result["room"] == room],
                    "original": any(row["original"] for row in rows),
                    "control": any(row["control"] for row in rows),
                    "rows": rows,
                }
            )
    return rooms


def _build_bars(name: str, table: Table) -> Chart | None:
    columns = set(table[0]) if table else set()
    if "records" in columns:
        return build_bars(table)
    # A table of several statistics per variable has no one number to draw.
    if {"variable", name} <= columns and "statistic" not in columns:
        return build_variable_bars(table, name)
    return None


def _draw_picture(result: Plain, table: Table, *, inside: bool) -> dict[str, Any]:
    """The picture of a table that has one, with its caption; what must stay inside is stamped."""
    nothing = {"picture": None, "caption": ""}
    public = result["audience"] == "public"
    if not table or not (inside or public):
        return nothing
    try:
        picture = _choose_picture(result, table, public=public)
    except SfumatoError as error:
        return {"picture": None, "caption": f"No picture: {error.what}"}
    if picture is None:
        return nothing
    # The drawing escapes all names itself; it holds no script, reference or id.
    return {"picture": Markup(picture.svg()), "caption": picture.caption}  # noqa: S704


def _choose_picture(result: Plain, table: Table, *, public: bool) -> Picture | None:
    """The picture that the measure of this name has, where the table holds what it needs."""
    from sfumato.figures.custodian.album import draw_evidence, find_picture

    picture = find_picture(result["name"])
    return draw_evidence(picture, table, result["details"], public=public)
