"""Quantiles that rest on k records each: exact selection, disjoint windows, a coarse grid."""

from __future__ import annotations

import math
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sfumato.outputs import quantiles
from sfumato.outputs.output import OutputRefused
from sfumato.outputs.quantiles import (
    FIVE,
    choose_step,
    count_needed_records,
    find_windows,
    order_statistics,
    safe_quantiles,
    snap_to_grid,
)

numbers = st.floats(allow_nan=False, allow_infinity=False)


@settings(deadline=None)
@given(st.lists(numbers, min_size=1, max_size=80), st.data())
@example([0.0, -0.0, 5e-324, -5e-324, 1.7e308, -1.7e308], None)
def test_selection_equals_sorting_at_every_depth(values, data):
    array = np.array(values)
    ranks = np.arange(len(values))
    if data is not None:
        wanted = data.draw(st.sets(st.integers(0, len(values) - 1), min_size=1))
        ranks = np.array(sorted(wanted))
    few = data.draw(st.integers(0, 40)) if data is not None else 0
    before = quantiles._FEW
    quantiles._FEW = few  # sort late, so that the counting is what is tested
    try:
        found = order_statistics(array, ranks)
    finally:
        quantiles._FEW = before
    assert found.tolist() == np.sort(array)[ranks].tolist()


@given(st.integers(2, 12), st.integers(0, 400))
def test_no_record_has_a_part_in_two_quantiles_and_no_extreme_in_any(k, more):
    records = count_needed_records(5, k) + more
    starts = find_windows(records, FIVE, k)
    used = [start + at for start in starts for at in range(k)]
    assert len(set(used)) == 5 * k
    assert min(used) >= 1
    assert max(used) <= records - 2


def slow(values, at, k):
    """The same in the plainest way: sort, take the window, average, round."""
    ordered = sorted(values)
    starts = find_windows(len(ordered), at, k)
    ends = find_windows(len(ordered), (0.05, 0.95), k)
    low, high = (math.fsum(ordered[one : one + k]) / k for one in ends)
    step = choose_step(high - low)
    return tuple(snap_to_grid(math.fsum(ordered[one : one + k]) / k, step) for one in starts)


@given(st.lists(st.floats(-1e6, 1e6), min_size=27, max_size=120), st.integers(3, 5), st.randoms())
def test_safe_quantiles_equal_the_slow_ones_in_any_order(values, k, chance):
    made = safe_quantiles(np.array(values), k=k)
    chance.shuffle(values)
    assert safe_quantiles(np.array(values), k=k) == made
    assert made.values == slow(values, FIVE, k)


def test_quantiles_are_near_the_true_ones_and_lie_on_the_grid():
    values = np.random.default_rng(3).normal(50, 10, 100_000)
    made = safe_quantiles(values)
    assert made.values == pytest.approx(np.quantile(values, FIVE), abs=made.step)
    assert 1 / 500 <= made.step / (made.values[-1] - made.values[0]) <= 1 / 80
    for one in made.values:
        assert one / made.step == pytest.approx(round(one / made.step), abs=1e-9)


def test_one_huge_value_never_shows():
    values = np.append(np.arange(40.0), 1e12)
    assert max(safe_quantiles(values).values) < 40


def test_replacing_one_record_moves_a_quantile_by_little():
    # Someone who knows all other records learns no more than this from one quantile.
    values = np.arange(200.0)
    other = values.copy()
    other[100] = 1e9
    before, after = safe_quantiles(values).values, safe_quantiles(other).values
    assert np.abs(np.array(before) - np.array(after)).max() <= 2


def test_too_few_records_are_refused_with_what_is_needed():
    with pytest.raises(OutputRefused, match="at least 17 records"):
        safe_quantiles(np.arange(16.0), k=3)


def test_values_that_are_all_the_same():
    assert safe_quantiles(np.full(30, 1234.5)).values == (1230.0,) * 5
    assert safe_quantiles(np.zeros(30)).values == (0.0,) * 5


@pytest.mark.parametrize("make", ["normal", "ties"])
def test_ten_million_values_take_seconds_and_bounded_memory(make):
    chance = np.random.default_rng(1)
    values = chance.normal(size=10_000_000)
    if make == "ties":
        np.round(values, out=values)
    start = time.process_time()
    np.sort(values[:1_000_000])
    unit = time.process_time() - start
    tracemalloc.start()
    start = time.process_time()
    made = safe_quantiles(values)
    took = time.process_time() - start
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 * 2**20  # the values themselves are 76 MiB
    assert took < 60 * unit + 2
    assert made.values == pytest.approx(np.quantile(values[::10], FIVE), abs=0.05)
