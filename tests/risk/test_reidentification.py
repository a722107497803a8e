"""Re-identification by fitting."""

from __future__ import annotations

import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import MeasureError


def found(frame, missing="value", budget=10_000, **columns):
    data = sf.Dataset(pl.DataFrame(frame), sf.Schema(columns))
    return sf.risk.Reidentification(missing=missing, budget=budget).measure(data)


AGE = sf.Column(role="quasi", kind="integer", domain=(0, 85))
ZIP = sf.Column(role="quasi", kind="text")


def test_a_value_within_a_range_of_another_is_hidden_and_the_range_is_not():
    told = found({"age": ["26", "[24;28]"]}, age=AGE)
    assert told.records["unique"].to_list() == [False, True]
    assert told.value == 0.5
    assert told.details["k_by_fitting"] == 1


def test_a_range_is_hidden_when_each_of_its_values_is():
    told = found({"age": ["[24;28]", "24", "25", "[26;27]", "28"]}, age=AGE)
    assert told.records["unique"].to_list() == [False] * 5
    assert told.details["k_by_fitting"] == 2
    assert told.details["guess"] == 0.5


def test_a_mask_stands_for_a_hundred_codes():
    every = [str(code) for code in range(93700, 93800)]
    assert found({"zip": ["937**", *every]}, zip=ZIP).value == 0
    assert found({"zip": ["937**", *every[:-1]]}, zip=ZIP).details["reidentifiable_records"] == 1


def test_variables_are_read_jointly():
    cells = {"a": ["{x;y}", "x", "y"], "b": ["{x;y}", "x", "y"]}
    columns = dict.fromkeys("ab", sf.Column(role="quasi", kind="nominal"))
    assert found(cells, **columns).records["unique"].to_list() == [True, False, False]


def test_both_readings_of_missing_are_reported():
    cells = {"age": [30, None, 41]}
    told = found(cells, age=AGE)
    assert told.value == 1
    assert told.details["reidentification_if_missing_is_wildcard"] == 1 / 3
    told = found(cells, "wildcard", age=AGE)
    assert told.value == 1 / 3
    assert told.details["reidentification_if_missing_is_value"] == 1


def test_what_the_budget_leaves_open_counts_as_unique_and_is_reported():
    told = found({"age": ["26", "[24;28]"]}, budget=0, age=AGE)
    assert told.value == 1
    assert told.details["undecided_records"] == 1
    assert told.records["undecided"].to_list() == [True, False]
    assert "1 records could not be decided" in told.warnings[0]


def test_without_generalised_cells_it_is_uniqueness(cohort):
    known = ["sex", "region", "education"]
    told = sf.risk.Reidentification(known=known).measure(cohort)
    exact = sf.risk.Uniqueness(known=known).measure(cohort)
    assert told.value == exact.value
    assert told.details["k_by_fitting"] == exact.details["k"]
    assert told.details["guess"] == pytest.approx(exact.details["marketer"])


def test_coarsened_data_by_fitting(cohort):
    coarse = sf.methods.Coarsen(variables=["birth_date", "household_size"], intervals=4)
    known = ["sex", "birth_date", "household_size"]
    told = sf.risk.Reidentification(known=known).measure(cohort, coarse.apply(cohort))
    assert told.baseline is not None
    assert told.value < told.baseline
    assert told.audience == "public"


def test_nothing_known_is_an_error():
    with pytest.raises(MeasureError, match="known to outsiders"):
        found({"age": [1]}, age=sf.Column(role="other"))
