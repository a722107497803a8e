"""Correlations before and after, against pandas and the published tables."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import LIBRARIES, drawn, generalised, in_library

import sfumato as sf
from sfumato.utility.correlations import correlate_correlations

# Tables S4 and S5 of Sánchez, Martínez & Domingo-Ferrer (2016), row after row.
UNMASKED = [
    0.001, 0.001, 0.045, -0.056, 0.043, 0.811, 0.003, -0.001,
    0.013, 0.359, -0.215, -0.006, -0.004, 0.118, -0.012,
    -0.048, 0.022, 0.007, 0.012, -0.036, 0.004,
    -0.334, 0.134, 0.036, 0.048, -0.007,
    -0.081, -0.054, -0.014, 0.015,
    0.094, -0.012, -0.002,
    0.001, 0.000,
    -0.005,
]  # fmt: skip
REGENERATED = [
    0.000, 0.003, 0.029, -0.045, 0.031, 0.807, 0.003, -0.001,
    0.006, 0.209, -0.117, -0.001, -0.004, 0.022, -0.006,
    -0.035, 0.008, 0.037, 0.013, -0.013, 0.002,
    -0.209, 0.008, 0.021, 0.012, -0.003,
    -0.027, -0.044, 0.003, 0.013,
    0.180, -0.014, -0.007,
    0.000, -0.001,
    -0.002,
]  # fmt: skip


def measured(original, released, **parameters):
    return sf.utility.Correlations(**parameters).measure(original, released)


def data(columns, **kinds):
    schema = {name: sf.Column(role="other", kind=kind) for name, kind in kinds.items()}
    return generalised(pl.DataFrame(columns), sf.Schema(schema))


def test_the_published_tables_agree_as_published():
    assert len(UNMASKED) == len(REGENERATED) == 36
    assert round(correlate_correlations(UNMASKED, REGENERATED), 3) == 0.957


numbers = st.one_of(st.none(), st.integers(-5, 5).map(float))


@settings(max_examples=60)
@pytest.mark.parametrize("kind", ["pearson", "spearman"])
@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=3, max_size=15))
def test_agrees_with_pandas_on_pairwise_complete_records(kind, rows):
    frame = pl.DataFrame(rows, schema=dict.fromkeys("abc", pl.Float64), orient="row")
    original = generalised(
        pl.DataFrame({"a": [1.0, 2.0, 4.0], "b": [2.0, 1.0, 3.0], "c": [0.0, 5.0, 1.0]})
    )
    if any(frame[name].n_unique() == 1 and frame[name][0] is None for name in "abc"):
        return
    found = measured(original, generalised(frame), kind=kind)
    wanted = frame.to_pandas().corr(method=kind)
    for row in found.table.rows(named=True):
        expected = wanted.loc[row["first"], row["second"]]
        assert row["released"] == pytest.approx(expected, abs=1e-9, nan_ok=True)
    told = [abs(row["difference"]) for row in found.table.rows(named=True)]
    assert math.isnan(found.value) == any(math.isnan(one) for one in told)
    assert bool(found.reason) == math.isnan(found.value)
    if not math.isnan(found.value):
        assert found.value == max(told)
        assert found.details["mean_correlation_difference"] == pytest.approx(np.mean(told))


def test_masked_cells_are_left_out_and_ranges_taken_at_their_middle():
    masked = data(
        {"age": ["20", "[30;50]", "*", "60", "{70;90}"], "stay": [1, 2, 9, 4, 4]},
        age="integer", stay="integer",
    )  # fmt: skip
    plain = data({"age": [20, 40, None, 60, 80], "stay": [1, 2, 9, 4, 4]})
    found = measured(masked, plain)
    assert found.value == 0.0
    assert "'age'" in found.assumptions[-1]
    assert "middle" in found.assumptions[-1]
    assert not any("middle" in text for text in measured(plain, plain).assumptions)


def test_ordinal_variables_count_by_rank():
    levels = sf.Column(kind="ordinal", domain=("low", "mid", "top"))
    frame = pl.DataFrame({"grade": ["low", "top", "mid", "low"], "x": [1.0, 7.0, 2.0, 2.0]})
    original = generalised(frame, sf.Schema({"grade": levels}))
    row = measured(original, original).table.row(0, named=True)
    assert row["original"] == pytest.approx(np.corrcoef([0, 2, 1, 0], frame["x"])[0, 1])
    coarse = generalised(frame.with_columns(grade=pl.Series(["low", "[mid;top]", "mid", "low"])))
    row = measured(original, coarse).table.row(0, named=True)
    assert row["released"] == pytest.approx(np.corrcoef([0, 1.5, 1, 0], frame["x"])[0, 1])


def test_numeric_codes_of_categories_may_be_named():
    original = data({"race": ["1", "2", "*", "5"], "x": [1, 3, 4, 4]}, race="nominal")
    assert measured(original, original, variables=["race", "x"]).value == 0.0
    names = data({"race": ["a", "b", "c", "c"], "x": [1, 3, 4, 4]}, race="nominal")
    with pytest.raises(sf.SfumatoError, match="'race'"):
        measured(names, names, variables=["race", "x"])


def test_a_variable_that_does_not_vary_is_told():
    original = data({"x": [1, 2, 4], "y": [3, 1, 1], "c": [7, 7, 7]})
    found = measured(original, original)
    assert found.value == 0.0
    assert any("'c' does not vary in the original" in text for text in found.warnings)
    flat = data({"x": [1, 2, 4], "y": [5, 5, 5], "c": [7, 7, 7]})
    lost = measured(original, flat)
    assert math.isnan(lost.value)
    assert "'x' and 'y'" in lost.reason
    with pytest.raises(sf.SfumatoError, match="No two variables vary"):
        measured(flat, flat)


def test_what_the_release_no_longer_has_is_told():
    original = data({"x": [1, 2, 4], "y": [3, 1, 1], "z": [1, 5, 2]})
    without = original.without(["z"])
    assert "'z', since it is not in the release" in measured(original, without).warnings[0]
    with pytest.raises(sf.SfumatoError, match="'z': it is not in the release"):
        measured(original, without, variables=["x", "z"])
    with pytest.raises(sf.SfumatoError, match="two numeric or ordinal variables"):
        measured(original, original.without(["y", "z"]))


def test_records_need_not_be_paired():
    original = data({"x": [1, 2, 4, 4], "y": [3, 1, 1, 0]})
    found = measured(original, generalised(original.frame.head(3)))
    assert found.value > 0
    assert math.isnan(found.details["correlation_of_correlations"])
    assert found.details["correlation_of_correlations_reason"]


def test_identifiers_and_weights_are_left_out():
    frame = pl.DataFrame({"id": [1, 2, 3], "w": [1.0, 2.0, 1.0], "x": [1, 5, 2], "y": [1, 2, 2]})
    one = generalised(frame, sf.Schema({"id": "direct", "w": "weight"}))
    assert measured(one, one).details["variables"] == ("x", "y")


@pytest.mark.parametrize("kind", ["pearson", "spearman"])
def test_the_order_of_rows_does_not_change_a_bit(kind, cohort):
    order = np.random.default_rng(1).permutation(len(cohort))
    coarse = sf.methods.Coarsen(variables=["height", "glucose"], intervals=9).apply(cohort)
    straight = measured(cohort, coarse, kind=kind)
    shuffled = measured(cohort.take(order), coarse, kind=kind)
    assert straight.plain() == shuffled.plain()
    assert 0 < straight.value < 0.3
    assert 0.98 < straight.details["correlation_of_correlations"] <= 1


@drawn("library", LIBRARIES)
def test_numbers_with_gaps_in_every_library(library):
    frame = pl.DataFrame({"x": [1, None, 3, 4], "y": [1, 2, 2, 5]})
    one = generalised(in_library(frame, library))
    assert measured(one, one).plain()["table"][0]["original"] == pytest.approx(
        np.corrcoef([1, 3, 4], [1, 2, 5])[0, 1]
    )


def test_levels_released_as_noisy_codes_keep_their_order() -> None:
    levels = ["low", "middle", "high"]
    chance = np.random.default_rng(3)
    at = chance.integers(0, 3, 400)
    frame = pl.DataFrame(
        {"pain": [levels[one] for one in at], "dose": at + chance.normal(size=400)}
    )
    schema = sf.Schema(
        {
            "pain": sf.Column(role="sensitive", kind="ordinal", domain=tuple(levels)),
            "dose": sf.Column(role="other", kind="continuous"),
        }
    )
    data = generalised(frame, schema)
    noised = sf.methods.NoisyCodes(variables=["pain"], variance=1e-6).apply(data, key=bytes(32))
    assert sf.utility.Correlations().measure(data, noised).value < 0.05
