"""Generalised models of noised predictors: draws by the marginal likelihood."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.analysis.marginal_problems import FAMILIES, TRUE, make_problem, make_rich_problem

from sfumato.analysis.problem import NoisyNumber, Problem, Sampling, Term
from sfumato.analysis.samplers.marginal import sampler as marginal
from sfumato.analysis.samplers.marginal.importance import fit_pareto, smooth_weights
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.progress import silent

FEW = Sampling(chains=2, draws=200, seed=3)


def _fit_naively(problem: Problem) -> tuple[Floats, Floats]:
    """statsmodels on the released values as they are."""
    import statsmodels.api as sm

    codes = np.zeros((problem.records, 0), np.int64)
    latent = np.column_stack([number.observed for number in problem.numbers])
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
    _, exact = make_problem(np.random.default_rng(9), 800, family, link)
    result = marginal.sample(replace(exact, shape="normal"), Sampling(chains=2, draws=400))
    mean, spread = _fit_naively(exact)
    draws = result.draws.reshape(-1, 3)
    assert np.abs(draws.mean(axis=0) - mean).max() < 0.2 * spread.max()
    assert draws.std(axis=0) == pytest.approx(spread, rel=0.15)
    assert result.parameters == ("Intercept", "clean", "x")
    assert result.independent
    assert result.details["pareto_k"] < 0.7


@pytest.mark.parametrize(("family", "link"), [FAMILIES[0], FAMILIES[1], FAMILIES[4]])
def test_noise_is_taken_out_and_intervals_cover(family: str, link: str) -> None:
    """Paired with the noise-free fit: the noise-free error is common to both."""
    differences, naive, covered = [], [], []
    for seed in range(10):
        noised, exact = make_problem(np.random.default_rng(seed), 1500, family, link)
        result, spread, _ = marginal.fit_laplace(replace(noised, shape="normal"))
        exact_fit = _fit_naively(exact)[0]
        differences.append(result - exact_fit)
        naive.append(_fit_naively(noised)[0] - exact_fit)
        covered.append(np.abs(result - np.array(TRUE)) < 1.96 * spread)
    error = np.std(differences, axis=0) / math.sqrt(10)
    assert (np.abs(np.mean(differences, axis=0)) < 3.5 * error + 0.005).all()
    assert np.mean(naive, axis=0)[2] < -0.15
    assert np.mean(covered) > 0.85


def test_a_skewed_predictor_needs_the_mixture() -> None:
    noised, exact = make_problem(np.random.default_rng(1), 6000, "poisson", "log", skewed=True)
    normal = marginal.fit_laplace(replace(noised, shape="normal")).coefficients
    mixture, spread, components = marginal.fit_laplace(noised)
    exact_fit = _fit_naively(exact)[0]
    assert components >= 2
    assert normal[2] - exact_fit[2] > 0.05
    assert abs(mixture[2] - exact_fit[2]) < 3 * spread[2]


def test_components_in_fixed_places_leave_less_bias_than_few_free_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Few have too thin a tail, so that large counts make the coefficient too large."""
    problems = [
        make_problem(np.random.default_rng([9, seed]), 1000, "poisson", "log", skewed=True)
        for seed in range(6)
    ]
    fixed = [marginal.fit_laplace(noised) for noised, _ in problems]
    monkeypatch.setattr(
        "sfumato.analysis.samplers.marginal.covariates._fit_smooth",
        lambda few, mode: (few, mode.theta),
    )
    free = [marginal.fit_laplace(noised) for noised, _ in problems]
    assert all(many.components > few.components for many, few in zip(fixed, free, strict=True))
    exact_fit = np.array([_fit_naively(exact)[0] for _, exact in problems])
    bias = [
        np.mean([fit.coefficients for fit in result] - exact_fit, axis=0)[2]
        for result in (fixed, free)
    ]
    assert bias[1] - bias[0] > 0.005 * TRUE[2]
    assert abs(bias[0]) < abs(bias[1])


def test_a_normal_predictor_needs_none() -> None:
    assert marginal.fit_laplace(make_problem(np.random.default_rng(2), 3000)[0]).components == 1
    mixture = replace(make_problem(np.random.default_rng(2), 500)[0], shape="mixture")
    assert marginal.fit_laplace(mixture).components >= 2


@pytest.mark.parametrize("mixed", [False, True])
def test_categories_missing_values_and_a_noisedoutcome(*, mixed: bool) -> None:
    result, spread, _ = marginal.fit_laplace(
        make_rich_problem(np.random.default_rng(4), 4000, mixed=mixed)
    )
    true = np.array([0.2, 0.5, 0.7, -0.4, 0.8, 0.0])
    assert (np.abs(result - true) < 3.2 * spread).all()
    assert spread.max() < 0.4


