"""The sampler from which true numbers are integrated out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, kstest
from tests.analysis.linear_problems import (
    coded,
    least_squares,
    number_and_level,
    one_number,
    table_4,
)

from sfumato.analysis.problem import Category, Number, Problem, Sampling, Shape, Term
from sfumato.analysis.samplers import exact as saturated
from sfumato.analysis.samplers.gibbs import sampler as collapsed
from sfumato.errors import MeasureError

SHORT = Sampling(chains=4, draws=80, warmup=80)
FEW = Sampling(chains=4, draws=40, warmup=30)


def flat(found):
    return found.draws.reshape(-1, found.draws.shape[-1])


def grouped(chance, groups=40, each=25):
    """A true number that differs by group, and an outcome that does, for another reason."""
    group = np.repeat(np.arange(groups), each)
    true = chance.normal(size=groups)[group] + chance.normal(size=groups * each)
    effect = chance.normal(size=groups)[group] * 0.6
    y = 1 + 0.7 * true + effect + chance.normal(size=groups * each)
    return group, true, y


def test_table_4_in_small():
    times, truth = 40, np.ones(4)
    away, inside = [], np.zeros(4)
    for at in range(times):
        (first, second, y), released = table_4(np.random.default_rng([4, at]))
        draws = flat(collapsed.sample(number_and_level(y, *released, 0.2), SHORT))
        away.append(draws.mean(axis=0) - least_squares([np.ones(1000), first, second], y)[0])
        low, high = np.quantile(draws, [0.025, 0.975], axis=0)
        inside += (low <= truth) & (truth <= high)
    error = np.std(away, axis=0) / np.sqrt(times)
    assert (np.abs(np.mean(away, axis=0)) <= 0.005 + 2.6 * error).all()
    assert (inside >= binom.ppf(0.0005, times, 0.95)).all()


def test_it_agrees_with_independent_draws():
    chance = np.random.default_rng(1)
    true = chance.normal(size=300) + 4
    y = true + chance.normal(size=300)
    seen = true + chance.normal(size=300) * 0.7
    released = y + chance.normal(size=300) * 0.5
    problem = replace(one_number(released, seen, 0.49, outcome=0.25), shape="normal")
    ours = collapsed.sample(problem, Sampling(chains=4, draws=800, warmup=50)).draws
    theirs = saturated.sample(problem, Sampling(chains=4, draws=2000)).draws.reshape(-1, 3)
    mine = ours.reshape(-1, 3)
    assert (np.abs(mine.mean(axis=0) - theirs.mean(axis=0)) < 0.15 * theirs.std(axis=0)).all()
    assert mine.std(axis=0) == pytest.approx(theirs.std(axis=0), rel=0.1)


def test_without_noise_it_is_least_squares():
    (first, second, y), _ = table_4(np.random.default_rng(2), 200)
    problem = number_and_level(y, first, second, 0.0)
    draws = collapsed.sample(problem, Sampling(chains=4, draws=500, warmup=50)).draws
    expected, errors = least_squares([np.ones(200), first, second], y)
    found = draws.reshape(-1, 4)
    assert (np.abs(found.mean(axis=0)[:3] - expected[:3]) < 0.12 * errors[:3]).all()
    assert found.std(axis=0) == pytest.approx(errors, rel=0.1)


def test_without_noise_it_is_the_mixed_model():
    import statsmodels.api as sm

    chance = np.random.default_rng(3)
    group, true, y = grouped(chance)
    slope = chance.normal(size=40)[group] * 0.4
    problem = Problem(
        family="gaussian",
        link="identity",
        y=y + slope * true,
        terms=(Term(name="Intercept"), Term(name="x", clean=true)),
        covariates=np.column_stack([np.ones(1000), true]),
        groups=group,
        random=(0, 1),
    )
    found = collapsed.sample(problem, Sampling(chains=4, draws=500, warmup=100))
    assert found.parameters[2:] == (
        "residual variance",
        "variance of Intercept by group",
        "variance of x by group",
        "covariance of Intercept and x by group",
    )
    design = np.column_stack([np.ones(1000), true])
    fitted = sm.MixedLM(problem.y, design, group, design).fit()
    draws = found.draws.reshape(-1, 6)
    expected = np.concatenate(
        [fitted.fe_params, [fitted.scale], np.asarray(fitted.cov_re)[[0, 1, 0], [0, 1, 1]]]
    )
    away = np.abs(draws.mean(axis=0) - expected) / draws.std(axis=0)
    assert (away[[0, 1, 2, 5]] < 0.15).all()
    # A uniform prior on the covariance puts variances a little higher than REML.
    assert (away < 0.8).all()
    assert draws.std(axis=0)[:2] == pytest.approx(np.asarray(fitted.bse_fe), rel=0.15)


def test_true_values_that_differ_by_group():
    away: dict[bool, list[float]] = {True: [], False: []}
    for at in range(6):
        chance = np.random.default_rng([5, at])
        group, true, y = grouped(chance)
        seen = true + chance.normal(size=1000)
        for clustered, found in away.items():
            problem = one_number(y, seen, 1.0, groups=group, random=(0,), clustered=clustered)
            found.append(flat(collapsed.sample(problem, SHORT))[:, 1].mean() - 0.7)
    assert abs(np.mean(away[True])) < 0.02 + 2 * np.std(away[True]) / np.sqrt(6)
    assert abs(np.mean(away[False])) > 0.08


def test_a_skewed_number_gets_a_mixture():
    # A noised category that goes with the number makes its shape matter.
    away: dict[Shape, list[Any]] = {"normal": [], "auto": []}
    for at in range(5):
        chance = np.random.default_rng([6, at])
        latent = chance.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 4000)
        true = np.exp(0.8 * latent[:, 0])
        true = (true - true.mean()) / true.std()
        level = (latent[:, 1] > 0).astype(float)
        y = 1 + true + level + chance.normal(size=4000)
        noise = chance.normal(size=(2, 4000)) * np.sqrt(0.5)
        seen, released = true + noise[0], np.clip(level + noise[1], 0, 1)
        without = least_squares([np.ones(4000), true, level], y)[0]
        for shape, found in away.items():
            made = collapsed.sample(number_and_level(y, seen, released, 0.5, shape=shape), SHORT)
            assert made.shape == ("mixture" if shape == "auto" else "normal")
            found.append(flat(made).mean(axis=0) - without)
    mixture, normal = (np.mean(away[one], axis=0) for one in ("auto", "normal"))
    error = np.std(away["auto"], axis=0) / np.sqrt(5)
    assert (np.abs(mixture) < 0.01 + 2.5 * error).all()
    assert normal[1] > 0.02
    assert abs(mixture[1]) < 0.02


def test_ranks_of_parameters_drawn_from_a_prior_are_uniform():
    """Simulation-based calibration, with categories, a clean column and missing values."""
    ranks = []
    for at in range(40):
        chance = np.random.default_rng([8, at])
        slope, jump, residual = chance.uniform(-2, 2), chance.uniform(-2, 2), chance.uniform(0.5, 2)
        clean = chance.normal(size=300)
        level = (chance.random(300) < 1 / (1 + np.exp(-clean))).astype(float)
        true = 0.5 * level + 0.3 * clean + chance.normal(size=300)
        y = slope * true + jump * level + chance.normal(size=300) * np.sqrt(residual)
        seen = true + chance.normal(size=300) * 0.5
        seen[chance.random(300) < 0.1] = np.nan
        released = np.clip(level + chance.normal(size=300) * 0.5, 0, 1)
        released[chance.random(300) < 0.1] = np.nan
        base = number_and_level(y, seen, released, 0.25, shape="normal")
        problem = replace(
            base,
            terms=(*base.terms, Term(name="w", clean=clean)),
            covariates=np.column_stack([np.ones(300), clean]),
        )
        found = flat(collapsed.sample(problem, FEW))
        truth = np.array([0, slope, jump, 0, residual])
        ranks.append((found < truth).mean(axis=0))
    for each in np.array(ranks).T:
        assert kstest(each, "uniform").pvalue > 0.002


def test_ranks_in_a_model_of_two_levels_are_uniform():
    """The same with groups: effects on the outcome, on a noised number and on a noised level."""
    ranks = []
    for at in range(25):
        chance = np.random.default_rng([9, at])
        slope, jump = chance.uniform(-2, 2, 2)
        residual, between = chance.uniform(0.5, 2), chance.uniform(0.2, 2)
        group = np.repeat(np.arange(40), 10)
        shift, tilt, effect = chance.normal(size=(3, 40))[:, group]
        level = (chance.random(400) < 1 / (1 + np.exp(-tilt))).astype(float)
        true = shift + 0.5 * level + chance.normal(size=400)
        y = slope * true + jump * level + effect * np.sqrt(between)
        y += chance.normal(size=400) * np.sqrt(residual)
        seen = true + chance.normal(size=400) * 0.5
        released = np.clip(level + chance.normal(size=400) * 0.5, 0, 1)
        base = number_and_level(y, seen, released, 0.25, shape="normal")
        problem = replace(base, groups=group, random=(0,))
        found = flat(collapsed.sample(problem, FEW))
        truth = np.array([0, slope, jump, residual, between])
        ranks.append((found < truth).mean(axis=0))
    for each in np.array(ranks).T:
        assert kstest(each, "uniform").pvalue > 0.002


def test_several_categories_and_levels_that_interact():
    chance = np.random.default_rng(9)
    n = 6000
    clean, first = chance.normal(size=n), chance.integers(0, 3, n)
    second = (chance.random(n) < 0.3 + 0.2 * (first == 2)).astype(float)
    truth = np.array([1.0, 0.5, -0.5, 1.0, 0.7, 0.4])
    terms = (
        Term(name="Intercept"),
        Term(name="a1", levels=((0, 1),)),
        Term(name="a2", levels=((0, 2),)),
        Term(name="b", levels=((1, 1),)),
        Term(name="w:b", clean=clean, levels=((1, 1),)),
        Term(name="a2:b", levels=((0, 2), (1, 1))),
    )
    released = np.clip(first + chance.normal(size=n) * 0.4, 0, 2)
    other = np.clip(second + chance.normal(size=n) * 0.4, 0, 1)
    problem = Problem(
        family="gaussian",
        link="identity",
        y=np.zeros(n),
        categories=(
            Category(name="a", levels=("0", "1", "2"), density=coded(released, 0.16, 3)),
            Category(name="b", levels=("0", "1"), density=coded(other, 0.16)),
        ),
        terms=terms,
        covariates=np.column_stack([np.ones(n), clean]),
    )
    codes = np.column_stack([first, second.astype(np.int64)])
    y = problem.design(np.zeros((n, 0)), codes) @ truth + chance.normal(size=n)
    problem = replace(problem, y=y)
    assert collapsed.can(problem)
    draws = flat(collapsed.sample(problem, SHORT))
    away = (draws.mean(axis=0) - np.append(truth, 1)) / draws.std(axis=0)
    assert (np.abs(away) < 3.5).all()


def test_the_same_seed_gives_the_same_draws_whatever_the_order():
    (_, _, y), (seen, released) = table_4(np.random.default_rng(10), 100)
    order = np.random.default_rng(1).permutation(100)
    sampling = Sampling(chains=2, draws=20, warmup=5, seed=3)
    first = collapsed.sample(number_and_level(y, seen, released, 0.2), sampling)
    turned = number_and_level(y[order], seen[order], released[order], 0.2)
    second = collapsed.sample(turned, sampling)
    assert first.draws.tobytes() == second.draws.tobytes()
    assert not np.array_equal(first.draws[0], first.draws[1])
    assert first.draws.shape == (2, 20, 4)


def test_an_interrupt_returns_what_is_there():
    (_, _, y), released = table_4(np.random.default_rng(11), 20_000)
    told = []

    def say(what, done, total):
        told.append(what)
        if done > 60:
            raise KeyboardInterrupt

    found = collapsed.sample(
        number_and_level(y, *released, 0.2), Sampling(chains=1, draws=5000, warmup=20), say
    )
    assert not found.complete
    assert 0 < found.draws.shape[1] < 5000


@settings(max_examples=20)
@given(records=st.integers(1, 15), groups=st.integers(1, 5), constant=st.booleans())
def test_odd_inputs_are_refused_with_a_reason(records, groups, constant):
    chance = np.random.default_rng(records)
    seen = np.full(records, 2.0) if constant else chance.normal(size=records)
    y = chance.normal(size=records)
    group = np.arange(records) % groups
    problem = one_number(y, seen, 0.01, groups=group, random=(0,))
    few = Sampling(chains=1, draws=5, warmup=5)
    if records < 6 or constant or min(groups, records) < 4:
        with pytest.raises(MeasureError):
            collapsed.sample(problem, few)
    else:
        assert np.isfinite(collapsed.sample(problem, few).draws).all()


def test_what_it_cannot_do():
    chance = np.random.default_rng(12)
    y, seen = chance.normal(size=(2, 50))
    problem = one_number(y, seen, 0.1)
    assert collapsed.can(problem)
    cut = Number(name="x", seen=seen, variance=0.1, high=1.0)
    assert not collapsed.can(replace(problem, numbers=(cut,)))
    assert not collapsed.can(replace(problem, family="bernoulli", link="logit"))
    product = Term(name="x:w", clean=y, numbers=((0, None),))
    assert not collapsed.can(replace(problem, terms=(*problem.terms, product)))
    many = tuple(
        Category(name=f"c{at}", levels=tuple("abcde"), density=np.zeros((50, 5))) for at in range(3)
    )
    assert not collapsed.can(replace(problem, categories=many))
    with pytest.raises(MeasureError, match="cannot be told"):
        collapsed.sample(
            replace(problem, terms=(*problem.terms, Term(name="again"))), Sampling(draws=5)
        )
