"""The marginal likelihood of a record, against slow readings of the same model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import expit, log_ndtr, ndtr
from tests.analysis.marginal_problems import FAMILIES, made, rich

from sfumato.analysis.problem import Category, Problem, Term
from sfumato.analysis.samplers.marginal.arrays import arrange
from sfumato.analysis.samplers.marginal.model import Density
from sfumato.analysis.samplers.marginal.smooth import Smooth
from sfumato.analysis.samplers.marginal.values import ready
from sfumato.kernels.sampling import quadrature
from sfumato.kernels.sampling.quadrature_totals import totals


def _log_chance(family: int, y: float, trials: float, eta: float) -> float:
    if family in (quadrature.LOGIT, quadrature.PROBIT):
        sign = 1 if y else -1
        one = log_ndtr(sign * eta) if family == quadrature.PROBIT else -np.logaddexp(0, -sign * eta)
        return float(one)
    if family == quadrature.POISSON:
        return y * eta - math.exp(eta)
    if family == quadrature.BINOMIAL_LOGIT:
        return float(y * eta - trials * np.logaddexp(0, eta))
    return float(y * log_ndtr(eta) + (trials - y) * log_ndtr(-eta))


def _slowly(family: int, y: float, trials: float, mean: float, spread: float) -> float:
    def height(x: float) -> float:
        return math.exp(_log_chance(family, y, trials, mean + spread * x) - 0.5 * x * x)

    grid = np.linspace(-8, 8, 65)
    peak = grid[int(np.argmax([height(x) for x in grid]))]
    inside = integrate.quad(
        height, -11, 11, epsabs=0, epsrel=1e-9, limit=200, points=[peak - 1, peak, peak + 1]
    )
    return math.log(inside[0]) - 0.5 * math.log(2 * math.pi)


def _fast(family: int, y: float, trials: float, mean: float, spread: float) -> Any:
    nodes, weights = (part[None] for part in quadrature.rule(family, spread))
    count, sign = nodes.shape[1], 1.0 if y else -1.0
    if family == quadrature.LOGIT:
        return quadrature.logit(sign, mean, spread, nodes, weights, 0, count)
    if family == quadrature.PROBIT:
        return quadrature.probit(sign, mean, spread**2)
    return quadrature.adaptive(family, y, trials, mean, spread**2, nodes, weights, 0, count)


@pytest.mark.parametrize("family", range(1, 6))
def test_the_integral_is_that_of_slow_integration(family: int) -> None:
    chance = np.random.default_rng(family)
    for _ in range(4):
        mean, spread = float(chance.normal() * 1.5), float(np.exp(chance.uniform(-3, 0.4)))
        trials = float(chance.integers(1, 12))
        y = float(chance.integers(0, 2 if family < quadrature.BINOMIAL_LOGIT else int(trials) + 1))
        value, by_mean, by_variance = _fast(family, y, trials, mean, spread)
        assert value == pytest.approx(_slowly(family, y, trials, mean, spread), abs=2e-5)
        up, down = (_slowly(family, y, trials, mean + step, spread) for step in (1e-3, -1e-3))
        assert by_mean == pytest.approx((up - down) / 2e-3, abs=1e-4)
        wide, narrow = (
            _slowly(family, y, trials, mean, math.sqrt(spread**2 * by)) for by in (1.001, 0.999)
        )
        assert by_variance == pytest.approx(
            (wide - narrow) / (0.002 * spread**2), rel=2e-3, abs=1e-4
        )


def test_the_integrals_hold_far_out() -> None:
    for family in (quadrature.LOGIT, quadrature.PROBIT):
        for mean in (-800.0, -60.0, 60.0, 800.0):
            assert np.isfinite(_fast(family, 1.0, 1.0, mean, 0.3)).all()
    assert _fast(quadrature.LOGIT, 1.0, 1.0, -800.0, 0.3)[0] == pytest.approx(-799.955)
    assert np.isfinite(_fast(quadrature.POISSON, 0.0, 1.0, 30.0, 2.0)).all()
    assert np.isfinite(_fast(quadrature.POISSON, 1e6, 1.0, -3.0, 1.0)).all()


# The likelihood.


@pytest.mark.parametrize("components", [1, 2])
@pytest.mark.parametrize("mixed", [False, True])
def test_the_gradient_is_that_of_differences(components: int, *, mixed: bool) -> None:
    chance = np.random.default_rng(5)
    density = Density(arrange(rich(chance, 60, mixed=mixed)), components)
    theta = 0.3 * chance.normal(size=density.size)
    _, slope = density.slope(theta)
    steps = np.eye(density.size) * 1e-5
    differences = [
        (density.value(theta + one) - density.value(theta - one)) / 2e-5 for one in steps
    ]
    assert slope == pytest.approx(np.array(differences), abs=1e-5)


def test_the_gradient_with_components_in_fixed_places() -> None:
    chance = np.random.default_rng(4)
    arrays = arrange(made(chance, 60, "poisson", "log")[0])
    density = Smooth(arrays, np.array([-1.5, -0.6, 0.0, 0.7, 2.0]))
    theta = 0.3 * chance.normal(size=density.size)
    _, slope = density.slope(theta)
    assert len(slope) == 3 + 1 + 4  # coefficients, the clean covariate, and weights
    assert np.allclose(density.join(density.split(theta)), theta)
    for at in range(density.size):
        step = np.zeros(density.size)
        step[at] = 1e-5
        rise = density.value(theta + step) - density.value(theta - step)
        assert slope[at] == pytest.approx(rise / 2e-5, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize(("family", "link"), FAMILIES)
def test_the_gradient_of_every_family(family: str, link: str) -> None:
    chance = np.random.default_rng(6)
    density = Density(arrange(made(chance, 50, family, link)[0]), 2)
    theta = 0.3 * chance.normal(size=density.size)
    _, slope = density.slope(theta)
    steps = np.eye(density.size) * 1e-5
    differences = [
        (density.value(theta + one) - density.value(theta - one)) / 2e-5 for one in steps
    ]
    assert slope == pytest.approx(np.array(differences), abs=1e-5)


def test_the_likelihood_is_that_of_summing_over_a_grid() -> None:
    """An independent reading of the model: true numbers on a grid, record by record."""
    chance = np.random.default_rng(7)
    arrays = arrange(rich(chance, 12, mixed=True))
    density = Density(arrays, 2)
    theta = 0.4 * chance.normal(size=density.size)
    part, records = density.split(theta), arrays.records
    axis = np.linspace(-9, 9, 361)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    area = (axis[1] - axis[0]) ** 2
    weights = np.exp([0.0, *part["weight"]]) / np.exp([0.0, *part["weight"]]).sum()
    total = 0.0
    for at in range(12):
        odds = np.exp(np.concatenate([[0.0], part["odds"] @ records.covariates[at]]))
        there = ~arrays.missing[records.pattern[at]]
        noise = np.ones(len(grid))
        if there.any():
            error = arrays.error[np.ix_(there, there)]
            left = records.seen[at, there] - grid[:, there]
            noise = stats.multivariate_normal(np.zeros(int(there.sum())), error).pdf(left)
            noise *= (2 * np.pi) ** (there.sum() / 2)
        chances = 0.0
        for j in range(3):
            eta = records.clean[at] @ part["beta"][:2] + grid @ part["beta"][2:4]
            eta = eta + arrays.levels[j] @ part["beta"]
            seen = records.released[at, 0] * expit(-eta) + records.released[at, 1] * expit(eta)
            for k in range(2):
                centre = part["centre"] @ records.covariates[at] + arrays.dummies[j] @ part["shift"]
                centre = centre + (part["move"][0] if k else 0.0)
                root = density.factors(part)[k]
                x = stats.multivariate_normal(centre, root @ root.T).pdf(grid)
                inside = (x * noise * seen).sum() * area
                chances += (
                    odds[j] / odds.sum() * math.exp(records.density[at, j]) * weights[k] * inside
                )
        total += math.log(chances)
    assert density.value(theta) - density.prior(theta) == pytest.approx(total, abs=1e-4)


def test_a_noised_binary_outcome_has_the_likelihood_of_a4() -> None:
    """Pr(1) = d + (1 - 2 d) Phi(eta), where d is the chance of a changed outcome."""
    chance = np.random.default_rng(8)
    clean, y, changed = chance.normal(size=40), chance.integers(0, 2, 40).astype(float), 0.2
    logs = np.log(np.where(y[:, None] == np.arange(2), 1 - changed, changed))
    problem = Problem(
        family="bernoulli",
        link="probit",
        y=y,
        outcome_category=Category(name="y", levels=("0", "1"), density=logs),
        terms=(Term(name="Intercept"), Term(name="clean", clean=clean)),
        covariates=np.ones((40, 1)),
    )
    density = Density(arrange(problem), 1)
    theta = np.array([0.3, -0.6])
    one = changed + (1 - 2 * changed) * ndtr(density.arrays.records.clean @ theta)
    seen = density.arrays.records.y
    expected = np.log(np.where(seen > 0, one, 1 - one) / (1 - changed)).sum()
    assert density.value(theta) - density.prior(theta) == pytest.approx(expected)


# Many at once.


@pytest.mark.parametrize("mixed", [False, True])
def test_many_parameters_at_once_are_as_one_by_one(*, mixed: bool) -> None:
    chance = np.random.default_rng(11)
    density = Density(arrange(rich(chance, 200, mixed=mixed)), 2)
    theta = 0.3 * chance.normal(size=(20, density.size))
    theta[3, 0] = np.inf
    values, slopes = density.slopes(theta)
    assert (density.values(theta) == values).all()
    assert values[3] == -np.inf
    for at in (0, 7, 19):
        value, slope = density.slope(theta[at])
        assert value == values[at]
        assert slope == pytest.approx(slopes[at], rel=1e-12)


@pytest.mark.parametrize(("family", "link"), FAMILIES)
def test_tables_give_what_integrals_give(family: str, link: str) -> None:
    """Blocks of ten records are too short for a table."""
    chance = np.random.default_rng(12)
    density = Density(arrange(made(chance, 600, family, link)[0]), 2)
    theta = 0.3 * chance.normal(size=(3, density.size))
    values, _ = ready(density, density.split(theta))
    records = density.arrays.records
    whole, parts = totals(records, values, 0, 600, True)
    pieces = [totals(records, values, at, at + 10, True) for at in range(0, 600, 10)]
    assert whole == pytest.approx(sum(one for one, _ in pieces), abs=1e-4)
    for at, part in enumerate(parts):
        exact = sum(each[at] for _, each in pieces)
        assert part == pytest.approx(exact, abs=1e-4 * (1 + np.abs(exact).max(initial=0)))


def test_the_rules_of_a_table_are_those_of_the_spread() -> None:
    for family in range(1, 6):
        nodes, weights, length, most = quadrature.rules(family)
        assert (np.diff(most) > 0).all()
        for spread in (0.0, 0.1, 0.34, 0.99, 1.01, 3.0, 40.0):
            row = int(np.searchsorted(most, spread))
            alone = quadrature.rule(family, spread)
            count = int(length[row])
            assert count >= min(len(alone[0]), quadrature.MOST - 1)
            if count == len(alone[0]):
                assert nodes[row, :count] == pytest.approx(alone[0])
                assert weights[row, :count] == pytest.approx(alone[1])
