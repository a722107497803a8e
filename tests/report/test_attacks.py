"""The section on attacks: words and bars from evidence, nothing computed, nothing called safe."""

from __future__ import annotations

import re

import polars as pl
import pytest

import sfumato as sf
from sfumato.report import render_report
from sfumato.report.attacks import describe_attacks
from sfumato.report.wording import format_percent

HEAD = "<h2>What an outsider could still do</h2>"
EVIL = "<script>alert(1)</script>"


def told(name: str, value: float | None, **more) -> dict[str, object]:
    plain = {
        "name": name,
        "subject": "pair",
        "value": value,
        "direction": "lower",
        "interval": None if value is None else [max(0.0, value - 0.05), min(1.0, value + 0.05)],
        "baseline": 0.1,
        "details": {"attempts": 1000, "variables": ["age", "sex"], "worst_secret": "ill"},
        "table": None,
        "assumptions": [],
        "warnings": [],
        "audience": "custodian",
        "reason": "",
    }
    return plain | more


@pytest.fixture(scope="module")
def release() -> sf.Release:
    data = sf.Dataset(sf.datasets.cohort(200), sf.datasets.cohort_schema())
    direct = ["person_id", "name", "email", "nhs_number", "address", "postcode"]
    steps = [
        sf.methods.Drop(variables=direct),
        sf.methods.Deterministic(variables=["glucose"], k=3, missing="median"),
        sf.methods.Noise(variables=["height"], variance_share=0.3),
    ]
    plan = sf.Plan(schema=data.schema, steps=steps)
    measures = {**sf.attackers.attacks(plan), "reidentification": sf.risk.Reidentification()}
    return sf.protect(
        data, sf.Plan(schema=data.schema, steps=steps, evaluate=measures), key=bytes(32)
    )


def section(page: str) -> str:
    return page.partition(HEAD)[2].partition("<h2>")[0]


def test_every_attack_that_was_tried_is_told(release):
    shown = section(render_report(release.manifest, release.custody))
    for title in (
        "Singling out",
        "Standing alone",
        "Linking by all that is known",
        "Guessing a secret",
        "Averaging releases",
        "Undoing centres",
    ):
        assert f"<strong>{title}.</strong>" in shown
    not_tried = shown.partition("Not tried: ")[2].partition(". Not tried does")[0]
    assert {"finding date shifts", "linking by numbers"} <= set(not_tried.split(", "))
    assert format_percent(release.evidence["singling_out"].value) in shown
    assert "None" not in shown
    assert "nan" not in shown


def test_the_public_edition_shows_no_rate_of_the_custodian(release):
    page = render_report(release.manifest)
    assert HEAD not in page
    assert "singling_out" not in page


def test_no_attack_no_section(release):
    custody = {**release.custody, "evidence": {}}
    assert HEAD not in render_report(release.manifest, custody)


def test_standing_alone_has_no_control_and_is_never_called_safe():
    alone = told("reidentification", 1.0, subject="released", baseline=1.0, interval=None)
    assert describe_attacks({"reidentification": alone}, inside=True) is None
    view = describe_attacks(
        {"reidentification": alone, "singling_out": told("singling_out", 0.4)}, inside=True
    )
    assert view is not None
    rows = {row["title"]: row for row in view["rows"]}
    assert rows["Standing alone"]["verdict"] == ""
    assert rows["Singling out"]["verdict"] == "beats the control"


def test_verdicts_go_by_the_interval():
    for value, words in ((0.4, "beats the control"), (0.12, "no better than the control")):
        view = describe_attacks({"singling_out": told("singling_out", value)}, inside=True)
        assert view is not None
        assert view["rows"][0]["verdict"] == words
    undone = {"tolerance": 0.01, "undoing_error_left": 0.3}
    view = describe_attacks({"undoing": told("undoing", 0.1, details=undone)}, inside=True)
    assert view is not None
    # The share may stay while the error falls.
    assert view["rows"][0]["verdict"] == "beats the control"


