"""The marginal likelihood of a record, against slow readings of the same model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import expit, log_ndtr, ndtr
from tests.analysis.marginal_problems import FAMILIES, make_problem, make_rich_problem

from sfumato.analysis.problem import Category, Problem, Term
from sfumato.analysis.samplers.marginal.arrays import build_arrays
from sfumato.analysis.samplers.marginal.covariates import SmoothPosterior
from sfumato.analysis.samplers.marginal.posterior import LogPosterior
from sfumato.kernels.sampling import quadrature
from sfumato.kernels.sampling.marginal_likelihood import evaluate_likelihoods


def _log_probability(family: int, y: float, trials: float, eta: float) -> float:
    if family in (quadrature.LOGIT, quadrature.PROBIT):
        sign = 1 if y else -1
        value = (
            log_ndtr(sign * eta) if family == quadrature.PROBIT else -np.logaddexp(0, -sign * eta)
        )
        return float(value)
    if family == quadrature.POISSON:
        return y * eta - math.exp(eta)
    if family == quadrature.BINOMIAL_LOGIT:
        return float(y * eta - trials * np.logaddexp(0, eta))
    return float(y * log_ndtr(eta) + (trials - y) * log_ndtr(-eta))


def _integrate_slowly(family: int, y: float, trials: float, mean: float, spread: float) -> float:
    def height(x: float) -> float:
        return math.exp(_log_probability(family, y, trials, mean + spread * x) - 0.5 * x * x)

    grid = np.linspace(-8, 8, 65)
    peak = grid[int(np.argmax([height(x) for x in grid]))]
    integral = integrate.quad(
        height, -11, 11, epsabs=0, epsrel=1e-9, limit=200, points=[peak - 1, peak, peak + 1]
    )
    return math.log(integral[0]) - 0.5 * math.log(2 * math.pi)


def _integrate_fast(family: int, y: float, trials: float, mean: float, spread: float) -> Any:
    nodes, weights = (part[None] for part in quadrature.choose_rule(family, spread))
    rules = quadrature.QuadratureRules(
        nodes, weights, np.array([nodes.shape[1]]), np.array([math.inf])
    )
    sign = 1.0 if y else -1.0
    if family == quadrature.LOGIT:
        return quadrature.integrate_logit(sign, mean, spread, rules, 0)
    if family == quadrature.PROBIT:
        return quadrature.integrate_probit(sign, mean, spread**2)
    outcome = quadrature.ReleasedOutcome(family, y, trials, -1.0, -1.0)
    return quadrature.integrate_count(outcome, mean, spread**2, rules, 0)


@pytest.mark.parametrize("family", range(1, 6))
def test_the_integral_is_that_of_slow_integration(family: int) -> None:
    rng = np.random.default_rng(family)
    for _ in range(4):
        mean, spread = float(rng.normal() * 1.5), float(np.exp(rng.uniform(-3, 0.4)))
        trials = float(rng.integers(1, 12))
        y = float(rng.integers(0, 2 if family < quadrature.BINOMIAL_LOGIT else int(trials) + 1))
        value, by_mean, by_variance = _integrate_fast(family, y, trials, mean, spread)
        assert value == pytest.approx(_integrate_slowly(family, y, trials, mean, spread), abs=2e-5)
        up, down = (
            _integrate_slowly(family, y, trials, mean + step, spread) for step in (1e-3, -1e-3)
        )
        assert by_mean == pytest.approx((up - down) / 2e-3, abs=1e-4)
        wide, narrow = (
            _integrate_slowly(family, y, trials, mean, math.sqrt(spread**2 * by))
            for by in (1.001, 0.999)
        )
        assert by_variance == pytest.approx(
            (wide - narrow) / (0.002 * spread**2), rel=2e-3, abs=1e-4
        )


def test_the_integrals_hold_far_out() -> None:
    for family in (quadrature.LOGIT, quadrature.PROBIT):
        for mean in (-800.0, -60.0, 60.0, 800.0):
            assert np.isfinite(_integrate_fast(family, 1.0, 1.0, mean, 0.3)).all()
    assert _integrate_fast(quadrature.LOGIT, 1.0, 1.0, -800.0, 0.3)[0] == pytest.approx(-799.955)
    assert np.isfinite(_integrate_fast(quadrature.POISSON, 0.0, 1.0, 30.0, 2.0)).all()
    assert np.isfinite(_integrate_fast(quadrature.POISSON, 1e6, 1.0, -3.0, 1.0)).all()


# The likelihood.


@pytest.mark.parametrize("components", [1, 2])
@pytest.mark.parametrize("mixed", [False, True])
def test_the_gradient_is_that_of_differences(components: int, *, mixed: bool) -> None:
    rng = np.random.default_rng(5)
    posterior = LogPosterior(build_arrays(make_rich_problem(rng, 60, mixed=mixed)), components)
    theta = 0.3 * rng.normal(size=posterior.size)
    _, slope = posterior.value_and_gradient(theta)
    steps = np.eye(posterior.size) * 1e-5
    differences = [
        (posterior.value(theta + value) - posterior.value(theta - value)) / 2e-5 for value in steps
    ]
    assert slope == pytest.approx(np.array(differences), abs=1e-5)


def test_the_gradient_with_components_in_fixed_places() -> None:
    rng = np.random.default_rng(4)
    arrays = build_arrays(make_problem(rng, 60, "poisson", "log")[0])
    posterior = SmoothPosterior(arrays, np.array([-1.5, -0.6, 0.0, 0.7, 2.0]))
    theta = 0.3 * rng.normal(size=posterior.size)
    _, slope = posterior.value_and_gradient(theta)
    assert len(slope) == 3 + 1 + 4  # coefficients, the clean covariate, and weights
    assert np.allclose(posterior.join(posterior.split(theta)), theta)
    for i in range(posterior.size):
        step = np.zeros(posterior.size)
        step[i] = 1e-5
        rise = posterior.value(theta + step) - posterior.value(theta - step)
        assert slope[i] == pytest.approx(rise / 2e-5, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize(("family", "link"), FAMILIES)
def test_the_gradient_of_every_family(family: str, link: str) -> None:
    rng = np.random.default_rng(6)
    posterior = LogPosterior(build_arrays(make_problem(rng, 50, family, link)[0]), 2)
    theta = 0.3 * rng.normal(size=posterior.size)
    _, slope = posterior.value_and_gradient(theta)
    steps = np.eye(posterior.size) * 1e-5
    differences = [
        (posterior.value(theta + value) - posterior.value(theta - value)) / 2e-5 for value in steps
    ]
    assert slope == pytest.approx(np.array(differences), abs=1e-5)


def test_the_likelihood_is_that_of_summing_over_a_grid() -> None:
    """An independent reading of the model: true numbers on a grid, record by record."""
    rng = np.random.default_rng(7)
    arrays = build_arrays(make_rich_problem(rng, 12, mixed=True))
    posterior = LogPosterior(arrays, 2)
    theta = 0.4 * rng.normal(size=posterior.size)
    part, records = posterior.split(theta), arrays.records
    axis = np.linspace(-9, 9, 361)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    area = (axis[1] - axis[0]) ** 2
    weights = np.exp([0.0, *part["weight_logits"]]) / np.exp([0.0, *part["weight_logits"]]).sum()
    total = 0.0
    for row in range(12):
        odds = np.exp(np.concatenate([[0.0], part["level_logits"] @ records.covariates[row]]))
        there = ~arrays.missing[records.pattern[row]]
        noise = np.ones(len(grid))
        if there.any():
            error = arrays.error[np.ix_(there, there)]
            noise_values = records.numbers[row, there] - grid[:, there]
            noise = stats.multivariate_normal(np.zeros(int(there.sum())), error).pdf(noise_values)
            noise *= (2 * np.pi) ** (there.sum() / 2)
        chances = 0.0
        for j in range(3):
            eta = records.clean[row] @ part["beta"][:2] + grid @ part["beta"][2:4]
            eta = eta + arrays.level_terms[j] @ part["beta"]
            released = records.released[row, 0] * expit(-eta) + records.released[row, 1] * expit(
                eta
            )
            for k in range(2):
                centre = (
                    part["regression"] @ records.covariates[row]
                    + arrays.dummies[j] @ part["level_shift"]
                )
                centre = centre + (part["component_shift"][0] if k else 0.0)
                root = posterior.cholesky_factors(part)[k]
                x = stats.multivariate_normal(centre, root @ root.T).pdf(grid)
                integral = (x * noise * released).sum() * area
                chances += (
                    odds[j]
                    / odds.sum()
                    * math.exp(records.level_logs[row, j])
                    * weights[k]
                    * integral
                )
        total += math.log(chances)
    assert posterior.value(theta) - posterior.log_prior(theta) == pytest.approx(total, abs=1e-4)


def test_a_noised_binary_outcome_has_the_likelihood_of_a4() -> None:
    """Pr(1) = d + (1 - 2 d) Phi(eta), where d is the chance of a changed outcome."""
    rng = np.random.default_rng(8)
    clean, y, changed = rng.normal(size=40), rng.integers(0, 2, 40).astype(float), 0.2
    logs = np.log(np.where(y[:, None] == np.arange(2), 1 - changed, changed))
    problem = Problem(
        family="bernoulli",
        link="probit",
        y=y,
        outcome_category=Category(name="y", levels=("0", "1"), density=logs),
        terms=(Term(name="Intercept"), Term(name="clean", clean=clean)),
        covariates=np.ones((40, 1)),
    )
    posterior = LogPosterior(build_arrays(problem), 1)
    theta = np.array([0.3, -0.6])
    value = changed + (1 - 2 * changed) * ndtr(posterior.arrays.records.clean @ theta)
    released = posterior.arrays.records.y
    expected = np.log(np.where(released > 0, value, 1 - value) / (1 - changed)).sum()
    assert posterior.value(theta) - posterior.log_prior(theta) == pytest.approx(expected)


# Many at once.


@pytest.mark.parametrize("mixed", [False, True])
def test_many_parameters_at_once_are_as_one_by_one(*, mixed: bool) -> None:
    rng = np.random.default_rng(11)
    posterior = LogPosterior(build_arrays(make_rich_problem(rng, 200, mixed=mixed)), 2)
    theta = 0.3 * rng.normal(size=(20, posterior.size))
    theta[3, 0] = np.inf
    values, slopes = posterior.values_and_gradients(theta)
    assert (posterior.values(theta) == values).all()
    assert values[3] == -np.inf
    for draw in (0, 7, 19):
        value, slope = posterior.value_and_gradient(theta[draw])
        assert value == values[draw]
        assert slope == pytest.approx(slopes[draw], rel=1e-12)


@pytest.mark.parametrize(("family", "link"), FAMILIES)
def test_tables_give_what_integrals_give(family: str, link: str) -> None:
    """Blocks of ten records are too short for a table."""
    rng = np.random.default_rng(12)
    posterior = LogPosterior(build_arrays(make_problem(rng, 600, family, link)[0]), 2)
    theta = 0.3 * rng.normal(size=(3, posterior.size))
    values, _ = posterior.transform(posterior.split(theta))
    records = posterior.arrays.records
    total, parts = evaluate_likelihoods(records, values, 0, 600, True)
    pieces = [evaluate_likelihoods(records, values, i, i + 10, True) for i in range(0, 600, 10)]
    assert total == pytest.approx(sum(value for value, _ in pieces), abs=1e-4)
    for i, part in enumerate(parts):
        exact = sum(sums[i] for _, sums in pieces)
        assert part == pytest.approx(exact, abs=1e-4 * (1 + np.abs(exact).max(initial=0)))


def test_the_rules_of_a_table_are_those_of_the_spread() -> None:
    for family in range(1, 6):
        nodes, weights, length, most = quadrature.tabulate_rules(family)
        assert (np.diff(most) > 0).all()
        for spread in (0.0, 0.1, 0.34, 0.99, 1.01, 3.0, 40.0):
            row = int(np.searchsorted(most, spread))
            alone = quadrature.choose_rule(family, spread)
            count = int(length[row])
            assert count >= min(len(alone[0]), quadrature.MOST - 1)
            if count == len(alone[0]):
                assert nodes[row, :count] == pytest.approx(alone[0])
                assert weights[row, :count] == pytest.approx(alone[1])
