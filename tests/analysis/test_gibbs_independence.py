"""The independence sampler of linear models, levels summed out, against slower ways."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from tests.analysis.linear_problems import (
    build_level_problem,
    build_number_problem,
    simulate_table_4,
)

from sfumato.analysis.problem import Problem, Sampling, Term
from sfumato.analysis.samplers.gibbs import independence
from sfumato.analysis.samplers.gibbs import sampler as gibbs
from sfumato.analysis.samplers.gibbs.independence import (
    ConditionalDensity,
    MarginalDensity,
    find_mode,
)
from sfumato.analysis.samplers.gibbs.model import build_model, start_chains
from sfumato.kernels.sampling.gibbs_records import add_log_one_plus_exp, exponentiate
from sfumato.progress import silent


def pose_problem(rng, records=200, *, missing=0.0, clean=False, groups=0) -> Problem:
    (_, _, y), (noisy, released) = simulate_table_4(rng, records)
    noisy = np.where(rng.random(records) < missing, np.nan, noisy)
    problem = build_level_problem(y, noisy, released, 0.2, shape="normal")
    if clean:
        column = rng.normal(size=records)
        problem = replace(
            problem,
            terms=(*problem.terms, Term(name="w", clean=column)),
            covariates=np.column_stack([np.ones(records), column]),
        )
    if groups:
        group = np.arange(records) % groups
        shifted = y + rng.normal(size=groups)[group] * 0.5
        problem = replace(problem, y=shifted, groups=group, random=(0,))
    return problem


@given(logits=st.lists(st.floats(-60, 60), min_size=1, max_size=600), shift=st.floats(-5, 5))
@settings(max_examples=40)
def test_the_sum_over_records_is_that_of_numpy(logits, shift):
    values = np.array(logits)
    totals, slopes = np.zeros(2), np.array([[shift, 1.0], [0.0, -0.5]])
    columns = np.vstack([np.ones_like(values), values])
    zeros, cell = np.zeros(len(values)), np.zeros(len(values), np.int64)
    add_log_one_plus_exp(columns, cell, zeros, np.zeros((2, 1)), slopes, totals)
    expected = [np.logaddexp(0, shift + values).sum(), np.logaddexp(0, -0.5 * values).sum()]
    assert totals == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_the_exponential_has_fourteen_digits():
    values = -np.linspace(0, 700, 256)
    expected, shift = np.exp(values), np.zeros(256)
    exponentiate(values, shift, shift.view(np.int64))
    assert values == pytest.approx(expected, rel=1e-13, abs=0)


def brute_force_log_likelihood(model, state, draw):
    """Log likelihood of all records, one by one, from the model as it is written down."""
    d, columns = model.numbers, model.columns
    covariance, slope = state.covariance[draw, 0], state.slope[draw]
    joint = np.zeros((d + 1, d + 1))
    joint[:d, :d] = covariance
    joint[:d, d] = joint[d, :d] = covariance @ slope
    joint[d, d] = state.residual_variance[draw] + slope @ covariance @ slope
    joint += model.noise
    total = 0.0
    for row, (pattern, cell, _), log_density in zip(
        model.rows, model.index, model.log_density, strict=True
    ):
        present = model.present[pattern] > 0
        parts = []
        for k in range(model.levels):
            features = np.concatenate([row[1:columns], model.dummies[k]])
            number = state.mean[draw, 0] + features @ state.gamma[draw]
            outcome = slope @ number + state.beta[draw] @ model.outcome_design[k] @ row[:columns]
            mean = np.append(number, outcome)
            logit = state.alpha[draw, 0, :columns] @ row[:columns] if model.sequential else 0.0
            prior = -np.logaddexp(0, logit if k else -logit) if model.sequential else 0.0
            normal = multivariate_normal(mean[present], joint[np.ix_(present, present)])
            value = normal.logpdf(row[columns:][present])
            parts.append(value + prior + state.log_table[draw, cell, k] + log_density[k])
        total += logsumexp(parts)
    return total


@pytest.mark.parametrize(("missing", "clean"), [(0.0, False), (0.0, True), (0.2, False)])
def test_the_density_is_that_of_the_model_written_down(missing, clean):
    rng = np.random.default_rng(1)
    model = build_model(pose_problem(rng, 60, missing=missing, clean=clean))
    density = MarginalDensity(model)
    theta = rng.normal(size=(3, density.size)) * 0.4
    state, jacobian = density.to_state(theta)
    values = density(theta) - jacobian - density.log_prior(state)
    expected = np.array([brute_force_log_likelihood(model, state, draw) for draw in range(3)])
    assert np.diff(values) == pytest.approx(np.diff(expected), rel=1e-9)


def test_parameters_in_a_row_and_back():
    rng = np.random.default_rng(2)
    model = build_model(pose_problem(rng))
    density = MarginalDensity(model)
    theta = rng.normal(size=(2, density.size)) * 0.4
    state, _ = density.to_state(theta)
    assert density.to_parameters(state) == pytest.approx(theta)
    other = start_chains(model, 2, rng)
    density.update_state(other, theta)
    assert density.to_parameters(other)[:, : density.ends[-2]] == pytest.approx(
        theta[:, : density.ends[-2]]
    )


def test_random_effects_of_zero_change_nothing():
    rng = np.random.default_rng(3)
    model = build_model(pose_problem(rng, 300, groups=20))
    state = start_chains(model, 2, rng)
    state.level_effect += 0.3
    density = ConditionalDensity(MarginalDensity(model), 2)
    density.set_effects(state)
    size = density.density.size
    theta = rng.normal(size=(2, 4, size + 2)) * 0.3
    theta[..., density.density.ends[-2] : size] = 0.0
    # Adding to the effects what a pattern says is the same as adding it before.
    first = density(theta)
    state.outcome_effect[:, :, 0] += theta[:, 0, size:] @ density.patterns
    precision = np.linalg.inv(state.outcome_between)[:, 0, 0]
    log_prior = -0.5 * precision * (state.outcome_effect[:, :, 0] ** 2).sum(axis=1)
    density.set_effects(state)
    theta[:, 0, size:] = 0.0
    assert density(theta)[:, 0] + log_prior == pytest.approx(first[:, 0], rel=1e-9)


def test_the_mode_of_some_records_leads_to_that_of_all():
    model = build_model(pose_problem(np.random.default_rng(4), 9000))
    mode = find_mode(model)
    assert mode is not None
    density = MarginalDensity(model)
    steps = np.eye(density.size) * 3 / np.sqrt(np.diag(mode.precision))
    around = density(np.concatenate([mode.theta + steps, mode.theta - steps]))
    assert (around < mode.value).all()


@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_both_samplers_draw_from_the_same_distribution(missing, monkeypatch):
    problem = pose_problem(np.random.default_rng(5), 300, missing=missing)
    independent = gibbs.sample(problem, Sampling(chains=4, draws=2000))
    assert independent.details["accepted"] > 0.6
    monkeypatch.setattr(independence, "MOST_PARAMETERS", 0)
    swept = gibbs.sample(problem, Sampling(chains=4, draws=1000, warmup=100))
    assert "accepted" not in swept.details
    first, second = (posterior.draws.reshape(-1, 4) for posterior in (independent, swept))
    assert (np.abs(first.mean(axis=0) - second.mean(axis=0)) < 0.1 * second.std(axis=0)).all()
    assert first.std(axis=0) == pytest.approx(second.std(axis=0), rel=0.08)


def test_the_step_on_the_level_leaves_the_distribution_as_it_is(monkeypatch):
    problem = pose_problem(np.random.default_rng(6), 600, groups=30)
    sampling = Sampling(chains=4, draws=500, warmup=100)
    first = gibbs.sample(problem, sampling).draws.reshape(-1, 5)
    monkeypatch.setattr(gibbs, "has_level_step", lambda model: False)
    second = gibbs.sample(problem, sampling).draws.reshape(-1, 5)
    assert (np.abs(first.mean(axis=0) - second.mean(axis=0)) < 0.15 * second.std(axis=0)).all()
    assert first.std(axis=0) == pytest.approx(second.std(axis=0), rel=0.12)


def test_what_is_not_normal_at_all_is_left_to_gibbs(monkeypatch):
    problem = pose_problem(np.random.default_rng(7), 200)
    few = Sampling(chains=2, draws=20, warmup=10)
    monkeypatch.setattr(independence, "_ENOUGH_EFFECTIVE", 2.0)
    monkeypatch.setattr(independence, "_GOOD_EFFECTIVE", 2.0)
    posterior = gibbs.sample(problem, few)
    assert "accepted" not in posterior.details
    assert posterior.draws.shape == (2, 20, 4)
    other = build_number_problem(*simulate_table_4(np.random.default_rng(8), 100)[0][:2], 0.1)
    assert independence.sample_independently(build_model(other), few, silent) is None
    assert not independence.has_level_step(build_model(problem))


def test_the_same_seed_gives_the_same_draws_in_groups():
    problem = pose_problem(np.random.default_rng(9), 200, groups=20, clean=True)
    assert independence.has_level_step(build_model(problem))
    few = Sampling(chains=2, draws=20, warmup=20, seed=5)
    first, second = gibbs.sample(problem, few), gibbs.sample(problem, few)
    assert first.draws.tobytes() == second.draws.tobytes()


@pytest.mark.parametrize(
    ("more", "taken"),
    [
        ({}, True),
        ({"rows": range(109)}, False),
        ({"levels": 1}, False),
        ({"levels": 1, "present": (0, 1)}, True),
        ({"effects": 1}, False),
        ({"groups": 2}, False),
        ({"components": 2}, False),
        # Five more columns make 16 parameters.
        ({"columns": 7, "rows": range(160)}, True),
        ({"columns": 7, "rows": range(159)}, False),
        ({"columns": 8, "rows": range(999)}, False),
    ],
)
def test_levels_are_summed_out_where_parameters_are_few_and_records_many(more, taken):
    # 3 terms, 1 slope, residual variance, 1 coefficient, mean, factor, 3 of the odds: 11 of 110.
    model = {
        "effects": 0, "groups": 1, "components": 1, "levels": 2, "present": (0,), "numbers": 1,
        "columns": 2, "dummies": np.zeros((1, 0)), "table_rows": 3, "roles": (0,),
        "sequential": False, "outcome_design": np.zeros((110, 3)), "rows": range(110),
    }  # fmt: skip
    stub: Any = SimpleNamespace(**model | more)
    assert independence._has_marginal_density(stub) is taken
