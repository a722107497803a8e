"""Survey weights: closed forms without noise, simulations with noise, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli.app import app
from sfumato.errors import DataError, MeasureError, SfumatoError

FAMILIES = {
    ("bernoulli", "logit"): sm.families.Binomial(),
    ("bernoulli", "probit"): sm.families.Binomial(sm.families.links.Probit()),
    ("poisson", None): sm.families.Poisson(),
}


def draw_sample(records: int, seed: int) -> pl.DataFrame:
    """Records with weights that depend on the outcome, in sixty units."""
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, records))
    line = 0.3 + 0.8 * x - 0.5 * z
    y = line + rng.normal(size=records) * (1 + 0.5 * abs(x))
    return pl.DataFrame(
        {
            "y": y,
            "x": x,
            "z": z,
            "yes": (rng.uniform(size=records) < 1 / (1 + np.exp(-line))).astype(float),
            "count": rng.poisson(np.exp(line / 2)).astype(float),
            "w": np.exp(0.4 * rng.normal(size=records) + 0.3 * y),
            "unit": rng.integers(0, 60, records),
        }
    )


def weighted_least_squares(data: pl.DataFrame, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and sandwich standard errors, by the formula, unit by unit."""
    x = np.column_stack([np.ones(data.height), data["x"], data["z"]])
    y, w = data["y"].to_numpy(), data["w"].to_numpy()
    bread = np.linalg.inv(x.T @ np.diag(w) @ x)
    beta = bread @ x.T @ (w * y)
    meat = np.zeros((3, 3))
    for unit in np.unique(units):
        own = units == unit
        score = (x[own] * (w * (y - x @ beta))[own, None]).sum(axis=0)
        meat += np.outer(score, score)
    count = len(np.unique(units))
    return beta, np.sqrt(np.diag(bread @ meat @ bread) * count / (count - 1))


@pytest.mark.parametrize("clustered", [False, True])
def test_linear_without_noise_is_weighted_least_squares_with_the_sandwich(clustered):
    data = draw_sample(300, 1)
    units = data["unit"].to_numpy() if clustered else np.arange(300)
    roles: dict[str, Any] = dict.fromkeys(data.columns, "other") | {"w": "weight"}
    roles["unit"] = "cluster" if clustered else "other"
    found = sf.fit(
        "y ~ x + z", sf.Dataset(data, sf.Schema(roles)), noise={}, weights="role", method="moments"
    )
    beta, error = weighted_least_squares(data, units)
    table = found.summary()
    assert table["mean"].to_numpy()[:3] == pytest.approx(beta, abs=1e-9)
    assert table["sd"].to_numpy()[:3] == pytest.approx(error, abs=1e-7)
    residual = data["y"].to_numpy() - np.column_stack([np.ones(300), data["x"], data["z"]]) @ beta
    variance = np.average(residual**2, weights=data["w"]) * 300 / 297
    assert table.loc["residual variance", "mean"] == pytest.approx(variance)
    assert any(("'unit' names" in note) == clustered for note in found.notes if "Weighted" in note)
    drawn = sf.fit("y ~ x + z", sf.Dataset(data, sf.Schema(roles)), noise={}, weights="w")
    assert drawn.summary()["mean"].to_numpy()[:3] == pytest.approx(beta, abs=0.1 * error.max())
    assert drawn.summary()["sd"].to_numpy()[:3] == pytest.approx(error, rel=0.08)
    assert drawn.engine == "weighted scores"


@pytest.mark.parametrize(("family", "link"), list(FAMILIES))
def test_generalised_without_noise_are_those_of_statsmodels(family, link):
    data = draw_sample(300, 2)
    outcome = "count" if family == "poisson" else "yes"
    found = sf.fit(
        f"{outcome} ~ x + z", data, noise={}, family=family, link=link, weights="w", draws=150
    )
    x = sm.add_constant(data.select("x", "z").to_numpy())
    weights = (data["w"] / data["w"].mean()).to_numpy()
    model = sm.GLM(data[outcome].to_numpy(), x, family=FAMILIES[family, link], var_weights=weights)
    reference = model.fit(cov_type="HC0")
    assert found.moments is not None
    assert list(found.moments.value.values()) == pytest.approx(reference.params, abs=1e-6)
    # statsmodels takes the observed information of a probit, which differs from ours by chance.
    tolerance = 0.03 if link == "probit" else 1e-4
    errors = np.array(list(found.moments.error.values())) / np.sqrt(300 / 299)
    assert errors == pytest.approx(reference.bse, rel=tolerance)
    assert found.summary()["sd"].to_numpy() == pytest.approx(reference.bse, rel=0.2)
    assert found.engine == "weighted scores"


