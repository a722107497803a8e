"""Exact neighbours within strata: every tie as the slow reference breaks it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import cKDTree
from tests.kernels.slow_neighbours import slow_centroids, slow_neighbours

from sfumato.kernels.neighbours import centroids, neighbours


@st.composite
def problems(draw):
    """Strata of tied, repeated, constant or continuous points, with a k for each."""
    columns = draw(st.integers(1, 10))
    sizes = draw(st.lists(st.integers(1, 60), min_size=1, max_size=4))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = (sum(sizes), columns)
    kind = draw(st.sampled_from(["whole", "few", "continuous", "huge", "tiny"]))
    values = {
        "whole": lambda: random.integers(0, 8, shape).astype(float),
        "few": lambda: random.integers(0, 2, shape).astype(float),
        "continuous": lambda: random.normal(size=shape),
        "huge": lambda: random.normal(size=shape) * 1e120,
        "tiny": lambda: random.normal(size=shape) * 1e-120,
    }[kind]()
    if draw(st.booleans()):
        values[:, 0] = 1.0
    starts = np.concatenate([[0], np.cumsum(sizes)])
    k = np.array([draw(st.integers(1, size)) for size in sizes])
    unit = {"huge": 1e-120, "tiny": 1e120}.get(kind, 1.0)
    scale = random.uniform(0.5, 2, columns) * unit
    if draw(st.booleans()):
        scale = random.normal(size=(columns, columns)) * unit + np.diag(scale)
    return values, scale, starts, k


@settings(max_examples=150)
@given(problems())
def test_every_tie_is_broken_as_by_brute_force(problem):
    assert (neighbours(*problem) == slow_neighbours(*problem)).all()
    assert (centroids(*problem) == slow_centroids(*problem)).all()


@pytest.mark.parametrize("columns", [1, 2, 4, 7])
@pytest.mark.parametrize("kind", ["whole", "continuous"])
@pytest.mark.parametrize("matrix", [False, True])
def test_large_strata_use_the_tree_and_agree(columns, kind, matrix):
    random = np.random.default_rng(columns)
    shape = (1500, columns)
    values = random.integers(0, 12, shape).astype(float)
    if kind == "continuous":
        values = random.normal(size=shape)
    scale = random.uniform(0.5, 2, columns)
    if matrix:
        scale = np.diag(scale) + random.normal(size=(columns, columns)) * 0.2
    starts = np.array([0, 900, 1500])
    some = random.permutation(1500)[:60]
    rows = neighbours(values, scale, starts, 7)
    slow = slow_neighbours(values, scale, starts, 7)
    assert (rows[some] == slow[some]).all()
    assert (
        centroids(values, scale, starts, 7)[some] == slow_centroids(values, scale, starts, 7)[some]
    ).all()


@given(problems(), st.integers(0, 2**32 - 1))
def test_order_of_records_and_of_strata_does_not_matter(problem, seed):
    values, scale, starts, k = problem
    made = centroids(values, scale, starts, k)
    random = np.random.default_rng(seed)
    parts = [np.arange(low, high) for low, high in itertools.pairwise(starts)]
    which = random.permutation(len(parts))
    order = np.concatenate([random.permutation(parts[one]) for one in which])
    cuts = np.concatenate([[0], np.cumsum([len(parts[one]) for one in which])])
    assert (centroids(values[order], scale, cuts, k[which]) == made[order]).all()


def test_distances_are_those_of_another_library():
    values = np.random.default_rng(5).normal(size=(5000, 3))
    rows = neighbours(values, np.ones(3), np.array([0, 5000]), 6)
    ours = np.linalg.norm(values[rows] - values[:, None], axis=2)
    theirs, _ = cKDTree(values).query(values, k=6)
    assert ours == pytest.approx(theirs, abs=1e-12)


def test_the_record_itself_comes_first_and_equal_ones_in_their_order():
    values = np.array([[1.0], [1.0], [1.0], [2.0]])
    assert neighbours(values, np.ones(1), np.array([0, 4]), 3).tolist() == [
        [0, 1, 2], [1, 0, 2], [2, 0, 1], [3, 0, 1],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": np.full((4, 2), np.nan)}, "finite numbers"),
        ({"values": np.zeros(4)}, "a table"),
        ({"values": np.full((4, 2), 1e300)}, "must not exceed"),
        ({"scale": np.ones(3)}, "a number per column"),
        ({"scale": -np.ones(2)}, "positive"),
        ({"starts": np.array([0, 3])}, "end with the number of rows"),
        ({"starts": np.array([0, 3, 2, 4])}, "must not decrease"),
        ({"k": 5}, "between 1 and the number of records"),
        ({"k": 0}, "between 1 and the number of records"),
        ({"k": np.array([1, 1])}, "one per stratum"),
    ],
)
def test_what_makes_no_sense_is_refused(change, message):
    fine = {"values": np.eye(4)[:, :2], "scale": np.ones(2), "starts": np.array([0, 4]), "k": 2}
    with pytest.raises(ValueError, match=message):
        centroids(**{**fine, **change})
