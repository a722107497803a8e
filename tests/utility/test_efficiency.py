"""What `efficiency` says of noise, and why it refuses ranges."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import MeasureError


def test_ranges_are_refused_with_what_to_do_instead():
    random = np.random.default_rng(1)
    x = random.normal(size=200)
    frame = pl.DataFrame({"x": x, "y": x + random.normal(size=200)})
    schema = sf.Schema(
        {"x": sf.Column(role="quasi", kind="continuous", domain=(-5, 5)), "y": "other"}
    )
    data = sf.Dataset(frame, schema)
    ranges = sf.methods.Coarsen(variables=["x"], breaks=[-1, 0, 1]).apply(data)
    measure = sf.utility.Efficiency(formula="y ~ x")
    with pytest.raises(MeasureError, match=r"no noise can be read off.*'x'.*sf\.fit"):
        measure.measure(data, ranges)
    assert sf.utility.Coefficients(formula="y ~ x").measure(data, ranges).value > 0
    assert measure.measure(data, data).value == pytest.approx(1)
