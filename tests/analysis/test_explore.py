"""`explore`: moments, quantiles, shares and correlations with the noise taken out."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import sfumato as sf
from sfumato.analysis.deconvolution import build_spline, fit_free
from sfumato.cli.app import app
from sfumato.errors import DataError, MeasureError, SfumatoError


def add_noise(count: int = 3000, seed: int = 1) -> tuple[pl.DataFrame, pl.DataFrame]:
    """True values, and the same with noise."""
    rng = np.random.default_rng(seed)
    x = rng.gamma(4, size=count)
    y = 2 + x + rng.normal(size=count)
    true = pl.DataFrame({"x": x, "y": y})
    return true, true.with_columns(x=pl.lit(x + rng.normal(0, 1.0, count)).alias("x"))


NOISE = {"x": sf.Gaussian(variance=1.0)}


@pytest.fixture(scope="module")
def seen():
    true, released = add_noise()
    return true, sf.explore(released, noise=NOISE)


def test_moments_are_those_of_the_released_values_less_the_noise(seen):
    """Recomputed by hand from the released column."""
    _, released = add_noise()
    _, found = seen
    rows = found.summary().loc["x"]
    assert rows.loc["mean", "estimate"] == pytest.approx(released["x"].mean(), abs=1e-12)
    variance: Any = released["x"].var()
    assert rows.loc["sd", "estimate"] == pytest.approx(math.sqrt(variance - 1.0), abs=1e-12)


def test_correlation_is_the_attenuated_one_corrected(seen):
    _, released = add_noise()
    _, found = seen
    x, y = released["x"].to_numpy(), released["y"].to_numpy()
    by_hand = np.cov(x, y, ddof=0)
    corrected = by_hand[0, 1] / math.sqrt((by_hand[0, 0] - 1.0) * by_hand[1, 1])
    row = found.correlations().loc[("x", "y")]
    assert row["correlation"] == pytest.approx(corrected, abs=1e-12)
    assert row["naive"] == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-12)
    assert row["low"] < row["correlation"] < row["high"]


def test_standard_error_of_a_correlation_agrees_with_the_bootstrap(seen):
    _, released = add_noise()
    _, found = seen
    x, y = released["x"].to_numpy(), released["y"].to_numpy()
    rng = np.random.default_rng(5)
    drawn = []
    for _ in range(300):
        rows = rng.integers(0, len(x), len(x))
        both = np.cov(x[rows], y[rows], ddof=0)
        drawn.append(both[0, 1] / math.sqrt((both[0, 0] - 1.0) * both[1, 1]))
    row = found.correlations().loc[("x", "y")]
    assert row["high"] - row["low"] == pytest.approx(3.92 * np.std(drawn), rel=0.2)


def test_intervals_hold_the_original_where_naive_numbers_do_not(seen):
    true, found = seen
    rows = found.summary().loc["x"]
    for statistic, value in (
        ("mean", true["x"].mean()),
        ("sd", true["x"].std()),
        *((f"q{share:g}", true["x"].quantile(share)) for share in (0.05, 0.25, 0.5, 0.75, 0.95)),
    ):
        assert rows.loc[statistic, "low"] <= value <= rows.loc[statistic, "high"], statistic
    assert not rows.loc["sd", "low"] <= rows.loc["sd", "naive"] <= rows.loc["sd", "high"]
    assert not rows.loc["q0.05", "low"] <= rows.loc["q0.05", "naive"] <= rows.loc["q0.05", "high"]


def test_a_variable_without_noise_is_taken_as_it_is(seen):
    true, found = seen
    rows = found.summary().loc["y"]
    assert (rows["estimate"] - rows["naive"]).abs().max() == pytest.approx(0, abs=1e-12)
    assert rows.loc["mean", "estimate"] == pytest.approx(true["y"].mean())
    assert "y" not in found.densities


def test_density_integrates_to_one_and_lies_in_its_band(seen):
    _, found = seen
    density = found.density("x")
    value, height = density["value"].to_numpy(), density["density"].to_numpy()
    assert np.trapezoid(height, value) == pytest.approx(1.0, abs=0.02)
    assert (density["low"] <= density["density"]).all()
    assert (density["density"] <= density["high"]).all()
    assert (density["low"] >= 0).all()
    assert found.plot_density("x").audience == "public"
    with pytest.raises(SfumatoError, match="no density of 'y'"):
        found.density("y")


@pytest.mark.parametrize("distribution", ["gaussian", "laplace", "log", "clipped", "rounded"])
def test_every_kind_of_numeric_noise_is_taken_out(distribution):
    rng = np.random.default_rng(3)
    true = np.exp(rng.normal(3, 0.4, 6000))
    noise: sf.Gaussian
    if distribution == "log":
        noise = sf.Gaussian(variance=0.09, scale=sf.Scale(name="log"))
        released = np.exp(np.log(true) + rng.normal(0, 0.3, len(true)))
    elif distribution == "laplace":
        noise = sf.Laplace(variance=18.0)
        released = true + rng.laplace(0, 3.0, len(true))
    else:
        released = true + rng.normal(0, 4.0, len(true))
        noise = sf.Gaussian(variance=16.0)
        if distribution == "clipped":
            noise = sf.Gaussian(variance=16.0, at_least=10.0, at_most=40.0)
            released = released.clip(10.0, 40.0)
        if distribution == "rounded":
            noise = sf.Gaussian(variance=16.0, whole=True)
            released = released.round()
    found = sf.explore(
        pl.DataFrame({"x": released}), noise={"x": noise}, quantiles=[0.25, 0.5, 0.75]
    )
    rows = found.summary().loc["x"]
    sd = true.std()
    for share in (0.25, 0.5, 0.75):
        row = rows.loc[f"q{share:g}"]
        truth = float(np.quantile(true, share))
        assert abs(row["estimate"] - truth) < 0.08 * sd, share
        assert row["low"] - 0.02 * sd <= truth <= row["high"] + 0.02 * sd


def test_shares_of_misclassified_levels_are_those_of_the_inverted_matrix():
    """With two levels and shares inside, EM must reach the solution of the linear equations."""
    rng = np.random.default_rng(2)
    matrix = np.array([[0.9, 0.1], [0.3, 0.7]])
    true = (rng.random(5000) < 0.35).astype(int)
    shown = (rng.random(5000) < matrix[true, 1]).astype(int)
    frame = pl.DataFrame({"c": np.array(["no", "yes"])[shown]})
    noise = {"c": sf.Misclassification(levels=["no", "yes"], matrix=matrix.tolist())}
    found = sf.explore(frame, noise=noise).shares()
    released = np.bincount(shown) / len(shown)
    by_hand = np.linalg.solve(matrix.T, released)
    assert found["share"].to_numpy() == pytest.approx(by_hand, abs=1e-5)
    assert found["naive"].to_numpy() == pytest.approx(released)
    assert found.loc[("c", "yes"), "low"] < 0.35 < found.loc[("c", "yes"), "high"]


def test_weights_count():
    """A record of weight 2 is two records, as far as estimates go."""
    _, released = add_noise(400)
    doubled = pl.concat([released, released[:100]])
    weighted = released.with_columns(w=pl.Series([2.0] * 100 + [1.0] * 300))
    first = sf.explore(doubled, ["y"], noise={}).summary()["estimate"]
    second = sf.explore(weighted, ["y"], noise={}, weights="w").summary()["estimate"]
    assert second.loc[("y", "mean")] == pytest.approx(first.loc[("y", "mean")])
    assert second.loc[("y", "q0.5")] == pytest.approx(first.loc[("y", "q0.5")], abs=0.05)


def test_order_of_rows_does_not_matter():
    _, released = add_noise(500)
    turned = released.reverse()
    assert sf.explore(released, noise=NOISE).rows == sf.explore(turned, noise=NOISE).rows


def test_mostly_noise_and_spikes_are_warned_of():
    rng = np.random.default_rng(4)
    drowned = pl.DataFrame({"x": rng.normal(size=2000) + rng.normal(0, 2, 2000)})
    found = sf.explore(drowned, noise={"x": sf.Gaussian(variance=4.0)})
    assert any("is noise" in line for line in found.warnings)
    spiked = np.where(rng.random(8000) < 0.5, 0.0, rng.normal(0, 10, 8000))
    found = sf.explore(
        pl.DataFrame({"x": spiked + rng.normal(0, 0.5, 8000)}),
        noise={"x": sf.Gaussian(variance=0.25)},
    )
    assert any("spikes" in line for line in found.warnings)
    _, smooth = add_noise()
    assert not sf.explore(smooth, noise=NOISE).warnings


@pytest.mark.parametrize(("domain", "is_warned"), [(None, True), ((-1.7, 1.7), False)])
def test_an_end_that_breaks_off_is_warned_of_unless_it_is_declared(domain, is_warned):
    rng = np.random.default_rng(6)
    released = rng.uniform(-1.7, 1.7, 2000) + rng.normal(0, 0.45, 2000)
    column = sf.Column(role="sensitive", kind="continuous", domain=domain)
    data = sf.Dataset(pl.DataFrame({"x": released}), sf.Schema({"x": column}))
    found = sf.explore(data, noise={"x": sf.Gaussian(variance=0.45**2)})
    assert any("break off" in line for line in found.warnings) == is_warned


@settings(max_examples=25)
@given(
    shares=st.lists(st.floats(0.05, 1), min_size=2, max_size=5),
    stay=st.floats(0.6, 0.95),
)
def test_shares_add_up_and_undo_the_exchange(shares, stay):
    """Whatever the shares: what the matrix makes of them is taken back, exactly."""
    true = np.array(shares) / sum(shares)
    size = len(true)
    matrix = np.full((size, size), (1 - stay) / (size - 1))
    np.fill_diagonal(matrix, stay)
    found = fit_free(matrix.T.copy(), 1e6 * true @ matrix)
    assert found.sum() == pytest.approx(1.0)
    assert found == pytest.approx(true, abs=2e-3)


def test_spline_is_straight_beyond_its_knots():
    points = np.linspace(0, 1, 101)
    basis = build_spline(points, np.array([0.2, 0.4, 0.6, 0.8]))
    assert basis.shape == (101, 3)
    assert basis.T @ basis == pytest.approx(101 * np.eye(3), abs=1e-8)
    second = np.diff(basis, n=2, axis=0)
    assert np.abs(second[:18]).max() == pytest.approx(0, abs=1e-8)
    assert np.abs(second[82:]).max() == pytest.approx(0, abs=1e-8)
    assert np.abs(second[30:60]).max() > 1e-4


@pytest.mark.parametrize(
    ("frame", "names", "wanted"),
    [
        (pl.DataFrame({"x": pl.Series([], dtype=pl.Float64)}), ["x"], "no record"),
        (pl.DataFrame({"x": [1.0] * 10}), ["x"], "fewer than 30"),
        (pl.DataFrame({"x": [None] * 50}, schema={"x": pl.Float64}), ["x"], "fewer than 30"),
        (pl.DataFrame({"x": ["a"] * 50}), ["x"], "holds none"),
        (pl.DataFrame({"x": [2.0] * 50}), ["x"], "all the same"),
    ],
)
def test_bad_input_is_refused_by_name(frame, names, wanted):
    with pytest.raises(DataError, match=wanted):
        sf.explore(frame, names, noise=NOISE)


def test_options_are_checked():
    _, released = add_noise(100)
    with pytest.raises(MeasureError, match="level"):
        sf.explore(released, noise=NOISE, level=1.5)
    with pytest.raises(MeasureError, match="Quantiles"):
        sf.explore(released, noise=NOISE, quantiles=[2])
    with pytest.raises(DataError, match="weights 'y'"):
        sf.explore(released.with_columns(y=-pl.col("y")), ["x"], noise=NOISE, weights="y")
    with pytest.raises(SfumatoError, match="z"):
        sf.explore(released, ["z"], noise=NOISE)


def test_release_folder_and_command_line(tmp_path):
    """Dropped, generalised and noised variables of one release, each told as what it is."""
    frame = sf.datasets.cohort(800)
    schema = sf.datasets.cohort_schema()
    kept = ["sex", "education", "height", "systolic", "income"]
    data = sf.Dataset(frame.select(kept), sf.Schema({name: schema[name] for name in kept}))
    plan = sf.Plan(
        schema=data.schema,
        steps=[
            sf.methods.Noise(variables=["systolic", "income"], sd_share=0.5),
            sf.methods.Coarsen(variables=["height"], intervals=5),
            sf.methods.Misclassify(variables=["education"], retention=0.8),
        ],
    )
    sf.protect(data, plan).write(tmp_path / "release")
    found = CliRunner().invoke(
        app,
        ["explore", str(tmp_path / "release"), "--json", "--pictures", str(tmp_path / "pictures")],
    )
    assert found.exit_code == 0, found.output
    told = json.loads(found.stdout)
    assert {row["variable"] for row in told["numbers"]} == {"systolic", "income"}
    assert {row["variable"] for row in told["shares"]} == {"sex", "education"}
    assert "ranges" in told["left_out"]["height"]
    assert len(list((tmp_path / "pictures").iterdir())) == 2
    table = CliRunner().invoke(app, ["explore", str(tmp_path / "release"), "-v", "systolic"])
    assert table.exit_code == 0
    assert "q0.5" in table.output
    refused = CliRunner().invoke(app, ["explore", str(tmp_path / "release"), "-v", "height"])
    assert isinstance(refused.exception, DataError)
