"""Protect: cards, targets, trials, the search and branches do what the library does."""

from __future__ import annotations

import json
import stat
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import PlanError, SchemaError
from sfumato.parameters import list_settings
from sfumato.plan import Plan
from sfumato.studio.drawings import draw_forest, draw_map, make_axis
from sfumato.studio.session import Session, Sessions
from sfumato.studio.source import DataSource
from sfumato.studio.tasks import Work, list_tasks
from sfumato.studio.worker import Workshop
from sfumato.tuning.search import tune

EVIL = "<img src=x onerror=alert(1)>"
RECORDS = 400


def make_plan(**changes: Any) -> sf.Plan:
    plan = sf.Plan(
        schema=sf.datasets.cohort_schema(),
        steps=[
            sf.methods.Drop(),
            sf.methods.Drop(variables=["postcode", "school", "birth_date"]),
            sf.methods.Noise(variables=["systolic"], sd_share=0.3),
            sf.methods.KAnonymity(k=3),
        ],
        targets={"k.min": 3},
        evaluate=[sf.utility.InformationLoss()],
    )
    return replace(plan, **changes)


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    path: Path = tmp_path_factory.mktemp("data") / "cohort.csv"
    sf.datasets.cohort(RECORDS).write_csv(path)
    return path


@pytest.fixture
def work(file, tmp_path) -> Work:
    return make_work(file, tmp_path, make_plan().text())


def make_work(file: Path, folder: Path, plan: str) -> Work:
    source = DataSource(where=str(file), title=file.name, linked=file.is_dir())
    return Work(workshop=Workshop(), source=source, plan_text=plan, folder=folder)


def ask(work: Work, task: str, **parameters: Any) -> Any:
    """What a page gets: plain values, as they come out of JSON."""
    return json.loads(json.dumps(list_tasks()[task].function(work, **parameters)))


def protect(work: Work) -> sf.Release:
    return sf.protect(sf.read(work.source.where), work.table_plan, key=work.key)


# A trial -----------------------------------------------------------------------------------------


def test_a_trial_is_the_release_that_the_library_makes_under_the_same_key(work):
    tried = ask(work, "try_plan")
    release = protect(work)
    assert tried["met"]
    assert tried["records"] == len(release.dataset)
    assert [row["value"] for row in tried["targets"]] == [j.number for j in release.verdict]
    assert [row["label"] for row in tried["results"]] == list(release.evidence)
    kept = list_tasks()["try_plan"].function.__globals__["get_release"](work)
    assert kept.data.equals(release.data)
    assert stat.S_IMODE((work.folder / "key").stat().st_mode) == 0o600


def test_a_secret_that_a_whole_class_shares_is_told_unless_a_target_asks(tmp_path):
    file = tmp_path / "alike.csv"
    # Two classes of five: in the first all have the illness, in the second some.
    rows = [("f", "yes")] * 5 + [("m", "yes")] * 2 + [("m", "no")] * 3
    file.write_text("sex,ill\n" + "".join(f"{sex},{ill}\n" for sex, ill in rows))
    plan = sf.Plan(schema={"sex": "quasi", "ill": "sensitive"}, targets={"k.min": 5})
    found = ask(make_work(file, tmp_path, plan.text()), "try_plan")
    assert found["met"]
    assert (found["secrets"]["variable"], found["secrets"]["share"]) == ("ill", 0.5)
    asked = replace(plan, targets=sf.Plan(targets={"attribute_disclosure.max": 0.6}).targets)
    assert ask(make_work(file, tmp_path, asked.text()), "try_plan")["secrets"] is None


def test_nothing_of_a_single_person_is_kept(work):
    kept = json.dumps([
        ask(work, "try_plan"), ask(work, "attack_release"), ask(work, "compare_variables"),
    ])  # fmt: skip
    people = sf.datasets.cohort(RECORDS)
    for name in ("email", "address", "nhs_number", "person_id"):
        assert not [value for value in people[name].cast(pl.String) if f'"{value}"' in kept]
    assert work.key.text not in kept


