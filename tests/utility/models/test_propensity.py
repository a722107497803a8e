from __future__ import annotations

import warnings

import numpy as np
import pytest
from tests.utility.conftest import numbers

import sfumato as sf
from sfumato.errors import MeasureError
from sfumato.kernels.exact_sums import use_one_thread
from sfumato.utility.models.propensity import (
    build_design,
    fit_logistic,
    merge_records,
    score_permutations,
)


def expanded(merged, model):
    """A row per record of both data sets and its label, as other libraries take them."""
    x = np.concatenate([block for _, block in model.blocks()])
    places = np.concatenate([merged.place_of_original, merged.place_of_released])
    labels = np.repeat([0.0, 1.0], [len(merged.place_of_original), len(merged.place_of_released)])
    return x[places], labels, places


@pytest.mark.parametrize("interactions", [False, True])
def test_newton_agrees_with_statsmodels(noisy, interactions):
    import statsmodels.api as sm

    names = ["sex", "smoking", "height", "glucose", "weight_kg"]
    merged = merge_records(noisy.original, noisy.released, names, owner="test")
    model = build_design(merged, interactions=interactions)
    x, labels, places = expanded(merged, model)
    with warnings.catch_warnings(), use_one_thread():
        warnings.simplefilter("ignore")
        theirs = sm.GLM(labels, x, family=sm.families.Binomial()).fit(tol=1e-14, maxiter=200)
    ours = fit_logistic(model)
    assert np.allclose(ours.probability[places], theirs.mu, atol=1e-9)
    assert model.parameters == np.linalg.matrix_rank(x) == x.shape[1]


def test_newton_agrees_with_scikit_learn(titanic):
    from sklearn.linear_model import LogisticRegression

    merged = merge_records(titanic.original, titanic.released, ["Age", "Fare"], owner="test")
    model = build_design(merged, interactions=True)
    x, labels, places = expanded(merged, model)
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000, fit_intercept=False)
    mu = theirs.fit(x, labels).predict_proba(x)[:, 1]
    assert np.allclose(fit_logistic(model).probability[places], mu, atol=1e-5)


@pytest.mark.parametrize("seed", [21, 33, 47, 73, 93])
def test_values_far_out_make_steps_too_long_but_not_the_result_wrong(seed):
    draw = np.random.default_rng(seed)
    records = draw.integers(10, 60)
    was = draw.standard_cauchy(records) ** 3
    factor = draw.choice([1, 5])
    now = draw.standard_cauchy(records) ** 3 * factor + draw.choice([0, 1, 3])
    merged = merge_records(numbers({"a": was}), numbers({"a": now}), None, owner="test")
    model = build_design(merged, interactions=True)
    x, labels, places = expanded(merged, model)
    residuals = labels - fit_logistic(model).probability[places]
    # At the maximum of the likelihood, residuals are orthogonal to all columns.
    size = np.sqrt((x * x).sum(axis=0))
    assert np.allclose(residuals @ (x / size), 0, atol=1e-6)


def test_the_first_step_is_a_projection(noisy):
    merged = merge_records(noisy.original, noisy.released, ["height", "sex"], owner="test")
    model = build_design(merged, interactions=False)
    x, labels, _ = expanded(merged, model)
    projected = x @ np.linalg.lstsq(x, labels - 0.5, rcond=None)[0]
    found = score_permutations(model, 300)
    assert found.observed == pytest.approx(np.mean(projected**2))
    # Over all permutations its mean is known.
    free, records = model.parameters - 1, merged.records
    assert found.permuted.mean() == pytest.approx(free / 4 / (records - 1), rel=0.15)


def test_what_does_not_converge_is_an_error(monkeypatch):
    monkeypatch.setattr("sfumato.utility.models.propensity._STEPS", 1)
    with pytest.raises(MeasureError, match="does not converge"):
        sf.utility.Propensity().measure(*(numbers({"a": [1.0, 2, 3, at]}) for at in (4, 9)))
