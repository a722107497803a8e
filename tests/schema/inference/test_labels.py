"""Labels of Stata and SPSS files are kept, and speak for roles and kinds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import SchemaError
from sfumato.schema import Column, Schema
from sfumato.schema.inference import suggest
from sfumato.suggestion.first_plan import first_plan

LABELS = {
    "v1": "Age of respondent",
    "v2": "R's answer to the first question",
    "v3": "Trust in government",
    "v4": "Highest level of education completed",
    "v5": "Household income per month",
    "v6": "Do you have a mobile phone?",
}
VALUES = {
    "v2": {1: "Male", 2: "Female"},
    "v3": {1: "low", 2: "medium", 3: "high", -9: "Refused"},
    "v4": {1: "Primary", 2: "Lower secondary", 3: "University", 8: "Don't know"},
    "v6": {1: "Yes", 2: "No"},
}


@pytest.fixture(scope="module", params=[".sav", ".dta"])
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> sf.Dataset:
    pyreadstat = pytest.importorskip("pyreadstat")
    draw = np.random.default_rng(1)
    frame = pl.DataFrame(
        {
            "v1": draw.integers(18, 91, 200),
            "v2": draw.integers(1, 3, 200),
            "v3": draw.choice([1, 2, 3, -9], 200),
            "v4": draw.choice([1, 2, 3, 8], 200),
            "v5": draw.integers(500, 9000, 200),
            "v6": draw.integers(1, 3, 200),
        }
    )
    path: Path = tmp_path_factory.mktemp("labels") / f"data{request.param}"
    write = pyreadstat.write_sav if request.param == ".sav" else pyreadstat.write_dta
    write(frame, path, column_labels=LABELS, variable_value_labels=VALUES)
    return sf.read(path)


def test_labels_are_in_the_schema(data: sf.Dataset) -> None:
    assert {name: data.schema[name].label for name in data.columns} == LABELS
    labels = data.schema["v3"].labels
    assert labels == {"1": "low", "2": "medium", "3": "high", "-9": "Refused"}


def test_labels_speak_for_roles_and_kinds(data: sf.Dataset) -> None:
    found = Schema.infer(data.frame, known=data.schema)
    assert {name: f"{column.role} {column.kind}" for name, column in found.items()} == {
        "v1": "quasi integer",
        "v2": "quasi nominal",
        "v3": "None ordinal",
        "v4": "quasi ordinal",
        "v5": "sensitive integer",
        "v6": "None nominal",
    }
    assert found["v1"].reason.startswith("Its label suggests age")
    assert (found["v3"].missing, found["v4"].missing) == ((-9,), (8,))


def test_the_first_plan_keeps_labels_of_variables_only(data: sf.Dataset) -> None:
    plan = sf.Plan.parse(first_plan(data).text(comments=True))
    assert plan.schema["v1"].label == LABELS["v1"]
    assert plan.schema["v4"].missing == (8,)
    assert plan.schema["v4"].labels is None
    declared = data.with_schema(plan.schema)
    assert declared.schema["v4"].labels == data.schema["v4"].labels


def test_names_come_before_labels() -> None:
    known = {"school": Column(label="Number of the interviewer")}
    found = suggest(pl.DataFrame({"school": [1, 2, 3, 4] * 20}), known)["school"]
    assert found.reason.startswith("Its name suggests")


def test_a_word_in_a_label_is_no_identifier() -> None:
    hours = np.random.default_rng(0).integers(0, 60, 300).tolist()
    known = {"q9": Column(label="Hours on the phone in the last month")}
    assert suggest(pl.DataFrame({"q9": hours}), known)["q9"].role is None


def test_labels_can_be_declared_in_a_plan() -> None:
    text = (
        'version = 1\n[columns]\nx = { role = "quasi", label = "Sex", labels = { 1 = "male" } }\n'
    )
    plan = sf.Plan.parse(text)
    assert (plan.schema["x"].label, plan.schema["x"].labels) == ("Sex", {"1": "male"})
    assert sf.Plan.parse(plan.text()).schema == plan.schema


@pytest.mark.parametrize("wrong", [{"label": 3}, {"labels": ["male"]}, {"labels": "male"}])
def test_wrong_labels_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SchemaError, match="label is text"):
        Column(**wrong)  # type: ignore[arg-type]


def test_special_missing_values_of_stata_can_be_used(tmp_path: Path) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    import pandas as pd

    frame = pd.DataFrame({"a": [1.0, "a", 2.0], "b": [1, 2, 3]})
    pyreadstat.write_dta(frame, tmp_path / "x.dta", missing_user_values={"a": ["a"]})
    data = sf.read(tmp_path / "x.dta")
    assert data.column("a").to_list() == [1, None, 2]
