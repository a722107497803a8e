"""Posterior predictive checks, and what is done where residuals have several variances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmarks.study_designs import DESIGNS, fit_data_set, release
from scipy import stats
from tests.analysis.general_problems import curved_case

import sfumato as sf
from sfumato.analysis import predictive_check
from sfumato.analysis.fit_warnings import check_agreement
from sfumato.analysis.naive_fit import Estimates
from sfumato.analysis.predictive_check import _Statistic
from sfumato.analysis.result import Fit


def fit(name: str, seed: int = 0, **options: Any) -> Fit:
    """A fit of a data set of a design, with few draws."""
    design = DESIGNS[name]
    frame, noise = release(design, seed)
    settings: dict[str, Any] = {"draws": 150, "chains": 2, **options}
    return sf.fit(design.formula, frame, noise=noise, family=design.family, **settings)


@pytest.mark.parametrize("name", ["spread_1.8_0.6", "logit_spread_1.8_0.6"])
def test_the_check_fires_where_the_remedy_is_switched_off(name: str) -> None:
    """One spread for both groups: the simulated release differs from the received one."""
    failed = [x for x in fit(name, shape="normal").warnings if x.startswith("Check failed")]
    assert any("'x'" in warning and "SD in a" in warning for warning in failed)


def test_a_failed_check_names_no_level_and_no_value_of_a_record() -> None:
    """Statistics of many records, and variables: nothing else."""
    warnings = fit("spread_1.8_0.6", shape="normal").warnings
    (warning,) = [x for x in warnings if "does not reproduce" in x]
    assert "group of 'z'" in warning
    assert "z = " not in warning


@pytest.mark.parametrize("name", ["hetero_group", "hetero_number", "hetero_x"])
def test_several_residual_variances_are_found_and_answered(name: str) -> None:
    """Coverage was 0.81 without a warning: draws now come from resampled corrected moments."""
    result = fit(name)
    assert result.engine == "resampled moments"
    assert any("residual variance is not the same" in note for note in result.notes)
    row = result.summary().loc[DESIGNS[name].term]
    # The same as the sandwich, which assumes no variance either.
    assert result.moments is not None
    assert row["mean"] == pytest.approx(row["moments"], abs=0.2 * row["sd"])
    assert row["sd"] == pytest.approx(result.moments.error[DESIGNS[name].term], rel=0.2)


def test_there_is_no_false_alarm_where_nothing_is_special() -> None:
    """A test of level 1 %: in ten data sets there is none."""
    for name in ("plain", "skewed"):
        results = [fit_data_set(DESIGNS[name], seed) for seed in range(5)]
        assert {result["engine"] for result in results} == {"saturated"}
        assert not any(result["warned"] for result in results)


def test_residuals_of_groups_are_only_warned_of() -> None:
    """Resampled moments have no random effects; the warning says what is wrong."""
    rng = np.random.default_rng(7)
    design = DESIGNS["two_level"]
    frame, noise = release(design, 0)
    y = frame["y"].to_numpy() + np.where(frame["z"].to_numpy() == 1, 3.0, 0.0) * rng.normal(
        size=frame.height
    )
    result = sf.fit(design.formula, frame.with_columns(y=y), noise=noise, draws=150, chains=2)
    assert any(x.startswith("Check failed: the residual variance") for x in result.warnings)
    assert result.engine != "resampled moments"


def test_moments_that_differ_count_as_a_failed_check() -> None:
    """Both rest on the same records: the difference is judged by the error of the difference."""
    row = {"term": "x:z", "mean": 0.87, "sd": 0.1, "moments": 0.5, "mcse": 0.002}
    close = {**row, "mean": 0.55}
    moments = Estimates(value={"x:z": 0.5}, error={"x:z": 0.11})
    assert check_agreement([row], moments)[0].startswith("Check failed")
    assert check_agreement([close], moments) == []


def test_a_linear_model_that_contradicts_corrected_moments_is_not_used() -> None:
    """Spread of x and of residuals differ by z: one residual variance biased x:z by 4 SD."""
    result = fit("hetero_product")
    assert result.engine == "resampled moments"
    row = result.summary().loc["x:z"]
    assert abs(row["mean"] - 0.5) < 3 * row["sd"]


# The parts of the check, one by one.


def test_residuals_are_those_of_the_formula_with_released_numbers() -> None:
    problem = curved_case(300, 4).problem
    released = problem.numbers[0].observed.copy()
    released[:5] = np.nan
    y = problem.y.copy()
    y[7] = np.nan
    filled = np.where(np.isnan(released), np.nanmean(released), released)
    z = problem.covariates[:, 1]
    x = np.column_stack([np.ones(300), z, filled, filled**2, filled * z])
    known = np.isfinite(y)
    expected = y - x @ np.linalg.lstsq(x[known], y[known], rcond=None)[0]
    found = predictive_check._regress_outcome(problem, released[:, None], y)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_moments_of_strata_that_have_thirty_records() -> None:
    values = np.random.default_rng(1).exponential(size=90)
    values[3] = np.nan
    codes = np.repeat([0, 1, 2], [30, 31, 29])
    found = predictive_check._moments_by_stratum(values, codes)
    assert len(found) == 2
    for code, moments in enumerate(found):
        part = values[codes == code]
        part = part[np.isfinite(part)]
        assert moments == pytest.approx((part.mean(), part.std(), stats.skew(part)))


def test_thirds_are_equally_large_and_what_is_missing_is_in_the_first() -> None:
    values = np.append(np.random.default_rng(2).permutation(99.0 * np.arange(99)), np.nan)
    thirds = predictive_check._cut_into_thirds(values)
    assert np.bincount(thirds).tolist() == [34, 33, 33]
    assert values[thirds == 2].min() > values[thirds == 1].max()
    assert predictive_check._cut_into_thirds(np.full(3, np.nan)).tolist() == [0, 0, 0]


def test_a_statistic_fails_from_one_in_a_hundred_for_all_together_on() -> None:
    names = [("x", "mean"), ("x", "SD"), ("", "SD")]
    # 80 simulated values of mean 0 and SD 1.
    simulated = np.tile([-1.0, 1.0], 40) * np.sqrt(79 / 80)
    rows = [[_Statistic(*name, "", value) for name in names] for value in simulated]

    def compare(*received: float, with_numbers: bool = True) -> list[tuple[str, str, float]]:
        given = [_Statistic(*name, "", value) for name, value in zip(names, received, strict=True)]
        found = predictive_check._compare(given, rows, with_numbers=with_numbers)
        assert all(one.received == pytest.approx(one.distance) for one in found)
        return [(one.variable, one.statistic, round(one.distance, 9)) for one in found]

    limit = float(stats.t.isf(0.01 / 2 / 3, 79))
    inside, outside = round(limit - 1e-6, 9), round(limit + 1e-6, 9)
    assert compare(inside, -inside, inside) == []
    assert compare(outside, -9.0, inside) == [("x", "SD", -9.0), ("x", "mean", outside)]
    # Where numbers are not compared, there is one statistic and not three.
    alone = round(float(stats.t.isf(0.01 / 2, 79)) + 1e-6, 9)
    assert compare(99.0, 99.0, alone, with_numbers=False) == [("", "SD", alone)]


def test_group_means_are_shrunk_by_what_chance_explains() -> None:
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(50), 4)
    values = rng.normal(size=50)[groups] + rng.normal(size=200)
    found = predictive_check._shrink_group_means(values[:, None], groups)[:, 0]
    means = values.reshape(50, 4).mean(axis=1)
    within = ((values - means[groups]) ** 2).mean()
    between = means.var() - within / 4
    assert 0.5 < between < 2
    np.testing.assert_allclose(found, (means * between / (between + within / 4))[groups])
    # Nothing is left of means that differ less than by chance.
    level = np.tile([1.0, -1.0, 1.0, -1.0], 50)[:, None]
    assert not predictive_check._shrink_group_means(level, groups).any()