def test_a_missed_target_says_what_decides_and_what_to_try(file, tmp_path):
    plan = make_plan(targets={"k.min": 4}, steps=make_plan().steps[:3])
    work = make_work(file, tmp_path, plan.text())
    tried = ask(work, "try_plan")
    assert not tried["met"]
    assert tried["hint"]
    (missed,) = tried["missed"]
    assert missed["target"] == "k"
    assert missed["by"]
    assert "k_anonymity" in missed["remedy"]
    # What it does to the data is shown all the same.
    assert ask(work, "compare_variables")["variables"]


def test_attacks_and_lights_are_those_of_the_release(work):
    attacked = ask(work, "attack_release")
    release = protect(work)
    colours = [light["colour"] for light in attacked["lights"]]
    assert colours == [light["colour"] for light in release.lights.plain().values()]
    part = attacked["parts"][""]
    tried = {row["measure"] for row in part["attacks"]["rows"]}
    assert {item.name for item in release.attacks.values()} - {"untouched"} <= tried
    assert {row["name"] for row in part["ledger"]} == set(release.original.schema)


def test_a_plan_with_tiers_is_tried_for_one_of_them(file, tmp_path):
    plan = make_plan(tiers={"inside": {}, "public": {"noise": {"sd_share": 0.6}}})
    work = make_work(file, tmp_path, plan.text())
    assert ask(work, "try_plan", tier="public")["met"]
    with pytest.raises(PlanError, match="tiers"):
        ask(work, "try_plan")


# Single steps ------------------------------------------------------------------------------------


def check(work: Work, step: Any, position: int = 3) -> Any:
    return ask(work, "check_step", part="", position=position, method=step.name,
               settings=list_settings(step))  # fmt: skip


def test_a_step_is_tried_on_some_records_while_somebody_types(work):
    checked = check(work, sf.methods.KAnonymity(k=5))
    assert checked["trouble"] == ""
    assert checked["records"] == RECORDS
    assert "sex" in checked["treats"]
    assert "postcode" not in checked["treats"]


def test_a_step_that_does_not_fit_the_data_says_why(work):
    with pytest.raises(SchemaError, match="heigth"):
        check(work, sf.methods.Noise(variables=["heigth"], sd_share=0.1))
    checked = check(work, sf.methods.Noise(variables=["smoking"], sd_share=0.1))
    assert "smoking" in checked["trouble"]


def test_variables_of_each_part_are_listed(work):
    (rows,) = ask(work, "list_variables").values()
    assert {"name": "height", "role": "quasi", "kind": "continuous"} in rows


# The search, noise, branches ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def searched(file, tmp_path_factory) -> tuple[Work, Any]:
    work = make_work(file, tmp_path_factory.mktemp("search"), make_plan().text())
    return work, ask(work, "tune_plan", plan=work.plan_text, runs=4, seconds=0)


def test_the_search_is_the_library_s(searched):
    work, found = searched
    tuned = tune(sf.read(work.source.where), work.table_plan, runs=4, key=work.key)
    assert [item["what"] for item in found["candidates"]] == [
        candidate.describe() for candidate in tuned.candidates
    ]
    assert found["best"] == tuned.best.number
    assert found["why"] == list(tuned.why)
    for item, candidate in zip(found["candidates"], tuned.candidates, strict=True):
        assert sf.Plan.parse(item["steps"]).steps == candidate.plan.steps


def test_every_point_of_the_map_lies_within_it_and_down_is_safer(searched):
    _, found = searched
    drawn = draw_map(found, 0)
    assert len(drawn["points"]) + drawn["left_out"] == len(found["candidates"])
    assert [point["best"] for point in drawn["points"]].count(True) == 1
    for point in drawn["points"]:
        assert drawn["left"] <= point["x"] <= drawn["right"]
        assert drawn["top"] <= point["y"] <= drawn["bottom"]
    by_k = sorted(drawn["points"], key=lambda point: point["numbers"][0])
    assert by_k[0]["y"] < by_k[-1]["y"]


