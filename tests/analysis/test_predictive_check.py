"""Posterior predictive checks, and what is done where residuals have several variances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmarks.study_designs import DESIGNS, fit_data_set, release

import sfumato as sf
from sfumato.analysis.fit_warnings import check_agreement
from sfumato.analysis.naive_fit import Estimates
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
