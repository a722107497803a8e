"""Paper 001, Table 5: a two-level model of the exam data, with noise and without.

Noise is drawn with numpy here, as the paper says: variance 0.2 on the reading score and on the
code of gender, the latter clipped to [0, 1]. The recomputed columns beside the published ones are
in the folder of references; what they say is repeated where it is used.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.analysis.linear_problems import code_log_density

from sfumato.analysis.problem import Category, NoisyNumber, Problem, Sampling, Term
from sfumato.analysis.samplers.gibbs import sampler as collapsed

SAMPLING = Sampling(chains=4, draws=250, warmup=100)


@pytest.fixture(scope="module")
def exam(shared_data):
    frame = pl.read_csv(shared_data / "exam.csv")
    girl = (frame["sex"] == "F").to_numpy().astype(float)
    school = np.unique(frame["school"].to_numpy(), return_inverse=True)[1].astype(np.int64)
    return frame["normexam"].to_numpy(), frame["standLRT"].to_numpy(), girl, school


@pytest.fixture(scope="module")
def reference(shared_data):
    return json.loads((shared_data.parent / "reference" / "001_table5.json").read_text())


def clean_problem(y, score, girl, school) -> Problem:
    return Problem(
        family="gaussian",
        link="identity",
        y=y,
        terms=(
            Term(name="Intercept"),
            Term(name="standLRT", clean=score),
            Term(name="girl", clean=girl),
        ),
        covariates=np.column_stack([np.ones(len(y)), score, girl]),
        groups=school,
        random=(0,),
    )


def released(exam, seed) -> tuple[Any, Any]:
    _, score, girl, _ = exam
    chance = np.random.default_rng([1, seed])
    noise = chance.normal(size=(2, len(score))) * np.sqrt(0.2)
    return score + noise[0], np.clip(girl + noise[1], 0, 1)


def noised_problem(exam, seed, *, clustered) -> Problem:
    y, _, _, school = exam
    seen, code = released(exam, seed)
    return Problem(
        family="gaussian",
        link="identity",
        y=y,
        numbers=(NoisyNumber(name="standLRT", observed=seen, variance=0.2),),
        categories=(Category(name="sex", levels=("M", "F"), density=code_log_density(code, 0.2)),),
        error=np.array([[0.2]]),
        terms=(
            Term(name="Intercept"),
            Term(name="standLRT", numbers=((0, None),)),
            Term(name="girl", levels=((0, 1),)),
        ),
        covariates=np.ones((len(y), 1)),
        groups=school,
        random=(0,),
        clustered=clustered,
    )


def test_the_original_column(exam, reference):
    draws = collapsed.sample(clean_problem(*exam), SAMPLING).draws.reshape(-1, 5)
    center, spread = reference["original_long_gibbs_mean_sd"]["uniform s2u"]
    order = [0, 1, 2, 4, 3]  # there the school variance comes before the residual one
    error = np.maximum(4 * np.array(spread)[order] / np.sqrt(300), 0.001)
    assert (np.abs(draws.mean(axis=0) - np.array(center)[order]) < error).all()
    assert draws.std(axis=0) == pytest.approx(np.array(spread)[order], rel=0.15)
    # To two decimals as printed, but for the intercept, whose last digit is the paper's own chance.
    assert draws.mean(axis=0)[[1, 3, 4]] == pytest.approx([0.559, 0.563, 0.097], abs=0.005)
    assert draws.mean(axis=0)[2] == pytest.approx(0.174, abs=0.01)


def test_the_naive_column(exam):
    y, _, _, school = exam
    draws = collapsed.sample(clean_problem(y, *released(exam, 0), school), SAMPLING).draws
    found = draws.reshape(-1, 5).mean(axis=0)
    assert found[1] == pytest.approx(0.460, abs=0.015)
    assert found[3] == pytest.approx(0.615, abs=0.015)


def test_the_adjusted_column(exam, reference):
    """Near the original with schools in the model of true values, near the paper's without."""
    with_schools: list[Any] = []
    without: list[Any] = []
    sampling = Sampling(chains=4, draws=120, warmup=100)
    for seed in range(2):
        for clustered, found in ((True, with_schools), (False, without)):
            made = collapsed.sample(noised_problem(exam, seed, clustered=clustered), sampling)
            found.append(made.draws.reshape(-1, 5).mean(axis=0))
    # Over draws of the noise the means scatter: by .006 to .008 and .016 to .02 in six of them.
    good, paper = np.mean(with_schools, axis=0), np.mean(without, axis=0)
    original = np.array(reference["original_long_gibbs_mean_sd"]["uniform s2u"][0])
    assert good[1] == pytest.approx(original[1], abs=0.02)
    assert good[2] == pytest.approx(original[2], abs=0.04)
    assert good[3] == pytest.approx(original[4], abs=0.02)
    drawn = np.array(reference["adjusted_draws"])
    assert paper[1] == pytest.approx(drawn[:, 1].mean(), abs=0.02)
    assert paper[2] == pytest.approx(drawn[:, 2].mean(), abs=0.035)
    assert paper[2] < good[2] - 0.02
