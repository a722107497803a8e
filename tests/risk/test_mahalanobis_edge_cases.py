"""Data that would read as safe by accident: missing values, constants, planes, huge numbers."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from tests.risk.test_mahalanobis import NAMES, data, drawn, noisy

import sfumato as sf
from sfumato.errors import MeasureError
from sfumato.kernels.mcd import robust_covariance
from sfumato.risk.mahalanobis import Mahalanobis


@pytest.mark.parametrize("definition", ["sdcmicro", "paper"])
@pytest.mark.parametrize("kind", ["plain", "missing", "nothing", "constant", "at the mean"])
def test_identical_data_are_all_at_risk(definition, kind):
    values = drawn(101)
    if kind == "missing":
        values[3, 1] = np.nan
    if kind == "nothing":
        values[5] = np.nan
    if kind == "constant":
        values[:, 0] = 7
    if kind == "at the mean":
        values = np.round(values * 4)
        values[0] = 2 * values[50:].mean(0)
        values[1:50] = 2 * values[0] - values[51:100]
        values[50] = values[0]
        values[100] = values[0]
    found = Mahalanobis(definition=definition).measure(data(values), data(values))
    assert found.value == found.details["risk1_on_original_scale"] == 1.0
    assert found.table["mahalanobis"].to_list() == [1.0] * len(found.table)
    told = " ".join(found.warnings)
    assert ("1 records lack a value" in told) == (kind == "missing")
    assert ("1 records have no value to compare" in told) == (kind == "nothing")
    assert ("one value only: 'a'" in told) == (kind == "constant")
    assert found.records["at_risk"].null_count() == (kind == "nothing")


def test_a_mostly_zero_variable_is_refused_by_name():
    values = drawn(200)
    values[:130, 1] = 0
    with pytest.raises(MeasureError, match="same value of 'b'.*Hint: leave it out") as error:
        Mahalanobis().measure(data(values), data(values))
    assert "'a'" not in str(error.value)
    rest = Mahalanobis(variables=["a", "c"]).measure(data(values), data(values))
    assert rest.value == 1.0


def test_variables_that_follow_from_each_other_are_refused_by_name():
    values = drawn(200)
    values[:130, 2] = 3 * values[:130, 0] - 1
    with pytest.raises(MeasureError, match="'a', 'c' follow from each other"):
        Mahalanobis().measure(data(values), data(values))


def test_constants_alone_are_refused():
    values = np.ones((50, 2))
    with pytest.raises(MeasureError, match="one value only: 'a', 'b'"):
        Mahalanobis().measure(data(values, NAMES[:2]), data(values, NAMES[:2]))


def test_too_few_complete_records_are_refused():
    values = drawn(40)
    values[6:, 0] = np.nan
    with pytest.raises(MeasureError, match="6 records have a value in all of 3 variables"):
        Mahalanobis().measure(data(values), data(values))


def test_infinite_values_are_refused_by_name():
    values = drawn(40)
    values[0, 1] = np.inf
    with pytest.raises(MeasureError, match="'b' holds infinite"):
        Mahalanobis().measure(data(values), data(values))


def test_values_near_the_end_of_all_numbers_are_counted_or_refused():
    values = drawn(40) * 1e300
    assert Mahalanobis().measure(data(values), data(values)).value == 1.0
    values[:, 1] = 1.7e308 * np.linspace(-1, 1, 40)
    with pytest.raises(MeasureError, match="'b' spreads further"):
        Mahalanobis().measure(data(values), data(values))


def test_missing_values_hide_nobody():
    original = drawn(300)
    released = original.copy()
    original[:40, 0], released[30:60, 1] = np.nan, np.nan
    released[60:, 2] += 5 * np.random.default_rng(0).standard_normal(240)
    found = Mahalanobis().measure(data(original), data(released))
    assert found.details["risk1_on_original_scale"] == 1.0
    assert found.details["comparable_records"] == 300
    assert any("60 records lack a value" in one for one in found.warnings)
    assert any("became missing" in one for one in found.warnings)


def test_incomplete_records_are_judged_by_what_they_have():
    complete = drawn(300)
    original = complete.copy()
    original[0, 2] = np.nan
    found = Mahalanobis().measure(data(original), data(noisy(original)))
    spread = (original - np.nanmean(original, 0)) / np.nanstd(original, axis=0, ddof=1)
    covariance = robust_covariance(np.ascontiguousarray(spread[1:].T)).covariance[:2, :2]
    here = spread[0, :2]
    distance = np.sqrt(here @ np.linalg.solve(covariance, here))
    after = noisy(original)
    after = (after - np.nanmean(after, 0)) / np.nanstd(after, axis=0, ddof=1)
    expected = np.abs(after[0, :2] - here).min() / (0.05 * distance)
    assert found.records["critical_w1"][0] == pytest.approx(expected)


def test_a_suppressed_record_is_not_comparable_and_never_called_safe():
    original = drawn(60)
    released = original.copy()
    released[:3] = np.nan
    found = Mahalanobis().measure(data(original), data(released))
    assert found.details["comparable_records"] == 57
    assert found.records["at_risk"][:3].is_null().all()
    assert found.records["critical_w1"][:3].is_null().all()
    assert any("3 records have no value to compare" in one for one in found.warnings)


def test_a_release_with_one_value_counts_as_the_mean():
    original = drawn(200)
    released = original.copy()
    released[:, 1] = 4
    found = Mahalanobis().measure(data(original), data(released))
    assert found.value == 1.0  # 'a' and 'c' give it away
    assert any(
        "one value in the release, which counts as its mean: 'b'" in w for w in found.warnings
    )


def test_other_numbers_of_records_are_refused():
    with pytest.raises(MeasureError, match="record by record"):
        Mahalanobis().measure(data(drawn(30)), data(drawn(31)))


def test_a_target_is_held_against_the_worse_of_both_scales():
    random = np.random.default_rng(6)
    frame = pl.DataFrame({"x": random.lognormal(size=2000), "y": random.lognormal(size=2000)})
    plan = sf.Plan(
        schema=sf.Schema({"x": "sensitive", "y": "sensitive"}),
        steps=[sf.methods.Topcode(variables=["x", "y"], top_quantile=0.99)],
        targets={"mahalanobis.max": 0.5},
    )
    with pytest.raises(sf.SfumatoError, match="mahalanobis at most 0.5: MISSED"):
        sf.protect(sf.Dataset(frame, plan.schema), plan, key=bytes(32))
