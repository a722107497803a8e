"""The Gibbs sampler of linear models, true numbers integrated out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, kstest
from tests.analysis.linear_problems import (
    build_level_problem,
    build_number_problem,
    code_log_density,
    fit_least_squares,
    simulate_table_4,
)

from sfumato.analysis.problem import Category, NoisyNumber, Problem, Sampling, Shape, Term
from sfumato.analysis.samplers import exact
from sfumato.analysis.samplers.gibbs import sampler as gibbs
from sfumato.errors import MeasureError

SHORT = Sampling(chains=4, draws=80, warmup=80)
FEW = Sampling(chains=4, draws=40, warmup=30)


def flatten(result):
    return result.draws.reshape(-1, result.draws.shape[-1])


def simulate_groups(rng, groups=40, size=25):
    """A true number that differs by group, and an outcome that does, for another reason."""
    group = np.repeat(np.arange(groups), size)
    true = rng.normal(size=groups)[group] + rng.normal(size=groups * size)
    effect = rng.normal(size=groups)[group] * 0.6
    y = 1 + 0.7 * true + effect + rng.normal(size=groups * size)
    return group, true, y


def test_table_4_in_small():
    times, truth = 40, np.ones(4)
    deviations, covered = [], np.zeros(4)
    for i in range(times):
        (first, second, y), released = simulate_table_4(np.random.default_rng([4, i]))
        draws = flatten(gibbs.sample(build_level_problem(y, *released, 0.2), SHORT))
        deviations.append(
            draws.mean(axis=0) - fit_least_squares([np.ones(1000), first, second], y)[0]
        )
        low, high = np.quantile(draws, [0.025, 0.975], axis=0)
        covered += (low <= truth) & (truth <= high)
    error = np.std(deviations, axis=0) / np.sqrt(times)
    assert (np.abs(np.mean(deviations, axis=0)) <= 0.005 + 2.6 * error).all()
    assert (covered >= binom.ppf(0.0005, times, 0.95)).all()


def test_it_agrees_with_independent_draws():
    rng = np.random.default_rng(1)
    true = rng.normal(size=300) + 4
    y = true + rng.normal(size=300)
    noisy = true + rng.normal(size=300) * 0.7
    released = y + rng.normal(size=300) * 0.5
    problem = replace(build_number_problem(released, noisy, 0.49, outcome=0.25), shape="normal")
    ours = gibbs.sample(problem, Sampling(chains=4, draws=800, warmup=50)).draws
    theirs = exact.sample(problem, Sampling(chains=4, draws=2000)).draws.reshape(-1, 3)
    mine = ours.reshape(-1, 3)
    assert (np.abs(mine.mean(axis=0) - theirs.mean(axis=0)) < 0.15 * theirs.std(axis=0)).all()
    assert mine.std(axis=0) == pytest.approx(theirs.std(axis=0), rel=0.1)


def test_without_noise_it_is_least_squares():
    (first, second, y), _ = simulate_table_4(np.random.default_rng(2), 200)
    problem = build_level_problem(y, first, second, 0.0)
    draws = gibbs.sample(problem, Sampling(chains=4, draws=500, warmup=50)).draws
    expected, errors = fit_least_squares([np.ones(200), first, second], y)
    result = draws.reshape(-1, 4)
    assert (np.abs(result.mean(axis=0)[:3] - expected[:3]) < 0.12 * errors[:3]).all()
    assert result.std(axis=0) == pytest.approx(errors, rel=0.1)


def test_without_noise_it_is_the_mixed_model():
    import statsmodels.api as sm

    rng = np.random.default_rng(3)
    group, true, y = simulate_groups(rng)
    slope = rng.normal(size=40)[group] * 0.4
    problem = Problem(
        family="gaussian",
        link="identity",
        y=y + slope * true,
        terms=(Term(name="Intercept"), Term(name="x", clean=true)),
        covariates=np.column_stack([np.ones(1000), true]),
        groups=group,
        random=(0, 1),
    )
    result = gibbs.sample(problem, Sampling(chains=4, draws=500, warmup=100))
    assert result.parameters[2:] == (
        "residual variance",
        "variance of Intercept by group",
        "variance of x by group",
        "covariance of Intercept and x by group",
    )
    design = np.column_stack([np.ones(1000), true])
    fitted = sm.MixedLM(problem.y, design, group, design).fit()
    draws = result.draws.reshape(-1, 6)
    expected = np.concatenate(
        [fitted.fe_params, [fitted.scale], np.asarray(fitted.cov_re)[[0, 1, 0], [0, 1, 1]]]
    )
    deviations = np.abs(draws.mean(axis=0) - expected) / draws.std(axis=0)
    assert (deviations[[0, 1, 2, 5]] < 0.15).all()
    # A uniform prior on the covariance puts variances a little higher than REML.
    assert (deviations < 0.8).all()
    assert draws.std(axis=0)[:2] == pytest.approx(np.asarray(fitted.bse_fe), rel=0.15)


def test_true_values_that_differ_by_group():
    deviations: dict[bool, list[float]] = {True: [], False: []}
    for i in range(6):
        rng = np.random.default_rng([5, i])
        group, true, y = simulate_groups(rng)
        noisy = true + rng.normal(size=1000)
        for clustered, result in deviations.items():
            problem = build_number_problem(
                y, noisy, 1.0, groups=group, random=(0,), clustered=clustered
            )
            result.append(flatten(gibbs.sample(problem, SHORT))[:, 1].mean() - 0.7)
    assert abs(np.mean(deviations[True])) < 0.02 + 2 * np.std(deviations[True]) / np.sqrt(6)
    assert abs(np.mean(deviations[False])) > 0.08


def test_a_skewed_number_gets_a_mixture():
    # A noised category that goes with the number makes its shape matter.
    deviations: dict[Shape, list[Any]] = {"normal": [], "auto": []}
    for i in range(5):
        rng = np.random.default_rng([6, i])
        latent = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 4000)
        true = np.exp(0.8 * latent[:, 0])
        true = (true - true.mean()) / true.std()
        level = (latent[:, 1] > 0).astype(float)
        y = 1 + true + level + rng.normal(size=4000)
        noise = rng.normal(size=(2, 4000)) * np.sqrt(0.5)
        noisy, released = true + noise[0], np.clip(level + noise[1], 0, 1)
        without = fit_least_squares([np.ones(4000), true, level], y)[0]
        for shape, result in deviations.items():
            posterior = gibbs.sample(
                build_level_problem(y, noisy, released, 0.5, shape=shape), SHORT
            )
            assert posterior.shape == ("mixture" if shape == "auto" else "normal")
            result.append(flatten(posterior).mean(axis=0) - without)
    mixture, normal = (np.mean(deviations[shape], axis=0) for shape in ("auto", "normal"))
    error = np.std(deviations["auto"], axis=0) / np.sqrt(5)
    assert (np.abs(mixture) < 0.01 + 2.5 * error).all()
    assert normal[1] > 0.02
    assert abs(mixture[1]) < 0.02


def test_ranks_of_parameters_drawn_from_a_prior_are_uniform():
    """Simulation-based calibration, with categories, a clean column and missing values."""
    ranks = []
    for i in range(40):
        rng = np.random.default_rng([8, i])
        slope, jump, residual = rng.uniform(-2, 2), rng.uniform(-2, 2), rng.uniform(0.5, 2)
        clean = rng.normal(size=300)
        level = (rng.random(300) < 1 / (1 + np.exp(-clean))).astype(float)
        true = 0.5 * level + 0.3 * clean + rng.normal(size=300)
        y = slope * true + jump * level + rng.normal(size=300) * np.sqrt(residual)
        noisy = true + rng.normal(size=300) * 0.5
        noisy[rng.random(300) < 0.1] = np.nan
        released = np.clip(level + rng.normal(size=300) * 0.5, 0, 1)
        released[rng.random(300) < 0.1] = np.nan
        base = build_level_problem(y, noisy, released, 0.25, shape="normal")
        problem = replace(
            base,
            terms=(*base.terms, Term(name="w", clean=clean)),
            covariates=np.column_stack([np.ones(300), clean]),
        )
        result = flatten(gibbs.sample(problem, FEW))
        truth = np.array([0, slope, jump, 0, residual])
        ranks.append((result < truth).mean(axis=0))
    for ranks_of_one in np.array(ranks).T:
        assert kstest(ranks_of_one, "uniform").pvalue > 0.002


@pytest.mark.study
def test_ranks_in_a_model_of_two_levels_are_uniform():
    """The same with groups: effects on the outcome, on a noised number and on a noised level."""
    ranks = []
    for i in range(25):
        rng = np.random.default_rng([9, i])
        slope, jump = rng.uniform(-2, 2, 2)
        residual, between = rng.uniform(0.5, 2), rng.uniform(0.2, 2)
        group = np.repeat(np.arange(40), 10)
        shift, tilt, effect = rng.normal(size=(3, 40))[:, group]
        level = (rng.random(400) < 1 / (1 + np.exp(-tilt))).astype(float)
        true = shift + 0.5 * level + rng.normal(size=400)
        y = slope * true + jump * level + effect * np.sqrt(between)
        y += rng.normal(size=400) * np.sqrt(residual)
        noisy = true + rng.normal(size=400) * 0.5
        released = np.clip(level + rng.normal(size=400) * 0.5, 0, 1)
        base = build_level_problem(y, noisy, released, 0.25, shape="normal")
        problem = replace(base, groups=group, random=(0,))
        result = flatten(gibbs.sample(problem, FEW))
        truth = np.array([0, slope, jump, residual, between])
        ranks.append((result < truth).mean(axis=0))
    for ranks_of_one in np.array(ranks).T:
        assert kstest(ranks_of_one, "uniform").pvalue > 0.002


def test_several_categories_and_levels_that_interact():
    rng = np.random.default_rng(9)
    n = 6000
    clean, first = rng.normal(size=n), rng.integers(0, 3, n)
    second = (rng.random(n) < 0.3 + 0.2 * (first == 2)).astype(float)
    truth = np.array([1.0, 0.5, -0.5, 1.0, 0.7, 0.4])
    terms = (
        Term(name="Intercept"),
        Term(name="a1", levels=((0, 1),)),
        Term(name="a2", levels=((0, 2),)),
        Term(name="b", levels=((1, 1),)),
        Term(name="w:b", clean=clean, levels=((1, 1),)),
        Term(name="a2:b", levels=((0, 2), (1, 1))),
    )
    released = np.clip(first + rng.normal(size=n) * 0.4, 0, 2)
    other = np.clip(second + rng.normal(size=n) * 0.4, 0, 1)
    problem = Problem(
        family="gaussian",
        link="identity",
        y=np.zeros(n),
        categories=(
            Category(name="a", levels=("0", "1", "2"), density=code_log_density(released, 0.16, 3)),
            Category(name="b", levels=("0", "1"), density=code_log_density(other, 0.16)),
        ),
        terms=terms,
        covariates=np.column_stack([np.ones(n), clean]),
    )
    codes = np.column_stack([first, second.astype(np.int64)])
    y = problem.design(np.zeros((n, 0)), codes) @ truth + rng.normal(size=n)
    problem = replace(problem, y=y)
    assert gibbs.can(problem)
    draws = flatten(gibbs.sample(problem, SHORT))
    deviations = (draws.mean(axis=0) - np.append(truth, 1)) / draws.std(axis=0)
    assert (np.abs(deviations) < 3.5).all()


def test_the_same_seed_gives_the_same_draws_whatever_the_order():
    (_, _, y), (noisy, released) = simulate_table_4(np.random.default_rng(10), 100)
    order = np.random.default_rng(1).permutation(100)
    sampling = Sampling(chains=2, draws=20, warmup=5, seed=3)
    first = gibbs.sample(build_level_problem(y, noisy, released, 0.2), sampling)
    turned = build_level_problem(y[order], noisy[order], released[order], 0.2)
    second = gibbs.sample(turned, sampling)
    assert first.draws.tobytes() == second.draws.tobytes()
    assert not np.array_equal(first.draws[0], first.draws[1])
    assert first.draws.shape == (2, 20, 4)


def test_an_interrupt_returns_what_is_there():
    (_, _, y), released = simulate_table_4(np.random.default_rng(11), 20_000)
    reports = []

    def report(what, done, total):
        reports.append(what)
        if done > 60:
            raise KeyboardInterrupt

    result = gibbs.sample(
        build_level_problem(y, *released, 0.2), Sampling(chains=1, draws=5000, warmup=20), report
    )
    assert not result.complete
    assert 0 < result.draws.shape[1] < 5000


@settings(max_examples=20)
@given(records=st.integers(1, 15), groups=st.integers(1, 5), constant=st.booleans())
def test_odd_inputs_are_refused_with_a_reason(records, groups, constant):
    rng = np.random.default_rng(records)
    noisy = np.full(records, 2.0) if constant else rng.normal(size=records)
    y = rng.normal(size=records)
    group = np.arange(records) % groups
    problem = build_number_problem(y, noisy, 0.01, groups=group, random=(0,))
    few = Sampling(chains=1, draws=5, warmup=5)
    if records < 6 or constant or min(groups, records) < 4:
        reason = "variable 'x' are all the same"
        if groups < 4:
            reason = f"There are {groups} groups; 4 are needed"
        if records < 6:
            reason = f"There are {records} records, too few for 2 coefficients"
        with pytest.raises(MeasureError, match=reason):
            gibbs.sample(problem, few)
    else:
        assert np.isfinite(gibbs.sample(problem, few).draws).all()


def test_what_it_cannot_do():
    rng = np.random.default_rng(12)
    y, noisy = rng.normal(size=(2, 50))
    problem = build_number_problem(y, noisy, 0.1)
    assert gibbs.can(problem)
    cut = NoisyNumber(name="x", observed=noisy, variance=0.1, high=1.0)
    assert not gibbs.can(replace(problem, numbers=(cut,)))
    assert not gibbs.can(replace(problem, family="bernoulli", link="logit"))
    product = Term(name="x:w", clean=y, numbers=((0, None),))
    assert not gibbs.can(replace(problem, terms=(*problem.terms, product)))
    many = tuple(
        Category(name=f"c{i}", levels=tuple("abcde"), density=np.zeros((50, 5))) for i in range(3)
    )
    assert not gibbs.can(replace(problem, categories=many))
    with pytest.raises(MeasureError, match="cannot be told"):
        gibbs.sample(
            replace(problem, terms=(*problem.terms, Term(name="again"))), Sampling(draws=5)
        )
