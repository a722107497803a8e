from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=60), st.floats(0.01, 0.99))
def test_quantile_limits_are_round_numbers_just_below_those_of_numpy(values, share):
    data = sf.Dataset(pl.DataFrame({"x": values}))
    after = sf.methods.Topcode(variables=["x"], top_quantile=share).apply(data).frame["x"]
    limit = np.quantile(values, share)
    low, high = np.quantile(values, [0.25, 0.75])
    spread = high - low if high > low else abs(limit)
    # Rounded inwards, by one of at least 18 steps of the spread (or at the tenth digit of a limit
    # far outside it); a quantile would be a value.
    step = max(spread / 18, abs(limit) * 1e-9)
    assert limit - step - 1e-300 <= after.max() <= limit + abs(limit) * 1e-12
    below = [(old, new) for old, new in zip(values, after, strict=True) if old <= after.max()]
    assert all(old == new for old, new in below)


def test_whole_numbers_stay_whole_and_within_the_limits():
    data = sf.Dataset(pl.DataFrame({"x": [1, 5, 9]}))
    after = sf.methods.Topcode(variables=["x"], top=7.5, bottom=1.5).apply(data).frame["x"]
    assert after.dtype == pl.Int64
    assert after.to_list() == [2, 5, 7]


@pytest.mark.parametrize(
    "bad", [{}, {"top": 1, "top_quantile": 0.5}, {"top": 1, "bottom": 2}, {"top_quantile": 1.5}]
)
def test_limits_that_make_no_sense_are_refused(bad):
    with pytest.raises(sf.SfumatoError):
        sf.methods.Topcode(variables=["x"], **bad)


def test_a_variable_without_values_has_no_quantile():
    data = sf.Dataset(pl.DataFrame({"x": pl.Series([None, None], dtype=pl.Float64)}))
    with pytest.raises(sf.SfumatoError, match="'x' has no values"):
        sf.methods.Topcode(variables=["x"], top_quantile=0.9).apply(data)


def test_limits_without_a_whole_number_between_them_are_refused():
    data = sf.Dataset(pl.DataFrame({"x": [1, 2, 3]}))
    with pytest.raises(sf.SfumatoError, match="no value lies between"):
        sf.methods.Topcode(variables=["x"], bottom=2.2, top=2.8).apply(data)


def test_limits_outside_a_small_type_do_no_harm():
    data = sf.Dataset(pl.DataFrame({"x": pl.Series([1, 2, 100], dtype=pl.Int8)}))
    after = sf.methods.Topcode(variables=["x"], bottom=-500, top=50).apply(data).frame["x"]
    assert after.to_list() == [1, 2, 50]
    assert after.dtype == pl.Int8


@pytest.mark.parametrize("limit", [float("inf"), float("nan")])
def test_a_limit_is_finite(limit):
    with pytest.raises(sf.SfumatoError, match="finite"):
        sf.methods.Topcode(variables=["x"], top=limit)


def test_a_variable_is_named_once():
    with pytest.raises(sf.SfumatoError, match="names something twice"):
        sf.methods.Topcode(variables=["x", "x"], top=1)