def test_noise_of_the_right_size_goes_into_the_plan_or_says_what_is_in_its_way(work):
    asked = {"known": ["glucose", "hdl"], "mean_h": 3.0, "below": 3, "at_most": None,
             "who": "all", "draws": 4}  # fmt: skip
    found = ask(work, "calibrate_noise", variables=["glucose", "hdl"], **asked)
    expected = sf.calibrate(work.data, ["glucose", "hdl"], known=["glucose", "hdl"], mean_h=3.0,
                            draws=4)  # fmt: skip
    assert found["met"]
    assert found["share"] == expected.share
    steps = sf.Plan.parse(found["plan"]).steps
    assert expected.step in steps
    assert len(steps) == len(work.table_plan.steps) + 1
    asked["known"] = ["systolic", "hdl"]
    found = ask(work, "calibrate_noise", variables=["systolic", "hdl"], **asked)
    assert not found["plan"]
    assert "systolic" in found["clash"]


def test_a_branch_is_measured_by_the_numbers_of_its_release(work):
    measured = ask(work, "measure_branch", plan=work.plan_text)
    release = protect(work)
    assert (measured["met"], measured["targets"]) == (1, 1)
    assert measured["k"] == release.evidence["uniqueness"].details["k"]
    assert "information_loss" in measured["numbers"]
    worse = make_plan(targets={"k.min": 4}, steps=make_plan().steps[:3])
    measured = ask(work, "measure_branch", plan=worse.text())
    assert measured["met"] == 0
    assert measured["missed"]


# Parts of a plan ---------------------------------------------------------------------------------


def test_cards_of_linked_tables_change_the_plan_of_their_table():
    plan = Plan(
        tables={"patients": sf.Plan(schema={"sex": "quasi"}), "visits": sf.Plan()},
        keys={"visits.patient": "patients.patient"},
        person="patients.patient",
    )
    assert plan.parts == ["patients", "visits", ""]
    step = sf.methods.Recode(variables=["sex"], fewest=3)
    changed = plan.replace_part("patients", steps=[step])
    assert changed.get_part("patients").steps == (step,)
    assert not changed.steps
    assert set(plan.list_methods("")) < set(plan.list_methods("visits"))
    with pytest.raises(PlanError, match="does not work over several tables"):
        plan.replace_part("", steps=[step])
    with pytest.raises(PlanError, match="no table 'patient'"):
        plan.get_part("patient")


def test_an_axis_has_round_ticks_and_keeps_to_its_ends():
    axis = make_axis([0.0, 1.0], 0, 100, pad=0)
    assert [tick["text"] for tick in axis.list_ticks()] == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    assert axis.place(7.0) == 100
    assert make_axis([1.0, 1000.0], 0, 100, wide=True).logarithmic
    assert draw_forest([]) == {"rows": []}


# The page ----------------------------------------------------------------------------------------


def open_session(studio: Any, file: Path, plan: str) -> str:
    """A session of a studio that runs, with a plan; its path below the prefix."""
    session = Sessions(studio.folder).create(owner="you", title="test")
    source = DataSource(where=str(file), title=file.name, linked=file.is_dir())
    session.change("opened", by="you", source=source, plan=plan)
    return f"/sessions/{session.id}"


def read_plan(studio: Any, session: str) -> sf.Plan:
    plan = Session.load(studio.folder / session.rpartition("/")[2]).plan
    assert isinstance(plan, sf.Plan)
    return plan


