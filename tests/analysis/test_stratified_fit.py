"""Noise that differs by stratum: every way of fitting, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.analysis.result import Method
from sfumato.errors import DataError, MeasureError
from sfumato.noise.description import StratifiedGaussian

KEY = sf.Key(bytes(range(32)))


def simulate_records(n: int = 1500, seed: int = 3) -> pl.DataFrame:
    """True values that vary more in one stratum than in the other, and lie higher."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    x = sex + rng.normal(size=n) * np.where(sex == 1, 1.5, 0.8)
    z = 0.4 * x + rng.normal(size=n)
    y = 1 + x - 0.5 * z + rng.normal(size=n)
    return pl.DataFrame({"y": y, "x": x, "z": z, "sex": sex})


def release(frame: pl.DataFrame, names: list[str]) -> sf.Release:
    roles: dict[str, Any] = {"y": "sensitive", "x": "quasi", "z": "quasi", "sex": "quasi"}
    data = sf.Dataset(frame, sf.Schema(roles))
    step = sf.methods.CorrelatedNoise(variables=names, strata=["sex"], noise_share=0.4, partly=True)
    return sf.protect(data, sf.Plan(schema=data.schema, steps=[step]), key=KEY)


@pytest.fixture(scope="module")
def release_of_x() -> sf.Release:
    return release(simulate_records(), ["x"])


@pytest.mark.parametrize("method", ["moments", "calibration", "posterior"])
def test_it_is_taken_out(release_of_x, method: Method):
    summary = sf.fit("y ~ x + z", release_of_x, method=method, draws=200).summary()
    for term, true in {"Intercept": 1, "x": 1, "z": -0.5}.items():
        assert abs(summary.loc[term, "mean"] - true) < 3.5 * summary.loc[term, "sd"] < 0.3
    assert summary.loc["x", "naive"] < 0.7


def test_simulation_and_extrapolation_goes_a_part_of_the_way(release_of_x):
    row = sf.fit("y ~ x + z", release_of_x, method="simex").summary().loc["x"]
    assert row["naive"] + 0.15 < row["mean"] < 1.1


def test_a_folder_gives_the_same(release_of_x, tmp_path):
    folder = release_of_x.write(tmp_path / "out")
    first, second = (sf.fit("y ~ x", data, method="moments") for data in (release_of_x, folder))
    assert first.estimates.value == second.estimates.value


def test_the_order_of_records_does_not_show():
    frame = simulate_records(400)
    noise = {
        "x": StratifiedGaussian(
            variables=["x"], weight=0.9,
            strata=[
                {"where": {"sex": sex}, "mean": [0.1 * sex], "covariance": [[0.2 + sex]]}
                for sex in (0, 1)
            ],
        )
    }  # fmt: skip
    for method in ("moments", "calibration", "simex", "posterior"):
        ordered, shuffled = (
            sf.fit("y ~ x + I(x ** 2)", data, noise=noise, method=method, draws=20).estimates
            for data in (frame, frame.sample(fraction=1, shuffle=True, seed=2))
        )
        assert ordered.value == shuffled.value


def test_several_variables_together():
    released = release(simulate_records(), ["x", "z"])
    for method in ("moments", "calibration"):
        summary = sf.fit("y ~ x + z", released, method=method).summary()
        for term, true in {"x": 1, "z": -0.5}.items():
            assert abs(summary.loc[term, "mean"] - true) < 3.5 * summary.loc[term, "sd"] < 0.3
    with pytest.raises(MeasureError, match="differently in each stratum") as caught:
        sf.fit("y ~ x + z", released)
    assert "moments" in caught.value.hint


def test_the_outcome():
    released = release(simulate_records(), ["y"])
    row = sf.fit("y ~ x + z", released, method="moments").summary().loc["x"]
    assert abs(row["mean"] - 1) < 3.5 * row["sd"] < 0.3
    with pytest.raises(MeasureError, match="outcome differs by stratum"):
        sf.fit("y ~ x + z", released)
    with pytest.raises(DataError, match="'y' and 'x' is correlated"):
        sf.fit("y ~ x", release(simulate_records(), ["y", "x"]))


def test_what_it_refuses():
    noise = StratifiedGaussian(
        variables=["x"], weight=0.9,
        strata=[{"where": {"sex": 0}, "mean": [0.0], "covariance": [[0.2]]}],
    )  # fmt: skip
    with pytest.raises(DataError, match="stratum that its description does not name"):
        sf.fit("y ~ x", simulate_records(60), noise={"x": noise})
    with pytest.raises(DataError, match="differs by 'sex', which is not in the data"):
        sf.fit("y ~ x", simulate_records(60).drop("sex"), noise={"x": noise})
    both = {"x": noise, "sex": sf.CodeNoise(variance=0.1, levels=[0, 1])}
    with pytest.raises(DataError, match="differs by 'sex', which was changed"):
        sf.fit("y ~ x + sex", simulate_records(60), noise=both)
    girls = simulate_records(300).filter(pl.col("sex") == 0)
    with pytest.raises(MeasureError, match="no power of it"):
        sf.fit("y ~ exp(x)", girls, noise={"x": noise})
    assert sf.fit("y ~ x", girls, noise={"x": noise}, method="moments").records == girls.height