def test_draws_follow_the_seed_and_not_the_order() -> None:
    problem, _ = make_problem(np.random.default_rng(10), 300)
    first = marginal.sample(problem, FEW)
    order = np.random.default_rng(0).permutation(300)
    number = replace(problem.numbers[0], observed=problem.numbers[0].observed[order])
    terms = [
        term if term.clean is None else replace(term, clean=term.clean[order])
        for term in problem.terms
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
    result = marginal.sample(make_problem(np.random.default_rng(11), 12_000)[0], FEW)
    assert result.details["normal"] == 1
    assert "pareto_k" not in result.details
    assert any("normal" in note for note in result.notes)
    assert result.draws.mean(axis=(0, 1)) == pytest.approx(np.array(TRUE), abs=0.15)


def test_the_sampler_agrees_with_importance_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = replace(make_problem(np.random.default_rng(12), 150)[0], shape="normal")
    few = Sampling(chains=2, draws=300, warmup=150, seed=1)
    weighed = marginal.sample(problem, replace(few, draws=1000)).draws.reshape(-1, 3)
    monkeypatch.setattr("sfumato.analysis.samplers.marginal.importance.LARGEST_K", -math.inf)
    walked = marginal.sample(problem, few)
    assert not walked.independent
    assert "Hamiltonian" in walked.notes[-1]
    draws = walked.draws.reshape(-1, 3)
    spread = weighed.std(axis=0)
    assert (np.abs(draws.mean(axis=0) - weighed.mean(axis=0)) < 0.25 * spread).all()
    assert draws.std(axis=0) == pytest.approx(spread, rel=0.25)


def test_an_interrupt_leaves_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, _ = make_problem(np.random.default_rng(13), 150)
    monkeypatch.setattr("sfumato.analysis.samplers.marginal.importance.LARGEST_K", -math.inf)
    reported: list[int] = []

    def say(what: str, done: int, total: int) -> None:
        reported.append(done)
        if what == "walking" and done > 0.15 * total:
            raise KeyboardInterrupt

    result = marginal.sample(problem, Sampling(chains=2, draws=2_000, warmup=50), say)
    assert not result.complete
    assert 0 < result.draws.shape[1] < 2_000
    assert reported


# Weights.


def test_the_pareto_shape_is_found() -> None:
    rng = np.random.default_rng(14)
    for shape in (0.2, 0.5, 0.9):
        above = np.sort(stats.genpareto.rvs(shape, size=5000, random_state=rng))
        assert fit_pareto(above)[0] == pytest.approx(shape, abs=0.07)


def test_weights_that_cannot_be_trusted_are_seen() -> None:
    rng = np.random.default_rng(15)
    heavy = stats.genpareto.rvs(1.5, size=4000, random_state=rng)
    assert smooth_weights(np.log(heavy))[1] > 0.7
    assert smooth_weights(0.1 * rng.normal(size=4000))[1] < 0.5
    assert smooth_weights(np.full(1000, -np.inf))[1] == math.inf
    assert smooth_weights(np.zeros(3))[1] == math.inf


# Odd inputs.


def test_what_it_does_not_take() -> None:
    problem, _ = make_problem(np.random.default_rng(16), 20)
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
    problem, _ = make_problem(np.random.default_rng(17), 20)
    for wrong in (2.0, -1.0, 0.5, math.nan, math.inf):
        y = problem.y.copy()
        y[3] = wrong
        with pytest.raises(MeasureError, match="outcome"):
            marginal.sample(replace(problem, y=y), FEW)


def test_nothing_to_fit() -> None:
    problem, _ = make_problem(np.random.default_rng(18), 20)
    gone = NoisyNumber(name="x", observed=np.full(20, np.nan), variance=0.5)
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
    problem, _ = make_problem(np.random.default_rng(19), 200)
    assert problem.terms[1].clean is not None
    with pytest.raises(MeasureError, match="do not bound"):
        marginal.sample(replace(problem, y=(problem.terms[1].clean > 0).astype(float)), FEW)
    with pytest.raises(MeasureError, match="do not bound"):
        marginal.sample(replace(problem, y=np.ones(200)), FEW)


def test_one_record_is_refused() -> None:
    problem, _ = make_problem(np.random.default_rng(20), 1)
    with pytest.raises(MeasureError, match="collinear: Intercept, clean"):
        marginal.sample(problem, FEW)


def test_clean_predictors_alone() -> None:
    problem, _ = make_problem(np.random.default_rng(21), 400)
    clean = replace(problem, numbers=(), error=np.zeros((0, 0)), terms=problem.terms[:2])
    result = marginal.sample(clean, FEW, silent)
    assert result.parameters == ("Intercept", "clean")
    assert result.components == 1
