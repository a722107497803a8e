"""The report and the codebook of a release of several tables: what joins them first, then each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from markupsafe import Markup

from sfumato.report.codebook import TYPES
from sfumato.report.front import add_lights, describe_verdict, list_parties, summarise
from sfumato.report.html import render_block
from sfumato.report.page import describe_release

Plain = Mapping[str, Any]
_PARTS = ("targets", "done", "measured", "assumed", "numbers")
_LOWER = (("<h3", "<h4"), ("</h3>", "</h4>"), ("<h2", "<h3"), ("</h2>", "</h3>"))


def describe_tables(manifest: Plain, custody: Plain | None = None) -> dict[str, Any]:
    """What the page of a release of several tables shows; see `describe_release`."""
    of_tables = (custody or {}).get("tables", {})
    tables = []
    for name, facts in manifest["tables"].items():
        page = describe_release(facts, of_tables.get(name))
        parts = [_render(part, page) for part in _PARTS]
        tables.append({"name": name, "facts": facts, "attempts": page["attempts"], "parts": parts})
    joined = _describe_joined(manifest, custody)
    return {
        "inside": custody is not None,
        "manifest": manifest,
        "custody": custody,
        "verdict": _describe_verdict(manifest, custody),
        "lights": joined["lights"],
        "rule": render_block("release.html", "rule", **joined),
        "joined": [_render(part, joined) for part in _PARTS if part != "done"],
        "title": joined["title"],
        "contact": joined["contact"],
        "parties": list_parties(manifest.get("parties", {})),
        "summary": _summarise(manifest, custody),
        "tables": tables,
    }


def _render(part: str, page: Plain) -> Markup:
    """A part of the page of one table."""
    return _lower(render_block("release.html", part, **page))


def _summarise(manifest: Plain, custody: Plain | None) -> list[dict[str, str]]:
    """Five sentences on all tables: persons in the joined view, variables of every table."""
    tables, records = manifest["tables"], (custody or {}).get("tables", {})
    roles = {name: own["input"].get("roles", {}) for name, own in records.items()}
    steps = [(name, step) for name, facts in tables.items() for step in facts["methods"]]
    names = _name_in_all(
        {name: [*facts["variables"], *roles.get(name, ()),
                *(gone for table, step in steps if table == name
                  for gone in step.get("variables", ()))]
         for name, facts in tables.items()}
    )  # fmt: skip
    merged = {
        "records": manifest["persons"],
        "methods": [
            step | {"variables": [names[table, gone] for gone in step["variables"]]}
            if "variables" in step
            else step
            for table, step in steps
        ],
        "variables": _rename({name: facts["variables"] for name, facts in tables.items()}, names),
        "noise": {
            "variables": _rename(
                {name: facts.get("noise", {}).get("variables", {})
                 for name, facts in tables.items()}, names
            )
        },
    }  # fmt: skip
    evidence = {
        label: _rename_known(item, names)
        for label, item in (custody or manifest)["evidence"].items()
    }
    if custody is None:
        return summarise(merged, evidence, None)
    ledgers = [
        {**row, "variable": names.get((name, row["variable"]), row["variable"])}
        for name, own in records.items()
        for item in own["evidence"].values()
        if item["name"] == "untouched"
        for row in item["table"] or ()
    ]
    evidence["untouched"] = {"name": "untouched", "value": 0.0, "table": ledgers, "details": {}}
    for name, own in records.items():
        others = {f"{name}.{label}": item for label, item in own["evidence"].items()}
        evidence |= {label: item for label, item in others.items() if item["name"] != "untouched"}
    facts = {
        "roles": _rename(roles, names),
        "records": manifest["persons"],
        "persons_left_out": custody["persons"] - manifest["persons"],
    }
    return summarise(merged, evidence, {"input": facts})


def _name_in_all(of_tables: Mapping[str, Iterable[str]]) -> dict[tuple[str, str], str]:
    """The name of each variable; with its table where several tables have one of this name."""
    tables_by_name: dict[str, set[str]] = {}
    for table, names in of_tables.items():
        for name in names:
            tables_by_name.setdefault(name, set()).add(table)
    return {
        (table, name): name if len(tables) == 1 else f"{name} ({table})"
        for name, tables in tables_by_name.items()
        for table in tables
    }


def _rename(
    of_tables: Mapping[str, Mapping[str, Any]], names: Mapping[tuple[str, str], str]
) -> dict[str, Any]:
    """What is known of the variables of each table, by their names in all tables."""
    return {
        names[table, name]: facts for table, own in of_tables.items() for name, facts in own.items()
    }


def _rename_known(item: Plain, names: Mapping[tuple[str, str], str]) -> Plain:
    """Evidence on the joined view, what outsiders know by the names in all tables."""
    if "known" not in item["details"]:
        return item
    full = {f"{table}.{name}": short for (table, name), short in names.items()}
    # Which table a row is in, everybody sees; it is no variable.
    known = [full[name] for name in item["details"]["known"] if name in full]
    return {**item, "details": {**item["details"], "known": known}}


def _describe_joined(manifest: Plain, custody: Plain | None) -> dict[str, Any]:
    """What the joined view shows, as the page of a release without variables of its own."""
    nothing: dict[str, Any] = {
        "records": 0, "variables": {}, "methods": [], "steps": [], "input": {},
    }  # fmt: skip
    own = custody and {**custody, **nothing}
    return describe_release({**manifest, **nothing}, own)


def _describe_verdict(manifest: Plain, custody: Plain | None) -> dict[str, Any]:
    """The verdict on all targets, of every table and of the joined view."""
    tables = manifest["tables"].values()
    attacks = [table.get("attacks", {}) for table in tables]
    whole = {
        "targets": [*manifest["targets"], *(t for table in tables for t in table["targets"])],
        "data": {},
        "attacks": {
            "not_tried": [name for facts in attacks for name in facts.get("not_tried", ())],
            "accepted": any(facts.get("accepted") for facts in attacks),
        },
    }
    evidence = (custody or manifest)["evidence"]
    return add_lights(
        describe_verdict(whole, evidence, None, inside=custody is not None), whole, custody
    )


def describe_codebooks(codebook: Plain) -> list[dict[str, Any]]:
    """The codebook of each table, as parts of one page."""
    return [
        {
            "name": name,
            "codebook": book,
            "variables": _lower(
                render_block(
                    "codebook.html", "variables", codebook=book, types=TYPES, prefix=f"{number}-"
                )
            ),
        }
        for number, (name, book) in enumerate(codebook["tables"].items(), 1)
    ]


def _lower(text: Markup) -> Markup:
    """A part of a page, its headings one step lower."""
    html = str(text)
    for heading, lower in _LOWER:
        html = html.replace(heading, lower)
    return Markup(html)  # noqa: S704 - only tags of the template were changed