def test_binomial_counts_are_those_of_statsmodels():
    data = draw_sample(300, 3).with_columns(trials=pl.Series(np.arange(300) % 3 + 1.0))
    data = data.with_columns(won=(pl.col("yes") * pl.col("trials")))
    found = sf.fit(
        "won ~ x", data, noise={}, family="binomial", trials="trials", weights="w", method="moments"
    )
    won, trials = data["won"].to_numpy(), data["trials"].to_numpy()
    reference = sm.GLM(
        np.column_stack([won, trials - won]),
        sm.add_constant(data["x"].to_numpy()),
        family=sm.families.Binomial(),
        var_weights=data["w"].to_numpy(),
    ).fit()
    assert list(found.estimates.value.values()) == pytest.approx(reference.params, abs=1e-6)


def draw_unequally(seed: int, family: str) -> tuple[pl.DataFrame, float]:
    """Records drawn the more often, the larger the outcome, x with noise and g misclassified."""
    rng = np.random.default_rng(seed)
    n = 20_000
    x = rng.normal(size=n)
    g = (rng.uniform(size=n) < 0.4).astype(float)
    line = 0.2 + x - 0.7 * g
    if family == "gaussian":
        y = line + rng.normal(size=n)
    elif family == "poisson":
        y = rng.poisson(np.exp(line / 2)).astype(float)
    else:
        y = (rng.uniform(size=n) < 1 / (1 + np.exp(-line))).astype(float)
    chance = 0.5 / (1 + np.exp(-(y - 1 - 0.5 * x)))
    drawn = rng.uniform(size=n) < chance
    flipped = rng.uniform(size=n) < 0.1
    frame = pl.DataFrame(
        {
            "y": y,
            "x": x + rng.normal(scale=0.6, size=n),
            "g": np.where(flipped, 1 - g, g).astype(int),
            "w": 1 / chance + rng.normal(scale=1.0, size=n),
        }
    )
    return frame.filter(drawn), 0.5 if family == "poisson" else 1.0


NOISE = {
    "x": sf.Gaussian(variance=0.36),
    "g": sf.Misclassification(levels=[0, 1], matrix=[[0.9, 0.1], [0.1, 0.9]]),
    "w": sf.Gaussian(variance=1.0),
}


@pytest.mark.parametrize("family", ["gaussian", "bernoulli", "poisson"])
def test_with_noise_in_terms_and_weights_the_population_is_found(family):
    frame, slope = draw_unequally(4, family)
    found = sf.fit("y ~ x + C(g)", frame, noise=NOISE, family=family, weights="w", method="moments")
    table = found.summary()
    for term, true in (("x", slope), (table.index[2], -0.7 * slope)):
        row = table.loc[term]
        assert abs(row["mean"] - true) < 3 * row["sd"], term
        assert row["sd"] < 0.25 * abs(true)
    # Noise flattens the slope, and the sample is not the population.
    assert table.loc["x", "naive"] < slope - 3 * table.loc["x", "sd"]
    assert any("noise of 'w' is right on average" in note for note in found.notes)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([("y", "gaussian"), ("count", "poisson")]))
