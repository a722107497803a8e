"""How many normals the shape of true values takes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.analysis.problem import Shape
from sfumato.analysis.samplers.mixture import Mixture, choose_flexible_mixture, choose_mixture
from sfumato.kernels.arrays import Floats

NOISE = np.diag([0.2, 0.1])


def release(true: Floats, rng: np.random.Generator) -> Floats:
    released: Floats = true + rng.normal(size=true.shape) * np.sqrt(np.diag(NOISE))
    released -= released.mean(axis=0)
    return released


def simulate_skewed(records: int, rng: np.random.Generator) -> Floats:
    return release(np.exp(0.8 * rng.normal(size=(records, 2))), rng)


def are_equal(mixture: Mixture, other: Mixture) -> bool:
    parts = ("shares", "means", "covariances")
    return all(np.array_equal(getattr(mixture, part), getattr(other, part)) for part in parts)


@given(st.integers(0, 10_000), st.sampled_from(["auto", "normal"]))
@settings(max_examples=15, deadline=None)
def test_normal_values_are_left_alone(seed: int, shape: Shape):
    # The BIC takes a second normal of two numbers, six parameters, for chance in next to no case.
    rng = np.random.default_rng([seed, 41])
    residual = release(rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 333), rng)
    assert choose_flexible_mixture(residual, NOISE, shape).components == 1
    assert are_equal(
        choose_flexible_mixture(residual, NOISE, shape), choose_mixture(residual, NOISE, shape)
    )


def test_skewed_values_get_normals_to_spare():
    residual = simulate_skewed(333, np.random.default_rng(42))
    few, many = (
        choose_mixture(residual, NOISE, "auto"),
        choose_flexible_mixture(residual, NOISE, "auto"),
    )
    assert 1 < few.components < many.components == 6
    assert many.shares.sum() == pytest.approx(1)
    assert (np.linalg.eigvalsh(many.covariances) > 0).all()
    # Both have the mean and, the noise put back, the covariance that was seen.
    for mixture in (few, many):
        assert mixture.shares @ mixture.means == pytest.approx(np.zeros(2), abs=1e-6)
        deviations = mixture.means - mixture.shares @ mixture.means
        within = np.einsum("k,kij->ij", mixture.shares, mixture.covariances)
        between = np.einsum("k,ki,kj->ij", mixture.shares, deviations, deviations)
        total = within + between + NOISE
        assert np.allclose(total, np.cov(residual.T, bias=True), rtol=0.1, atol=0.05)


def test_one_normal_stays_one_where_that_is_asked():
    residual = simulate_skewed(333, np.random.default_rng(43))
    assert choose_flexible_mixture(residual, NOISE, "normal").components == 1


def test_few_records_get_no_more_than_they_can_bear():
    rng = np.random.default_rng(44)
    # Twenty-five for each component and number; the BIC's own choice stays the least.
    assert choose_flexible_mixture(simulate_skewed(210, rng), NOISE, "auto").components == 4
    small = simulate_skewed(60, rng)
    assert are_equal(
        choose_flexible_mixture(small, NOISE, "mixture"), choose_mixture(small, NOISE, "mixture")
    )
