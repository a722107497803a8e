"""MDAV's clusters, against comparing all records with all others."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.kernels.clustering.mdav import mdav


def squared(item, other):
    far = 0.0
    for a, b in zip(item, other, strict=True):
        far += (a - b) * (a - b)
    return far


def slow(rows, k):
    """The published heuristic on tuples; of records equally far the lower values go first."""
    remaining, clusters = sorted(rows), []

    def outermost(point):
        return max(
            range(len(remaining)), key=lambda index: (squared(remaining[index], point), -index)
        )

    def cluster(index):
        middle = remaining.pop(index)
        close = sorted(
            range(len(remaining)),
            key=lambda index: (squared(remaining[index], middle), remaining[index]),
        )
        clusters.append([middle, *(remaining[index] for index in close[: k - 1])])
        for gone in sorted(close[: k - 1], reverse=True):
            del remaining[gone]
        return middle

    while len(remaining) >= 2 * k:
        two = len(remaining) >= 3 * k
        mean = [math.fsum(column) / len(remaining) for column in zip(*remaining, strict=True)]
        middle = cluster(outermost(mean))
        if two:
            cluster(outermost(middle))
    return [*clusters, remaining]


def found(values, k):
    order, starts = mdav(values, k)
    assert sorted(order.tolist()) == list(range(len(values)))
    rows = [tuple(row) for row in (values + 0.0).tolist()]
    return [[rows[index] for index in order[first:last]] for first, last in pairwise(starts)]


def same(item, other):
    return [sorted(cluster) for cluster in item] == [sorted(cluster) for cluster in other]


@st.composite
def tables(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    records, variables = draw(st.integers(1, 90)), draw(st.integers(1, 10))
    columns = []
    for _ in range(variables):
        kind = draw(st.sampled_from(["normal", "pair", "grid", "constant", "skew", "wide"]))
        columns.append(
            {
                "normal": rng.normal(size=records),
                "pair": rng.integers(0, 2, records) * 0.7,
                "grid": rng.integers(-3, 4, records) / 3,
                "constant": np.full(records, 0.1),
                "skew": np.exp(3 * rng.normal(size=records)),
                "wide": rng.choice([-0.0, 0.0, 1e-200, 1e12, -3e-9], records),
            }[kind]
        )
    return np.stack(columns, 1), rng


@given(tables(), st.integers(1, 12))
@settings(max_examples=80, deadline=None)
def test_clusters_are_those_of_comparing_all_with_all(table, k):
    values, rng = table
    if len(values) < k:
        with pytest.raises(ValueError, match="need at least as many"):
            mdav(values, k)
        return
    clusters = found(values, k)
    rows = [tuple(row) for row in (values + 0.0).tolist()]
    if k > 1:
        assert same(clusters, slow(rows, k))
    sizes = [len(cluster) for cluster in clusters]
    assert sizes == [k] * (len(values) // k - 1) + [k + len(values) % k]
    assert same(found(values[rng.permutation(len(values))], k), clusters)


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("decimals", [0, 1, 12])
def test_larger_data_with_ties_and_rebuilt_trees(k, decimals):
    values = np.random.default_rng(k).normal(size=(600, 3)).round(decimals)
    assert same(found(values, k), slow([tuple(row) for row in (values + 0.0).tolist()], k))


def test_points_on_a_sphere_are_the_hardest():
    values = np.random.default_rng(5).normal(size=(400, 4))
    values /= np.sqrt((values**2).sum(axis=1))[:, None]
    assert same(found(values, 4), slow([tuple(row) for row in values.tolist()], 4))


def test_a_column_far_from_zero_keeps_its_centroid():
    values = np.random.default_rng(5).normal(size=(300, 2)) + np.array([1e9, -1e6])
    assert same(found(values, 3), slow([tuple(row) for row in values.tolist()], 3))


def test_numbers_of_any_size_leave_the_order_of_the_rows_aside():
    rng = np.random.default_rng(6)
    values = rng.choice([-0.0, 0.0, 1e-200, 1e100, -3e-9, 1.0, -1e149], (200, 3))
    clusters = found(values, 3)
    assert [len(cluster) for cluster in clusters] == [3] * 65 + [5]
    assert same(found(values[rng.permutation(200)], 3), clusters)


def test_many_equal_records_stay_quick_and_together():
    values = np.repeat(np.arange(20.0), 10_000)[:, None]
    assert all(len(set(cluster)) == 1 for cluster in found(values, 10))


@pytest.mark.parametrize("records", [5, 9])
def test_fewer_than_twice_k_are_one_cluster(records):
    order, starts = mdav(np.arange(records, dtype=float)[:, None], 5)
    assert starts.tolist() == [0, records]
    assert sorted(order.tolist()) == list(range(records))


def test_equal_rows_alone_make_clusters_of_k():
    assert np.diff(mdav(np.ones((11, 2)), 3)[1]).tolist() == [3, 3, 5]


@pytest.mark.parametrize(
    ("values", "k", "match"),
    [
        (np.array([[1.0], [np.nan]]), 1, "missing"),
        (np.array([[1.0], [np.inf]]), 1, "missing or too large"),
        (np.array([[1.0], [1e200]]), 1, "too large"),
        (np.zeros((3, 0)), 1, "column"),
        (np.zeros(3), 1, "column"),
        (np.zeros((3, 1)), 0, "at least as many"),
        (np.zeros((0, 1)), 1, "at least as many"),
    ],
)
def test_what_has_no_clusters_is_refused(values, k, match):
    with pytest.raises(ValueError, match=match):
        mdav(values, k)
