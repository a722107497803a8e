"""Kinds that values speak for."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from tests.schema.inference.suggested import one

KIND_CASES: list[tuple[str, list[Any]]] = [
    ("continuous", [0.5, 1.25, 3.0]),
    ("integer", [1.0, 2.0, None, *range(3, 40)]),
    ("integer", list(range(10, 90)) * 2),
    ("nominal", [1, 2, 3] * 20),
    ("nominal", [0, 1, 0, 1]),
    ("nominal", [True, False, None]),
    ("date", [dt.date(2020, 1, 1), dt.date(2021, 1, 1)]),
    ("date", [dt.datetime(2020, 1, 1, 12), None]),  # noqa: DTZ001 - as frames hold them
    ("date", ["2020-01-31", "2021-02-28"] * 3),
    ("date", ["2020-01-31T10:00:00Z", "2021-02-28 11:30"] * 3),
    ("nominal", ["2020-01-31", "2021-02-30"] * 3),
    ("nominal", ["a", "b", "c"] * 20),
    ("text", [f"word {i} and more" for i in range(40)]),
]


@pytest.mark.parametrize(("kind", "values"), KIND_CASES)
def test_kinds(kind: str, values: list[Any]) -> None:
    assert one("q1", values).kind == kind


def test_codes_are_called_codes() -> None:
    assert "Only 3 different whole numbers: taken as codes" in one("q1", [1, 2, 3] * 20).reason
    assert one("children", [0, 1, 2] * 20).kind == "integer"
    assert one("pclass", [1, 2, 3] * 20).kind == "ordinal"
    assert one("zip", [10115, 10117, 20095] * 20).kind == "nominal"


def test_years_are_numbers() -> None:
    assert one("year", [2019, 2020, 2021] * 9).kind == "integer"
