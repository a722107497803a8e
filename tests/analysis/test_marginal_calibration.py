"""Whether the marginal likelihood's draws say as much as they should: ranks and coverage."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit
from tests.analysis.marginal_problems import made

from sfumato.analysis.diagnostics import rhat
from sfumato.analysis.problem import Sampling
from sfumato.analysis.samplers.marginal import sampler as marginal
from sfumato.analysis.samplers.marginal.arrays import Arrays, arrange
from sfumato.analysis.samplers.marginal.importance import drawn
from sfumato.analysis.samplers.marginal.mode import climb
from sfumato.analysis.samplers.marginal.model import Density
from sfumato.analysis.samplers.marginal.smooth import Smooth
from sfumato.analysis.samplers.marginal.values import log_weights
from sfumato.kernels.arrays import Floats
from sfumato.kernels.sampling.quadrature import POISSON
from sfumato.progress import silent

WIDE = 0.5
DRAWS = 49


# Simulation-based calibration (Talts and others 2018): parameters of the prior, data of the
# parameters; among draws given those data the parameters then have every rank equally often.


def _imagined(arrays: Arrays, chance: np.random.Generator, error: float) -> tuple[Arrays, Floats]:
    """Data of parameters of the prior, and the parameters."""
    density, records = Density(arrays, 1), arrays.records
    theta = WIDE * chance.standard_normal(density.size)
    split = density.split(theta)
    split["factor"] += WIDE**2  # flat for the standard deviation, so a shift of its log
    x = records.covariates @ split["centre"][0]
    x = x + np.exp(split["factor"][0, 0]) * chance.standard_normal(arrays.count)
    seen = x + math.sqrt(error) * chance.standard_normal(arrays.count)
    eta = records.clean @ split["beta"][arrays.clean] + x * (arrays.loads[0] @ split["beta"])
    poisson = arrays.family == POISSON
    y = chance.poisson(np.exp(eta)) if poisson else chance.random(len(eta)) < expit(eta)
    changed = records._replace(seen=seen[:, None], y=y.astype(float))
    return replace(arrays, records=changed), theta


def _ranks(family: str, link: str, sets: int, error: float, believed: float) -> Floats:
    chance = np.random.default_rng(5)
    arrays = replace(arrange(made(chance, 60, family, link)[0]), error=np.array([[believed]]))
    ranks = []
    for _ in range(sets):
        data, theta = _imagined(arrays, chance, error)
        density = Density(data, 1, threads=1)
        mode = climb(density, 0.5 * theta)
        found = drawn(density, mode, DRAWS, chance, silent)
        assert len(found.theta) == DRAWS
        ranks.append((found.theta < theta).sum(axis=0))
    return np.array(ranks, float)


def _uniform(ranks: Floats) -> Floats:
    """How likely such ranks are, for each parameter."""
    counts = [np.histogram(one, 10, (0, DRAWS + 1))[0] for one in ranks.T]
    return np.array([stats.chisquare(one).pvalue for one in counts])


@pytest.mark.parametrize(("family", "link"), [("bernoulli", "logit"), ("poisson", "log")])
def test_true_parameters_have_every_rank_among_the_draws(
    family: str, link: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.analysis.samplers.marginal.model.WIDE", WIDE)
    assert _uniform(_ranks(family, link, 80, 0.5, 0.5)).min() > 1e-4


def test_ranks_tell_when_the_noise_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.analysis.samplers.marginal.model.WIDE", WIDE)
    assert _uniform(_ranks("poisson", "log", 60, 1.0, 0.05)).min() < 1e-4


def test_ranks_with_components_in_fixed_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.analysis.samplers.marginal.model.WIDE", WIDE)
    monkeypatch.setattr("sfumato.analysis.samplers.marginal.smooth._RIDGE", 1.0)
    chance = np.random.default_rng(6)
    arrays = replace(arrange(made(chance, 60, "poisson", "log")[0]), error=np.array([[0.5]]))
    knots, ranks = np.array([-1.5, -0.7, 0.0, 0.8, 2.0]), []
    for _ in range(50):
        density = Smooth(arrays, knots, threads=1)
        theta = WIDE * chance.standard_normal(density.size)
        # The first log weight is nought, so the others are drawn given that.
        spread = np.linalg.inv(density.bend[1:, 1:])
        theta[-4:] = chance.multivariate_normal(np.zeros(4), spread)
        data = _of_fixed_places(density, theta, chance)
        density = Smooth(data, knots, threads=1)
        found = drawn(density, climb(density, 0.5 * theta), DRAWS, chance, silent)
        assert len(found.theta) == DRAWS
        ranks.append((found.theta < theta).sum(axis=0))
    assert _uniform(np.array(ranks, float)).min() > 1e-4


def _of_fixed_places(density: Smooth, theta: Floats, chance: np.random.Generator) -> Arrays:
    arrays, split = density.arrays, density.split(theta)
    records, count = arrays.records, arrays.count
    shares = np.exp(log_weights(split["weight"][None])[0])
    at = chance.choice(len(shares), count, p=shares / shares.sum())
    x = records.covariates @ split["centre"][0] + np.append(0.0, split["move"][:, 0])[at]
    x = x + np.exp(split["factor"][at, 0]) * chance.standard_normal(count)
    seen = x + math.sqrt(0.5) * chance.standard_normal(count)
    eta = records.clean @ split["beta"][arrays.clean] + x * (arrays.loads[0] @ split["beta"])
    y = chance.poisson(np.exp(eta)).astype(float)
    # As `arrange` has it: records of one outcome lie together and share a table of integrals.
    order = np.argsort(y, kind="stable")
    changed = records._replace(seen=seen[:, None], y=y)
    parts: list[Any] = [part[order] if len(part) else part for part in changed]
    return replace(arrays, records=type(records)(*parts))


# Coverage; `python -m benchmarks.study_fit logit_normal` and others are the large version.


@pytest.mark.parametrize(
    ("family", "link", "skewed"),
    [("bernoulli", "logit", False), ("poisson", "log", False), ("bernoulli", "logit", True)],
)
def test_intervals_of_draws_cover(family: str, link: str, *, skewed: bool) -> None:
    inside, away, true = [], [], np.array([0.2, 0.5, 0.7])
    for seed in range(8):
        noised, _ = made(np.random.default_rng(100 + seed), 700, family, link, skewed=skewed)
        draws = marginal.sample(noised, Sampling(chains=4, draws=100)).draws.reshape(-1, 3)
        low, high = np.quantile(draws, [0.025, 0.975], axis=0)
        inside.append((low < true) & (true < high))
        away.append((draws.mean(axis=0) - true) / draws.std(axis=0))
    assert np.mean(inside) > 0.8
    assert np.abs(np.mean(away, axis=0)).max() < 3.5 / math.sqrt(8)


def test_walkers_agree_under_a_mixture_of_three(monkeypatch: pytest.MonkeyPatch) -> None:
    """Components may change places, and rare ones are hardly known; coefficients do not mind."""
    noised, _ = made(np.random.default_rng(3), 700, "poisson", "log", skewed=True)
    few = Sampling(chains=4, draws=200, warmup=200, seed=1)
    weighed = marginal.sample(noised, few)
    assert weighed.components >= 2
    monkeypatch.setattr("sfumato.analysis.samplers.marginal.importance.UNSURE", -math.inf)
    walked = marginal.sample(noised, few)
    assert not walked.independent
    assert walked.draws.shape == (4, 200, 3)
    assert max(rhat(walked.draws[..., at]) for at in range(3)) < 1.05
    spread = walked.draws.std(axis=(0, 1))
    apart = walked.draws.mean(axis=(0, 1)) - weighed.draws.mean(axis=(0, 1))
    assert (np.abs(apart) < 0.25 * spread).all()
