"""Two-level generalised models without noise: against numerical integration and lme4."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.integrate import quad
from scipy.special import expit, log_ndtr
from scipy.stats import norm

import sfumato as sf
from sfumato.analysis.mixed_models import (
    GroupedRecords,
    MarginalLikelihood,
    fit_generalised_mixed_model,
)
from sfumato.errors import MeasureError

# Cases and animals by herd and period; Lesnoff et al. (2004), Preventive Veterinary Medicine 64:27.
HERDS = [1] * 4 + [2] * 3 + [3] * 4 + [4] * 4 + [5] * 4 + [6] * 4 + [7] * 4 + [8]
HERDS += [herd for herd in range(9, 16) for _ in range(4)]
PERIODS = [1, 2, 3, 4, 1, 2, 3] + [1, 2, 3, 4] * 5 + [1] + [1, 2, 3, 4] * 7
CASES = [
    2, 3, 4, 0, 3, 1, 1, 8, 2, 0, 2, 2, 0, 2, 0, 5, 0, 0, 1, 3, 0, 0, 1, 8, 1, 3, 0, 12,
    2, 0, 0, 0, 1, 1, 0, 2, 0, 5, 3, 1, 2, 1, 0, 0, 1, 2, 0, 0, 11, 0, 0, 0, 1, 1, 1, 0,
]  # fmt: skip
ANIMALS = [
    14, 12, 9, 5, 22, 18, 21, 22, 16, 16, 20, 10, 10, 9, 6, 18, 25, 24, 4, 17, 17, 18, 20, 16,
    10, 9, 5, 34, 9, 6, 8, 6, 22, 22, 18, 22, 25, 27, 22, 22, 10, 8, 6, 5, 21, 24, 19, 23, 19,
    2, 3, 2, 19, 15, 15, 15,
]  # fmt: skip


def grouped(link: str, records: int, groups: int, seed: int) -> GroupedRecords:
    rng = np.random.default_rng(seed)
    group = rng.integers(0, groups, records)
    x = np.column_stack([np.ones(records), rng.normal(size=records)])
    line = x @ [0.2, 0.7] + 0.8 * rng.normal(size=groups)[group]
    trials = rng.integers(1, 4, records).astype(float) if link == "logit" else np.ones(records)
    chance = norm.cdf(line) if link == "probit" else expit(line)
    y = rng.poisson(np.exp(line)) if link == "log" else rng.binomial(trials.astype(int), chance)
    return GroupedRecords(
        link=link, x=x, y=y.astype(float), trials=trials, groups=group, random=(0,)
    )  # fmt: skip


def log_likelihood(records: GroupedRecords, theta: np.ndarray) -> float:
    """By adaptive quadrature of each group, far slower."""
    total = 0.0
    for group in np.unique(records.groups):
        some = records.groups == group
        line, y, trials = records.x[some] @ theta[:2], records.y[some], records.trials[some]

        def joint(u: float, line=line, y=y, trials=trials) -> float:
            eta = line + theta[2] * u
            if records.link == "log":
                log = y * eta - np.exp(eta)
            elif records.link == "logit":
                log = y * eta - trials * np.logaddexp(0, eta)
            else:
                log = y * log_ndtr(eta) + (trials - y) * log_ndtr(-eta)
            return float(np.exp(log.sum() + norm.logpdf(u)))

        total += np.log(quad(joint, -8, 8, epsabs=0, epsrel=1e-8, limit=200)[0])
    return total


@pytest.mark.parametrize("link", ["logit", "probit", "log"])
def test_likelihood_slope_and_information_are_those_of_numerical_integration(link):
    records = grouped(link, 40, 5, 1)
    theta = np.array([0.1, 0.5, 0.6])
    found = MarginalLikelihood(records).evaluate(theta)
    assert found.value == pytest.approx(log_likelihood(records, theta), abs=2e-4)
    for at in range(3):
        step = 1e-4 * np.eye(3)[at]
        ends = [log_likelihood(records, theta + side * step) for side in (-1, 1)]
        assert found.gradient[at] == pytest.approx((ends[1] - ends[0]) / 2e-4, abs=2e-3)
        slopes = [
            MarginalLikelihood(records).evaluate(theta + side * step).gradient for side in (-1, 1)
        ]
        bend = (slopes[0] - slopes[1]) / 2e-4
        np.testing.assert_allclose(found.information[at], bend, atol=0.02)


@pytest.mark.parametrize("link", ["logit", "probit", "log"])
def test_nothing_near_it_is_likelier(link):
    records = grouped(link, 40, 5, 2)
    made = fit_generalised_mixed_model(records, np.zeros(2))
    assert made.settled
    theta = np.array([*made.beta, np.sqrt(made.between[0, 0])])
    best = log_likelihood(records, theta)
    for at in range(3):
        for side in (-0.05, 0.05):
            assert log_likelihood(records, theta + side * np.eye(3)[at]) < best


def test_lme4_gives_the_same():
    frame = pl.DataFrame({"herd": HERDS, "period": PERIODS, "cases": CASES, "animals": ANIMALS})
    made = sf.fit(
        "cases ~ C(period) + (1 | herd)", frame, noise={}, family="binomial", trials="animals",
        method="simex",
    )  # fmt: skip
    # glmer(cbind(cases, animals - cases) ~ period + (1 | herd), binomial, nAGQ = 25)
    expected = [-1.399225, -0.991407, -1.127822, -1.579466]
    np.testing.assert_allclose(list(made.naive.value.values())[:4], expected, atol=2e-5)
    assert made.naive.value["variance of Intercept by group"] == pytest.approx(0.6475**2, abs=1e-3)


def test_slopes_by_group_and_groups_that_do_not_differ():
    rng = np.random.default_rng(4)
    group = rng.integers(0, 60, 6000)
    x = np.column_stack([np.ones(6000), rng.normal(size=6000)])
    effects = rng.multivariate_normal([0, 0], [[0.5, 0.2], [0.2, 0.3]], 60)
    y = rng.poisson(np.exp(0.3 + 0.5 * x[:, 1] + (x * effects[group]).sum(axis=1)))
    records = GroupedRecords(
        link="log", x=x, y=y.astype(float), trials=np.ones(6000), groups=group, random=(0, 1)
    )
    made = fit_generalised_mixed_model(records, np.zeros(2))
    np.testing.assert_allclose(made.between, np.cov(effects, rowvar=False), atol=0.06)
    alike = (rng.random(400) < expit(0.5 * x[:400, 1])).astype(float)
    level = GroupedRecords(
        link="logit", x=x[:400], y=alike, trials=np.ones(400), groups=np.arange(400) % 20,
        random=(0,),
    )  # fmt: skip
    found = fit_generalised_mixed_model(level, np.zeros(2))
    assert found.settled
    assert found.between[0, 0] < 0.1
    with pytest.raises(MeasureError, match="too many"):
        fit_generalised_mixed_model(
            GroupedRecords(
                link="log", x=np.ones((9, 4)), y=np.ones(9), trials=np.ones(9),
                groups=np.arange(9), random=(0, 1, 2, 3),
            ),
            np.zeros(4),
        )  # fmt: skip


def test_separation_ends_and_is_told():
    rng = np.random.default_rng(6)
    z = rng.normal(size=300)
    frame = pl.DataFrame({"y": (z > 0).astype(int), "z": z, "g": np.arange(300) % 15})
    made = sf.fit("y ~ z + (1 | g)", frame, noise={}, family="bernoulli", method="simex")
    assert any("separation" in one for one in made.warnings)
