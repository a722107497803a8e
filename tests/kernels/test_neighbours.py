from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import cKDTree
from tests.kernels.slow_neighbours import exact_means, slow_neighbours, squared_distances

from sfumato.kernels.trees.neighbours import centroids, neighbours

CELLS = (
    st.integers(0, 2).map(float),
    st.integers(0, 90).map(float),
    st.integers(-1_000_000, 1_000_000).map(lambda i: i / 1000),
)
FACTORS = st.integers(1, 1000).map(lambda i: i / 64)
EXTREME = st.floats(-1e100, 1e100) | st.floats(-1e-100, 1e-100) | st.sampled_from([0.0, -0.0])


@st.composite
def problems(draw, cells=CELLS, factors=FACTORS):
    """Values with ties, duplicates and constant columns; strata, k for each, either scale."""
    columns = draw(st.integers(1, 10))
    cell = draw(st.sampled_from(cells))
    sizes = draw(st.lists(st.integers(1, 25), min_size=1, max_size=3))
    row = st.lists(cell, min_size=columns, max_size=columns)
    rows = st.sampled_from(draw(st.lists(row, min_size=1, max_size=20)))
    values = np.array(draw(st.lists(rows, min_size=sum(sizes), max_size=sum(sizes))))
    if draw(st.booleans()):
        values[:, draw(st.integers(0, columns - 1))] = 0.1
    if draw(st.booleans()):
        scale = np.array(draw(st.lists(factors, min_size=columns, max_size=columns)))
    else:
        signed = st.builds(lambda factor, sign: factor * sign, factors, st.sampled_from([1, -1, 0]))
        size = columns * columns
        scale = np.array(draw(st.lists(signed, min_size=size, max_size=size)))
        scale = scale.reshape(columns, columns)
    k = np.array([draw(st.integers(1, size)) for size in sizes])
    return values, scale, np.cumsum([0, *sizes]), k


def same_bits(item, other):
    return item.tobytes() == other.tobytes()


def assert_agrees(values, scale, starts, k):
    expected = slow_neighbours(values, scale, starts, k)
    assert np.array_equal(neighbours(values, scale, starts, k), expected)
    assert same_bits(centroids(values, scale, starts, k), exact_means(values, expected))


@given(problems())
@settings(max_examples=60)
def test_agrees_with_comparing_all_pairs_on_every_tie(problem):
    assert_agrees(*problem)


@given(problems(cells=(EXTREME,), factors=st.sampled_from([1e-60, 1e-30, 1.0, 1e30])))
@settings(max_examples=30)
def test_agrees_where_distances_are_huge_or_underflow_to_nothing(problem):
    expected = slow_neighbours(*problem)
    assert np.array_equal(neighbours(*problem), expected)
    means = exact_means(problem[0], expected)
    assert np.allclose(centroids(*problem), means, rtol=4e-16, atol=1e-320)


@pytest.mark.parametrize("kind", ["tied", "heavy tails", "continuous"])
@pytest.mark.parametrize("columns", range(1, 11))
def test_agrees_in_any_number_of_dimensions(columns, kind):
    random = np.random.default_rng(columns)
    values = {
        "tied": random.integers(0, 7, (300, columns)) * 1.0,
        "heavy tails": np.round(random.standard_cauchy((300, columns)), 1),
        "continuous": random.normal(size=(300, columns)) * 10.0 ** random.integers(-4, 5, columns),
    }[kind]
    starts, k = np.array([0, 5, 105, 300]), np.array([5, 9, 4])
    assert_agrees(values, 1 / random.uniform(1, 9, columns), starts, k)
    assert_agrees(values, random.integers(-3, 4, (columns, columns)) / 3, starts, k)


@pytest.mark.parametrize(
    "scale", [np.array([1.0, 0.5, 3.0]), np.array([[1, 2, 0], [0, 1, 1], [1, 0, 4.0]]) / 8]
)
def test_agrees_in_a_tree_of_many_levels(scale):
    random = np.random.default_rng(3)
    values, starts = random.integers(0, 30, (9000, 3)).astype(np.float64), np.array([0, 9000])
    assert len(np.unique(values, axis=0)) > 16**3  # leaves, groups, groups of groups, and more
    some = random.choice(9000, 200, replace=False)
    expected = slow_neighbours(values, scale, starts, 7, only=some)[some]
    assert np.array_equal(neighbours(values, scale, starts, 7)[some], expected)
    assert same_bits(centroids(values, scale, starts, 7)[some], exact_means(values, expected))


