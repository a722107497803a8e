"""A sample of people; who is in danger, by what, and what was not looked at."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom
from tests.conftest import LIBRARIES, drawn, in_library

import sfumato as sf
from sfumato.parameters import ParameterError
from sfumato.risk.protection.sampling import _add_up_to, population_interval

EXAMPLE = pl.DataFrame(
    {
        "diagnosis": ["cancer", "cancer", "cancer", "arthrosis", "diabetes"],
        "gender": ["f", "m", "f", "m", "f"],
        "age": [50, 40, 35, 64, 49],
    }
)


def data(frame=EXAMPLE, **columns):
    roles = {name: columns.get(name, sf.Column(role="quasi")) for name in frame.columns}
    return sf.Dataset(frame, sf.Schema(roles))


# A sample ------------------------------------------------------------------------------------


@pytest.mark.parametrize("tolerance", [None, {"systolic": 5}])
def test_a_sample_is_exact_for_those_drawn(cohort, tolerance):
    names: dict[str, Any] = {
        "known": ["sex", "region", "systolic"], "sensitive": ["smoking"], "tolerance": tolerance,
    }  # fmt: skip
    whole = sf.risk.Peers(**names).measure(cohort)
    some = sf.risk.Peers(**names, individuals=60).measure(cohort)
    drawn = some.records["smoking"].is_not_nan()
    assert drawn.sum() == 60
    assert some.records["smoking"].filter(drawn).equals(whole.records["smoking"].filter(drawn))
    low, high = some.interval
    assert low <= some.value <= high
    assert low <= whole.value <= high  # for the sample that follows from these data
    assert "estimate: 60 of 300" in " ".join(some.warnings)
    assert math.isnan(some.details["fewest_protective_peers"])
    assert some.details["breached_records_at_worst"] == round(high * 300)
    assert some.sampled == (60, 300)
    with pytest.raises(ParameterError, match="does not exist"):
        sf.risk.Peers(**names, individuals=60, seed=1)
    every = sf.risk.Peers(**names, individuals=300).measure(cohort)
    assert every.plain() == whole.plain()


def test_a_sample_does_not_depend_on_order_or_library(cohort_frame):
    schema = sf.datasets.cohort_schema()
    measure = sf.risk.Peers(known=["sex", "region"], sensitive=["smoking"], individuals=40)
    order = np.random.default_rng(0).permutation(len(cohort_frame))
    found = measure.measure(sf.Dataset(cohort_frame, schema))
    mixed = measure.measure(sf.Dataset(cohort_frame[order], schema))
    assert mixed.records.equals(found.records[order])
    for library in LIBRARIES:
        frame = in_library(cohort_frame, library)
        assert measure.measure(sf.Dataset(frame, schema)).plain() == found.plain()


def test_a_target_on_a_sample_is_held_against_the_worst_end(cohort):
    measure = sf.risk.Peers(known=["sex"], sensitive=["smoking"], individuals=30)
    found = measure.measure(cohort)
    assert found.value == 0
    assert found.details["peers_at_worst"] == found.interval[1] > 0


@pytest.mark.parametrize(("records", "drawn"), [(20, 7), (40, 39), (15, 15), (9, 1)])
def test_the_interval_holds_as_often_as_it_says(records, drawn):
    for total in range(records + 1):
        ways, missed = math.comb(records, drawn), 0
        for found in range(max(0, drawn - records + total), min(drawn, total) + 1):
            low, high = population_interval(found, drawn, records)
            assert found <= low <= high <= records - (drawn - found)
            often = math.comb(total, found) * math.comb(records - total, drawn - found)
            missed += 0 if low <= total <= high else often
        assert Fraction(missed, ways) <= Fraction(5, 100)


# What is told --------------------------------------------------------------------------------


def test_which_combinations_were_left_out():
    hard = data(
        age=sf.Column(role="quasi", accessibility=0.4),
        gender=sf.Column(role="quasi", accessibility=0.5),
    )
    names = ["diagnosis", "gender", "age"]
    found = sf.risk.Peers(known=names, sensitive=names, effort=1).measure(hard)
    assert found.details["left_out"] == "gender + age and what contains them"
    assert "gender + age" in found.warnings[0]
    found = sf.risk.Peers(known=names, sensitive=names, most=1).measure(data())
    assert found.details["left_out"] == "all of more than 1 variable"
    assert "all of more than 1 variable" in found.warnings[0]
    both = sf.risk.Peers(known=names, sensitive=names, most=2, effort=0.5).measure(hard)
    assert both.details["left_out"] == "all of more than 2 variables and age and what contains them"
    many = pl.DataFrame({f"v{at}": [0, 1] for at in range(8)}).with_columns(s=pl.Series([0, 1]))
    dear = {name: sf.Column(role="quasi", accessibility=0.5) for name in many.columns}
    found = sf.risk.Peers(sensitive=["s"], effort=1).measure(data(many, **dear))
    # Three of nine cost too much: s itself is never among what is known.
    assert found.details["left_out"].count(" + ") == 20
    assert "at least 46 more" in found.details["left_out"]


def test_combinations_that_breach_most():
    found = sf.risk.Peers(known=["gender", "age"], sensitive=["diagnosis"]).measure(data())
    assert found.details["breaching_combinations"] == [
        {"sensitive": "diagnosis", "known": "age", "records": 5}
    ]
    released = sf.risk.Peers(known=["gender", "age"], sensitive=["diagnosis"]).measure(
        data(), data()
    )
    assert "breaching_combinations" not in released.details
    assert released.audience == "public"


def test_a_release_may_have_lost_a_variable():
    measure = sf.risk.Peers(known=["gender", "age"], sensitive=["diagnosis"], tolerance={"age": 1})
    found = measure.measure(data(), data(EXAMPLE.drop("age")))
    assert found.details["known"] == ("gender",)
    assert found.records["diagnosis"].to_list() == pytest.approx(
        [1 / 3, 1 / 2, 1 / 3, 1 / 2, 2 / 3]
    )


@drawn("library", LIBRARIES)
def test_who_in_every_library(library):
    frame = in_library(EXAMPLE, library)
    found = sf.peering.who(sf.Dataset(frame), ["diagnosis"], ["gender", "age"], individuals=2)
    assert type(found) is type(frame)
    assert len(found) == 5
    rows = pl.DataFrame(found) if library != "pandas" else pl.from_pandas(found)
    assert rows["ppp"].drop_nulls().len() == 2
    values = sf.peering.by_value(sf.Dataset(frame), "diagnosis", ["gender"])
    assert type(values) is type(frame)


def test_who_says_what_the_measure_says(cohort):
    known, secrets = ["sex", "region", "systolic"], ["smoking", "education"]
    found = sf.peering.who(cohort, secrets, known, tolerance={"systolic": 3}, p=0.1)
    told = sf.risk.Peers(known=known, sensitive=secrets, tolerance={"systolic": 3}, p=0.1).measure(
        cohort
    )
    for name in secrets:
        one = found.filter(variable=name)
        assert one["least_ppp"].to_list() == told.records[name].to_list()
        row = told.table.filter(variable=name).row(0, named=True)
        assert int((~one["upward"]).sum()) == row["breached_records"]
        assert one["breach_by"].null_count() == int(one["upward"].sum())
    assert found["record"].to_list() == [at for at in range(300) for _ in secrets]


def test_values_called_missing():
    frame = pl.DataFrame({"a": [1, 1, 1], "s": ["missing", None, "x"]})
    found = sf.peering.by_value(sf.Dataset(frame), "s", ["a"])
    assert found.columns == ["missing (value)", "x", "missing"]


def test_a_budget_refuses_with_what_would_fit(cohort):
    measure = sf.risk.Peers(
        known=["sex", "systolic"], sensitive=["smoking"], tolerance={"systolic": 3}, budget=500
    )
    with pytest.raises(sf.SfumatoError, match="individuals=") as caught:
        measure.measure(cohort)
    assert "budget of 500" in str(caught.value)


def test_where_nothing_is_known_the_variable_is_named():
    with pytest.raises(sf.SfumatoError, match="besides 'diagnosis'"):
        sf.risk.Peers(known=["diagnosis"], sensitive=["diagnosis"]).measure(data())
    gone = data(EXAMPLE.select("diagnosis"))
    with pytest.raises(sf.SfumatoError, match="besides 'diagnosis'"):
        sf.risk.Peers(known=["age"], sensitive=["diagnosis"]).measure(data(), gone)
    hard = data(age=sf.Column(role="quasi", accessibility=0.2))
    dear = sf.risk.Peers(known=["age"], sensitive=["diagnosis"], effort=0.5)
    with pytest.raises(sf.SfumatoError, match=r"'diagnosis' .* effort of 0\.5"):
        dear.measure(hard)


def test_a_measured_secret_without_a_tolerance_is_warned_of():
    frame = pl.DataFrame(
        {
            "sex": ["f", "m"] * 30,
            "glucose": [5 + at / 1000 for at in range(60)],
            "ill": [0.0, 1.0, 1.0] * 20,
        }
    )
    plain = sf.risk.Peers(known=["sex"], sensitive=["glucose", "ill"]).measure(data(frame))
    assert plain.value == 0  # although everybody has about the same glucose
    (warning,) = plain.warnings
    assert "without a tolerance: glucose." in warning
    near = sf.risk.Peers(known=["sex"], sensitive=["glucose"], tolerance={"glucose": 0.1})
    found = near.measure(data(frame))
    assert found.value == 1
    assert "without a tolerance" not in " ".join(found.warnings)


def test_numbers_that_came_as_text_are_equal_as_numbers() -> None:
    frame = pl.DataFrame({"age": ["30", "30.0", "30"], "ill": ["1", "1.0", "1.00"]})
    kinds = {"age": ("quasi", "integer"), "ill": ("sensitive", "integer")}
    schema = sf.Schema({name: sf.Column(role=r, kind=k) for name, (r, k) in kinds.items()})  # type: ignore[arg-type]
    assert sf.risk.Peers().measure(sf.Dataset(frame, schema)).value == 1.0


@given(st.integers(1, 3000), st.data())
def test_chances_are_those_of_the_hypergeometric_distribution(records, data):
    total, drawn = (data.draw(st.integers(0, records)) for _ in range(2))
    successes = data.draw(st.integers(-1, drawn))
    expected = hypergeom.cdf(successes, records, total, drawn)
    assert _add_up_to(successes, records, total, drawn) == pytest.approx(expected, abs=1e-10)
