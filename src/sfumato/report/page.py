"""The page: verdict first, then what was done, what was measured, and the proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sfumato import __version__, catalogue
from sfumato.errors import SfumatoError
from sfumato.parameters import value_said
from sfumato.report.attacks import attack_view
from sfumato.report.bars import bars, bars_by_variable
from sfumato.report.groups import gain_bars, group_view
from sfumato.report.noise import noise_view
from sfumato.report.verdict import rooms_of, target_view, verdict_of
from sfumato.schema import ROLES

if TYPE_CHECKING:
    from sfumato.figures.custodian import Picture

Table = Sequence[Mapping[str, Any]]


def render(manifest: Mapping[str, Any], custody: Mapping[str, Any] | None = None) -> str:
    """The public edition from the manifest alone; the inside edition with the custody record."""
    page = _environment().get_template("page.html")
    inside = custody is not None
    evidence = (custody or manifest)["evidence"]
    shown = [_evidence(label, one, inside=inside) for label, one in evidence.items()]
    attacks = attack_view(evidence, inside=inside)
    return page.render(
        inside=inside,
        manifest=manifest,
        custody=custody,
        verdict=verdict_of(manifest, evidence, attacks, inside=inside),
        targets=[target_view(one, evidence) for one in manifest["targets"]],
        methods=[_method(one) for one in manifest["methods"]],
        noise=noise_view(manifest),
        attacks=attacks,
        landed=any(one["name"] == "h_index" for one in evidence.values()),
        rooms=rooms_of(shown),
        roles=ROLES,
        version=__version__,
    )


@cache
def _environment() -> Environment:
    """Names and categories are untrusted text: everything is escaped."""
    return Environment(
        loader=PackageLoader("sfumato", "report/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _method(told: Mapping[str, Any]) -> dict[str, Any]:
    known = catalogue.methods().get(told["method"])
    return {
        "name": told["method"],
        "question": catalogue.question(known) if known else "",
        "parameters": {key: _said(value) for key, value in told.items() if key != "method"},
    }


def _evidence(label: str, one: Mapping[str, Any], *, inside: bool) -> dict[str, Any]:
    known = catalogue.measures().get(one["name"])
    table = one["table"] or []
    numbers = {
        key: value for key, value in one["details"].items() if isinstance(value, (int, float))
    }
    words = {key: value for key, value in one["details"].items() if isinstance(value, str)}
    return {
        **one,
        "label": label,
        "room": known.room() if known else "risk",
        "question": catalogue.question(known) if known else "",
        "numbers": {key: _said(value) for key, value in numbers.items()},
        "words": words,
        "value": _said(one["value"]),
        "baseline": None if one["baseline"] is None else _said(one["baseline"]),
        "columns": list(table[0]) if table else [],
        "rows": [[_said(value) for value in row.values()] for row in table],
        "bars": _bars(one["name"], table),
        **_drawn(one, table, inside=inside),
        **_people(one["details"], inside=inside),
    }


def _people(details: Mapping[str, Any], *, inside: bool) -> dict[str, Any]:
    """Groups of people, and what would protect them: known by their details, and only inside."""
    if not inside:
        return {"groups": None, "gains": None}
    return {
        "groups": group_view(details.get("groups")),
        "gains": gain_bars(details.get("gains"), str(details.get("worst_variable", ""))),
    }


def _bars(name: str, table: Table) -> dict[str, Any] | None:
    columns = set(table[0]) if table else set()
    if "records" in columns:
        return bars(table)
    # A table of several statistics per variable has no one number to draw.
    if {"variable", name} <= columns and "statistic" not in columns:
        return bars_by_variable(table, name)
    return None


def _drawn(one: Mapping[str, Any], table: Table, *, inside: bool) -> dict[str, Any]:
    """The picture of a table that has one, with its caption; what must stay inside is stamped."""
    none = {"picture": None, "caption": ""}
    public = one["audience"] == "public"
    if not table or not (inside or public):
        return none
    try:
        made = _picture(table, one["details"], public=public)
    except SfumatoError as error:
        return {"picture": None, "caption": f"No picture: {error.what}"}
    if made is None:
        return none
    # The drawing escapes all names itself; it holds no script, reference or id.
    return {"picture": Markup(made.svg()), "caption": made.caption}  # noqa: S704


def _picture(table: Table, details: Mapping[str, Any], *, public: bool) -> Picture | None:
    # The few tables that have a picture are known by their columns, not by a measure's name.
    from sfumato.figures.custodian import forest, known_groups, landing, moments, propensity

    columns = set(table[0])
    if {"term", "original_low", "released_low"} <= columns:
        return forest(table, level=details.get("level"), public=public)
    if {"data", "q1", "median", "q3"} <= columns:
        return propensity(table, share=details.get("share_released"), public=public)
    if {"known", "reidentification", "guess"} <= columns:
        return known_groups(table, records=details.get("records"), public=public)
    if {"from_quantile", "to_quantile", "up_to_0"} <= columns:
        return landing(table, by=details.get("by"), public=public)
    several = {"statistic", "variable", "original", "released"} <= columns
    if several and any(row["statistic"] == "correlation" for row in table):
        return moments(table, public=public)
    return None


def _said(value: Any) -> str:
    if value is None:
        return "could not be computed"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, dict)):
        return value_said(value)
    return f"{value:,}" if isinstance(value, int) else str(value)
