"""Analyse: the numbers of `sf.fit` and `sf.explore`, from a folder below the roots only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.studio.test_release import press

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.plan import Writing
from sfumato.studio.source import DataSource
from sfumato.studio.tasks import Work
from sfumato.studio.tasks.analyse import explore_received, fit_received, open_received
from sfumato.studio.worker import Workshop


def write_release(folder: Path) -> None:
    frame = sf.datasets.cohort(400).select("name", "sex", "systolic", "height")
    roles = {"name": "direct", "sex": "quasi", "systolic": "sensitive", "height": "sensitive"}
    plan = sf.Plan(
        schema=roles,  # type: ignore[arg-type]
        steps=[sf.methods.Drop(), sf.methods.Noise(variables=["height"], variance_share=0.3)],
        release=Writing(title="Cohort", attack_seconds=0, accept_attacks="a test"),
    )
    data = sf.Dataset(frame, plan.schema)
    sf.protect(data, plan, key=bytes(32)).write(folder, ledger=False)


def test_the_numbers_are_those_of_the_library(tmp_path):
    folder = tmp_path / "release"
    write_release(folder)
    work = Work(Workshop(), DataSource(where="", title=""), "", tmp_path)
    place = {"folder": str(folder), "stamp": ""}
    opened = open_received(work, **place)
    assert opened["parties"] == {"title": "Cohort"}
    noised = [item["name"] for item in opened["tables"][""]["variables"] if item["noise"]]
    assert noised == ["height"]
    settings = {"family": "gaussian", "method": "moments"}
    found = fit_received(work, table="", formula="systolic ~ height", settings=settings, **place)
    wanted = sf.fit("systolic ~ height", folder, method="moments")
    rows = {row["term"]: row for row in found["rows"]}
    expected = {row["term"]: row for row in wanted.rows}
    assert rows["height"]["estimate"] == expected["height"]["mean"]
    assert rows["height"]["naive"] == expected["height"]["naive"]
    assert rows["height"]["naive_low"] < rows["height"]["naive"] < rows["height"]["naive_high"]
    assert abs(rows["height"]["estimate"]) > abs(rows["height"]["naive"])
    seen = explore_received(work, table="", **place)
    same = sf.explore(folder)
    assert [row["estimate"] for row in seen["numbers"]] == pytest.approx(
        [row["estimate"] for row in same.rows]
    )


def test_a_variable_that_cannot_be_corrected_is_taken_as_it_is_where_asked(studio, tmp_path):
    frame = sf.datasets.cohort(400).select("sex", "systolic", "height")
    plan = sf.Plan(
        schema={"sex": "quasi", "height": "quasi", "systolic": "sensitive"},
        steps=[sf.methods.KAnonymity(k=3, output="value")],
        release=Writing(attack_seconds=0, accept_attacks="a test"),
    )
    folder = studio.root / "alike"
    sf.protect(sf.Dataset(frame, plan.schema), plan, key=bytes(32)).write(folder, ledger=False)
    session = studio.begin("empty")
    studio.post(f"{session}/analyse/open", {"folder": str(folder)})
    fields = {"formula": "systolic ~ height", "table": "", "as-clean": ["height"]}
    studio.post(f"{session}/analyse/fit", fields)
    kept = json.loads((studio.folder / session.rpartition("/")[2] / "analysis.json").read_text())
    assert kept["models"][0]["settings"]["clean"] == ["height"]
    work = Work(Workshop(), DataSource(where="", title=""), "", tmp_path)
    place = {"folder": str(folder), "stamp": "", "table": "", "formula": "systolic ~ height"}
    chosen = {"family": "gaussian", "method": "moments"}
    with pytest.raises(SfumatoError, match="no description says how to undo it"):
        fit_received(work, settings=chosen, **place)
    found = fit_received(work, settings={**chosen, "clean": ["height"]}, **place)
    assert "height" in [row["term"] for row in found["rows"]]


def test_a_received_release_is_analysed_in_a_browser(tab, studio):
    write_release(studio.root / "received")
    session = studio.begin("empty")
    tab.goto(f"http://{studio.host}{studio.prefix}{session}/analyse")
    tab.get_by_role("textbox", name="Folder of the release").fill("/etc")
    press(tab, "Open it")
    tab.get_by_text("This place is not open to the studio.").wait_for()
    tab.get_by_role("textbox", name="Folder of the release").fill(str(studio.root))
    press(tab, "Open it")
    tab.get_by_text("There is no release in this folder.").wait_for()
    tab.get_by_role("textbox", name="Folder of the release").fill(str(studio.root / "received"))
    press(tab, "Open it")
    tab.get_by_text("400 records").wait_for()
    for formula, answer in (
        ("systolic ~ weight", tab.get_by_role("alert").filter(has_text="'weight' is not in")),
        ("systolic ~ height", tab.get_by_role("cell", name="height", exact=True)),
    ):
        tab.get_by_label("Formula").fill(formula)
        tab.get_by_label("Method").select_option("moments")
        press(tab, "Fit it")
        answer.wait_for()
    press(tab, "Take a first look")
    tab.get_by_role("heading", name="Numbers").wait_for()
    # A page that fetches itself leaves alone what somebody is just filling in.
    tab.get_by_label("Formula").fill("systolic ~")
    tab.get_by_label("Method").select_option("simex")
    script = f"{studio.prefix}/static/studio.js"
    tab.evaluate("document.querySelector('#main > h1').id = 'old'")
    tab.evaluate("async script => { await (await import(script)).refresh(); }", script)
    assert tab.locator("#old").count() == 0
    assert tab.get_by_label("Formula").input_value() == "systolic ~"
    assert tab.get_by_label("Method").input_value() == "simex"
