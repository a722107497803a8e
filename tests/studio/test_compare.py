"""Compare: the numbers of the page are those of the library."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from sfumato.data.linked import read_tables
from sfumato.errors import DataError
from sfumato.io.frames import wrap
from sfumato.studio.drawings import draw_bars, draw_forest
from sfumato.studio.source import DataSource
from sfumato.studio.tasks import Work, list_tasks
from sfumato.studio.worker import Workshop
from sfumato.suggestion.first_linked import first_linked_plan

FORMULA = "systolic ~ glucose + C(smoking)"


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Work:
    folder: Path = tmp_path_factory.mktemp("compare")
    sf.datasets.cohort(400).write_csv(folder / "cohort.csv")
    schema = sf.datasets.cohort_schema()
    plan = sf.Plan(
        schema=schema.changed(["height"], label="body height", unit="cm"),
        steps=[
            sf.methods.Drop(),
            sf.methods.Drop(variables=["postcode", "school", "birth_date"]),
            sf.methods.Noise(variables=["systolic", "glucose"], sd_share=0.3),
            sf.methods.KAnonymity(k=3),
        ],
        targets={"k.min": 3},
    )
    source = DataSource(where=str(folder / "cohort.csv"), title="cohort")
    return Work(workshop=Workshop(), source=source, plan_text=plan.text(), folder=folder)


@pytest.fixture(scope="module")
def release(work) -> sf.Release:
    return sf.protect(sf.read(work.source.where), work.table_plan, key=work.key)


def ask(work: Work, task: str, **parameters: Any) -> Any:
    return json.loads(json.dumps(list_tasks()[task].function(work, **parameters)))


def test_means_and_spreads_move_as_measured(work, release):
    compared = ask(work, "compare_variables")
    table = sf.utility.Moments().measure(release.original, release.dataset).table
    measured = {(row["variable"], row["statistic"]): row for row in wrap(table).rows(named=True)}
    assert compared["means"]
    for row in compared["means"]:
        for statistic in ("mean", "sd"):
            found = measured[row["variable"], statistic]
            assert row[statistic]["original"] == found["original"]
            assert row[statistic]["released"] == found["released"]
    (height,) = (row for row in compared["means"] if row["variable"] == "height")
    assert height["name"] == "body height"
    assert " cm" in height["mean"]["change"]


def test_missing_values_and_variables_that_left_are_told(work, release):
    compared = ask(work, "compare_variables")
    before = release.original.column("glucose").null_count() / len(release.original)
    assert compared["missing"]["glucose"][0] == pytest.approx(before)
    assert {"name", "postcode"} <= set(compared["left_out"])
    assert compared["records"] == [400, len(release.dataset)]
    for chart in compared["variables"]:
        bars = draw_bars(chart)
        assert sum(bar["size"] for bar in bars) == pytest.approx(300, abs=0.1)


def test_a_model_is_fitted_to_both_and_with_the_noise_taken_out(work, release):
    found = ask(work, "compare_model", formula=FORMULA, family="linear")
    measured = sf.utility.Coefficients(formula=FORMULA).measure(release.original, release.dataset)
    for row, expected in zip(found["terms"], wrap(measured.table).rows(named=True), strict=True):
        assert row["original"]["mean"] == expected["original"]
        assert row["released"]["low"] == expected["released_low"]
    fitted = {row["term"]: row for row in sf.fit(FORMULA, release).rows}
    assert found["noisy"] == ["systolic", "glucose"]
    for row in found["terms"]:
        assert row["corrected"]["mean"] == fitted[row["term"]]["mean"]
    drawn = draw_forest(found["terms"])
    assert len(drawn["rows"]) == len(found["terms"]) - 1  # without the intercept
    assert all(row["original"]["from"] <= row["original"]["at"] for row in drawn["rows"])


def test_a_model_whose_noise_cannot_be_taken_out_says_so(work):
    coarse = replace(work.table_plan.steps[3], output="value")  # nobody says which it was
    plan = replace(work.table_plan, steps=[*work.table_plan.steps[:3], coarse])
    other = replace(work, workshop=Workshop(), plan_text=plan.text())
    found = ask(other, "compare_model", formula="systolic ~ height", family="linear")
    assert "height" in found["trouble"]
    assert not any(row["corrected"] for row in found["terms"])


@pytest.fixture(scope="module")
def hospital(tmp_path_factory) -> Work:
    folder: Path = tmp_path_factory.mktemp("hospital")
    for name, table in sf.datasets.hospital(200).items():
        table.write_csv(folder / f"{name}.csv")
    plan = first_linked_plan(read_tables(folder)).plan
    tables = {
        name: replace(own, schema=own.schema.changed(own.schema.unknown, role="other"))
        for name, own in plan.tables.items()
    }
    source = DataSource(where=str(folder), title="hospital", linked=True)
    text = replace(plan, tables=tables).text()
    session = tmp_path_factory.mktemp("session")
    return Work(workshop=Workshop(), source=source, plan_text=text, folder=session)


def test_linked_tables_are_tried_together_and_compared_each(hospital):
    tried = ask(hospital, "try_plan")
    assert [row["measure"].partition(".")[0] for row in tried["targets"]] == ["joined view"]
    variables = ask(hospital, "list_variables")
    assert set(variables) == {*hospital.plan.tables, ""}
    assert not any(row["name"] == "stays.patient_id" for row in variables[""])
    step = hospital.plan.steps[0]
    checked = ask(hospital, "check_step", part="", position=0, method=step.name, settings={"k": 4})
    assert "patients.sex" in checked["treats"]
    assert "patients.postcode" not in checked["treats"]
    compared = ask(hospital, "compare_variables", table="stays")
    assert compared["variables"]
    with pytest.raises(DataError, match="no such table"):
        ask(hospital, "compare_variables", table="nowhere")
