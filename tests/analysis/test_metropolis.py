"""The general engine against fits without noise, other engines, and itself."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.analysis.general_problems import (
    CONSTANT,
    Case,
    curved_case,
    generalised_case,
    grouped_case,
    level_case,
    linear_case,
    with_z,
)

from sfumato.analysis.problem import Category, NoisyNumber, Sampling, Term
from sfumato.analysis.samplers import exact as saturated
from sfumato.analysis.samplers.metropolis import sampler as metropolis
from sfumato.analysis.samplers.metropolis.chain import Chain
from sfumato.analysis.samplers.metropolis.start import prepare_start
from sfumato.errors import MeasureError

SHORT = Sampling(chains=1, draws=200, warmup=80)


def fit_without_noise(case: Case):
    """Estimates by statsmodels on what the data were before the noise."""
    import statsmodels.api as sm

    problem = case.problem
    if problem.family == "gaussian":
        return sm.OLS(case.y, case.design).fit().params
    families = {
        "logit": sm.families.Binomial(),
        "probit": sm.families.Binomial(sm.families.links.Probit()),
        "log": sm.families.Poisson(),
    }
    y = case.y
    if problem.trials is not None:
        y = np.column_stack([y, problem.trials - y])
    return sm.GLM(y, case.design, family=families[problem.link]).fit().params


def standardised_error(case: Case, seed: int) -> np.ndarray:
    """Posterior means less the estimates without noise, in posterior SD."""
    result = metropolis.sample(case.problem, replace(SHORT, seed=seed))
    draws = result.draws[0, :, : case.design.shape[1]]
    return np.asarray((draws.mean(axis=0) - fit_without_noise(case)) / draws.std(axis=0))


def test_the_noise_would_have_mattered():
    # The same with the released value taken for the true one is far off.
    case = linear_case("plain", 700, 1)
    naive = np.column_stack(
        [case.design[:, 0], case.problem.numbers[0].observed, case.design[:, 2]]
    )
    draws = metropolis.sample(case.problem, SHORT).draws[0, :, 1]
    slope = np.linalg.lstsq(naive, case.y, rcond=None)[0][1]
    assert (slope - fit_without_noise(case)[1]) / draws.std() < -3


@pytest.mark.parametrize("family", ["gaussian", "logit", "poisson"])
def test_noise_of_next_to_nothing_gives_the_usual_fit(family: str):
    case = curved_case(400, 3) if family == "gaussian" else generalised_case(family, 400, 3)
    x = case.design[:, 1]
    number = NoisyNumber(name="x", observed=x, variance=1e-10)
    problem = replace(case.problem, numbers=(number,), error=np.array([[1e-10]]))
    result = metropolis.sample(problem, replace(SHORT, draws=400)).draws[
        0, :, : case.design.shape[1]
    ]
    # 500 nearly independent draws: the mean is within a fifth of an SD, and so is a skewed mode.
    off = (result.mean(axis=0) - fit_without_noise(replace(case, problem=problem))) / result.std(
        axis=0
    )
    assert np.abs(off).max() < 0.3


def test_a_linear_model_agrees_with_independent_draws():
    case = linear_case("plain", 500, 4)
    ours = metropolis.sample(case.problem, Sampling(chains=2, draws=700, warmup=100)).draws
    theirs = saturated.sample(case.problem, Sampling(chains=2, draws=2000, warmup=0)).draws
    spread = theirs.std(axis=(0, 1))
    # At least 150 effective draws: means within 0.3 SD, SDs within a fifth.
    assert (np.abs(ours.mean(axis=(0, 1)) - theirs.mean(axis=(0, 1))) < 0.3 * spread).all()
    assert np.allclose(ours.std(axis=(0, 1)) / spread, 1, atol=0.2)


@pytest.mark.parametrize("kind", ["poisson", "clipped"])
def test_moving_together_changes_no_distribution(kind: str, monkeypatch: pytest.MonkeyPatch):
    # With and without the step of coefficients and true values together, from different starts;
    # at least 60 effective draws each: 0.18 SD is the error of a difference, and 3 of it allowed.
    case = linear_case(kind, 300, 5) if kind == "clipped" else generalised_case(kind, 300, 5)
    sampling = Sampling(chains=1, draws=500, warmup=160)
    woven = metropolis.sample(case.problem, sampling)
    assert woven.details["accepted together"] > 0.3
    monkeypatch.setattr(Chain, "_step_jointly", lambda self: None)
    apart = metropolis.sample(case.problem, replace(sampling, seed=1))
    spread = apart.draws.std(axis=(0, 1))
    gap = woven.draws.mean(axis=(0, 1)) - apart.draws.mean(axis=(0, 1))
    assert (np.abs(gap) < 0.54 * spread).all()
    assert np.allclose(woven.draws.std(axis=(0, 1)) / spread, 1, atol=0.3)


def test_two_levels_of_a_logit():
    case = grouped_case("bernoulli", 1000, 30, 5)
    result = metropolis.sample(case.problem, replace(SHORT, draws=400))
    clean = replace(
        case.problem,
        numbers=(),
        error=np.zeros((0, 0)),
        terms=(
            CONSTANT,
            Term(name="x", clean=case.design[:, 1]),
            Term(name="z", clean=case.design[:, 2]),
        ),
    )
    truth = metropolis.sample(clean, replace(SHORT, draws=400))
    assert result.parameters == ("Intercept", "x", "z", "variance of Intercept by group")
    gap = result.draws.mean(axis=(0, 1)) - truth.draws.mean(axis=(0, 1))
    assert (np.abs(gap) < 2.5 * result.draws.std(axis=(0, 1))).all()
    # Without groups among the predictors of x its effect takes in part of theirs.
    assert abs(result.draws[..., 1].mean() - 0.8) < 3.5 * result.draws[..., 1].std()


def test_calibration():
    # Coefficients from a range that is wide beside what 60 records tell; their ranks among draws
    # are uniform. The mean of 40 ranks has SD 0.046, their variance is 1 / 12 within 4 SD.
    ranks = []
    for seed in range(40):
        rng = np.random.default_rng([seed, 17])
        beta = rng.uniform(-10, 10, size=4)
        z = rng.normal(size=60)
        x = z / 2 + rng.normal(size=60)
        number = NoisyNumber(name="x", observed=x + rng.normal(size=60) * 0.4, variance=0.16)
        y = beta[0] + beta[1] * x + beta[2] * z + beta[3] * x * z + 2 * rng.normal(size=60)
        terms = (Term(name="x:z", clean=z, numbers=((0, None),)),)
        problem = with_z((number,), terms, z, y, shape="normal")
        draws = metropolis.sample(
            problem, Sampling(chains=1, draws=150, warmup=30, seed=seed)
        ).draws
        ranks.append((draws[0, :, :4] < beta).mean(axis=0))
    assert np.abs(np.mean(ranks, axis=0) - 0.5).max() < 3.5 * 0.046
    assert np.abs(np.var(ranks, axis=0) - 1 / 12).max() < 4 * math.sqrt(1 / 180 / 40)


def test_an_exponential_predictor_has_a_mixture_and_its_square_no_bias():
    rng = np.random.default_rng(18)
    z, x = rng.normal(size=1500), rng.exponential(size=1500)
    y = 1 + x - z / 2 + 0.3 * x**2 + rng.normal(size=1500)
    number = NoisyNumber(name="x", observed=x + rng.normal(size=1500) * 0.5, variance=0.25)
    problem = with_z((number,), (Term(name="x ** 2", numbers=((0, np.square),)),), z, y)
    case = Case(problem, np.column_stack([np.ones(1500), x, z, x**2]), y)
    result = metropolis.sample(problem, SHORT)
    assert result.shape == "mixture"
    assert result.components > 1
    draws = result.draws[0, :, :4]
    assert np.abs((draws.mean(axis=0) - fit_without_noise(case)) / draws.std(axis=0)).max() < 3.3


@pytest.mark.parametrize("level", [0.0, 1000.0])
def test_components_keep_their_records_wherever_a_variable_lies(level: float):
    # Far from 0 one component took all records in the first pass: a normal by another name.
    rng = np.random.default_rng(19)
    z, side = rng.normal(size=400), np.where(rng.uniform(size=400) < 0.5, -2.0, 2.0)
    x = level + z + side + 0.7 * rng.normal(size=400)
    y = x - level + rng.normal(size=400)
    number = NoisyNumber(name="x", observed=x + rng.normal(size=400) * 0.5, variance=0.25)
    problem = with_z((number,), (), z, y, shape="mixture")
    chain = Chain(prepare_start(problem, 1), np.random.SeedSequence(1), 10)
    for _ in range(10):
        chain.step()
    residual = chain.latent - chain.numbers.centre()
    assert np.median(np.abs(residual - residual.mean())) > 1.5  # two heaps, none in the middle
    left = chain.numbers.means[:, 0] < residual.mean()
    assert 0.3 < float(chain.numbers.shares[0, left].sum()) < 0.7


def reorder(problem, order):
    return replace(
        problem,
        y=problem.y[order],
        numbers=tuple(replace(item, observed=item.observed[order]) for item in problem.numbers),
        categories=tuple(replace(item, density=item.density[order]) for item in problem.categories),
        covariates=problem.covariates[order],
        terms=tuple(
            item if item.clean is None else replace(item, clean=item.clean[order])
            for item in problem.terms
        ),
    )


def test_neither_order_nor_run_changes_a_bit():
    problem = level_case(60, 6).problem
    sampling = Sampling(chains=2, draws=5, warmup=2, seed=3)
    first = metropolis.sample(problem, sampling).draws
    order = np.random.default_rng(1).permutation(60)
    assert np.array_equal(first, metropolis.sample(reorder(problem, order), sampling).draws)
    other = metropolis.sample(problem, replace(sampling, seed=4)).draws
    assert not np.array_equal(first, other)
    assert not np.array_equal(first[0], first[1])


def test_an_interrupt_leaves_what_is_there():
    def stop(what: str, done: int, total: int) -> None:
        if done > 60:
            raise KeyboardInterrupt

    problem = linear_case("plain", 100, 7).problem
    result = metropolis.sample(problem, Sampling(chains=2, draws=10_000, warmup=2), stop)
    assert not result.complete
    assert 0 < result.draws.shape[1] < 10_000


def test_random_slopes_of_a_noised_number_and_several_categories():
    case = grouped_case("gaussian", 300, 12, 8)
    rng = np.random.default_rng(9)
    names = {"a": 3, "b": 2}
    categories = tuple(
        Category(name=name, levels=tuple("uvw"[:count]),
                 density=np.log(rng.dirichlet(np.ones(count), size=300)))
        for name, count in names.items()
    )  # fmt: skip
    terms = (
        *case.problem.terms,
        Term(name="a[v]", levels=((0, 1),)),
        Term(name="a[w]", levels=((0, 2),)),
        Term(name="a[w]:b[v]", levels=((0, 2), (1, 1))),
    )
    problem = replace(case.problem, categories=categories, terms=terms, random=(0, 1))
    result = metropolis.sample(problem, Sampling(chains=1, draws=30, warmup=10))
    assert result.parameters[6:] == (
        "residual variance",
        "variance of Intercept by group",
        "variance of x by group",
        "covariance of Intercept and x by group",
    )
    assert np.isfinite(result.draws).all()
    assert (result.draws[..., 6:9] > 0).all()


def test_correlated_noise_with_missing_values():
    rng = np.random.default_rng(19)
    true = rng.multivariate_normal([0, 0], [[1, 0.4], [0.4, 1]], size=1500)
    error = np.array([[0.3, 0.2], [0.2, 0.3]])
    values = true + rng.multivariate_normal([0, 0], error, size=1500)
    values[:100, 1] = np.nan
    z = rng.normal(size=1500)
    design = np.column_stack([np.ones(1500), true[:, 0], z, true[:, 1], true.prod(axis=1)])
    y = design @ [1, 1, -0.5, 0.5, 0.3] + rng.normal(size=1500)
    numbers = tuple(
        NoisyNumber(name=f"x{i}", observed=values[:, i], variance=0.3) for i in range(2)
    )
    terms = (
        Term(name="x1", numbers=((1, None),)),
        Term(name="x0:x1", numbers=((0, None), (1, None))),
    )
    problem = with_z(numbers, terms, z, y, error=error)
    assert "100 records" in metropolis.sample(problem, replace(SHORT, draws=2)).notes[0]
    assert np.abs(standardised_error(Case(problem, design, y), 1)).max() < 3.3


def check_refused(problem, words: str) -> None:
    with pytest.raises(MeasureError, match=words):
        metropolis.sample(problem, Sampling(chains=1, draws=2, warmup=1))


def test_odd_inputs_are_refused_with_a_reason():
    case = linear_case("plain", 50, 10)
    problem, z = case.problem, case.design[:, 2]
    number = problem.numbers[0]
    few = np.arange(5)
    check_refused(reorder(problem, few), "too few for 3 coefficients")
    groups = (np.arange(50) % 3).astype(np.int64)
    check_refused(replace(problem, groups=groups, random=(0,)), "3 groups; 4 are needed")
    missing = replace(number, observed=np.full(50, np.nan))
    check_refused(replace(problem, numbers=(missing,)), "'x' has no finite released value")
    check_refused(replace(problem, y=np.full(50, 2.0)), "without error")
    check_refused(replace(problem, y=np.full(50, np.nan)), "no finite value")
    double = (*problem.terms, Term(name="z again", clean=2 * z))
    check_refused(replace(problem, terms=double), "say the same")
    below = replace(number, observed=-9 + 0.01 * number.observed, variance=1e-5)
    log = Term(name="log(x)", numbers=((0, np.log),))
    check_refused(replace(problem, numbers=(below,), terms=(CONSTANT, log)), "function of 'x'")
    certain = replace(problem, family="bernoulli", link="logit", y=(z > 0).astype(float))
    check_refused(certain, "for sure")
    check_refused(replace(problem, family="poisson", link="identity"), "no such model")


def test_what_it_takes():
    assert metropolis.can(linear_case("clipped", 20, 1).problem)
    problem = linear_case("plain", 20, 1).problem
    counts = replace(problem, family="poisson", link="log")
    assert not metropolis.can(replace(counts, outcome_number=problem.numbers[0]))
    assert not metropolis.can(replace(problem, family="binomial", link="logit"))
