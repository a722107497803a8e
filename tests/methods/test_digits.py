"""The digits of noised numbers follow from these numbers alone."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.methods._noise.digits import find_largest, find_step, round_digits

numbers = st.lists(
    st.none() | st.floats(-1e12, 1e12) | st.floats(-1e-3, 1e-3) | st.floats(1e200, 1e290),
    min_size=1,
    max_size=20,
)


@given(numbers, st.booleans())
def test_rounding_moves_by_half_a_step_and_no_further_when_repeated(values, relative):
    series = pl.Series("x", values, dtype=pl.Float64)
    once = round_digits(series, relative=relative)
    assert once.is_null().to_list() == series.is_null().to_list()
    step = find_step(find_largest(series))
    for before, after in zip(series.drop_nulls(), once.drop_nulls(), strict=True):
        own = 10.0 ** (np.floor(np.log10(abs(before))) - 11) if before and relative else 0.0
        assert abs(before - after) <= max(step, own * 1.001) * 0.5 + 2 * np.spacing(abs(before))
    again = round_digits(once, relative=relative)
    assert again.drop_nulls().to_list() == pytest.approx(once.drop_nulls().to_list(), rel=1e-14)


def test_numbers_read_as_they_are_written():
    series = pl.Series([0.1 + 0.2, 123.456789012345678, -7.0, None])
    assert round_digits(series, relative=False).to_list() == [0.3, 123.456789012346, -7.0, None]
    small = pl.Series([1.23456789012345678e-5, 98.7654321098765432, 98.7654321098765432e7])
    rounded = [1.23456789e-05, 98.7654321099, 987654321.099]
    assert round_digits(small, relative=True).to_list() == rounded


@pytest.mark.parametrize("values", [[], [None], [0.0], [0.0, None]])
def test_what_has_no_digits_stays(values):
    series = pl.Series(values, dtype=pl.Float64)
    assert round_digits(series, relative=True).to_list() == values
