"""Estimates with survey weights: coefficients, and quantiles, against slow references."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MeasureError
from sfumato.schema import Role
from sfumato.utility import Coefficients, WeightedEstimates
from sfumato.utility.models.formula import read_formula
from sfumato.utility.models.regression import fit_both
from sfumato.utility.weighted_estimates import find_quantiles


def make_survey(records: int = 300, seed: int = 1) -> sf.Dataset:
    random = np.random.default_rng(seed)
    age = random.normal(50, 10, records).round()
    weight = np.exp(random.normal(3, 0.8, records)) * (1 + (age > 55))
    score = 3 + 0.2 * age + random.normal(0, 2 + (age > 50), records)
    frame = pl.DataFrame(
        {
            "age": age,
            "ill": (random.random(records) < 1 / (1 + np.exp(3 - 0.05 * age))).astype(float),
            "visits": random.poisson(np.exp(0.02 * age - 0.5)).astype(float),
            "score": score,
            "weight": weight,
        }
    )
    schema: dict[str, Role] = {"age": "quasi", "weight": "weight"}
    return sf.Dataset(frame, sf.Schema({**dict.fromkeys(frame.columns, "sensitive"), **schema}))


def fit_slowly(y, x, w, family) -> tuple[np.ndarray, np.ndarray]:
    """Newton's method and the linearised variance, record by record."""
    mean: dict[str, Any] = {
        "linear": lambda e: e,
        "logistic": lambda e: 1 / (1 + np.exp(-e)),
        "poisson": np.exp,
    }
    slope = {"linear": lambda m: 1.0, "logistic": lambda m: m * (1 - m), "poisson": lambda m: m}
    beta = np.zeros(x.shape[1])
    for _ in range(60):
        score, information = np.zeros(len(beta)), np.zeros((len(beta), len(beta)))
        for row, outcome, weight in zip(x, y, w, strict=True):
            fitted = mean[family](row @ beta)
            score += weight * (outcome - fitted) * row
            information += weight * slope[family](fitted) * np.outer(row, row)
        step = np.linalg.solve(information, score)
        beta = beta + step
        if np.abs(step).max() < 1e-12:
            break
    meat = np.zeros_like(information)
    for row, outcome, weight in zip(x, y, w, strict=True):
        own = weight * (outcome - mean[family](row @ beta)) * row
        meat += np.outer(own, own)
    inverse = np.linalg.inv(information)
    return beta, np.sqrt(np.diag(inverse @ meat @ inverse) * len(y) / (len(y) - 1))


@pytest.mark.parametrize(
    ("family", "outcome"), [("linear", "score"), ("logistic", "ill"), ("poisson", "visits")]
)
def test_weighted_models_equal_a_slow_reference(family, outcome):
    data = make_survey()
    formula = read_formula(f"{outcome} ~ age")
    fitted = fit_both(data, data, formula, family, level=0.95, weight="weight").original
    x = np.column_stack([np.ones(len(data)), data.frame["age"]])
    columns = (data.frame[name].to_numpy() for name in (outcome, "weight"))
    y, w = columns
    beta, error = fit_slowly(y, x, w, family)
    assert fitted.estimate == pytest.approx(beta, rel=1e-7)
    assert fitted.error == pytest.approx(error, rel=1e-6)
    plain = fit_both(data, data, formula, family, level=0.95).original
    assert abs(plain.estimate[1] - beta[1]) > 1e-6
    assert (fitted.low < fitted.estimate).all()
    assert (fitted.estimate < fitted.high).all()


def test_equal_weights_give_the_plain_estimates():
    data = make_survey()
    same = sf.Dataset(data.frame.with_columns(weight=pl.lit(7.0)), data.schema)
    formula = read_formula("score ~ age")
    weighted = fit_both(same, same, formula, "linear", level=0.9, weight="weight").original
    plain = fit_both(same, same, formula, "linear", level=0.9).original
    assert weighted.estimate == pytest.approx(plain.estimate, rel=1e-10)


def test_a_changed_weight_moves_the_coefficients_and_is_measured():
    data = make_survey()
    flat = sf.Dataset(data.frame.with_columns(weight=pl.lit(1.0)), data.schema)
    by_weight = Coefficients(formula="score ~ age", weight="weight")
    assert by_weight.measure(data, data).value == 0.0
    moved = by_weight.measure(data, flat)
    assert moved.value > 0.1
    assert Coefficients(formula="score ~ age").measure(data, flat).value == 0.0
    assert any("weighted" in line for line in moved.assumptions)


def test_weights_that_stand_for_nobody_are_refused():
    data = make_survey()
    wrong = sf.Dataset(data.frame.with_columns(weight=-pl.col("weight")), data.schema)
    with pytest.raises(MeasureError, match="'weight' is no weight"):
        Coefficients(formula="score ~ age", weight="weight").measure(wrong, wrong)


@given(
    rows=st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 9)), min_size=1, max_size=20),
    seed=st.integers(0, 9),
)
@settings(max_examples=100, deadline=None)
def test_weighted_quantiles_are_those_of_the_repeated_values(rows, seed):
    shuffled = np.random.default_rng(seed).permutation(len(rows))
    values, weights = np.array(rows, float)[shuffled].T
    repeated = np.sort(np.repeat(values, weights.astype(int)))
    for share, found in zip((0.25, 0.5, 0.75), find_quantiles(values, weights), strict=True):
        expected = repeated[int(np.ceil(share * len(repeated) - 1e-9)) - 1]
        assert found == expected


def test_quantiles_that_move_are_measured():
    data = make_survey()
    flat = sf.Dataset(data.frame.with_columns(weight=pl.lit(1.0)), data.schema)
    assert WeightedEstimates().measure(data, data).details["largest_quantile_change"] == 0.0
    found = WeightedEstimates().measure(data, flat)
    assert found.details["largest_quantile_change"] > 0.05
    estimates = set(found.table["estimate"])
    assert {"mean", "quantile 0.25", "quantile 0.5", "quantile 0.75"} <= estimates
