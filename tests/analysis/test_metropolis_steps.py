"""Single steps of the general engine: each leaves the right distribution as it is.

True values are drawn, then what is released of them, then a step draws true values given that:
their rank among such draws is uniform, whatever the noise (simulation-based calibration, record by
record). The paper's proposal accepted without its ratio is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import chisquare, laplace, norm
from tests.analysis.general_problems import CONSTANT, X, release_number

from sfumato.analysis.problem import NoisyNumber, Problem, Term
from sfumato.analysis.samplers.metropolis.coefficients import (
    draw_category,
    draw_inverse_wishart,
    draw_normal,
    draw_variance_above,
    sum_by_group,
)
from sfumato.analysis.samplers.metropolis.covariates import ConditionalMixture
from sfumato.analysis.samplers.metropolis.latent import (
    LatentTarget,
    NumberTerms,
    step_latent,
    step_newton,
)
from sfumato.analysis.samplers.metropolis.likelihood import (
    LogDensity,
    OutcomeModel,
    ReleasedNumber,
    binomial_likelihood,
    cumulative_likelihood,
    mix_over_levels,
    negative_binomial_likelihood,
)

RECORDS = 3000
KINDS = ("plain", "clipped", "laplace", "rounded", "missing", "growing", "log")


def setting(kind: str, family: str, *, mixture: bool, seed: int) -> tuple[LatentTarget, np.ndarray]:
    """A target with known parameters, and the true latent values."""
    rng = np.random.default_rng([seed, 21])
    x = rng.normal(size=RECORDS)
    given_logs, centres, variances = None, np.zeros((1, RECORDS)), np.ones(1)
    if mixture:
        x = np.where(rng.uniform(size=RECORDS) < 0.3, 2 + 0.5 * x, x - 1)
        given_logs = np.log([[0.7], [0.3 / 0.5]]) + np.zeros((2, RECORDS))
        centres, variances = np.array([[-1.0], [2.0]]) + centres, np.array([1.0, 0.25])
    number, true = release_number(kind, x, rng)
    latent = x / 2 if kind == "log" else x
    if kind == "log":
        # On the scale of the noise true values are half as large.
        centres, variances = centres / 2, variances / 4
    eta = 0.3 + 0.5 * true + 0.2 * true**2
    y = {
        "gaussian": lambda: eta + rng.normal(size=RECORDS),
        "bernoulli": lambda: (rng.uniform(size=RECORDS) < expit(eta)).astype(float),
        "poisson": lambda: rng.poisson(np.exp(np.minimum(eta, 10))).astype(float),
    }[family]()
    links: Any = {"gaussian": "identity", "bernoulli": "logit", "poisson": "log"}
    problem = Problem(
        family=family,  # type: ignore[arg-type]
        link=links[family],
        y=y,
        numbers=(number,),
        terms=(CONSTANT, X, Term(name="x ** 2", numbers=((0, np.square),))),
        covariates=np.ones((RECORDS, 1)),
    )
    target = LatentTarget(
        terms=NumberTerms(problem, 0, 1e-4),
        weights=[np.full(RECORDS, 0.5), np.full(RECORDS, 0.2)],
        offset=np.full(RECORDS, 0.3),
        outcome=OutcomeModel(problem),
        conditional=ConditionalMixture(given_logs, centres, variances),
        released=ReleasedNumber(number),
        shift=0.0,
    )
    return target, latent


def ranks(
    target: LatentTarget, latent: np.ndarray, step: Any, rounds: int, seed: int
) -> np.ndarray:
    """The rank of each true value among seven draws."""
    rng = np.random.default_rng([seed, 22])
    # Begun at the truth, the chain is where it belongs at once; it is then left to forget it.
    latent_draws, below = latent.copy(), np.zeros(len(latent), int)
    for index in range(rounds * 8):
        latent_draws = step(latent_draws, target, rng)
        if index % rounds == rounds - 1 and index >= rounds:
            below += latent_draws < latent
    return below


def both(present, target, rng):
    for turn in range(4):
        present, _, _ = step_latent(turn, present, target, 1.0, rng)
    return present


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mixture", [False, True])
def test_ranks_of_true_values_are_uniform(kind: str, *, mixture: bool):
    family = {"clipped": "bernoulli", "rounded": "poisson", "missing": "bernoulli"}.get(
        kind, "gaussian"
    )
    target, latent = setting(kind, family, mixture=mixture, seed=1)
    result = np.bincount(ranks(target, latent, both, 3, 1), minlength=8)
    assert chisquare(result).pvalue > 1e-4


def linear_target(seed: int) -> LatentTarget:
    """A target in which a predictor of two modes is linear, its slope differing by record."""
    target, _ = setting("plain", "gaussian", mixture=True, seed=seed)
    rng = np.random.default_rng([seed, 23])
    target.terms.functions, target.terms.linear = [(None,)], [True]
    target.weights = [rng.normal(size=RECORDS)]
    target.offset = rng.normal(size=RECORDS)
    target.outcome.variance, target.shift = 1.7, 0.1
    return target


def integrate_by_quadrature(target: LatentTarget, record: int) -> tuple[float, float]:
    """The log density of what a record shows, and the mean of its true value given that."""
    slope, offset = target.weights[0][record], target.offset[record]
    released, y = target.released.values[record] + target.shift, target.outcome.true[record]
    variance = target.released.number.variance
    assert variance is not None
    sd = variance**0.5

    def density(x: float) -> float:
        prior = 0.7 * norm.pdf(x, -1, 1) + 0.3 * norm.pdf(x, 2, 0.5)
        noise = norm.pdf(released, x, sd)
        outcome = norm.pdf(y, offset + slope * x, target.outcome.variance**0.5)
        return float(prior * noise * outcome)

    near: Any = {"points": sorted([-1.0, released, 2.0]), "limit": 200}
    total = quad(density, -9, 9, **near)[0]
    return float(np.log(total)), quad(lambda x: x * density(x), -9, 9, **near)[0] / total


def test_a_mixture_is_integrated_as_by_quadrature():
    target, rng = linear_target(3), np.random.default_rng(4)
    before = target.integrate()
    drawn = np.mean([before.mixture.draw(rng)[:30] for _ in range(4000)], axis=0)
    expected = np.array([integrate_by_quadrature(target, record) for record in range(30)])
    assert drawn == pytest.approx(expected[:, 1], abs=0.07)  # 4 errors of a mean
    # But for a constant of all records, which must not depend on the variance: that is stepped.
    gap = before.log[:30] - expected[:, 0]
    target.outcome.variance = 0.6
    expected = np.array([integrate_by_quadrature(target, record) for record in range(30)])
    gap = np.append(gap, target.integrate().log[:30] - expected[:, 0])
    assert gap == pytest.approx(gap[0], abs=1e-6)


def without_ratio(present, target, rng):
    """The paper's (A3) read literally: accepted by the likelihood (A2) alone."""
    released, share = target.released.values, 1 / 1.3
    drawn = released * share + np.sqrt(share * 0.3) * rng.standard_normal(len(released))
    gain = target.evaluate(drawn)[0].log - target.evaluate(present)[0].log
    return np.where(np.log(rng.uniform(size=len(released))) < gain, drawn, present)


