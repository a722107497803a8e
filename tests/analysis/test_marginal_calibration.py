"""Whether the marginal likelihood's draws say as much as they should: ranks and coverage."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit
from tests.analysis.marginal_problems import make_problem

from sfumato.analysis.diagnostics import rhat
from sfumato.analysis.problem import Sampling
from sfumato.analysis.samplers.marginal import sampler as marginal
from sfumato.analysis.samplers.marginal.arrays import Arrays, build_arrays
from sfumato.analysis.samplers.marginal.covariates import SmoothPosterior
from sfumato.analysis.samplers.marginal.importance import sample_importance
from sfumato.analysis.samplers.marginal.mode import find_mode
from sfumato.analysis.samplers.marginal.posterior import LogPosterior, log_softmax
from sfumato.kernels.arrays import Floats
from sfumato.kernels.sampling.quadrature import POISSON
from sfumato.progress import silent

WIDE = 0.5
DRAWS = 49


# Simulation-based calibration (Talts and others 2018): parameters of the prior, data of the
# parameters; among draws given those data the parameters then have every rank equally often.


def _simulate_data(arrays: Arrays, rng: np.random.Generator, error: float) -> tuple[Arrays, Floats]:
    """Data of parameters of the prior, and the parameters."""
    posterior, records = LogPosterior(arrays, 1), arrays.records
    theta = WIDE * rng.standard_normal(posterior.size)
    split = posterior.split(theta)
    split["cholesky"] += WIDE**2  # flat for the standard deviation, so a shift of its log
    x = records.covariates @ split["regression"][0]
    x = x + np.exp(split["cholesky"][0, 0]) * rng.standard_normal(arrays.count)
    numbers = x + math.sqrt(error) * rng.standard_normal(arrays.count)
    eta = records.clean @ split["beta"][arrays.clean] + x * (arrays.number_terms[0] @ split["beta"])
    poisson = arrays.family == POISSON
    y = rng.poisson(np.exp(eta)) if poisson else rng.random(len(eta)) < expit(eta)
    changed = records._replace(numbers=numbers[:, None], y=y.astype(float))
    return replace(arrays, records=changed), theta


def _rank_parameters(family: str, link: str, sets: int, error: float, believed: float) -> Floats:
    rng = np.random.default_rng(5)
    arrays = replace(
        build_arrays(make_problem(rng, 60, family, link)[0]), error=np.array([[believed]])
    )
    ranks = []
    for _ in range(sets):
        data, theta = _simulate_data(arrays, rng, error)
        posterior = LogPosterior(data, 1, threads=1)
        mode = find_mode(posterior, 0.5 * theta)
        result = sample_importance(posterior, mode, DRAWS, rng, silent)
        assert len(result.theta) == DRAWS
        ranks.append((result.theta < theta).sum(axis=0))
    return np.array(ranks, float)


def _test_uniform(ranks: Floats) -> Floats:
    """How likely such ranks are, for each parameter."""
    counts = [np.histogram(counts, 10, (0, DRAWS + 1))[0] for counts in ranks.T]
    return np.array([stats.chisquare(counts).pvalue for counts in counts])


@pytest.mark.parametrize(("family", "link"), [("bernoulli", "logit"), ("poisson", "log")])
def test_true_parameters_have_every_rank_among_the_draws(
    family: str, link: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.analysis.samplers.marginal.posterior.FLAT_SD", WIDE)
    assert _test_uniform(_rank_parameters(family, link, 80, 0.5, 0.5)).min() > 1e-4


def test_ranks_tell_when_the_noise_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.analysis.samplers.marginal.posterior.FLAT_SD", WIDE)
    assert _test_uniform(_rank_parameters("poisson", "log", 60, 1.0, 0.05)).min() < 1e-4


def test_ranks_with_components_in_fixed_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.analysis.samplers.marginal.posterior.FLAT_SD", WIDE)
    monkeypatch.setattr("sfumato.analysis.samplers.marginal.covariates._RIDGE_SD", 1.0)
    rng = np.random.default_rng(6)
    arrays = replace(
        build_arrays(make_problem(rng, 60, "poisson", "log")[0]), error=np.array([[0.5]])
    )
    knots, ranks = np.array([-1.5, -0.7, 0.0, 0.8, 2.0]), []
    for _ in range(50):
        posterior = SmoothPosterior(arrays, knots, threads=1)
        theta = WIDE * rng.standard_normal(posterior.size)
        # The first log weight is nought, so the others are drawn given that.
        spread = np.linalg.inv(posterior.penalty[1:, 1:])
        theta[-4:] = rng.multivariate_normal(np.zeros(4), spread)
        data = _simulate_fixed_positions(posterior, theta, rng)
        posterior = SmoothPosterior(data, knots, threads=1)
        result = sample_importance(posterior, find_mode(posterior, 0.5 * theta), DRAWS, rng, silent)
        assert len(result.theta) == DRAWS
        ranks.append((result.theta < theta).sum(axis=0))
    assert _test_uniform(np.array(ranks, float)).min() > 1e-4


def _simulate_fixed_positions(
    posterior: SmoothPosterior, theta: Floats, rng: np.random.Generator
) -> Arrays:
    arrays, split = posterior.arrays, posterior.split(theta)
    records, count = arrays.records, arrays.count
    shares = np.exp(log_softmax(split["weight_logits"][None])[0])
    component = rng.choice(len(shares), count, p=shares / shares.sum())
    x = (
        records.covariates @ split["regression"][0]
        + np.append(0.0, split["component_shift"][:, 0])[component]
    )
    x = x + np.exp(split["cholesky"][component, 0]) * rng.standard_normal(count)
    numbers = x + math.sqrt(0.5) * rng.standard_normal(count)
    eta = records.clean @ split["beta"][arrays.clean] + x * (arrays.number_terms[0] @ split["beta"])
    y = rng.poisson(np.exp(eta)).astype(float)
    # As `build_arrays` has it: records of one outcome lie together and share a table of integrals.
    order = np.argsort(y, kind="stable")
    changed = records._replace(numbers=numbers[:, None], y=y)
    parts: list[Any] = [part[order] if len(part) else part for part in changed]
    return replace(arrays, records=type(records)(*parts))


# Coverage; `python -m benchmarks.study_fit logit_normal` and others are the large version.


@pytest.mark.parametrize(
    ("family", "link", "skewed"),
    [("bernoulli", "logit", False), ("poisson", "log", False), ("bernoulli", "logit", True)],
)
def test_intervals_of_draws_cover(family: str, link: str, *, skewed: bool) -> None:
    covered, errors, true = [], [], np.array([0.2, 0.5, 0.7])
    for seed in range(8):
        noised, _ = make_problem(
            np.random.default_rng(100 + seed), 700, family, link, skewed=skewed
        )
        draws = marginal.sample(noised, Sampling(chains=4, draws=100)).draws.reshape(-1, 3)
        low, high = np.quantile(draws, [0.025, 0.975], axis=0)
        covered.append((low < true) & (true < high))
        errors.append((draws.mean(axis=0) - true) / draws.std(axis=0))
    assert np.mean(covered) > 0.8
    assert np.abs(np.mean(errors, axis=0)).max() < 3.5 / math.sqrt(8)


@pytest.mark.study
def test_walkers_agree_under_a_mixture_of_three(monkeypatch: pytest.MonkeyPatch) -> None:
    """Components may change places, and rare ones are hardly known; coefficients do not mind."""
    noised, _ = make_problem(np.random.default_rng(3), 700, "poisson", "log", skewed=True)
    few = Sampling(chains=4, draws=200, warmup=200, seed=1)
    weighed = marginal.sample(noised, few)
    assert weighed.components >= 2
    monkeypatch.setattr("sfumato.analysis.samplers.marginal.importance.LARGEST_K", -math.inf)
    walked = marginal.sample(noised, few)
    assert not walked.independent
    assert walked.draws.shape == (4, 200, 3)
    assert max(rhat(walked.draws[..., coefficient]) for coefficient in range(3)) < 1.05
    spread = walked.draws.std(axis=(0, 1))
    apart = walked.draws.mean(axis=(0, 1)) - weighed.draws.mean(axis=(0, 1))
    assert (np.abs(apart) < 0.25 * spread).all()
