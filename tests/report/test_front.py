"""The first page: who signs for what, five sentences, and a refusal that says what to try."""

from __future__ import annotations

import datetime as dt
import html
import math
import re
from typing import Any

import pytest

import sfumato as sf
from sfumato.errors import TargetError
from sfumato.plan import PARTIES, Writing
from sfumato.plan.targets import Judgement, Target
from sfumato.report import render_report
from sfumato.report.front import describe_lights, summarise
from sfumato.report.measured import describe_target
from sfumato.report.refusal import describe_missed
from sfumato.storage.opening import read_custody, read_manifest
from sfumato.storage.writing import keep_attempt

STATED: dict[str, Any] = {
    "title": "Cohort <b>of</b> 2026",
    "custodian": "University hospital",
    "recipient": "Institute of statistics",
    "purpose": "Diabetes and income",
    "legal_basis": "Approval 12/345",
    "contact": "data@hospital.example",
}
KEPT = ("sex", "region", "education", "weight_kg", "systolic", "smoking")


def text(page: str) -> str:
    body = page.partition("</style>")[2]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def make(records: int = 150, targets: dict[str, float] | None = None, **release: Any) -> sf.Release:
    frame = sf.datasets.cohort(records).select("name", *KEPT)
    declared = sf.datasets.cohort_schema()
    schema = sf.Schema({name: declared[name] for name in ("name", *KEPT)})
    measured = ["weight_kg", "systolic"]
    plan = sf.Plan(
        schema=schema,
        steps=[
            sf.methods.Drop(),
            sf.methods.Noise(variables=measured, variance_share=0.2),
            sf.methods.KAnonymity(k=3),
        ],
        targets={"k.min": 3} if targets is None else targets,
        evaluate=[sf.utility.Moments(variables=measured), sf.utility.Displacement()],
        release=Writing(**release),
    )
    return sf.protect(sf.Dataset(frame, schema), plan, key=bytes(32))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("front") / "release"
    make(date=dt.date(2026, 1, 31), **STATED).write(place, ledger=False)
    return place


def test_the_plan_says_for_whom_and_what_is_missing_is_a_line_to_fill_in(folder):
    for edition in ("report.html", "custody/report.html"):
        page = (folder / edition).read_text("utf-8")
        assert "<h1>Cohort &lt;b&gt;of&lt;/b&gt; 2026" in page
        assert 'class="blank"' not in page
        stated = STATED if edition == "report.html" else {**STATED, "contact": "inside only"}
        assert all(words in text(page) for words in (*stated.values(), "2026-01-31"))
    bare = make()
    blank = render_report(bare.manifest, bare.custody)
    assert blank.count('class="blank"') == 5
    assert "parties" not in bare.manifest


def test_a_plan_without_them_keeps_its_digest_and_a_first_plan_has_the_lines():
    plain = sf.Plan(schema={"age": "quasi"})
    for name in PARTIES:
        assert f"\n# {name} = " in plain.text(comments=True)
        assert name not in plain.text()
    stated = sf.Plan(schema={"age": "quasi"}, release=Writing(date=dt.date(2026, 1, 31), **STATED))
    assert sf.Plan.parse(stated.text(comments=True)) == stated
    assert "# title" not in stated.text(comments=True)


def test_five_sentences_say_what_changed_and_agree_with_the_ledger(folder):
    page = (folder / "custody/report.html").read_text("utf-8")
    lines = dict(re.findall(r"<dt>([\w ]+)</dt><dd>(.*?)</dd>", page.partition('summary"')[2]))
    assert list(lines)[:5] == ["Before", "Now", "Changed", "As it was", "For analysis"]
    assert "people could be singled out by what an outsider may know" in lines["Before"]
    assert "everybody looks like at least 2 others" in lines["Now"]
    assert "Name was left out" in lines["Changed"]
    assert "weight kg and systolic were given noise" in lines["Changed"]
    assert "moking are unchanged" in lines["As it was"]
    changed = lines["Changed"].lower()
    assert "smoking" not in changed
    assert "the mean that changes most is that of" in lines["For analysis"]
    public = text((folder / "report.html").read_text("utf-8"))
    assert "Only the custodian knows how many people" in public
    assert "Read the codebook first" in public
    assert "Direct identifiers were left out" in public


def test_the_report_is_the_same_whatever_the_clock(folder, tmp_path):
    again = make(date=dt.date(2026, 1, 31), **STATED).write(tmp_path / "release", ledger=False)
    assert (again / "report.html").read_bytes() == (folder / "report.html").read_bytes()
    made = re.compile(r"\d{4}-\d\d-\d\dT[\d:+]+")
    first, second = (
        made.sub("", (place / "custody/report.html").read_text("utf-8"))
        for place in (folder, again)
    )
    assert first == second


@pytest.mark.parametrize(
    ("value", "bounds", "verdict"),
    [
        (0.24, {"max": 0.25}, "barely met"),
        (0.2, {"max": 0.25}, "met"),
        (0.0, {"max": 0.0}, "met"),
        (5.0, {"min": 5.0}, "met"),
        (0.52, {"min": 0.5}, "barely met"),
        (None, {"max": 0.25}, "met"),
    ],
)
def test_what_hardly_holds_is_amber(value, bounds, verdict):
    target = Target(name="t", least=bounds.get("min"), most=bounds.get("max"))
    number = math.nan if value is None else value
    judgement = Judgement(target=target, measure="closeness", number=number, met=True)
    shown = describe_target(judgement.plain(), {})
    assert shown["verdict"] == verdict
    assert shown["tone"] == ("warn" if verdict == "barely met" else "good")


