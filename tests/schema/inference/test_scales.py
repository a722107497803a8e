"""Ordered scales."""

from __future__ import annotations

import pytest
from tests.schema.inference.suggested import one

ORDERED = [
    ["low", "Medium", "HIGH"] * 9,
    ["niedrig", "mittel", "hoch"] * 9,
    ["I", "II", "III", "IV"] * 9,
    ["Stage IIa", "stage IIIb"] * 9,
    ["strongly agree", "agree", "Disagree", "unknown"] * 9,
    ["Bachelors", "HS-grad", "Some-college", "10th"] * 9,
    ["20-29", "30-39", "40+"] * 9,
    ["[0-10)", "[10-20)", "[90-100)"] * 9,
    ["<=50K", ">50K"] * 9,
    ["bottom 25%", "mid 50%", "top 25%"] * 9,
]
UNORDERED = [
    ["never", "former", "current"] * 9,
    ["2021-01", "2021-02"] * 9,
    ["1", "2", "3"] * 9,
]


@pytest.mark.parametrize("values", ORDERED)
def test_scales_have_an_order(values: list[str]) -> None:
    assert one("q1", values).kind == "ordinal"


@pytest.mark.parametrize("values", UNORDERED)
def test_other_levels_have_none(values: list[str]) -> None:
    assert one("q1", values).kind == "nominal"
