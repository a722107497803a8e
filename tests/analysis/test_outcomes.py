"""Overdispersed counts, levels, offsets: against statsmodels without noise, the truth with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import nbinom

import sfumato as sf
from sfumato.analysis.samplers.metropolis.likelihood import (
    cumulative_likelihood,
    differentiate_thresholds,
    log_negative_binomial_constant,
    negative_binomial_likelihood,
)

NOISE = {"x": sf.Gaussian(variance=0.64)}
NO_NOISE = {"x": sf.Gaussian(variance=0.0)}
TRUE = {"Intercept": 0.2, "x": 0.5, "z": 0.3, "dispersion": 0.5}
THRESHOLDS = [-1.0, 0.5, 2.0]


def simulate(records: int, seed: int) -> pl.DataFrame:
    """True values, with outcomes of all kinds; `years` depends on x, which bias would show."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=records)
    x = 0.5 * z + rng.normal(size=records)
    years = np.exp(0.4 * x + 0.5 * rng.normal(size=records))
    mean = np.exp(0.2 + 0.5 * x + 0.3 * z)
    level = np.searchsorted(THRESHOLDS, 0.8 * x - 0.5 * z + rng.logistic(size=records))
    lines = np.column_stack([np.zeros(records), 0.3 + 0.8 * x, -0.2 - 0.6 * x + 0.5 * z])
    kind = (lines + rng.gumbel(size=lines.shape)).argmax(axis=1)
    return pl.DataFrame(
        {
            "x": x,
            "z": z,
            "years": years,
            "counts": rng.poisson(mean * rng.gamma(2.0, 0.5, size=records)),
            "events": rng.poisson(years * mean),
            "level": level,
            "kind": np.array(["a", "b", "c"])[kind],
        }
    )


def add_noise(frame: pl.DataFrame, seed: int) -> pl.DataFrame:
    error = 0.8 * np.random.default_rng(seed).normal(size=frame.height)
    return frame.with_columns(pl.col("x") + error)


def ask(frame: pl.DataFrame, outcome: str, family: str, **options: Any) -> sf.Fit:
    options = {"noise": NO_NOISE, "draws": 250, "chains": 2, **options}
    return sf.fit(f"{outcome} ~ x + z", frame, family=family, **options)


@pytest.fixture(scope="module")
def original() -> pl.DataFrame:
    return simulate(800, 1)


@pytest.fixture(scope="module")
def release(original: pl.DataFrame) -> pl.DataFrame:
    return add_noise(original, 2)


def fit_elsewhere(frame: pl.DataFrame, family: str) -> tuple[np.ndarray, np.ndarray]:
    """Estimates and standard errors by statsmodels, in our order."""
    import statsmodels.api as sm
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    x = frame.select("x", "z").to_numpy()
    columns = sm.add_constant(x)
    if family == "negative_binomial":
        fit = sm.NegativeBinomial(frame["counts"].to_numpy(), columns).fit(disp=0, gtol=1e-8)
    elif family == "poisson":
        offset = np.log(frame["years"].to_numpy())
        fit = sm.GLM(
            frame["events"].to_numpy(), columns, family=sm.families.Poisson(), offset=offset
        ).fit()
    elif family == "multinomial":
        codes = frame["kind"].cast(pl.Enum(["a", "b", "c"])).to_physical().to_numpy()
        fit = sm.MNLogit(codes, columns).fit(disp=0, gtol=1e-8)
        return np.asarray(fit.params).T.ravel(), np.asarray(fit.bse).T.ravel()
    else:
        fit = OrderedModel(frame["level"].to_numpy(), x, distr="logit").fit(
            method="bfgs", disp=0, gtol=1e-8
        )
        thresholds = fit.model.transform_threshold_params(fit.params)[1:-1]
        return np.append(fit.params[:2], thresholds), fit.bse[:3]
    return np.asarray(fit.params), np.asarray(fit.bse)


