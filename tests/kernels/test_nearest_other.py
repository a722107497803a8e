from __future__ import annotations

import numpy as np
import pytest

from sfumato.kernels.trees.nearest_other import distance_to_other, find_patterns
from sfumato.units import Units


def slow(values, rows, number, limit):
    """One row of the matrix of all distances after the other."""
    result = []
    for row in rows:
        has = ~np.isnan(values[:, row])
        gone = np.sqrt(((values[has] - values[has][:, [row]]) ** 2).sum(axis=0))
        gone[row] = np.nan
        others = np.sort(gone[~np.isnan(gone)])
        nearest = others[number - 1] if len(others) >= number else np.inf
        result.append(nearest if nearest <= limit else np.inf)
    return np.array(result)


@pytest.mark.parametrize("seed", range(40))
def test_agrees_with_the_matrix_of_all_distances(seed):
    draws = np.random.default_rng(seed)
    values = draws.standard_normal((draws.integers(1, 4), draws.integers(2, 80)))
    if seed % 2:
        values = np.round(values)  # many ties
    if seed % 3 == 0:
        values[draws.random(values.shape) < 0.2] = np.nan
    rows = np.flatnonzero(~np.isnan(values).all(axis=0))
    rows = draws.permutation(rows)[: max(1, len(rows) // 2)]
    number, limit = int(draws.integers(1, 6)), float(draws.choice([0.0, 0.3, 99.0]))
    expected = slow(values, rows, number, limit)
    assert distance_to_other(values, rows, number, limit, Units(values.shape[1])) == pytest.approx(
        expected
    )


def test_many_equal_records_cost_little():
    values = np.repeat(np.arange(3.0), 100_000)[None]
    rows, units = np.arange(300_000), Units(300_000)
    assert (distance_to_other(values, rows, 99_999, 5.0, units) == 0).all()
    assert (distance_to_other(values, rows, 100_000, 5.0, units) == 1).all()
    assert np.isinf(distance_to_other(values, rows, 300_000, 5.0, units)).all()


def test_nobody_else_is_infinitely_far():
    assert np.isinf(distance_to_other(np.array([[1.0]]), np.array([0]), 1, 9.0, Units(1))).all()
    nothing = np.full((2, 3), np.nan)
    assert np.isinf(distance_to_other(nothing, np.array([1]), 1, 9.0, Units(3))).all()
    assert len(distance_to_other(np.ones((1, 3)), np.array([], int), 1, 9.0, Units(3))) == 0


def test_patterns_cover_each_record_once():
    known_values = np.random.default_rng(0).random((11, 200)) < 0.9
    result = find_patterns(known_values)
    assert sorted(np.concatenate([rows for _, rows in result])) == list(range(200))
    for pattern, rows in result:
        assert (known_values[:, rows] == pattern[:, None]).all()
