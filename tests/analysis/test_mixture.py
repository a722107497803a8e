"""How many normals the shape of true values takes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.analysis.problem import Shape
from sfumato.analysis.samplers.mixture import Mixture, chosen, spared
from sfumato.kernels.arrays import Floats

NOISE = np.diag([0.2, 0.1])


def seen(true: Floats, chance: np.random.Generator) -> Floats:
    made: Floats = true + chance.normal(size=true.shape) * np.sqrt(np.diag(NOISE))
    made -= made.mean(axis=0)
    return made


def skewed(records: int, chance: np.random.Generator) -> Floats:
    return seen(np.exp(0.8 * chance.normal(size=(records, 2))), chance)


def same(one: Mixture, other: Mixture) -> bool:
    parts = ("shares", "means", "covariances")
    return all(np.array_equal(getattr(one, part), getattr(other, part)) for part in parts)


@given(st.integers(0, 10_000), st.sampled_from(["auto", "normal"]))
@settings(max_examples=15, deadline=None)
def test_normal_values_are_left_alone(seed: int, shape: Shape):
    # The BIC takes a second normal of two numbers, six parameters, for chance in next to no case.
    chance = np.random.default_rng([seed, 41])
    residual = seen(chance.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 333), chance)
    assert spared(residual, NOISE, shape).components == 1
    assert same(spared(residual, NOISE, shape), chosen(residual, NOISE, shape))


def test_skewed_values_get_normals_to_spare():
    residual = skewed(333, np.random.default_rng(42))
    few, many = chosen(residual, NOISE, "auto"), spared(residual, NOISE, "auto")
    assert 1 < few.components < many.components == 6
    assert many.shares.sum() == pytest.approx(1)
    assert (np.linalg.eigvalsh(many.covariances) > 0).all()
    # Both have the mean and, the noise put back, the covariance that was seen.
    for one in (few, many):
        assert one.shares @ one.means == pytest.approx(np.zeros(2), abs=1e-6)
        away = one.means - one.shares @ one.means
        within = np.einsum("k,kij->ij", one.shares, one.covariances)
        between = np.einsum("k,ki,kj->ij", one.shares, away, away)
        whole = within + between + NOISE
        assert np.allclose(whole, np.cov(residual.T, bias=True), rtol=0.1, atol=0.05)


def test_one_normal_stays_one_where_that_is_asked():
    residual = skewed(333, np.random.default_rng(43))
    assert spared(residual, NOISE, "normal").components == 1


def test_few_records_get_no_more_than_they_can_bear():
    chance = np.random.default_rng(44)
    # Twenty-five for each component and number; the BIC's own choice stays the least.
    assert spared(skewed(210, chance), NOISE, "auto").components == 4
    small = skewed(60, chance)
    assert same(spared(small, NOISE, "mixture"), chosen(small, NOISE, "mixture"))
