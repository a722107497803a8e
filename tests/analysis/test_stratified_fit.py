"""Noise that differs by stratum: every way of fitting, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.analysis.result import Method
from sfumato.cells.noise.described import StratifiedGaussian
from sfumato.errors import DataError, MeasureError

KEY = sf.Key(bytes(range(32)))


def records(n: int = 1500, seed: int = 3) -> pl.DataFrame:
    """True values that vary more in one stratum than in the other, and lie higher."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    x = sex + rng.normal(size=n) * np.where(sex == 1, 1.5, 0.8)
    z = 0.4 * x + rng.normal(size=n)
    y = 1 + x - 0.5 * z + rng.normal(size=n)
    return pl.DataFrame({"y": y, "x": x, "z": z, "sex": sex})


def released(frame: pl.DataFrame, names: list[str]) -> sf.Release:
    roles: dict[str, Any] = {"y": "sensitive", "x": "quasi", "z": "quasi", "sex": "quasi"}
    data = sf.Dataset(frame, sf.Schema(roles))
    step = sf.methods.CorrelatedNoise(variables=names, strata=["sex"], noise_share=0.4, partly=True)
    return sf.protect(data, sf.Plan(schema=data.schema, steps=[step]), key=KEY)


@pytest.fixture(scope="module")
def alone() -> sf.Release:
    return released(records(), ["x"])


@pytest.mark.parametrize("method", ["moments", "calibration", "posterior"])
def test_it_is_taken_out(alone, method: Method):
    made = sf.fit("y ~ x + z", alone, method=method, draws=200).summary()
    for term, true in {"Intercept": 1, "x": 1, "z": -0.5}.items():
        assert abs(made.loc[term, "mean"] - true) < 3.5 * made.loc[term, "sd"] < 0.3
    assert made.loc["x", "naive"] < 0.7


def test_simulation_and_extrapolation_goes_a_part_of_the_way(alone):
    row = sf.fit("y ~ x + z", alone, method="simex").summary().loc["x"]
    assert row["naive"] + 0.15 < row["mean"] < 1.1


def test_a_folder_gives_the_same(alone, tmp_path):
    folder = alone.write(tmp_path / "out")
    one, other = (sf.fit("y ~ x", given, method="moments") for given in (alone, folder))
    assert one.estimates.value == other.estimates.value


def test_the_order_of_records_does_not_show():
    frame = records(400)
    told = {
        "x": StratifiedGaussian(
            variables=["x"], weight=0.9,
            strata=[
                {"where": {"sex": at}, "mean": [0.1 * at], "covariance": [[0.2 + at]]}
                for at in (0, 1)
            ],
        )
    }  # fmt: skip
    for method in ("moments", "calibration", "simex", "posterior"):
        kept, moved = (
            sf.fit("y ~ x + I(x ** 2)", one, noise=told, method=method, draws=20).estimates
            for one in (frame, frame.sample(fraction=1, shuffle=True, seed=2))
        )
        assert kept.value == moved.value


def test_several_variables_together():
    made = released(records(), ["x", "z"])
    for method in ("moments", "calibration"):
        found = sf.fit("y ~ x + z", made, method=method).summary()
        for term, true in {"x": 1, "z": -0.5}.items():
            assert abs(found.loc[term, "mean"] - true) < 3.5 * found.loc[term, "sd"] < 0.3
    with pytest.raises(MeasureError, match="differently in each stratum") as caught:
        sf.fit("y ~ x + z", made)
    assert "moments" in caught.value.hint


def test_the_outcome():
    made = released(records(), ["y"])
    row = sf.fit("y ~ x + z", made, method="moments").summary().loc["x"]
    assert abs(row["mean"] - 1) < 3.5 * row["sd"] < 0.3
    with pytest.raises(MeasureError, match="outcome differs by stratum"):
        sf.fit("y ~ x + z", made)
    with pytest.raises(DataError, match="'y' and 'x' goes together"):
        sf.fit("y ~ x", released(records(), ["y", "x"]))


def test_what_it_refuses():
    told = StratifiedGaussian(
        variables=["x"], weight=0.9,
        strata=[{"where": {"sex": 0}, "mean": [0.0], "covariance": [[0.2]]}],
    )  # fmt: skip
    with pytest.raises(DataError, match="stratum that its description does not name"):
        sf.fit("y ~ x", records(60), noise={"x": told})
    with pytest.raises(DataError, match="differs by 'sex', which is not in the data"):
        sf.fit("y ~ x", records(60).drop("sex"), noise={"x": told})
    both = {"x": told, "sex": sf.CodeNoise(variance=0.1, levels=[0, 1])}
    with pytest.raises(DataError, match="differs by 'sex', which was changed"):
        sf.fit("y ~ x + sex", records(60), noise=both)
    girls = records(300).filter(pl.col("sex") == 0)
    with pytest.raises(MeasureError, match="no power of it"):
        sf.fit("y ~ exp(x)", girls, noise={"x": told})
    assert sf.fit("y ~ x", girls, noise={"x": told}, method="moments").records == girls.height
