from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sfumato.kernels.exact_sums import canonical_order, exact_mean, exact_sum, standard_deviation

floats = st.floats(-1e200, 1e200, allow_subnormal=True)


@given(st.lists(floats, max_size=50))
def test_a_total_is_the_exact_sum(values):
    assert exact_sum(np.array(values, float)) == math.fsum(values)


def test_a_total_is_the_exact_sum_over_many_pieces():
    draw = np.random.default_rng(0)
    values = draw.normal(size=50_000) * 10.0 ** draw.integers(-40, 40, size=50_000)
    assert exact_sum(values) == math.fsum(values)
    assert exact_sum(np.concatenate([values, -values[::-1]])) == 0.0
    assert math.isinf(exact_sum(np.array([1.0, math.inf])))


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30), st.randoms())
def test_means_and_deviations_do_not_depend_on_the_order(values, random):
    mixed = list(values)
    random.shuffle(mixed)
    item, other = np.array(values), np.array(mixed)
    assert exact_mean(item) == exact_mean(other)
    assert standard_deviation(item) == standard_deviation(other)
    assert (standard_deviation(item) == 0) == (len(set(values)) == 1)
    assert math.isclose(standard_deviation(item), np.std(item, ddof=1), rel_tol=1e-6, abs_tol=1e-9)


def test_means_of_what_squares_could_not_hold():
    assert exact_mean(np.array([1e308, 1e308])) == 1e308
    assert math.isclose(standard_deviation(np.array([1e-300, 3e-300])), math.sqrt(2) * 1e-300)
    assert math.isnan(exact_mean(np.array([])))
    assert math.isnan(standard_deviation(np.array([1.0])))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=30), st.randoms())
def test_the_canonical_order_depends_on_the_values_only(rows, random):
    def ordered(these):
        columns = [np.array([row[index] for row in these]) for index in (0, 1)]
        return [these[index] for index in canonical_order(columns)]

    mixed = list(rows)
    random.shuffle(mixed)
    assert ordered(mixed) == ordered(rows)
    assert sorted(ordered(rows)) == sorted(rows)
