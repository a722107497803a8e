"""The log as a page for the output checker: what asks for a look comes first."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from sfumato import __version__

_TONES = {"pass": "good", "review": "warn", "refuse": "bad"}


def render(told: Mapping[str, Any]) -> str:
    """One page that loads nothing and runs nothing."""
    outputs = [_entry(one) for one in told["outputs"]]
    counts = {name: sum(one["verdict"] == name for one in outputs) for name in _TONES}
    page = _environment().get_template("outputs.html")
    return page.render(
        outputs=outputs,
        counts=counts,
        verdict=_verdict(counts),
        rules=_rules(told["rules"]),
        version=__version__,
    )


@cache
def _environment() -> Environment:
    """Titles and names are untrusted text: everything is escaped."""
    return Environment(
        loader=PackageLoader("sfumato", "report/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _entry(one: Mapping[str, Any]) -> dict[str, Any]:
    rule = "; ".join(f"{_words(name)}: {_said(value)}" for name, value in one["rule"].items())
    return {**one, "tone": _TONES[one["verdict"]], "rule": rule}


def _verdict(counts: Mapping[str, int]) -> dict[str, str]:
    made = counts["pass"] + counts["review"]
    if not made:
        return {"tone": "warn", "head": "Nothing to release", "text": "No output was made."}
    if counts["review"]:
        head = f"{counts['review']} of {made} outputs ask for a second look"
        text = "Read the reasons below, then decide."
        return {"tone": "warn", "head": head, "text": text}
    head = "The output passes" if made == 1 else f"All {made} outputs pass"
    return {"tone": "good", "head": head, "text": "By the rules below; judge the context."}


def _rules(told: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (_words(name), "off" if value is None else _said(value)) for name, value in told.items()
    ]


def _words(name: str) -> str:
    return name.replace("_", " ")


def _said(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_said, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
