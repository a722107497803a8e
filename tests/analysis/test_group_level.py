"""Noised predictors of groups: one true value and one draw of the noise for all of a group."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.analysis.group_level import mark_group_level, spread_over_groups
from sfumato.analysis.problem import NoisyNumber, Problem, Sampling, Term
from sfumato.analysis.samplers.metropolis import sampler as metropolis
from sfumato.errors import MeasureError

NOISE = {"g": sf.Gaussian(variance=0.5)}


def make_schools(
    seed: int, schools: int = 150, pupils: int = 8, family: str = "gaussian"
) -> pl.DataFrame:
    """Schools with a noised number g, coefficient 0.5, and pupils with a clean one."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(schools), pupils)
    z, g = rng.normal(size=len(group)), rng.normal(size=schools)
    eta = 1 + 0.5 * g[group] + 0.7 * z + 0.5 * rng.normal(size=schools)[group]
    y = eta + rng.normal(size=len(group))
    if family == "bernoulli":
        y = (rng.uniform(size=len(group)) < 1 / (1 + np.exp(-eta))).astype(float)
    released = g + np.sqrt(0.5) * rng.normal(size=schools)
    return pl.DataFrame({"y": y, "g": released[group], "z": z, "school": group})


def test_a_value_that_is_the_same_in_every_group_is_one_of_groups():
    groups = np.repeat(np.arange(20), 5)
    rng = np.random.default_rng(1)
    shared = rng.normal(size=20)[groups]
    shared[3] = np.nan
    numbers = {
        "school": NoisyNumber(name="school", observed=shared, variance=0.1),
        "pupil": NoisyNumber(name="pupil", observed=rng.normal(size=100), variance=0.1),
        "y": NoisyNumber(name="y", observed=rng.normal(size=20)[groups], variance=0.1),
    }
    marked, _, ordered = mark_group_level(numbers, {}, "y", {0: groups})
    assert list(ordered) == [0]
    assert {name: number.by_group for name, number in marked.items()} == {
        "school": True, "pupil": False, "y": False,
    }  # fmt: skip
    # One pupil lacks the value; the school has it.
    assert np.isfinite(marked["school"].observed).all()
    assert not any(number.by_group for number in mark_group_level(numbers, {}, "y", {})[0].values())
    # What schools have is theirs, also where classes within schools are a factor of their own.
    classes = np.arange(100) // 2
    for factors in ({0: groups, 1: classes}, {0: classes, 1: groups}):
        marked, _, ordered = mark_group_level(numbers, {}, "y", factors)
        assert marked["school"].by_group
        assert np.array_equal(next(iter(ordered.values())), groups)
        assert sorted(ordered) == [0, 1]
    # Groups of one record each say nothing of it.
    assert spread_over_groups(rng.normal(size=(5, 1)), np.arange(5)) is None


def simulate_balanced(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(60), 6)
    g = rng.normal(size=60)
    y = 1 + 0.8 * g[group] + 0.5 * rng.normal(size=60)[group] + rng.normal(size=360)
    return y, g + 0.6 * rng.normal(size=60), group


