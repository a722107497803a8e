"""Suggestions for public data, against what a person would say."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from sfumato.schema import Schema

PUBLIC: dict[str, dict[str, str]] = {
    "titanic": {
        "PassengerId": "direct integer",
        "Survived": "sensitive nominal",
        "Pclass": "quasi ordinal",
        "Name": "direct text",
        "Sex": "quasi nominal",
        "Age": "quasi continuous",
        "SibSp": "quasi integer",
        "Parch": "quasi integer",
        "Ticket": "direct text",
        "Fare": "sensitive continuous",
        "Cabin": "quasi text",
        "Embarked": "quasi nominal",
    },
    "adult": {
        "gender": "quasi nominal",
        "age": "quasi integer",
        "race": "quasi nominal",
        "marital_status": "quasi nominal",
        "education": "quasi ordinal",
        "native_country": "quasi nominal",
        "workclass": "quasi nominal",
        "salary": "sensitive ordinal",
        "occupation": "quasi nominal",
    },
    "cervical": {
        "pregnancies": "sensitive integer",
        "smoking": "sensitive nominal",
        "age": "quasi integer",
        "biopsy": "sensitive nominal",
    },
    "diabetes": {
        "gender": "quasi nominal",
        "age": "quasi ordinal",
        "race": "quasi nominal",
        "lab_procedures": "sensitive integer",
        "medications": "sensitive integer",
        "change": "None nominal",
        "diabetes_medication": "sensitive nominal",
        "readmitted": "sensitive nominal",
    },
    "exam": {
        "school": "cluster nominal",
        "normexam": "sensitive continuous",
        "schgend": "quasi nominal",
        "schavg": "None continuous",
        "vr": "None ordinal",
        "intake": "None ordinal",
        "standLRT": "None continuous",
        "sex": "quasi nominal",
        "type": "None nominal",
        "student": "direct integer",
    },
    "visual": dict.fromkeys(("x1", "y1", "x2", "y2", "x3", "y3"), "None continuous"),
}


def infer(folder: Path, name: str) -> Schema:
    return Schema.infer(pl.read_csv(folder / f"{name}.csv"))


@pytest.mark.parametrize("name", PUBLIC)
def test_public_data(shared_data: Path, name: str) -> None:
    found = infer(shared_data, name)
    assert {key: f"{one.role} {one.kind}" for key, one in found.items()} == PUBLIC[name]
    assert all(column.reason.endswith(".") for column in found.values())


def test_the_titanic_in_words(shared_data: Path) -> None:
    found = infer(shared_data, "titanic")
    assert "identifier-like" in found["PassengerId"].reason
    assert "identifier-like" in found["Ticket"].reason
    assert "place" in found["Embarked"].reason
    assert "Few records share" in found["Cabin"].reason
