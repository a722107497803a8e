"""Generalised models of noised predictors: draws by the marginal likelihood."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.analysis.marginal_problems import FAMILIES, TRUE, made, rich

from sfumato.analysis.problem import Number, Problem, Sampling, Term
from sfumato.analysis.samplers.marginal import sampler as marginal
from sfumato.analysis.samplers.marginal.importance import pareto, smoothed
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.progress import silent

FEW = Sampling(chains=2, draws=200, seed=3)


def _plainly(problem: Problem) -> tuple[Floats, Floats]:
    """statsmodels on the released values as they are."""
    import statsmodels.api as sm

    codes = np.zeros((problem.records, 0), np.int64)
    latent = np.column_stack([one.seen for one in problem.numbers])
    links = {"logit": sm.families.links.Logit(), "probit": sm.families.links.Probit()}
    family = sm.families.Poisson()
    if problem.family != "poisson":
        family = sm.families.Binomial(link=links[problem.link])
    y = problem.y
    if problem.trials is not None:
        y = np.column_stack([y, problem.trials - y])
    fit = sm.GLM(y, problem.design(latent, codes), family=family).fit()
    return fit.params, fit.bse


@pytest.mark.parametrize(("family", "link"), FAMILIES)
def test_without_noise_it_is_the_generalised_linear_model(family: str, link: str) -> None:
    _, exact = made(np.random.default_rng(9), 800, family, link)
    found = marginal.sample(replace(exact, shape="normal"), Sampling(chains=2, draws=400))
    mean, spread = _plainly(exact)
    draws = found.draws.reshape(-1, 3)
    assert np.abs(draws.mean(axis=0) - mean).max() < 0.2 * spread.max()
    assert draws.std(axis=0) == pytest.approx(spread, rel=0.15)
    assert found.parameters == ("Intercept", "clean", "x")
    assert found.independent
    assert found.details["pareto_k"] < 0.7


@pytest.mark.parametrize(("family", "link"), [FAMILIES[0], FAMILIES[1], FAMILIES[4]])
def test_noise_is_taken_out_and_intervals_cover(family: str, link: str) -> None:
    """Paired with the noise-free fit: the noise-free error is common to both."""
    differences, naive, covered = [], [], []
    for seed in range(10):
        noised, exact = made(np.random.default_rng(seed), 1500, family, link)
        found, spread, _ = marginal.laplace(replace(noised, shape="normal"))
        plain = _plainly(exact)[0]
        differences.append(found - plain)
        naive.append(_plainly(noised)[0] - plain)
        covered.append(np.abs(found - np.array(TRUE)) < 1.96 * spread)
    error = np.std(differences, axis=0) / math.sqrt(10)
    assert (np.abs(np.mean(differences, axis=0)) < 3.5 * error + 0.005).all()
    assert np.mean(naive, axis=0)[2] < -0.15
    assert np.mean(covered) > 0.85


def test_a_skewed_predictor_needs_the_mixture() -> None:
    noised, exact = made(np.random.default_rng(1), 6000, "poisson", "log", skewed=True)
    normal = marginal.laplace(replace(noised, shape="normal"))[0]
    mixture, spread, components = marginal.laplace(noised)
    plain = _plainly(exact)[0]
    assert components >= 2
    assert normal[2] - plain[2] > 0.05
    assert abs(mixture[2] - plain[2]) < 3 * spread[2]


def test_components_in_fixed_places_leave_less_bias_than_few_free_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Few have too thin a tail, so that large counts make the coefficient too large."""
    problems = [
        made(np.random.default_rng([9, at]), 1000, "poisson", "log", skewed=True) for at in range(6)
    ]
    fixed = [marginal.laplace(noised) for noised, _ in problems]
    monkeypatch.setattr(
        "sfumato.analysis.samplers.marginal.shape._smooth", lambda few, mode: (few, mode.theta)
    )
    free = [marginal.laplace(noised) for noised, _ in problems]
    assert all(one[2] > other[2] for one, other in zip(fixed, free, strict=True))
    plain = np.array([_plainly(exact)[0] for _, exact in problems])
    away = [np.mean([one[0] for one in found] - plain, axis=0)[2] for found in (fixed, free)]
    assert away[1] - away[0] > 0.005 * TRUE[2]
    assert abs(away[0]) < abs(away[1])


