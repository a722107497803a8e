"""Several grouping factors and random slopes: statsmodels, dense references, simulations."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import statsmodels.formula.api as smf
from benchmarks.study_designs import DESIGNS, fit_data_set, release
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import sfumato as sf
from sfumato.analysis.mixed_models import RestrictedLikelihood, fit_linear_mixed_model
from sfumato.cli.app import app
from sfumato.errors import MeasureError, SfumatoError


def draw_records(seed: int, records: int = 240, *, nested: bool = False) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    school = rng.integers(0, 24, records)
    area = school % 8 if nested else rng.integers(0, 8, records)
    x = rng.normal(size=records)
    slopes = rng.normal(scale=0.5, size=24)[school]
    y = 1 + (0.5 + slopes) * x + rng.normal(scale=0.8, size=24)[school]
    y += rng.normal(scale=0.7, size=8)[area] + rng.normal(size=records)
    return pl.DataFrame({"y": y, "x": x, "school": school, "area": area})


# The plain fit


@pytest.mark.parametrize("nested", [False, True])
def test_several_factors_are_the_variance_components_of_statsmodels(nested):
    data = draw_records(1, 120, nested=nested)
    frame = pd.DataFrame(data.to_dict(as_series=False)).assign(all=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = smf.mixedlm(
            "y ~ x",
            frame,
            groups="all",
            re_formula="0",
            vc_formula={"area": "0 + C(area)", "school": "0 + C(school)"},
        ).fit()
    formula = "y ~ x + (1 | area/school)" if nested else "y ~ x + (1 | school) + (1 | area)"
    made = sf.fit(formula, data, noise={}, draws=1, chains=1)
    fine = "area:school" if nested else "school"
    found = made.naive.value
    assert [found["Intercept"], found["x"]] == pytest.approx(reference.params[:2], abs=1e-4)
    assert found["residual variance"] == pytest.approx(reference.scale, abs=1e-3)
    assert found["variance of Intercept by area"] == pytest.approx(reference.vcomp[0], abs=1e-3)
    assert found[f"variance of Intercept by {fine}"] == pytest.approx(reference.vcomp[1], abs=1e-3)
    errors = [made.naive.error["Intercept"], made.naive.error["x"]]
    assert errors == pytest.approx(reference.bse[:2], rel=1e-2)


def test_random_slopes_are_those_of_statsmodels():
    data = draw_records(2)
    frame = pd.DataFrame(data.to_dict(as_series=False))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = smf.mixedlm("y ~ x", frame, groups="school", re_formula="x").fit()
    x = np.column_stack([np.ones(data.height), data["x"]])
    found = fit_linear_mixed_model(x, data["y"].to_numpy(), [(data["school"].to_numpy(), (0, 1))])
    assert found.beta == pytest.approx(reference.params[:2].to_numpy(), abs=1e-4)
    np.testing.assert_allclose(found.between[0], reference.cov_re.to_numpy(), atol=2e-3)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3), st.lists(st.floats(0.0, 1.5), min_size=9))
def test_the_profiled_deviance_is_that_of_the_dense_covariance(seed, count, sizes):
    rng = np.random.default_rng(seed)
    n = 40
    x = np.column_stack([np.ones(n), rng.normal(size=n)])
    y = rng.normal(size=n)
    factors = [
        (rng.integers(0, 3 + 2 * i, n), (0, 1) if rng.uniform() < 0.5 else (int(i % 2),))
        for i in range(count)
    ]
    likelihood = RestrictedLikelihood(x, y, factors)
    theta = np.array(sizes[: len(likelihood.first)])
    covariance = np.eye(n)
    for factor, (groups, random) in zip(likelihood.build_factors(theta), factors, strict=True):
        same = groups[:, None] == groups[None, :]
        columns = x[:, list(random)]
        covariance += same * (columns @ factor @ factor.T @ columns.T)
    inverse = np.linalg.inv(covariance)
    gram = x.T @ inverse @ x
    beta = np.linalg.solve(gram, x.T @ inverse @ y)
    square = float((y - x @ beta) @ inverse @ (y - x @ beta))
    deviance = np.linalg.slogdet(covariance)[1] + np.linalg.slogdet(gram)[1]
    found = likelihood.profile(theta)
    assert found.deviance == pytest.approx(deviance + (n - 2) * np.log(square / (n - 2)), abs=1e-7)
    assert found.beta == pytest.approx(beta, abs=1e-8)
    np.testing.assert_allclose(found.inverse, np.linalg.inv(gram), atol=1e-8)


# Draws


def draw_densely(data: pl.DataFrame, by: list[str], draws: int) -> np.ndarray:
    """Without noise: coefficients and all effects in one dense normal draw, then variances.

    Flat priors of coefficients and of variances between groups, 1 / variance for residuals.
    """
    rng = np.random.default_rng(8)
    y, x = data["y"].to_numpy(), np.column_stack([np.ones(data.height), data["x"]])
    dummies = [np.eye(data[name].to_numpy().max() + 1)[data[name].to_numpy()] for name in by]
    design = np.column_stack([x, *dummies])
    owner = np.repeat(np.arange(len(by) + 1), [2, *(block.shape[1] for block in dummies)])
    gram, right = design.T @ design, design.T @ y
    variances, residual, kept = np.ones(len(by)), 1.0, []
    for _ in range(draws):
        prior = np.append(0.0, 1 / variances)[owner]
        lower = np.linalg.cholesky(gram / residual + np.diag(prior))
        mean = np.linalg.solve(lower, right / residual)
        value = np.linalg.solve(lower.T, mean + rng.standard_normal(len(mean)))
        rest = y - design @ value
        residual = rest @ rest / 2 / rng.standard_gamma(len(y) / 2)
        for i in range(len(by)):
            own = value[owner == i + 1]
            variances[i] = own @ own / 2 / rng.standard_gamma((len(own) - 2) / 2)
        kept.append([*value[:2], residual, *variances])
    return np.array(kept[draws // 10 :])


@pytest.mark.parametrize("nested", [False, True])
def test_draws_without_noise_are_those_of_a_dense_gibbs_sampler(nested):
    data = draw_records(3, 120, nested=nested)
    formula = "y ~ x + (1 | area/school)" if nested else "y ~ x + (1 | school) + (1 | area)"
    found = sf.fit(formula, data, noise={}, draws=800, chains=1)
    reference = draw_densely(data, ["school", "area"], 3000)
    fine = "area:school" if nested else "school"
    names = ["Intercept", "x", "residual variance"]
    names += [f"variance of Intercept by {name}" for name in (fine, "area")]
    table = found.summary().loc[names]
    # Medians, since the variance of eight areas has a long tail.
    middles = np.median(np.asarray(found.draws[names].to_numpy(), float), axis=0)
    distance = np.abs(middles - np.median(reference, axis=0))
    quartiles = np.subtract(*np.quantile(reference, [0.75, 0.25], axis=0))
    assert (distance < 0.25 * quartiles).all(), (table, np.median(reference, axis=0))
    assert found.engine == "metropolis"


@pytest.mark.parametrize("name", ["crossed", "slope_variance"])
def test_with_noise_the_truth_is_found_where_the_naive_fit_is_biased(name):
    design = DESIGNS[name]
    frame, noise = release(design, 1)
    found = sf.fit(design.formula, frame, noise=noise, draws=200, chains=1)
    row = found.summary().loc[design.term]
    assert row["low"] < design.true < row["high"]
    far = 3 * found.naive.error[design.term] if name == "crossed" else design.true - row["low"]
    assert row["naive"] < design.true - far


@pytest.mark.study
@pytest.mark.parametrize("name", ["crossed", "nested", "crossed_logit", "slopes", "weighted"])
def test_intervals_cover_the_truth(name):
    results = [fit_data_set(DESIGNS[name], seed) for seed in range(20)]
    assert abs(np.mean([result["bias"] for result in results])) < 0.8
    assert sum(result["inside"] for result in results) >= 16


def test_slopes_of_a_noised_number_may_differ_by_a_further_factor():
    frame, noise = release(DESIGNS["crossed"], 2)
    formula = "y ~ x + z + (1 + x | school) + (0 + x | area) + (1 | area)"
    found = sf.fit(formula, frame, noise=noise, draws=60, chains=1)
    assert found.parameters[3:] == (
        "residual variance",
        "variance of Intercept by school",
        "variance of x by school",
        "covariance of Intercept and x by school",
        "variance of x by area",
        "variance of Intercept by area",
        "correlation of Intercept and x by school",
    )
    table = found.summary()
    assert np.isfinite(table["mean"]).all()
    assert table.loc["correlation of Intercept and x by school", ["low", "high"]].abs().max() <= 1
    assert table.loc["correlation of Intercept and x by school", "naive"] == pytest.approx(
        table.loc["covariance of Intercept and x by school", "naive"]
        / np.sqrt(table.loc["variance of Intercept by school", "naive"]
                  * table.loc["variance of x by school", "naive"])
    )  # fmt: skip


def test_categories_and_groups_own_values_go_with_several_factors():
    rng = np.random.default_rng(4)
    frame, noise = release(DESIGNS["crossed"], 3)
    size, kind = rng.normal(size=15), rng.integers(0, 2, frame.height)
    flipped = rng.uniform(size=frame.height) < 0.1
    frame = frame.with_columns(
        size=pl.Series(size[frame["area"]] + rng.normal(scale=0.3, size=15)[frame["area"]]),
        kind=pl.Series(np.where(flipped, 1 - kind, kind)),
        y=frame["y"] + pl.Series(size[frame["area"]] + kind),
    )
    noise |= {
        "size": sf.Gaussian(variance=0.09),
        "kind": sf.Misclassification(levels=[0, 1], matrix=[[0.9, 0.1], [0.1, 0.9]]),
    }
    formula = "y ~ x + C(kind) + size + (1 | school) + (1 | area)"
    found = sf.fit(formula, frame, noise=noise, draws=100, chains=1)
    table = found.summary()
    assert abs(table["mean"].iloc[2] - 1) < 4 * table["sd"].iloc[2]
    assert abs(table.loc["size", "mean"] - 1) < 4 * table.loc["size", "sd"]
    # The factor whose groups share a value comes first.
    assert table.index[5].endswith("by area")


def test_the_order_of_records_does_not_matter():
    frame, noise = release(DESIGNS["nested"], 5)
    frame = frame[:200]
    fits = [
        sf.fit(DESIGNS["nested"].formula, some, noise=noise, draws=5, chains=1)
        for some in (frame, frame.sample(fraction=1.0, shuffle=True, seed=1))
    ]
    assert fits[0].sampled is not None
    np.testing.assert_array_equal(fits[0].sampled, fits[1].sampled)


def test_fitted_values_hold_the_effects_of_all_factors():
    data = draw_records(6)
    found = sf.fit("y ~ x + (1 | school) + (1 | area)", data, noise={}, draws=40, chains=1)
    value = found.estimates.value
    x = np.column_stack([np.ones(data.height), data["x"]])
    covariance = value["residual variance"] * np.eye(data.height)
    between = np.zeros_like(covariance)
    for name in ("school", "area"):
        same = data[name].to_numpy()[:, None] == data[name].to_numpy()
        between += value[f"variance of Intercept by {name}"] * same
    line = x @ [value["Intercept"], value["x"]]
    fitted = line + between @ np.linalg.solve(between + covariance, data["y"].to_numpy() - line)
    frame = found.diagnostics_frame()
    assert np.sort(frame["fitted"].to_numpy()) == pytest.approx(np.sort(fitted), abs=1e-3)


@pytest.mark.parametrize(
    ("formula", "options", "says"),
    [
        ("y ~ x + (1 | school) + (1 + x | school)", {}, "same effect by 'school' twice"),
        ("y ~ x + (1 | school) + (1 | area)", {"method": "calibration"}, "one grouping factor"),
        ("y ~ x + (1 | school) + (1 | area)", {"method": "moments"}, "several grouping factors"),
        ("y ~ x + (1 | school) + (1 | two)", {}, "2 groups of 'two'"),
        ("y ~ x + a + s + (1 | school) + (1 | area)", {}, "not of the same grouping factor: "),
        ("y ~ x + a + (1 + a | area) + (1 | school)", {}, "'a' cannot differ by group"),
        ("y ~ x + (1 | school) + (1 | nowhere)", {}, "nowhere"),
    ],
)
def test_what_cannot_be_fitted_is_refused(formula, options, says):
    data = draw_records(7)
    rng = np.random.default_rng(7)
    data = data.with_columns(
        two=pl.Series(np.arange(data.height) % 2),
        a=pl.Series(rng.normal(size=8)[data["area"]]),
        s=pl.Series(rng.normal(size=24)[data["school"]]),
    )
    noise = {name: sf.Gaussian(variance=0.1) for name in ("x", "a", "s")}
    with pytest.raises(SfumatoError, match=says):
        sf.fit(formula, data, noise=noise, draws=10, chains=1, **options)


def test_generalised_models_have_several_factors_and_say_what_is_missing(tmp_path):
    frame, _ = release(DESIGNS["crossed_logit"], 1)
    frame.filter(pl.col("area") < 8).write_csv(tmp_path / "data.csv")
    (tmp_path / "noise.toml").write_text('[x]\ndistribution = "gaussian"\nvariance = 0.3\n')
    command = ["fit", "y ~ x + (1 + x | school) + (1 | area)", str(tmp_path / "data.csv")]
    command += ["--noise", str(tmp_path / "noise.toml"), "--family", "bernoulli", "--json"]
    answer = CliRunner().invoke(app, [*command, "--draws", "20", "--chains", "1"])
    told = json.loads(answer.stdout)
    terms = [row["term"] for row in told["summary"]]
    assert "variance of Intercept by area" in terms
    assert "correlation of Intercept and x by school" in terms
    assert all(row["low"] <= row["mean"] <= row["high"] for row in told["summary"])
    assert any("no plain fit of a bernoulli model with several" in note for note in told["notes"])
    assert any("8 groups of 'area'" in warning for warning in told["warnings"])
    with pytest.raises(MeasureError, match="no quick look"):
        sf.fit(
            "y ~ x + (1 | school) + (1 | area)", frame, family="bernoulli", method="simex",
            noise={"x": sf.Gaussian(variance=0.3)},
        )  # fmt: skip
