"""What was measured: risk before and after, what numbers mean for analysts, and every number."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from sfumato import catalogue
from sfumato.errors import SfumatoError
from sfumato.report.charts import (
    Chart,
    build_bars,
    build_gain_bars,
    build_variable_bars,
    describe_groups,
)
from sfumato.report.wording import (
    format_change,
    format_label,
    format_measured,
    format_percent,
    format_result,
    get_evidence,
    is_share,
    name_variables,
    read_worst,
)

if TYPE_CHECKING:
    from sfumato.figures.custodian import Picture

Plain = Mapping[str, Any]
Table = Sequence[Plain]
_ROOMS = {"risk": "Risk", "utility": "Utility"}
LEDGER = "untouched"
_YEAR = 365.25
_ARROWS = {"lower": "↓", "higher": "↑"}

_MOST_ANSWERS = 20
"""Answers that the report lists; all of them stand in `custody/purpose.json`."""


def get_measure_facts(name: str) -> dict[str, str]:
    """The room and the question of a measure; of one that is not installed here, a guess."""
    measure = catalogue.measures().get(name)
    if measure is None:
        return {"room": "risk", "question": ""}
    return {"room": measure.room(), "question": catalogue.first_line(measure)}


def _is_list_of_names(detail: Any) -> bool:
    return isinstance(detail, (list, tuple)) and all(isinstance(name, str) for name in detail)


def describe_meaning(measure: str, number: str) -> str:
    """What a number means, where the first line of its measure does not say it."""
    entry = catalogue.measures().get(measure)
    declared = entry.find_number(number) if entry is not None else None
    return declared.meaning if declared is not None else ""


def describe_target(target: Plain, evidence: Mapping[str, Plain]) -> dict[str, Any]:
    """A target in words: what was asked, what was measured, and how narrowly it holds."""
    label = target.get("measure", "")
    name = evidence[label]["name"] if label in evidence else label
    number = str(target["target"]).rpartition(".")[2]
    # A target may be on a number beside the measure's own, such as `reidentification.k`.
    question = describe_meaning(name, number)
    if not question and name:
        own = number in (label, name)
        question = (get_measure_facts(name)["question"] if own
                    else f"One of the numbers of {format_label(name)}.")  # fmt: skip
    asked = [
        f"{words} {_format_bound(name, number, target[end])}"
        for end, words in (("min", "at least"), ("max", "at most"))
        if end in target
    ]
    return {
        **target,
        "question": question or format_label(number),
        "asked": " and ".join(asked),
        "measured": _format_number(target, name, number),
        **_judge(target),
    }


def _format_bound(name: str, number: str, value: float) -> str:
    return format_percent(value) if is_share(name, number) else f"{value:,.6g}"


def _format_number(target: Plain, name: str, number: str) -> str:
    if "withheld" in target:
        return "kept inside"
    if target["value"] is None:
        return "could not be computed"
    return _format_bound(name, number, target["value"])


def _judge(target: Plain) -> dict[str, str]:
    if not target["met"]:
        return {"verdict": "missed", "tone": "bad"}
    if is_barely_met(target):
        return {"verdict": "barely met", "tone": "warn"}
    return {"verdict": "met", "tone": "good"}


def is_barely_met(target: Plain) -> bool:
    """Whether a target that a record states is met with hardly any room."""
    value = target["value"]
    return value is not None and target.get("barely_met", False)


def describe_result(
    label: str,
    result: Plain,
    assumptions: Sequence[str],
    *,
    inside: bool,
    pictures: bool = True,
) -> dict[str, Any]:
    """A measure with all its numbers, its picture, and the numbers of what it assumes."""
    table, details, baseline = result["table"] or [], result["details"], result["baseline"]
    name = result["name"]
    numbers = {key: value for key, value in details.items() if isinstance(value, (int, float))}
    # Groups of people, and what would protect them, are known by their details, and stay inside.
    groups, gains = (details.get("groups"), details.get("gains")) if inside else (None, None)
    value, worst = result["value"], read_worst(result)
    mild = "" if value is None or value == worst else format_measured(name, name, value)
    facts = get_measure_facts(name)
    return {
        **result,
        **facts,
        "question": describe_meaning(name, name) or facts["question"] or format_label(label),
        "label": label,
        "numbers": {key: format_result(number) for key, number in numbers.items()},
        "words": {
            key: ", ".join(text) if isinstance(text, (list, tuple)) else text
            for key, text in details.items()
            if isinstance(text, str) or _is_list_of_names(text)
        },
        "value": format_measured(name, name, worst),
        "mild": mild,
        "baseline": None if baseline is None else format_measured(name, name, baseline),
        # Like with like: the original's number is of the milder reading too.
        "shares": (baseline, value) if is_share(name, name) else None,
        "arrow": _ARROWS[result["direction"]],
        "assumed": [assumptions.index(line) + 1 for line in result["assumptions"]],
        "columns": list(table[0]) if table else [],
        "rows": [[format_result(cell) for cell in row.values()] for row in table],
        "bars": _build_bars(name, table),
        **(_draw_picture(result, table, inside=inside) if pictures else {}),
        "groups": describe_groups(groups),
        "gains": build_gain_bars(gains, str(details.get("worst_variable", ""))),
    }


def list_assumptions(evidence: Mapping[str, Plain]) -> list[str]:
    """What must hold for the numbers to mean what they say: each once, in the order of measures."""
    lines = (line for item in evidence.values() if not item["reason"]
             for line in item["assumptions"])  # fmt: skip
    return list(dict.fromkeys(lines))


def group_by_room(results: Sequence[Plain]) -> list[dict[str, Any]]:
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
                "arrow": result["arrow"],
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


def build_dumbbells(results: Sequence[Plain]) -> list[dict[str, Any]]:
    """Risks that are shares, before and after: a line between two dots on a scale of per cent."""
    rows = []
    for result in results:
        if result["room"] != "risk" or result["subject"] == "pair" or result["shares"] is None:
            continue
        before, after = result["shares"]
        if before is None or after is None:
            continue
        ends = [round(100 * min(max(share, 0.0), 1.0), 2) for share in (before, after)]
        rows.append(
            {
                "label": result["label"],
                "question": result["question"],
                "before": ends[0],
                "after": ends[1],
                "low": min(ends),
                "length": round(abs(ends[0] - ends[1]), 2),
                "text": f"{result['baseline']} → {result['mild'] or result['value']}",
                "worst": result["value"] if result["mild"] else "",
                "tone": "good" if ends[1] <= ends[0] else "bad",
            }
        )
    return rows


def describe_losses(evidence: Mapping[str, Plain], variables: Mapping[str, Plain]) -> list[Plain]:
    """What analysts lose, variable by variable and in its unit."""
    columns = {
        "mean": dict(_read_moments(evidence, "mean", variables)),
        "spread": dict(_read_moments(evidence, "sd", variables)),
        "coarse": dict(_read_coarseness(evidence, variables)),
        "stayed": dict(_read_stayed(evidence)),
    }
    names = list(dict.fromkeys(name for cells in columns.values() for name in cells))
    # A variable that has left the release altogether is in the ledger.
    return [
        {"name": name_variables([name], variables)[0]}
        | {column: cells.get(name, "") for column, cells in columns.items()}
        for name in names
        if name in variables
    ]


def describe_purpose(evidence: Mapping[str, Plain]) -> Plain | None:
    """The certificate of what the release is good for: every answer before and after."""
    found = get_evidence(evidence, "purpose")
    if found is None or not found.get("table"):
        return None
    rows = [
        {
            "name": row["name"],
            "asked": "" if row["item"] in row["name"] else row["item"],
            "original": _format_answer(row["original"]),
            "interval": f"{_format_answer(row['low'])} to {_format_answer(row['high'])}",
            "released": _format_answer(row["released"]),
            "corrected": _format_answer(row["corrected"]),
            "kept": row["kept"],
            "says": _tell_kept(row),
        }
        for row in sorted(found["table"], key=lambda row: row["kept"])
    ]
    details = found["details"]
    return {
        "rows": rows[:_MOST_ANSWERS],
        "more": max(len(rows) - _MOST_ANSWERS, 0),
        "kept": details["kept"],
        "answers": details["items"],
        "stated": details["stated"],
        "corrected": any(row["corrected"] for row in rows),
    }


def _format_answer(number: float | None) -> str:
    return "" if number is None else f"{number:.4g}"


def _tell_kept(row: Plain) -> str:
    if row["kept_as_released"]:
        return "kept"
    if row["kept"]:
        return "kept once the noise is taken out"
    return row["reason"] or "not kept"


def _read_moments(
    evidence: Mapping[str, Plain], statistic: str, variables: Mapping[str, Plain]
) -> Iterator[tuple[str, str]]:
    moments = get_evidence(evidence, "moments") or {}
    for row in moments.get("table") or ():
        if row["statistic"] == statistic and row["variable"] in variables:
            up = "▲" if (row["released"] or 0) > (row["original"] or 0) else "▼"
            change = format_change(row, variables[row["variable"]])
            yield row["variable"], f"{up} {change}"


def _read_coarseness(
    evidence: Mapping[str, Plain], variables: Mapping[str, Plain]
) -> Iterator[tuple[str, str]]:
    lost = get_evidence(evidence, "information_loss") or {}
    for row in lost.get("table") or ():
        share = row.get("granularity")
        if share is not None:
            span = _measure_span(variables.get(row["variable"], {}), share)
            blur = "one value" if not share else span or f"{format_percent(share)} of its values"
            yield row["variable"], blur


def _measure_span(facts: Plain, share: float) -> str:
    """How wide a cell is on average, where the plan declares how far the variable reaches."""
    domain: list[Any] = list(facts.get("domain") or ())
    if not share or len(domain) < 2 or facts.get("kind") not in ("date", "integer", "continuous"):  # noqa: PLR2004
        return ""
    if facts["kind"] == "date":
        first, last = (dt.date.fromisoformat(str(end)[:10]) for end in (domain[0], domain[-1]))
        years = share * ((last - first).days + 1) / _YEAR
        return f"about {years:.1f} years" if years >= 1 else f"about {years * 12:.0f} months"
    width = share * (float(domain[-1]) - float(domain[0]))
    return f"about {width:.2g} {facts.get('unit', '')}".rstrip()


def _read_stayed(evidence: Mapping[str, Plain]) -> Iterator[tuple[str, str]]:
    moved = get_evidence(evidence, "displacement") or {}
    for row in moved.get("table") or ():
        if row.get("stayed") is not None:
            yield row["variable"], format_percent(row["stayed"])


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
