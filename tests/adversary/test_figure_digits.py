"""Claim: "A figure's table has no more digits than the figure shows."

The adversary knows that ages are whole years and that a centre is the mean of three of them.
"""

from __future__ import annotations

import json
import re

import numpy as np
import polars as pl
import pytest

import sfumato as sf


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    chance = np.random.default_rng(5)
    age = chance.integers(20, 80, 400)
    return pl.DataFrame({"age": age, "bmi": 18 + age / 9 + chance.normal(0, 3, 400)})


@pytest.mark.parametrize("protection", ["deterministic", "noise"])
@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e9])
def test_a_scatter_exports_few_digits(frame, tmp_path, protection, scale):
    data = frame.with_columns(pl.col("age", "bmi") * scale)
    plot = sf.plots.scatter(data, "age", "bmi", protection=protection)
    for suffix in ("csv", "json"):
        path = plot.export(tmp_path / f"points.{suffix}")
        numbers = re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", path.read_text())
        digits = [len(text.split("e")[0].replace(".", "").strip("-0")) for text in numbers]
        assert max(digits) <= 6
    # Rounding is not seen: it is less than a pixel of a thousand.
    x = plot.table["x"].to_numpy()
    assert len(np.unique(x)) > 100
    assert json.loads(path.read_text())


def test_means_of_three_are_no_longer_read_off(frame):
    """To thirteen digits every shown x is a third of a whole number, and the sum of three ages."""
    x = sf.plots.scatter(frame, "age", "bmi", protection="deterministic").table["x"].to_numpy()
    thirds = np.abs(x * 3 - np.round(x * 3)) < 1e-9
    assert thirds.mean() < 0.5