OUTCOMES = {
    "negative_binomial": "counts", "ordinal": "level", "poisson": "events", "multinomial": "kind"
}  # fmt: skip
TRUE_BY_FAMILY = {
    "negative_binomial": TRUE,
    "poisson": TRUE,
    "ordinal": {"x": 0.8, "z": -0.5, "threshold 1|2": 0.5},
    "multinomial": {"b: x": 0.8, "c: x": -0.6, "c: z": 0.5, "b: z": 0.0},
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", OUTCOMES)
def test_without_noise_it_is_what_statsmodels_says(original: pl.DataFrame, family: str) -> None:
    offset = "log(years)" if family == "poisson" else None
    fit = ask(original, OUTCOMES[family], family, offset=offset)
    values, errors = fit_elsewhere(original, family)
    rows = fit.summary()
    naive = rows["naive"].to_numpy()
    assert naive == pytest.approx(values, abs=2e-4)
    naive_errors = [fit.naive.error[name] for name in rows.index]
    assert naive_errors[: len(errors)] == pytest.approx(errors, rel=1e-3)
    # A posterior mean differs from the maximum by its skewness and the error of 500 draws.
    assert np.all(np.abs(rows["mean"] - naive) < 0.4 * rows["sd"])
    assert rows["sd"].to_numpy()[: len(errors)] == pytest.approx(errors, rel=0.2)


@pytest.mark.parametrize("family", OUTCOMES)
def test_noise_is_taken_out(release: pl.DataFrame, family: str) -> None:
    offset = "log(years)" if family == "poisson" else None
    fit = ask(release, OUTCOMES[family], family, noise=NOISE, offset=offset)
    rows = fit.summary()
    true = TRUE_BY_FAMILY[family]
    for name, value in true.items():
        if name in rows.index:
            row = rows.loc[name]
            assert abs(row["mean"] - value) < 3 * row["sd"], name
            assert row["rhat"] < 1.1
    noised = "b: x" if family == "multinomial" else "x"
    assert abs(fit.naive.value[noised] - true[noised]) > 3 * fit.naive.error[noised]


def test_a_misclassified_level_is_taken_out(original: pl.DataFrame) -> None:
    matrix = np.array([[0.8, 0.2, 0, 0], [0.1, 0.8, 0.1, 0], [0, 0.1, 0.8, 0.1], [0, 0, 0.2, 0.8]])
    rng = np.random.default_rng(4)
    level = original["level"].to_numpy()
    ends = np.cumsum(matrix, axis=1)[level]
    released = (rng.uniform(size=(len(level), 1)) > ends).sum(axis=1)
    frame = original.with_columns(pl.Series("level", released))
    noise = {"level": sf.Misclassification(levels=[0, 1, 2, 3], matrix=matrix.tolist())}
    fit = ask(frame, "level", "ordinal", noise=noise)
    for name, value in {"x": 0.8, "z": -0.5, "threshold 2|3": 2.0}.items():
        row = fit.summary().loc[name]
        assert abs(row["mean"] - value) < 3 * row["sd"], name
    assert fit.naive.value["x"] < 0.75


def test_a_misclassified_kind_is_taken_out(original: pl.DataFrame) -> None:
    matrix = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]
    rng = np.random.default_rng(14)
    codes = original["kind"].cast(pl.Enum(["a", "b", "c"])).to_physical().to_numpy()
    other = (codes + rng.integers(1, 3, len(codes))) % 3
    released = np.where(rng.uniform(size=len(codes)) < 0.2, other, codes)
    frame = original.with_columns(pl.Series("kind", np.array(["a", "b", "c"])[released]))
    noise = {"kind": sf.Misclassification(levels=["a", "b", "c"], matrix=matrix)}
    rows = ask(frame, "kind", "multinomial", noise=noise).summary()
    for name, value in TRUE_BY_FAMILY["multinomial"].items():
        assert abs(rows.loc[name, "mean"] - value) < 3 * rows.loc[name, "sd"], name
    assert rows.loc["b: x", "naive"] < 0.65
    with pytest.raises(sf.SfumatoError, match="not fitted with an offset or with groups"):
        sf.fit("kind ~ x + (1 | level)", frame, family="multinomial", noise=noise, draws=1)


def test_a_slope_by_group_and_an_offset_go_together(original: pl.DataFrame) -> None:
    rng = np.random.default_rng(5)
    group = rng.integers(0, 30, original.height)
    effect = 0.6 * rng.normal(size=30)[group]
    line = -0.5 + 0.4 * original["x"].to_numpy() + effect
    frame = original.with_columns(
        group=pl.Series(group), y=rng.poisson(original["years"].to_numpy() * np.exp(line))
    )
    fit = sf.fit(
        "y ~ x + (1 | group) + offset(log(years))", add_noise(frame, 6), family="poisson",
        noise=NOISE, draws=200, chains=2,
    )  # fmt: skip
    rows = fit.summary()
    assert abs(rows.loc["x", "mean"] - 0.4) < 3 * rows.loc["x", "sd"]
    variance = next(name for name in rows.index if name.startswith("variance of Intercept"))
    assert rows.loc[variance, "low"] < 0.36 < rows.loc[variance, "high"]


def test_an_offset_of_a_linear_model_is_taken_off_the_outcome(original: pl.DataFrame) -> None:
    frame = add_noise(original, 7).with_columns(y=pl.col("counts") * 1.0)
    with_offset = sf.fit("y ~ x + offset(z)", frame, noise=NOISE, method="moments")
    shifted = frame.with_columns(y=pl.col("y") - pl.col("z"))
    without = sf.fit("y ~ x", shifted, noise=NOISE, method="moments")
    assert with_offset.summary()["mean"].to_numpy() == pytest.approx(
        without.summary()["mean"].to_numpy(), rel=1e-9
    )
    fitted = with_offset.diagnostics_frame()
    assert fitted["fitted"].mean() == pytest.approx(frame["y"].mean(), rel=0.05)


REFUSED = {
    "y ~ x + offset(log(x))": "of the offset has noise",
    "y ~ x * offset(z)": "cannot be read",
    "y ~ x + offset(z) + offset(z)": "more than one offset",
    "y ~ x + offset(word)": "is a category",
    "y ~ x + offset(log(z))": "no finite value",
}


