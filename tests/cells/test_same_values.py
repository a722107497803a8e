"""Spellings and cents that say the same: the fast ways against slow ones."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.cells.confidential import encode_confidential
from sfumato.cells.same_values import TOLERANCE, unite_values
from sfumato.schema.spelling import normalise_spelling, normalise_spellings

SPELLINGS = [
    "HIV", "hiv", "Hiv ", " HIV", "HIV\u00a0", "H\u200bIV", "HI\u200dV", "\ufeffHIV", "HI\u00adV",
    "\uff28\uff29\uff36", "\u041dIV", "HÍV", "HIV\ufe0f", "HI\u034fV", "HIV.", "\u2060HIV",
    '"HIV"', "\tHIV\n", "HIV\u3164", "\U000e0048HIV", "\u210dIV",
]  # fmt: skip


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_one_disease_however_it_is_spelt(spelling):
    assert normalise_spelling(spelling) == "hiv"


@pytest.mark.parametrize(
    ("first", "second"),
    [("A+", "A-"), ("<5", ">5"), ("1.5", "15"), ("1-2", "12"), ("type 1", "type 2"), ("क", "ख")],
)
def test_what_differs_stays_apart(first, second):
    assert normalise_spelling(first) != normalise_spelling(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("HIV-positive", "hiv positive"), ("hiv_positive", "HIV  POSITIVE"), ("Straße", "STRASSE"),
        ("Ménière\u2019s", "meniere's"),
        ("A\u2212", "a-"), ("ﬁbrosis", "Fibrosis"), ("a-b-c", "A B C"),
    ],
)  # fmt: skip
def test_the_same_words(first, second):
    assert normalise_spelling(first) == normalise_spelling(second)


@settings(max_examples=200)
@given(st.lists(st.text(max_size=12) | st.text("aB -_.'`\"x1", max_size=12), min_size=1))
def test_many_texts_at_once_are_normalised_as_one_by_one(texts):
    texts = [text for text in texts if "\0" not in text] or [""]
    # Few texts go one by one; many in one pass, which must say the same.
    many = normalise_spellings(pl.Series([*texts, *["x"] * 40], dtype=pl.String))
    keys = normalise_spellings(pl.Series(texts, dtype=pl.String))
    assert many.head(len(texts)).to_list() == keys.to_list()
    assert keys.to_list() == list(map(normalise_spelling, texts))
    assert normalise_spellings(keys).to_list() == keys.to_list()  # once is enough


def readings(values, **column):
    data = sf.Dataset(pl.DataFrame({"x": values}), sf.Schema({"x": sf.Column(**column)}))
    return unite_values(encode_confidential(data, "x"), data.schema["x"])


numbers = st.floats(-1e9, 1e9, allow_nan=False) | st.integers(0, 10**7).map(float)


@settings(max_examples=150)
@given(st.lists(numbers, min_size=3, max_size=30), numbers, st.floats(-0.99, 0.99))
def test_numbers_within_the_tolerance_share_a_code_in_some_reading(others, number, share):
    near = number * (1 + share * TOLERANCE)
    values = [number, near, *others]
    if number == near:
        return
    found = readings(values, kind="continuous")
    assert any(reading.variable.codes[0] == reading.variable.codes[1] for reading in found)
    for reading in found:
        codes = reading.variable.codes
        order = np.argsort(values, kind="stable")
        assert (np.diff(codes[order]) >= 0).all()  # in the order of the numbers


@given(st.integers(0, 4000), st.integers(1, 50))
def test_small_whole_numbers_are_never_united(first, count):
    assert not readings(list(range(first, first + count)), kind="integer")


@pytest.mark.parametrize(
    "values",
    [
        [90000.00, 90000.01, 90000.02, 90000.03, 90000.04],
        [90000, 90001, 90002, 90003, 90004],
        [-0.00, 0.01, 0.02, 50000.0, 90000.0],
        ["90000.00", "90000.01", "9e4", "90000"],
        [1e300, 1.00000001e300, 5.0],
        [dt.datetime(2020, 1, 31, 23, 59), dt.datetime(2020, 2, 1, 0, 1)],  # noqa: DTZ001
    ],
)
def test_cents_seconds_and_last_digits_are_united(values):
    found = readings(values, kind="date" if isinstance(values[0], dt.date) else "continuous")
    assert min(len(np.unique(reading.variable.codes)) for reading in found) < len(values)


def test_codes_dates_and_categories_are_not():
    assert not readings([250010, 250011, 250012], kind="nominal")
    assert not readings([dt.date(2020, 1, 1), dt.date(2020, 1, 2)], kind="date")
    assert not readings([True, False], kind="nominal")
    assert not readings(["a", "b"], kind="nominal")


def test_blank_text_is_missing_and_declared_levels_stand_for_their_spellings():
    (found,) = readings(["low", "LOW", "\u200b", None], kind="ordinal", domain=("LOW", "high"))
    assert found.variable.codes.tolist() == [0, 0, -1, -1]
    assert found.variable.distinct.to_list() == ["LOW"]
    assert "3 spellings of 1 values" in found.describe()
    assert "low" not in found.describe().lower().replace("'x'", "").replace("follow", "")