def test_the_paper_s_proposal_without_its_ratio_is_biased():
    target, latent = setting("plain", "gaussian", mixture=False, seed=2)
    wrong = np.bincount(ranks(target, latent, without_ratio, 6, 2), minlength=8)
    right = np.bincount(ranks(target, latent, both, 3, 2), minlength=8)
    assert chisquare(wrong).pvalue < 1e-12
    assert chisquare(right).pvalue > 1e-4
    # Measurement and covariate model count twice, so that values vary too little about them.
    rng = np.random.default_rng(3)
    latent_draws = latent.copy()
    spread = []
    for index in range(60):
        latent_draws = without_ratio(latent_draws, target, rng)
        if index > 20:
            spread.append(latent_draws.var())
    assert np.mean(spread) < 0.93 * latent.var()


def test_no_record_is_left_behind_in_a_tail():
    # From where a count far above its expectation pulls, Newton steps alone lead too far for ever.
    target, _ = setting("plain", "poisson", mixture=False, seed=8)
    target.weights = [np.full(RECORDS, 1.0), np.full(RECORDS, 0.0)]
    target.outcome.true = np.full(RECORDS, 60.0)
    target.released.values = np.zeros(RECORDS)
    target.released._variance = 1.0
    rng = np.random.default_rng(9)
    stuck = latent_draws = np.full(RECORDS, -2.0)
    for index in range(100):
        stuck, _, _ = step_newton(stuck, target.evaluate, 1.0, rng)
        latent_draws, _, _ = step_latent(index, latent_draws, target, 1.0, rng)
    grid = np.linspace(-4, 8, 4001)
    log = 60 * (0.3 + grid) - np.exp(0.3 + grid) - grid**2
    weight = np.exp(log - log.max())
    mean = float(weight @ grid / weight.sum())
    assert latent_draws.mean() == pytest.approx(mean, abs=0.02)
    assert stuck.mean() < mean - 1


