"""What a fit leaves of each record, and what the same records would have told without noise."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

import sfumato as sf
from sfumato.errors import MeasureError

COLUMNS = ["fitted", "residual", "standardised", "leverage"]


def frame(
    family: str = "gaussian", n: int = 1500, between: float = 0.6
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Without noise and with it."""
    rng = np.random.default_rng(5)
    group = rng.integers(0, 40, n)
    x, z = rng.normal(size=(2, n))
    line = 0.4 + 0.8 * x - 0.5 * z + between * rng.normal(size=40)[group]
    y = line + rng.normal(size=n)
    if family == "bernoulli":
        y = (rng.random(n) < expit(line)).astype(float)
    if family == "poisson":
        y = rng.poisson(np.exp(line)).astype(float)
    clean = pl.DataFrame({"y": y, "x": x, "z": z, "g": group})
    return clean, clean.with_columns(pl.col("x") + 0.5 * rng.normal(size=n))


def by_record(made: sf.Fit, released: pl.DataFrame) -> pl.DataFrame:
    """The diagnostics beside the records, which are put into the same order."""
    first = "y" if released["y"].is_unique().all() else "x"
    left = released.sort(first).hstack(made.diagnostics_frame())
    np.testing.assert_allclose(left["fitted"] + left["residual"], left["y"], atol=1e-9)
    return left


NOISE = {"x": sf.Gaussian(variance=0.25)}


@pytest.mark.parametrize("family", ["gaussian", "bernoulli", "poisson"])
def test_without_noise_they_are_those_of_statsmodels(family):
    import statsmodels.api as sm

    clean = frame(family)[0].sort("y", "x", "z")
    made = sf.fit("y ~ x + z", clean, noise={}, family=family, method="simex").diagnostics_frame()
    kind = {"gaussian": sm.families.Gaussian(), "bernoulli": sm.families.Binomial(),
            "poisson": sm.families.Poisson()}[family]  # fmt: skip
    x = sm.add_constant(clean.select("x", "z").to_numpy())
    found = sm.GLM(clean["y"].to_numpy(), x, family=kind).fit(tol=1e-12)
    influence = found.get_influence()
    assert made.columns == COLUMNS
    expected = [found.fittedvalues, found.resid_response, influence.resid_studentized,
                influence.hat_matrix_diag]  # fmt: skip
    for name, values in zip(COLUMNS, expected, strict=True):
        np.testing.assert_allclose(made[name].sort(), np.sort(values), rtol=1e-5, atol=1e-7)


def test_with_noise_they_are_those_of_the_expected_values():
    clean, noisy = frame()
    made = sf.fit("y ~ x + z", noisy, noise=NOISE, method="moments").diagnostics_frame()
    plain = sf.fit("y ~ x + z", clean, noise={}, method="moments").diagnostics_frame()
    assert made.height == 1500
    # They hold the noise that is left, and no trend along what was fitted.
    ratio = np.var(made["residual"].to_numpy()) / np.var(plain["residual"].to_numpy())
    assert 1.05 < ratio < 1.3
    assert abs(np.corrcoef(made["fitted"], made["residual"])[0, 1]) < 0.03
    assert np.std(made["standardised"].to_numpy()) == pytest.approx(1, abs=0.01)
    assert made["leverage"].sum() == pytest.approx(3)


def test_noise_shared_with_the_outcome_is_added_again():
    clean, _ = frame(n=3000)
    names = ["y", "x"]
    told = sf.CorrelatedGaussian(
        variables=names, weight=1.0, mean=[0.0, 0.0], covariance=[[0.5, 0.2], [0.2, 0.3]]
    )
    noise = np.random.default_rng(1).multivariate_normal(told.mean, told.covariance, 3000)
    noisy = clean.with_columns(pl.col(name) + noise[:, at] for at, name in enumerate(names))
    made = sf.fit("y ~ x + z", noisy, noise=dict.fromkeys(names, told), method="moments")
    left = made.diagnostics_frame()
    total = (left["fitted"] + left["residual"]).sort()
    np.testing.assert_allclose(total, noisy["y"].sort(), atol=1e-9)


@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
def test_effects_of_groups_are_part_of_what_is_fitted(family):
    _, noisy = frame(family, between=1.2)
    spread = []
    for formula in ("y ~ x + z", "y ~ x + z + (1 | g)"):
        left = by_record(sf.fit(formula, noisy, noise=NOISE, family=family, method="calibration"),
                         noisy)  # fmt: skip
        means = left.group_by("g").agg(pl.mean("residual"))["residual"]
        spread.append(float(np.var(means.to_numpy())))
    # What is left differs by group, unless the effects of groups are part of what was fitted.
    assert spread[1] < 0.3 * spread[0]


@pytest.mark.parametrize("family", ["gaussian", "bernoulli", "poisson"])
def test_effects_of_groups_are_the_likeliest(family):
    clean, _ = frame(family, between=1.2)
    made = sf.fit("y ~ x + z + (1 | g)", clean, noise={}, family=family, method="simex")
    value = made.estimates.value
    line = {"gaussian": pl.col("fitted"), "poisson": pl.col("fitted").log(),
            "bernoulli": (pl.col("fitted") / (1 - pl.col("fitted"))).log()}[family]  # fmt: skip
    fixed = value["Intercept"] + value["x"] * pl.col("x") + value["z"] * pl.col("z")
    each = by_record(made, clean).group_by("g").agg(
        pull=pl.sum("residual"), effect=(line - fixed).mean(), apart=(line - fixed).std()
    )  # fmt: skip
    assert each["apart"].max() == pytest.approx(0, abs=1e-9)
    assert np.std(each["effect"].to_numpy()) > 0.3
    # At the mode what is left of a group's records pulls as hard as the prior pulls back.
    variance = value.get("residual variance", 1.0)
    back = each["effect"] * variance / value["variance of Intercept by group"]
    np.testing.assert_allclose(each["pull"], back, atol=2e-3)


def test_records_without_a_noised_value_and_a_noised_category_as_outcome():
    _, noisy = frame(n=200)
    gaps = noisy.with_columns(pl.when(pl.int_range(200) > 4).then("x").alias("x"))
    made = sf.fit("y ~ x", gaps, noise=NOISE, method="moments").diagnostics_frame()
    assert made.null_count().row(0) == (5, 5, 5, 5)
    two = noisy.with_columns(y=(pl.col("y") > 0).cast(int))
    told = sf.Misclassification(levels=[0, 1], matrix=[[0.9, 0.1], [0.1, 0.9]])
    found = sf.fit("y ~ z", two, noise={"y": told}, family="bernoulli", draws=50)
    with pytest.raises(MeasureError, match="noised category"):
        found.diagnostics_frame()


@pytest.mark.parametrize(
    ("formula", "family"),
    [("y ~ x + z", "bernoulli"), ("y ~ x + z", "poisson"), ("y ~ x + z + (1 | g)", "gaussian"),
     ("y ~ x + z + (1 | g)", "bernoulli")],
)  # fmt: skip
def test_standard_errors_without_noise_are_those_of_the_clean_records(formula, family):
    clean, noisy = frame(family)
    expected = sf.fit(formula, clean, noise={}, family=family, method="simex").naive.error
    made = sf.fit(formula, noisy, noise=NOISE, family=family, draws=200, shape="normal")
    rows = {row["term"]: row for row in made.efficiency_rows}
    for term in ("x", "z"):
        assert rows[term]["se_without_noise"] == pytest.approx(expected[term], rel=0.12)
    assert 0.2 < rows["x"]["realised"] < 1.0
