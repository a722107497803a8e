"""Quick looks: corrected moments, regression calibration, simulation and extrapolation."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

import sfumato as sf
from sfumato.analysis.result import Method
from sfumato.errors import MeasureError

QUICK: tuple[Method, ...] = ("moments", "calibration", "simex")


def linear(n: int, seed: int) -> tuple[pl.DataFrame, dict[str, Any]]:
    """A skewed number, a category of three levels, and a clean number that goes with both."""
    rng = np.random.default_rng(seed)
    x = rng.exponential(size=n)
    kind = rng.choice(3, p=[0.5, 0.3, 0.2], size=n)
    z = 0.5 * x + 0.4 * (kind == 2) + rng.normal(size=n)
    y = 1 + 2 * x - z + 1.0 * (kind == 1) - 1.5 * (kind == 2) + rng.normal(size=n)
    matrix = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.15, 0.15, 0.7]])
    told = np.array([rng.choice(3, p=matrix[one]) for one in kind])
    frame = pl.DataFrame(
        {"y": y, "x": x + 0.5 * rng.normal(size=n), "z": z, "kind": [f"k{one}" for one in told]}
    )
    noise = {
        "x": sf.Gaussian(variance=0.25),
        "kind": sf.Misclassification(levels=["k0", "k1", "k2"], matrix=matrix.tolist()),
    }
    return frame, noise


TRUE = {"Intercept": 1, "x": 2, "z": -1, "kind[T.k1]": 1, "kind[T.k2]": -1.5}


@pytest.mark.parametrize("method", ["moments", "calibration"])
def test_linear_models_are_right_whatever_the_shape_of_the_true_values(method):
    frame, noise = linear(6_000, 1)
    made = sf.fit("y ~ x + z + kind", frame, noise=noise, method=method).summary()
    for term, true in TRUE.items():
        assert abs(made.loc[term, "mean"] - true) < 3.5 * made.loc[term, "sd"] < 0.5
    assert abs(made.loc["x", "naive"] - 2) > 10 * made.loc["x", "sd"]


def test_standard_errors_are_those_of_repeated_samples():
    found: dict[str, list[Any]] = {method: [] for method in QUICK}
    for seed in range(16):
        frame, noise = linear(500, seed)
        for method in QUICK:
            made = sf.fit("y ~ x + z", frame, noise={"x": noise["x"]}, method=method)
            found[method].append(made.summary().loc["x"])
    for rows in found.values():
        spread = np.std([row["mean"] for row in rows], ddof=1)
        assert 0.5 < spread / np.mean([row["sd"] for row in rows]) < 1.7


def test_powers_and_products_of_noised_variables():
    rng = np.random.default_rng(7)
    x, z = rng.normal(size=(2, 8_000))
    sex = rng.integers(0, 2, 8_000)
    y = 1 + x + 0.5 * x**2 + x * sex - z * x + sex + rng.normal(size=8_000)
    frame = pl.DataFrame(
        {
            "y": y, "z": z, "x": x + 0.4 * rng.normal(size=8_000),
            "sex": np.clip(sex + 0.4 * rng.normal(size=8_000), 0, 1),
        }
    )  # fmt: skip
    noise = {"x": sf.Gaussian(variance=0.16), "sex": sf.CodeNoise(variance=0.16, levels=[0, 1])}
    true = {"Intercept": 1, "x": 1, "I(x ** 2)": 0.5, "x:sex": 1, "x:z": -1, "sex": 1, "z": 0}
    made = sf.fit("y ~ x*sex + I(x**2) + z*x", frame, noise=noise, method="moments").summary()
    found = {name: name for name in made.index} | {"x:z": "z:x" if "z:x" in made.index else "x:z"}
    for term, value in true.items():
        row = made.loc[found[term]]
        assert abs(row["mean"] - value) < 3.5 * row["sd"] < 0.5
    rough = sf.fit("y ~ x*sex + I(x**2) + z*x", frame, noise=noise, method="calibration").summary()
    assert (rough["mean"] - made["mean"]).abs().max() < 0.1


@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
def test_generalised_models(family):
    rng = np.random.default_rng(9)
    x, z = rng.normal(size=(2, 6_000))
    line = -0.5 + 0.8 * x + 0.3 * z
    y = (
        rng.poisson(np.exp(line))
        if family == "poisson"
        else rng.random(6_000) < 1 / (1 + np.exp(-line))
    )
    frame = pl.DataFrame({"y": np.asarray(y, float), "z": z, "x": x + 0.5 * rng.normal(size=6_000)})
    noise = {"x": sf.Gaussian(variance=0.25)}
    made = {
        one: sf.fit("y ~ x + z", frame, noise=noise, family=family, method=one).summary()
        for one in QUICK
    }
    exact = made["moments"]
    for term, true in {"Intercept": -0.5, "x": 0.8, "z": 0.3}.items():
        assert abs(exact.loc[term, "mean"] - true) < 3.5 * exact.loc[term, "sd"] < 0.2
    for one in QUICK[1:]:  # approximations, but far better than nothing
        left = abs(made[one].loc["x", "mean"] - exact.loc["x", "mean"])
        assert left < 0.4 * abs(exact.loc["x", "naive"] - exact.loc["x", "mean"])


def test_noise_of_the_outcome_costs_precision_and_leaves_the_residual_variance():
    rng = np.random.default_rng(11)
    x = rng.normal(size=6_000)
    y = 1 + x + rng.normal(size=6_000)
    frame = pl.DataFrame({"y": y + 2 * rng.normal(size=6_000), "x": x})
    made = sf.fit(
        "y ~ x", frame, noise={"y": sf.Gaussian(variance=4.0)}, method="moments"
    ).summary()
    assert made.loc["residual variance", "mean"] == pytest.approx(1, abs=0.2)
    with pytest.raises(MeasureError, match="outcome"):
        sf.fit("y ~ x", frame, noise={"y": sf.Gaussian(variance=4.0)}, method="simex")


def test_two_levels():
    rng = np.random.default_rng(12)
    school = rng.integers(0, 80, 6000)
    x = 0.5 * rng.normal(size=80)[school] + rng.normal(size=6000)
    y = x + 0.7 * rng.normal(size=80)[school] + rng.normal(size=6000)
    frame = pl.DataFrame({"y": y, "x": x + 0.6 * rng.normal(size=6000), "school": school})
    for method in QUICK:
        made = sf.fit(
            "y ~ x + (1 | school)", frame, noise={"x": sf.Gaussian(variance=0.36)}, method=method
        )
        row = made.summary().loc["x"]
        slack = 0.05 if method == "simex" else 0.02
        assert abs(row["mean"] - 1) < 3 * row["sd"] + slack
        assert row["sd"] < 0.2
        assert row["naive"] < 0.85


@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
def test_two_levels_of_generalised_models(family):
    rng = np.random.default_rng(13)
    school = rng.integers(0, 50, 2500)
    x = 0.5 * rng.normal(size=50)[school] + rng.normal(size=2500)
    line = 0.2 + 0.7 * x + 0.6 * rng.normal(size=50)[school]
    y = rng.poisson(np.exp(line)) if family == "poisson" else rng.random(2500) < expit(line)
    frame = pl.DataFrame({"y": np.asarray(y, float), "x": x, "school": school})
    noisy = frame.with_columns(pl.col("x") + 0.5 * rng.normal(size=2500))
    noise = {"x": sf.Gaussian(variance=0.25)}
    clean = sf.fit("y ~ x + (1 | school)", frame, noise={}, family=family, method="simex").naive
    for method in ("calibration", "simex"):
        made = sf.fit("y ~ x + (1 | school)", noisy, noise=noise, family=family, method=method)
        row = made.summary().loc["x"]
        lost = clean.value["x"] - row["naive"]
        assert lost > 0.1
        assert abs(row["mean"] - clean.value["x"]) < 2.5 * row["sd"] + 0.25 * lost
        assert clean.error["x"] < row["sd"] < 4 * clean.error["x"]
    with pytest.raises(MeasureError, match="no corrected score is known for a two-level"):
        sf.fit("y ~ x + (1 | school)", noisy, noise=noise, family=family, method="moments")


def test_without_noised_predictors_a_quick_look_is_the_plain_fit():
    frame, _ = linear(200, 4)
    made = sf.fit("y ~ z", frame, noise={}, method="simex")
    assert made.estimates.value == made.naive.value


def test_what_no_quick_look_can_do_is_told():
    frame, noise = linear(200, 3)
    with pytest.raises(MeasureError, match="no power"):
        sf.fit("y ~ exp(x)", frame, noise=noise, method="moments")
    cut = sf.Gaussian(variance=0.25, at_least=float(np.min(frame["x"].to_numpy())))
    with pytest.raises(MeasureError, match="rounded or cut"):
        sf.fit("y ~ x", frame, noise={"x": cut}, method="moments")
    with pytest.raises(MeasureError, match="larger"):
        sf.fit("y ~ x", frame, noise={"x": sf.Gaussian(variance=90.0)}, method="moments")
    with pytest.raises(MeasureError, match="no value where"):
        sf.fit("y ~ log(x)", frame, noise=noise, method="calibration")
    probit = frame.with_columns((pl.col("y") > 1).cast(int))
    with pytest.raises(MeasureError, match="corrected score"):
        sf.fit("y ~ x", probit, noise=noise, family="bernoulli", link="probit", method="moments")