@pytest.mark.parametrize("kind", ["plain", "clipped", "laplace", "rounded", "growing"])
def test_what_is_released_has_a_density_that_sums_to_one(kind: str):
    rng = np.random.default_rng(4)
    number, _ = release_number(kind, rng.normal(size=50), rng)

    def density(released: float, latent: float) -> float:
        from dataclasses import replace

        number_released = ReleasedNumber(replace(number, observed=np.array([released])))
        return float(np.exp(number_released.evaluate(np.array([latent])).log[0]))

    for latent in (-0.7, 0.4, 1.2):
        if kind == "rounded":
            total = sum(density(float(k), latent) for k in range(-12, 13))
        elif kind == "clipped":
            total = quad(density, -6, 1, args=(latent,))[0] / np.sqrt(2 * np.pi * 0.3)
            total += density(1.0, latent)
        else:
            points = [latent]
            total = quad(density, -12, 12, args=(latent,), points=points, limit=200)[0]
            # Constants that do not depend on the true value are left out.
            total /= {"plain": np.sqrt(2 * np.pi * 0.3), "laplace": 1.0}.get(
                kind, np.sqrt(2 * np.pi)
            )
        assert total == pytest.approx(1, abs=2e-3)


def slopes_agree(evaluate: Any, where: np.ndarray, *, curve: bool = True) -> None:
    step = 1e-5
    up, here, down = evaluate(where + step), evaluate(where), evaluate(where - step)
    assert np.allclose((up.log - down.log) / (2 * step), here.gradient, atol=1e-4, rtol=1e-4)
    if curve:
        assert np.allclose(
            (down.gradient - up.gradient) / (2 * step), here.curvature, atol=1e-3, rtol=1e-3
        )


