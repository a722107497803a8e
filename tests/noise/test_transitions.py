"""Matrices of probabilities: the floor holds, marginals are kept, Bayes says what is left."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sfumato.noise.transitions import (
    correct,
    draw_along_path,
    draw_transitions,
    find_survival,
    invariant,
    posterior,
    released_shares,
    to_all,
    to_marginal,
    to_near,
)

SHARES = st.lists(st.integers(0, 10_000), min_size=2, max_size=12).filter(any)
RETENTION = st.floats(0.0, 0.999)


def bases(counts: list[int], retention: float) -> list[Any]:
    shares = np.array(counts) / sum(counts)
    size = len(counts)
    return [to_all(size, retention), to_near(size, retention), to_marginal(shares, retention)]


@given(SHARES, RETENTION)
def test_rows_are_distributions_and_the_floor_holds(counts: list[int], retention: float) -> None:
    for matrix in bases(counts, retention):
        assert (matrix >= 0).all()
        np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-12)
        assert (np.diagonal(matrix) == retention).all()


@given(SHARES, RETENTION)
def test_invariance_keeps_the_marginals_and_the_floor(counts: list[int], retention: float) -> None:
    shares = np.array(counts) / sum(counts)
    for matrix in bases(counts, retention):
        made = invariant(matrix, shares)
        assert (made >= 0).all()
        np.testing.assert_allclose(made.sum(axis=1), 1, atol=1e-12)
        np.testing.assert_allclose(released_shares(shares, made), shares, atol=1e-12)
        assert (np.diagonal(made) >= retention).all()
        # As many are expected to go from i to j as from j to i: a release tells what it hides.
        flow = shares[:, None] * made
        np.testing.assert_allclose(flow, flow.T, atol=1e-12)


@given(st.data())
def test_invariance_of_any_matrix(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 6))
    weights = st.lists(st.integers(0, 50), min_size=size, max_size=size).filter(any)
    matrix = np.array([data.draw(weights) for _ in range(size)], float)
    matrix /= matrix.sum(axis=1, keepdims=True)
    counts = np.array(data.draw(weights), float)
    made = invariant(matrix, counts / counts.sum())
    np.testing.assert_allclose(counts @ made, counts, atol=1e-9)
    assert (np.diagonal(made) >= np.diagonal(matrix)).all()
    np.testing.assert_allclose(made.sum(axis=1), 1, atol=1e-12)


@given(SHARES, RETENTION)
def test_what_a_release_tells_is_bayes(counts: list[int], retention: float) -> None:
    shares = np.array(counts) / sum(counts)
    matrix = to_all(len(counts), retention)
    assume((released_shares(shares, matrix) > 0).all())
    told = posterior(shares, matrix)
    np.testing.assert_allclose(told.sum(axis=1), 1, atol=1e-12)
    for level in range(len(counts)):
        joint = sum(shares[other] * matrix[other, level] for other in range(len(counts)))
        assert correct(shares, matrix)[level] == pytest.approx(
            shares[level] * matrix[level, level] / joint
        )


def test_an_invariant_release_is_right_as_often_as_it_stays() -> None:
    shares = np.array([0.9, 0.09, 0.01])
    kept = invariant(to_all(3, 0.8), shares)
    assert correct(shares, kept) == pytest.approx(np.diagonal(kept))
    assert correct(shares, to_all(3, 0.8))[2] < 0.09


def test_a_level_that_is_never_released_tells_nothing() -> None:
    told = posterior(np.array([1.0, 0.0]), np.array([[1.0, 0.0], [0.0, 1.0]]))
    assert np.isnan(told[1]).all()


@given(SHARES, st.integers(0, 2**32))
def test_levels_of_no_probability_are_never_released(counts: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    row = np.array(counts) / sum(counts)
    matrix = np.tile(row, (len(row), 1))
    edges = np.array([np.nextafter(0, 1), *np.cumsum(row)[:-1], np.nextafter(1, 0)])
    uniform = np.concatenate([edges[(edges > 0) & (edges < 1)], random.random(20)])
    at = random.integers(-1, len(row), len(uniform))
    made = draw_transitions(at, uniform, matrix)
    assert (made[at < 0] == -1).all()
    assert (row[made[at >= 0]] > 0).all()


def test_two_stages_would_break_the_floor() -> None:
    """The trap: the usual invariant matrix goes there and back, and so stays twice."""
    shares = np.array([0.9, 0.06, 0.03, 0.01])
    there = to_all(4, 0.8)
    two_stages = there @ posterior(shares, there)
    np.testing.assert_allclose(shares @ two_stages, shares)
    assert np.diagonal(two_stages).min() < 0.6
    assert np.diagonal(invariant(there, shares)).min() >= 0.8


# Less retention is more retention, exchanged again ------------------------------------------------


def keyed_draws(records: int) -> Callable[[str, npt.NDArray[np.intp]], npt.NDArray[np.float64]]:
    """Uniform draws that are the same for a purpose each time it is asked for."""
    return lambda purpose, rows: np.random.default_rng([*purpose.encode()]).random(records)[rows]


@pytest.mark.parametrize("levels", [2, 5])
def test_a_path_has_the_matrix_it_says_at_every_retention(levels: int) -> None:
    records = 60_000
    true = np.arange(records) % levels
    for retention in (1 / levels, 0.55, 0.9, 0.999):
        matrix = to_all(levels, retention)
        survival = find_survival(matrix)
        assert survival is not None
        released = draw_along_path(true, levels, survival, keyed_draws(records))
        counts = np.zeros((levels, levels))
        np.add.at(counts, (true, released), 1)
        shares = counts / counts.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(shares, matrix, atol=5 * math.sqrt(levels / records))


def test_the_later_level_depends_on_the_earlier_one_and_not_on_the_true_one() -> None:
    levels, records = 3, 200_000
    true = np.arange(records) % levels
    draws = keyed_draws(records)
    survivals = [find_survival(to_all(levels, retention)) or 0.0 for retention in (0.8, 0.6)]
    early, late = (draw_along_path(true, levels, size, draws) for size in survivals)
    for level in range(levels):
        shares = [
            np.mean(late[(early == level) & (true == truth)] == level) for truth in range(levels)
        ]
        # What stays of a level from the first release to the second, whoever it was.
        expected = survivals[1] / survivals[0] * (1 - 1 / levels) + 1 / levels
        np.testing.assert_allclose(shares, expected, atol=0.025)


def test_missing_levels_stay_missing_on_a_path() -> None:
    codes = np.array([-1, 0, 1, -1])
    released = draw_along_path(codes, 2, 0.0, keyed_draws(4))
    assert (released[[0, 3]] == -1).all()
    assert (released[[1, 2]] >= 0).all()
