"""Draws within cells against slow references: rejection sampling, scipy's truncated normal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import truncnorm

from sfumato.analysis.problem import GeneralisedNumber, Problem, Sampling, Term
from sfumato.analysis.samplers.metropolis import sampler
from sfumato.analysis.samplers.metropolis.cells import (
    CellMixture,
    draw_between,
    exchange_within_classes,
    place_near_ends,
    restrict_to_tight_ranges,
)
from sfumato.analysis.samplers.metropolis.covariates import RecordMixture


@pytest.mark.parametrize(
    ("a", "b"), [(-1.0, 2.0), (3.0, 3.5), (-9.0, -8.5), (40.0, 41.0), (-np.inf, -2.0), (2, np.inf)]
)
def test_draws_between_limits_are_those_of_a_truncated_normal(a, b):
    draws = draw_between(np.full(20_000, a), np.full(20_000, b), np.random.default_rng(1))
    assert ((draws >= a - 1e-9) & (draws <= b + 1e-9)).all()
    expected = truncnorm(a, b)
    assert draws.mean() == pytest.approx(expected.mean(), abs=5 * expected.std() / 20_000**0.5)
    assert draws.std() == pytest.approx(expected.std(), rel=0.05)


def build_mixture(records: int) -> RecordMixture:
    """70 % about 0 and 30 % about 3, for each of some records."""
    variances = np.repeat([[1.0], [4.0]], records, axis=1)
    logs = np.log([[0.7], [0.3]]) - 0.5 * np.log(variances)
    return RecordMixture(logs, np.repeat([[0.0], [3.0]], records, axis=1), variances)


def draw_by_rejection(rng, low: float, high: float, size: int):
    """The same mixture within limits, by throwing away what lies outside."""
    second = rng.uniform(size=size) < 0.3
    values = np.where(second, 3 + 2 * rng.normal(size=size), rng.normal(size=size))
    return values[(values >= low) & (values <= high)]


def test_a_mixture_within_cells_is_that_of_rejection():
    rng = np.random.default_rng(2)
    low, high = np.full(40_000, 0.5), np.full(40_000, 4.0)
    draws = CellMixture(build_mixture(40_000), low, high).draw(rng)
    expected = draw_by_rejection(rng, 0.5, 4.0, 200_000)
    for moment in (np.mean, np.std, lambda x: np.mean(x > 3)):
        assert moment(draws) == pytest.approx(moment(expected), abs=0.02)


def test_a_cell_without_width_is_its_value():
    value = np.array([2.0, -30.0])
    draws = CellMixture(build_mixture(2), value, value).draw(np.random.default_rng(3))
    assert draws.tolist() == value.tolist()


def test_tight_ranges_are_sampled_as_by_rejection():
    """Three records in [0, 10], one at least below 2 and one above 8, against rejection."""
    rng = np.random.default_rng(4)
    copies, members, near = 400, 3, 2.0
    size = copies * members
    classes = np.repeat(np.arange(copies), members)
    number = GeneralisedNumber(
        name="x",
        observed=np.full(size, 5.0),
        lower=np.zeros(size),
        upper=np.full(size, 10.0),
        classes=classes,
        near_lower=np.full(size, near),
        near_upper=np.full(size, 10 - near),
    )
    latent = place_near_ends(number, rng.uniform(0, 10, size))
    mixture, drawn = build_mixture(size), []
    for sweep in range(150):
        ends = restrict_to_tight_ranges(number, latent, rng)
        assert ((ends.lower <= latent) & (latent <= ends.upper)).all()
        latent = CellMixture(mixture, ends.lower, ends.upper).draw(rng)
        by_class = latent.reshape(copies, members)
        assert (by_class.min(axis=1) <= near).all()
        assert (by_class.max(axis=1) >= 10 - near).all()
        if sweep >= 50:
            drawn.append(np.sort(by_class, axis=1))
    pool = draw_by_rejection(rng, 0.0, 10.0, 3_000_000)
    pool = pool[: len(pool) // members * members].reshape(-1, members)
    kept = np.sort(pool[(pool.min(axis=1) <= near) & (pool.max(axis=1) >= 10 - near)], axis=1)
    assert len(kept) > 1000
    assert np.mean(drawn, axis=(0, 1)) == pytest.approx(kept.mean(axis=0), abs=0.1)


def build_problem(family: Any, n: int = 250, seed: int = 5, **more: Any) -> tuple[Problem, Any]:
    """A skewed whole number in cells of three, and a clean column."""
    rng = np.random.default_rng(seed)
    clean = rng.normal(size=n)
    x = np.round(2 * rng.exponential(size=n) + 0.3 * clean + 2)
    line = 0.2 + 0.4 * clean + 0.5 * (x - 4)
    if family == "gaussian":
        y: Any = line + rng.normal(size=n)
    else:
        y = (rng.uniform(size=n) < 1 / (1 + np.exp(-line))).astype(float)
    link: Any = "identity" if family == "gaussian" else "logit"
    start = np.floor(x / 3) * 3
    number = GeneralisedNumber(
        name="x", observed=start + 1, lower=start - 0.5, upper=start + 2.5, whole=True
    )
    terms = (
        Term(name="Intercept"),
        Term(name="w", clean=clean),
        Term(name="x", numbers=((0, None),)),
    )
    covariates = np.column_stack([np.ones(n), clean])
    problem = Problem(
        family=family, link=link, y=y, numbers=(number,), error=np.zeros((1, 1)),
        terms=terms, covariates=covariates, **more,
    )  # fmt: skip
    return problem, x


@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
def test_draws_do_not_depend_on_the_order_of_records(family):
    problem, _ = build_problem(family, 120)
    sampling = Sampling(chains=1, draws=5, warmup=5)
    order = np.random.default_rng(6).permutation(problem.records)
    turned = Problem(
        family=problem.family, link=problem.link, y=problem.y[order],
        numbers=tuple(number.take(order) for number in problem.numbers), error=problem.error,
        terms=(
            problem.terms[0],
            Term(name="w", clean=problem.covariates[order, 1]),
            problem.terms[2],
        ),
        covariates=problem.covariates[order],
    )  # fmt: skip
    first, second = (sampler.sample(given, sampling).draws for given in (problem, turned))
    np.testing.assert_allclose(first, second, rtol=1e-8)


@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
def test_the_true_slope_lies_where_the_draws_say(family):
    problem, _ = build_problem(family, 600)
    posterior = sampler.sample(problem, Sampling(chains=2, draws=150, warmup=100))
    draws = posterior.draws.reshape(-1, len(posterior.parameters))
    slope = draws[:, posterior.parameters.index("x")]
    assert abs(slope.mean() - 0.5) < 3 * slope.std()
    assert posterior.shape == "mixture"


def test_known_values_give_the_fit_to_values():
    """Cells of one value each: the draws are those of a plain regression."""
    problem, x = build_problem("gaussian", 300)
    exact = GeneralisedNumber(name="x", observed=x, lower=x - 0.5, upper=x + 0.5, whole=True)
    problem = Problem(
        family="gaussian", link="identity", y=problem.y, numbers=(exact,),
        error=np.zeros((1, 1)), terms=problem.terms, covariates=problem.covariates,
    )  # fmt: skip
    posterior = sampler.sample(problem, Sampling(chains=2, draws=400, warmup=50))
    design = np.column_stack([problem.covariates, x])
    beta, squares, *_ = np.linalg.lstsq(design, problem.y, rcond=None)
    error = np.sqrt(squares[0] / (300 - 3) * np.diag(np.linalg.inv(design.T @ design)))
    draws = posterior.draws[..., :3].reshape(-1, 3)
    assert draws.mean(axis=0) == pytest.approx(beta, abs=5 * error.max() / 800**0.5)
    assert draws.std(axis=0) == pytest.approx(error, rel=0.12)


class FavouringOrder:
    """A target that likes a value the more the later its record stands."""

    def predict(self, latent):
        return latent

    def log_without_cells(self, latent, eta):
        return 50.0 * np.arange(len(latent)) * latent


def test_an_exchange_keeps_the_values_of_a_class_and_finds_the_better_order():
    classes = np.array([0, 0, 0, 1, 1, -1, -1])
    number = GeneralisedNumber(
        name="x", observed=np.zeros(7), lower=np.zeros(7), upper=np.ones(7), classes=classes,
        near_lower=np.zeros(7), near_upper=np.ones(7),
    )  # fmt: skip
    before = np.array([0.9, 0.5, 0.1, 0.8, 0.2, 0.7, 0.3])
    target: Any = FavouringOrder()
    rng, values = np.random.default_rng(7), before
    for _ in range(40):
        values, eta = exchange_within_classes(values, target, number, rng)
        assert eta.tolist() == values.tolist()
    assert values.tolist() == [0.1, 0.5, 0.9, 0.2, 0.8, 0.7, 0.3]