@pytest.mark.parametrize("scale", [np.ones(2), np.eye(2)])
def test_on_a_grid_everyone_has_the_known_neighbours(scale):
    side = 150
    values = np.stack(np.divmod(np.random.default_rng(4).permutation(side**2), side), 1) * 1.0
    means = centroids(values, scale, np.array([0, side**2]), 4)
    inner = ((values > 0) & (values < side - 1)).all(axis=1)
    # Four lie at distance 1; left, below and above come first, and right is left out.
    assert np.array_equal(means[inner], values[inner] - [0.25, 0])


@given(problems(), st.integers(0, 2**32))
@settings(max_examples=30)
def test_no_bit_depends_on_the_order_of_rows_or_strata_or_on_batches(problem, seed):
    values, scale, starts, k = problem
    random = np.random.default_rng(seed)
    expected = centroids(*problem)
    strata = [random.permutation(np.arange(*ends)) for ends in pairwise(starts)]
    turns = random.permutation(len(strata))
    rows = np.concatenate([strata[i] for i in turns])
    sizes = np.cumsum([0, *(len(strata[i]) for i in turns)])
    assert same_bits(centroids(values[rows], scale, sizes, k[turns]), expected[rows])
    for i, mine in enumerate(strata):
        alone = centroids(values[mine], scale, np.array([0, len(mine)]), int(k[i]))
        assert same_bits(alone, expected[mine])


@pytest.mark.parametrize("scale", [np.array([0.3, 1.7]), np.array([[0.3, 0.1], [-0.2, 1.7]])])
def test_no_bit_depends_on_the_order_of_many_rows(scale):
    random = np.random.default_rng(5)
    values = np.round(random.normal(size=(4000, 2)), 2)
    expected = centroids(values, scale, np.array([0, 4000]), 6)
    rows = random.permutation(4000)
    assert same_bits(centroids(values[rows], scale, np.array([0, 4000]), 6), expected[rows])


@pytest.mark.parametrize("columns", [1, 2, 5, 10])
@pytest.mark.parametrize("k", [1, 5, 300])
def test_distances_are_those_of_scipy(columns, k):
    values = np.random.default_rng(columns).normal(size=(1000, columns))
    scale = 1 / values.std(axis=0)
    rows = neighbours(values, scale, np.array([0, 1000]), k)
    expected = cKDTree(values * scale).query(values * scale, k=k)[0].reshape(1000, k)
    result = [
        squared_distances(item, values[row], scale) for item, row in zip(values, rows, strict=True)
    ]
    assert np.allclose(np.sqrt(result), expected)


@given(st.floats(-1e12, 1e12), st.integers(1, 200), st.integers(0, 100))
def test_equal_values_have_exactly_their_value_as_mean(value, k, more):
    values = np.full((k + more, 2), value)
    values[:, 1] = np.arange(k + more)
    result = centroids(values, np.ones(2), np.array([0, len(values)]), k)
    assert (result[:, 0] == value).all()


def test_records_with_the_same_neighbours_have_the_same_centroid():
    values = np.random.default_rng(8).normal(size=(500, 3))
    starts = np.arange(0, 501, 5)
    result = centroids(values, np.ones(3), starts, 5).reshape(100, 5, 3)
    assert (result == result[:, :1]).all()


def test_one_record_is_its_own_centroid():
    values = np.array([[-0.0, 3.5], [1e200, -7.0], [5e-324, 0.1]])
    result = centroids(values, np.array([1e-200, 1.0]), np.array([0, 1, 3]), 1)
    assert same_bits(result, values + 0.0)


def test_a_record_comes_first_and_its_duplicates_in_row_order():
    values = np.array([[1.0], [2.0], [1.0], [1.0], [0.0]])
    result = neighbours(values, np.ones(1), np.array([0, 5]), 4)
    assert result.tolist() == [[0, 2, 3, 4], [1, 0, 2, 3], [2, 0, 3, 4], [3, 0, 2, 4], [4, 0, 2, 3]]