def test_steps_are_added_changed_moved_copied_and_removed(studio, file):
    session = open_session(studio, file, make_plan().text())

    def send(action: str, **fields: Any) -> list[str]:
        answer = studio.post(f"{session}/protect/{action}", {"part": "", **fields})
        assert answer.status == 303
        return [step.name for step in read_plan(studio, session).steps]

    topcode = {"step": "topcode", "new": "1", "field-variables": ["income"], "field-top": "90000"}
    before = [step.name for step in make_plan().steps]
    assert send("save_step", **topcode) == [*before, "topcode"]
    assert send("move_step", position=4, to=0) == ["topcode", *before]
    assert send("copy_step", position=0) == ["topcode", "topcode", *before]
    assert send("remove_step", position=1) == ["topcode", *before]
    changed = {**topcode, "new": "0", "position": 0, "field-top": "80000"}
    assert send("save_step", **changed) == ["topcode", *before]
    step: Any = read_plan(studio, session).steps[0]
    assert step.top == 8e4
    assert send("remove_step", position=99) == ["topcode", *before]  # nothing is there


def test_what_is_typed_is_checked_and_what_cannot_be_is_not_saved(studio, file):
    session = open_session(studio, file, make_plan().text())
    fields = {"part": "", "step": "k_anonymity", "position": "3", "field-k": "1"}
    answer = studio.post(f"{session}/protect/check_step", fields)
    assert answer.status == 200
    assert 'data-tone="bad"' in answer.text
    assert "k" in answer.text
    answer = studio.post(f"{session}/protect/check_step", fields | {"field-k": "4"})
    assert 'data-tone="bad"' not in answer.text
    studio.post(f"{session}/protect/save_step", fields)
    assert read_plan(studio, session) == make_plan()


def test_targets_and_measures_are_set_and_taken_back(studio, file):
    session = open_session(studio, file, make_plan().text())
    studio.post(f"{session}/protect/save_target", {"part": "", "name": "prosecutor", "most": "0.4"})
    assert read_plan(studio, session).targets[1].plain() == {"max": 0.4}
    answer = studio.post(f"{session}/protect/check_target", {"part": "", "name": "k"})
    assert 'data-tone="bad"' in answer.text
    assert "People in the smallest class of those who look alike" in answer.text
    studio.post(f"{session}/protect/remove_target", {"part": "", "name": "prosecutor"})
    fields = {"part": "", "measure": "coefficients", "label": "bp",
              "field-formula": "systolic ~ height"}  # fmt: skip
    studio.post(f"{session}/protect/save_measure", fields)
    measure: Any = read_plan(studio, session).evaluate["bp"]
    assert measure.formula == "systolic ~ height"
    studio.post(f"{session}/protect/remove_measure", {"part": "", "label": "bp"})
    assert read_plan(studio, session) == make_plan()


def test_targets_of_a_profile_are_marked_and_stay(studio, file):
    session = open_session(studio, file, make_plan(profile="ema-0070").text())
    page = studio.get(f"{session}/protect").text
    assert "The profile asks for this" in page
    assert "k at least 3, where the profile asks for at least 12" in page


def test_a_text_with_a_mistake_stays_on_the_page(studio, file):
    session = open_session(studio, file, make_plan().text())
    wrong = make_plan().text().replace('"drop"', '"dropp"', 1)
    answer = studio.post(f"{session}/protect/text", {"text": wrong, "tab": "text"})
    assert answer.status == 200
    assert "no method &#39;dropp&#39;" in answer.text
    assert "&#34;dropp&#34;" in answer.text
    right = f"# mine\n{make_plan(targets={'k.min': 2}).text()}"
    assert studio.post(f"{session}/protect/text", {"text": right}).status == 303
    assert read_plan(studio, session).targets[0].least == 2
    assert "# mine" in studio.get(f"{session}/protect?tab=text").text


