"""Clusters along an order, ranges and level sets, against the algorithms as printed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.kernels.clustering import clusters
from sfumato.kernels.clustering.closeness import achieved_t
from sfumato.kernels.clustering.clusters import (
    bound_t,
    find_level_sets,
    find_ranges,
    order_codes_along_origin,
    origin_order,
    smallest_k,
    sort_by_number,
    spread_order,
)


def members(order, starts):
    return [order[first:last].tolist() for first, last in pairwise(starts)]


def distances(values):
    deviations = values.std(axis=0)
    scaled = values / np.where(deviations > 0, deviations, np.inf)
    return np.sqrt((scaled**2).sum(axis=1))


def printed_s2(values, k):
    remaining = np.argsort(distances(values), kind="stable").tolist()
    clusters = []
    while len(remaining) >= 2 * k:
        clusters.append(remaining[:k])
        remaining = remaining[k:]
    return [*clusters, remaining]


def printed_s4(values, confidential, k):
    """As printed, with the remainder in a last subset."""
    n = len(values)
    k += (n % k) // (n // k)
    size = n // k
    by = np.argsort(confidential, kind="stable")
    subsets = [by[index * size : (index + 1) * size] for index in range(k)] + [by[k * size :]]
    far = distances(values)
    subsets = [subset[np.argsort(far[subset], kind="stable")].tolist() for subset in subsets]
    return [[s[index] for s in subsets if index < len(s)] for index in range(size)]


@st.composite
def tables(draw):
    records, variables = draw(st.integers(2, 80)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["real", "whole", "tied", "far"]))
    values = rng.normal(size=(records, variables))
    if kind == "far":
        values += 1e9
    if kind != "real":
        values = np.round(values * (100 if kind == "whole" else 1))
    return values, rng


@given(tables(), st.integers(1, 9))
def test_origin_order_is_algorithm_s2(table, k):
    values, rng = table
    if len(values) < k:
        with pytest.raises(ValueError, match="need at least as many"):
            origin_order(values, k)
        return
    order, starts = origin_order(values, k)
    assert sorted(order.tolist()) == list(range(len(values)))
    far = distances(values)
    np.testing.assert_allclose(far[order], np.sort(far), rtol=1e-12)
    assert [len(cluster) for cluster in members(order, starts)] == [
        len(cluster) for cluster in printed_s2(values, k)
    ]
    shuffled = rng.permutation(len(values))
    again, _ = origin_order(values[shuffled], k)
    assert np.array_equal(values[order], values[shuffled][again])


@given(tables(), st.integers(1, 9), st.sampled_from([1, 7, 1000]), st.booleans())
def test_algorithm_s2_in_pieces_is_algorithm_s2(table, k, piece, heavy):
    values, rng = table
    values = np.where(values == values[0], values, values[0]) if heavy else values
    if len(values) < k:
        return
    persons = rng.permutation(len(values))
    units, codes = [], []
    for column in values.T:
        unit, code = np.unique(column, return_inverse=True)
        # Levels need not be in the order of the numbers that they stand for.
        shuffled = rng.permutation(len(unit))
        units.append(unit[shuffled])
        codes.append(np.argsort(shuffled)[code.ravel()].astype(np.int16))
    by_person = np.argsort(persons)
    order, starts = origin_order(values[by_person], k)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters, "_PIECE", piece)
        found, edges = order_codes_along_origin(codes, units, [persons], k)
    assert np.array_equal(found, by_person[order])
    assert np.array_equal(edges, starts)


def test_origin_order_takes_whole_numbers_in_any_type():
    values = np.random.default_rng(2).integers(0, 90, (500, 3))
    for kind in (np.int32, np.uint8, np.float64):
        order, _ = origin_order(values.astype(kind), 5)
        assert np.array_equal(values[order], values[origin_order(values, 5)[0]])


def test_missing_numbers_are_refused():
    values = np.array([[1.0], [np.nan], [2.0]])
    with pytest.raises(ValueError, match="missing or infinite"):
        origin_order(values, 1)
    with pytest.raises(ValueError, match="confidential variable has values that are missing"):
        spread_order(np.ones((3, 1)), values[:, 0], 1)


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 30))
def test_spread_order_is_algorithm_s4_where_k_divides_n(seed, k, clusters):
    rng = np.random.default_rng(seed)
    values, confidential = rng.normal(size=(k * clusters, 2)), rng.permutation(k * clusters)
    order, starts = spread_order(values, confidential, k)
    assert members(order, starts) == printed_s4(values, confidential, k)


@pytest.mark.parametrize("shape", ["apart", "along", "against", "zigzag"])
def test_the_bound_holds_for_every_n_and_k(shape):
    """Also where the order of the values follows the confidential variable: the worst case."""
    joined = 0
    for n in range(2, 70):
        confidential = np.arange(n)
        values = {
            "apart": np.random.default_rng(n).permutation(n),
            "along": confidential + 1,
            "against": n - confidential,
            "zigzag": np.where(confidential % 2, confidential, 2 * n - confidential),
        }[shape][:, None].astype(float)
        for k in range(1, n + 1):
            order, starts = spread_order(values, confidential, k)
            assert np.diff(starts).min() >= k
            assert sorted(order.tolist()) == list(range(n))
            assert achieved_t(confidential, order, starts).max() <= bound_t(n, k) * (1 + 1e-12)
            joined += n // k - (len(starts) - 1)
    assert joined <= 0.02 * sum(n // k for n in range(2, 70) for k in range(1, n + 1))


def test_the_printed_algorithm_breaks_its_bound():
    broken = 0
    pairs = [(n, k) for n in range(10, 40) for k in range(2, 6) if n % k]
    for n, k in pairs:
        confidential = np.arange(n)
        values = np.random.default_rng(n).permutation(n)[:, None] + 1.0
        clusters = printed_s4(values, confidential, k)
        starts = np.cumsum([0, *map(len, clusters)])
        order = np.array([record for cluster in clusters for record in cluster])
        broken += achieved_t(confidential, order, starts).max() > bound_t(n, k) * (1 + 1e-12)
    assert broken > len(pairs) / 4


@given(tables(), st.integers(1, 6), st.sampled_from([None, 0.0, 0.02, 0.1, 0.3]))
def test_t_holds_with_ties_and_does_not_depend_on_the_order(table, k, t):
    values, rng = table
    if len(values) < k:
        return
    confidential = rng.integers(0, rng.integers(1, 60), len(values))
    order, starts = spread_order(values, confidential, k, t)
    limit = bound_t(len(values), k) if t is None else t
    assert np.diff(starts).min() >= k
    assert achieved_t(confidential, order, starts).max() <= limit * (1 + 1e-12)
    shuffled = rng.permutation(len(values))
    again, edges = spread_order(values[shuffled], confidential[shuffled], k, t)
    assert np.array_equal(starts, edges)
    assert np.array_equal(values[order], values[shuffled][again])
    assert np.array_equal(confidential[order], confidential[shuffled][again])


def test_bounds_are_the_papers():
    assert [round(bound_t(3_985_166, k), 2) for k in (2, 3, 5, 10)] == [0.25, 0.17, 0.1, 0.05]
    assert bound_t(1, 1) == bound_t(7, 7) == 0
    for n in (7, 1000, 3_985_166):
        for k in (1, 2, 3, 5, 7):
            assert smallest_k(n, bound_t(n, k)) == k
            assert smallest_k(n, bound_t(n, k) * 0.999) == k + 1 or k == n
    assert smallest_k(50, 0.0) == 50
    assert smallest_k(50, 1.0) == 1
    with pytest.raises(ValueError, match="cannot be"):
        smallest_k(50, -0.1)
    with pytest.raises(ValueError, match="cannot be nan"):
        smallest_k(50, float("nan"))


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 200]))
def test_numbers_are_put_in_order_to_the_last_bit(seed, count):
    rng = np.random.default_rng(seed)
    base = rng.choice([0.0, -0.0, 1.0, -1.0, 1e300, -5e-324, 0.1], count)
    numbers = np.nextafter(base, rng.choice([-np.inf, np.inf], count))
    numbers = np.where(rng.random(count) < 0.5, numbers, base)
    last = rng.integers(0, 3, count)
    order, _ = sort_by_number(numbers, numbers[:, None], last)
    wanted = np.lexsort([last, numbers + 0.0])
    assert np.array_equal(order, wanted)


@given(st.integers(0, 2**32 - 1), st.integers(1, 9))
def test_ranges_and_level_sets_are_those_of_the_members(seed, clusters):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 70, clusters)
    codes = rng.integers(0, 40, (sizes.sum(), 3))
    order, starts = rng.permutation(len(codes)), np.cumsum([0, *sizes])
    low, high = find_ranges(codes, order, starts)
    levels, ends = find_level_sets(codes[:, 0], order, starts)
    for index, cluster in enumerate(members(order, starts)):
        assert low[index].tolist() == codes[cluster].min(axis=0).tolist()
        assert high[index].tolist() == codes[cluster].max(axis=0).tolist()
        assert (
            levels[ends[index] : ends[index + 1]].tolist() == np.unique(codes[cluster, 0]).tolist()
        )
