"""The model of true values given clean ones: mean, spread and shape are chosen by the data."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from benchmarks.study_designs import DESIGNS, fit_data_set, release
from tests.analysis.general_problems import linear_case

import sfumato as sf
from sfumato.analysis import exposure
from sfumato.analysis.exposure import (
    CleanVariable,
    choose_exposure,
    collect_clean_variables,
    fit_spread,
)
from sfumato.analysis.formula import read_model_formula
from sfumato.analysis.problem import Exposure, Problem
from sfumato.analysis.problem_building import build_problem
from sfumato.analysis.release_input import read_release_input
from sfumato.analysis.samplers.metropolis.covariates import NumberModel
from sfumato.analysis.samplers.mixture import Mixture
from sfumato.analysis.variables import prepare_variables

SPREAD = DESIGNS["spread_1.8_0.6"]


def build(name: str, seed: int = 0, shape: Any = "auto") -> Problem:
    """The problem of a design."""
    design = DESIGNS[name]
    frame, noise = release(design, seed)
    formula = read_model_formula(design.formula)
    records = read_release_input(frame, noise, list(formula.variables), None, ())
    variables = prepare_variables(records, formula, {}, None)
    link: Any = {"gaussian": "identity", "bernoulli": "logit", "poisson": "log"}[design.family]
    family: Any = design.family
    problem, _ = build_problem(
        formula, variables, records.noise, family=family, link=link, shape=shape, clustered=True
    )
    return problem


def test_the_spread_follows_what_multiplies_a_noised_number() -> None:
    """By the factors of products always, whatever a test says: the coefficient rests on it."""
    problem = build("spread_equal")
    assert problem.exposure is not None
    assert problem.exposure.spread.shape[1] == 1
    three_way = build("three_way").exposure
    assert three_way is not None
    assert three_way.spread.shape[1] == 3


def test_other_dependence_is_chosen_by_the_data() -> None:
    """Spread without a product, smooth means, shape by group; and nothing without a reason."""
    assert build("logit_spread_no_product").exposure is not None
    assert build("logit_parabolic").covariates.shape[1] > 2
    bimodal = build("bimodal").exposure
    assert bimodal is not None
    assert bimodal.stratum is not None
    for seed in range(5):
        plain = build("logit_plain", seed)
        assert plain.exposure is None
        assert plain.covariates.shape[1] == 2


def test_a_u_shaped_yes_no_gets_smooth_columns() -> None:
    """The level of a misclassified yes/no is smooth in a clean number, not linear."""
    assert build("u_shaped").covariates.shape[1] > 2


def test_a_normal_shape_turns_all_of_it_off() -> None:
    """One spread, one shape and a linear mean, to compare with."""
    problem = build("spread_1.8_0.6", shape="normal")
    assert problem.exposure is None


def test_nothing_is_chosen_without_clean_variables() -> None:
    """The problem comes back as it is."""
    problem = build("logit_plain")
    assert choose_exposure(problem, ()) is problem


def test_outcome_and_noised_variables_are_not_clean() -> None:
    """Only clean predictors decide."""
    frame, noise = release(SPREAD, 0)
    formula = read_model_formula("log(y + 100) ~ x*z")
    records = read_release_input(frame, noise, list(formula.variables), None, ())
    variables = prepare_variables(records, formula, {}, None)
    assert [x.name for x in collect_clean_variables(formula, variables)] == ["z"]


def test_fit_spread_finds_slopes_under_noise() -> None:
    """Slopes and variance of true residuals, whatever the noise."""
    rng = np.random.default_rng(3)
    z = rng.normal(size=20_000)
    columns = ((z - z.mean()) / z.std())[:, None]
    true = 1.3 * np.exp(-0.4 * columns[:, 0]) * rng.normal(size=len(z))
    fit = fit_spread(true + 0.8 * rng.normal(size=len(z)), np.full(len(z), 0.64), columns)
    assert fit.slopes[0] == pytest.approx(-0.4, abs=0.03)
    assert fit.variance == pytest.approx(1.69, rel=0.05)


def test_steps_of_the_number_model_recover_its_parameters() -> None:
    """With true values known, draws of slopes, spread, variance and shares are about the truth."""
    rng = np.random.default_rng(5)
    records = 2000
    z = np.repeat([-1.0, 1.0], records // 2)
    stratum = (z > 0).astype(np.int64)
    high = rng.uniform(size=records) < np.where(z > 0, 0.8, 0.2)
    residual = np.where(high, 1.5, -1.5) + 0.5 * rng.normal(size=records)
    latent = (1.0 + 2.0 * z + np.exp(0.3 * z) * residual)[:, None]
    mixture = Mixture(np.full(2, 0.5), np.array([[-1.0], [1.0]]), np.ones((2, 1, 1)), 0.0)
    model = NumberModel(
        np.column_stack([np.ones(records), z]), 0, 1, mixture, None, 0, [],
        Exposure(z[:, None], stratum),
    )  # fmt: skip
    model.slopes[:, 0] = [1.0, 2.0]
    draws = []
    for step in range(300):
        model.update(latent, rng)
        if step >= 100:
            scale = np.sqrt(model.covariances[:, 0, 0])
            draws.append([*model.spread_slopes[:, 0], *scale, *model.shares[:, 1]])
    mean = np.mean(draws, axis=0)
    assert mean[0] == pytest.approx(0.3, abs=0.06)
    assert mean[1:3] == pytest.approx([0.5, 0.5], abs=0.08)
    assert mean[3:] == pytest.approx([0.2, 0.8], abs=0.05)
    simulated = model.simulate(rng)[:, 0]
    for group in (-1.0, 1.0):
        part = z == group
        assert simulated[part].std() == pytest.approx(latent[part, 0].std(), rel=0.1)


@pytest.mark.parametrize("name", ["spread_1.8_0.6", "growing"])
def test_interactions_are_right_where_the_spread_differs(name: str) -> None:
    """Issue 19: x:z was 0.87 where 0.5 is true, without a warning."""
    design = DESIGNS[name]
    results = [fit_data_set(design, seed) for seed in range(1)]
    assert all(abs(result["bias"]) < 3 for result in results)
    assert not any(result["warned"] for result in results)


def test_calibration_knows_the_spread_of_each_group() -> None:
    """The quick look had one reliability for both groups."""
    frame, noise = release(SPREAD, 1)
    result = sf.fit(SPREAD.formula, frame, noise=noise, method="calibration")
    assert result.summary().loc["x:z", "mean"] == pytest.approx(0.5, abs=0.35)


def test_without_records_the_spread_has_its_prior() -> None:
    """Slopes of the log spread are standard normal before the data."""
    rng = np.random.default_rng(6)
    mixture = Mixture(np.full(2, 0.5), np.array([[-1.0], [1.0]]), np.ones((2, 1, 1)), 0.0)
    exposure = Exposure(np.zeros((0, 2)), np.zeros(0, np.int64))
    model = NumberModel(np.ones((0, 1)), 0, 1, mixture, None, 0, [], exposure)
    draws = []
    for _ in range(2000):
        model._step_spread(np.zeros((0, 1)), 0, rng)
        draws.append(model.spread_slopes[:, 0].copy())
    assert np.std(draws, axis=0) == pytest.approx([1, 1], abs=0.08)
    assert np.mean(draws, axis=0) == pytest.approx([0, 0], abs=0.12)


# The parts of the choice, one by one.


def test_a_number_of_six_values_is_a_category_and_of_seven_a_number() -> None:
    nothing: dict[str, object] = {}
    for count, is_category in ((6, True), (7, False)):
        values = np.tile(np.arange(count, dtype=float), 30)
        levels, codes = np.unique(values, return_inverse=True)
        found = exposure._describe("z", values, codes, levels, nothing)
        assert (found.smooth.shape[1] == 0) is is_category
        assert found.columns.shape[1] == (count - 1 if is_category else 1)
        assert np.bincount(found.stratum).tolist() == ([30] * 6 if is_category else [90, 60, 60])
    values = np.random.default_rng(1).normal(5, 3, size=300)
    levels, codes = np.unique(values, return_inverse=True)
    found = exposure._describe("z", values, codes, levels, nothing)
    assert (found.columns.mean(), found.columns.std()) == pytest.approx((0, 1))
    assert np.bincount(found.stratum).tolist() == [100, 100, 100]
    # A label makes a category of it, however many values it has.
    assert exposure._describe("z", values, codes, levels, {"z": "text"}).columns.shape[1] == 299


def test_the_spline_is_cubic_between_its_knots_and_straight_beyond() -> None:
    values = np.linspace(-3, 3, 6001)
    spline = exposure._build_spline(values)
    knots = np.quantile(values, [0.05, 0.275, 0.5, 0.725, 0.95])
    assert spline.shape[1] == 3
    bend = np.diff(spline, 2, axis=0) / 0.001**2
    outside = (values[1:-1] > knots[-1] + 0.01) | (values[1:-1] < knots[0] - 0.01)
    np.testing.assert_allclose(bend[outside], 0, atol=1e-6)
    # Harrell's basis: the bend rises by 6 (x - knot) over the squared distance of the outer knots.
    first = (values[1:-1] > knots[0]) & (values[1:-1] < knots[1])
    expected = 6 * (values[1:-1] - knots[0]) / (knots[-1] - knots[0]) ** 2
    np.testing.assert_allclose(bend[first][:, 0], expected[first], atol=1e-6)
    np.testing.assert_allclose(np.diff(bend, axis=0), 0, atol=0.01)  # it never jumps
    assert exposure._build_spline(np.repeat([0.0, 1.0], [89, 11])).shape[1] == 0


def test_products_have_twelve_columns_at_most() -> None:
    def category(name: str, levels: int) -> CleanVariable:
        codes = np.arange(60) % levels
        return CleanVariable(name, np.eye(levels)[codes][:, 1:], np.zeros((60, 0)), codes)

    number = CleanVariable("z", np.arange(60.0)[:, None], np.ones((60, 3)), np.zeros(60, int))
    found = exposure._list_candidates(
        [category("a", 4), category("b", 5), category("c", 6), number]
    )
    assert [(one.name, one.columns.shape[1]) for one in found] == [
        ("z squared", 1), ("z", 3), ("a:b", 12), ("a:z", 3), ("b:z", 4), ("c:z", 5),
    ]  # fmt: skip


def test_basis_of_the_remainder() -> None:
    rng = np.random.default_rng(2)
    given = np.column_stack([np.ones(200), rng.normal(size=200)])
    fresh = rng.normal(size=(200, 2)) * [1e-3, 1e5]
    columns = np.column_stack([fresh, fresh[:, 0] + given[:, 1] * 1e-3, np.zeros(200), given[:, 1]])
    found = exposure._orthogonalise(columns, given)
    # Three of the five follow from the others.
    assert found.shape == (200, 2)
    np.testing.assert_allclose(found.T @ found / 200, np.eye(2), atol=1e-9)
    np.testing.assert_allclose(given.T @ found, 0, atol=1e-9)


def test_enough_records_are_twenty_and_one_for_each_column() -> None:
    problem = linear_case("plain", 22, 1).problem
    assert exposure.has_plain_numbers(problem)
    missing = problem.numbers[0].observed.copy()
    missing[0] = np.nan
    fewer = replace(problem, numbers=(replace(problem.numbers[0], observed=missing),))
    assert not exposure.has_plain_numbers(fewer)
    assert not exposure.has_plain_numbers(replace(problem, numbers=()))


def test_the_log_odds_of_shares_are_those_of_a_logit_model() -> None:
    import statsmodels.api as sm

    rng = np.random.default_rng(3)
    x = np.column_stack([np.ones(300), rng.normal(size=300)])
    share = np.clip(rng.beta(2, 3, size=300) + 0.1 * x[:, 1], 0.01, 0.99)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that shares are no counts
        expected = sm.GLM(share, x, family=sm.families.Binomial()).fit().fittedvalues
    np.testing.assert_allclose(exposure._fit_quasi_binomial(x, share), expected, atol=1e-6)


def test_false_alarms_of_the_score_test_are_as_rare_as_stated() -> None:
    rng = np.random.default_rng(4)
    constant = np.ones((200, 1))
    p_values = [
        exposure._test_scores(
            rng.exponential(size=200) - 1, rng.normal(size=(200, 2)), constant, None
        )
        for _ in range(400)
    ]
    # Uniform: a mean of 400 has an error of 0.0144.
    assert np.mean(p_values) == pytest.approx(0.5, abs=4 * 0.0144)
    assert np.mean(np.array(p_values) < 0.05) == pytest.approx(0.05, abs=4 * 0.011)
    column = rng.normal(size=(200, 1))
    assert exposure._test_scores(column[:, 0] + rng.normal(size=200), column, constant, None) < 1e-9
