"""The page Risk says what the library says, for single tables, persons and linked tables."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

import sfumato as sf
from sfumato.plan import Plan
from sfumato.run.exposure import list_exposed_records
from sfumato.studio.source import DataSource
from sfumato.studio.tasks import Work
from sfumato.studio.tasks.risk import (
    answer_risk,
    describe_record,
    find_fixes,
    list_combinations,
    list_known,
    list_riskiest,
    map_protection,
    place_steps,
    take_measure,
)
from sfumato.studio.worker import Workshop

FRAME = pl.DataFrame(
    {
        "sex": ["f", "f", "f", "m", "m", "m", "m", "f"] * 3,
        "age": [30, 31, 32, 30, 31, 32, 33, 58] + [30, 30, 31, 31, 32, 32, 33, 33] * 2,
        "region": ["n", "n", "s", "s", "n", "n", "s", "s"] * 3,
        "ill": ["y", "n", "y", "n", "n", "n", "y", "y"] * 3,
    }
)
KNOWN = ["sex", "age", "region"]
PLAN = Plan(schema={**dict.fromkeys(KNOWN, "quasi"), "ill": "sensitive"})


def make_work(folder: Path, frame: pl.DataFrame = FRAME, plan: Plan = PLAN) -> Work:
    file = folder / "people.csv"
    frame.write_csv(file)
    source = DataSource(where=str(file), title="people")
    return Work(workshop=Workshop(), source=source, plan_text=plan.text(), folder=folder)


@pytest.fixture
def work(tmp_path) -> Work:
    return make_work(tmp_path)


def count_alone(frame: pl.DataFrame, names: list[str]) -> int:
    return len(frame.filter(pl.struct(names).is_unique()))


def test_every_combination_is_counted(work):
    found = list_combinations(work, known=KNOWN, k=3)
    listed = {tuple(risk["variables"]): risk for size in found["sizes"] for risk in size["risks"]}
    assert found["looked_at"] == len(listed) == 7
    for names, risk in listed.items():
        sizes = FRAME.group_by(names).len()["len"]
        assert risk["alone"] == count_alone(FRAME, list(names))
        assert risk["smallest"] == sizes.min()
        assert risk["below"] == sizes.filter(sizes < 3).sum()
    for size in found["sizes"]:
        alone = [risk["alone"] for risk in size["risks"]]
        assert alone == sorted(alone, reverse=True)
    assert found["everything"]["alone"] == count_alone(FRAME, KNOWN)
    for row in found["without"]:
        assert row["alone"] == count_alone(FRAME, [n for n in KNOWN if n != row["variable"]])


def test_the_answer_is_that_of_assess(work):
    data = sf.Dataset(FRAME, PLAN.schema)
    evidence = sf.risk.Uniqueness().measure(data)
    answer = answer_risk(work, known=KNOWN)
    assert answer["alone"] == evidence.details["unique_records"] == count_alone(FRAME, KNOWN)
    assert answer["sentence"].startswith(f"{answer['alone']} of {len(FRAME)} people")


def test_the_most_exposed_are_those_of_who(work):
    data = sf.Dataset(FRAME, PLAN.schema)
    frame = list_exposed_records(data, {"uniqueness": sf.risk.Uniqueness()})
    page = list_riskiest(work, known=KNOWN, first=2)
    assert [row["record"] for row in page["rows"]] == frame["record"][2:17].to_list()
    assert [row["alone_by"] for row in page["rows"]] == frame["alone_by"][2:17].to_list()


def test_a_record_shows_what_makes_it_stand_out(work):
    found = describe_record(work, known=KNOWN, record=8, k=3)
    assert found["alike"] == 1
    assert {row["variable"]: row["value"] for row in found["values"]} == {
        "sex": "f", "age": "58", "region": "s",
    }  # fmt: skip
    assert {row["variable"]: row["without"] for row in found["values"]}["age"] == len(
        FRAME.filter((pl.col("sex") == "f") & (pl.col("region") == "s"))
    )
    # What contains a combination that is enough is not said again.
    alone = [row["variables"] for row in found["combinations"] if row["people"] == 1]
    assert alone == [["age"]]
    assert found["secrets"][0]["known_by"] == ["age"]


def test_a_fix_does_what_it_promises(work):
    found = find_fixes(work, known=KNOWN, record=8, k=3)
    assert found["alone"] == count_alone(FRAME, KNOWN)
    assert found["fixes"]
    for fix in found["fixes"]:
        plan = Plan.parse(place_steps(work, steps=json.loads(json.dumps(fix["steps"]))))
        data = sf.Dataset(FRAME, PLAN.schema)
        for step in plan.steps:
            data = step.apply(data)
        released = pl.DataFrame(data.frame)
        names = [name for name in KNOWN if name in released.columns]
        own = released.select(names).row(7)
        alike = sum(row == own for row in released.select(names).iter_rows())
        assert (alike, count_alone(released, names)) == (fix["alike"], fix["alone"])
        assert alike >= 3
    blanks = found["suppress"]
    data = sf.methods.Suppress(variables=KNOWN, k=3).apply(sf.Dataset(FRAME, PLAN.schema))
    assert blanks["cells"] == sum(pl.DataFrame(data.frame).select(KNOWN).null_count().row(0))


def test_a_step_goes_before_those_that_look_at_records_together(tmp_path):
    steps = [sf.methods.KAnonymity(variables=["sex", "age"], k=2)]
    work = make_work(tmp_path, plan=Plan(schema=PLAN.schema, steps=steps))
    added = {"method": "coarsen", "variables": ["age"], "breaks": [40.0]}
    plan = Plan.parse(place_steps(work, steps=[added]))
    assert [step.name for step in plan.steps] == ["coarsen", "k_anonymity"]


def test_the_map_has_everybody_once(work):
    found = map_protection(work, known=KNOWN, in_turn=False)
    evidence = sf.risk.Peers().measure(sf.Dataset(FRAME, PLAN.schema))
    assert found["value"] == evidence.value
    assert found["variables"][0] == {"variable": "ill", "breached": evidence.value}
    assert sum(group["people"] for group in found["groups"]) == found["people"] == len(FRAME)
    assert found["groups"][-1]["begin"] + found["groups"][-1]["width"] == found["columns"]
    # The boxes of all colours fill the map exactly.
    area = 0.0
    for path in found["paths"]:
        for left, top, right, bottom in re.findall(r"M(\d+) ([\d.]+)H(\d+)V([\d.]+)", path):
            area += (int(right) - int(left)) * (float(bottom) - float(top))
    assert area == pytest.approx(found["columns"])


def test_persons_are_counted_not_rows(tmp_path):
    frame = pl.DataFrame({"who": [1, 1, 2, 3], "ward": ["a", "b", "b", "a"]})
    plan = Plan(schema={"who": "person", "ward": "quasi"})
    work = make_work(tmp_path, frame, plan)
    assert list_known(work)["person"] == "who"
    found = list_combinations(work, known=["ward"], k=3)
    assert found["people"] == 3
    assert found["everything"] == {"variables": ["ward"], "alone": 0, "smallest": 2, "below": 3}


def test_linked_tables_are_looked_at_together(tmp_path):
    patients = pl.DataFrame({"id": [1, 2, 3], "sex": ["f", "m", "m"]})
    stays = pl.DataFrame({"id": [1, 2, 2, 3], "ward": ["a", "b", "c", "c"]})
    patients.write_csv(tmp_path / "patients.csv")
    stays.write_csv(tmp_path / "stays.csv")
    plan = Plan(
        tables={
            "patients": Plan(schema={"id": "person", "sex": "quasi"}),
            "stays": Plan(schema={"id": "person", "ward": "quasi"}),
        },
        keys={"stays.id": "patients.id"},
        person="patients.id",
    )
    source = DataSource(where=str(tmp_path), title="tables", linked=True)
    work = Work(workshop=Workshop(), source=source, plan_text=plan.text(), folder=tmp_path)
    offered = list_known(work)
    assert offered["linked"]
    assert offered["quasi"] == ["table", "patients.sex", "stays.ward"]
    assert list_combinations(work, known=["patients.sex"], k=2)["everything"]["alone"] == 1
    found = describe_record(work, known=offered["quasi"], record=1, k=2)
    # A row of one table has no cells of another that its keys do not lead to.
    assert [row["variable"] for row in found["values"]] == ["patients.sex"]
    added = {"method": "drop", "variables": ["stays.ward"]}
    changed = Plan.parse(place_steps(work, steps=[added]))
    assert changed.tables["stays"].steps == (sf.methods.Drop(variables=["ward"]),)


def test_any_measure_can_be_taken(work):
    found = take_measure(work, name="attribute_disclosure", settings={"confidential": ["ill"]})
    data = sf.Dataset(FRAME, PLAN.schema)
    assert found["value"] == sf.risk.AttributeDisclosure(confidential=["ill"]).measure(data).value
    assert found["rows"]


def test_a_custodian_ticks_looks_and_adds_a_step(studio, tab):
    folder = studio.begin("demo")
    tab.goto(f"http://{studio.host}{studio.prefix}{folder}/risk")
    tab.wait_for_selector("#known-1")
    # Nobody has said what others may know: it is said, and one can look around all the same.
    assert "Roles" in tab.inner_text("#answer")
    for name in ("sex", "region", "education"):
        tab.get_by_label(name, exact=True).check()
    # Three fast ticks: none of them is lost.
    tab.get_by_text("sex + region + education", exact=True).wait_for(state="attached")
    tab.get_by_text("Most exposed people").click()
    # A page that is just fetching itself would take the row away under the finger.
    tab.wait_for_selector("[data-await], main[aria-busy]", state="detached")
    tab.locator("tr[data-fetch]").first.press("Enter")
    tab.wait_for_selector("dialog[open] h2")
    assert "Record" in tab.inner_text("dialog h2")
    button = tab.locator("dialog form button", has_text="to the plan").first
    button.click()
    tab.wait_for_selector(".flash.good")
    assert "Added to the plan" in tab.inner_text(".flash.good")
    # What was seen of a record is kept nowhere.
    session = studio.folder / folder.rpartition("/")[2]
    history = (session / "history.json").read_text()
    assert len(json.loads(history)["states"]) == 3
