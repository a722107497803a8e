"""The report: verdict first, everything escaped, nothing fetched, nothing computed."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import polars as pl
import pytest

import sfumato as sf
from sfumato.report import render_report

EVIL = '<script>alert("x")</script>'


class Tags(HTMLParser):
    """The tags and attributes of a page, and whether they are balanced."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(page: str) -> Tags:
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    return tags


@pytest.fixture
def release() -> sf.Release:
    frame = pl.DataFrame({EVIL: ["a", "a", "b", "b"], "id": ["p1", "p2", "p3", "p4"]})
    schema = sf.Schema({EVIL: "quasi", "id": "direct"})
    plan = sf.Plan(schema=schema, steps=[sf.methods.Drop()], targets={"k.min": 2})
    return sf.protect(sf.Dataset(frame, schema), plan)


@pytest.mark.parametrize("inside", [True, False])
def test_names_are_escaped_and_nothing_is_fetched_or_run(release, inside):
    page = render_report(release.manifest, release.custody if inside else None)
    tags = parsed(page)
    assert "script" not in tags.names
    assert EVIL not in page
    assert "&lt;script&gt;" in page
    fetching = {"src", "href", "srcset", "data", "action"}
    found = [one for one in tags.attributes if one[0] in fetching or one[0].startswith("on")]
    # The public edition leads to the codebook beside it, and nowhere else.
    assert found == ([] if inside else [("href", "codebook.html")])
    assert not re.search(r"url\(|@import|https?:", page)
    assert "lang" in dict(tags.attributes)


def test_the_editions_differ_in_what_they_may_tell(release):
    public, inside = (
        render_report(release.manifest),
        render_report(release.manifest, release.custody),
    )
    assert "The target is met." in public
    assert "inside only" in inside
    assert "in the original" in inside
    assert "in the original" not in public
    assert release.original.identity.total() in inside
    assert release.original.identity.total() not in public
    assert release.key.text not in public + inside


def test_no_target_is_no_promise(release):
    manifest = {**release.manifest, "targets": [], "methods": [], "evidence": {}}
    page = render_report(manifest)
    assert "No target was set" in page
    assert "released as they are" in page
    assert "Nothing was measured" in page


def test_a_missed_target_and_a_failed_measure_are_said_plainly(release):
    failed = sf.Evidence.failed("uniqueness", "released", "there is no record").plain()
    missed = [
        {
            "target": "k",
            "min": 5.0,
            "value": None,
            "met": False,
            "reason": "no record",
            "under": "known: sex",
        }
    ]
    page = render_report(
        {**release.manifest, "targets": missed, "evidence": {"uniqueness": failed}}
    )
    assert "1 of 1 targets missed" in page
    assert "must not be released" in page
    assert "Could not be computed: there is no record" in page


def test_the_verdict_promises_the_targets_and_nothing_beyond(release, tmp_path):
    memory = render_report(release.manifest, release.custody)
    assert "no file was written yet" in memory
    assert "No attack was tried." in memory
    release.write(tmp_path / "release")
    page = (tmp_path / "release" / "custody" / "report.html").read_text("utf-8")
    assert "on the released file as it is on the disk" in page
    assert "Nothing beyond that is promised" in page


def test_an_attack_that_succeeds_and_a_measure_that_fails_stand_in_the_verdict(release):
    evidence = dict(release.custody["evidence"])
    failed = sf.Evidence.failed("closeness", "released", "there is no record").plain()
    won = {**evidence["uniqueness"], "name": "linkage", "subject": "pair", "value": 0.9,
           "baseline": 0.1, "interval": [0.8, 1.0], "details": {}, "table": None}  # fmt: skip
    custody = {**release.custody, "evidence": {**evidence, "closeness": failed, "linkage": won}}
    verdict = render_report(release.manifest, custody).partition('aria-label="Verdict"')[2]
    verdict = verdict.partition("</section>")[0]
    assert "1 of 1 attacks that were tried does better than the control" in verdict
    assert "1 measure could not be computed" in verdict


def test_what_a_step_costs_stands_beside_it_and_stays_inside(release):
    loss = "k rises from 3 to 9: a stratum keeps 4 distinct values"
    steps = [{**step, "fitted": {**step["fitted"], "loss": loss}} for step in
             release.custody["steps"]]  # fmt: skip
    page = render_report(release.manifest, {**release.custody, "steps": steps})
    assert page.count(f'<span class="tag warn">{loss}</span></li>') == len(steps) > 0
    assert loss not in render_report(release.manifest)


def test_tables_stack_on_a_phone(release):
    """Every cell of a table that stacks names its column, since the head is not shown then."""
    page = render_report(release.manifest, release.custody)
    tables = re.findall(r'<table class="stack">.*?</table>', page, re.DOTALL)
    assert len(tables) >= 3
    for table in tables:
        heads = re.findall(r"<th[^>]*>(.*?)</th>", table)
        rows = table.partition("<tbody>")[2].split("<tr>")[1:]
        assert rows
        for row in rows:
            cells = re.findall(r"<td([^>]*)>", row)
            assert 'class="first"' in cells[0]
            named = [re.search(r'data-label="([^"]*)"', cell) for cell in cells[1:]]
            assert [match and match[1] for match in named] == heads[1:]


def test_the_plan_is_in_the_inside_edition_only(release, tmp_path):
    release.write(tmp_path / "release")
    inside = (tmp_path / "release" / "custody" / "report.html").read_text("utf-8")
    public = (tmp_path / "release" / "report.html").read_text("utf-8")
    parsed(inside)
    assert EVIL not in inside
    plan = inside.partition('<pre class="plan">')[2].partition("</pre>")[0]
    assert "[[steps]]" in plan
    assert "k.min = 2" in plan
    assert "[[steps]]" not in public
    assert "k.min" not in public


def test_risk_and_utility_stand_side_by_side_before_the_details(release):
    plan = sf.Plan(schema=release.plan.schema, steps=release.plan.steps, targets={"k.min": 2},
                   evaluate=[sf.utility.InformationLoss()])  # fmt: skip
    made = sf.protect(release.original, plan)
    inside = render_report(made.manifest, made.custody)
    assert inside.index("numbers at a glance") < inside.index("risk, number by number")
    assert inside.index("risk, number by number") < inside.index("utility, number by number")
    assert '<th class="number">Original</th>' in inside
    public = render_report(made.manifest)
    assert "numbers at a glance" in public
    assert '<th class="number">Original</th>' not in public
    assert "utility, number by number" not in public


def test_a_target_is_told_in_words(release):
    page = render_report(release.manifest)
    assert "People in the smallest class" in page


def test_the_inside_report_says_how_many_persons_there_are(tmp_path):
    rows = {"patient": [f"p{n // 3}" for n in range(60)], "age": [30 + n // 30 for n in range(60)]}
    schema = sf.Schema({"patient": "person", "age": "quasi"})
    plan = sf.Plan(schema=schema, steps=[sf.methods.Drop()], targets={"k.min": 5})
    release = sf.protect(sf.Dataset(pl.DataFrame(rows), schema), plan, key=bytes(32))
    release.write(tmp_path / "release")
    inside, public = (
        (tmp_path / "release" / where / "report.html").read_text("utf-8")
        for where in ("custody", "")
    )
    assert "60 records of 20 people" in inside
    assert "20 people" not in public
