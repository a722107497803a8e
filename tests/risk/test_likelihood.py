"""The attacker who knows the noise, against all pairs by the formula."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.kernels.trees.ranks import nearest
from sfumato.risk.attacks.distances import space
from sfumato.risk.attacks.knowledge import Knowledge
from sfumato.risk.attacks.likelihood import (
    BY_LIKELIHOOD,
    BY_MEDIANS,
    estimate_noise,
    link_by_absolute_distance,
    select_variables,
    weigh_by_noise,
)
from sfumato.units import Units


def prepare(original, released):
    names = tuple(f"x{at}" for at in range(original.shape[1]))
    known = Knowledge(names, original, released, np.ones(len(original), bool), Units(len(original)))
    where = space(known, released, standardise=True, distance="euclidean", owner="test")
    return where, estimate_noise(known, where, released)


def draw(records=400, sizes=(0.1, 1.0, 0.0), seed=0):
    random = np.random.default_rng(seed)
    original = random.normal(size=(records, 3)) * [1, 50, 1000]
    return original, original + random.normal(size=(records, 3)) * sizes * np.array([1, 50, 1000])


def test_sizes_of_added_noise_are_found_and_exact_is_the_floor():
    original, released = draw()
    _, noise = prepare(original, released)
    sizes = np.sqrt(((released - original) ** 2).mean(axis=0))
    assert noise.deviations[:2] == pytest.approx(sizes[:2], rel=1e-9)
    assert noise.deviations[2] == pytest.approx(1e-6 * original[:, 2].std(ddof=1), rel=1e-9)
    assert noise.relative.argmax() == 1
    assert noise.correlation is None


def test_a_change_of_units_is_taken_back_and_added_noise_is_left_as_it_is():
    original, released = draw(sizes=(0.1, 0.1, 0.1))
    _, plain = prepare(original, released)
    assert np.array_equal(plain.fitted, original)
    _, moved = prepare(original, released * 3 + 7)
    for column, shown in enumerate((released * 3 + 7).T):
        line = np.polynomial.Polynomial.fit(original[:, column], shown, 1)(original[:, column])
        assert moved.fitted[:, column] == pytest.approx(line, rel=1e-9)
    assert moved.deviations == pytest.approx(plain.deviations * 3, rel=0.01)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_the_nearest_by_weights_is_the_most_likely(seed, correlated):
    random = np.random.default_rng(seed)
    original, released = draw(60, (0.2, 0.5, 0.9), seed)
    if correlated:
        released[:, 1] += 50 * (released[:, 0] - original[:, 0]) * 5
    where, noise = prepare(original, released)
    weighed = weigh_by_noise(where, noise)[BY_LIKELIHOOD]
    links = nearest(weighed.original, weighed.released, weighed.scale)
    matrix = np.eye(3) if noise.correlation is None else noise.correlation
    inverse = np.linalg.inv(matrix * np.outer(noise.deviations, noise.deviations))
    gaps = noise.released[None] - noise.fitted[:, None]
    squares = np.einsum("ijk,kl,ijl->ij", gaps, inverse, gaps)
    assert links.squared == pytest.approx(squares.min(axis=1), rel=1e-6)
    order = random.permutation(60)
    again = weigh_by_noise(*prepare(original[order], released[order]))[BY_LIKELIHOOD]
    assert np.array_equal(again.scale, weighed.scale)


def test_medians_count_where_few_moved_far():
    original, released = draw(sizes=(0.3, 0.3, 0.0))
    assert BY_MEDIANS not in weigh_by_noise(*prepare(*draw(sizes=(0.3, 0.3, 0.3))))
    released[:20, 2] = released[:20, 2][::-1]
    spaces = weigh_by_noise(*prepare(original, released))
    assert spaces[BY_MEDIANS].scale[2] > 1000 * spaces[BY_LIKELIHOOD].scale[2]


def test_absolute_distances_by_all_pairs():
    random = np.random.default_rng(1)
    original = random.integers(0, 30, (80, 2)).astype(float)
    released = original + np.round(random.laplace(size=(80, 2)))
    _, noise = prepare(original, released)
    gaps = np.abs(noise.released[None] - noise.fitted[:, None]) / noise.typical
    total = gaps.sum(axis=2)
    close = total <= total.min(axis=1, keepdims=True) * (1 + 1e-12)
    expected = np.diag(close) / close.sum(axis=1)
    assert link_by_absolute_distance(noise, Units(80)) == pytest.approx(expected)


def test_few_records_are_not_fitted():
    original, released = draw(10)
    _, noise = prepare(original, released * 2)
    assert np.array_equal(noise.fitted, original)


def test_a_part_of_the_variables():
    where, _ = prepare(*draw())
    part = select_variables(where, [2, 0])
    assert part.names == ("x2", "x0")
    assert np.array_equal(part.original, where.original[:, [2, 0]])
    assert np.array_equal(part.scale, where.scale[[2, 0]])
