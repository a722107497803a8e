"""Draws of a linear model's parameters with levels summed out, held against slower ways."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from tests.analysis.linear_problems import number_and_level, one_number, table_4

from sfumato.analysis.problem import Problem, Sampling, Term
from sfumato.analysis.samplers.gibbs import leaps as collapsed_leaps
from sfumato.analysis.samplers.gibbs import line as collapsed_line
from sfumato.analysis.samplers.gibbs import sampler as collapsed
from sfumato.analysis.samplers.gibbs.density import Density
from sfumato.analysis.samplers.gibbs.layout import laid_out
from sfumato.analysis.samplers.gibbs.line import Given
from sfumato.analysis.samplers.gibbs.mode import mode_of
from sfumato.analysis.samplers.gibbs.start import fixed_of, shape_of, state_of
from sfumato.kernels.sampling.gibbs_total import exponential, total_two
from sfumato.progress import silent


def posed(chance, records=200, *, missing=0.0, clean=False, groups=0) -> Problem:
    (_, _, y), (seen, released) = table_4(chance, records)
    seen = np.where(chance.random(records) < missing, np.nan, seen)
    made = number_and_level(y, seen, released, 0.2, shape="normal")
    if clean:
        column = chance.normal(size=records)
        made = replace(
            made,
            terms=(*made.terms, Term(name="w", clean=column)),
            covariates=np.column_stack([np.ones(records), column]),
        )
    if groups:
        group = np.arange(records) % groups
        moved = y + chance.normal(size=groups)[group] * 0.5
        made = replace(made, y=moved, groups=group, random=(0,))
    return made


def data_of(problem):
    layout = laid_out(problem)
    mixture = shape_of(problem, layout)
    return fixed_of(problem, layout, mixture), mixture


@given(line=st.lists(st.floats(-60, 60), min_size=1, max_size=600), shift=st.floats(-5, 5))
@settings(max_examples=40)
def test_the_sum_over_records_is_that_of_numpy(line, shift):
    values = np.array(line)
    found, lines = np.zeros(2), np.array([[shift, 1.0], [0.0, -0.5]])
    columns = np.vstack([np.ones_like(values), values])
    nothing, cell = np.zeros(len(values)), np.zeros(len(values), np.int64)
    total_two(columns, cell, nothing, np.zeros((2, 1)), lines, found)
    expected = [np.logaddexp(0, shift + values).sum(), np.logaddexp(0, -0.5 * values).sum()]
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_the_exponential_has_fourteen_digits():
    values = -np.linspace(0, 700, 256)
    expected, shift = np.exp(values), np.zeros(256)
    exponential(values, shift, shift.view(np.int64))
    assert values == pytest.approx(expected, rel=1e-13, abs=0)


def brute(data, state, at):
    """Log likelihood of all records, one by one, from the model as it is written down."""
    d, columns = data.numbers, data.columns
    spread, slope = state.spread[at, 0], state.slope[at]
    whole = np.zeros((d + 1, d + 1))
    whole[:d, :d] = spread
    whole[:d, d] = whole[d, :d] = spread @ slope
    whole[d, d] = state.residual[at] + slope @ spread @ slope
    whole += data.error
    total = 0.0
    for row, (pattern, cell, _), density in zip(data.rows, data.place, data.density, strict=True):
        there = data.present[pattern] > 0
        parts = []
        for k in range(data.levels):
            features = np.concatenate([row[1:columns], data.dummies[k]])
            number = state.middle[at, 0] + features @ state.gamma[at]
            outcome = slope @ number + state.beta[at] @ data.outcome[k] @ row[:columns]
            mean = np.append(number, outcome)
            odds = state.alpha[at, 0, :columns] @ row[:columns] if data.split else 0.0
            before = -np.logaddexp(0, odds if k else -odds) if data.split else 0.0
            normal = multivariate_normal(mean[there], whole[np.ix_(there, there)])
            value = normal.logpdf(row[columns:][there])
            parts.append(value + before + state.table[at, cell, k] + density[k])
        total += logsumexp(parts)
    return total


@pytest.mark.parametrize(("missing", "clean"), [(0.0, False), (0.0, True), (0.2, False)])
def test_the_density_is_that_of_the_model_written_down(missing, clean):
    chance = np.random.default_rng(1)
    data, _ = data_of(posed(chance, 60, missing=missing, clean=clean))
    density = Density(data)
    theta = chance.normal(size=(3, density.size)) * 0.4
    state, jacobian = density.state(theta)
    found = density(theta) - jacobian - density.prior(state)
    expected = np.array([brute(data, state, at) for at in range(3)])
    assert np.diff(found) == pytest.approx(np.diff(expected), rel=1e-9)


def test_parameters_in_a_row_and_back():
    chance = np.random.default_rng(2)
    data, mixture = data_of(posed(chance))
    density = Density(data)
    theta = chance.normal(size=(2, density.size)) * 0.4
    state, _ = density.state(theta)
    assert density.packed(state) == pytest.approx(theta)
    other = state_of(data, mixture, 2, chance)
    density.unpack(other, theta)
    assert density.packed(other)[:, : density.ends[-2]] == pytest.approx(
        theta[:, : density.ends[-2]]
    )


def test_group_effects_of_nought_change_nothing():
    chance = np.random.default_rng(3)
    data, mixture = data_of(posed(chance, 300, groups=20))
    state = state_of(data, mixture, 2, chance)
    state.tilt += 0.3
    made = Given(Density(data), 2)
    made.take(state)
    size = made.density.size
    theta = chance.normal(size=(2, 4, size + 2)) * 0.3
    theta[..., made.density.ends[-2] : size] = 0.0
    # Adding to the effects what a pattern says is the same as adding it before.
    first = made(theta)
    state.effect[:, :, 0] += theta[:, 0, size:] @ made.pattern
    precision = np.linalg.inv(state.between)[:, 0, 0]
    before = -0.5 * precision * (state.effect[:, :, 0] ** 2).sum(axis=1)
    made.take(state)
    theta[:, 0, size:] = 0.0
    assert made(theta)[:, 0] + before == pytest.approx(first[:, 0], rel=1e-9)


def test_the_mode_of_some_records_leads_to_that_of_all():
    data, _ = data_of(posed(np.random.default_rng(4), 9000))
    found = mode_of(data)
    assert found is not None
    density = Density(data)
    steps = np.eye(density.size) * 3 / np.sqrt(np.diag(found.precision))
    around = density(np.concatenate([found.at + steps, found.at - steps]))
    assert (around < found.value).all()


@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_leaps_and_gibbs_draw_from_the_same_distribution(missing, monkeypatch):
    problem = posed(np.random.default_rng(5), 300, missing=missing)
    leapt = collapsed.sample(problem, Sampling(chains=4, draws=2000))
    assert leapt.details["accepted"] > 0.6
    monkeypatch.setattr(collapsed_leaps, "MOST", 0)
    drawn = collapsed.sample(problem, Sampling(chains=4, draws=1000, warmup=100))
    assert "accepted" not in drawn.details
    first, second = (one.draws.reshape(-1, 4) for one in (leapt, drawn))
    assert (np.abs(first.mean(axis=0) - second.mean(axis=0)) < 0.1 * second.std(axis=0)).all()
    assert first.std(axis=0) == pytest.approx(second.std(axis=0), rel=0.08)


def test_a_step_along_the_line_leaves_the_distribution_as_it_is(monkeypatch):
    problem = posed(np.random.default_rng(6), 600, groups=30)
    sampling = Sampling(chains=4, draws=500, warmup=100)
    first = collapsed.sample(problem, sampling).draws.reshape(-1, 5)
    monkeypatch.setattr(collapsed, "worth_a_line", lambda data: False)
    second = collapsed.sample(problem, sampling).draws.reshape(-1, 5)
    assert (np.abs(first.mean(axis=0) - second.mean(axis=0)) < 0.15 * second.std(axis=0)).all()
    assert first.std(axis=0) == pytest.approx(second.std(axis=0), rel=0.12)


def test_what_is_not_normal_at_all_is_left_to_gibbs(monkeypatch):
    problem = posed(np.random.default_rng(7), 200)
    few = Sampling(chains=2, draws=20, warmup=10)
    monkeypatch.setattr(collapsed_leaps, "_ENOUGH", 2.0)
    monkeypatch.setattr(collapsed_leaps, "_CLOSE", 2.0)
    found = collapsed.sample(problem, few)
    assert "accepted" not in found.details
    assert found.draws.shape == (2, 20, 4)
    assert collapsed_leaps.leaps(data_of(one_number(*table_4(
        np.random.default_rng(8), 100)[0][:2], 0.1))[0], few, silent) is None  # fmt: skip
    assert not collapsed_line.worth_a_line(data_of(problem)[0])


def test_the_same_seed_gives_the_same_draws_in_groups():
    problem = posed(np.random.default_rng(9), 200, groups=20, clean=True)
    assert collapsed_line.worth_a_line(data_of(problem)[0])
    few = Sampling(chains=2, draws=20, warmup=20, seed=5)
    first, second = collapsed.sample(problem, few), collapsed.sample(problem, few)
    assert first.draws.tobytes() == second.draws.tobytes()