def test_a_normal_predictor_needs_none() -> None:
    assert marginal.laplace(made(np.random.default_rng(2), 3000)[0])[2] == 1
    asked = replace(made(np.random.default_rng(2), 500)[0], shape="mixture")
    assert marginal.laplace(asked)[2] >= 2


@pytest.mark.parametrize("mixed", [False, True])
def test_categories_missing_values_and_a_noisedoutcome(*, mixed: bool) -> None:
    found, spread, _ = marginal.laplace(rich(np.random.default_rng(4), 4000, mixed=mixed))
    true = np.array([0.2, 0.5, 0.7, -0.4, 0.8, 0.0])
    assert (np.abs(found - true) < 3.2 * spread).all()
    assert spread.max() < 0.4


def test_draws_follow_the_seed_and_not_the_order() -> None:
    problem, _ = made(np.random.default_rng(10), 300)
    first = marginal.sample(problem, FEW)
    order = np.random.default_rng(0).permutation(300)
    number = replace(problem.numbers[0], seen=problem.numbers[0].seen[order])
    terms = [
        one if one.clean is None else replace(one, clean=one.clean[order]) for one in problem.terms
    ]
    moved = replace(
        problem,
        y=problem.y[order],
        numbers=(number,),
        terms=tuple(terms),
        covariates=problem.covariates[order],
    )
    assert (marginal.sample(moved, FEW).draws == first.draws).all()
    assert (marginal.sample(problem, replace(FEW, seed=4)).draws != first.draws).any()
    assert first.draws.shape == (2, 200, 3)


def test_a_large_problem_is_drawn_from_the_normal_approximation() -> None:
    found = marginal.sample(made(np.random.default_rng(11), 12_000)[0], FEW)
    assert found.details["normal"] == 1
    assert "pareto_k" not in found.details
    assert any("normal" in note for note in found.notes)
    assert found.draws.mean(axis=(0, 1)) == pytest.approx(np.array(TRUE), abs=0.15)


def test_the_sampler_agrees_with_importance_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = replace(made(np.random.default_rng(12), 150)[0], shape="normal")
    few = Sampling(chains=2, draws=300, warmup=150, seed=1)
    weighed = marginal.sample(problem, replace(few, draws=1000)).draws.reshape(-1, 3)
    monkeypatch.setattr("sfumato.analysis.samplers.marginal.importance.UNSURE", -math.inf)
    walked = marginal.sample(problem, few)
    assert not walked.independent
    assert "Hamiltonian" in walked.notes[-1]
    draws = walked.draws.reshape(-1, 3)
    spread = weighed.std(axis=0)
    assert (np.abs(draws.mean(axis=0) - weighed.mean(axis=0)) < 0.25 * spread).all()
    assert draws.std(axis=0) == pytest.approx(spread, rel=0.25)


def test_an_interrupt_leaves_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, _ = made(np.random.default_rng(13), 150)
    monkeypatch.setattr("sfumato.analysis.samplers.marginal.importance.UNSURE", -math.inf)
    told: list[int] = []

    def say(what: str, done: int, total: int) -> None:
        told.append(done)
        if what == "walking" and done > 0.15 * total:
            raise KeyboardInterrupt

    found = marginal.sample(problem, Sampling(chains=2, draws=2_000, warmup=50), say)
    assert not found.complete
    assert 0 < found.draws.shape[1] < 2_000
    assert told


# Weights.