def test_what_is_acceptable_counts_where_that_was_judged():
    """Better than the control and yet acceptable: the page says how far below the limit."""
    evidence = {
        "mixed_linkage": told("mixed_linkage", 0.2),
        "singling_out": told("singling_out", 0.4),
    }
    judged = {
        "mixed_linkage": {"number": "mixed_linkage", "at_worst": 0.22, "acceptable": 0.26,
                          "met": True, "accepted": None},
        "singling_out": {"number": "singling_out_excess", "at_worst": 0.3, "acceptable": 0.67,
                         "met": True, "accepted": None},
    }  # fmt: skip
    view = describe_attacks(evidence, inside=True, judged=judged)
    assert view is not None
    assert [row["verdict"] for row in view["rows"]] == ["acceptable", "acceptable"]
    assert [row["tone"] for row in view["rows"]] == ["good", "good"]
    assert view["caveat"] == (
        "2 attacks with a limit were tried. None achieves more than is acceptable. Nearest to "
        "its limit: linking by all that is known, with 22\N{NO-BREAK SPACE}%; up to "
        "26\N{NO-BREAK SPACE}% is acceptable."
    )
    assert not any(bar["highlighted"] for bar in view["bars"]["rows"])
    for accepted, tone in ((None, "bad"), ("they were asked", "warn")):
        judged["singling_out"] |= {"at_worst": 0.7, "met": False, "accepted": accepted}
        view = describe_attacks(evidence, inside=True, judged=judged)
        assert view is not None
        assert view["rows"][1]["tone"] == tone
        assert view["caveat"].startswith(
            "2 attacks with a limit were tried. 1 achieves more than is acceptable"
        )
        assert ("which the plan accepts" in view["caveat"]) is (tone == "warn")
        assert sum(bar["highlighted"] for bar in view["bars"]["rows"]) == 1


def test_what_has_not_happened_is_hatched_and_never_red():
    details = {"releases": 10, "p": 3}
    evidence = {
        "singling_out": told("singling_out", 0.4),
        "averaging": told("averaging", 0.9, details=details),
    }
    view = describe_attacks(evidence, inside=True)
    assert view is not None
    tones = {bar["label"]: (bar["highlighted"], bar["hatched"]) for bar in view["bars"]["rows"]}
    assert tones["Averaging releases"] == (False, True)
    assert tones["Singling out"] == (True, False)
    assert "hatched" in view["bars"]["title"]


def test_one_that_failed_says_why_and_has_no_bar():
    failed = told("singling_out", None, reason="There is no record to look for.")
    view = describe_attacks({"singling_out": failed}, inside=True)
    assert view is not None
    assert view["rows"][0]["reason"] == "There is no record to look for."
    assert view["bars"] is None


def test_two_of_a_kind_keep_their_labels():
    details = {"releases": 10, "p": 3}
    view = describe_attacks(
        {
            "averaging": told("averaging", 0.4, details=details),
            "averaging_2": told("averaging", 0.2, details=details),
        },
        inside=False,
    )
    assert view is not None
    assert [row["title"] for row in view["rows"]] == [
        "Averaging releases",
        "Averaging releases (averaging_2)",
    ]
    assert view["missing"] == ""


def test_names_are_escaped():
    frame = pl.DataFrame({"age": list(range(30)), EVIL: list("ab" * 15)})
    schema = sf.Schema({"age": "quasi", EVIL: "sensitive"})
    plan = sf.Plan(
        schema=schema,
        evaluate={
            f"{EVIL}": sf.risk.AttributeInference(),
            "mixed_linkage": sf.risk.MixedLinkage(known=["age", EVIL]),
        },
    )
    made = sf.protect(sf.Dataset(frame, schema), plan, key=bytes(32))
    page = render_report(made.manifest, made.custody)
    assert HEAD in page
    assert "<script" not in page
    assert "&lt;script&gt;" in section(page)


def test_shares_are_never_rounded_to_none_or_all():
    for share in (1e-7, 0.004, 0.9999):
        said = format_percent(share).replace("\N{NO-BREAK SPACE}", " ")
        assert said not in ("0 %", "100 %")
        assert re.fullmatch(r"[\d.]+ %", said)
    assert format_percent(1.25).startswith("125")


@pytest.mark.parametrize("name", ["averaging", "undoing"])
def test_gaining_nothing_beyond_an_unsafe_release_is_no_good_news(name):
    details = {"releases": 10, "p": 3, "tolerance": 0.01, "undoing_error_left": 1.0}
    one = told(name, 1.0, baseline=1.0, interval=[0.99, 1.0], details=details)
    view = describe_attacks({name: one}, inside=True)
    assert view is not None
    assert view["rows"][0]["verdict"] == "gains nothing beyond the release as it is"
    assert view["rows"][0]["tone"] == ""