@pytest.mark.parametrize("formula", REFUSED)
def test_an_offset_that_cannot_be_used_is_refused(original: pl.DataFrame, formula: str) -> None:
    frame = original.with_columns(y=pl.col("counts"), word=pl.col("kind"))
    with pytest.raises(sf.SfumatoError, match=REFUSED[formula]):
        sf.fit(formula, frame, family="poisson", noise=NOISE, draws=1)


def test_levels_without_an_order_are_refused_and_declared_ones_kept(original: pl.DataFrame) -> None:
    with pytest.raises(sf.SfumatoError, match="in which order"):
        ask(original, "kind", "ordinal", draws=1)
    ordered = original.with_columns(pl.col("kind").cast(pl.Enum(["c", "a", "b"])))
    fit = ask(ordered, "kind", "ordinal", draws=5)
    assert fit.terms[-2:] == ("threshold c|a", "threshold a|b")
    with pytest.raises(sf.SfumatoError, match="three or more"):
        ask(original.with_columns(level=pl.col("level") > 1), "level", "ordinal", draws=1)
    with pytest.raises(sf.SfumatoError, match="needs an intercept"):
        sf.fit("level ~ x - 1", original, family="ordinal", noise=NOISE, draws=1)
    noise = {"counts": sf.Gaussian(variance=1.0)}
    with pytest.raises(sf.SfumatoError, match="negative binomial model does not have"):
        ask(original, "counts", "negative_binomial", noise=noise, draws=1)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.01, 5.0))
def test_likelihoods_are_probabilities(seed: int, dispersion: float) -> None:
    """Of counts against scipy; of levels by differences of the distribution function."""
    rng = np.random.default_rng(seed)
    y, eta = rng.poisson(4.0, 10).astype(float), rng.normal(size=10)
    size = 1 / dispersion
    log = negative_binomial_likelihood(y, eta, dispersion).log
    log = log + log_negative_binomial_constant(y, dispersion)
    assert log == pytest.approx(nbinom.logpmf(y, size, size / (size + np.exp(eta))), abs=1e-6)
    thresholds = np.cumsum(rng.gamma(1.0, size=3) + 0.05) - 1.5
    ends = np.concatenate([[-np.inf], thresholds, [np.inf]])
    codes = rng.integers(0, 4, 10)
    log = cumulative_likelihood(codes, thresholds, eta).log
    assert np.exp(log) == pytest.approx(expit(ends[codes + 1] - eta) - expit(ends[codes] - eta))
    # Derivatives by thresholds are those of the sum of logs.
    shares = np.eye(4)[codes]
    found = differentiate_thresholds(thresholds, eta, shares)
    step = 1e-5 * np.eye(3)
    for index in range(3):
        up, down = thresholds + step[index], thresholds - step[index]
        difference = [cumulative_likelihood(codes, at, eta).log.sum() for at in (up, down)]
        assert found.gradient[index] == pytest.approx(
            (difference[0] - difference[1]) / 2e-5, abs=1e-4
        )
        gradients = [differentiate_thresholds(at, eta, shares).gradient for at in (down, up)]
        assert found.information[index] == pytest.approx(
            (gradients[0] - gradients[1]) / 2e-5, rel=1e-3, abs=1e-3
        )


@pytest.mark.study
def test_draws_of_counts_are_those_of_the_marginal_likelihood() -> None:
    """Against maximum likelihood with true values summed over by another program's quadrature."""
    from scipy.optimize import minimize

    frame = add_noise(simulate(800, 21), 22)
    y, x, z = (frame[name].to_numpy().astype(float) for name in ("counts", "x", "z"))
    nodes, weights = np.polynomial.hermite_e.hermegauss(25)

    def negative_log_likelihood(theta: np.ndarray) -> float:
        *beta, log_dispersion, first, second, log_sd = theta
        size, variance = np.exp(-log_dispersion), np.exp(2 * log_sd)
        total = variance + 0.64
        centre = first + second * z
        mean = centre + variance / total * (x - centre)
        true = mean + np.sqrt(variance * 0.64 / total) * nodes[:, None]
        line = beta[0] + beta[1] * true + beta[2] * z
        chance = nbinom.pmf(y, size, size / (size + np.exp(line)))
        logs = np.log(weights @ chance) - 0.5 * (np.log(total) + (x - centre) ** 2 / total)
        return -float(logs.sum())

    start = np.array([0.2, 0.5, 0.3, -0.7, 0.0, 0.5, 0.0])
    best = minimize(negative_log_likelihood, start, method="BFGS")
    rows = ask(frame, "counts", "negative_binomial", noise=NOISE, draws=2000).summary()
    errors = np.sqrt(np.diag(best.hess_inv))
    for index, name in enumerate(("Intercept", "x", "z")):
        assert rows.loc[name, "mean"] == pytest.approx(best.x[index], abs=0.25 * errors[index])
        assert rows.loc[name, "sd"] == pytest.approx(errors[index], rel=0.15)
    assert rows.loc["dispersion", "mean"] == pytest.approx(np.exp(best.x[3]), rel=0.06)