def sample_reference(y: np.ndarray, released: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Slope and variance between groups, by weighted draws that share nothing with the engine.

    Means of groups and released values are bivariate normal. Their covariance S is drawn from what
    the data say of it, and has one slope, true variance and variance between groups; a prior that
    is uniform in those has the density 1 / (true variance) in S.
    """
    rng = np.random.default_rng(5)
    groups, size = len(released), len(y) // len(released)
    means = np.bincount(group, y) / size
    within = float(((y - means[group]) ** 2).sum())
    pairs = np.column_stack([means, released])
    scatter = np.cov(pairs.T) * (groups - 1)
    residual = within / (2 * rng.standard_gamma((len(y) - groups) / 2, 400_000))
    # A flat prior on S and on the means: inverse Wishart with groups - 1 - 3 degrees of freedom.
    freedom = groups - 4
    root = np.linalg.cholesky(scatter)
    a = np.sqrt(rng.chisquare(freedom, 400_000))
    c = np.sqrt(rng.chisquare(freedom - 1, 400_000))
    b = rng.standard_normal(400_000)
    # The inverse of [[a, 0], [b, c]] for each draw.
    half = np.zeros((400_000, 2, 2))
    half[:, 0, 0], half[:, 1, 1], half[:, 1, 0] = 1 / a, 1 / c, -b / (a * c)
    half = root @ half.transpose(0, 2, 1)
    drawn = half @ half.transpose(0, 2, 1)
    true = drawn[:, 1, 1] - 0.36
    slope = drawn[:, 0, 1] / true
    between = drawn[:, 0, 0] - slope**2 * true - residual / size
    possible = (true > 0) & (between > 0)
    weight = np.where(possible, 1 / np.maximum(true, 1e-9), 0.0)
    rows = rng.choice(len(weight), 40_000, p=weight / weight.sum())
    return np.column_stack([slope[rows], between[rows]])


def test_draws_have_the_distribution_of_an_independent_reference():
    y, released, group = simulate_balanced(2)
    number = NoisyNumber(name="g", observed=released[group], variance=0.36, by_group=True)
    problem = Problem(
        family="gaussian",
        link="identity",
        y=y,
        numbers=(number,),
        error=np.array([[0.36]]),
        terms=(Term(name="Intercept"), Term(name="g", numbers=((0, None),))),
        covariates=np.ones((len(y), 1)),
        groups=group,
        random=(0,),
        shape="normal",
    )
    draws = metropolis.sample(problem, Sampling(chains=2, draws=700, warmup=300)).draws
    ours = draws.reshape(-1, draws.shape[-1])[:, [1, 3]]
    reference = sample_reference(y, released, group)
    spread = reference.std(axis=0)
    for share in (0.1, 0.5, 0.9):
        distance = np.quantile(ours, share, axis=0) - np.quantile(reference, share, axis=0)
        assert (np.abs(distance) < 0.25 * spread).all()


def look(method: Any, seed: int) -> sf.Fit:
    data = make_schools(seed)
    return sf.fit("y ~ g + z + (1 | school)", data, noise=NOISE, method=method)


def test_corrected_moments_take_the_noise_of_groups_out():
    fits = [look("moments", seed) for seed in range(16)]
    values = {name: np.mean([fit.estimates.value[name] for fit in fits]) for name in ("g", "z")}
    assert values["g"] == pytest.approx(0.5, abs=0.05)
    assert values["z"] == pytest.approx(0.7, abs=0.02)
    assert np.mean([fit.naive.value["g"] for fit in fits]) < 0.38
    # Errors are as large as the slopes vary.
    spread = np.std([fit.estimates.value["g"] for fit in fits], ddof=1)
    assert np.mean([fit.estimates.error["g"] for fit in fits]) == pytest.approx(spread, rel=0.5)


def test_other_quick_looks_agree_with_corrected_moments():
    moments, calibration, simex = (
        look(method, 3) for method in ("moments", "calibration", "simex")
    )
    value, naive = moments.estimates.value["g"], moments.naive.value["g"]
    assert calibration.estimates.value["g"] == pytest.approx(value, abs=0.02)
    assert calibration.estimates.error["g"] == pytest.approx(moments.estimates.error["g"], rel=0.3)
    # A parabola goes a little less far than it should.
    way = (simex.estimates.value["g"] - naive) / (value - naive)
    assert 0.5 < way < 1.0
    # One draw for each pupil would be the noise of an eighth, and the rest of it naive.
    assert value > 1.3 * naive


def fit_shortly(formula: str, data: pl.DataFrame, noise: dict[str, Any], **options: Any) -> sf.Fit:
    return sf.fit(formula, data, noise=noise, draws=80, chains=2, shape="normal", **options)


@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
def test_the_posterior_of_two_levels(family):
    fit = fit_shortly(
        "y ~ g + z + (1 | school)", make_schools(3, family=family), NOISE, family=family
    )
    calibrated = sf.fit(
        "y ~ g + z + (1 | school)", make_schools(3, family=family), noise=NOISE, family=family,
        method="calibration",
    )  # fmt: skip
    row = fit.summary().loc["g"]
    assert row["mean"] == pytest.approx(calibrated.estimates.value["g"], abs=1.0 * row["sd"])
    assert row["mean"] > row["naive"] + 0.08
    assert row["sd"] > 1.2 * fit.naive.error["g"]


def test_products_functions_and_records_own_noise_beside_it():
    data = make_schools(4, schools=80)
    rng = np.random.default_rng(9)
    x = 0.5 * data["g"].to_numpy() + rng.normal(size=len(data))
    data = data.with_columns(
        y=data["y"] + 0.4 * data["z"] * data["g"] + pl.Series(x),
        x=pl.Series(x + 0.5 * rng.normal(size=len(data))),
    )
    noise = {**NOISE, "x": sf.Gaussian(variance=0.25)}
    fit = fit_shortly("y ~ x + g * z + I(g ** 2) + (1 | school)", data, noise)
    assert fit.engine == "metropolis"
    means = fit.summary()["mean"]
    assert means["x"] == pytest.approx(1, abs=0.2)
    assert 0.2 < means["g:z"] < 1.2
    assert np.isfinite(means).all()


def test_a_category_of_groups():
    rng = np.random.default_rng(6)
    group = np.repeat(np.arange(120), 8)
    kind = rng.integers(0, 2, size=120)
    y = 1 + 1.0 * kind[group] + 0.5 * rng.normal(size=120)[group] + rng.normal(size=960)
    released = np.where(rng.uniform(size=120) < 0.2, 1 - kind, kind)
    data = pl.DataFrame({"y": y, "k": released[group], "s": group})
    noise = {"k": sf.Misclassification(levels=[0, 1], matrix=[[0.8, 0.2], [0.2, 0.8]])}
    fit = fit_shortly("y ~ k + (1 | s)", data, noise)
    moments = sf.fit("y ~ k + (1 | s)", data, noise=noise, method="moments")
    row = fit.summary().loc["k"]
    assert row["naive"] < 0.75
    assert abs(row["mean"] - 1) < 3 * row["sd"]
    assert abs(moments.estimates.value["k"] - row["mean"]) < 3 * row["sd"]
    # Of 120 schools a fifth is wrong: 960 pupils taken for themselves would know better.
    assert row["sd"] > 0.1


def test_two_numbers_with_correlated_noise():
    rng = np.random.default_rng(8)
    group = np.repeat(np.arange(100), 5)
    true = rng.normal(size=(100, 2))
    covariance = [[0.4, 0.2], [0.2, 0.4]]
    noise = rng.multivariate_normal([0, 0], covariance, size=100)
    y = (true @ [0.5, -0.5])[group] + 0.4 * rng.normal(size=100)[group] + rng.normal(size=500)
    data = pl.DataFrame({"y": y, "s": group}).with_columns(
        a=pl.Series((true + noise)[group, 0]), b=pl.Series((true + noise)[group, 1])
    )
    described = sf.CorrelatedGaussian(
        variables=["a", "b"], weight=1.0, mean=[0.0, 0.0], covariance=covariance
    )
    fit = fit_shortly("y ~ a + b + (1 | s)", data, {"a": described, "b": described})
    summary = fit.summary()
    assert (
        abs(summary.loc[["a", "b"], "mean"] - [0.5, -0.5]) < 3 * summary["sd"][["a", "b"]]
    ).all()
    assert (summary["sd"][["a", "b"]] > 1.2 * np.array([fit.naive.error[x] for x in "ab"])).all()


def test_what_no_model_of_groups_can_tell_is_refused():
    data = make_schools(1, schools=20)
    with pytest.raises(MeasureError, match="cannot differ by group"):
        sf.fit("y ~ g + (1 + g | school)", data, noise=NOISE)
    described = sf.CorrelatedGaussian(
        variables=["g", "z"], weight=1.0, mean=[0.0, 0.0], covariance=[[0.5, 0.1], [0.1, 0.5]]
    )
    with pytest.raises(MeasureError, match="drawn once for each group"):
        sf.fit("y ~ g + z + (1 | school)", data, noise={"g": described, "z": described})
    few = make_schools(1, schools=4)
    with pytest.raises(MeasureError, match="groups"):
        sf.fit("y ~ g + z + (1 | school)", few, noise=NOISE)


def test_without_clusters_in_the_model_of_true_values():
    data = make_schools(2, schools=60)
    fit = fit_shortly("y ~ g + z + (1 | school)", data, NOISE, clustered=False)
    assert fit.summary().loc["g", "mean"] > fit.naive.value["g"]


def test_the_order_of_records_does_not_matter():
    data = make_schools(2, schools=30)
    first = fit_shortly("y ~ g + z + (1 | school)", data, NOISE)
    second = fit_shortly("y ~ g + z + (1 | school)", data.sample(fraction=1, shuffle=True, seed=1),
                         NOISE)  # fmt: skip
    assert first.sampled is not None
    np.testing.assert_array_equal(first.sampled, second.sampled)