def test_the_pareto_shape_is_found() -> None:
    chance = np.random.default_rng(14)
    for shape in (0.2, 0.5, 0.9):
        above = np.sort(stats.genpareto.rvs(shape, size=5000, random_state=chance))
        assert pareto(above)[0] == pytest.approx(shape, abs=0.07)


def test_weights_that_cannot_be_trusted_are_seen() -> None:
    chance = np.random.default_rng(15)
    heavy = stats.genpareto.rvs(1.5, size=4000, random_state=chance)
    assert smoothed(np.log(heavy))[1] > 0.7
    assert smoothed(0.1 * chance.normal(size=4000))[1] < 0.5
    assert smoothed(np.full(1000, -np.inf))[1] == math.inf
    assert smoothed(np.zeros(3))[1] == math.inf


# Odd inputs.


def test_what_it_does_not_take() -> None:
    problem, _ = made(np.random.default_rng(16), 20)
    number = problem.numbers[0]
    assert marginal.can(problem)
    assert not marginal.can(replace(problem, family="gaussian", link="identity"))
    assert not marginal.can(replace(problem, groups=np.zeros(20, np.int64)))
    assert not marginal.can(replace(problem, numbers=(replace(number, laplace=True),)))
    assert not marginal.can(replace(problem, numbers=(replace(number, high=1.0),)))
    squared = Term(name="x2", numbers=((0, np.square),))
    assert not marginal.can(replace(problem, terms=(*problem.terms, squared)))
    with pytest.raises(MeasureError, match="cannot be computed"):
        marginal.sample(replace(problem, groups=np.zeros(20, np.int64)), FEW)


def test_outcomes_that_fit_no_family() -> None:
    problem, _ = made(np.random.default_rng(17), 20)
    for wrong in (2.0, -1.0, 0.5, math.nan, math.inf):
        y = problem.y.copy()
        y[3] = wrong
        with pytest.raises(MeasureError, match="outcome"):
            marginal.sample(replace(problem, y=y), FEW)


def test_nothing_to_fit() -> None:
    problem, _ = made(np.random.default_rng(18), 20)
    gone = Number(name="x", seen=np.full(20, np.nan), variance=0.5)
    with pytest.raises(MeasureError, match="x has no released values"):
        marginal.sample(replace(problem, numbers=(gone,)), FEW)
    twice = (*problem.terms, Term(name="again", clean=2 * problem.covariates[:, 1]))
    with pytest.raises(MeasureError, match="again"):
        marginal.sample(replace(problem, terms=twice), FEW)
    lost = Term(name="clean", clean=np.full(20, np.nan))
    with pytest.raises(MeasureError, match="missing"):
        marginal.sample(replace(problem, terms=(problem.terms[0], lost)), FEW)
    with pytest.raises(MeasureError, match="no records"):
        marginal.sample(
            Problem(
                family="poisson",
                link="log",
                y=np.zeros(0),
                terms=(Term(name="Intercept"),),
                covariates=np.ones((0, 1)),
            ),
            FEW,
        )


def test_an_outcome_told_for_sure_is_refused() -> None:
    problem, _ = made(np.random.default_rng(19), 200)
    assert problem.terms[1].clean is not None
    with pytest.raises(MeasureError, match="do not bound"):
        marginal.sample(replace(problem, y=(problem.terms[1].clean > 0).astype(float)), FEW)
    with pytest.raises(MeasureError, match="do not bound"):
        marginal.sample(replace(problem, y=np.ones(200)), FEW)


def test_one_record_is_refused() -> None:
    problem, _ = made(np.random.default_rng(20), 1)
    with pytest.raises(MeasureError):
        marginal.sample(problem, FEW)


def test_clean_predictors_alone() -> None:
    problem, _ = made(np.random.default_rng(21), 400)
    plain = replace(problem, numbers=(), error=np.zeros((0, 0)), terms=problem.terms[:2])
    found = marginal.sample(plain, FEW, silent)
    assert found.parameters == ("Intercept", "clean")
    assert found.components == 1
