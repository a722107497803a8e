"""Does a fit to rounded numbers cover the truth as often as one to numbers with all digits?"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sfumato as sf

SLOPE = 0.25


def cover(seed: int, digits: int | None, share: float, **options) -> tuple[float, bool]:
    """How far off a slope is, in its standard errors, and whether its interval covers the truth."""
    random = np.random.default_rng(seed)
    x = random.normal(50, 12, 600).round(0)
    y = 1 + SLOPE * x + random.normal(0, 5, 600)
    roles = {
        "x": sf.Column(role="quasi", kind="continuous", digits=digits),
        "y": sf.Column(role="other", kind="continuous"),
    }
    step = sf.methods.Noise(variables=["x"], variance_share=share)
    plan = sf.Plan(schema=sf.Schema(roles), steps=[step])
    key = np.random.default_rng(seed + 10**6).bytes(32)
    data = sf.Dataset(pl.DataFrame({"x": x, "y": y}), plan.schema)
    release = sf.protect(data, plan, key=key)
    assert release.manifest["noise"]["variables"]["x"].get("step", 0.0) == float(digits is None)
    row = sf.fit("y ~ x", release, **options).summary().loc["x"]
    return (row["mean"] - SLOPE) / row["sd"], bool(row["low"] <= SLOPE <= row["high"])


@pytest.mark.parametrize(
    ("releases", "least", "options"),
    [
        (20, 0.8, {"method": "moments"}),
        pytest.param(300, 0.93, {}, marks=pytest.mark.study),
    ],
    ids=["few", "many"],
)
@pytest.mark.parametrize("share", [0.01, 0.2])
def test_rounded_releases_are_covered_as_often(share, releases, least, options):
    for digits in (None, 15):
        found = [cover(seed, digits, share, **options) for seed in range(releases)]
        assert abs(np.mean([error for error, _ in found])) < 0.4
        assert np.mean([covers for _, covers in found]) >= least
