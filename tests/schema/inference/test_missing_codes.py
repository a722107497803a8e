"""Numbers that stand for "no value" are suggested with their count; other numbers never are."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.schema.inference.suggested import one

from sfumato.schema import Column
from sfumato.schema.inference import suggest

AGES = np.random.default_rng(1).integers(18, 90, 400).tolist()
INCOMES = np.random.default_rng(2).integers(800, 20_000, 400).tolist()


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        ([*AGES, *[999] * 30], (999,)),
        ([*AGES, *[-9] * 30, *[-8] * 2], (-9, -8)),
        ([*AGES, *[998] * 8, *[999] * 30], (998, 999)),
        ([*INCOMES, *[9_999_999] * 20], (9_999_999,)),
        ([*np.array(AGES) + 1900, *[9999] * 30], (9999,)),
        ([1, 2] * 60 + [9] * 7, (9,)),
        ([1, 2, 3, 4, 5] * 30 + [99] * 7, (99,)),
        ([1, 2, 3] * 40 + [-1] * 6 + [-2], (-2, -1)),
    ],
)
def test_codes_far_from_the_rest(values: list[int], codes: tuple[int, ...]) -> None:
    column = one("V1", values)
    assert column.missing == codes
    records = sum(value in codes for value in values)
    assert f"{records} records have" in column.reason
    assert not any(str(code) in column.reason.split("records have")[1] for code in codes)


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        ([*[60.5 + n % 61 for n in range(600)], *[999.0] * 40, *[-9.0] * 5], (-9, 999)),
        ([*[90 + n % 90 for n in range(900)], *[8888] * 6], (8888,)),
        ([*[18 + n % 77 for n in range(900)], *[-9] * 5], (-9,)),
    ],
)
def test_codes_among_measurements_are_found_however_few(values, codes) -> None:
    assert one("V1", values).missing == codes


@pytest.mark.parametrize(
    "values",
    [
        [*AGES, *[99] * 30],  # may be an age
        [*INCOMES, 41_310, *[99_999] * 30],  # may be a top code
        [*AGES, 999],  # one person
        [*INCOMES, 9_999_999],
        [-3, -2, -1, 0, 1, 2, 3] * 20,  # a scale
        [*range(-9, 31)] * 5,  # temperatures
        [0, 1, 2, 3, 4, 5, 8] * 20,  # brothers and sisters
        [1, 2, 3, 4, 5, 6, 7, 8, 9] * 20,
        [9] * 40,
        [2.5, 999.0, 3.25] * 20,
        [*range(900, 1000)] * 6,
    ],
)
def test_values_are_no_codes(values: list[float]) -> None:
    assert one("V1", values).missing == ()


@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=60))
def test_a_value_that_few_records_share_is_never_a_code(values: list[int]) -> None:
    """A cell with a code for missing leaves as it is: it must not be a person's own value."""
    column = one("V1", values)
    assert not column.missing or max(values.count(code) for code in column.missing) >= 5


def test_what_the_codes_are_taken_from_decides_the_rest() -> None:
    assert one("AGEP", [*AGES, *[999] * 30]).role == "quasi"


def test_codes_with_labels() -> None:
    labels = {"1": "yes", "2": "no", "8": "8. Don't know", "9": "Refused", "77": "Not applicable"}
    known = {"q1": Column(labels=labels, missing=(9,))}
    column = suggest(pl.DataFrame({"q1": [1, 2, 8, 9] * 10}), known)["q1"]
    assert column.missing == (9, 8)
    assert "10 records have a code for missing, which is labelled so" in column.reason