def test_a_weight_of_two_is_a_record_twice(seed, model):
    outcome, family = model
    data = draw_sample(60, seed).with_columns(w=pl.Series(np.arange(60) % 3 + 1.0))
    again = pl.concat([data.filter(pl.col("w") >= times) for times in (1, 2, 3)])
    noise = {"x": sf.Gaussian(variance=0.05)}
    formula = f"{outcome} ~ x + z"
    fits = [
        sf.fit(formula, frame, noise=noise, family=family, weights="w", method="moments")
        for frame in (data, data.with_columns(w=3 * pl.col("w")), again.with_columns(w=pl.lit(2.0)))
    ]
    first, scaled, repeated = (list(found.estimates.value.values())[:3] for found in fits)
    assert first == pytest.approx(scaled, abs=1e-7)
    assert first == pytest.approx(repeated, abs=1e-7)


def test_released_weights_are_used_as_the_manifest_says():
    data = draw_sample(400, 5)
    roles: dict[str, Any] = dict.fromkeys(data.columns, "other") | {"w": "weight"}
    steps = [sf.methods.Noise(variables=["x"], variance_share=0.2), sf.methods.Weights()]
    plan = sf.Plan(schema=sf.Schema(roles), steps=steps)
    released = sf.protect(sf.Dataset(data, plan.schema), plan, key=sf.Key(bytes(32)))
    found = sf.fit("y ~ x", released, weights="role", method="moments")
    assert any("rounded at random" in note for note in found.notes)
    plain = sf.fit("y ~ x", released, method="moments")
    assert any("'w' were not used" in note for note in plain.notes)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"formula": "y ~ x + (1 | unit)"}, "differ by group"),
        ({"method": "simex"}, "knows no survey weights"),
        ({"method": "posterior", "pointwise": True}, "no likelihood by record"),
        ({"formula": "count ~ x", "family": "negative_binomial"}, "no corrected score is known"),
        ({"weights": "yes"}, "add up to nothing"),
        ({"weights": "z"}, "negative"),
        ({"weights": "nowhere"}, "nowhere"),
        ({"weights": "role"}, 'have the role "weight"'),
        ({"noise": {"w": sf.Gaussian(variance=1.0, at_least=0.0)}}, "not right on average"),
        ({"noise": {"x": sf.Gaussian(variance=0.1)}, "family": "bernoulli", "link": "probit",
          "formula": "count ~ x"}, "cannot be fitted with survey weights"),
    ],
)  # fmt: skip
def test_what_cannot_honour_weights_is_refused(options, says):
    data = draw_sample(100, 6).with_columns(
        yes=pl.lit(0.0), count=(pl.col("count") > 0).cast(pl.Int64)
    )
    asked = {"formula": "y ~ x", "noise": {}, "weights": "w", "method": "moments"} | options
    with pytest.raises(SfumatoError, match=says):
        sf.fit(asked.pop("formula"), data, **asked)


def test_coarsened_weights_are_refused_and_can_be_taken_as_they_are():
    data = draw_sample(200, 7)
    roles: dict[str, Any] = dict.fromkeys(data.columns, "other") | {"w": "weight"}
    plan = sf.Plan(
        schema=sf.Schema(roles), steps=[sf.methods.Topcode(variables=["w"], top_quantile=0.9)]
    )
    released = sf.protect(sf.Dataset(data, plan.schema), plan, key=sf.Key(bytes(32)))
    with pytest.raises(DataError, match="'w' were changed"):
        sf.fit("y ~ x", released, weights="w", method="moments")
    assert sf.fit("y ~ x", released, weights="w", clean=["w"], method="moments").records == 200


def test_the_command_line_weighs(tmp_path):
    draw_sample(200, 8).write_csv(tmp_path / "data.csv")
    (tmp_path / "noise.toml").write_text('[x]\ndistribution = "gaussian"\nvariance = 0.1\n')
    command = ["fit", "y ~ x", str(tmp_path / "data.csv"), "--noise", str(tmp_path / "noise.toml")]
    answer = CliRunner().invoke(app, [*command, "--weights", "w", "--draws", "50", "--json"])
    told = json.loads(answer.stdout)
    assert told["engine"] == "weighted scores"
    assert any("Weighted by 'w'" in note for note in told["notes"])
    with pytest.raises(MeasureError):
        sf.fit("y ~ x + (1 | unit)", draw_sample(200, 8), noise={}, weights="w")
