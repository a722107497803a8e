"""What noise is predicted to cost, held against closed forms and against estimates themselves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.analysis.general_problems import generalised_case, grouped_case, linear_case

import sfumato as sf
from sfumato.analysis.problem import Problem
from sfumato.analysis.realised_efficiency import _information_of_terms
from sfumato.errors import MeasureError


def _linear(records: int, seed: int = 3) -> sf.Dataset:
    chance = np.random.default_rng(seed)
    x = chance.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], records)
    y = 1 + x[:, 0] + x[:, 1] + chance.normal(size=records)
    return sf.Dataset(pl.DataFrame({"y": y, "x": x[:, 0], "w": x[:, 1]}))


def test_no_noise_costs_nothing() -> None:
    found = sf.efficiency(_linear(500), {"x": sf.Gaussian(variance=0.0)}, "y ~ x + w")
    np.testing.assert_allclose(found.table["inflation"], 1, atol=1e-9)
    assert found.determinant_ratio == pytest.approx(1)


def test_normal_noise_costs_what_fuller_says() -> None:
    data = _linear(20_000)
    found = sf.efficiency(data, {"x": sf.Gaussian(variance=0.2)}, "y ~ x + w", draws=50)
    # Fuller (1987), theorem 2.2.1: noise of known variance in one of the terms.
    x = np.column_stack([np.ones(20_000), data.frame["x"], data.frame["w"]])
    moments = x.T @ x / len(x)
    beta = np.linalg.solve(moments, x.T @ data.frame["y"].to_numpy() / len(x))
    left = np.var(data.frame["y"].to_numpy() - x @ beta)
    noise = np.diag([0, 0.2, 0])
    total = left + beta @ noise @ beta
    inverse = np.linalg.inv(moments)
    middle = total * (moments + noise) + noise @ np.outer(beta, beta) @ noise
    expected = np.sqrt(np.diag(inverse @ middle @ inverse) / np.diag(left * inverse))
    np.testing.assert_allclose(found.table["inflation"], expected, rtol=0.02)
    ratio = np.linalg.det(moments) / np.linalg.det(moments + noise)
    assert found.determinant_ratio == pytest.approx(ratio, rel=0.01)


def test_noise_in_the_outcome_adds_to_the_residual() -> None:
    found = sf.efficiency(_linear(20_000), {"y": sf.Gaussian(variance=3.0)}, "y ~ x + w")
    np.testing.assert_allclose(found.table["inflation"], 2, rtol=0.02)


def test_categories_cost_what_corrected_estimates_show() -> None:
    """The spread of estimates by inverted misclassification over many releases and samples."""
    matrix = np.array([[0.9, 0.1], [0.2, 0.8]])
    chance = np.random.default_rng(5)
    records, clean, corrected = 1000, [], []
    for _ in range(400):
        group = (chance.random(records) < 0.4).astype(int)
        y = 1 + group + chance.normal(size=records)
        seen = (chance.random(records) < matrix[group, 1]).astype(int)
        clean.append(np.polyfit(group, y, 1)[0])
        told = (seen - 0.1) / 0.7  # right on average, whatever the true group
        moments = np.array([[1, told.mean()], [told.mean(), told.mean()]])
        corrected.append(np.linalg.solve(moments, [y.mean(), (told * y).mean()])[1])
    group = (chance.random(20_000) < 0.4).astype(int)
    data = sf.Dataset(
        pl.DataFrame({"y": 1 + group + chance.normal(size=20_000), "group": group}),
        sf.Schema({"group": sf.Column(role="quasi", kind="nominal", domain=(0, 1))}),
    )
    noise = {"group": sf.Misclassification(levels=[0, 1], matrix=matrix.tolist())}
    found = sf.efficiency(data, noise, "y ~ C(group)")
    assert found.table["inflation"][1] == pytest.approx(np.std(corrected) / np.std(clean), rel=0.12)


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_generalised_models_lose_at_least_something(family: str) -> None:
    chance = np.random.default_rng(7)
    x = chance.normal(size=(8000, 2))
    eta = 0.2 + 0.5 * x[:, 0] + 0.3 * x[:, 1]
    y = chance.random(8000) < 1 / (1 + np.exp(-eta)) if family == "logistic" else None
    counts = chance.poisson(np.exp(eta)) if y is None else y.astype(int)
    data = sf.Dataset(pl.DataFrame({"y": counts, "x": x[:, 0], "w": x[:, 1]}))
    small, large = (
        sf.efficiency(data, {"x": sf.Gaussian(variance=one)}, "y ~ x + w", family)  # type: ignore[arg-type]
        for one in (0.1, 0.5)
    )
    assert 1 < small.table["inflation"][1] < large.table["inflation"][1]
    assert small.table["efficiency"][1] < 1 / 1.1  # never better than the reliability


def test_scales_bounds_and_codes_are_predicted() -> None:
    data = sf.Dataset(sf.datasets.cohort(2000), sf.datasets.cohort_schema())
    noise = {
        "income": sf.Gaussian(variance=0.1, scale=sf.Scale(name="log", shift=1)),
        "height": sf.Laplace(variance=9.0, at_least=120.0, at_most=220.0, whole=True),
    }
    found = sf.efficiency(data, noise, "systolic ~ height + log(income + 1)")
    assert (found.table["inflation"].to_numpy() > 1).all()


@pytest.mark.parametrize(
    ("noise", "formula", "said"),
    [
        ({"x": sf.Gaussian(variance=1.0)}, "y ~ w", "No variable"),
        ({"x": sf.Gaussian(variance=1.0)}, "y ~ nothing + x", "nothing"),
        ({"x": sf.Gaussian(variance=1.0)}, "y ~ ", "formula"),
        ({"x": sf.Misclassification(levels=[0, 1], matrix=[[1, 0], [0, 1]])}, "y ~ x", "'x'"),
    ],
)
def test_what_cannot_be_predicted_says_why(
    noise: dict[str, object], formula: str, said: str
) -> None:
    with pytest.raises(sf.SfumatoError, match=said):
        sf.efficiency(_linear(100), noise, formula)  # type: ignore[arg-type]


def test_noise_in_a_binary_outcome_is_refused() -> None:
    data = sf.Dataset(pl.DataFrame({"y": [0, 1] * 50, "x": np.arange(100.0)}))
    with pytest.raises(MeasureError, match="outcome"):
        sf.efficiency(data, {"y": sf.Gaussian(variance=1.0)}, "y ~ x", "logistic")


def _values(problem: Problem, beta: list[float], **more: float) -> Any:
    named = dict(zip([term.name for term in problem.terms], beta, strict=True))
    return SimpleNamespace(value=named | {name.replace("_", " "): v for name, v in more.items()})


def test_information_of_terms_without_groups() -> None:
    case = generalised_case("poisson", 200, 3)
    rows, rng = np.arange(200), np.random.default_rng(1)
    beta = [0.2, 0.6, -0.4, 0.2]
    weight = np.exp(case.design @ beta)
    found = _information_of_terms(case.problem, case.design, rows, _values(case.problem, beta), rng)
    np.testing.assert_allclose(found, case.design.T @ (case.design * weight[:, None]))
    plain = linear_case("plain", 200, 3)
    values = _values(plain.problem, [1.0, 1.0, -0.5], residual_variance=2.5)
    found = _information_of_terms(plain.problem, plain.design, rows, values, rng)
    np.testing.assert_allclose(found, plain.design.T @ plain.design / 2.5)


def test_information_of_groups_is_that_of_the_whole_covariance() -> None:
    case = grouped_case("gaussian", 60, 6, 2)
    values = _values(case.problem, [0.5, 0.8, -0.5], residual_variance=1.5)
    values.value["variance of Intercept by group"] = 0.7
    found = _information_of_terms(
        case.problem, case.design, np.arange(60), values, np.random.default_rng(1)
    )
    groups = case.problem.groups
    assert groups is not None
    alike = groups[:, None] == groups[None]
    inverse = np.linalg.inv(1.5 * np.eye(60) + 0.7 * alike)
    np.testing.assert_allclose(found, case.design.T @ inverse @ case.design, rtol=1e-6)


def test_information_of_a_two_level_logit_is_less_than_with_known_effects() -> None:
    case = grouped_case("bernoulli", 4000, 40, 2)
    beta = [0.5, 0.8, -0.5]
    values = _values(case.problem, beta)
    values.value["variance of Intercept by group"] = 0.36
    found = _information_of_terms(
        case.problem, case.design, np.arange(4000), values, np.random.default_rng(1)
    )
    chance = 1 / (1 + np.exp(-case.design @ beta))
    known = case.design.T @ (case.design * (chance * (1 - chance))[:, None])
    share = np.linalg.eigvals(np.linalg.solve(known, found)).real
    np.testing.assert_allclose(found, found.T, rtol=1e-9)
    assert 0 < share.min() < share.max() < 1.05
    # The intercept has the variance between 40 groups beside its own.
    error = np.linalg.inv(found)[0, 0] - np.linalg.inv(known)[0, 0]
    assert error == pytest.approx(0.36 / 40, rel=0.35)
    # Slopes lose little: x more than z, since x differs between groups.
    of_x, of_z = np.diag(np.linalg.inv(found))[1:] / np.diag(np.linalg.inv(known))[1:]
    assert 1 < of_z < 1.15 < of_x < 1.3
