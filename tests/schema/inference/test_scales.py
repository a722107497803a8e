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


ORDERS = [
    ["low", "Medium", "HIGH"],
    ["bajo", "medio", "alto"],
    ["niedrig", "mittel", "hoch"],
    ["faible", "moyen", "élevé"],
    ["1st", "2nd", "3rd", "10th"],
    ["1st class", "2nd class", "3rd class"],
    ["never", "rarely", "sometimes", "often", "always"],
    ["nie", "selten", "manchmal", "oft", "immer"],
    ["<5", "5-17", "18-24", "65+"],
    ["00-04", "05-09", "10-14"],
    ["under 18", "18 to 64", "65 and over"],
    ["Stage IIa", "stage IIIb", "stage IV"],
    ["Q1", "Q2", "Q3", "Q4"],
    ["strongly disagree", "disagree", "neutral", "agree", "strongly agree"],
    ["bottom 25%", "mid 50%", "top 25%"],
    ["Preschool", "9th", "HS-grad", "Some-college", "Bachelors", "Doctorate"],
]


@pytest.mark.parametrize("levels", ORDERS)
def test_levels_are_offered_in_their_order(levels: list[str]) -> None:
    shuffled = sorted(levels, key=lambda level: level[::-1]) * 9
    assert one("q1", shuffled).domain == tuple(levels)


def test_levels_that_say_not_known_become_codes_for_missing() -> None:
    column = one("q1", ["low", "high", "Unknown", "medium"] * 9)
    assert (column.domain, column.missing) == (("low", "medium", "high"), ("Unknown",))


def test_levels_that_could_change_places_get_no_order() -> None:
    assert one("q1", ["low", "middle", "medium", "high"] * 9).domain is None
    assert one("q1", ["low", "high", "other"] * 9).domain is None


def test_area_codes_are_no_bands() -> None:
    assert one("q1", ["01-01301", "06-08507", "12-05700"] * 9).kind == "nominal"
