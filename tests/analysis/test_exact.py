"""Independent draws for linear models with noised numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, kstest
from tests.analysis.linear_problems import build_number_problem, fit_least_squares

from sfumato.analysis.problem import Category, NoisyNumber, Sampling, Term
from sfumato.analysis.samplers import exact
from sfumato.errors import MeasureError

FEW = Sampling(chains=2, draws=300, warmup=0)


def simulate(rng, records, shape="normal", outcome=0.0, variance=0.5):
    """A skewed or normal true number that depends on a clean column."""
    clean = rng.normal(size=records)
    free = rng.exponential(size=records) - 1 if shape == "skewed" else rng.normal(size=records)
    true = 2 + 0.5 * clean + free
    y = 1 + 0.8 * true - 0.3 * clean + rng.normal(size=records)
    noisy = true + rng.normal(size=records) * np.sqrt(variance)
    released = y + rng.normal(size=records) * np.sqrt(outcome)
    return (true, clean, y), build_number_problem(
        released, noisy, variance, clean=clean, outcome=outcome
    )


def test_without_noise_it_is_least_squares():
    (true, clean, y), problem = simulate(np.random.default_rng(1), 60, variance=0.0)
    result = exact.sample(problem, Sampling(chains=4, draws=10_000))
    expected, errors = fit_least_squares([np.ones(60), true, clean], y)
    draws = result.draws.reshape(-1, 4)
    # Posterior of normal theory: t with 57 degrees of freedom, scaled inverse chi-squared.
    spread = np.append(errors[:3] * np.sqrt(57 / 55), expected[3] * 57 / 55 * np.sqrt(2 / 53))
    center = np.append(expected[:3], expected[3] * 57 / 55)
    assert np.abs(draws.mean(axis=0) - center).max() / spread.max() < 0.03
    assert draws.std(axis=0) == pytest.approx(spread, rel=0.03)
    assert result.details["accepted"] == 1.0
    assert result.independent


@pytest.mark.parametrize("shape", ["normal", "skewed"])
@pytest.mark.parametrize("outcome", [0.0, 0.5])
def test_intervals_cover_the_truth_whatever_the_shape(shape, outcome):
    times, truth = 200, np.array([1, 0.8, -0.3, 1.0])
    covered, means = np.zeros(4), []
    for i in range(times):
        rng = np.random.default_rng([7, i])
        _, problem = simulate(rng, 400, shape, outcome)
        draws = exact.sample(problem, FEW).draws.reshape(-1, 4)
        low, high = np.quantile(draws, [0.025, 0.975], axis=0)
        covered += (low <= truth) & (truth <= high)
        means.append(np.median(draws, axis=0))
    assert (covered >= binom.ppf(0.001, times, 0.95)).all()
    assert (covered <= binom.ppf(0.9995, times, 0.955)).all()
    error = np.std(means, axis=0) / np.sqrt(times)
    assert (np.abs(np.mean(means, axis=0) - truth) < 0.01 * np.abs(truth) + 3 * error).all()


def test_ranks_of_parameters_drawn_from_a_prior_are_uniform():
    """Simulation-based calibration: a slope and a residual variance from spread proper priors.

    The engine's prior is flat, so ranks are uniform up to what 300 records leave of the prior.
    """
    ranks = []
    for i in range(150):
        rng = np.random.default_rng([11, i])
        slope, residual = rng.uniform(-2, 2), rng.uniform(0.5, 2)
        true = rng.normal(size=300)
        y = slope * true + rng.normal(size=300) * np.sqrt(residual)
        noisy = true + rng.normal(size=300) * 0.6
        result = exact.sample(build_number_problem(y, noisy, 0.36), FEW).draws.reshape(-1, 3)
        ranks.append(((result[:, 1] < slope).mean(), (result[:, 2] < residual).mean()))
    for ranks_of_one in np.array(ranks).T:
        assert kstest(ranks_of_one, "uniform").pvalue > 0.005


def test_the_order_of_records_changes_no_bit():
    _, problem = simulate(np.random.default_rng(3), 500)
    order = np.random.default_rng(4).permutation(500)
    turned = replace(
        problem,
        y=problem.y[order],
        numbers=(replace(problem.numbers[0], observed=problem.numbers[0].observed[order]),),
        terms=(*problem.terms[:2], Term(name="w", clean=problem.terms[2].clean[order])),
        covariates=problem.covariates[order],
    )
    first, second = exact.sample(problem, FEW), exact.sample(turned, FEW)
    assert first.draws.tobytes() == second.draws.tobytes()


def test_correlated_noise_of_two_numbers():
    rng = np.random.default_rng(5)
    n, error = 20_000, np.array([[0.5, 0.3], [0.3, 0.4]])
    true = rng.multivariate_normal([0, 5], [[1, 0.4], [0.4, 2]], n)
    y = true @ [1.0, -0.5] + rng.normal(size=n)
    noisy = true + rng.multivariate_normal([0, 0], error, n)
    problem = replace(
        build_number_problem(y, noisy[:, 0], 0.5),
        numbers=(
            NoisyNumber(name="a", observed=noisy[:, 0], variance=0.5),
            NoisyNumber(name="b", observed=noisy[:, 1], variance=0.4),
        ),
        error=error,
        terms=(
            Term(name="b", numbers=((1, None),)),
            Term(name="Intercept"),
            Term(name="a", numbers=((0, None),)),
        ),
    )
    draws = exact.sample(problem, FEW).draws.reshape(-1, 4)
    truth = np.array([-0.5, 0, 1, 1])
    assert (np.abs(draws.mean(axis=0) - truth) < 4 * draws.std(axis=0)).all()


def test_too_much_noise_is_handed_over():
    rng = np.random.default_rng(6)
    true = rng.normal(size=200)
    y = true + rng.normal(size=200)
    noisy = true + rng.normal(size=200)
    result = exact.sample(
        build_number_problem(y, noisy, 3.5), Sampling(chains=2, draws=50, warmup=50)
    )
    assert result.engine == "collapsed"
    assert result.details["accepted"] < 1e-3
    assert any("hardly" in note for note in result.notes)


@settings(max_examples=25)
@given(records=st.integers(1, 12), constant=st.booleans(), twice=st.booleans())
def test_odd_inputs_are_refused_with_a_reason(records, constant, twice):
    rng = np.random.default_rng(records)
    clean = np.full(records, 3.0) if constant else rng.normal(size=records)
    y = rng.normal(size=records)
    noisy = y.copy() if twice else rng.normal(size=records)
    problem = build_number_problem(y, noisy, 0.01, clean=clean)
    if records < 5 or constant or twice:
        reason = "without error"
        if records < 5:
            reason = f"There are {records} records, too few for 3 coefficients"
        if constant or records == 1:
            reason = "term 'w' are all the same"
        with pytest.raises(MeasureError, match=reason):
            exact.sample(problem, FEW)
    else:
        assert np.isfinite(exact.sample(problem, FEW).draws).all()


def test_what_it_cannot_do():
    rng = np.random.default_rng(8)
    y, noisy = rng.normal(size=(2, 50))
    problem = build_number_problem(y, noisy, 0.1)
    assert exact.can(problem)
    missing = replace(problem.numbers[0], observed=np.where(np.arange(50) == 3, np.nan, noisy))
    assert not exact.can(replace(problem, numbers=(missing,)))
    assert not exact.can(replace(problem, groups=np.zeros(50, np.int64)))
    assert not exact.can(replace(problem, family="poisson"))
    level = Category(name="c", levels=("a", "b"), density=np.zeros((50, 2)))
    assert not exact.can(replace(problem, categories=(level,)))
    square = Term(name="x²", numbers=((0, np.square),))
    assert not exact.can(replace(problem, terms=(*problem.terms, square)))
    outside = np.column_stack([np.ones(50), rng.normal(size=50)])
    assert not exact.can(replace(problem, covariates=outside))
