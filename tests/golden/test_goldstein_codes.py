"""Paper 001, section 5: misclassified identifiers, and the noise on codes of Eq. 4."""

from __future__ import annotations

from math import prod

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

import sfumato as sf
from sfumato.noise.transitions import correct, released_shares

KEY = bytes(range(32))
SHARES = np.array([0.9, 0.1])
MATRIX = np.array([[0.9, 0.1], [0.0, 1.0]])
"""Each 0 becomes 1 with probability 0.1; each 1 stays."""


def test_three_binary_variables_as_printed() -> None:
    assert released_shares(SHARES, MATRIX)[1] == pytest.approx(0.19, abs=1e-15)
    all_three = released_shares(SHARES, MATRIX)[1] ** 3
    assert all_three == pytest.approx(0.006859, abs=1e-12)
    assert round(all_three, 3) == 0.007
    assert round(SHARES[1] ** 3, 3) == 0.001
    right = correct(SHARES, MATRIX)[1] ** 3
    assert right == pytest.approx(0.1**3 / 0.19**3, rel=1e-12)
    assert round(right, 2) == 0.15


def test_three_binary_variables_in_data() -> None:
    records, names = 200_000, ["a", "b", "c"]
    random = np.random.default_rng(5)
    frame = pl.DataFrame(
        {"id": np.arange(records), **{n: random.random(records) < 0.1 for n in names}}
    )
    schema = sf.Schema({"id": "direct", **dict.fromkeys(names, "quasi")})
    rows = {"false": {"false": 0.9, "true": 0.1}, "true": {"true": 1.0}}
    method = sf.methods.Misclassify(variables=names, matrix=dict.fromkeys(names, rows))
    after = method.apply(sf.Dataset(frame, schema), key=KEY).frame
    for name in names:
        assert after[name].mean() == pytest.approx(0.19, abs=0.004)
    found = after.filter(pl.all_horizontal(names))
    assert len(found) / records == pytest.approx(0.19**3, rel=0.1)
    true = frame.filter(pl.Series(after.select(pl.all_horizontal(names)).to_series()))
    right = true.select(pl.all_horizontal(names)).to_series().mean()
    assert right == pytest.approx(prod([0.1 / 0.19] * 3), abs=0.03)


def test_what_noise_on_both_predictors_does_to_a_naive_analysis() -> None:
    """Table 4, no adjustment: .974, .887 and 1.051 are printed, from 100 times 1000 records.

    What they estimate is .974, .884 and 1.044, with the noisy codes clipped to 0 and 1.
    """
    records = 200_000
    random = np.random.default_rng(4)
    x1 = random.normal(size=records)
    x2 = (0.5 * x1 + np.sqrt(0.75) * random.normal(size=records) > 0).astype(int)
    y = 1 + x1 + x2 + random.normal(size=records)
    column = sf.Column(role="quasi", kind="nominal", domain=(0, 1))
    data = sf.Dataset(
        pl.DataFrame({"id": np.arange(records), "x1": x1, "x2": x2}),
        sf.Schema({"id": "direct", "x1": "quasi", "x2": column}),
    )
    made = sf.methods.Noise(variables=["x1"], variance=0.2).apply(data, key=KEY)
    made = sf.methods.NoisyCodes(variables=["x2"], variance=0.2).apply(made, key=KEY)
    noisy = [made.column(name).to_numpy() for name in ("x1", "x2")]
    design = np.column_stack([np.ones(records), *noisy])
    found = np.linalg.lstsq(design, y, rcond=None)[0]
    np.testing.assert_allclose(found, [0.974, 0.884, 1.044], atol=0.015)
    assert np.var(y - design @ found) == pytest.approx(1.27, abs=0.02)
    beyond = norm.sf(1 / 0.2**0.5)
    assert (noisy[1][x2 == 0] == 0).mean() == pytest.approx(0.5, abs=0.006)
    assert (noisy[1][x2 == 0] == 1).mean() == pytest.approx(beyond, abs=0.002)
