"""Descriptions as likelihoods: every one adds up to 1, and says what the noise does."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

import sfumato as sf
from sfumato.analysis.corrected_scores import (
    NoCorrectedScoreError,
    estimate_level_shares,
    score_levels,
    unbiased_power,
)
from sfumato.analysis.measurement_error import (
    NoiseByStratum,
    build_category,
    build_number,
    covariance_between,
    is_noiseless,
    noise_covariance,
    strata_variables,
)
from sfumato.analysis.problem import NoisyNumber
from sfumato.errors import DataError
from sfumato.noise.description import Level, StratifiedGaussian

NOTHING = pl.DataFrame()
POSITIVE = st.floats(0.05, 2.0)


def density(noise, released) -> np.ndarray:
    return np.exp(
        build_category("v", pl.Series("v", released, strict=False), noise, NOTHING).density
    )


@settings(max_examples=12)
@given(POSITIVE, st.integers(2, 4))
def test_clipped_codes_add_up_to_one(variance, count):
    noise = sf.CodeNoise(variance=variance, levels=list(range(1, count + 1)), ends="clip")
    for level in range(count):
        ends = density(noise, [1.0, float(count)])[:, level].sum()
        inside, _ = quad(
            lambda z, at=level: density(noise, [z])[0, at], 1 + 1e-12, count - 1e-12, limit=200
        )
        assert ends + inside == pytest.approx(1, abs=1e-6)


@given(POSITIVE, st.integers(2, 5))
def test_rounded_codes_add_up_to_one(variance, count):
    levels: list[Level] = [f"level {at}" for at in range(count)]
    noise = sf.CodeNoise(variance=variance, levels=levels, ends="round")
    np.testing.assert_allclose(density(noise, levels).sum(axis=0), 1, atol=1e-12)


def test_free_codes_with_a_variance_for_each_level_are_normal():
    noise = sf.CodeNoise(variance=[0.1, 0.4], levels=["a", "b"], ends="free")
    made = density(noise, [-1.0, 0.3, 4.0])
    expected = norm.pdf([[-1.0], [0.3], [4.0]], [0, 1], np.sqrt([0.1, 0.4]))
    np.testing.assert_allclose(made, expected, rtol=1e-10)


def test_the_paper_s_three_likelihoods_of_a_binary_code():
    sd = math.sqrt(0.2)
    clip = density(sf.CodeNoise(variance=0.2, levels=[0, 1], ends="clip"), [0.0, 0.4, 1.0])
    assert clip[0].tolist() == pytest.approx([0.5, norm.cdf(-1 / sd)])
    assert clip[1].tolist() == pytest.approx([norm.pdf(0.4, 0, sd), norm.pdf(0.4, 1, sd)])
    assert clip[2].tolist() == pytest.approx([norm.sf(1 / sd), 0.5])
    rounded = density(sf.CodeNoise(variance=0.2, levels=[0, 1], ends="round"), [0, 1])
    wrong = norm.sf(0.5 / sd)
    np.testing.assert_allclose(rounded, [[1 - wrong, wrong], [wrong, 1 - wrong]], rtol=1e-12)


def test_far_tails_stay_finite_and_keep_their_order():
    noise = sf.CodeNoise(variance=1e-4, levels=[0, 1], ends="free")
    made = build_category("v", pl.Series([0.3, 0.7]), noise, NOTHING).density
    assert np.isfinite(made).all()
    assert made[0, 0] > made[0, 1]
    assert made[1, 1] > made[1, 0]
    rounded = sf.CodeNoise(variance=1e-3, levels=[0, 1, 2], ends="round")
    assert np.isfinite(build_category("v", pl.Series([2]), rounded, NOTHING).density).all()


def test_missing_values_say_nothing():
    noise = sf.CodeNoise(variance=0.2, levels=[0, 1])
    assert density(noise, [None, 0.5])[0].tolist() == [1, 1]
    exchange = sf.Misclassification(levels=["a", "b"], matrix=[[0.9, 0.1], [0.2, 0.8]])
    assert density(exchange, [None, "a"]).tolist() == [[1, 1], pytest.approx([0.9, 0.2])]


def test_exchange_by_stratum():
    told = sf.Misclassification(
        levels=["a", "b"],
        strata=[
            {"where": {"ward": 1}, "matrix": [[0.9, 0.1], [0.2, 0.8]]},
            {"where": {"ward": None}, "matrix": [[0.6, 0.4], [0.3, 0.7]]},
        ],
    )
    assert strata_variables(told) == ["ward"]
    values, wards = pl.Series("v", ["a", "b", "a"]), pl.DataFrame({"ward": [1, 1, None]})
    made = np.exp(build_category("v", values, told, wards).density)
    np.testing.assert_allclose(made, [[0.9, 0.2], [0.1, 0.8], [0.6, 0.3]])
    with pytest.raises(DataError, match="stratum"):
        build_category("v", values, told, pl.DataFrame({"ward": [1, 2, None]}))


def test_numbers_are_brought_to_the_scale_of_their_noise():
    values = np.array([1.0, np.nan, 9.0])
    plain = build_number("x", values, sf.Gaussian(variance=0.3))
    assert plain.observed is values
    assert not plain.is_homoscedastic_normal  # one is missing
    logs = build_number("x", values, sf.Gaussian(variance=0.3, scale=sf.Scale(name="log", shift=1)))
    np.testing.assert_allclose(logs.observed, np.log(values + 1))
    together = sf.CorrelatedGaussian(
        variables=["u", "x"], weight=0.8, mean=[5.0, 1.0], covariance=[[1.0, 0.5], [0.5, 2.0]]
    )
    made = build_number("x", values, together, own_variance=0.1)
    np.testing.assert_allclose(made.observed, (values - 1) / 0.8)
    assert made.variance == pytest.approx(2 / 0.64 + 0.1)
    other = build_number("u", values, together)
    error = noise_covariance([other, made], {"u": together, "x": together})
    np.testing.assert_allclose(error, [[1 / 0.64, 0.5 / 0.64], [0.5 / 0.64, 2 / 0.64 + 0.1]])


def test_ends_count_only_where_a_record_lies_at_one():
    noise = sf.Gaussian(variance=1.0, at_least=0.0, at_most=10.0)
    made = build_number("x", np.array([0.0, 4.0, 9.0]), noise)
    assert (made.low, made.high) == (0.0, math.inf)
    assert build_number("x", np.array([1.0, 4.0]), noise).is_homoscedastic_normal


def test_fine_rounding_is_noise_of_its_own():
    made = build_number("x", np.array([1.0, 2.0]), sf.Gaussian(variance=4.0, whole=True))
    assert made.is_homoscedastic_normal
    assert made.variance == pytest.approx(4 + 1 / 12)
    coarse = build_number("x", np.array([1.0, 2.0]), sf.Gaussian(variance=0.04, whole=True))
    assert coarse.width == 1
    # What rounding is: the probability of a whole number is nearly that normal density.
    z = np.arange(-12, 13)
    exact = norm.cdf(z + 0.5, 0.3, 2) - norm.cdf(z - 0.5, 0.3, 2)
    np.testing.assert_allclose(norm.pdf(z, 0.3, np.sqrt(4 + 1 / 12)), exact, atol=3e-5)
    fine = sf.Gaussian(variance=0.5, scale=sf.Scale(name="log"), whole=True)
    assert build_number("x", np.array([20.0, 30.0]), fine).width == 0
    with pytest.raises(DataError, match="rounded"):
        build_number("x", np.array([1.0, 30.0]), fine)


def test_the_digits_of_released_numbers_are_accounted_for():
    """Steps of a grid are rounding as whole numbers are; fine ones count for nothing elsewhere."""
    values = np.array([0.5, 2.0, 7.5])
    made = build_number("x", values, sf.Gaussian(variance=1.0, step=0.5))
    assert made.is_homoscedastic_normal
    assert made.variance == pytest.approx(1 + 0.25 / 12)
    assert build_number("x", values, sf.Gaussian(variance=0.04, step=0.5)).width == 0.5
    growth = sf.Growth(form="power", constant=1.0, slope=0.1)
    for noise in (
        sf.Laplace(variance=1.0, step=0.1),
        sf.Gaussian(growth=growth, step=0.1),
        sf.Gaussian(variance=1.0, step=0.1, at_least=0.5),
        sf.Gaussian(variance=0.04, step=0.1, scale=sf.Scale(name="log")),
    ):
        assert build_number("x", values, noise).width == 0
    for noise in (
        sf.Laplace(variance=1.0, step=1.0),
        sf.Gaussian(growth=growth, step=1.0),
        sf.Gaussian(variance=1.0, step=1.0, at_least=0.5),
    ):
        assert build_number("x", values, noise).width == 1
    # Small values keep three digits, so that rounding is fine on every scale.
    log = sf.Gaussian(variance=0.01, step=1.0, scale=sf.Scale(name="log"))
    assert build_number("x", np.array([0.0123, 45.0]), log).variance == pytest.approx(
        0.01 + 1e-4 / 12, rel=0.01
    )
    correlated = sf.CorrelatedGaussian(
        variables=["x", "y"],
        weight=0.5,
        mean=[0.0, 0.0],
        covariance=[[4.0, 1.0], [1.0, 3.0]],
        steps={"x": 1.0},
    )
    assert build_number("x", values, correlated).variance == pytest.approx((4 + 1 / 12) / 0.25)
    assert build_number("y", values, correlated).variance == 3 / 0.25


def test_errors_of_the_measurement_itself():
    grown = sf.Gaussian(growth=sf.Growth(form="step", breaks=[1], variances=[1, 2]))
    made = build_number("x", np.array([0.0, 3.0]), grown, own_variance=0.5)
    assert made.growth.variance(made.observed).tolist() == [1.5, 2.5]  # type: ignore[union-attr]
    with pytest.raises(DataError, match="own"):
        build_number("x", np.array([1.0]), sf.Laplace(variance=1.0), own_variance=0.5)


def test_refusals_never_quote_a_value():
    coded = sf.CodeNoise(variance=0.2, levels=["a", "b"], ends="round")
    numbered = sf.CodeNoise(variance=1, levels=[0, 1])
    logs = sf.Gaussian(variance=1, scale=sf.Scale(name="log"))
    for call in (
        lambda: build_category("v", pl.Series(["secret"]), coded, NOTHING),
        lambda: build_category("v", pl.Series(["secret"]), numbered, NOTHING),
        lambda: build_category("v", pl.Series([1]), sf.Gaussian(variance=1.0), NOTHING),
        lambda: build_number("v", np.array([-7.25]), logs),
        lambda: build_number("v", np.array([7.25]), coded),
        lambda: build_category(
            "v", pl.Series(["a"]),
            sf.Misclassification(levels=["a", "b"], matrix=[[0.0, 1.0], [0.0, 1.0]]), NOTHING,
        ),
    ):  # fmt: skip
        with pytest.raises(DataError, match="'v'") as caught:
            call()
        assert "secret" not in str(caught.value)
        assert "7.25" not in str(caught.value)


def test_noise_that_is_none():
    assert is_noiseless(sf.Gaussian(variance=0.0))
    assert is_noiseless(sf.CodeNoise(variance=0, levels=[0, 1]))
    assert is_noiseless(sf.Misclassification(levels=[0, 1], matrix=[[1, 0], [0, 1]]))
    assert not is_noiseless(sf.Gaussian(variance=0.1))


@pytest.mark.parametrize("ends", ["clip", "round", "free"])
def test_scores_of_levels_are_right_on_average(ends):
    levels: list[Level] = ["a", "b", "c"]
    noise = sf.CodeNoise(variance=[0.1, 0.2, 0.3], levels=levels, ends=ends)
    rng = np.random.default_rng(3)
    true = rng.choice(3, p=[0.6, 0.3, 0.1], size=200_000)
    noisy = true + rng.normal(size=true.size) * np.sqrt(noise.variances)[true]
    if ends == "round":
        released = pl.Series([levels[one] for one in np.clip(np.rint(noisy), 0, 2).astype(int)])
    else:
        released = pl.Series(np.clip(noisy, 0, 2) if ends == "clip" else noisy)
    made = score_levels("v", released, noise, NOTHING)
    for level in range(3):
        some = made[true == level]
        expected = np.eye(3)[level]
        assert np.abs(some.mean(axis=0) - expected).max() < 5 * some.std() / np.sqrt(len(some))
    assert np.abs(made.mean(axis=0) - [0.6, 0.3, 0.1]).max() < 0.01


def test_scores_of_exchanged_levels_are_those_of_the_inverse_matrix():
    matrix = np.array([[0.8, 0.2], [0.3, 0.7]])
    noise = sf.Misclassification(levels=["a", "b"], matrix=matrix.tolist())
    made = score_levels("v", pl.Series(["a", "b", None]), noise, NOTHING)
    np.testing.assert_allclose(made[:2], np.linalg.inv(matrix), rtol=1e-9)
    assert np.isnan(made[2]).all()
    with pytest.raises(NoCorrectedScoreError):
        score_levels("v", pl.Series(["a"]), sf.Misclassification(
            levels=["a", "b"], matrix=[[0.5, 0.5], [0.5, 0.5]]), NOTHING)  # fmt: skip
    assert estimate_level_shares(np.ones((5, 2))).tolist() == [0.5, 0.5]


def test_powers_are_right_on_average():
    rng = np.random.default_rng(4)
    one = NoisyNumber(name="x", observed=1.5 + 0.6 * rng.normal(size=400_000), variance=0.36)
    for exponent in range(5):
        made = unbiased_power(one, exponent)
        assert made.mean() == pytest.approx(1.5**exponent, abs=6 * made.std() / 632 + 1e-12)
    grown = sf.Growth(form="linear", constant=0.1, slope=0.2)
    seen = 1.5 + np.sqrt(0.4) * rng.normal(size=400_000)
    made = unbiased_power(NoisyNumber(name="x", observed=seen, variance=None, growth=grown), 2)
    assert made.mean() == pytest.approx(2.25, abs=0.02)
    with pytest.raises(NoCorrectedScoreError):
        unbiased_power(NoisyNumber(name="x", observed=seen, variance=1.0, laplace=True), 3)


def test_the_covariance_of_two_noises():
    def described(shared: float, weight: float = 0.8) -> sf.CorrelatedGaussian:
        matrix = [[1.0, shared], [shared, 2.0]]
        return sf.CorrelatedGaussian(
            variables=["a", "b"], weight=weight, mean=[0.0, 0.0], covariance=matrix
        )

    def by_stratum(shared: float) -> NoiseByStratum:
        strata = [
            {"where": {"g": g}, "mean": [0.0, 0.0], "covariance": [[1.0, shared], [shared, 1.0]]}
            for g in (0, 1)
        ]
        return NoiseByStratum(StratifiedGaussian(variables=["a", "b"], weight=0.8, strata=strata))

    shared = described(0.3)
    assert covariance_between({"a": shared, "b": shared}, "a", "b") == 0.3 / 0.8**2
    assert covariance_between({"a": shared, "b": shared}, "b", "a") == 0.3 / 0.8**2
    # Noise of two draws has nothing in common, however it is described.
    assert covariance_between({"a": shared, "b": described(0.3, 0.7)}, "a", "b") == 0
    alone = {"a": sf.Gaussian(variance=1.0), "b": sf.Gaussian(variance=1.0)}
    assert covariance_between(alone, "a", "b") == 0
    assert covariance_between({}, "a", "b") == 0
    apart = by_stratum(0.0)
    assert covariance_between({"a": apart, "b": apart}, "a", "b") == 0
    together = by_stratum(0.2)
    with pytest.raises(DataError, match="correlated, and differently in each stratum"):
        covariance_between({"a": together, "b": together}, "a", "b")
