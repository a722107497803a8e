"""Profiles for several tables: held against the joined view, else against every table."""

from __future__ import annotations

import json
import re

import pytest
from tests.cli.command_line import sfumato
from tests.run.test_linked import LESS, make_hospital, make_plan

import sfumato as sf
from sfumato.errors import PlanError, TargetError, WeakProtectionWarning
from sfumato.storage.opening import read_any_manifest, read_custody
from sfumato.suggestion.first_linked import first_linked_plan

KEY = bytes(range(32))


def plan_for(k: int, **parts):
    parts = {"profile": "ema-0070", "evaluate": [LESS], **parts}
    return make_plan(shared=[sf.methods.KAnonymity(k=k)], **parts)


@pytest.fixture(scope="module")
def release():
    return sf.protect(make_hospital(48), plan_for(12), key=KEY)


def test_a_release_that_just_meets_the_rule_is_written_and_one_that_just_misses_is_not(release):
    assert {item.target.name: item.met for item in release.verdict} == {
        "prosecutor": True,
        "k": True,
    }
    assert release.verdict[1].number == 12
    with pytest.raises(TargetError, match="k at least 12") as caught:
        sf.protect(make_hospital(44), plan_for(11), key=KEY)
    assert [item.number for item in caught.value.verdict if item.target.name == "k"] == [11]


def test_the_dossier_is_of_the_joined_view_with_the_attacks_on_every_table(release, tmp_path):
    rows = {row.rule.name: row for row in release.dossier.rows}
    assert rows["maximum-risk"].number == pytest.approx(1 / 12)
    assert (rows["maximum-risk"].met, rows["class-size"].met) == (True, True)
    assert {attack.label.partition(".")[0] for attack in rows["maximum-risk"].attacks} == {
        "patients",
        "stays",
        "lab",
    }
    assert release.dossier.met is None  # the rest is for people to decide
    folder = release.write(tmp_path / "out", ledger=False)
    for edition in ("report.html", "custody/report.html"):
        page = (folder / edition).read_text("utf-8")
        assert "<h2>The rule: EMA Policy 0070" in page
        assert re.search(r"finds that person with a chance of 8.33 % at most", page)
    inside, public = read_custody(folder)["dossier"], read_any_manifest(folder)["dossier"]
    assert "achieved" in inside["rows"][0]["attacks"][0]
    assert all("achieved" not in attack for row in public["rows"] for attack in row["attacks"])


def test_a_plan_that_asks_for_less_claims_nothing_and_is_amber():
    plan = plan_for(5, targets={"k.min": 5, "prosecutor.max": 0.2})
    with pytest.warns(WeakProtectionWarning, match="Less than the profile ema-0070"):
        release = sf.protect(make_hospital(), plan, key=KEY)
    dossier = release.dossier
    assert dossier is not None
    assert dossier.met is False
    # The file itself has fewer alike than the rule asks for, whatever the plan says.
    assert {row.rule.name: row.met for row in dossier.rows}["class-size"] is False
    assert release.lights.targets.colour == "amber"
    assert sum("profile ema-0070" in line for line in release.lights.targets.reasons) == 2
    narrow = plan_for(12, evaluate=[sf.risk.Uniqueness(row_counts=False, known=["patients.age"])])
    assert any("patients.age only" in line for line in narrow.list_weaker())


def test_a_plan_with_a_profile_reads_back_as_it_was_written():
    for name in ("ema-0070", "wp216", "hipaa-safe-harbor", "hipaa-expert", "opensafely"):
        plan = plan_for(12, profile=name)
        assert sf.Plan.parse(plan.text()) == plan
        assert sf.Plan.parse(plan.text(comments=True)) == plan
    with pytest.raises(PlanError, match="ema-0070"):
        sf.Plan.parse('profile = "ema-007"\n' + plan_for(12, profile=None).text())
    with pytest.raises(PlanError, match="profile of its own"):
        sf.Plan(tables={"a": sf.Plan(profile="ema-0070")}, keys={}, person="a.id", targets={})


def test_what_is_not_measured_in_the_joined_view_holds_in_every_table():
    plan = plan_for(5, profile="hipaa-safe-harbor", targets={"k.min": 5})
    asked = {"names_left", "places_left", "dates_left", "ages_left"}
    for own in plan.tables.values():
        assert asked <= {target.name for target in own.targets}
    assert [target.name for target in plan.targets] == ["k"]


def test_identifiers_left_in_one_table_break_the_rule_of_all(tmp_path):
    """Keys leave as codes, and whether Safe Harbor lets them is for a person to say: `allow`."""
    found = first_linked_plan({n: sf.Dataset(f) for n, f in make_hospital(120).items()},
                              profile="hipaa-safe-harbor").plan  # fmt: skip
    text = found.text().replace("test = { kind", 'test = { role = "quasi", kind')
    text = text.replace("value = { kind", 'value = { role = "sensitive", kind')
    plan = sf.Plan.parse(text)
    with pytest.raises(TargetError, match=r"names_left at most 0 \(in lab\)"):
        sf.protect(make_hospital(120), plan, key=KEY)
    allowed = "".join(
        f"\n[tables.{name}.evaluate.identifiers_left]\nallow = {json.dumps(keys)}\nyear = 2021\n"
        for name, keys in (("patients", ["patient"]), ("stays", ["patient", "stay"]),
                           ("lab", ["stay"]))
    )  # fmt: skip
    release = sf.protect(make_hospital(120), sf.Plan.parse(text + allowed), key=KEY)
    assert release.dossier is not None
    rows = {row.rule.name: row for row in release.dossier.rows}
    assert {rows[name].met for name in ("names", "places", "dates")} == {True}


def test_inspect_of_a_folder_writes_a_plan_for_a_profile(tmp_path):
    place = tmp_path / "hospital"
    place.mkdir()
    for name, frame in make_hospital().items():
        frame.write_csv(place / f"{name}.csv")
    done = sfumato("inspect", place, "--plan", tmp_path / "plan.toml", "--profile", "ema-0070")
    assert done.returncode == 0, done.stderr
    plan = sf.Plan.load(tmp_path / "plan.toml")
    assert plan.profile == "ema-0070"
    assert {target.name: target.plain() for target in plan.targets} == {
        "k": {"min": 12.0},
        "prosecutor": {"max": 0.09},
    }
    assert isinstance(plan.steps[0], sf.methods.KAnonymity)
    assert plan.steps[0].k == 12
    assert 'profile = "ema-0070"  # EMA Policy 0070' in (tmp_path / "plan.toml").read_text()
