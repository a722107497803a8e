"""The general engine against posteriors in closed form: clipped, rounded and missing values.

In a linear model with normal true values, outcome and noisy value are normal together. What was
released of the noisy value is a point, an interval or nothing, so that true values can be
integrated out by hand. Weighted draws of that posterior are right but for chance.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_ndtr
from tests.analysis.general_problems import NOISE, linear_case

from sfumato.analysis.problem import Problem, Sampling, Term
from sfumato.analysis.samplers.metropolis import sampler as metropolis
from sfumato.analysis.samplers.metropolis.latent import LatentTarget, _accept
from sfumato.kernels.arrays import Floats

RECORDS = 300
CLOSE = 0.3
"""SD of the posterior: at least 120 effective draws, so 3.3 errors of a mean."""


def case(kind: str) -> Problem:
    return replace(linear_case(kind, RECORDS, 31).problem, shape="normal")


def log_interval(low: Floats, high: Floats) -> Floats:
    """The log probability that a standard normal value lies between two."""
    # In the lower tail nothing cancels.
    low, high = np.where(low > 0, -high, low), np.where(low > 0, -low, high)
    log: Floats = log_ndtr(high) + np.log1p(-np.exp(log_ndtr(low) - log_ndtr(high)))
    return log


def log_posterior(theta: Floats, problem: Problem, *, clipped: bool = True) -> Floats:
    """Of (draw, parameter): three coefficients, two of x given z, logs of both variances."""
    number, z, y = problem.numbers[0], problem.covariates[:, 1], problem.y
    intercept, slope, of_z, first, second, noisy, true = theta.T[:, :, None]
    residual, spread = np.exp(noisy), np.exp(true)
    expected = first + second * z
    variance = slope**2 * spread + residual
    residual = y - intercept - of_z * z - slope * expected
    log = -0.5 * (np.log(variance) + residual**2 / variance)
    # What the outcome says of the noisy value.
    centre = expected + slope * spread / variance * residual
    size = np.sqrt(spread + NOISE - (slope * spread) ** 2 / variance)
    values = np.where(np.isnan(number.observed), 0.0, number.observed)
    point = -np.log(size) - 0.5 * ((values - centre) / size) ** 2
    if number.width:
        half = number.width / 2
        point = log_interval((values - half - centre) / size, (values + half - centre) / size)
    if clipped:
        point = np.where(values >= number.high, log_ndtr((centre - number.high) / size), point)
    total: Floats = (log + np.where(np.isnan(number.observed), 0.0, point)).sum(axis=1)
    # Flat on coefficients, 1 / variance for the residual, flat on the other variance.
    return total + theta[:, 6]


@functools.cache
def reference(kind: str, *, clipped: bool = True) -> tuple[Floats, Floats]:
    """Means and SDs of the coefficients, by importance sampling."""
    problem = case(kind)

    def evaluate(theta: Floats) -> Floats:
        return log_posterior(theta, problem, clipped=clipped)

    result = minimize(lambda theta: -evaluate(theta[None])[0], [1.0, 1.0, -0.5, 0.0, 0.5, 0.0, 0.0])
    centre, root = result.x, np.linalg.cholesky(result.hess_inv)
    chance = np.random.default_rng(32)
    for _ in range(3):
        normal = chance.standard_normal((4000, 7))
        normal /= np.sqrt(chance.chisquare(7, 4000) / 7)[:, None]
        theta = centre + normal @ root.T
        logs = evaluate(theta) + 7 * np.log1p((normal**2).sum(axis=1) / 7)
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        centre = weights @ theta
        covariance = (theta - centre).T @ (weights[:, None] * (theta - centre))
        root = np.linalg.cholesky(covariance)
    assert 1 / (weights**2).sum() > 1500
    return centre[:3], np.sqrt(np.diag(covariance))[:3]


def draw_coefficients(kind: str) -> Floats:
    result = metropolis.sample(case(kind), Sampling(chains=2, draws=800, warmup=100, seed=2))
    return np.asarray(result.draws[..., :3].reshape(-1, 3))


@pytest.mark.parametrize("kind", ["clipped", "rounded", "missing"])
def test_draws_are_those_of_the_posterior(kind: str):
    mean, spread = reference(kind)
    draws = draw_coefficients(kind)
    assert (np.abs(draws.mean(axis=0) - mean) < CLOSE * spread).all()
    assert np.allclose(draws.std(axis=0) / spread, 1, atol=0.2)


def test_the_clipping_matters_more_than_that():
    mean, spread = reference("clipped")
    forgotten, _ = reference("clipped", clipped=False)
    assert np.abs((forgotten - mean) / spread).max() > 4 * CLOSE


def literal(present: Any, target: LatentTarget, size: float, rng: Any) -> Any:
    """The paper's (A3) read literally: no ratio for a proposal that is not symmetric."""
    proposed = target.without_outcome(size).draw(rng)
    (here, with_here), (there, with_there) = target.evaluate(present), target.evaluate(proposed)
    return _accept(there.log - here.log, (present, with_here), (proposed, with_there), rng)


def test_one_proposal_in_four_without_its_ratio_is_found_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sfumato.analysis.samplers.metropolis.latent.step_independent", literal)
    mean, spread = reference("clipped")
    assert np.abs((draw_coefficients("clipped").mean(axis=0) - mean) / spread).max() > 2 * CLOSE


def test_two_level_logit_against_a_grid():
    """Intercept and variance between groups, by sums over a grid and Gauss-Hermite quadrature."""
    rng = np.random.default_rng(4)
    groups, trials = 20, 6.0
    y = rng.binomial(6, 1 / (1 + np.exp(-(-0.5 + 0.9 * rng.normal(size=groups)))))
    problem = Problem(
        family="binomial",
        link="logit",
        y=y.astype(float),
        trials=np.full(groups, trials),
        terms=(Term(name="Intercept"),),
        covariates=np.ones((groups, 1)),
        groups=np.arange(groups),
        random=(0,),
    )
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    # The prior is uniform in the variance, so the grid is even in it, up to where nothing is left.
    intercept = np.linspace(-3, 2, 101)
    variance = (np.arange(600) + 0.5) * 0.02
    eta = intercept[:, None, None] + np.sqrt(variance)[None, :, None] * nodes
    log = np.zeros((len(intercept), len(variance)))
    for count in y:
        likelihood = np.exp(count * eta - trials * np.logaddexp(0, eta)) @ (weights / weights.sum())
        log += np.log(likelihood)
    density = np.exp(log - log.max())
    cumulative = np.cumsum(density.sum(axis=0)) / density.sum()
    draws = metropolis.sample(problem, Sampling(chains=2, draws=1200, warmup=300)).draws
    for share in (0.1, 0.5, 0.9):
        expected = np.interp(share, cumulative, variance)
        below = float((draws[..., 1] < expected).mean())
        assert below == pytest.approx(share, abs=0.05)
    mean = float((density.sum(axis=1) * intercept).sum() / density.sum())
    assert float(draws[..., 0].mean()) == pytest.approx(mean, abs=0.05)
