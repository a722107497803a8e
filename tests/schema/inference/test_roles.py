"""Roles: what names need of values, and what values tell without a name."""

from __future__ import annotations

import datetime as dt

import pytest
from tests.schema.inference.suggested import one


def test_identifiers() -> None:
    for name in ("PassengerId", "id", "record_no", "Ticket", "Laufnummer"):
        found = one(name, range(100, 400, 3))
        assert found.role == "direct", name
        assert "identifier-like" in found.reason
    assert one("patient_id", [*range(30)] * 9).role == "person", "several records a patient"
    assert one("id", [1, 2, 3] * 30).role is None
    assert one("x", range(50)).role == "direct", "a running number"
    assert one("x", [i * i for i in range(50)]).role is None
    assert one("number_of_visits", [i * i for i in range(50)]).role is None, "a count"
    text = one("x", [f"q{i}" for i in range(50)])
    assert (text.role, text.kind) == ("direct", "text")
    assert "identifier-like" in text.reason


def test_a_nearly_unique_measurement_is_no_identifier() -> None:
    found = one("x", [i / 7 + 0.01 for i in range(100)])
    assert (found.role, found.kind) == (None, "continuous")
    assert "could find the person" in found.reason


@pytest.mark.parametrize("name", ["phone", "email", "passport", "has_photo"])
def test_yes_or_no_is_no_identifier(name: str) -> None:
    for values in (["yes", "no"] * 20, [0, 1] * 20, [True, False] * 20):
        found = one(name, values)
        assert found.role is None
        assert "but its values do not" in found.reason


def test_clusters_share_values() -> None:
    assert one("school", [1, 2, 3, 4] * 10).role == "cluster"
    assert one("school", [1, 2, 3, 4] * 10).kind == "nominal"
    assert one("household_id", [f"h{i // 2}" for i in range(60)]).role == "cluster"
    assert one("household_id", [f"h{i}" for i in range(60)]).role == "direct"
    assert one("HHID", [f"h{i // 3}" for i in range(300)]).role == "cluster"
    assert one("education_num", [*range(1, 17)] * 10).role == "quasi"
    assert one("hospital_charges", [i * 10.5 for i in range(60)]).role == "sensitive"


def test_weights() -> None:
    body = [60.5, 72.0, 81.3, 95.0] * 10
    survey = [0.4, 1.2, 0.9, 2.5] * 10
    assert one("weight", body, height=[170] * 40).role == "quasi"
    assert one("weight", body).role == "quasi"
    assert one("weight", [3.1, 3.5, 2.9, 4.0] * 10, height=[50] * 40).role == "quasi"
    assert one("weight", survey).role == "weight"
    assert one("weight", survey, height=[170] * 40).role == "weight"
    assert one("fnlwgt", [77516, 83311, 215646] * 10).role == "weight"
    assert one("survey_weight", [-1.0, 0.5, 2.0] * 10).role is None
    assert one("weight", ["light", "heavy"] * 20).role is None


def test_coordinates_are_degrees() -> None:
    assert one("long", [13.4, 11.5, -0.12] * 10).role == "quasi"
    assert one("long", [1300.4, 11.5, -0.12] * 10).role is None


def test_birth_is_told_with_its_danger() -> None:
    found = one("date_of_birth", [dt.date(1950, 1, 1), dt.date(1960, 2, 3)])
    assert (found.role, found.kind) == ("quasi", "date")
    assert "sex and postcode" in found.reason


def test_free_text_may_name_people() -> None:
    found = one("Bemerkungen", [f"came {i} times" for i in range(30)])
    assert (found.role, found.kind) == ("direct", "text")
    assert "people may be named" in found.reason
    assert one("note", [1, 2, 3, 4, 5, 6] * 9).role is None, "a school mark"


def test_values_of_sex_and_dates_speak_without_a_name() -> None:
    assert one("q1", ["m", "w", "d"] * 10).role == "quasi"
    assert one("q1", ["Male", "Female", "unknown"] * 10).role == "quasi"
    assert one("q1", [dt.date(2020, 1, day) for day in range(1, 20)]).role == "quasi"
    assert one("q1", [dt.date(2020, 1, 1)] * 9).role is None
