"""The log of outputs as a page for the output checker: what asks for a look comes first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.report.html import render_page
from sfumato.report.wording import format_label, format_setting

_TONES = {"pass": "good", "review": "warn", "refuse": "bad"}


def render_outputs(log: Mapping[str, Any]) -> str:
    """The page of a log; see `sfumato.outputs.Log.plain`."""
    outputs = [_describe_output(output) for output in log["outputs"]]
    counts = {name: sum(output["verdict"] == name for output in outputs) for name in _TONES}
    rules = [
        (format_label(name), "off" if value is None else format_setting(value))
        for name, value in log["rules"].items()
    ]
    return render_page(
        "outputs.html",
        outputs=outputs,
        counts=counts,
        verdict=_describe_verdict(counts),
        rules=rules,
    )


def _describe_output(output: Mapping[str, Any]) -> dict[str, Any]:
    settings = [
        f"{format_label(name)}: {format_setting(value)}" for name, value in output["rule"].items()
    ]
    return {**output, "tone": _TONES[output["verdict"]], "rule": "; ".join(settings)}


def _describe_verdict(counts: Mapping[str, int]) -> dict[str, str]:
    shown = counts["pass"] + counts["review"]
    if not shown:
        return {"tone": "warn", "head": "Nothing to release", "text": "No output was made."}
    if counts["review"]:
        head = f"{counts['review']} of {shown} outputs ask for a second look"
        return {"tone": "warn", "head": head, "text": "Read the reasons below, then decide."}
    head = "The output passes" if shown == 1 else f"All {shown} outputs pass"
    return {
        "tone": "good",
        "head": head,
        "text": "By the rules below. The context is yours to judge.",
    }