def test_rows_are_filled_up_where_k_is_smaller():
    result = neighbours(np.arange(5.0)[:, None], np.ones(1), np.array([0, 2, 5]), np.array([1, 3]))
    assert result[:2].tolist() == [[0, -1, -1], [1, -1, -1]]
    assert result[2:].tolist() == [[2, 3, 4], [3, 2, 4], [4, 3, 2]]


def test_ages_on_either_side_are_equally_far_and_the_younger_is_taken():
    # As z-scores 0.1 * 3 - 0.1 * 2 and 0.1 * 4 - 0.1 * 3 differ in the last bit.
    result = neighbours(np.array([[4.0], [3.0], [2.0]]), np.array([0.1]), np.array([0, 3]), 2)
    assert result.tolist() == [[0, 1], [1, 2], [2, 1]]


def test_many_identical_records_take_no_longer_than_others():
    values = np.zeros((200_000, 2))
    result = neighbours(values, np.ones(2), np.array([0, len(values)]), 3)
    assert result[:3].tolist() == [[0, 1, 2], [1, 0, 2], [2, 0, 1]]
    assert result[-1].tolist() == [199_999, 0, 1]


def test_threads_may_share_the_work():
    values = np.random.default_rng(1).normal(size=(6000, 3))
    halves, scale = np.array([0, 3000]), np.ones(3)
    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(lambda part: centroids(part, scale, halves, 5), np.split(values, 2)))
    both = centroids(values, scale, np.array([0, 3000, 6000]), 5)
    assert same_bits(np.concatenate(parts), both)


def test_takes_arrays_of_any_kind_and_leaves_them_alone():
    values = np.asfortranarray(np.random.default_rng(2).integers(0, 4, (50, 3)) * 1.0)
    values.flags.writeable = False
    before = values.copy()
    loose: Any = [1, 1, 1], [0, 50], np.array([4], np.uint8)
    result = neighbours(values, *loose)
    assert np.array_equal(result, slow_neighbours(values, np.ones(3), [0, 50], 4))
    assert np.array_equal(values, before)
    assert values.flags.f_contiguous


def test_nothing_has_no_neighbours():
    nothing = np.empty((0, 2)), np.ones(2), np.array([0])
    assert centroids(*nothing, 3).shape == (0, 2)
    assert neighbours(*nothing, 3).shape == (0, 3)


TABLE = np.arange(8.0).reshape(4, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": np.arange(4.0)}, "table"),
        ({"values": np.empty((4, 0))}, "table"),
        ({"values": np.where(TABLE == 5, np.nan, TABLE)}, "finite"),
        ({"values": np.where(TABLE == 0, np.inf, TABLE)}, "finite"),
        ({"values": np.where(TABLE == 0, -1e300, TABLE)}, "exceed"),
        ({"scale": np.ones(3)}, "a number per column"),
        ({"scale": np.ones((2, 3))}, "a number per column"),
        ({"scale": np.array([1.0, 0.0])}, "positive"),
        ({"scale": np.array([1.0, np.nan])}, "positive"),
        ({"scale": np.array([[1.0, np.inf], [0.0, 1.0]])}, "finite"),
        ({"scale": np.array([1.0, 1e200])}, "overflow"),
        ({"scale": np.full((2, 2), 1e200)}, "overflow"),
        ({"starts": np.array([0, 3])}, "number of rows"),
        ({"starts": np.array([1, 4])}, "number of rows"),
        ({"starts": np.array([0, 3, 1, 4])}, "number of rows"),
        ({"starts": np.array([0.0, 4.0])}, "whole numbers"),
        ({"starts": np.array([], np.int64)}, "whole numbers"),
        ({"k": 0}, "between 1 and"),
        ({"k": 3}, "between 1 and"),
        ({"starts": np.array([0, 0, 4])}, "between 1 and"),
        ({"k": np.array([1, 1, 1])}, "one per stratum"),
        ({"k": 2.0}, "whole number"),
        ({"k": True}, "whole number"),
    ],
)
@pytest.mark.parametrize("kernel", [centroids, neighbours])
def test_refuses_what_it_cannot_answer(kernel, change, message):
    good = {"values": TABLE, "scale": np.ones(2), "starts": np.array([0, 2, 4]), "k": 2}
    with pytest.raises(ValueError, match=message):
        kernel(**(good | change))