@given(st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_slopes_are_those_of_the_logs(seed: int):
    rng = np.random.default_rng(seed)
    eta = 3 * rng.normal(size=20)
    y = (rng.uniform(size=20) < 0.5).astype(float)
    slopes_agree(lambda x: binomial_likelihood(y, 1.0, x, "logit"), eta)
    # The curvature of a probit is the expected one.
    slopes_agree(lambda x: binomial_likelihood(y, 1.0, x, "probit"), eta, curve=False)
    density = np.log(rng.uniform(0.1, 0.9, size=(20, 2)))

    def misclassified(x: np.ndarray) -> LogDensity:
        levels = np.zeros(20), np.ones(20)
        return mix_over_levels(density, [binomial_likelihood(y, 1.0, x, "logit") for y in levels])

    slopes_agree(misclassified, eta, curve=False)
    slopes_agree(lambda x: negative_binomial_likelihood(4 * y, x, 0.7), eta)
    codes, thresholds = rng.integers(0, 4, 20), np.cumsum(rng.gamma(1.0, size=3)) - 1
    slopes_agree(lambda x: cumulative_likelihood(codes, thresholds, x), eta)
    for kind in ("plain", "clipped", "rounded"):
        number, latent = release_number(kind, rng.normal(size=20), rng)
        slopes_agree(ReleasedNumber(number).evaluate, latent)
    laws = ConditionalMixture(
        np.log([[0.4] * 20, [0.6] * 20]), rng.normal(size=(2, 20)), np.array([1.0, 0.3])
    )
    slopes_agree(laws.evaluate, rng.normal(size=20), curve=False)


def test_a_normal_step_is_exact_where_the_target_is_normal():
    # Every proposal is accepted, and where the value was does not matter.
    rng = np.random.default_rng(5)
    released = rng.normal(size=4000)

    def evaluate(x: np.ndarray) -> tuple[LogDensity, np.ndarray]:
        return LogDensity(-2 * (x - released) ** 2, 4 * (released - x), np.full(len(x), 4.0)), x

    latent_draws, _, share = step_newton(rng.normal(size=4000), evaluate, 1e9, rng)
    assert share == 1
    assert np.corrcoef(latent_draws - released, released)[0, 1] == pytest.approx(0, abs=0.06)
    assert np.std(latent_draws - released) == pytest.approx(0.5, abs=0.02)


def test_draws_have_the_moments_they_should():
    rng = np.random.default_rng(6)
    precision = np.array([[4.0, 1.0], [1.0, 2.0]])
    drawn = np.array([draw_normal(precision, np.array([1.0, 2.0]), rng) for _ in range(6000)])
    covariance = np.linalg.inv(precision)
    assert np.allclose(drawn.mean(axis=0), covariance @ [1, 2], atol=0.04)
    assert np.allclose(np.cov(drawn.T), covariance, atol=0.03)
    squares = np.array([[3.0, 1.0], [1.0, 2.0]])
    inverse = np.mean([draw_inverse_wishart(12, squares, rng) for _ in range(4000)], axis=0)
    assert np.allclose(inverse, squares / (12 - 2 - 1), atol=0.02)
    above = [draw_variance_above(1.0, 40, 44.0, rng) for _ in range(2000)]
    assert min(above) > 1
    free = np.array([draw_variance_above(0.0, 40, 44.0, rng) for _ in range(8000)])
    assert np.mean(above) == pytest.approx(free[free > 1].mean(), abs=0.03)
    assert draw_variance_above(5.0, 10_000, 10.0, rng) == pytest.approx(5.0)


def test_places_and_sums():
    rng = np.random.default_rng(7)
    logs = np.log(np.array([[0.2], [0.5], [0.3]])) + np.zeros((3, 6000)) - 900
    assert np.allclose(np.bincount(draw_category(logs, rng)) / 6000, [0.2, 0.5, 0.3], atol=0.03)
    group = np.array([0, 2, 2, 0])
    assert sum_by_group(group, 3, np.arange(8.0).reshape(4, 2)).tolist() == [[6, 8], [0, 0], [6, 8]]


def test_tails_far_out_are_numbers():
    number = NoisyNumber(name="x", observed=np.array([1.0, 1.0, -3.0]), variance=0.01, high=1.0)
    result = ReleasedNumber(number).evaluate(np.array([-5.0, 9.0, 8.0]))
    assert result.log[0] == pytest.approx(norm.logsf(1, -5, 0.1))
    assert all(np.isfinite(part).all() for part in result)
    wide = NoisyNumber(name="x", observed=np.array([2.0]), variance=0.5, width=1.0, laplace=True)
    between = laplace.cdf([1.5, 2.5], 0.3, 0.5)
    assert ReleasedNumber(wide).evaluate(np.array([0.3])).log[0] == pytest.approx(
        np.log(np.diff(between)[0])
    )