def test_names_of_variables_are_inert(studio, tmp_path):
    path = tmp_path / "evil.csv"
    sf.datasets.cohort(60).select("sex").with_columns(pl.lit("x").alias(EVIL)).write_csv(path)
    plan = sf.Plan(
        schema={"sex": "quasi", EVIL: sf.Column(role="quasi", label=EVIL)},
        steps=[sf.methods.Drop(variables=[EVIL])],
    )
    session = open_session(studio, path, plan.text())
    for part in ("protect", "protect?tab=text", "protect/step?position=0", "compare"):
        page = studio.get(f"{session}/{part}")
        assert page.status == 200
        assert EVIL not in page.text


def test_pages_without_data_or_keys_say_where_to_go(studio, tmp_path):
    session = studio.begin("empty")
    for page in ("protect", "compare"):
        assert f"{session}/data" in studio.get(f"{session}/{page}").text
    linked = open_session(studio, tmp_path, "")
    for page in ("protect", "compare"):
        assert f"{linked}/roles" in studio.get(f"{linked}/{page}").text


def test_a_formula_with_a_mistake_is_told_before_anything_is_fitted(studio, file):
    session = open_session(studio, file, make_plan().text())
    studio.post(f"{session}/protect/try", {"back": "compare"})
    page = ""
    for _ in range(200):
        page = studio.get(f"{session}/compare?formula=systolic").text
        if "Evidence against the targets" in page:
            break
        threading.Event().wait(0.2)
    assert "needs one ~ between the outcome and the terms" in page
    fields = {"formula": "systolic ~ height", "family": "linear", "table": ""}
    studio.post(f"{session}/compare/keep_model", fields)
    kept: Any = read_plan(studio, session).evaluate["coefficients"]
    assert kept.formula == "systolic ~ height"
    studio.post(f"{session}/compare/keep_model", fields | {"formula": "systolic ~ ("})
    assert len(read_plan(studio, session).evaluate) == 2


def test_a_person_protects_compares_and_chooses_from_the_map(tab, studio, file):
    session = open_session(studio, file, make_plan().text())
    address = f"http://{studio.host}{studio.prefix}{session}"
    tab.goto(f"{address}/protect")
    # A step that cannot be stays open with what was typed; then it is mended.
    tab.get_by_role("button", name="+ Add a step").click()
    tab.get_by_role("button", name="Choose: topcode").click()
    tab.locator("dialog .chip", has_text="income").click()
    tab.get_by_role("button", name="Add it to the plan").click()
    tab.locator("dialog [data-tone=bad]").wait_for()
    tab.fill("#step-top", "90000")
    tab.get_by_role("button", name="Add it to the plan").click()
    tab.locator(".step", has_text="Topcode").wait_for()
    assert tab.locator(".step").count() == 5
    # By keyboard it is carried out earlier, and dragged back.
    tab.get_by_role("button", name="Move up: topcode").press("Enter")
    tab.locator(".step:nth-child(4)", has_text="Topcode").wait_for()
    tab.locator(".step:nth-child(4)").drag_to(tab.locator(".step:nth-child(5)"))
    tab.locator(".step:nth-child(5)", has_text="Topcode").wait_for()
    tab.get_by_role("button", name="Try the plan").click()
    tab.get_by_text("The target is met by the protected records in memory").wait_for()
    tab.get_by_role("link", name="Compare before and after").click()
    tab.locator(".small-charts figure").first.wait_for()
    tab.fill("#formula", "systolic ~ glucose")
    tab.get_by_role("button", name="Fit both").click()
    tab.locator("svg.forest .corrected circle").first.wait_for()
    tab.goto(f"{address}/protect?tab=search")
    tab.fill("#runs", "3")
    tab.get_by_role("button", name="Search", exact=True).click()
    tab.locator("g.point").first.wait_for()
    tab.locator("g.point.met").first.press("Enter")
    tab.get_by_text("The plan is now").wait_for()
    assert tab.locator("g.point.now").count() == 1
    assert len(read_plan(studio, session).steps) != 5