def test_a_share_is_told_in_per_cent_and_a_count_is_not():
    share = describe_target({"target": "t", "measure": "closeness", "value": 0.2, "met": True,
                             "max": 0.25}, {})  # fmt: skip
    assert (share["asked"], share["measured"]) == (
        "at most 25\N{NO-BREAK SPACE}%",
        "20\N{NO-BREAK SPACE}%",
    )
    count = describe_target({"target": "k", "measure": "uniqueness", "value": 7.0, "met": True,
                             "min": 5}, {})  # fmt: skip
    assert (count["asked"], count["measured"]) == ("at least 5", "7")


def test_a_refusal_says_what_was_missed_by_which_variables_and_what_to_try(tmp_path):
    with pytest.raises(TargetError) as caught:
        make(targets={"k.min": 3, "stayed.max": 1e-9}, **STATED)
    plan = make(targets={}, **STATED).plan
    kept = keep_attempt(tmp_path / "release", plan, caught.value)
    path = kept.with_suffix(".html")
    assert path.stat().st_mode & 0o777 == 0o600
    page = text(path.read_text("utf-8"))
    assert "Nothing was released." in page
    assert "1 of 2 numbers is beyond what was asked" in page
    assert "University hospital" in page
    assert re.search(r"Main variables .*stayed .*(weight kg|systolic)", page)
    assert "Met: k (3, asked at least 3)" in page
    assert re.search(r"What to try stayed : blur .* further", page)
    assert "name, date, signature" not in page


def test_a_refusal_does_not_advise_a_step_that_the_plan_has(tmp_path):
    """A k of 12 was missed by what gives another variable away; the page said: add k_anonymity."""
    evidence = {"uniqueness": {"name": "uniqueness", "direction": "lower", "table": [],
                               "details": {"known": "sex, age"}}}  # fmt: skip
    target = {"target": "k", "min": 12, "measure": "uniqueness", "met": False}
    (plain,) = describe_missed([target], evidence)
    (stepped,) = describe_missed([target], evidence, {"drop", "k_anonymity"})
    (given,) = describe_missed([{**target, "filled_in": "once worked out"}], evidence)
    assert plain["remedy"].endswith("or add a step k_anonymity with k = 12.")
    assert stepped["remedy"].endswith("or raise k in the step k_anonymity.")
    assert given["remedy"] == "make coarser, or leave out, what the attacker works from."


def test_what_the_targets_leave_open_stands_on_the_first_page():
    """Lone values that leave, and people far out: they stood in an annex, or nowhere."""
    ledger = {"name": "untouched", "value": 0.0, "at_worst": 0.0, "details": {}, "table": [
        {"variable": "income", "unchanged": 0.99, "unique": 0.64},
        {"variable": "glucose", "unchanged": 0.05, "unique": 0.9},
        {"variable": "sex", "unchanged": 1.0, "unique": 0.5},
        {"variable": "code", "unchanged": 0.0, "unique": 1.0},
    ]}  # fmt: skip
    reached = {"name": "h_index", "value": 0.08, "details": {"h_index_tail": 0.51, "p": 3}}
    manifest: dict[str, Any] = {
        "records": 10, "methods": [], "targets": [],
        "variables": {"income": {"role": "sensitive"}, "glucose": {"role": "sensitive"},
                      "sex": {"role": "quasi"}, "code": {"role": "other"}},
    }  # fmt: skip
    custody = {"input": {"records": 10, "roles": {}}}
    told = {line["head"]: line["text"]
            for line in summarise(manifest, {"a": ledger, "b": reached}, custody)}  # fmt: skip
    assert "income (64\N{NO-BREAK SPACE}% of the records)." in told["Left open"]
    assert not any(name in told["Left open"] for name in ("glucose", "sex", "code"))
    assert "within 3 persons of 51\N{NO-BREAK SPACE}% of those farthest out" in told["Left open"]
    public = summarise(manifest, {}, None)
    assert "Left open" not in [line["head"] for line in public]


def test_a_signature_says_for_which_file_and_plan(folder):
    manifest, custody = read_manifest(folder), read_custody(folder)
    page = text((folder / "custody/report.html").read_text("utf-8"))
    signed = page.partition("Signed for")[2][:200]
    assert manifest["data"]["sha256"][:16] in signed
    assert custody["plan_digest"][:16] in signed


def test_in_public_nothing_is_said_to_have_changed_that_may_have_stayed(folder):
    """A step treats sex, and no cell of it changed: the public page said that it was changed."""
    manifest = read_manifest(folder)
    treated = {name for name, facts in manifest["variables"].items()
               if facts["steps"] and facts.get("cells") not in ("generalised", "pseudonyms")
               and name not in manifest["noise"]["variables"]}  # fmt: skip
    changed = next(line["text"] for line in summarise(manifest, {}, None)
                   if line["head"] == "Changed")  # fmt: skip
    assert treated
    assert "may have been changed" in changed
    assert "were changed" not in changed


def test_bars_before_and_after_stay_inside(folder):
    public, inside = (
        (folder / edition).read_text("utf-8").partition("</style>")[2]
        for edition in ("report.html", "custody/report.html")
    )
    assert 'class="histogram"' in inside
    assert 'class="levels"' in inside
    for marked in ("histogram", 'class="levels"', "dumbbells"):
        assert marked not in public


def test_only_a_written_file_is_said_to_hold_a_target():
    custody = {"lights": {"targets": {"colour": "green", "reasons": []}}}
    (trial,) = describe_lights(custody, written=False)
    assert "in memory" in trial["meaning"]
    assert "released file" not in trial["meaning"]
    (written,) = describe_lights(custody, written=True)
    assert written["meaning"] == "The released file meets every target."
